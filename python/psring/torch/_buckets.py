"""Parameters in buckets, which are exchanged as a unit."""

import torch

from .._errors import usage

BUCKET_BYTES = 4 << 20


def run_like(flat, offset, tensor):
    """The run of flat from offset on, in the shape and layout of a tensor."""
    return flat[offset:offset + tensor.numel()].as_strided(tensor.size(), tensor.stride())


def _is_dense(tensor):
    """Whether its values lie in one piece, in any order of dimensions."""
    count = 1
    for stride, length in sorted((s, n) for s, n in zip(tensor.stride(), tensor.size()) if n > 1):
        if stride != count:
            return False
        count *= length
    return True


class Bucket:
    """Parameters of one group of the optimizer and of one type, with their gradients in one array.

    Behind the gradients stands, for each parameter, 1 if this step has a gradient of it, else 0."""

    def __init__(self, index, group, parameters):
        self.index, self.group, self.parameters = index, group, parameters
        self.count = sum(p.numel() for p in parameters)
        self.flat = torch.zeros(self.count + len(parameters), dtype=parameters[0].dtype)
        self.gradients, self.used = self.flat[:self.count], self.flat[self.count:]
        self.offsets, self.views, offset = [], [], 0
        for p in parameters:
            self.offsets.append(offset)
            self.views.append(run_like(self.flat, offset, p))
            offset += p.numel()
        self.ready = set()  # which parameters have their gradient in here
        self.started = False

    def begin(self):
        """A step begins: no gradient is there."""
        self.ready.clear()
        self.started = False

    def take(self, number):
        """Copies a parameter's gradient in, unless autograd has already added it here. Returns
        whether all are there."""
        gradient, view = self.parameters[number].grad, self.views[number]
        if gradient.layout != torch.strided:
            raise usage("a parameter of shape %s has a sparse gradient; psring exchanges dense ones: sparse=False" % (tuple(view.shape),))
        if gradient.data_ptr() != view.data_ptr():
            view.copy_(gradient.detach())
        self.ready.add(number)
        return len(self.ready) == len(self.parameters)

    def complete(self):
        """Zeros for what has no gradient in this step, and says so behind the gradients."""
        for number, view in enumerate(self.views):
            if number not in self.ready:
                view.zero_()
        if len(self.ready) == len(self.parameters):
            self.used.fill_(1)
        else:
            self.used.copy_(torch.tensor([float(n in self.ready) for n in range(len(self.parameters))]))


def make(optimizer, bucket_bytes):
    """The buckets of an optimizer's parameters, from the last to the first, as backward makes their
    gradients; alike on all ranks."""
    buckets = []
    for number, group in reversed(list(enumerate(optimizer.param_groups))):
        run, size = [], 0
        for p in reversed(group["params"]):
            if not p.requires_grad:
                continue
            if p.device.type != "cpu":
                raise usage("a parameter is on %s; psring exchanges what is in the CPU's memory" % p.device)
            if not _is_dense(p):
                raise usage("a parameter of shape %s and strides %s does not lie in one piece" % (tuple(p.shape), p.stride()))
            if run and (size + p.numel() * p.element_size() > bucket_bytes or p.dtype != run[0].dtype):
                buckets.append(Bucket(len(buckets), number, run))
                run, size = [], 0
            run.append(p)
            size += p.numel() * p.element_size()
        if run:
            buckets.append(Bucket(len(buckets), number, run))
    return buckets
