#!/usr/bin/env python3
"""test_library.py MESON BUILD-ROOT SOURCE-ROOT PSRING CC..: the library as its users get it.
Installs it below a folder of its own, builds a program with pkg-config alone, and runs it. TAP."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import psring_run  # what this starts ends with it

meson, build, source, psring = sys.argv[1:5]
cc = sys.argv[5:]
source = pathlib.Path(source)
examples = source / "docs" / "examples"


def run(*command, env=None, status=0):
    done = subprocess.run([str(c) for c in command], env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Installed:
    def __init__(self, destdir):
        run(meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", destdir)
        self.root = destdir
        self.header = next(destdir.rglob("psring/psring.h"))
        self.library = next(destdir.rglob("libpsring.so"))
        pc = next(destdir.rglob("psring.pc"))
        self.env = {"PKG_CONFIG_PATH": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(destdir),
                    "LD_LIBRARY_PATH": str(self.library.parent)}

    def flags(self):
        return run("pkg-config", "--cflags", "--libs", "psring", env=self.env).split()

    def program(self):
        exe = self.root / "allreduce"
        # A build with sanitizers: the program needs their library first.
        sanitizers = [f"-fsanitize={s}" for s in ("address", "undefined") if f"lib{s[0]}{'b' if s[0] == 'u' else ''}san" in
                      run("ldd", self.library)]
        run(*cc, "-std=c11", "-Wall", "-Wextra", "-Werror", examples / "allreduce.c", "-o", exe, *sanitizers, *self.flags(), env=self.env)
        return exe


def the_example_is_built_with_pkg_config_alone_and_runs_on_four_ranks(installed):
    out = run(examples / "run_ranks", 4, installed.program(), env=installed.env)
    assert out == "4 ranks: the sum of x[1] is 10\n", out


def one_rank_needs_no_scheduler(installed):
    out = run(installed.program(), env={**installed.env, "PSRING_RANKS": "1", "PSRING_RANK": "0"})
    assert out == "1 ranks: the sum of x[1] is 1\n", out


def without_a_launcher_it_is_one_rank(installed):
    out = run(installed.program(), env=installed.env)
    assert out == "1 ranks: the sum of x[1] is 1\n", out


def without_a_place_among_others_it_says_which_variable_is_missing(installed):
    done = subprocess.run([installed.program()], env={**os.environ, **installed.env, "PSRING_SCHEDULER": "/run/somewhere"},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "set PSRING_RANK and PSRING_RANKS" in done.stderr, done.stderr


def it_brings_no_czmq_into_a_program(installed):
    """psring keygen is linked with czmq, whose zsys reads variables and registers exit handlers."""
    assert "czmq" in run("ldd", psring) and "czmq" not in run("ldd", installed.library)


def over_tcp_the_ranks_have_keys(installed):
    run(psring, "keygen", installed.root / "keys", "--workers", 3)
    meet_over_tcp(installed, installed.root / "keys")


def over_tcp_the_ranks_may_share_a_file_of_keys(installed):
    run(psring, "keygen", "--shared", installed.root / "shared.key", "--workers", 3)
    meet_over_tcp(installed, installed.root / "shared.key")


def meet_over_tcp(installed, keys):
    port = psring_run.free_port()
    exe = installed.program()
    ranks = [subprocess.Popen([exe], env={**os.environ, **installed.env, "PSRING_RANKS": "3", "PSRING_RANK": str(r),
                                          "PSRING_SCHEDULER": f"127.0.0.1:{port}", "PSRING_KEY_FILE": str(keys)},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(3)]
    outs = [rank.communicate(timeout=300) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), outs
    assert outs[0][0] == "3 ranks: the sum of x[1] is 6\n", outs


def the_library_exports_what_the_header_declares_and_nothing_else(installed):
    text = installed.header.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    declared = set(re.findall(r"PSRING_API[^;]*?\b(psring_\w+)\(", text))
    symbols = [line.split() for line in run("nm", "-D", "--defined-only", installed.library).splitlines()]
    exported = {words[2].split("@")[0] for words in symbols if words[1] != "A"}
    assert exported == declared and len(declared) > 30, exported ^ declared
    assert all("@@PSRING_" in words[2] for words in symbols if words[1] != "A"), symbols


def the_header_is_cplusplus_too(installed):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return "SKIP there is no C++ compiler"
    program = installed.root / "program.cc"
    program.write_text('#include <psring/psring.h>\nint main() { psring_options o = psring_options(); o.size = sizeof o; '
                       "return psring_options_env(&o) == PSRING_OK; }\n", encoding="utf-8")
    flags = [f for f in installed.flags() if f.startswith("-I")]
    run(compiler, "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", program, *flags)


TESTS = [
    the_example_is_built_with_pkg_config_alone_and_runs_on_four_ranks,
    one_rank_needs_no_scheduler,
    without_a_launcher_it_is_one_rank,
    without_a_place_among_others_it_says_which_variable_is_missing,
    it_brings_no_czmq_into_a_program,
    over_tcp_the_ranks_have_keys,
    over_tcp_the_ranks_may_share_a_file_of_keys,
    the_library_exports_what_the_header_declares_and_nothing_else,
    the_header_is_cplusplus_too,
]

print(f"1..{len(TESTS)}", flush=True)
failed = 0
with tempfile.TemporaryDirectory(prefix="psring-library-") as folder:
    here = Installed(pathlib.Path(folder))
    for number, test in enumerate(TESTS, 1):
        try:
            skipped = test(here)
            print(f"ok {number} - {test.__name__}{' # ' + skipped if skipped else ''}", flush=True)
        except Exception as error:  # each is said, and the next is run
            failed += 1
            print(f"not ok {number} - {test.__name__}", flush=True)
            for line in str(error).splitlines():
                print(f"# {line}", flush=True)
sys.exit(failed > 0)
