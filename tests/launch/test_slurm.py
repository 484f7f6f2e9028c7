"""Slurm: psring train in a job that sbatch started, psring-worker as tasks of srun, and what ends a job before its time. On a Slurm of the test's
own, two nodes on this machine.

usage: test_slurm.py SOURCE-ROOT PSRING SCHEDULER SHARD WORKER"""

import json
import os
import subprocess
import sys
import time

from launched import OPTIONS, PATIENCE_S, Tap, Workspace, options_of, outcome, path_of, right, version_of
from slurm import Slurm, free_ports

LONG = dict(OPTIONS, **{"data": "synthetic:count=8300,test=90,channels=1,size=28", "steps": 100000, "lr": 0.001, "log-every": 10})


class Jobs:
    def __init__(self, slurm, root, directory, programs):
        self.slurm, self.directory, self.path = slurm, directory, path_of(programs)
        self.scripts = os.path.join(root, "deploy", "examples")

    def submit(self, script, name, options, sbatch=(), **more):
        return self.slurm.submit(self.path, self.said(name), os.path.join(self.scripts, script), options_of(options), sbatch,
                                 RUN=os.path.join(self.directory, name), TMPDIR=self.directory, **more)

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
        """A job's output is a file, which tells nobody when it grows: it is read again and again."""
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
    """Over TCP, encrypted. The nodes' names are known to Slurm alone here, so the scheduler's address is told."""
    keys = os.path.join(jobs.directory, "keys")
    subprocess.run([psring, "keygen", keys, "--workers", "4", "--shards", "1"], check=True, capture_output=True, timeout=PATIENCE_S)
    state = jobs.slurm.wait(jobs.submit("slurm-workers.sbatch", "nodes", dict(OPTIONS, mode="ps", shards=1), ["--nodes=2", "--ntasks=4"],
                                        PSRING_KEY_FILE=keys, PSRING_SCHEDULER="127.0.0.1:%d" % free_ports(1)[0]))
    tap.ok(state == ("COMPLETED", "0:0") and jobs.hash("nodes") == local.outcome()["hash"], "tasks on two nodes meet over TCP by keys",
           jobs.why("nodes", state, jobs.hash("nodes")))
    state = jobs.slurm.wait(jobs.submit("slurm-workers.sbatch", "keyless", dict(OPTIONS, mode="ring"), ["--nodes=2", "--ntasks=4"]))
    tap.ok(state[0] == "FAILED" and any("the ranks may be on several hosts (SLURM_STEP_NODELIST is n1)" in line for line in jobs.lines("keyless")),
           "without keys they are refused", jobs.why("keyless", state))


def ends_in_order(tap, jobs, script, name, cancel):
    """A job that runs until it is told to end, which leaves a checkpoint and says how to go on."""
    job = jobs.submit(script, name, dict(LONG, mode="ring"))
    jobs.wait_for(lambda: any("step 20" in line for line in jobs.lines(name)), "job %s does not begin: %s" % (job, jobs.why(name)))
    jobs.slurm.said("scancel", *cancel, job)
    state = jobs.slurm.wait(job)
    tap.ok(state[0] in ("CANCELLED", "FAILED") and len(jobs.checkpoints(name)) == 1, "%s: scancel %s leaves a checkpoint" % (script, " ".join(cancel)),
           jobs.why(name, state, jobs.checkpoints(name)))


def a_requeued_job_goes_on(tap, jobs):
    """As after a node was lost: killed, and started again with SLURM_RESTART_COUNT."""
    options = dict(LONG, mode="ring", **{"checkpoint-every": 20})
    job = jobs.submit("slurm.sbatch", "requeued", options)
    jobs.wait_for(lambda: jobs.checkpoints("requeued"), "job %s writes no checkpoint: %s" % (job, jobs.why("requeued")))
    jobs.slurm.said("scontrol", "requeue", job)
    jobs.wait_for(lambda: jobs.checkpoints("requeued-2"), "job %s does not go on: %s" % (job, jobs.why("requeued")))
    jobs.slurm.said("scancel", "--batch", "--signal=INT", job)
    jobs.slurm.wait(job)
    first, second = (int(jobs.checkpoints(name)[0].split("-")[1]) for name in ("requeued", "requeued-2"))
    with open(os.path.join(jobs.directory, "requeued-2", "run.json")) as text:
        resumed = json.load(text)["config"]["resume"]
    tap.ok(second > first and resumed.startswith(os.path.join(jobs.directory, "requeued")), "a job that is requeued goes on with its last checkpoint",
           jobs.why("requeued", first, second, resumed))


def refusals(tap, jobs, psring):
    told = subprocess.run([jobs.slurm.programs["srun"], "-n", "2", psring, "train", "--steps", "1", "--out", os.path.join(jobs.directory, "never")],
                          env=jobs.slurm.env, capture_output=True, text=True, timeout=PATIENCE_S)
    lines = [line for line in told.stderr.splitlines() if line.startswith("psring")]
    tap.ok(told.returncode == 2 and len(lines) == 2 and all("srun has started this 2 times, and once is right" in line for line in lines),
           "several launchers in one step are refused", ["status %d" % told.returncode, told.stderr])
    state = jobs.slurm.wait(jobs.submit("slurm.sbatch", "full", dict(OPTIONS, mode="ring", workers=5)))
    tap.ok(state == ("FAILED", "2:0") and len(jobs.lines("full")) == 1 and "5" in jobs.lines("full")[0], "more workers than the job has tasks are refused in one line",
           jobs.why("full", state))


def main():
    root, *programs = sys.argv[1:]
    programs = [os.path.abspath(path) for path in programs]
    tap = Tap()
    with Workspace() as directory, Slurm(directory) as slurm:
        print("# %s, nodes n1 and n2 on this machine" % version_of(slurm.programs["slurmctld"], "-V"))
        jobs = Jobs(slurm, root, directory, programs)
        local = right(tap, programs[0], directory, 4)
        good_jobs(tap, jobs, local)
        on_several_nodes(tap, jobs, local, programs[0])
        ends_in_order(tap, jobs, "slurm.sbatch", "stopped", ["--batch", "--signal=INT"])
        ends_in_order(tap, jobs, "slurm.sbatch", "cancelled", [])
        ends_in_order(tap, jobs, "slurm-workers.sbatch", "tasks-stopped", ["--signal=TERM"])
        ends_in_order(tap, jobs, "slurm-workers.sbatch", "tasks-cancelled", [])
        a_requeued_job_goes_on(tap, jobs)
        refusals(tap, jobs, programs[0])
    tap.end()


if __name__ == "__main__":
    main()
