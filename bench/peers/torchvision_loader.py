#!/usr/bin/env python3
"""Images a second of torchvision's DataLoader for CIFAR-10 with RandomCrop(32, padding=4),
RandomHorizontalFlip, ToTensor and Normalize, from the same binary files that bench_loader reads.
One line of JSON per case:
    pil      the transforms on PIL images, as torchvision.datasets.CIFAR10 gives them: the recipe
             people use
    tensor   transforms.v2 on uint8 tensors, the faster way
each with num_workers 0 and 1. images_per_s is by wall time, images_per_cpu_s by CPU time of the
process and its workers together.
"""
import argparse
import json
import lzma
import pathlib
import resource
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read_batches(directory):
    """labels[N], pixels[N, 3, 32, 32] of data_batch_1..5.bin, plain or .xz."""
    parts = []
    for i in range(1, 6):
        path = pathlib.Path(directory) / f"data_batch_{i}.bin"
        content = path.read_bytes() if path.exists() else lzma.open(f"{path}.xz").read()
        parts.append(numpy.frombuffer(content, numpy.uint8).reshape(-1, 3073))
    records = numpy.concatenate(parts)
    return records[:, 0].astype(numpy.int64), records[:, 1:].reshape(-1, 3, 32, 32).copy()


class Pictures(Dataset):
    """As torchvision.datasets.CIFAR10: PIL images of [32, 32, 3] arrays."""

    transform = transforms.Compose([
        transforms.RandomCrop(32, padding=4),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, DEVIATION),
    ])

    def __init__(self, labels, pixels):
        self.labels = labels.tolist()
        self.pixels = numpy.ascontiguousarray(pixels.transpose(0, 2, 3, 1))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pixels[i])), self.labels[i]


class Tensors(Dataset):
    transform = v2.Compose([
        v2.RandomCrop(32, padding=4),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, DEVIATION),
    ])

    def __init__(self, labels, pixels):
        self.labels = labels.tolist()
        self.pixels = torch.from_numpy(pixels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(self.pixels[i]), self.labels[i]


def cpu_seconds():
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def measure(name, dataset, workers, batch_size, most_images):
    """One epoch, or its first most_images; workers have ended when the CPU time is read."""
    sampler = torch.randperm(len(dataset))[:most_images].tolist()
    loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler, num_workers=workers)
    began, began_cpu, images = time.perf_counter(), cpu_seconds(), 0
    for batch, _ in loader:
        images += len(batch)
    wall = time.perf_counter() - began
    cpu = cpu_seconds() - began_cpu
    print(json.dumps({
        "loader": f"torchvision {name}, num_workers {workers}",
        "images_per_s": round(images / wall),
        "images_per_cpu_s": round(images / cpu),
        "images": images,
        "wall_s": round(wall, 3),
        "cpu_s": round(cpu, 3),
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of data_batch_1.bin..5.bin, plain or .xz")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--images", type=int, default=50000, help="of an epoch (default all)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    labels, pixels = read_batches(arguments.data)
    for name, dataset in (("pil", Pictures(labels, pixels)), ("tensor", Tensors(labels, pixels))):
        for workers in (0, 1):
            measure(name, dataset, workers, arguments.batch_size, arguments.images)


if __name__ == "__main__":
    main()
