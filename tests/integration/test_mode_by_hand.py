#!/usr/bin/env python3
"""psring mode: what it tells of a run that goes on, what it refuses and how, who may ask, and what
is left of its socket.

usage: test_mode_by_hand.py PSRING"""

import json
import os
import signal
import socket
import stat
import subprocess
import sys

from psring_live import LiveRun
from psring_run import PATIENCE_S, Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=480,test=8,channels=1,size=12", "workers": 2, "batch-size": 2,
           "lr": 0.001, "threads": 1, "seed": 3, "deadline": 600, "backend": "reference", "mode": "ps"}


def mode(psring, *words):
    done = subprocess.run([psring, "mode", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    return done.returncode, (done.stdout + done.stderr).decode().strip()


def check(tap, name, passed, why=""):
    tap.ok(bool(passed), name, [str(why)])


def held_run(psring, directory, name, step=3, **options):
    """A run whose worker 1 stands still in a step: nothing changes while it is asked."""
    run = LiveRun(psring, directory, name, dict({**OPTIONS, "steps": 40, "fault-point": "worker:1:forward:%d" % step, **options}))
    run.wait_line("fault-point forward:%d reached" % step, PATIENCE_S)
    held = run.member("worker", 1)
    held.wait_stopped()
    return run, held


def what_is_told(tap, psring, directory):
    run, held = held_run(psring, directory, "told")
    try:
        status, text = mode(psring, run.out)
        check(tap, "a run that goes on tells its mode", status == 0 and text.startswith("ps from step 1 on; ")
                  and text.endswith(" of 40 steps done"), text)
        told = json.loads(mode(psring, run.out, "--json")[1])
        check(tap, "as one JSON object too", told == {"mode": "ps", "first_step": 1, "steps": told["steps"], "total": 40, "next_mode": None,
                                                      "next_step": None, "changing": False}, told)
        check(tap, "a run is not changed to the mode that it is in", mode(psring, run.out, "ps") ==
                  (1, "psring mode: the run is in mode ps already, from step 1 on"))
        path = os.path.join(run.out, "mode.sock")
        check(tap, "the socket is its user's alone", stat.S_IMODE(os.lstat(path).st_mode) == 0o600)
        held.signal(signal.SIGCONT)
        check(tap, "the run ends as one that nobody asked", run.wait(PATIENCE_S) == 0)
        check(tap, "its socket goes with it", not os.path.lexists(path))
        status, text = mode(psring, run.out)
        check(tap, "a run that is over is told so", status == 2 and "that run is over" in text, text)
    finally:
        run.kill()


def what_is_refused(tap, psring, directory):
    cases = (("compressed", {"compress": "int8"}, "ring", "this run cannot change its mode, because it has --compress int8"),
             ("ssp", {"sync": "ssp:3"}, "ring", "this run cannot change its mode, because it has --sync ssp:3"),
             ("alone", {"workers": 2, "mode": "ring"}, "ps", "this run has no shards; start it with --shards"))
    for name, options, wanted, words in cases:
        run, _ = held_run(psring, directory, name, **options)
        try:
            status, text = mode(psring, run.out, wanted)
            check(tap, "%s: refused by name" % name, status == 1 and words in text, text)
        finally:
            run.kill()
    for words, expected in (((), "no run is named"), (("x", "local"), "give one of them"), (("x", "ps", "y"), "and nothing else"),
                            ((os.path.join(directory, "none"),), "give the directory of a run"), ((directory,), "is no run directory")):
        status, text = mode(psring, *words)
        check(tap, "%s is bad input" % (words,), status == 2 and expected in text, text)


def what_strangers_say(tap, psring, directory):
    """Lines that are none, and connections that say nothing, hold nobody up."""
    run, held = held_run(psring, directory, "strangers")
    folder = os.open(run.out, os.O_PATH)
    try:
        silent = []
        for line in (b"", b"x" * 200 + b"\n", b"\x1b[2J\n", b"tell\ntell\n", b"rong\n"):
            end = socket.socket(socket.AF_UNIX)
            end.connect("/proc/self/fd/%d/mode.sock" % folder)
            end.settimeout(PATIENCE_S)
            end.sendall(line)
            if line == b"":
                silent.append(end)
                continue
            try:
                answer = end.recv(4096)
            except ConnectionResetError:  # it was closed with some of the line unread
                answer = b""
            check(tap, "%r gets no mode" % line[:8], answer == b"" or answer.startswith(b"no "), answer)
            end.close()
        check(tap, "others are answered beside a silent connection", mode(psring, run.out)[0] == 0)
        held.signal(signal.SIGCONT)
        check(tap, "the run ends beside it too", run.wait(PATIENCE_S) == 0)
    finally:
        os.close(folder)
        run.kill()


def what_a_kill_leaves(tap, psring, directory):
    run, _ = held_run(psring, directory, "killed")
    try:
        run.of_role("scheduler").signal(signal.SIGKILL)
        run.await_end()
        path = os.path.join(run.out, "mode.sock")
        check(tap, "kill -9 leaves the socket behind", os.path.lexists(path))
        status, text = mode(psring, run.out)
        check(tap, "and it is told what that means", status == 2 and "its scheduler was killed" in text, text)
    finally:
        run.kill()


def what_a_long_name_does(tap, psring, directory):
    deep = os.path.join(directory, "d" * 120)
    os.mkdir(deep)
    run, held = held_run(psring, deep, "long")
    try:
        check(tap, "a name beyond an address of sockets is reached", mode(psring, run.out)[0] == 0)
        held.signal(signal.SIGCONT)
        run.await_end()
    finally:
        run.kill()


def changed_to(psring, run, held, wanted, *options):
    """The answer to a change that is asked for while a worker stands still."""
    asker = subprocess.Popen([psring, "mode", run.out, wanted, *options], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    run.wait_line("told to change to %s" % wanted, PATIENCE_S)
    held.signal(signal.SIGCONT)
    said = asker.communicate(timeout=PATIENCE_S)[0].decode().strip()
    held.signal(signal.SIGSTOP)
    return asker.returncode, said


def lent_in(run, stretch):
    """Nearly all bytes of the stretch, but for its first step, were lent within the host; and the
    numbers."""
    first = int(stretch.split("@")[1])
    with open(os.path.join(run.out, "metrics.jsonl")) as lines:
        steps = [step for step in map(json.loads, lines) if step["step"] > first]
    sent, lent = (sum(step[name] for step in steps) for name in ("bytes_sent", "bytes_lent"))
    return lent > 0.9 * sent > 0, "%d of %d bytes" % (lent, sent)


def what_a_change_does(tap, psring, directory):
    """To a ring and back: each tells its step, run.json has both, and no bit is another one."""
    # some steps take place whenever the worker is let go, more the later it is held again
    run, held = held_run(psring, directory, "changed", steps=1000000)
    try:
        told = ["ps@1"]
        for wanted in ("ring", "ps"):
            status, said = changed_to(psring, run, held, wanted)
            check(tap, "a change to %s tells from which step on" % wanted,
                  status == 0 and said.startswith(wanted + " from step "), said)
            told.append("%s@%s" % (wanted, said.split()[3]))
        status, said = changed_to(psring, run, held, "ring", "--json")
        now = json.loads(said)
        # how many of its steps are done by then, nobody knows
        check(tap, "--json tells of a change as it tells of a run", status == 0 and now["mode"] == "ring" and now["steps"] >= 0
              and now["first_step"] > int(told[-1].split("@")[1]) and now["changing"] is False and now["pause_s"] > 0, said)
        told.append("ring@%d" % now["first_step"])
        held.signal(signal.SIGCONT)
        run.wait_until(lambda: run.last_step() > now["first_step"] + 1, PATIENCE_S)
        run.of_role("launcher").signal(signal.SIGINT)
        check(tap, "the run ends when it is told to", run.wait(PATIENCE_S) == 130, run.why())
        mode_of_run = run.json()["config"]["mode"]
        check(tap, "run.json has what was run", mode_of_run == ",".join(told), mode_of_run)
        check(tap, "its ring lends what it sends, as a planned one does", *lent_in(run, told[-1]))
        outcome = run.json()["outcome"]
        reference = Run(psring, directory, "reference", dict(OPTIONS, steps=outcome["steps"], mode="local"))
        check(tap, "with the bits of the reference", reference.status == 0 and outcome["hash"] == reference.outcome()["hash"], outcome)
    finally:
        run.kill()


def what_a_stop_does(tap, psring, directory):
    """Ctrl-C while workers are held for a change stops the run, and whoever asked hears of it."""
    run, held = held_run(psring, directory, "stopped")
    try:
        asker = subprocess.Popen([psring, "mode", run.out, "ring"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        run.wait_line("told to change to ring", PATIENCE_S)
        run.of_role("launcher").signal(signal.SIGINT)
        run.wait_line("once more to end at once", PATIENCE_S)
        held.signal(signal.SIGCONT)
        said = asker.communicate(timeout=PATIENCE_S)[0].decode().strip()
        check(tap, "a run that is told to stop does so", run.wait(PATIENCE_S) == 130, run.why())
        check(tap, "whoever asked for a change hears, or it had begun",
              (asker.returncode == 1 and "the run is being stopped" in said)
              or (asker.returncode == 0 and said.startswith("ring from step ")), said)
    finally:
        run.kill()


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        for part in (what_is_told, what_is_refused, what_strangers_say, what_a_kill_leaves, what_a_long_name_does,
                     what_a_change_does, what_a_stop_does):
            part(tap, psring, directory)
    tap.end()


main(os.path.abspath(sys.argv[1]))
