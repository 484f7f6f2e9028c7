#!/usr/bin/env python3
"""What --mode with several stretches, --route and shards beside a ring refuse on the plain command
line of psring train: each by name, with what would be right, before anything is started or
written.

usage: test_mode_refusals.py PSRING"""

import os
import re
import sys

from psring_run import Run, Tap, Workspace, together

OPTIONS = {"model": "mlp", "data": "synthetic:count=48,test=8,channels=1,size=28", "workers": 2, "batch-size": 8, "threads": 1, "steps": 10}
CHANGES = {"mode": "ps@1,ring@5"}
ROUTE = {"mode": "ps", "route": "fc1.*=ring"}
WAITS = {"mode": "ring", "shards": 1}

APART = "a change needs all workers after the same step; use --sync bsp"
ROUNDS = "shards and a ring round differently; leave --compress out"
LISTS = "is no list of PATTERN=ps and PATTERN=ring; give one (layer4.*=ps,*=ring)"

# Options beside the ones above, and how the line behind "psring train: " begins.
CASES = [
    # the stretches themselves
    ({"mode": "ps@1,ring@11"}, "--mode ps@1,ring@11 does not go with --steps 10: the run ends before that; give more --steps"),
    ({"mode": "ps@2,ring@5"}, "--mode: 'ps@2,ring@5' does not say in which mode step 1 is; begin with MODE@1 (ps@1,ring@150)"),
    ({"mode": "ps,ring@5"}, "--mode: 'ps,ring@5' does not say with which step each mode begins; give MODE@STEP for each (ps@1,ring@150)"),
    ({"mode": "ps@1,ring@5,ps@5"}, "--mode: 'ps@1,ring@5,ps@5': the steps must ascend; give them in the order of the run (ps@1,ring@150)"),
    ({"mode": "ps@1,ps@5"}, "--mode: 'ps@1,ps@5' changes nothing at step 5; leave that entry out"),
    ({"mode": "ps@1,ring@0"}, "--mode: 'ring@0' does not name a step; give MODE@STEP, from step 1 on (ring@150)"),
    ({"mode": "ps@1,ring@18446744073709551615"}, "--mode: 'ring@18446744073709551615' begins later than any run can; give a step of at most 9007199254740992"),
    ({"mode": "ps@1,ring@5,"}, "--mode: '' is not known; give one of ps, ring"),
    # what a run that changes cannot have
    ({"mode": "ps@1,local@5"}, "--mode ps@1,local@5: a run changes between ps and ring alone, not to or from local"),
    ({"mode": "local@1,ring@5"}, "--mode local@1,ring@5: a run changes between ps and ring alone, not to or from local"),
    (dict(CHANGES, workers=1), "--mode ps@1,ring@5 does not go with --workers 1: one worker is no ring; give more --workers"),
    (dict(CHANGES, compress="int8"), "--mode ps@1,ring@5 does not go with --compress int8: " + ROUNDS),
    (dict(CHANGES, **{"compress-weights": "fp16"}),
     "--mode ps@1,ring@5 does not go with --compress-weights fp16: a ring sends no weights; leave --compress-weights out"),
    (dict(CHANGES, sync="ssp:3"), "--mode ps@1,ring@5 does not go with --sync ssp:3: " + APART),
    (dict(CHANGES, sync="async"), "--mode ps@1,ring@5 does not go with --sync async: " + APART),
    (dict(CHANGES, fold="arrival"), "--mode ps@1,ring@5 does not go with --fold arrival: a ring sees no arrivals; use --fold rank"),
    # routes
    (dict(ROUTE, workers=1), "--route fc1.*=ring does not go with --workers 1: one worker is no ring; give more --workers"),
    (dict(ROUTE, compress="fp16"), "--route fc1.*=ring does not go with --compress fp16: " + ROUNDS),
    (dict(ROUTE, sync="async"), "--route fc1.*=ring does not go with --sync async: " + APART),
    (dict(ROUTE, mode="local"), "--route fc1.*=ring does not go with --mode local: it is for --mode ps and ring; leave --route out"),
    ({"mode": "ring", "route": "fc1.*=ps"}, "--route fc1.*=ps does not go with --mode ring: that run has no shards; give --shards"),
    ({"mode": "ps", "route": "fc1.*"}, "--route: 'fc1.*' " + LISTS),
    ({"mode": "ps", "route": "fc1.*=local"}, "--route: 'fc1.*=local' " + LISTS),
    ({"mode": "ps", "route": "=ring"}, "--route: '=ring' " + LISTS),
    ({"mode": "ps", "route": "*=ring,"}, "--route: '*=ring,' " + LISTS),
    ({"mode": "ps", "route": "fc9.*=ring"}, "--route: no tensor of mlp is called 'fc9.*'; its first is fc1.weight, its last fc3.bias"),
    # shards that wait for a change by hand
    (dict(WAITS, compress="int8"), "--shards 1 does not go with --compress int8: " + ROUNDS),
    (dict(WAITS, workers=1), "--shards 1 does not go with --workers 1: one worker is no ring; give more --workers"),
    (dict(WAITS, mode="local"), "--shards 1 does not go with --mode local: shards serve --mode ps and ring; leave --shards out"),
]


# The same of what is known only where the data are: a worker says it.
LATE = [
    ({"mode": "ps@1,ring@4", "steps": 0, "epochs": 1},
     "--mode ps@1,ring@4 does not go with --epochs 1: the run ends before that, after step 3; give more --epochs"),
]


def refused(tap, psring, directory, number):
    options, line = (CASES + LATE)[number]
    by = "" if number < len(CASES) else r"worker \d on \S+: "
    run = Run(psring, directory, "run-%d" % number, dict(OPTIONS, **options))
    name = " ".join("--%s %s" % one for one in options.items())
    tap.ok(run.status == 2 and any(re.match("psring train: " + by + re.escape(line), said) for said in run.stderr.splitlines()), "%s: one line says why" % name, [line] + run.why())
    tap.ok(not os.path.exists(run.out), "%s: and nothing is written" % name)


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        together(tap, [lambda results, number=number: refused(results, psring, directory, number) for number in range(len(CASES + LATE))])
    tap.end()


main(os.path.abspath(sys.argv[1]))
