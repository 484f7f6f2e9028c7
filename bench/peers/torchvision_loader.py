#!/usr/bin/env python3
"""Images a second of torchvision's DataLoader, from the same files that bench_loader reads, and
with the same augmentation (loader_peer.py). One line of JSON per case:
    pil      the transforms on PIL images, as torchvision's data sets give them: what people use
    tensor   transforms.v2 on uint8 tensors, pictures decoded by torchvision.io: the faster way
each with num_workers 0 and 1; the worker has ended when the CPU time is read.
"""
import warnings

import loader_peer as peer
import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import io, transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

PIL_STEPS = {
    "crop-flip": [transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()],
    "imagenet": [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()],
    "evaluation": [transforms.Resize(256), transforms.CenterCrop(224)],
}
TENSOR_STEPS = {
    "crop-flip": [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()],
    "imagenet": [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()],
    "evaluation": [v2.Resize(256, antialias=True), v2.CenterCrop(224)],
}


class Pictures(Dataset):
    """As torchvision.datasets.CIFAR10: PIL images of [32, 32, 3] arrays."""

    def __init__(self, labels, pixels, transform):
        self.labels, self.transform = labels.tolist(), transform
        self.pixels = numpy.ascontiguousarray(pixels.transpose(0, 2, 3, 1))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pixels[i])), self.labels[i]


class Tensors(Dataset):
    def __init__(self, labels, pixels, transform):
        self.labels, self.transform = labels.tolist(), transform
        self.pixels = torch.from_numpy(pixels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(self.pixels[i]), self.labels[i]


def decode(path):
    return io.decode_image(path, mode=io.ImageReadMode.RGB)


def data_sets(arguments):
    of_cifar = arguments.pipeline == "crop-flip"
    mean, deviation = (peer.CIFAR_MEAN, peer.CIFAR_DEVIATION) if of_cifar else (peer.IMAGENET_MEAN, peer.IMAGENET_DEVIATION)
    pil = transforms.Compose([*PIL_STEPS[arguments.pipeline], transforms.ToTensor(), transforms.Normalize(mean, deviation)])
    tensor = v2.Compose([*TENSOR_STEPS[arguments.pipeline], v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, deviation)])
    if of_cifar:
        labels, pixels = peer.read_batches(arguments.data)
        return {"pil": Pictures(labels, pixels, pil), "tensor": Tensors(labels, pixels, tensor)}
    folder = peer.pictures_of(arguments.data, arguments.pipeline)
    return {"pil": ImageFolder(folder, pil), "tensor": ImageFolder(folder, tensor, loader=decode)}


def batches(dataset, workers, arguments):
    epochs = -(-arguments.images // len(dataset))
    sampler = torch.cat([torch.randperm(len(dataset)) for _ in range(epochs)])[:arguments.images].tolist()
    for batch, _ in DataLoader(dataset, batch_size=arguments.batch_size, sampler=sampler, num_workers=workers):
        yield len(batch)


def main():
    arguments = peer.arguments_of(__doc__)
    warnings.filterwarnings("ignore", message=".*EXIF.*")
    torch.set_num_threads(1)
    for name, dataset in data_sets(arguments).items():
        for workers in (0, 1):
            peer.measure(f"torchvision {name}, num_workers {workers}", batches(dataset, workers, arguments))


if __name__ == "__main__":
    main()
