"""Mode "ring": every rank gets the mean of the gradients, and runs the optimizer itself."""

from .._library import check_encoding
from . import _place


class Ring:
    """The all-reduces of all buckets: made once, started as the buckets become complete."""

    def __init__(self, optimizer, buckets, encoding):
        self._optimizer = optimizer
        # What drops or merges values may not touch the marks of which parameters were used.
        self._has_marks = not check_encoding(encoding)
        self._requests = [
            _place.world().all_reduce(bucket.flat if self._has_marks else bucket.gradients, op="mean", algorithm="ring", persistent=True, encoding=encoding,
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

    def close(self):
        for request in self._requests:
            request.close()
