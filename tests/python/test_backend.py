"""torch.distributed's backend "psring": its collectives, messages and groups, FSDP's bits beside
Gloo, what is told when a rank is lost, and how it is compiled. With --torch: torch's own tests of
a backend instead. Needs a Python with torch and cffi: PSR_PYTHON, or python3; skipped without. TAP.

usage: test_backend.py PACKAGES CACHE [--torch]; CACHE keeps what is compiled between calls"""

import os
import pathlib
import platform
import subprocess
import sys

from documented import documented
from forks import PATIENCE_S, Ranks, Tap, Workspace, here, started

if __name__ == "__main__":
    packages, os.environ["XDG_CACHE_HOME"] = sys.argv[1:3]
    started(None, packages)

import backend_ranks  # noqa: E402
import torch  # noqa: E402

python = sys.executable
HOST = platform.node()
# torch's own tests that do not pass, and why.
NOT_PASSED = {
    "test_ddp_logging_data_cpu": "DDP's log calls each backend that torch does not bring along \"custom\", and the test wants its name",
    "test_sparse_all_reduce_sum": "libpsring has no sparse tensors; one is refused by a line",
}
OWN_TESTS = 90  # at least so many are there to pass, and some of each of these
KINDS = ("test_DistributedDataParallelCPU", "test_all_to_all", "test_barrier_timeout", "test_batch_isend_irecv", "test_monitored_barrier",
         "test_send_recv_any_source")


def ranks(count, what):
    """The lines that all ranks printed, sorted, and what went wrong."""
    with Workspace() as folder:
        return played(count, what, folder, "meeting")


def played(count, what, folder, meeting):
    places = [{"PSR_TEST_RANK": str(rank), "XDG_RUNTIME_DIR": folder} for rank in range(count)]
    with Ranks(lambda: backend_ranks.be(int(os.environ["PSR_TEST_RANK"]), count, os.path.join(folder, meeting), what), places) as running:
        ended = running.wait_all()
    lines = [line for rank in ended for line in rank.lines]
    problems = [line for rank in ended for line in rank.err[-6:]]
    left = [name for name in os.listdir(folder) if name.startswith("psring-torch-")]
    lines += ["left: " + name for name in left]
    return sorted(lines), problems


def collectives(tap):
    said, problems = ranks(3, "all")
    names = sorted({line.split(" ", 1)[1].rsplit(" True", 1)[0] for line in said})
    for name in names:
        tap.ok("(" not in name and not name.startswith("psring-torch-"), name, [line for line in said if name in line] + problems)
    tap.ok(len(names) >= 30 and len([line for line in said if " made again " in line]) == 3, "all ranks came to the end", said + problems)


def bits(tap):
    names = "FSDP2 with AdamW ends 20 steps with Gloo's bits", "FSDP2 and tensor parallelism on 2 x 2 ranks are within 1e-6 of Gloo's"
    if not hasattr(torch.cpu.Stream, "record_event"):
        for name in names:
            tap.skip(name, "FSDP2 of torch %s calls record_event() of a CPU's stream, which has none: it runs with no backend" % torch.__version__)
        return
    said, problems = ranks(2, "fsdp")
    found = dict(line.split()[1:] for line in said if line.startswith("fsdp"))
    tap.ok(len(found) == 2 and found["gloo"] == found["psring"], names[0], said + problems)

    said, problems = ranks(4, "2x2")
    tap.ok([line.strip() for line in said] == ["%d 2x2 True" % rank for rank in range(4)], names[1], said + problems)


def hosts(tap):
    said, problems = ranks(2, "hosts")
    for name in ("several hosts", "no way to other hosts"):
        tap.ok(["%d %s True" % (rank, name) for rank in range(2)] == [line.strip() for line in said if name in line], name, said + problems)


def losses(tap):
    for how, name, words in [("killed", "a rank that was killed", ["rank 1"]), ("late", "a rank that is late", ["rank 1", "timeout"]),
                             ("raises", "a rank that raised an exception", ["rank 1", "ValueError: a mistake of rank 1"])]:
        said, problems = ranks(3, "loss:" + how)
        tap.ok(len(said) == 2 and all(word in line for line in said for word in words + [HOST]), name + " is told with its host", said + problems)


