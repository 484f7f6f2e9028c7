#!/usr/bin/env python3
"""The figures of a run are those of all its workers: what run.json has and what is printed is
worked out again here, by the definitions of docs/figures.md, from the lines of all ranks in
metrics.jsonl.

usage: test_figures.py PSRING"""

import math
import re
import sys

from psring_run import Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=240,test=24,channels=1,size=8", "batch-size": 4, "lr": 0.05,
           "threads": 1, "seed": 3, "backend": "reference"}
STEPS = 24
CASES = {
    # Rank 2 computes ten times as long as the others, which do not wait for it: they are done long
    # before.
    "async": {"workers": 3, "mode": "ps", "sync": "async", "slow": "2:10"},
    "evaluated": {"workers": 2, "mode": "ps", "sync": "async", "slow": "1:5", "eval-every": 5, "checkpoint-every": 7},
    "ring": {"workers": 3, "mode": "ring", "hash": True, "eval-every": 10},
    "local": {"workers": 3, "mode": "local"},
    "compressed": {"workers": 2, "mode": "ps", "shards": 2, "compress": "int8"},
}


def of_all_ranks(lines, first_step, total_steps, in_turn):
    """The figures by their definitions."""
    images = sum(line["images"] for line in lines)
    train_s = max(line["train_s"] for line in lines)
    warmup_steps = min(10, math.ceil((total_steps - first_step) / 10))
    warmup_s = min(line["train_s"] for line in lines if line["step"] == first_step + warmup_steps)
    warm_images = sum(line["images"] for line in lines
                      if line["train_s"] <= warmup_s and line["step"] <= first_step + warmup_steps)
    figures = {"steps": total_steps, "own_steps": total_steps - first_step, "images": images, "train_s": train_s,
               "images_per_s": images / train_s, "warmup_steps": warmup_steps, "warmup_s": warmup_s,
               "steady_images_per_s": (images - warm_images) / (train_s - warmup_s)}
    for name in "gradient_bytes", "gradient_float32_bytes":
        figures[name] = sum(line[name] for line in lines)
    for name in "wait_s", "compute_s", "load_wait_s":
        sums = {}
        for line in lines:
            worker = 0 if in_turn else line["rank"]
            sums[worker] = sums.get(worker, 0) + line[name]
        figures.update({name: sum(sums.values()) / len(sums), name + "_min": min(sums.values()), name + "_max": max(sums.values())})
    return figures


def close(a, b):
    return a is not None and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)


def check(tap, name, run, first_step=0, total_steps=STEPS):
    if not tap.ok(run.status == 0, "%s: the run ends well" % name, run.why()):
        return
    lines, outcome = run.metrics(), run.outcome()
    figures = of_all_ranks(lines, first_step, total_steps, run.options["mode"] == "local")
    wrong = ["%s is %s, should be %s" % (key, outcome.get(key), value) for key, value in figures.items()
             if not close(outcome.get(key), value)]
    tap.ok(not wrong, "%s: the figures in run.json are those of all ranks" % name, wrong)

    trained = re.search(r"^trained +(\d+) steps? .*?in ([\d.]+) s, ([\d.]+) images/s over all workers$", run.stdout, re.M)
    expected = [figures["own_steps"], figures["train_s"], figures["images_per_s"]]
    tap.ok(trained and all(rounds_to(float(e), t) for e, t in zip(expected, trained.groups())),
           "%s: and so are those that are printed" % name, ["expected %s" % expected] + run.why())
    waiting = re.search(r"^waiting +([\d.]+) s for weights, mean over workers \(least ([\d.]+) s, most ([\d.]+) s\)$", run.stdout, re.M)
    expected = [figures["wait_s"], figures["wait_s_min"], figures["wait_s_max"]]
    tap.ok(all(rounds_to(e, t) for e, t in zip(expected, waiting.groups())) if waiting else expected[2] == 0,
           "%s: waiting too, as mean and range" % name, ["expected %s" % expected] + run.why())

    ordered = all(a["train_s"] <= b["train_s"] for rank in range(3)
                  for a, b in zip(of_rank(lines, rank), of_rank(lines, rank)[1:]))
    tap.ok(ordered, "%s: no training clock goes back" % name)
    tap.ok(all(line["unix_s"] > 1.6e9 for line in lines), "%s: every line has the time of day" % name, [str(lines[0])])


def of_rank(lines, rank):
    return [line for line in lines if line["rank"] == rank]


def rounds_to(value, text):
    """Whether text, with as many decimals as it has, is value."""
    decimals = len(text.partition(".")[2])
    return abs(value - float(text)) <= 0.5 * 10 ** -decimals * (1 + 1e-6) + 1e-6


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        for name, options in CASES.items():
            check(tap, name, Run(psring, directory, name, dict(OPTIONS, steps=STEPS, **options)))
        half = Run(psring, directory, "half", dict(OPTIONS, steps=10, workers=3, mode="ring"))
        check(tap, "half", half, 0, 10)
        rest = Run(psring, directory, "rest", dict(OPTIONS, steps=STEPS, workers=3, mode="ring", resume=half.out))
        check(tap, "resumed", rest, 10, STEPS)
        tap.ok("(11 to %d)" % STEPS in rest.stdout, "resumed: the summary tells which steps were its own", rest.why())
    tap.end()


main(sys.argv[1])
