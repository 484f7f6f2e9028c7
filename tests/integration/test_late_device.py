"""Workers whose back end finishes late, on threads of its own (late_device.c): the same bits in
every mode, and a run that ends.

usage: test_late_device.py PSRING LATE-WORKER [all]"""

import os
import shutil
import sys

from psring_run import Run, Tap, Workspace, over

COMMON = dict(threads=1, hash=True, seed=11, workers=3)
CASES = {
    "mlp": dict(model="mlp", data="synthetic:count=97,test=40,channels=1,size=28", steps=7, lr=0.05,
                **{"batch-size": 16, "bucket-size": 99968, "slice-size": 16448}),
    "convnet-lars": dict(model="convnet", data="synthetic:count=49,test=40,channels=1,size=28", steps=5, lr=0.5, optimizer="lars",
                         **{"batch-size": 8, "bucket-size": 4160, "lars-trust": 0.02}),
}
MODES = {
    "local": dict(mode="local"),
    "ps-2": dict(mode="ps", shards=2),
    "ps-2-without-shared-memory": dict(mode="ps", shards=2, transport="ipc"),
    "ring-within-memory": dict(mode="ring"),
    "ring-by-hops": dict(mode="ring", transport="ipc"),
    "ring-between-hosts": dict(mode="ring", transport="mixed"),
}
# LARS needs norms: by default where shards and where rings within memory have them.
FEW = {"convnet-lars": ("ps-2", "ring-within-memory")}


def with_late_workers(psring, late_worker, directory):
    """A psring that starts the late workers: programs are found beside it."""
    programs = os.path.join(directory, "programs")
    os.mkdir(programs)
    built = os.path.dirname(os.path.realpath(psring))
    for folder, name in ((built, "psring"), (os.path.join(built, "..", "ps"), "psring-ps"), (os.path.join(built, "..", "ps"), "psring-scheduler")):
        shutil.copy(os.path.join(folder, name), programs)
    shutil.copy(late_worker, os.path.join(programs, "psring-worker"))
    return os.path.join(programs, "psring")


def test_modes(tap, psring, late, directory, everything):
    for case, options in CASES.items():
        reference = Run(psring, directory, case, dict(COMMON, **options, mode="local"))
        if not tap.ok(reference.status == 0, case + ": the reference ends well", reference.why()):
            continue
        for name in MODES if everything else FEW.get(case, MODES):
            mode = MODES[name]
            transport = mode.get("transport", "auto")
            mode = dict(mode, **over(transport, directory, COMMON["workers"]))
            run = Run(late, directory, "%s-%s" % (case, name), dict(COMMON, **options, **mode))
            tap.ok(run.status == 0 and run.hashes() == reference.hashes(), "%s: %s ends every step with the reference's bits" % (case, name), run.why())


def test_compressed(tap, psring, late, directory):
    options = dict(COMMON, **CASES["mlp"], compress="int8")
    for mode in "ps", "ring":
        on_time, behind = (Run(program, directory, "int8-%s-%s" % (mode, name), dict(options, mode=mode))
                           for name, program in (("on-time", psring), ("late", late)))
        tap.ok(on_time.status == behind.status == 0 and behind.hashes() == on_time.hashes(),
               "--compress int8, --mode %s: the bits of a run without a device" % mode, on_time.why() + behind.why())


def test_without_an_exchange(tap, late, directory):
    run = Run(late, directory, "none", dict(COMMON, **CASES["mlp"], mode="ring", **{"no-exchange": True}))
    tap.ok(run.status == 0, "--no-exchange ends well", run.why())


def main():
    psring, late_worker = sys.argv[1:3]
    tap = Tap()
    with Workspace() as directory:
        late = with_late_workers(psring, late_worker, directory)
        test_modes(tap, psring, late, directory, sys.argv[3:] == ["all"])
        test_compressed(tap, psring, late, directory)
        test_without_an_exchange(tap, late, directory)
    tap.end()


if __name__ == "__main__":
    main()
