"""Mode "ps": parameter servers hold the weights and update them by the gradients of all ranks."""

import torch

from .._errors import UnsupportedError
from . import _place
from ._buckets import run_like


def _sgd(group):
    words = ["lr=%r" % float(group["lr"])]
    if group["momentum"]:
        words.append("momentum=%r" % float(group["momentum"]))
    if group["nesterov"]:
        words.append("nesterov")
    words.append("weight-decay=%r" % float(group["weight_decay"]))
    refused = [name for name in ("dampening", "maximize") if group[name]]
    return "sgd", words, ("momentum_buffer",) if group["momentum"] else (), refused


def _adam(group, decoupled=False):
    words = ["lr=%r" % float(group["lr"]), "weight-decay=%r" % float(group["weight_decay"]), "adam-beta1=%r" % float(group["betas"][0]),
             "adam-beta2=%r" % float(group["betas"][1]), "adam-epsilon=%r" % float(group["eps"])]
    refused = [name for name in ("amsgrad", "maximize") if group[name]]
    return "adamw" if decoupled or group.get("decoupled_weight_decay") else "adam", words, ("exp_avg", "exp_avg_sq"), refused


UPDATES = {torch.optim.SGD: _sgd, torch.optim.Adam: _adam, torch.optim.AdamW: lambda group: _adam(group, True)}


def update_of(optimizer, group):
    """(the text for the shards, the names of the states) of a group of an optimizer's
    parameters."""
    if type(optimizer) not in UPDATES:
        raise UnsupportedError("unsupported", "mode ps has SGD, Adam and AdamW on the shards, not %s: use mode ring"
                               % type(optimizer).__name__)
    name, words, states, refused = UPDATES[type(optimizer)](group)
    if refused:
        raise UnsupportedError("unsupported", "mode ps has no %s on the shards: use mode ring" % " or ".join(refused))
    return " ".join([name] + words), states


class _Part:
    """What is a bucket here: a part of its group's table, and the weights as one array, in which
    the parameters lie."""

    def __init__(self, bucket, number):
        self.bucket, self.number = bucket, number
        self.weights = torch.empty(bucket.count, dtype=torch.float32)
        self.push = self.pull = None
        for p, offset in zip(bucket.parameters, bucket.offsets):
            view = run_like(self.weights, offset, p)
            view.copy_(p.detach())
            p.data = view


