"""What a recipe adds to a step keeps the bits: with each option `local`, `ring` within memory and
by hops, and `ps` with one and two shards end every step with the same hash, and so does a run that
changes its mode and one that goes on from the middle of another mode's run; and every option
changes the hash of the run without it. Without hops and one shard, or with all.

usage: test_recipes.py PSRING CASE [all]"""

import array
import json
import os
import struct
import sys

from psring_run import Run, Tap, Workspace, over

STEPS, MIDDLE = 4, 2
MLP = {"model": "mlp", "data": "synthetic:count=97,test=10,channels=1,size=28", "bucket-size": 99968, "slice-size": 16448, "lr": 0.05}
RESNET = {"model": "resnet20", "data": "synthetic:count=49,test=10,channels=3,size=16", "bucket-size": 65600, "lr": 0.02}
CONVNET = {"model": "convnet", "data": "synthetic:count=97,test=10,channels=1,size=28", "bucket-size": 20032, "lr": 0.05}

# Of each: the options under test, and the run that they are added to.
CASES = {
    "adamw": ({"optimizer": "adamw", "weight-decay": 0.1}, dict(MLP, lr=0.001)),
    "rmsprop": ({"optimizer": "rmsprop", "rmsprop-alpha": 0.9, "rmsprop-epsilon": 0.01, "rmsprop-centered": True}, dict(MLP, lr=0.001)),
    "lamb": ({"optimizer": "lamb", "weight-decay": 0.01}, dict(CONVNET, lr=0.01)),
    "clip-norm": ({"clip-norm": 0.5}, MLP),
    "clip-norm-lamb": ({"optimizer": "lamb", "clip-norm": 0.1}, dict(CONVNET, lr=0.01, optimizer="lamb", **{"adam-epsilon": 0.1})),
    # 97 samples, 3 workers: in the last step of an epoch nobody has three whole batches
    "accumulate": ({"accumulate": 3}, MLP),
    # 49 samples, 3 workers: in the last step of an epoch two have none
    "sync-bn": ({"sync-bn": True}, RESNET),
    # 73 samples, in steps of 48: of the last 25 one worker has a pass more than the others
    "sync-bn-accumulate": ({"sync-bn": True, "accumulate": 2}, dict(RESNET, data=RESNET["data"].replace("49", "73"))),
    # the whole of a layer, one tensor that stays, and one that neither pattern matches
    "lr-factor": ({"lr-factor": "fc2.*=4,fc1.bias=0"}, MLP),
    "decay-factor": ({"decay-factor": "fc2.*=4,fc1.bias=0"}, dict(MLP, **{"weight-decay": 0.1})),
    # a tensor in the middle and a bias apart; and all below the last layers, where LAMB needs norms
    "freeze": ({"freeze": "fc2.weight,fc1.bias", "clip-norm": 0.5}, dict(MLP, momentum=0.9)),
    "freeze-lamb": ({"freeze": "all-but:fc1,fc2"}, dict(CONVNET, lr=0.01, optimizer="lamb", **{"weight-decay": 0.01})),
    # norms that the backward pass does not reach, one whose weight alone is frozen, and one after
    # trained layers that is frozen whole
    "freeze-sync-bn": ({"freeze": "conv1,bn1,layer1,layer2.1.bn2.weight,layer3.0.bn1", "sync-bn": True}, RESNET),
    "freeze-bn-sync-bn": ({"freeze": "conv1,bn1,layer1,layer3.0.bn1", "freeze-bn": True, "sync-bn": True}, RESNET),
    "no-decay": ({"no-decay": "bn,bias"}, dict(MLP, **{"weight-decay": 0.1})),
}


def check_hashes(tap, run, right, steps):
    if not tap.ok(run.status == 0, run.name + " ends with status 0", run.why()):
        return
    hashes = run.hashes()
    tap.ok(hashes == {s: right[s] for s in steps}, run.name + " has the hashes of local", [str(right), str(hashes)])


