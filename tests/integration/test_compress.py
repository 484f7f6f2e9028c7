"""Compressed runs: with --compress, `ps` with any number of shards and `local` end every step with
equal weights, which are not the uncompressed ones; so do `ring` and `local --compress-as ring`,
with others; a run that is resumed goes on with what its workers owed; and fewer bytes are sent.
The same for --compress-weights, with `ps` and `local`.

usage: test_compress.py PSRING CASE [all]"""

import os
import sys

from psring_run import Run, Tap, Workspace
from test_bits import check_run

# 97 samples over 3 workers leave a last step of batches of 1, 0 and 0; bucket and slice sizes
# divide neither a tensor nor each other.
OPTIONS = dict(model="mlp", workers=3, data="synthetic:count=97,test=40,channels=1,size=28", steps=6, lr=0.05, threads=1, hash=True,
               seed=11, **{"batch-size": 16, "bucket-size": 99968, "slice-size": 16448})
MIDDLE = 4
FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
# No size of messages and no window changes a bit.
SLICES = {1: {"slice-size": "8K", "window": 1}, 2: {}, 3: {"slice-size": "1M", "window": 8}}

# The option, and how much smaller than float32 it must be. A value of topk goes with its index.
CASES = {"fp16": ("fp16", 2), "bf16": ("bf16", 2), "int8": ("int8", 3.9), "topk": ("topk:0.02", 24), "1bit": ("1bit", 30)}
OWES = ("int8", "topk", "1bit")
# Of the others by default two: how a tensor is divided is not their encoding's.
SHARDS_OF = {"int8": (1, 2, 3)}


def later(hashes):
    return {step: text for step, text in hashes.items() if step > MIDDLE}


def check_bytes(tap, run, compress, factor):
    outcome = run.outcome()
    sent, as_float32 = outcome["gradient_bytes"], outcome["gradient_float32_bytes"]
    tap.ok(sent > 0 and factor <= as_float32 / sent <= factor * 1.1, "%s: gradients take about %s times less than float32" % (run.name, factor),
           [str(outcome)])
    if run.options["mode"] == "ps":
        carried = sum(shard["gradient_bytes"] for shard in outcome["shards"])
        tap.ok(carried == sent, "%s: the shards have received as much" % run.name, [str(outcome)])
    tap.ok("  compress   %s\n" % compress in run.stdout and "\ngradients  " in run.stdout, "%s: both are shown" % run.name, run.why())


def check_resumed(tap, psring, directory, whole, right, others):
    """From the checkpoint in the middle."""
    checkpoint = os.path.join(whole.out, "checkpoints", "step-%d" % MIDDLE)
    for name, beside in others:
        run = Run(psring, directory, "%s-by-%s" % (whole.name, name), dict(resume=checkpoint, steps=OPTIONS["steps"], **beside))
        run.options = dict(OPTIONS)
        what = "%s resumed by %s" % (whole.name, name)
        if tap.ok(run.status == 0, "%s: ends with status 0" % what, run.why()):
            tap.ok(run.hashes() == later(right), "%s: every later step has the undisturbed run's hash" % what,
                   [str(right), str(run.hashes())])
    return checkpoint


def check_dropped(tap, psring, directory, checkpoint, case):
    """Without error feedback there is no place for what was owed: that is said; the other way round
    all begins with nothing owed."""
    said = "are dropped"
    without = Run(psring, directory, "without", dict(resume=checkpoint, steps=OPTIONS["steps"], compress="none"))
    tap.ok(without.status == 0 and (said in without.stdout) == (case in OWES),
           "resumed without --compress: it is said whether something is dropped", without.why())
    plain = os.path.join(without.out, "checkpoints", "step-%d" % OPTIONS["steps"])
    again = Run(psring, directory, "again", dict(resume=plain, steps=OPTIONS["steps"] + 2, compress=CASES[case][0]))
    tap.ok(again.status == 0 and said not in again.stdout, "an uncompressed run can be resumed with --compress", again.why())


