#!/usr/bin/env python3
"""psring-bench-exchange finds its results right in every way to synchronise and over every
transport, prints the bus factor that docs/algorithms.md defines, takes a range of sizes, calls
peers in turn, and goes on when one fails. `psring bench exchange` runs it on hosts, with the factor
of their placement.

usage: test_bench_exchange.py BENCH-EXCHANGE PSRING"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from psring_run import PATIENCE_S, Tap, Workspace

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
    ({"mode": "ps", "workers": 3, "shards": 2, "compress-weights": "int8"}, 1.5),
    ({"mode": "ps", "workers": 3, "shards": 2, "compress-weights": "1bit", "transport": "shm"}, 1.5),
    ({"mode": "ps", "workers": 2, "shards": 1, "compress": "1bit", "compress-weights": "topk:0.01"}, 2),
]

# What is left of the bytes that a worker sends and receives: gradients in mode ps go one way, and
# weights the other. Heads of messages are counted too.
SHARES = {"none": 1, "bf16": 1 / 2, "int8": 1 / 4, "1bit": 1 / 32, "topk:0.01": 2 / 100}
HEADS = 0.02

# What would be accepted and not measured.
REFUSED = [
    (["--mode=ps@1,ring@3"], "--mode: every round goes one way here; give --mode ps or ring"),
    (["--mode=ring", "--shards=1", "--route=a=ps"], "--route: every round goes one way here; give --mode ps or ring"),
    (["--mode=ps", "--workers=2", "--compress-weights=some"],
     "--compress-weights: 'some' is no compression; give none, fp16, bf16, int8, topk:R (topk:0.01) or 1bit"),
    (["--mode=ring", "--workers=2", "--compress-weights=int8"],
     "--compress-weights int8 does not go with --mode ring: no weights are sent in that mode; leave --compress-weights out"),
    (["--mode=local"], "--mode: only ps and ring exchange anything"),
]


def sizes_and_peers(tap, bench):
    done = subprocess.run([bench, "--mode=ring", "--workers=2", "--rounds=1", "--warmup-rounds=0", "-b", "4K", "-e", "70K", "-f", "4", "--gloo=false"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("psring")]
    tap.ok([row[1] for row in rows] == ["4096", "16384", "65536"], "a row for each size from -b to -e", [done.stdout, done.stderr])
    tap.ok(done.returncode == 1 and done.stderr == "psring bench exchange: Gloo failed: it said nothing\n",
           "a peer that fails gets one line, the rest goes on, and the exit status tells", [done.stdout, done.stderr])
    for words, line in ((["-b", "3"], "--begin: '3' is no size; give 64 to 4G bytes, as 64K"), (["-e", "4K"], "--end: it goes with --begin, the smallest size"),
                        (["-b", "4K", "-e", "1K"], "--end: it is below --begin"), (["-b", "4T"], "--begin: '4T' is no size; give 64 to 4G bytes, as 64K")):
        done = subprocess.run([bench, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(done.returncode == 2 and done.stdout == "" and done.stderr.endswith(": %s\n" % line), "%s: refused by name" % " ".join(words),
               [done.stdout, done.stderr])


def is_running(pid):
    """A zombie is not: nobody may be there to reap it."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_gone(pids):
    """Those that were killed: the kernel is still ending them."""
    end = time.monotonic() + PATIENCE_S
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.02)


