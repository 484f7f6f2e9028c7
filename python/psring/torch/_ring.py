"""Mode "ring": every rank gets the mean of the gradients, and runs the optimizer itself."""

import torch

from .._library import check_encoding
from . import _place
from ._buckets import run_like


class Ring:
    """The all-reduces of all buckets: made once, started as the buckets become complete."""

    def __init__(self, optimizer, buckets, encoding):
        self._optimizer, self._buckets, self._world = optimizer, buckets, _place.world()
        # What drops or merges values may not touch the marks of which parameters were used.
        self._has_marks = not check_encoding(encoding)
        # What is owed of a sum has the unit of gradients on every rank, as with shards. Of a mean
        # it has not, where this rank divides and rounds last.
        op = "mean" if self._has_marks else "sum"
        self._requests = [
            self._world.all_reduce(bucket.flat if self._has_marks else bucket.gradients, op=op, algorithm="ring", persistent=True, encoding=encoding,
                                   name="gradients, bucket %d" % bucket.index)
            for bucket in buckets]

    def start(self, bucket):
        """The bucket is complete."""
        self._requests[bucket.index].start()

    def finish_gradients(self, buckets):
        """Waits for the means, which become the parameters' gradients. A parameter that no rank has
        used in this step has none."""
        for bucket in buckets:
            self._requests[bucket.index].wait()
            if not self._has_marks:
                bucket.gradients.div_(self._world.size)
            used = bucket.used.tolist() if self._has_marks else [1] * len(bucket.parameters)
            for parameter, view, any_rank in zip(bucket.parameters, bucket.views, used):
                parameter.grad = view if any_rank else None

    def step(self, closure=None):
        return self._optimizer.step(closure)

    def prepare(self):
        """A step's first gradient is there."""

    def await_weights(self, buckets=None):
        """They are there when step() returns."""

    def save_state(self):
        """It is in the optimizer."""

    def owed(self):
        """What the encoding has kept back on this rank, by parameter."""
        owed = {}
        for bucket, request in zip(self._buckets, self._requests):
            flat = request.read_residual(torch.empty(bucket.count))
            for p, offset in zip(bucket.parameters, bucket.offsets):
                owed[p] = run_like(flat, offset, p).clone()
        return owed

    def owe(self, owed):
        """The next step adds it."""
        for bucket, request in zip(self._buckets, self._requests):
            flat = torch.zeros(bucket.count)
            for p, offset in zip(bucket.parameters, bucket.offsets):
                if p in owed:
                    run_like(flat, offset, p).copy_(owed[p])
            request.write_residual(flat)

    def close(self):
        for request in self._requests:
            request.close()
