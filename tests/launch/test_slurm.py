"""Slurm: psring train in a job that sbatch started, psring-worker as tasks of srun, and what ends a
job before its time. On a Slurm of the test's own, two nodes on this machine.

usage: test_slurm.py machine|nodes SOURCE-ROOT PSRING WORKER SHARD SCHEDULER ALLREDUCE
  nodes: each of the two has a network of its own, which needs root"""

import json
import os
import subprocess
import sys
import time

from launched import OPTIONS, PATIENCE_S, Run, Tap, Workspace, options_of, outcome, path_of, program, right, skip, version_of
from nodes import Nodes
from slurm import Slurm, free_ports

LONG = dict(OPTIONS, **{"data": "synthetic:count=8300,test=90,channels=1,size=28", "steps": 100000, "lr": 0.001, "log-every": 10})
REQUEUED_STEPS = 4000


class Jobs:
    def __init__(self, slurm, root, directory, programs):
        self.slurm, self.directory, self.path = slurm, directory, path_of(programs)
        self.scripts = os.path.join(root, "deploy", "examples")

    def submit(self, script, name, options, sbatch=(), **more):
        return self.slurm.submit(self.path, self.said(name), os.path.join(self.scripts, script), options_of(options), sbatch,
                                 RUN=os.path.join(self.directory, name), TMPDIR=self.directory, **more)

    def script_without(self, script, name, words):
        """The example's script, but for the lines that begin so."""
        path = os.path.join(self.directory, name + ".sbatch")
        with open(os.path.join(self.scripts, script)) as file, open(path, "w") as copy:
            copy.writelines(line for line in file if not line.startswith(words))
        return path

    def script_of_srun(self):
        """A script in which srun starts psring train."""
        path = os.path.join(self.directory, "srun-train.sbatch")
        with open(path, "w") as script:
            script.write("#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --open-mode=append\nPATH=$PSRING_BIN:$PATH\n"
                         "exec srun --nodes=1 --ntasks=1 psring train \"$@\" --out \"$RUN\" --resume auto\n")
        return path

    def scheduler(self):
        """Where the nodes' names are known to Slurm alone, the scheduler's address is told."""
        return {} if self.slurm.nodes else {"PSRING_SCHEDULER": "127.0.0.1:%d" % free_ports(1)[0]}

    def said(self, name):
        return os.path.join(self.directory, name + ".out")

    def lines(self, name):
        try:
            with open(self.said(name), errors="replace") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def why(self, name, *more):
        return [str(word) for word in more] + self.lines(name)[-25:] + self.slurm.logs()[-10:]

    def wait_for(self, reached, what):
        """A job's output is a file, which tells nobody when it grows: it is read again and
        again."""
        end = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > end:
                raise AssertionError(what)
            time.sleep(0.05)

    def hash(self, name):
        return outcome(os.path.join(self.directory, name)).get("hash")

    def checkpoints(self, name):
        folder = os.path.join(self.directory, name, "checkpoints")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def good_jobs(tap, jobs, local):
    """Each with four workers."""
    hash = local.outcome()["hash"]
    for script, name, more, sbatch in [("slurm.sbatch", "train-ps", {"mode": "ps", "shards": 2}, []), ("slurm.sbatch", "train-ring", {"mode": "ring"}, []),
                                       ("slurm-workers.sbatch", "tasks-ps", {"mode": "ps", "shards": 2}, []),
                                       ("slurm-workers.sbatch", "tasks-ring", {"mode": "ring"}, [])]:
        state = jobs.slurm.wait(jobs.submit(script, name, dict(OPTIONS, **more), sbatch))
        tap.ok(state == ("COMPLETED", "0:0") and jobs.hash(name) == hash, "%s ends with the hash of --mode local: %s" % (script, name),
               jobs.why(name, state, jobs.hash(name)))
    train = jobs.lines("train-ps")
    tap.ok(any("hosts      n1, n2" in line for line in train), "psring train takes its hosts from the job", train[:12])


