#!/usr/bin/env python3
"""Gloo through PyTorch: all-reduces of float32 between processes on loopback, timed as
psring-bench-comm does.

Each call is behind a barrier; its time is that of its slowest rank. Prints one JSON object with the
median over calls for each size. Needs torch.
"""
import argparse
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def times_of(size_bytes, iterations, warmup, rank, ranks):
    values = torch.empty(max(size_bytes // 4, 1))
    seconds = []
    for call in range(warmup + iterations):
        values.fill_(float(rank + 1))
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        seconds.append(time.perf_counter() - begin)
        assert bool((values == ranks * (ranks + 1) / 2).all())
    slowest = torch.tensor(seconds[warmup:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist()


def worker(rank, args, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    for size_bytes in args.sizes:
        seconds = times_of(size_bytes, args.iterations, args.warmup, rank, args.ranks)
        if rank == 0:
            results.put((size_bytes, statistics.median(seconds) * 1e6, min(seconds) * 1e6))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("sizes", type=int, nargs="+", metavar="BYTES")
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    ranks = [context.Process(target=worker, args=(rank, args, port, results)) for rank in range(args.ranks)]
    for process in ranks:
        process.start()
    rows = [results.get() for _ in args.sizes]
    for process in ranks:
        process.join()
        assert process.exitcode == 0
    print(json.dumps({"peer": f"gloo (torch {torch.__version__})", "ranks": args.ranks,
                      "rows": [{"size_bytes": size, "time_us": median, "min_us": least} for size, median, least in rows]}))


if __name__ == "__main__":
    main()
