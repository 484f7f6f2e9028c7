"""psring.torch beside torch alone: the bits of DDP with Gloo, and what else an optimizer does.
Needs a Python with torch and cffi: PSR_PYTHON, or python3; skipped without. TAP.

usage: test_torch.py SHARD PACKAGES"""

import os
import sys

from documented import documented
from forks import Tap, Workspace, play, started, told

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch_work import OPTIMIZERS, Batches, alone, digest, loss, mlp  # noqa: E402
from torch_work import same_everywhere, tell, weights  # noqa: E402

import psring.torch as psring  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(c, c, 3, padding=1, bias=False), torch.nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = torch.nn.BatchNorm2d(c), torch.nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


def small_resnet():
    """ResNet-18's parts, small."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), Block(16), Block(16), torch.nn.Conv2d(16, 32, 3, stride=2), Block(32),
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))


WAYS = {"hook": "DDP with the hook", "backend": "DDP with the backend", "ring": "an optimizer with mode ring"}


def train(way, path, network, pixels, steps=30):
    """A hash of the weights after so many steps of DDP, with Gloo, the hook or the backend, or of
    an optimizer of all ranks."""
    model, batches = network(), Batches(3, pixels, pixels)

    def sgd():
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)

    parallel = model
    if way == "ring":
        optimizer = psring.DistributedOptimizer(sgd())
    else:
        dist.init_process_group("psring" if way == "backend" else "gloo", init_method="file://" + path, rank=psring.rank(), world_size=psring.size())
        parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.05 if network is small_resnet else 25)
        if way == "hook":
            parallel.register_comm_hook(None, psring.ddp_hook)
        optimizer = sgd()
    for _ in range(steps):
        optimizer.zero_grad()
        loss(parallel, batches.own()).backward()
        optimizer.step()
    if way != "ring":
        dist.destroy_process_group()
    return digest(weights(model))


class Choosing(torch.nn.Module):
    """Uses its second layer on rank 0 alone, and its third nowhere."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(3)])

    def forward(self, x):
        return self.layers[0](x) + (self.layers[1](x) if psring.rank() == 0 else 0)


def unused_by_ddp(path):
    """With the hook, as with Gloo alone: found if asked for, else told by DDP itself."""
    dist.init_process_group("gloo", init_method="file://" + path, rank=psring.rank(), world_size=psring.size())
    found = Choosing()
    parallel = torch.nn.parallel.DistributedDataParallel(found, find_unused_parameters=True)
    parallel.register_comm_hook(None, psring.ddp_hook)
    for _ in range(2):
        parallel.zero_grad()
        parallel(torch.ones(1, 2)).sum().backward()
    right = [layer.weight.grad is not None and bool((layer.weight.grad == mean).all()) for layer, mean in zip(found.layers, (1, 0.5))]
    psring.barrier()
    lacking = torch.nn.parallel.DistributedDataParallel(torch.nn.ModuleDict({"used": torch.nn.Linear(2, 2), "not": torch.nn.Linear(2, 2)}))
    lacking.register_comm_hook(None, psring.ddp_hook)
    lacking.module.forward = lambda x: lacking.module["used"](x)
    told = ""
    try:
        for _ in range(2):
            lacking(torch.ones(1, 2)).sum().backward()
    except RuntimeError as failure:
        told = str(failure)
    dist.destroy_process_group()
    return all(right), "Expected to have finished reduction in the prior iteration before starting a new one." in told


def bits(tap, network=small_resnet, pixels=12, times=1):
    """Two ranks, since there DDP with Gloo adds in psring's order."""
    with Workspace() as folder:
        def work():
            psring.init(deadline=120)
            for way in ("gloo", *WAYS):
                for n in range(times):
                    tell(way, train(way, os.path.join(folder, "%s-%d" % (way, n)), network, pixels))
            tell("unused", *unused_by_ddp(os.path.join(folder, "unused")))
        said, problems = play(work, 2)
    found = {way: [line[1] for line in said if line[0] == way] for way in ("gloo", *WAYS)}
    for way, name in WAYS.items():
        tap.ok(len(found[way]) == times and set(found[way]) == set(found["gloo"][:1]),
               name + " ends 30 steps with the bits of DDP and Gloo, %d times of %d" % (times, times), told(said) + problems)
    tap.ok(["unused", "True", "True"] in said, "parameters that a model does not use are found by DDP with the hook, or it says so", told(said) + problems)


def twice():
    model = mlp()
    psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1))
    for _ in range(2):
        loss(model, Batches(20).own()).backward()


def accumulate(way, right):
    """Halves of a batch, in two ways."""
    model, batches = mlp(), Batches(20)
    optimizer = psring.DistributedOptimizer(OPTIMIZERS["momentum"](model.parameters()), bucket_bytes=4096,
                                            backward_passes_per_step=2 if way == "passes" else 1)
    for _ in range(6):
        x, y = batches.own()
        optimizer.zero_grad()
        with optimizer.no_sync() if way == "no_sync" else torch.enable_grad():
            (loss(model, (x[:4], y[:4])) / 2).backward()
        (loss(model, (x[4:], y[4:])) / 2).backward()
        optimizer.step()
    tell(way, (weights(model) - right).abs().max().item() < 1e-6)


