#!/usr/bin/env python3
"""A stranger's bytes are logged, dropped, and change nothing: a run that strangers attack ends with the hash of an undisturbed one.

usage: test_strangers.py PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER

The run is held at a fault point while all its inboxes are attacked, the stopped worker's too, and goes on with connections of
strangers still open. A second one is attacked while it comes together. Bytes are ZMTP 3.0 (rfc.zeromq.org/spec/23) or not."""

import contextlib
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys

from psring_live import Live, LiveRun
from psring_run import Run, Tap, Workspace

PATIENCE_S = 60
CONNECTIONS = 2000  # at one inbox at once, or as many as this process may open
MEMORY_BYTES = 64 << 20  # what an attack may at most cost

OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 2, "batch-size": 16, "steps": 6, "lr": 0.05,
           "threads": 1, "seed": 3, "deadline": 60, "bucket-size": 262144}


# ---- what strangers send ----

def greeting(mechanism, major=3):
    return b"\xff" + b"\0" * 8 + b"\x7f" + bytes([major, 0]) + mechanism.ljust(20, b"\0") + b"\0" * 32


def command(name, body):
    data = bytes([len(name)]) + name + body
    return bytes([4, len(data)]) + data


def plain_hello(name, token):
    return command(b"HELLO", bytes([len(name)]) + name + bytes([len(token)]) + token)


def garbage(seed, size=4096):
    return random.Random(seed).randbytes(size)


