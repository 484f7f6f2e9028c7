#!/usr/bin/env python3
"""What every command and program tells of itself: under each of the names that people try, and no
wider than their terminal.

usage: test_help.py PSRING PROGRAM..."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from psring_run import PATIENCE_S, Tap

COMMANDS = ["train", "run", "bench", "bench comm", "bench exchange", "bench train", "lab", "doctor", "predict", "mode", "report", "show",
            "diff", "watch", "inspect", "export", "eval", "classify", "plot", "data", "data get", "data check", "data ls", "data pack", "keygen"]


def run(words, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "ARGP_HELP_FMT")}
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, env=dict(clean, **environment))


def on_terminal(words, columns):
    """What it writes on a terminal of so many columns."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "ARGP_HELP_FMT")}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=side, env=clean)
    os.close(side)
    said = b""
    try:
        while True:
            said += os.read(main, 65536)
    except OSError:  # its end was closed
        pass
    os.close(main)
    process.wait(PATIENCE_S)
    return said.decode().replace("\r\n", "\n")


def too_wide(text, columns):
    """Lines that are, and not for one word that is as wide, which nobody can break. What follows it
    argp leaves on its line."""
    return [line for line in text.splitlines() if len(line) > columns
            and not any(line.index(word) + len(word) > columns - 2 and len(word) > columns / 2 for word in line.split())]


def buried(text):
    """Lines of examples and of the exit status that do not begin a paragraph."""
    lines = text.splitlines()
    return [line for before, line in zip(lines, lines[1:])
            if ("Exit status:" in line and not (line.startswith("Exit status:") and not before)) or (line.startswith("Example") and before)]


def main():
    psring, programs, tap = sys.argv[1], sys.argv[2:], Tap()
    every = [[psring]] + [[psring, *command.split()] for command in COMMANDS] + [[program] for program in programs]
    for words in every:
        name = " ".join([os.path.basename(words[0]), *words[1:]])
        told = run(words + ["--help"])
        tap.ok(told.returncode == 0 and told.stdout.startswith("Usage: ") and not told.stderr, name + " --help", [told.stdout, told.stderr])
        short = run(words + ["-h"])
        tap.ok(short.returncode == 0 and short.stdout == told.stdout, name + " -h is the same", [short.stdout, short.stderr])
        wide = too_wide(told.stdout, 80)
        tap.ok(not wide, name + ": 80 columns where nobody tells", wide)
        tap.ok("\n\n\n" not in told.stdout, name + ": no two blank lines", [told.stdout])
        tap.ok(not buried(told.stdout), name + ": examples and exit status stand apart", buried(told.stdout))
        for columns in (60, 100):
            wide = too_wide(run(words + ["--help"], COLUMNS=str(columns)).stdout, columns)
            tap.ok(not wide, "%s: COLUMNS=%d" % (name, columns), wide)
        wide = too_wide(on_terminal(words + ["--help"], 60), 60)
        tap.ok(not wide, name + ": a terminal of 60 columns", wide)
    for command in COMMANDS:
        told, asked = run([psring, *command.split(), "--help"]), run([psring, "help", *command.split()])
        tap.ok(asked.returncode == 0 and asked.stdout == told.stdout, "psring help %s" % command, [asked.stdout, asked.stderr])
    wrong = run([psring, "help", "tarin"])
    tap.ok(wrong.returncode == 2 and len(wrong.stderr.splitlines()) == 1 and "'tarin' is not a command (train?); there are train, run," in wrong.stderr,
           "psring help of what is no command is refused in one line", [wrong.stderr])
    shard = next(program for program in programs if os.path.basename(program) == "psring-ps")
    told = run([shard, "serve", "--help"])
    tap.ok(told.returncode == 0 and told.stdout.startswith("Usage: psring-ps serve [OPTION...]\nOne shard of a program's tables."),
           "psring-ps serve --help", [told.stdout, told.stderr])
    wrong = run([shard, "serve", "--rank", "0"])
    tap.ok(wrong.returncode == 2 and wrong.stderr == "psring-ps serve: --rank: there is no such option; --help lists them\n",
           "psring-ps serve refuses the options of psring-ps", [wrong.stderr])
    tap.ok(run([psring, "help"]).stdout == run([psring, "--help"]).stdout, "psring help")
    tap.ok(run([psring, "version"]).stdout == run([psring, "--version"]).stdout != "", "psring version")
    program = ["sh", "-c", 'echo "$1 $2 ${ARGP_HELP_FMT-unset}"', "sh", "-h", "--help"]
    ranks = run([psring, "run", "-n", "1", "--", *program])
    tap.ok(ranks.returncode == 0 and ranks.stdout == "-h --help unset\n", "psring run: what is behind a program is the program's",
           [ranks.stdout, ranks.stderr])
    told = " ".join(run([psring, "train", "--help"]).stdout.split())
    for word in ("ps: parameter servers", "ring: the workers", "local: one process", "IDX", "CIFAR-10", "dataset-fashion-mnist",
                 "count=60000, test=10000, channels=3, size=32, classes=10"):
        tap.ok(word in told, "psring train --help says: %s" % word)
    tap.end()


if __name__ == "__main__":
    main()