def unused(mode):
    """A parameter that no rank uses, and one that rank 0 alone uses."""
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(3)])
    psring.broadcast_parameters(model.state_dict())
    optimizer = psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5), mode)
    before = weights(model)
    y = model[0](torch.ones(1, 2)) + (model[1](torch.ones(1, 2)) if psring.rank() == 0 else 0)
    y.sum().backward()
    optimizer.step()
    optimizer.synchronize()
    after = weights(model)
    # on shards its gradient is zero, and it decays
    nobody = before[8:] if mode == "ring" else before[8:] / 2
    tell("unused", torch.equal(after[8:], nobody) and torch.allclose(after[4:8], before[4:8] / 2 - 1 / psring.size()))
    optimizer.close()


def groups():
    """Two groups of parameters, each with its rate, clipped in mode ring."""
    def two(model):
        return torch.optim.SGD([{"params": model[:2].parameters(), "lr": 0.2}, {"params": model[2:].parameters()}], lr=0.05, momentum=0.9)

    model, batches, own, beside = mlp(), Batches(20), mlp(), Batches(20)
    optimizer, plain = psring.DistributedOptimizer(two(model), bucket_bytes=4096), two(own)
    for _ in range(4):
        optimizer.zero_grad()
        loss(model, batches.own()).backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        plain.zero_grad()
        sum(loss(own, batch) for batch in beside.all()).div(psring.size()).backward()
        torch.nn.utils.clip_grad_norm_(own.parameters(), 0.1)
        plain.step()
    tell("groups", torch.allclose(weights(model), weights(own), atol=1e-6))


def broadcasts():
    model = mlp()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(psring.rank())
    psring.broadcast_parameters(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 + psring.rank())
    loss(model, Batches(20).own()).backward()
    optimizer.step()
    psring.broadcast_optimizer_state(optimizer)
    kept = torch.cat([s["exp_avg"].reshape(-1) for s in optimizer.state.values()])
    tell("broadcast", same_everywhere(kept) and optimizer.param_groups[0]["lr"] == 0.5)
    on_shards = psring.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.5 + psring.rank()), "ps")
    psring.broadcast_optimizer_state(on_shards)  # else ranks tell the shards different rates
    for _ in range(2):
        on_shards.zero_grad()
        loss(model, Batches(20).own()).backward()
        on_shards.step()
        psring.broadcast_optimizer_state(on_shards)
    on_shards.synchronize()
    tell("broadcast", same_everywhere(weights(model)), on_shards.state_dict()["state"][0]["step"].item() == 2)
    on_shards.close()


def small_things():
    psring.init(deadline=120)
    right = alone("momentum", 6, False)
    for way in ("passes", "no_sync"):
        accumulate(way, right)
    for mode in ("ring", "ps"):
        unused(mode)
    groups()
    tell("metrics", psring.allreduce(float(psring.rank())) == (psring.size() - 1) / 2,
         psring.allgather(torch.tensor([psring.rank()])).tolist() == list(range(psring.size())))
    broadcasts()
    for words, wrong in [
        ("mode is", lambda: psring.DistributedOptimizer(torch.optim.SGD(mlp().parameters(), lr=1), "none")),
        ("use mode ring", lambda: psring.DistributedOptimizer(torch.optim.Adagrad(mlp().parameters()), "ps")),
        ("amsgrad", lambda: psring.DistributedOptimizer(torch.optim.Adam(mlp().parameters(), amsgrad=True), "ps")),
        ("float32", lambda: psring.DistributedOptimizer(torch.optim.SGD(mlp().double().parameters(), lr=1), "ps")),
        ("on meta", lambda: psring.allreduce(torch.empty(2, device="meta"))),
        ("on meta", lambda: psring.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.empty(2, device="meta"))], lr=1))),
        ("again before step()", twice),
    ]:
        try:
            wrong()
            tell("refused", words, False)
        except psring.Error as failure:
            tell("refused", words, words in failure.line and ("meta" not in words or documented(failure.line)))


def small(tap):
    said, problems = play(small_things, 2, 1)
    for name, count, what in [("passes", 1, "gradients of two passes are added"), ("no_sync", 1, "and those within no_sync()"),
                              ("unused", 2, "what no rank uses stays in a ring, what one uses is updated on all"),
                              ("groups", 1, "groups have their own rates, and means are clipped"),
                              ("metrics", 1, "numbers and tensors are put together"),
                              ("broadcast", 2, "parameters and an optimizer's state are broadcast")]:
        lines = [line for line in said if line[0] == name]
        tap.ok(len(lines) == count and all(set(line[1:]) == {"True"} for line in lines), what, told(lines) + problems)
    refused = [line for line in said if line[0] == "refused"]
    tap.ok(len(refused) == 7 and all(line[-1] == "True" for line in refused), "what cannot be is refused by a line", told(refused) + problems)


def main():
    torch.set_num_threads(1)
    tap = Tap()
    for part in (bits, small):
        part(tap)
    tap.end()


if __name__ == "__main__":
    main()
