"""What ranks of the tests of psring.torch train: models, batches, the same steps by one process
with torch alone, and by all ranks together."""

import hashlib
import io

import torch
import torch.nn.functional as F

import psring.torch as psring

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=0.001, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.001, betas=(0.8, 0.9)),
}


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))


class Batches:
    """Every rank's batches, of which a rank takes its own. With a teacher the labels can be
    learnt."""

    def __init__(self, *shape, teacher=False):
        self.shape = shape
        self.generators = [torch.Generator().manual_seed(1 + rank) for rank in range(psring.size())]
        self.teacher = torch.randn(10, *shape, generator=torch.Generator().manual_seed(0)) if teacher else None

    def all(self):
        batches = []
        for g in self.generators:
            x, labels = torch.randn(8, *self.shape, generator=g), torch.randint(0, 10, (8,), generator=g)
            batches.append((x, labels if self.teacher is None else (x @ self.teacher.T).argmax(1)))
        return batches

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


def same_everywhere(values):
    """Whether all ranks have the same bits."""
    values = values.contiguous()
    return torch.equal(psring.allreduce(values, "maximum"), psring.allreduce(values, "minimum"))


def alone(kind, steps, scheduled, teacher=False):
    """The same steps by one process: the mean of all ranks' gradients, by torch."""
    model, batches = mlp(), Batches(20, teacher=teacher)
    optimizer = OPTIMIZERS[kind](model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, max(1, steps // 4), 0.5)
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


def together(kind, steps, scheduled, mode, sync="bsp", resume_at=None, switch_at=None, teacher=False, forgets=None, **more):
    """forgets: what the optimizer's state has not any more when it is loaded."""
    model, batches = mlp(), Batches(20, teacher=teacher)

    def wrap(model):
        optimizer = psring.DistributedOptimizer(OPTIMIZERS[kind](model.parameters()), mode, sync, bucket_bytes=4096, **more)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, max(1, steps // 4), 0.5)

    optimizer, scheduler = wrap(model)
    for step in range(steps):
        if step == resume_at:  # all of it saved, made anew, and loaded
            optimizer.synchronize()
            file = io.BytesIO()
            torch.save([model.state_dict(), optimizer.state_dict(), scheduler.state_dict()], file)
            optimizer.close()
            file.seek(0)
            saved = torch.load(file, weights_only=True)
            saved[1].pop(forgets, None)
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
