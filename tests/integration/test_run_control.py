"""How a run is ended, judged and kept: early stop, evaluation alone, the checkpoints that stay, and
epochs without incomplete batches.

usage: test_run_control.py PSRING"""

import math
import os
import re
import sys
from functools import partial

from psring_run import Run, Tap, Workspace, together

OPTIONS = {"data": "synthetic:count=49,test=40,channels=1,size=8", "model": "resnet20", "batch-size": 4, "threads": 1, "hash": True,
           "seed": 5, "steps": 6, "workers": 3, "eval-every": 2}
MODES = {"ps": {"mode": "ps", "shards": 2}, "ring": {"mode": "ring"}, "local": {"mode": "local"}}


def accuracies(run):
    return {line["step"]: line["test_accuracy"] for line in run.metrics() if "test_accuracy" in line}


def a_target_ends_the_run(tap, psring, directory):
    """Where the undisturbed run reaches its best accuracy first, in every mode."""
    whole = Run(psring, directory, "whole", dict(OPTIONS, **MODES["local"]))
    if not tap.ok(whole.status == 0 and sorted(accuracies(whole)) == [2, 4, 6], "an undisturbed run evaluates three times", whole.why()):
        return
    target = accuracies(whole)[2]
    for mode, options in MODES.items():
        run = Run(psring, directory, "target-" + mode, dict(OPTIONS, **options, **{"target-accuracy": target}))
        right = {step: hash for step, hash in whole.hashes().items() if step <= 2}
        tap.ok(run.status == 0 and run.hashes() == right and run.outcome()["steps"] == 2,
               "%s: all ranks end with the step that reaches --target-accuracy" % mode, run.why())
        told = "after step 2 reaches the"
        tap.ok(told in run.stdout and told in run.outcome()["line"], "%s: the output and run.json say so" % mode, run.why() + [str(run.outcome())])
        tap.ok(os.listdir(os.path.join(run.out, "checkpoints")) == ["step-2"], "%s: its checkpoint is there" % mode, run.why())
    run = Run(psring, directory, "target-missed", dict(OPTIONS, **MODES["ring"], **{"target-accuracy": 1}))
    tap.ok(run.status == 0 and run.hashes() == whole.hashes(), "a target that is missed changes nothing", run.why())


def checkpoints_stay(tap, psring, directory):
    run = Run(psring, directory, "kept", dict(OPTIONS, **MODES["ring"], **{"eval-every": 1, "checkpoint-every": 1, "keep": 2, "keep-best": True}))
    if not tap.ok(run.status == 0, "a run with --keep 2 --keep-best ends with status 0", run.why()):
        return
    told = accuracies(run)
    best = min(step for step in told if told[step] == max(told.values()))
    folder = os.path.join(run.out, "checkpoints")
    tap.ok(sorted(os.listdir(folder)) == sorted({"best", "step-5", "step-6", "step-%d" % best}),
           "the newest two stay, and the best", [str(os.listdir(folder)), str(told)])
    tap.ok(os.readlink(os.path.join(folder, "best")) == "step-%d" % best and run.outcome()["best_step"] == best and
           run.outcome()["best_accuracy"] == told[best], "checkpoints/best and run.json name the best", [str(told), str(run.outcome())])
    for source in ("resume", "init"):
        only = Run(psring, directory, "only-" + source, dict(OPTIONS, **MODES["ring"], **{"eval-only": True, "eval-format": "torch",
                                                                                   source: os.path.join(folder, "best")}))
        outcome = only.outcome() if only.status == 0 else {}
        tap.ok(outcome.get("test_accuracy") == told[best] and outcome.get("steps") == (best if source == "resume" else 0),
               "--eval-only with --%s evaluates, and takes no step" % source, only.why())
        line = "Test set: Average loss: %.4f, Accuracy: %.2f%%" % (outcome.get("test_loss", math.nan), 100 * outcome.get("test_accuracy", math.nan))
        with open(os.path.join(only.out, "log", "rank-0.log")) as log:
            tap.ok(line in log.read().splitlines(), "--eval-format torch prints its line", [line] + only.why())