def norms(run):
    return [line["gradient_norm"] for line in run.metrics() if line["rank"] == 0]


def check_norms(tap, run, local, limit):
    """Worker 0 tells the norm that all have clipped by; the limit must have been felt."""
    if run.status == 0 and local.status == 0:
        tap.ok(norms(run) == norms(local) and max(norms(run)) > float(limit) and not any("gradient_norm" in line for line in run.metrics() if line["rank"]),
               run.name + " has the gradient norms of local, in worker 0's lines", [str(norms(run)), str(norms(local))])


ONLY_OF_ALL = ("hops", "ps-1")


def all_modes(tap, psring, directory, options, everything):
    """Returns the hashes of local."""
    both = dict(options, **{"checkpoint-every": MIDDLE})
    local = Run(psring, directory, "local", dict(both, mode="local"))
    if not tap.ok(local.status == 0, "local ends with status 0", local.why()):
        return {}
    right = local.hashes()
    tap.ok(sorted(right) == list(range(1, STEPS + 1)) and len(set(right.values())) == STEPS, "every step changes the weights", [str(right)])
    ways = {"ring": dict(mode="ring"), "hops": dict(mode="ring", transport="ipc"), "ps-1": dict(mode="ps", shards=1),
            "ps-2": dict(mode="ps", shards=2), "changes": dict(mode="ps@1,ring@%d,ps@%d" % (MIDDLE, STEPS), shards=2)}
    if "clip-norm" in options and options["model"] == "mlp":  # over two ways, and over two hosts
        ways["routes"] = dict(mode="ring", shards=2, route="fc1.*=ps")
        ways["hosts"] = dict(over("mixed", directory, 3), mode="ring")
    for name, way in ways.items():
        if name in ONLY_OF_ALL and not everything:
            continue
        run = Run(psring, directory, name, dict(both, **way))
        check_hashes(tap, run, right, range(1, STEPS + 1))
        if "clip-norm" in options:
            check_norms(tap, run, local, options["clip-norm"])
    late = range(MIDDLE + 1, STEPS + 1)
    for origin, name, way in (("hops" if everything else "ring", "ring to ps", ways["ps-2"]), ("ps-2", "ps to ring", ways["ring"]), ("changes", "changes to local", dict(mode="local"))):
        checkpoint = os.path.join(directory, origin, "checkpoints", "step-%d" % MIDDLE)
        check_hashes(tap, Run(psring, directory, name.replace(" ", "-"), dict(options, resume=checkpoint, **way)), right, late)
    return right


def one_large_batch(tap, psring, directory, plain, accumulated):
    """The same samples, in one pass a step: the losses are the same but for roundings."""
    large = Run(psring, directory, "large", dict(plain, mode="local", **{"batch-size": plain["batch-size"] * accumulated}))
    if not tap.ok(large.status == 0, "the run with one large batch ends with status 0", large.why()):
        return
    with_many = Run(psring, directory, "many", dict(plain, mode="local", accumulate=accumulated))
    pairs = [(a["loss"], b["loss"], a["images"], b["images"]) for a, b in zip(with_many.metrics(), large.metrics())]
    tap.ok(len(pairs) == STEPS * plain["workers"] and all(a[2] == a[3] and (a[0] == a[1] or abs(a[0] - a[1]) < 1e-5 * abs(a[1])) for a in pairs),
           "each step has its samples, and its losses within 1e-5", [str(pairs)])


