#!/usr/bin/env python3
"""psring train --freeze beside PyTorch with requires_grad=False, from torchvision's ResNet-18: what
is frozen keeps its bits in both, and the rest comes to the same weights and statistics. Skipped
(77) where the interpreter, PSR_PYTHON or python3, has no torch, torchvision and safetensors.

usage: test_freeze_peer.py PSRING [all]"""

import os
import random
import sys

PYTHON = os.environ.get("PSR_PYTHON")
if PYTHON and PYTHON != sys.executable:
    os.execv(PYTHON, [PYTHON] + sys.argv)
try:
    import numpy
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
    from torchvision.models import resnet18
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

from psring_run import Run, Tap, Workspace

BATCH, STEPS, SAMPLES = 16, 2, 10000
OPTIONS = {"model": "resnet18", "mode": "local", "workers": 1, "threads": 1, "batch-size": BATCH, "steps": STEPS, "lr": 0.02,
           "momentum": 0.9, "weight-decay": 0.001, "augment": "none", "no-shuffle": True, "no-eval": True}
CASES = {"stages": ("conv1,bn1,layer1,layer2.0", False), "held": ("conv1,bn1,layer1,layer2", True), "fc": ("all-but:fc", True),
         "middle": ("layer2,layer3.0.bn1", False), "norms": ("*bn*,*downsample.1*", True)}
FEW = ("middle", "norms")  # all of them in the suite slow


def frozen(name, freeze):
    if freeze.startswith("all-but:"):
        return not frozen(name, freeze[8:])
    return any(name == p or name.startswith(p + ".") or ("bn" in name or "downsample.1" in name) and p[0] == "*" for p in freeze.split(","))


def write_data(path):
    made = random.Random(3)
    os.mkdir(path)
    records = b"".join(bytes([made.randrange(10)]) + made.randbytes(3072) for _ in range(SAMPLES))
    for name in ["data_batch_%d.bin" % n for n in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(path, name), "wb") as file:
            file.write(records)
    raw = numpy.frombuffer(records, dtype=numpy.uint8).reshape(SAMPLES, 3073)
    return raw[:, 1:].reshape(SAMPLES, 3, 32, 32), raw[:, 0].astype(numpy.int64)


def train(given, freeze, hold, images, labels):
    """PyTorch's weights after the steps."""
    model = resnet18(num_classes=10)
    model.load_state_dict(load_file(given))
    model.train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not frozen(name, freeze)
    for name, module in model.named_modules():
        if hold and isinstance(module, torch.nn.BatchNorm2d) and frozen(name + ".weight", freeze):
            module.eval()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=OPTIONS["lr"], momentum=OPTIONS["momentum"],
                                weight_decay=OPTIONS["weight-decay"])
    for step in range(STEPS):
        some = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[some]), labels[some]).backward()
        optimizer.step()
    return model.state_dict()


def apart(a, b):
    return float((a - b).norm() / b.norm().clamp(min=1e-12))


def main():
    tap = Tap()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    with Workspace() as directory:
        pixels, labels = write_data(os.path.join(directory, "data"))
        given = os.path.join(directory, "given.safetensors")
        start = resnet18(num_classes=10).state_dict()
        for name in start:  # as of a network that was trained: statistics of its own
            if name.endswith("running_mean"):
                start[name] = torch.randn_like(start[name]) / 10
            elif name.endswith("running_var"):
                start[name] = torch.rand_like(start[name]) + 0.5
        save_file(start, given)
        for case in CASES if sys.argv[2:] == ["all"] else FEW:
            freeze, hold = CASES[case]
            options = dict(OPTIONS, data=os.path.join(directory, "data"), init=given, freeze=freeze, **({"freeze-bn": True} if hold else {}))
            run = Run(sys.argv[1], directory, case, options)
            if not tap.ok(run.status == 0, case + " ends with status 0", run.why()):
                continue
            file = os.path.join(run.out, "checkpoints", "step-%d" % STEPS, "model.safetensors")
            ours = load_file(file)
            with safe_open(file, "pt") as opened:
                told = opened.metadata()
            mean, deviation = (torch.tensor([float(v) for v in told[key].split(",")]).reshape(3, 1, 1) for key in ("mean", "std"))
            images = (torch.from_numpy(pixels[:BATCH * STEPS].copy()) / 255 - mean) / deviation
            theirs = train(given, freeze, hold, images, torch.from_numpy(labels))
            weights = [name for name in ours if "running" not in name and "num_batches" not in name]
            still = [name for name in weights if frozen(name, freeze)]
            tap.ok(0 < len(still) < len(weights) and all(torch.equal(ours[n], start[n]) and torch.equal(theirs[n], start[n]) for n in still),
                   case + ": %d frozen tensors keep their bits in both" % len(still))
            moved = {name: apart(ours[name], theirs[name]) / max(apart(theirs[name], start[name]), 1e-3) for name in weights if name not in still}
            tap.ok(max(moved.values()) < 0.05, case + ": what is trained has moved as PyTorch's", [str(sorted(moved.items(), key=lambda m: -m[1])[:4])])
            statistics = {name: apart(ours[name], theirs[name]) for name in ours if "running" in name}
            stays = [name for name in statistics if torch.equal(ours[name], start[name])]
            held = [name for name in statistics if hold and frozen(name.rsplit(".", 1)[0] + ".weight", freeze)]
            tap.ok(max(statistics.values()) < 0.01 and sorted(stays) == sorted(held), case + ": statistics are PyTorch's, and those of held norms stay",
                   [str(sorted(statistics.items(), key=lambda s: -s[1])[:4]), str(sorted(set(stays) ^ set(held))[:4])])
    return tap.end()


sys.exit(main())
