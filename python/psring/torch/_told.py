"""What one rank knows, for all of a group, which do not know how long it is."""

import io

import torch


def told(group, data: "bytes | None", root: int = 0, name: str = "bytes") -> bytes:
    """Rank root's data, on all ranks of the group."""
    length = torch.tensor([len(data) if group.rank == root else 0])
    group.broadcast(length, root, name="number of " + name)
    held = bytearray(data) if group.rank == root else bytearray(int(length))
    if held:
        group.broadcast(held, root, name=name)
    return bytes(held)


def told_state(group, state, root: int = 0, name: str = "bytes"):
    """Rank root's dict or list of tensors and numbers, on all ranks of the group."""
    file = io.BytesIO()
    if group.rank == root:
        torch.save(state, file)
    return torch.load(io.BytesIO(told(group, file.getvalue(), root, name)), weights_only=True)
