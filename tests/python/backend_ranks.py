"""What each rank of test_backend.py does with torch.distributed's backend "psring". A line is
printed for what was found: its name, and True or what was there instead. Each rank is a process of
its own, which calls be()."""

import datetime
import hashlib
import os
import signal
import threading
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from documented import documented
from forks import PATIENCE_S

# Without psring.torch torch finds the backend by its entry point, where psring is installed.
import psring.torch  # noqa: F401

RANK = SIZE = FILE = None  # this rank, all of them, and a new file by which they meet


def begin(backend="psring", path=None, timeout_s=120):
    path = path or FILE
    dist.init_process_group(backend, init_method="file://" + path, rank=RANK, world_size=SIZE, timeout=datetime.timedelta(seconds=timeout_s))


def tell(name, *found):
    """Whether all of found is True, on this rank."""
    good = all(value is True for value in found)
    print(RANK, name, good, "" if good else found, flush=True)


def every(value):
    """The values of all ranks, which value(rank) makes."""
    return [value(rank) for rank in range(SIZE)]


def refused(name, words, call):
    try:
        call()
    except Exception as failure:
        tell(name, words in str(failure) or str(failure))
    else:
        tell(name, "nothing was raised" == "")


def reductions():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        def own(rank):
            return (torch.arange(13) % 3 + rank + 1).to(dtype)
        stacked = torch.stack(every(own)).double()
        cases = {dist.ReduceOp.SUM: stacked.sum(0), dist.ReduceOp.PRODUCT: stacked.prod(0), dist.ReduceOp.MIN: stacked.amin(0),
                 dist.ReduceOp.MAX: stacked.amax(0), dist.ReduceOp.AVG: stacked.mean(0)}
        if not dtype.is_floating_point:
            cases[dist.ReduceOp.AVG] = cases[dist.ReduceOp.AVG].trunc()
            bits = stacked.long()
            cases[dist.ReduceOp.BAND], cases[dist.ReduceOp.BOR], cases[dist.ReduceOp.BXOR] = bits[0], bits[0], bits[0]
            for row in bits[1:]:
                cases[dist.ReduceOp.BAND] = cases[dist.ReduceOp.BAND] & row
                cases[dist.ReduceOp.BOR] = cases[dist.ReduceOp.BOR] | row
                cases[dist.ReduceOp.BXOR] = cases[dist.ReduceOp.BXOR] ^ row
        right = []
        for op, wanted in cases.items():
            got = own(RANK)
            dist.all_reduce(got, op)
            right.append(torch.allclose(got.double(), wanted.double(), rtol=0.01) or (op, got, wanted))
        tell("reductions %s" % dtype, *right)
    flags = torch.tensor([True, RANK == 0, False])
    dist.all_reduce(flags)
    pairs = torch.full((3,), complex(RANK, 1))
    dist.all_reduce(pairs)
    tell("bool and complex", flags.tolist() == [True, True, False], bool((pairs == complex(sum(range(SIZE)), SIZE)).all()))
    half = torch.full((3,), float(RANK))
    dist.all_reduce(half, dist._make_nccl_premul_sum(0.5))
    tell("a sum of multiples", half.tolist() == [sum(range(SIZE)) / 2] * 3)
    columns = torch.zeros(4, 6).t()
    columns += RANK
    dist.all_reduce(columns)
    tell("a tensor in another order", bool((columns == sum(range(SIZE))).all()))


