"""What the tests of other launchers share: the small run that each of them starts, the hash that it
must end with, and what stays of it."""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from psring_run import PATIENCE_S, Run, Tap, Workspace, outlived  # noqa: F401 (for tests)
from test_by_hand import Cluster, options_of  # noqa: F401

# 97 samples: in the last step of an epoch some ranks have none.
OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "steps": 6, "batch-size": 8, "threads": 1, "seed": 11,
           "lr": 0.05, "log-every": 1}


def skip(reason):
    print("1..0 # SKIP %s" % reason)
    sys.exit(0)


def program(*names):
    """The path of the first that is installed, or the end of this test."""
    for name in names:
        if shutil.which(name):
            return shutil.which(name)
    skip("%s is not installed" % " or ".join(names))


def version_of(*command):
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    return " ".join((told.stdout + told.stderr).strip().splitlines()[:2])


def outcome(run):
    try:
        with open(os.path.join(run, "run.json")) as text:
            return json.load(text)["outcome"]
    except (OSError, KeyError, ValueError) as wrong:
        return {"hash": repr(wrong)}


def losses(run):
    with open(os.path.join(run, "metrics.jsonl")) as lines:
        return {(line["step"], line["rank"]): line["loss"] for line in map(json.loads, lines)}


def right(tap, psring, directory, workers, **more):
    """The run of --mode local that all others must end like."""
    local = Run(psring, directory, "-".join(["local", str(workers), *more]), dict(OPTIONS, mode="local", workers=workers, **more))
    tap.ok(local.status == 0, "--mode local of %d ends with status 0" % workers, local.why())
    return local


def call(command, directory, path, timeout_s=PATIENCE_S, **more):
    """(exit status, lines of standard output and error), with psring's programs in PATH and what is
    temporary in directory."""
    env = dict(os.environ, PATH=path + os.pathsep + os.environ["PATH"], TMPDIR=directory, ASAN_OPTIONS="detect_leaks=0", **more)
    with Cluster() as cluster:
        process = cluster.start(command, cwd=directory, env=env)
        try:
            said = process.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0] + "\n(ended by the test after %d s)" % timeout_s
    return process.returncode, said.splitlines()


def why(status, lines):
    return ["status %s" % status] + lines[-25:]


def path_of(programs):
    return os.pathsep.join(dict.fromkeys(os.path.dirname(os.path.abspath(program)) for program in programs))
