"""What the suites that others wrote for MPI share: how their programs are built over mpi.h of this
folder, and run."""

import argparse
import os
import pathlib
import re
import signal
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ["life.c", "groups.c", "requests.c", "collectives.c"]
LACKS = re.compile(r"mpi\.h over psring lacks (.+)")
PATIENCE_S = 600
DEADLINE_S = 60  # of a call: the suites' ranks sleep and compute
BUILD_S = 300


class Shim:
    """mpi.h over libpsring, built in a folder, and what compiles and links a suite's programs with
    it."""

    def __init__(self, directory, libpsring, include, flags=()):
        self.built = pathlib.Path(directory)
        self.flags = ["-std=gnu11", "-O1", "-I%s" % HERE, "-I%s" % include]
        self.theirs = ["-w", *flags]
        self.link = [str(libpsring), "-Wl,-rpath,%s" % libpsring.parent, "-lm"]
        self.objects = [self._need(HERE / name, ["-Wall", "-Wextra"]) for name in SOURCES]

    def _cc(self, arguments):
        return subprocess.run(["cc"] + self.flags + arguments, capture_output=True, text=True, timeout=BUILD_S)

    def _compile(self, path, flags):
        """(object, what the compiler said)"""
        made = str(self.built / (path.stem + ".o"))
        done = self._cc(flags + ["-c", str(path), "-o", made])
        return (made if done.returncode == 0 else None), done.stderr

    def _need(self, path, flags):
        made, said = self._compile(path, flags)
        if made is None or said:
            raise SystemExit("cc %s:\n%s" % (path, said))
        return made

    def compile(self, path, flags=()):
        """The object of a source that a suite's programs link; without it there is no test."""
        return self._need(path, self.theirs + list(flags))

    def try_compile(self, path, flags=()):
        """The object, or None where it cannot be built here: what needs it will not link, and says
        by what name."""
        return self._compile(path, self.theirs + list(flags))[0]

    def program(self, path, objects, output, flags=()):
        """Builds one of the suite's programs. None, or why it cannot be built."""
        done = self._cc(self.theirs + list(flags) + [str(path)] + objects + self.objects + self.link + ["-o", str(output)])
        if done.returncode == 0:
            return None
        errors = [line for line in done.stderr.splitlines() if "error:" in line or "undefined reference" in line]
        return "it does not build: " + re.sub(r"^.*?(error:|undefined)", r"\1", (errors or [done.stderr])[0])


def run(psring, program, ranks, arguments):
    """(exit status, what it said) of the program under psring run."""
    command = [psring, "run", "-n", str(ranks), "--deadline=%d" % DEADLINE_S, "--", str(program)] + arguments
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        said += "\n(ended by the test after %d s)" % PATIENCE_S
    return process.returncode, said


def lacking(said):
    """The name of what the library has not, where a program ended for that; else None."""
    missing = LACKS.search(said)
    return missing.group(1) if missing else None


def arguments_of(description):
    """A parser of the arguments that every suite takes: psring, its library, the library's
    headers."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("psring")
    parser.add_argument("libpsring", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("include", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--keep", help="a folder for what is built, which stays")
    return parser
