"""n workers of batch b learn what one process of batch n*b learns, on networks without batch norm:
the same samples in every step, the same dropout masks, the same losses but for the order of
additions.

usage: test_batches.py PSRING CASE"""

import sys

from psring_run import Run, Tap, Workspace

# Losses in float32 whose gradients differ in the order of sums alone: some 1e-8 apart after ten
# steps. A sample or a mask that differed would part them by more than 1e-3.
TOLERANCE = 1e-5

CASES = {
    "mlp": dict(model="mlp", data="synthetic:count=500,test=40,channels=1,size=28", lr=0.05),
    "convnet": dict(model="convnet", data="synthetic:count=500,test=40,channels=1,size=28", lr=0.05),
}


def mean_losses(run):
    """All batches of a step are of one size here: 480 of the 500 samples make whole steps, and the
    test ends before the rest."""
    sums = {}
    for line in run.metrics():
        sums.setdefault(line["step"], []).append(line["loss"])
    return {step: sum(of_rank) / len(of_rank) for step, of_rank in sums.items()}


def main():
    psring, case = sys.argv[1:]
    tap = Tap()
    options = dict(CASES[case], threads=1, seed=3, momentum=0.9)
    whole_steps = 500 // 48  # of 3 workers of 16, or one of 48
    with Workspace() as directory:
        one = Run(psring, directory, "one", dict(options, mode="local", workers=1, steps=whole_steps, **{"batch-size": 48}))
        tap.ok(one.status == 0, "one process of batch 48 ends with status 0", one.why())
        for mode in (dict(mode="ps", shards=2), dict(mode="ring")):
            many = Run(psring, directory, mode["mode"],
                       dict(options, workers=3, steps=whole_steps, **{"batch-size": 16}, **mode))
            if not tap.ok(many.status == 0, "%s: 3 workers of batch 16 end with status 0" % mode["mode"], many.why()):
                continue
            a, b = mean_losses(one), mean_losses(many)
            apart = max(abs(a[step] - b[step]) / a[step] for step in a) if a.keys() == b.keys() else 1
            tap.ok(apart < TOLERANCE, "%s: the losses of %d steps are those of one process (apart by %.1e)"
                   % (mode["mode"], whole_steps, apart), [str(a), str(b)])
            tap.ok(min(list(b.values())[-3:]) < 0.99 * b[1], "%s: and they fall" % mode["mode"], [str(b)])
    tap.end()


if __name__ == "__main__":
    main()
