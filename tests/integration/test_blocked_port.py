#!/usr/bin/env python3
"""Where the port of sealed messages is blocked a run goes on by CURVE, and says between whom and
what it costs.

usage: test_blocked_port.py PSRING BENCH_COMM BLOCKED_PORT_MODULE"""

import os
import signal
import sys

from psring_live import Live
from psring_run import PATIENCE_S, Tap, Workspace

LINE = (r"(?:worker|rank) \d on \S+ has had no answer at port \d+ of (?:worker|rank) \d on \S+ for \d+ s: values to it go by CURVE, at a third of the "
        r"speed or less; let TCP to all ports through between these hosts")


def told(tap, directory, name, command, module):
    env = dict(os.environ, LD_PRELOAD=os.path.abspath(module),
               ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    live = Live(command, directory, name, env=env)
    try:
        line = live.wait_line(LINE)
    except AssertionError as error:
        line = None
        tap.ok(False, "psring %s says that values go by CURVE" % name, [str(error)] + live.why())
    if line:
        tap.ok(True, "psring %s says that values go by CURVE" % name)
        tap.ok(live.process.poll() is None, "and goes on", live.why())
    live.process.send_signal(signal.SIGINT)
    status = live.wait(PATIENCE_S)
    tap.ok(not live.kill() and status is not None, "and ends when it is told to", live.why())


def main(*paths):
    psring, bench, module = (os.path.abspath(path) for path in paths)
    tap = Tap()
    with Workspace() as directory:
        told(tap, directory, "train",
             [psring, "train", "--workers", "2", "--mode", "ring", "--model", "mlp", "--data",
              "synthetic:count=97,test=40,channels=1,size=28", "--batch-size", "16", "--steps", "100000000", "--threads", "1",
              "--transport", "tcp", "--slow", "0:30", "--deadline", "600", "--no-eval", "--out", os.path.join(directory, "out")], module)
        told(tap, directory, "run",
             [psring, "run", "-n", "2", "--transport=tcp", "--deadline", "600", "--", bench, "-b", "1M", "-e", "1M", "-o", "all_reduce",
              "-i", "1000000"], module)
    tap.end()


main(*sys.argv[1:])
