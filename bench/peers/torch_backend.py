"""torch.distributed's backend psring beside Gloo, both within one set of processes and in turn:
all-reduces of 45 MB, and of 4 bytes, awaited at once or by their future. Rank 0 prints one JSON
object.

usage, under psring run: torch_backend.py MEETING-FILE [--samples N ..]"""
import argparse
import json
import time

import torch
import torch.distributed as dist

import psring.torch as psring


def all_reduces(groups, values, repeats, by_future):
    """{name: function that returns the seconds of a call, the mean of repeats}"""
    def run(group):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(repeats):
            if by_future:
                dist.all_reduce(values, group=group, async_op=True).get_future().wait()
            else:
                dist.all_reduce(values, group=group)
        return (time.perf_counter() - start) / repeats

    return {name: lambda group=group: run(group) for name, group in groups.items()}


def in_turn(ways, samples):
    """{name: [seconds of the slowest rank]}; the first two samples warm up."""
    times, order = {name: [] for name in ways}, list(ways)
    for sample in range(-2, samples):
        for name in order:
            seconds = psring.allreduce(ways[name](), "maximum")
            if sample >= 0:
                times[name].append(seconds)
        order.append(order.pop(0))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("meeting")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    psring.init(deadline=120)
    dist.init_process_group("gloo", init_method="file://" + given.meeting, rank=psring.rank(), world_size=psring.size())
    groups = {"gloo": dist.group.WORLD, "psring": dist.new_group(backend="psring")}
    large, small = torch.zeros(45_000_000 // 4), torch.zeros(1)
    seconds = {}
    for name, ways in [("large", all_reduces(groups, large, 1, False)), ("small", all_reduces(groups, small, 100, False)),
                       ("future", all_reduces(groups, small, 100, True))]:
        seconds[name] = in_turn(ways, given.samples)
    if psring.rank() == 0:
        print(json.dumps({"torch": torch.__version__, "seconds": seconds}))
    dist.destroy_process_group()


main()