def check_ring(tap, psring, directory, case, of_shards):
    compress, factor = CASES[case]
    options = dict(OPTIONS, compress=compress)
    ring = Run(psring, directory, "ring", dict(options, mode="ring", **{**SLICES[1], "checkpoint-every": MIDDLE}))
    local = Run(psring, directory, "local-as-ring", dict(options, mode="local", **{"compress-as": "ring"}))
    hashes, right = check_run(tap, ring), check_run(tap, local)
    tap.ok(hashes is not None and hashes == right, "ring: every step has the hash of local's, which rounds as a ring does",
           [str((right, hashes))])
    tap.ok(right and of_shards and all(right[step] != of_shards[step] for step in right), "no step has the hash of shards",
           [str((right, of_shards))])
    check_bytes(tap, ring, compress, factor)
    check_resumed(tap, psring, directory, ring, right, (("ring", {}), ("local", dict(mode="local"))))


def compressed(tap, psring, directory, case):
    compress, factor = CASES[case]
    options = dict(OPTIONS, compress=compress)
    local = Run(psring, directory, "local", dict(options, mode="local"))
    plain = Run(psring, directory, "plain", dict(OPTIONS, mode="local"))
    right = check_run(tap, local)
    other = check_run(tap, plain)
    tap.ok(right and other and all(right[step] != other[step] for step in right), "no step has the hash of the uncompressed run",
           [str((right, other))])
    for shards in (1, 2, 3) if sys.argv[3:] == ["all"] else SHARDS_OF.get(case, (2,)):
        run = Run(psring, directory, "ps-%d" % shards, dict(options, mode="ps", shards=shards, **{**SLICES[shards], "checkpoint-every": MIDDLE}))
        hashes = check_run(tap, run)
        tap.ok(hashes is not None and hashes == right, "%s: every step has the hash of local's" % run.name, [str((right, hashes))])
        check_bytes(tap, run, compress, factor)
        if shards == 2:
            whole = run
    checkpoint = check_resumed(tap, psring, directory, whole, right,
                               (("ps-2", {}), ("ps-1", dict(shards=1)), ("local", dict(mode="local"))))
    check_ring(tap, psring, directory, case, right)
    check_dropped(tap, psring, directory, checkpoint, case)


def back(run):
    return sum(shard["weight_bytes"] for shard in run.outcome()["shards"])


def weights(tap, psring, directory, case):
    """--compress-weights: shards, local and both of them resumed agree; fewer bytes come back; a
    checkpoint has float32. Gradients are compressed too where it has error feedback."""
    method, factor = CASES[case]
    pushed = method if case in OWES else "none"
    options = dict(OPTIONS, compress=pushed, **{"compress-weights": method})
    right = check_run(tap, Run(psring, directory, "local", dict(options, mode="local")))
    plain = Run(psring, directory, "plain", dict(OPTIONS, mode="ps", compress=pushed))
    other = check_run(tap, plain)
    tap.ok(right and other and all(right[step] != other[step] for step in right), "no step has the hash of the run that rounds nothing",
           [str((right, other))])
    for shards in (1, 2, 3):
        # of another size: how a bucket is cut changes no bit
        size = {"slice-size": 8192} if shards == 2 else {}
        run = Run(psring, directory, "ps-%d" % shards, dict(options, mode="ps", shards=shards, **{"checkpoint-every": MIDDLE}, **size))
        tap.ok(check_run(tap, run) == right, "%s: every step has the hash of local's" % run.name, run.why())
        times = back(plain) / back(run)
        tap.ok(0.9 * factor <= times <= factor * 1.1, "%s: about %s times less comes back" % (run.name, factor), [str((back(run), back(plain)))])
        tap.ok("  weights    come back as %s\n" % method in run.stdout, "%s: it is shown" % run.name, run.why())
    checkpoint = check_resumed(tap, psring, directory, run, right,
                               (("ps-3", {}), ("ps-1", dict(shards=1)), ("local", dict(mode="local"))))
    as_float32 = Run(psring, directory, "float32", dict(resume=checkpoint, steps=OPTIONS["steps"], **{"compress-weights": "none"}))
    said = "the parts of weights that its shards had not sent yet are dropped"
    tap.ok(as_float32.status == 0 and (said in as_float32.stdout) == (case in OWES),
           "the checkpoint can be gone on with without rounding, and it is said whether something is dropped", as_float32.why())
    if case in OWES:  # else a checkpoint has the weights that are rounded from
        check_saved(tap, psring, directory, run)
    check_first_differences(tap, psring, directory, as_float32, options)


def check_saved(tap, psring, directory, run):
    """The last checkpoint's model is what the run was evaluated with."""
    last = os.path.join(run.out, "checkpoints", "step-%d" % OPTIONS["steps"])
    again = Run(psring, directory, "saved", dict(OPTIONS, mode="local", init=last, steps=1, lr=0))
    tap.ok(again.status == 0 and again.hashes()[1] == run.hashes()[OPTIONS["steps"]], "the model that is saved has the last step's hash",
           again.why())


