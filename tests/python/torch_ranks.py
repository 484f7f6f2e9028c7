"""What each rank of test_torch.py trains. Rank 0 prints, for each run, its name and a hash of the
weights, and how far they are from those of one process that computes every rank's share and adds
with torch alone.

usage, under psring run: torch_ranks.py WHAT.. FILE; FILE is a new one, for torch.distributed"""

import hashlib
import io
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

import psring.torch as psring

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.9)),
}


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(c, c, 3, padding=1, bias=False), torch.nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.na, self.nb = torch.nn.BatchNorm2d(c), torch.nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.nb(self.b(F.relu(self.na(self.a(x))))))


def resnet():
    """ResNet-18's parts, small."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), Block(16), Block(16), torch.nn.Conv2d(16, 32, 3, stride=2), Block(32),
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))


def resnet18():
    from torchvision.models import resnet18

    torch.manual_seed(0)
    return resnet18(num_classes=10)


class Batches:
    """Every rank's batches, of which a rank takes its own."""

    def __init__(self, *shape):
        self.shape = shape
        self.generators = [torch.Generator().manual_seed(1 + rank) for rank in range(psring.size())]

    def all(self):
        return [(torch.randn(8, *self.shape, generator=g), torch.randint(0, 10, (8,), generator=g)) for g in self.generators]

    def own(self):
        return self.all()[psring.rank()]


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).clone()


def digest(values):
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16]


def tell(*words):
    if psring.rank() == 0:
        print(*words, flush=True)


def alone(kind, steps, scheduled):
    """The same steps by one process: the mean of all ranks' gradients, by torch."""
    model, batches = mlp(), Batches(20)
    optimizer = OPTIMIZERS[kind](model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    for _ in range(steps):
        gradients = []
        for batch in batches.all():
            model.zero_grad()
            loss(model, batch).backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        for p, first, *others in zip(model.parameters(), *gradients):
            p.grad = sum(others, first) / psring.size()
        optimizer.step()
        if scheduled:
            scheduler.step()
    return weights(model)


def together(kind, steps, scheduled, mode, sync="bsp", resume_at=None, switch_at=None, **more):
    model, batches = mlp(), Batches(20)

    def wrap(model):
        optimizer = psring.DistributedOptimizer(OPTIMIZERS[kind](model.parameters()), mode, sync, bucket_bytes=4096, **more)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)

    optimizer, scheduler = wrap(model)
    for step in range(steps):
        if step == resume_at:  # all of it saved, made anew, and loaded
            optimizer.synchronize()
            file = io.BytesIO()
            torch.save([model.state_dict(), optimizer.state_dict(), scheduler.state_dict()], file)
            optimizer.close()
            file.seek(0)
            saved = torch.load(file, weights_only=True)
            model = mlp()
            optimizer, scheduler = wrap(model)
            for thing, state in zip((model, optimizer, scheduler), saved):
                thing.load_state_dict(state)
        if step == switch_at:
            optimizer.mode = "ring" if mode == "ps" else "ps"
        optimizer.zero_grad()
        loss(model, batches.own()).backward()
        optimizer.step()
        if scheduled:
            scheduler.step()
    optimizer.synchronize()
    ended = weights(model)
    optimizer.close()
    return ended


def parity():
    for kind in OPTIMIZERS:
        for scheduled in (False, True):
            right = alone(kind, 20, scheduled)
            for mode in ("ring", "ps"):
                got = together(kind, 20, scheduled, mode)
                resumed = together(kind, 20, scheduled, mode, resume_at=12)
                tell(mode, kind, scheduled, digest(got), torch.equal(got, resumed), torch.equal(got, right), (got - right).abs().max().item())
            one = alone(kind, 1, False)
            ulp = torch.finfo(torch.float32).eps * one.abs().max()
            tell("one", kind, bool((together(kind, 1, False, "ps") - one).abs().max() <= ulp))
        long, right = together(kind, 200, False, "ps"), alone(kind, 200, False)
        tell("long", kind, (long - right).abs().max().item())
        switched = together(kind, 20, True, "ps", switch_at=7)
        tell("switched", kind, (switched - alone(kind, 20, True)).abs().max().item())


def small():
    """What needs no comparison of kinds."""
    right = alone("momentum", 6, False)
    # Gradient accumulation: halves of a batch, in two ways.
    for way in ("passes", "no_sync"):
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
    # A parameter that no rank uses, and one that rank 0 alone uses.
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(3)])
    optimizer = psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.5))
    before = weights(model)
    y = model[0](torch.ones(1, 2)) + (model[1](torch.ones(1, 2)) if psring.rank() == 0 else 0)
    y.sum().backward()
    optimizer.step()
    after = weights(model)
    tell("unused", torch.equal(after[8:], before[8:]) and torch.allclose(after[4:8], before[4:8] / 2 - 1 / psring.size()))
    # Metrics, states, mistakes.
    tell("metrics", psring.allreduce(float(psring.rank())) == (psring.size() - 1) / 2,
         psring.allgather(torch.tensor([psring.rank()])).tolist() == list(range(psring.size())))
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
    tell("broadcast", torch.equal(psring.allreduce(kept, "maximum"), psring.allreduce(kept, "minimum")) and optimizer.param_groups[0]["lr"] == 0.5)
    for words, wrong in [
        ("mode is", lambda: psring.DistributedOptimizer(torch.optim.SGD(mlp().parameters(), lr=1), "none")),
        ("use mode ring", lambda: psring.DistributedOptimizer(torch.optim.Adagrad(mlp().parameters()), "ps")),
        ("amsgrad", lambda: psring.DistributedOptimizer(torch.optim.Adam(mlp().parameters(), amsgrad=True), "ps")),
        ("float32", lambda: psring.DistributedOptimizer(torch.optim.SGD(mlp().double().parameters(), lr=1), "ps")),
        ("meta", lambda: psring.allreduce(torch.empty(2, device="meta"))),
        ("again before step()", twice),
    ]:
        try:
            wrong()
            tell("refused", words, False)
        except psring.Error as failure:
            tell("refused", words, words in failure.line)


def twice():
    model = mlp()
    psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1))
    for _ in range(2):
        loss(model, Batches(20).own()).backward()


def ddp(way, path):
    """30 steps of a small ResNet by DDP; of ResNet-18 if the way ends so."""
    big = way.endswith("resnet18")
    model, batches = resnet18() if big else resnet(), Batches(3, *(32, 32) if big else (12, 12))
    if way == "ring":
        optimizer = psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4))
        parallel = model
    else:
        backend = "psring" if way.startswith("backend") else "gloo"
        dist.init_process_group(backend, init_method="file://" + path + way, rank=psring.rank(), world_size=psring.size())
        parallel = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=25 if big else 0.05)
        if way.startswith("hook"):
            parallel.register_comm_hook(None, psring.ddp_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    for _ in range(30):
        optimizer.zero_grad()
        loss(parallel, batches.own()).backward()
        optimizer.step()
    tell(way, digest(weights(model)))
    if way != "ring":
        dist.destroy_process_group()


def main():
    torch.set_num_threads(1)
    psring.init(deadline=120)
    *what, path = sys.argv[1:]
    for word in what:
        {"parity": parity, "small": small}.get(word, lambda: ddp(word, path))()


main()
