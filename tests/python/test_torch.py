"""psring.torch beside torch alone: the bits of DDP with Gloo, the optimizers on shards beside
torch.optim. Needs a Python with torch and cffi: PSR_PYTHON, or python3; skipped without. TAP.

usage: test_torch.py PSRING PACKAGES CACHE [--resnet18]; CACHE keeps the backend that is compiled.
--resnet18: that network of torchvision by DDP alone, which takes longer"""

import os
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "integration"))
from psring_run import PATIENCE_S, Tap, Workspace  # noqa: E402

psring, packages, cache = sys.argv[1:4]
python = os.environ.get("PSR_PYTHON", "python3")
environment = {**os.environ, "PYTHONPATH": packages, "XDG_CACHE_HOME": cache}
KINDS = ("sgd", "momentum", "nesterov", "adam", "adamw")


def run(ranks, shards, *what):
    """The lines that rank 0 printed, and what went wrong."""
    with Workspace() as folder:
        done = subprocess.run([psring, "run", "-n", str(ranks), *(["--shards", str(shards)] if shards else []), "--", python, here / "torch_ranks.py", *what,
                               os.path.join(folder, "meeting-")], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    return [line.split() for line in done.stdout.splitlines()], done.stderr.splitlines()[-12:]


def told(lines):
    return [" ".join(line) for line in lines]


def bits(tap):
    """Two ranks, since there DDP with Gloo adds in psring's order."""
    said, problems = run(2, 0, "gloo", "hook", "ring", "backend", "backend-2", "backend-3")
    found = dict(line for line in said if len(line) == 2)
    tap.ok("gloo" in found and [found.get(way) for way in ("backend", "backend-2", "backend-3")] == 3 * [found["gloo"]],
           "DDP with the backend psring does so in three runs", told(said) + problems)
    for way, name in [("hook", "DDP with the hook"), ("ring", "an optimizer with mode ring")]:
        tap.ok("gloo" in found and found.get(way) == found["gloo"], name + " ends 30 steps with the bits of DDP and Gloo", told(said) + problems)
    # The mean of two halves is exact, so a loop of torch's own has the same bits too.
    said, problems = run(2, 1, "parity")
    ring = [line for line in said if line[0] == "ring"]
    tap.ok(len(ring) == 10 and all(line[5] == "True" for line in ring), "mode ring has the bits of one process, whatever the optimizer",
           told(said) + problems)


def big(tap):
    ways = ["gloo-resnet18", "hook-resnet18"] + ["backend-%d-resnet18" % run for run in range(3)]
    said, problems = run(2, 0, *ways)
    found = dict(line for line in said if len(line) == 2)
    tap.ok(len(found) == len(ways) and len(set(found.values())) == 1,
           "30 steps of ResNet-18 have DDP's and Gloo's bits with the hook, and in three runs with the backend", told(said) + problems)


def parity(tap):
    """Three ranks: an order of the sum that shows."""
    (one, problems), (two, more) = run(3, 1, "parity"), run(3, 2, "parity")
    servers = [line for line in one if line[0] == "ps"]
    tap.ok(len(servers) == 10 and servers == [line for line in two if line[0] == "ps"], "one and two shards give the same bits",
           told(one + two) + problems + more)
    all_modes = [line for line in one + two if line[0] in ("ps", "ring")]
    tap.ok(len(all_modes) == 40 and all(line[4] == "True" for line in all_modes),
           "saved and loaded in the middle, under a schedule too, a run has the bits of one that was not", told(all_modes))
    for kind in KINDS:
        lines = [line for line in one if line[1] == kind]
        near = {line[0]: line[-1] for line in lines}
        tap.ok(near.get("one") == "True" and float(near.get("long", 1)) < 1e-5 and float(near.get("switched", 1)) < 1e-5,
               "%s on shards is torch's: within an ulp after a step, near after 200, and after a change of mode" % kind, told(lines))


def small(tap):
    said, problems = run(2, 1, "small")
    for name in ("passes", "no_sync", "unused", "metrics", "broadcast"):
        line = next((line for line in said if line[0] == name), [name, "False"])
        tap.ok(set(line[1:]) == {"True"}, {"passes": "gradients of two passes are added", "no_sync": "and those within no_sync()",
                                           "unused": "what no rank uses stays, what one uses is updated on all",
                                           "metrics": "numbers and tensors are put together",
                                           "broadcast": "parameters and an optimizer's state are broadcast"}[name], told([line]) + problems)
    refused = [line for line in said if line[0] == "refused"]
    tap.ok(len(refused) == 6 and all(line[-1] == "True" for line in refused), "what cannot be is refused by a line", told(refused) + problems)


def main():
    if subprocess.run([python, "-c", "import torch, cffi"], capture_output=True).returncode != 0:
        print("1..0 # SKIP %s has no torch or no cffi; PSR_PYTHON names another Python" % python)
        return
    tap = Tap()
    if sys.argv[4:] == ["--resnet18"] and subprocess.run([python, "-c", "import torchvision"], capture_output=True).returncode != 0:
        print("1..0 # SKIP %s has no torchvision; PSR_PYTHON names another Python" % python)
        return
    for part in (big,) if sys.argv[4:] == ["--resnet18"] else (bits, small, parity):
        part(tap)
    tap.end()


main()
