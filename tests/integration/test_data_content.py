#!/usr/bin/env python3
"""What ranks must agree on is what their samples are: not the name of a directory, nor how its
files are packed. One process of a host reads them for all. A run that takes an earlier one's
options, or goes on with it, has that one's samples, or is refused.

usage: test_data_content.py PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER"""

import gzip
import json
import lzma
import os
import re
import struct
import subprocess
import sys

from psring_run import PATIENCE_S, Run, Tap, Workspace, join_thread, over
from test_by_hand import Cluster, endpoint_of, listen

SIDE = 8
OPTIONS = {"model": "mlp", "workers": 3, "mode": "ring", "batch-size": 8, "steps": 3, "threads": 1, "seed": 4, "no-eval": True}
OTHER = r"has other %s samples \(\w+, content [0-9a-f]{32}\) than worker 0 on \S+ \(\w+, content [0-9a-f]{32}\): --data must hold the same"


def write_set(folder, train=1, test=1, ending=""):
    """An IDX set whose samples depend on two numbers."""
    os.makedirs(folder)
    write = {"": open, ".gz": gzip.open, ".xz": lzma.open}[ending]
    for name, count, seed in (("train", 120, train), ("t10k", 30, test)):
        with write(os.path.join(folder, name + "-images-idx3-ubyte" + ending), "wb") as file:
            file.write(struct.pack(">IIII", 2051, count, SIDE, SIDE) + bytes((i * seed + i // 7) % 251 for i in range(count * SIDE * SIDE)))
        with write(os.path.join(folder, name + "-labels-idx1-ubyte" + ending), "wb") as file:
            file.write(struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count)))
    return folder


def by_hand(programs, directory, name, places, data="./d"):
    """Workers that are each in a place of its own, as on hosts of their own. Returns all exit
    statuses, the scheduler's first, and its lines."""
    psring, scheduler, _, worker = programs
    keys = os.path.join(directory, "keys-" + name)
    subprocess.run([psring, "keygen", "--out", keys, "--workers", str(len(places)), "--shards", "0"], check=True, stdout=subprocess.DEVNULL,
                   timeout=PATIENCE_S)
    lines = []
    with Cluster() as cluster:
        head = cluster.start([scheduler, "--key-file", os.path.join(keys, "scheduler-0.key"), "--out", os.path.join(directory, "run-" + name),
                              "--mode", "ring", "--workers", str(len(places)), "--model", "mlp", "--steps", "2", "--batch-size", "8",
                              "--data", data, "--port", "0"])
        thread, found = listen(head, lines)
        endpoint = endpoint_of(found, lines)
        for rank, place in enumerate(places if endpoint else ()):
            cluster.start([worker, "--key-file", os.path.join(keys, "worker-%d.key" % rank), "--scheduler", endpoint[1]], cwd=place)
        statuses = [process.wait(PATIENCE_S) for process in cluster.processes]
        join_thread(thread, "what the scheduler says")
    return statuses, lines


def differing(tap, programs, directory):
    for split, seeds in (("training", (2, 1)), ("test", (1, 2))):
        places = [os.path.join(directory, split, "host-%d" % i) for i in range(2)]
        write_set(os.path.join(places[0], "d"))
        write_set(os.path.join(places[1], "d"), *seeds)
        statuses, lines = by_hand(programs, directory, split, places)
        tap.ok(statuses[0] == 2 and all(statuses) and any(re.search(r"worker 1 on \S+ " + OTHER % split, line) for line in lines),
               "other %s samples under one name, as many of them, are refused with both ranks and hosts" % split, [str(statuses)] + lines)


def equal(tap, programs, directory):
    places, sources = [os.path.join(directory, "equal", "host-%d" % i) for i in range(4)], []
    for i, ending in enumerate(("", ".gz", ".xz", "")):
        sources.append(write_set(os.path.join(places[i], "copy%s" % "ABCD"[i]), ending=ending))
        os.symlink(sources[i], os.path.join(places[i], "d"))
    statuses, lines = by_hand(programs, directory, "equal", places)
    tap.ok(statuses == [0] * 5, "equal samples agree, whatever their directories are called and however their files are packed",
           [str(statuses)] + lines)


def content(run):
    with open(os.path.join(run.out, "run.json")) as text:
        told = json.load(text)
    return told["config"]["data-content"], told["facts"]["data_train"], told["facts"]["data_test"]


def logs(run, words):
    folder = os.path.join(run.out, "log")
    count = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as text:
            count += words in text.read()
    return count


def shared(tap, psring, directory):
    data = write_set(os.path.join(directory, "packed"), ending=".xz")
    for name in ("auto", "tcp", "mixed"):
        run = Run(psring, directory, "shared-" + name, dict(OPTIONS, data=data, workers=4, **over(name, directory, 4)))
        # hosts; by tcp alone nothing is shared, and each is a host of its own
        readers = {"auto": 1, "mixed": 2}.get(name, 4)
        tap.ok(run.status == 0 and logs(run, "data set read by another worker of this host") == 4 - readers,
               "--transport %s: %d of 4 workers read the files" % (name, readers), run.why())
    text, train, test = content(run)
    tap.ok(re.fullmatch("[0-9a-f]{32}", train) and train != test and text == train + "-" + test and
           "  samples    120 to train, 30 to test, content %s-%s\n" % (train[:8], test[:8]) in run.stdout, "run.json has it and the start shows it",
           [text] + run.why())


def earlier(tap, psring, directory):
    data = write_set(os.path.join(directory, "now"))
    first = Run(psring, directory, "first", dict(OPTIONS, data=data))
    again = Run(psring, directory, "again", {"config": first.out})
    tap.ok(first.status == 0 and again.status == 0 and again.outcome()["hash"] == first.outcome()["hash"],
           "--config of a run with the same samples is the same run", first.why() + again.why())
    packed = write_set(os.path.join(directory, "repacked"), ending=".gz")
    run = Run(psring, directory, "further", {"resume": first.out, "data": packed, "steps": 5})
    tap.ok(run.status == 0, "--resume with the same samples at another place goes on", run.why())

    os.rename(data, data + "-before")
    write_set(data, train=5)
    refused = r"psring train: --data \S+: its training samples \(content \w{32}\) differ from those of the earlier run .*--data-content"
    for name, options in (("config", {"config": first.out}), ("resume", {"resume": first.out, "steps": 5}),
                          ("checkpoint", {"resume": os.path.join(first.out, "checkpoints", "step-3"), "steps": 5})):
        run = Run(psring, directory, "other-" + name, options)
        tap.ok(run.status == 2 and re.search(refused, run.stderr) and not os.path.exists(run.out),
               "other samples in the place of a run's are refused: " + name, run.why())
    run = Run(psring, directory, "resume-data", {"resume": first.out, "steps": 5, "data": data})
    tap.ok(run.status == 2 and re.search(refused, run.stderr), "nor does --data beside --resume bring other samples in", run.why())
    run = Run(psring, directory, "taken", {"resume": first.out, "steps": 5, "data-content": ""})
    tap.ok(run.status == 0 and content(run)[0] != content(first)[0], "--data-content= takes them", run.why())
    run = Run(psring, directory, "config-data", {"config": first.out, "data": data})
    tap.ok(run.status == 0, "--data beside --config asks for them", run.why())

    with open(os.path.join(first.out, "run.json")) as text:
        told = json.load(text)
    del told["config"]["data-content"], told["facts"]["data_train"], told["facts"]["data_test"]
    with open(os.path.join(first.out, "run.json"), "w") as text:
        json.dump(told, text)
    for name, options in (("config", {"config": first.out}), ("resume", {"resume": first.out, "steps": 5})):
        run = Run(psring, directory, "old-" + name, options)
        tap.ok(run.status == 0, "a run.json without it works as before: " + name, run.why())
    run = Run(psring, directory, "wrong", dict(OPTIONS, data=data, **{"data-content": "0123"}))
    tap.ok(run.status == 2 and "--data-content: '0123' is no content of a data set" in run.stderr, "a text that is none is refused", run.why())


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap = Tap()
    with Workspace() as directory:
        os.environ["XDG_CACHE_HOME"] = os.path.join(directory, "cache")
        differing(tap, programs, directory)
        equal(tap, programs, directory)
        shared(tap, programs[0], directory)
        earlier(tap, programs[0], directory)
    tap.end()


if __name__ == "__main__":
    main()
