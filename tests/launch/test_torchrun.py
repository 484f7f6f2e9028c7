"""torchrun and torch.distributed.launch when something goes wrong: a worker dies, and all ranks are
started again, meet anew and go on with the last checkpoint to the same bits; on one node, two jobs
at once, and on two nodes with networks of their own. A port that somebody has.

usage: test_torchrun.py SOURCE-ROOT PSRING WORKER SHARD SCHEDULER ALLREDUCE [TORCHRUN]"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from launched import OPTIONS, PATIENCE_S, Run, Tap, Workspace, options_of, outcome, outlived, path_of, skip, version_of
from nodes import Nodes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from test_launched import free_port

STEPS = 800
LONG = dict(OPTIONS, **{"data": "synthetic:count=8300,test=90,channels=1,size=28", "steps": STEPS, "lr": 0.001, "checkpoint-every": 20, "deadline": 10, "resume": "auto"})


class Job:
    """One that runs: torchrun, or one for each of two nodes."""

    def __init__(self, directory, name, path, commands, **variables):
        self.directory, self.name = directory, name
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PSRING_", "MASTER_", "SLURM_"))}
        env.update(variables, PATH=path, TMPDIR=directory, OMP_NUM_THREADS="1", ASAN_OPTIONS="detect_leaks=0")
        self.said = [os.path.join(directory, "%s-%d.out" % (name, i)) for i in range(len(commands))]
        self.launchers = []
        for command, said in zip(commands, self.said):
            with open(said, "w") as out:
                self.launchers.append(subprocess.Popen(command, cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                       start_new_session=True))

    def lines(self):
        lines = []
        for said in self.said:
            with open(said, errors="replace") as text:
                lines += text.read().splitlines()
        return lines

    def checkpoints(self, run):
        folder = os.path.join(self.directory, run, "checkpoints")
        return [name for name in os.listdir(folder) if name.startswith("step-")] if os.path.isdir(folder) else []

    def kill_rank(self, node, rank):
        """Once there is a checkpoint. A launcher's children are the ranks that it has started
        last."""
        end = time.monotonic() + PATIENCE_S
        while not self.checkpoints(self.name):
            if time.monotonic() > end or any(launcher.poll() is not None for launcher in self.launchers):
                raise AssertionError("%s writes no checkpoint: %s" % (self.name, self.lines()[-20:]))
            time.sleep(0.05)
        launcher = self.launchers[node].pid
        with open("/proc/%d/task/%d/children" % (launcher, launcher)) as text:
            for child in map(int, text.read().split()):
                if b"RANK=%d" % rank in outlived.environment(child):
                    os.kill(child, signal.SIGKILL)
                    return
        raise AssertionError("%s has no rank %d: %s" % (self.name, rank, self.lines()[-20:]))

    def wait(self):
        end = time.monotonic() + PATIENCE_S
        for launcher in self.launchers:
            try:
                launcher.wait(max(1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(launcher.pid, signal.SIGKILL)
                launcher.wait()
        return [launcher.returncode for launcher in self.launchers]

    def end(self):
        for launcher in self.launchers:
            if launcher.poll() is None:
                os.killpg(launcher.pid, signal.SIGKILL)
                launcher.wait()


def words(job, **more):
    return ["psring-worker", *options_of(dict(LONG, out=job, **more))]


def goes_on(tap, job, right, what):
    statuses = job.wait()
    run = os.path.join(job.directory, job.name + "-2")
    tap.ok(statuses == [0] * len(statuses) and outcome(run).get("hash") == right, what + ": the ranks are started again, go on, and end in the same bits",
           [str(statuses), str(outcome(run))] + job.lines()[-30:])


def on_one_node(tap, directory, path, torchrun, python, right):
    """Three jobs at once, each of which loses a rank: none of them meets another's processes."""
    one_host = ["--nproc-per-node", "3", "--max-restarts", "2", "--master-addr", "127.0.0.1", "--master-port"]
    jobs = []
    try:
        for name, launcher, more in [("rank1", [torchrun], {"mode": "ring"}), ("rank0", [torchrun], {"mode": "ps", "shards": 2}),
                                     ("launch", [python, "-m", "torch.distributed.launch", "--use-env"], {"mode": "ring"})]:
            command = [*launcher, "--no-python", *one_host, str(free_port()), *words(name, **more)]
            jobs.append(Job(directory, name, path, [command]))
        for job, rank in zip(jobs, (1, 0, 2)):
            job.kill_rank(0, rank)
        for job, what in zip(jobs, ("torchrun loses a worker", "torchrun loses rank 0, and the scheduler with it", "torch.distributed.launch loses a worker")):
            goes_on(tap, job, right, what)
    finally:
        for job in jobs:
            job.end()


