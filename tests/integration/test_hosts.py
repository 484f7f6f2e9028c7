#!/usr/bin/env python3
"""psring train on the hosts of a hostfile, which a script in the place of ssh plays on this machine: who goes where, with which
variables. `test_hosts.py PSRING [PART..]`"""

import os
import re
import sys
from functools import partial

from psring_live import LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, together

OPTIONS = {"model": "mlp", "data": "synthetic:count=48,test=20,channels=1,size=8", "batch-size": 4, "steps": 2, "lr": 0.05, "threads": 1, "seed": 3,
           "no-eval": True, "hash": True}
PLAYED_SSH = """#!/bin/sh
for command; do :; done
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$command"
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

    def train(self, name, words=(), **options):
        options = {key.replace("_", "-"): value for key, value in options.items()}
        return LiveRun(self.psring, self.directory, name, dict(OPTIONS, ssh=self.ssh, **options), more=words)


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
    """ld.so tells of what it cannot load before the program begins: so who has the variable says so."""
    run = launcher.train("variables", ["-x", "LD_PRELOAD=/nonexistent/given.so"], mode="ps", shards=1, workers=2, hostfile=launcher.file("two", "b1\nb2\n"))
    if ends(tap, run, 0, "psring train -x"):
        told = sorted(match.group(1) for line in run.text("err")
                      for match in [re.match(r"\[(\w+ \d+) on b\d\] ERROR: ld\.so: object '/nonexistent/given\.so'", line)] if match)
        tap.ok(told == ["shard 0", "worker 0", "worker 1"], "workers and shards have the variable, and nobody else", run.why())


PARTS = {part.__name__: part for part in (mapping, variables)}


def main():
    tap = Tap()
    with Workspace() as directory:
        launcher = Launcher(os.path.abspath(sys.argv[1]), directory)
        together(tap, [partial(PARTS[name], launcher=launcher) for name in sys.argv[2:] or PARTS])
    tap.end()


if __name__ == "__main__":
    main()
