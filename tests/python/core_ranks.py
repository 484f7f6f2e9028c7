"""What each rank of test_python.py runs: calls of psring with Python's own arrays, whose results
are known. Rank 0 prints the name of each check that has passed on all ranks.

usage, under psring run: core_ranks.py all | raise"""

import array
import ctypes
import pydoc
import sys
import threading

import psring


def floats(*values):
    return array.array("f", values)


def collectives(comm):
    w, n, r = comm.world, comm.world.size, comm.world.rank
    a = floats(r, 10 + r)
    assert w.all_reduce(a) is a and list(a) == [sum(range(n)), 10 * n + sum(range(n))]
    out = array.array("q", [0])
    w.all_reduce(array.array("q", [r]), out, op="maximum")
    assert out[0] == n - 1
    assert list(w.all_reduce(floats(r), op="mean")) == [sum(range(n)) / n]
    a = bytearray(b"rank %d" % r)
    w.broadcast(a, 1)
    assert a == b"rank 1"
    out = array.array("i", [0] * n)
    assert list(w.all_gather(array.array("i", [r * r]), out)) == [q * q for q in range(n)]
    counts = list(range(1, n + 1))
    out = array.array("i", [0] * sum(counts))
    w.all_gather(array.array("i", [r] * counts[r]), out, counts=counts)
    assert list(out) == [q for q in range(n) for _ in range(counts[q])]
    out = array.array("i", [0] * n)
    w.gather(array.array("i", [r]), out if r == 2 else None, 2)
    assert list(out) == (list(range(n)) if r == 2 else [0] * n)
    out = array.array("i", [0])
    w.scatter(array.array("i", range(n)) if r == 0 else None, out)
    assert out[0] == r
    out = floats(0)
    w.reduce_scatter(floats(*range(n)), out)
    assert out[0] == n * r
    assert list(w.all_to_all(array.array("i", [10 * r + q for q in range(n)]))) == [10 * q + r for q in range(n)]
    sends, receives = [q + 1 for q in range(n)], [r + 1] * n
    out = array.array("i", [0] * sum(receives))
    w.all_to_all(array.array("i", [r] * sum(sends)), out, send_counts=sends, receive_counts=receives)
    assert list(out) == [q for q in range(n) for _ in range(r + 1)]
    assert list(w.scan(array.array("i", [r]))) == [sum(range(r + 1))]
    assert list(w.exscan(array.array("i", [r]), array.array("i", [-1]))) == [sum(range(r)) if r else -1]
    out = floats(0)
    w.reduce(floats(r), out, root=1)
    assert r != 1 or out[0] == sum(range(n))
    w.barrier()


def requests(comm):
    w = comm.world
    several = [w.all_reduce(floats(i), asynchronous=True) for i in range(20)]
    assert [list(request.wait()) for request in reversed(several)] == [[w.size * i] for i in reversed(range(20))]
    assert all(request.done() for request in several)
    a = floats(1, 2)
    request = w.all_reduce(a, persistent=True, algorithm="ring")
    for _ in range(3):
        request.start().wait()
    assert list(a) == [w.size**3, 2 * w.size**3] and request.algorithm() == "ring"
    request.close()
    for i in range(200):  # nobody waits for these
        w.all_reduce(floats(i), asynchronous=True)
    w.barrier()


def messages(comm):
    w, n, r = comm.world, comm.world.size, comm.world.rank
    sent = w.send(floats(r, r), (r + 1) % n, 7, asynchronous=True)
    a = floats(0, 0)
    assert w.receive(a, (r - 1) % n, 7) == ((r - 1) % n, 7, 2) and list(a) == [(r - 1) % n] * 2
    sent.wait()
    if r == 0:
        came = set()
        for _ in range(n - 1):
            a = floats(0, 0, 0)
            message = w.receive(a, psring.ANY_RANK, psring.ANY_TAG)
            assert message.tag == 100 + message.source and message.count == message.source and a[0] == 5
            came.add(message.source)
        assert came == set(range(1, n)) and w.probe() is None
    else:
        w.send(floats(*[5] * r), 0, 100 + r, buffered=True)
    w.barrier()


def groups(comm):
    w, n, r = comm.world, comm.world.size, comm.world.rank
    assert w.on_host().size == n == w.local_size and w.local_rank == r
    half = w.split(r % 2, -r)
    members = [q for q in reversed(range(n)) if q % 2 == r % 2]
    assert half.size == len(members) and half.translate(half.rank, w) == r and members[half.rank] == r
    assert list(half.all_reduce(array.array("i", [r]))) == [sum(members)]
    assert w.split(None if r else 0) is None or r == 0
    if r < 2:
        two = w.of_ranks([1, 0])
        assert two.rank == 1 - r and two.size == 2
        two.close()
    broken = w.split(0)
    if r == 0:
        broken.revoke("enough")
    try:
        while True:
            broken.barrier()
    except psring.Error as failure:
        assert "enough" in failure.line and failure.code in ("cancelled", "broken"), failure
    assert list(broken.shrink().all_reduce(array.array("i", [1]))) == [n]
    w.barrier()


