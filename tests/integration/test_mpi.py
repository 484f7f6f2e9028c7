"""--mode mpi: workers that mpirun started sum by MPI. Losses come near those of the ring, all ranks
have the same bits, and whoever dies or stops is named and ends the run.

usage: test_mpi.py MPIRUN PSRING SCHEDULER WORKER [gpu]

gpu: on a GPU that the processor plays; PSRING is the one beside which it lies, WORKER
psring-worker-cuda."""

import json
import os
import signal
import struct
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace, join_thread
from test_by_hand import Cluster, endpoint_of, listen, options_of
from test_tensor_norms import TENSORS, read

# 97 samples: in the third step of an epoch only rank 0 has one, and the others' buckets become
# ready in another order.
OPTIONS = {"mode": "mpi", "workers": 3, "model": "mlp", "steps": 12, "batch-size": 16, "threads": 1, "seed": 11,
           "data": "synthetic:count=97,test=40,channels=1,size=28", "lr": 0.05, "bucket-size": 99968, "hash": True}
# How far a loss of these runs may be from the ring's, relative to it: twelve steps of rounding in
# another order.
TOLERANCE = 1e-4
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"


class MpiRun:
    """A scheduler by hand, and workers of one mpirun; mpirun: how it is called, [] for workers that
    are started without one."""

    def __init__(self, cluster, programs, directory, name, mpirun, options):
        psring, scheduler, worker = programs
        keys = os.path.join(directory, name + "-keys")
        self.out = os.path.join(directory, name)
        self.workers = options["workers"]
        subprocess.run([psring, "keygen", "--out", keys, "--workers", str(self.workers), "--shards", "0", "--loopback"], check=True,
                       capture_output=True, timeout=PATIENCE_S)
        self.head_lines, self.lines = [], []
        self.head = cluster.start([scheduler, "--key-file", os.path.join(keys, "scheduler-0.key"), "--out", self.out] + options_of(options))
        self.head_thread, found = listen(self.head, self.head_lines)
        endpoint = endpoint_of(found, self.head_lines)
        # MPI's own sessions lie in TMPDIR; a sanitizer would tell what MPI never gives back.
        env = dict(os.environ, TMPDIR=directory, ASAN_OPTIONS="detect_leaks=0", WORKER=worker, KEYS=keys,
                   SCHEDULER=endpoint[1] if endpoint else "")
        start = "exec \"$WORKER\" --scheduler \"$SCHEDULER\" --key-file \"$KEYS/worker-%s.key\" --rank %s"
        if mpirun:
            commands = [mpirun + ["-n", str(self.workers), "sh", "-c", start % (RANK, RANK)]]
        else:
            commands = [["sh", "-c", start % (rank, rank)] for rank in range(self.workers)]
        self.members = [cluster.start(command, env=env) for command in commands]
        self.threads = [listen(process, self.lines)[0] for process in self.members]

    def wait(self):
        """Exit statuses: of the workers' starts, and the scheduler's. None: still there."""
        statuses = []
        for process in self.members + [self.head]:
            try:
                statuses.append(process.wait(PATIENCE_S))
            except subprocess.TimeoutExpired:
                statuses.append(None)
        for thread in self.threads + [self.head_thread]:
            join_thread(thread, "what a start says")
        return statuses

    def ended(self, statuses, status):
        """Whether both ended with that status. Open MPI's mpirun is forgiven if it breaks when the
        job has ended: on a busy machine 4.1.4 has died in its PMIx_server_finalize, of a
        segmentation fault."""
        broke = statuses[0] == -signal.SIGSEGV and any("PMIx_server_finalize" in line for line in self.lines)
        return statuses[1:] == [status] and (statuses[0] == status or broke)

    def why(self, statuses):
        return ["statuses %s" % statuses] + self.head_lines[-12:] + self.lines[-25:]

    def metrics(self):
        with open(os.path.join(self.out, "metrics.jsonl")) as lines:
            return [json.loads(line) for line in lines]


