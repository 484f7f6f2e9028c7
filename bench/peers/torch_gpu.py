#!/usr/bin/env python3
"""Images a second of PyTorch training one network on one batch on a GPU: zero_grad, forward, cross
entropy, backward, SGD with momentum and weight decay. One line of JSON. It needs torch alone.

channels_last, bf16 by torch.autocast, cuDNN's benchmark. The images lie on the GPU. --way eager;
graphs: the whole step is one CUDA graph; compile: torch.compile of the network. --probe tells which
torch there is, and whether it finds a device. --device cpu is for trying this script out.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn


class Block(nn.Module):
    """torchvision's BasicBlock (two 3x3) or Bottleneck (1x1, 3x3, 1x1)."""

    def __init__(self, inside, width, stride, deep):
        super().__init__()
        outside = 4 * width if deep else width
        sides = [(inside, width, 1, 1), (width, width, 3, stride), (width, outside, 1, 1)] if deep else [
            (inside, width, 3, stride), (width, width, 3, 1)]
        layers = []
        for a, b, kernel, step in sides:
            layers += [nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        self.way = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity() if stride == 1 and inside == outside else nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.way(x) + self.shortcut(x))


STAGES = {"resnet18": ([2, 2, 2, 2], False), "resnet34": ([3, 4, 6, 3], False), "resnet50": ([3, 4, 6, 3], True),
          "resnet101": ([3, 4, 23, 3], True)}


def network(name, classes, size):
    """torchvision's; and for small images the MLP of model/networks/small_networks.c."""
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(size * size, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes))
    counts, deep = STAGES[name]
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, count in enumerate(counts):
        for block in range(count):
            layers.append(Block(inside, 64 << stage, 2 if stage and not block else 1, deep))
            inside = (64 << stage) * (4 if deep else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def step_of(arguments):
    """A function that takes one step."""
    device = torch.device(arguments.device)
    classes = 1000 if arguments.image_size >= 64 else 10
    model = network(arguments.model, classes, arguments.image_size).to(device, memory_format=torch.channels_last).train()
    channels = 1 if arguments.model == "mlp" else 3
    images = (torch.rand(arguments.batch_size, channels, arguments.image_size, arguments.image_size) * 2 - 1).to(
        device, memory_format=torch.channels_last)
    labels = (torch.arange(arguments.batch_size) % classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    run = torch.compile(model) if arguments.way == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(run(images), labels)
        loss.backward()
        optimizer.step()

    if arguments.way != "graphs":
        return step
    beside = torch.cuda.Stream()  # torch.cuda.CUDAGraph: warm up on another stream
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def probe():
    found = {"torch": torch.__version__, "cuda": torch.cuda.is_available(), "device": "cpu"}
    if found["cuda"]:
        found["device"] = torch.cuda.get_device_name(0)
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", choices=["mlp", *STAGES])
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--skip", type=int, default=10, help="steps before the timed ones")
    parser.add_argument("--way", choices=["eager", "graphs", "compile"], default="eager")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--probe", action="store_true")
    arguments = parser.parse_args()
    if arguments.probe:
        return probe()
    if arguments.device == "cpu" and arguments.way == "graphs":
        parser.error("--way graphs needs a GPU")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    step = step_of(arguments)
    for _ in range(arguments.skip):
        step()
    times, block = [], max(1, arguments.steps // 5)  # the host may be ahead within a block
    for _ in range(0, arguments.steps, block):
        wait()
        began = time.perf_counter()
        for _ in range(block):
            step()
        wait()
        times.append((time.perf_counter() - began) / block)
    step_s = statistics.median(times)
    print(json.dumps({"who": "PyTorch " + arguments.way, "torch": torch.__version__, "model": arguments.model, "image_size": arguments.image_size,
                      "batch_size": arguments.batch_size, "step_s": step_s, "images_per_s": arguments.batch_size / step_s,
                      "peak_mib": torch.cuda.max_memory_allocated() / 2 ** 20 if arguments.device == "cuda" else None}))


if __name__ == "__main__":
    main()
