"""Runs of `psring train --device cuda` on a GPU that the processor plays: one command line ends every
step with the same bits in ps with one and two shards, in a ring and in local; losses are those of a
run on the processor; a run that was cut goes on; what cannot be is refused by name.

usage: test_gpu.py PSRING EMULATED-WORKER CASE"""

import os
import shutil
import sys

from psring_run import Run, Tap, Workspace

GRAY = "synthetic:count=49,test=20,channels=1,size=28"
COLOUR = "synthetic:count=25,test=10,channels=3,size=16"
COMMON = dict(threads=1, hash=True, seed=11, workers=3, device="cuda")
# As far as losses may be from those of the processor, relative to them.
CASES = {
    "mlp": (dict(model="mlp", data=GRAY, steps=5, lr=0.05, **{"batch-size": 8, "bucket-size": 99968}), 1e-3),
    "convnet-bf16": (dict(model="convnet", data=GRAY, steps=4, lr=0.05, precision="bf16", **{"batch-size": 8}), 0.05),
    "resnet20": (dict(model="resnet20", data=COLOUR, steps=3, lr=0.05, augment="flip,cutmix:1",
                      **{"batch-size": 4, "bucket-size": 65600, "eval-every": 2}), 1e-2),
}
MODES = {
    "ps-1": dict(mode="ps", shards=1),
    "ps-2": dict(mode="ps", shards=2),
    "ps-2-without-shared-memory": dict(mode="ps", shards=2, transport="ipc"),
    "ring": dict(mode="ring"),
    "ring-by-hops": dict(mode="ring", transport="ipc"),
}


def with_emulated_gpu(psring, worker, directory):
    """A psring whose workers on a GPU are the emulated ones: programs are found beside it."""
    programs = os.path.join(directory, "programs")
    os.mkdir(programs)
    built = os.path.dirname(os.path.realpath(psring))
    for folder, name in (("", "psring"), ("../ps", "psring-ps"), ("../ps", "psring-scheduler"), ("../worker", "psring-worker")):
        shutil.copy(os.path.join(built, folder, name), programs)
    shutil.copy(worker, os.path.join(programs, "psring-worker-cuda"))
    return os.path.join(programs, "psring")


def losses(run):
    """A rank whose share of a step is empty has none."""
    return {(line["step"], line["rank"]): line["loss"] for line in run.metrics() if line["loss"] is not None}


def check_modes(tap, psring, directory, case):
    options, limit = CASES[case]
    local = Run(psring, directory, "local", dict(COMMON, **options, mode="local"))
    if not tap.ok(local.status == 0, "%s: local ends well" % case, local.why()):
        return
    tap.ok(len(set(local.hashes().values())) == options["steps"], "%s: every step changes the weights" % case, local.why())
    for name, mode in MODES.items():
        run = Run(psring, directory, name, dict(COMMON, **options, **mode))
        tap.ok(run.status == 0 and run.hashes() == local.hashes(), "%s: %s ends every step with the bits of local" % (case, name), run.why())
    near = Run(psring, directory, "processor", dict(COMMON, **options, mode="local", device="cpu"))
    theirs, ours = losses(near), losses(local)
    tap.ok(theirs.keys() == ours.keys() and all(abs(ours[at] - loss) <= limit * loss for at, loss in theirs.items()),
           "%s: losses are those of a run on the processor" % case, ["%s %s" % (at, (theirs[at], ours[at])) for at in theirs if at in ours])


def check_resume(tap, psring, directory):
    options = dict(COMMON, **CASES["mlp"][0], mode="ring", **{"checkpoint-every": 2})
    whole = Run(psring, directory, "whole", options)
    resumed = Run(psring, directory, "resumed", dict(options, mode="ps", resume=os.path.join(whole.out, "checkpoints", "step-2")))
    tap.ok(resumed.status == 0 and resumed.hashes() == {step: hash for step, hash in whole.hashes().items() if step > 2},
           "a resumed run ends later steps with the same bits", whole.why() + resumed.why())


def check_refusals(tap, psring, directory, without):
    options = dict(COMMON, **CASES["mlp"][0], mode="ring")
    run = Run(psring, directory, "far", dict(options, device="cuda:7"))
    tap.ok(run.status != 0 and "--device cuda:7: this host has 1 GPU" in run.stderr + run.stdout, "a GPU that is not there is named", run.why())
    run = Run(without, directory, "without", options)
    tap.ok(run.status != 0 and "psring-worker-cuda" in run.stderr + run.stdout, "without the program for GPUs, it is named", run.why())


def main():
    psring, worker, case = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        emulated = with_emulated_gpu(psring, worker, directory)
        if case == "run":
            check_resume(tap, emulated, directory)
            os.mkdir(os.path.join(directory, "plain"))
            for name in ("psring", "psring-ps", "psring-scheduler", "psring-worker"):
                shutil.copy(os.path.join(directory, "programs", name), os.path.join(directory, "plain"))
            check_refusals(tap, emulated, directory, os.path.join(directory, "plain", "psring"))
        else:
            check_modes(tap, emulated, directory, case)
    tap.end()


if __name__ == "__main__":
    main()
