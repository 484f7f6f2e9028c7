"""The optimizer of all ranks beside torch.optim: by a ring and by shards, under a schedule, saved
and loaded in the middle, and with a change of mode. TAP.

usage: test_torch_parity.py SHARD PACKAGES"""

import sys

from forks import Tap, play, started, told

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402
from torch_work import OPTIMIZERS, alone, digest, tell, together  # noqa: E402

import psring.torch as psring  # noqa: E402

KINDS = tuple(OPTIMIZERS)


def two_ranks():
    """The mean of two halves is exact, so a loop of torch's own has the same bits too."""
    psring.init(deadline=120)
    for kind in KINDS:
        right = alone(kind, 8, True)
        tell("ring", kind, torch.equal(together(kind, 8, True, "ring"), right), torch.equal(together(kind, 8, True, "ring", resume_at=5), right))
        one = alone(kind, 1, False)
        ulp = torch.finfo(torch.float32).eps * one.abs().max()
        tell("ulp", kind, bool((together(kind, 1, False, "ps") - one).abs().max() <= ulp))
        tell("switched", kind, (together(kind, 8, True, "ps", switch_at=5) - right).abs().max().item())


def three_ranks():
    """An order of the sum that shows."""
    psring.init(deadline=120)
    for kind in ("nesterov", "adamw"):
        got = together(kind, 8, True, "ps")
        tell("ps", kind, digest(got), torch.equal(got, together(kind, 8, True, "ps", resume_at=5)))


def parity(tap):
    said, problems = play(two_ranks, 2, 1)
    for way, name in [("ring", "mode ring has the bits of one process, also when saved and loaded in the middle"),
                      ("ulp", "a step on shards is within an ulp of the largest weight of torch's")]:
        lines = [line for line in said if line[0] == way]
        tap.ok(len(lines) == len(KINDS) and all(set(line[2:]) == {"True"} for line in lines), name, told(lines) + problems)
    switched = {line[1]: float(line[2]) for line in said if line[0] == "switched"}
    tap.ok(set(switched) == set(KINDS) and max(switched.values()) < 1e-6, "a change of mode between two steps goes on with weights and state",
           told(said) + problems)
    (one, problems), (two, more) = play(three_ranks, 3, 1), play(three_ranks, 3, 2)
    tap.ok(len(one) == 2 and one == two, "one and two shards give the same bits", told(one + two) + problems + more)
    tap.ok(len(one) == 2 and all(line[3] == "True" for line in one + two),
           "saved and loaded in the middle, under a schedule, shards end with the bits of a run that was not", told(one + two))


def main():
    torch.set_num_threads(1)
    tap = Tap()
    parity(tap)
    tap.end()


if __name__ == "__main__":
    main()
