"""psring diff: the same bits in two modes are the same; another seed, another fold and a longer run
are found in the step where they begin; damaged runs get a line.

usage: test_diff.py PSRING"""

import json
import os
import shutil
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=480,test=8,channels=1,size=28", "workers": 3, "batch-size": 8, "steps": 4,
           "lr": 0.05, "threads": 1, "seed": 3, "hash": True}


def diff(psring, *arguments):
    done = subprocess.run([psring, "diff", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, text=True)
    return done.returncode, done.stdout, done.stderr


def changed(run, directory, name, rank, step, **values):
    """A copy of a run in which one line of metrics says something else from that step on."""
    out = os.path.join(directory, name)
    shutil.copytree(run.out, out)
    with open(os.path.join(out, "metrics.jsonl")) as text:
        lines = [json.loads(line) for line in text]
    with open(os.path.join(out, "metrics.jsonl"), "w") as text:
        for line in lines:
            if line["rank"] == rank and line["step"] >= step:
                line.update(values)
            text.write(json.dumps(line) + "\n")
    return out


def damaged(tap, psring, run, directory):
    cases = {"no-metrics": "cannot be read" , "torn": "line 1 is no step of a run", "empty": "it has no steps"}
    for name, line in cases.items():
        out = os.path.join(directory, name)
        shutil.copytree(run.out, out)
        path = os.path.join(out, "metrics.jsonl")
        if name == "no-metrics":
            os.remove(path)
            line = "metrics.jsonl"
        else:
            with open(path, "w") as text:
                text.write("\033[2J{\"step\": 1}\n" if name == "torn" else "")
        code, told, said = diff(psring, run.out, out)
        tap.ok(code == 2 and line in said and len(said.splitlines()) == 1 and "\033" not in told + said,
               "%s: status 2, and a line" % name, [told, said])
    for arguments, line in (([run.out], "give two run directories"), ([run.out] * 3, "more than two runs"),
                            ([run.out, os.path.join(directory, "nowhere")], "nowhere/run.json")):
        code, told, said = diff(psring, *arguments)
        tap.ok(code == 2 and line in said and len(said.splitlines()) == 1, "%d runs: %s" % (len(arguments), line), [told, said])


def main():
    psring, tap = sys.argv[1], Tap()
    with Workspace() as directory:
        ps = Run(psring, directory, "ps", dict(OPTIONS, mode="ps", shards=2))
        ring = Run(psring, directory, "ring", dict(OPTIONS, mode="ring"))
        code, told, said = diff(psring, ps.out, ring.out)
        tap.ok(code == 0 and said == "" and "hash       the same in 4 steps of 3 ranks" in told and
               "loss       the same in 4 steps of 3 ranks" in told and "--mode: ps | ring" in told and "--out" not in told,
               "two modes with the same bits are the same, and the mode is told", [told, said] + ps.why() + ring.why())
        fold = {name: Run(psring, directory, "local-" + name, dict(OPTIONS, mode="local", fold=name)) for name in ("rank", "reversed")}
        code, told, said = diff(psring, fold["rank"].out, fold["reversed"].out)
        hashes = [run.hashes() for run in fold.values()]
        first = min((step for step in hashes[0] if hashes[0][step] != hashes[1][step]), default=None)
        tap.ok(code == 1 and "--fold: rank | reversed" in told and
               all("rank %d: step %s is the first that differs: %s | %s" % (rank, first, hashes[0][first], hashes[1][first]) in told for rank in range(3)),
               "another order of the sums is found in its first step", [told, said, str(hashes)])
        code, told, said = diff(psring, ps.out, changed(ps, directory, "loss", 1, 3, loss=0.125))
        tap.ok(code == 1 and "rank 1: step 3 is the first that differs: " in told and "| 0.125" in told and
               "hash       the same" in told and "options    the same" in told and "rank 0" not in told,
               "one rank's loss is found in its step", [told, said])
        longer = Run(psring, directory, "longer", {k: v for k, v in dict(OPTIONS, mode="ring", steps=5).items() if k != "hash"})
        code, told, said = diff(psring, ring.out, longer.out)
        tap.ok(code == 1 and "last step  4 | 5" in told and "not compared" in told and "loss       the same in 4 steps" in told,
               "a longer run differs by its length, and without --hash that is said", [told, said] + longer.why())
        damaged(tap, psring, ps, directory)
    tap.end()


if __name__ == "__main__":
    main()
