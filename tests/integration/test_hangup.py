"""A terminal that closes costs no run: it ends in order, with a checkpoint, however often it is
told so; and under nohup it goes on. A real terminal and a parent that does what an interactive
shell does (job_shell.py) make the signals.

usage: test_hangup.py PSRING"""

import os
import re
import shutil
import signal
import sys
import time
from functools import partial

from psring_live import LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, together
from terminal import Terminal

STEPS = 8
OPTIONS = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 16, "steps": STEPS, "lr": 0.05,
           "seed": 7, "threads": 1, "workers": 2, "no-eval": True, "deadline": 600}
SHELL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "job_shell.py")


class Job(LiveRun):
    """A run in the foreground of a terminal of its own. Its first process is the shell."""

    def __init__(self, psring, directory, name, options, before=()):
        self.terminal = Terminal(100)
        super().__init__(psring, directory, name, options,
                         before=[sys.executable, SHELL, os.ttyname(self.terminal.writes)] + list(before))

    def wait_logged(self, name, pattern):
        """A line in a process' log, which the run directory has within a moment."""
        end = time.monotonic() + PATIENCE_S
        while not any(re.search(pattern, line) for line in self.log(name)):
            if time.monotonic() > end:
                raise AssertionError("%s says nothing like '%s': %s" % (name, pattern, self.log(name)))
            time.sleep(0.02)

    def held(self):
        """Worker 1, stopped in its third step."""
        self.wait_until(lambda: any("fault-point forward:2 reached" in line for line in self.log("rank-1")), PATIENCE_S)
        worker = self.member("worker", 1)
        worker.wait_stopped()
        return worker

    def ended_with(self):
        match = re.match(r"ended (-?\d+)", self.wait_line(r"^ended ", PATIENCE_S))
        self.await_end()
        return int(match.group(1))

    def said(self):
        return self.log("scheduler")[-6:] + self.why() + self.terminal.text.splitlines()[-6:]

    def close(self):
        left = self.kill()
        os.close(self.terminal.writes)
        self.terminal.close()
        return left


def guarded(tap, name, job, play):
    try:
        play()
    except (AssertionError, OSError, ValueError, KeyError) as wrong:
        tap.ok(False, name, [repr(wrong)] + job.said())
    finally:
        tap.ok(not job.close(), "%s: no process is left" % name)


def closed(tap, psring, directory, mode, before):
    """before: a signal that the run has been told to end by before the terminal closes; None."""
    name = "%s, a terminal that closes%s" % (mode, " after %s" % before.name if before else "")
    job = Job(psring, directory, "closed-%s-%s" % (mode, before.name if before else "alone"),
              dict(OPTIONS, mode=mode, steps=1000000, **{"fault-point": "worker:1:forward:2"}))

    def play():
        worker = job.held()
        if before:
            job.of_role("launcher").signal(before)
            job.wait_logged("rank-0", "told to hold")
        job.terminal.hang_up()
        job.wait_line("^closed$", PATIENCE_S)
        job.wait_logged("rank-0", "told to hold")  # so the first signal has been taken
        job.process.send_signal(signal.SIGUSR2)
        job.process.send_signal(signal.SIGUSR2)
        worker.signal(signal.SIGCONT)
        tap.ok(job.ended_with() == 130, "%s: status 130" % name, job.said())
        outcome = job.json()["outcome"]
        folder = os.path.join(job.out, "checkpoints", "step-%d" % outcome["steps"])
        tap.ok(outcome["status"] == "cancelled" and outcome["steps"] >= 3 and os.path.isfile(os.path.join(folder, "state.safetensors")),
               "%s: the run has ended in order, with a checkpoint" % name, [str(outcome)] + job.said())

    guarded(tap, name, job, play)


def under_nohup(tap, psring, directory):
    name = "nohup"
    job = Job(psring, directory, name, dict(OPTIONS, mode="ring", **{"fault-point": "worker:1:forward:2"}), before=[shutil.which("nohup")])

    def play():
        worker = job.held()
        job.terminal.hang_up()
        job.wait_line("^closed$", PATIENCE_S)
        job.process.send_signal(signal.SIGUSR2)
        for process in job.processes():
            if process.role:
                process.signal(signal.SIGHUP)  # and nobody of the run minds
        worker.signal(signal.SIGCONT)
        tap.ok(job.ended_with() == 0, "nohup: a run goes on to its end", job.said())
        tap.ok(job.json()["outcome"]["steps"] == STEPS, "nohup: with all of its steps", job.said())

    guarded(tap, name, job, play)


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        parts = [partial(closed, mode=mode, before=before) for mode, before in (("ps", None), ("ring", None), ("ring", signal.SIGINT),
                                                                                ("ps", signal.SIGTERM))]
        parts.append(under_nohup)
        together(tap, [partial(part, psring=psring, directory=directory) for part in parts])
    tap.end()


if __name__ == "__main__":
    main()
