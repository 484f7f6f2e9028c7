"""A communication hook for DistributedDataParallel."""

import torch

from .. import _communicator
from . import _place


def ddp_hook(state: "_communicator.Group | None", bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages DDP's gradients by psring's all-reduce:

        model = DistributedDataParallel(model)
        model.register_comm_hook(None, psring.ddp_hook)

    state is None, or the psring.Group whose ranks are those of DDP's process group. The bits are
    the same on all ranks, and with 2 ranks those of DDP with Gloo."""
    group = _place.world() if state is None else state
    tensor = bucket.buffer()
    future = torch.futures.Future()
    # A mean is a sum that is divided at the end; with 2 ranks halves first have the same bits.
    request = group.all_reduce(tensor, op="mean", asynchronous=True, name="gradients, bucket %d" % bucket.index())

    def finish():
        # A failure is raised here: DDP would put a trace of its own around what a future holds.
        request.wait()
        future.set_result(tensor)

    # DDP asks for its futures in a callback that it queues when its last bucket has been here. This
    # one runs before, on the thread that runs backward, so no other thread is needed.
    torch.autograd.Variable._execution_engine.queue_callback(finish)
    return future
