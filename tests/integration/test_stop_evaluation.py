"""Ctrl-C in an evaluation leaves it out and loses nothing: the checkpoint of the step before it is
written, the run goes on from there to the weights of an undisturbed one, and no accuracy is printed
that was not counted to its end. And a run without evaluations.

usage: test_stop_evaluation.py PSRING"""

import math
import os
import re
import signal
import sys
import time
from functools import partial

from psring_live import Live, LiveRun
from psring_run import PATIENCE_S, Run, Tap, Workspace, together

STEPS = 8
# With batch-norm statistics, which are averaged first: until worker 1 has sent its own, worker 0
# cannot begin to count.
OPTIONS = {"model": "resnet20", "data": "synthetic:count=400,test=64,channels=1,size=8", "batch-size": 8, "steps": STEPS, "workers": 2,
           "eval-every": 4, "threads": 1, "seed": 7, "lr": 0.01, "deadline": 600}


def options_of(mode, **more):
    return dict(OPTIONS, mode=mode, **{name.replace("_", "-"): value for name, value in more.items()})


def wait_logged(run, name, pattern):
    """A line in a process' log, which the run directory has within a moment."""
    end = time.monotonic() + PATIENCE_S
    while not any(re.search(pattern, line) for line in run.log(name)):
        if time.monotonic() > end:
            raise AssertionError("%s says nothing like '%s': %s" % (name, pattern, run.log(name)))
        time.sleep(0.02)


def stopped_in_evaluation(tap, psring, directory, mode, step, undisturbed):
    """step: completed when the evaluation begins. Worker 1 is held at its begin, so that worker 0
    hears of Ctrl-C before it can end."""
    name = "%s, the evaluation after step %d of %d" % (mode, step, STEPS)
    run = LiveRun(psring, directory, "%s-%d" % (mode, step), options_of(mode, fault_point="worker:1:evaluation:%d" % (step - 1)))
    try:
        run.wait_line("fault-point evaluation:%d reached" % (step - 1), PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        run.of_role("launcher").signal(signal.SIGINT)
        run.wait_line("once more to end at once", PATIENCE_S)
        wait_logged(run, "rank-0", "told to hold")
        held.signal(signal.SIGCONT)
        tap.ok(run.wait(PATIENCE_S) == 130, "%s: Ctrl-C ends the run with status 130" % name, run.why())
        said = run.text("out") + run.text("err")
        tap.ok(not any(re.search(r"step %d: test accuracy" % step, line) or line.startswith("result ") for line in said),
               "%s: no accuracy is printed" % name, said)
        tap.ok("test_accuracy" not in [line for line in run.metrics() if line["step"] == step][0],
               "%s: nor told in the metrics" % name, [])
        left_out = "evaluation step=%d left out" % step
        tap.ok(any(left_out in line for line in run.log("rank-0")), "%s: the log of worker 0 says that it was left out" % name, run.why())
        folder = os.path.join(run.out, "checkpoints", "step-%d" % step)
        tap.ok(sorted(os.listdir(folder)) == ["model.safetensors", "state.safetensors"], "%s: the checkpoint is there" % name, [folder])
        outcome = run.json()["outcome"]
        tap.ok(outcome["steps"] == step and outcome["hash"] == undisturbed.hashes()[step] and outcome["status"] == "cancelled",
               "%s: with the weights of an undisturbed run" % name, [str(outcome)])
        losses = [line["loss"] for line in undisturbed.metrics() if line["step"] == step]
        tap.ok(outcome["loss"] is not None and math.isclose(outcome["loss"], sum(losses) / len(losses), rel_tol=1e-9),
               "%s: and its loss is that of the last step" % name, [str(outcome), str(losses)])
        goes_on(tap, psring, directory, name, run, undisturbed, step)
    except (AssertionError, OSError) as wrong:
        tap.ok(False, name, [repr(wrong)] + run.why())
    finally:
        tap.ok(not run.kill(), "%s: no process is left" % name, [])


def goes_on(tap, psring, directory, name, run, undisturbed, step):
    """As the run itself says how."""
    told = re.search(r"to go on\s+psring (train .*)", "\n".join(run.text("out")))
    if not tap.ok(told, "%s: it says how to go on" % name, run.why()):
        return
    out = run.out + "-resumed"
    resumed = Live([psring] + told.group(1).split() + ["--out", out, "--fault-point="], directory, os.path.basename(out))
    try:
        tap.ok(resumed.wait(PATIENCE_S) == 0, "%s: what it says to go on with does" % name, resumed.why())
        lines = [line for line in undisturbed.stdout.splitlines() if re.match(r"step %d: test accuracy|result " % STEPS, line)]
        last = [line for line in resumed.text("out") if line.startswith("result ")]
        pattern = r"test accuracy [\d.]+%.*weight hash \w+"
        tap.ok(last and re.search(pattern, last[0]).group(0) == re.search(pattern, lines[-1]).group(0),
               "%s: and comes to the accuracy and the weights of an undisturbed run" % name, lines + resumed.why())
        # worker 0's log of the undisturbed run has the evaluation that was cut here
        made_up = r"evaluation step=%d accuracy.*" % step
        with open(os.path.join(undisturbed.out, "log", "rank-0.log")) as log:
            right = re.search(made_up, log.read()).group(0)
        with open(os.path.join(out, "log", "rank-0.log")) as log:
            tap.ok(right in log.read(), "%s: the evaluation that was cut is made up" % name, [right] + resumed.why())
    finally:
        tap.ok(not resumed.kill(), "%s: no process of the resumed run is left" % name, [])


def without_evaluation(tap, psring, directory, undisturbed):
    run = Run(psring, directory, "no-eval", dict({key: value for key, value in options_of("ring").items() if key != "eval-every"},
                                                 **{"no-eval": True}))
    tap.ok(run.status == 0 and run.outcome()["hash"] == undisturbed.outcome()["hash"], "--no-eval: the same run", run.why())
    tap.ok("accuracy" not in run.stdout and run.outcome()["test_accuracy"] is None and
           not any("test_accuracy" in line for line in run.metrics()), "--no-eval: without any evaluation", run.why())
    refused = Run(psring, directory, "refused", dict(options_of("ring"), **{"no-eval": True}))
    tap.ok(refused.status == 2 and "--no-eval does not go with --eval-every 4" in refused.stderr, "beside --eval-every it is refused",
           refused.why())
    at_end = Run(psring, directory, "at-end", dict(options_of("ring"), **{"eval-every": 0}))
    tap.ok(re.findall(r"\nstep (\d+): test accuracy", at_end.stdout) == [str(STEPS)], "--eval-every 0: one evaluation, at the end",
           at_end.why())


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        parts = []
        for mode in ("ps", "ring"):
            undisturbed = Run(psring, directory, "undisturbed-" + mode, options_of(mode, hash=True))
            tap.ok(undisturbed.status == 0, "%s: an undisturbed run" % mode, undisturbed.why())
            parts += [partial(stopped_in_evaluation, mode=mode, step=step, undisturbed=undisturbed) for step in (STEPS // 2, STEPS)]
        parts.append(partial(without_evaluation, undisturbed=undisturbed))
        together(tap, [partial(part, psring=psring, directory=directory) for part in parts])
    tap.end()


if __name__ == "__main__":
    main()
