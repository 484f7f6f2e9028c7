#!/usr/bin/env python3
"""test_cuda_resources.py KERNELS.H [RESOURCES]: what ptxas told of each of psring's own kernels
(model/cuda/kernels/compile): no spilled register, no stack, and registers and shared memory within
bounds, for each of three architectures. TAP; a skip without RESOURCES: the build has no nvcc."""
import pathlib
import re
import sys

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
# Four blocks of 256 threads have room in one processor: 65536 registers, at most 100 KiB.
MOST_REGISTERS = 64
MOST_SHARED_BYTES = 16 << 10

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\d+)'(.*?)(?=Compiling entry|\Z)", re.S)


def number(pattern, text):
    """0: ptxas leaves out what a kernel has none of."""
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def violations(told):
    registers = number(r"Used (\d+) registers", told)
    if not 0 < registers <= MOST_REGISTERS:
        yield f"{registers} registers of at most {MOST_REGISTERS}"
    shared = number(r"(\d+) bytes smem", told)
    if shared > MOST_SHARED_BYTES:
        yield f"{shared} bytes of shared memory of at most {MOST_SHARED_BYTES}"
    for what in ("stack frame", "spill stores", "spill loads"):
        if not re.search(rf"\b0 bytes {what}", told):
            yield f"not 0 bytes of {what}"


def main():
    if len(sys.argv) == 2:
        print("1..0 # SKIP the build has no nvcc")
        return 0
    header = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    kernels = re.findall(r"^    K\((\w+)\)", header, re.M)
    resources = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
    told = {(name, architecture): text for name, architecture, text in ENTRY.findall(resources)}
    failed = 0
    print(f"1..{len(kernels) * len(ARCHITECTURES) + 1}")
    for count, (kernel, architecture) in enumerate(
            ((kernel, architecture) for kernel in kernels for architecture in ARCHITECTURES), 1):
        text = told.pop((f"psr_kernel_{kernel}", architecture), None)
        wrong = ["ptxas did not tell of it"] if text is None else list(violations(text))
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {count} - {kernel} on {architecture}")
        for line in wrong:
            print(f"# {line}")
    failed += bool(told) or not kernels
    print(f"{'not ok' if told or not kernels else 'ok'} {count + 1} - no other kernel was compiled: "
          f"{', '.join(' '.join(key) for key in told) or 'none'}")
    return failed > 0


sys.exit(main())
