#!/usr/bin/env python3
"""A run whose numbers overflow says so in every mode: nan or inf, never "-nan", and the step
counted from 1.

usage: test_not_finite.py PSRING

With a learning rate of a million the second step's loss is still a number, which its log line
shows, and the third's is none."""

import re
import sys

from psring_run import Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=96,test=8,channels=1,size=28", "workers": 3, "batch-size": 8,
           "steps": 40, "lr": 1e6, "threads": 1, "seed": 3, "log-every": 1, "backend": "reference"}
MODES = {"local": {"mode": "local"}, "ring": {"mode": "ring"}, "ps": {"mode": "ps", "shards": 2},
         "async": {"mode": "ps", "sync": "async"},
         "int8": {"mode": "ps", "compress": "int8"}, "1bit": {"mode": "local", "compress": "1bit"},
         "ring-fp16": {"mode": "ring", "compress": "fp16"}, "ring-topk": {"mode": "ring", "compress": "topk:0.5"},
         "ring-1bit": {"mode": "ring", "compress": "1bit"}}


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        for name, options in MODES.items():
            run = Run(psring, directory, name, dict(OPTIONS, **options))
            said = run.stdout + run.stderr
            tap.ok(run.status == 1 and "not finite" in said and "-nan" not in said, "%s: it fails, and not of '-nan'" % name,
                   run.why())
            step = re.search(r"\bstep (\d+): the (loss|gradient) .*not finite", run.stderr)
            # a worker's first step may begin with weights that others have spoilt
            if name == "async":
                tap.ok(step and 1 <= int(step.group(1)) <= OPTIONS["steps"], "async: and tells the step", run.why())
            else:
                # the second step's gradients are beyond float16
                at = "2" if options.get("compress") == "fp16" else "3"
                tap.ok(step and step.group(1) == at, "%s: in step %s" % (name, at), run.why())
    tap.end()


main(sys.argv[1])
