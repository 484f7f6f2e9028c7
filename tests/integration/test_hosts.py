#!/usr/bin/env python3
"""psring train on the hosts of a hostfile, which a script in the place of ssh plays on this
machine: who goes where, with which variables, and what is told of hosts that cannot be used.
`test_hosts.py PSRING [PART..]`"""

import json
import os
import re
import subprocess
import sys
from functools import partial

from psring_live import Live, LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, is_sanitized, together

OPTIONS = {"model": "mlp", "data": "synthetic:count=48,test=20,channels=1,size=8", "batch-size": 4, "steps": 2, "lr": 0.05, "threads": 1, "seed": 3,
           "no-eval": True, "hash": True}
PLAYED_SSH = """#!/bin/sh
for command; do :; done
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$command"
"""


# What ssh says of hosts that it does not get into, by the last letter of their names. All others
# have an agent of this version, which says hello and waits. How many are between their start and
# that, the script writes down.
FAILING_SSH = """#!/bin/sh
version=$1 folder=$2
for word; do test "$before" = ServerAliveCountMax=3 && host=$word; before=$word; done
: >"$folder/now/$host"
set -- "$folder"/now/*
echo $# >>"$folder/at_a_time"
rm "$folder/now/$host"
case $host in
*x) echo "$host: Permission denied (publickey)." >&2; exit 255 ;;
*k) echo "No ED25519 host key is known for $host and you have requested strict checking." >&2; echo "Host key verification failed." >&2; exit 255 ;;
*r) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
*n) echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255 ;;
*l) echo "psring is neither at that path nor in PATH" >&2; exit 127 ;;
*v) version=0.0.1 ;;
*s) read -r line; echo "Welcome"; exec cat >/dev/null ;;
esac
echo '{"event":"hello","version":"'$version'","host":"h","cores":2,"address":"127.0.0.1","launcher_address":"127.0.0.1","machine":"'$(cat /proc/sys/kernel/random/boot_id)'"}'
exec cat >/dev/null
"""


class Launcher:
    def __init__(self, psring, directory):
        self.psring, self.directory = psring, directory
        self.ssh = self.script("ssh", PLAYED_SSH)

    def file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def script(self, name, text):
        path = self.file(name, text)
        os.chmod(path, 0o755)
        return path

    def train(self, name, words=(), before=(), **options):
        options = {key.replace("_", "-"): value for key, value in options.items()}
        return LiveRun(self.psring, self.directory, name, dict(OPTIONS, **dict({"ssh": self.ssh}, **options)), more=words,
                       before=before)


def ends(tap, run, status, what):
    try:
        got = run.wait(PATIENCE_S)
    finally:
        left = run.kill()
    tap.ok(got == status, what, run.why())
    tap.ok(not left, "%s: nothing is left running" % what, [str(left)])
    return got == status


def roster(run):
    return {"%s %d" % (entry["role"], entry["rank"]): entry["host"] for entry in run.json()["roster"] if entry["role"] != "scheduler"}


def mapping(tap, launcher):
    hosts = launcher.file("mapped", "b[1-2] slots=2 max_slots=3  # two lines in one\n")
    hashes = set()
    for map_by, wanted in (("slot", ["b1", "b1", "b2", "b2", "b1"]), ("node", ["b1", "b2", "b1", "b2", "b1"])):
        run = launcher.train("map-by-" + map_by, ["-np", "5"], hostfile=hosts, mode="ring", map_by=map_by)
        if ends(tap, run, 0, "five workers by %s on four slots; max_slots allows one more" % map_by):
            tap.ok(roster(run) == {"worker %d" % rank: host for rank, host in enumerate(wanted)}, "they go where Open MPI would have them",
                   [str(roster(run))])
            hashes.add(run.json()["outcome"]["hash"])
    servers = launcher.file("servers", "s[1-2]\n")
    run = launcher.train("ps-hostfile", ["-n", "5", "-H", "b1:3,b2:3"], mode="ps", shards=2, ps_hostfile=servers, map_by="node")
    if ends(tap, run, 0, "five workers by node, two shards on hosts of their own"):
        tap.ok(roster(run) == {"worker 0": "b1", "worker 1": "b2", "worker 2": "b1", "worker 3": "b2", "worker 4": "b1", "shard 0": "s1", "shard 1": "s2"},
               "they are there", [str(roster(run))])
        hashes.add(run.json()["outcome"]["hash"])
    tap.ok(len(hashes) == 1, "wherever they are, they end with the same bits", [str(hashes)])