def moves():
    uneven = [torch.empty(rank + 1) for rank in range(SIZE)]
    dist.all_gather(uneven, torch.full((RANK + 1,), float(RANK)))
    tell("all_gather of different sizes", *(bool((t == rank).all()) for rank, t in enumerate(uneven)))
    whole = torch.empty(SIZE * 2, 2)
    dist.all_gather_into_tensor(whole, torch.full((2, 2), float(RANK)))
    tell("all_gather_into_tensor", whole[:, 0].tolist() == [rank for rank in range(SIZE) for _ in range(2)])
    part = torch.empty(3)
    dist.reduce_scatter_tensor(part, torch.arange(3.0 * SIZE) + RANK)
    tell("reduce_scatter_tensor", part.tolist() == [SIZE * (3 * RANK + i) + sum(range(SIZE)) for i in range(3)])
    given = [torch.empty(2, dtype=torch.int32) for _ in range(SIZE)] if RANK == 1 else None
    dist.gather(torch.full((2,), RANK, dtype=torch.int32), given, dst=1)
    tell("gather", RANK != 1 or [t[0].item() for t in given] == list(range(SIZE)))
    mine = torch.empty(2)
    dist.scatter(mine, [torch.full((2,), float(rank)) for rank in range(SIZE)] if RANK == 0 else None, src=0)
    tell("scatter", mine.tolist() == [RANK, RANK])
    sizes = [rank + 1 for rank in range(SIZE)]
    out = torch.empty(SIZE * (RANK + 1))
    dist.all_to_all_single(out, torch.full((sum(sizes),), float(RANK)), [RANK + 1] * SIZE, sizes)
    tell("all_to_all_single", out.tolist() == [rank for rank in range(SIZE) for _ in range(RANK + 1)])
    said = [None] * SIZE
    dist.all_gather_object(said, {"rank": RANK})
    tell("objects", [s["rank"] for s in said] == list(range(SIZE)))
    eight = torch.full((5,), RANK + 1.0).to(torch.float8_e4m3fn)
    dist.broadcast(eight, SIZE - 1)
    tell("types that are only moved", eight.float().tolist() == [SIZE] * 5)
    # Messages: from whom, and by tag.
    if RANK == 0:
        sources = []
        for _ in range(SIZE - 1):
            got = torch.empty(2)
            sources.append(dist.recv(got, tag=7))
            tell("from any rank", bool((got == sources[-1]).all()))
        tell("from all ranks", sorted(sources) == list(range(1, SIZE)))
        second, first = torch.empty(1), torch.empty(1)
        dist.recv(second, 1, tag=2)
        dist.recv(first, 1, tag=1)
        tell("by tag", first.item() == 1, second.item() == 2)
    else:
        dist.send(torch.full((2,), float(RANK)), 0, tag=7)
        if RANK == 1:
            dist.send(torch.tensor([1.0]), 0, tag=1)
            dist.send(torch.tensor([2.0]), 0, tag=2)
    large = torch.full((1 << 17,), float(RANK))
    came = torch.empty_like(large)
    requests = [dist.isend(large, (RANK + 1) % SIZE), dist.irecv(came, (RANK - 1) % SIZE)]
    for request in requests:
        request.wait()
    tell("large messages in a circle", bool((came == (RANK - 1) % SIZE).all()))


def futures():
    values = [torch.full((1000,), float(RANK + i)) for i in range(20)]
    works = [dist.all_reduce(v, async_op=True) for v in values]
    seen = []
    chained = [w.get_future().then(lambda f: seen.append(f.value()[0][0].item())) for w in works[::2]]
    for work in works[1::2]:
        work.wait()
    for future in chained:
        future.wait()
    tell("futures and waits together", sorted(seen) == [sum(range(SIZE)) + SIZE * i for i in range(0, 20, 2)],
         all((v == sum(range(SIZE)) + SIZE * i).all() for i, v in enumerate(values)), all(w.is_completed() for w in works))
    kept = torch.ones(1 << 18)
    dist.all_reduce(kept, async_op=True)  # nobody keeps the work
    dist.all_reduce(torch.ones(1 << 18), async_op=True)  # nor the tensor
    dist.barrier()
    said = dist.all_reduce(torch.zeros(1), async_op=True).wait()
    end = time.monotonic() + PATIENCE_S
    while not (kept == SIZE).all() and time.monotonic() < end:  # calls may overtake one another
        time.sleep(0.01)
    tell("what nobody waits for", said, bool((kept == SIZE).all()))


def groups():
    halves = [dist.new_group([0, 1]), dist.new_group(list(range(1, SIZE)))]
    for members, group in zip(([0, 1], list(range(1, SIZE))), halves):
        if RANK in members:
            value = torch.tensor([float(RANK)])
            dist.all_reduce(value, group=group)
            tell("a group of %s" % members, value.item() == sum(members))
    dist.destroy_process_group()
    begin(path=FILE + "-again")
    value = torch.ones(1)
    dist.all_reduce(value)
    tell("made again", value.item() == SIZE)
    # Beside Gloo, which is the default group then.
    dist.destroy_process_group()
    begin("gloo", FILE + "-gloo")
    group = dist.new_group([0, 1], backend="psring")
    if RANK < 2:
        value = torch.ones(1)
        dist.all_reduce(value, group=group)
        tell("beside gloo", value.item() == 2, dist.get_backend(group) == "psring")


def threads():
    """A group for each of two threads, whose calls need no common order."""
    own = [dist.new_group(list(range(SIZE))) for _ in range(2)]
    right = [0, 0]

    def work(number):
        for step in range(1000):
            value = torch.full((3,), float(RANK + step * (number + 1)))
            dist.all_reduce(value, group=own[number])
            right[number] += bool((value == sum(range(SIZE)) + SIZE * step * (number + 1)).all())

    started = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    tell("two threads with a group each", right == [1000, 1000])


