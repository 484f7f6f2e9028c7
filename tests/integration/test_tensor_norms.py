#!/usr/bin/env python3
"""--tensorboard-norms: the norms of each tensor's weights and gradient are the same in every mode,
with any shards, over two ways and over two hosts; they are those of the checkpoint's tensors, and
together the norm that --clip-norm goes by; the run has the hashes of the run without.

usage: test_tensor_norms.py PSRING"""

import glob
import math
import os
import struct
import sys

from psring_run import Run, Tap, Workspace, over
from test_recipes import tensors

STEPS, EVERY = 4, 2
PLAIN = {"workers": 3, "threads": 1, "batch-size": 8, "hash": True, "seed": 3, "steps": STEPS, "no-eval": True, "model": "mlp",
         "data": "synthetic:count=97,test=10,channels=1,size=28", "bucket-size": 99968, "slice-size": 16448, "lr": 0.05}
TENSORS = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field of a protocol buffer; of a text or message its bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at), 2: varint(data, at) if key & 7 == 2 else None}[key & 7]
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def read(run):
    """{(tag, step): the four bytes of the value}, of the tags of norms."""
    told = {}
    for path in glob.glob(os.path.join(run.out, "tensorboard", "*")):
        with open(path, "rb") as file:
            text = file.read()
        at = 0
        while at < len(text):  # a record: its length, a checksum, the event, a checksum
            size, = struct.unpack_from("<Q", text, at)
            event = dict(fields(text[at + 12:at + 12 + size]))
            at += size + 16
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                if value[1].startswith(b"Norm_of"):
                    told[value[1].decode(), event[2]] = value[2]
    return told


def norm(values):
    return math.sqrt(math.fsum(float(v) ** 2 for v in values))


def of(told, kind, step):
    return {tag.split("/")[1]: struct.unpack("<f", value)[0] for (tag, at), value in told.items() if at == step and tag.startswith("Norm_of_" + kind)}


def check_values(tap, run, told):
    """Against the checkpoint, and the norm that --clip-norm tells."""
    weights, saved = of(told, "weights", STEPS), tensors(run)
    tap.ok(sorted(weights) == sorted(TENSORS) and all(abs(weights[name] - norm(saved[name])) <= 1e-6 * weights[name] for name in weights),
           "the weights' norms are those of the checkpoint's tensors", [str(weights)])
    clipped = {line["step"]: line["gradient_norm"] for line in run.metrics() if line["rank"] == 0}
    for step in (EVERY, STEPS):
        gradients = of(told, "gradient", step)
        tap.ok(sorted(gradients) == sorted(TENSORS) and abs(norm(gradients.values()) - clipped[step]) < 1e-6 * clipped[step],
               "step %d: the gradients' norms together are the norm before it was clipped" % step, [str(gradients), str(clipped)])
    tap.ok({step for _, step in told} == {EVERY, STEPS}, "no other step has norms", [str(sorted(told))])


def frozen(tap, psring, directory, options):
    run = Run(psring, directory, "frozen", dict(options, mode="ps", shards=2, freeze="fc1"))
    told = read(run)
    tap.ok(run.status == 0 and sorted(of(told, "weights", STEPS)) == sorted(TENSORS)
           and sorted(of(told, "gradient", STEPS)) == sorted(name for name in TENSORS if not name.startswith("fc1")),
           "a frozen tensor has no gradient", run.why() + [str(sorted(told))])


def refusals(tap, psring, directory, options):
    alone = {key: value for key, value in options.items() if key != "tensorboard"}
    for name, more, words in (("alone", {}, "--tensorboard-norms is for --tensorboard"),
                              ("async", {"tensorboard": True, "mode": "ps", "sync": "async"}, "--tensorboard-norms 2 does not go with --sync async")):
        run = Run(psring, directory, name, dict(alone, **more))
        tap.ok(run.status == 2 and words in run.stderr, name + " is refused by name", run.why())


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        options = dict(PLAIN, tensorboard=True, **{"tensorboard-norms": EVERY})
        clips = dict(options, **{"clip-norm": 0.5})
        local = Run(psring, directory, "local", dict(clips, mode="local"))
        right = read(local)
        tap.ok(local.status == 0 and len(right) == 2 * 2 * len(TENSORS), "local tells two norms of each tensor in two steps", local.why() + [str(right)])
        check_values(tap, local, right)
        plain = Run(psring, directory, "plain", dict(options, mode="local"))
        without = Run(psring, directory, "without", dict(PLAIN, mode="local"))
        tap.ok(plain.hashes() == without.hashes() and plain.hashes() != local.hashes(), "the hashes are those of the run without", [str(plain.hashes())])
        ways = {"ring": dict(mode="ring"), "hops": dict(mode="ring", transport="ipc"), "ps-1": dict(mode="ps", shards=1),
                "ps-2": dict(mode="ps", shards=2), "changes": dict(mode="ps@1,ring@%d" % (EVERY + 1), shards=2),
                "routes": dict(mode="ring", shards=2, route="fc1.*=ps"), "hosts": dict(over("mixed", directory, 3), mode="ring")}
        for name, way in ways.items():
            for kind, base, model in (("clipped", clips, local), ("", options, plain)):
                if kind == "clipped" and name not in ("ps-2", "hosts"):
                    continue
                run = Run(psring, directory, name + kind, dict(base, **way))
                tap.ok(run.status == 0 and read(run) == read(model), "%s %s: the bits of local's norms" % (name, kind), run.why() + [str(read(run))])
                tap.ok(run.status == 0 and run.hashes() == model.hashes(), "%s %s: the hashes of local" % (name, kind))
        lars = {"optimizer": "lars", "lr": 0.01}
        one, other = (Run(psring, directory, "lars-" + mode, dict(options, mode=mode, **lars)) for mode in ("local", "ps"))
        tap.ok(one.status == 0 and read(one) == read(other) and one.hashes() == other.hashes(), "with an optimizer of whole tensors too", one.why() + other.why())
        frozen(tap, psring, directory, options)
        refusals(tap, psring, directory, options)
    tap.end()


if __name__ == "__main__":
    main(sys.argv[1])
