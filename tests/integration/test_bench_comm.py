#!/usr/bin/env python3
"""psring-bench-comm measures every operation, finds all values right, and those that are spoilt;
text, JSON and CSV have the same figures.

usage: test_bench_comm.py PSRING-BENCH-COMM SPOILT-SUM RUN-RANKS PSRING"""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile

from psring_run import PATIENCE_S, Tap

RANKS = 3
# Units of its size, and the bus factor of 3 ranks (docs/figures.md).
OPERATIONS = {
    "all_reduce": (1, 4 / 3), "reduce": (1, 1), "reduce_scatter": (3, 2 / 3), "scan": (1, 1), "exscan": (1, 1), "all_gather": (3, 2 / 3), "broadcast": (1, 1),
    "gather": (3, 2 / 3), "scatter": (3, 2 / 3), "all_to_all": (3, 2 / 3), "all_to_all_v": (6, 5 / 6), "send_receive": (1, 1),
    "neighbor_exchange": (2, 1), "halo_exchange": (2, 1), "barrier": (0, 1),
}
ITERATIONS, WARMUP = 3, 1
CALLS = 1 + WARMUP + ITERATIONS
SHORT = ["--iterations=%d" % ITERATIONS, "--warmup=%d" % WARMUP]


def run(*command, env=None):
    return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
                          env=dict(os.environ, **(env or {})))


def rows_of(done):
    return json.loads(done.stdout)["rows"] if done.returncode == 0 else []


