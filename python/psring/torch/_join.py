"""Steps of ranks that have different numbers of batches: who has left its loop goes along with
gradients of zero until all have."""

import torch

from . import _collectives, _place
from ._told import told_state


def _arguments(optimizer):
    """Learning rates and all else that groups of parameters have."""
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


class Join:
    """The ranks within DistributedOptimizer.join(). Before each step all tell each other who still
    has a batch."""

    def __init__(self, optimizer, mode, divide_by_all):
        self._optimizer, self._mode, self._divide_by_all = optimizer, mode, divide_by_all
        self._world, self._arguments = _place.world(), None
        self._have = []  # the ranks that had a batch in the last step
        self.scale = 1.0  # what a gradient is multiplied with, so that the mean is over those

    def tell(self, has_batch):
        """A step begins: whether any rank has a batch."""
        marks = torch.zeros(self._world.size + 1, dtype=torch.int32)
        if has_batch:
            marks[self._world.rank] = 1
            marks[-1] = _arguments(self._optimizer) != self._arguments
        self._world.all_reduce(marks, op="maximum", name="ranks that have a batch")
        have = marks[:-1].nonzero().flatten().tolist()
        if not have:
            return False
        self._have = have
        self.scale = 1.0 if self._divide_by_all else self._world.size / len(have)
        if self._mode == "ps" and marks[-1]:
            # What all tell the shards, a rank without a batch has not from its own schedule.
            told = told_state(self._world, _arguments(self._optimizer), have[0], "the optimizer's arguments")
            if not has_batch:
                for group, arguments in zip(self._optimizer.param_groups, told):
                    group.update(arguments)
        self._arguments = _arguments(self._optimizer)
        return True

    def end(self, parameters):
        """All have left their loops. Mode "ring": who had fewer batches gets the weights and the
        optimizer's state, which it has not followed."""
        if self._mode == "ring" and self._have and len(self._have) < self._world.size:
            _collectives.broadcast_parameters(enumerate(parameters), self._have[0])
            _collectives.broadcast_optimizer_state(self._optimizer, self._have[0])
