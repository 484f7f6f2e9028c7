#!/usr/bin/env python3
"""Nothing hangs, nothing is lost, in the cases that are no product of factors: a role that never
comes up, a worker that is slow, Ctrl-C once and twice, an agent that is killed, a worker of the
second of two hosts, a disk that is slow or hangs.

usage: test_endings.py PSRING SLOW_DISK_MODULE [--all] [--jobs N] [--only TEXT]"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fault_runs import DEADLINE_S, LONG, OPTIONS, PATIENCE_S, Played, Suite, options_of, over, report, unprefixed

COMES_UP_WITHIN_S = 15  # of all that are not held up: to be loaded and to find their data

# A worker that computes ten times as long, and is held for a while where no step of another can end
# without it. In BSP that is told: by the quarter of the deadline, and the deadline is long enough
# for the line to come before it.
HEAVY = {"batch-size": 256, "data": "synthetic:count=512,test=64,channels=1,size=28", "steps": 8, "eval-every": 0,
         "checkpoint-every": 0}
SLOW = "1:10"
HELD_AT = 2  # 0-based: it has ended two steps
SAID_BEFORE_S = 12


# Reads its provision byte by byte; as rank 1 it does nothing from then on, as any other it becomes
# the program that it stands for, which gets the line again from a pipe that stays open.
SLEEPS_AS_RANK_1 = """#!%s
import json, os, signal, sys
line = b""
while not line.endswith(b"\\n"):
    line += os.read(0, 1)
if json.loads(line)["rank"] == 1:
    signal.pause()
