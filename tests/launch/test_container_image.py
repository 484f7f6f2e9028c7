"""deploy/kubernetes/Containerfile: the image is built of this tree, on a root made by debootstrap
in the place of a registry's, and its entry point, in a container for each pod with the environment
that a pod has, makes a run that ends with the bits of --mode local there.

usage: test_container_image.py SOURCE-ROOT [SUITE]      SUITE: bookworm or trixie; default: trixie

No container engine is needed: buildah builds and runs as root in a mount and a process namespace of
the test's own, so that nothing of it stays."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys

from launched import PATIENCE_S, Cluster, Tap, Workspace, outcome, program, skip, version_of
from pods import local_of, options_of_run, play, words_of

IMAGE = "psring:test"
NOTES = "/var/lib/containers"
BUILD_PATIENCE_S = 1200
# As many descriptors and processes as this one may have: newer versions of buildah ask for numbers
# of their own, which not every machine allows.
ULIMITS = ["--ulimit=%s=%d:%d" % (name, *resource.getrlimit(which)) for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))]


class Builder:
    """buildah with a storage of its own in directory."""

    def __init__(self, directory):
        self.directory = directory
        # vfs where the directory is on an overlay itself: slow, and works everywhere
        for driver in ("overlay", "vfs"):
            self.globals = ["buildah", "--root", os.path.join(directory, "storage"), "--runroot", os.path.join(directory, "running"),
                            "--storage-driver", driver]
            if self.call("from", "scratch")[0] == 0:
                break
            shutil.rmtree(os.path.join(directory, "storage"), ignore_errors=True)

    def call(self, *words, patience_s=PATIENCE_S):
        """(exit status, lines of standard output, and of standard error)"""
        ended = subprocess.run(self.globals + list(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patience_s,
                               env=dict(os.environ, TMPDIR=self.directory))
        return ended.returncode, ended.stdout.splitlines(), ended.stderr.splitlines()

    def container(self, image):
        status, said, wrong = self.call("from", "--pull-never", *ULIMITS, image)
        if status != 0:
            raise RuntimeError("\n".join(wrong))
        return said[-1]

    def command(self, container, words, volumes=(), **environment):
        """What runs words in it, as the user that the image names."""
        options = ["--volume=%s:%s" % volume for volume in volumes] + ["--env=%s=%s" % pair for pair in environment.items()]
        return self.globals + ["run", "--isolation", "chroot", *options, container, "--", *words]

    def run(self, container, words, **more):
        return self.call(*self.command(container, words, **more)[len(self.globals):])


def built(tap, builder, source, suite):
    """Whether the image is there."""
    root, tag = os.path.join(builder.directory, "root"), suite + "-slim"
    made = subprocess.run([os.path.join(source, "tests", "debian_root"), suite, root], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=BUILD_PATIENCE_S)
    if not tap.ok(made.returncode == 0, "debootstrap makes a root of %s" % suite, made.stderr.splitlines()[-20:]):
        return False
    base = builder.container("scratch")
    builder.call("add", base, root, "/")
    status, _, wrong = builder.call("commit", "--rm", base, "docker.io/library/debian:" + tag)
    shutil.rmtree(root)
    tap.ok(status == 0, "it becomes the image debian:%s" % tag, wrong)
    status, said, wrong = builder.call("build", "--isolation", "chroot", "--pull-never", *ULIMITS, "--build-arg", "DEBIAN=" + tag, "-t", IMAGE, "-f",
                                       os.path.join(source, "deploy", "kubernetes", "Containerfile"), source, patience_s=BUILD_PATIENCE_S)
    return tap.ok(status == 0, "the Containerfile builds", (said + wrong)[-40:])


def contents(tap, builder):
    """What the image is; its entry point."""
    _, said, _ = builder.call("inspect", "--type", "image", IMAGE)
    config = json.loads("\n".join(said))["OCIv1"]["config"]
    container = builder.container(IMAGE)
    _, packages, _ = builder.run(container, ["dpkg-query", "-W", "-f", "${Package}\n"])
    _, who, _ = builder.run(container, ["id", "-u"])
    _, version, _ = builder.run(container, ["psring-worker", "--version"])
    print("# %s" % "".join(version))
    tap.ok({"psring", "libpsring0", "dataset-fashion-mnist"} <= set(packages) and not {"cc", "gcc", "meson", "libc6-dev", "libzmq3-dev"} & set(packages),
           "psring is in it as Debian packages, and what they are built with is not", packages)
    tap.ok(who == ["1000"], "nothing in it runs as root", who)
    status, said, wrong = builder.run(container, config["Entrypoint"])
    tap.ok(status == 2 and wrong[0] == "psring-pod: PSRING_KEYS is not set; deploy/kubernetes/base sets it",
           "its entry point is that of a pod, and says what it needs", ["status %d" % status] + said + wrong)
    return config["Entrypoint"]


def run(tap, builder, entry, base):
    options = options_of_run(base)
    volume, keys = os.path.join(builder.directory, "runs"), os.path.join(builder.directory, "keys")
    container = builder.container(IMAGE)
    for folder in (volume, keys):
        os.mkdir(folder)
        os.chown(folder, 1000, 1000)  # as fsGroup does it with a claim
    status, _, wrong = builder.run(container, ["psring", "keygen", "/made/keys", "--workers", options["workers"], "--shards", options["shards"]],
                                   volumes=[(keys, "/made")])
    tap.ok(status == 0, "psring keygen makes the keys", wrong)
    secret = os.path.join(keys, "keys")
    for name in os.listdir(secret):  # and with a Secret
        os.chown(os.path.join(secret, name), 0, 1000)
        os.chmod(os.path.join(secret, name), 0o440)
    status, said, wrong = builder.run(container, ["psring", "train", "--out", "/runs/local", *words_of(local_of(options))], volumes=[(volume, "/runs")])
    right = outcome(os.path.join(volume, "local"))["hash"]
    tap.ok(status == 0, "--mode local ends with status 0 in a container", said + wrong)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PSRING_KEYS": "/keys", "PSRING_SCHEDULER": "127.0.0.1", "PSRING_PORT": port, "PSRING_RUNS": "/runs", "PSRING_RUN": "run",
                   "POD_IP": "127.0.0.1"}
    with Cluster() as cluster:
        start = lambda arguments, told: cluster.start(builder.command(builder.container(IMAGE), entry + arguments, **environment, **told,
                                                                      volumes=[(secret, "/keys:ro"), (volume, "/runs")]))
        statuses, said = play(start, options)
    pods = int(options["workers"]) + int(options["shards"]) + 1
    tap.ok(statuses == [0] * pods, "the entry point ends with status 0 in each of %d containers" % pods, [str(statuses)] + said)
    found = outcome(os.path.join(volume, "run"))["hash"]
    tap.ok(found == right, "the hash is that of --mode local", [str((found, right))])


def inside(directory, source, suite="trixie"):
    tap, builder = Tap(), Builder(directory)
    print("# %s, storage %s" % (version_of("buildah", "--version"), builder.globals[-1]), flush=True)
    if built(tap, builder, source, suite):
        run(tap, builder, contents(tap, builder), os.path.join(source, "deploy", "kubernetes", "base"))
    tap.end()


def main():
    if os.geteuid() != 0:
        skip("building an image without a container engine needs to be root")
    for tool in ("buildah", "debootstrap", "unshare"):
        program(tool)
    with Workspace() as directory:
        # Where buildah notes what it has seen, whatever its storage.
        there = os.path.isdir(NOTES)
        prepare = 'mkdir -p %s && mount -t tmpfs tmpfs %s && exec "$0" "$@"' % (NOTES, NOTES)
        status = subprocess.run(["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c",
                                 prepare, sys.executable, os.path.abspath(__file__), "--inside", directory, *sys.argv[1:]]).returncode
        if not there:
            os.rmdir(NOTES)
    sys.exit(status)


if sys.argv[1] == "--inside":
    inside(*sys.argv[2:])
else:
    main()
