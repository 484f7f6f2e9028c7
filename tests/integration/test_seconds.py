#!/usr/bin/env python3
"""`psring train --seconds T` ends a run after T seconds of training in every mode, with an
evaluation and a checkpoint, and its figures tell hidden from exposed, where processes were, and
what went between hosts.

usage: test_seconds.py PSRING"""

import os
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace, over

BASE = {"model": "mlp", "data": "synthetic:count=512,test=64,size=8,channels=1", "batch-size": 4, "workers": 2, "threads": 1, "lr": 1e-4}
SECONDS = 0.5
# they wait more than they compute
RUNS = {
    "ps": {"mode": "ps", "shards": 2, "slow": "0:8"},
    "ring": {"mode": "ring", "slow": "0:8"},
    "local": {"mode": "local", "slow": "0:8"},
    "async": {"mode": "ps", "sync": "async", "slow": "1:3"},
}


def ends_in_time(tap, psring, directory, name, options):
    run = Run(psring, directory, name, dict(BASE, seconds=SECONDS, **options))
    if not tap.ok(run.status == 0, "%s: ends with status 0" % name, run.why()):
        return
    outcome, lines = run.outcome(), run.metrics()
    last = {rank: [line for line in lines if line["rank"] == rank][-1] for rank in range(2)}
    tap.ok(outcome["line"] == "%d steps done in the %g s of --seconds" % (outcome["steps"], SECONDS), "%s: says why it ended" % name, run.why())
    tap.ok(all(line["step"] == outcome["steps"] for line in last.values()), "%s: after the same step everywhere" % name, run.why())
    tap.ok(max(line["train_s"] for line in lines) >= SECONDS and outcome["train_s"] >= SECONDS, "%s: not before its time" % name, [str(outcome)])
    tap.ok(outcome["test_count"] == 64, "%s: evaluates at its end" % name, [str(outcome)])
    tap.ok(os.path.isfile(os.path.join(run.out, "checkpoints", "step-%d" % outcome["steps"], "model.safetensors")),
           "%s: leaves a checkpoint" % name, run.why())
    tap.ok(0 < outcome["together_s"] <= outcome["train_s"] + 1e-9, "%s: all trained together until one was done" % name, [str(outcome)])
    tap.ok(outcome["exposed_s"] <= outcome["wait_s"] + 1e-6 and outcome["drain_s"] <= outcome["wait_s"] + 1e-6,
           "%s: what is exposed was waited for" % name, [str(outcome)])
    exchanges = name != "local"
    tap.ok((outcome["hidden_s"] + outcome["exposed_s"] > 0) == exchanges, "%s: an exchange is hidden or exposed" % name, [str(outcome)])
    shards = {"ps": 2, "async": 1}.get(name, 0)
    hosts = outcome["placement"]["hosts"]
    tap.ok(outcome["placement"]["shards"] == ("beside" if shards else "none") and len(hosts) == 1
           and hosts[0]["shards"] == shards and hosts[0]["workers"] == (1 if name == "local" else 2),
           "%s: says where its processes were" % name, [str(outcome["placement"])])
    tap.ok(len(outcome["links"]) == exchanges, "%s: nothing left the host" % name, [str(outcome["links"])])
    tap.ok(name == "async" or outcome["staleness_max"] == 0, "%s: no weights are stale" % name, [str(outcome)])


def counts_bytes_between_hosts(tap, psring, directory):
    run = Run(psring, directory, "hosts", dict(BASE, mode="ps", shards=2, steps=4, **over("mixed", directory, 2)))
    if not tap.ok(run.status == 0, "two hosts: ends with status 0", run.why()):
        return
    outcome = run.outcome()
    bytes_of = {(row["from"], row["to"]): row["bytes"] for row in outcome["links"]}
    a, b = (host["host"] for host in outcome["placement"]["hosts"])
    within = bytes_of[a, a] + bytes_of[b, b]
    across = bytes_of[a, b] + bytes_of[b, a]
    carried = sum(shard["gradient_bytes"] + shard["weight_bytes"] for shard in outcome["shards"])
    # INIT, averages and the like are counted too
    tap.ok(carried <= within + across and min(bytes_of.values()) > 0 and len(bytes_of) == 4,
           "two hosts: what the shards carried went within a host or between two", [str(outcome["links"]), str(carried)])


def is_refused(tap, psring, directory, words, line):
    done = subprocess.run([psring, "train", "--out", os.path.join(directory, "none"), *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=PATIENCE_S)
    tap.ok(done.returncode == 2 and done.stderr == "psring train: %s\n" % line, "%s: refused by name" % " ".join(words), [done.stderr])


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        for name, options in RUNS.items():
            ends_in_time(tap, psring, directory, name, options)
        counts_bytes_between_hosts(tap, psring, directory)
        run = Run(psring, directory, "steps", dict(BASE, mode="ring", seconds=1000, steps=3))
        tap.ok(run.status == 0 and run.outcome()["line"] == "3 steps done", "--steps ends it where that is sooner", run.why())
        is_refused(tap, psring, directory, ["--seconds=1", "--lr-schedule=cosine"],
                   "--seconds 1 does not go with --lr-schedule cosine: it falls until the last step, whose number is not known then; "
                   "give --steps too")
        is_refused(tap, psring, directory, ["--seconds=-1"], "--seconds: -1 is out of bounds; give a number from 0 and up to 1000000000")
    tap.end()


main(sys.argv[1])
