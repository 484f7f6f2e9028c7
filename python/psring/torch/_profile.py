"""How long the passes of a model take, tensor by tensor: a profile, for psring to play and predict
with."""

import copy
import json
import os
import platform
import statistics
import tempfile
import time
import typing

import torch

from .._errors import usage

NAME_MAX = 63  # bytes of a tensor's name in a profile
TEXT_MAX = {"network": 31, "machine": 255}


def _order(model, used):
    """Parameters that are trained, as (name, parameter, module), in the order in which a forward
    pass first uses their modules. One whose module has no forward pass of its own stays behind the
    one that stands before it in the model."""
    modules = {name: module for name, module in model.named_modules()}
    named = [(name, p, modules[name.rpartition(".")[0]]) for name, p in model.named_parameters() if p.requires_grad]
    first, last = {module: i for i, module in reversed(list(enumerate(used)))}, 0
    keys = []
    for index, (_, _, module) in enumerate(named):
        last = first.get(module, last)
        keys.append((last, index))
    return [named[index] for _, index in sorted(keys)]


class _Pass:
    """The times of one step: when modules with parameters begin, and when gradients are there."""

    def __init__(self, model):
        self._model = model
        self.begun, self.ready = [], []  # (seconds, module), (seconds, parameter)
        self._hooks = []
        for module in model.modules():
            if any(p.requires_grad for p in module._parameters.values() if p is not None):
                self._hooks.append(module.register_forward_pre_hook(lambda m, _: self.begun.append((time.perf_counter(), m))))
        for p in model.parameters():
            if p.requires_grad:
                self._hooks.append(p.register_post_accumulate_grad_hook(lambda p: self.ready.append((time.perf_counter(), p))))

    def run(self, compute):
        self.begun.clear()
        self.ready.clear()
        self._model.zero_grad()
        start = time.perf_counter()
        loss = compute()
        computed = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        if not self.begun or not self.ready:
            raise usage("the loss depends on no parameter that is trained")
        forward, backward = {}, {}
        for (_, module), since, until in zip(self.begun, [start] + [s for s, _ in self.begun[1:]], [s for s, _ in self.begun[1:]] + [computed]):
            forward[module] = forward.get(module, 0) + until - since
        for (until, p), since in zip(self.ready, [computed] + [s for s, _ in self.ready]):
            backward[p] = backward.get(p, 0) + until - since
        return forward, backward, end - self.ready[-1][0]

    def remove(self):
        for hook in self._hooks:
            hook.remove()


def _loss_of(model, batch):
    """What is computed if the caller has not said: cross entropy of (inputs, labels), else the
    output's mean."""
    if isinstance(batch, torch.Tensor):
        return lambda: model(batch).float().mean()
    inputs, labels = batch
    return lambda: torch.nn.functional.cross_entropy(model(inputs), labels)


def _measure(model, compute, steps):
    passes = _Pass(model)
    try:
        passes.run(compute)  # it makes what later ones have
        measured = [passes.run(compute) for _ in range(steps)]
        return measured, [module for _, module in passes.begun]
    finally:
        passes.remove()


def _tensors(model, measured, used):
    """A layer's times are at the first of its tensors."""
    named, seen, tensors = _order(model, used), set(), []
    for name, p, module in named:
        if len(name.encode()) > NAME_MAX:
            raise usage("the parameter's name %s is longer than %d bytes" % (name, NAME_MAX))
        times = (0.0, 0.0)
        if module not in seen:
            seen.add(module)
            of_layer = [q for _, q, m in named if m is module]
            times = (statistics.median(forward.get(module, 0.0) for forward, _, _ in measured),
                     statistics.median(sum(backward.get(q, 0.0) for q in of_layer) for _, backward, _ in measured))
        tensors.append({"name": name, "bytes": 4 * p.numel(), "forward_s": times[0], "backward_s": times[1]})
    return tensors


def _write(path, profile):
    folder, name = os.path.split(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=name, delete=False) as file:
        json.dump(profile, file, indent=1)
    os.chmod(file.name, 0o644)
    os.rename(file.name, path)


def profile(model: torch.nn.Module, batch, path: str = "profile.json", *,
            loss: "typing.Callable[[torch.nn.Module, typing.Any], torch.Tensor] | None" = None, steps: int = 20,
            name: "str | None" = None) -> dict:
    """Measures how long the model's forward and backward passes take, tensor by tensor, writes it
    as a profile, and returns what it wrote. `psring bench train --model profile --backend
    played:PATH` plays it, `psring predict --model profile --profile PATH` predicts with it: ring or
    parameter servers, and how many shards. One process calls it, with nothing else on the machine.

    batch  (inputs, labels), or the inputs alone; the first dimension counts samples
    path   the file
    loss   a function of (model, batch) that gives the loss. Left out: the cross entropy of (inputs,
           labels), or the mean of the model's output
    steps  so many are measured, after one that is not; each time is the median
    name   of the network, for a person; the class of the model if left out

    The model stays as it was: its gradients, its running statistics and the state of random
    numbers.
    """
    inputs = batch if isinstance(batch, torch.Tensor) else batch[0] if isinstance(batch, (tuple, list)) else None
    if not isinstance(inputs, torch.Tensor) or inputs.dim() == 0:
        raise usage("batch is (inputs, labels) or inputs, tensors whose first dimension counts samples")
    if steps < 1:
        raise usage("steps is at least 1")
    gradients = [p.grad for p in model.parameters()]
    buffers = copy.deepcopy([b.detach() for b in model.buffers()])
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            measured, used = _measure(model, _loss_of(model, batch) if loss is None else lambda: loss(model, batch), steps)
    finally:
        with torch.no_grad():
            for b, before in zip(model.buffers(), buffers):
                b.copy_(before)
        for p, before in zip(model.parameters(), gradients):
            p.grad = before
    texts = {"network": name or type(model).__name__, "machine": "PyTorch %s %s on %s" % (
        torch.__version__, torch.backends.cpu.get_cpu_capability().lower(), platform.node())}
    made = {"format": "psring profile 1", **{key: text.encode()[:TEXT_MAX[key]].decode(errors="ignore") for key, text in texts.items()},
            "batch": inputs.shape[0], "threads": torch.get_num_threads(), "rest_s": statistics.median(rest for _, _, rest in measured),
            "tensors": _tensors(model, measured, used)}
    _write(path, made)
    return made
