"""psring plot: a picture with a curve of every run, or a line that says what is wrong. What needs
gnuplot is skipped where it is not installed.

usage: test_plot.py PSRING"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from psring_run import PATIENCE_S, Tap, Workspace

LINE = '{"step": %d, "rank": %d, "loss": %s, "train_s": %g, "images_per_s": 100, "staleness": %d}\n'


def plot(psring, *arguments, **environment):
    done = subprocess.run([psring, "plot", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, text=True,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stdout, done.stderr


def made(directory, name, steps):
    out = os.path.join(directory, name)
    os.mkdir(out)
    with open(os.path.join(out, "metrics.jsonl"), "w") as text:
        for step in range(1, steps + 1):
            for rank in (0, 1):
                text.write(LINE % (step, rank, "null" if step == 2 else 2.3 / step + 0.01 * rank, step * 0.1, step % 3))
        text.write('{"step": ')  # its scheduler was killed
    return out


def main():
    psring, tap = sys.argv[1], Tap()
    with Workspace() as directory:
        runs = [made(directory, "one", 50), made(directory, "it's", 5000)]
        svg, png = (os.path.join(directory, "loss." + end) for end in ("svg", "png"))
        empty = os.path.join(directory, "nothing")
        os.mkdir(empty)
        code, told, said = plot(psring, runs[0], "-o", svg, PATH=empty)
        tap.ok(code == 1 and len(said.splitlines()) == 1 and "gnuplot is not installed" in said and not os.path.exists(svg),
               "without gnuplot a line says what to install", [told, said])
        for arguments, line in (((runs[0],), "--output FILE"), (("-o", svg), "no run is named"), ((runs[0], "-o", "a.jpg"), ".svg or .png"),
                                ((empty, "-o", svg), "metrics.jsonl"), ((runs[0], "-o", os.path.join(empty, "no", "a.svg")), "cannot be made")):
            code, told, said = plot(psring, *arguments)
            tap.ok(code == 2 and line in said and len(said.splitlines()) == 1, "refused in a line: " + line, [told, said])
        if shutil.which("gnuplot") is None:
            tap.skip("the pictures", "gnuplot is not installed")
        else:
            code, told, said = plot(psring, *runs, "-o", svg)
            if tap.ok(code == 0 and said == "" and told == "written    %s\n" % svg, "an SVG is drawn", [told, said]):
                titles = ["".join(e.itertext()) for e in xml.etree.ElementTree.parse(svg).getroot().iter() if e.tag.endswith("text")]
                words = " ".join(titles)
                tap.ok(all(word in words for word in ("one", "it's", "loss", "seconds", "images/s", "staleness", "share of the steps")), "with both runs and five panels", [words])
            code, told, said = plot(psring, *runs, "-o", png)
            with open(png, "rb") as file:
                tap.ok(code == 0 and said == "" and file.read(4) == b"\x89PNG", "and a PNG", [told, said])
        tap.ok(not [name for name in os.listdir(directory) if name.endswith(".new")], "nothing is left beside them")
    tap.end()


if __name__ == "__main__":
    main()
