#!/usr/bin/env python3
"""Writes optimizers.h: what torch.optim makes of 37 weights in 6 updates.

Needs torch: make_optimizers.py > optimizers.h. PyTorch runs on the CPU, one tensor at a time
(foreach and fused off), in float32. LARS and LAMB, which torch does not have, are computed here in
float64 from the papers' formulas.
"""
import torch

COUNT, UPDATES, LR = 37, 6, 0.05
torch.manual_seed(20)
start = torch.randn(COUNT) * 0.3
gradients = torch.randn(UPDATES, COUNT) * torch.logspace(-4, 1, COUNT)


def c_floats(values):
    text = [float(v).hex() + "f" for v in values]
    lines = ["    " + ", ".join(text[i:i + 4]) for i in range(0, len(text), 4)]
    return ",\n".join(lines)


def emit(name, rows):
    print(f"static const float {name}[{len(rows)}][{COUNT}] = {{")
    for row in rows:
        print("  {\n" + c_floats(row) + "},")
    print("};\n")


def with_torch(name, make):
    weights = torch.nn.Parameter(start.clone())
    optimizer = make([weights])
    rows = []
    for gradient in gradients:
        weights.grad = gradient.clone()
        optimizer.step()
        rows.append(weights.detach().clone())
    emit(name, rows)


def with_lars(name, momentum, decay, trust):
    """You, Gitman, Ginsburg (2017), algorithm 1."""
    w = start.double()
    v = torch.zeros_like(w)
    rows = []
    for gradient in gradients:
        g = gradient.double()
        local = trust * w.norm() / (g.norm() + decay * w.norm())
        v = momentum * v + LR * local * (g + decay * w)
        w = w - v
        rows.append(w.clone())
    emit(name, rows)


def with_lamb(name, beta1, beta2, epsilon, decay):
    """You et al. (2020), algorithm 2."""
    w = start.double()
    m, s = torch.zeros_like(w), torch.zeros_like(w)
    rows = []
    for t, gradient in enumerate(gradients, 1):
        g = gradient.double()
        m = beta1 * m + (1 - beta1) * g
        s = beta2 * s + (1 - beta2) * g * g
        u = m / (1 - beta1 ** t) / ((s / (1 - beta2 ** t)).sqrt() + epsilon) + decay * w
        w = w - LR * w.norm() / u.norm() * u
        rows.append(w.clone())
    emit(name, rows)


plain = {"lr": LR, "foreach": False}
print("/* Written by make_optimizers.py with torch " + torch.__version__.split("+")[0] + ". */")
print(f"#define GOLDEN_COUNT {COUNT}\n#define GOLDEN_UPDATES {UPDATES}\n#define GOLDEN_LR {LR}\n")
emit("golden_start", [start])
emit("golden_gradients", gradients)
with_torch("golden_sgd", lambda p: torch.optim.SGD(p, **plain))
with_torch("golden_sgd_decay", lambda p: torch.optim.SGD(p, weight_decay=0.01, **plain))
with_torch("golden_momentum", lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=1e-4, **plain))
with_torch("golden_nesterov",
           lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=1e-4, nesterov=True, **plain))
with_torch("golden_adam", lambda p: torch.optim.Adam(p, **plain))
with_torch("golden_adam_decay",
           lambda p: torch.optim.Adam(p, betas=(0.4, 0.99), eps=1e-6, weight_decay=0.01, **plain))
with_lars("golden_lars", 0.9, 1e-3, 0.02)
with_torch("golden_adamw", lambda p: torch.optim.AdamW(p, weight_decay=0.01, **plain))
with_torch("golden_adamw_betas",
           lambda p: torch.optim.AdamW(p, betas=(0.4, 0.99), eps=1e-6, weight_decay=0.1, **plain))
with_torch("golden_rmsprop", lambda p: torch.optim.RMSprop(p, weight_decay=0.01, **plain))
with_torch("golden_rmsprop_momentum",
           lambda p: torch.optim.RMSprop(p, alpha=0.9, eps=0.03, momentum=0.9, weight_decay=1e-4, **plain))
with_torch("golden_rmsprop_centered",
           lambda p: torch.optim.RMSprop(p, alpha=0.9, eps=1e-3, centered=True, **plain))
with_torch("golden_rmsprop_both",
           lambda p: torch.optim.RMSprop(p, alpha=0.9, eps=1e-3, momentum=0.5, centered=True, **plain))
with_lamb("golden_lamb", 0.9, 0.999, 1e-6, 0.01)
