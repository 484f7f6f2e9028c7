"""The recipe airbench94-cifar10, two workers, in ps and in ring: both end with the same hash after
every step, and with 94.0% of the test set right, by the mean of six views of each picture.

usage: speed_run.py PSRING

CIFAR-10 is read from cifar-10-batches-bin in the directory that PSR_TEST_DATA names; exit status 77
without it. No figure here depends on how long it takes: half an hour a run on two cores.
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from psring_run import Run, Tap, Workspace  # noqa: E402

RECIPE = HERE.parent.parent / "deploy" / "recipes" / "airbench94-cifar10.recipe"
WANTED = 0.94
RUN_TIMEOUT_S = 6 * 3600


def main():
    psring = sys.argv[1]
    data = os.path.join(os.environ.get("PSR_TEST_DATA", ""), "cifar-10-batches-bin")
    if not os.path.isdir(data):
        print("skipped: PSR_TEST_DATA names no directory with cifar-10-batches-bin")
        sys.exit(77)
    options = {"recipe": str(RECIPE), "data": data, "workers": 2, "batch-size": 512, "threads": 1, "hash": True,
               "precision": "bf16" if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() else "fp32"}
    tap = Tap()
    with Workspace() as directory:
        runs = [Run(psring, directory, mode, dict(options, mode=mode), RUN_TIMEOUT_S) for mode in ("ps", "ring")]
        for run in runs:
            if tap.ok(run.status == 0, "%s ends with status 0" % run.name, run.why()):
                accuracy = run.outcome()["test_accuracy"]
                print("# %s: %.2f%% of the test set" % (run.name, 100 * accuracy))
                tap.ok(accuracy >= WANTED, "%s: 94.0%% and more of the test set are right" % run.name)
        if tap.failed == 0:
            hashes = runs[0].hashes()
            tap.ok(len(hashes) == 16 * 48, "768 steps are taken", [str(len(hashes))])
            tap.ok(hashes == runs[1].hashes(), "ps and ring end every step with the same hash")
    tap.end()


if __name__ == "__main__":
    main()
