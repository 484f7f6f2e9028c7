#!/usr/bin/env python3
"""MXNet's KVStore dist_sync (ps-lite): push and pull of the same bytes between processes on
loopback.

Starts one scheduler, the servers and the workers as processes of this script. Keys are ResNet-50's
tensors by default (--sizes FILE: one element count a line, else one key of --bytes). Timed from the
first worker's start to the last worker's end. Prints one JSON object. Needs mxnet 1.9.1 and numpy
below 1.24.
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
    if args.sizes:
        with open(args.sizes) as file:
            return [int(line) for line in file if line.strip()]
    return [args.bytes // 4]


def worker(args):
    import mxnet as mx

    store = mx.kv.create("dist_sync")
    sizes = sizes_of(args)
    keys = list(range(len(sizes)))
    ones = [mx.nd.ones((size,)) for size in sizes]
    out = [mx.nd.zeros((size,)) for size in sizes]
    store.init(keys, ones)
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
        print(f"TIME {step} {begin} {end}", flush=True)
        assert all(float(value[0].asscalar()) == store.num_workers for value in out)
    store._barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=102228128)
    parser.add_argument("--sizes")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warmup", type=int, default=3)
    args = parser.parse_args()
    if os.environ.get("DMLC_ROLE") == "worker":
        return worker(args)
    if os.environ.get("DMLC_ROLE"):
        import mxnet  # noqa: F401  the import is the server or the scheduler, and ends with the run

        return None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = dict(os.environ, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(port), DMLC_NUM_WORKER=str(args.workers),
                  DMLC_NUM_SERVER=str(args.shards), DMLC_INTERFACE="lo", DMLC_NODE_HOST="127.0.0.1", OMP_NUM_THREADS="1")
    roles = ["scheduler"] + ["server"] * args.shards + ["worker"] * args.workers
    processes = [subprocess.Popen([sys.executable, *sys.argv], env=dict(shared, DMLC_ROLE=role), text=True,
                                  stdout=subprocess.PIPE if role == "worker" else subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for role in roles]
    begins, ends = {}, {}
    try:
        for process, role in zip(processes, roles):
            if role != "worker":
                continue
            text, _ = process.communicate(timeout=300)
            for line in text.splitlines():
                if line.startswith("TIME "):
                    step, begin, end = map(int, line.split()[1:])
                    begins[step] = min(begins.get(step, begin), begin)
                    ends[step] = max(ends.get(step, end), end)
            if process.returncode != 0:
                sys.exit(f"mxnet_exchange: a worker ended with status {process.returncode}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    ms = [(ends[step] - begins[step]) / 1e6 for step in range(args.warmup, args.warmup + args.rounds)]
    print(json.dumps({"peer": "mxnet 1.9.1 kvstore dist_sync", "workers": args.workers, "shards": args.shards, "bytes": args.bytes,
                      "min_ms": round(min(ms), 2), "median_ms": round(statistics.median(ms), 2), "max_ms": round(max(ms), 2)}))
    return None


if __name__ == "__main__":
    main()
