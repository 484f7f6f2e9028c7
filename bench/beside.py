"""What the scripts that measure psring beside its peers share: parties called in turn, runs of
`psring train` read from their metrics, tables. What they start ends with them, however they end
(outlived.py). Python's standard library alone."""
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

import outlived

outlived.begin()
PEERS = pathlib.Path(__file__).resolve().parent / "peers"
CONGESTION = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
CALL_TIMEOUT_S = 900


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def print_machine():
    print("machine: %d x %s, Linux %s" % (os.cpu_count(), processor(), platform.release()))
    print("TCP congestion control: %s; load before: %.1f" % (CONGESTION.read_text().strip(), os.getloadavg()[0]))


def json_of(command, env=None):
    """Runs command, which prints one JSON object; ends this program with the command's own words
    when it fails."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=env, timeout=CALL_TIMEOUT_S)
    if done.returncode != 0:
        sys.exit("%s\nended with status %d:\n%s" % (" ".join(map(str, command)), done.returncode, done.stderr))
    return json.loads(done.stdout)


def json_of_ranks(arguments, program, folder, names):
    """What rank 0 of a PyTorch program of peers/ prints, whose ranks psring run starts with these
    of the arguments, and with servers as --shards says. They meet in the folder."""
    servers = ["--shards", arguments.shards] if "shards" in arguments else []
    command = [arguments.psring, "run", "-n", arguments.ranks, *servers, "--", arguments.python, PEERS / program, os.path.join(folder, "meeting")]
    for name in names:
        command += ["--" + name.replace("_", "-"), getattr(arguments, name)]
    packages = arguments.packages or os.path.join(os.path.dirname(os.path.abspath(arguments.psring)), "..", "python")
    return json_of(command, {**os.environ, "PYTHONPATH": packages, "OMP_NUM_THREADS": str(arguments.threads)})


def show_progress(text):
    """A line that the next one overwrites; nothing where nobody looks."""
    if sys.stderr.isatty():
        print("%-78s" % text, end="\r", file=sys.stderr, flush=True)


def alternate(parties, rounds):
    """Calls each of parties {name: function} once a round; {name: [what it returned]}. A round
    begins with another party than the one before it, so that none always follows the same."""
    results = {name: [] for name in parties}
    order = list(parties)

    for number in range(rounds):
        for name in order:
            show_progress("round %d of %d: %s" % (number + 1, rounds, name))
            results[name].append(parties[name]())
        order.append(order.pop(0))
    show_progress("")
    return results


def median_of(results, key):
    return statistics.median(result[key] for result in results)


# Open MPI's byte transfer layers, by what a table calls them.
OPEN_MPI = {"Open MPI, TCP": ["--mca", "btl", "tcp,self"],
            "Open MPI, shared memory": ["--mca", "btl", "vader,self"],
            "Open MPI, no single copy": ["--mca", "btl", "vader,self", "--mca", "btl_vader_single_copy_mechanism", "none"]}


def mpi_program(mpirun, folder):
    """The peer's program, compiled by the mpicc beside mpirun."""
    place = shutil.which(mpirun) or sys.exit("there is no %s" % mpirun)
    suffix = pathlib.Path(place).name.partition(".")[2]
    compiler = pathlib.Path(place).parent / ("mpicc" + ("." + suffix if suffix else ""))
    program = os.path.join(folder, "mpi_all_reduce")
    subprocess.run([compiler, "-O2", "-o", program, PEERS / "mpi_all_reduce.c"], check=True, timeout=CALL_TIMEOUT_S)
    return program


def mpi_command(mpirun, ranks, layer, program, rounds, sizes):
    """All-reduces of these bytes, so many rounds of each, on this machine's processors, however
    many ranks: each on a core of its own where there are enough."""
    binding = "core" if ranks <= os.cpu_count() else "none"
    return [mpirun, "-n", ranks, "--allow-run-as-root", "--oversubscribe", "--bind-to", binding, "--mca", "pml", "ob1", "--mca",
            "btl_tcp_if_include", "lo"] + OPEN_MPI[layer] + [program, rounds, 5] + sizes


def words(options):
    """Options as a command line has them; a flag's value is True."""
    return ["--" + key if value is True else "--%s=%s" % (key, value) for key, value in options.items()]


def train_command(psring, out, options):
    return [psring, "train", "--out", out] + words(options)


def train_by_mpirun(mpirun, psring, out, options):
    """psring-worker is beside psring, or in the build tree's folder."""
    folder = os.path.dirname(os.path.abspath(psring))
    workers = [os.path.join(folder, *more, "psring-worker") for more in ((), ("..", "worker"))]
    worker = next((path for path in workers if os.path.exists(path)), workers[0])
    return mpirun.split() + ["-n", str(options["workers"]), worker, "--out", out] + words(options)


def train(psring, options, skip, mpirun=None):
    """One `psring train`, or workers by mpirun; {step_s, images_per_s, wait_share, load_wait_share}
    of its steps after the first `skip` and before the last, which an evaluation follows: medians
    over steps, the shares by sums; mean or sum over ranks."""
    directory = tempfile.mkdtemp(prefix="psring-bench-")
    try:
        out = os.path.join(directory, "run")
        command = train_by_mpirun(mpirun, psring, out, options) if mpirun else train_command(psring, out, options)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=CALL_TIMEOUT_S)
        if done.returncode != 0:
            sys.exit("%s\nended with status %d:\n%s" % (" ".join(command), done.returncode, done.stderr))
        return step_figures(metrics_of(out), options["batch-size"], skip)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def metrics_of(out):
    """The lines of a run directory's metrics."""
    with open(os.path.join(out, "metrics.jsonl")) as lines:
        return [json.loads(line) for line in lines]


def step_figures(metrics, batch_size, skip):
    """What train() returns, of a run's metrics."""
    last = max(line["step"] for line in metrics)
    ranks = {}
    for line in metrics:
        if skip < line["step"] < last:
            line["step_s"] = batch_size / line["images_per_s"]
            ranks.setdefault(line["rank"], []).append(line)
    step_s = [statistics.median(line["step_s"] for line in lines) for lines in ranks.values()]
    total_s = sum(line["step_s"] for lines in ranks.values() for line in lines)
    return {
        "step_s": statistics.mean(step_s),
        "images_per_s": sum(batch_size / s for s in step_s),
        "wait_share": sum(line["wait_s"] for lines in ranks.values() for line in lines) / total_s,
        "load_wait_share": sum(line["load_wait_s"] for lines in ranks.values() for line in lines) / total_s,
    }


class Targets:
    """Lines that say what was reached of what was asked. end: exit status 1 when one was missed."""

    def __init__(self):
        self.missed = 0

    def at_least(self, what, value, bound):
        self._line(what, value >= bound, "%.2f" % value, "at least %.2f" % bound)

    def at_most(self, what, value, bound):
        self._line(what, value <= bound, "%.2f" % value, "at most %.2f" % bound)

    def _line(self, what, reached, value, bound):
        self.missed += not reached
        print("%-7s %-60s %6s  (%s)" % ("reached" if reached else "MISSED", what, value, bound))

    def end(self):
        sys.exit(1 if self.missed else 0)
