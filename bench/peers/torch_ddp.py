#!/usr/bin/env python3
"""Images a second of PyTorch's DistributedDataParallel with Gloo over loopback: processes of
--threads each train one network on a batch of random images per worker: zero_grad, forward, cross
entropy, backward (whose buckets are reduced while it runs), SGD with momentum and weight decay. One
line of JSON; images_per_s is that of all workers together, by each one's median step after the
warm-up.

--tuned raises glibc's malloc thresholds and sets THP_MEM_ALLOC_ENABLE=1 for the workers.
"""
import argparse
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from torch_train import network

TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_TOP_PAD_": str(64 << 20),
         "THP_MEM_ALLOC_ENABLE": "1"}


def worker(rank, options, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.workers)
    classes = 1000 if options.image_size >= 64 else 10
    model = network(options.model, classes, options.image_size).train()
    images = torch.rand(options.batch_size, 3, options.image_size, options.image_size) * 2 - 1
    if options.layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.arange(options.batch_size) % classes
    # Batch norm's statistics stay local to a worker, as psring's do.
    parallel = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    times = []
    for _ in range(options.warmup + options.steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(parallel(images), labels).backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    results.put(statistics.median(times[options.warmup:]))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64, help="per worker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="per worker")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5, help="steps before the timed ones")
    parser.add_argument("--layout", choices=["channels_last", "contiguous"], default="channels_last")
    parser.add_argument("--tuned", action="store_true")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    if options.tuned:
        os.environ.update(TUNED)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = mp.get_context("spawn")  # fresh processes, whose malloc reads the environment
    results = context.SimpleQueue()
    ranks = [context.Process(target=worker, args=(rank, options, port, results)) for rank in range(options.workers)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
        if process.exitcode != 0:
            raise SystemExit(f"torch_ddp.py: a worker ended with status {process.exitcode}")
    step_s = [results.get() for _ in ranks]
    print(json.dumps({
        "who": "PyTorch DDP", "model": options.model, "image_size": options.image_size, "batch_size": options.batch_size,
        "workers": options.workers, "threads": options.threads, "layout": options.layout, "tuned": options.tuned,
        "torch": torch.__version__, "step_s": statistics.median(step_s),
        "images_per_s": sum(options.batch_size / s for s in step_s)}))


if __name__ == "__main__":
    main()
