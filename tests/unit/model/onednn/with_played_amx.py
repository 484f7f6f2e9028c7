"""Runs test_implementations with oneDNN made to believe in AMX, so that its plans for such
processors are seen on others with AVX-512: a copy of the library whose cpuid instructions trap, and
played_amx.c, which answers them.

usage: with_played_amx.py MODULE PROGRAM sample|all LOOPS_TXT"""

import os
import re
import subprocess
import sys
import tempfile

SET = "avx512_core_amx"
CPUID, UNDEFINED = b"\x0f\xa2", b"\x0f\x0b"


def skip(reason):
    print("1..0 # SKIP %s" % reason)
    sys.exit(0)


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def library_of(program):
    found = re.search(r"(libdnnl\.so\S*) => (\S+)", output("ldd", program))
    return found.groups() if found else skip("oneDNN is no shared library")


def trapping(path):
    """The library's bytes, every cpuid replaced."""
    segments = [tuple(int(number, 16) for number in row)
                for row in re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", output("readelf", "-lW", path))]
    code = bytearray(open(path, "rb").read())
    places = [int(place, 16) for place in re.findall(r"^\s*(\w+):\s+cpuid", output("objdump", "-d", "--no-show-raw-insn", path), re.M)]
    if not places:
        skip("no cpuid instruction was found in %s" % path)
    for place in places:
        at = next(place - address + offset for offset, address, size in segments if address <= place < address + size)
        assert code[at:at + 2] == CPUID
        code[at:at + 2] = UNDEFINED
    return code


def main():
    module, program, *arguments = sys.argv[1:]
    flags = open("/proc/cpuinfo").read()
    if " avx512_bf16" not in flags:
        skip("a plan for AMX needs the rest of AVX-512 here")
    name, path = library_of(program)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, name), "wb") as copy:
            copy.write(trapping(path))
        env = dict(os.environ, LD_PRELOAD=os.path.abspath(module), LD_LIBRARY_PATH=folder)
        done = subprocess.run([program, *arguments, SET], stdout=subprocess.PIPE, text=True, env=env)
    # It was not believed where it is skipped.
    print(re.sub("^ok(.*) # SKIP", r"not ok\1:", done.stdout), end="")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
