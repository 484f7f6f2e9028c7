"""Steps of a ResNet of torchvision's by two or more ranks, in several ways that take turns within
one set of processes: DDP with Gloo, with psring's hook and with its backend, psring's optimizer by
a ring and by servers, and without any exchange. Rank 0 prints one JSON object.

usage, under psring run --shards S: torch_step.py MEETING-FILE [--model NAME ..]"""
import argparse
import json
import time

import torch
import torch.distributed as dist
import torchvision

import psring.torch as psring


class Way:
    """A model of its own, and its step."""

    def __init__(self, name, given):
        torch.manual_seed(0)
        self.name, self.model = name, torchvision.models.get_model(given.model, num_classes=10)
        if given.layout == "channels_last":
            self.model = self.model.to(memory_format=torch.channels_last)
        self.parallel, self.optimizer = self.model, torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        if name in ("gloo", "hook", "backend"):
            group = dist.new_group(backend="psring") if name == "backend" else None
            self.parallel = torch.nn.parallel.DistributedDataParallel(self.model, process_group=group)
            if name == "hook":
                self.parallel.register_comm_hook(None, psring.ddp_hook)
        elif name != "none":
            self.optimizer = psring.DistributedOptimizer(self.optimizer, name)

    def block(self, steps, images, labels):
        """Seconds that a step takes, of so many; all ranks begin together, and the last weights
        have come at the end."""
        psring.barrier()
        start = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.parallel(images), labels).backward()
            self.optimizer.step()
        if self.name in ("ring", "ps"):
            self.optimizer.synchronize()
        return (time.perf_counter() - start) / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("meeting")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--layout", default="contiguous")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    psring.init(deadline=120)
    dist.init_process_group("gloo", init_method="file://" + given.meeting, rank=psring.rank(), world_size=psring.size())
    ways = [Way(name, given) for name in ("gloo", "hook", "backend", "ring", "ps", "none")]
    images = torch.randn(given.batch_size, 3, given.image_size, given.image_size, generator=torch.Generator().manual_seed(psring.rank()))
    if given.layout == "channels_last":
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (given.batch_size,))
    times = {way.name: [] for way in ways}
    for sample in range(-2, given.samples):  # the first two warm up
        for way in ways:
            seconds = psring.allreduce(way.block(given.steps, images, labels), "maximum")
            if sample >= 0:
                times[way.name].append(seconds)
        ways.append(ways.pop(0))
    if psring.rank() == 0:
        print(json.dumps({"torch": torch.__version__, "seconds": times}))
    dist.destroy_process_group()


main()
