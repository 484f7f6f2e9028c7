#!/usr/bin/env python3
"""Images a second of PyTorch training one network on one batch: zero_grad, forward, cross entropy,
backward, SGD with momentum and weight decay. One line of JSON.

Threads, batch, size and precision as bench_compute's. --layout channels_last|contiguous, --compile
for torch.compile. fp32 is PyTorch's default (no TF32 or bf16 inside); bf16 is torch.autocast("cpu",
torch.bfloat16). How glibc's malloc is set (MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_) and
THP_MEM_ALLOC_ENABLE come from the environment: bench/compare_compute sets them for the tuned runs.
"""
import argparse
import json
import resource
import statistics
import time

import torch
import torchvision


class Block(torch.nn.Module):
    """He et al. 2015, section 4.2, with option A or B shortcuts, as model/networks/resnet.c builds
    resnet20..110."""

    def __init__(self, inside, width, stride):
        super().__init__()
        nn = torch.nn
        self.conv1 = nn.Conv2d(inside, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.pad = (width - inside) // 2
        self.stride = stride

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = torch.nn.functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return self.relu(y + x)


def resnet_cifar(depth, classes):
    nn = torch.nn
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    inside = 16
    for stage in range(3):
        for block in range((depth - 2) // 6):
            width = 16 << stage
            layers.append(Block(inside, width, 2 if stage and not block else 1))
            inside = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


class Mlp(torch.nn.Sequential):
    """As model/networks/small_networks.c builds mlp."""

    def __init__(self, pixels, classes):
        nn = torch.nn
        super().__init__(nn.Flatten(), nn.Linear(pixels, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes))


class ConvNet(torch.nn.Module):
    """As model/networks/small_networks.c builds convnet."""

    def __init__(self, size, classes):
        super().__init__()
        nn = torch.nn
        left = ((size - 4) // 2 - 4) // 2
        self.features = nn.Sequential(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.Dropout2d(),
                                      nn.MaxPool2d(2), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(20 * left * left, 50), nn.ReLU(), nn.Dropout(), nn.Linear(50, classes))

    def forward(self, x):
        return self.head(self.features(x))


def network(name, classes, size):
    if name == "mlp":
        return Mlp(size * size, classes)
    if name == "convnet":
        return ConvNet(size, classes)
    if name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"):
        return getattr(torchvision.models, name)(num_classes=classes)
    if name.startswith("resnet"):
        return resnet_cifar(int(name[len("resnet"):]), classes)
    raise SystemExit(f"torch_train.py: no network {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layout", choices=["channels_last", "contiguous"], default="channels_last")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--name", default="torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    classes = 1000 if arguments.image_size >= 64 and arguments.model.startswith("resnet") else 10
    channels = 1 if arguments.model in ("mlp", "convnet") else 3
    model = network(arguments.model, classes, arguments.image_size).train()
    images = torch.rand(arguments.batch_size, channels, arguments.image_size, arguments.image_size) * 2 - 1
    if arguments.layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    labels = torch.arange(arguments.batch_size) % classes
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    run = torch.compile(model) if arguments.compile else model

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    times, cpu_times = [], []
    for _ in range(arguments.steps):
        began, began_cpu = time.perf_counter(), time.process_time()
        step()
        times.append(time.perf_counter() - began)
        cpu_times.append(time.process_time() - began_cpu)
    print(json.dumps({
        "who": arguments.name, "model": arguments.model, "image_size": arguments.image_size,
        "batch_size": arguments.batch_size, "precision": arguments.precision, "threads": arguments.threads,
        "layout": arguments.layout, "compile": arguments.compile, "torch": torch.__version__,
        "images_per_s": arguments.batch_size / statistics.median(times),
        "best_images_per_s": arguments.batch_size / min(times),
        "images_per_cpu_s": arguments.batch_size / statistics.median(cpu_times),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))


if __name__ == "__main__":
    main()