def tensors(run):
    """The last checkpoint's, by name."""
    with open(os.path.join(run.out, "checkpoints", "step-%d" % STEPS, "model.safetensors"), "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        values = file.read()
    return {name: array.array("f", values[slice(*entry["data_offsets"])]) for name, entry in head.items() if entry.get("dtype") == "F32"}


def mean_losses(run):
    """Of each step, over all samples."""
    sums = {}
    for line in run.metrics():
        loss, images = sums.get(line["step"], (0, 0))
        sums[line["step"]] = (loss + (line["loss"] * line["images"] if line["images"] else 0), images + line["images"])
    return [loss / images for _, (loss, images) in sorted(sums.items())]


def apart(run, other):
    """How far two runs' losses, and their running statistics, are apart: the largest difference as
    a part of the largest value of its step, or tensor."""
    losses = max(abs(a - b) / b for a, b in zip(mean_losses(run), mean_losses(other)))
    mine, theirs = tensors(run), tensors(other)
    return losses, max(max(abs(a - b) for a, b in zip(mine[name], theirs[name])) / max(map(abs, theirs[name]))
                       for name in theirs if "running" in name)


def one_worker(tap, psring, directory, plain):
    """Workers whose batch norms are one are one worker with the batches of all: losses and running
    statistics are the same but for roundings, which a few small steps leave small. Without it they
    are far apart."""
    small = dict(plain, lr=0.001)
    whole = Run(psring, directory, "whole", dict(small, mode="local", workers=1, **{"batch-size": plain["batch-size"] * plain["workers"]}))
    synced = Run(psring, directory, "synced", dict(small, mode="ring", **{"sync-bn": True}))
    own = Run(psring, directory, "own", dict(small, mode="ring"))
    if not tap.ok(all(run.status == 0 for run in (whole, synced, own)), "runs of one worker and of several end with status 0",
                  whole.why() + synced.why() + own.why()):
        return
    near, far = apart(synced, whole), apart(own, whole)
    tap.ok(max(near) < 1e-4, "with --sync-bn losses and statistics are one worker's", [str(near)])
    tap.ok(min(far) > 1e-3, "without it they are others", [str(far)])
    lines = synced.metrics()
    tap.ok(sum(line["bytes_sent"] for line in lines) > sum(line["bytes_sent"] for line in own.metrics()), "what is sent for it is counted")
    tap.ok(all(0 < line["sync_bn_wait_s"] <= line["wait_s"] + 1e-6 for line in lines if line["rank"])
           and not any("sync_bn_wait_s" in line for line in own.metrics()), "and so are the waits", [str(lines[-1])])


def single_values(tap, psring, directory, plain):
    """With images of 4 pixels the last batch norms have one value a sample, of which there is no
    variance. Of 50 samples the epoch's last step has two, on two workers."""
    for samples, synced, status in ((50, False, 2), (50, True, 0), (49, True, 2)):
        data = "synthetic:count=%d,test=10,channels=3,size=4" % samples
        run = Run(psring, directory, "single-%d-%s" % (samples, synced), dict(plain, mode="ring", data=data, **({"sync-bn": True} if synced else {})))
        tap.ok(run.status == status and (status == 0 or "makes a batch of one sample" in run.stderr),
               "of %d samples %s: status %d" % (samples, "the batches of all workers count" if synced else "each worker's batch counts", status), run.why())


def main():
    psring, case = sys.argv[1:3]
    added, plain = CASES[case]
    tap = Tap()
    plain = dict({"workers": 3, "threads": 1, "batch-size": 8, "hash": True, "seed": 3, "steps": STEPS, "no-eval": True}, **plain)
    with Workspace() as directory:
        right = all_modes(tap, psring, directory, dict(plain, **added), sys.argv[3:] == ["all"])
        if case == "sync-bn":
            one_worker(tap, psring, directory, plain)
            single_values(tap, psring, directory, plain)
        if case == "accumulate":
            one_large_batch(tap, psring, directory, plain, added["accumulate"])
        without = Run(psring, directory, "without", dict(plain, mode="local"))
        if tap.ok(without.status == 0, "the run without ends with status 0", without.why()):
            other = without.hashes()
            tap.ok(all(right.get(s) != other[s] for s in other if s > (case == "no-decay")), "and has other hashes, from the %s step on" % ("second" if case == "no-decay" else "first"), [str(right), str(other)])
    tap.end()


if __name__ == "__main__":
    main()
