#!/usr/bin/env python3
"""Runs that change their architecture between two steps, and runs whose tensors go several ways:
every step ends with the bits of `local`, over every transport, also behind a checkpoint that was
taken before, at or behind a change, with other shards; and who is lost during a change is named.

usage: test_modes.py PSRING [all]"""

import csv
import io
import os
import subprocess
import sys
from functools import partial

from psring_run import Run, Tap, Workspace, together

STEPS, MIDDLE = 8, 4
OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=20,channels=1,size=28", "batch-size": 8, "threads": 1, "seed": 5, "hash": True,
           "bucket-size": 99968, "slice-size": 16448, "no-eval": True, "steps": STEPS, "checkpoint-every": MIDDLE}
RULES = {"momentum": dict(lr=0.05, momentum=0.9), "lars": dict(lr=0.5, optimizer="lars", **{"lars-trust": 0.02}), "adam": dict(lr=0.001, optimizer="adam")}

CHANGES = dict(mode="ps@1,ring@3,ps@5,ring@8")
BACK = dict(mode="ring@1,ps@5,ring@6")
ROUTES = dict(mode="ring", route="fc1.*=ps,*.bias=ring")
BOTH = dict(mode="ps@1,ring@5", route="fc2.*=ring,fc1.*=ps")

# Of each: rule, workers, shards, transport, ways.
WHOLE = {
    "shm-3": ("momentum", 3, 2, "shm", CHANGES), "ipc-3": ("momentum", 3, 2, "ipc", CHANGES), "tcp-3": ("momentum", 3, 2, "tcp", CHANGES),
    "back-shm-5": ("momentum", 5, 3, "shm", BACK), "routes-shm-3": ("momentum", 3, 2, "shm", ROUTES), "routes-tcp-3": ("momentum", 3, 2, "tcp", ROUTES),
    "both-ipc-5": ("momentum", 5, 2, "ipc", BOTH), "both-shm-5": ("momentum", 5, 2, "shm", BOTH),
    "lars-shm-3": ("lars", 3, 2, "shm", CHANGES), "lars-both-tcp-3": ("lars", 3, 2, "tcp", BOTH),
    "adam-shm-3": ("adam", 3, 2, "shm", BACK), "adam-tcp-3": ("adam", 3, 1, "tcp", CHANGES),
}
# From the checkpoint after MIDDLE steps of one, which lies around a change, to the ways of another
RESUMED = (("shm-3", "ipc-3"), ("back-shm-5", "both-ipc-5"), ("both-shm-5", "back-shm-5"), ("adam-shm-3", "adam-tcp-3"))
# Each of its checkpoints is gone on from, with other shards, in either mode and in stretches.
AROUND = ("momentum", 3, 2, "shm", {"mode": "ps@1,ring@4,ps@6", "checkpoint-every": 1})
ON = {"ps": ("momentum", 3, 3, "ipc", dict(mode="ps")), "ring": ("momentum", 3, 1, "shm", dict(mode="ring")),
      "same": ("momentum", 3, 1, "tcp", dict(mode="ps@1,ring@4,ps@6")), "other": ("momentum", 3, 3, "shm", dict(mode="ring@1,ps@4,ring@6"))}
GOES_ON = ((2, "ps"), (2, "same"), (3, "ring"), (3, "same"), (4, "ps"), (4, "other"), (5, "ring"), (5, "same"), (6, "other"))
LOST = ("worker:1", "shard:0", "shard:1", "worker:0")
# What is played by default: each rule, transport, way and number of workers, and each kind of
# change that lies behind a checkpoint.
FEW = ("tcp-3", "back-shm-5", "routes-shm-3", "both-ipc-5", "lars-shm-3", "adam-tcp-3")
FEW_RESUMED = (("tcp-3", "routes-shm-3"), ("back-shm-5", "both-ipc-5"))
FEW_GO_ON = ((2, "same"), (3, "ring"), (4, "other"), (5, "ps"))
FEW_LOST = ("worker:1", "shard:0")


def options(rule, workers, shards, transport, ways):
    return dict(OPTIONS, **RULES[rule], workers=workers, shards=shards, transport=transport, **ways)


class Runs:
    def __init__(self, psring, directory):
        self.psring, self.directory, self.hashes = psring, directory, {}

    def run(self, name, given):
        return Run(self.psring, self.directory, name, given)


def whole_run(tap, runs, name, given):
    run = runs.run(name, given)
    if tap.ok(run.status == 0, name + " ends with status 0", run.why()):
        runs.hashes[name] = run.hashes()
    told = run.stdout.count("after a pause of")
    tap.ok(told == str(given["mode"]).count(","), "%s: each change is told with its pause" % name, run.stdout.splitlines())
    if run.status == 0 and "," in str(given["mode"]):
        told_stretches(tap, name, runs.psring, run, given["mode"])


