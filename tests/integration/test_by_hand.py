"""The programs started by hand rather than by `psring train`: keys from files, ranks asked for or given, the same hash.

usage: test_by_hand.py PSRING SCHEDULER SHARD WORKER"""

import json
import os
import re
import subprocess
import sys
import threading

from psring_run import Run, Tap, Workspace

PATIENCE_S = 60
OPTIONS = {"mode": "ps", "workers": 3, "shards": 2, "model": "mlp", "steps": 6, "batch-size": 16, "threads": 1, "seed": 11,
           "data": "synthetic:count=97,test=40,channels=1,size=28", "lr": 0.05, "bucket-size": 99968, "hash": True}


def options_of(options):
    return ["--" + key if value is True else "--%s=%s" % (key, value) for key, value in options.items()]


class Cluster:
    """Processes that this test started, each ended by its id whatever happens."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, command, **streams):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, **streams)
        self.processes.append(process)
        return process


def listen(process, lines):
    """Reads all that a process says; the first endpoint in it is waited for by endpoint_of."""
    found = threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line.rstrip())
            if re.search(r"listening endpoint=tcp://", line):
                found.set()
        found.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread, found


def run_by_hand(tap, programs, directory, name, keygen_options, asks_for_ranks):
    psring, scheduler, shard, worker = programs
    keys, out = os.path.join(directory, name + "-keys"), os.path.join(directory, name)
    made = subprocess.run([psring, "keygen", "--out", keys, "--workers", "3", "--shards", "2"] + keygen_options,
                          capture_output=True, text=True, timeout=PATIENCE_S)
    if not tap.ok(made.returncode == 0, name + ": keys are made", made.stderr.splitlines()):
        return
    key = lambda who: os.path.join(keys, who + ".key")
    lines = []
    with Cluster() as cluster:
        head = cluster.start([scheduler, "--key-file", key("scheduler-0"), "--out", out] + options_of(OPTIONS))
        thread, found = listen(head, lines)
        found.wait(PATIENCE_S)
        endpoint = re.search(r"listening endpoint=tcp://(\S+)", "\n".join(lines))
        if not tap.ok(endpoint, name + ": the scheduler says where it listens", lines):
            return
        at = ["--scheduler", endpoint.group(1)]
        # In an order that is not that of the ranks.
        members = []
        for program, who, rank in [(worker, "worker", 2), (shard, "shard", 1), (worker, "worker", 0), (shard, "shard", 0),
                                   (worker, "worker", 1)]:
            wanted = ["--rank", str(rank)] if asks_for_ranks else []
            members.append(cluster.start([program, "--key-file", key("%s-%d" % (who, rank))] + at + wanted))
        statuses, said = [], []
        for process in members:
            try:
                said += process.communicate(timeout=PATIENCE_S)[0].splitlines()[-3:]
            except subprocess.TimeoutExpired:
                said.append("(still there after %d s)" % PATIENCE_S)
            statuses.append(process.poll())
        try:
            statuses.append(head.wait(PATIENCE_S))
        except subprocess.TimeoutExpired:
            statuses.append(None)
        thread.join(PATIENCE_S)
        tap.ok(statuses == [0] * 6, name + ": all six processes end with status 0", [str(statuses)] + said + lines[-10:])
    try:
        with open(os.path.join(out, "run.json")) as text:
            return json.load(text)["outcome"]["hash"]
    except (OSError, KeyError, ValueError) as wrong:
        tap.ok(False, name + ": run.json has the outcome", [repr(wrong)])


def refusals(tap, worker, directory):
    open_key = os.path.join(directory, "open.key")
    with open(open_key, "w") as file:
        file.write("{}\n")
    os.chmod(open_key, 0o644)
    for arguments, word in [([], "--scheduler"), (["--scheduler", "127.0.0.1:1"], "--key-file"),
                            (["--provision", "-", "--rank", "1"], "--provision"), (["--rank", "minus"], "--rank"),
                            (["--ranc", "1"], "--rank"), (["extra"], "options alone"),
                            (["--scheduler", "127.0.0.1:1", "--key-file", "/nonexistent.key"], "/nonexistent.key"),
                            (["--scheduler", "127.0.0.1:1", "--key-file", open_key], open_key),
                            (["--provision", "-"], "standard input")]:
        ended = subprocess.run([worker] + arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=PATIENCE_S)
        lines = ended.stderr.splitlines()
        tap.ok(ended.returncode == 2 and len(lines) == 1 and word in lines[0] and not ended.stdout,
               "psring-worker %s: one line that names what is wrong, status 2" % " ".join(arguments).replace(directory, ""),
               ["status %d" % ended.returncode] + lines)


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap = Tap()
    with Workspace() as directory:
        launched = Run(programs[0], directory, "launched", OPTIONS)
        if tap.ok(launched.status == 0, "psring train ends with status 0", launched.why()):
            right = launched.outcome()["hash"]
            for name, keygen_options, asks in [("curve", [], False), ("token", ["--loopback"], True)]:
                found = run_by_hand(tap, programs, directory, name, keygen_options, asks)
                tap.ok(found == right, name + ": the hash is that of psring train", [str((found, right))])
        refusals(tap, programs[3], directory)
    tap.end()


if __name__ == "__main__":
    main()
