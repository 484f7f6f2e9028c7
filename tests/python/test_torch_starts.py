"""python/examples/mnist.py, and ranks of psring.torch, under each launcher: psring run, torchrun,
mpirun, Slurm. Where there is no launcher, ranks have its variables. Shards that nobody else starts
are started by the ranks. TAP.

usage: test_torch_starts.py SHARD PACKAGES PSRING EXAMPLE"""

import gzip
import os
import pathlib
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

from forks import PATIENCE_S, Ranks, Tap, bare, started

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402

import psring.torch as psring  # noqa: E402

shard, packages, launcher, example = (sys.argv + [""] * 4)[1:5]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


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
    program = [sys.executable, example, "--data", folder, "--steps", "40"]
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


def places():
    """{launcher: the variables of two ranks}"""
    torchs = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "TORCHELASTIC_RUN_ID": "7"}
    slurm = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "here", "SLURM_JOB_ID": str(os.getpid()),
             "SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}
    mpi = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "test-%d" % os.getpid(), "PMIX_SERVER_URI2": "here"}
    return {"torchrun's variables": [dict(torchs, RANK=str(r), LOCAL_RANK=str(r)) for r in range(2)],
            "Slurm's": [dict(slurm, SLURM_PROCID=str(r), SLURM_LOCALID=str(r)) for r in range(2)],
            "Open MPI's": [dict(mpi, OMPI_COMM_WORLD_RANK=str(r), OMPI_COMM_WORLD_LOCAL_RANK=str(r)) for r in range(2)],
            "no launcher": [{}]}


def step_on_shards():
    """A step whose result tells that all ranks took part, on shards that end in order."""
    psring.init(shards=2, deadline=60)
    layer = torch.nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1)
    optimizer = psring.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), "ps")
    ((psring.rank() + 1) * layer(torch.ones(1, 4))).sum().backward()
    optimizer.step()
    optimizer.synchronize()
    print(psring.rank(), psring.size(), psring.comm().shards, psring.comm().world.hosts[psring.rank()], layer.weight[0, 0].item())
    folder, shards = psring._place._shards._folder.path, psring._place._shards._processes
    psring.shutdown()
    print([process.returncode for process in shards], os.path.exists(folder))


def shards_are_started(tap):
    for name, ranks in places().items():
        with Ranks(step_on_shards, ranks) as running:
            ended = running.wait_all()
        mean = sum(range(1, len(ranks) + 1)) / len(ranks)
        steps = [rank.lines[0].split() for rank in ended if len(rank.lines) == 2]
        tap.ok([(words[0], words[1], words[2], float(words[4])) for words in steps] == [(str(r), str(len(ranks)), "2", 1 - mean) for r in range(len(ranks))],
               "with %s the ranks start their shards" % name, [line for rank in ended for line in rank.why()])
        tap.ok([rank.status for rank in ended] == [0] * len(ranks) and all("[0, 0]" in rank.lines[1] or r for r, rank in enumerate(ended) if rank.lines)
               and ended[-1].lines[-1:] != [] and any(rank.lines[-1].endswith("False") for rank in ended),
               "which end in order, and leave no folder", [line for rank in ended for line in rank.why()])


def two_hosts(tap):
    """Two names of this machine, so each one's rank starts a shard, over TCP with a key."""
    with tempfile.TemporaryDirectory(prefix="psring-test-") as folder:
        subprocess.run([launcher, "keygen", "--shared", os.path.join(folder, "key"), "--workers", "2"], check=True, capture_output=True, timeout=PATIENCE_S)
        key = next(str(path) for path in pathlib.Path(folder).glob("key*"))
        ranks = [{"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                  "PSRING_KEY_FILE": key, "PSRING_HOST": "host-%d" % r} for port in [free_port()] for r in range(2)]
        with Ranks(step_on_shards, ranks) as running:
            ended = running.wait_all()
    said = [rank.lines for rank in ended]
    tap.ok(said == [["%d 2 2 host-%d -0.5" % (r, r), "[0] False"] for r in range(2)], "on two hosts each one's first rank starts its share",
           [line for rank in ended for line in rank.why()])


def refusals(tap):
    def without_program():
        os.environ["PATH"] = "/nowhere"
        psring.init(shards=1, deadline=60)

    def too_many():
        psring.init(shards=257)

    for work, line in [(without_program, "psring-ps, which is not in PATH"), (too_many, "it should be 0 to 256")]:
        with Ranks(work, [{}]) as running:
            ended = running.wait(0)
        tap.ok(ended.status == 1 and line in ended.err[-1], "refused: " + line, ended.why())
    done = subprocess.run([launcher, "run", "-n", "1", "--shards", "1", "--", sys.executable, "-c", "import psring.torch as p; p.init(shards=2)"], env=bare(),
                          capture_output=True, text=True, timeout=PATIENCE_S)
    tap.ok(done.returncode != 0 and "init(shards=2), but the launcher started 1" in done.stderr, "refused: another number than the launcher's",
           done.stderr.splitlines())


def main():
    torch.set_num_threads(1)
    tap = Tap()
    shards_are_started(tap)
    two_hosts(tap)
    refusals(tap)
    five_lines(tap)
    with tempfile.TemporaryDirectory(prefix="psring-test-") as folder:
        data(folder)
        examples(tap, folder)
    tap.end()


if __name__ == "__main__":
    main()
