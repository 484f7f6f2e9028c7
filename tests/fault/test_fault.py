#!/usr/bin/env python3
"""Nothing hangs, nothing is lost: a process of a run is killed, stopped, or stopped and let go on,
in a known phase.

usage: test_fault.py PSRING [--full [--part I/N] [--seed S]] [--jobs N] [--only TEXT]

The cases are the product of six factors (EVERY below); without --full a set of them in which every
two factors meet in every pair of values. The product takes hours: --part 1/N to --part N/N with one
seed, run when there is time, are the whole of it. A worker stops itself at a fault point, so that
the phase is known and nothing depends on a guessed time; then the victim is dealt with, and the
worker goes on if it is not the victim. Prints TAP, and a table of what happened."""

import argparse
import os
import random
import re
import signal
import sys
from itertools import product

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fault_runs import DEADLINE_S, PATIENCE_S, SILENCE_S, STEPS, Played, Suite, options_of, over, report, still_mapped, unprefixed
from pairs import covering

PAUSE_S = 0.4 * SILENCE_S  # of a process that goes on before it is missed

EVERY = dict(mode=("ps", "ring"), n=(2, 4), victim=("worker", "shard", "scheduler", "launcher"),
             phase=("start", "forward", "backward", "push", "pull", "ring", "barrier", "evaluation", "checkpoint", "shutdown"),
             action=("kill", "stop", "pause"), transport=("auto", "tcp", "mixed"))
DIRECTORIES = dict(auto=1, tcp=0, mixed=2)  # of sockets: of the run, none, of each host

# The 0-based step in which the phase is reached. Evaluations come after 3 and 6 steps, checkpoints
# after 2, 4 and 6.
STEP_OF = dict(start=0, forward=4, backward=4, push=4, pull=4, ring=4, barrier=5, evaluation=5, checkpoint=5, shutdown=STEPS - 1)


def is_possible(case):
    mode, _, victim, phase, _, _ = case
    only_of = {"push": "ps", "pull": "ps", "ring": "ring"}
    return only_of.get(phase, mode) == mode and (victim != "shard" or mode == "ps")


def key_of(case):
    """Which undisturbed run it is compared with. While the launcher is stopped a short run would
    just come to its end."""
    mode, n, victim, phase, action, _ = case
    return mode, n, victim == "launcher" and action == "stop" and phase != "shutdown"


def cases_of(full):
    possible = [case for case in product(*EVERY.values()) if is_possible(case)]
    return possible if full else covering(possible)


def part_of(cases, part, seed):
    """The cases of one of several parts, equal in size to one, drawn by the seed: the parts of one
    seed share no case and leave none out."""
    drawn = list(cases)
    random.Random(seed).shuffle(drawn)
    return drawn[part[0] - 1::part[1]]


def part(text):
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match.group(1)) <= int(match.group(2)):
        raise argparse.ArgumentTypeError("'%s' is no part: I/N, I from 1 to N" % text)
    return int(match.group(1)), int(match.group(2))


