#!/usr/bin/env python3
"""psring-bench-exchange finds its results right in every way to synchronise and over every
transport, prints the bus factor that docs/algorithms.md defines, takes a range of sizes, and goes
on when a peer fails.

usage: test_bench_exchange.py BENCH-EXCHANGE"""

import json
import subprocess
import sys

from psring_run import PATIENCE_S, Tap

# Options, and the factor: 2(n-1)/n for a ring, max(1, n/s) for dedicated shards, none where nothing
# crosses a link.
CASES = [
    ({"mode": "ring", "workers": 3}, 4 / 3),
    ({"mode": "ring", "workers": 1}, None),
    ({"mode": "ps", "workers": 3, "shards": 1}, 3),
    ({"mode": "ps", "workers": 2, "shards": 4}, 1),
    ({"mode": "ring", "workers": 3, "transport": "shm"}, 4 / 3),
    ({"mode": "ring", "workers": 3, "transport": "shm", "sum-only": None}, 4 / 3),
    ({"mode": "ring", "workers": 4, "transport": "shm", "sum-shared": None}, 1.5),
    ({"mode": "ring", "workers": 3, "transport": "shm", "compress": "fp16"}, 4 / 3),
    ({"mode": "ring", "workers": 3, "transport": "ipc", "sum-only": None}, 4 / 3),
    ({"mode": "ps", "workers": 3, "shards": 2, "transport": "shm"}, 1.5),
    ({"mode": "ring", "workers": 2, "transport": "ipc"}, 1),
    ({"mode": "ring", "workers": 3, "transport": "tcp"}, 4 / 3),
    ({"mode": "ps", "workers": 3, "shards": 2, "transport": "tcp"}, 1.5),
    ({"mode": "ps", "workers": 3, "shards": 2, "sync": "async"}, 1.5),
    ({"mode": "ps", "workers": 3, "shards": 2, "sync": "ssp:1"}, 1.5),
    ({"mode": "ring", "workers": 3, "compress": "bf16"}, 4 / 3),
    ({"mode": "ring", "workers": 3, "compress": "int8"}, 4 / 3),
    ({"mode": "ring", "workers": 1, "compress": "topk:0.1"}, None),
    ({"mode": "ps", "workers": 3, "shards": 1, "compress": "1bit"}, 3),
    ({"mode": "ps", "workers": 3, "shards": 1, "compress-weights": "bf16"}, 3),
]

# What would be accepted and not measured.
REFUSED = [
    (["--mode=ps@1,ring@3"], "--mode: every round goes one way here; give --mode ps or ring"),
    (["--mode=ring", "--shards=1", "--route=a=ps"], "--route: every round goes one way here; give --mode ps or ring"),
    (["--mode=local"], "--mode: only ps and ring exchange anything"),
]


def sizes_and_peers(tap, bench):
    done = subprocess.run([bench, "--mode=ring", "--workers=2", "--rounds=1", "--warmup-rounds=0", "-b", "4K", "-e", "70K", "-f", "4", "--gloo=false"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("psring")]
    tap.ok([row[1] for row in rows] == ["4096", "16384", "65536"], "a row for each size from -b to -e", [done.stdout, done.stderr])
    tap.ok(done.returncode == 1 and done.stderr == "psring bench exchange: Gloo failed: it said nothing\n" * 3,
           "a peer that fails gets one line, the rest goes on, and the exit status tells", [done.stdout, done.stderr])
    for words, line in ((["-b", "3"], "--begin: '3' is no size; give 64 to 4G bytes, as 64K"), (["-e", "4K"], "--end: it goes with --begin, the smallest size"),
                        (["-b", "4K", "-e", "1K"], "--end: it is below --begin"), (["-b", "4T"], "--begin: '4T' is no size; give 64 to 4G bytes, as 64K")):
        done = subprocess.run([bench, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(done.returncode == 2 and done.stdout == "" and done.stderr.endswith(": %s\n" % line), "%s: refused by name" % " ".join(words),
               [done.stdout, done.stderr])


def main(bench):
    tap = Tap()
    for words, line in REFUSED:
        done = subprocess.run([bench, "--bytes=65536", "--rounds=1", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(done.returncode == 2 and done.stdout == "" and done.stderr == "psring bench exchange: %s\n" % line, "%s: refused by name" % " ".join(words),
               [done.stdout, done.stderr])
    sizes_and_peers(tap, bench)
    for options, factor in CASES:
        words = [key if value is None else "%s=%s" % (key, value) for key, value in options.items()]
        name = " ".join(words)
        done = subprocess.run([bench, "--bytes=262144", "--bucket-size=65536", "--rounds=8", "--warmup-rounds=1", "--json"] +
                              ["--" + word for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        figures = json.loads(done.stdout) if done.returncode == 0 else {}
        tap.ok(done.returncode == 0 and figures.get("wrong") == 0, "%s: the results are right" % name, [done.stdout, done.stderr])
        told = figures.get("busbw_factor", "none told")
        tap.ok(told == factor if factor is None else abs(told - factor) < 1e-3, "%s: the factor is %s" % (name, factor), [done.stdout])
        tap.ok((figures.get("busbw_gb_s", "none told") is None) == (factor is None), "%s: and busbw has it" % name, [done.stdout])
    tap.end()


main(sys.argv[1])
