"""ResNet-20 on CIFAR-10 with crop and flip, 3 epochs, three seeds: the mean test accuracy is not
below PyTorch's by the same recipe, three seeds, minus one point.

usage: accuracy_cifar.py PSRING GOLDEN [--python PYTHON [--record]]

PyTorch's figures are GOLDEN's, made by bench/peers/torch_cifar.py; with --python, an interpreter
that has torch and torchvision, they are made anew, and --record keeps them. Every run computes on
one thread, as many at once as there are processors: so psring's figures are the same on every
machine of one kind, whatever its number of processors.

CIFAR-10 is read from cifar-10-batches-bin in the directory that PSR_TEST_DATA names; exit status 77
without it.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from psring_run import Run, Tap, Workspace  # noqa: E402

PEER = HERE.parent.parent / "bench" / "peers" / "torch_cifar.py"
SEEDS = [1, 2, 3]
POINT = 0.01
RUN_TIMEOUT_S = 3600

# What both sides are told. The rest of the recipe is in the peer's description.
RECIPE = {"model": "resnet20", "epochs": 3, "batch-size": 128, "lr": 0.1, "momentum": 0.9, "weight-decay": 1e-4,
          "warmup": 100, "threads": 1}
OURS = {"mode": "local", "workers": 1, "augment": "crop-flip", "lr-schedule": "cosine"}


def at_once(function, seeds):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, seeds))


def peer_arguments(seed):
    return ["--%s=%s" % option for option in dict(RECIPE, seed=seed).items()]


def run_peer(python, data):
    """A golden file's content."""
    def one(seed):
        done = subprocess.run([python, str(PEER), "--data", data] + peer_arguments(seed), stdout=subprocess.PIPE,
                              text=True, check=True, timeout=RUN_TIMEOUT_S)
        return json.loads(done.stdout)

    lines = at_once(one, SEEDS)
    return {"recipe": RECIPE, "made_by": "bench/peers/torch_cifar.py " + " ".join(peer_arguments("SEED")),
            "torch": lines[0]["torch"], "seeds": SEEDS, "accuracies": [line["accuracy"] for line in lines]}


def figures(accuracies):
    return "%s, mean %.4f" % (" ".join("%.4f" % a for a in accuracies), statistics.mean(accuracies))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("psring")
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    data = os.path.join(os.environ.get("PSR_TEST_DATA", ""), "cifar-10-batches-bin")
    if not os.path.isdir(data):
        print("skipped: PSR_TEST_DATA names no directory with cifar-10-batches-bin")
        sys.exit(77)

    if arguments.python:
        golden = run_peer(arguments.python, data)
        if arguments.record:
            arguments.golden.write_text(json.dumps(golden, indent=1) + "\n")
    else:
        golden = json.loads(arguments.golden.read_text())

    tap = Tap()
    tap.ok(golden["recipe"] == RECIPE and golden["seeds"] == SEEDS, "PyTorch's figures are of the same recipe",
           ["%s has %s" % (arguments.golden, golden["recipe"]), "psring runs %s" % RECIPE,
            "make them anew with --python and --record"])
    with Workspace() as directory:
        runs = at_once(lambda seed: Run(arguments.psring, directory, "seed-%d" % seed,
                                        dict(RECIPE, **OURS, data=data, seed=seed), RUN_TIMEOUT_S), SEEDS)
        for seed, run in zip(SEEDS, runs):
            tap.ok(run.status == 0, "the run with seed %d ends with status 0" % seed, run.why())
        if tap.failed == 0:
            ours = [run.outcome()["test_accuracy"] for run in runs]
            print("# test accuracy, seeds %s" % SEEDS)
            print("#   psring          %s" % figures(ours))
            print("#   PyTorch %-8s%s" % (golden["torch"].split("+")[0], figures(golden["accuracies"])))
            tap.ok(statistics.mean(ours) >= statistics.mean(golden["accuracies"]) - POINT,
                   "the mean test accuracy is not below PyTorch's minus one point")
    tap.end()


if __name__ == "__main__":
    main()
