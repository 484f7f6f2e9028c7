#!/usr/bin/env python3
"""Every operation of libpsring by each of its algorithms, once, on 100 MB (25,000,000 float32) and
four ranks that are processes; all that comes out is checked by sums that are exact in any order.
Prints a table, and fails when a value was wrong or an operation was left out.

usage: large_operations.py PSRING-BENCH-COMM"""

import json
import re
import subprocess
import sys

RANKS, BYTES = 4, 100_000_000
OPERATIONS = ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "gather", "scatter", "all_to_all", "all_to_all_v",
              "send_receive", "neighbor_exchange", "halo_exchange", "barrier"]
PATIENCE_S = 600


def bench(program, operation, *options):
    return subprocess.run([program, "-n", str(RANKS), "-b", str(BYTES), "-e", str(BYTES), "-i", "1", "-w", "0", "--json", "-o", operation,
                           *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)


def algorithms(program, operation):
    """As the library lists them where it is asked for one that is none."""
    said = bench(program, operation, "-a", "none").stderr
    listed = re.search(r"has no algorithm none: there are auto, ([a-z_, ]+)", said)
    if listed is None:
        sys.exit("%s: its algorithms are not told: %s" % (operation, said))
    return listed.group(1).split(", ")


def measure(program, operation, algorithm):
    """Whether all went well; prints the row."""
    done = bench(program, operation, "-a", algorithm)
    try:
        row, = json.loads(done.stdout)["rows"]
    except (ValueError, KeyError) as wrong:
        print("%-18s %-14s %r: %s" % (operation, algorithm, wrong, done.stderr.strip()), flush=True)
        return False
    print("%-18s %-14s %12d %9.3f %7d" % (operation, row["algorithm"], row["count"], row["time_us"] / 1e6, row["wrong"]), flush=True)
    return done.returncode == 0 and row["wrong"] == 0 and row["algorithm"] == algorithm and \
        (operation == "barrier" or row["size_bytes"] > 0.99 * BYTES)


def main():
    program = sys.argv[1]
    cases = [(operation, algorithm) for operation in OPERATIONS for algorithm in algorithms(program, operation)]
    print("%d ranks, %d bytes of float32, each operation once by each algorithm; each time is the slowest rank's" % (RANKS, BYTES))
    print("%-18s %-14s %12s %9s %7s" % ("operation", "algorithm", "count", "seconds", "wrong"))
    failed = [case for case in cases if not measure(program, *case)]
    print("%d of %d are right" % (len(cases) - len(failed), len(cases)))
    sys.exit(1 if failed else 0)


main()