def variables(tap, launcher):
    """ld.so tells of what it cannot load before the program begins: so who has the variable says
    so."""
    run = launcher.train("variables", ["-x", "LD_PRELOAD=/nonexistent/given.so"], mode="ps", shards=1, workers=2, hostfile=launcher.file("two", "b1\nb2\n"))
    if ends(tap, run, 0, "psring train -x"):
        told = sorted(match.group(1) for line in run.text("err")
                      for match in [re.match(r"\[(\w+ \d+) on b\d\] ERROR: ld\.so: object '/nonexistent/given\.so'", line)] if match)
        tap.ok(told == ["shard 0", "worker 0", "worker 1"], "workers and shards have the variable, and nobody else", run.why())


def binding(tap, launcher):
    """What is bound is read from the kernel, by the ranks themselves and of psring's processes from
    outside."""
    cpus = sorted(os.sched_getaffinity(0))
    hello = subprocess.run([launcher.psring, "agent"], input='{"op":"begin","deadline_s":30}\n', capture_output=True, text=True, timeout=PATIENCE_S).stdout
    topology = json.loads(hello.splitlines()[0]).get("topology")
    if topology is None:
        print("# binding: this psring was built without hwloc")
        return
    ask = [sys.executable, "-c", "import os; print(os.environ['PSRING_RANK'], *sorted(os.sched_getaffinity(0)))"]

    def ranks(name, options, before=()):
        return Live(list(before) + [launcher.psring, "run"] + options + ["--"] + ask, launcher.directory, name)

    run = ranks("bind-one", ["-n", "1", "--bind-to", "core", "--report-bindings"])
    if ends(tap, run, 0, "a rank that is bound"):
        tap.ok(run.text("out") == ["0 " + " ".join(map(str, cpus))], "has all cores that this process may use", run.why())
        tap.ok(len(run.text("err")) == 1 and re.fullmatch(r"binding    rank 0 on localhost: CPUs [\d,-]+", run.text("err")[0]), "and that is told", run.why())
    run = ranks("bind-none", ["-n", "1", "--report-bindings"])
    if ends(tap, run, 0, "without --bind-to"):
        tap.ok(run.text("err") == ["binding    rank 0 on localhost: none"], "none is told", run.why())
    one = ["taskset", "--cpu-list", str(cpus[-1])]
    run = ranks("bind-allowed", ["-n", "1", "--bind-to", "core"], one)
    if ends(tap, run, 0, "one of the processors is allowed"):
        tap.ok(run.text("out") == ["0 %d" % cpus[-1]], "the rank gets that", run.why())
    run = ranks("bind-too-few", ["-n", "2", "--bind-to", "core"], one)
    if ends(tap, run, 2, "two ranks on one core"):
        tap.ok(run.text("err") == ["psring run: host localhost: --bind-to core needs 2 cores there (workers: 2, threads of each: 1, shards: 0), "
                                   "and it has 1; give fewer processes there, or --bind-to none"], "are refused", run.why())
    run = launcher.train("bind-local", ["--bind-to", "numa", "--report-bindings"], mode="ps", shards=1, workers=1)
    if ends(tap, run, 0, "psring train --bind-to numa"):
        told = [line for line in run.text("out") if line.startswith("binding")]
        tap.ok(len(told) == 2 and re.fullmatch(r"binding    shard 0 on localhost: CPUs [\d,-]+", told[0]), "shards are bound too", run.why())
    if sum(map(len, topology)) < 2:
        print("# binding: there is one core")
        return
    hashes = set()
    for name, words in (("bound", ["--bind-to", "core"]), ("free", [])):
        run = launcher.train("bits-" + name, words, mode="ring", workers=2)
        if ends(tap, run, 0, "two workers, %s" % name):
            hashes.add(run.json()["outcome"]["hash"])
    tap.ok(len(hashes) == 1, "bound or not, with the same threads they end with the same bits", [str(hashes)])
    run = ranks("bind-two", ["-n", "2", "--bind-to", "core"])
    if ends(tap, run, 0, "two ranks"):
        sets = [set(line.split()[1:]) for line in run.text("out")]
        tap.ok(len(sets) == 2 and all(sets) and not sets[0] & sets[1], "share no core", run.why())


