"""Collectives of tensors, numbers and states of optimizers."""

import torch

from .._errors import usage
from . import _place
from ._told import told_state


def _named(tensors):
    items = tensors.items() if isinstance(tensors, dict) else tensors
    return [(name, value) for name, value in items if isinstance(value, torch.Tensor)]


@torch.no_grad()
def broadcast_parameters(params, root: int = 0) -> None:
    """Copies rank root's tensors to all ranks. params: model.state_dict(), or
    model.named_parameters()."""
    runs = {}
    for _, tensor in _named(params):
        runs.setdefault(tensor.dtype, []).append(tensor)
    for tensors in runs.values():
        flat = torch.cat([t.reshape(-1) for t in tensors])
        _place.world().broadcast(flat, root, name="parameters")
        for tensor, run in zip(tensors, flat.split([t.numel() for t in tensors])):
            tensor.copy_(run.view(tensor.shape))


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root: int = 0) -> None:
    """Gives all ranks the state of rank root's optimizer, its learning rates included; what an
    encoding has kept back stays each rank's own. All ranks call it."""
    state = optimizer.state_dict()
    owed = {name: state.pop(name) for name in ("psring",) if name in state}
    optimizer.load_state_dict({**told_state(_place.world(), state, root, "the optimizer's state"), **owed})


def allreduce(value: "torch.Tensor | float", op: str = "mean", *, name: "str | None" = None):
    """The mean (or "sum", "minimum", "maximum", ..) of all ranks' values: of a tensor, which stays
    as it is, or of a number, such as a loss."""
    if isinstance(value, torch.Tensor):
        return _place.world().all_reduce(value.detach().contiguous().clone(), op=op, name=name)
    return _place.world().all_reduce(torch.tensor([float(value)], dtype=torch.float64), op=op, name=name).item()


def broadcast(tensor: torch.Tensor, root: int = 0, *, name: "str | None" = None) -> torch.Tensor:
    """Rank root's tensor, on all ranks in place of theirs."""
    _place.world().broadcast(tensor.detach(), root, name=name)
    return tensor


def allgather(tensor: torch.Tensor, *, name: "str | None" = None) -> torch.Tensor:
    """All ranks' tensors one after another along the first dimension; their shapes are equal."""
    if tensor.dim() == 0:
        raise usage("allgather puts tensors together along their first dimension, and this one has none: use reshape(1)")
    tensor = tensor.detach().contiguous()
    out = torch.empty((_place.size() * tensor.shape[0], *tensor.shape[1:]), dtype=tensor.dtype)
    return _place.world().all_gather(tensor, out, name=name)


def barrier() -> None:
    """Returns when all ranks have called it."""
    _place.world().barrier()
