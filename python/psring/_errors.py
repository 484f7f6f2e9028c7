"""What a failed call raises."""

from ._psring import ffi, lib


class Error(Exception):
    """A call of psring failed.

    code   the error's name in psring.h, in small letters: "usage", "timeout", "peer", ..
    line   one line that says what failed, where, and who is to blame
    rank   the rank to blame, or None. Ranks are numbered as error lines number them: first those of
           the world, then the shards
    other  in a mismatch the second rank, or None
    host   the name of that rank's host, or None
    """

    code: str
    line: str
    rank: "int | None"
    other: "int | None"
    host: "str | None"

    def __init__(self, code, line, rank=None, other=None, host=None):
        super().__init__(line)
        self.code, self.line, self.rank, self.other, self.host = code, line, rank, other, host

    def __reduce__(self):
        return type(self), (self.code, self.line, self.rank, self.other, self.host)


class UsageError(Error, ValueError):
    """An argument is wrong; nothing was started, and the call does not count."""


class UnsupportedError(Error, NotImplementedError):
    """The call is valid, but this version or build does not have it."""


class OutOfMemoryError(Error, MemoryError):
    """There is no memory."""


class TimeoutError(Error, TimeoutError):  # noqa: A001: psring.TimeoutError is Python's as well
    """A deadline passed; the rank to blame lives."""


class PeerError(Error, ConnectionError):
    """Another rank failed or is gone, or the others have given this rank up."""


class MismatchError(Error):
    """Two ranks made different calls where all must make the same."""


class CancelledError(Error):
    """A rank revoked the group, or shrinks it."""


class BrokenError(Error):
    """The group has failed before; rank and host are those of the first failure."""


CLASSES = {
    lib.PSRING_ERR_USAGE: UsageError,
    lib.PSRING_ERR_UNSUPPORTED: UnsupportedError,
    lib.PSRING_ERR_NOMEM: OutOfMemoryError,
    lib.PSRING_ERR_TIMEOUT: TimeoutError,
    lib.PSRING_ERR_PEER: PeerError,
    lib.PSRING_ERR_MISMATCH: MismatchError,
    lib.PSRING_ERR_CANCELLED: CancelledError,
    lib.PSRING_ERR_BROKEN: BrokenError,
}


def text(pointer):
    """A C string, or None. What comes from elsewhere may be no UTF-8."""
    return None if pointer == ffi.NULL else ffi.string(pointer).decode(errors="replace")


def code_name(err):
    return text(lib.psring_err_name(err)).replace(" ", "_")


def usage(line):
    """The error of an argument that the library never saw."""
    return UsageError(code_name(lib.PSRING_ERR_USAGE), line)


def error_of(err, group=ffi.NULL, world=ffi.NULL):
    """The exception for what a call on this thread has just returned. group: whose failure it may
    be; NULL: none's."""
    line = text(lib.psring_err_detail()) or code_name(err)
    rank = other = host = None
    if group != ffi.NULL and err not in (lib.PSRING_ERR_USAGE, lib.PSRING_ERR_UNSUPPORTED):
        failure = ffi.new("psring_failure *", {"size": ffi.sizeof("psring_failure")})
        if lib.psring_group_failure(group, failure) == lib.PSRING_OK:
            rank = failure.rank if failure.rank >= 0 else None
            other = failure.other if failure.other >= 0 else None
        if rank is not None and world != ffi.NULL:
            host = text(lib.psring_host(world, rank))  # None: it is a shard
    return CLASSES.get(err, Error)(code_name(err), line, rank, other, host)
