"""psring.torch.profile: a model of PyTorch's is measured, and psring plays it and predicts with it:
ring or parameter servers, and how many shards. TAP.

usage: test_torch_profile.py SHARD PACKAGES PSRING"""

import json
import os
import subprocess
import sys

from forks import PATIENCE_S, Tap, Workspace, started

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402

import psring.torch as psring  # noqa: E402

launcher = sys.argv[3] if len(sys.argv) > 3 else ""


class Slow(torch.autograd.Function):
    """Nothing, but for so long: the first number forwards, the second backwards."""

    @staticmethod
    def forward(ctx, x, forward_n, backward_n):
        ctx.n = backward_n
        for _ in range(forward_n):
            torch.ones(300, 300) @ torch.ones(300, 300)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        for _ in range(ctx.n):
            torch.ones(300, 300) @ torch.ones(300, 300)
        return gradient, None, None


class Model(torch.nn.Module):
    """A tensor of its own, a layer that is slow one way and one that is slow the other way, batch
    norm, dropout, one that is frozen and one that is not used."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(16))
        self.first, self.second = torch.nn.Linear(16, 256), torch.nn.Linear(256, 10, bias=False)
        self.norm, self.frozen, self.unused = torch.nn.BatchNorm1d(256), torch.nn.Linear(256, 256), torch.nn.Linear(3, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        x = Slow.apply(self.first(x * self.scale), 12, 0)
        return self.second(Slow.apply(self.frozen(torch.nn.functional.dropout(self.norm(x))), 0, 12))


def measured(tap, path):
    model = Model()
    model.first.weight.grad = kept = torch.ones(256, 16)
    batch, state = (torch.randn(8, 16), torch.randint(0, 10, (8,))), torch.random.get_rng_state()
    statistics = model.norm.running_mean.clone()
    made = psring.profile(model, batch, path, steps=5)
    with open(path) as file:
        tap.ok(json.load(file) == made and made["format"] == "psring profile 1" and made["batch"] == 8 and made["threads"] == 1 and
               made["network"] == "Model" and "PyTorch" in made["machine"], "a profile is written, as it is returned", [str(made)[:300]])
    tensors = {tensor["name"]: tensor for tensor in made["tensors"]}
    tap.ok(list(tensors) == ["scale", "first.weight", "first.bias", "norm.weight", "norm.bias", "unused.weight", "unused.bias", "second.weight"] and
           [t["bytes"] for t in made["tensors"]] == [64, 16384, 1024, 1024, 1024, 36, 12, 10240],
           "with all that is trained, in the order of the forward pass", [str(list(tensors))])
    total = sum(t["forward_s"] + t["backward_s"] for t in made["tensors"])
    # what lies behind a layer counts with it, and the gradient of what is before it waits for that
    tap.ok(tensors["first.weight"]["forward_s"] > 0.2 * total and tensors["norm.weight"]["backward_s"] > 0.2 * total and
           tensors["first.bias"]["forward_s"] == 0 and tensors["unused.weight"]["backward_s"] == 0, "times stand where they were spent", [str(made["tensors"])])
    tap.ok(model.first.weight.grad is kept and torch.equal(model.norm.running_mean, statistics) and model.norm.num_batches_tracked == 0 and
           torch.equal(torch.random.get_rng_state(), state), "and the model is as it was")


def refused(tap):
    for name, wrong in [("no tensor", lambda: psring.profile(Model(), None)), ("no step", lambda: psring.profile(Model(), torch.ones(2, 16), steps=0)),
                        ("nothing trained", lambda: psring.profile(torch.nn.ReLU(), torch.ones(2, 16, requires_grad=True)))]:
        try:
            wrong()
            tap.ok(False, "refused: " + name)
        except psring.UsageError as failure:
            tap.ok(len(failure.line.splitlines()) == 1, "refused: " + name)


def call(*words):
    return subprocess.run([launcher, *words], capture_output=True, text=True, timeout=PATIENCE_S)


def answered(tap, path, folder):
    """psring plays and predicts with it, whose names no network of psring's has."""
    data = ["--data", "synthetic:count=600,test=90,channels=1,size=28", "--steps", "4", "--batch-size", "8", "--threads", "1"]
    done = call("bench", "train", "--model", "profile", "--backend", "played:" + path, *data, "--workers", "2", "--mode", "ps,ring", "--shards", "1,2",
                "--bucket-size", "4K", "--repetitions", "1", "--out", os.path.join(folder, "answer.json"))
    tap.ok(done.returncode == 0 and "ring" in done.stdout and "ps" in done.stdout, "psring bench train plays it by ring and by parameter servers",
           done.stdout.splitlines()[-20:] + done.stderr.splitlines()[-5:])
    done = call("predict", "--model", "profile", "--profile", path, "--hosts", "2,4", "--link", "1Gbit", "--batch-size", "8", "--json")
    answer = json.loads(done.stdout) if done.returncode == 0 else {}
    tap.ok(done.returncode == 0 and "ring" in done.stdout and "shards" in done.stdout, "psring predict answers for it", [str(answer)[:500]] + done.stderr.splitlines())
    for name, words, line in [("without a profile", ["train", "--model", "profile", "--mode", "local", *data], "--model profile is the network that a profile was recorded of"),
                              ("another network", ["train", "--model", "mlp", "--backend", "played:" + path, "--mode", "local", *data], "record one of this --model")]:
        done = call(*words)
        tap.ok(done.returncode != 0 and line in done.stderr, "refused: " + name, done.stderr.splitlines())


def main():
    torch.set_num_threads(1)
    tap = Tap()
    with Workspace() as folder:
        path = os.path.join(folder, "profile.json")
        measured(tap, path)
        refused(tap)
        answered(tap, path, folder)
    tap.end()


if __name__ == "__main__":
    main()
