#!/usr/bin/env python3
"""`psring bench train` measures every configuration in alternating order, writes a line for each
repetition, goes on where it was killed, refuses another benchmark and bad input by name, goes on
after a run that failed, and keeps within 80 columns.

usage: test_bench_train.py PSRING"""

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

from psring_run import PATIENCE_S, Tap, Workspace

BASE = ["--model=mlp", "--data=synthetic:count=256,test=32,size=8,channels=1", "--batch-size=4", "--threads=1", "--lr=1e-4", "--steps=6",
        "--workers=2"]


def bench(psring, directory, words):
    return subprocess.run([psring, "bench", "train", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=directory,
                          timeout=PATIENCE_S)


def records(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines][1:]


def why(done):
    return ["exit status %d" % done.returncode] + done.stdout.splitlines()[-30:] + done.stderr.splitlines()[-10:]


def measures_all(tap, psring, directory):
    words = BASE + ["--mode=ps,ring,local,none", "--shards", "1,2", "--repetitions=2", "--out=all.jsonl"]
    done = bench(psring, directory, words)
    if not tap.ok(done.returncode == 0, "all architectures: ends with status 0", why(done)):
        return
    told = records(os.path.join(directory, "all.jsonl"))
    there = ["ps:1", "ps:2", "ring", "local", "no exchange"]
    tap.ok([record["configuration"] for record in told] == there + there[::-1], "repetitions go there and back", [str(told)])
    tap.ok(all(record["status"] == "done" and record["images_per_s"] > 0 and record["steps"] == 6 for record in told),
           "each has its figures", [str(told)])
    tap.ok(all(abs(record["compute_s"] + record["exposed_s"] + record["waiting_s"] - record["step_s"]) <= 1e-3 + record["step_s"] / 2
               and record["hidden_s"] >= 0 for record in told), "the parts add up to a step", [str(told)])
    tap.ok(len({record["hash"] for record in told if record["configuration"] != "no exchange"}) == 1, "all end in the same bits", [str(told)])
    tap.ok("All 8 runs with --sync bsp and no compression ended in the same bits." in " ".join(done.stdout.split()), "and the summary says so", why(done))
    tap.ok("that takes 6 repetitions" in " ".join(done.stdout.split()),
           "two repetitions call nothing different", why(done))
    wide = [line for line in done.stdout.splitlines() if len(line) > 80]
    tap.ok(not wide, "lines have 80 columns at most", wide)
    tap.ok(not os.path.exists(os.path.join(directory, "all.jsonl.runs")), "no run directory is left", os.listdir(directory))
    again = bench(psring, directory, words)
    tap.ok(again.returncode == 0 and len(records(os.path.join(directory, "all.jsonl"))) == len(told), "a second call measures nothing again",
           why(again))
    table = done.stdout[done.stdout.index("mlp, 2 workers, batches of 4\n"):]
    tap.ok(table in again.stdout, "and shows the same table", why(again))


def report(psring, directory, *words):
    return subprocess.run([psring, "report", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=directory, timeout=PATIENCE_S)


def reports_the_file(tap, psring, directory):
    """What psring report makes of a file whose run directories were not kept."""
    done = report(psring, directory, "all.jsonl", "-o", "page.html")
    if not tap.ok(done.returncode == 0 and done.stdout == "page.html: 10 runs\n" and done.stderr == "", "the file alone has a page", why(done)):
        return
    with open(os.path.join(directory, "page.html")) as file:
        page = html.unescape(file.read())
    told = records(os.path.join(directory, "all.jsonl"))
    answer = re.search("<p class=answer>(.*?)</p>", page, re.S).group(1)
    tap.ok("No configuration can be called the fastest" in answer and "ended with the same bits" in answer, "which answers", [answer])
    tap.ok(all(record["hash"] in page for record in told) and "after the warm-up" in page and "mode ps, shards 2" in page and "no exchange" in page,
           "and has its runs and their steps", [page])
    mean_ms = sum(1000 * record["step_s"] for record in told if record["configuration"] == "ring") / 2
    tap.ok("%.3g ms, " % mean_ms in page, "a step's time is that of the file", ["%.3g" % mean_ms, page])
    words = page[page.index("<pre class=lines>") + len("<pre class=lines>"):].split("\n")[0]
    again = bench(psring, directory, shlex.split(words)[3:])
    tap.ok(again.returncode == 0 and len(records(os.path.join(directory, "all.jsonl"))) == len(told), "its command is the one that wrote the file",
           [words] + why(again))
    done = report(psring, directory, "all.jsonl", "--json")
    runs = json.loads(done.stdout)["runs"]
    tap.ok([(run["hash"], run["together_images_per_s"], run["steps"]) for run in runs] ==
           [(record["hash"], record["images_per_s"], record["steps"]) for record in told], "--json has its figures", why(done))


def refuses_a_damaged_file(tap, psring, directory):
    with open(os.path.join(directory, "all.jsonl")) as file:
        lines = file.read().splitlines(True)
    for name, text, line in (("half", "".join(lines[:2]) + lines[2][:40] + "\n" + lines[3], "half.jsonl: line 3 is no repetition as psring bench train writes it"),
                             ("no-head", "".join(lines[1:]), "no-head.jsonl is no file of psring bench train"),
                             ("other-head", lines[0].replace('"mode":"ps,ring,local,none"', '"mode":"ring"') + lines[1], "its first line speaks of no mlp, 2 workers"),
                             ("other-options", lines[0].replace('"steps":6', '"stops":6') + lines[1], "other-options.jsonl: "),
                             ("empty", "", "empty.jsonl is no file of psring bench train"),
                             ("early", lines[0], "early.jsonl has no repetition yet"),
                             ("hostile", lines[0] + lines[1].replace("ps:1", "ps\\u001b[2J"), "hostile.jsonl: line 2 is no repetition")):
        with open(os.path.join(directory, name + ".jsonl"), "w") as file:
            file.write(text)
        done = report(psring, directory, name + ".jsonl", "-o", "damaged.html")
        tap.ok(done.returncode == 2 and done.stdout == "" and line in done.stderr and done.stderr.count("\n") == 1 and
               not os.path.exists(os.path.join(directory, "damaged.html")), "%s: one line, and no page" % name, why(done))
    with open(os.path.join(directory, "torn.jsonl"), "w") as file:
        file.write("".join(lines[:3]) + lines[3][:30])
    done = report(psring, directory, "torn.jsonl", "-o", "torn.html")
    tap.ok(done.returncode == 0 and done.stdout == "torn.html: 2 runs\n", "a torn last line is left out", why(done))


def measures_over_hosts(tap, psring, directory):
    """Two hosts, which are both this machine, and a third name of it for dedicated shards."""
    with open(os.path.join(directory, "ps-hosts"), "w") as file:
        file.write("127.0.0.2\n")
    words = BASE + ["-H", "localhost:1,127.0.0.1:1", "--interface=lo", "--mode=ps,ring", "--ps-hostfile=ps-hosts", "--repetitions=1",
                    "--link=1Gbit", "--until-loss=100", "--out=hosts.jsonl"]
    words[words.index("--steps=6")] = "--steps=15"
    done = bench(psring, directory, words)
    told = {record["configuration"]: record for record in records(os.path.join(directory, "hosts.jsonl"))}
    if not tap.ok(done.returncode == 0 and sorted(told) == ["ps:1 beside", "ps:1 dedicated", "ring"], "over hosts: each is measured",
                  why(done) + [str(told)]):
        return
    parameters = told["ring"]["parameter_bytes"]
    # by docs/algorithms.md: 2(n-1)/n M; M (1 + (n-2)/s); n M/s
    for name, factor, shards in (("ring", 1, "none"), ("ps:1 beside", 1, "beside"), ("ps:1 dedicated", 2, "dedicated")):
        record = told[name]
        tap.ok(record["placement"]["shards"] == shards, "%s: says where its shards are" % name, [str(record)])
        tap.ok(abs(record["least_link_bytes"] - factor * parameters) < 1, "%s: the least that a link carries" % name, [str(record)])
        # what is sent has padding between tensors, and averages at the end
        tap.ok(record["least_link_bytes"] <= record["link_bytes"] < 1.05 * record["least_link_bytes"], "%s: and what it carried" % name, [str(record)])
        tap.ok(record["to_loss_s"] > 0, "%s: the time to a loss" % name, [str(record)])
    head = next(line for line in done.stdout.splitlines() if "link MB" in line)
    ring = next(line for line in done.stdout[done.stdout.index(head):].splitlines() if line.startswith("ring"))
    tap.ok(head.split()[-2:] == ["goal", "s"] and "%" in ring and float(ring.split()[-1]) >= 0, "over hosts: the table has limit, busy and goal",
           why(done))


def goes_on_after_a_kill(tap, psring, directory):
    words = BASE + ["--mode=ring,none", "--repetitions=3", "--out=killed.jsonl", "--keep-runs"]
    path = os.path.join(directory, "killed.jsonl")
    process = subprocess.Popen([psring, "bench", "train", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, cwd=directory)
    first = process.stdout.readline()  # of the first repetition, when it is done
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    tap.ok(first.startswith("1/6  "), "a line for each repetition", [first])
    with open(path, "a") as file:
        file.write('{"group":"torn')
    done = bench(psring, directory, words)
    told = records(path)
    tap.ok(done.returncode == 0 and sorted((record["configuration"], record["repetition"]) for record in told) ==
           sorted((name, k) for name in ("ring", "no exchange") for k in (1, 2, 3)), "it goes on where it was killed", why(done) + [str(told)])
    kept = sorted(os.listdir(path + ".runs"))
    tap.ok(kept == ["1-1", "1-2", "1-3", "2-1", "2-2", "2-3"] and os.path.isfile(os.path.join(path + ".runs", "1-3", "run.json")),
           "--keep-runs keeps run directories, but not the warm-up's", kept)
    other = bench(psring, directory, words + ["--momentum=0.5"])
    tap.ok(other.returncode == 2 and other.stderr == "psring bench train: --out killed.jsonl has another benchmark: momentum is '0.9' there and "
           "'0.5' here; give the same, or another --out\n", "another benchmark is refused by name", why(other))


def goes_on_after_a_failure(tap, psring, directory):
    """A second configuration whose shards would hold nothing."""
    words = BASE + ["--mode=ring,ps", "--shards=200", "--repetitions=1", "--out=failed.jsonl"]
    done = bench(psring, directory, words)
    told = records(os.path.join(directory, "failed.jsonl"))
    tap.ok(done.returncode == 1 and [record["status"] for record in told] == ["done", "failed"] and told[1]["line"],
           "a run that fails: the rest goes on, and the exit status tells", why(done) + [str(told)])
    lines = [line for line in done.stderr.splitlines() if line.startswith("psring bench train: ")]
    tap.ok(len(lines) == 1 and ", ps:200, repetition 1 failed: " in lines[0], "one line says which, and why", why(done))


def stops_by_ctrl_c(tap, psring, directory):
    words = BASE + ["--mode=ring,none", "--repetitions=2", "--out=stopped.jsonl"]
    words[words.index("--steps=6")] = "--steps=100000"
    process = subprocess.Popen([psring, "bench", "train", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=directory)
    runs = os.path.join(directory, "stopped.jsonl.runs", "warm-up")
    while not os.path.exists(os.path.join(runs, "run.json")) and process.poll() is None:
        time.sleep(0.01)  # nobody tells that a file is there
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    tap.ok(process.returncode == 130 and stderr.startswith("psring bench train: stopped"), "Ctrl-C stops it in order", [str(process.returncode), stderr])
    tap.ok(not os.path.exists(runs), "and leaves no run directory", os.listdir(directory))


REFUSED = [
    (["--mode=ps,nccl"], "--mode: 'nccl' cannot be compared; give some of ps, ring, mpi, local and none (no exchange)"),
    (["--workers=2,0"], "--workers: 0 is out of bounds; give 1 to 1024"),
    (["--model=mlp,mlp"], "--model: mlp is there twice; give it once"),
    (["--sync", "bsp,later"], "--sync: 'later' is not a way to synchronise; give bsp, async, or ssp:K with K steps (ssp:3)"),
    (["--link=fast"], "--link: give bits per second, as 100Mbit or 1Gbit"),
    (["--until-accuracy=0.5"], "--until-accuracy: nobody would see it; give --eval-every too, and no --no-eval"),
    (["--resume=x"], "--resume: every run begins anew here; --init gives all the same weights"),
    (["--repetitions=0"], None),
    (["--shards"], "--shards needs a value"),
    (["--data=/nowhere"], None),
]


def refuses(tap, psring, directory):
    for words, line in REFUSED:
        done = bench(psring, directory, [*words, "--out=refused.jsonl"] if words != ["--shards"] else words)
        lines = done.stderr.splitlines()
        tap.ok(done.returncode == 2 and len(lines) == 1 and (line is None or lines[0] == "psring bench train: " + line)
               and words[0].partition("=")[0] in lines[0], "%s: refused by name" % " ".join(words), why(done))
        tap.ok(not os.path.exists(os.path.join(directory, "refused.jsonl")), "%s: nothing is left" % " ".join(words), os.listdir(directory))


def main(psring):
    tap = Tap()
    psring = os.path.abspath(psring)
    with Workspace() as directory:
        measures_all(tap, psring, directory)
        reports_the_file(tap, psring, directory)
        refuses_a_damaged_file(tap, psring, directory)
        measures_over_hosts(tap, psring, directory)
        goes_on_after_a_kill(tap, psring, directory)
        goes_on_after_a_failure(tap, psring, directory)
        stops_by_ctrl_c(tap, psring, directory)
        refuses(tap, psring, directory)
    tap.end()


main(sys.argv[1])
