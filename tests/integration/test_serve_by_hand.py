#!/usr/bin/env python3
"""test_serve_by_hand.py PSRING-PS PSRING PUSHES: shards that psring-ps serves, started by hand as
docs/library.md says: at a path without a key, and over TCP with a shared one. TAP."""
import os
import pathlib
import re
import subprocess
import sys

from psring_run import Workspace, free_port

shard, psring, program = sys.argv[1:4]
WORKERS, SHARDS = 2, 2
EXPECTED = "-2.5 -5 -7.5\n"  # two steps of 1 and two of 0.25 times the mean push


def play(place):
    """All ranks by hand: exit status, standard output and standard error of each."""
    started = []
    for rank in range(WORKERS + SHARDS):
        env = {**os.environ, **place, "PSRING_RANKS": str(WORKERS + SHARDS), "PSRING_SHARDS": str(SHARDS),
               "PSRING_RANK": str(rank)}
        command = [program] if rank < WORKERS else [shard, "serve"]
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    ended = [process.communicate(timeout=300) for process in started]
    return [(process.returncode, out, err) for process, (out, err) in zip(started, ended)]


def report(number, name, ended):
    good = all(status == 0 for status, _, _ in ended)
    good = good and [out for _, out, _ in ended] == [EXPECTED] * WORKERS + [""] * SHARDS
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    for line in [] if good else ended:
        print(f"# {line}")
    return good


with Workspace() as folder:
    print("1..3")
    folder = pathlib.Path(folder)
    good = report(1, "at a path", play({"PSRING_SCHEDULER": str(folder / "scheduler")}))
    key = folder / "key"
    made = subprocess.run([psring, "keygen", "--shared", str(key), "--workers", str(WORKERS + SHARDS)],
                          capture_output=True, text=True, timeout=300)
    port = free_port()
    files = sorted(folder.glob("key*"))
    good = report(2, "over TCP with a shared key", play({"PSRING_SCHEDULER": f"127.0.0.1:{port}",
                                                         "PSRING_KEY_FILE": str(files[0])}) if files else
                  [(made.returncode, made.stdout, made.stderr)]) and good
    wrong = subprocess.run([shard, "serve"], env={k: v for k, v in os.environ.items() if not re.match("PSRING_R", k)},
                           capture_output=True, text=True, timeout=300)
    told = wrong.returncode != 0 and wrong.stderr != ""
    print(f"{'ok' if told else 'not ok'} 3 - without a place it says so: {wrong.stderr.strip()}")
    sys.exit(0 if good and told else 1)
