"""psring watch: a run under way, as it ends, after it, of a scheduler that was killed, and what is
no run. psring diff: versions, processor and data.

usage: test_watch.py PSRING"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

from psring_live import LiveRun
from psring_run import PATIENCE_S, Run, Tap, Workspace
from test_help import on_terminal

OPTIONS = {"mode": "ps", "workers": 2, "model": "mlp", "data": "synthetic:count=300,test=30,channels=1,size=8", "batch-size": 4, "lr": 0.05,
           "threads": 1, "deadline": 600}
ROW = r"^ +%s +%s +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+%% +[\d.]+ +[\d.]+ +\d+( <)?$"


def command(*words):
    done = subprocess.run(list(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


def has_rows(table, step):
    return all(re.search(ROW % (name, step), table, re.M) for name in ("0", "1", "all")) and all(len(line) <= 80 for line in table.splitlines())


def under_way(tap, psring, directory):
    run = LiveRun(psring, directory, "live", dict(OPTIONS, steps=1000000, **{"fault-point": "worker:1:forward:2"}))
    try:
        run.wait_line("fault-point forward:2 reached", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        status, table, why = command(psring, "watch", "--once", run.out)
        tap.ok(status == 0 and "mlp, ps, step " in table and "over" not in table, "--once tells of a run under way, and ends", [table, why])
        follower = subprocess.Popen([psring, "watch", run.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.of_role("launcher").signal(signal.SIGINT)
        run.wait_line("once more to end at once", PATIENCE_S)
        held.signal(signal.SIGCONT)
        told, why = follower.communicate(timeout=PATIENCE_S)
        tap.ok(follower.returncode == 0 and "over: cancelled: " in told and told.count("rank ") >= 1, "it ends with the run", [told, why])
        tap.ok(run.wait(PATIENCE_S) == 130, "the run was not disturbed", [])
    finally:
        run.kill()


def run_json(out):
    with open(os.path.join(out, "run.json")) as file:
        return json.load(file)


def killed(directory, run):
    """As a scheduler leaves it that was killed: no outcome, and a socket that nobody listens to."""
    out = os.path.join(directory, "killed")
    os.mkdir(out)
    whole = run_json(run.out)
    del whole["outcome"]
    with open(os.path.join(out, "run.json"), "w") as file:
        json.dump(whole, file)
    shutil.copy(os.path.join(run.out, "metrics.jsonl"), out)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(out, "mode.sock"))
    return out


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        under_way(tap, psring, directory)
        run = Run(psring, directory, "run", dict(OPTIONS, steps=7))
        status, table, why = command(psring, "watch", run.out)
        tap.ok(status == 0 and has_rows(table, 7) and "over: ok: 7 steps done" in table and re.search("^slowest: rank [01]$", table, re.M),
               "after the run: all ranks, in 80 columns", [table, why] + run.why())
        drawn = on_terminal([psring, "watch", run.out], 80)
        tap.ok("over: ok: 7 steps done" in drawn and drawn.count("images/s") == 1, "the same on a terminal", [drawn])
        plain = os.path.join(directory, "plain")
        shutil.copytree(run.out, plain)
        with open(os.path.join(run.out, "metrics.jsonl"), "a") as metrics:
            metrics.write('{"step": "x"}\n{"step": 8, "ra')
        status, table, why = command(psring, "watch", "--once", run.out)
        tap.ok(status == 0 and has_rows(table, 7) and "1 lines of metrics.jsonl are no steps" in table, "a strange line is told, a torn one waits", [table, why])
        status, table, why = command(psring, "watch", killed(directory, run))
        tap.ok(status == 1 and "its scheduler was killed" in table, "a run whose scheduler was killed is over", [table, why])
        for path in (directory, os.path.join(directory, "nowhere")):
            status, table, why = command(psring, "watch", path)
            tap.ok(status == 2 and "is no run's directory" in why and why.count("\n") == 1 and table == "", "what is no run is refused in a line", [why])

        other = os.path.join(directory, "other")
        shutil.copytree(plain, other)
        whole = run_json(run.out)
        whole["versions"]["libzmq"] = "9.9"
        whole["facts"].update(data_train="0" * 32, processor="another", std=[7])
        with open(os.path.join(other, "run.json"), "w") as file:
            json.dump(whole, file)
        _, told, why = command(psring, "diff", plain, other)
        tap.ok(re.search(r"^versions +libzmq: \S+ \| 9\.9$", told, re.M) and re.search(r"^machine +processor: .+ \| another$", told, re.M) and
               re.search(r"^data +data_train: [0-9a-f]{32} \| 0{32}$", told, re.M) and "std differs: pixels are normalised otherwise" in told,
               "diff tells versions, processor and data", [told, why])
        _, told, _ = command(psring, "diff", plain, plain)
        tap.ok("versions   the same\n" in told and "data       the same\n" in told, "and that they are the same", [told])
    tap.end()


main(os.path.abspath(sys.argv[1]))
