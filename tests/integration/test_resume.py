"""What a run leaves behind is enough to go on from: a run resumed from its checkpoint, in the same
mode or another, ends every later step with the hashes of the undisturbed run; and --init starts
from the same weights.

usage: test_resume.py PSRING CASE [TRANSPORT]"""

import os
import sys

from psring_run import Run, Tap, Workspace, over

DATA = "synthetic:count=49,test=40,channels=3,size=32"
# the middle is within the second epoch, so that sampler and loader have to find their place
STEPS, MIDDLE = 8, 5

CASES = {
    "sgd": dict(model="resnet20", workers=3, augment="crop:32:4,flip,random-erasing,mixup:0.2,cutmix:1,repeat:2", **{"batch-size": 8, "bucket-size": 65600,
                                                                    "lr-schedule": "cosine"}),
    "adam": dict(model="convnet", workers=3, optimizer="adam", lr=0.001,
                 data="synthetic:count=49,test=20,channels=1,size=28", **{"batch-size": 8, "bucket-size": 20032}),
}
# Who resumes takes the checkpoint's transport where none is given.
MODES = {"ps": dict(mode="ps", shards=2, transport="auto"), "ring": dict(mode="ring", transport="auto"),
         "hops": dict(mode="ring", transport="ipc"), "local": dict(mode="local")}


def main():
    psring, case, transport = (sys.argv[1:] + ["auto"])[:3]
    tap = Tap()
    options = dict({"data": DATA}, threads=1, hash=True, seed=5, steps=STEPS, **CASES[case])
    with Workspace() as directory:
        whole = {}
        by = over(transport, directory, options["workers"])
        modes = {name: dict(mode, **by) if name in ("ps", "ring") else mode for name, mode in MODES.items()}
        for name, mode in modes.items():
            run = Run(psring, directory, name, dict(options, **{"checkpoint-every": MIDDLE}, **mode))
            tap.ok(run.status == 0, "%s: an undisturbed run ends with status 0" % name, run.why())
            whole[name] = run
            for step in (MIDDLE, STEPS):
                folder = os.path.join(run.out, "checkpoints", "step-%d" % step)
                files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
                tap.ok(files == ["model.safetensors", "state.safetensors"],
                       "%s: checkpoints/step-%d is whole" % (name, step), [str(files)] + run.why())
            left = [f for f in os.listdir(os.path.join(run.out, "checkpoints")) if f.startswith(".")]
            tap.ok(not left, "%s: no half-written checkpoint is left" % name, left)
        right = whole["ps"].hashes()
        for origin, target in (("ps", "ps"), ("ring", "ring"), ("local", "local"), ("ps", "ring"), ("ring", "ps"),
                               ("local", "ps"), ("hops", "ring"), ("ring", "hops")):
            checkpoint = os.path.join(whole[origin].out, "checkpoints", "step-%d" % MIDDLE)
            run = Run(psring, directory, "%s-to-%s" % (origin, target),
                      dict(options, resume=checkpoint, **modes[target]))
            name = "%s resumed from a checkpoint of %s" % (target, origin)
            if tap.ok(run.status == 0, name + " ends with status 0", run.why()):
                tap.ok(run.hashes() == {s: h for s, h in right.items() if s > MIDDLE},
                       name + " has the undisturbed run's hashes", [str(right), str(run.hashes())])
        # Nothing beside it: the run's own options go on, from its newest checkpoint or from one
        # that is named.
        short = Run(psring, directory, "short", dict(options, steps=MIDDLE, **modes["ps"]))
        tap.ok(short.status == 0, "a run of %d steps ends with status 0" % MIDDLE, short.why())
        on = {s: h for s, h in right.items() if s > MIDDLE}
        checkpoint = os.path.join(whole["ps"].out, "checkpoints", "step-%d" % MIDDLE)
        cases = [("checkpoint", dict(resume=checkpoint)), ("mode", dict(resume=checkpoint, mode="ring"))]
        if "lr-schedule" not in options:  # one that is a function of the steps in all
            cases.append(("run", dict(resume=short.out, steps=STEPS)))
        for name, beside in cases:
            run = Run(psring, directory, "bare-" + name, beside)
            run.options = dict(short.options)
            same = run.status == 0 and run.hashes() == on
            tap.ok(same, "--resume with %s alone goes on with the run's own options, to the same hashes" % sorted(beside), run.why())
        again = Run(psring, directory, "again", dict(config=short.out))
        again.options = dict(short.options)
        tap.ok(again.status == 0 and again.hashes() == short.hashes(), "--config RUN-DIRECTORY is the same run again", again.why())
        by_epochs = Run(psring, directory, "epochs", dict(resume=short.out, epochs=3))
        tap.ok(by_epochs.status == 0, "--epochs beside a run with --steps takes its place", by_epochs.why())
        last = os.path.join(whole["ps"].out, "checkpoints", "step-%d" % STEPS)
        still = dict(options, init=last, lr=0, steps=1, **{"weight-decay": 0}, **modes["ring"])
        run = Run(psring, directory, "init", still)
        if tap.ok(run.status == 0, "a run with --init ends with status 0", run.why()):
            tap.ok(run.hashes()[1] == right[STEPS], "--init starts from the checkpoint's weights",
                   [str(run.hashes()), right[STEPS]])
        run = Run(psring, directory, "over", dict(options, resume=last, **modes["ring"]))
        if tap.ok(run.status == 0, "a run resumed behind its last step ends with status 0", run.why()):
            tap.ok(run.outcome()["hash"] == right[STEPS] and run.outcome()["test_accuracy"] == whole["ps"].outcome()["test_accuracy"],
                   "it evaluates, and changes no weight", [str(run.outcome()), str(whole["ps"].outcome())])
        for name, more in (("over-auto", {}), ("over-auto-unevaluated", {"no-eval": True})):
            done = dict(options, **modes["ring"], **more)
            first = Run(psring, directory, name, dict(done, resume="auto"))
            again = Run(psring, directory, name, dict(done, resume="auto"))
            again.out += "-2"
            if tap.ok(first.status == 0 and again.status == 0, "%s: a finished run that is started again ends with status 0" % name, again.why()):
                tap.ok("0 steps: all %d were done before" % STEPS in again.stdout and again.outcome()["hash"] == right[STEPS]
                       and "epoch: " not in again.stdout, "%s: says that it is done, and changes no weight" % name, again.why())
            on = Run(psring, directory, name, dict(done, steps=STEPS + 1, resume="auto"))
            tap.ok(on.status == 0 and "1 step (%d to %d)" % (STEPS + 1, STEPS + 1) in on.stdout, "%s: with more steps it goes on" % name, on.why())
        run = Run(psring, directory, "beyond", dict(options, resume=last, **dict(modes["ring"], steps=STEPS - 1)))
        tap.ok(run.status == 2 and "step %d" % STEPS in run.stderr,
               "a checkpoint behind the run's last step is refused with status 2", run.why())
    tap.end()


if __name__ == "__main__":
    main()
