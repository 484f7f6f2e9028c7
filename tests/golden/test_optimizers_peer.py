"""psring's optimizers and schedules beside torch.optim's of today: the same start and the same
gradients, in float32, step by step (make_optimizers.py keeps what an earlier PyTorch gave). LAMB,
which PyTorch does not have, beside its formula in float64. Needs a Python with torch: PSR_PYTHON,
or python3; skipped without.

usage: test_optimizers_peer.py OPTIMIZER-PEER"""

import os
import subprocess
import sys

python = os.environ.get("PSR_PYTHON", "python3")
if "PSR_OPTIMIZERS_PEER" not in os.environ:
    os.environ["PSR_OPTIMIZERS_PEER"] = "1"  # the rest is that Python's
    os.execvp(python, [python, os.path.abspath(__file__), *sys.argv[1:]])
try:
    import torch
except ImportError as missing:
    print("1..0 # SKIP %s: %s; PSR_PYTHON names another Python" % (python, missing))
    sys.exit(0)

COUNT, UPDATES, LR = 1000, 40, 0.01
torch.manual_seed(7)
START = torch.randn(COUNT)
GRADIENTS = [torch.randn(COUNT) * 10 ** torch.empty(COUNT).uniform_(-4, 1) for _ in range(UPDATES)]


def ours(peer, options):
    """[(learning rate, weights)] after each update."""
    words = ["%s=%s" % item for item in dict({"lr": LR, "momentum": 0, "weight-decay": 0}, **options).items()]
    given = b"".join(values.numpy().tobytes() for values in [START] + GRADIENTS)
    done = subprocess.run([peer, str(COUNT), str(UPDATES)] + words, input=given, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    rows = torch.frombuffer(bytearray(done.stdout), dtype=torch.float32).reshape(UPDATES, COUNT + 1)
    return [(row[0].item(), row[1:]) for row in rows]


def theirs(make, schedule=None):
    weights = torch.nn.Parameter(START.clone())
    optimizer = make([weights])
    scheduler = schedule(optimizer) if schedule is not None else None
    rows = []
    for gradient in GRADIENTS:
        lr = optimizer.param_groups[0]["lr"]
        weights.grad = gradient.clone()
        optimizer.step()
        rows.append((lr, weights.detach().clone()))
        if scheduler is not None and len(rows) < UPDATES:
            scheduler.step()
    return rows


def lamb(beta1, beta2, epsilon, decay):
    """You et al. (2020), algorithm 2."""
    w, m, s = START.double(), torch.zeros(COUNT).double(), torch.zeros(COUNT).double()
    rows = []
    for t, gradient in enumerate(GRADIENTS, 1):
        g = gradient.double()
        m = beta1 * m + (1 - beta1) * g
        s = beta2 * s + (1 - beta2) * g * g
        u = m / (1 - beta1 ** t) / ((s / (1 - beta2 ** t)).sqrt() + epsilon) + decay * w
        w = w - LR * w.norm() / u.norm() * u
        rows.append((LR, w.clone()))
    return rows


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=LR, momentum=0.9, foreach=False)


PLAIN = {"lr": LR, "foreach": False}
SGD = {"optimizer": "sgd", "momentum": 0.9}
schedules = torch.optim.lr_scheduler
CASES = [
    ("adamw", {"optimizer": "adamw", "weight-decay": 0.05},
     lambda: theirs(lambda p: torch.optim.AdamW(p, weight_decay=0.05, **PLAIN))),
    ("adamw, other betas", {"optimizer": "adamw", "weight-decay": 0.1, "adam-beta1": 0.4, "adam-beta2": 0.99, "adam-epsilon": 1e-6},
     lambda: theirs(lambda p: torch.optim.AdamW(p, betas=(0.4, 0.99), eps=1e-6, weight_decay=0.1, **PLAIN))),
    ("lamb, by its formula", {"optimizer": "lamb", "weight-decay": 0.01, "adam-epsilon": 1e-6}, lambda: lamb(0.9, 0.999, 1e-6, 0.01)),
    ("rmsprop", {"optimizer": "rmsprop", "weight-decay": 0.01, "rmsprop-epsilon": 1e-3},
     lambda: theirs(lambda p: torch.optim.RMSprop(p, eps=1e-3, weight_decay=0.01, **PLAIN))),
    ("rmsprop, centered, with momentum",
     {"optimizer": "rmsprop", "rmsprop-alpha": 0.9, "rmsprop-epsilon": 1e-2, "rmsprop-centered": "true", "momentum": 0.5},
     lambda: theirs(lambda p: torch.optim.RMSprop(p, alpha=0.9, eps=1e-2, momentum=0.5, centered=True, **PLAIN))),
    ("multistep", dict(SGD, **{"lr-schedule": "multistep:10,25:0.3"}),
     lambda: theirs(sgd, lambda o: schedules.MultiStepLR(o, [10, 25], 0.3))),
    ("cosine to an end", dict(SGD, **{"lr-schedule": "cosine:0.0005"}),
     lambda: theirs(sgd, lambda o: schedules.CosineAnnealingLR(o, UPDATES, 0.0005))),
    ("onecycle", dict(SGD, **{"lr-schedule": "onecycle"}),
     lambda: theirs(sgd, lambda o: schedules.OneCycleLR(o, LR, UPDATES, cycle_momentum=False))),
    ("onecycle, of other shape", dict(SGD, **{"lr-schedule": "onecycle:0.2:10:100"}),
     lambda: theirs(sgd, lambda o: schedules.OneCycleLR(o, LR, UPDATES, pct_start=0.2, div_factor=10, final_div_factor=100, cycle_momentum=False))),
]
# Of a rate, and of a weight and 1. Numbers of float32 are rounded by up to 6e-8, and each of forty
# updates rounds its weights, moments and gradient.
LR_TOLERANCE, WEIGHT_TOLERANCE = 1e-6, 1e-6


def main(peer):
    failed = 0
    print("# torch %s" % torch.__version__)
    print("1..%d" % (len(CASES) + 1))
    for number, (name, options, wanted) in enumerate(CASES, 1):
        found, right = ours(peer, options), wanted()
        rates = max(abs(one[0] - other[0]) / other[0] for one, other in zip(found, right))
        weights = max(((one[1].double() - other[1].double()).abs() / (other[1].double().abs() + 1)).max().item()
                      for one, other in zip(found, right))
        ok = len(found) == len(right) == UPDATES and rates < LR_TOLERANCE and weights < WEIGHT_TOLERANCE
        failed += not ok
        print("%s %d - %s" % ("ok" if ok else "not ok", number, name))
        print("#   largest difference: of rates %.2g, of weights %.2g" % (rates, weights))
    # A test that could not tell them apart would pass as well.
    one, other = ours(peer, CASES[0][1]), ours(peer, dict(CASES[0][1], **{"weight-decay": 0.0501}))
    apart = ((one[-1][1] - other[-1][1]).abs() / (other[-1][1].abs() + 1)).max().item() > WEIGHT_TOLERANCE
    failed += not apart
    print("%s %d - another weight decay is seen" % ("ok" if apart else "not ok", len(CASES) + 1))
    sys.exit(1 if failed else 0)


main(sys.argv[1])