ATTACKS = [
    ("garbage", garbage(1)),
    ("garbage behind a greeting", greeting(b"PLAIN") + garbage(2)),
    ("half a greeting", greeting(b"PLAIN")[:11]),
    ("half a message", greeting(b"PLAIN") + plain_hello(b"worker 1", b"0" * 64)[:30]),
    ("a frame that claims 2^40 bytes", greeting(b"PLAIN") + struct.pack(">BQ", 6, 1 << 40) + b"\x05HELLO"),
    ("a message of 2^63 bytes", greeting(b"PLAIN") + struct.pack(">BQ", 2, 1 << 63)),
    ("someone else's rank with a wrong token", greeting(b"PLAIN") + plain_hello(b"worker 1", b"0" * 64)),
    ("the scheduler's name with no token", greeting(b"PLAIN") + plain_hello(b"scheduler 0", b"")),
    ("a name that is none", greeting(b"PLAIN") + plain_hello(b"root", b"0" * 64)),
    ("no mechanism", greeting(b"NULL") + command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER")),
    ("another mechanism", greeting(b"CURVE") + command(b"HELLO", garbage(3, 194))),
    ("messages without a handshake", greeting(b"PLAIN") + b"\0\x08PSRGPSRG" * 50),
    ("the protocol's first version", b"\x05\0work" + b"\x09\0PSRG\0\1\0\0"),
    ("nothing at all", b""),
]

# Those that wait for more and are let wait, for as long as a handshake may last.
HALF = ("half", "nothing")


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def attack(port):
    """All of the above at one inbox, at once: {what: connection}."""
    strangers = {}
    for what, data in ATTACKS:
        strangers[what] = connect(port)
        with contextlib.suppress(ConnectionError):
            strangers[what].sendall(data)
    return strangers


def await_dropping(who, strangers):
    """Each must be hung up on, unless it is let wait. Returns what was not."""
    faults = []
    for what, stranger in strangers.items():
        received = b""
        try:
            while not what.startswith(HALF):
                got = stranger.recv(4096)
                if not got:
                    break
                received += got
        except ConnectionError:
            pass
        except TimeoutError:
            faults.append("%s: %s: the connection stays open" % (who, what))
        if b"WELCOME" in received:
            faults.append("%s: %s: was welcomed" % (who, what))
    return faults


def flood(port):
    """Very many connections at once, every other of which says something."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = []
    for i in range(min(CONNECTIONS, hard - 200)):
        try:
            stranger = connect(port)
            if i % 2:
                stranger.sendall(greeting(b"PLAIN"))
            crowd.append(stranger)
        except OSError:  # turned away: that is an answer too
            continue
    return crowd


# ---- the tests ----

def stranger_lines(lines):
    return [line for line in lines if re.search(r"turned away a stranger|of a stranger", line)]


def attack_a_run(tap, psring, directory, mode, right):
    options = dict(OPTIONS, mode=mode, **{"fault-point": "worker:1:backward:1"})
    run = LiveRun(psring, directory, "attacked-" + mode, options)
    crowd, status = [], None
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        members = [process for process in run.processes() if process.role in ("scheduler", "shard", "worker")]
        peaks = {process: process.memory_peak_bytes() for process in members}
        attacked = {}
        for process in members:
            ports = process.ports()
            tap.ok(len(ports) == 1, "%s: a %s listens on one port" % (mode, process.role), [str(ports)])
            attacked[process] = attack(ports[0])
            crowd += attacked[process].values()
        faults = []
        for process, strangers in attacked.items():
            if process is not held:  # who will drop them when it goes on
                faults += await_dropping(process.role, strangers)
        tap.ok(not faults, "%s: whatever strangers send, they are hung up on or left waiting" % mode, faults)
        count = len(crowd)
        crowd += flood(run.of_role("scheduler").ports()[0])
        tap.ok(len(crowd) - count > 100, "%s: %d connections at once at the scheduler" % (mode, len(crowd) - count))
        costs = {process.role: process.memory_peak_bytes() - before for process, before in peaks.items()}
        tap.ok(all(cost < MEMORY_BYTES for cost in costs.values()), "%s: nobody takes the memory that a stranger claims" % mode,
               [str(costs)])
        held.signal(signal.SIGCONT)
        status = run.wait(PATIENCE_S)
        tap.ok(status == 0, "%s: the run ends with status 0" % mode, run.why())
        if status == 0:
            tap.ok(run.json()["outcome"]["hash"] == right, "%s: with the hash of an undisturbed run" % mode,
                   [run.json()["outcome"]["hash"], right])
            names = ["scheduler", "rank-0"] + (["shard-0"] if mode == "ps" else [])
            for name in names:
                lines = stranger_lines(run.log(name))
                tap.ok(2 <= len(lines) <= 40, "%s: %s logged strangers, and not all of the crowd" % (mode, name),
                       ["%d lines" % len(lines)] + lines[:10])
    except (AssertionError, OSError, KeyError, ValueError) as wrong:
        tap.ok(False, "%s: the attack" % mode, [repr(wrong)] + run.why())
    finally:
        for stranger in crowd:
            stranger.close()
        left = run.kill()
    tap.ok(not left and not run.leftovers(), "%s: nothing is left of it" % mode, [str(left), str(run.leftovers())])


def attack_while_joining(tap, programs, directory, right):
    psring, scheduler, shard, worker = programs
    keys, out = os.path.join(directory, "keys"), os.path.join(directory, "joining")
    subprocess.run([psring, "keygen", "--out", keys, "--workers", "2", "--shards", "1", "--loopback"], check=True,
                   stdout=subprocess.DEVNULL)
    key = lambda who: ["--key-file", os.path.join(keys, who + ".key")]
    words = ["--%s=%s" % item for item in OPTIONS.items()]
    lives = [Live([scheduler] + key("scheduler-0") + ["--out", out] + words, directory, "by-hand-scheduler")]
    crowd = []
    try:
        line = lives[0].wait_line("listening endpoint=", PATIENCE_S)
        port = int(line.rsplit(":", 1)[1])
        strangers = attack(port)
        crowd = list(strangers.values())
        faults = await_dropping("scheduler", strangers)
        tap.ok(not faults, "joining: whatever strangers send, they are hung up on or left waiting", faults)
        at = ["--scheduler", "127.0.0.1:%d" % port]
        for program, who in ((shard, "shard-0"), (worker, "worker-0"), (worker, "worker-1")):
            lives.append(Live([program] + key(who) + at + ["--rank", who[-1]], directory, "by-hand-" + who))
        statuses = [live.wait(PATIENCE_S) for live in lives]
        tap.ok(statuses == [0, 0, 0, 0], "joining: the run comes together and ends well", lives[0].why())
        tap.ok(stranger_lines(lives[0].text("err")), "joining: the scheduler says that strangers were there", lives[0].why())
        with open(os.path.join(out, "run.json")) as text:
            tap.ok('"%s"' % right in text.read(), "joining: with the hash of an undisturbed run")
    except (AssertionError, OSError) as wrong:
        tap.ok(False, "joining: the attack", [repr(wrong)] + [line for live in lives for line in live.why()])
    finally:
        for stranger in crowd:
            stranger.close()
        left = [process for live in lives for process in live.kill()]
    tap.ok(not left, "joining: nothing is left of it", [str(left)])


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap = Tap()
    with Workspace() as directory:
        undisturbed = Run(programs[0], directory, "undisturbed", dict(OPTIONS, mode="ps"))
        if tap.ok(undisturbed.status == 0, "an undisturbed run", undisturbed.why()):
            right = undisturbed.outcome()["hash"]
            for mode in ("ps", "ring"):
                attack_a_run(tap, programs[0], directory, mode, right)
            attack_while_joining(tap, programs, directory, right)
    tap.end()


if __name__ == "__main__":
    main()
