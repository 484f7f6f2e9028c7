"""deploy/kubernetes: the manifests are what Kubernetes takes, in a restricted namespace too, two
runs in one namespace keep apart, and the entry point of their pods, in the environment that a pod
has, makes runs that end with the bits of --mode local.

usage: test_kubernetes.py SOURCE-ROOT PSRING SCHEDULER SHARD WORKER [KUBERNETES-VALIDATE]"""

import os
import re
import shutil
import socket
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None

from launched import PATIENCE_S, Cluster, Run, Tap, Workspace, outcome, path_of
from pods import local_of, options_in, options_of_run, play

PARTS = ["ConfigMap", "Job", "Job", "PersistentVolumeClaim", "Service", "StatefulSet"]


def version_of(command):
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    return (told.stdout + told.stderr).strip().splitlines()[0]


def builder():
    """The command that builds a kustomization; None: nobody here can."""
    kubectl, kustomize = shutil.which("kubectl"), shutil.which("kustomize")
    if kubectl:
        print("# %s" % version_of([kubectl, "version", "--client"]))
        return [kubectl, "kustomize"]
    if kustomize:
        print("# %s" % version_of([kustomize, "version"]))
        return [kustomize, "build"]
    print("# neither kubectl nor kustomize is here: the manifests were not built")
    return None


def build(tap, command, folder, kinds):
    """The built manifests' text."""
    built = subprocess.run(command + [folder], capture_output=True, text=True, timeout=PATIENCE_S)
    found = sorted(re.findall(r"^kind: (\w+)$", built.stdout, re.M))
    tap.ok(built.returncode == 0 and found == kinds, "%s builds" % os.path.basename(folder), [str(found)] + built.stderr.splitlines())
    return built.stdout


def fits_schemas(tap, what, text, validator):
    if not validator:
        print("# kubernetes-validate is not here: %s was not held against Kubernetes' schemas" % what)
        return
    print("# kubernetes-validate %s" % version_of([validator, "--version"]))
    with Workspace() as directory:
        path = os.path.join(directory, "built.yaml")
        with open(path, "w") as file:
            file.write(text)
        judged = subprocess.run([validator, "--strict", path], capture_output=True, text=True, timeout=PATIENCE_S)
    tap.ok(judged.returncode == 0, "every object of %s fits Kubernetes' schema, strictly" % what, (judged.stdout + judged.stderr).splitlines())


def objects_of(text):
    return [one for one in yaml.safe_load_all(text) if one]


def templates_of(objects):
    return {one["metadata"]["name"]: one["spec"]["template"] for one in objects if one["kind"] in ("Job", "StatefulSet")}


def is_restricted(pod):
    """What is wrong by the level "restricted" of Kubernetes' Pod Security Standards, of what is
    asked of a pod without host's parts."""
    context, wrong = pod.get("securityContext", {}), []
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    wrong += [volume for volume in pod.get("volumes", []) if not kinds & set(volume)]
    for container in pod["containers"] + pod.get("initContainers", []):
        own = container.get("securityContext", {})
        both = dict(context, **own)
        if own.get("allowPrivilegeEscalation") is not False:
            wrong.append("allowPrivilegeEscalation")
        if "ALL" not in own.get("capabilities", {}).get("drop", []) or set(own["capabilities"].get("add", [])) - {"NET_BIND_SERVICE"}:
            wrong.append("capabilities")
        if both.get("runAsNonRoot") is not True or both.get("runAsUser", 1) == 0:
            wrong.append("runAsNonRoot")
        if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            wrong.append("seccompProfile")
    return wrong


def restricted(tap, what, text):
    wrong = {name: is_restricted(template["spec"]) for name, template in templates_of(objects_of(text)).items()}
    tap.ok(wrong and not any(wrong.values()), "%s: a restricted namespace takes each pod" % what, [str(wrong)])


def matches(selector, labels):
    return all(labels.get(name) == value for name, value in selector.items())


