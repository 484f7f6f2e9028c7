"""psring for PyTorch: DDP's gradients by psring, or an optimizer that exchanges them by a ring or
by parameter servers.

    import psring.torch as psring
    psring.init(shards=2)
    psring.broadcast_parameters(model.state_dict())
    optimizer = psring.DistributedOptimizer(optimizer, mode="ps")

or with DistributedDataParallel

    ddp.register_comm_hook(None, psring.ddp_hook)
    torch.distributed.init_process_group("psring")          # or all of its collectives

docs/pytorch.md is the guide.
"""

try:
    import torch as _torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise  # it is there, and lacks something itself
    raise ModuleNotFoundError("psring.torch needs PyTorch, which this Python does not have: pip install torch, or"
                              " apt install python3-torch", name="torch") from None
if not hasattr(_torch.Tensor, "register_post_accumulate_grad_hook"):
    raise ImportError("psring.torch needs PyTorch 2.1 or later, and this Python has %s: pip install torch" % _torch.__version__, name="torch")

from .._errors import (BrokenError, CancelledError, Error, MismatchError, OutOfMemoryError, PeerError, TimeoutError,
                       UnsupportedError, UsageError)
from . import _backend
from ._collectives import allgather, allreduce, barrier, broadcast, broadcast_optimizer_state, broadcast_parameters
from ._distributed_optimizer import DistributedOptimizer
from ._hook import ddp_hook
from ._place import comm, init, is_initialized, local_rank, local_size, rank, shutdown, size, world
from ._profile import profile

__all__ = ["BrokenError", "CancelledError", "DistributedOptimizer", "Error", "MismatchError", "OutOfMemoryError", "PeerError",
           "TimeoutError", "UnsupportedError", "UsageError", "allgather", "allreduce", "barrier", "broadcast",
           "broadcast_optimizer_state", "broadcast_parameters", "comm", "ddp_hook", "init", "is_initialized", "local_rank",
           "local_size", "profile", "rank", "shutdown", "size", "world"]

_backend.register()
