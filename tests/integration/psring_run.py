"""Runs of psring for integration tests: starts `psring train`, bounds its time, reads what it left
behind.

Python's standard library alone. Every process is started in a group of its own and ended by its id,
or with the test, however that ends (bench/outlived.py); every run has a directory of its own,
removed with the object that made it, or with the test."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import outlived  # noqa: E402

# with what takes seconds on an idle machine, before a test is given up: only a failure waits so
# long
PATIENCE_S = 300

outlived.begin()

# Runs hear a hang-up, also if the tests were started by nohup.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def over(transport, directory, workers):
    """Options of a run by that transport. auto: none. mixed: TCP between two hosts, which are both
    this machine, each with its agent and half of the workers, and shared memory within each."""
    if transport != "mixed":
        return {} if transport == "auto" else {"transport": transport}
    hostfile = os.path.join(directory, "two-hosts-%d" % workers)
    if not os.path.exists(hostfile):
        with tempfile.NamedTemporaryFile("w", dir=directory, delete=False) as file:
            file.write("localhost slots=%d\n127.0.0.1 slots=%d\n" % ((workers + 1) // 2, workers // 2))
        os.rename(file.name, hostfile)  # runs that begin beside this one look for it too
    return {"hostfile": hostfile, "interface": "lo", "transport": "auto"}


class Run:
    """One `psring train` and its run directory. options: a dict of long option names (True: a
    flag)."""

    def __init__(self, psring, directory, name, options, timeout_s=PATIENCE_S, env=None):
        self.name = name
        self.out = os.path.join(directory, name)
        self.options = dict(options)
        self.env = env
        self.command = [psring, "train", "--out", self.out]
        for key, value in options.items():
            self.command.append("--" + key if value is True else "--%s=%s" % (key, value))
        self.status, self.stdout, self.stderr = self._run(timeout_s)

    def _run(self, timeout_s):
        process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=self.env)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # All that it started ends with it: that is what psring promises, and what its group
            # makes sure of.
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            stderr += "\n(ended by the test after %d s)" % timeout_s
        return process.returncode, stdout, stderr

    def why(self):
        """For a failing test: what was run and what it said."""
        lines = ["$ " + " ".join(self.command), "exit status %d" % self.status]
        lines += self.stdout.splitlines()[-15:] + self.stderr.splitlines()[-15:]
        log = os.path.join(self.out, "log")
        for file in sorted(os.listdir(log)) if os.path.isdir(log) else []:
            with open(os.path.join(log, file), errors="replace") as text:
                lines += ["%s: %s" % (file, line.rstrip()) for line in text.readlines()[-5:]]
        return lines

    def metrics(self):
        with open(os.path.join(self.out, "metrics.jsonl")) as lines:
            return [json.loads(line) for line in lines]

    def hashes(self):
        """{step: hash}; a step whose ranks differ, or one that a rank lacks, raises."""
        by_step = {}
        for line in self.metrics():
            by_step.setdefault(line["step"], {})[line["rank"]] = line["hash"]
        ranks = set(range(int(self.options.get("workers", 1))))
        for step, of_rank in by_step.items():
            if set(of_rank) != ranks:
                raise AssertionError("step %d has metrics of ranks %s only" % (step, sorted(of_rank)))
            if len(set(of_rank.values())) != 1:
                raise AssertionError("step %d: ranks differ: %s" % (step, of_rank))
        return {step: of_rank[0] for step, of_rank in sorted(by_step.items())}

    def described(self):
        """What run.json says of the run."""
        with open(os.path.join(self.out, "run.json")) as text:
            return json.load(text)

    def outcome(self):
        return self.described()["outcome"]


def is_sanitized(program):
    """Whether it was built with -Db_sanitize=address: then memory that was freed is kept for a
    while."""
    with open(program, "rb") as binary:
        return b"__asan_init" in binary.read()


class Tap:
    """Counts tests and prints them in the Test Anything Protocol."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def ok(self, passed, name, why=()):
        self.count += 1
        self.failed += not passed
        print("%s %d - %s" % ("ok" if passed else "not ok", self.count, name), flush=True)
        for line in () if passed else why:
            print("#   " + line, flush=True)
        return passed

    def skip(self, name, why):
        self.count += 1
        print("ok %d - %s # SKIP %s" % (self.count, name, why), flush=True)

    def end(self):
        print("1..%d" % self.count)
        sys.exit(1 if self.failed else 0)


class Results(list):
    """Tests that are done beside others, to be told when their turn comes."""

    def ok(self, passed, name, why=()):
        self.append((bool(passed), name, list(why)))
        return passed

    def tell(self, tap):
        for result in self:
            tap.ok(*result)


def together(tap, parts, jobs=3):
    """Plays the parts, each a function of a tap, some at a time: they wait more than they work.
    Told in their order."""
    def play(part):
        results = Results()
        part(results)
        return results

    with ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(play, parts):
            results.tell(tap)


def free_port(beside=0):
    """One that nobody listens on here, nor at `beside` behind it. It is below those that the kernel
    gives to whoever asks for any, where it leaves some: so nobody gets it before it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as given:
        low, high = map(int, given.read().split())
    first, end = (low // 3, low) if low > 8192 else (low, high)
    while True:
        port = random.randrange(first, end - beside)
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + beside if beside else 0))
            except OSError:
                continue
            return port


def join_thread(thread, what, timeout_s=PATIENCE_S):
    """Waits for a thread that ends by itself: when what it reads is closed by all that had it."""
    thread.join(timeout_s)
    if thread.is_alive():
        raise AssertionError("%s: not over after %d s" % (what, timeout_s))


class Workspace:
    """with Workspace() as directory: a fresh directory, removed at the end."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix=outlived.name())
        return self.path

    def __exit__(self, *unused):
        shutil.rmtree(self.path, ignore_errors=True)
