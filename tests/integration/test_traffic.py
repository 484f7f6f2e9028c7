"""What each shard carries: with the default options no shard of a small network idles, run.json and
the shards' logs tell the bytes, and a shard that would hold nothing is refused by name.

usage: test_traffic.py PSRING"""

import json
import os
import re
import sys

from psring_run import Run, Tap, Workspace

WORKERS, STEPS = 3, 3
DATA = "synthetic:count=97,test=10,channels=%d,size=%d"
OPTIONS = {"mode": "ps", "workers": WORKERS, "steps": STEPS, "threads": 1, "batch-size": 8, "lr": 0.01}
# Network, data, the size of buckets that auto comes to.
NETWORKS = {"resnet20": (DATA % (3, 32), 64 << 10), "mlp": (DATA % (1, 28), 128 << 10), "convnet": (DATA % (1, 28), 4 << 10)}


def config_of(run):
    with open(os.path.join(run.out, "run.json")) as text:
        return json.load(text)["config"]


def logged(run, shard):
    """The bytes that a shard's own log tells at its end: gradients, weights."""
    with open(os.path.join(run.out, "log", "shard-%d.log" % shard)) as text:
        found = re.search(r"carried gradient_bytes=(\d+) weight_bytes=(\d+)", text.read())
    return (int(found.group(1)), int(found.group(2))) if found else None


def carries_its_part(tap, psring, directory, model, shards, **more):
    data, bucket_size = NETWORKS[model]
    name = "-".join([model, str(shards)] + [str(value) for value in more.values()])
    run = Run(psring, directory, name, dict(OPTIONS, model=model, shards=shards, data=data, **more))
    if not tap.ok(run.status == 0, "%s: ends with status 0" % name, run.why()):
        return
    told = run.outcome()["shards"]
    bytes_of = [shard["gradient_bytes"] for shard in told]
    ratio = max(bytes_of) / (sum(bytes_of) / shards)
    tap.ok([shard["rank"] for shard in told] == list(range(shards)) and ratio <= 1.25,
           "%s: no shard takes more than 1.25 times the mean" % name, [str(told)])
    # else a shard is done with its last push, and still has to answer the last pulls
    if more.get("sync", "bsp") == "bsp":
        tap.ok(all(shard["weight_bytes"] == shard["gradient_bytes"] for shard in told),
               "%s: each gives as much as it takes" % name, [str(told)])
    tap.ok(all(logged(run, shard["rank"]) == (shard["gradient_bytes"], shard["weight_bytes"]) for shard in told),
           "%s: each shard's own log tells the same" % name, [str(told)] + run.why())
    # All shards together take every worker's gradient of every step: the same whatever their
    # number.
    tap.ok(sum(bytes_of) % (WORKERS * STEPS) == 0, "%s: all workers' steps are the same number of bytes" % name, [str(told)])
    tap.ok("at most %.2f times the mean" % ratio in run.stdout, "%s: the summary says how even that is" % name, run.why())
    tap.ok(config_of(run)["bucket-size"] == bucket_size and "of at most %dK; " % (bucket_size >> 10) in run.stdout,
           "%s: the size of buckets is printed, and recorded for --config" % name, run.why())
    return sum(bytes_of)


def in_other_modes(tap, psring, directory):
    data, bucket_size = NETWORKS["resnet20"]
    options = dict(OPTIONS, model="resnet20", data=data)
    for mode in ("ring", "local"):
        run = Run(psring, directory, mode, dict(options, mode=mode))
        tap.ok(run.status == 0 and config_of(run)["bucket-size"] == bucket_size, "--mode %s comes to the same size" % mode, run.why())


def idle_is_refused(tap, psring, directory):
    data, _ = NETWORKS["resnet20"]
    run = Run(psring, directory, "idle", dict(OPTIONS, model="resnet20", shards=2, data=data, **{"bucket-size": "4M"}))
    line = "--shards 2: shard 1 would hold nothing: with --bucket-size 4M, resnet20 has 1 part to give; give at most " \
        "--shards 1, or --bucket-size 64K"
    tap.ok(run.status == 2 and line in run.stderr, "a shard that would hold nothing is refused, with what would mend it", run.why())
    tap.ok(not os.path.exists(run.out), "and no run directory is left", run.why())


def main():
    tap = Tap()
    with Workspace() as directory:
        totals = [carries_its_part(tap, sys.argv[1], directory, "resnet20", shards) for shards in (2, 3, 4)]
        tap.ok(totals[0] and len(set(totals)) == 1, "the sum does not depend on the number of shards", [str(totals)])
        carries_its_part(tap, sys.argv[1], directory, "resnet20", 2, sync="async")
        for model in ("mlp", "convnet"):
            for shards in (2, 4):
                carries_its_part(tap, sys.argv[1], directory, model, shards)
        in_other_modes(tap, sys.argv[1], directory)
        idle_is_refused(tap, sys.argv[1], directory)
    tap.end()


if __name__ == "__main__":
    main()