def told_stretches(tap, name, psring, run, changes):
    """run.json has each stretch, and the summary and the report a row for each."""
    expected = [entry.split("@") for entry in changes.split(",")]
    stretches = run.outcome().get("stretches", [])
    tap.ok([[s["mode"], str(s["first_step"])] for s in stretches] == expected
           and sum(s["steps"] for s in stretches) == STEPS and stretches[0]["pause_s"] == 0
           and all(s["pause_s"] > 0 for s in stretches[1:]) and all(s["seconds"] > 0 for s in stretches),
           "%s: run.json has its stretches" % name, [str(stretches)])
    report = subprocess.run([psring, "report", run.out], capture_output=True, text=True).stdout
    for where, text in (("summary", run.stdout), ("report", report)):
        rows = [line.split()[:2] for line in text.splitlines() if line.startswith(("  ps ", "  ring "))]
        tap.ok(rows == [[s["mode"], "%d-%d" % (s["first_step"], s["first_step"] + s["steps"] - 1)] for s in stretches],
               "%s: the %s has a row for each" % (name, where), text.splitlines())
    rows = list(csv.DictReader(io.StringIO(subprocess.run([psring, "report", "--csv", run.out], capture_output=True, text=True).stdout)))
    tap.ok([row["stretch_mode"] for row in rows] == [""] + [s["mode"] for s in stretches] and all(None not in row.values() for row in rows)
           and all(float(row["stretch_" + name]) == s[name] for row, s in zip(rows[1:], stretches) for name in ("first_step", "seconds", "pause_s"))
           and all(float(row[name]) == s[name] for row, s in zip(rows[1:], stretches) for name in ("steps", "images_per_s", "wait_s")),
           "%s: so has its --csv, with the same figures" % name, [str(row) for row in rows])


def goes_on(tap, runs, name, given, origin, steps):
    checkpoint = os.path.join(runs.directory, origin, "checkpoints", "step-%d" % steps)
    run = runs.run(name, dict(options(*given), resume=checkpoint))
    if tap.ok(run.status == 0, name + " ends with status 0", run.why()):
        local = runs.hashes.get("local-%s-%d" % given[:2], {})
        behind = {step: hashed for step, hashed in local.items() if step > steps}
        tap.ok(run.hashes() == behind, name + " has the bits of local", [str(behind), str(run.hashes())])


def resumed_run(tap, runs, origin, target):
    goes_on(tap, runs, "%s-behind-%s" % (target, origin), WHOLE[target], origin, MIDDLE)


def run_behind(tap, runs, steps, target):
    goes_on(tap, runs, "%s-after-step-%d" % (target, steps), ON[target], "around", steps)


def lost_run(tap, runs, who):
    """A member stops for good in the middle of a change, as by kill -9."""
    given = dict(options("momentum", 3, 2, "ipc", dict(mode="ring@1,ps@4,ring@6")), **{"fault-point": who + ":handover:3", "deadline": 20})
    run = runs.run("lost-" + who.replace(":", "-"), given)
    name = who.replace(":", " ")
    tap.ok(run.status not in (0, None) and name in run.stderr + run.stdout, "%s that is lost during a change is named" % name, run.why())


def main():
    tap, everything = Tap(), sys.argv[2:] == ["all"]
    whole = WHOLE if everything else {name: WHOLE[name] for name in FEW}
    with Workspace() as directory:
        runs = Runs(os.path.abspath(sys.argv[1]), directory)
        alone = sorted({(rule, workers) for rule, workers, *_ in whole.values()})
        parts = [partial(whole_run, runs=runs, name="local-%s-%d" % of, given=dict(OPTIONS, **RULES[of[0]], workers=of[1], mode="local")) for of in alone]
        parts += [partial(whole_run, runs=runs, name=name, given=options(*of)) for name, of in whole.items()]
        together(tap, parts)
        for name, of in whole.items():
            local, hashes = runs.hashes.get("local-%s-%d" % of[:2]), runs.hashes.get(name)
            tap.ok(local is not None and hashes == local, "%s: each step has the bits of local" % name, [str(local), str(hashes)])
        together(tap, [partial(resumed_run, runs=runs, origin=origin, target=target) for origin, target in (RESUMED if everything else FEW_RESUMED)])
        whole_run(tap, runs, "around", options(*AROUND))
        together(tap, [partial(run_behind, runs=runs, steps=steps, target=target) for steps, target in (GOES_ON if everything else FEW_GO_ON)])
        together(tap, [partial(lost_run, runs=runs, who=who) for who in (LOST if everything else FEW_LOST)])
    tap.end()


if __name__ == "__main__":
    main()