ends = os.pipe()
os.write(ends[1], line)
os.set_inheritable(ends[1], True)
os.dup2(ends[0], 0)
os.execv("@ORIGINAL@", sys.argv)
"""


# Becomes the scheduler, with a disk of tests/fault/slow_disk.c.
HAS_SLOW_DISK = """#!%s
import os, sys
os.environ.update(LD_PRELOAD="%s", %s="%d")
os.execv("@ORIGINAL@", sys.argv)
"""
CHECKPOINT_BYTES = 5363128  # of the small run: a checkpoint's two files
# each checkpoint takes almost twice the deadline
SLOW_DISK = "SLOW_DISK_BYTES_PER_S", CHECKPOINT_BYTES / (1.8 * DEADLINE_S)
VERY_SLOW_DISK = "SLOW_DISK_BYTES_PER_S", CHECKPOINT_BYTES / PATIENCE_S


def fails_with_one_line(played, run):
    played.await_end(run)
    said = unprefixed(run)
    played.line = said[-1] if said else ""
    played.expect(played.status == 1 and len(said) == 1, "exit status %s, lines %s" % (played.status, said))


def is_named_as_lost(played, run, held, action, name):
    """A worker that has stopped itself is killed, or stays so until its deadline."""
    held.wait_stopped()
    if action == "kill":
        held.signal(signal.SIGKILL)
    fails_with_one_line(played, run)
    how = "was lost: killed by signal 9" if action == "kill" else r"no sign of life for \d+\.\d s"
    played.expect(re.search(r"%s\W.*%s" % (name, how), played.line), "the line: %s" % played.line)


class Endings(Suite):
    slow_disk_module = None

    def play(self, case):
        what, *arguments = case
        return getattr(self, what)(*arguments)

    # ---- a role that never comes up ----

    def programs_with(self, name, replaced, text):
        """The front door in a directory where one of the programs is another one. Returns the path
        of psring. Other processes write them: what this one writes, a child that another thread
        starts meanwhile has open too, and then it cannot be started."""
        folder = os.path.join(self.directory, name + ".bin")
        os.mkdir(folder)
        build = os.path.dirname(self.psring)
        for program, places in (("psring", ("",)), ("psring-scheduler", ("", "../ps")), ("psring-ps", ("", "../ps")),
                                ("psring-worker", ("", "../worker"))):
            original = next(path for path in (os.path.join(build, place, program) for place in places) if os.path.exists(path))
            copy = os.path.join(folder, program)
            if program != replaced:
                subprocess.run(["cp", original, copy], check=True)
            elif text is not None:
                script = text.replace("@ORIGINAL@", os.path.realpath(original))
                subprocess.run(["install", "-m", "755", "/dev/stdin", copy], input=script, text=True, check=True)
        return os.path.join(folder, "psring")

    def never_comes(self, role, program, mode):
        """One of the role is a process that reads what it is given and then does nothing."""
        name = "never-comes-%s-%s" % (role, mode)
        played = Played("absent", "%s 1" % role, "n=4 %s, from the start" % mode)
        text = SLEEPS_AS_RANK_1 % sys.executable
        run = self.run(name, options_of(mode, 4, deadline=COMES_UP_WITHIN_S), self.programs_with(name, program, text))

        def act():
            run.wait_line("mode ", PATIENCE_S)  # the configuration is printed: now it starts
            played.await_end(run)
            said = unprefixed(run)
            played.line = said[-1] if said else ""
            there = ["worker %d" % r for r in range(4)] + (["shard 0", "shard 1"] if mode == "ps" else [])
            there.remove("%s 1" % role)
            played.expect(played.status == 1 and len(said) == 1, "exit status %s, %d lines" % (played.status, len(said)))
            missing, _, here = played.line.partition("never came up")
            played.expect(re.search(r"\b%s 1\b" % role, missing), "who did not come is not named: %s" % played.line)
            for other in there:
                played.expect(re.search(r"\b%s on \S+" % other, here) and other not in missing,
                              "%s came and is not named so: %s" % (other, played.line))
            played.expect(not os.path.exists(run.out), "a run directory")

        return self.guarded(played, run, act)

    def not_there(self, role, program):
        """The program of a role is not on this host."""
        name = "not-there-" + role
        played = Played("absent", role, "its program is not there")
        run = self.run(name, options_of("ps", 2), self.programs_with(name, program, None))

        def act():
            played.await_end(run)
            said = unprefixed(run)
            played.line = said[-1] if said else ""
            played.expect(played.status in (1, 2) and len(said) == 1, "exit status %s, lines %s" % (played.status, said))
            played.expect(program in played.line, "the line does not name %s: %s" % (program, played.line))
            played.expect(not os.path.exists(run.out), "a run directory")

        return self.guarded(played, run, act)

    # ---- a worker that is slow ----

    def slow(self, mode, sync):
        played = Played("slow", "worker 1", "n=2 %s %s, ten times slower" % (mode, sync))
        options = dict(options_of(mode, 2, sync=sync), **HEAVY)
        bound = {"bsp": 0, "async": HEAVY["steps"]}.get(sync) if not sync.startswith("ssp:") else int(sync[4:])
        quick = self.run("quick-%s-%s" % (mode, sync.replace(":", "")), options) if sync == "bsp" else None
        run = None

        def act():
            run.wait_line("fault-point backward:%d reached" % HELD_AT, PATIENCE_S)
            held = run.member("worker", 1)
            held.wait_stopped()
            if sync == "bsp":
                played.line = run.wait_line(r"worker 1 on \S+ is slow: others have waited \d+\.\d s for it", PATIENCE_S)
            else:  # worker 0 goes on as far as it may; the run's end takes both
                run.wait_until(lambda: run.last_step(0) >= min(HELD_AT + bound, HEAVY["steps"] - 1), PATIENCE_S)
            held.signal(signal.SIGCONT)
            played.await_end(run)
            played.expect(played.status == 0, "exit status %s" % played.status)
            metrics = run.metrics()
            of_rank = {rank: [line for line in metrics if line["rank"] == rank] for rank in (0, 1)}
            if not played.expect(all(len(lines) == HEAVY["steps"] for lines in of_rank.values()), "steps are missing in the metrics"):
                return
            staleness = max(line["staleness"] for line in metrics)
            # The shortest times: whatever else this machine does makes a step longer, not shorter.
            # Ten times is --slow's; what is left of it on a machine where all of worker 0's steps
            # were held up is asked for.
            least = {rank: min(line["compute_s"] for line in of_rank[rank][HELD_AT:]) for rank in (0, 1)}
            played.expect(least[1] > least[0], "it is not slow: %s" % least)
            if sync == "bsp":
                played.expect(staleness == 0, "staleness %s" % staleness)
                played.expect(quick.wait(PATIENCE_S) == 0, "the run without a slow worker fails")
                played.expect(run.json()["outcome"]["hash"] == quick.json()["outcome"]["hash"],
                              "another hash than without a slow worker")
                return
            played.line = "staleness at most %d; bound %s" % (staleness, bound if sync != "async" else "none")
            played.expect(staleness <= bound, "staleness %d" % staleness)
            played.expect(staleness >= min(bound, HEAVY["steps"] - 1 - HELD_AT), "worker 0 did not go on: staleness %d" % staleness)

        if quick is not None:
            quick.wait(PATIENCE_S)
        run = self.run("slow-%s-%s" % (mode, sync.replace(":", "")),
                       dict(options, slow=SLOW, **{"fault-point": "worker:1:backward:%d" % HELD_AT},
                            **({"deadline": SAID_BEFORE_S} if sync == "bsp" else {})))
        self.guarded(played, run, act)
        if quick is not None:
            quick.kill()
        return played

    # ---- told to end ----

    def interrupt(self, mode, number, phase, step, times):
        """Ctrl-C while worker 1 is held in a phase; after the last one it goes on, or is left as it
        is when all ends at once."""
        played = Played("Ctrl-C" + (" twice" if times == 2 else "") if number == signal.SIGINT else number.name,
                        "launcher", "n=2 %s, worker 1 in %s of step %d" % (mode, phase, step))
        run = self.run("interrupt-%s-%s-%d-%d" % (mode, phase, number, times),
                       options_of(mode, 2, True, fault_point="worker:1:%s:%d" % (phase, step)))

        def act():
            run.wait_line(r"fault-point %s:%d reached" % (phase, step), PATIENCE_S)
            held = run.member("worker", 1)
            held.wait_stopped()
            launcher = run.of_role("launcher")
            launcher.signal(number)
            run.wait_line("once more to end at once", PATIENCE_S)
            if times == 2:
                launcher.signal(number)
            else:
                held.signal(signal.SIGCONT)
            played.await_end(run)
            played.expect(played.status == 130, "exit status %s" % played.status)
            said = unprefixed(run)
            played.line = said[-1] if said else ""
            if times == 1:
                told = re.search(r"--resume (\S+)", " ".join(run.text("out") + said))
                played.expect(told and os.path.exists(told.group(1)), "it does not say how to resume: %s" % said)
                outcome = run.json()["outcome"]
                played.expect(outcome["status"] == "cancelled" and step < outcome["steps"] < LONG["steps"],
                              "the outcome: %s" % outcome)
                played.expect(outcome["hash"] == self.hash_at((mode, 2, True), outcome["steps"]),
                              "after %d steps it has another hash than an undisturbed run" % outcome["steps"])
                self.expect_checkpoint_of(played, run, outcome["steps"])
            self.check_resumes(played, run, (mode, 2, True))

        return self.guarded(played, run, act)

    @staticmethod
    def expect_checkpoint_of(played, run, steps):
        folder = os.path.join(run.out, "checkpoints", "step-%d" % steps)
        played.expect(os.path.isdir(folder), "there is no %s" % folder)

    # ---- an agent ----

    def agent_killed(self):
        played = Played("kill", "agent", "n=2 ps, worker 1 in push of step 4")
        run = self.run("agent-killed", options_of("ps", 2, fault_point="worker:1:push:4"))

        def act():
            run.wait_line("fault-point push:4 reached", PATIENCE_S)
            run.of_role("agent").signal(signal.SIGKILL)
            fails_with_one_line(played, run)
            played.expect(re.search(r"(worker|shard) \d on \S+ was lost: with host \S+, whose agent ended \(killed by signal 9",
                                    played.line), played.line)
            self.check_resumes(played, run, ("ps", 2, False))

        return self.guarded(played, run, act)

    def agent_stopped(self, mode):
        """Its processes do without it, and would go on for long: it is missed at the deadline, not
        at the end."""
        played = Played("stop", "agent", "n=2 %s, after step 7" % mode)
        run = self.run("agent-stopped-" + mode, options_of(mode, 2, True, deadline=DEADLINE_S))

        def act():
            run.wait_until(lambda: run.last_step() >= 7, PATIENCE_S)
            run.of_role("agent").signal(signal.SIGSTOP)
            fails_with_one_line(played, run)
            found = re.search(r"agent on \S+: no sign of life for (\d+\.\d) s; .*workers? \d.*: step \d+, \w+", played.line)
            played.expect(found and float(found.group(1)) >= DEADLINE_S, played.line)
            outcome = run.json()["outcome"]
            played.expect(outcome["exit_status"] == 1 and outcome["line"] in played.line, "the outcome: %s" % outcome)
            self.check_resumes(played, run, (mode, 2, True))

        return self.guarded(played, run, act)

    def agent_paused(self):
        """Before the deadline it goes on, and the run comes to its end as if nothing had been."""
        played = Played("pause", "agent", "n=2 ps, worker 1 in push of step 4")
        run = self.run("agent-paused", options_of("ps", 2, fault_point="worker:1:push:4"))

        def act():
            run.wait_line("fault-point push:4 reached", PATIENCE_S)
            held, agent = run.member("worker", 1), run.of_role("agent")
            held.wait_stopped()
            agent.signal(signal.SIGSTOP)
            held.signal(signal.SIGCONT)
            run.wait_until(lambda: run.last_step() >= 6, PATIENCE_S)  # nobody waits for it
            agent.signal(signal.SIGCONT)
            played.await_end(run)
            played.expect(not unprefixed(run), "it says: %s" % unprefixed(run))
            self.check_complete(played, run, ("ps", 2, False))

        return self.guarded(played, run, act)

    # ---- a worker of the second host ----

    def second_host(self, action, rank, phase):
        """There is one bucket: so worker 2 holds it for the second host, speaks for it, and worker
        3 speaks to nobody but worker 2."""
        played = Played(action, "worker %d" % rank, "n=4 ring on two hosts, in %s of step 4" % phase)
        key = ("ring", 4, False, True)
        missed = {"deadline": DEADLINE_S} if action == "stop" else {}
        run = self.run("second-host-%s-%d-%s" % (action, rank, phase),
                       options_of(*key, fault_point="worker:%d:%s:4" % (rank, phase), **over("mixed", self.directory, 4), **missed))

        def act():
            run.wait_line(r"fault-point %s:4 reached" % phase, PATIENCE_S)
            played.expect(any("on each of 2 hosts the workers divide the sums" in line for line in run.text("out")), "no ring over hosts")
            held = run.member("worker", rank)
            is_named_as_lost(played, run, held, action, r"worker %d on 127\.0\.0\.1" % rank)
            self.check_resumes(played, run, key)

        return self.guarded(played, run, act)

    # ---- in the middle of a pass ----

    def in_a_norm(self, action, mode, rank):
        """With --sync-bn all others wait for this worker's sums at a batch norm."""
        played = Played(action, "worker %d" % rank, "n=3 %s, at a batch norm of step 4" % mode)
        missed = {"deadline": DEADLINE_S} if action == "stop" else {}
        options = dict(options_of(mode, 3, fault_point="worker:%d:norms:4" % rank, **missed), model="resnet20",
                       data="synthetic:count=90,test=9,channels=3,size=8", **{"batch-size": 4, "sync-bn": True})
        run = self.run("in-a-norm-%s-%s-%d" % (action, mode, rank), options)

        def act():
            run.wait_line("fault-point norms:4 reached", PATIENCE_S)
            held = run.member("worker", rank)
            is_named_as_lost(played, run, held, action, r"worker %d on \S+" % rank)
            self.expect_checkpoint_of(played, run, 2)

        return self.guarded(played, run, act)

    # ---- a disk ----

    def run_on_disk(self, name, disk, options):
        setting, value = disk
        text = HAS_SLOW_DISK % (sys.executable, self.slow_disk_module, setting, value)
        return self.run(name, options, self.programs_with(name, "psring-scheduler", text))

    def slow_disk(self, mode):
        """A run whose disk cannot keep up takes its time, says so, and loses nothing."""
        played = Played("slow", "disk", "n=2 %s, every checkpoint longer than the deadline" % mode)
        run = self.run_on_disk("slow-disk-" + mode, SLOW_DISK, options_of(mode, 2, checkpoint_every=4, deadline=DEADLINE_S))

        def act():
            played.await_end(run)
            self.check_complete(played, run, (mode, 2, False))
            slow_lines = [line for line in run.text("out") + run.text("err") if
                          re.search(r"the disk is slow: \d+% of the checkpoint of step \d is written after \d+\.\d s", line)]
            played.line = slow_lines[0] if slow_lines else ""
            played.expect(slow_lines, "nobody says that the disk is slow")
            for step in range(4, OPTIONS["steps"] + 1, 4):
                self.expect_checkpoint_of(played, run, step)
            self.check_resumes(played, run, (mode, 2, False))

        return self.guarded(played, run, act)

    def disk_hangs(self, mode):
        """In the middle of the second checkpoint."""
        played = Played("hang", "disk", "n=2 %s, half through the checkpoint of step 4" % mode)
        run = self.run_on_disk("disk-hangs-" + mode, ("SLOW_DISK_HANGS_AFTER", 1.5 * CHECKPOINT_BYTES),
                               options_of(mode, 2, deadline=DEADLINE_S))

        def act():
            played.await_end(run)
            said = unprefixed(run)
            played.line = said[-1] if said else ""
            played.expect(played.status == 1 and len(said) == 1, "exit status %s, lines %s" % (played.status, said))
            played.expect(re.search(r"scheduler 0 on \S+: the disk has taken nothing for \d+\.\d s of the checkpoint of step 4 in "
                                    r"\S+/checkpoints; \d+% of it is written", played.line), played.line)
            # What is on a disk that hangs cannot be removed.
            torn = os.path.join(run.out, "checkpoints", ".step-4.part")
            played.expect(os.path.isdir(torn), "there is no %s: it did not hang" % torn)
            shutil.rmtree(torn, ignore_errors=True)
            self.expect_checkpoint_of(played, run, 2)
            self.check_resumes(played, run, (mode, 2, False))

        return self.guarded(played, run, act)

    def interrupt_on_slow_disk(self):
        """Ctrl-C waits for the checkpoint that it asks for; the second one does not."""
        played = Played("Ctrl-C twice", "launcher", "n=2 ps, the disk is slow")
        run = self.run_on_disk("interrupt-on-slow-disk", VERY_SLOW_DISK, options_of("ps", 2, deadline=SAID_BEFORE_S))

        def act():
            run.wait_line("the disk is slow", PATIENCE_S)
            launcher = run.of_role("launcher")
            launcher.signal(signal.SIGINT)
            run.wait_line("once more to end at once", PATIENCE_S)
            launcher.signal(signal.SIGINT)
            played.await_end(run)
            said = unprefixed(run)
            played.line = said[-1] if said else ""
            played.expect(played.status == 130, "exit status %s" % played.status)
            self.check_resumes(played, run, ("ps", 2, False), can_have=False)

        return self.guarded(played, run, act)


