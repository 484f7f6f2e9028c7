"""Checkpoints after their run: inspect, eval, export, and what damaged ones say. With "onnx": ONNX
files in onnxruntime, which needs a Python with onnx, onnxruntime and numpy: PSR_PYTHON, or python3;
skipped without.

usage: test_stored.py PSRING [onnx]"""

import json
import os
import random
import re
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace

DATA = "synthetic:count=96,test=48,channels=3,size=32,classes=7"
OPTIONS = {"mode": "ring", "workers": 2, "batch-size": 8, "lr": 0.05, "steps": 6, "threads": 1}
python = os.environ.get("PSR_PYTHON", "python3")

# The model takes pixels, as the data set's files have them.
JUDGE = """
import json, sys
import numpy, onnx, onnxruntime
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
count, channels, size = map(int, sys.argv[3:6])
raw = numpy.fromfile(sys.argv[2], dtype=numpy.uint8)
images = (raw[:count * channels * size * size].reshape(count, channels, size, size) / numpy.float32(255)).astype(numpy.float32)
labels = raw[count * channels * size * size:]
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
logits = session.run(None, {"image": images})[0].astype(numpy.float64)
top = logits.max(axis=1, keepdims=True)
losses = numpy.log(numpy.exp(logits - top).sum(axis=1)) + top[:, 0] - logits[numpy.arange(count), labels]
print(json.dumps({"accuracy": float((logits.argmax(axis=1) == labels).mean()), "loss": float(losses.mean()),
                  "metadata": {entry.key: entry.value for entry in model.metadata_props}}))
"""


