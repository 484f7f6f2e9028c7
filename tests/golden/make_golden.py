#!/usr/bin/env python3
"""Writes the golden files: what PyTorch makes of psring's initial weights and one repeated batch.

    make_golden.py EXPORT_WEIGHTS [CASE ..] writes CASE.txt beside this script, for each case
        (default: all)

EXPORT_WEIGHTS is the program of that name from the build's tests/golden; the weights pass through a
safetensors checkpoint of its. Needs torch, torchvision and numpy. PyTorch runs in float64, which is
the truth, and in float32, whose distance from it is what psring's is measured by.

A gradient jumps where a ReLU's input is zero or two inputs of a max pool are equal: a single one
within a rounding of that changes the gradients of all tensors above it (nearer the input) by a
thousandth, a thousand times what rounding does elsewhere, and on which side it falls is luck. So a
tensor is said to be settled if everything between it and the loss stays clear of such places, by
MARGIN times the largest error that PyTorch's float32 has there; a step, if all its tensors are. For
small networks and batches, seeds are searched for on which the first steps are settled, all ten
where there are such seeds. (test_golden.c says how what is settled and what is not are compared.)

A file holds the case (model and its input, batch, lr, momentum, weight decay, settled steps), and
for each seed
    hash of the weights, CRC-32 of the images;
    loss STEP FLOAT64 FLOAT32, for 10 steps of SGD;
    tensor NAME SETTLED NORM ERROR P0 .. P15, of the first step's gradient: whether it is settled
        (1) or not (0), the norm of the float64 one, the norm of the float32 one's error, and 16
        scalar products of the float64 one with vectors of +-1.
For an error e and a vector s of random signs the mean of (s . e)^2 is |e|^2: the products of
psring's gradient, less those in the file, give the norm of its error (to 18%, for one seed) without
the gradient having to be stored.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import models
import philox

STEPS, PROJECTIONS = 10, 16
IMAGES, LABELS, SIGNS = 1, 2, 3  # layers of the stream of test numbers

# The learning rates let the loss fall by a tenth or more and are far from where a network amplifies
# rounding from step to step: for ResNet-50 at its default initialisation that is low. Seeds are
# searched for on which so many first steps are settled.
#       name          model      classes channels size batch lr weight decay, seeds, settled steps
CASES = {
    "mlp": ("mlp", 10, 1, 28, 32, 0.02, 1e-2, 8, 10),
    "convnet": ("convnet", 10, 1, 28, 32, 0.1, 1e-2, 8, 10),
    "resnet20-32": ("resnet20", 10, 3, 32, 2, 1e-3, 1e-2, 8, 1),
    "resnet18-32": ("resnet18", 10, 3, 32, 8, 1e-5, 1e-4, 5, 1),
    "resnet50-32": ("resnet50", 10, 3, 32, 32, 3e-8, 1e-4, 8, 0),
    "resnet18-224": ("resnet18", 1000, 3, 224, 4, 1e-4, 1e-4, 6, 0),
    "resnet50-224": ("resnet50", 1000, 3, 224, 4, 1e-6, 1e-4, 4, 0),
}
MARGIN = 2
MOMENTUM = 0.9


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        dtype = {"F32": np.float32, "I64": np.int64}[entry["dtype"]]
        array = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def initial_weights(program, model, classes, channels, size, seed):
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/model.safetensors"
        arguments = [program, model, str(classes), str(channels), str(size), str(seed), path]
        weights_hash = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.strip()
        return read_safetensors(path), weights_hash


def batch_of(classes, channels, size, batch, seed):
    """Uniform pixels of mean 0 and variance 1, random labels."""
    count = channels * size * size
    words = [philox.words(seed, philox.TEST, 0, n, IMAGES, count) for n in range(batch)]
    pixels = (philox.unit(np.stack(words)) - np.float32(0.5)) * np.float32(12 ** 0.5)
    labels = [int(philox.words(seed, philox.TEST, 0, n, LABELS, 1)[0]) % classes for n in range(batch)]
    return torch.from_numpy(pixels.reshape(batch, channels, size, size)), torch.tensor(labels)


class Kinks(TorchFunctionMode):
    """What ReLUs and max pools read in a forward pass, in order, and how many of them came before
    each module."""

    def __init__(self, model):
        super().__init__()
        self.inputs, self.before, self.hooks = [], {}, []
        for name, module in model.named_modules():
            if any(True for _ in module.parameters(recurse=False)):
                self.hooks.append(module.register_forward_pre_hook(lambda _m, _x, name=name: self.note(name)))

    def note(self, name):
        self.before[name] = len(self.inputs)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        kind = getattr(func, "__name__", "")
        if kind in ("relu", "max_pool2d"):
            window = (args[1], kwargs["stride"] or args[1], kwargs["padding"]) if kind == "max_pool2d" else None
            self.inputs.append((args[0].detach().double().clone(), window))
        return func(*args, **kwargs)

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*error)


def is_settled(truth, single, window):
    """Whether no result of up to MARGIN times float32's error would go over to the other side."""
    error = MARGIN * (truth - single).abs().max()
    if window is None:
        return bool(truth.abs().min() > error)
    size, stride, padding = window
    padded = F.pad(truth, (padding,) * 4, value=-np.inf)
    largest = padded.unfold(2, size, stride).unfold(3, size, stride).flatten(-2).topk(2).values
    # A maximum of zero or less passes no gradient: a ReLU comes before the pool or after it.
    return bool(((largest[..., 0] - largest[..., 1] > 2 * error) | (largest[..., 0] <= 0)).all())


