"""Runs of psring for integration tests: starts `psring train`, bounds its time, reads what it left behind.

Python's standard library alone. Every process is started in a group of its own and ended by its id; every run has
a directory of its own, removed with the object that made it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile


class Run:
    """One `psring train` and its run directory. options: a dict of long option names (True: a flag)."""

    def __init__(self, psring, directory, name, options, timeout_s=120):
        self.name = name
        self.out = os.path.join(directory, name)
        self.options = dict(options)
        self.command = [psring, "train", "--out", self.out]
        for key, value in options.items():
            self.command.append("--" + key if value is True else "--%s=%s" % (key, value))
        self.status, self.stdout, self.stderr = self._run(timeout_s)

    def _run(self, timeout_s):
        process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # All that it started ends with it: that is what psring promises, and what its group makes sure of.
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

    def with_algorithms(self, options):
        """options, and what this run's rank 0 picked by timing: a run that is to have the same bits takes it from there."""
        try:
            with open(os.path.join(self.out, "run.json")) as text:
                picked = json.load(text)["config"].get("algorithms", "")
        except (OSError, ValueError, KeyError):
            picked = ""  # it failed, which its own test tells
        return dict(options, algorithms=picked) if picked else dict(options)

    def outcome(self):
        with open(os.path.join(self.out, "run.json")) as text:
            return json.load(text)["outcome"]


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

    def end(self):
        print("1..%d" % self.count)
        sys.exit(1 if self.failed else 0)


class Workspace:
    """with Workspace() as directory: a fresh directory, removed at the end."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="psring-test-")
        return self.path

    def __exit__(self, *unused):
        shutil.rmtree(self.path, ignore_errors=True)
