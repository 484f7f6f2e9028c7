"""psring: collectives, messages and parameter servers between the processes of a program.

    import psring
    with psring.Communicator() as comm:        # as psring run, torchrun, Slurm or mpirun started it
        comm.world.all_reduce(array)           # NumPy, PyTorch, array.array, ..; in place

Start it with `psring run -n 4 -- python3 program.py`. psring.torch is for users of PyTorch. The
meaning of each call, and how algorithms and deadlines work, is in psring.h and docs/library.md.
"""

from ._buffers import register
from ._communicator import ANY_RANK, ANY_TAG, Communicator, Counts, Group, Message
from ._errors import (BrokenError, CancelledError, Error, MismatchError, OutOfMemoryError, PeerError, TimeoutError,
                      UnsupportedError, UsageError)
from ._library import PersistentRequest, Request
from ._psring import lib as _lib
from ._table import ALL, Table

__version__ = "%d.%d.%d" % (_lib.psring_version() >> 16, _lib.psring_version() >> 8 & 255, _lib.psring_version() & 255)
__all__ = ["ALL", "ANY_RANK", "ANY_TAG", "BrokenError", "CancelledError", "Communicator", "Counts", "Error", "Group", "Message",
           "MismatchError", "OutOfMemoryError", "PeerError", "PersistentRequest", "Request", "Table", "TimeoutError",
           "UnsupportedError", "UsageError", "register"]

# What tracebacks and help() call them: by the names under which programs have them.
for _public in __all__:
    if isinstance(globals()[_public], type):
        globals()[_public].__module__ = __name__
