"""What the loaders of peers have in common: the pipelines by name, the files that they read, and
how an epoch is counted. Both print one line of JSON per way of loading."""
import argparse
import json
import lzma
import pathlib
import resource
import time

import numpy

# "crop-flip": CIFAR-10's binary files, 32 pixels, padding 4. "imagenet": a folder of pictures, a
# random resized crop of 224 pixels and flip. "evaluation": the same, side 256, centre of 224.
PIPELINES = ("crop-flip", "imagenet", "evaluation")
CIFAR_MEAN, CIFAR_DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def arguments_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory of data_batch_1.bin..5.bin, plain or .xz; or a folder of pictures")
    parser.add_argument("--pipeline", choices=PIPELINES, default="crop-flip")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--images", type=int, default=50000, help="of an epoch (default all)")
    return parser.parse_args()


def pictures_of(directory, pipeline):
    """The folder of the pictures that this pipeline reads: torchvision's train and val."""
    return pathlib.Path(directory) / ("val" if pipeline == "evaluation" else "train")


def read_batches(directory):
    """labels[N], pixels[N, 3, 32, 32] of data_batch_1..5.bin, plain or .xz."""
    parts = []
    for i in range(1, 6):
        path = pathlib.Path(directory) / f"data_batch_{i}.bin"
        content = path.read_bytes() if path.exists() else lzma.open(f"{path}.xz").read()
        parts.append(numpy.frombuffer(content, numpy.uint8).reshape(-1, 3073))
    records = numpy.concatenate(parts)
    return records[:, 0].astype(numpy.int64), records[:, 1:].reshape(-1, 3, 32, 32).copy()


def cpu_seconds():
    """Of this process and of those that it has waited for."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def measure(name, batches):
    """Takes all of batches, an iterable that gives the number of images of each: images_per_s is by
    wall time, images_per_cpu_s by CPU time of all threads and processes."""
    began, began_cpu, images = time.perf_counter(), cpu_seconds(), 0
    for count in batches:
        images += count
    wall, cpu = time.perf_counter() - began, cpu_seconds() - began_cpu
    print(json.dumps({
        "loader": name,
        "images_per_s": images / wall,
        "images_per_cpu_s": images / cpu,
        "images": images,
    }), flush=True)
