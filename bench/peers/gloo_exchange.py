#!/usr/bin/env python3
"""Gloo through PyTorch: all-reduce of the same bytes between processes.

Buckets as DistributedDataParallel makes them (25 MiB) are all started asynchronously and then
waited for. Without --rank it starts all ranks on this machine, times each round from the first
rank's start to the last rank's end, and prints one JSON object with the median over rounds. With
--rank it is that rank alone, over the network, and prints its own time of each round. Needs torch.
"""
import argparse
import datetime
import json
import multiprocessing.connection
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PATIENCE = datetime.timedelta(seconds=120)  # for the others to come, and for a round


def join(rank, args):
    host, _, port = args.master.rpartition(":")
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, GLOO_SOCKET_IFNAME=args.interface)
    torch.set_num_threads(1)
    if args.pin:
        os.sched_setaffinity(0, {rank % os.cpu_count()})
    dist.init_process_group("gloo", rank=rank, world_size=args.workers, timeout=PATIENCE)


def rounds_of(rank, args):
    """When each round began and ended here, in ns of CLOCK_MONOTONIC."""
    floats, bucket = args.bytes // 4, args.bucket_bytes // 4
    sizes = [min(bucket, floats - at) for at in range(0, floats, bucket)]
    tensors = [torch.full((size,), float(rank + 1)) for size in sizes]
    expected = float(sum(range(1, args.workers + 1)))
    times = []
    for _ in range(args.warmup + args.rounds):
        for tensor in tensors:
            tensor.fill_(float(rank + 1))
        dist.barrier()
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
        times.append((begin, time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
        for tensor in tensors:
            assert bool((tensor == expected).all()), "a sum is wrong"
    return torch.tensor(times[args.warmup:])


def worker(rank, args):
    """On one machine: its processes have one clock."""
    join(rank, args)
    times = rounds_of(rank, args)
    begins, ends = times[:, 0].clone(), times[:, 1].clone()
    dist.all_reduce(begins, dist.ReduceOp.MIN)
    dist.all_reduce(ends, dist.ReduceOp.MAX)
    ms = ((ends - begins).double() / 1e6).tolist()
    if rank == 0:
        print(json.dumps({"peer": f"gloo (torch {torch.__version__})", "workers": args.workers, "bytes": args.bytes,
                          "min_ms": round(min(ms), 3), "median_ms": round(statistics.median(ms), 3), "max_ms": round(max(ms), 3)}),
              flush=True)
    dist.barrier()
    dist.destroy_process_group()


def one_rank(args):
    join(args.rank, args)
    times = rounds_of(args.rank, args)
    dist.barrier()
    dist.destroy_process_group()
    print(json.dumps({"times_ms": [(end - begin) / 1e6 for begin, end in times.tolist()]}))


def all_ranks(args):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        args.master = "127.0.0.1:%d" % probe.getsockname()[1]
    context = mp.get_context("spawn")
    ranks = [context.Process(target=worker, args=(rank, args), daemon=True) for rank in range(args.workers)]
    for process in ranks:
        process.start()
    waiting = {process.sentinel: rank for rank, process in enumerate(ranks)}
    while waiting:
        for sentinel in multiprocessing.connection.wait(list(waiting)):
            rank = waiting.pop(sentinel)
            ranks[rank].join()
            if ranks[rank].exitcode != 0:
                for process in ranks:
                    process.kill()
                sys.exit("gloo_exchange.py: rank %d ended with status %d" % (rank, ranks[rank].exitcode))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=102228128)
    parser.add_argument("--bucket-bytes", type=int, default=25 << 20)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--rank", type=int, help="be this rank alone")
    parser.add_argument("--master", metavar="ADDRESS:PORT", help="with --rank: where rank 0 listens")
    parser.add_argument("--interface", default="lo", help="with --rank: the network interface")
    args = parser.parse_args()
    if args.rank is None:
        all_ranks(args)
    else:
        one_rank(args)


if __name__ == "__main__":
    main()
