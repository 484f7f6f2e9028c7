"""torch.distributed's backend "psring": its collectives, messages and groups, FSDP's bits beside
Gloo, what is told when a rank is lost, and how it is compiled. With --torch: torch's own tests of
a backend instead. Needs a Python with torch and cffi: PSR_PYTHON, or python3; skipped without. TAP.

usage: test_backend.py PACKAGES CACHE [--torch]; CACHE keeps what is compiled between calls"""

import os
import pathlib
import platform
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "integration"))
from psring_run import PATIENCE_S, Tap, Workspace  # noqa: E402

packages, cache = sys.argv[1:3]
python = os.environ.get("PSR_PYTHON", "python3")
environment = {**os.environ, "PYTHONPATH": packages, "XDG_CACHE_HOME": cache, "OMP_NUM_THREADS": "1"}
HOST = platform.node()
# torch's own tests that do not pass, and why.
NOT_PASSED = {}
OWN_TESTS = 90  # at least so many are there to pass


def ranks(count, what):
    """The lines that all ranks printed, sorted, and what went wrong."""
    with Workspace() as folder:
        meeting = os.path.join(folder, "meeting")
        started = [subprocess.Popen([python, here / "backend_ranks.py", what, str(rank), str(count), meeting], env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(count)]
        lines, problems = [], []
        for process in started:
            try:
                out, err = process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                problems.append("a rank was ended by the test")
            lines += out.splitlines()
            problems += err.splitlines()[-6:]
    return sorted(lines), problems


def collectives(tap):
    said, problems = ranks(3, "all")
    names = sorted({line.split(" ", 1)[1].rsplit(" True", 1)[0] for line in said})
    for name in names:
        tap.ok(not name.endswith(")"), name, [line for line in said if name in line] + problems)
    tap.ok(len(names) >= 30 and len([line for line in said if " made again " in line]) == 3, "all ranks came to the end", said + problems)


def bits(tap):
    said, problems = ranks(2, "fsdp")
    found = dict(line.split()[1:] for line in said if line.startswith("fsdp"))
    tap.ok(len(found) == 2 and found["gloo"] == found["psring"], "FSDP2 with AdamW ends 20 steps with Gloo's bits", said + problems)


def losses(tap):
    for how, name, words in [("killed", "a rank that was killed", ["rank 1"]), ("late", "a rank that is late", ["rank 1", "timeout"]),
                             ("raises", "a rank that raised an exception", ["rank 1", "ValueError: a mistake of rank 1"])]:
        said, problems = ranks(3, "loss:" + how)
        tap.ok(len(said) == 2 and all(word in line for line in said for word in words + [HOST]), name + " is told with its host", said + problems)


def compiling(tap):
    def run(program, **more):
        return subprocess.run([python, "-c", program], env={**environment, **more}, capture_output=True, text=True, timeout=PATIENCE_S)

    with Workspace() as folder:
        ask = "import psring.torch as p\nfrom psring.torch import _compile\n"
        done = run(ask + "try:\n _compile.compiled()\nexcept p.UnsupportedError as e: print(e)\nprint(p.ddp_hook.__name__)",
                   PATH=folder, XDG_CACHE_HOME=folder, CXX="")
        tap.ok("a C++ compiler (c++) is missing: install g++" in done.stdout and done.stdout.count("\n") == 2 and done.stderr == "",
               "without a compiler one line says what to install, and the rest works", done.stdout.splitlines() + done.stderr.splitlines())
        broken = os.path.join(folder, "broken-c++")
        with open(broken, "w") as file:
            file.write("#!/bin/sh\necho 'x.cpp:1: error: no such thing' >&2\nexit 1\n")
        os.chmod(broken, 0o755)
        done = run(ask + "try:\n _compile.compiled()\nexcept p.UnsupportedError as e: print(e)", XDG_CACHE_HOME=folder, CXX=broken)
        left = [path.name for path in pathlib.Path(folder).rglob("*") if path.suffix == ".so" or path.name.startswith("building-")]
        tap.ok("x.cpp:1: error: no such thing" in done.stdout and not left, "a build that fails is told by its first error and leaves nothing",
               done.stdout.splitlines() + done.stderr.splitlines() + left)
        done = run(ask + "import pathlib, torch\ns = [pathlib.Path(_compile.__file__)]\na = _compile.key(s)\ntorch.__version__ = '99.1.0'\n"
                   "b = _compile.key(s)\nprint(torch.__version__ in b, a != b)")
        tap.ok(done.stdout.split() == ["True", "True"], "another version of torch has a build of its own", done.stdout.splitlines() + done.stderr.splitlines())


def torchs_own(tap):
    with Workspace() as folder:
        done = subprocess.run([python, here / "torch_own_tests.py", "psring"], env={**environment, "TEMP_DIR": folder},
                              capture_output=True, text=True)
    found = {"passed": [], "skipped": [], "failed": []}
    for line in done.stdout.splitlines():
        word, name, why = (line.split(" ", 2) + [""])[:3]
        found.setdefault(word, []).append((name, why))
    for name, why in found["failed"]:
        tap.ok(name in NOT_PASSED, "%s: %s" % (name, NOT_PASSED.get(name, "failed")), [why] + done.stderr.splitlines()[-30:])
    passed = [name for name, _ in found["passed"]]
    tap.ok(len(passed) >= OWN_TESTS, "at least %d of torch's own tests pass" % OWN_TESTS, ["%d passed" % len(passed)] + done.stderr.splitlines()[-12:])
    tap.ok(not set(passed) & set(NOT_PASSED), "what is listed as not passing does not pass", sorted(set(passed) & set(NOT_PASSED)))
    print("# %d passed, %d failed, %d were skipped" % tuple(len(found[word]) for word in ("passed", "failed", "skipped")))


def main():
    if subprocess.run([python, "-c", "import torch, cffi"], capture_output=True).returncode != 0:
        print("1..0 # SKIP %s has no torch or no cffi; PSR_PYTHON names another Python" % python)
        return
    tap = Tap()
    for part in (torchs_own,) if sys.argv[3:] == ["--torch"] else (compiling, collectives, bits, losses):
        part(tap)
    tap.end()


main()
