#!/usr/bin/env python3
"""A trace of a run that goes wrong: what has come is kept as a whole file that says what is
missing; a disk that is full costs a line, and the run goes on.

usage: test_trace_losses.py PSRING"""

import json
import os
import signal
import sys

from psring_live import LiveRun
from psring_run import PATIENCE_S, Tap, Workspace
from trace_format import problems

OPTIONS = {"workers": 2, "threads": 1, "batch-size": 8, "lr": 0.01, "model": "mlp", "seed": 3, "no-eval": True,
           "data": "synthetic:count=640,test=8,channels=1,size=28", "deadline": 2 * PATIENCE_S}
NO_TRACE = "no trace: the run ended before any process had sent its events"
# The limit on a file's size stands for a full disk. It is above all of the run's other files.
LIMIT_BYTES = 4 << 20
LIMITED = ["sh", "-c", "trap '' XFSZ; ulimit -f %d; exec \"$@\"" % (LIMIT_BYTES // 512), "sh"]


def left_of_trace(run):
    return sorted(name for name in os.listdir(run.out) if name.startswith("trace"))


def killed(tap, psring, directory, name, options, ready):
    """Worker 1 is held in step 2, and killed when ready(run)."""
    run = LiveRun(psring, directory, name, dict(OPTIONS, steps=40, trace="1-3", **options, **{"fault-point": "worker:1:backward:2"}))
    try:
        run.wait_line("fault-point backward:2 reached")
        held = run.member("worker", 1)
        run.wait_until(lambda: ready(run), PATIENCE_S)
        held.signal(signal.SIGKILL)
        status = run.wait(PATIENCE_S)
        tap.ok(status not in (0, None), "%s: the run fails" % name, run.why())
        tap.ok(run.wait_ended(PATIENCE_S) is not None, "%s: and leaves no process" % name)
    finally:
        run.kill()
    return run


def while_others_have_sent(tap, psring, directory):
    def some(run):
        return os.path.getsize(os.path.join(run.out, "trace.json.new")) > 0

    run = killed(tap, psring, directory, "async", {"mode": "ps", "shards": 1, "sync": "async"}, some)
    if not tap.ok(left_of_trace(run) == ["trace.json"], "its trace is in place", [str(left_of_trace(run))] + run.why()):
        return
    with open(os.path.join(run.out, "trace.json")) as file:
        text = file.read()
    bad = problems(text, ends=False)
    tap.ok(not bad, "it is whole", bad[:3])
    other = json.loads(text)["otherData"]
    missing = [entry["process"].split(" on ")[0] for entry in other["missing"]]
    tap.ok("worker 1" in missing and len(missing) + len(other["clocks"]) >= 3, "and says that worker 1's events are missing", [str(other)])
    said = [line for line in run.text("out") if "trace.json" in line]
    tap.ok(len(said) == 1 and "without %d of 3 processes: the run ended before they had sent theirs" % len(missing) in said[0],
           "as the run does", said + run.why())


def before_anything_was_sent(tap, psring, directory):
    run = killed(tap, psring, directory, "ring", {"mode": "ring"}, lambda run: True)
    said = [line for line in run.text("out") if "trace" in line]
    tap.ok(said == [NO_TRACE] and not left_of_trace(run), "without any event there is a line and no file", said + left_of_trace(run) + run.why())


def on_a_full_disk(tap, psring, directory):
    options = dict(OPTIONS, mode="ps", shards=1, transport="tcp", steps=40, trace="1-40", **{"bucket-size": 65536})
    run = LiveRun(psring, directory, "full", options, before=LIMITED)
    try:
        status = run.wait(PATIENCE_S)
    finally:
        run.kill()
    said = [line for line in run.text("out") if "trace" in line]
    tap.ok(status == 0 and len(said) == 1 and "no trace: " in said[0] and "trace.json cannot be written: File too large" in said[0],
           "a disk that is full costs a line", said + run.why())
    tap.ok(run.json()["outcome"]["steps"] == 40 and not left_of_trace(run), "the run takes all its steps, and nothing is left of the trace",
           left_of_trace(run))


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        while_others_have_sent(tap, psring, directory)
        before_anything_was_sent(tap, psring, directory)
        on_a_full_disk(tap, psring, directory)
    tap.end()


main(os.path.abspath(sys.argv[1]))