def two_runs(tap, command, base):
    """Each with a namePrefix: no object, address, Secret or label of one is of the other."""
    with Workspace() as directory:
        runs = {}
        for prefix in ("one-", "two-"):
            folder = os.path.join(directory, prefix + "run")
            os.mkdir(folder)
            with open(os.path.join(folder, "kustomization.yaml"), "w") as file:
                file.write("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamePrefix: %s\nresources: [%s]\n" %
                           (prefix, os.path.relpath(os.path.realpath(base), os.path.realpath(folder))))
            runs[prefix] = objects_of(build(tap, command, folder, PARTS))
    names = [{(one["kind"], one["metadata"]["name"]) for one in objects} for objects in runs.values()]
    tap.ok(len(names[0]) == len(names[1]) == len(PARTS) and not names[0] & names[1], "two runs have no object in common", [str(names)])
    both = {name: template for objects in runs.values() for name, template in templates_of(objects).items()}
    for prefix, objects in runs.items():
        of_kind = {one["kind"]: one for one in objects}
        service, shards = of_kind["Service"], of_kind["StatefulSet"]
        found = [name for name, template in both.items() if matches(service["spec"]["selector"], template["metadata"]["labels"])]
        address = of_kind["ConfigMap"]["data"]["PSRING_SCHEDULER"]
        tap.ok(found == [prefix + "psring-scheduler"] and address == service["metadata"]["name"] == shards["spec"]["serviceName"],
               "%s: the address of its scheduler stands for its scheduler alone" % prefix, [str((found, address))])
        found = [name for name, template in both.items() if matches(shards["spec"]["selector"]["matchLabels"], template["metadata"]["labels"])]
        tap.ok(found == [prefix + "psring-shards"], "%s: its shards are its own" % prefix, [str(found)])
        secrets = {volume["secret"]["secretName"] for template in templates_of(objects).values() for volume in template["spec"]["volumes"]
                   if "secret" in volume}
        tap.ok(secrets == {prefix + "psring-keys"}, "%s: so are its keys" % prefix, [str(secrets)])


def manifests(tap, folder, validator):
    """The text of the ring's; None: nobody here can build it."""
    command = builder()
    if not command:
        return None
    base = build(tap, command, os.path.join(folder, "base"), PARTS)
    ring = build(tap, command, os.path.join(folder, "ring"), [part for part in PARTS if part != "StatefulSet"])
    for what, text in (("base", base), ("ring", ring)):
        fits_schemas(tap, what, text, validator)
        if yaml:
            restricted(tap, what, text)
    if yaml:
        two_runs(tap, command, os.path.join(folder, "base"))
    else:
        print("# PyYAML (python3-yaml) is not here: what the manifests say was not looked at")
    return ring


def runs(tap, directory, options, entry, programs):
    local = Run(programs[0], directory, "local", local_of(options))
    if not tap.ok(local.status == 0, "--mode local ends with status 0", local.why()):
        return
    keys, volume = os.path.join(directory, "keys"), os.path.join(directory, "runs")
    os.mkdir(volume)
    subprocess.run([programs[0], "keygen", keys, "--workers", options["workers"], "--shards", options.get("shards", "0")], check=True,
                   capture_output=True, timeout=PATIENCE_S)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, PATH=path_of(programs) + os.pathsep + os.environ["PATH"], TMPDIR=directory, PSRING_KEYS=keys,
                       PSRING_SCHEDULER="127.0.0.1", PSRING_PORT=str(port), PSRING_RUNS=volume, PSRING_RUN="run", POD_IP="127.0.0.1")
    pods = int(options["workers"]) + int(options.get("shards", 0)) + 1
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
                                  (["worker"], {"JOB_COMPLETION_INDEX": "77"}, "worker-77.key_secret is not there"),
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
    ring = manifests(tap, folder, sys.argv[6] if len(sys.argv) > 6 else shutil.which("kubernetes-validate"))
    for options in [options_of_run(os.path.join(folder, "base"))] + ([options_in(ring)] if ring else []):
        with Workspace() as directory:
            runs(tap, directory, options, os.path.join(folder, "psring-pod"), programs)
    tap.end()


if __name__ == "__main__":
    main()
