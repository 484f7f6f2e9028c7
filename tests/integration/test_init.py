#!/usr/bin/env python3
"""psring train --init: weights of a network like this one, and what is told of it.

usage: test_init.py PSRING"""

import os
import struct
import sys

from psring_run import Run, Tap, Workspace
from test_bad_input import read_tensors, write_tensors

OPTIONS = {"model": "mlp", "data": "synthetic:count=60,test=12,channels=1,size=8", "batch-size": 8, "steps": 2, "lr": 0.05, "threads": 1,
           "workers": 2, "hash": True, "seed": 5, "no-eval": True}


def model_of(run):
    return os.path.join(run.out, "checkpoints", "step-2", "model.safetensors")


class Tests:
    def __init__(self, tap, psring, directory):
        self.tap, self.psring, self.directory = tap, psring, directory

    def train(self, name, **options):
        return Run(self.psring, self.directory, name, {**OPTIONS, **options})

    def path(self, name):
        return os.path.join(self.directory, name)

    def takes(self, name, told, **options):
        """Runs, and says `told` once."""
        run = self.train(name.replace(" ", "-"), **options)
        said = [line for line in run.stderr.splitlines() if "--init" in line]
        self.tap.ok(run.status == 0 and len(said) == len(told) and all(t in s for t, s in zip(told, said)), name, [str(said)] + run.why())
        return run

    def refuses(self, name, words, **options):
        run = self.train(name.replace(" ", "-"), **options)
        self.tap.ok(run.status != 0 and all(word in run.stderr for word in words), name, run.why())


def main():
    tap = Tap()
    with Workspace() as directory:
        t = Tests(tap, sys.argv[1], directory)
        first = t.train("first")
        if not tap.ok(first.status == 0, "a run whose weights are taken", first.why()):
            return tap.end()
        model = model_of(first)
        tensors = read_tensors(model)

        anew = "another number of classes: fc3.weight, fc3.bias start anew"
        hashes = {t.takes("more classes " + mode, [anew], init=model, classes=12, mode=mode).outcome().get("hash")
                  for mode in ("ps", "ring", "local")}
        tap.ok(len(hashes) == 1 and None not in hashes, "more classes: one hash in ps, ring and local", [str(hashes)])
        fewer = t.takes("frozen rate", [anew], init=model, classes=12, lr=0, **{"weight-decay": 0})
        after = read_tensors(model_of(fewer))
        tap.ok(after["fc1.weight"] == tensors["fc1.weight"] and after["fc3.weight"][0][0] == 12, "all but the classifier is taken as it is")

        write_tensors(t.path("behind"), {"module." + name: tensor for name, tensor in tensors.items()})
        as_is = t.takes("the same", [], init=model)
        behind = t.takes("behind module", ["names are behind module."], init=t.path("behind"))
        tap.ok(as_is.outcome()["hash"] == behind.outcome()["hash"], "names behind module. give the same weights")

        part = {name: tensor for name, tensor in tensors.items() if not name.startswith("fc2")}
        write_tensors(t.path("part"), {**part, "fc9.weight": tensors["fc2.weight"]})
        t.refuses("a part alone is refused", ["2 of 6 tensors do not fit mlp: fc2.weight is missing, fc2.bias is missing", "--init-partial"],
                  init=t.path("part"))
        t.takes("a part", ["4 tensors are taken; others start anew: fc2.weight is missing, fc2.bias is missing",
                           "left out, since the network has no such tensors: fc9.weight"], init=t.path("part"), **{"init-partial": True})
        t.refuses("nothing of another network is taken", ["do not fit convnet", "conv1.weight is missing"], init=model,
                  model="convnet", data="synthetic:count=60,test=12,channels=1,size=28", **{"init-partial": True})
        with open(t.path("torch.pth"), "wb") as file:
            file.write(b"PK\003\004" + struct.pack("<200x"))
        t.refuses("a file of torch.save", ["torch.pth: a file of torch.save: psring reads safetensors"], init=t.path("torch.pth"))
        t.refuses("partial without init", ["--init-partial is for --init"], **{"init-partial": True})
    return tap.end()


sys.exit(main())