CASES = [("never_comes", "worker", "psring-worker", "ps"), ("never_comes", "shard", "psring-ps", "ps"),
         ("never_comes", "worker", "psring-worker", "ring"),
         ("not_there", "shard", "psring-ps"), ("not_there", "worker", "psring-worker"),
         ("not_there", "scheduler", "psring-scheduler"),
         ("slow", "ps", "bsp"), ("slow", "ring", "bsp"), ("slow", "ps", "ssp:3"), ("slow", "ps", "async"),
         ("interrupt", "ps", signal.SIGINT, "push", 4, 1), ("interrupt", "ring", signal.SIGINT, "forward", 4, 1),
         ("interrupt", "ps", signal.SIGTERM, "evaluation", 5, 1), ("interrupt", "ring", signal.SIGHUP, "checkpoint", 5, 1),
         ("interrupt", "ps", signal.SIGINT, "backward", 4, 2), ("interrupt", "ring", signal.SIGINT, "ring", 4, 2),
         ("agent_killed",), ("agent_stopped", "ps"), ("agent_stopped", "ring"), ("agent_paused",),
         ("second_host", "kill", 2, "ring"), ("second_host", "kill", 3, "backward"), ("second_host", "stop", 2, "backward"),
         ("second_host", "stop", 3, "ring"), ("in_a_norm", "kill", "ring", 1), ("in_a_norm", "kill", "ps", 0), ("in_a_norm", "stop", "ps", 2),
         ("slow_disk", "ps"), ("disk_hangs", "ring"), ("interrupt_on_slow_disk",)]


# With --all: each is another one's in the other mode, of another rank or by another signal.
ONLY_OF_ALL = [("never_comes", "worker", "psring-worker", "ring"), ("slow", "ring", "bsp"), ("interrupt", "ps", signal.SIGTERM, "evaluation", 5, 1),
               ("interrupt", "ring", signal.SIGINT, "ring", 4, 2), ("agent_stopped", "ring"), ("second_host", "kill", 2, "ring"),
               ("second_host", "stop", 3, "ring"), ("in_a_norm", "kill", "ps", 0)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("psring")
    parser.add_argument("slow_disk_module", help="built from tests/fault/slow_disk.c")
    parser.add_argument("--all", action="store_true", help="those too that are like another one in the other mode or the like")
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time")
    parser.add_argument("--only", default="", help="cases whose words match this expression")
    arguments = parser.parse_args()
    cases = [case for case in CASES if (arguments.all or case not in ONLY_OF_ALL) and re.search(arguments.only, " ".join(map(str, case)))]
    Endings.slow_disk_module = os.path.abspath(arguments.slow_disk_module)
    report(Endings, arguments.psring, cases, arguments.jobs)


if __name__ == "__main__":
    main()
