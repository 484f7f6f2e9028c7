#!/usr/bin/env python3
"""generate.py HEADER OUT.c: writes the C source of psring's extension module.

What Python calls is declared by the text of psring.h itself, so that the two cannot differ: here it
is only taken out of the preprocessor's hands. The C compiler then checks each declaration against
the header once more. --cdef prints the declarations instead.

usage: generate.py HEADER OUT.c | generate.py --cdef HEADER"""

import pathlib
import re
import sys

LIMITS = {"INT32_MAX": str(2**31 - 1)}  # in constants of enumerations, whose values cffi computes


def declarations(header):
    """The text of psring.h, as cffi reads it. Constants of macros have the compiler's values."""
    header = pathlib.Path(header).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    constants = re.findall(r"^#define (PSRING_\w+)[ \t]+\(?[\w-]+\)?[ \t]*$", text, re.M)
    constants = [name for name in constants if name not in ("PSRING_API", "PSRING_MUST_CHECK")]
    # What C++ alone reads, and then every other line of the preprocessor.
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    text = re.sub(r"\b(PSRING_API|PSRING_MUST_CHECK)\b\s*", "", text)
    for name, value in LIMITS.items():
        text = re.sub(r"\b%s\b" % name, value, text)
    text = re.sub(r"\n\s*\n+", "\n", text)
    return "".join("#define %s ...\n" % name for name in constants) + text


def main(arguments):
    if arguments[:1] in (["-h"], ["--help"]) or len(arguments) != 2:
        print(__doc__)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    if arguments[0] == "--cdef":
        print(declarations(arguments[1]), end="")
        return 0
    import cffi  # here: --cdef needs none

    header, out = arguments
    ffi = cffi.FFI()
    ffi.cdef(declarations(header))
    ffi.set_source("psring._psring", '#include <psring/psring.h>\n', py_limited_api=True)
    ffi.emit_c_code(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
