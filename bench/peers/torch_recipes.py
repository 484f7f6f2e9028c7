#!/usr/bin/env python3
"""psring's recipes airbench94-cifar10, resnet20-cifar10-50 and convnet-mnist in PyTorch: the same
network, schedule, augmentation and evaluation, written here after their authors. One line of JSON,
with the test accuracy and loss after each epoch and the seconds of training up to it; the same of
each epoch goes to standard error when it has ended.

What is random is PyTorch's own. bf16 is torch.autocast("cpu", torch.bfloat16).

usage: torch_recipes.py airbench94-cifar10 --data cifar-10-batches-bin --precision bf16 --threads 2
"""
import argparse
import gzip
import json
import math
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from torch_cifar import Normalise, crop_flip, initialise, learning_rate, read
from torch_train import network


class Group(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
        for conv in (self.conv1, self.conv2):
            nn.init.dirac_(conv.weight.data[:conv.in_channels])
        for norm in (self.norm1, self.norm2):
            norm.weight.requires_grad = False

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Scaled(nn.Module):
    def forward(self, x):
        return x / 9


def whitened(images):
    """Weights [24,3,2,2] by the covariance of these images' windows (Jordan 2024, section 3.2)."""
    windows = F.unfold(images, 2).transpose(1, 2).reshape(-1, 12).double()
    values, vectors = torch.linalg.eigh(windows.T @ windows / len(windows))
    rows = (vectors / (values + 5e-4).sqrt()).T.flip(0)
    return torch.cat((rows, -rows)).float().view(24, 3, 2, 2)


def crop_reflected(images, padding):
    count, side = len(images), images.shape[-1]
    padded = F.pad(images.float(), (padding,) * 4, "reflect").to(torch.uint8)
    top, left = torch.randint(0, 2 * padding + 1, (2, count))
    along = torch.arange(side)
    rows, columns = top[:, None] + along, left[:, None] + along
    return padded[torch.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Cifar10:
    def read(self, data):
        """Keeps the training images, and returns those of the test set and their labels."""
        self.images, self.labels = read(data, [f"data_batch_{i}.bin" for i in range(1, 6)])
        self.normalise = Normalise(self.images)
        return read(data, ["test_batch.bin"])


class Airbench94(Cifar10):
    """Recipe airbench94-cifar10."""
    epochs, batch_size, drop_last, smoothing, momentum = 16, 1024, True, 0.2, 0.85

    def read(self, data):
        test = super().read(data)
        self.flips = torch.rand(len(self.images)) < 0.5
        return test

    def network(self):
        first = nn.Conv2d(3, 24, 2)
        first.weight.data[:] = whitened(self.normalise(self.images[:5000]))
        first.bias.data.zero_()
        return nn.Sequential(first, nn.GELU(), Group(24, 64), Group(64, 256), Group(256, 256), nn.MaxPool2d(3), nn.Flatten(),
                             nn.Linear(256, 10, bias=False), Scaled())

    def groups(self, model):
        shifts = [p for n, p in model.named_parameters() if "norm" in n and p.requires_grad]
        others = [p for n, p in model.named_parameters() if "norm" not in n]
        return [{"params": others, "factor": 1, "weight_decay": 0.00133}, {"params": shifts, "factor": 64, "weight_decay": 0.00133 / 64}]

    nesterov = True

    def rate(self, step, steps):
        warmup, total = 4 * steps, self.epochs * steps
        return 0.8 * ((step + 1) / warmup if step < warmup else 1 - (step - warmup) / (total - warmup))

    def epoch(self, number):
        """Its images, in the set's order: mirrored in turn, and cropped."""
        mirrored = self.flips ^ (number % 2 == 1)
        images = torch.where(mirrored[:, None, None, None], self.images.flip(3), self.images)
        return crop_reflected(images, 2)

    def logits(self, model, images):
        padded = F.pad(images, (1,) * 4, "reflect")
        side = images.shape[-1]
        total = 0
        for share, x in ((0.25, images), (0.125, padded[..., :side, :side]), (0.125, padded[..., 2:, 2:])):
            total = total + share * (model(x).float() + model(x.flip(3)).float())
        return total


class Resnet20(Cifar10):
    """Recipe resnet20-cifar10-50."""
    epochs, batch_size, drop_last, smoothing, momentum, nesterov = 50, 128, True, 0.0, 0.9, True

    def network(self):
        model = network("resnet20", 10, 32)
        initialise(model)
        return model

    def groups(self, model):
        return [{"params": list(model.parameters()), "factor": 1, "weight_decay": 5e-4}]

    def rate(self, step, steps):
        return learning_rate(0.2, 2 * steps, step, self.epochs * steps)

    def epoch(self, number):
        return crop_flip(self.images)

    def logits(self, model, images):
        return model(images).float()


class ConvNet(nn.Module):
    """pytorch/examples, mnist, 2017."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5)
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(F.dropout2d(self.conv2(x), 0.5, self.training), 2))
        return self.fc2(F.dropout(F.relu(self.fc1(x.flatten(1))), 0.5, self.training))


def read_idx(data, name):
    plain, packed = data / name, data / (name + ".gz")
    content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    start = 4 + 4 * content[3]
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8)


class Mnist:
    """Recipe convnet-mnist."""
    epochs, batch_size, drop_last, smoothing, momentum, nesterov = 10, 64, False, 0.0, 0.9, False

    def read(self, data):
        self.images = read_idx(data, "train-images-idx3-ubyte").view(-1, 1, 28, 28)
        self.labels = read_idx(data, "train-labels-idx1-ubyte").long()
        pixels = self.images.double() / 255
        mean, deviation = pixels.mean().float(), pixels.std(correction=0).float()
        self.normalise = lambda images: (images.float() / 255 - mean) / deviation
        return read_idx(data, "t10k-images-idx3-ubyte").view(-1, 1, 28, 28), read_idx(data, "t10k-labels-idx1-ubyte").long()

    def network(self):
        return ConvNet()

    def groups(self, model):
        return [{"params": list(model.parameters()), "factor": 1, "weight_decay": 0}]

    def rate(self, step, steps):
        return learning_rate(0.02, 0, step, self.epochs * steps)

    def epoch(self, number):
        return self.images

    def logits(self, model, images):
        return model(images).float()


RECIPES = {"airbench94-cifar10": Airbench94, "resnet20-cifar10-50": Resnet20, "convnet-mnist": Mnist}


@torch.no_grad()
def evaluate(recipe, model, images, labels, autocast):
    model.eval()
    right, loss = 0, 0.0
    for x, y in zip(images.split(500), labels.split(500)):
        with autocast():
            logits = recipe.logits(model, recipe.normalise(x))
        right += int((logits.argmax(1) == y).sum())
        loss += F.cross_entropy(logits, y, label_smoothing=recipe.smoothing, reduction="sum").item()
    model.train()
    return right / len(labels), loss / len(labels)


def train(recipe, model, test, autocast):
    groups = recipe.groups(model)
    optimizer = torch.optim.SGD(groups, lr=1, momentum=recipe.momentum, nesterov=recipe.nesterov)
    count = len(recipe.images)
    steps = count // recipe.batch_size if recipe.drop_last else math.ceil(count / recipe.batch_size)
    seconds, lines = 0.0, []
    for epoch in range(recipe.epochs):
        began = time.perf_counter()
        order, images = torch.randperm(count), recipe.epoch(epoch)
        for step in range(steps):
            picked = order[step * recipe.batch_size:(step + 1) * recipe.batch_size]
            x = recipe.normalise(images[picked]).contiguous(memory_format=torch.channels_last)
            for group in optimizer.param_groups:
                group["lr"] = group["factor"] * recipe.rate(epoch * steps + step, steps)
            optimizer.zero_grad()
            with autocast():
                logits = model(x).float()
            F.cross_entropy(logits, recipe.labels[picked], label_smoothing=recipe.smoothing).backward()
            optimizer.step()
        seconds += time.perf_counter() - began
        accuracy, loss = evaluate(recipe, model, *test, autocast)
        lines.append({"epoch": epoch + 1, "test_accuracy": accuracy, "test_loss": loss, "seconds": round(seconds, 1)})
        print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=list(RECIPES))
    parser.add_argument("--data", type=pathlib.Path, required=True, help="directory of CIFAR-10's binary or MNIST's files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    recipe = RECIPES[options.recipe]()
    recipe.epochs = options.epochs or recipe.epochs
    test = recipe.read(options.data)
    model = recipe.network().to(memory_format=torch.channels_last)

    def autocast():
        return torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16")

    print(json.dumps({"recipe": options.recipe, "evaluations": train(recipe, model, test, autocast), "seed": options.seed,
                      "precision": options.precision, "threads": options.threads, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
