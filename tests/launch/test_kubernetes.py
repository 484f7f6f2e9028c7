"""deploy/kubernetes: the manifests are what Kubernetes takes, and the entry point of its pods, in the environment that a pod has, makes a
run that ends with the bits of --mode local.

usage: test_kubernetes.py SOURCE-ROOT PSRING SCHEDULER SHARD WORKER [KUBERNETES-VALIDATE]"""

import os
import re
import shutil
import socket
import subprocess
import sys

from launched import PATIENCE_S, Cluster, Run, Tap, Workspace, outcome, path_of
from pods import local_of, options_of_run, play


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


def runs(tap, directory, base, entry, programs):
    options = options_of_run(base)
    local = Run(programs[0], directory, "local", local_of(options))
    if not tap.ok(local.status == 0, "--mode local ends with status 0", local.why()):
        return
    keys, volume = os.path.join(directory, "keys"), os.path.join(directory, "runs")
    os.mkdir(volume)
    subprocess.run([programs[0], "keygen", keys, "--workers", options["workers"], "--shards", options["shards"]], check=True,
                   capture_output=True, timeout=PATIENCE_S)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, PATH=path_of(programs) + os.pathsep + os.environ["PATH"], TMPDIR=directory, PSRING_KEYS=keys,
                       PSRING_SCHEDULER="127.0.0.1", PSRING_PORT=str(port), PSRING_RUNS=volume, PSRING_RUN="run", POD_IP="127.0.0.1")
    pods = int(options["workers"]) + int(options["shards"]) + 1
    with Cluster() as cluster:
        start = lambda arguments, told: cluster.start([entry] + arguments, env=dict(environment, **told))
        statuses, said = play(start, options)
        tap.ok(statuses == [0] * pods, "every pod's process ends with status 0", [str(statuses)] + said)
        found, right = outcome(os.path.join(volume, "run"))["hash"], local.outcome()["hash"]
        tap.ok(found == right, "the hash is that of --mode local", [str((found, right))])
        statuses, said = play(start, dict(options, steps=9))
    again = outcome(os.path.join(volume, "run-2"))
    tap.ok(statuses == [0] * pods and (again.get("steps"), again.get("own_steps")) == (9, 3),
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
