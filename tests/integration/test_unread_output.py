"""A person who does not read holds nobody up: the output of a run may stand still, in a pipe that
nobody reads and on a terminal that is stopped, for longer than its deadline; the run goes on, and
all that it said is there once somebody reads.

usage: test_unread_output.py PSRING"""

import fcntl
import os
import pty
import re
import signal
import sys
import termios
import threading

from psring_live import LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, join_thread, together

DEADLINE_S = 20.0  # a busy machine keeps it
SAID = 200  # lines, one for each step: more than a pipe or a terminal takes unread
PIPE_BYTES = 4096
OPTIONS = {"model": "convnet", "data": "synthetic:count=2000,test=4,channels=1,size=28", "batch-size": 4, "eval-every": 1,
           "threads": 1, "seed": 7, "deadline": DEADLINE_S, "workers": 2, "mode": "ring",
           "slow": "0:30"}  # waits, so that it computes less while nobody reads
# steps that no machine takes before the test ends the run, and that say less than what is kept for
# a reader: 1 MiB
ENDLESS = 10000


class Pipe:
    def __init__(self):
        self.reads, self.writes = os.pipe()
        fcntl.fcntl(self.writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def go_on(self):
        pass


class Terminal:
    """Stopped, as by Ctrl-S."""

    def __init__(self):
        self.reads, self.writes = pty.openpty()
        termios.tcflow(self.writes, termios.TCOOFF)
        self.ours = os.dup(self.writes)

    def go_on(self):
        termios.tcflow(self.ours, termios.TCOON)
        os.close(self.ours)


def read_all(fd, chunks):
    """A terminal ends with an error."""
    try:
        for chunk in iter(lambda: os.read(fd, 65536), b""):
            chunks.append(chunk)
    except OSError:
        pass


def others_end(run):
    """All but the launcher, which has something to say. That they have begun, its output would
    tell; instead run.json is looked at."""
    run.wait_until(lambda: "status" in run.json()["outcome"], PATIENCE_S)
    return run.wait_ended(PATIENCE_S, but=run.of_role("launcher")) is not None


def goes_on_unread(tap, psring, directory, name, channel):
    run = LiveRun(psring, directory, name, dict(OPTIONS, steps=ENDLESS), out=channel.writes)
    os.close(channel.writes)
    chunks = []
    reader = threading.Thread(target=read_all, args=(channel.reads, chunks))
    try:
        run.wait_until(lambda: run.last_step() >= SAID, PATIENCE_S)
        tap.ok(run.wait(1.2 * DEADLINE_S) is None, "%s: unread for longer than its deadline, it does not end" % name, run.why())
        then = run.last_step()
        run.wait_until(lambda: run.last_step() > then, PATIENCE_S)
        tap.ok(True, "%s: nor does it stand still" % name)
        run.of_role("launcher").signal(signal.SIGINT)
        tap.ok(others_end(run), "%s: told to end, all end but psring train" % name, run.why())
        outcome = run.json()["outcome"]
        steps = outcome["steps"]
        tap.ok(outcome["status"] == "cancelled" and then < steps < ENDLESS, "%s: in order" % name, [str(outcome)])
        tap.ok(run.process.poll() is None, "%s: psring train waits for somebody to read" % name, ["it has ended"])
        channel.go_on()
        reader.start()
        tap.ok(run.wait(PATIENCE_S) == 130, "%s: then it ends with status 130" % name, run.why())
        join_thread(reader, name)
        text = re.sub(r"\r(\033\[K)?|\[[#.]+\][^\n\033]*", "", b"".join(chunks).decode())
        told = [int(step) for step in re.findall(r"step (\d+): test accuracy", text)]
        # The evaluation that Ctrl-C found going on is left out.
        tap.ok(told in (list(range(1, steps + 1)), list(range(1, steps))) and "\nto go on " in text,
               "%s: nothing that it said is lost" % name,
               ["%d lines of %d steps" % (len(told), steps)] + text.splitlines()[:5] + text.splitlines()[-5:])
    except AssertionError as wrong:
        tap.ok(False, "%s: it goes on unread" % name, [repr(wrong)] + run.why())
    finally:
        tap.ok(not run.kill(), "%s: no process is left" % name)
        if reader.ident:
            join_thread(reader, name)
        os.close(channel.reads)


def gives_up_when_told(tap, psring, directory):
    """Here it comes to its end by itself, and all that is left to do is to say so."""
    channel = Pipe()
    run = LiveRun(psring, directory, "told", dict(OPTIONS, steps=SAID // 2), out=channel.writes)
    os.close(channel.writes)
    try:
        tap.ok(others_end(run), "unread again, the run ends", run.why())
        outcome = run.json()["outcome"]
        tap.ok(outcome["status"] == "ok" and outcome["steps"] == SAID // 2, "it has taken all its steps", [str(outcome)])
        launcher = run.of_role("launcher")
        # it knows that all have ended: no order to stop in order
        run.wait_until(lambda: not launcher.children(), PATIENCE_S)
        launcher.signal(signal.SIGTERM)
        status = run.wait(PATIENCE_S)
        tap.ok(status == 0, "a launcher with something to say that nobody reads ends when it is told to", ["status %s" % status])
    except AssertionError as wrong:
        tap.ok(False, "a launcher that is told to end", [repr(wrong)] + run.why())
    finally:
        tap.ok(not run.kill(), "and leaves no process")
        os.close(channel.reads)


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        together(tap, [lambda tap: goes_on_unread(tap, psring, directory, "pipe", Pipe()),
                       lambda tap: goes_on_unread(tap, psring, directory, "terminal", Terminal()),
                       lambda tap: gives_up_when_told(tap, psring, directory)])
    tap.end()


if __name__ == "__main__":
    main()
