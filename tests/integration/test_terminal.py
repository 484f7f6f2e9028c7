"""What a person sees while a run goes on: a bar that stays on its line whatever the terminal's
width, an evaluation's own progress, and lines where there is no terminal.

usage: test_terminal.py PSRING"""

import os
import re
import signal
import subprocess
import sys
from functools import partial

from psring_live import LiveRun
from psring_run import PATIENCE_S, Tap, Workspace, together
from terminal import Screen, Terminal

STEPS = 1000  # as many digits as a bar of the old kind needed to leave its line at 80 columns
OPTIONS = {"model": "mlp", "data": "synthetic:count=400,test=90,channels=1,size=8", "batch-size": 4, "threads": 1, "seed": 7, "lr": 0.01,
           "mode": "ring", "deadline": 600}
DRAWN = r"\r([^\r\n\033]+)\033\[J\r"


def environment(**more):
    return dict(os.environ, TERM="xterm", **more)


def on_terminal(psring, directory, name, columns, options, env=None):
    terminal = Terminal(columns)
    run = LiveRun(psring, directory, name, options, out=terminal.writes, env=env or environment())
    os.close(terminal.writes)
    return terminal, run


def end(tap, name, terminal, run):
    tap.ok(not run.kill(), "%s: no process is left" % name, [])
    terminal.read_to_end(PATIENCE_S)
    terminal.close()


def the_bar_stays_on_its_line(tap, psring, directory, columns):
    name = "%d columns" % columns
    terminal, run = on_terminal(psring, directory, "wide-%d" % columns, columns, dict(OPTIONS, steps=STEPS))
    try:
        tap.ok(run.wait(PATIENCE_S) == 0, "%s: the run ends with status 0" % name, run.why())
        text = terminal.read_to_end(PATIENCE_S)
        drawn = re.findall(DRAWN, text)
        tap.ok(len(drawn) > 1 and max(map(len, drawn)) < columns, "%s: no drawing is wider" % name, drawn[-5:])
        tap.ok(re.search(r"%d/%d|100%%" % (STEPS, STEPS), drawn[-1]), "%s: the last one tells the last step" % name, drawn[-5:])
        screen = Screen(columns)
        screen.put(text.replace("\r\n", "\n").replace("\n", "\r\n"))
        bars = [row for row in screen.rows if re.match(r"(\[[#.]+\] )?(\d+/%d|\d+%%$)" % STEPS, row)]
        tap.ok(bars == [drawn[-1]], "%s: all drawings share one line" % name, bars[-5:] + screen.rows[-10:])
    finally:
        end(tap, name, terminal, run)


def follows_a_resize(tap, psring, directory):
    """While nothing moves: only the signal can be the cause of a new drawing."""
    terminal, run = on_terminal(psring, directory, "resized", 120, dict(OPTIONS, steps=100000000))
    try:
        terminal.wait_for(DRAWN, PATIENCE_S)
        worker = run.of_role("worker")
        worker.signal(signal.SIGSTOP)
        worker.wait_stopped()
        for columns in (100, 60, 40, 20, 90):
            terminal.resize(columns)
            with terminal.changed:
                before = len(terminal.text)
            run.of_role("launcher").signal(signal.SIGWINCH)
            terminal.wait_for(r"\r[^\r\n\033]{1,%d}\033\[J\r" % (columns - 1), PATIENCE_S, before)
        tap.ok(True, "the bar is drawn anew for each width of the terminal")
    except AssertionError as wrong:
        tap.ok(False, "the bar is drawn anew for each width of the terminal", [str(wrong)])
    finally:
        run.kill()
        terminal.close()


