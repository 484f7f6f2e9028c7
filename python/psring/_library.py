"""The library's calls: options made, waits that Ctrl-C ends, errors raised."""

from ._buffers import TYPES, array_of
from ._errors import text, usage
from ._psring import ffi, lib

OPS = {"sum": lib.PSRING_SUM, "product": lib.PSRING_PRODUCT, "minimum": lib.PSRING_MINIMUM,
       "maximum": lib.PSRING_MAXIMUM, "mean": lib.PSRING_MEAN, "bitwise_and": lib.PSRING_BITWISE_AND,
       "bitwise_or": lib.PSRING_BITWISE_OR, "bitwise_xor": lib.PSRING_BITWISE_XOR,
       "logical_and": lib.PSRING_LOGICAL_AND, "logical_or": lib.PSRING_LOGICAL_OR,
       "logical_xor": lib.PSRING_LOGICAL_XOR}
# A wait comes back to Python so often, which then sees Ctrl-C.
SLICE_MS = 100


def op_of(op):
    if op not in OPS:
        raise usage("there is no operation %r, but %s" % (op, ", ".join(OPS)))
    return OPS[op]


def new(kind, **fields):
    """A struct that begins with its size."""
    struct = ffi.new(kind + " *")
    struct.size = ffi.sizeof(kind)
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct


def check_encoding(encoding):
    """Whether a rank keeps what this encoding rounds away. UsageError: there is no such
    encoding."""
    keeps = ffi.new("bool *")
    if encoding is not None and lib.psring_encoding_check(encoding.encode(), keeps) != lib.PSRING_OK:
        raise usage(text(lib.psring_err_detail()))
    return keeps[0]


def milliseconds(seconds):
    """A deadline for the library; None: the communicator's own."""
    if seconds is None:
        return 0
    if seconds == float("inf"):
        return lib.PSRING_FOREVER
    if not seconds > 0:
        raise usage("a deadline of %r s is not above 0" % (seconds,))
    return max(1, int(seconds * 1000))


def call_of(deadline=None, algorithm=None, counts=None, persistent=False, name=None, encoding=None, priority=0, buffered=False,
            message=None):
    """(psring_call, what it borrows); (NULL, None) if all is at its default."""
    if (deadline is None and algorithm is None and counts is None and not persistent and name is None and encoding is None
            and priority == 0 and not buffered and message is None):
        return ffi.NULL, None
    held = []

    def borrowed(value):
        held.append(ffi.new("char[]", value.encode()))
        return held[-1]

    call = new("psring_call", deadline_ms=milliseconds(deadline), persistent=persistent, priority=priority, buffered=buffered)
    if algorithm is not None:
        call.algorithm = borrowed(algorithm)
    if name is not None:
        call.name = borrowed(name)
    if encoding is not None:
        call.encoding = borrowed(encoding)
    if counts is not None:
        held.append(ffi.new("size_t[]", list(counts)))
        call.counts = held[-1]
    if message is not None:
        call.message = message
    return call, held


class Request:
    """An operation under way, or a persistent one.

    The arrays belong to the library until wait() or done() has said that the operation has ended;
    the request keeps them alive. One thread at a time uses it. A request that nobody holds any more
    goes on by itself."""

    def __init__(self, owner, handle, group, keep, result=None):
        self._owner, self._handle, self._group, self._keep, self._result = owner, handle, group, keep, result
        self._ended, self._failure = False, None

    def __del__(self):
        # Nothing of the library here: this may be any thread, or a child after fork().
        if self._handle[0] != ffi.NULL:
            self._owner._abandoned.append((self._handle, self._keep))

    def _free(self):
        """Gives the library's request back once it has ended."""
        if not self._owner.closed:
            lib.psring_request_free(self._handle)
        self._handle[0], self._keep = ffi.NULL, None

    def _finish(self, err):
        self._ended, self._failure = True, None
        if err != lib.PSRING_OK:
            self._failure = self._owner._error(err, self._group)
        self._free()
        return self._outcome()

    def _outcome(self):
        if self._failure is not None:
            raise self._failure
        return self._result() if callable(self._result) else self._result

    def done(self) -> bool:
        """Whether the operation has ended; does not wait. Raises what it failed with."""
        if not self._ended:
            err = lib.psring_test(self._live())
            if err == lib.PSRING_ERR_BUSY:
                return False
            self._finish(err)
        self._outcome()
        return True

    def wait(self, timeout: "float | None" = None):
        """Waits until the operation has ended and returns its result; the operation's own deadline
        ends the wait. timeout: wait at most so many seconds, and return False if it has not ended.
        Ctrl-C ends the wait, not the operation."""
        if self._ended:
            return self._outcome()
        left = None if timeout is None else max(0, int(timeout * 1000))
        while True:
            slice_ms = SLICE_MS if left is None else min(left, SLICE_MS)
            err = lib.psring_wait(self._live(), slice_ms)
            if err != lib.PSRING_ERR_BUSY:
                return self._finish(err)
            if left is not None:
                left -= slice_ms
                if left <= 0:
                    return False

    def algorithm(self) -> "str | None":
        """The name of the algorithm that was chosen, or None if that is not known yet."""
        return text(lib.psring_algorithm(self._live()))

    def _live(self):
        if self._handle[0] == ffi.NULL or self._owner.closed:
            raise usage("the request was closed, or its communicator")
        return self._handle[0]


class PersistentRequest(Request):
    """A request that start() starts as often as wanted. close() gives it back."""

    def start(self) -> "PersistentRequest":
        """Starts it; it may not be under way."""
        err = lib.psring_start(self._live())
        if err != lib.PSRING_OK:
            raise self._owner._error(err, self._group)
        self._ended = False
        return self

    def read_residual(self, out):
        """Gets what this rank's encoding has kept back, as float32: see psring_residual_read."""
        return self._residual(out, True, lib.psring_residual_read)

    def write_residual(self, values) -> None:
        """Replaces it, by float32: the next start adds it."""
        self._residual(values, False, lib.psring_residual_write)

    def _residual(self, values, writable, call):
        a = array_of(values, writable)
        if a.type != TYPES["float32"]:
            raise usage("a residual's values are float32")
        err = call(self._live(), ffi.cast("float *", a.pointer), a.count)
        if err != lib.PSRING_OK:
            raise self._owner._error(err)
        return values

    def close(self) -> None:
        """Waits until it has ended and gives it back."""
        Request._free(self)

    def _free(self):
        pass  # that it has ended is no reason: it may be started again
