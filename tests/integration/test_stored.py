"""Checkpoints after their run: inspect, eval, export, and what damaged ones say. With "onnx": ONNX
files in onnxruntime, which needs a Python with onnx, onnxruntime and numpy: PSR_PYTHON, or python3;
skipped without.

usage: test_stored.py PSRING [onnx|classify]"""

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


# What Pillow and PyTorch would do is spelled out where pictures have another size: resized with
# antialiasing until the shorter side fits, cut from the middle.
PICTURES = """
import sys
import numpy
from PIL import Image
raw = numpy.fromfile(sys.argv[1], dtype=numpy.uint8)
for i in range(int(sys.argv[3])):
    picture = raw[i * 3072:(i + 1) * 3072].reshape(3, 32, 32).transpose(1, 2, 0)
    Image.fromarray(picture).save("%s/%02d.png" % (sys.argv[2], i))
wide = Image.fromarray(numpy.random.default_rng(5).integers(0, 256, (6, 8, 3), dtype=numpy.uint8)).resize((100, 70), Image.BICUBIC)
wide.save(sys.argv[2] + "/wide.png")
wide.resize((45, 32), Image.BILINEAR).crop((6, 0, 38, 32)).save(sys.argv[2] + "/fitted.png")
"""

LOGITS = """
import json, sys
import numpy, onnxruntime
from PIL import Image
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
images = numpy.stack([numpy.asarray(Image.open(f).convert("RGB")).transpose(2, 0, 1) for f in sys.argv[2:]]) / numpy.float32(255)
logits = session.run(None, {"image": images.astype(numpy.float32)})[0].astype(numpy.float64)
shares = numpy.exp(logits - logits.max(axis=1, keepdims=True))
print(json.dumps((shares / shares.sum(axis=1, keepdims=True)).tolist()))
"""


def classified(psring, *words):
    status, told, why = command(psring, "classify", *words, "--json")
    return status, [json.loads(line) for line in told.splitlines()], why


def classify_beside(tap, psring, directory):
    """Beside eval on the same pictures, and beside onnxruntime."""
    data, count = cifar(os.path.join(directory, "data"), 10000), 40
    with open(os.path.join(data, "batches.meta.txt"), "w") as file:
        file.write("".join("name %d\n" % n for n in range(10)))
    pictures = os.path.join(directory, "pictures")
    os.mkdir(pictures)
    done = command(python, "-c", PICTURES, data + ".raw", pictures, str(count))
    if not tap.ok(done[0] == 0, "Pillow writes pictures", [done[2]]):
        return
    files = [os.path.join(pictures, "%02d.png" % i) for i in range(count)]
    run = Run(psring, directory, "run", dict(OPTIONS, model="convnet", data=data, **{"no-eval": True, "augment": "crop-flip"}))
    model = os.path.join(directory, "model.onnx")
    command(psring, "export", run.out, "--to", "onnx", "-o", model)
    done = command(python, "-c", LOGITS, model, *files)
    shares = json.loads(done[1]) if done[0] == 0 else []
    status, found, why = classified(psring, run.out, "--top", "10", "--batch-size", "7", *files)
    tap.ok(status == 0 and [f["file"] for f in found] == files and len(shares) == count and
           all(abs(t["share"] - shares[i][t["class"]]) < 1e-4 and t["name"] == "name %d" % t["class"] for i, f in enumerate(found) for t in f["top"]) and
           all(sorted((t["share"] for t in f["top"]), reverse=True) == [t["share"] for t in f["top"]] and len(f["top"]) == 10 for f in found),
           "classify has onnxruntime's shares of each picture, largest first, with names", [why, done[2][-500:], str(found[:1]), str(shares[:1])] + run.why())
    with open(data + ".raw", "rb") as raw:
        labels = raw.read()[-10000:][:count]
    first = os.path.join(directory, "first")
    os.mkdir(first)
    with open(os.path.join(data, "test_batch.bin"), "rb") as batch:
        test = batch.read(3073 * count)
    for name in ["data_batch_%d.bin" % n for n in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(first, name), "wb") as file:
            file.write((test * (10000 // count))[:3073 * 10000])
    accuracy, _ = evaluated(psring, run.out, "--data", first)
    right = sum(f["top"][0]["class"] == label for f, label in zip(found, labels))
    tap.ok(accuracy == round(100 * right / count, 2), "and is right where eval is", [str(accuracy), str(right)])
    wide, fitted = (classified(psring, run.out, os.path.join(pictures, name))[1] for name in ("wide.png", "fitted.png"))
    tap.ok(wide and wide[0]["top"] == fitted[0]["top"], "a picture of another size is resized and cut as Pillow does it", [str(wide), str(fitted)])
    small = os.path.join(directory, "small.onnx")
    resized = Run(psring, directory, "resized", dict(OPTIONS, model="mlp", data=DATA, augment="crop:32:4,flip,resize:40", **{"steps": 2}))
    outcome, again = resized.outcome(), evaluated(psring, resized.out)
    tap.ok(again == (round(100 * outcome["test_accuracy"], 2), float("%.4f" % outcome["test_loss"])),
           "of a run that resizes, eval comes to the run's own evaluation", [str(outcome), str(again)])
    status, found, why = classified(psring, resized.out, files[0])
    tap.ok(status == 0 and command(psring, "export", resized.out, "--to", "onnx", "-o", small)[0] == 0 and len(found) == 1, "and classify takes its pictures", [why])
    plain = command(psring, "classify", run.out, "--top", "2", files[0], files[1])
    tap.ok(plain[0] == 0 and plain[2] == "" and re.fullmatch(r"(\S+\n( +\d+\.\d\d%  +\d  name \d\n){2}){2}", plain[1]), "a person gets two lines a picture with --top 2", list(plain[1:]))


def classify_refuses(tap, psring, directory):
    run = Run(psring, directory, "synthetic", dict(OPTIONS, model="resnet20", data=DATA, **{"no-eval": True}))
    stranger, missing = os.path.join(directory, "stranger.jpg"), os.path.join(directory, "missing.png")
    with open(stranger, "w") as file:
        file.write("no picture")
    status, told, why = command(psring, "classify", run.out, stranger, missing)
    lines = why.splitlines()
    tap.ok(status == 2 and told == "" and len(lines) == 3 and "has no class names: classes are told by their numbers" in lines[0] and
           "stranger.jpg" in lines[1] and "should be a JPEG or PNG picture" in lines[1] and "missing.png" in lines[2], "each file that is no picture has a line", [told, why])
    status, told, why = command(psring, "classify", run.out)
    tap.ok(status == 2 and "no picture is named; give JPEG or PNG files" in why and why.count("\n") <= 2, "no picture is refused", [why])
    bare = os.path.join(directory, "bare.safetensors")
    with open(bare, "wb") as file:
        file.write((2).to_bytes(8, "little") + b"{}")
    status, told, why = command(psring, "classify", bare, stranger)
    tap.ok(status == 2 and why.count("\n") == 1 and "metadata do not say of which network it is" in why, "a file without metadata is refused", [why])


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
    if part != "stored" and subprocess.run([python, "-c", "import numpy, onnx, onnxruntime, PIL"], capture_output=True).returncode != 0:
        print("skipped: %s has no numpy, onnx, onnxruntime and Pillow; PSR_PYTHON names another Python" % python)
        sys.exit(77)
    tap = Tap()
    with Workspace() as directory:
        {"stored": stored, "onnx": judge, "classify": classify_beside}[part](tap, psring, directory)
        if part == "stored":
            classify_refuses(tap, psring, directory)
    tap.end()


main(*sys.argv[1:])
