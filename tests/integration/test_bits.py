"""The same bits: with the same options, `ps` with any number of shards, `ring` by hops or within
memory, and `local` end every step with equal weights, whatever arrives first; and `local` with
another order of summation does not. Of most cases with few numbers of shards, or with all.

usage: test_bits.py PSRING CASE [TRANSPORT [all]]"""

import sys

from psring_run import Run, Tap, Workspace, over

# Every case: options of all its runs, and the numbers of shards. 97 samples (or 49) over 3 workers
# leave the last step of an epoch with batches of 1, 0 and 0; bucket and slice sizes divide neither
# a tensor nor each other.
TINY = "synthetic:count=%d,test=40,channels=1,size=28"
COLOUR = "synthetic:count=%d,test=40,channels=3,size=32"

CASES = {
    "mlp-3": (dict(model="mlp", workers=3, data=TINY % 97, steps=7, lr=0.05, nesterov=True,
                   **{"batch-size": 16, "bucket-size": 99968, "slice-size": 16448}), (1, 2, 3)),
    "mlp-5-adam": (dict(model="mlp", workers=5, data=TINY % 203, steps=8, lr=0.001, optimizer="adam",
                        **{"batch-size": 8, "bucket-size": 300032, "slice-size": 65600}), (1, 2, 3, 5)),
    "mlp-5-reversed": (dict(model="mlp", workers=5, data=TINY % 203, steps=4, lr=0.05, fold="reversed",
                            **{"batch-size": 8, "bucket-size": 70016}), (1, 3)),
    "mlp-8": (dict(model="mlp", workers=8, data=TINY % 203, steps=6, lr=0.05,
                   **{"batch-size": 8, "bucket-size": 70016}), (1, 3)),
    "convnet-3-lars": (dict(model="convnet", workers=3, data=TINY % 49, steps=5, lr=0.5, optimizer="lars",
                            **{"batch-size": 8, "bucket-size": 4160, "lars-trust": 0.02}), (1, 2, 3)),
    "resnet20-3": (dict(model="resnet20", workers=3, data=COLOUR % 49, steps=5, augment="crop-flip",
                        **{"batch-size": 8, "bucket-size": 65600, "slice-size": 16448, "eval-every": 3}), (1, 2, 3)),
    "resnet20-5-adam": (dict(model="resnet20", workers=5, data=COLOUR % 103, steps=6, lr=0.001, optimizer="adam",
                             **{"batch-size": 8, "bucket-size": 200000}), (2, 3)),
    "resnet20-3-lars": (dict(model="resnet20", workers=3, data=COLOUR % 49, steps=4, lr=0.5, optimizer="lars",
                             **{"batch-size": 8, "bucket-size": 4096}), (1, 3)),
    # What only these networks have: gates, projections before a batch norm, factors, groups.
    "resnet20-3-squeezed": (dict(model="resnet20", workers=3, data=COLOUR % 49, steps=4, se=8,
                                 **{"batch-size": 8, "zero-gamma": True, "bn-momentum": 0.2, "bn-epsilon": 0.001}), (2,)),
    "preresnet20-3": (dict(model="preresnet20", workers=3, data=COLOUR % 49, steps=4, shortcut="b", **{"batch-size": 8}), (2,)),
    "resnet9-3": (dict(model="resnet9", workers=3, data=COLOUR % 49, steps=4, **{"batch-size": 8}), (2,)),
    # Weights that the data decide, and what else its recipe has.
    "airbench94-3": (dict(model="airbench94", workers=3, data=COLOUR % 49, steps=4, augment="flip:alternate,crop:32:2:reflect",
                          **{"batch-size": 8, "lr-factor": "*.norm?.bias=64,*.norm?.weight=0", "decay-factor": "*.norm?.bias=0.015625", "eval-tta": "flip-shift", "eval-every": 2}), (2,)),
    "resnext50-3": (dict(model="resnext50_32x4d", workers=3, data=COLOUR % 25, steps=2, **{"batch-size": 4}), (2,)),
    # With the default size of buckets, which follows the network's.
    "mlp-5-default": (dict(model="mlp", workers=5, data=TINY % 203, steps=4, lr=0.05, **{"batch-size": 8}), (1, 2, 3)),
    "convnet-3-default": (dict(model="convnet", workers=3, data=TINY % 97, steps=4, lr=0.05, **{"batch-size": 16}), (1, 2, 3)),
    "resnet20-3-default": (dict(model="resnet20", workers=3, data=COLOUR % 49, steps=4,
                                augment="crop:28:2,flip,resize:32,colour-jitter:0.4:0.4:0.4:0.1,trivial-augment,cutmix:1",
                                **{"batch-size": 8}), (1, 2, 3)),
    # Our own Winograd wherever it fits, with the uneven batches of an epoch's end.
    "resnet20-3-winograd": (dict(model="resnet20", workers=3, data=COLOUR % 49, steps=4, shortcut="b",
                                 algorithms=",".join(["ooo"] * 21), **{"batch-size": 8}), (2,)),
}

