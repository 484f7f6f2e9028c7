"""A run goes on with another number of workers: the rest of its epoch is dealt out anew, its
schedule is at the same fraction of the run, and all ways to that number end with the same bits.

usage: test_resize.py PSRING"""

import os
import sys
from functools import partial

from psring_run import Run, Tap, Workspace, together

# An epoch has 4 steps with four workers, 7 with two and 5 with three.
OPTIONS = {"data": "synthetic:count=49,test=20,channels=1,size=8", "model": "resnet20", "batch-size": 4, "threads": 1,
           "hash": True, "seed": 5, "epochs": 3, "warmup": "0.5e", "lr-schedule": "multistep:1e,2e:0.1"}
MODES = {"ps": {"mode": "ps", "shards": 2}, "ring": {"mode": "ring"}, "local": {"mode": "local"}}


def resumed(psring, directory, name, checkpoint, workers, mode, **more):
    run = Run(psring, directory, name, dict({"resume": checkpoint, "workers": workers}, **MODES[mode], **more))
    run.options["workers"] = workers
    return run


def checkpoint_of(run, step):
    return os.path.join(run.out, "checkpoints", "step-%d" % step)


def from_four_to_two(tap, psring, directory, four):
    """Whatever sums, and however often it is ended on the way."""
    runs = {mode: resumed(psring, directory, "two-" + mode, checkpoint_of(four, 6), 2, mode, **{"checkpoint-every": "2e"})
            for mode in MODES}
    for mode, run in runs.items():
        if not tap.ok(run.status == 0, "%s with two workers goes on from four" % mode, run.why()):
            return
    right = runs["local"].hashes()
    # 17 samples are left of the second epoch: three steps of two workers
    tap.ok(sorted(right) == list(range(7, 6 + 3 + 7 + 1)), "what is left are the steps of two workers", [str(sorted(right))])
    for mode in ("ps", "ring"):
        tap.ok(runs[mode].hashes() == right, "%s ends every step with the hashes of local" % mode, [str(right), str(runs[mode].hashes())])
    told = "epoch 2 goes on after 32 of its samples, and the rest is dealt out anew, in 3 steps; an epoch has 7"
    tap.ok(told in runs["ps"].stdout, "the place in the data is told", runs["ps"].why())
    images = {}
    for line in runs["ring"].metrics():
        images[line["step"]] = images.get(line["step"], 0) + line["images"]
    tap.ok([images[s] for s in (7, 8, 9, 10)] == [8, 8, 1, 8], "each sample of the epoch is taken once", [str(images)])
    rates = {line["step"]: line["lr"] for line in runs["ring"].metrics()}
    # two epochs after the warm-up of half an epoch: after 3.5 of the 7 steps of the third epoch
    tap.ok(rates[13] > 5 * rates[14] and rates[14] == rates[16], "the rate falls after the same samples", [str(rates)])
    again = resumed(psring, directory, "two-again", checkpoint_of(runs["ring"], 9), 2, "ps")
    tap.ok(again.status == 0 and again.hashes() == {s: h for s, h in right.items() if s > 9},
           "a run that was ended and resumed has the same hashes", again.why())
    three = {mode: resumed(psring, directory, "three-" + mode, checkpoint_of(runs["ps"], 9), 3, mode) for mode in ("ring", "local")}
    tap.ok(all(run.status == 0 for run in three.values()) and three["ring"].hashes() == three["local"].hashes(),
           "three workers go on from two, in ring as in local", three["ring"].why())


def is_told(tap, psring, directory, four):
    checkpoint = checkpoint_of(four, 6)
    run = resumed(psring, directory, "seed", checkpoint, 4, "local", seed=6)
    tap.ok(run.status == 0 and "--seed 6 instead of 5: the rest of this epoch is of another order" in run.stdout,
           "another seed is told", run.why())
    run = resumed(psring, directory, "batch", checkpoint, 4, "local", **{"batch-size": 2})
    tap.ok(run.status == 0 and "4 workers of batch 2 instead of 4 of batch 4" in run.stdout and run.outcome()["steps"] == 6 + 3 + 7,
           "another batch size is dealt out anew, and told", run.why())
    run = resumed(psring, directory, "adam", checkpoint, 4, "local", optimizer="adam")
    tap.ok(run.status == 2 and "is of --optimizer sgd, and --optimizer is adam" in run.stderr,
           "another optimizer is refused by its name", run.why())


def main():
    psring = sys.argv[1]
    tap = Tap()
    with Workspace() as directory:
        four = Run(psring, directory, "four", dict(OPTIONS, workers=4, **MODES["ps"], **{"checkpoint-every": "1.5e"}))
        if tap.ok(four.status == 0 and sorted(os.listdir(os.path.join(four.out, "checkpoints"))) == ["step-12", "step-6"],
                  "four workers write a checkpoint every epoch and a half", four.why()):
            together(tap, [partial(from_four_to_two, psring=psring, directory=directory, four=four),
                           partial(is_told, psring=psring, directory=directory, four=four)])
    tap.end()


if __name__ == "__main__":
    main()
