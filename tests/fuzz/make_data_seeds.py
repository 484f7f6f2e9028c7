#!/usr/bin/env python3
"""Writes the seeds of fuzz_idx, fuzz_cifar and fuzz_pack into corpus/: one good file of each kind
and packing."""
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

# Packs without right checksums, which fuzz_pack makes (data/pack/form.h has the layout).
HEAD, ALIGNMENT = 512, 64


def aligned(data):
    return data + bytes(-len(data) % ALIGNMENT)


def write_pack(sizes, forms, names):
    """Two splits of two pictures each, of sizes (height, width)."""
    records = [bytes(range(3 * h * w)) for h, w in sizes]
    offsets = [HEAD + sum(map(len, records[:i])) for i in range(4)]
    index_offset = (HEAD + sum(map(len, records)) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    common = sizes[0] if len(set(sizes)) == 1 else (0, 0)
    index, splits = b"", b""
    for s in range(2):
        labels_offset = index_offset + len(index)
        index += aligned(struct.pack("<2I", 0, 1))
        entries_offset = index_offset + len(index)
        entries = [struct.pack("<Q4IQ", offsets[i], len(records[i]), forms[i], *sizes[i], 0) for i in (2 * s, 2 * s + 1)]
        index += aligned(b"".join(entries))
        splits += struct.pack("<6I6f2Q32s", 2, 3, *common, 2, 0, 0.1, 0.2, 0.3, 1, 1, 1, labels_offset, entries_offset, b"0123456789abcdef" * 2)
    names_offset = index_offset + len(index)
    index += names
    head = struct.pack("<16sIIQQQ", b"", 0, 0, 0, index_offset, 0) + splits
    head += struct.pack("<QII64s", names_offset, len(names), 2 if names else 0, b"made")
    file = head + bytes(HEAD - len(head)) + b"".join(records)
    return bytes([0]) + file + bytes(index_offset - len(file)) + index


(here / "pack").mkdir(exist_ok=True)
(here / "pack" / "pixels").write_bytes(write_pack([(2, 3)] * 4, [0] * 4, b""))
(here / "pack" / "files").write_bytes(write_pack([(1, 2), (3, 1), (2, 2), (1, 1)], [1, 2, 1, 0], b"cat\0dog\0"))
