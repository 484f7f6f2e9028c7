"""deploy/kubernetes: the manifests are what Kubernetes takes, and the entry point of its pods, in the environment that a pod has, makes a
run that ends with the bits of --mode local.

usage: test_kubernetes.py SOURCE-ROOT PSRING SCHEDULER SHARD WORKER [KUBERNETES-VALIDATE]"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from psring_run import PATIENCE_S, Run, Tap, Workspace
from test_by_hand import Cluster

# Behind the manifest's own options, so these win: a run that lasts a second.
OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "epochs": 0, "steps": 6, "batch-size": 8, "threads": 1,
           "seed": 11, "lr": 0.05, "checkpoint-every": 3}


def version_of(command):
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    return (told.stdout + told.stderr).strip().splitlines()[0]


def manifests(tap, base, validator):
    """The built manifests' text; None: nobody here can build them."""
    kubectl, kustomize = shutil.which("kubectl"), shutil.which("kustomize")
    if not kubectl and not kustomize:
        print("# neither kubectl nor kustomize is here: the manifests were not built")
        return
    command = [kubectl, "kustomize", base] if kubectl else [kustomize, "build", base]
    print("# %s" % version_of([kubectl, "version", "--client"] if kubectl else [kustomize, "version"]))
    built = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    kinds = sorted(re.findall(r"^kind: (\w+)$", built.stdout, re.M))
    tap.ok(built.returncode == 0 and kinds == ["ConfigMap", "Job", "Job", "PersistentVolumeClaim", "Service", "StatefulSet"],
           "the base builds", [str(kinds)] + built.stderr.splitlines())
    if not validator:
        print("# kubernetes-validate is not here: the manifests were not held against Kubernetes' schemas")
        return
    print("# kubernetes-validate %s" % version_of([validator, "--version"]))
    with Workspace() as directory:
        path = os.path.join(directory, "built.yaml")
        with open(path, "w") as file:
            file.write(built.stdout)
        judged = subprocess.run([validator, "--strict", path], capture_output=True, text=True, timeout=PATIENCE_S)
    tap.ok(judged.returncode == 0, "every object fits Kubernetes' schema, strictly", (judged.stdout + judged.stderr).splitlines())


def scheduler_options(base):
    """What the manifest gives the scheduler, as a dict of options."""
    with open(os.path.join(base, "scheduler.yaml")) as file:
        return dict(re.findall(r"^ +- --([\w-]+)=(\S+)", file.read(), re.M))


def pods(cluster, entry, environment, options, workers, shards):
    """One process for each pod, each with what Kubernetes tells its pod."""
    start = lambda arguments, **more: cluster.start([entry] + arguments, env=dict(environment, **more))
    words = ["--%s=%s" % option for option in options.items()]
    members = [start(["worker"], JOB_COMPLETION_INDEX=str(index)) for index in reversed(range(workers))]
    members += [start(["shard"], POD_NAME="psring-shards-%d" % index) for index in range(shards)]
    return members + [start(["scheduler"] + words)]


def statuses_of(processes):
    statuses, said = [], []
    for process in processes:
        try:
            said += process.communicate(timeout=PATIENCE_S)[0].splitlines()[-4:]
        except subprocess.TimeoutExpired:
            said.append("(still there after %d s)" % PATIENCE_S)
        statuses.append(process.poll())
    return statuses, said


def outcome(run):
    try:
        with open(os.path.join(run, "run.json")) as text:
            return json.load(text)["outcome"]
    except (OSError, KeyError, ValueError) as wrong:
        return {"hash": repr(wrong)}


def runs(tap, directory, base, entry, programs):
    options = dict(scheduler_options(base), **OPTIONS)
    workers, shards = int(options["workers"]), int(options["shards"])
    local = Run(programs[0], directory, "local", dict({name: value for name, value in options.items() if name != "shards"}, mode="local"))
    if not tap.ok(local.status == 0, "--mode local ends with status 0", local.why()):
        return
    keys, volume = os.path.join(directory, "keys"), os.path.join(directory, "runs")
    os.mkdir(volume)
    subprocess.run([programs[0], "keygen", keys, "--workers", str(workers), "--shards", str(shards)], check=True, capture_output=True,
                   timeout=PATIENCE_S)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.pathsep.join([os.path.dirname(program) for program in programs] + [os.environ["PATH"]])
    environment = dict(os.environ, PATH=path, TMPDIR=directory, PSRING_KEYS=keys, PSRING_SCHEDULER="127.0.0.1", PSRING_PORT=str(port),
                       PSRING_RUNS=volume, PSRING_RUN="run", POD_IP="127.0.0.1")
    with Cluster() as cluster:
        statuses, said = statuses_of(pods(cluster, entry, environment, options, workers, shards))
    tap.ok(statuses == [0] * (workers + shards + 1), "every pod's process ends with status 0", [str(statuses)] + said)
    found, right = outcome(os.path.join(volume, "run"))["hash"], local.outcome()["hash"]
    tap.ok(found == right, "the hash is that of --mode local", [str((found, right))])
    with Cluster() as cluster:
        statuses, said = statuses_of(pods(cluster, entry, environment, dict(options, steps=9), workers, shards))
    again = outcome(os.path.join(volume, "run-2"))
    tap.ok(statuses == [0] * (workers + shards + 1) and (again.get("steps"), again.get("own_steps")) == (9, 3),
           "a scheduler that is started again goes on with the last checkpoint", [str(statuses), str(again)] + said)
    refusals(tap, entry, environment)


def refusals(tap, entry, environment):
    for arguments, more, word in [([], {}, "usage"), (["driver"], {}, "usage"), (["worker"], {}, "JOB_COMPLETION_INDEX is not set"),
                                  (["worker"], {"JOB_COMPLETION_INDEX": "x"}, "JOB_COMPLETION_INDEX is 'x'"),
                                  (["worker"], {"JOB_COMPLETION_INDEX": "77"}, "worker-77.key is not there"),
                                  (["shard"], {"POD_NAME": "psring-shards"}, "the end of POD_NAME is 'shards'"),
                                  (["worker"], {"PSRING_PORT": "", "JOB_COMPLETION_INDEX": "0"}, "PSRING_PORT is not set")]:
        told = subprocess.run([entry] + arguments, env=dict(environment, **more), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        tap.ok(told.returncode == 2 and len(told.stderr.splitlines()) == 1 and word in told.stderr,
               "refused in one line: psring-pod %s, %s" % (" ".join(arguments), word), ["status %d" % told.returncode, told.stderr])


def main():
    root, programs = sys.argv[1], [os.path.abspath(program) for program in sys.argv[2:6]]
    folder = os.path.join(root, "deploy", "kubernetes")
    tap = Tap()
    manifests(tap, os.path.join(folder, "base"), sys.argv[6] if len(sys.argv) > 6 else shutil.which("kubernetes-validate"))
    with Workspace() as directory:
        runs(tap, directory, os.path.join(folder, "base"), os.path.join(folder, "psring-pod"), programs)
    tap.end()


if __name__ == "__main__":
    main()