class Servers:
    """One table for each group of parameters; its parts are the group's buckets."""

    def __init__(self, optimizer, buckets, sync, encoding, await_at):
        self._optimizer, self._sync, self._encoding, self._await_at = optimizer, sync, encoding, await_at
        self._world = _place.world()
        if _place.comm().shards == 0:
            raise UnsupportedError("unsupported", "mode ps needs shards, and there are none: psring run --shards 1")
        for group in optimizer.param_groups:
            update_of(optimizer, group)
        for bucket in buckets:
            if bucket.flat.dtype != torch.float32:
                raise UnsupportedError("unsupported", "mode ps has float32 parameters, not %s: use mode ring" % bucket.flat.dtype)
        self._parts, self._of_group = {}, {}
        for bucket in buckets:
            of_group = self._of_group.setdefault(bucket.group, [])
            self._parts[bucket.index] = _Part(bucket, len(of_group))
            of_group.append(self._parts[bucket.index])
        self._part_of = {p: part for part in self._parts.values() for p in part.bucket.parameters}
        # updates: of each part, before the tables were opened; steps: of this rank since then
        self._tables, self._texts, self._updates, self._steps = {}, {}, 0, 0
        self._owed = {}  # by parameter, what tables that are not open yet are to owe
        self._waiting, self._hook, self._seen = set(), None, set()

    # ---- tables ----

    def prepare(self):
        """A step's first gradient is there: opens the tables, or tells the shards of other
        arguments (a learning rate that a scheduler has changed)."""
        self.await_weights()  # what no module's forward has read
        if not self._tables:
            self._open()
        for number in self._of_group:
            text, _ = update_of(self._optimizer, self._optimizer.param_groups[number])
            if text != self._texts[number]:
                self._tables[number].set(text.partition(" ")[2])
                self._texts[number] = text

    def _open(self):
        self._updates = max([int(state["step"]) for state in self._optimizer.state.values() if "step" in state], default=self._updates)
        for number in self._of_group:
            text, names = update_of(self._optimizer, self._optimizer.param_groups[number])
            self._open_table(number, text)
            for state, name in enumerate(names, 1):
                kept = self._of_state(number, name)
                if kept is not None:
                    self._tables[number].write(kept, state)
            owed = self._in_order(number, self._owed)
            if owed is not None:
                self._tables[number].write_residual(owed)
        self._owed = {}

    def _open_table(self, number, text):
        parts = self._of_group[number]
        weights = torch.cat([part.weights for part in parts])
        self._tables[number] = self._world.table("parameters %d" % number, [part.bucket.count for part in parts], update=text,
                                                 sync=self._sync, initial=weights, updates=self._updates, encoding=self._encoding,
                                                 fold="mean" if self._sync == "bsp" else "sum")
        self._texts[number] = text
        for part in parts:
            part.push = part.pull = None

    def _of_state(self, number, name):
        """A state of all of a group's parameters, from the optimizer; None: it has none yet."""
        return self._in_order(number, {p: state.get(name) for p, state in self._optimizer.state.items()})

    def _runs(self, number):
        """Each parameter of a group, and where it begins in the group's table."""
        start = 0
        for part in self._of_group[number]:
            for p, offset in zip(part.bucket.parameters, part.bucket.offsets):
                yield p, start + offset
            start += part.bucket.count

    def _in_order(self, number, values):
        """Values of parameters as they lie in their group's table, zeros for those that have none;
        None: none has any."""
        runs = list(self._runs(number))
        if all(values.get(p) is None for p, _ in runs):
            return None
        flat = torch.zeros(sum(part.bucket.count for part in self._of_group[number]))
        for p, offset in runs:
            if values.get(p) is not None:
                run_like(flat, offset, p).copy_(values[p])
        return flat

    def save_state(self):
        """Copies what the shards keep beside the weights into the optimizer. All ranks call it."""
        self.meet()
        # with ssp and async each push of each rank is an update
        updates = self._updates + self._steps
        if self._sync != "bsp":
            updates = self._updates + int(self._world.all_reduce(torch.tensor([self._steps]), name="steps"))
        for number, table in self._tables.items():
            group = self._optimizer.param_groups[number]
            _, names = update_of(self._optimizer, group)
            for state, name in enumerate(names, 1):
                flat = table.read(torch.empty(sum(table.parts)), state)
                for p, offset in self._runs(number):
                    kept = self._optimizer.state[p]
                    kept[name] = run_like(flat, offset, p).clone()
                    if "exp_avg" in names:
                        kept["step"] = torch.tensor(float(updates))

    def owed(self):
        """What the encoding has kept back on this rank, by parameter. No push is under way."""
        owed = dict(self._owed)
        for number, table in self._tables.items():
            flat = table.read_residual(torch.empty(sum(table.parts)))
            for p, offset in self._runs(number):
                owed[p] = run_like(flat, offset, p).clone()
        return owed

    def owe(self, owed):
        """The next step adds it: the first one, for which the tables are opened."""
        self._owed = owed

    def meet(self):
        """All ranks get the same weights; with bsp they have them. All ranks call it."""
        self.await_weights()
        for number, table in self._tables.items() if self._sync != "bsp" else ():
            parts = self._of_group[number]
            flat = table.read(torch.empty(sum(table.parts)))
            for part, values in zip(parts, flat.split([part.bucket.count for part in parts])):
                part.weights.copy_(values)

    def staleness(self):
        """How many steps the slowest rank was behind, at most, since this was last asked."""
        return max([table.staleness for table in self._tables.values()], default=0)

    def publish(self):
        """The weights of rank 0, as they are now, become everybody's. All ranks call it."""
        self.await_weights()
        for number, table in self._tables.items():
            table.write(torch.cat([part.weights for part in self._of_group[number]]))

    def close(self):
        self.meet()
        for table in self._tables.values():
            table.close()
        self._tables = {}

    # ---- a step ----

    def start(self, bucket):
        """The bucket is complete: it goes to its shard."""
        part = self._parts[bucket.index]
        part.push = self._tables[bucket.group].push(bucket.gradients, part.number, asynchronous=True,
                                                    name="gradients, bucket %d" % bucket.index)

    def finish_gradients(self, buckets):
        """The gradients stay what this rank has computed."""

    def step(self, closure=None):
        """Asks for the new weights; they land from now on."""
        for number, text in self._texts.items():
            if update_of(self._optimizer, self._optimizer.param_groups[number])[0] != text:
                raise UnsupportedError("unsupported", "mode ps: the learning rate, or another argument, was changed between backward "
                                       "and step(), when gradients had left; change it before backward")
        for part in self._parts.values():
            part.pull = self._tables[part.bucket.group].pull(part.weights, part.number, asynchronous=True,
                                                             name="weights, bucket %d" % part.bucket.index)
        self._steps += 1
        self._waiting = set(self._parts.values())
        if self._await_at == "step":
            self.await_weights()
        elif self._hook is None:
            self._hook = torch.nn.modules.module.register_module_forward_pre_hook(self._before_forward)

    def _before_forward(self, module, _inputs):
        for p in module._parameters.values():
            if p in self._part_of:
                self._await(self._part_of[p])
                if module not in self._seen:
                    self._seen.add(module)
                    module.register_state_dict_pre_hook(lambda *_: self.await_weights())

    def _await(self, part):
        if part in self._waiting:
            part.push.wait()
            part.pull.wait()
            self._waiting.discard(part)
            if not self._waiting and self._hook is not None:
                self._hook.remove()
                self._hook = None

    def await_weights(self, buckets=None):
        """Waits until the parameters have the weights that step() asked for."""
        for part in self._parts.values() if buckets is None else (self._parts[bucket.index] for bucket in buckets):
            self._await(part)
