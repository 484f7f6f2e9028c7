"""Tables: arrays in parts, which lie on the shards. A parameter server."""

from ._buffers import TYPES, array_of
from ._errors import usage
from ._library import call_of, new, op_of
from ._psring import ffi, lib

ALL: int = lib.PSRING_ALL

# A table's dtype, and that of what its shards hold.
_HELD = {"float32": "float32", "float64": "float64", "float16": "float32", "bfloat16": "float32"}


class Table:
    """An array in parts. A push gives a part's update values to work with, a pull gets
    the part's values; psring.h says what they mean under each sync. Made by Group.table().

    part is a part's number, or ALL: all parts, one after another."""

    def __init__(self, group, name, parts, update, sync, initial, updates, fold, dtype, encoding, deadline):
        self._group, self._comm = group, group._comm
        if dtype not in _HELD:
            raise usage("dtype is %r: a table's is one of %s" % (dtype, ", ".join(_HELD)))
        self.dtype = dtype
        self.parts = list(parts)
        self._handle = ffi.new("psring_table **")
        held = {"parts": ffi.new("size_t[]", self.parts), "update": ffi.new("char[]", update.encode()),
                "sync": ffi.new("char[]", sync.encode()), "name": ffi.new("char[]", name.encode())}
        if encoding is not None:
            held["encoding"] = ffi.new("char[]", encoding.encode())
        options = new("psring_table_options", parts=held["parts"], part_count=len(self.parts), update=held["update"],
                      sync=held["sync"], updates=updates, fold=op_of(fold), type=TYPES[dtype], encoding=held.get("encoding", ffi.NULL))
        if initial is not None:
            held["initial"] = self._array(initial, ALL, False)
            options.initial = held["initial"].pointer
        call, held["call"] = call_of(deadline=deadline)
        self._comm._apart(lambda: lib.psring_table_open(group._live(), held["name"], options, call, self._handle),
                          group._handle, (held, options, call))

    @property
    def states(self) -> int:
        """The number of arrays that the update keeps beside the values: 1 for momentum."""
        return lib.psring_table_states(self._live())

    @property
    def staleness(self) -> int:
        """How many pushes the slowest worker was behind, at most, since this was last asked."""
        return lib.psring_table_staleness(self._live())

    def push(self, values, part: int = ALL, *, asynchronous: bool = False, **call):
        """Gives values to the part's update. In BSP they are summed over all workers."""
        a = self._array(values, part, False)
        return self._run((a,), lambda c, r: lib.psring_push(self._live(), part, a.pointer, c, r), None, asynchronous, call)

    def pull(self, out, part: int = ALL, *, asynchronous: bool = False, **call):
        """Gets the values after this worker's last push."""
        a = self._array(out, part, True)
        return self._run((a,), lambda c, r: lib.psring_pull(self._live(), part, a.pointer, c, r), out, asynchronous, call)

    def push_pull(self, values, out=None, part: int = ALL, *, asynchronous: bool = False, **call):
        """A push and a pull in one, as fast as a push. out may be values, and is, if left out."""
        a = self._array(values, part, out is None)
        b = a if out is None else self._array(out, part, True)
        return self._run((a, b), lambda c, r: lib.psring_push_pull(self._live(), part, a.pointer, b.pointer, c, r),
                         values if out is None else out, asynchronous, call)

    def read(self, out, state: int = 0, part: int = ALL, *, deadline: "float | None" = None):
        """Gets the values (state 0), or what the update keeps beside them (1 to states), as the
        shards hold them: float64 if that is the table's dtype, else float32. All ranks call it; out
        None: this one wants nothing. What is read contains every push before it."""
        a = None if out is None else self._array(out, part, True, _HELD[self.dtype])
        call, held = call_of(deadline=deadline)
        self._comm._apart(lambda: lib.psring_table_read(self._live(), state, part, ffi.NULL if a is None else a.pointer,
                                                        self._count(part), call), self._group._handle, (a, call, held))
        return out

    def write(self, values, state: int = 0, part: int = ALL, *, deadline: "float | None" = None) -> None:
        """Replaces the values, or what the update keeps beside them, by those of rank 0, of the
        type that read has. All ranks call it."""
        a = self._array(values, part, False, _HELD[self.dtype])
        call, held = call_of(deadline=deadline)
        self._comm._apart(lambda: lib.psring_table_write(self._live(), state, part, a.pointer, a.count, call),
                          self._group._handle, (a, call, held))

    def read_residual(self, out, part: int = ALL):
        """Gets what the encoding of this rank's pushes has kept back, as float32. This rank alone
        calls it, with no push or pull under way: see psring_table_residual_read."""
        return self._residual(out, part, True, lib.psring_table_residual_read)

    def write_residual(self, values, part: int = ALL) -> None:
        """Replaces it: the next push of the part adds it."""
        self._residual(values, part, False, lib.psring_table_residual_write)

    def _residual(self, values, part, writable, call):
        a = self._array(values, part, writable, "float32")
        err = call(self._live(), part, ffi.cast("float *", a.pointer), a.count)
        if err != lib.PSRING_OK:
            raise self._comm._error(err)
        return values

    def set(self, arguments: str, start: int = 0, *, deadline: "float | None" = None) -> None:
        """Gives the update new arguments, all of them: "lr=0.05 momentum=0.9". All ranks call it.
        start: the first update that has them; 0: that of the next push."""
        text = ffi.new("char[]", arguments.encode())
        call, held = call_of(deadline=deadline)
        self._comm._apart(lambda: lib.psring_table_set(self._live(), text, start, call), self._group._handle, (text, call, held))

    def close(self, *, deadline: "float | None" = None) -> None:
        """All ranks call it; the values are lost."""
        if self._handle[0] != ffi.NULL and not self._comm.closed:
            call, held = call_of(deadline=deadline)
            self._comm._apart(lambda: lib.psring_table_close(self._handle, call), self._group._handle, (call, held))

    def _live(self):
        self._comm._live()
        if self._handle[0] == ffi.NULL:
            raise usage("the table is closed")
        return self._handle[0]

    def _count(self, part):
        if part == ALL:
            return sum(self.parts)
        if not 0 <= part < len(self.parts):
            raise usage("the table has no part %d, but 0 to %d" % (part, len(self.parts) - 1))
        return self.parts[part]

    def _array(self, values, part, writable, dtype=None):
        a = array_of(values, writable, "the array")
        if a.type != TYPES[dtype or self.dtype]:
            raise usage("this table's values are %s here" % (dtype or self.dtype))
        if a.count != self._count(part):
            raise usage("the array has %d values instead of %d" % (a.count, self._count(part)))
        return a

    def _run(self, arrays, start, result, asynchronous, call):
        self._live()
        options, held = call_of(**call)
        request = self._comm._start(self._group._handle, arrays, lambda handle: start(options, handle), result)
        return request if asynchronous else request.wait()