def on_several_nodes(tap, jobs, local, psring):
    """Over TCP, encrypted. The nodes' names are known to Slurm alone here, so the scheduler's
    address is told."""
    keys = os.path.join(jobs.directory, "keys")
    subprocess.run([psring, "keygen", keys, "--workers", "4", "--shards", "1"], check=True, capture_output=True, timeout=PATIENCE_S)
    state = jobs.slurm.wait(jobs.submit("slurm-workers.sbatch", "nodes", dict(OPTIONS, mode="ps", shards=1), ["--nodes=2", "--ntasks=4"],
                                        PSRING_KEY_FILE=keys, **jobs.scheduler()))
    tap.ok(state == ("COMPLETED", "0:0") and jobs.hash("nodes") == local.outcome()["hash"], "tasks on two nodes meet over TCP by keys",
           jobs.why("nodes", state, jobs.hash("nodes")))
    state = jobs.slurm.wait(jobs.submit("slurm-workers.sbatch", "keyless", dict(OPTIONS, mode="ring"), ["--nodes=2", "--ntasks=4"]))
    tap.ok(state == ("COMPLETED", "0:0") and jobs.hash("keyless") == local.outcome()["hash"] and any("/.psring-meeting-" in line for line in jobs.lines("keyless")),
           "without keys they meet by a file in the folder where the job was started", jobs.why("keyless", state, jobs.hash("keyless")))


def heterogeneous_jobs(tap, jobs, local, psring):
    """Two components: in --mode ps the last one's tasks are the shards, in another mode they are
    workers."""
    keys = os.path.join(jobs.directory, "keys-het")
    subprocess.run([psring, "keygen", keys, "--workers", "4", "--shards", "2"], check=True, capture_output=True, timeout=PATIENCE_S)
    others = dict(PSRING_KEY_FILE=keys, **jobs.scheduler())
    job = jobs.submit("slurm-shards.sbatch", "shards", dict(OPTIONS), ["--ntasks=4", ":", "--ntasks=2"], **others)
    state = jobs.slurm.wait(job)
    places = [line for line in jobs.lines("shards") if " of 2 from SLURM_PROCID" in line]
    tap.ok(state == ("COMPLETED", "0:0") and jobs.hash("shards") == local.outcome()["hash"] and len(places) == 2,
           "the last component's tasks are the shards", jobs.why("shards", state, jobs.hash("shards"), places))
    job = jobs.submit("slurm-shards.sbatch", "apart", dict(OPTIONS, mode="ring"), ["--ntasks=3", ":", "--ntasks=1"], **others)
    state = jobs.slurm.wait(job)
    tap.ok(state == ("COMPLETED", "0:0") and jobs.hash("apart") == local.outcome()["hash"], "in a ring the tasks of all components are workers",
           jobs.why("apart", state, jobs.hash("apart")))
    job = jobs.submit("slurm-shards.sbatch", "stopped-shards", dict(LONG), ["--ntasks=2", ":", "--ntasks=1"], **others)
    jobs.wait_for(lambda: any("step 20" in line for line in jobs.lines("stopped-shards")), "job %s does not begin: %s" % (job, jobs.why("stopped-shards")))
    jobs.slurm.said("scancel", job)
    state = jobs.slurm.wait(job)
    tap.ok(state[0] in ("CANCELLED", "FAILED") and len(jobs.checkpoints("stopped-shards")) == 1, "slurm-shards.sbatch: scancel leaves a checkpoint",
           jobs.why("stopped-shards", state, jobs.checkpoints("stopped-shards")))


