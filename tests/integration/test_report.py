#!/usr/bin/env python3
"""psring report: a row for every run, however it ended, with the options in which the runs differ;
as table, JSON and CSV.

usage: test_report.py PSRING"""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys

from psring_live import LiveRun
from psring_run import PATIENCE_S, Run, Tap, Workspace
from test_help import on_terminal

OPTIONS = {"model": "mlp", "data": "synthetic:count=480,test=8,channels=1,size=28", "workers": 2, "batch-size": 8, "steps": 6,
           "lr": 0.05, "threads": 1, "seed": 3, "backend": "reference", "mode": "ps"}


def report(psring, *arguments):
    done = subprocess.run([psring, "report", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def interrupted(psring, directory):
    """A run that Ctrl-C has ended in its third step, at the latest."""
    run = LiveRun(psring, directory, "interrupted", dict(OPTIONS, steps=1000000, deadline=600, **{"fault-point": "worker:1:forward:2"}))
    try:
        run.wait_line("fault-point forward:2 reached", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        run.of_role("launcher").signal(signal.SIGINT)
        run.wait_line("once more to end at once", PATIENCE_S)
        held.signal(signal.SIGCONT)
        return run, run.wait(PATIENCE_S)
    finally:
        run.kill()


def unfinished(run, directory):
    """A copy of a run as it stood before its end: no outcome, and the metrics end within a line."""
    out = os.path.join(directory, "unfinished")
    shutil.copytree(run.out, out)
    with open(os.path.join(out, "run.json")) as text:
        whole = json.load(text)
    del whole["outcome"]
    with open(os.path.join(out, "run.json"), "w") as text:
        json.dump(whole, text)
    with open(os.path.join(out, "metrics.jsonl")) as text:
        lines = text.readlines()
    kept = [line for line in lines if json.loads(line)["step"] <= (4 if json.loads(line)["rank"] == 0 else 3)]
    with open(os.path.join(out, "metrics.jsonl"), "w") as text:
        text.write("".join(kept) + lines[-1][:20])
    return out


def hostile(directory):
    """A run.json that would move a terminal's cursor, and one that is no JSON."""
    outs = []
    for name, text in (("hostile", '{"config": {"mode": "\\u001b[2J"}, "outcome": {"status": "ok"}}'), ("torn", '{"config": {')):
        outs.append(os.path.join(directory, name))
        os.mkdir(outs[-1])
        with open(os.path.join(outs[-1], "run.json"), "w") as file:
            file.write(text)
    return outs


def rows_of(table):
    """{run: {column: cell}} and the lines of the blocks that the table is cut into. What is equal
    in all rows is told below them."""
    parts = table.split("\n\n")
    blocks = [part.splitlines() for part in parts if part.startswith("run ")]
    told = " ".join(line.strip() for part in parts if part.startswith("In all: ") for line in part[8:].splitlines())
    rows = {}
    for block in blocks:
        for run, cells in rows_of_block(block).items():
            rows.setdefault(run, dict(pair.split(" ", 1) for pair in told.split(", ") if pair)).update(cells)
    return rows, blocks


def rows_of_block(lines):
    """{run: {column: cell}}. Two blanks in all lines part columns; a name may go on in the lines
    below it, behind its underscores."""
    width = max(len(line) for line in lines)
    blank = [all(line[at:at + 1] in (" ", "") for line in lines) for at in range(width)]
    begins = [0] + [at for at in range(2, width) if blank[at - 2] and blank[at - 1] and not blank[at]]
    cells = [[line[begin:end].strip() for begin, end in zip(begins, begins[1:] + [width])] for line in lines]
    heads = 1 + sum(row[0] == "" for row in cells)
    names = ["".join(row[c] for row in cells[:heads]) for c in range(len(begins))]
    return {row[0]: dict(zip(names, row)) for row in cells[heads:]}


def too_wide(table, columns=80):
    return [line for line in table.splitlines() if len(line) > columns or line != line.rstrip()]


def wide(tap, psring, directory):
    """Runs that differ in more than a line of the table holds."""
    other = {"mode": "ring", "lr": 0.01, "optimizer": "adam", "batch-size": 16, "lr-schedule": "cosine", "label-smoothing": 0.1,
             "momentum": 0.5, "seed": 4, "bucket-size": "8K", "weight-decay": 0.001}
    name = "a-run-whose-name-takes-half-of-a-line-as-it-is"
    runs = [Run(psring, directory, "two-shards", dict(OPTIONS, shards=2)), Run(psring, directory, name, dict(OPTIONS, **other))]
    _, table, _ = report(psring, *[run.out for run in runs])
    rows, blocks = rows_of(table)
    tap.ok(len(blocks) > 2 and not too_wide(table), "a table that is too wide is cut into blocks of 80 columns at most", [table])
    narrow = on_terminal([psring, "report", *[run.out for run in runs]], 77)
    narrow_rows, narrow_blocks = rows_of(narrow)
    tap.ok(len(narrow_blocks) >= len(blocks) and not too_wide(narrow, 77) and narrow_rows == rows, "on a terminal of 77 columns into narrower ones",
           [narrow])
    tap.ok(all(rows[name][option] == str(value) for option, value in other.items()) and rows[name]["steps"] == "6"
           and rows[name]["hash"] == runs[1].outcome()["hash"] and "test_accuracy" in rows[name], "which have every column", [table])
    tap.ok(rows["two-shards"]["shards"] == "2" and rows[name]["shards"] == "-", "a ring has no shards", [table])


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        runs = {name: Run(psring, directory, name, dict(OPTIONS, sync=sync))
                for name, sync in (("bsp", "bsp"), ("ssp", "ssp:2"), ("async", "async"))}
        failed = Run(psring, directory, "failed", dict(OPTIONS, lr=1e6, steps=40))
        stopped, status = interrupted(psring, directory)
        tap.ok(all(run.status == 0 for run in runs.values()) and failed.status == 1 and status == 130, "the runs end as they should",
               failed.why() + stopped.why())
        good = [run.out for run in runs.values()]

        code, table, said = report(psring, *good)
        rows, blocks = rows_of(table)
        tap.ok(code == 0 and [rows[name]["sync"] for name in runs] == ["bsp", "ssp:2", "async"], "a row has the options that differ",
               [table, said])
        tap.ok("lr" not in rows["bsp"] and "out" not in rows["bsp"], "and not those that do not", [table])
        tap.ok(all(rows[name]["status"] == "done" and rows[name]["steps"] == "6" and rows[name]["hash"] == run.outcome()["hash"]
                   for name, run in runs.items()), "with status, steps and hash", [table])
        tap.ok(not too_wide(table), "in 80 columns at most", [table])
        tap.ok(not any("done" in line for block in blocks for line in block) and "\nIn all: status done, shards are beside, steps 6" in table,
               "what all rows have in common is told once", [table])
        wide(tap, psring, directory)
        short = Run(psring, directory, "short", dict(OPTIONS, steps=2))
        head, *lines = report(psring, "--csv", runs["bsp"].out, short.out)[1].splitlines()
        names, cells = head.split(","), lines[1].split(",")
        tap.ok(len(names) == len(set(names)) and dict(zip(names, cells))["option_steps"] == "2", "--csv has no two columns of one name", [head])
        with open(os.path.join(short.out, "metrics.jsonl"), "a") as metrics:
            metrics.write('{"step": 3, "ra')
        said = subprocess.run([psring, "diff", short.out, short.out], capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(said.returncode == 0 and "its last line is torn and left out" in said.stderr, "a torn last line is told, and no more",
               [said.stdout, said.stderr])

        odd = [failed.out, stopped.out, unfinished(runs["bsp"], directory), os.path.join(directory, "nowhere")] + hostile(directory)
        code, table, said = report(psring, *good, *odd)
        rows, blocks = rows_of(table)
        tap.ok(not any(too_wide("\n".join(block)) for block in blocks), "rows of runs that failed are no wider", [table])
        tap.ok(code == 2 and "could not be read" in said, "a directory that cannot be read is exit status 2", [table, said])
        told = {name: rows[name]["status"] for name in rows}
        tap.ok(told == {"bsp": "done", "ssp": "done", "async": "done", "failed": "failed", "interrupted": "interrupted",
                        "unfinished": "unfinished", "nowhere": "unreadable", "hostile": "unreadable", "torn": "unreadable"},
               "and a row like every other", [table])
        tap.ok(rows["failed"]["steps"] == str(failed.outcome()["steps"]) and "failed: failed: " in table and "not finite" in table,
               "a failed run's row has its steps, and why it failed is told", [table])
        tap.ok(rows["interrupted"]["steps"] == str(stopped.json()["outcome"]["steps"]) and "stopped after step" in table,
               "so does an interrupted one's", [table])
        tap.ok(rows["unfinished"]["steps"] == "3", "one without an outcome has the steps that all ranks completed", [table])
        tap.ok("\033" not in table + said, "nothing of a file is a command to the terminal", [repr(table)])
        code, table, said = report(psring, *good, failed.out, stopped.out)
        tap.ok(code == 0 and said == "", "runs that failed or were interrupted are no error", [said])

        formats(tap, psring, good + odd)
        code, _, said = report(psring, "--json", "--csv", good[0])
        tap.ok(code == 2 and "give one" in said, "--json with --csv is refused", [said])
        helped = report(psring, "--help")[1]
        tap.ok(all("  %s" % name in helped for name in runs["bsp"].outcome() if name not in OUR_OWN),
               "--help defines every figure", [helped])
    tap.end()


# Of the outcome, and no figures.
OUR_OWN = ("status", "exit_status", "line", "shards", "placement", "links")


def formats(tap, psring, outs):
    _, text, _ = report(psring, "--json", *outs)
    whole = json.loads(text)
    tap.ok([run["directory"] for run in whole["runs"]] == outs and set(whole["differing"]) >= {"sync", "lr", "steps"},
           "--json has every run", [text])
    by_name = {run["run"]: run for run in whole["runs"]}
    tap.ok(by_name["ssp"]["options"]["sync"] == "ssp:2" and by_name["ssp"]["steps"] == 6 and by_name["nowhere"]["steps"] is None
           and by_name["failed"]["loss"] is None and by_name["failed"]["why"],
           "with options, figures, and null where there is none", [text])
    _, text, _ = report(psring, "--csv", *outs)
    rows = list(csv.DictReader(io.StringIO(text)))
    tap.ok([row["run"] for row in rows] == [run["run"] for run in whole["runs"]] and all(None not in row for row in rows)
           and None not in [value for row in rows for value in row.values()],
           "--csv has a row for each, of as many fields as the head", [text])
    pairs = [(row, by_name[row["run"]]) for row in rows]
    figures = [name for name in whole["runs"][0] if name in rows[0] and isinstance(by_name["bsp"][name], (int, float))]
    tap.ok(len(figures) > 15 and all((float(row[name]) if row[name] else None) == run[name] for row, run in pairs for name in figures),
           "and the same figures", [text])
    tap.ok(all(row["why"] == run["why"] and row["status"] == run["status"] for row, run in pairs),
           "and words, quoted where they must be", [text])


main(os.path.abspath(sys.argv[1]))