# Arrivals delayed on purpose: one worker computes several times as long as the others, so that its
# pushes and hops come last where by nature they come early, and the other way round.
LATE = {
    "late-first": (dict(model="mlp", workers=3, data=TINY % 97, steps=6, lr=0.05, slow="0:4",
                        **{"batch-size": 16, "bucket-size": 99968, "slice-size": 16448}), (2,)),
    "late-last": (dict(model="resnet20", workers=5, data=COLOUR % 97, steps=5, slow="4:4", window=1,
                       **{"batch-size": 8, "bucket-size": 65600, "slice-size": 4160}), (2,)),
}
CASES.update(LATE)
# All of them in the suite slow, with each transport.
FEW_SHARDS = {"mlp-5-adam": (2, 5), "mlp-5-reversed": (3,), "mlp-8": (3,), "convnet-3-lars": (2,), "resnet20-3": (3,), "mlp-5-default": (1,),
              "convnet-3-default": (2,), "resnet20-3-default": (1,)}


def all_modes(psring, directory, options, shards, transport):
    options = dict(options, threads=1, hash=True, seed=11)
    runs = [Run(psring, directory, "local", dict(options, mode="local"))]
    by = over(transport, directory, options["workers"])
    runs.append(Run(psring, directory, "ring", dict(options, mode="ring", **by)))
    runs.append(Run(psring, directory, "ring-by-hops", dict(options, mode="ring", transport="ipc")))
    for s in shards:
        runs.append(Run(psring, directory, "ps-%d" % s, dict(options, mode="ps", shards=s, **by)))
    return runs


def check_run(tap, run):
    if not tap.ok(run.status == 0, "%s: ends with status 0" % run.name, run.why()):
        return None
    try:
        hashes = run.hashes()
    except (AssertionError, KeyError, OSError) as wrong:
        tap.ok(False, "%s: every rank of every step has the same hash" % run.name, [repr(wrong)] + run.why())
        return None
    tap.ok(sorted(hashes) == list(range(1, int(run.options["steps"]) + 1)),
           "%s: every rank of every step has the same hash" % run.name, [str(hashes)])
    tap.ok(len(set(hashes.values())) == len(hashes), "%s: every step changes the weights" % run.name, [str(hashes)])
    tap.ok(run.outcome()["hash"] == hashes[max(hashes)], "%s: the run's hash is the last step's" % run.name,
           [str(run.outcome())])
    return hashes


def same_bits(tap, psring, directory, options, shards, transport):
    runs = all_modes(psring, directory, options, shards, transport)
    columns = [check_run(tap, run) for run in runs]
    for run, without_hops in zip(runs[1:3], (transport in ("auto", "shm"), False)):
        tap.ok(("each worker sums its part where the gradients lie" in run.stdout) == without_hops,
               "%s: it is told whether sums go round" % run.name, run.stdout.splitlines())
        tap.ok(("on each of 2 hosts the workers divide the sums" in run.stdout) == (transport == "mixed" and run is runs[1]),
               "%s: and whether they go from host to host" % run.name, run.stdout.splitlines())
    for run, column in list(zip(runs, columns))[1:]:
        tap.ok(column is not None and column == columns[0], "%s: every step has the hash of local's" % run.name,
               ["%s %s" % (columns[0], column)])
    lent = [run.outcome()["bytes_lent"] > 0 for run, column in zip(runs, columns) if column and run.name not in ("local", "ring-by-hops")]
    # short slices go
    tap.ok(any(lent) == (transport not in ("ipc", "tcp")), "%s: memory is shared, or is not" % transport, [str(lent)])
    results = [(r.outcome().get("test_accuracy"), r.outcome().get("test_count")) for r, c in zip(runs, columns) if c]
    tap.ok(len(set(results)) == 1 and results[0][1] == 40, "every mode counts the same test samples right, each once",
           [str(results)])


def control(tap, psring, directory):
    """A sum in another order must give other bits: otherwise equal hashes would show nothing."""
    options = dict(CASES["mlp-3"][0], threads=1, hash=True, seed=11, mode="local")
    first = Run(psring, directory, "local", options)
    right = check_run(tap, first)
    other = check_run(tap, Run(psring, directory, "reversed", dict(options, fold="reversed")))
    again = check_run(tap, Run(psring, directory, "again", options))
    tap.ok(right is not None and right == again, "the same run again has the same hashes", [str((right, again))])
    tap.ok(right is not None and other is not None and all(right[step] != other[step] for step in right),
           "a run that sums in the reverse order has other hashes, from the first step on", [str((right, other))])


def main():
    psring, case = sys.argv[1:3]
    transport = sys.argv[3] if len(sys.argv) > 3 else "auto"
    tap = Tap()
    with Workspace() as directory:
        if case == "control":
            control(tap, psring, directory)
        else:
            options, shards = CASES[case]
            same_bits(tap, psring, directory, options, shards if sys.argv[4:] == ["all"] else FEW_SHARDS.get(case, shards), transport)
    tap.end()


if __name__ == "__main__":
    main()