def failing_ssh(launcher, name):
    """A folder of the script's own, and --ssh."""
    folder = os.path.join(launcher.directory, name)
    os.makedirs(os.path.join(folder, "now"))
    version = subprocess.run([launcher.psring, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    return folder, "%s %s %s" % (launcher.script(name + "-ssh", FAILING_SSH), version, folder)


REASONS = {
    "bx": r"ssh could not connect: bx: Permission denied \(publickey\)\.; let it log you in without a password: ssh-copy-id bx",
    "bk": r"ssh could not connect: No ED25519 host key is known for bk and .*; make its key known: ssh-keyscan bk >>~/.ssh/known_hosts, and .*",
    "br": r"ssh could not connect: ssh: connect to host br port 22: Connection refused; is it up, .*",
    "bn": r"ssh could not connect: ssh: Could not resolve hostname bn: Name or service not known; is that its name\? .*",
    "bl": r"lacks the program psring \(psring is neither at that path nor in PATH\); install it there .*",
    "bv": r"has psring 0\.0\.1, this is .*; install the same version on both",
    "bs": r"its agent did not answer within 20 s: Welcome; see what `ssh bs true` does",
}


def bad_hosts(tap, launcher):
    _, ssh = failing_ssh(launcher, "bad")
    hosts = launcher.file("bad-hosts", "b[0-1]\n" + "".join(host + "\n" for host in REASONS) + "b2\n")
    run = launcher.train("bad-hosts-run", hostfile=hosts, ssh=ssh, mode="ring")
    if ends(tap, run, 2, "hosts that cannot be used end the start"):
        said = run.text("err")
        tap.ok(said[0] == "psring train: 7 of 10 hosts cannot be used:", "how many is told", run.why())
        for (host, reason), line in zip(REASONS.items(), said[1:] + [""] * 7):
            tap.ok(re.fullmatch("  host %s:? %s" % (host, reason), line), "%s: why, and what would be right" % host, run.why())
        tap.ok(len(said) == 8 and not os.path.exists(run.out), "and nothing else; nothing is written", run.why())


def many(tap, launcher, workers=200, shards=100):
    """A host for each. Every hundredth cannot be used. Memory and descriptors are those that the
    launcher is allowed."""
    count = workers + shards
    folder, ssh = failing_ssh(launcher, "many-%d" % count)
    names = ["w%dx" % i if i % 100 == 99 else "w%d" % i for i in range(workers)]
    for_workers = launcher.file("many-w-%d" % count, "".join(name + "\n" for name in names))
    for_shards = launcher.file("many-s-%d" % count, "s[2-%d]\ns1r\n" % shards)
    fails = workers // 100 + 1
    # Agents of all hosts share this machine: how long one is silent is not what this looks at.
    options = dict(hostfile=for_workers, ps_hostfile=for_shards, workers=workers, shards=shards, mode="ps", ssh=ssh, deadline=600)
    run = launcher.train("too-few-%d" % count, before=["prlimit", "--nofile=1024:%d" % (4 * count)], **options)
    if ends(tap, run, 2, "%d hosts with too few descriptors" % count):
        tap.ok(run.text("err") == ["psring train: %d hosts need %d open files here, and %d are allowed; allow more by ulimit -n, or by a line "
                                   "'nofile' in /etc/security/limits.conf" % (count, 4 * count + 64, 4 * count)], "are refused", run.why())
    enough = ["prlimit", "--nofile=256:%d" % (4 * count + 64)]
    if not is_sanitized(launcher.psring):  # a sanitizer takes terabytes of addresses for its shadow
        enough.append("--as=%d" % (1 << 30))
    run = launcher.train("many-run-%d" % count, before=enough, **options)
    if ends(tap, run, 2, "%d hosts" % count):
        said = run.text("err")
        tap.ok(said[0] == "psring train: %d of %d hosts cannot be used:" % (fails, count) and len(said) == 1 + fails,
               "those that cannot be used are told at once", run.why())
        lines = [line for line in run.text("out") if line.startswith("connecting")]
        tap.ok(0 < len(lines) <= 10 and all(re.fullmatch(r"connecting \d+ of %d hosts answered(, \d+ cannot be used)?" % count, line) for line in lines),
               "a line for each tenth tells how far it is", lines)
        with open(os.path.join(folder, "at_a_time")) as file:
            at_a_time = [int(line) for line in file]
        tap.ok(len(at_a_time) == count and max(at_a_time) <= 32, "of ssh no more than 32 are on their way at a time",
               [str(len(at_a_time)), str(max(at_a_time))])


def most(tap, launcher):
    """As many as a run can have."""
    many(tap, launcher, 1024, 256)


PARTS = {part.__name__: part for part in (mapping, variables, binding, bad_hosts, many)}
SLOW = {"most": most}


def main():
    tap = Tap()
    with Workspace() as directory:
        launcher = Launcher(os.path.abspath(sys.argv[1]), directory)
        together(tap, [partial(dict(PARTS, **SLOW)[name], launcher=launcher) for name in sys.argv[2:] or PARTS])
    tap.end()


if __name__ == "__main__":
    main()
