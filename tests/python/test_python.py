"""psring for Python under psring run, with Python's own arrays: every call's result, what is
refused, Ctrl-C in a wait, an exception in one rank. TAP.

usage: test_python.py PSRING PACKAGES PYTHON"""

import os
import pathlib
import signal
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "integration"))
from documented import documented  # noqa: E402
from psring_run import PATIENCE_S, Tap  # noqa: E402

psring, packages, python = sys.argv[1:4]
environment = {**os.environ, "PYTHONPATH": packages}
CHECKS = {
    "collectives": "every collective gives what it should, also with parts of different sizes",
    "requests": "operations are started, waited for in any order, persistent, and forgotten",
    "messages": "messages go by rank and tag, and to who takes any",
    "groups": "groups are split, listed, revoked and shrunk",
    "threads": "two threads with a group each make 500 all-reduces",
    "tables": "tables are pushed, pulled, read, written and closed",
    "says": "every public class and function has a text for help()",
    "refusals": "wrong arguments are refused by a line, and a mismatch names both ranks and the host",
}


def command(*options, what):
    return [psring, "run", *options, "--", python, here / "core_ranks.py", what]


def run(*options, what):
    done = subprocess.run(command(*options, what=what), env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.stdout.splitlines(), done.stderr.splitlines()


def ctrl_c_ends_a_wait():
    """A rank by itself in a wait of 60 s; the deadline would end it with another exception."""
    program = "import psring, array\nw = psring.Communicator(deadline=60).world\nprint('waiting', flush=True)\nw.receive(array.array('f', [0]), 0)"
    with subprocess.Popen([python, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode == -signal.SIGINT and "KeyboardInterrupt" in said, said.splitlines()[-5:]


TORCHES = {
    "None": "ModuleNotFoundError: psring.torch needs PyTorch, which this Python does not have: pip install torch, or apt install python3-torch",
    "types.SimpleNamespace(__version__='1.13.1', Tensor=object)":
        "ImportError: psring.torch needs PyTorch 2.1 or later, and this Python has 1.13.1: pip install torch",
}


def other_torches(tap):
    """What `import psring.torch` says where there is no PyTorch, or an old one."""
    for torch, line in TORCHES.items():
        program = "import sys, types\nsys.modules['torch'] = %s\nimport psring.torch" % torch
        done = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        said = done.stderr.splitlines()
        tap.ok(done.returncode == 1 and said[-1:] == [line] and "During handling" not in done.stderr and documented(line), "says: " + line, said)


def main():
    tap = Tap()
    said, problems = run("-n", "3", "--shards", "2", what="all")
    for check, name in CHECKS.items():
        tap.ok(check in said, name, problems[-12:])
    said, problems = run("-n", "3", what="raise")
    line = "told: 1 localhost rank 1 on localhost aborted: ValueError: this rank has had enough"
    tap.ok(said == [line] * 2, "an exception in one rank is raised in all, with its rank, host and line", said + problems[-12:])
    ended, problems = ctrl_c_ends_a_wait()
    tap.ok(ended, "Ctrl-C ends a wait", problems)
    other_torches(tap)
    tap.end()


main()
