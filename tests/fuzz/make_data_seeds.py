#!/usr/bin/env python3
"""Writes the seeds of fuzz_idx and fuzz_cifar into corpus/: one good file of each kind and
packing."""
import gzip
import lzma
import pathlib
import struct

here = pathlib.Path(__file__).parent / "corpus"
pack = [bytes, lambda b: gzip.compress(b, mtime=0), lambda b: lzma.compress(b, preset=0)]
name = ["plain", "gz", "xz"]

images = struct.pack(">4I", 0x803, 3, 2, 4) + bytes(range(24))
labels = struct.pack(">2I", 0x801, 3) + bytes([0, 9, 4])
for i in range(3):
    for l in range(3):
        packed = pack[l](labels)
        seed = struct.pack(">BH", i | l << 2, len(packed)) + packed + pack[i](images)
        (here / "idx" / f"{name[i]}-{name[l]}").write_bytes(seed)
claims = struct.pack(">4I", 0x803, 0xFFFFFFFF, 1024, 1024)
(here / "idx" / "claims-petabytes").write_bytes(struct.pack(">BH", 0, len(labels)) + labels + claims)

for p in range(3):
    for hundred in range(2):
        record = bytes([7] * (1 + hundred)) + bytes(k // 512 * 40 for k in range(3072))
        seed = bytes([p | hundred << 2 | 1 << 3]) + pack[p](record * 2)
        (here / "cifar" / f"{'cifar100' if hundred else 'cifar10'}-{name[p]}").write_bytes(seed)
