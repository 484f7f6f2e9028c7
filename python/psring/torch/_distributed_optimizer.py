"""An optimizer whose step is one of all ranks together."""

import contextlib
import typing
import warnings

import torch

from .._errors import usage
from .._library import check_encoding
from . import _buckets, _place
from ._join import Join
from ._ring import Ring
from ._servers import Servers


class DistributedOptimizer(torch.optim.Optimizer):
    """An optimizer of torch.optim, whose step() all ranks make together.

        optimizer = psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    mode   "ring": each gradient becomes the mean over all ranks, and all ranks run the optimizer.
           "ps": parameter servers, the shards of `psring run --shards S`, hold the weights and run
           the optimizer: SGD, Adam or AdamW.
    sync   of mode "ps". "bsp": a step has every rank's gradients. "ssp:K": each rank's gradient is
           an update at once, and no rank is more than K steps ahead. "async": without that bound.

    Gradients leave in buckets while backward computes the others. In mode "ps" step() returns
    before the new weights have come: the next forward of a module waits for those that it reads.
    What reads weights in another way calls synchronize() first, or await_weights="step" is given.

    A learning rate is changed before backward, as schedulers do. In mode "ring" synchronize()
    before step() gives the means, to clip them for example. In mode "ps" .grad stays this rank's
    own, a parameter without gradient has zeros, hooks of step() are not called, and state_dict()
    and load_state_dict() are calls of all ranks.

    backward_passes_per_step  so many calls of backward() before a step(); their gradients are added
    bucket_bytes              how much is exchanged as a unit
    encoding                  how gradients are sent: "fp16", "bf16", "int8", "topk:R" or "1bit";
                              what the last three take away this rank owes: it is added in the next
                              step, and is this rank's own part of state_dict()
    await_weights             of mode "ps": "forward", or "step": step() waits for the new weights
    """

    def __init__(self, optimizer: torch.optim.Optimizer, mode: str = "ring", sync: str = "bsp", *, backward_passes_per_step: int = 1,
                 bucket_bytes: int = _buckets.BUCKET_BYTES, encoding: "str | None" = None, await_weights: str = "forward") -> None:
        # Not Optimizer's own: groups, state and hooks are the wrapped optimizer's.
        if await_weights not in ("forward", "step"):
            raise usage("await_weights is \"forward\" or \"step\", not %r" % (await_weights,))
        if backward_passes_per_step < 1:
            raise usage("backward_passes_per_step is at least 1")
        self._owes = check_encoding(encoding)
        self.optimizer = optimizer
        self._sync, self._encoding, self._await_weights = sync, encoding, await_weights
        self._passes_per_step, self._bucket_bytes = backward_passes_per_step, bucket_bytes
        self._hooks, self._exchange, self._mode = [], None, mode
        self._held, self._join = False, None
        self._make(mode)

    # ---- what it shares with the optimizer that it wraps ----

    @property
    def param_groups(self) -> list:
        """The wrapped optimizer's."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list) -> None:
        self.optimizer.param_groups = groups

    @property
    def state(self):
        """The wrapped optimizer's."""
        return self.optimizer.state

    @state.setter
    def state(self, state) -> None:
        self.optimizer.state = state

    @property
    def defaults(self) -> dict:
        """The wrapped optimizer's."""
        return self.optimizer.defaults

    def __getattr__(self, name):
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def __repr__(self):
        return "Distributed(mode=%r, sync=%r) %r" % (self._mode, self._sync, self.optimizer)

    def __getstate__(self):
        raise TypeError("a DistributedOptimizer cannot be copied or pickled; its state_dict() can")

    # ---- a step ----

    def _make(self, mode, owed=None):
        """owed: by parameter, what an encoding has kept back on this rank."""
        if mode not in ("ring", "ps"):
            raise usage("mode is \"ring\" or \"ps\", not %r" % (mode,))
        buckets = _buckets.make(self.optimizer, self._bucket_bytes)
        if not buckets:
            raise usage("the optimizer has no parameter that requires a gradient")
        if mode == "ring":
            exchange = Ring(self.optimizer, buckets, self._encoding)
        else:
            exchange = Servers(self.optimizer, buckets, self._sync, self._encoding, self._await_weights)
        if owed:
            exchange.owe(owed)
        self._mode, self._buckets, self._exchange = mode, buckets, exchange
        self._passes = {}
        for bucket in buckets:
            for number, p in enumerate(bucket.parameters):
                self._hooks.append(p.register_post_accumulate_grad_hook(
                    lambda p, bucket=bucket, number=number: self._gradient_ready(p, bucket, number)))
        self._begin()

    def _begin(self):
        self._computed, self._begun, self._synchronized = False, False, False
        self._passes.clear()
        for bucket in self._buckets:
            bucket.begin()

    def _gradient_ready(self, parameter, bucket, number):
        self._computed = True
        if self._held:
            return
        passes = self._passes[parameter] = self._passes.get(parameter, 0) + 1
        if passes < self._passes_per_step:
            return
        if passes > self._passes_per_step:
            raise usage("a gradient was computed again before step(): give backward_passes_per_step, or compute within no_sync()")
        self._prepare()
        if bucket.take(number):
            self._start(bucket)

    def _prepare(self):
        """The step's first gradient is there."""
        if not self._begun:
            self._begun = True
            if self._join is not None:
                self._join.tell(True)
            self._exchange.prepare()

    def _start(self, bucket):
        bucket.complete()
        if self._join is not None and self._join.scale != 1:
            bucket.gradients.mul_(self._join.scale)
        bucket.started = True
        self._exchange.start(bucket)

    def synchronize(self) -> None:
        """Mode "ring", before step(): waits until the gradients are the means of all ranks. Mode
        "ps", after step(): waits until the parameters have the new weights."""
        self._exchange.await_weights()
        if self._mode == "ring" and self._computed and not self._synchronized:
            self._finish()

    def _finish(self):
        self._prepare()
        for bucket in self._buckets:
            if not bucket.started:
                # What .grad holds at step() is the gradient, as without psring: of passes within
                # no_sync(), say, or of fewer passes than were said.
                for number, p in enumerate(bucket.parameters):
                    if number not in bucket.ready and p.grad is not None:
                        bucket.take(number)
                self._start(bucket)
        self._exchange.finish_gradients(self._buckets)
        self._synchronized = True

    @contextlib.contextmanager
    def no_sync(self) -> "typing.Iterator[None]":
        """Gradients of backward() in here stay and are added to those of the next backward()
        outside."""
        held, self._held = self._held, True
        try:
            yield
        finally:
            self._held = held

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size: bool = True) -> "typing.Iterator[None]":
        """For ranks with different numbers of batches: all make their steps within it, and a rank
        whose loop has ended goes along with gradients of zero until the others' have.

            with optimizer.join():
                for batch in loader:
                    ..

        A mean is over all ranks, or with divide_by_initial_world_size=False over those that still
        have batches. At the end all have the same weights and state of the optimizer. What else
        ranks call together, allreduce() for instance, does not belong in there. With sync
        "async" ranks make as many steps as they like without it, and with "ssp:K" they cannot."""
        if self._mode == "ps" and self._sync != "bsp":
            raise usage("join() goes with mode ring, and with mode ps where sync is bsp; here it is %s" % self._sync)
        if self._begun or self._join is not None:
            raise usage("join() begins between two steps, and not within another one")
        self._join = Join(self.optimizer, self._mode, divide_by_initial_world_size)
        try:
            yield
            if self._begun:
                raise usage("a step is under way where join() ends: call step() first")
            while self._join.tell(False):
                self._follow()
            self._join.end([p for bucket in self._buckets for p in bucket.parameters])
        finally:
            self._join = None

    @torch.no_grad()
    def _follow(self):
        """A step of the others."""
        self.optimizer.zero_grad()
        self._begun = True
        self._exchange.prepare()
        self._finish()
        if self._mode == "ps":
            self._exchange.step()
        self.optimizer.zero_grad()
        self._begin()

    @torch.no_grad()
    def step(self, closure: "typing.Callable[[], typing.Any] | None" = None):
        """The step of all ranks. closure: computes the loss and calls backward() once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._synchronized:
            self._finish()
        self._exchange.step()
        self._begin()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's own. Between backward() and step() it would lose gradients that have
        left."""
        if self._begun and not self._synchronized:
            raise usage("zero_grad() between backward() and step(): gradients have left already")
        self.optimizer.zero_grad(set_to_none)

    # ---- its state ----

    def state_dict(self) -> dict:
        """The wrapped optimizer's, as without psring. With an encoding that keeps what it took
        away, "psring" has what this rank owes, so each rank saves and loads a state of its own.
        Mode "ps": all ranks call it."""
        owed = self._save()
        state = self.optimizer.state_dict()
        if self._owes:
            numbers = {p: number for number, p in enumerate(self._parameters())}
            state["psring"] = {"rank": _place.world().rank, "owed": {numbers[p]: value for p, value in owed.items()}}
        return state

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes a state that any mode, or the optimizer without psring, has saved. What another
        rank owed is left out, with a warning. Mode "ps": all ranks call it, when the model has its
        weights."""
        owed = self._owed_of(state_dict.get("psring"))
        self._end()
        self.optimizer.load_state_dict(state_dict)
        self._make(self._mode, owed)

    def _parameters(self):
        """In the order in which a state_dict of torch numbers them."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def _save(self):
        """The optimizer has its state. Returns what this rank owes, by parameter."""
        if self._owes and self._begun:
            raise usage("a step is under way: call step() first")
        self._exchange.save_state()
        return self._exchange.owed() if self._owes else None

    def _owed_of(self, kept):
        """What this rank owes by a saved state, by parameter."""
        if kept is None:
            return None
        if not self._owes:
            warnings.warn("the state has what an encoding had kept back, which is dropped: encoding=%r keeps nothing" % (self._encoding,),
                          stacklevel=3)
            return None
        if kept["rank"] != _place.world().rank:
            warnings.warn("the state is rank %d's, and this is rank %d: what an encoding had kept back there is left out, and this rank owes"
                          " nothing; let each rank save and load its own" % (kept["rank"], _place.world().rank), stacklevel=3)
            return None
        owed, parameters = {}, self._parameters()
        for number, value in kept["owed"].items():
            if number >= len(parameters) or value.shape != parameters[number].shape:
                raise usage("the state has what is owed for a parameter %d of shape %s, which the optimizer has not" % (number, tuple(value.shape)))
            owed[parameters[number]] = value
        return owed

    def add_param_group(self, group: dict) -> None:
        """Adds parameters, between two steps. All ranks call it."""
        owed = self._save()
        self._end()
        self.optimizer.add_param_group(group)
        self._make(self._mode, owed)

    @property
    def mode(self) -> str:
        """"ring" or "ps"; all ranks may set it between two steps, and go on with the same state."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        if mode != self._mode:
            owed = self._save()
            self._end()
            self._make(mode, owed)

    @property
    def staleness(self) -> int:
        """Mode "ps" with ssp and async: how many steps the slowest rank was behind this one, at
        most, since this was last asked. Else 0."""
        return self._exchange.staleness() if self._mode == "ps" else 0

    def publish_parameters(self) -> None:
        """Tells the shards that the program has changed weights itself: those of rank 0 become
        everybody's with the next step. All ranks call it. Mode "ring" has nobody to tell."""
        if self._mode == "ps":
            self._exchange.publish()

    def _end(self):
        if self._begun:
            raise usage("a step is under way: call step() first")
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._exchange.close()

    def close(self) -> None:
        """Gives back what the ranks hold for it. All ranks call it. shutdown() does without."""
        self._end()