def all_killed(tap):
    """Nobody is left to remove the folder by which they shared memory."""
    with Workspace() as folder:
        said, problems = played(2, "all-killed", folder, "meeting")
        tap.ok(len(said) == 1 and said[0].startswith("left: "), "ranks that are all killed leave a folder", said + problems)
        said, problems = played(2, "threads", folder, "again")
        tap.ok(len(said) == 2 and not any(line.startswith("left: ") for line in said), "which the next start removes", said + problems)


def compiling(tap):
    def run(program, **more):
        return subprocess.run([python, "-c", program], env={**os.environ, **more}, capture_output=True, text=True, timeout=PATIENCE_S)

    ask = "import psring.torch as p\nfrom psring.torch import _compile\n"
    done = run(ask + "_compile.compiled()\nprint(_compile.place())")
    built = done.stdout.strip()
    tap.ok(os.path.isfile(built), "the backend is compiled into the cache", [built] + done.stderr.splitlines()[-8:])
    with Workspace() as folder:
        done = run(ask + "try:\n _compile.compiled()\nexcept p.UnsupportedError as e: print(e)\nprint(p.ddp_hook.__name__)",
                   PATH=folder, XDG_CACHE_HOME=folder, CXX="")
        said = done.stdout.splitlines()
        tap.ok(len(said) == 2 and documented(said[0]) and "install g++" in said[0] and done.stderr == "",
               "without a compiler one line says what to install, as documented, and the rest works", done.stdout.splitlines() + done.stderr.splitlines())
        # As Debian's PyTorch without the package of its headers.
        done = run(ask + "import torch\ntorch.__file__ = '%s/torch/__init__.py'\n"
                   "try:\n _compile.compiled()\nexcept p.UnsupportedError as e: print(e)" % folder, PATH=folder, XDG_CACHE_HOME=folder, CXX="")
        tap.ok("%s/torch/include) are missing: install g++ libtorch-dev pybind11-dev;" % folder in done.stdout and done.stdout.count("\n") == 1 and done.stderr == "",
               "without torch's headers as well, the same line has all that is to be installed", done.stdout.splitlines() + done.stderr.splitlines())
        broken = os.path.join(folder, "broken-c++")
        with open(broken, "w") as file:
            file.write("#!/bin/sh\necho 'x.cpp:1: error: no such thing' >&2\nexit 1\n")
        os.chmod(broken, 0o755)
        done = run(ask + "try:\n _compile.compiled()\nexcept p.UnsupportedError as e: print(e)", XDG_CACHE_HOME=folder, CXX=broken)
        left = [path.name for path in pathlib.Path(folder).rglob("*") if path.suffix == ".so" or path.name.startswith("building-")]
        tap.ok("x.cpp:1: error: no such thing" in done.stdout and not left, "a build that fails is told by its first error and leaves nothing",
               done.stdout.splitlines() + done.stderr.splitlines() + left)
        with open(broken, "w") as file:
            file.write("#!/bin/sh\necho 'x.hpp:1: fatal error: pybind11/chrono.h: No such file or directory' >&2\nexit 1\n")
        done = run(ask + "try:\n _compile.compiled()\nexcept p.UnsupportedError as e: print(e)", XDG_CACHE_HOME=folder, CXX=broken)
        tap.ok("pybind11 is missing: install pybind11-dev;" in done.stdout, "so is pybind11, which Debian's headers of torch do not bring along",
               done.stdout.splitlines() + done.stderr.splitlines())
        stale = pathlib.Path(folder, "three", "psring", pathlib.Path(built).parent.name, "building-killed")
        stale.mkdir(parents=True)
        stale.joinpath(pathlib.Path(built).name).write_text("torn")
        count, copier = os.path.join(folder, "count"), os.path.join(folder, "copying-c++")
        with open(copier, "w") as file:
            file.write('#!/bin/sh\necho built >>%s\nwhile [ "$1" != -o ]; do shift; done\ncp %s "$2"\n' % (count, built))
        os.chmod(copier, 0o755)
        three = [subprocess.Popen([python, "-c", ask + "print(_compile.compiled().__name__)"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "three"), "CXX": copier}) for _ in range(3)]
        ended = [process.communicate(timeout=PATIENCE_S) for process in three]
        said = [out for out, _ in ended]
        told = [line for _, err in ended for line in err.splitlines()]
        tap.ok(said == 3 * ["psring_torch_backend\n"] and pathlib.Path(count).read_text() == "built\n" and not stale.exists(),
               "of three processes one compiles, and what a killed build left is removed", said + [pathlib.Path(count).read_text()])
        tap.ok(len(told) == 1 and documented(told[0]), "which says so, as documented", told)
        done = run(ask + "import pathlib, torch\ns = [pathlib.Path(_compile.__file__)]\na = _compile.key(s)\ntorch.__version__ = '99.1.0'\n"
                   "b = _compile.key(s)\nprint(torch.__version__ in b, a != b)")
        tap.ok(done.stdout.split() == ["True", "True"], "another version of torch has a build of its own", done.stdout.splitlines() + done.stderr.splitlines())