def on_two_nodes(tap, directory, path, torchrun, psring, right):
    reason = Nodes.missing()
    if reason:
        tap.ok(True, "two nodes # SKIP " + reason)
        return
    keys = os.path.join(directory, "keys")
    subprocess.run([psring, "keygen", keys, "--workers", "3", "--shards", "1"], check=True, capture_output=True, timeout=PATIENCE_S)
    with Nodes(directory) as nodes:
        port = str(free_port())
        commands = [nodes.on(node, [torchrun, "--no-python", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", ranks, "--max-restarts", "2",
                                    "--master-addr", "n1", "--master-port", port, *words("nodes", mode="ring", keys=keys)])
                    for node, ranks in ((0, "2"), (1, "1"))]
        job = Job(directory, "nodes", path, commands)
        try:
            job.kill_rank(1, 2)
            goes_on(tap, job, right, "two nodes, of which one loses a worker")
            tap.ok(any("the scheduler is at tcp://n1:" in line for line in job.lines()), "two nodes meet over TCP, on the first one", job.lines()[:10])
        finally:
            job.end()


def a_taken_port(tap, directory, path, torchrun, psring):
    """With keys the scheduler has a port of its own, behind MASTER_PORT."""
    keys = os.path.join(directory, "keys-taken")
    subprocess.run([psring, "keygen", keys, "--workers", "2", "--shards", "0"], check=True, capture_output=True, timeout=PATIENCE_S)
    port = free_port(beside=1000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1000))
        taken.listen()
        command = [torchrun, "--no-python", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(port),
                   *words("taken", mode="ring", keys=keys)]
        job = Job(directory, "taken", path, [command])
        try:
            statuses = job.wait()
        finally:
            job.end()
    named = [line for line in job.lines() if "port %d of 127.0.0.1 is in use: choose another" % (port + 1000) in line]
    tap.ok(statuses != [0] and len(named) == 1, "a port that another program has is named, with what would be right", [str(statuses)] + job.lines()[-20:])


def a_program_of_its_own(tap, directory, path, torchrun, example):
    job = Job(directory, "example", path, [[torchrun, "--no-python", "--nproc-per-node", "3", "--master-addr", "127.0.0.1", "--master-port",
                                            str(free_port()), example]])
    try:
        statuses = job.wait()
    finally:
        job.end()
    tap.ok(statuses == [0] and "3 ranks: the sum of x[1] is 6" in job.lines(), "a program on libpsring has its ranks from torchrun", [str(statuses)] + job.lines())


def main():
    programs, example = sys.argv[2:6], os.path.abspath(sys.argv[6])
    torchrun = shutil.which(sys.argv[7] if len(sys.argv) > 7 and sys.argv[7] else "torchrun")
    if torchrun is None:
        skip("torchrun is not installed (pip install torch)")
    programs = [os.path.abspath(path) for path in programs]
    python = os.path.join(os.path.dirname(os.path.realpath(torchrun)), "python3")
    python = python if os.path.exists(python) else os.path.join(os.path.dirname(torchrun), "python3")
    path = os.pathsep.join([path_of(programs), os.path.dirname(torchrun), os.environ["PATH"]])
    tap = Tap()
    with Workspace() as directory:
        print("# PyTorch %s" % version_of(python, "-c", "import torch; print(torch.__version__)"))
        local = Run(programs[0], directory, "local", dict({key: LONG[key] for key in LONG if key not in ("resume", "checkpoint-every", "deadline")}, mode="local", workers=3))
        tap.ok(local.status == 0, "--mode local of 3 ends with status 0", local.why())
        right = local.outcome()["hash"]
        on_one_node(tap, directory, path, torchrun, python, right)
        on_two_nodes(tap, directory, path, torchrun, programs[0], right)
        a_program_of_its_own(tap, directory, path, torchrun, example)
        a_taken_port(tap, directory, path, torchrun, programs[0])
    tap.end()


if __name__ == "__main__":
    main()
