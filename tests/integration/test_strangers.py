#!/usr/bin/env python3
"""A stranger's bytes are logged, dropped, and change nothing: a run that strangers attack ends with
the hash of an undisturbed one.

usage: test_strangers.py PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER

The run is held at a fault point while all its inboxes are attacked, the stopped worker's too, and
goes on with connections of strangers still open. A second one is attacked while it comes together.
Bytes are ZMTP 3.0 (rfc.zeromq.org/spec/23) or not."""

import contextlib
import os
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from psring_live import Live, LiveRun
from crowd import command, greeting, plain_hello
from psring_run import PATIENCE_S, Run, Tap, Workspace, is_sanitized, over

CONNECTIONS = 2000  # at one inbox at once, or as many as this process may open
DESCRIPTORS = 256  # that a process may have, where strangers take them
HOARDERS = 200  # that each announce a large frame and send all of it but the end
HELD = 64  # strangers' connections that a process holds
WAVE = 16  # hoarders that come before the process has been awaited to end those that are too many
FRAME_BYTES = 1 << 20  # the largest
# What hoarders may at most cost: what is held, the wave that has just come, the one before, whose
# sockets are closed before their memory is free, and what goes with them. All would be 200.
HOARD_BYTES = (HELD + 2 * WAVE + 8) * FRAME_BYTES
FLOOD_BYTES = CONNECTIONS * (64 << 10)  # all of the crowd at once, and a connection's own buffers
LINES, WINDOW_S = 10, 10  # a process logs at most so many strangers in such a time

OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 2, "batch-size": 16, "steps": 6, "lr": 0.05,
           "threads": 1, "seed": 3, "deadline": 600, "bucket-size": 262144}


# ---- what strangers send ----

def garbage(seed, size=4096):
    return random.Random(seed).randbytes(size)


PLAIN_HELLOS = [
    ("someone else's rank with a wrong token", plain_hello(b"worker 1", b"0" * 64)),
    ("the scheduler's name with no token", plain_hello(b"scheduler 0", b"")),
    ("a name that is none", plain_hello(b"root", b"0" * 64)),
]
CURVE_HELLOS = [
    ("a key exchange of garbage", command(b"HELLO", garbage(3, 194))),
    ("its second step before the first", command(b"INITIATE", garbage(4, 240))),
]