def command(*words):
    done = subprocess.run(list(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


def evaluated(psring, *words):
    """(accuracy in per cent, loss) of the line that others parse; both None where there is none."""
    status, told, why = command(psring, "eval", *words)
    found = re.search(r"^Test set: Average loss: ([\d.]+), Accuracy: ([\d.]+)%$", told, re.M)
    return (float(found.group(2)), float(found.group(1))) if found and status == 0 else (None, why)


def idx(path, count, channels, size):
    """A folder of IDX files of random pixels, and the test split's bytes beside it."""
    made = random.Random(7)
    os.mkdir(path)
    for split, samples in (("train", 96), ("t10k", count)):
        images = made.randbytes(samples * size * size)
        labels = bytes(made.randrange(7) for _ in range(samples))
        with open(os.path.join(path, split + "-images-idx3-ubyte"), "wb") as file:
            file.write(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (samples, size, size)) + images)
        with open(os.path.join(path, split + "-labels-idx1-ubyte"), "wb") as file:
            file.write(b"\0\0\x08\x01" + samples.to_bytes(4, "big") + labels)
    with open(path + ".raw", "wb") as file:
        file.write(images + labels)
    return path


def cifar(path, count):
    """A folder in the form of CIFAR-10."""
    made = random.Random(9)
    os.mkdir(path)
    pictures = [made.randbytes(3072) for _ in range(count)]
    labels = [made.randrange(10) for _ in range(count)]
    batch = b"".join(bytes([label]) + picture for label, picture in zip(labels, pictures))
    for name in ["data_batch_%d.bin" % n for n in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(path, name), "wb") as file:
            file.write(batch)
    with open(path + ".raw", "wb") as file:
        file.write(b"".join(pictures) + bytes(labels))
    return path


def judge(tap, psring, directory):
    grey, colour = idx(os.path.join(directory, "grey"), 48, 1, 28), cifar(os.path.join(directory, "colour"), 10000)
    for model, data, count, channels, size, more in (
            ("mlp", grey, 48, 1, 28, {}), ("convnet", grey, 48, 1, 28, {}), ("resnet20", colour, 10000, 3, 32, {}),
            ("resnet20", colour, 10000, 3, 32, {"shortcut": "b"}), ("resnet18", colour, 10000, 3, 32, {}),
            ("resnet20", colour, 10000, 3, 32, {"se": "4"}), ("resnet9", colour, 10000, 3, 32, {}),
            ("airbench94", colour, 10000, 3, 32, {})):
        name = "-".join([model, *more.values()])
        run = Run(psring, directory, name, dict(OPTIONS, model=model, data=data, **{"no-eval": True, **more}))
        file = os.path.join(directory, name + ".onnx")
        status, _, why = command(psring, "export", run.out, "--to", "onnx", "-o", file)
        wanted = evaluated(psring, run.out)
        done = command(python, "-c", JUDGE, file, data + ".raw", str(count), str(channels), str(size))
        told = json.loads(done[1]) if done[0] == 0 else {}
        tap.ok(status == 0 and told and abs(100 * told["accuracy"] - wanted[0]) <= 100.0 / count and abs(told["loss"] - wanted[1]) < 2e-4,
               "%s: onnxruntime comes to psring's accuracy and loss" % name, [why, str(wanted), str(told)[:300], done[2][-800:]] + run.why())
        tap.ok(told.get("metadata", {}).get("model") == model, "%s: with the metadata of its run" % name)


def damaged(tap, psring, directory, file):
    """One line and status 2 for each."""
    with open(file, "rb") as read:
        good = read.read()
    flipped = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
    bad = {"flipped": flipped, "cut": good[:-9], "empty": b"", "stranger": b"not safetensors at all"}
    for name, text in bad.items():
        path = os.path.join(directory, name + ".safetensors")
        with open(path, "wb") as write:
            write.write(text)
        out = os.path.join(directory, "of-" + name)
        for words in (["inspect", path], ["eval", path], ["export", path, "--to", "safetensors", "-o", out]):
            status, told, why = command(psring, *words)
            tap.ok(status == 2 and why.count("\n") == 1 and name + ".safetensors" in why and told == "" and not os.path.exists(out),
                   "%s: a checkpoint that is %s is refused in a line" % (words[0], name), [str(status), told, why])
    status, _, why = command(psring, "eval", directory)
    tap.ok(status == 2 and "is no checkpoint; give a run's directory" in why and why.count("\n") == 1, "a folder that is no run is refused", [why])


def stored(tap, psring, directory):
    run = Run(psring, directory, "run", dict(OPTIONS, model="resnet20", data=DATA))
    file = os.path.join(run.out, "checkpoints", "step-6", "model.safetensors")
    accuracy, loss = evaluated(psring, run.out)
    outcome = run.outcome()
    tap.ok(accuracy == round(100 * outcome["test_accuracy"], 2) and abs(loss - outcome["test_loss"]) < 1e-4, "eval comes to the run's own evaluation",
           [str((accuracy, loss)), str(outcome)] + run.why())
    status, told, why = command(psring, "inspect", run.out)
    tap.ok(status == 0 and re.search(r"^  command +psring train ", told, re.M) and re.search(r"^  mean +0\.", told, re.M) and
           re.search(r"^layer1\.0\.conv1\.weight +F32\[16,16,3,3\] +[\d.]+ [0-9a-f]{16}$", told, re.M) and
           all(len(line) <= 80 for line in told.splitlines() if "/" not in line), "inspect shows metadata and tensors in 80 columns", [told, why])
    other = Run(psring, directory, "other", {"config": run.out, "mode": "local"})
    status, told, _ = command(psring, "inspect", run.out, other.out)
    tap.ok(status == 0 and "the same to the last bit" in told, "ring and local have equal checkpoints", [told] + other.why())
    third = Run(psring, directory, "third", {"config": run.out, "seed": 8})
    status, told, _ = command(psring, "inspect", run.out, third.out)
    tap.ok(status == 1 and re.search(r"^fc\.weight +448 of 448 values, by [\d.e-]+ at most$", told, re.M), "another seed has others", [told])
    copy = os.path.join(directory, "copy.safetensors")
    status, told, why = command(psring, "export", run.out, "--to", "safetensors", "-o", copy)
    status, told, why = command(psring, "inspect", file, copy)
    tap.ok(status == 0 and evaluated(psring, copy) == (accuracy, loss), "an exported file is the same, and evaluates to the same", [told, why])
    status, _, why = command(psring, "eval", run.out, "--data", "synthetic:count=9,test=9,channels=1,size=32")
    tap.ok(status == 2 and "give --data that fits" in why, "data of another shape are refused", [why])
    damaged(tap, psring, directory, file)


def main(psring, part="stored"):
    if part == "onnx" and subprocess.run([python, "-c", "import numpy, onnx, onnxruntime"], capture_output=True).returncode != 0:
        print("skipped: %s has no numpy, onnx and onnxruntime; PSR_PYTHON names another Python" % python)
        sys.exit(77)
    tap = Tap()
    with Workspace() as directory:
        (judge if part == "onnx" else stored)(tap, psring, directory)
    tap.end()


main(*sys.argv[1:])
