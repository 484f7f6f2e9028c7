#!/usr/bin/env python3
"""stand_in_driver NM STUB OUT.c: the source of a libcuda.so.1 for machines without a GPU, with each
function that the toolkit's stub has. All fail as the stub does (error 34), but what cuDNN calls
while it plans: the driver's version, and loading kernels that it has compiled. Nothing can run.
"""
import subprocess
import sys

# What a planner needs, with the arguments of cuda.h.
PLANNED = {
    "cuDriverGetVersion": "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }",
    "cuLibraryLoadData": "int cuLibraryLoadData(void **library) { *library = &loaded; return 0; }",
    "cuLibraryGetKernel": "int cuLibraryGetKernel(void **kernel) { *kernel = &loaded; return 0; }",
}


def main():
    if len(sys.argv) != 4 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if "--help" in sys.argv[1:] or "-h" in sys.argv[1:] else 2
    nm, stub, out = sys.argv[1:]
    listed = subprocess.run([nm, "-D", "--defined-only", stub], check=True, capture_output=True, text=True).stdout
    names = sorted({line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-1].startswith("cu")})
    lacking = [name for name in PLANNED if name not in names]
    if lacking:
        sys.exit(f"stand_in_driver: {stub} has no {', '.join(lacking)}")
    with open(out, "w", encoding="utf-8") as file:
        file.write("static char loaded;\n")
        for name in names:
            file.write(PLANNED.get(name, f"int {name}(void) {{ return 34; }}") + "\n")
    return 0


sys.exit(main())