def sizes(units, begin, end, factor, value_bytes=4):
    """Whole units, at least one."""
    found = []
    while begin <= end:
        size = max(begin // (units * value_bytes), 1) * units * value_bytes if units else 0
        if size not in found:
            found.append(size)
        begin *= factor
    return found


def every_operation_and_size(tap, bench):
    done = run(bench, "-n", RANKS, "-b", 8, "-e", "32K", "-f", 64, "--json", *SHORT)
    rows = rows_of(done)
    tap.ok(done.returncode == 0 and rows and all(row["wrong"] == 0 for row in rows), "all values are right", [done.stdout, done.stderr])
    wanted = [(name, size) for name, (units, _) in OPERATIONS.items() for size in sizes(units, 8, 32768, 64)]
    tap.ok([(row["operation"], row["size_bytes"]) for row in rows] == wanted, "each operation has a row for each size", [done.stdout])
    tap.ok(bool(rows) and all(0 < row["min_us"] <= row["time_us"] <= row["max_us"] for row in rows), "the median lies in the range",
           [done.stdout])
    sized = [row for row in rows if row["size_bytes"] > 0]
    tap.ok(bool(sized) and all(abs(row["algbw_gb_s"] * row["time_us"] * 1e3 / row["size_bytes"] - 1) < 1e-3 and
                               abs(row["busbw_gb_s"] / row["algbw_gb_s"] / OPERATIONS[row["operation"]][1] - 1) < 1e-3 for row in sized),
           "algbw is size over time, and busbw has the operation's factor", [done.stdout])


def types_and_ops(tap, bench):
    for options in (["-t", "float16", "-O", "mean"], ["-t", "bfloat16", "-O", "sum"], ["-t", "int8", "-O", "product"],
                    ["-t", "uint8", "-O", "sum"], ["-t", "float64", "-O", "minimum"], ["-t", "int64", "-O", "maximum", "-r", 2],
                    ["-t", "int16", "-O", "sum"], ["-t", "uint16", "-O", "bitwise_and"], ["-t", "uint32", "-O", "bitwise_or"],
                    ["-t", "uint64", "-O", "bitwise_xor"], ["-t", "int8", "-O", "logical_and"], ["-t", "bfloat16", "-O", "logical_or"],
                    ["-t", "float64", "-O", "logical_xor"], ["-t", "float32_int32", "-O", "minloc"], ["-t", "float64_int32", "-O", "maxloc"],
                    ["-t", "int16_int32", "-O", "minloc"], ["-t", "int32_int32", "-O", "maxloc"], ["-t", "int64_int32", "-O", "minloc"]):
        scans = "" if options[3] == "mean" else ",scan,exscan"
        done = run(bench, "-n", RANKS, "-b", 8200, "-e", 8200, "-o", "all_reduce,reduce,reduce_scatter" + scans, "--json", *SHORT, *options)
        rows = rows_of(done)
        tap.ok(len(rows) == (5 if scans else 3) and all(row["wrong"] == 0 and row["type"] == options[1] and row["op"] == options[3] for row in rows),
               "%s of %s is right" % (options[3], options[1]), [done.stdout, done.stderr])


def encodings(tap, bench):
    """Half the bytes, over sockets; each row names what it was."""
    sent = {}
    for encoding in ("none", "fp16", "bf16"):
        for op in ("sum", "mean"):
            done = run(bench, "-n", RANKS, "-b", 90000, "-e", 90000, "-o", "all_reduce", "-a", "ring", "-O", op, "--encoding", encoding, "--json", *SHORT)
            rows = rows_of(done)
            tap.ok([(row["wrong"], row["encoding"], row["algorithm"]) for row in rows] == [(0, None if encoding == "none" else encoding, "ring")],
                   "%s in %s is right" % (op, encoding), [done.stdout, done.stderr])
            sent[encoding] = json.loads(done.stdout)["bytes_sent"] if rows else 0
    tap.ok(0 < sent["fp16"] < 0.6 * sent["none"] and 0 < sent["bf16"] < 0.6 * sent["none"], "and in about half the bytes", [str(sent)])
    done = run(bench, "-n", RANKS, "-b", 64, "-e", 64, "--encoding", "bf16", "--csv", *SHORT)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    tap.ok(done.returncode == 0 and [(row["operation"], row["encoding"]) for row in rows] == [("all_reduce", "bf16")],
           "of all operations the one that has encodings is measured", [done.stdout, done.stderr])
    done = run(bench, "-n", RANKS, "-b", 64, "-e", 64, "-o", "all_reduce", "--encoding", "fp16", *SHORT)
    tap.ok(" ring/fp16 " in done.stdout, "text names the encoding", [done.stdout, done.stderr])


def a_spoilt_value_is_found(tap, bench, spoilt):
    env = {"LD_PRELOAD": os.path.abspath(spoilt), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
    options = [bench, "-n", RANKS, "-b", 4096, "-e", 4096, "--json", *SHORT]
    done = run(*options, "-o", "all_reduce", env=env)
    rows = json.loads(done.stdout)["rows"]
    tap.ok(done.returncode == 1 and [row["wrong"] for row in rows] == [CALLS - 1] and "wrong values" in done.stderr,
           "the control: one value that is wrong at one rank is counted in each blocking call, and the exit status is 1",
           [done.stdout, done.stderr])
    done = run(*options, "-o", "reduce", env=env)
    tap.ok(done.returncode == 0 and [row["wrong"] for row in rows_of(done)] == [0], "and spoils nothing else", [done.stdout, done.stderr])


def how_values_go(tap, bench, psring):
    """Large values and small ones go through shared memory, unless they are told not to, and over
    TCP sealed."""
    for size, transport in (("1M", "auto"), (1024, "auto"), (1024, "ipc"), ("1M", "tcp")):
        # The first ones go over sockets, until the others have mapped this rank's memory, and by
        # CURVE, until the second connection is there.
        done = run(psring, "bench", "comm", "--transport=" + transport, "-n", RANKS, "-b", size, "-e", size, "-o", "all_reduce", "--json",
                   "-i", 200)
        counts = json.loads(done.stdout) if done.returncode == 0 else {}
        tap.ok(counts and counts["bytes_sent"] > 0 and (counts["bytes_lent"] > 0) == (transport == "auto") and counts["rows"][0]["wrong"] == 0,
               "of %s bytes %s goes through shared memory" % (size, "a part" if transport == "auto" else "nothing"), [done.stdout, done.stderr])
        tap.ok(counts and (counts["bytes_sealed"] > 0) == (transport == "tcp"), "and %s sealed" % ("a part" if transport == "tcp" else "nothing"),
               [done.stdout, done.stderr])


def where_arrays_lie(tap, bench, psring):
    """In shared memory all values are right too, and the table says where they were."""
    done = run(bench, "-n", RANKS, "-b", 4096, "-e", "256K", "-f", 64, "-m", "shared", "--json", *SHORT)
    table = json.loads(done.stdout) if done.returncode == 0 else {"rows": []}
    tap.ok(table["rows"] and table["memory"] == "shared" and not any(row["wrong"] for row in table["rows"]) and table["bytes_lent"] > 0,
           "all operations in shared memory", [done.stdout, done.stderr])
    for transport, lends in ("ipc", False), ("tcp", False), ("shm", True):
        done = run(psring, "bench", "comm", "--transport=" + transport, "-n", RANKS, "-b", "1M", "-e", "1M", "-o", "all_reduce", "--memory=shared",
                   "--json", *SHORT)
        table = json.loads(done.stdout) if done.returncode == 0 else {"rows": []}
        tap.ok([row["wrong"] for row in table["rows"]] == [0] and (table["bytes_lent"] > 0) == lends,
               "in shared memory, with --transport %s" % transport, [done.stdout, done.stderr])
    done = run(bench, "-n", RANKS, "-b", 1024, "-e", 1024, "-o", "all_reduce", *SHORT)
    tap.ok(done.returncode == 0 and ", memory: private;" in done.stdout, "arrays are the program's own if nothing else is asked for",
           [done.stdout, done.stderr])
    done = run(bench, "--memory", "elsewhere")
    tap.ok(done.returncode == 2 and "--memory elsewhere: it should be private or shared" in done.stderr, "no other memory is known",
           [done.stdout, done.stderr])


def the_three_formats(tap, bench, run_ranks):
    options = ["-b", 1024, "-e", 1024, "-o", "all_reduce,barrier", "-a", "auto", *SHORT]
    done = run(run_ranks, RANKS, bench, *options, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    tap.ok(done.returncode == 0 and [(row["operation"], row["ranks"], row["size_bytes"], row["wrong"], row["memory"]) for row in rows] ==
           [("all_reduce", "3", "1024", "0", "private"), ("barrier", "3", "0", "0", "private")] and rows[1]["algbw_gb_s"] == "",
           "with a place from the environment, as CSV", [done.stdout, done.stderr])
    done = run(bench, "-n", RANKS, *options)
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    tap.ok(done.returncode == 0 and [(row[0], row[1], row[-1]) for row in rows] == [("all_reduce", "1024", "0"), ("barrier", "0", "0")],
           "as text", [done.stdout, done.stderr])


def by_the_front_door(tap, psring, folder):
    """`psring bench comm`: on this machine as the program does it, on hosts by `psring run`."""
    options = ["-b", 1024, "-e", 1024, "-o", "all_reduce", "--json", *SHORT]
    hostfile = os.path.join(folder, "hosts")
    with open(hostfile, "w", encoding="ascii") as hosts:
        hosts.write("localhost slots=3\n")
    for places, ranks in (["-n", 3], 3), (["--hostfile", hostfile], 3), (["-H", "localhost:4", "-n2"], 2), (["--transport=tcp", "-n", 2], 2):
        done = run(psring, "bench", "comm", *places, *options)
        table = json.loads(done.stdout) if done.returncode == 0 else {"rows": []}
        tap.ok([(table.get("ranks"), row["operation"], row["size_bytes"], row["wrong"]) for row in table["rows"]] ==
               [(ranks, "all_reduce", 1024, 0)], "psring bench comm %s" % " ".join(map(str, places)).replace(folder, ""),
               [done.stdout, done.stderr])
    done = run(psring, "bench", "comm", "-H", "localhost:2", "-o", "all_reduce", "-a", "chain")
    tap.ok(done.returncode == 1 and "all_reduce has no algorithm chain" in done.stderr, "what fails on a host ends it with 1", [done.stderr])
    for words, line in ((["comn"], "'comn' is not a measurement (comm?); there are comm, exchange, train\n"), (["comm", "--hostfile"], "--hostfile needs a value"),
                        ([], "Usage: psring bench")):
        done = run(psring, "bench", *words)
        tap.ok(done.returncode == 2 and line in done.stderr, "refused: psring bench %s" % " ".join(words), [done.stderr])
    done = run(psring, "bench", "comm", "--help")
    tap.ok(done.returncode == 0 and "Usage: psring bench comm" in done.stdout and "--algorithm" in done.stdout, "its help is the program's",
           [done.stdout])
    os.remove(hostfile)


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def a_run_that_is_ended(tap, bench):
    """The table's head is there, so all ranks have met; what comes then takes longer than anybody
    waits."""
    for whom, name, line in (("rank", "a rank that is killed ends the others", "rank 1: Killed"), ("all", "SIGTERM ends all ranks", "")):
        with subprocess.Popen([bench, "-n", str(RANKS), "-i", "1000000", "-o", "all_reduce", "--csv"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            head = running.stdout.readline()
            ranks = children_of(running.pid)
            os.kill(ranks[1] if whom == "rank" else running.pid, signal.SIGKILL if whom == "rank" else signal.SIGTERM)
            out, err = running.communicate(timeout=PATIENCE_S)
        gone = not any(os.path.exists("/proc/%d" % rank) for rank in ranks)
        tap.ok(running.returncode == 1 and line in err and len(ranks) == RANKS and gone, name, [head, out, err])


def what_cannot_be(tap, bench):
    for options, status, line in (
            (["-o", "all_reduce,nothing"], 2, "--operation all_reduce,nothing"), (["-b", "2K", "-e", "1K"], 2, "--begin is beyond --end"),
            (["--encoding", "int8"], 2, "--encoding int8: it should be none, fp16 or bf16"),
            (["-o", "broadcast", "--encoding", "fp16"], 1, "an operation of the list has none; all_reduce has"),
            (["-o", "all_reduce", "-t", "float64", "--encoding", "fp16"], 1, "only sums and means of float32 are encoded"),
            (["-o", "all_reduce", "-O", "maximum", "--encoding", "bf16"], 1, "only sums and means of float32 are encoded"),
            (["-b", "8X"], 2, "8X"), (["-o", "all_reduce", "-a", "chain"], 1, "all_reduce has no algorithm chain"),
            (["-t", "int32", "-O", "mean"], 1, "no mean of integers"), (["-t", "float32", "-O", "bitwise_or"], 1, "bitwise ops are of integers"),
            (["-t", "int32", "-O", "minloc"], 1, "minloc and maxloc are of pairs"), (["-t", "int32_int32"], 1, "pairs have no other op"),
            (["-o", "scan", "-O", "mean"], 1, "an operation of the list has no mean"), (["-r", 3], 1, "no such rank")):
        done = run(bench, "-n", RANKS, *options)
        tap.ok(done.returncode == status and line in done.stderr and (status == 1 or len(done.stderr.splitlines()) == 1), "refused: %s" % " ".join(map(str, options)), [done.stdout, done.stderr])
    done = run(bench, "-n", 1, "-o", "send_receive")
    tap.ok(done.returncode == 1 and "needs more ranks" in done.stderr, "refused: a message of one rank", [done.stderr])
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([bench, "-b", "8", "-e", "8", "-o", "barrier", *SHORT], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S)
    tap.ok(done.returncode == 1 and "the table could not be written" in done.stderr, "a table that cannot be written is an error",
           [done.stderr])
    done = run(bench, "-n", RANKS, env={"PSRING_RANKS": "1", "PSRING_RANK": "0"})
    tap.ok(done.returncode == 1 and "PSRING_RANKS says" in done.stderr, "refused: --ranks beside PSRING_RANKS", [done.stderr])


def main(bench, spoilt, run_ranks, psring):
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="bench-comm-") as folder:
        os.environ["TMPDIR"] = folder
        every_operation_and_size(tap, bench)
        types_and_ops(tap, bench)
        encodings(tap, bench)
        a_spoilt_value_is_found(tap, bench, spoilt)
        how_values_go(tap, bench, psring)
        where_arrays_lie(tap, bench, psring)
        the_three_formats(tap, bench, run_ranks)
        what_cannot_be(tap, bench)
        by_the_front_door(tap, psring, folder)
        a_run_that_is_ended(tap, bench)
        tap.ok(os.listdir(folder) == [], "nothing is left behind", os.listdir(folder))
    tap.end()


main(*sys.argv[1:])