def threads(comm):
    """Two threads, each with a group of its own; calls of one wait while those of the other go
    on."""
    made = [comm.world.split(0), comm.world.split(0)]
    wrong = []

    def run(group, factor):
        for i in range(500):
            a = array.array("i", [factor * i])
            group.all_reduce(a)
            if a[0] != factor * i * group.size:
                wrong.append((factor, i, a[0]))

    running = [threading.Thread(target=run, args=pair) for pair in zip(made, (1, 1000))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, wrong


def tables(comm):
    w, n, r = comm.world, comm.world.size, comm.world.rank
    table = w.table("sums", [3, 2], initial=floats(1, 2, 3, 4, 5) if r == 0 else floats(0, 0, 0, 0, 0))
    out = floats(0, 0, 0, 0, 0)
    table.push_pull(floats(1, 1, 1, 1, 1), out)
    assert list(out) == [n + 1, n + 2, n + 3, n + 4, n + 5]
    table.push(floats(r, r), 1)
    part = floats(0, 0)
    assert list(table.pull(part, 1)) == [n + 4 + sum(range(n)), n + 5 + sum(range(n))]
    table.write(floats(7, 7, 7), part=0)
    assert list(table.read(floats(0, 0, 0), part=0)) == [7, 7, 7]
    table.close()
    table = w.table("momentum", [2], update="sgd lr=0.5 momentum=0.5")
    table.push(floats(1, 2))
    kept = list(table.read(floats(0, 0), 1))
    assert table.states >= 1 and kept == [n, 2 * n], kept
    assert list(table.pull(floats(0, 0))) == [-0.5 * n, -n] and table.staleness == 0
    table.close()
    table = w.table("means", [1], update="sgd lr=1", fold="mean")
    table.push(floats(r))
    table.set("lr=0.5")
    assert list(table.push_pull(floats(2))) == [-sum(range(n)) / n - 1]
    table.close()
    table = w.table("halves", [4], encoding="topk:0.5")
    assert list(table.push_pull(floats(1, 4, 2, 3))) == [0, 4 * n, 0, 3 * n]
    assert list(table.read_residual(floats(0, 0, 0, 0))) == [1, 0, 2, 0]
    table.write_residual(floats(4, 0, 2, 0))
    assert list(table.push_pull(floats(0, 0, 0, 0))) == [4 * n, 4 * n, 2 * n, 3 * n]
    table.close()
    request = w.all_reduce(floats(1, 2), persistent=True, encoding="1bit")
    request.write_residual(floats(0.5, -1))
    assert list(request.read_residual(floats(0, 0))) == [0.5, -1]
    request.close()
    third = 1 / 3  # of these float32 has others
    table = w.table("doubles", [2], dtype="float64", initial=array.array("d", [third, 0]))
    table.push(array.array("d", [0, third if r == 0 else 0]))
    assert list(table.pull(array.array("d", [0, 0]))) == list(table.read(array.array("d", [0, 0]))) == [third, third]
    table.write(array.array("d", [0.1, 0.2]))
    assert list(table.pull(array.array("d", [0, 0]))) == [0.1, 0.2]
    table.close()


class Points(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float)]


def refusals(comm):
    w = comm.world
    for words, call in [
        (["no operation 'plus'", "maximum"], lambda: w.all_reduce(floats(1), op="plus")),
        (["list", "buffer protocol"], lambda: w.all_reduce([1.0])),
        (["cannot be written"], lambda: w.all_reduce(b"1")),
        (["differ"], lambda: w.all_reduce(floats(1), floats(1, 2))),
        (["one piece"], lambda: w.broadcast(memoryview(bytearray(8))[::2])),
        (["format"], lambda: w.broadcast((Points * 2)())),
        (["out has 1 values instead of %d" % w.size], lambda: w.all_gather(floats(1), floats(1))),
        (["deadline"], lambda: w.barrier(deadline=0)),
        (["no part 2"], lambda: w.table("t", [1]).pull(floats(1), 2)),
        (["no update", "adam"], lambda: w.table("t", [1], update="none")),
        (["sgd", "float64"], lambda: w.table("t", [1], update="sgd lr=1", dtype="float64")),
        (["encoding", "'fp8'", "1bit"], lambda: w.table("t", [1], encoding="fp8")),
        (["dtype", "int8", "bfloat16"], lambda: w.table("t", [1], dtype="int8")),
        (["residual", "float32"], lambda: w.all_reduce(floats(1), persistent=True, encoding="int8").read_residual(array.array("d", [1]))),
        (["values are float32 here"], lambda: w.table("u", [1]).push(array.array("d", [1]))),
    ]:
        try:
            call()
        except psring.UsageError as failure:
            assert isinstance(failure, ValueError) and failure.code == "usage", failure
            assert all(word in failure.line for word in words), failure.line
        else:
            raise AssertionError("not refused: %s" % words)
    try:
        w.all_reduce(floats(*range(w.rank + 1)), deadline=20)
    except psring.MismatchError as failure:
        assert failure.rank is not None and failure.other is not None and failure.host == w.host(failure.rank), vars(failure)
    else:
        raise AssertionError("three counts are one to it")


def says(comm):
    counts = comm.counts()
    assert counts.messages_sent > 0 and counts.strangers == 0
    for thing in (psring, psring.Communicator, psring.Group, psring.Table, psring.Request, psring.Error):
        text = pydoc.plain(pydoc.render_doc(thing))
        assert thing.__doc__ and len(text) > 300
    for name in psring.__all__:
        assert hasattr(psring, name)
    for kind in (psring.Communicator, psring.Group, psring.Table):
        assert all(value.__doc__ for name, value in vars(kind).items() if callable(value) and not name.startswith("_"))


def main(what):
    comm = psring.Communicator(deadline=60)
    if what == "raise":
        if comm.world.rank == 1:
            raise ValueError("this rank has\nhad enough")
        try:
            comm.world.receive(floats(1), 1)
        except psring.PeerError as failure:
            print("told:", failure.rank, failure.host, failure.line, flush=True)
    else:
        # The last one's mismatch breaks the world for good.
        checks = [collectives, requests, messages, groups, threads, tables, says, refusals]
        for check in checks:
            check(comm)
            if comm.world.rank == 0:
                print(check.__name__, flush=True)
        comm.abort("the mismatch was wanted")


main(sys.argv[1])