def a_made_up_evaluation_counts(tap, psring, directory):
    """Of a checkpoint that was not evaluated: the run that goes on from it does so first."""
    first = Run(psring, directory, "unevaluated", {**{name: value for name, value in OPTIONS.items() if name != "eval-every"}, **MODES["local"],
                                                   "steps": 2, "no-eval": True})
    checkpoint = os.path.join(first.out, "checkpoints", "step-2")
    for mode, options in MODES.items():
        more = dict(options, resume=checkpoint, steps=6, eval=True, **{"eval-every": 2, "checkpoint-every": 2, "keep-best": True})
        whole = Run(psring, directory, "made-up-" + mode, more)
        if not tap.ok(whole.status == 0 and "\nstep 2: test accuracy" in whole.stdout, "%s: it is shown" % mode, first.why() + whole.why()):
            return
        told = accuracies(whole)
        made_up = float(re.search(r"\nstep 2: test accuracy ([0-9.]+)%", whole.stdout).group(1)) / 100
        best = os.readlink(os.path.join(whole.out, "checkpoints", "best"))
        better = [step for step in told if round(told[step], 4) > round(made_up, 4)]
        right = checkpoint if not better else "step-%d" % min(step for step in told if told[step] == max(told.values()))
        tap.ok(os.path.realpath(best) == os.path.realpath(right) if not better else best == right,
               "%s: the best checkpoint may be the one that was evaluated so" % mode, [best, right, str(told), str(made_up)])
        ended = Run(psring, directory, "reached-" + mode, dict(more, **{"target-accuracy": made_up - 1e-4}))
        tap.ok(ended.status == 0 and ended.outcome()["steps"] == 3 and "after step 2 reaches the" in ended.outcome()["line"],
               "%s: and may reach --target-accuracy" % mode, ended.why())


def steps_of_another_size_are_told(tap, psring, directory):
    first = Run(psring, directory, "of-three", dict(OPTIONS, **MODES["ring"], **{"eval-every": 0, "steps": 2}))
    two = Run(psring, directory, "of-two", dict(MODES["ring"], resume=first.out, workers=2, steps=6, hash=True))
    tap.ok(two.status == 0 and "--steps 6 ends with that step, and schedules count steps: 4 more, of 8 samples instead of 12; "
           "as many samples as before would be --steps 8" in two.stdout, "--steps after a resize tells its samples", first.why() + two.why())
    same = Run(psring, directory, "of-three-more", dict(MODES["ring"], resume=first.out, steps=4, hash=True))
    tap.ok(same.status == 0 and "ends with that step" not in same.stdout, "and nothing without one", same.why())


def figures_are_told(tap, psring, directory):
    run = Run(psring, directory, "figures", dict(OPTIONS, **MODES["local"], **{"eval-every": 0}))
    lines, outcome = run.metrics(), run.outcome()
    # an epoch has 5 steps here, so the sixth step is the second epoch
    right = sum(line["train_accuracy"] * line["images"] for line in lines if line["epoch"] == 2)
    of = sum(line["images"] for line in lines if line["epoch"] == 2)
    tap.ok(math.isclose(outcome["train_accuracy"], right / of), "training accuracy is that of the last epoch's samples", [str(outcome)])
    tap.ok(outcome["test_accuracy"] <= outcome["test_top5"] <= 1 and "within the top five" in run.stdout and " of the last epoch's samples in training" in run.stdout,
           "it and the top five are in the summary", run.why())


def incomplete_batches_are_left_out(tap, psring, directory):
    options = dict(OPTIONS, **{"drop-last": True, "eval-every": 0, "epochs": 2, "steps": 0})
    runs = {mode: Run(psring, directory, "drop-" + mode, dict(options, **more)) for mode, more in MODES.items()}
    # 17, 16 and 16 samples: four batches of 4
    tap.ok(all(run.status == 0 and sorted(run.hashes()) == list(range(1, 9)) and {line["images"] for line in run.metrics()} == {4}
               for run in runs.values()), "--drop-last: all batches are complete", runs["ps"].why())
    tap.ok(len({str(run.hashes()) for run in runs.values()}) == 1, "with the same hashes in every mode", runs["ring"].why())
    one = Run(psring, directory, "one", {"data": "synthetic:count=9,test=4,channels=3,size=32", "model": "resnet18", "batch-size": 2,
                                         "workers": 2, "threads": 1, "epochs": 1, "mode": "ring"})
    tap.ok(one.status == 2 and "one value a channel" in one.stderr and "--drop-last" in one.stderr,
           "a batch of one value a channel is refused before the first step", one.why())


def main():
    psring = sys.argv[1]
    tap = Tap()
    with Workspace() as directory:
        together(tap, [partial(part, psring=psring, directory=directory)
                       for part in (a_target_ends_the_run, checkpoints_stay, a_made_up_evaluation_counts,
                                    steps_of_another_size_are_told, figures_are_told, incomplete_batches_are_left_out)])
    tap.end()


if __name__ == "__main__":
    main()
