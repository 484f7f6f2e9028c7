#!/usr/bin/env python3
"""Stands for ssh in tests of psring doctor: `psring doctor --ssh "python3 bad_probe.py VERSION"`.
What follows are ssh's own words, but for the last two: the host and what is to be run there. The
host's name says what is wrong with it; goodN are well, and are this machine at 127.0.0.N."""

import json
import os
import subprocess
import sys

version, host, command = sys.argv[1], sys.argv[-2], sys.argv[-1]


def say(event, **fields):
    sys.stdout.write(json.dumps(dict(fields, event=event)) + "\n")
    sys.stdout.flush()


def hello(**fields):
    say("hello", **dict({"version": version, "host": "bad", "cores": 2, "address": "127.0.0.9", "launcher_address": "127.0.0.1", "machine": "m"},
                        **fields))


def questions():
    """What the launcher asks the probe, until it goes."""
    rank = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["op"] == "spawn":
            rank = order["rank"]
        elif order["op"] == "tell":
            yield rank, json.loads(order["text"])


def answer(rank, text):
    say("line", role="worker", rank=rank, stream="out", text=text)


def await_end():
    for _ in sys.stdin:
        pass


def refuses():
    sys.stderr.write("u@refuses: Permission denied (publickey).\n")
    sys.exit(255)


def lacks():
    sys.stderr.write("psring is neither at that path nor in PATH\n")
    sys.exit(127)


def older():
    hello(version="0.0.1")
    await_end()


def mute():
    """Neither it nor its ssh ever says a word."""
    await_end()


def hangs():
    """Its probe does."""
    hello()
    await_end()


def lies(text):
    hello()
    for rank, question in questions():
        answer(rank, text if question["op"] == "examine" else "{}")


def garbage():
    lies("what is JSON? \x1b[2J\x9b")


def terminal():
    lies(json.dumps({"answer": "examine", "facts": {"hostname": "\x1b]0;owned\x07"}, "looked_up": []}))


def points():
    """All others are to connect to a port of another host."""
    os.environ["SSH_CONNECTION"] = "127.0.0.1 1 127.0.0.8 22"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as agent:
        for line in agent.stdout:
            sys.stdout.write(line.replace("tcp://127.0.0.8:", "tcp://127.0.0.1:"))
            sys.stdout.flush()


def unasked():
    lies(json.dumps({"answer": "measure", "round_trip_ns": 1, "bytes_per_s": 1e12, "unsealed_ms": 0, "unsealed_port": 0, "failure": ""}))


def dies():
    """In the middle of its first answer."""
    hello()
    for rank, _ in questions():
        say("line", role="worker", rank=rank, stream="err", text="a last word \x1b[2J")
        say("exited", role="worker", rank=rank, ok=False, by_itself=False, how="killed by signal 11 (Segmentation fault)")


def good(number):
    os.environ["SSH_CONNECTION"] = "127.0.0.1 1 127.0.0.%s 22" % number
    os.execv("/bin/sh", ["sh", "-c", command])


if host.startswith("good"):
    good(host[4:])
else:
    {"refuses": refuses, "lacks": lacks, "older": older, "mute": mute, "hangs": hangs, "garbage": garbage, "terminal": terminal,
     "points": points, "unasked": unasked, "dies": dies}[host]()