def unsettled_until(truth, single):
    """How many ReLUs and max pools it takes from the input to pass the last one that is not
    settled."""
    settled = [is_settled(x, y, window) for (x, window), (y, _) in zip(truth.inputs, single.inputs)]
    return max((i + 1 for i, ok in enumerate(settled) if not ok), default=0)


class Training:
    """A network with its optimizer, one step at a time."""

    def __init__(self, case, weights, dtype):
        name, classes, channels, size, _, lr, weight_decay, _, _ = case
        self.dtype, self.model = dtype, models.build(name, classes, channels, size)
        self.model.load_state_dict(weights, strict=True)
        self.model, self.loss = self.model.to(dtype).train(), None
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=MOMENTUM, weight_decay=weight_decay)

    def forward(self, images, labels):
        """The loss and the kinks."""
        with Kinks(self.model) as kinks:
            self.loss = F.cross_entropy(self.model(images.to(self.dtype)), labels)
        return self.loss.item(), kinks

    def backward(self):
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()

    def gradients(self):
        return {name: p.grad.double().flatten().clone() for name, p in self.model.named_parameters()}


def projections(seed, index, gradient):
    """Scalar products with PROJECTIONS vectors of signs: element i takes its signs from the bits of
    word i."""
    words = philox.words(seed, philox.TEST, 0, index, SIGNS, len(gradient))
    values = gradient.numpy()
    # Twice the sum of the elements whose bit is set, less the sum of all.
    return [2 * values[(words >> np.uint32(k)) & 1 == 1].sum() - values.sum() for k in range(PROJECTIONS)]


def run_seed(program, case, seed):
    """The lines of one seed, and a word on its losses; None when too few of its steps are
    settled."""
    model, classes, channels, size, batch, _, _, _, settled_steps = case
    weights, weights_hash = initial_weights(program, model, classes, channels, size, seed)
    images, labels = batch_of(classes, channels, size, batch, seed)
    truth, single = Training(case, weights, torch.float64), Training(case, weights, torch.float32)
    losses, tensors = [], []
    for step in range(STEPS):
        (loss64, kinks64), (loss32, kinks32) = truth.forward(images, labels), single.forward(images, labels)
        losses.append((loss64, loss32))
        unsettled = unsettled_until(kinks64, kinks32)
        if step < settled_steps and unsettled > 0:
            return None
        truth.backward()
        single.backward()
        if step > 0:
            continue
        gradients32 = single.gradients()
        for index, (name, gradient) in enumerate(truth.gradients().items()):
            settled = kinks64.before[name.rpartition(".")[0]] >= unsettled
            error = (gradients32[name] - gradient).norm().item()
            tensors.append(f"tensor {name} {settled:d} {gradient.norm().item():.9g} {error:.6g} " +
                           " ".join(f"{p:.10g}" for p in projections(seed, index, gradient)))
    lines = [f"seed {seed}", f"weights-hash {weights_hash}",
             f"images-crc32 {zlib.crc32(images.numpy().tobytes()):08x}"]
    lines += [f"loss {step} {a:.17g} {b:.17g}" for step, (a, b) in enumerate(losses, 1)]
    fall = 100 * (1 - losses[-1][0] / losses[0][0])
    return lines + tensors, f"{fall:.0f}% lower, off by {np.linalg.norm([b - a for a, b in losses]):.2g}"


def make(program, name):
    case = CASES[name]
    model, classes, channels, size, batch, lr, weight_decay, seeds, settled_steps = case
    lines = [f"# made by make_golden.py with torch {torch.__version__}, numpy {np.__version__}",
             f"model {model}", f"classes {classes}", f"channels {channels}", f"size {size}", f"batch {batch}",
             f"lr {lr}", f"momentum {MOMENTUM}", f"weight-decay {weight_decay}", f"settled-steps {settled_steps}"]
    words, seed = [], 0
    while len(words) < seeds:
        seed += 1
        found = run_seed(program, case, seed)
        if found is not None:
            lines += found[0]
            words.append(found[1])
            print(f"{name}, seed {seed}: {found[1]}", flush=True)
    path = pathlib.Path(__file__).parent / f"{name}.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{name}: {path.stat().st_size} bytes, {seed} seeds tried", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for case in sys.argv[2:] or CASES:
        make(sys.argv[1], case)
