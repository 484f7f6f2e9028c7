"""What the tests of deploy/kubernetes share: the run that the manifests start, made short, and a
process for each of its pods."""

import os
import re
import subprocess

from launched import PATIENCE_S

# Behind the manifest's own options, so these win: a run that lasts a second.
SHORT = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "epochs": 0, "steps": 6, "batch-size": 8, "threads": 1,
         "seed": 11, "lr": 0.05, "checkpoint-every": 3}


def options_in(text, **more):
    """What a manifest gives the scheduler, made short, as a dict of options."""
    return dict(re.findall(r"^ +- --([\w-]+)=(\S+)", text, re.M), **SHORT, **more)


def options_of_run(base, **more):
    with open(os.path.join(base, "scheduler.yaml")) as file:
        return options_in(file.read(), **more)


def local_of(options):
    """Those of the run of --mode local that ends with the same bits."""
    return dict({name: value for name, value in options.items() if name != "shards"}, mode="local")


def words_of(options):
    return ["--%s=%s" % option for option in options.items()]


def play(start, options):
    """(exit statuses, the last lines of each) of one process for each pod, by start(arguments of
    the entry point, what Kubernetes tells that pod). The scheduler comes last, the last worker
    first: none may depend on the order."""
    pods = [(["worker"], {"JOB_COMPLETION_INDEX": str(index)}) for index in reversed(range(int(options["workers"])))]
    pods += [(["shard"], {"POD_NAME": "psring-shards-%d" % index}) for index in range(int(options.get("shards", 0)))]
    pods += [(["scheduler"] + words_of(options), {})]
    statuses, said = [], []
    for process in [start(*pod) for pod in pods]:
        try:
            said += process.communicate(timeout=PATIENCE_S)[0].splitlines()[-4:]
        except subprocess.TimeoutExpired:
            said.append("(still there after %d s)" % PATIENCE_S)
        statuses.append(process.poll())
    return statuses, said