class Table(Suite):
    def play(self, case):
        mode, n, victim, phase, action, transport = case
        step = STEP_OF[phase]
        played = Played(action, victim, "n=%d %s %s, worker 1 in %s of step %d" % (n, mode, transport, phase, step))
        # Only what is stopped is missed by a deadline; a killed one is missed at once, and one that
        # goes on is not to be missed, however late it does.
        options = dict({"stop": {"deadline": DEADLINE_S}, "pause": {"deadline": 5 * DEADLINE_S}}.get(action, {}),
                       **over(transport, self.directory, n))
        # short: the directories of its sockets are below it
        run = self.run("case-" + "-".join(str(value)[:5] for value in case),
                       options_of(*key_of(case), fault_point="worker:1:%s:%d" % (phase, step), **options))

        def act():
            run.wait_line(r"fault-point %s:%d reached" % (phase, step), PATIENCE_S)
            held = run.member("worker", 1)
            held.wait_stopped()
            folders = {os.path.dirname(file) for p in run.processes() for file in p.socket_files()}
            played.expect([os.stat(folder).st_mode & 0o777 for folder in folders] == [0o700] * DIRECTORIES[transport],
                          "sockets not in so many private directories: %s" % folders)
            arenas = set().union(*(process.arenas() for process in run.processes()))
            target = dict(worker=lambda: held, shard=lambda: run.member("shard", n // 2 - 1),
                          scheduler=lambda: run.of_role("scheduler"), launcher=lambda: run.of_role("launcher"))[victim]()
            getattr(self, action)(played, run, target, held)
            self.judge(played, run, case)
            played.expect(not still_mapped(arenas), "shared memory is left")

        return self.guarded(played, run, act)

    def kill(self, played, run, target, held):
        target.signal(signal.SIGKILL)
        held.signal(signal.SIGCONT)
        played.await_end(run)

    def stop(self, played, run, target, held):
        target.signal(signal.SIGSTOP)
        if held is not target:
            held.signal(signal.SIGCONT)
        launcher = run.of_role("launcher")
        if target is launcher:  # it cannot end before it goes on
            seconds = run.wait_ended(PATIENCE_S, but=launcher)
            played.expect(seconds is not None, "the others do not end")
            launcher.signal(signal.SIGCONT)
            played.await_end(run)
            played.seconds = seconds
        else:
            played.await_end(run)

    def pause(self, played, run, target, held):
        target.signal(signal.SIGSTOP)
        if held is not target:
            held.signal(signal.SIGCONT)
        played.expect(not run.of_role("launcher").ended(PAUSE_S), "it did not wait for the deadline")
        target.signal(signal.SIGCONT)
        played.await_end(run)

    def judge(self, played, run, case):
        victim, phase, action = case[2:5]
        said = unprefixed(run)
        played.line = said[-1] if said else ""
        if action == "pause":
            self.check_complete(played, run, key_of(case))
            played.expect(not said, "it says: %s" % said)
            return
        nobody_prints = victim == "launcher" and action == "kill"
        ended_well = played.status == 0 and (victim == "shard" or victim == "launcher" and action == "stop")
        if nobody_prints:  # what happened stands in the run directory
            played.line = run.json().get("outcome", {}).get("line", "")
            ended_well = played.line == "%d steps done" % STEPS
        if phase == "shutdown" and ended_well:
            # All had been done that it had to do: the others could end well without it.
            self.check_hash(played, run, key_of(case))
            return
        played.expect(played.status not in (0, None), "exit status %s" % played.status)
        if not nobody_prints:
            played.expect(len(said) == 1, "%d lines: %s" % (len(said), said))
        self.judge_line(played, case)
        self.check_resumes(played, run, key_of(case), can_have=phase != "start")

    @staticmethod
    def judge_line(played, case):
        _, n, victim, phase, action, _ = case
        whom = {"worker": r"worker 1 on \S+", "shard": r"shard %d on \S+" % (n // 2 - 1), "scheduler": r"scheduler 0 on \S+",
                "launcher": r"launcher on \S+"}[victim]
        how = r"killed by signal 9" if action == "kill" else r"no sign of life for \d+\.\d s"
        if victim == "launcher" and action == "kill":
            how = r"gone without a word"
        at = r"start|step \d+, \w+" if phase == "start" else r"step \d+, \w+|done" if phase == "shutdown" else r"step \d+, \w+"
        # they may be done before it is missed
        if victim == "launcher" and action == "kill" and STEP_OF[phase] >= STEPS - 3:
            at += "|done"
        others = r"the run was at (step|its start)" if victim == "scheduler" else r"(workers?|shards?) \d.*(%s)" % at
        if action == "stop" and victim in ("worker", "shard") and phase not in ("start", "barrier", "evaluation", "shutdown"):
            others = r"step \d+, (data|forward|backward|pull|push|ring), bucket \d+|step \d+, (barrier|checkpoint)"
        told = [("whom", whom), ("how", how), ("what others were doing", others)]
        if action == "stop" and victim == "worker" and phase not in ("start", "shutdown"):
            # It stops with its first breath in the step, before its exchange thread must have told
            # of it.
            told.append(("where it was", r"last in step (%d|%d), \w+" % (STEP_OF[phase], STEP_OF[phase] + 1)))
        for what, pattern in told:
            played.expect(re.search(pattern, played.line), "the line does not tell %s (%s): %s" % (what, pattern, played.line))
        silent = re.search(r"no sign of life for (\d+\.\d) s", played.line)
        least_s = SILENCE_S if victim in ("worker", "shard") else DEADLINE_S
        played.expect(not silent or float(silent.group(1)) >= least_s, "it is given up too early: %s" % played.line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("psring")
    parser.add_argument("--full", action="store_true", help="the whole product, not a set that covers all pairs")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="the I-th of N parts of them, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0, help="of what is in which part")
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time")
    parser.add_argument("--only", default="", help="cases whose values match this expression")
    arguments = parser.parse_args()
    cases = [case for case in cases_of(arguments.full) if re.search(arguments.only, " ".join(map(str, case)))]
    in_all, cases = len(cases), part_of(cases, arguments.part, arguments.seed) if arguments.part != (1, 1) else cases
    print("# %d of %d cases: part %d of %d by seed %d" % (len(cases), in_all, *arguments.part, arguments.seed), flush=True)
    report(Table, arguments.psring, cases, arguments.jobs)


if __name__ == "__main__":
    main()
