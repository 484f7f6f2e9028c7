"""Ranks for tests of psring.torch and of its backend: processes that are forked after PyTorch has
been imported once, with the variables that a launcher would set.

A test is started by any Python; started() goes on with one that has torch and cffi (PSR_PYTHON)."""

import atexit
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import traceback

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "integration"))
# Tests take them from here.
from psring_run import PATIENCE_S, Tap, Workspace, outlived  # noqa: E402, F401

LAUNCHERS = ("PSRING_", "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "MASTER_", "TORCHELASTIC_", "OMPI_", "PMI", "SLURM_")


def started(shard, packages, needs="torch, cffi"):
    """Goes on in a Python that has these modules, with psring's package and programs (shard None:
    without these); or skips. It begins with the test's mark, so ranks that it forks end with it."""
    python = os.environ.get("PSR_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import " + needs], capture_output=True).returncode != 0:
        print("1..0 # SKIP %s has not all of %s; PSR_PYTHON names another Python" % (python, needs))
        sys.exit(0)
    if os.environ.get("PSR_TEST_PACKAGES") != packages or not outlived.is_shown():
        path = os.environ["PATH"]
        if shard is not None:
            path = os.pathsep.join([os.path.dirname(os.path.abspath(shard)), path])
        os.execve(python, [python, *sys.argv], {**os.environ, "PSR_TEST_PACKAGES": packages, "PYTHONPATH": packages, "PATH": path, "OMP_NUM_THREADS": "1"})


def bare():
    """The environment without what a launcher has set."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


class Ended:
    """A rank that has ended: its exit status (-9: killed), its lines, and those of standard
    error."""

    def __init__(self, status, out, err):
        self.status, self.lines, self.err = status, out.splitlines(), err.splitlines()

    def why(self):
        return ["status %s" % self.status, *self.lines[-15:], *self.err[-15:]]


def _play(work, variables, out, err):
    """The life of a forked rank, as that of a program: an exception is told, and exit functions
    run."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    for name in set(os.environ) - set(bare()):
        del os.environ[name]
    os.environ.update(variables)
    status = 0
    try:
        work()
    except BaseException as failure:  # noqa: BLE001: as Python's own end of a program
        traceback.print_exc()
        sys.last_value, status = failure, 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Ranks:
    """Forked ranks that do work(), each with its variables. As a context it leaves none behind."""

    def __init__(self, work, places):
        self.pids, self._files, self._told = [], [], {}
        sys.stdout.flush()
        for variables in places:
            files = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
            pid = os.fork()
            if pid == 0:
                _play(work, variables, *files)
            self.pids.append(pid)
            self._files.append(files)

    def wait(self, rank):
        """Until that one has ended; a test that hangs is ended by its own bound."""
        if rank not in self._told:
            status = os.waitstatus_to_exitcode(os.waitpid(self.pids[rank], 0)[1])
            for file in self._files[rank]:
                file.seek(0)
            self._told[rank] = Ended(status, *(file.read() for file in self._files[rank]))
        return self._told[rank]

    def kill(self, rank):
        if rank not in self._told:
            os.kill(self.pids[rank], signal.SIGKILL)

    def wait_all(self):
        return [self.wait(rank) for rank in range(len(self.pids))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in range(len(self.pids)):
            self.kill(rank)
            self.wait(rank)


def by_hand(folder, ranks, shards=0):
    """What ranks that are started by hand are told; folder is new and this user's alone."""
    place = {"PSRING_RANKS": str(ranks + shards), "PSRING_SHARDS": str(shards), "PSRING_SCHEDULER": os.path.join(folder, "scheduler")}
    return [dict(place, PSRING_RANK=str(rank)) for rank in range(ranks + shards)]


def _end(process, patience_s):
    """Whether it ends by itself within so many seconds. If not, it is killed."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


@contextlib.contextmanager
def ranks_by_hand(work, ranks, shards=0, patience_s=PATIENCE_S / 3):
    """Ranks, and shards of psring-ps that are started beside them and have to end with them."""
    with Workspace() as folder:
        places = by_hand(folder, ranks, shards)
        beside = [subprocess.Popen(["psring-ps", "serve", "--parent", str(os.getpid())], env={**bare(), **place}, stdin=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL) for place in places[ranks:]]
        try:
            with Ranks(work, places[:ranks]) as running:
                yield running
        finally:
            ended = [_end(process, patience_s) for process in beside]
        if not all(ended):
            raise AssertionError("shards that do not end within %g s of their ranks: %s" % (patience_s, [n for n, good in enumerate(ended) if not good]))


def play(work, ranks, shards=0):
    """(lines of rank 0 as words, what went wrong anywhere); no lines if a rank failed."""
    with ranks_by_hand(work, ranks, shards) as running:
        ended = running.wait_all()
    problems = [line for rank in ended if rank.status != 0 for line in rank.why()]
    return [] if problems else [line.split() for line in ended[0].lines], problems


def told(lines):
    return [" ".join(line) for line in lines]
