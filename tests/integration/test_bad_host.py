#!/usr/bin/env python3
"""A host is believed about itself alone, and however much it says, launcher and agent do what they
are told.

usage: test_bad_host.py PSRING FLOOD

The launcher meets tests/integration/bad_host.py in place of ssh; the agent meets a worker that
never stops printing."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial

from psring_live import Live, LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, together

OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 2, "batch-size": 16, "steps": 6, "lr": 0.05,
           "threads": 1, "seed": 3, "deadline": 600, "mode": "ring"}
BAD_HOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bad_host.py")

# What the line says of host bad, all of it.
VIOLATIONS = {
    "hello-twice": r"its agent said hello twice",
    "no-cores": r"its agent does not say how many cores it has",
    "a-name-for-an-address": r"its agent says that \"launcher_address\" is 'eth0', which is no address of one host",
    "a-terminal-command-for-an-address": r"its agent says that \"address\" is '\?\]0;owned\?', which is no address of one host",
    "a-terminal-command-behind-an-address": r"its agent says that \"address\" is '127\.0\.0\.1%\?\[2J', which is no address of one host",
    "all-interfaces": r"its agent says that \"address\" is '0\.0\.0\.0', which is no address of one host",
    "sees-us-at-all-interfaces": r"its agent says that \"launcher_address\" is '::', which is no address of one host",
    "many-hosts": r"its agent says that \"address\" is '224\.0\.0\.1', which is no address of one host",
    "loopback-from-elsewhere": r"its agent says that it was reached at '127\.0\.0\.1' from '192\.0\.2\.1', and one of them is this host's own alone",
    "no-event": r"its agent sent a line that is not an event: 'what is an event\? \?\[2J\?\?'",
    "speaks-too-early": r"its agent speaks for processes that nobody asked it to start",
    "blames-another-host": r"its agent speaks for worker 0, which is not placed there",
    "forges-a-line": r"its agent speaks for worker 0, which is not placed there",
    "speaks-for-the-scheduler": r"its agent speaks for scheduler 0, which is not placed there",
    "invents-ranks": r"its agent speaks for worker 2, which is not placed there",
    "half-a-rank": r"its agent speaks for a process without a role or rank",
    "no-stream": r"its agent sent a process's line without a text or stream",
}
# What need be no lie, and cannot be used.
USELESS = {
    "on-its-own-loopback": r"host bad is another machine, and says that ssh reached it at 127\.0\.0\.1, which is its own alone; name the "
                           r"interface with --interface",
    "sees-us-at-anothers-address": r"host bad sees this machine at an address that this machine does not have; name one of its interfaces with --interface: interface "
                                   r"192\.0\.2\.1: this machine has none .*",
}
# How many Ctrl-C the launcher needs while the flood goes on, and what it tells then.
FLOODS = {
    "flood-of-greetings": (1, r"psring train: interrupted"),
    "flood-of-lines": (1, r"psring train: stopped before the first step, as told"),
    # before its worker is started, or after
    "flood-of-errors": (1, r"psring train: (interrupted|stopped before the first step, as told)"),
    "flood-of-hellos": (0, r"psring train: host bad: its agent said hello twice"),
}


class Fifo:
    """Where a flood tells that it goes on."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def wait(self):
        return bool(select.select([self.fd], [], [], PATIENCE_S)[0]) and os.read(self.fd, 1) == b"x"

    def close(self):
        os.close(self.fd)


