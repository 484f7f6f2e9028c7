#!/usr/bin/env python3
"""Gloo through PyTorch: all-reduce of the same bytes between processes on loopback.

Buckets as DistributedDataParallel makes them (25 MiB) are all started asynchronously and then
waited for. Timed from the first rank's start to the last rank's end. Prints one JSON object with
the median over rounds. Needs torch.
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


def worker(rank, args, port, times):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    if args.pin:
        os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", rank=rank, world_size=args.workers)
    floats, bucket = args.bytes // 4, args.bucket_bytes // 4
    sizes = [min(bucket, floats - at) for at in range(0, floats, bucket)]
    tensors = [torch.full((size,), float(rank + 1)) for size in sizes]
    expected = float(sum(range(1, args.workers + 1)))
    for step in range(args.warmup + args.rounds):
        for tensor in tensors:
            tensor.fill_(float(rank + 1))
        dist.barrier()
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
        end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        times.put((step, begin, end))
        for tensor in tensors:
            assert bool((tensor == expected).all())
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=102228128)
    parser.add_argument("--bucket-bytes", type=int, default=25 << 20)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--pin", action="store_true")
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")
    times = context.SimpleQueue()
    ranks = [context.Process(target=worker, args=(rank, args, port, times)) for rank in range(args.workers)]
    for process in ranks:
        process.start()
    begins, ends = {}, {}
    for _ in range((args.warmup + args.rounds) * args.workers):
        step, begin, end = times.get()
        begins[step] = min(begins.get(step, begin), begin)
        ends[step] = max(ends.get(step, end), end)
    for process in ranks:
        process.join()
        assert process.exitcode == 0
    ms = [(ends[step] - begins[step]) / 1e6 for step in range(args.warmup, args.warmup + args.rounds)]
    print(json.dumps({"peer": f"gloo (torch {torch.__version__})", "workers": args.workers, "bytes": args.bytes,
                      "min_ms": round(min(ms), 2), "median_ms": round(statistics.median(ms), 2), "max_ms": round(max(ms), 2)}))


if __name__ == "__main__":
    main()
