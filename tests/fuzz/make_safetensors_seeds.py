#!/usr/bin/env python3
"""Writes the seeds of fuzz_safetensors into corpus/safetensors/. The seed `checksums` is not made
here: it is a file that psr_checkpoint_commit wrote, kept because XXH3 is not in Python's
library."""
import json
import pathlib
import struct

here = pathlib.Path(__file__).parent / "corpus" / "safetensors"
here.mkdir(parents=True, exist_ok=True)


def write(name, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    (here / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


floats = struct.pack("<6f", *range(6))
write("empty", b"{}")
write("matrix", {"w": tensor("F32", [2, 3], 0, 24)}, floats)
write("scalar-and-vector",
      {"n": tensor("I64", [], 0, 8), "w": tensor("F32", [4], 8, 24), "__metadata__": {"format": "pt"}}, floats)
write("half-unaligned", {"h": tensor("F16", [1], 0, 2), "w": tensor("F32", [5], 2, 22)}, floats[:22])
write("empty-tensor", {"a": tensor("F32", [0, 5], 0, 0), "w": tensor("F32", [1], 0, 4)}, floats[:4])
write("escapes", b'{"\\u00e9\\ud83d\\ude00\\n" : {"dtype":"U8","shape":[1,1,1],"data_offsets":[0,1]} }  ', b"x")
(here / "claims-exabytes").write_bytes(struct.pack("<Q", 1 << 60) + b'{"w":')
