"""A person who does not read holds nobody up: the output of a run may stand still, in a pipe that nobody reads and on a terminal that is
stopped, for longer than its deadline; the run goes on, and all that it said is there once somebody reads.

usage: test_unread_output.py PSRING"""

import fcntl
import os
import pty
import re
import signal
import sys
import termios
import threading
import time

from psring_live import LiveRun
from psring_run import Tap, Workspace

DEADLINE_S = 1.0
STEPS = 200  # each with a line of its own: more than a pipe or a terminal takes unread
PIPE_BYTES = 4096
OPTIONS = {"model": "convnet", "data": "synthetic:count=2000,test=16,channels=1,size=28", "batch-size": 20, "steps": STEPS, "eval-every": 1,
           "threads": 1, "seed": 7, "deadline": DEADLINE_S, "workers": 2, "mode": "ring"}
PATIENCE_S = 60


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
    """All but the launcher, which has something to say. That they have begun, its output would tell; instead run.json is looked at."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if "status" in run.json()["outcome"]:
                return run.wait_ended(PATIENCE_S, but=run.of_role("launcher")) is not None
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not there yet
        time.sleep(0.02)
    return False


def goes_on_unread(tap, psring, directory, name, channel):
    begin = time.monotonic()
    run = LiveRun(psring, directory, name, OPTIONS, out=channel.writes)
    os.close(channel.writes)
    chunks = []
    reader = threading.Thread(target=read_all, args=(channel.reads, chunks))
    try:
        ended, lasted = others_end(run), time.monotonic() - begin
        tap.ok(ended and lasted > 2 * DEADLINE_S, "%s: the run ends unread, after more than its deadline" % name, ["%.2f s" % lasted])
        outcome = run.json()["outcome"]
        tap.ok(outcome["status"] == "ok" and outcome["steps"] == STEPS, "%s: it has taken all its steps" % name, [str(outcome)])
        tap.ok(run.process.poll() is None, "%s: psring train waits for somebody to read" % name, ["it has ended"])
        channel.go_on()
        reader.start()
        tap.ok(run.wait(PATIENCE_S) == 0, "%s: then it ends with status 0" % name, run.why())
        reader.join(PATIENCE_S)
        text = re.sub(r"\r(\033\[K)?|\[[#.]+\][^\n\033]*", "", b"".join(chunks).decode())
        steps = [int(step) for step in re.findall(r"step (\d+): test accuracy", text)]
        tap.ok(steps == list(range(1, STEPS + 1)) and "\nwritten " in text, "%s: nothing that it said is lost" % name,
               text.splitlines()[:5] + text.splitlines()[-5:])
    finally:
        tap.ok(not run.kill(), "%s: no process is left" % name, [])
        if reader.ident:
            reader.join(PATIENCE_S)
        os.close(channel.reads)


def gives_up_when_told(tap, psring, directory):
    channel = Pipe()
    run = LiveRun(psring, directory, "told", dict(OPTIONS, **{"steps": STEPS // 2, "batch-size": 16}), out=channel.writes)
    os.close(channel.writes)
    try:
        tap.ok(others_end(run), "unread again, the run ends", run.why())
        # The first may reach it before it has heard of the end, and is then an order to stop in order.
        run.of_role("launcher").signal(signal.SIGTERM)
        status = run.wait(2)
        if status is None:
            run.of_role("launcher").signal(signal.SIGTERM)
            status = run.wait(2)
        tap.ok(status == 0, "a launcher with something to say that nobody reads ends when it is told to", ["status %s" % status])
    finally:
        tap.ok(not run.kill(), "and leaves no process", [])
        os.close(channel.reads)


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        goes_on_unread(tap, psring, directory, "pipe", Pipe())
        goes_on_unread(tap, psring, directory, "terminal", Terminal())
        gives_up_when_told(tap, psring, directory)
    tap.end()


if __name__ == "__main__":
    main()