def an_evaluation_shows_its_progress(tap, psring, directory):
    """Worker 1 stops at the begin of the evaluation, in which worker 0 is then for as long as it
    takes to say so."""
    options = dict(OPTIONS, workers=2, steps=8, **{"eval-every": 4, "fault-point": "worker:1:evaluation:3"})
    terminal, run = on_terminal(psring, directory, "evaluating", 80, options)
    try:
        terminal.wait_for(r"fault-point evaluation:3 reached", PATIENCE_S)
        terminal.wait_for(r"\r(\[[#.]+\] )?4/8  evaluating \d+/90\033\[J\r", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        held.signal(signal.SIGCONT)
        tap.ok(run.wait(PATIENCE_S) == 0, "a run that was held in an evaluation ends", run.why())
        text = terminal.read_to_end(PATIENCE_S)
        tap.ok(re.search(r"(\n|\033\[J)step 4: test accuracy [\d.]+%.*\n", text),
               "what an evaluation came to has a line of its own", [repr(text[-600:])])
    except AssertionError as wrong:
        tap.ok(False, "an evaluation shows its own progress", [str(wrong)])
    finally:
        end(tap, "evaluation", terminal, run)


def lines_of(run):
    return [line for line in run.text("out") if re.match(r"step \d+/\d+  ", line)]


def in_a_pipe_lines_come_at_round_steps(tap, psring, directory):
    run = LiveRun(psring, directory, "pipe", dict(OPTIONS, workers=2, steps=110, **{"log-every": 25}), env=environment())
    try:
        tap.ok(run.wait(PATIENCE_S) == 0, "pipe: the run ends", run.why())
        steps = [int(re.match(r"step (\d+)/110  ", line).group(1)) for line in lines_of(run)]
        tap.ok(steps == [25, 50, 75, 100, 110], "pipe: a line at every --log-every steps, and for the last one", lines_of(run))
        tap.ok(not any(re.search(r"[\r\033]", line) for line in run.text("out")), "pipe: nothing is meant for a terminal", run.text("out"))
    finally:
        tap.ok(not run.kill(), "pipe: no process is left", [])


def progress_is_shown_as_told(tap, psring, directory):
    options = dict(OPTIONS, steps=40)
    for name, more, env, bar, lines in (("told lines", {"progress": "lines"}, environment(), False, True),
                                        ("told none", {"progress": "none"}, environment(), False, False),
                                        ("told bar", {"progress": "bar"}, environment(), True, False),
                                        ("a dumb terminal", {}, dict(environment(), TERM="dumb"), False, True)):
        terminal, run = on_terminal(psring, directory, name.replace(" ", "-"), 80, dict(options, **more), env)
        try:
            tap.ok(run.wait(PATIENCE_S) == 0, "%s: the run ends" % name, run.why())
            text = terminal.read_to_end(PATIENCE_S)
            tap.ok(bool(re.search(DRAWN, text)) == bar and bool(re.search(r"\nstep 40/40  ", text)) == lines and
                   ("\033" in text) == bar, "%s: progress is shown so" % name, [repr(text[-800:])])
        finally:
            end(tap, name, terminal, run)
    run = LiveRun(psring, directory, "piped-bar", dict(options, progress="bar"), env=environment())
    try:
        tap.ok(run.wait(PATIENCE_S) == 0 and not lines_of(run) and "\033[J" in "".join(run.text("out")),
               "a bar may be asked for in a pipe", run.why())
    finally:
        run.kill()
    refused = subprocess.run([psring, "train", "--progress", "dots"], capture_output=True, text=True, timeout=PATIENCE_S)
    tap.ok(refused.returncode == 2 and "give bar, lines or none" in refused.stderr, "another word is refused", [refused.stderr])


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        parts = [partial(the_bar_stays_on_its_line, columns=columns) for columns in (20, 40, 60, 80, 120)]
        parts += [follows_a_resize, an_evaluation_shows_its_progress, in_a_pipe_lines_come_at_round_steps, progress_is_shown_as_told]
        together(tap, [partial(part, psring=psring, directory=directory) for part in parts])
    tap.end()


if __name__ == "__main__":
    main()
