"""One command line, one build, one kind of processor, one number of threads: always the same bits,
in every mode, without a file handed from one run to another. The quick start's network and batch,
in independent commands; and what a clock decides is seen to be another thing: the control.

usage: test_algorithms.py PSRING LYING_CLOCK_MODULE"""

import json
import os
import sys

from psring_run import Run, Tap, Workspace

# A whole batch of each worker, and the rest of the epoch: 8 samples.
OPTIONS = dict(model="resnet20", data="synthetic:count=216,test=64,channels=1,size=28", workers=3, steps=2, lr=0.1, momentum=0.9,
               hash=True, **{"batch-size": 64, "lr-schedule": "cosine", "weight-decay": 5e-4, "eval-every": 100})
# test_bits.py has more shards
MODES = [dict(mode="ps", shards=2), dict(mode="ring"), dict(mode="local")]


def lying(module):
    """The environment of runs whose workers' clock tells nothing about time."""
    return dict(os.environ, LD_PRELOAD=module, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")


class Commands:
    def __init__(self, tap, psring, directory):
        self.tap, self.psring, self.directory = tap, psring, directory

    def run(self, name, options, env=None):
        """(hash of the last weights, run.json), or (None, {}) where it failed."""
        run = Run(self.psring, self.directory, name, dict(OPTIONS, **options), env=env)
        if not self.tap.ok(run.status == 0, "%s ends with status 0" % name, run.why()):
            return None, {}
        with open(os.path.join(run.out, "run.json")) as text:
            return run.hashes()[OPTIONS["steps"]], json.load(text)


def main():
    psring, module = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        commands = Commands(tap, psring, directory)
        hashes = [commands.run(mode["mode"], mode)[0] for mode in MODES]
        auto = hashes[0]
        tap.ok(None not in hashes and len(set(hashes)) == 1, "independent commands in all modes end with one hash", [str(hashes)])

        env = lying(os.path.abspath(module))
        found, of_auto = commands.run("auto-lied-to", dict(mode="ring"), env)
        tap.ok(found == auto, "by default the clock decides nothing: in a mode once more one that lies changes no bit", [str((found, auto))])
        timed, of_timed = commands.run("timed-lied-to", dict(mode="ring", algorithms="timed"), env)
        tap.ok(timed is not None and timed != auto, "the control: with --algorithms timed it does", [str((timed, auto))])
        direct, of_direct = commands.run("direct", dict(mode="local", algorithms="direct"))
        tap.ok(timed == direct, "which took the direct algorithms, since none seemed faster", [str((timed, direct))])

        every = of_direct.get("algorithms", "")
        tap.ok(of_timed.get("config", {}).get("algorithms") == every and set(every) == {"d", ","},
               "run.json of a timed run has all of its choice, all direct included", [str(of_timed.get("config"))])
        tap.ok(of_auto.get("config", {}).get("algorithms") == "auto" and set(of_auto.get("algorithms", "")) & {"o", "w"},
               "run.json of a run by default says so, and what the rule chose", [str(of_auto.get("algorithms"))])
        again, _ = commands.run("timed-again", dict(config=os.path.join(directory, "timed-lied-to", "run.json"), mode="ps"))
        tap.ok(again == timed, "--config repeats a timed run's choice, whatever its own clock says", [str((again, timed))])
    tap.end()


if __name__ == "__main__":
    main()