def losses(metrics):
    return {(line["step"], line["rank"]): line["loss"] for line in metrics}


def near(one, other):
    return (one is None) == (other is None) and (one is None or abs(one - other) <= TOLERANCE * abs(other))


def compare_norms(tap, name, run, ring, steps):
    """--tensorboard-norms: of each tensor's weights and gradient."""
    found, right = ({at: struct.unpack("<f", value)[0] for at, value in read(one).items()} for one in (run, ring))
    far = ["%s: %s, ring %s" % (at, found.get(at), right[at]) for at in sorted(right) if not near(found.get(at), right[at])]
    tap.ok(not far and len(found) == len(right) == 2 * len(TENSORS) * steps,
           name + ": every norm of a tensor is within %g of the ring's" % TOLERANCE, far + ["%d and %d norms" % (len(found), len(right))])


def compare(tap, programs, directory, mpirun, name, options):
    ring = Run(programs[0], directory, name + "-ring", dict(options, mode="ring"))
    if not tap.ok(ring.status == 0, name + ": a ring beside it ends with status 0", ring.why()):
        return
    with Cluster() as cluster:
        run = MpiRun(cluster, programs, directory, name, mpirun, options)
        statuses = run.wait()
    if not tap.ok(run.ended(statuses, 0), name + ": mpirun and scheduler end with status 0", run.why(statuses)):
        return
    found, right = losses(run.metrics()), losses(ring.metrics())
    far = ["%s: %s, ring %s" % (at, found.get(at), right[at]) for at in sorted(right) if not near(found.get(at), right[at])]
    tap.ok(not far and len(found) == len(right) == options["steps"] * options["workers"],
           name + ": every loss is within %g of the ring's" % TOLERANCE, far)
    tap.ok(any("--mode mpi: MPI sums in an order of its own" in line for line in run.head_lines),
           name + ": that its bits are others is told at the start", run.head_lines)
    if "tensorboard-norms" in options:
        compare_norms(tap, name, run, ring, options["steps"] // options["tensorboard-norms"])
    if "hash" not in options:
        return
    by_step = {}
    for line in run.metrics():
        by_step.setdefault(line["step"], set()).add(line["hash"])
    tap.ok(len(by_step) == options["steps"] and all(len(hashes) == 1 for hashes in by_step.values()),
           name + ": after every step all ranks have the same weights", [str(by_step)])


def sums(tap, programs, directory, mpirun):
    for name, more in [("sgd", {"tensorboard": True, "tensorboard-norms": 4}), ("lars", {"optimizer": "lars"}),
                       ("five", {"workers": 5, "batch-size": 8, "optimizer": "adam", "lr": 0.001}),
                       ("sync-bn", {"model": "resnet20", "data": "synthetic:count=49,test=40,channels=3,size=16", "steps": 4, "sync-bn": True,
                                    "batch-size": 8, "lr": 0.002, "bucket-size": 65600})]:
        compare(tap, programs, directory, mpirun, name, dict(OPTIONS, **more))


def on_gpus(tap, programs, directory, mpirun):
    """Without hashes nobody asks for the weights, so that passes make the updates. The last step
    has one sample."""
    options = dict(OPTIONS, workers=2, steps=5, device="cuda", **{"batch-size": 12, "update-on": "device", "no-eval": True})
    del options["hash"]
    compare(tap, programs, directory, mpirun, "gpu", options)


def a_stopped_worker_is_named(tap, programs, directory, mpirun):
    with Cluster() as cluster:
        run = MpiRun(cluster, programs, directory, "stopped", mpirun,
                     dict(OPTIONS, deadline=20, **{"fault-point": "worker:1:backward:3"}))
        statuses = run.wait()
    tap.ok(run.ended(statuses, 1), "a stopped worker ends the run: mpirun and scheduler with status 1", run.why(statuses))
    tap.ok(any("worker 1 on " in line and "no sign of life" in line for line in run.head_lines), "and is named", run.head_lines)


def a_worker_that_stops_before_mpi_has_begun_is_named(tap, programs, directory, mpirun):
    """The others are in MPI_Init then, which has no deadline."""
    with Cluster() as cluster:
        run = MpiRun(cluster, programs, directory, "early", mpirun, dict(OPTIONS, deadline=20, **{"fault-point": "worker:1:mpi-init:0"}))
        statuses = run.wait()
    tap.ok(run.ended(statuses, 1), "a worker that stops before MPI has begun ends the run", run.why(statuses))
    tap.ok(any("worker 1 on " in line and "no sign of life" in line for line in run.head_lines), "and is named too", run.head_lines)


def refusals(tap, programs, directory, mpirun):
    with Cluster() as cluster:
        run = MpiRun(cluster, programs, directory, "alone", [], OPTIONS)
        statuses = run.wait()
    wanted = "--mode mpi: this run has 3 workers, and MPI found 1 process; start them all by one mpirun -n 3 of the library"
    tap.ok(statuses[-1] == 2 and all(statuses), "workers that no mpirun started are refused with status 2", run.why(statuses))
    tap.ok(any(wanted in line for line in run.head_lines), "in a line that says what would be right", run.head_lines)
    told = subprocess.run([programs[0], "train", "--mode", "mpi", "--workers", "3", "--steps", "1", "--out", os.path.join(directory, "never")],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    tap.ok(told.returncode == 2 and len(told.stderr.splitlines()) == 1 and "mpirun -n 3 psring-worker --mode mpi" in told.stderr,
           "psring train says which command would be right", ["status %d" % told.returncode, told.stderr])


def it_is_measured_beside_the_ring(tap, programs, directory, mpirun):
    """psring bench train tells Open MPI the hosts."""
    out = os.path.join(directory, "bench.jsonl")
    options = {key: value for key, value in OPTIONS.items() if key not in ("mode", "workers", "hash", "batch-size")}
    done = subprocess.run([programs[0], "bench", "train", *options_of(dict(options, steps=4)), "--batch-size=8", "--mode=ring,mpi", "--repetitions=1",
                           "-Hlocalhost:2", "--mpirun", " ".join(mpirun), "--out", out], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S)
    records = []
    if os.path.exists(out):
        with open(out) as lines:
            records = [json.loads(line) for line in lines][1:]
    tap.ok(done.returncode == 0 and [record["configuration"] for record in records] == ["ring", "mpi"] and
           all(record["status"] == "done" and record["steps"] == 4 for record in records), "psring bench train measures mpi beside the ring",
           [done.stdout[-2000:], done.stderr])
    tap.ok(len(records) == 2 and records[1]["step_bytes"] is None and sum(host["workers"] for host in records[1]["placement"]["hosts"]) == 2,
           "with a worker for each slot of the host, and no bytes that nobody has counted", [str(records)])


def main():
    mpirun, programs = sys.argv[1], [os.path.abspath(program) for program in sys.argv[2:5]]
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=PATIENCE_S).stdout.splitlines()[0]
    print("# %s: %s" % (mpirun, version))
    command = [mpirun]
    if "Open MPI" in version or "OpenRTE" in version:
        command += ["--oversubscribe", "--bind-to", "none"] + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
    tap = Tap()
    with Workspace() as directory:
        parts = (on_gpus,) if sys.argv[5:] == ["gpu"] else (sums, a_stopped_worker_is_named, a_worker_that_stops_before_mpi_has_begun_is_named, refusals)
        for part in parts:
            part(tap, programs, directory, command)
        if sums in parts and "--oversubscribe" in command:  # of Open MPI
            it_is_measured_beside_the_ring(tap, programs, directory, command)
    tap.end()


if __name__ == "__main__":
    main()