def attacks(mechanism):
    """[(what, bytes)] for a run with that mechanism, PLAIN or CURVE."""
    other, hellos = (b"CURVE", PLAIN_HELLOS) if mechanism == b"PLAIN" else (b"PLAIN", CURVE_HELLOS)
    greeted = greeting(mechanism)
    return [
        ("garbage", garbage(1)),
        ("garbage behind a greeting", greeted + garbage(2)),
        ("half a greeting", greeted[:11]),
        ("half a message", greeted + hellos[0][1][:30]),
        ("a frame that claims 2^40 bytes", greeted + struct.pack(">BQ", 6, 1 << 40) + b"\x05HELLO"),
        ("a message of 2^63 bytes", greeted + struct.pack(">BQ", 2, 1 << 63)),
        ("no mechanism", greeting(b"NULL") + command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER")),
        ("another mechanism", greeting(other) + (PLAIN_HELLOS + CURVE_HELLOS)[0][1]),
        ("messages without a handshake", greeted + b"\0\x08PSRGPSRG" * 50),
        ("the protocol's first version", b"\x05\0work" + b"\x09\0PSRG\0\1\0\0"),
        ("nothing at all", b""),
    ] + [(what, greeted + hello) for what, hello in hellos]


# Those that wait for more and are let wait, for as long as a handshake may last.
HALF = ("half", "nothing")


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def attack(port, mechanism):
    """All of the above at one inbox, at once: {what: connection}."""
    strangers = {}
    for what, data in attacks(mechanism):
        strangers[what] = connect(port)
        with contextlib.suppress(ConnectionError):
            strangers[what].sendall(data)
    return strangers


def await_dropping(who, strangers):
    """Each must be hung up on, unless it is let wait. Returns what was not."""
    faults = []
    for named, stranger in strangers.items():
        what = named if isinstance(named, str) else named[0]
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


def send_all(left):
    """left: {connection: bytes}. Sends each as much as the other side takes."""
    end = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < end:
        ready = select.select([], list(left), [], 0.2)[1]
        for stranger in ready:
            try:
                left[stranger] = left[stranger][stranger.send(left[stranger]):]
            except BlockingIOError:
                continue
            except OSError:  # hung up on
                left[stranger] = b""
            if not left[stranger]:
                del left[stranger]


def hoard(process, port, mechanism, members, count=HOARDERS):
    """Connections that each send as much of a large frame, in the handshake, as the other side
    takes. They come in waves: the process has `members` sockets of its own, and must be back at
    those and what it holds of strangers before the next, however little time it gets to run."""
    crowd = []
    for first in range(0, count, WAVE):
        wave = [connect(port) for _ in range(min(WAVE, count - first))]
        crowd += wave
        for stranger in wave:
            stranger.setblocking(False)
        send_all({stranger: greeting(mechanism) + struct.pack(">BQ", 6, FRAME_BYTES) + b"\x05HELLO" + bytes(FRAME_BYTES - 100)
                  for stranger in wave})
        end = time.monotonic() + PATIENCE_S
        while len(process.sockets()) > members + HELD:
            if time.monotonic() > end:
                raise AssertionError("%r keeps %d sockets" % (process, len(process.sockets())))
            time.sleep(0.002)
    return crowd


# ---- the tests ----

def stranger_lines(lines):
    return [line for line in lines if re.search(r"turned away a stranger|of a stranger", line)]


def attack_a_run(tap, psring, directory, mode, mechanism, transport, right):
    begin = time.monotonic()
    options = dict(OPTIONS, mode=mode, **over(transport, directory, OPTIONS["workers"]), **{"fault-point": "worker:1:backward:1"})
    if mechanism == b"PLAIN":
        options["no-encrypt"] = True
    run = LiveRun(psring, directory, "attacked-%s-%s" % (mode, transport), options)
    crowd, status = [], None
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        members = [process for process in run.processes() if process.role in ("scheduler", "shard", "worker")]
        peaks = {process: process.memory_peak_bytes() for process in members}
        own = {process: len(process.sockets()) for process in members}
        attacked = {}
        for process in members:
            ports = process.ports()
            # a member has a second one for sealed messages, whose handshake is PLAIN
            sealed = mechanism == b"CURVE" and process.role != "scheduler"
            tap.ok(len(ports) == 1 + sealed, "%s: a %s listens on %d ports" % (mode, process.role, 1 + sealed), [str(ports)])
            attacked[process] = {(what, port, each): stranger for port in ports for each in ((b"PLAIN", b"CURVE") if sealed else (mechanism,))
                                 for what, stranger in attack(port, each).items()}
            crowd += attacked[process].values()
        faults = []
        for process, strangers in attacked.items():
            if process is not held:  # who will drop them when it goes on
                faults += await_dropping(process.role, strangers)
                for port in process.ports()[1 if process.role == "scheduler" else 0:]:
                    # more than are held
                    crowd += hoard(process, port, b"PLAIN", own[process], HOARDERS // 2 - 20)
        tap.ok(not faults, "%s: whatever strangers send, they are hung up on or left waiting" % mode, faults)
        scheduler = next(process for process in members if process.role == "scheduler")
        crowd += hoard(scheduler, scheduler.ports()[0], mechanism, own[scheduler])
        cost = lambda: {process.role: process.memory_peak_bytes() - before for process, before in peaks.items()}
        kept = " # SKIP a sanitizer keeps what was freed" if is_sanitized(psring) else ""
        tap.ok(kept or all(bytes_ < HOARD_BYTES for bytes_ in cost().values()),
               "%s: nobody takes the memory that a stranger claims%s" % (mode, kept), [str(cost())])
        count = len(crowd)
        crowd += flood(scheduler.ports()[0])
        tap.ok(len(crowd) - count > 100, "%s: %d connections at once at the scheduler" % (mode, len(crowd) - count))
        tap.ok(kept or cost()["scheduler"] < HOARD_BYTES + FLOOD_BYTES, "%s: which cost a connection's buffers%s" % (mode, kept), [str(cost())])
        held.signal(signal.SIGCONT)
        status = run.wait(PATIENCE_S)
        tap.ok(status == 0, "%s: the run ends with status 0" % mode, run.why())
        if status == 0:
            tap.ok(run.json()["outcome"]["hash"] == right, "%s: with the hash of an undisturbed run" % mode,
                   [run.json()["outcome"]["hash"], right])
            names = ["scheduler", "rank-0"] + (["shard-0"] if mode == "ps" else [])
            most = LINES * (2 + int((time.monotonic() - begin) / WINDOW_S))
            for name in names:
                lines = stranger_lines(run.log(name))
                tap.ok(2 <= len(lines) <= most, "%s: %s logged strangers, and not all of the crowd" % (mode, name),
                       ["%d lines" % len(lines)] + lines[:10])
    except (AssertionError, OSError, KeyError, ValueError) as wrong:
        tap.ok(False, "%s: the attack" % mode, [repr(wrong)] + run.why())
    finally:
        for stranger in crowd:
            stranger.close()
        left = run.kill()
    tap.ok(not left and not run.leftovers(), "%s: nothing is left of it" % mode, [str(left), str(run.leftovers())])


def take_descriptors(tap, psring, directory, right):
    """More connections than the scheduler may have descriptors, while it writes a checkpoint a
    step."""
    limited = os.path.join(directory, "limited")
    with open(limited, "w") as script:
        script.write("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n" % (DESCRIPTORS, psring))
    os.chmod(limited, 0o700)
    options = dict(OPTIONS, mode="ps", transport="tcp", **{"checkpoint-every": 1, "fault-point": "worker:1:backward:1"})
    run = LiveRun(limited, directory, "few-descriptors", options)
    crowd = []
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        run.member("worker", 1).wait_stopped()
        port = run.of_role("scheduler").ports()[0]
        for _ in range(2 * DESCRIPTORS):
            crowd.append(connect(port))
        run.member("worker", 1).signal(signal.SIGCONT)
        for _ in range(DESCRIPTORS):  # they come again while it goes on
            try:
                crowd.append(connect(port))
            except OSError:
                break  # it has ended
        status = run.wait(PATIENCE_S)
        tap.ok(status == 0, "%d connections, %d descriptors: the run ends with status 0" % (len(crowd), DESCRIPTORS), run.why())
        if status == 0:
            tap.ok(run.json()["outcome"]["hash"] == right, "with the hash of an undisturbed run")
            kept = sorted(os.listdir(os.path.join(run.out, "checkpoints")))
            tap.ok("step-%d" % OPTIONS["steps"] in kept, "and its last checkpoint", kept)
    except (AssertionError, OSError, KeyError, ValueError) as wrong:
        tap.ok(False, "few descriptors", [repr(wrong)] + run.why())
    finally:
        for stranger in crowd:
            stranger.close()
        left = run.kill()
    tap.ok(not left and not run.leftovers(), "few descriptors: nothing is left of it", [str(left), str(run.leftovers())])


def attack_while_joining(tap, programs, directory, right):
    psring, scheduler, shard, worker = programs
    keys, out = os.path.join(directory, "keys"), os.path.join(directory, "joining")
    subprocess.run([psring, "keygen", "--out", keys, "--workers", "2", "--shards", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    key = lambda who: ["--key-file", os.path.join(keys, who + ".key")]
    words = ["--%s=%s" % item for item in OPTIONS.items()]
    lives = [Live([scheduler] + key("scheduler-0") + ["--out", out] + words, directory, "by-hand-scheduler")]
    crowd = []
    try:
        line = lives[0].wait_line("listening endpoint=", PATIENCE_S)
        port = int(line.rsplit(":", 1)[1])
        strangers = attack(port, b"CURVE")
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
            for mode, mechanism, transport in (("ps", b"PLAIN", "tcp"), ("ring", b"CURVE", "tcp"), ("ps", b"CURVE", "mixed")):
                attack_a_run(tap, programs[0], directory, mode, mechanism, transport, right)
            take_descriptors(tap, programs[0], directory, right)
            attack_while_joining(tap, programs, directory, right)
    tap.end()


if __name__ == "__main__":
    main()
