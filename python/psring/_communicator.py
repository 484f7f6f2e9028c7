"""The communicator of a process, and groups of ranks."""

import atexit
import os
import sys
import threading
import traceback
import typing
import weakref

from ._buffers import Array, array_of
from ._errors import error_of, text, usage
from ._library import PersistentRequest, Request, call_of, milliseconds, new, op_of
from ._psring import ffi, lib
from ._table import Table

ANY_RANK: int = lib.PSRING_ANY_RANK
ANY_TAG: int = lib.PSRING_ANY_TAG


class Message(typing.NamedTuple):
    """A message that came, or that waits to be received."""

    source: int  # the sender's rank in the group
    tag: int
    count: int  # number of values


class Counts(typing.NamedTuple):
    """What this process has sent and received since it joined."""

    bytes_sent: int
    bytes_received: int
    messages_sent: int
    messages_received: int
    strangers: int  # connections and messages of nobody that has joined
    waited_s: float
    bytes_lent: int  # the part of bytes_sent that went through shared memory
    bytes_sealed: int  # the part that went sealed between hosts


class Communicator:
    """This process as one of the ranks: joins when it is made, leaves with close().

    Without arguments it takes its place from the environment, as psring run, torchrun, Slurm and
    mpirun set it; without a launcher it is alone. Or all is said: the number of ranks, this one's
    rank, and the scheduler where they meet.

        with psring.Communicator() as comm:
            comm.world.all_reduce(array)

    As a context it leaves in order, or after an exception with abort(), so that the others hear at
    once. Any thread may call it. world is the Group of all ranks but the shards.

        ranks           the number of all ranks, shards included; 0: the environment says the place
        rank            this one's, from 0; None: the scheduler gives one
        scheduler       "HOST:PORT", or the path of a socket in a folder of this user alone
        host_scheduler  this process runs the scheduler; None: that of rank 0 does
        shards          so many of the ranks, the last ones, are shards; the same on all ranks
        deadline        seconds after which a call that waits in vain fails; None: the run's, or 30
        join_deadline   how long to wait for others to join; None: deadline
        key_file        who may join: a file, or the folder, that psring keygen wrote. Over TCP it
                        is needed
        key             the text of a key that all ranks share, in place of key_file
        host            this host's name; None: its own
        interface       over TCP: the address or network interface to listen on; None: 127.0.0.1
        transport       "auto", "shm", "ipc" or "tcp": how values travel within a host
        sharing         over TCP: a folder in which the ranks of this host meet to share memory
        agree           bytes that must be the same on all ranks, 64 KiB at most
    """

    world: "Group"

    def __init__(self, *, ranks: int = 0, rank: "int | None" = None, scheduler: "str | None" = None,
                 host_scheduler: "bool | None" = None, shards: int = 0, deadline: "float | None" = None,
                 join_deadline: "float | None" = None, key_file: "str | None" = None, key: "str | None" = None, host: "str | None" = None,
                 interface: "str | None" = None, transport: "str | None" = None, sharing: "str | None" = None,
                 agree: bytes = b"") -> None:
        self._handle = ffi.new("psring_comm **")
        self._pid, self._abandoned, self._sweeping = os.getpid(), [], threading.Lock()
        if ranks == 0 and not (rank is None and scheduler is None and host_scheduler is None):
            raise usage("rank, scheduler and host_scheduler need ranks, the number of all of them")
        options = new("psring_options", ranks=ranks, rank=lib.PSRING_NO_RANK if rank is None and ranks else rank or 0, shards=shards,
                      deadline_ms=milliseconds(deadline), join_deadline_ms=milliseconds(join_deadline), agree_bytes=len(agree),
                      host_scheduler=ranks > 1 and rank == 0 if host_scheduler is None else host_scheduler)
        held = [ffi.from_buffer(agree)]
        options.agree = held[0] if agree else ffi.NULL
        for name, value in {"scheduler": scheduler, "key_file": key_file, "key": key, "host": host, "interface": interface,
                            "transport": transport, "sharing": sharing}.items():
            if value is not None:
                held.append(ffi.new("char[]", os.fsencode(value)))
                setattr(options, name, held[-1])
        self._apart(lambda: lib.psring_init(options, self._handle), held=held)
        self.world = Group(self, lib.psring_world(self._handle[0]))
        _open.add(self)

    # ---- its end ----

    @property
    def closed(self) -> bool:
        """Whether it has been closed, or aborted, or this is a child after fork()."""
        return self._handle[0] == ffi.NULL or os.getpid() != self._pid

    def close(self) -> None:
        """Waits until all that was started has ended, and leaves in order. Raises the failure that
        no call has raised before. Closing again does nothing."""
        if self.closed:
            return
        _open.discard(self)
        self._apart(lambda: lib.psring_close(self._handle))

    def abort(self, line: str = "aborted") -> None:
        """Leaves at once; the calls of all other ranks fail with this line."""
        if self.closed:
            return
        _open.discard(self)
        lib.psring_abort(self._handle, line.encode())

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind, value, trace) -> None:
        if kind is None:
            self.close()
        else:
            self.abort(exception_line(value))

    # ---- what it says ----

    @property
    def shards(self) -> int:
        """The number of shards, which hold tables."""
        return lib.psring_shards(self._live())

    @property
    def is_shard(self) -> bool:
        """Whether this rank is a shard: call serve()."""
        return lib.psring_is_shard(self._live())

    def serve(self) -> None:
        """Holds the tables that other ranks open, until they have left."""
        self._apart(lambda: lib.psring_serve(self._live()))

    def report(self, step: int) -> None:
        """Says, between calls, that this rank is at work; deadlines of others begin anew."""
        lib.psring_report(self._live(), step)

    def counts(self) -> Counts:
        """What this process has sent and received."""
        counts = new("psring_counts")
        err = lib.psring_counts_get(self._live(), counts)
        if err != lib.PSRING_OK:
            raise self._error(err)
        return Counts(*(getattr(counts, name) for name in Counts._fields))

    # ---- for what is made from it ----

    def _live(self):
        if self.closed:
            raise usage("the communicator is closed")
        return self._handle[0]

    def _error(self, err, group=ffi.NULL):
        world = lib.psring_world(self._handle[0]) if self._handle[0] != ffi.NULL else ffi.NULL
        return error_of(err, group if world != ffi.NULL else ffi.NULL, world)

    def _start(self, group, keep, start, result=None, persistent=False):
        """A request for what start(handle) starts. keep: what it works on."""
        handle = ffi.new("psring_request **")
        self._live()
        self._sweep()
        err = start(handle)
        if err != lib.PSRING_OK:
            raise self._error(err, group)
        return (PersistentRequest if persistent else Request)(self, handle, group, keep, result)

    def _sweep(self):
        """Gives back requests that nobody waits for any more, once they have ended."""
        if self._abandoned:
            with self._sweeping:
                for _ in range(len(self._abandoned)):
                    handle, keep = self._abandoned.pop(0)
                    if lib.psring_test(handle[0]) == lib.PSRING_ERR_BUSY:
                        self._abandoned.append((handle, keep))
                    else:
                        lib.psring_request_free(handle)

    def _apart(self, call, group=ffi.NULL, held=None):
        """A call that the library cannot only start, in a thread of its own, so that Ctrl-C ends
        the wait for it. The call goes on then, with what it has borrowed (held)."""
        failures = []
        ended = threading.Event()

        def run(_held):
            try:
                err = call()
                if err != lib.PSRING_OK:
                    failures.append(self._error(err, group))
            except BaseException as failure:  # noqa: BLE001: raised below
                failures.append(failure)
            ended.set()

        threading.Thread(target=run, args=(held,), daemon=True).start()
        while not ended.wait(0.1):
            pass
        if failures:
            raise failures[0]