class Launcher:
    def __init__(self, psring, flood, directory):
        self.psring, self.flood, self.directory = psring, flood, directory
        self.hostfile = os.path.join(directory, "hosts")
        with open(self.hostfile, "w") as file:
            file.write("localhost slots=1\nbad slots=1\n")
        self.version = subprocess.run([psring, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    def train(self, what, fifo):
        ssh = " ".join(["python3", BAD_HOST, what, self.version, self.flood, fifo])
        return LiveRun(self.psring, self.directory, what, dict(OPTIONS, hostfile=self.hostfile, ssh=ssh))

    def violation(self, tap, what, pattern, ends_with=3):
        run = self.train(what, "none")
        try:
            status = run.wait(PATIENCE_S)
            said = run.text("err")
            tap.ok(status == ends_with, "%s: the run ends with status %d" % (what, ends_with), run.why())
            tap.ok(len(said) == 1 and re.fullmatch("psring train: " + ("host bad: " if ends_with == 3 else "") + pattern, said[0]),
                   "%s: one line names the host and what its agent did" % what, run.why())
            tap.ok(not os.path.exists(run.out), "%s: no run directory is left" % what)
        finally:
            left = run.kill()
        tap.ok(not left, "%s: nothing is left running" % what, [str(left)])
        return said[0] if said else ""

    def chatter(self, tap, what, interrupts, pattern):
        fifo = Fifo(os.path.join(self.directory, what + ".fifo"))
        run = self.train(what, fifo.path)
        try:
            good = interrupts == 0 or tap.ok(fifo.wait(), "%s: it goes on" % what, run.why())
            if good and interrupts > 0:
                run.process.send_signal(signal.SIGINT)
            status = run.wait(PATIENCE_S) if good else None
            tap.ok(status == (130 if interrupts else 3), "%s: %d Ctrl-C end the run while it goes on" % (what, interrupts), run.why())
            tap.ok(any(re.search(pattern, line) for line in run.text("err")), "%s: and that is told" % what, run.why())
            tap.ok(not any("\x1b" in line for line in run.text("err") + run.text("out")), "%s: no terminal is told anything" % what)
        except AssertionError as wrong:
            tap.ok(False, what, [repr(wrong)] + run.why())
        finally:
            left = run.kill()
            fifo.close()
        tap.ok(not left, "%s: nothing is left running" % what, [str(left)])


class Agent:
    """psring agent beside a psring-worker that is our own."""

    def __init__(self, psring, flood, directory):
        self.flood, self.directory = flood, directory
        self.psring = os.path.join(directory, "psring")
        shutil.copy(psring, self.psring)

    def make_worker(self, script):
        path = os.path.join(self.directory, "psring-worker")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)

    def start(self, name, reads):
        unread, out = (None, None) if reads else os.pipe()
        live = Live([self.psring, "agent"], self.directory, name, stdin=subprocess.PIPE, out=out)
        if out is not None:
            os.close(out)
        return live, unread

    @staticmethod
    def send(live, **command):
        live.process.stdin.write(json.dumps(command) + "\n")
        live.process.stdin.flush()

    def obeys(self, tap, way, reads):
        name = "agent, %s, %s" % (way, "whose launcher reads" if reads else "whose launcher does not read")
        fifo = Fifo(os.path.join(self.directory, name.replace(" ", "-") + ".fifo"))
        self.make_worker("exec '%s' 1 chatter '%s'\n" % (self.flood, fifo.path))
        live, unread = self.start(name.replace(" ", "-"), reads)
        try:
            self.send(live, op="begin", deadline_s=1000)
            self.send(live, op="spawn", role="worker", rank=0, provision={})
            if reads:
                tap.ok(fifo.wait(), "%s: its worker prints without end" % name, live.why())
            else:
                tap.ok(bool(select.select([unread], [], [], PATIENCE_S)[0]), "%s: its worker prints without end" % name)
            if way == "end":
                self.send(live, op="end", grace_ms=0)
            elif way == "SIGTERM":
                live.process.send_signal(signal.SIGTERM)
            else:
                live.process.stdin.close()
            status = live.wait(PATIENCE_S)
            tap.ok(status == (0 if way == "end" else 1), "%s: it ends its worker, and itself, all the same" % name, [str(status)])
        finally:
            left = live.kill()
            fifo.close()
            if unread is not None:
                os.close(unread)
            if not live.process.stdin.closed:
                try:
                    live.process.stdin.close()
                except OSError:
                    pass
        tap.ok(not left, "%s: nothing is left running" % name, [str(left)])

    def refuses(self, tap, name, command, pattern):
        """Nothing of what is run is the launcher's to say."""
        ran = os.path.join(self.directory, "ran")
        self.make_worker("echo worker; read line\n")
        live, _ = self.start("refuses-" + name, True)
        try:
            self.send(live, op="begin", deadline_s=1000)
            for each in command(ran):
                self.send(live, **each)
            if pattern:
                status = live.wait(PATIENCE_S)
                tap.ok(status == 3 and any(re.search(pattern, line) for line in live.text("err")), "agent, %s: refused" % name, live.why())
            else:
                line = live.wait_line('"event":"line"', PATIENCE_S)
                tap.ok('"text":"worker"' in line, "agent, %s: it runs its own worker" % name, live.why())
            tap.ok(not os.path.exists(ran), "agent, %s: what the launcher named was not run" % name)
        except (AssertionError, BrokenPipeError) as wrong:
            tap.ok(False, "agent, " + name, [repr(wrong)] + live.why())
        finally:
            left = live.kill()
            try:
                live.process.stdin.close()
            except OSError:
                pass
        return left


REFUSALS = {
    "another program": (lambda ran: [dict(op="spawn", role="worker", rank=0, program="/bin/touch", args=[ran], provision={})], None),
    "a role that is none": (lambda ran: [dict(op="spawn", role="touch", rank=0, provision={})], "neither a worker nor a shard"),
    "a scheduler": (lambda ran: [dict(op="spawn", role="scheduler", rank=0, provision={})], "neither a worker nor a shard"),
    "a worker twice": (lambda ran: 2 * [dict(op="spawn", role="worker", rank=0, provision={})], "second spawn command for worker 0"),
    "two beginnings": (lambda ran: [dict(op="begin", deadline_s=1000)], "began a second time"),
    "no provision": (lambda ran: [dict(op="spawn", role="worker", rank=0)], "without a provision"),
}


def report_of_a_hostile_run(tap, psring, directory):
    """Somebody else's run.json: what a terminal would obey is refused, and not shown."""
    for name, text in (("ESC", "\x1b]0;owned\x07"), ("C1", "\x9b2J")):
        run = os.path.join(directory, "run-" + name)
        os.mkdir(run)
        with open(os.path.join(run, "run.json"), "w") as file:
            json.dump({"version": "0.1.0", "config": {"mode": "ps"}, "outcome": {"status": "ok", "line": text, "hash": text}}, file)
        said = subprocess.run([psring, "report", run], capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok("holds control characters" in said.stdout + said.stderr, "report: a run.json with %s is told" % name,
               [said.stdout, said.stderr])
        tap.ok(not re.search("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]", said.stdout + said.stderr), "report: and no terminal is told anything")


def main():
    psring, flood = (os.path.abspath(program) for program in sys.argv[1:3])
    only = sys.argv[3:]
    tap, rows = Tap(), []
    can_do = subprocess.run([sys.executable, BAD_HOST], capture_output=True, text=True, check=True).stdout.split()
    tap.ok(sorted(can_do) == sorted([*VIOLATIONS, *USELESS, *FLOODS]), "all that bad_host can do is done",
           [str(set(can_do) ^ {*VIOLATIONS, *USELESS, *FLOODS})])
    with Workspace() as directory:
        launcher, parts = Launcher(psring, flood, directory), []

        def violation(tap, what, pattern, ends_with=3):
            rows.append("%-34s %s" % (what, launcher.violation(tap, what, pattern, ends_with)))

        def agent():
            return Agent(psring, flood, tempfile.mkdtemp(dir=directory))

        for what, pattern in VIOLATIONS.items():
            if not only or what in only:
                parts.append(partial(violation, what=what, pattern=pattern))
        for what, pattern in USELESS.items():
            if not only or what in only:
                parts.append(partial(violation, what=what, pattern=pattern, ends_with=2))
        for what, (interrupts, pattern) in FLOODS.items():
            if not only or what in only:
                parts.append(partial(launcher.chatter, what=what, interrupts=interrupts, pattern=pattern))
        if not only or "report" in only:
            parts.append(partial(report_of_a_hostile_run, psring=psring, directory=directory))
        if not only or "agent" in only:
            parts += [partial(agent().obeys, way=way, reads=reads) for way in ("end", "SIGTERM", "closed input") for reads in (True, False)]
            parts += [partial(agent().refuses, name=name, command=command, pattern=pattern)
                      for name, (command, pattern) in REFUSALS.items()]
        together(tap, parts)
    for row in sorted(rows):
        print("# " + row)
    tap.end()


if __name__ == "__main__":
    main()