def on_nodes_of_their_own(tap, root, directory, programs, local):
    """Each slurmd has an address of its own, and the nodes' names resolve: the scheduler is on the
    step's first node, and nobody tells where."""
    keys = os.path.join(directory, "keys")
    subprocess.run([programs[0], "keygen", keys, "--workers", "4", "--shards", "1"], check=True, capture_output=True, timeout=PATIENCE_S)
    with Nodes(directory) as nodes, Slurm(directory, nodes) as slurm:
        jobs = Jobs(slurm, root, directory, programs)
        hash = local.outcome()["hash"]
        for script, name, more, sbatch in [("slurm.sbatch", "own-train", {"mode": "ps", "shards": 1}, []),
                                           ("slurm-workers.sbatch", "own-tasks", {"mode": "ring"}, ["--nodes=2", "--ntasks=4"])]:
            state = slurm.wait(jobs.submit(script, name, dict(OPTIONS, **more), sbatch, PSRING_KEY_FILE=keys))
            tap.ok(state == ("COMPLETED", "0:0") and jobs.hash(name) == hash, "%s on nodes with networks of their own ends with the hash of --mode local" % script,
                   jobs.why(name, state, jobs.hash(name)))
        tap.ok(any("the scheduler is at tcp://n1:" in line for line in jobs.lines("own-tasks")), "tasks meet on the step's first node",
               jobs.lines("own-tasks")[:8])
        heterogeneous_jobs(tap, jobs, local, programs[0])
    for name, hosts, word in [("a-name-that-does-not-resolve", (), "host n1 of the scheduler: "),
                              ("a-name-for-this-host-alone", (("n1", "127.0.1.1"),), "the scheduler's host n1 has an address here that no other host reaches")]:
        with Nodes(directory, hosts) as nodes, Slurm(directory, nodes) as slurm:
            jobs = Jobs(slurm, root, directory, programs)
            state = slurm.wait(jobs.submit("slurm-workers.sbatch", name, dict(OPTIONS, mode="ring"), ["--nodes=2", "--ntasks=4"], PSRING_KEY_FILE=keys))
            lines = [line for line in jobs.lines(name) if " error " in line and "srun" not in line]
            tap.ok(state[0] == "FAILED" and len(lines) > 0 and all(word in line and "PSRING_SCHEDULER" in line for line in lines),
                   name.replace("-", " ") + " is told, with what would be right", jobs.why(name, state))


def ends_in_order(tap, jobs, group, endings):
    """Jobs that run until they are told to end, all at once: each leaves a checkpoint."""
    running = [(script, "%s-%d" % (group, i), cancel) for i, (script, cancel) in enumerate(endings)]
    numbers = [jobs.submit(script, name, dict(LONG, mode="ring")) for script, name, cancel in running]
    for (script, name, cancel), job in zip(running, numbers):
        jobs.wait_for(lambda: any("step 20" in line for line in jobs.lines(name)), "job %s does not begin: %s" % (job, jobs.why(name)))
        jobs.slurm.said("scancel", *cancel, job)
    for (script, name, cancel), job in zip(running, numbers):
        state = jobs.slurm.wait(job)
        tap.ok(state[0] in ("CANCELLED", "FAILED") and len(jobs.checkpoints(name)) == 1,
               "%s: scancel %s leaves a checkpoint" % (os.path.basename(script), " ".join(cancel)), jobs.why(name, state, jobs.checkpoints(name)))


class TimeLimits:
    """Jobs whose time is over after a minute, which is Slurm's least: they run beside what is
    tested meanwhile."""

    def __init__(self, jobs):
        self.jobs = jobs
        self.running = {}
        for script, name, sbatch in [("slurm.sbatch", "limit-train", ["--time=1"]), ("slurm-workers.sbatch", "limit-tasks", ["--time=1"]),
                                     ("slurm-workers.sbatch", "limit-usr1", ["--time=2", "--signal=USR1@30"])]:
            script = jobs.script_without(script, name, "#SBATCH --signal")
            self.running[name] = jobs.submit(script, name, dict(LONG, mode="ring"), sbatch)

    def check(self, tap):
        for name, job in self.running.items():
            state = self.jobs.slurm.wait(job, patience_s=300)
            expected = ("FAILED",) if name == "limit-usr1" else ("TIMEOUT",)
            tap.ok(state[0] in expected and len(self.jobs.checkpoints(name)) == 1, "%s: a job whose time is over leaves a checkpoint" % name,
                   self.jobs.why(name, state, self.jobs.checkpoints(name)))