def check_first_differences(tap, psring, directory, before, options):
    """From a checkpoint whose workers had the weights themselves: all begin with these."""
    checkpoint = os.path.join(before.out, "checkpoints", "step-%d" % OPTIONS["steps"])
    further = dict(options, resume=checkpoint, steps=OPTIONS["steps"] + 2)
    shards = Run(psring, directory, "first-ps", dict(further, mode="ps", shards=2))
    local = Run(psring, directory, "first-local", dict(further, mode="local"))
    tap.ok(shards.status == 0 and local.status == 0 and shards.hashes() == local.hashes(),
           "a run without them can be gone on with, by shards and by local alike", shards.why() + local.why())


def learns(tap, psring, directory):
    """Every way in which weights come back ends as near to weights as they are as said here, in
    test accuracy (3 workers, batches of 32, 300 steps of the MLP on Fashion-MNIST). With 1bit all
    weights of a bucket are off by about as much, which shows at a constant rate."""
    within = {"none": 0, "bf16": 0.03, "int8": 0.03, "topk:0.05": 0.03, "1bit": 0.12}
    options = dict(model="mlp", workers=3, data="fashion-mnist", steps=300, lr=0.05, threads=1, seed=11, mode="local", **{"batch-size": 32})
    accuracy = {}
    for method in within:
        run = Run(psring, directory, "learns-%s" % method, dict(options, **{"compress-weights": method}))
        if not tap.ok(run.status == 0, "%s: ends with status 0" % run.name, run.why()):
            return
        accuracy[method] = run.outcome()["test_accuracy"]
    for method in accuracy:
        tap.ok(accuracy[method] >= accuracy["none"] - within[method],
               "%s: the test accuracy is that of none, or less by %.2f at most" % (method, within[method]), [str(accuracy)])
    tap.ok(accuracy["none"] > 0.7, "weights as they are learn", [str(accuracy)])


def refused(tap, psring, directory):
    """By name, before anything is started."""
    for options, said in (({"compress": "zip"}, "--compress: 'zip' is no compression; give none, fp16, bf16, int8, topk:R (topk:0.01) or 1bit"),
                          ({"compress": "topk:2"}, "--compress: 'topk:2': the ratio of topk is a number above 0 and up to 1"),
                          ({"compress": "int8", "compress-as": "ring"}, "--compress-as ring does not go with --mode ps"),
                          ({"mode": "ring", "compress-weights": "fp16"}, "--compress-weights fp16 does not go with --mode ring"),
                          ({"mode": "ring", "compress-weights": "1bit"}, "--compress-weights 1bit does not go with --mode ring: no weights are sent"),
                          ({"mode": "ps@1,ring@4", "compress-weights": "int8"}, "--mode ps@1,ring@4 does not go with --compress-weights int8: a ring sends"),
                          ({"sync": "ssp:2", "compress-weights": "int8"}, "--compress-weights int8 does not go with --sync ssp:2: a shard encodes what"),
                          ({"sync": "async", "compress-weights": "topk:0.1"}, "--compress-weights topk:0.1 does not go with --sync async: a shard"),
                          ({"compress-weights": "zip"}, "--compress-weights: 'zip' is no compression; give none, fp16, bf16, int8, topk:R"),
                          ({"compress-weights": "topk:0"}, "--compress-weights: 'topk:0': the ratio of topk is a number above 0")):
        run = Run(psring, directory, "refused", dict(dict(OPTIONS, mode="ps"), **options))
        tap.ok(run.status == 2 and said in run.stderr and not os.path.exists(run.out), "refused: %s" % said, run.why())


def main():
    psring, case = sys.argv[1:3]
    tap = Tap()
    with Workspace() as directory:
        if case == "weights-learn" and not os.path.isdir(FASHION_MNIST):
            print("skipped: %s is not there (package dataset-fashion-mnist)" % FASHION_MNIST)
            sys.exit(77)
        if case == "refused":
            refused(tap, psring, directory)
        elif case == "weights-learn":
            learns(tap, psring, directory)
        elif case.startswith("weights-"):
            weights(tap, psring, directory, case[len("weights-"):])
        else:
            compressed(tap, psring, directory, case)
    tap.end()


if __name__ == "__main__":
    main()