def mistakes():
    meta = torch.empty(3, device="meta")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    line = "all_reduce: the tensor is on meta; the backend psring takes tensors in the CPU's memory: call .cpu()"
    refused("a tensor elsewhere", line, lambda: backend.allreduce([meta]))
    tell("as documented", documented(line))
    refused("a sparse tensor", "call .to_dense()", lambda: dist.all_reduce(torch.eye(3).to_sparse()))
    refused("bits of floats", "take whole numbers", lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BXOR))
    refused("parts that do not fit", "are not %d times" % SIZE, lambda: dist.all_gather_into_tensor(torch.empty(1), torch.empty(1)))
    value = torch.ones(1)
    dist.all_reduce(value)
    tell("none of it has harmed the group", value.item() == SIZE)


def tensor_parallel(model, mesh):
    """A pair of layers, one cut by columns and one by rows, sharded over the other dimension."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully_shard(model, mesh=mesh["dp"])


def train(model, data_rank):
    """20 steps of AdamW; the weights."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1 + data_rank)
    for _ in range(20):
        optimizer.zero_grad()
        x, y = torch.randn(8, 32, generator=generator), torch.randint(0, 10, (8,), generator=generator)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return torch.cat([p.full_tensor().detach().reshape(-1) for p in model.parameters()])


def two_by_two(backend):
    from torch.distributed.device_mesh import init_device_mesh

    begin(backend, FILE + "-" + backend)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    weights = train(tensor_parallel(model, mesh), mesh.get_local_rank("dp"))
    dist.destroy_process_group()
    return weights


def fsdp(backend):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    begin(backend, FILE + "-" + backend)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.LayerNorm(32), torch.nn.ReLU()) for _ in range(4)],
                                torch.nn.Linear(32, 10))
    mesh = init_device_mesh("cpu", (SIZE,))
    for part in model:
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    weights = train(model, RANK)
    if RANK == 0:
        print("fsdp", backend, hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16], flush=True)
    dist.destroy_process_group()


def hosts():
    """As if each rank were on a host of its own: over TCP, encrypted."""
    from psring.torch import _backend

    _backend._this_host = lambda: "host-%d" % RANK
    os.environ.update(PSRING_HOST="host-%d" % RANK, MASTER_ADDR="127.0.0.1")
    os.environ.pop("PSRING_INTERFACE", None)
    refused("no way to other hosts", "set PSRING_INTERFACE", begin)
    os.environ["PSRING_INTERFACE"] = "127.0.0.1"
    begin(path=FILE + "-again")
    value = torch.full((1 << 18,), float(RANK))
    dist.all_reduce(value)
    tell("several hosts", bool((value == sum(range(SIZE))).all()))
    dist.destroy_process_group()


def loss_of_rank_1(how):
    """Rank 1 goes; the others say what they were told."""
    begin(timeout_s=5 if how == "late" else 120)
    value = torch.ones(4)
    if RANK == 1:
        dist.all_reduce(value)
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "raises":
            raise ValueError("a mistake of rank 1")
        while not os.path.exists(FILE + "-told"):  # late: the others have given up
            signal.sigtimedwait([], 0.1)
        os._exit(0)
    try:
        dist.all_reduce(value)  # rank 1 may be through with it and gone before the others are
        work = dist.all_reduce(value, async_op=True)
        if RANK == 0:
            work.get_future().wait()
        else:
            work.wait()
        print(RANK, how, "nothing was raised", flush=True)
    except Exception as failure:
        print(RANK, how, " ".join(str(failure).split()), flush=True)
    if how == "late" and RANK == 0:
        open(FILE + "-told", "w").close()


def all_are_killed():
    """Rank 0 of two kills both."""
    begin()
    dist.all_reduce(torch.ones(4))
    if RANK == 1:
        with open(FILE + "-new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(FILE + "-new", FILE + "-pid")
        signal.pause()
    while not os.path.exists(FILE + "-pid"):
        signal.sigtimedwait([], 0.1)
    with open(FILE + "-pid") as file:
        other = int(file.read())
    os.kill(other, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def be(rank, size, file, what):
    """Does what ("loss:killed", say) as this rank."""
    global RANK, SIZE, FILE
    RANK, SIZE, FILE = rank, size, file
    torch.set_num_threads(1)
    what, _, argument = what.partition(":")
    if what == "fsdp":
        for backend in ("gloo", "psring"):
            fsdp(backend)
    elif what == "2x2":
        gloo, psring = two_by_two("gloo"), two_by_two("psring")
        tell("2x2", (gloo - psring).abs().max().item() <= 1e-6 or (gloo - psring).abs().max().item())
    elif what == "hosts":
        hosts()
    elif what == "loss":
        loss_of_rank_1(argument)
    elif what == "all-killed":
        all_are_killed()
    else:
        begin()
        for part in (threads,) if what == "threads" else (reductions, moves, futures, threads, mistakes, groups):
            part()
        dist.destroy_process_group()
