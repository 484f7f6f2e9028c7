"""What takes minutes: 200 steps of each optimizer on shards beside torch.optim's, and 30 steps of
torchvision's ResNet-18 by DDP with Gloo, with the hook, with the backend, and by a ring, three
times each. TAP.

usage: test_torch_long.py SHARD PACKAGES"""

import sys

from forks import Tap, play, started, told

if __name__ == "__main__":
    started(*sys.argv[1:3], "torch, cffi, torchvision")

import torch  # noqa: E402
import torchvision  # noqa: E402
from test_torch import bits  # noqa: E402
from torch_work import OPTIMIZERS, alone, tell, together  # noqa: E402

import psring.torch as psring  # noqa: E402

STEPS, NEAR = 200, 1e-6


def long_runs():
    psring.init(deadline=300)
    for kind in OPTIMIZERS:
        for scheduled in (False, True):
            got, right = together(kind, STEPS, scheduled, "ps", teacher=True), alone(kind, STEPS, scheduled, teacher=True)
            resumed = together(kind, STEPS, scheduled, "ps", resume_at=STEPS // 2 + 7, teacher=True)
            tell(kind, scheduled, (got - right).abs().max().item(), torch.equal(got, resumed))


def parity(tap):
    said, problems = play(long_runs, 2, 1)
    for kind in OPTIMIZERS:
        lines = [line for line in said if line[0] == kind]
        tap.ok(len(lines) == 2 and all(float(line[2]) <= NEAR and line[3] == "True" for line in lines),
               "%s on shards is within %g of torch.optim's after %d steps, and a resumed run has the uninterrupted one's bits" % (kind, NEAR, STEPS),
               told(lines) + problems)


def resnet18():
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=10)


def main():
    torch.set_num_threads(1)
    tap = Tap()
    parity(tap)
    bits(tap, resnet18, 32, 3)
    tap.end()


if __name__ == "__main__":
    main()
