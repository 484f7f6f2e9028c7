#!/usr/bin/env python3
"""Writes the golden files: what PyTorch makes of psring's initial weights and one repeated batch.

    make_golden.py EXPORT_WEIGHTS [CASE ..] writes CASE.txt beside this script, for each case (default: all)

EXPORT_WEIGHTS is the program of that name from the build's tests/golden; the weights pass through a safetensors
checkpoint of its. Needs torch, torchvision and numpy. PyTorch runs in float64, which is the truth, and in
float32, whose distance from it is what psring's is measured by. That distance is a matter of luck in a single run: one
ReLU whose input lies within a rounding of zero changes the gradient of all layers below it by a thousandth. So a
case has several seeds, each with weights and a batch of its own, and what counts is the root mean square over
them, PyTorch's and psring's. (Large networks have so many such ReLUs that few seeds do.)

A file holds the case (model and its input, batch, lr, momentum, weight decay), and for each seed
    hash of the weights, CRC-32 of the images;
    loss STEP FLOAT64 FLOAT32, for 10 steps of SGD;
    tensor NAME NORM ERROR P0 .. P15, of the first step's gradient: the norm of the float64 one, the norm of
        the float32 one's error, and 16 scalar products of the float64 one with vectors of +-1.
For an error e and a vector s of random signs the mean of (s . e)^2 is |e|^2: the products of psring's gradient,
less those in the file, give the norm of its error (to 18%, for one seed) without the gradient having to be stored.
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

import models
import philox

STEPS, PROJECTIONS = 10, 16
IMAGES, LABELS, SIGNS = 1, 2, 3  # layers of the stream of test numbers

# The learning rates let the loss fall by a tenth or more and are far from where a network amplifies rounding
# from step to step: for ResNet-50 at its default initialisation that is low.
#       name          model      classes channels size batch lr weight decay, seeds
CASES = {
    "mlp": ("mlp", 10, 1, 28, 32, 0.02, 1e-2, 8),
    "convnet": ("convnet", 10, 1, 28, 32, 0.1, 1e-2, 8),
    "resnet20-32": ("resnet20", 10, 3, 32, 64, 1e-3, 1e-2, 4),
    "resnet18-32": ("resnet18", 10, 3, 32, 16, 1e-5, 1e-4, 4),
    "resnet50-32": ("resnet50", 10, 3, 32, 32, 3e-8, 1e-4, 8),
    "resnet18-224": ("resnet18", 1000, 3, 224, 4, 1e-4, 1e-4, 3),
    "resnet50-224": ("resnet50", 1000, 3, 224, 4, 1e-6, 1e-4, 1),
}
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


def train(model, weights, images, labels, lr, weight_decay, dtype):
    """Losses of all steps and the gradients of the first."""
    model.load_state_dict(weights, strict=True)
    model = model.to(dtype).train()
    images = images.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM, weight_decay=weight_decay)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {name: p.grad.double().flatten().clone() for name, p in model.named_parameters()}
        optimizer.step()
    return losses, gradients


def projections(seed, index, gradient):
    """Scalar products with PROJECTIONS vectors of signs: element i takes its signs from the bits of word i."""
    words = philox.words(seed, philox.TEST, 0, index, SIGNS, len(gradient))
    values = gradient.numpy()
    # Twice the sum of the elements whose bit is set, less the sum of all.
    return [2 * values[(words >> np.uint32(k)) & 1 == 1].sum() - values.sum() for k in range(PROJECTIONS)]


def run_seed(program, case, seed):
    """The lines of one seed, and a word on its losses."""
    model, classes, channels, size, batch, lr, weight_decay, _ = case
    weights, weights_hash = initial_weights(program, model, classes, channels, size, seed)
    images, labels = batch_of(classes, channels, size, batch, seed)
    (losses64, truth), (losses32, single) = (
        train(models.build(model, classes, channels, size), weights, images, labels, lr, weight_decay, dtype)
        for dtype in (torch.float64, torch.float32))
    lines = [f"seed {seed}", f"weights-hash {weights_hash}",
             f"images-crc32 {zlib.crc32(images.numpy().tobytes()):08x}"]
    lines += [f"loss {step} {a:.17g} {b:.17g}" for step, (a, b) in enumerate(zip(losses64, losses32), 1)]
    for index, (tensor, gradient) in enumerate(truth.items()):
        error = (single[tensor] - gradient).norm().item()
        lines.append(f"tensor {tensor} {gradient.norm().item():.9g} {error:.6g} " +
                     " ".join(f"{p:.10g}" for p in projections(seed, index, gradient)))
    fall = 100 * (1 - losses64[-1] / losses64[0])
    return lines, f"{fall:.0f}% lower, off by {np.linalg.norm(np.subtract(losses32, losses64)):.2g}"


def make(program, name):
    case = CASES[name]
    model, classes, channels, size, batch, lr, weight_decay, seeds = case
    lines = [f"# made by make_golden.py with torch {torch.__version__}, numpy {np.__version__}",
             f"model {model}", f"classes {classes}", f"channels {channels}", f"size {size}", f"batch {batch}",
             f"lr {lr}", f"momentum {MOMENTUM}", f"weight-decay {weight_decay}"]
    words = []
    for seed in range(1, seeds + 1):
        seed_lines, word = run_seed(program, case, seed)
        lines += seed_lines
        words.append(word)
    path = pathlib.Path(__file__).parent / f"{name}.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{name}: {path.stat().st_size} bytes; loss " + "; ".join(words), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for case in sys.argv[2:] or CASES:
        make(sys.argv[1], case)
