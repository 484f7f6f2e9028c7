"""A rank of psring run that breaks the protocol is named, and ends the run with status 3.

usage: test_bad_rank.py PSRING RANK BAD-RANK

RANK: tests/integration/rank.c; BAD-RANK: tests/integration/bad_rank.c, which is rank 1."""

import os
import re
import subprocess
import sys
from functools import partial

from psring_live import Live
from psring_run import PATIENCE_S, Tap, Workspace, together

# What the line must tell. None of them ends by the deadline.
CASES = {
    "torn-join": r"worker 1 sent JOIN: not a JSON object",
    "join-from-nowhere": r"worker 1 sent JOIN: field \"host\" is missing or no text",
    "join-at-no-endpoint": r"worker 1 sent JOIN: endpoint pigeon://loft: it should be tcp://HOST:PORT .*",
    "wait-for-nobody": r"worker 1 sent PROGRESS .*: there is no worker 4294967280",
    "shrink-with-nobody": r"worker 1 sent SHRINK .*: there is no rank 4294967280",
    "blame-nobody": r"worker 1 sent FINDING .*: there is no worker 4294967280",
    "blame-nobody-beside-another": r"worker 1 sent FINDING .*: there is no worker 4294967280",
    "find-in-no-epoch": r"worker 1 sent FINDING .*: its epoch is 77: 0 is the most",
    "tell-metrics": r"worker 1 sent METRICS: a rank does not send that to a coordinator",
}
PROGRAM = 'test "$PSRING_RANK" = 1 && exec "$0" "$1"; exec "$2" loop'


def play(tap, what, programs, directory):
    psring, rank, bad_rank = programs
    run = Live([psring, "run", "-n", "3", "--deadline", "600", "--", "sh", "-c", PROGRAM, bad_rank, what, rank], directory, what)
    try:
        status = run.wait(PATIENCE_S)
        said = [line for line in run.text("err") if line.startswith("psring run: ")]
        tap.ok(status == 3, "%s: the run ends with status 3" % what, run.why())
        tap.ok(len(said) == 1 and re.fullmatch("psring run: " + CASES[what], said[0]) is not None,
               "%s: one line names the rank and what it did" % what, [CASES[what]] + run.why())
        tap.ok(run.wait_ended(PATIENCE_S) is not None and not run.leftovers(), "%s: nothing is left" % what,
               [str(run.processes())] + run.leftovers())
    except AssertionError as wrong:
        tap.ok(False, what, [str(wrong)] + run.why())
    finally:
        run.kill()


def main():
    programs = [os.path.realpath(program) for program in sys.argv[1:4]]
    tap = Tap()
    can_do = subprocess.run([programs[2]], capture_output=True, text=True, check=True).stdout.split()
    tap.ok(sorted(can_do) == sorted(CASES), "all that bad_rank can do is done", [str(set(can_do) ^ set(CASES))])
    with Workspace() as directory:
        together(tap, [partial(play, what=what, programs=programs, directory=directory) for what in CASES])
    tap.end()


if __name__ == "__main__":
    main()
