"""What ranks of psring.torch's optimizer may do apart: run ahead with ssp and async, end their data
at different steps, send gradients in fewer bytes, load data with processes of their own, and work
in threads. TAP.

usage: test_torch_steps.py SHARD PACKAGES"""

import sys

from forks import Tap, play, started, told

if __name__ == "__main__":
    started(*sys.argv[1:3])

import threading  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch_work import Batches, loss, mlp, same_everywhere, tell, together, weights  # noqa: E402

import psring.torch as psring  # noqa: E402

STEPS, RATE = 10, 2.0**-6


def steady(mode="ps", sync="bsp", optimizer=torch.optim.SGD, **more):
    """A layer whose gradient is always rank + 1 everywhere, its optimizer, and a step."""
    layer = torch.nn.Linear(8, 2, bias=False)
    with torch.no_grad():
        layer.weight.fill_(1)
    wrapped = psring.DistributedOptimizer(optimizer(layer.parameters(), lr=RATE), mode, sync, **more)

    def step():
        wrapped.zero_grad()
        ((psring.rank() + 1) * layer(torch.ones(1, 8))).sum().backward()
        wrapped.step()
        wrapped.synchronize()
    return layer, wrapped, step


def apart():
    """Rank 1 runs ahead, and tells rank 0 when; in bsp neither would get there."""
    psring.init(deadline=120)
    world, mark = psring.comm().world, torch.zeros(1)
    for sync, ahead in [("ssp:2", 2), ("async", STEPS - 1)]:
        layer, optimizer, step = steady(sync=sync)
        step()
        if psring.rank() == 0:
            world.receive(mark, 1)
        for n in range(STEPS - 1):
            step()
            if psring.rank() == 1 and n == ahead - 1:
                world.send(mark, 0)
        behind = psring.allreduce(float(optimizer.staleness), "maximum")
        optimizer.state_dict()
        # every rank's gradient was an update of its own: 1 of rank 0 and 2 of rank 1, in each step
        right = 1 - RATE * STEPS * 3
        tell("ssp" if sync != "async" else sync, behind >= ahead and (sync == "async" or behind <= 2),
             same_everywhere(layer.weight.detach()), bool((layer.weight == right).all()))
        optimizer.close()
    layer, optimizer, step = steady(sync="async", optimizer=torch.optim.Adam)
    for _ in range(STEPS):
        step()
    tell("updates", optimizer.state_dict()["state"][0]["step"].item() == 2 * STEPS)
    optimizer.mode = "ring"  # with weights that were not the same on all ranks
    tell("updates", same_everywhere(layer.weight.detach()))


def uneven(mode, divide_by_all):
    """Rank 0 has three batches and rank 1 five, twice; the rate falls in between."""
    model, batches, own, beside = mlp(), Batches(20), mlp(), Batches(20)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = psring.DistributedOptimizer(sgd, mode, bucket_bytes=4096)
    plain = torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9)
    have = (3, 5)
    for _ in range(2):
        with optimizer.join(divide_by_initial_world_size=divide_by_all):
            for n in range(have[psring.rank()]):
                for group in optimizer.param_groups:
                    group["lr"] = 0.1 if n < 4 else 0.02
                optimizer.zero_grad()
                loss(model, batches.own()).backward()
                optimizer.step()
        optimizer.synchronize()
        for n in range(max(have)):
            given = [batch for rank, batch in enumerate(beside.all()) if n < have[rank]]
            for group in plain.param_groups:
                group["lr"] = 0.1 if n < 4 else 0.02
            plain.zero_grad()
            (sum(loss(own, batch) for batch in given) / (len(have) if divide_by_all else len(given))).backward()
            plain.step()
        for rank, n in enumerate(have):  # the generators go on alike
            if psring.rank() == rank:
                for _ in range(max(have) - n):
                    batches.own()
    momentum = torch.cat([s["momentum_buffer"].reshape(-1) for s in optimizer.state_dict()["state"].values()])
    tell("join", mode, torch.allclose(weights(model), weights(own), atol=1e-6), same_everywhere(weights(model)), same_everywhere(momentum))
    optimizer.close()


def joined():
    psring.init(deadline=120)
    for mode in ("ring", "ps"):
        for divide_by_all in (True, False):
            uneven(mode, divide_by_all)
    _, optimizer, step = steady(sync="ssp:1")
    try:
        with optimizer.join():
            step()
        tell("join", "refused", False)
    except psring.UsageError as failure:
        tell("join", "refused", "ssp:1" in failure.line)


