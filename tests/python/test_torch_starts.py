"""Ranks of psring.torch with the variables of each launcher: torchrun, Slurm, mpirun, none. Shards
that nobody else starts are started by the ranks, on one host and on several. TAP.

usage: test_torch_starts.py SHARD PACKAGES PSRING"""

import os
import pathlib
import signal
import socket
import subprocess
import sys

from forks import PATIENCE_S, Ranks, Tap, Workspace, bare, started

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402

import psring.torch as psring  # noqa: E402

launcher = sys.argv[3] if len(sys.argv) > 3 else ""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def places():
    """{launcher: the variables of two ranks}"""
    torchs = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "TORCHELASTIC_RUN_ID": "7"}
    slurm = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "here", "SLURM_JOB_ID": str(os.getpid()),
             "SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}
    mpi = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "test-%d" % os.getpid(), "PMIX_SERVER_URI2": "here"}
    return {"torchrun's variables": [dict(torchs, RANK=str(r), LOCAL_RANK=str(r)) for r in range(2)],
            "Slurm's variables": [dict(slurm, SLURM_PROCID=str(r), SLURM_LOCALID=str(r)) for r in range(2)],
            "Open MPI's variables": [dict(mpi, OMPI_COMM_WORLD_RANK=str(r), OMPI_COMM_WORLD_LOCAL_RANK=str(r)) for r in range(2)],
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
    with Workspace() as folder:
        subprocess.run([launcher, "keygen", "--shared", os.path.join(folder, "key"), "--workers", "2"], check=True, capture_output=True, timeout=PATIENCE_S)
        key = next(str(path) for path in pathlib.Path(folder).glob("key*"))
        ranks = [{"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                  "PSRING_KEY_FILE": key, "PSRING_HOST": "host-%d" % r} for port in [free_port()] for r in range(2)]
        with Ranks(step_on_shards, ranks) as running:
            ended = running.wait_all()
    said = [rank.lines for rank in ended]
    tap.ok(said == [["%d 2 2 host-%d -0.5" % (r, r), "[0] False"] for r in range(2)], "on two hosts each one's first rank starts its share",
           [line for rank in ended for line in rank.why()])


def folders_are_swept(tap):
    """What killed ranks held is removed by the next start, and what others hold is not."""
    from psring.torch import _folders

    def hold(path):
        def work():
            held = _folders.make(path)
            with open(os.path.join(path, "socket"), "w"):
                print("held", held is not None, flush=True)
            os.write(told[1], b"h")
            signal.pause()
        return work

    with Workspace() as base:
        told, paths = os.pipe(), [os.path.join(base, "psring-shards-%d" % n) for n in range(2)]
        foreign = os.path.join(base, "another")
        os.mkdir(foreign)
        with Ranks(hold(paths[0]), [{}]) as killed, Ranks(hold(paths[1]), [{}]):
            read = os.read(told[0], 1) + os.read(told[0], 1)
            _folders.sweep(base, "psring-shards-")
            held = sorted(os.listdir(base))
            killed.kill(0)
            killed.wait(0)
            _folders.sweep(base, "psring-shards-")
            left = sorted(os.listdir(base))
            again = _folders.make(paths[0])
        for descriptor in (*told, again):
            os.close(descriptor)
    tap.ok(read == b"hh" and held == ["another", "psring-shards-0", "psring-shards-1"] and left == ["another", "psring-shards-1"],
           "a folder that killed ranks left is removed by the next start, one that others hold is not", [str(held), str(left)])


def a_dying_rank_is_waited_for(tap):
    """One that was killed may hold the folder when the others have heard of that already. It lets
    go when it has been looked for once."""
    from psring.torch import _folders

    class Time:
        def __init__(self, held):
            self.held, self.now_s = held, 0

        def monotonic(self):
            return self.now_s

        def sleep(self, seconds):
            self.now_s += seconds
            if self.held is not None:
                os.close(self.held)
                self.held = None

    with Workspace() as base:
        path, real = os.path.join(base, "psring-shards-0"), _folders.time
        try:
            _folders.time = Time(_folders.make(path))
            dying = _folders.remove_unheld(path, 1), os.path.exists(path)
            held, _folders.time = _folders.make(path), Time(None)
            living = _folders.remove_unheld(path, 1), os.path.exists(path), _folders.time.now_s >= 1
            os.close(held)
        finally:
            _folders.time = real
    tap.ok(dying == (True, False), "a folder that a dying rank still holds is removed when that has ended", [str(dying)])
    tap.ok(living == (False, True, True), "one that a living rank holds stays, and is not waited for any longer", [str(living)])


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
    folders_are_swept(tap)
    a_dying_rank_is_waited_for(tap)
    refusals(tap)
    tap.end()


if __name__ == "__main__":
    main()