def peers_in_turn(tap, bench):
    """Two programs in the places of two peers. One of them fails in its third call, and leaves a
    process behind."""
    with Workspace() as directory:
        def program(name, text):
            path = os.path.join(directory, name)
            with open(path, "w") as file:
                file.write("#!/bin/sh\ncd %s\n%s" % (directory, text))
            os.chmod(path, 0o755)
            return path

        gloo = program("gloo", "echo gloo >>log\n[ $(grep -c gloo log) -lt 3 ] || { sleep 1000 & echo $! >left; echo 'no more' >&2; exit 1; }\n"
                       """echo '{"min_ms": 1, "median_ms": 2, "max_ms": 3}'\n""")
        program("mpicc", "touch $3\n")  # -O2 -o PROGRAM
        mpi = program("mpirun", """echo mpi >>log\necho '{"rows": [{"min_us": 1000, "time_us": 4000, "max_us": 9000}]}'\n""")
        done = subprocess.run([bench, "--mode=ring", "--workers=2", "--rounds=1", "--warmup-rounds=0", "-b", "4K", "-e", "8K", "--calls=2", "--json",
                               "--gloo", gloo, "--mpirun", mpi], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        peers = [(row["peer"], row["bytes"], row["min_ms"], row["median_ms"], row["max_ms"]) for row in rows if "peer" in row]
        tap.ok(peers == [("Gloo", 4096, 1, 2, 3), ("Open MPI", 4096, 1, 4, 9), ("Open MPI", 8192, 1, 4, 9)], "a row for each peer and size",
               [done.stdout, done.stderr])
        with open(os.path.join(directory, "log")) as log:
            called = log.read().split()
        tap.ok(called == ["gloo", "mpi"] * 3 + ["mpi"], "peers are called in turn, and one that has failed no more", called)
        tap.ok(done.returncode == 1 and done.stderr == "psring bench exchange: Gloo failed: no more\n", "one line says which failed", [done.stderr])
        with open(os.path.join(directory, "left")) as left:
            pid = int(left.read())
        await_gone([pid])
        tap.ok(not is_running(pid), "and what it left behind is gone", [str(pid)])


def interrupted_beside_a_peer(tap, bench):
    with Workspace() as directory:
        path = os.path.join(directory, "python")
        with open(path, "w") as file:
            file.write("#!/bin/sh\nsleep 1000 &\necho $! $$ >%s/pids.new && mv %s/pids.new %s/pids\nwait\n" % (directory, directory, directory))
        os.chmod(path, 0o755)
        process = subprocess.Popen([bench, "--mode=ring", "--workers=2", "--rounds=1", "-b", "4K", "--gloo", path], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told = os.path.join(directory, "pids")
        while not os.path.exists(told) and process.poll() is None:
            time.sleep(0.01)  # nobody tells that a file is there
        process.terminate()
        process.wait(PATIENCE_S)
        with open(told) as file:
            pids = [int(pid) for pid in file.read().split()]
        await_gone(pids)
        tap.ok(process.returncode == -signal.SIGTERM and not any(map(is_running, pids)), "told to end beside a peer it leaves no process",
               [str(process.returncode), str(pids)])


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def directories_of(pid):
    """Those that a process holds open, as it does the one with its sockets."""
    links = []
    for name in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(FileNotFoundError):  # it has closed that one meanwhile
            links.append(os.readlink("/proc/%d/fd/%s" % (pid, name)))
    return [link for link in links if os.path.isdir(link)]


def ended_in_the_middle(tap, bench):
    """A worker, a shard, and the whole call, as by a terminal's Ctrl-C and by kill."""
    ring, ps = ["--mode=ring"], ["--mode=ps", "--shards=1"]
    for options, count, name, number, status, line in (
            (ring, 3, "worker 1", signal.SIGKILL, 1, "psring bench exchange: worker 1 was ended by signal 9 (Killed)\n"),
            (ps, 4, "shard 0", signal.SIGKILL, 1, "psring bench exchange: shard 0 was ended by signal 9 (Killed)\n"),
            (ps, 4, "all", signal.SIGINT, -signal.SIGINT, ""), (ring, 3, "the parent", signal.SIGTERM, -signal.SIGTERM, "")):
        process = subprocess.Popen([bench, *options, "--workers=3", "--transport=ipc", "--rounds=10000", "-b", "64K"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        members = []
        while len(members) < count and process.poll() is None:
            members = children_of(process.pid)
        sockets = directories_of(process.pid)
        if name == "all":
            os.killpg(process.pid, number)
        else:
            os.kill({"worker 1": members[1], "shard 0": members[0]}.get(name, process.pid), number)
        out, said = process.communicate(timeout=PATIENCE_S)
        name = "%s, %s" % (name, number.name)
        tap.ok(process.returncode == status and said == line, "%s: one line at most, and the status" % name, [str(process.returncode), out, said])
        tap.ok(len(sockets) == 1 and not any(map(os.path.exists, sockets)) and not any(map(is_running, members)), "%s: and nothing is left" % name,
               sockets + [str(members)])


def over_hosts(tap, psring):
    """Two names of this machine. Its launcher starts ranks as on real hosts."""
    hosts = ["-H", "localhost:1,127.0.0.1:1", "--interface=lo"]
    words = [psring, "bench", "exchange", *hosts, "--rounds=2", "--warmup-rounds=1", "--bucket-size=16384", "-b", "64K", "--json"]
    for mode, factor in ((["--mode=ring"], 1), (["--mode=ps", "--shards=1"], 1), (["--mode=ring", "--compress=1bit", "-n2"], 1),
                         (["--mode=ps", "--shards=1", "--compress-weights=int8", "-n2"], 1)):
        done = subprocess.run(words + mode, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        tap.ok(done.returncode == 0 and len(rows) == 1 and rows[0]["wrong"] == 0 and (rows[0]["workers"], rows[0]["hosts"]) == (2, 2),
               "%s over hosts: the results are right" % " ".join(mode), [done.stdout, done.stderr])
        tap.ok(done.returncode == 0 and abs(rows[0]["busbw_factor"] - factor) < 1e-3, "%s: with the factor of the placement" % " ".join(mode),
               [done.stdout])
    # each shard serves both workers, over the link of a host of its own
    with Workspace() as directory:
        ps_hosts = os.path.join(directory, "ps-hosts")
        with open(ps_hosts, "w") as file:
            file.write("127.0.0.2\n")
        done = subprocess.run(words + ["--mode=ps", "--ps-hostfile", ps_hosts], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        tap.ok(done.returncode == 0 and rows[0]["wrong"] == 0 and rows[0]["hosts"] == 3 and rows[0]["busbw_factor"] == 2,
               "a shard on a host of its own carries both workers' bytes", [done.stdout, done.stderr])
    for more, line in ((["--mode=local"], "--mode: only ps and ring exchange anything"),
                       (["--mode=ring", "--ps-hostfile=x"], "--ps-hostfile is for shards, and there are none; give --mode ps, or leave it out"),
                       (["--mode=ring", "--hosts=2"], "--hosts: it emulates hosts on this machine; leave it out, or --hostfile and -H")):
        done = subprocess.run(words + more, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(done.returncode == 2 and done.stdout == "" and done.stderr == "psring bench exchange: %s\n" % line, "%s: refused before a start" % more[-1],
               [done.stdout, done.stderr])


def main(bench, psring):
    tap = Tap()
    for words, line in REFUSED:
        done = subprocess.run([bench, "--bytes=65536", "--rounds=1", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(done.returncode == 2 and done.stdout == "" and done.stderr == "psring bench exchange: %s\n" % line, "%s: refused by name" % " ".join(words),
               [done.stdout, done.stderr])
    sizes_and_peers(tap, bench)
    peers_in_turn(tap, bench)
    interrupted_beside_a_peer(tap, bench)
    ended_in_the_middle(tap, bench)
    over_hosts(tap, psring)
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
        if options["mode"] == "ps":
            shares = [figures.get(key, 0) / 262144 for key in ("sent_bytes", "received_bytes")]
            ideal = [SHARES[options.get(key, "none")] for key in ("compress", "compress-weights")]
            tap.ok(all(want <= share <= want + HEADS for share, want in zip(shares, ideal)), "%s: so many bytes go each way" % name,
                   [done.stdout, str(ideal)])
    tap.end()


main(*sys.argv[1:3])
