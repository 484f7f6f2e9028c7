"""TensorBoard's own reader on the event files of a run, of a resumed run, and of a file that was
cut. Needs a Python with tensorboard: PSR_PYTHON, or python3; skipped without.

usage: test_tensorboard.py PSRING"""

import glob
import json
import os
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace

READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0})
read.Reload()
tags = read.Tags()
told = {tag: [[event.step, event.value] for event in read.Scalars(tag)] for tag in tags["scalars"]}
told["Staleness"] = [[event.step, event.histogram_value.num, event.histogram_value.max] for event in read.Histograms("Staleness")]
print(json.dumps(told))
"""
OPTIONS = {"mode": "ps", "workers": 3, "model": "mlp", "data": "synthetic:count=300,test=30,channels=1,size=8", "batch-size": 4, "lr": 0.05,
           "steps": 8, "threads": 1, "eval-every": 4, "checkpoint-every": 4, "tensorboard": True}
python = os.environ.get("PSR_PYTHON", "python3")


def read(run):
    done = subprocess.run([python, "-c", READ, os.path.join(run.out, "tensorboard")], capture_output=True, text=True, timeout=PATIENCE_S)
    return json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr}


def losses(run):
    """{step: mean loss over the samples of all ranks}, from metrics.jsonl."""
    sums = {}
    with open(os.path.join(run.out, "metrics.jsonl")) as lines:
        for line in map(json.loads, lines):
            loss, images = sums.get(line["step"], (0, 0))
            sums[line["step"]] = loss + line["loss"] * line["images"], images + line["images"]
    return {step: loss / images for step, (loss, images) in sums.items()}


def near(told, wanted):
    return [step for step, _ in told] == sorted(wanted) and all(abs(value - wanted[step]) < 1e-5 * abs(value) for step, value in told)


def main(psring):
    if subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode != 0:
        print("skipped: %s has no tensorboard; PSR_PYTHON names another Python" % python)
        sys.exit(77)
    tap = Tap()
    with Workspace() as directory:
        run = Run(psring, directory, "run", OPTIONS)
        told = read(run)
        tap.ok(near(told.get("Train/Loss", []), losses(run)), "Train/Loss is the mean over all workers' samples, step by step", run.why() + [str(told)])
        outcome = run.outcome()
        tap.ok([step for step, _ in told.get("Test/Accuracy", [])] == [4, 8] and
               abs(told["Test/Accuracy"][-1][1] - outcome["test_accuracy"]) < 1e-6, "accuracy at each evaluation", [str(told)])
        tap.ok(len(told.get("Speed/Images_per_s", [])) == 8 and told.get("Staleness") == [[step, 3, 0] for step in range(1, 9)],
               "speed, and the staleness of three ranks", [str(told)])
        again = Run(psring, directory, "again", {"resume": os.path.join(run.out, "checkpoints", "step-4"), "steps": 12, "tensorboard": True})
        whole = {step: loss for step, loss in losses(run).items() if step <= 4}
        whole.update(losses(again))
        told = read(again)
        tap.ok(near(told.get("Train/Loss", []), whole) and len(whole) == 12, "a resumed run has one curve, and no step of after the checkpoint twice",
               again.why() + [str(told)])
        path, = glob.glob(os.path.join(run.out, "tensorboard", "*"))
        with open(path, "rb") as file:
            text = file.read()
        os.remove(path)  # the resumed run has a link to it
        with open(path, "wb") as file:
            file.write(text[:-7])
        told = read(run)
        tap.ok([step for step, _ in told.get("Train/Loss", [])] == list(range(1, 8)), "a file that was cut has all steps but the last", [str(told)])
        few = Run(psring, directory, "few", dict(OPTIONS, **{"metrics-every": 3}))
        told = read(few)
        tap.ok([step for step, _ in told.get("Train/Loss", [])] == [3, 4, 6, 8], "--metrics-every leaves out the same steps", few.why() + [str(told)])
    tap.end()


main(sys.argv[1])
