#!/usr/bin/env python3
"""Training from folders of pictures: one hash in every mode and with any shards, broken files and
what takes their place, and what a user is told.

usage: test_image_folders.py PSRING PHOTOGRAPHS"""

import json
import os
import shutil
import struct
import sys
import zlib

from psring_run import Run, Tap, Workspace

AUGMENT = "random-resized-crop:16,flip"
OPTIONS = {"model": "mlp", "augment": AUGMENT, "workers": 3, "batch-size": 4, "steps": 4, "threads": 1, "seed": 5, "hash": True}
WAYS = {"local": {"mode": "local"}, "ring": {"mode": "ring"}, "ps": {"mode": "ps", "shards": 2}}


def png(height, width, seed):
    """The bytes of an RGB file."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + bytes((seed * 31 + y * 7 + x * seed) % 256 for x in range(3 * width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_folder(folder):
    """Pictures of different sizes in three classes, one of them of one pixel."""
    for split, count in (("train", 30), ("val", 6)):
        for i in range(count):
            place = os.path.join(folder, split, ("ant", "bee", "cow")[i % 3])
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, "%03d.png" % i), "wb") as file:
                file.write(png(1, 1, 9) if i == 1 else png(20 + i, 50 - i, i + 1))
    return folder


def write_photographs(photographs, folder):
    for i, name in enumerate(sorted(n for n in os.listdir(photographs) if n.endswith(".JPEG"))[:24]):
        place = os.path.join(folder, "train" if i < 18 else "val", "class%d" % (i % 2))
        os.makedirs(place, exist_ok=True)
        shutil.copy(os.path.join(photographs, name), place)
    return folder


def equal_in_all_modes(tap, psring, directory, data, what, **options):
    runs = {name: Run(psring, directory, "%s-%s" % (what.replace(" ", "-"), name), dict(OPTIONS, data=data, **dict(options, **way)))
            for name, way in WAYS.items()}
    hashes = [run.hashes() if run.status == 0 else None for run in runs.values()]
    tap.ok(hashes[0] and all(h == hashes[0] for h in hashes), "%s: local, ring and ps end every step with one hash" % what,
           [line for run in runs.values() if run.status != 0 for line in run.why()] + [str(h) for h in hashes])
    return hashes[0]


def broken(tap, psring, directory, data):
    alone = dict(OPTIONS, workers=1, mode="local", data=data)
    damaged = os.path.join(data, "train", "bee", "010.png")
    with open(damaged, "rb") as file:
        whole = file.read()
    with open(damaged, "wb") as file:
        file.write(whole[:len(whole) // 2])
    run = Run(psring, directory, "refused", alone)
    said = "\n".join(run.why())
    tap.ok(run.status == 2 and "--max-bad 0: 1 broken picture or empty class; the first: " in said and damaged in said and "truncated PNG" in said,
           "a truncated picture ends the run before its first step, with its name", run.why())
    allowed = equal_in_all_modes(tap, psring, directory, data, "a broken picture that is allowed", **{"max-bad": 1})
    shutil.copy(os.path.join(data, "train", "bee", "013.png"), damaged)
    copied = equal_in_all_modes(tap, psring, directory, data, "the next picture in its place")
    with open(damaged, "wb") as file:
        file.write(whole)
    tap.ok(allowed and allowed == copied, "a run over a broken picture ends as one where the next picture is copied into its place",
           [str(allowed), str(copied)])
    os.mkdir(os.path.join(data, "train", "dog"))
    run = Run(psring, directory, "empty", alone)
    tap.ok(run.status == 2 and "train/dog: a class without a picture" in "\n".join(run.why()), "an empty class is refused by name", run.why())
    os.rmdir(os.path.join(data, "train", "dog"))
    os.mkdir(os.path.join(data, "val", "eel"))
    run = Run(psring, directory, "unknown", alone)
    tap.ok(run.status == 2 and "val/eel: a class that the training pictures do not have" in "\n".join(run.why()),
           "a class of val that train does not have is refused by name", run.why())
    os.rmdir(os.path.join(data, "val", "eel"))


def tsv(tap, psring, directory, data, hashes):
    """The same pictures under the same labels by a list, in the folder's order."""
    for split in ("train", "val"):
        with open(os.path.join(directory, split + ".tsv"), "w") as file:
            for label in sorted(os.listdir(os.path.join(data, split))):
                for name in sorted(os.listdir(os.path.join(data, split, label))):
                    file.write("%s/%s/%s/%s\t%s\n" % (os.path.basename(data), split, label, name, label))
    run = Run(psring, directory, "tsv", dict(OPTIONS, mode="local", data=directory))
    tap.ok(run.status == 0 and run.hashes() == hashes, "a TSV list of a folder's pictures gives the folder's hashes", run.why())


def main():
    psring, photographs = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        data = write_folder(os.path.join(directory, "insects"))
        hashes = equal_in_all_modes(tap, psring, directory, data, "pictures of different sizes")
        with open(os.path.join(directory, "pictures-of-different-sizes-ps", "run.json")) as file:
            names = json.load(file)["facts"].get("class_names")
        tap.ok(names == sorted(os.listdir(os.path.join(data, "train"))), "run.json has the names of the classes", [str(names)])
        tsv(tap, psring, directory, data, hashes)
        broken(tap, psring, directory, data)
        if os.path.isdir(photographs):
            data = write_photographs(photographs, os.path.join(directory, "photographs"))
            full = equal_in_all_modes(tap, psring, directory, data, "photographs")
            scaled = equal_in_all_modes(tap, psring, directory, data, "photographs decoded scaled", decode="scaled")
            tap.ok(full and scaled and full != scaled, "which are other pixels", [str(full), str(scaled)])
        else:
            tap.skip("photographs", "%s is not there" % photographs)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
