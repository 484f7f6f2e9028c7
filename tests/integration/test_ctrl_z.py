"""Ctrl-Z stops a whole run, and fg goes on with it: no deadline and no figure counts the time
between, and the weights are those of an undisturbed run. A real terminal and a parent that does
what a shell does (job_shell.py) make the signals.

usage: test_ctrl_z.py PSRING"""

import os
import re
import signal
import sys
import time
from functools import partial

from psring_live import LiveRun
from psring_run import PATIENCE_S, Run, Tap, Workspace, together
from terminal import Terminal

DEADLINE_S = 20.0  # a busy machine keeps it
# longer than the deadline: what is not stopped, and counts, is missed by then
STOPPED_S = 1.2 * DEADLINE_S
STEPS = 8
OPTIONS = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 16, "steps": STEPS, "lr": 0.05,
           "seed": 7, "threads": 1, "workers": 2, "eval-every": 3, "checkpoint-every": 2, "deadline": DEADLINE_S}
LONG = 1000000
SHELL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "job_shell.py")


class Job(LiveRun):
    """A run in the foreground of a terminal of its own. Its first process is the shell."""

    def __init__(self, psring, directory, name, options):
        self.terminal = Terminal(100)
        self.begun_s = time.monotonic()
        super().__init__(psring, directory, name, options,
                         before=[sys.executable, SHELL, os.ttyname(self.terminal.writes)])
        self.stops = 0

    def type(self, text):
        os.write(self.terminal.reads, text)

    def ctrl_z(self):
        self.type(b"\x1a")
        self.stops += 1
        with self.changed:
            if not self.changed.wait_for(lambda: len([line for _, line in self.lines if line == "stopped by SIGTSTP"]) == self.stops or
                                         self.open_streams == 0, PATIENCE_S) or self.open_streams == 0:
                raise AssertionError("it is not stopped: %s; %s" % (self.lines, self.terminal.text[-800:]))

    def fg(self):
        self.process.send_signal(signal.SIGUSR1)

    def working(self):
        return [process for process in self.processes() if process.role in ("worker", "shard")]

    def wait_all_stopped(self):
        for process in self.working() + [self.of_role("launcher")]:
            process.wait_stopped(PATIENCE_S)

    def moves(self):
        """Who ends or moves within more than the deadline: only the time that passes can show that
        nobody does, and it is the deadline's."""
        before = self.processes()
        self.of_role("launcher").ended(STOPPED_S)
        return ["%r has ended" % process for process in before if process.ended()] + \
               ["%r moves" % process for process in self.working() + [self.of_role("launcher")] if process.state() not in "Tt"]

    def ended_with(self):
        match = re.match(r"ended (-?\d+)", self.wait_line(r"^ended ", PATIENCE_S))
        self.await_end()
        return int(match.group(1))

    def said(self):
        """What a person sees last comes first: a report of a failure is cut at its end."""
        return [line for line in self.terminal.text.splitlines() if line.strip()][:-6:-1] + self.log("scheduler")[-6:] + self.why()

    def close(self):
        left = self.kill()
        os.close(self.terminal.writes)  # not before: a terminal that nobody has open is at its end
        self.terminal.read_to_end(PATIENCE_S)
        self.terminal.close()
        return left


def guarded(tap, name, job, play):
    try:
        play()
    except (AssertionError, OSError, ValueError, KeyError) as wrong:
        tap.ok(False, name, [repr(wrong)] + job.said())
    finally:
        tap.ok(not job.close(), "%s: no process is left" % name)
        tap.ok(not job.leftovers(), "%s: nor a file" % name, job.leftovers())


def stopped_in(tap, psring, directory, mode, phase, step, undisturbed):
    """Worker 1 is held in a phase until the run is stopped there; letting go on lets it go on
    too."""
    name = "%s, %s of step %d" % (mode, phase, step)
    options = dict(OPTIONS, mode=mode, **{"fault-point": "worker:1:%s:%d" % (phase, step)})
    job = Job(psring, directory, "%s-%s" % (mode, phase), options)

    def play():
        job.terminal.wait_for("fault-point %s:%d reached" % (phase, step), PATIENCE_S)
        # it says so first: else it may be let go on before it stops
        job.member("worker", 1).wait_stopped(PATIENCE_S)
        job.ctrl_z()
        job.wait_all_stopped()
        moved = job.moves()
        tap.ok(not moved, "%s: Ctrl-Z stops launcher, workers and shards, for longer than the deadline" % name, moved + job.said())
        job.fg()
        tap.ok(job.ended_with() == 0, "%s: fg goes on to the end" % name, job.said())
        outcome = job.json()["outcome"]
        tap.ok(outcome["hash"] == undisturbed.outcome()["hash"], "%s: with the weights of an undisturbed run" % name, [str(outcome)])

    guarded(tap, name, job, play)


def stopped_as_it_starts(tap, psring, directory, undisturbed):
    name = "as it starts"
    job = Job(psring, directory, "start", dict(OPTIONS, mode="ring"))

    def play():
        job.terminal.wait_for(r"psring \d", PATIENCE_S)
        job.ctrl_z()
        job.of_role("launcher").wait_stopped(PATIENCE_S)
        tap.ok(not job.of_role("launcher").ended(STOPPED_S), "%s: it waits" % name, job.said())
        job.fg()
        tap.ok(job.ended_with() == 0 and job.json()["outcome"]["hash"] == undisturbed.outcome()["hash"],
               "%s: fg goes on to the weights of an undisturbed run" % name, job.said())

    guarded(tap, name, job, play)


