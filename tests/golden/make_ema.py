#!/usr/bin/env python3
"""Writes ema.h: what torch.optim.swa_utils.AveragedModel makes of the weights of make_optimizers.py
in 6 updates by SGD, with get_ema_multi_avg_fn, after every update and after every second one; and
with torchvision's rule, that a copy is made anew while the learning rate warms up (here in the
first 3 updates).

Needs torch: make_ema.py > ema.h. On the CPU, in float32."""
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

COUNT, UPDATES, LR, DECAY = 37, 6, 0.05, 0.9
torch.manual_seed(20)
start = torch.randn(COUNT) * 0.3
gradients = torch.randn(UPDATES, COUNT) * torch.logspace(-4, 1, COUNT)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(start.clone())


def c_floats(values):
    text = [float(v).hex() + "f" for v in values]
    lines = ["    " + ", ".join(text[i:i + 4]) for i in range(0, len(text), 4)]
    return ",\n".join(lines)


def averages(name, every, warmup):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, foreach=False)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
    print(f"static const float {name}[{UPDATES}][{COUNT}] = {{")
    for update, gradient in enumerate(gradients, 1):
        model.w.grad = gradient.clone()
        optimizer.step()
        if update % every == 0:
            average.update_parameters(model)
            if update <= warmup:
                average.n_averaged.fill_(0)
        print("  {\n" + c_floats(average.module.w.detach()) + "},")
    print("};\n")


print("/* Written by make_ema.py with torch " + torch.__version__.split("+")[0] + ". */")
print(f"#define GOLDEN_DECAY {DECAY}\n")
averages("golden_ema", 1, 0)
averages("golden_ema_second", 2, 0)
averages("golden_ema_warmup", 1, 3)
