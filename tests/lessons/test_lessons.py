"""A lesson as a student takes it: the commands of its page run as they stand there, in a copy of
docs/lessons, and what the page claims holds: bytes, the order of events, hashes, predicted times,
and times that played passes and emulated links promise. Never how fast this machine is.

usage: test_lessons.py PSRING LESSONS NUMBER tenth|all"""

import glob
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

import claims
from lesson import Lesson, missing, run
from psring_run import Tap, Workspace


def main():
    psring, lessons, number, amount = sys.argv[1:]
    tap = Tap()
    (page,) = glob.glob(os.path.join(lessons, number + "-*.md"))
    lesson = Lesson(page)
    tap.ok(lesson.commands and lesson.shown, "the page has commands and shows what they print", [page])
    of = claims.LESSONS[int(number)]
    commands = lesson.commands if amount == "all" else lesson.shortened(of.least_steps)
    with Workspace() as directory:
        folder = os.path.join(directory, "lessons")
        shutil.copytree(lessons, folder)
        ran = []
        for command in commands:
            if command.startswith("psring plot") and shutil.which("gnuplot") is None:
                tap.skip(command, "gnuplot is not installed")
                continue
            why = of.needs(command)
            if why:
                tap.skip(command, why)
                continue
            ran.append(run(command, folder, os.path.dirname(os.path.abspath(psring))))
            tap.ok(ran[-1].status == of.status_of(command), command, ran[-1].why())
        absent = missing(lesson.shown, "".join(one.text for one in ran))
        # What was skipped printed nothing.
        tap.ok(not absent or len(ran) < len(commands), "what the page shows is printed", absent + [l for one in ran for l in one.why()])
        if tap.failed == 0:
            of.claims(tap, folder, ran)
    tap.end()


if __name__ == "__main__":
    main()
