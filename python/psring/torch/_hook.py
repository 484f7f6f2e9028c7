"""A communication hook for DistributedDataParallel."""

import torch

from . import _place


class _Step:
    """The buckets of one backward pass that are under way.

    DDP asks for the sums in a callback that it queues when its last bucket is ready. This queues
    one at the first bucket, so it runs before: there the sums are waited for on the thread that
    runs backward, and no other thread is needed."""

    def __init__(self):
        self.under_way = []

    def add(self, request, future, value):
        if not self.under_way:
            torch.autograd.Variable._execution_engine.queue_callback(self.finish)
        self.under_way.append((request, future, value))

    def finish(self):
        under_way, self.under_way = self.under_way, []
        for request, future, value in under_way:
            try:
                request.wait()
            except Exception as failure:
                # DDP raises what a future holds with a trace of its own around it. Raised here, it
                # is the error itself.
                for _, other, _ in under_way:
                    if not other.done():
                        other.set_exception(failure)
                raise
            future.set_result(value)


_step = _Step()


def ddp_hook(state, bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
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
    _step.add(request, future, tensor)
    return future
