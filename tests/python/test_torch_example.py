"""python/examples/mnist.py under each launcher that is here, as docs/pytorch.md has the commands:
psring run, torchrun, mpirun, srun; and with the variables that srun sets. TAP.

usage: test_torch_example.py SHARD PACKAGES PSRING EXAMPLE"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys

from forks import PATIENCE_S, Tap, Workspace, bare, started

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from test_torch_starts import free_port, places  # noqa: E402

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


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"


def documented(name, more, program, arguments):
    """The command of docs/pytorch.md that begins so, with the launcher's own program, more options,
    and other arguments of the example."""
    _, _, block = PAGE.read_text(encoding="utf-8").partition("\n```\ncd python/examples\n")
    words = next(line.split() for line in block.partition("```")[0].splitlines() if line.startswith(name + " "))
    before = [sys.executable if word == "python3" else word for word in words[1:words.index("mnist.py")]]
    return [program, *more, *before, example, *arguments]


def without_libuv():
    """(variables, options) with which docs/pytorch.md has torchrun start for a PyTorch that is
    built without libuv; nothing for another one."""
    try:
        dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        return {}, []
    except RuntimeError as failure:
        if "libuv" not in str(failure):
            raise
    _, _, block = PAGE.read_text(encoding="utf-8").partition("\n```\nexport ")
    variables, command = [line.split() for line in block.splitlines()[:2]]
    return dict(variable.split("=") for variable in variables), command[1:command.index("--nproc-per-node")]


def with_variables(command, ranks):
    """The same with the variables that a launcher would set, for each of its ranks."""
    started = [subprocess.Popen(command, env={**bare(), **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for variables in ranks]
    out, err = zip(*[process.communicate(timeout=PATIENCE_S) for process in started])
    return subprocess.CompletedProcess(command, max(process.returncode for process in started), "".join(out), "".join(err))


def examples(tap, folder):
    """The same program by each launcher that is here: the same weights, so the same accuracy."""
    arguments = ["--data", folder, "--steps", "40", "--lr", "0.1"]
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    mpirun, version = shutil.which("mpirun"), ""
    if mpirun:
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=PATIENCE_S).stdout
    variables, options = without_libuv()
    root = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if "Open MPI" in version else []
    found = {}
    for name, program, more in [("psring run", launcher, []), ("torchrun", torchrun, options or ["--master-port", free_port()]), ("mpirun", mpirun, root),
                                ("srun", shutil.which("srun"), []), ("Slurm's variables", sys.executable, [])]:
        if not program:
            tap.skip("the example under " + name, "%s is not installed" % name)
            continue
        if name in places():
            done = with_variables([program, example, *arguments], places()[name])
        else:
            done = subprocess.run(documented(name, more, program, arguments), env={**bare(), **variables}, capture_output=True, text=True,
                                  timeout=PATIENCE_S)
        accuracies = re.findall(r"accuracy ([01]\.\d{4})", done.stdout)  # mpirun may join two lines
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
    with Workspace() as folder:
        data(folder)
        examples(tap, folder)
    tap.end()


if __name__ == "__main__":
    main()
