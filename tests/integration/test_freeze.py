#!/usr/bin/env python3
"""psring train --freeze: transfer from a checkpoint with another number of classes. What is frozen
keeps its bits, is not sent, and has no state; the rest does not notice. (That every mode ends in
the same bits is test_recipes.py's; that a pass gives the same gradients, test_freeze.c's.)

usage: test_freeze.py PSRING"""

import json
import os
import subprocess
import sys

from psring_run import Run, Tap, Workspace
from test_bad_input import read_tensors

STEPS = 2
PICTURES = "synthetic:count=24,test=12,channels=3,size=16,classes=10"
TRANSFER = {"model": "resnet20", "data": PICTURES, "batch-size": 4, "steps": STEPS, "lr": 0.05, "threads": 1, "workers": 2,
            "momentum": 0.9, "weight-decay": 0.01, "hash": True, "seed": 5, "no-eval": True, "transport": "ipc"}
MLP = {"model": "mlp", "data": "synthetic:count=60,test=12,channels=1,size=28", "batch-size": 4, "steps": 3, "threads": 1, "workers": 2,
       "momentum": 0.9, "hash": True, "seed": 5, "no-eval": True, "transport": "ipc"}


def tensors_of(run, file, step):
    return read_tensors(os.path.join(run.out, "checkpoints", "step-%d" % step, file + ".safetensors"))


def transfer(tap, psring, directory):
    before = Run(psring, directory, "before", dict(TRANSFER, data=PICTURES.replace("classes=10", "classes=20"), steps=1))
    if not tap.ok(before.status == 0, "a ResNet-20 of 20 classes is trained", before.why()):
        return
    given = os.path.join(before.out, "checkpoints", "step-1", "model.safetensors")
    old = read_tensors(given)
    for name, options in (("ps", {"mode": "ps", "shards": 1}), ("ring", {"mode": "ring", "freeze-bn": True})):
        run = Run(psring, directory, name, dict(TRANSFER, init=given, freeze="all-but:fc", **options))
        if not tap.ok(run.status == 0, name + ": its fc alone is trained for ten classes", run.why()):
            continue
        new, state = tensors_of(run, "model", STEPS), tensors_of(run, "state", STEPS)
        weights = [t for t in new if not t.startswith("fc.") and "running_" not in t and "num_batches" not in t]
        moved = [t for t in new if "running_" in t and new[t] != old[t]]
        tap.ok(len(weights) == 57 and all(new[t] == old[t] for t in weights), name + ": frozen tensors keep their bits")
        tap.ok(new["fc.weight"][0] == [10, 64] and new["fc.weight"] != tensors_of(before, "model", 1)["fc.weight"], name + ": fc is of ten classes")
        if "freeze-bn" in options:
            tap.ok(moved == [], name + ": with --freeze-bn batch norm's statistics stay", moved)
        else:
            tap.ok(len(moved) == 38, name + ": without --freeze-bn batch norm's statistics move, as PyTorch's", [str(len(moved))])
        tap.ok({t for t in state if t.startswith("momentum/")} == {"momentum/fc.weight", "momentum/fc.bias"}, name + ": the optimizer's state is fc's alone", sorted(state))
        with open(os.path.join(run.out, "run.json")) as file:
            config = json.load(file)["config"]
        tap.ok(config["freeze"] == "all-but:fc" and config["freeze-bn"] in ("true" if "freeze-bn" in options else "false", "freeze-bn" in options),
               name + ": run.json has it", [str(config.get("freeze")), str(config.get("freeze-bn"))])
        sent = [line["bytes_sent"] for line in run.metrics()]
        tap.ok(0 < max(sent) < 4 * len(new["fc.weight"][1]), name + ": a step sends a few times fc, and not the network", [str(sent)])
        tap.ok("  frozen     1051 of 1054 KiB of parameters: they have no gradient, and no step sends them" in run.stdout, name + ": the start says what is saved",
               [line for line in run.stdout.splitlines() if "buckets" in line or "frozen" in line])


def rest(tap, psring, directory):
    """The last layer, whose gradient needs nothing of others' updates in the first step, ends it
    with the bits that it has without --freeze."""
    ends = {}
    for name, options in (("all", {}), ("some", {"freeze": "fc1,fc2"}), ("held", {"freeze": "fc1", "compress-weights": "bf16", "mode": "ps", "shards": 2})):
        run = Run(psring, directory, name, dict(MLP, **{"checkpoint-every": 1}, **options))
        if tap.ok(run.status == 0, name + " ends with status 0", run.why()):
            ends[name] = [tensors_of(run, "model", step) for step in (1, 2, 3)]
    if len(ends) == 3:
        tap.ok(ends["all"][0]["fc3.weight"] == ends["some"][0]["fc3.weight"] and ends["some"][0]["fc3.weight"] != ends["some"][1]["fc3.weight"],
               "what is trained has the bits of a run without --freeze after its first step")
        start = ends["some"][0]
        tap.ok(all(e[t] == start[t] for e in ends["some"] for t in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")), "what is frozen stays")
        tap.ok(all(e[t] == start[t] for e in ends["held"] for t in ("fc1.weight", "fc1.bias")) and ends["held"][0] != ends["held"][2],
               "also where shards send rounded weights")


def refusals(tap, psring, directory):
    def refuses(name, words, **options):
        run = Run(psring, directory, name.replace(" ", "-"), dict(MLP, **options))
        said = [line for line in run.stderr.splitlines() if words in line]
        tap.ok(run.status == 2 and len(said) == 1, name, run.why())

    refuses("a name that is near", "--freeze: mlp has no layer or tensor 'fc9'; did you mean fc1?", freeze="fc9")
    refuses("nothing is left to train", "--freeze * leaves nothing of mlp to train", freeze="*")
    refuses("no list", "--freeze: 'fc1,' is no list of layers; give their names or patterns with commas between (conv1,bn1,layer1)", freeze="fc1,")
    refuses("statistics without layers", "--freeze-bn is for --freeze, which is not given", **{"freeze-bn": True})
    refuses("statistics of no norm", "--freeze-bn: --freeze fc1 freezes no batch norm of mlp", freeze="fc1", **{"freeze-bn": True})
    checkpoint = os.path.join(directory, "some", "checkpoints", "step-2")
    refuses("a resume that thaws", "is of a run with --freeze fc1,fc2, and fc1.weight was frozen there", resume=checkpoint, freeze="")
    refuses("a resume that freezes more", "and fc3.weight was trained there", resume=checkpoint, freeze="fc1,fc2,fc3.weight")
    run = Run(psring, directory, "other words", dict(MLP, resume=checkpoint, freeze="all-but:fc3"))
    tap.ok(run.status == 0 and tensors_of(run, "model", 3) == tensors_of_step(directory, 3), "a resume that says the same in other words goes on to the same bits", run.why())


def tensors_of_step(directory, step):
    return read_tensors(os.path.join(directory, "some", "checkpoints", "step-%d" % step, "model.safetensors"))


def main():
    psring = sys.argv[1]
    tap = Tap()
    with Workspace() as directory:
        transfer(tap, psring, directory)
        rest(tap, psring, directory)
        refusals(tap, psring, directory)
        shown = subprocess.run([psring, "show", "--model", "mlp", "--mode", "ring", "--workers", "2", "--freeze", "fc1"], stdout=subprocess.PIPE, text=True)
        tap.ok(shown.returncode == 0 and "\nfrozen: " in shown.stdout and "all, frozen   fc1" in shown.stdout, "psring show says what is frozen", [shown.stdout])
    return tap.end()


sys.exit(main())
