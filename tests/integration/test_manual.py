"""What is made of the programs' own words when psring is built: manual pages, and what bash
completes.

usage: test_manual.py PSRING PRINT-OPTIONS FOLDER-OF-PAGES"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from psring_run import PATIENCE_S, Tap

psring, print_options, folder = sys.argv[1:4]


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, **more)


def commands_of_help():
    told = run(psring, "--help").stdout
    return re.findall(r"^  (\w+) ", told[told.index("Commands:"):].split("\n\n")[0], re.M)


def pages(tap):
    commands = commands_of_help()
    found = sorted(os.path.basename(page)[:-2] for page in glob.glob(os.path.join(folder, "*.1")))
    missing = [command for command in commands if "psring-" + command not in found]
    tap.ok(len(commands) > 4 and not missing, "each command has a manual page", missing)
    options = run(print_options).stdout.split()
    for program in ("psring-train", "psring-scheduler"):
        with open(os.path.join(folder, program + ".1")) as file:
            text = file.read().replace("\\-", "-")
        missing = [option for option in options if "\\fB--%s\\fR" % option not in text]
        tap.ok(len(options) > 50 and not missing, program + "(1) has every option of the table", missing)
    mandoc = shutil.which("mandoc")
    for page in found:
        path = os.path.join(folder, page + ".1")
        done = run("mandoc", "-T", "lint", "-W", "warning", path) if mandoc else None
        tap.ok(not mandoc or done.returncode == 0, page + "(1) is a page that mandoc warns of nothing in" + ("" if mandoc else " # SKIP no mandoc"),
               done.stdout.splitlines() if mandoc else ())


# What bash does: the words as it divides them, and the function that complete names. What is
# offered is printed, and then the options of compopt.
ASK = r"""
source "$1"; shift
compopt() { options="$options $2"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) options=''
"$(complete -p "${1##*/}" | sed -n 's/.*-F \([^ ]*\).*/\1/p')"
printf '%s\n' "${COMPREPLY[@]}" "options:$options"
"""


def offered(words, **more):
    """What bash offers behind the words, and how it ends."""
    divided = [part for word in words for part in re.findall(r"=|[^=]+", word) or [""]]
    said = run("bash", "--norc", "-c", ASK, "bash", os.path.join(folder, "psring"), *divided, **more)
    lines = said.stdout.splitlines() or [""]
    return {line for line in lines[:-1] if line}, lines[-1], said.stderr


def expect(tap, words, wanted, ending=None, **more):
    found, end, wrong = offered(words, **more)
    tap.ok(found == set(wanted) and (ending is None or ending in end) and not wrong, "bash completes " + " ".join(words) + "_",
           [str(sorted(found)), end, wrong])


def completion(tap):
    found = offered(["psring", ""])[0]
    tap.ok(found == set(commands_of_help()), "bash completes psring's commands", [str(found)])
    words = [line.split() for line in run(print_options, "--words").stdout.splitlines()]
    for program in (["psring", "train"], ["/usr/bin/psring-scheduler"]):
        for name, *values in words:
            expect(tap, program + ["--%s=" % name], values)
    tap.ok(len(words) > 8, "options whose values are words were tried", [str(words)])
    expect(tap, ["psring", "train", "--mod"], ["--mode=", "--model="])
    expect(tap, ["psring", "train", "--mode", "r"], ["ring"])
    expect(tap, ["psring", "train", "--steps", "3", "--fold=r"], ["rank", "reversed"])
    expect(tap, ["psring", "train", "--model", "resnet1"], ["resnet110", "resnet18", "resnet101", "resnet152"])
    expect(tap, ["psring", "train", "--windo"], ["--window="], "nospace")
    expect(tap, ["psring", "train", "--sync", "s"], ["ssp:"], "nospace")
    expect(tap, ["psring", "train", "--steps", ""], [])
    expect(tap, ["psring", "train", "--steps="], [])
    expect(tap, ["psring", "bench", ""], ["comm", "exchange", "train"])
    expect(tap, ["psring", "bench", "comm", "--ty"], ["--type="])
    expect(tap, ["psring", "bench", "comm", "-O", "m"], ["minimum", "maximum", "mean"])
    expect(tap, ["psring", "bench", "comm", "--ho"], ["--hostfile="])
    expect(tap, ["psring", "bench", "comm", "--transport", "t"], ["tcp"])
    expect(tap, ["psring-bench-comm", "--ho"], [])
    expect(tap, ["psring", "bench", "exchange", "--ho"], ["--hostfile=", "--hosts="])
    expect(tap, ["psring", "bench", "train", "--repe"], ["--repetitions="])
    expect(tap, ["psring", "bench", "train", "--sha"], ["--shards="])
    expect(tap, ["psring", "bench", "train", "--ho"], ["--hostfile="])
    expect(tap, ["psring", "bench", "exchange", "--transport", "i"], ["ipc"])
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(os.path.join(place, "keys"))
        open(os.path.join(place, "hosts"), "w").close()
        for program in ("program one", "keys.txt"):
            open(os.path.join(place, program), "w").close()
        expect(tap, ["psring-worker", "--keys", ""], ["keys"], "filenames", cwd=place)
        expect(tap, ["psring", "train", "--hostfile=h"], ["hosts"], "filenames", cwd=place)
        expect(tap, ["psring", "report", "k"], ["keys"], "filenames", cwd=place)
        expect(tap, ["psring", "run", "-n", "2", "--", "psr-no-command", "p"], ["program one"], "filenames", cwd=place)
        expect(tap, ["psring", "run", "--", "psr-no-command", "--mode="], [], cwd=place)


def main():
    tap = Tap()
    pages(tap)
    completion(tap)
    tap.end()


if __name__ == "__main__":
    main()