def encoded():
    """What an encoding takes away in a step is added in the next one: in the end all has arrived
    but what is still held back."""
    psring.init(deadline=120)
    for mode in ("ring", "ps"):
        for encoding, steps in [("topk:0.25", 60), ("1bit", 60), ("int8", 30), ("bf16", 30)]:
            model = torch.nn.Linear(8, 1, bias=False)
            with torch.no_grad():
                model.weight.zero_()
            optimizer = psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), mode, encoding=encoding)
            for _ in range(steps):
                optimizer.zero_grad()
                model(torch.arange(1.0, 9).reshape(1, 8)).sum().backward()
                optimizer.step()
            optimizer.synchronize()
            share = -model.weight.detach()[0] / (steps * torch.arange(1.0, 9))
            tell("encoding", mode, encoding, bool(((share - 1).abs() < 0.5).all()), same_everywhere(model.weight.detach()), share.tolist())
            optimizer.close()


def owed():
    """Of these gradients a step with topk:0.5 sends the first half, and the next one the other half
    twice, so that after four a half has had 3, and the other 4. So it is if what is owed is saved
    and loaded after the first step. Who owes nothing after it has 4 and 2. A change of the mode
    goes on with other choices, and nothing is lost by it: what has arrived and what is owed are
    all."""
    psring.init(deadline=120)
    other = 1 - psring.rank()

    def strangers(saved):
        return {**saved, "psring": {**saved["psring"], "rank": other}}

    ways = {
        "goes-on": (None, [3, 4]),
        "loads": (lambda _, optimizer, saved: optimizer.load_state_dict(saved), [3, 4]),
        "is-told": (lambda _, optimizer, saved: psring.broadcast_optimizer_state(optimizer), [3, 4]),
        "changes": (lambda _, optimizer, saved: setattr(optimizer, "mode", "ps" if optimizer.mode == "ring" else "ring"), None),
        "forgets": (lambda _, optimizer, saved: optimizer.load_state_dict({name: saved[name] for name in ("state", "param_groups")}), [2, 4]),
        "strangers": (lambda _, optimizer, saved: optimizer.load_state_dict(strangers(saved)), [2, 4]),
    }
    for mode in ("ring", "ps"):
        for way, (after_first, expected) in ways.items():
            layer, optimizer, step = steady(mode, encoding="topk:0.5")
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                for n in range(4):
                    saved = optimizer.state_dict()
                    if n == 1 and after_first is not None:
                        after_first(layer, optimizer, saved)
                    step()
            lines = [str(w.message) for w in warned if "kept back" in str(w.message)]
            had = (1 - layer.weight.detach()) / (1.5 * RATE)
            all_owed = psring.allreduce(optimizer.state_dict()["psring"]["owed"][0], "sum") / 3
            right = torch.allclose(had + all_owed, torch.full_like(had, 4)) if expected is None else had.unique().tolist() == expected
            tell("owed", mode, way, sorted(saved) == ["param_groups", "psring", "state"], right, same_everywhere(layer.weight.detach()),
                 lines == ([] if way != "strangers" else ["the state is rank %d's, and this is rank %d: what an encoding had kept back there is"
                                                          " left out, and this rank owes nothing; let each rank save and load its own"
                                                          % (other, psring.rank())]), had.tolist(), all_owed.tolist())
            optimizer.close()
    torch.optim.SGD(layer.parameters(), lr=RATE).load_state_dict(saved)  # without psring's part
    layer, optimizer, step = steady("ring", encoding="bf16")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        optimizer.load_state_dict(saved)
    tell("owed", "dropped", [str(w.message) for w in warned] == ["the state has what an encoding had kept back, which is dropped:"
                                                                  " encoding='bf16' keeps nothing"], "psring" not in optimizer.state_dict())
    layer, optimizer, step = steady("ring", encoding="int8")
    saved["psring"]["owed"][0] = torch.zeros(3)
    for name, call in [("shape", lambda: optimizer.load_state_dict(saved)), ("begun", lambda: (layer(torch.ones(1, 8)).sum().backward(), optimizer.state_dict()))]:
        try:
            call()
            tell("owed", name, False)
        except psring.UsageError as failure:
            tell("owed", name, ("shape (3,)" if name == "shape" else "call step() first") in failure.line)