def stopped_twice_and_told_to_end(tap, psring, directory):
    name = "twice"
    job = Job(psring, directory, "twice", dict(OPTIONS, mode="ps", shards=2, steps=LONG))

    def play():
        at, stopped_s = 0, 0
        for _ in range(2):
            at = job.terminal.wait_for(r"\d/%d" % LONG, PATIENCE_S, at)
            job.ctrl_z()
            job.wait_all_stopped()
            begin_s = time.monotonic()
            job.moves()
            with job.terminal.changed:
                at = len(job.terminal.text)
            stopped_s += time.monotonic() - begin_s
            job.fg()
        job.terminal.wait_for(r"\d/%d" % LONG, PATIENCE_S, at)
        job.type(b"\x03")
        tap.ok(job.ended_with() == 130, "%s: then Ctrl-C ends it in order" % name, job.said())
        outcome, lasted_s = job.json()["outcome"], time.monotonic() - job.begun_s
        tap.ok(outcome["status"] == "cancelled", "%s: with a checkpoint" % name, job.said())
        tap.ok(outcome["train_s"] <= lasted_s - stopped_s, "%s: the time between is in no figure" % name,
               ["%s of %.3f s, stopped for %.3f s" % (outcome, lasted_s, stopped_s)])

    guarded(tap, name, job, play)


def ended_while_stopped(tap, psring, directory, number):
    name = "%s while it is stopped" % number.name
    job = Job(psring, directory, number.name, dict(OPTIONS, mode="ps", steps=LONG))

    def play():
        job.terminal.wait_for(r"\d/%d" % LONG, PATIENCE_S)
        job.ctrl_z()
        job.wait_all_stopped()
        launcher = job.of_role("launcher")
        launcher.signal(number)
        launcher.signal(signal.SIGCONT)  # as shells do with a job that is to end
        tap.ok(job.ended_with() == (130 if number == signal.SIGTERM else -number), "%s: psring train ends" % name, job.said())
        tap.ok(job.wait_ended(PATIENCE_S) is not None, "%s: and all that it started" % name, [str(job.processes())])
        line = job.json()["outcome"].get("line", "")
        tap.ok(("as told" if number == signal.SIGTERM else "gone without a word") in line, "%s: run.json says why" % name, [line])

    guarded(tap, name, job, play)


# What ssh is for an agent: its words by pipe, and where it was reached.
PLAYED_SSH = """#!/bin/sh
for command; do :; done
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$command"
"""


def on_other_hosts(tap, psring, directory, undisturbed):
    name = "on two other hosts"
    ssh, hosts = os.path.join(directory, "ssh"), os.path.join(directory, "hosts")
    with open(ssh, "w") as file:
        file.write(PLAYED_SSH)
    os.chmod(ssh, 0o755)
    with open(hosts, "w") as file:
        file.write("host-b\nhost-c\n")
    options = {key: value for key, value in OPTIONS.items() if key != "workers"}
    job = Job(psring, directory, "hosts-run", dict(options, mode="ring", ssh=ssh, hostfile=hosts,
                                                   **{"fault-point": "worker:1:forward:4"}))

    def play():
        job.terminal.wait_for("fault-point forward:4 reached", PATIENCE_S)
        job.member("worker", 1).wait_stopped(PATIENCE_S)
        job.ctrl_z()
        job.wait_all_stopped()
        moved = job.moves()
        tap.ok(len(job.working()) == 2 and not moved, "%s: Ctrl-Z stops the workers there too" % name, moved + job.said())
        job.fg()
        tap.ok(job.ended_with() == 0 and job.json()["outcome"]["hash"] == undisturbed.outcome()["hash"],
               "%s: fg goes on to the weights of an undisturbed run" % name, job.said())

    guarded(tap, name, job, play)


def without_a_shell(tap, psring, directory, undisturbed):
    """A session's leader: nobody could let it go on, and so it does not stop."""
    run = LiveRun(psring, directory, "no-shell", dict(OPTIONS, mode="ring", **{"fault-point": "worker:1:backward:4"}))
    try:
        run.wait_line("fault-point backward:4 reached", PATIENCE_S)
        run.member("worker", 1).wait_stopped()  # else it may be let go on before it stops
        run.of_role("launcher").signal(signal.SIGTSTP)
        tap.ok(run.wait(PATIENCE_S) == 0 and run.json()["outcome"]["hash"] == undisturbed.outcome()["hash"],
               "where nobody could say fg, Ctrl-Z is passed over", run.why())
    finally:
        tap.ok(not run.kill(), "and leaves no process")


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        undisturbed = Run(psring, directory, "undisturbed", dict(OPTIONS, mode="ring", deadline=30))
        tap.ok(undisturbed.status == 0, "an undisturbed run", undisturbed.why())
        # the one that waits longest begins first
        parts = [stopped_twice_and_told_to_end]
        parts += [partial(stopped_in, mode=mode, phase=phase, step=step, undisturbed=undisturbed) for mode, phase, step in
                 (("ps", "push", 4), ("ring", "forward", 4), ("ps", "checkpoint", 5), ("ring", "evaluation", 5))]
        parts += [partial(stopped_as_it_starts, undisturbed=undisturbed), partial(on_other_hosts, undisturbed=undisturbed),
                  partial(ended_while_stopped, number=signal.SIGKILL), partial(ended_while_stopped, number=signal.SIGTERM),
                  partial(without_a_shell, undisturbed=undisturbed)]
        together(tap, [partial(part, psring=psring, directory=directory) for part in parts], jobs=5)
    tap.end()


if __name__ == "__main__":
    main()
