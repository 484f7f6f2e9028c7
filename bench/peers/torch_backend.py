"""torch.distributed's backend psring beside Gloo, both within one pair of processes and in turn:
all-reduces of 45 MB, and of 4 bytes, awaited at once or by their future, and training steps of
ResNet-18 by DDP with either, and without an exchange. Rank 0 prints one JSON object.

usage: torch_backend.py RANK RANKS MEETING-FILE [--samples N ..]"""
import argparse
import json
import time

import torch
import torch.distributed as dist
import torchvision

import psring.torch  # noqa: F401: makes the backend known


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


def training_steps(groups, given, rank):
    generator = torch.Generator().manual_seed(rank)
    images = torch.randn(given.batch_size, 3, given.image_size, given.image_size, generator=generator)
    labels = torch.randint(0, 10, (given.batch_size,), generator=generator)

    def make(group):
        torch.manual_seed(0)
        model = torchvision.models.resnet18(num_classes=10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        parallel = model if group is None else torch.nn.parallel.DistributedDataParallel(model, process_group=group)

        def run():
            dist.barrier()
            start = time.perf_counter()
            for _ in range(given.steps):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(parallel(images), labels).backward()
                optimizer.step()
            return (time.perf_counter() - start) / given.steps

        return run

    return {name: make(group) for name, group in {**groups, "none": None}.items()}


def in_turn(ways, samples):
    """{name: [seconds of the slowest rank]}; the first two samples warm up."""
    times, order = {name: [] for name in ways}, list(ways)
    for sample in range(-2, samples):
        for name in order:
            seconds = torch.tensor([ways[name]()], dtype=torch.float64)
            dist.all_reduce(seconds, dist.ReduceOp.MAX)
            if sample >= 0:
                times[name].append(seconds.item())
        order.append(order.pop(0))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rank", type=int)
    parser.add_argument("ranks", type=int)
    parser.add_argument("meeting")
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    dist.init_process_group("gloo", init_method="file://" + given.meeting, rank=given.rank, world_size=given.ranks)
    groups = {"gloo": dist.group.WORLD, "psring": dist.new_group(backend="psring")}
    large, small = torch.zeros(45_000_000 // 4), torch.zeros(1)
    seconds = {}
    for name, ways in [("large", all_reduces(groups, large, 1, False)), ("small", all_reduces(groups, small, 100, False)),
                       ("future", all_reduces(groups, small, 100, True)), ("step", training_steps(groups, given, given.rank))]:
        seconds[name] = in_turn(ways, given.samples)
    if given.rank == 0:
        print(json.dumps({"torch": torch.__version__, "seconds": seconds}))
    dist.destroy_process_group()


main()
