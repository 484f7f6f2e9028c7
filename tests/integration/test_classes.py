#!/usr/bin/env python3
"""Data sets of any number of classes: counted from the labels, or given; the same for all workers;
and constants that are given.

usage: test_classes.py PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER"""

import json
import os
import re
import struct
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace, join_thread
from test_by_hand import Cluster, endpoint_of, listen

SIDE = 28
OPTIONS = {"model": "mlp", "workers": 3, "batch-size": 16, "steps": 4, "lr": 0.05, "threads": 1, "seed": 4, "hash": True}


def write_set(folder, classes):
    """An IDX set whose largest label is classes - 1, which the test split alone has."""
    os.makedirs(folder)
    for name, count, largest in (("train", 150, classes - 2), ("t10k", 96, classes - 1)):
        with open(os.path.join(folder, name + "-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">IIII", 2051, count, SIDE, SIDE) + bytes((i * 37) % 251 for i in range(count * SIDE * SIDE)))
        with open(os.path.join(folder, name + "-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">II", 2049, count) + bytes(i % (largest + 1) for i in range(count)))
    return folder


def outputs(run):
    """Rows of the last layer of a run's last checkpoint."""
    path = os.path.join(run.out, "checkpoints", "step-%d" % OPTIONS["steps"], "model.safetensors")
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(size))["fc3.weight"]["shape"][0]


def told(run):
    """What worker 0 says of its data."""
    with open(os.path.join(run.out, "log", "rank-0.log")) as text:
        return next((line for line in text if " data name=" in line), "")


def counted(tap, psring, directory):
    data = write_set(os.path.join(directory, "letters"), 47)
    hashes = set()
    for name, mode in (("ps", {"mode": "ps", "shards": 2}), ("ring", {"mode": "ring"}), ("local", {"mode": "local"})):
        run = Run(psring, directory, name, dict(OPTIONS, data=data, **mode))
        if tap.ok(run.status == 0 and outputs(run) == 47 and "classes=47" in told(run), "%s: 47 classes are counted and learnt" % name,
                  run.why()):
            hashes.add(run.outcome()["hash"])
    tap.ok(len(hashes) == 1, "one hash in all modes", [str(hashes)])

    run = Run(psring, directory, "given", dict(OPTIONS, data=data, classes=62))
    tap.ok(run.status == 0 and outputs(run) == 62, "--classes 62: as many outputs as were given", run.why())
    run = Run(psring, directory, "few", dict(OPTIONS, data=data, classes=46))
    tap.ok(run.status == 2 and re.search(r"--classes: 46 are too few for letters, whose labels go up to 46; give 47", run.stderr),
           "--classes 46: too few are refused by name", run.why())
    run = Run(psring, directory, "generated", dict(OPTIONS, data="synthetic:count=150,test=62,channels=1,size=28", classes=62))
    tap.ok(run.status == 0 and outputs(run) == 62, "generated data have the classes that are given", run.why())

    plain = Run(psring, directory, "plain", dict(OPTIONS, data=data))
    computed = re.search(r"mean=(\S+) std=(\S+)", told(plain))
    if tap.ok(computed, "a worker's log tells the constants", [told(plain)]):
        same = Run(psring, directory, "same", dict(OPTIONS, data=data, mean=computed.group(1), std=computed.group(2)))
        tap.ok(same.status == 0 and same.hashes() == plain.hashes(), "the same constants, given, give the same bits", same.why())
        other = Run(psring, directory, "other", dict(OPTIONS, data=data, mean=0.5, std=0.5))
        tap.ok(other.status == 0 and other.hashes() != plain.hashes() and "mean=0.5 std=0.5" in told(other), "others give others",
               other.why())


def other_classes_on_a_host(tap, programs, directory):
    """Two workers that find different sets under one name, as on two hosts."""
    psring, scheduler, _, worker = programs
    places = []
    for classes in (47, 48):
        places.append(os.path.join(directory, "host-%d" % classes))
        write_set(os.path.join(places[-1], "set"), classes)
    keys = os.path.join(directory, "keys")
    subprocess.run([psring, "keygen", "--out", keys, "--workers", "2", "--shards", "0"], check=True, stdout=subprocess.DEVNULL,
                   timeout=PATIENCE_S)
    lines = []
    with Cluster() as cluster:
        head = cluster.start([scheduler, "--key-file", os.path.join(keys, "scheduler-0.key"), "--out", os.path.join(directory, "two"),
                              "--mode", "ring", "--workers", "2", "--model", "mlp", "--steps", "2", "--batch-size", "8", "--data", "./set"]
                             + (["--port", "0"]))
        thread, found = listen(head, lines)
        endpoint = endpoint_of(found, lines)
        if not tap.ok(endpoint, "the scheduler says where it listens", lines):
            return
        for rank, place in enumerate(places):
            cluster.start([worker, "--key-file", os.path.join(keys, "worker-%d.key" % rank), "--scheduler", endpoint[1]], cwd=place)
        statuses = [process.wait(PATIENCE_S) for process in cluster.processes]
        join_thread(thread, "what the scheduler says")
    tap.ok(statuses[0] == 2 and any(re.search(r"worker \d.* has 4[78] classes in set, worker \d.* has 4[78]", line) for line in lines),
           "a worker whose data have other classes is refused by name", [str(statuses)] + lines)


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap = Tap()
    with Workspace() as directory:
        counted(tap, programs[0], directory)
        other_classes_on_a_host(tap, programs, directory)
    tap.end()


if __name__ == "__main__":
    main()