def entry(tap):
    """An installed psring, as torch finds it by what pyproject.toml puts into a wheel."""
    project = (here.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    _, _, points = project.partition('[project.entry-points."torch.distributed.backends"]\n')
    program = ("import torch.distributed as d, inspect, sys\n"
               "if 'torch.distributed.backends' not in inspect.getsource(d.distributed_c10d): sys.exit(77)\n"
               "d.init_process_group('psring', init_method='file://' + sys.argv[1], rank=0, world_size=1)\nprint(d.get_backend())")
    with Workspace() as folder:
        info = pathlib.Path(folder, "psring-0.dist-info")
        info.mkdir()
        info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: psring\nVersion: 0\n")
        info.joinpath("entry_points.txt").write_text("[torch.distributed.backends]\n" + points.split("\n")[0].replace('"', "") + "\n")
        done = subprocess.run([python, "-c", program, os.path.join(folder, "meeting")], env={**os.environ, "PYTHONPATH": packages + ":" + folder},
                              capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode == 77:
        return tap.skip("torch finds the backend by its entry point", "this torch does not look for one")
    return tap.ok(done.stdout == "psring\n", "torch finds the backend by its entry point", done.stderr.splitlines()[-8:])


def torchs_own(tap):
    with Workspace() as folder:
        done = subprocess.run([python, here / "torch_own_tests.py", "psring"], env={**os.environ, "TEMP_DIR": folder, "TMPDIR": folder},
                              capture_output=True, text=True)
    found = {"passed": [], "skipped": [], "failed": []}
    for line in done.stdout.splitlines():
        word, name, why = (line.split(" ", 2) + [""])[:3]
        found.setdefault(word, []).append((name, why))
    for name, why in found["failed"]:
        tap.ok(name in NOT_PASSED, "%s: %s" % (name, NOT_PASSED.get(name, "failed")), [why] + done.stderr.splitlines()[-30:])
    passed = [name for name, _ in found["passed"]]
    tap.ok(len(passed) >= OWN_TESTS, "at least %d of torch's own tests pass" % OWN_TESTS, ["%d passed" % len(passed)] + done.stderr.splitlines()[-12:])
    tap.ok(all(any(name.startswith(kind) for name in passed) for kind in KINDS), "among them are some of each kind", passed)
    tap.ok(not set(passed) & set(NOT_PASSED), "what is listed as not passing does not pass", sorted(set(passed) & set(NOT_PASSED)))
    print("# %d passed, %d failed, %d were skipped" % tuple(len(found[word]) for word in ("passed", "failed", "skipped")))


def main():
    tap = Tap()
    for part in (torchs_own,) if sys.argv[3:] == ["--torch"] else (compiling, entry, collectives, hosts, bits, losses, all_killed):
        part(tap)
    tap.end()


if __name__ == "__main__":
    main()
