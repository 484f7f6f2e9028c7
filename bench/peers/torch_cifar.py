#!/usr/bin/env python3
"""ResNet-20 to 110 on CIFAR-10 in PyTorch, by the recipe of tests/slow/accuracy_cifar.py. One line
of JSON, with the test accuracy after the last epoch.

What psring does, PyTorch's way: He normal initial weights (fan in) and a zero bias, batches of a
new permutation each epoch with the short last one kept, a crop from 4 zero pixels around and a flip
in one of two, normalisation by the training set's own mean and deviation, SGD with momentum and
weight decay on every parameter, and a cosine to zero after a linear warm-up
(model/optimizers/schedule.c has the formulas). Augmentation works on the whole epoch's tensor at
once.
"""
import argparse
import json
import lzma
import math
import pathlib
import time

import torch
from torch.nn import functional as F

from torch_train import network

RECORD = 1 + 3 * 32 * 32  # a byte of label, then planes of red, green, blue


def read(directory, names):
    """Of CIFAR-10's binary files, plain or .xz: images uint8[N,3,32,32], labels int64[N]."""
    parts = []
    for name in names:
        plain, packed = directory / name, directory / (name + ".xz")
        parts.append(plain.read_bytes() if plain.exists() else lzma.decompress(packed.read_bytes()))
    records = torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).view(-1, RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def crop_flip(images):
    """uint8[N,3,32,32] to the same: each image its own crop and flip."""
    count, padding, size = len(images), 4, 32
    padded = F.pad(images, (padding,) * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2, count))
    along = torch.arange(size)
    rows, columns = top[:, None] + along, left[:, None] + along
    columns = torch.where((torch.rand(count) < 0.5)[:, None], columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def initialise(model):
    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)


def learning_rate(lr, warmup, step, total):
    if step < warmup:
        return lr * (step + 1) / warmup
    return lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


class Normalise:
    def __init__(self, images):
        pixels = images.transpose(0, 1).reshape(3, -1).double() / 255
        self.mean = pixels.mean(1).float().view(3, 1, 1)
        self.deviation = pixels.std(1, correction=0).float().view(3, 1, 1)

    def __call__(self, images):
        images = (images.float() / 255 - self.mean) / self.deviation
        return images.contiguous(memory_format=torch.channels_last)


def train(model, normalise, images, labels, options):
    """The mean loss of each epoch's samples."""
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum,
                                weight_decay=options.weight_decay)
    steps = math.ceil(len(images) / options.batch_size)
    total, step, means = options.epochs * steps, 0, []
    model.train()
    for _ in range(options.epochs):
        order = torch.randperm(len(images))
        epoch_images, epoch_labels = crop_flip(images)[order], labels[order]
        loss_sum = 0.0
        for x, y in zip(epoch_images.split(options.batch_size), epoch_labels.split(options.batch_size)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(options.lr, options.warmup, step, total)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(normalise(x)), y)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(x)
            step += 1
        means.append(loss_sum / len(images))
    return means


@torch.no_grad()
def accuracy(model, normalise, images, labels):
    model.eval()
    right = sum(int((model(normalise(x)).argmax(1) == y).sum()) for x, y in zip(images.split(500), labels.split(500)))
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of CIFAR-10's binary files")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--warmup", type=int, default=0, help="steps")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    images, labels = read(options.data, [f"data_batch_{i}.bin" for i in range(1, 6)])
    normalise = Normalise(images)
    model = network(options.model, 10, 32)
    initialise(model)
    model = model.to(memory_format=torch.channels_last)
    began = time.perf_counter()
    losses = train(model, normalise, images, labels, options)
    seconds = time.perf_counter() - began
    print(json.dumps({"accuracy": accuracy(model, normalise, *read(options.data, ["test_batch.bin"])), "losses": losses,
                      "seconds": round(seconds, 1), "seed": options.seed, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