def requeued_jobs_go_on(tap, jobs, psring):
    """As after a node was lost, or for another job: told to end, and started again with
    SLURM_RESTART_COUNT. They end as one that ran through."""
    options = dict(LONG, steps=REQUEUED_STEPS)
    local = Run(psring, jobs.directory, "local-requeued", dict(options, mode="local", workers=4))
    tap.ok(local.status == 0, "--mode local of %d steps ends with status 0" % REQUEUED_STEPS, local.why())
    running = []
    for script, name, mode, more in [("slurm.sbatch", "requeued-train", "ring", {}), ("slurm-workers.sbatch", "requeued-tasks", "ps", {"shards": 2}),
                                     (jobs.script_of_srun(), "requeued-srun", "ring", {"workers": 4})]:
        # One after the other: each is told to end at its first checkpoint.
        job = jobs.submit(script, name, dict(options, mode=mode, **{"checkpoint-every": 20, **more}))
        jobs.wait_for(lambda: jobs.checkpoints(name), "job %s writes no checkpoint: %s" % (job, jobs.why(name)))
        jobs.slurm.requeue(job)
        running.append((script, name, job))

    def written():
        """Of all three, since they share the nodes."""
        return [jobs.checkpoints(name + part) for _, name, _ in running for part in ("", "-2")]

    for script, name, job in running:
        state = jobs.slurm.wait(job, progress=written)
        with open(os.path.join(jobs.directory, name + "-2", "run.json")) as text:
            resumed = json.load(text)["config"]["resume"]
        tap.ok(state == ("COMPLETED", "0:0") and resumed == os.path.join(jobs.directory, name) and jobs.hash(name + "-2") == local.outcome()["hash"],
               "%s: a job that is requeued goes on with its last checkpoint, and ends in the same bits" % name,
               jobs.why(name, state, resumed, jobs.hash(name + "-2")))


def a_program_of_its_own(tap, jobs, example):
    told = subprocess.run([jobs.slurm.programs["srun"], "-n", "3", "-N", "1", "--cpu-bind=none", example], env=jobs.slurm.env, capture_output=True, text=True,
                          timeout=PATIENCE_S)
    tap.ok(told.returncode == 0 and told.stdout == "3 ranks: the sum of x[1] is 6\n", "a program on libpsring has its ranks from srun",
           ["status %d" % told.returncode, told.stdout, told.stderr])


def refusals(tap, jobs, psring):
    told = subprocess.run([jobs.slurm.programs["srun"], "-n", "2", psring, "train", "--steps", "1", "--out", os.path.join(jobs.directory, "never")],
                          env=jobs.slurm.env, capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [line for line in told.stderr.splitlines() if line.startswith("psring")]
    tap.ok(told.returncode == 2 and len(lines) == 2 and all("srun has started this program 2 times, but it must be started once" in line for line in lines),
           "several launchers in one step are refused", ["status %d" % told.returncode, told.stderr])
    state = jobs.slurm.wait(jobs.submit("slurm.sbatch", "full", dict(OPTIONS, mode="ring", workers=5)))
    tap.ok(state == ("FAILED", "2:0") and len(jobs.lines("full")) == 1 and "5" in jobs.lines("full")[0], "more workers than the job has tasks are refused in one line",
           jobs.why("full", state))


def on_one_machine(tap, root, directory, programs, example, local):
    with Slurm(directory) as slurm:
        jobs = Jobs(slurm, root, directory, programs)
        limits = TimeLimits(jobs)
        good_jobs(tap, jobs, local)
        on_several_nodes(tap, jobs, local, programs[0])
        ends_in_order(tap, jobs, "ended", [("slurm.sbatch", ["--batch", "--signal=INT"]), ("slurm.sbatch", []), ("slurm-workers.sbatch", ["--signal=TERM"])])
        ends_in_order(tap, jobs, "usr1", [("slurm.sbatch", ["--batch", "--signal=USR1"]), ("slurm-workers.sbatch", ["--signal=USR1"]),
                                          ("slurm-workers.sbatch", [])])
        ends_in_order(tap, jobs, "srun", [(jobs.script_of_srun(), ["--signal=USR1"]), (jobs.script_of_srun(), [])])
        a_program_of_its_own(tap, jobs, example)
        refusals(tap, jobs, programs[0])
        limits.check(tap)
        requeued_jobs_go_on(tap, jobs, programs[0])


def main():
    which, root, *programs = sys.argv[1:]
    *programs, example = [os.path.abspath(path) for path in programs]
    tap = Tap()
    if which == "nodes" and Nodes.missing():
        skip(Nodes.missing())
    with Workspace() as directory:
        print("# %s, nodes n1 and n2 on this machine" % version_of(program("slurmctld"), "-V"))
        local = right(tap, programs[0], directory, 4)
        if which == "nodes":
            on_nodes_of_their_own(tap, root, directory, programs, local)
        else:
            on_one_machine(tap, root, directory, programs, example, local)
    tap.end()


if __name__ == "__main__":
    main()
