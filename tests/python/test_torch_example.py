"""python/examples/mnist.py under each launcher that is here: psring run, torchrun, mpirun. TAP.

usage: test_torch_example.py SHARD PACKAGES PSRING EXAMPLE"""

import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from forks import PATIENCE_S, Tap, bare, started

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402
from test_torch_starts import free_port  # noqa: E402

launcher, example = (sys.argv + [""] * 4)[3:5]


def data(folder):
    """Images that tell their label, in MNIST's format."""
    generator = torch.Generator().manual_seed(0)
    for part, count in (("train", 1600), ("t10k", 200)):
        labels = torch.randint(0, 10, (count,), generator=generator)
        images = torch.randint(0, 60, (count, 28, 28), generator=generator)
        for image, label in zip(images, labels.tolist()):
            image[2 * label + 4:2 * label + 7] += 150
        for kind, values, shape in (("images-idx3", images, (count, 28, 28)), ("labels-idx1", labels, (count,))):
            head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
            with gzip.open(os.path.join(folder, "%s-%s-ubyte.gz" % (part, kind)), "wb") as file:
                file.write(head + bytes(values.to(torch.uint8).numpy()))


def examples(tap, folder):
    """The same program by each launcher that is here: the same weights, so the same accuracy."""
    program = [sys.executable, example, "--data", folder, "--steps", "40", "--lr", "0.1"]
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    mpirun, version = shutil.which("mpirun"), ""
    if mpirun:
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=PATIENCE_S).stdout
    root = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if "Open MPI" in version else []
    found = {}
    for name, command in [("psring run --shards 2", [launcher, "run", "-n", "2", "--shards", "2", "--", *program]),
                          ("torchrun", torchrun and [torchrun, "--nproc-per-node", "2", "--master-port", free_port(), *program[1:]]),
                          ("mpirun", mpirun and [mpirun, *root, "-n", "2", *program])]:
        if not command:
            tap.skip("the example under " + name, "%s is not installed" % name)
            continue
        done = subprocess.run(command, env=bare(), capture_output=True, text=True, timeout=PATIENCE_S)
        accuracies = [line.split()[-1] for line in done.stdout.splitlines() if "accuracy" in line]
        found[name] = accuracies
        tap.ok(done.returncode == 0 and len(accuracies) == 2 and len(set(accuracies)) == 1 and float(accuracies[0]) > 0.5,
               "the example learns under " + name, done.stdout.splitlines()[-10:] + done.stderr.splitlines()[-15:])
    tap.ok(len({tuple(accuracies) for accuracies in found.values()}) == 1, "with the same result under each", [str(found)])


def five_lines(tap):
    text = pathlib.Path(example).read_text().partition('"""\n\nimport')[2]
    lines = [line for line in text.splitlines() if "psring" in line]
    tap.ok(0 < len(lines) <= 5, "the example has five lines of psring", lines)


def main():
    tap = Tap()
    five_lines(tap)
    with tempfile.TemporaryDirectory(prefix="psring-test-") as folder:
        data(folder)
        examples(tap, folder)
    tap.end()


if __name__ == "__main__":
    main()