class Group:
    """Some of the ranks, numbered 0 .. size-1; every rank of a group makes the same calls of it in
    the same order.

    Arrays are anything with the buffer protocol (NumPy's arrays, array.array, bytearray) or DLPack
    on the CPU (PyTorch's tensors). Where out is left out, data is replaced by the result. A call
    returns when its operation has ended; with asynchronous=True it returns a Request at once, and
    the arrays belong to the library until that has ended. All calls take these as keywords:

        deadline    seconds, in place of the communicator's
        algorithm   its name, in place of the one that fits: see psring.h
        name        what lines about timeouts call the operation
        encoding    of float32 sums: "fp16", "bf16"; if persistent also "int8", "topk:R", "1bit"
        priority    of an all-reduce by ring; the smallest goes first
        persistent  True: a PersistentRequest, which start() starts as often as wanted
    """

    def __init__(self, comm: Communicator, handle, owned: bool = False) -> None:
        self._comm, self._handle, self._owned = comm, handle, owned
        self.rank: int = lib.psring_rank(handle)
        self.size: int = lib.psring_size(handle)

    # ---- what it says ----

    def host(self, rank: int) -> "str | None":
        """The name of a rank's host."""
        return text(lib.psring_host(self._live(), rank))

    @property
    def hosts(self) -> "list[str]":
        """The names of all ranks' hosts."""
        return [self.host(rank) for rank in range(self.size)]

    @property
    def epoch(self) -> int:
        """0; larger in a group that shrink() made."""
        return lib.psring_epoch(self._live())

    @property
    def local_rank(self) -> int:
        """This rank's number among those of the group on its host."""
        return lib.psring_local_rank(self._live(), ffi.NULL)

    @property
    def local_size(self) -> int:
        """How many ranks of the group are on this host."""
        size = ffi.new("int *")
        lib.psring_local_rank(self._live(), size)
        return size[0]

    def translate(self, rank: int, to: "Group") -> "int | None":
        """The rank that a rank of this group has in another one; None if it is not there."""
        there = lib.psring_group_translate(self._live(), rank, to._live())
        return there if there >= 0 else None

    # ---- collectives ----

    def barrier(self, *, asynchronous: bool = False, **call):
        """Returns on no rank before all have called it. Raises MismatchError if earlier calls of
        the group differed."""
        return self._run((), lambda c, r: lib.psring_barrier(self._handle, c, r), None, asynchronous, call)

    def broadcast(self, data, root: int = 0, *, asynchronous: bool = False, **call):
        """Copies data of rank root to all ranks."""
        a = array_of(data, True, "data")
        return self._run((a,), lambda c, r: lib.psring_broadcast(self._handle, a.pointer, a.count, a.type, root, c, r),
                         data, asynchronous, call)

    def all_reduce(self, data, out=None, op: str = "sum", *, asynchronous: bool = False, **call):
        """out = data of rank 0 op data of rank 1 op ..; on every rank the same bits. op: sum, mean,
        product, minimum, maximum, bitwise_and, .. , logical_and, .."""
        s, d, op = *self._pair(data, out), op_of(op)
        return self._run((s, d), lambda c, r: lib.psring_all_reduce(self._handle, s.pointer, d.pointer, s.count, s.type, op, c, r),
                         data if out is None else out, asynchronous, call)

    def reduce(self, data, out=None, op: str = "sum", root: int = 0, *, asynchronous: bool = False, **call):
        """As all_reduce, on rank root alone; elsewhere out is scratch memory."""
        s, d, op = *self._pair(data, out), op_of(op)
        return self._run((s, d), lambda c, r: lib.psring_reduce(self._handle, s.pointer, d.pointer, s.count, s.type, op, root, c, r),
                         data if out is None else out, asynchronous, call)

    def scan(self, data, out=None, op: str = "sum", *, asynchronous: bool = False, **call):
        """out on rank r = data of rank 0 op .. op data of rank r."""
        s, d, op = *self._pair(data, out), op_of(op)
        return self._run((s, d), lambda c, r: lib.psring_scan(self._handle, s.pointer, d.pointer, s.count, s.type, op, c, r),
                         data if out is None else out, asynchronous, call)

    def exscan(self, data, out=None, op: str = "sum", *, asynchronous: bool = False, **call):
        """out on rank r = data of rank 0 op .. op data of rank r-1; on rank 0 out stays."""
        s, d, op = *self._pair(data, out), op_of(op)
        return self._run((s, d), lambda c, r: lib.psring_exscan(self._handle, s.pointer, d.pointer, s.count, s.type, op, c, r),
                         data if out is None else out, asynchronous, call)

    def all_gather(self, data, out, *, counts: "typing.Sequence[int] | None" = None, asynchronous: bool = False, **call):
        """out[all parts, in the order of ranks] = each rank's data. counts: the number of values of
        each rank's part where they differ."""
        s, d = self._two(data, out, counts, whole_out=True)
        return self._run((s, d), lambda c, r: lib.psring_all_gather(self._handle, s.pointer, d.pointer, s.count, s.type, c, r),
                         out, asynchronous, dict(call, counts=counts))

    def gather(self, data, out=None, root: int = 0, *, counts: "typing.Sequence[int] | None" = None, asynchronous: bool = False, **call):
        """As all_gather, on rank root alone; elsewhere out is not needed."""
        s = array_of(data, False, "data")
        d = self._whole(s, out, counts, "out") if self.rank == root else Array(ffi.NULL, 0, s.type, None)
        return self._run((s, d), lambda c, r: lib.psring_gather(self._handle, s.pointer, d.pointer, s.count, s.type, root, c, r),
                         out, asynchronous, dict(call, counts=counts))

    def scatter(self, data, out, root: int = 0, *, counts: "typing.Sequence[int] | None" = None, asynchronous: bool = False, **call):
        """out = this rank's part of rank root's data; elsewhere data is not needed."""
        d = array_of(out, True, "out")
        s = self._whole(d, data, counts, "data", False) if self.rank == root else Array(ffi.NULL, 0, d.type, None)
        return self._run((s, d), lambda c, r: lib.psring_scatter(self._handle, s.pointer, d.pointer, d.count, d.type, root, c, r),
                         out, asynchronous, dict(call, counts=counts))

    def reduce_scatter(self, data, out, op: str = "sum", *, counts: "typing.Sequence[int] | None" = None, asynchronous: bool = False, **call):
        """out = this rank's part of all ranks' data, reduced."""
        (d, s), op = self._two(out, data, counts, whole_out=False), op_of(op)
        return self._run((s, d), lambda c, r: lib.psring_reduce_scatter(self._handle, s.pointer, d.pointer, d.count, d.type, op, c, r),
                         out, asynchronous, dict(call, counts=counts))

    def all_to_all(self, data, out=None, *, send_counts: "typing.Sequence[int] | None" = None,
                   receive_counts: "typing.Sequence[int] | None" = None, asynchronous: bool = False, **call):
        """Part r of data goes to rank r, and part r of out comes from rank r. Parts are equal, or
        as long as the counts say, which are given together."""
        if (send_counts is None) != (receive_counts is None):
            raise usage("send_counts and receive_counts are given together")
        s = array_of(data, out is None, "data")
        d = s if out is None else array_of(out, True, "out")
        if s.type != d.type:
            raise usage("data and out have different types")
        if send_counts is None:
            if s.count != d.count or s.count % self.size:
                raise usage("data has %d values and out %d: both must have as many, a multiple of %d" % (s.count, d.count, self.size))
            return self._run((s, d), lambda c, r: lib.psring_all_to_all(self._handle, s.pointer, d.pointer, s.count // self.size, s.type,
                                                                       c, r), data if out is None else out, asynchronous, call)
        self._fits(s, sum(self._parts(send_counts)), "data")
        self._fits(d, sum(self._parts(receive_counts)), "out")
        sends, receives = ffi.new("size_t[]", list(send_counts)), ffi.new("size_t[]", list(receive_counts))
        return self._run((s, d), lambda c, r: lib.psring_all_to_all_v(self._handle, s.pointer, sends, d.pointer, receives, s.type, c, r),
                         data if out is None else out, asynchronous, call)

    # ---- messages ----

    def send(self, data, to: int, tag: int = 0, *, asynchronous: bool = False, **call):
        """Sends values to a rank, which calls receive with the same tag, type and count. Ends when
        they have been received; with buffered=True (64 KiB at most) when they have been copied."""
        a = array_of(data, False, "data")
        return self._run((a,), lambda c, r: lib.psring_send(self._handle, a.pointer, a.count, a.type, to, tag, c, r),
                         None, asynchronous, call)

    def receive(self, data, source: int, tag: int = 0, *, shorter: bool = False, asynchronous: bool = False, **call):
        """Receives values from a rank, or from ANY_RANK with any tag (ANY_TAG). Returns a Message
        with the sender. The message has exactly as many values as data; with shorter=True, and from
        ANY_RANK or ANY_TAG, at most as many."""
        a = array_of(data, True, "data")
        if not shorter and source != ANY_RANK and tag != ANY_TAG:
            came = Message(source, tag, a.count)
        else:
            message = call["message"] = new("psring_message")
            came = lambda: Message(getattr(message, "from"), message.tag, message.count)
        return self._run((a, call.get("message")), lambda c, r: lib.psring_receive(self._handle, a.pointer, a.count, a.type, source, tag, c, r),
                         came, asynchronous, call)

    def probe(self, source: int = ANY_RANK, tag: int = ANY_TAG) -> "Message | None":
        """The message that receive would take, if this rank has heard of one; does not wait."""
        message = new("psring_message")
        err = lib.psring_probe_now(self._live(), source, tag, message)
        if err == lib.PSRING_ERR_NOT_FOUND:
            return None
        if err != lib.PSRING_OK:
            raise self._comm._error(err, self._handle)
        return Message(getattr(message, "from"), message.tag, message.count)

    # ---- other groups ----

    def split(self, colour: "int | None", key: int = 0, **call) -> "Group | None":
        """A group of the ranks with this colour, ordered by key; None for colour None."""
        return self._made(lambda c, g, r: lib.psring_group_split_start(
            self._handle, lib.PSRING_NO_COLOUR if colour is None else colour, key, c, g, r), call)

    def of_ranks(self, ranks: "typing.Iterable[int]", **call) -> "Group":
        """A group of these ranks, in this order; they alone call it."""
        listed = ffi.new("int[]", list(ranks))
        return self._made(lambda c, g, r: lib.psring_group_from_ranks_start(self._handle, listed, len(listed), c, g, r), call)

    def on_host(self, **call) -> "Group":
        """A group of the ranks that are on this rank's host."""
        return self.split(self.hosts.index(self.host(self.rank)), **call)

    def revoke(self, line: str = "revoked") -> None:
        """Breaks the group on all of its ranks: their calls fail with this line."""
        err = lib.psring_revoke(self._live(), line.encode())
        if err != lib.PSRING_OK:
            raise self._comm._error(err, self._handle)

    def shrink(self, **call) -> "Group":
        """A group of the ranks that live, after a failure; all of them call it."""
        made, (options, held) = ffi.new("psring_group **"), call_of(**call)
        self._comm._apart(lambda: lib.psring_shrink(self._live(), options, made), self._handle, (made, options, held))
        return Group(self._comm, made[0], owned=True)

    def close(self) -> None:
        """Waits for the group's requests and frees it. The world stays."""
        if self._owned and self._handle != ffi.NULL and not self._comm.closed:
            handle = ffi.new("psring_group **", self._handle)
            lib.psring_group_free(handle)
        self._handle = ffi.NULL if self._owned else self._handle

    # ---- tables ----

    def table(self, name: str, parts: "typing.Iterable[int]", *, update: str = "sum", sync: str = "bsp", initial=None, updates: int = 0,
              fold: str = "sum", dtype: str = "float32", encoding: "str | None" = None, deadline: "float | None" = None) -> Table:
        """Opens a table: an array in parts, which lie on the shards. All ranks call it.

        parts    the number of values of each part
        update   what a push does to the values: "sum", "assign", "sgd lr=0.1 momentum=0.9",
                 "adam lr=0.001", or what ranks that serve have defined
        sync     "bsp", "ssp:K" or "async"
        initial  rank 0's values go to all; None: zeros
        updates  how many updates an earlier run has made
        fold     of "bsp": "sum" or "mean" of all workers' pushes
        dtype    of what is pushed and pulled: "float32"; "float16" or "bfloat16", which the shards
                 hold as float32; "float64", of which the optimizers have none
        encoding of float32: how pushes are sent. "fp16", "bf16", "int8", "topk:R" or "1bit"; what
                 the last three round away is added to the next push of the part
        """
        return Table(self, name, parts, update, sync, initial, updates, fold, dtype, encoding, deadline)

    # ---- how ----

    def _live(self):
        self._comm._live()
        if self._handle == ffi.NULL:
            raise usage("the group is closed")
        return self._handle

    def _run(self, arrays, start, result, asynchronous, call):
        self._live()
        options, held = call_of(**call)
        persistent = bool(call.get("persistent"))
        request = self._comm._start(self._handle, arrays, lambda handle: start(options, handle), result, persistent)
        return request if asynchronous or persistent else request.wait()

    def _made(self, start, call):
        made, (options, held) = ffi.new("psring_group **"), call_of(**call)
        self._live()
        request = self._comm._start(self._handle, (made,), lambda handle: start(options, made, handle))
        request.wait()
        return Group(self._comm, made[0], owned=True) if made[0] != ffi.NULL else None

    def _parts(self, counts):
        counts = list(counts)
        if len(counts) != self.size:
            raise usage("%d counts for %d ranks" % (len(counts), self.size))
        return counts

    def _fits(self, array, count, what):
        if array.count != count:
            raise usage("%s has %d values instead of %d" % (what, array.count, count))

    def _pair(self, data, out):
        s = array_of(data, out is None, "data")
        d = s if out is None else array_of(out, True, "out")
        if (s.type, s.count) != (d.type, d.count):
            raise usage("data and out differ in type or number of values")
        return s, d

    def _two(self, part, whole, counts, whole_out):
        names = ("data", "out") if whole_out else ("out", "data")
        p = array_of(part, not whole_out, names[0])
        if counts is not None:
            self._fits(p, self._parts(counts)[self.rank], names[0])
        return p, self._whole(p, whole, counts, names[1], whole_out)

    def _whole(self, part, whole, counts, what, writable=True):
        if whole is None:
            raise usage("%s is missing" % what)
        w = array_of(whole, writable, what)
        if w.type != part.type:
            raise usage("data and out have different types")
        self._fits(w, part.count * self.size if counts is None else sum(self._parts(counts)), what)
        return w


# ---- the end of the process ----

_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


def exception_line(failure) -> str:
    """An exception as the one line that other ranks read."""
    return " ".join("".join(traceback.format_exception_only(type(failure), failure)).split())[:400]


@atexit.register
def _leave():
    """A program that ends without closing leaves in order, one that ends with an exception at once,
    with the exception's line. Returns whether it has left all in order."""
    failure = getattr(sys, "last_value", None)
    in_order = failure is None
    for comm in list(_open):
        if failure is not None:
            comm.abort(exception_line(failure))
            continue
        err = lib.psring_close(comm._handle)
        if err != lib.PSRING_OK:
            in_order = False
            print("psring: %s" % text(lib.psring_err_detail()), file=sys.stderr)
    return in_order
