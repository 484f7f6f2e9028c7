"""The communicator that psring.torch works with, and PyTorch's tensors as what the library
takes."""

import torch

from .. import _buffers, _communicator
from .._errors import UnsupportedError, usage
from .._psring import ffi, lib
from . import _shards as shards_of

TYPES = {
    torch.float32: lib.PSRING_FLOAT32, torch.float64: lib.PSRING_FLOAT64, torch.float16: lib.PSRING_FLOAT16,
    torch.bfloat16: lib.PSRING_BFLOAT16, torch.int8: lib.PSRING_INT8, torch.uint8: lib.PSRING_UINT8,
    torch.bool: lib.PSRING_UINT8, torch.int16: lib.PSRING_INT16, torch.int32: lib.PSRING_INT32, torch.int64: lib.PSRING_INT64,
}


def _read(tensor, _writable):
    if tensor.device.type != "cpu":
        raise UnsupportedError("unsupported", "the tensor is on %s; psring takes tensors in the CPU's memory: call .cpu()" % tensor.device)
    if tensor.layout != torch.strided or not tensor.is_contiguous():
        raise usage("the tensor does not lie in one piece; call .contiguous()")
    if tensor.dtype not in TYPES:
        raise usage("the tensor's values are %s, which the library does not have" % tensor.dtype)
    return _buffers.Array(ffi.cast("void *", tensor.data_ptr()), tensor.numel(), TYPES[tensor.dtype], tensor)


_buffers.register(torch.Tensor, _read)

_comm = None
_shards = None  # those that this communicator's ranks have started


def init(shards: "int | None" = None, *, deadline: "float | None" = None) -> None:
    """Joins the other ranks. The launcher's environment says who they are: psring run, torchrun,
    Slurm and mpirun are known, and a program without a launcher is alone.

    shards    how many parameter servers mode "ps" needs. If the launcher has started none (`psring
              run --shards` does), each host's first rank starts its share of them, processes of
              psring-ps, which end with the ranks. They end with the thread that called init too
    deadline  seconds after which a call that waits in vain fails; 30 if left out
    """
    global _comm, _shards
    if _comm is not None and not _comm.closed:
        raise usage("init was called before; shutdown() comes first")
    if shards is not None and not 0 <= shards <= 256:
        raise usage("init(shards=%d): it should be 0 to 256" % shards)
    comm = _communicator.Communicator(deadline=deadline)
    if shards is not None and comm.shards == 0 and shards > 0:
        comm, _shards = shards_of.join(comm, shards, deadline)
    elif shards is not None and comm.shards != shards:
        found = comm.shards
        comm.close()
        raise usage("init(shards=%d), but the launcher started %d: psring run --shards %d" % (shards, found, shards))
    _comm = comm


def shutdown() -> None:
    """Leaves in order, and ends the shards that init() has started. A program that ends does so by
    itself."""
    global _comm, _shards
    if _comm is not None:
        (comm, shards), _comm, _shards = (_comm, _shards), None, None
        in_order = False
        try:
            comm.close()
            in_order = True
        finally:
            if shards is not None:
                shards.end(in_order)


def is_initialized() -> bool:
    """Whether init() has been called, and shutdown() has not."""
    return _comm is not None and not _comm.closed


def comm() -> "_communicator.Communicator":
    """The communicator that init() made, for calls of psring itself."""
    if not is_initialized():
        raise usage("call psring.torch.init() first")
    return _comm


def world() -> "_communicator.Group":
    """All ranks but the shards."""
    return comm().world


def rank() -> int:
    """This process's number, from 0."""
    return world().rank


def size() -> int:
    """The number of processes that train."""
    return world().size


def local_rank() -> int:
    """This process's number among those on its host."""
    return world().local_rank


def local_size() -> int:
    """The number of processes on this host."""
    return world().local_size
