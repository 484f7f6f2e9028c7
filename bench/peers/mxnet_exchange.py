#!/usr/bin/env python3
"""MXNet's KVStore dist_sync (ps-lite): push and pull of the same bytes between processes.

Keys have the element counts of --sizes N,N,.., or there is one key of --bytes. Without --rank it
starts one scheduler, the servers and the workers on this machine, times each round from the first
worker's start to the last worker's end, and prints one JSON object. With --rank it is that process
alone (workers first, then servers; the scheduler stands beside worker 0), over the network, and a
worker prints its own time of each round. Needs mxnet 1.9.1 and numpy below 1.24.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time


def sizes_of(args):
    return [int(size) for size in args.sizes.split(",")] if args.sizes else [args.bytes // 4]


def worker(args):
    import mxnet as mx

    store = mx.kv.create("dist_sync")
    sizes = sizes_of(args)
    keys = list(range(len(sizes)))
    ones = [mx.nd.ones((size,)) for size in sizes]
    out = [mx.nd.zeros((size,)) for size in sizes]
    store.init(keys, ones)
    times = []
    for step in range(args.warmup + args.rounds):
        for value in ones:
            value[:] = 1
        mx.nd.waitall()
        store._barrier()
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for key in keys:
            store.push(key, ones[key], priority=-key)
            store.pull(key, out=out[key], priority=-key)
        mx.nd.waitall()
        end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        times.append((begin, end))
        if args.rank is None:
            print(f"TIME {step} {begin} {end}", flush=True)
        assert all(float(value[0].asscalar()) == store.num_workers for value in out), "a sum is wrong"
    store._barrier()
    if args.rank is not None:
        print(json.dumps({"times_ms": [(end - begin) / 1e6 for begin, end in times[args.warmup:]]}), flush=True)


def serve():
    import mxnet  # noqa: F401  the import is the server or the scheduler, and ends with the run


def environment(args, role):
    host, _, port = args.master.rpartition(":")
    return dict(os.environ, DMLC_PS_ROOT_URI=host, DMLC_PS_ROOT_PORT=port, DMLC_NUM_WORKER=str(args.workers),
                DMLC_NUM_SERVER=str(args.shards), DMLC_INTERFACE=args.interface, DMLC_ROLE=role, OMP_NUM_THREADS="1",
                **({"DMLC_NODE_HOST": host} if args.rank is None or role == "scheduler" else {}))


def start(args, role):
    return subprocess.Popen([sys.executable, *sys.argv], env=environment(args, role), text=True,
                            stdout=subprocess.PIPE if role == "worker" else subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def one_rank(args):
    processes = [start(args, "worker" if args.rank < args.workers else "server")]
    if args.rank == 0:
        processes.append(start(args, "scheduler"))
    try:
        text, _ = processes[0].communicate(timeout=900)
    finally:
        end(processes[:1])
        if processes[0].returncode == 0 and args.rank == 0:
            processes[1].wait(timeout=60)  # it ends when all have
        end(processes)
    if processes[0].returncode != 0:
        sys.exit("mxnet_exchange.py: process %d ended with status %d" % (args.rank, processes[0].returncode))
    lines = [line for line in (text or "").splitlines() if line.startswith("{")]
    if lines:
        print(lines[-1])


def all_ranks(args):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        args.master = "127.0.0.1:%d" % probe.getsockname()[1]
    roles = ["scheduler"] + ["server"] * args.shards + ["worker"] * args.workers
    processes = [start(args, role) for role in roles]
    begins, ends = {}, {}
    try:
        for process, role in zip(processes, roles):
            if role != "worker":
                continue
            text, _ = process.communicate(timeout=300)
            for line in text.splitlines():
                if line.startswith("TIME "):
                    step, begin, ended = map(int, line.split()[1:])
                    begins[step] = min(begins.get(step, begin), begin)
                    ends[step] = max(ends.get(step, ended), ended)
            if process.returncode != 0:
                sys.exit("mxnet_exchange.py: a worker ended with status %d" % process.returncode)
    finally:
        end(processes)
    ms = [(ends[step] - begins[step]) / 1e6 for step in range(args.warmup, args.warmup + args.rounds)]
    print(json.dumps({"peer": "mxnet 1.9.1 kvstore dist_sync", "workers": args.workers, "shards": args.shards, "bytes": args.bytes,
                      "min_ms": round(min(ms), 2), "median_ms": round(statistics.median(ms), 2), "max_ms": round(max(ms), 2)}))


def check_import():
    """Says in one line what is missing, before anything is started."""
    done = subprocess.run([sys.executable, "-c", "import mxnet"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit("mxnet_exchange.py: %s" % (done.stderr.strip().splitlines() or ["import mxnet fails"])[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=102228128)
    parser.add_argument("--sizes", metavar="N,N,..")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--rank", type=int, help="be this process alone")
    parser.add_argument("--master", metavar="ADDRESS:PORT", help="with --rank: where the scheduler listens")
    parser.add_argument("--interface", default="lo", help="with --rank: the network interface")
    args = parser.parse_args()
    role = os.environ.get("DMLC_ROLE")
    if role == "worker":
        worker(args)
    elif role:
        serve()
    else:
        check_import()
        (all_ranks if args.rank is None else one_rank)(args)


if __name__ == "__main__":
    main()
