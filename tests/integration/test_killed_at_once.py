"""A process of training that is killed is named at once, not when the deadline of 600 s tells:
under psring train, by its agent; started by hand, by the kernel, over TCP and over ipc sockets, and
over TCP as between hosts, where the kernel of one's host knows nothing of the other.

usage: test_killed_at_once.py PSRING SCHEDULER SHARD WORKER"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

from psring_live import Live, LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, free_port

DEADLINE_S = 600
FAR_S = 100  # a machine that is busy may take some of it; a deadline takes three quarters of 600 s

# More steps than are made until somebody is killed.
OPTIONS = {"model": "mlp", "data": "synthetic:count=8300,test=90,channels=1,size=28", "batch-size": 64, "steps": 1000000, "lr": 0.05,
           "seed": 7, "threads": 1, "deadline": DEADLINE_S, "checkpoint-every": 0}


def told_in_time(tap, what, seconds, said, pattern):
    tap.ok(seconds is not None and seconds < FAR_S, "%s: all end long before the deadline" % what,
           ["%s s" % seconds] + said[-10:])
    tap.ok(any(re.search(pattern, line) for line in said), "%s: it is named" % what, said[-20:])
    print("# %s: %.2f s of %d" % (what, seconds if seconds is not None else -1, DEADLINE_S))


def launched(tap, psring, directory):
    for mode, shards, role, rank in (("ps", 1, "worker", 1), ("ps", 1, "shard", 0), ("ring", 0, "worker", 2), ("ring", 0, "scheduler", 0)):
        what = "psring train --mode %s, %s %d is killed" % (mode, role, rank)
        run = LiveRun(psring, directory, "-".join((mode, role)), dict(OPTIONS, mode=mode, workers=3, **({"shards": shards} if shards else {})))
        try:
            run.wait_until(lambda: run.last_step() >= 1, PATIENCE_S)
            victim = run.of_role(role) if role == "scheduler" else run.member(role, rank)
            begin = time.monotonic()
            victim.signal(signal.SIGKILL)
            gone = run.wait_ended(PATIENCE_S)
            seconds = time.monotonic() - begin if gone is not None else None
            run.await_end()
            told_in_time(tap, what, seconds, run.text("out") + run.text("err"),
                         r"scheduler .*killed by signal 9" if role == "scheduler" else
                         r"%s %d on \S+ was lost: killed by signal 9" % (role, rank))
        finally:
            run.kill()


def hide_processes():
    """A free port, and a socket at the place beside it where processes of a scheduler's host say
    who they are (docs/wire.md, "Who lives"). While it is there they are as those of other hosts."""
    port = free_port()
    beside = socket.socket(socket.AF_UNIX)
    beside.bind("\0psring-end-%d" % port)
    return port, beside


class ByHand:
    """A scheduler and its members, each started by itself."""

    def __init__(self, programs, directory, name, transport, mode, far):
        self.psring, self.scheduler, self.shard, self.worker = programs
        self.directory, self.name, self.lives, self.hidden = directory, name, {}, None
        try:
            self.begin(transport, mode, far)
        except BaseException:
            self.kill()
            raise

    def begin(self, transport, mode, far):
        listening = []
        if far:
            port, self.hidden = hide_processes()
            listening = ["--port", str(port)]
        self.keys = os.path.join(self.directory, self.name + "-keys")
        shards = 1 if mode == "ps" else 0
        subprocess.run([self.psring, "keygen", self.keys, "--workers", "2", "--shards", str(shards)] +
                       (["--loopback"] if transport == "ipc" else []), check=True, capture_output=True, timeout=PATIENCE_S)
        options = dict(OPTIONS, transport=transport, mode=mode, workers=2, **({"shards": 1} if shards else {}))
        head = self.start(self.scheduler, "scheduler", 0, "--out", os.path.join(self.directory, self.name), *listening,
                          *("--%s=%s" % pair for pair in options.items()))
        at = re.search(r"endpoint=(?:tcp|ipc)://(\S+)", head.wait_line("listening endpoint=")).group(1)
        for program, role, count in ((self.shard, "shard", shards), (self.worker, "worker", 2)):
            for rank in range(count):
                self.start(program, role, rank, "--scheduler", at, "--rank", str(rank))
        steps = os.path.join(self.directory, self.name, "metrics.jsonl")
        head.wait_until(lambda: os.path.getsize(steps) > 0, PATIENCE_S)

    def start(self, program, role, rank, *words):
        who = "%s-%d" % (role, rank)
        live = Live([program, "--key-file", os.path.join(self.keys, who + ".key"), *words], self.directory, "%s-%s" % (self.name, who))
        self.lives[role, rank] = live
        return live

    def kill(self):
        if self.hidden is not None:
            self.hidden.close()
        return [process for live in self.lives.values() for process in live.kill()]


def by_hand(tap, programs, directory):
    for transport, mode, victim, far in (("tcp", "ps", ("worker", 1), False), ("ipc", "ring", ("worker", 1), False),
                                         ("tcp", "ps", ("shard", 0), False), ("tcp", "ring", ("scheduler", 0), False),
                                         ("ipc", "ps", ("scheduler", 0), False), ("tcp", "ring", ("worker", 1), True),
                                         ("tcp", "ps", ("scheduler", 0), True)):
        what = "by hand over %s%s, --mode %s, %s %d is killed" % ((transport, " as between hosts" if far else "", mode) + victim)
        run = ByHand(programs, directory, "-".join((transport, mode, victim[0], "far" if far else "here")), transport, mode, far)
        try:
            begin = time.monotonic()
            run.lives[victim].process.kill()
            statuses = {who: live.wait(PATIENCE_S) for who, live in run.lives.items()}
            seconds = time.monotonic() - begin if None not in statuses.values() else None
            others = [live for who, live in run.lives.items() if who != victim]
            said = [line for live in others for line in live.text("out") + live.text("err")]
            pattern = (r"the scheduler at \S+: its process has ended" if victim[0] == "scheduler" else
                       r"%s %d on \S+ was lost: its process has ended" % victim)
            told_in_time(tap, what, seconds, said, pattern)
            tap.ok(all(any(re.search(pattern, line) for line in live.text("out") + live.text("err")) for live in others) and
                   0 not in statuses.values(), what + ": by all that are left, and none ends well",
                   [str(statuses)] + [line for live in others for line in live.why()[-6:]])
        finally:
            run.kill()


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap = Tap()
    with Workspace() as directory:
        launched(tap, programs[0], directory)
        by_hand(tap, programs, directory)
    tap.end()


if __name__ == "__main__":
    main()
