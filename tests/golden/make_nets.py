#!/usr/bin/env python3
"""Writes nets.txt: names, shapes and order of every network's parameters and buffers.

The ImageNet ResNets are torchvision's own; the others are written here in PyTorch, after the
papers, and not taken from psring. Needs torch and torchvision: make_nets.py > nets.txt

A network is one line `net NAME CLASSES CHANNELS SIZE SHORTCUT TENSORS ELEMENTS BUFFERS FNV`, FNV
being the 64-bit FNV-1a hash of its lines `parameter NAME SHAPE` and `buffer NAME SHAPE`. Those
lines follow for the networks that a reader would want to compare by eye.
"""
import torch
from torch import nn
from torchvision.models import resnet


class Block(nn.Module):
    """Two 3x3 convolutions (He et al. 2015, section 4.2)."""

    def __init__(self, inputs, outputs, stride, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if shortcut == "b" and (stride != 1 or inputs != outputs):
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class CifarResNet(nn.Module):
    def __init__(self, depth, shortcut, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inputs = 16
        for stage, width in enumerate((16, 32, 64), 1):
            blocks = []
            for block in range((depth - 2) // 6):
                blocks.append(Block(inputs, width, 2 if stage > 1 and block == 0 else 1, shortcut))
                inputs = width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, classes)


class Mlp(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.fc1 = nn.Linear(784, 512)
        self.fc2 = nn.Linear(512, 512)
        self.fc3 = nn.Linear(512, classes)


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, classes)


class PreactivatedBlock(nn.Module):
    """He et al. (2016): batch norm and ReLU come first, and a projection has none of its own."""

    def __init__(self, inputs, width, stride, bottleneck, shortcut):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        shapes = ([(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)] if bottleneck
                  else [(inputs, width, 3, stride), (width, width, 3, 1)])
        for i, (c_in, c_out, kernel, step) in enumerate(shapes, 1):
            setattr(self, f"bn{i}", nn.BatchNorm2d(c_in))
            setattr(self, f"conv{i}", nn.Conv2d(c_in, c_out, kernel, step, kernel // 2, bias=False))
        if (bottleneck or shortcut == "b") and (stride != 1 or inputs != outputs):
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False))


class PreactivatedResNet(nn.Module):
    def __init__(self, depth, shortcut, classes):
        super().__init__()
        bottleneck = depth == 164
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        inputs = 16
        for stage, width in enumerate((16, 32, 64), 1):
            blocks = []
            for block in range((depth - 2) // (9 if bottleneck else 6)):
                blocks.append(PreactivatedBlock(inputs, width, 2 if stage > 1 and block == 0 else 1, bottleneck,
                                                shortcut))
                inputs = 4 * width if bottleneck else width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.bn = nn.BatchNorm2d(inputs)
        self.fc = nn.Linear(inputs, classes)


class ResNet9(nn.Module):
    """Page (2018), with the names of cifar10-fast."""

    def __init__(self, classes):
        super().__init__()

        def layer(name, inputs, outputs):
            setattr(self, name + "_conv", nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False))
            setattr(self, name + "_bn", nn.BatchNorm2d(outputs))

        layer("prep", 3, 64)
        layer("layer1", 64, 128)
        layer("layer1_residual_res1", 128, 128)
        layer("layer1_residual_res2", 128, 128)
        layer("layer2", 128, 256)
        layer("layer3", 256, 512)
        layer("layer3_residual_res1", 512, 512)
        layer("layer3_residual_res2", 512, 512)
        self.linear = nn.Linear(512, classes, bias=False)


class AirbenchGroup(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding="same", bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)


def airbench94(classes):
    """Jordan (2024), with the names of cifar10-airbench."""
    return nn.Sequential(
        nn.Conv2d(3, 24, 2), nn.GELU(), AirbenchGroup(24, 64), AirbenchGroup(64, 256), AirbenchGroup(256, 256),
        nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, classes, bias=False))


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def describe(name, model, classes, channels, size, shortcut, listed):
    parameters = list(model.named_parameters())
    buffers = [(n, b) for n, b in model.named_buffers() if b.dtype == torch.float32]
    lines = "".join(
        f"{kind} {n} {'x'.join(map(str, t.shape))}\n"
        for kind, tensors in (("parameter", parameters), ("buffer", buffers)) for n, t in tensors)
    elements = sum(p.numel() for _, p in parameters)
    print(f"net {name} {classes} {channels} {size} {shortcut} {len(parameters)} {elements} {len(buffers)} "
          f"{fnv1a(lines):016x}")
    if listed:
        print(lines, end="")


describe("mlp", Mlp(10), 10, 1, 28, "a", True)
describe("convnet", ConvNet(10), 10, 1, 28, "a", True)
for depth in (20, 32, 44, 56, 110):
    for shortcut in "ab":
        describe(f"resnet{depth}", CifarResNet(depth, shortcut, 10), 10, 3, 32, shortcut, depth == 20)
for depth in (18, 34, 50, 101, 152):
    describe(f"resnet{depth}", getattr(resnet, f"resnet{depth}")(), 1000, 3, 224, "b", depth in (18, 50))
for depth in (20, 32, 44, 56, 110):
    for shortcut in "ab":
        describe(f"preresnet{depth}", PreactivatedResNet(depth, shortcut, 10), 10, 3, 32, shortcut, False)
describe("preresnet164", PreactivatedResNet(164, "a", 10), 10, 3, 32, "a", False)
describe("resnet9", ResNet9(10), 10, 3, 32, "a", True)
describe("airbench94", airbench94(10), 10, 3, 32, "a", True)
for name in ("wide_resnet50_2", "wide_resnet101_2", "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"):
    describe(name, getattr(resnet, name)(), 1000, 3, 224, "b", False)
