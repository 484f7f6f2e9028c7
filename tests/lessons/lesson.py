"""What a lesson's page says: its commands, which a test runs as they stand there, and the lines of
output that it shows.

A block that begins with ```sh lesson holds commands, one a line; a line that ends with a backslash
goes on. A block ```text output that follows shows lines that the commands print. `..` stands for
lines that were left out. The numbers of a line may differ from what is printed, its words not."""

import os
import re
import subprocess

FENCE = re.compile(r"^```(\w*)(?: (\w+))?\n(.*?)^```$", re.M | re.S)
# Numbers with their sign or percent, hashes, and the dash that stands for no number.
NUMBER = re.compile(r"\b[0-9a-f]{16}\b|\d[\d.,:]*(e[+-]?\d+)?%?|(?<=\s)-(?=\s|$)")
PATIENCE_S = 300


class Lesson:
    """A page's commands, and the lines that it shows of what they print."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as text:
            blocks = FENCE.findall(text.read())
        self.commands, self.shown = [], []
        for language, mark, text in blocks:
            if (language, mark) == ("sh", "lesson"):
                self.commands += text.replace("\\\n", " ").splitlines()
            elif (language, mark) == ("text", "output"):
                self.shown += text.splitlines()

    def shortened(self, least_steps):
        """The commands with a tenth of the steps, seconds and repetitions."""
        def tenth(match):
            name, number = match.group(1), int(match.group(2))
            return "--%s %d" % (name, max(-(-number // 10), {"steps": least_steps}.get(name, 1)))
        return [re.sub(r"--(steps|seconds|repetitions) (\d+)", tenth, command) for command in self.commands]


def shape(line):
    """The words of a line, without its numbers and without the spaces that numbers push around."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", line)).strip()


def missing(shown, printed):
    """The lines that a page shows and that nothing printed."""
    shapes = {shape(line) for line in printed.splitlines()}
    return [line for line in shown if line.strip() not in ("", "..") and not line.startswith("$ ") and shape(line) not in shapes]


class Ran:
    def __init__(self, command, done):
        self.command, self.status, self.text = command, done.returncode, done.stdout

    def why(self):
        return ["$ " + self.command, "exit status %d" % self.status] + self.text.splitlines()[-30:]


def run(command, directory, path):
    """One command of a page, as a person's shell would run it there."""
    environment = dict(os.environ, PATH=path + os.pathsep + os.environ["PATH"], COLUMNS="100", LC_ALL="C.UTF-8")
    process = subprocess.Popen(["sh", "-c", command], cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        text = process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        text = process.communicate()[0] + "\n(ended by the test after %d s)" % PATIENCE_S
    return Ran(command, subprocess.CompletedProcess(command, process.returncode, text))