def resumed():
    """What an encoding owes is saved and loaded in the middle, by ring and by shards; the control
    forgets it."""
    psring.init(deadline=120)
    for mode in ("ring", "ps"):
        for encoding in ("int8", "topk:0.1", "1bit"):
            whole, loaded, forgot = [together("momentum", 6, False, mode, resume_at=resume_at, forgets=forgets, encoding=encoding)
                                     for resume_at, forgets in [(None, None), (3, None), (3, "psring")]]
            tell("resumed", mode, encoding, torch.equal(whole, loaded), not torch.equal(whole, forgot), same_everywhere(loaded))


def same_bits():
    """Sums that each encoding sends as they are: a ring, shards, and neither have the same bits."""
    psring.init(deadline=120)
    ended = {}
    for mode in ("ring", "ps"):
        for encoding in (None, "none", "fp16", "bf16", "topk:1", "1bit"):
            layer, optimizer, step = steady(mode, encoding=encoding)
            for _ in range(STEPS):
                step()
            ended[mode, encoding] = layer.weight.detach().clone()
            optimizer.close()
    tell("bits", all(bool((weight == 1 - STEPS * 1.5 * RATE).all()) for weight in ended.values()))
    refused = []
    for mode in ("ring", "ps"):
        try:
            steady(mode, encoding="fp8")
        except psring.UsageError as failure:
            refused.append(failure.line)
    tell("bits", refused == 2 * ["encoding: 'fp8' is no compression; give none, fp16, bf16, int8, topk:R (topk:0.01) or 1bit"])


def loads():
    """Batches by processes that are forked while the ranks' threads run, in two epochs, in both
    modes."""
    psring.init(deadline=120)
    images = torch.arange(64.0).reshape(16, 4)
    for mode in ("ring", "ps"):
        loader = DataLoader(TensorDataset(images), batch_size=4, num_workers=2, multiprocessing_context="fork")
        layer, optimizer, _ = steady(mode)
        seen = []
        for _ in range(2):
            for (x,) in loader:
                seen.append(x)
                optimizer.zero_grad()
                layer(x.repeat(1, 2)).mean().backward()
                optimizer.step()
        optimizer.synchronize()
        tell("loader", torch.equal(torch.cat(seen), images.repeat(2, 1)), same_everywhere(layer.weight.detach()))
        optimizer.close()


def threads():
    psring.init(deadline=120)
    groups, right = [psring.comm().world.split(0) for _ in range(2)], [0, 0]

    def reduce(number):
        for n in range(1000):
            values = torch.full((257,), float(n + number + psring.rank()))
            groups[number].all_reduce(values)
            right[number] += bool((values == 2 * (n + number) + 1).all())

    running = [threading.Thread(target=reduce, args=(number,)) for number in range(2)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    tell("threads", right == [1000, 1000])


PARTS = {
    "ssp": (apart, 1, "with ssp a rank is ahead as far as it may and no further, and all updates arrive"),
    "async": (apart, 1, "with async it is ahead without a bound"),
    "updates": (apart, 2, "every rank's pushes count as updates, and a change of mode gives all the same weights"),
    "join": (joined, 5, "ranks with different numbers of batches end with the weights of one process that had them all"),
    "encoding": (encoded, 8, "gradients in fewer bytes arrive in the end, by a ring and by shards"),
    "owed": (owed, 15, "what a step did not send is in the next one, also after a state was saved and loaded, or the mode changed"),
    "resumed": (resumed, 6, "a run in fewer bytes that is saved and loaded in the middle ends in the bits of one that was not"),
    "bits": (same_bits, 2, "sums that an encoding does not change have the same bits by a ring and by shards"),
    "loader": (loads, 2, "data is loaded by forked processes"),
    "threads": (threads, 1, "two threads with a group each make 1,000 all-reduces"),
}


def main():
    torch.set_num_threads(1)
    tap, played = Tap(), {}
    for part, (work, count, name) in PARTS.items():
        if work not in played:
            played[work] = play(work, 2, 1)
        said, problems = played[work]
        lines = [line for line in said if line[0] == part]
        tap.ok(len(lines) == count and all("False" not in line for line in lines), name, told(lines) + problems)
    tap.end()


if __name__ == "__main__":
    main()
