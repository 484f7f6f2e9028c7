#!/usr/bin/env python3
"""What may wait for who does not read is bounded: a member that asks without end and reads nothing
is named, or costs nothing; one that is slow and honest is waited for.

usage: test_unread.py BAD-MEMBER BAD-RANK RANK PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER [all]

Worker 0 is tests/integration/bad_member.c (its floods: bad_flood.c), or rank 1 of a program is
greedy_rank.c. The memory of all others is looked at until they have ended."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from psring_live import Live, LiveRun, marked, read_bytes
from psring_run import PATIENCE_S, Results, Run, Tap, Workspace, is_sanitized

MIB = 1 << 20
OPTIONS = {"mode": "ps", "sync": "async", "model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 1,
           "batch-size": 16, "steps": 6, "lr": 0.05, "threads": 1, "seed": 3, "bucket-size": "4M", "deadline": 600}
# A worker of libpsr_net lets its kernel and at most 512 messages of its inbox fill; then what it is
# sent stays with the sender. its part of 3 MiB, an answer for each slice of that, eight of 512 KiB
# that may be leaving, what the kernel does not take (net/zmq/sockets.h), and room for libraries
SHARD_MORE = 32 * MIB
# 4096 messages of at most 1 KiB wait for a rank, or one ALIVE; and 512 of what it says are read
# ahead.
SCHEDULER_MORE = 12 * MIB
RANK_MORE = 16 * MIB  # 256 copies of 16 KiB, and heads

TRAINING = {  # what it does: the line
    "pull-a-slice-again": r"shard 0 on \S+: .*worker 0 sent PULL .*it has pulled the slice before, and has not taken the answer, number 1$",
    "pull-as-if-it-had-read": r"shard 0 on \S+: .*worker 0 does not read what it asks for: \d+ messages wait for it",
    "report-without-end": r"worker 0 sent PROGRESS.*its phase is 99: 12 is the most",
}
PROGRAMS = {
    "report-without-end": r"worker 1 sent PROGRESS.*its phase is 99: 12 is the most",
    "find-without-end": r"worker 1 sent FINDING.*: 4096 messages wait for rank 1 already",
    "shrink-without-end": r"worker 1 sent SHRINK.*: 4096 messages wait for rank 1 already",
}


class Watch:
    """The most memory that processes have had, looked at until they have ended."""

    def __init__(self):
        self.peaks, self.over = {}, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.lives = []

    def begin(self, lives):
        self.lives = lives
        self.thread.start()

    def _run(self):
        while not self.over.wait(0.01):
            self.look()

    def look(self):
        for pid in [pid for life in self.lives for pid in marked(life.mark)]:
            # it may change by exec
            program = os.path.basename(read_bytes("/proc/%d/cmdline" % pid).split(b"\0")[0].decode(errors="replace"))
            match = re.search(rb"VmHWM:\s+(\d+) kB", read_bytes("/proc/%d/status" % pid))
            if match:
                self.peaks[program] = max(int(match.group(1)) * 1024, self.peaks.get(program, 0))

    def of(self, role):
        return self.peaks.get({"scheduler": "psring-scheduler", "shard": "psring-ps"}[role], 0)

    def end(self):
        self.over.set()
        self.thread.join()


def mib(count):
    return "%.0f" % (count / MIB)


class Floods:
    def __init__(self, programs, directory):
        self.bad, self.greedy_rank, self.rank, self.psring, self.scheduler, self.shard, self.worker = programs
        self.directory = directory
        self.sanitized = is_sanitized(self.psring)
        run = Run(self.psring, directory, "honest", OPTIONS)
        self.facts = None
        if run.status == 0:
            with open(os.path.join(run.out, "run.json")) as text:
                self.facts = json.dumps(json.load(text)["facts"])
        self.why = run.why()

    def small(self, tap, name, role, before, peak, more):
        if not self.sanitized:
            tap.ok(0 < peak < before + more, "%s: the %s takes less than %s MiB more for it" % (name, role, mib(more)),
                   ["%s MiB before, %s at most" % (mib(before), mib(peak))])

    def train(self, case):
        what, transport = case
        tap, name = Results(), "%s-%s" % (what, transport)
        keys, out = os.path.join(self.directory, name + ".keys"), os.path.join(self.directory, name)
        options = dict(OPTIONS, transport=transport)
        over_tcp = transport == "tcp"
        subprocess.run([self.psring, "keygen", "--out", keys, "--workers", "1", "--shards", "1"] + ([] if over_tcp else ["--loopback"]),
                       check=True, stdout=subprocess.DEVNULL)
        key = lambda who: os.path.join(keys, who + ".key")
        lives, watch, row = [], Watch(), name
        try:
            head = Live([self.scheduler, "--key-file", key("scheduler-0"), "--out", out] + ["--%s=%s" % item for item in options.items()],
                        self.directory, name + "-scheduler")
            lives.append(head)
            endpoint = head.wait_line("listening endpoint=", PATIENCE_S).rsplit("endpoint=", 1)[1]
            at = ["--scheduler", re.sub("^tcp://", "", endpoint), "--key-file"]
            lives.append(Live([self.shard] + at + [key("shard-0"), "--rank", "0"], self.directory, name + "-shard"))
            head.wait_line(r"has joined[:,] 1 of 2", PATIENCE_S)
            watch.lives = lives[:2]
            watch.look()
            before = {role: watch.of(role) for role in ("scheduler", "shard")}
            watch.begin(lives[:2])
            bad = Live([self.bad, at[1], key("worker-0"), "0", self.facts, what], self.directory, name + "-bad", stdin=subprocess.PIPE)
            lives.append(bad)
            statuses = [live.wait(PATIENCE_S) for live in lives[:-1]]
            watch.end()
            said = [line for line in head.text("err") if " error " in line]
            why = [str(statuses)] + [line for live in lives for line in live.why()]
            tap.ok(statuses[0] == 3, "%s: the run ends with status 3" % name, why)
            tap.ok(len(said) == 1 and re.search(TRAINING[what], said[0]), "%s: one line names the worker and what it did" % name,
                   [TRAINING[what]] + said + why)
            for role in before:
                self.small(tap, name, role, before[role], watch.of(role), SHARD_MORE if role == "shard" else SCHEDULER_MORE)
            row += ": " + ", ".join("%s %s to %s MiB" % (role, mib(before[role]), mib(watch.of(role))) for role in before)
        except (AssertionError, OSError) as wrong:
            tap.ok(False, name, [repr(wrong)] + [line for live in lives for line in live.why()])
        finally:
            watch.over.set()
            left = [process for live in lives[:-1] for process in live.kill()]
            for live in lives[-1:]:
                live.kill()  # it reads nothing, its run's end neither
            tap.ok(not left, "%s: nothing is left running" % name, [str(left)])
        return tap, row

    def run(self, case):
        what, transport = case
        tap, name = Results(), "run-%s-%s" % (what, transport)
        words = [self.psring, "run", "-n", "2", "--deadline", "600"] + (["--transport", transport] if transport != "auto" else [])
        gate, opened = os.path.join(self.directory, name + ".gate"), -1
        os.mkfifo(gate)
        life = Live(words + [self.greedy_rank, what], self.directory, name, env=dict(os.environ, GREEDY_GATE=gate))
        watch, row = Watch(), name
        try:
            watch.begin([life])
            life.wait_until(lambda: watch.of("scheduler") > 0, PATIENCE_S)
            opened = os.open(gate, os.O_RDWR)  # which waits for nobody
            status = life.wait(PATIENCE_S)
            watch.end()
            said = life.text("err")
            tap.ok(status == 3, "%s: it ends with status 3" % name, life.why())
            tap.ok(any(re.search(PROGRAMS[what], line) for line in said), "%s: a line names the rank and what it did" % name,
                   [PROGRAMS[what]] + life.why())
            self.small(tap, name, "scheduler", 8 * MIB, watch.of("scheduler"), SCHEDULER_MORE)
            row += ": scheduler %s MiB" % mib(watch.of("scheduler"))
        except (AssertionError, OSError) as wrong:
            tap.ok(False, name, [repr(wrong)] + life.why())
        finally:
            watch.over.set()
            if opened >= 0:
                os.close(opened)
            left = life.kill()
            tap.ok(not left, "%s: nothing is left running" % name, [str(left)])
        return tap, row

    def broadcast(self, case):
        """A rank says that it may be sent without end, and reads nothing: who sends waits for it,
        until the deadline names it."""
        what, transport = case
        tap, name = Results(), "run-%s-%s" % (what, transport)
        life = Live([self.psring, "run", "-n", "2", "--deadline", "20", "--transport", transport, self.greedy_rank, what, self.rank, "broadcast"],
                    self.directory, name)
        peak = 0
        try:
            status = life.wait(PATIENCE_S)
            tap.ok(status not in (None, 0), "%s: it fails" % name, life.why())
            tap.ok(any(re.search(r"rank 1 on \S+: no sign of life", line) for line in life.text("err")), "%s: a line names the rank" % name,
                   life.why())
            said = [re.search(r"rank 0: at most (\d+) KiB", line) for line in life.text("out")]
            peak = max((int(match.group(1)) * 1024 for match in said if match), default=0)
            self.small(tap, name, "root", 8 * MIB, peak or 1 << 40, RANK_MORE)
        except (AssertionError, OSError) as wrong:
            tap.ok(False, name, [repr(wrong)] + life.why())
        finally:
            left = life.kill()
            tap.ok(not left, "%s: nothing is left running" % name, [str(left)])
        return tap, "%s: root %s MiB" % (name, mib(peak))

    def be_patient(self, case):
        """A worker that is stopped while the others go on, and goes on when they are through."""
        sync, transport = case
        tap, name = Results(), "slow-%s-%s" % (sync, transport)
        run = LiveRun(self.psring, self.directory, name, dict(OPTIONS, workers=2, sync=sync, transport=transport, steps=40,
                                                        # one epoch: no barrier
                                                        data="synthetic:count=2000,test=40,channels=1,size=28",
                                                        **{"no-eval": True, "fault-point": "worker:1:pull:2"}))
        try:
            run.wait_line("fault-point pull:2 reached", PATIENCE_S)
            held = run.member("worker", 1)
            held.wait_stopped()
            run.wait_until(lambda: run.last_step(0) == 40, PATIENCE_S)
            held.signal(signal.SIGCONT)
            tap.ok(run.wait(PATIENCE_S) == 0, "%s: a worker that was stopped for the whole run of the other is waited for" % name, run.why())
        except (AssertionError, OSError, KeyError, ValueError) as wrong:
            tap.ok(False, name, [repr(wrong)] + run.why())
        finally:
            left = run.kill()
            tap.ok(not left, "%s: nothing is left running" % name, [str(left)])
        return tap, name


def main():
    tap, rows = Tap(), []
    with Workspace() as directory:
        floods = Floods([os.path.abspath(program) for program in sys.argv[1:8]], directory)
        if not tap.ok(floods.facts, "an honest run", floods.why):
            tap.end()
        ways = ("tcp", "ipc", "shm")
        cases = [(play, (what, transport)) for play, whats in ((floods.train, TRAINING), (floods.run, PROGRAMS), (floods.broadcast, ["allow-without-end"]),
                                                               (floods.be_patient, ["async"])) for what in whats for transport in ways]
        if sys.argv[8:] != ["all"]:  # each over two of the three, which take turns
            cases = [case for i, case in enumerate(cases) if i % 3 != (i // 3 + 1) % 3]
        with ThreadPoolExecutor(2) as pool:
            for results, row in pool.map(lambda case: case[0](case[1]), cases):
                results.tell(tap)
                rows.append(row)
    if floods.sanitized:
        tap.skip("the memory of all that", "a sanitizer keeps what was freed")
    for row in rows:
        print("# " + row)
    tap.end()


if __name__ == "__main__":
    main()
