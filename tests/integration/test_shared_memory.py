#!/usr/bin/env python3
"""Checkpoints that go through memory which a run shares; and what strangers of the same user, and
members, can do to that memory, and cannot.
tests/integration/test_bad_member.py has members that break the protocol.

usage: test_shared_memory.py PSRING"""

import array
import os
import signal
import socket
import struct
import sys
import time

from psring_live import LiveRun, still_mapped
from psring_run import PATIENCE_S, Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 3, "batch-size": 16, "steps": 6, "lr": 0.05,
           "threads": 1, "seed": 3, "deadline": 600}
MODES = {"ps": {"mode": "ps", "shards": 2}, "ring": {"mode": "ring"}}
HELLO, ARENA, RETURNED = 0x50535231, 0x50535232, 0x50535235
EACH = 20  # more than a process keeps of those that it does not know
NAN = 0x7fc00000
ARENA_BYTES = 655 * 4096  # of the parameters, as net/sharing/shared_arena.c rounds them


# ---- strangers ----

def record(kind, value=0, channel=b"nobody's channel"):
    return struct.pack("=IIQ16s", kind, 0, value, channel)


def passing(descriptors):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def approach(path):
    """Connections of every kind of stranger to a socket, still open."""
    connections = []
    memory = os.memfd_create("stranger", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, 4096)
    for what in ([], [(b"half a record", [])], [(record(HELLO), [])], [(record(HELLO), [memory])], [(record(HELLO), []), (record(ARENA, 4096), [memory])],
                 [(record(ARENA, 4096), [memory])], [(record(HELLO), [memory] * 3)], [(record(RETURNED, 1), [])], [(b"x" * 32, [])],
                 [(record(RETURNED) * 1000, [])]) * EACH:
        stranger = socket.socket(socket.AF_UNIX)
        connections.append(stranger)
        stranger.setblocking(False)
        try:
            stranger.connect(path)
            for data, descriptors in what:
                stranger.sendmsg([data], passing(descriptors) if descriptors else [])
        except OSError:
            continue  # hung up on, or nobody has time for more
    os.close(memory)
    return connections


def strangers(tap, psring, directory, mode, right):
    run = LiveRun(psring, directory, "strangers-" + mode, dict(OPTIONS, **MODES[mode], **{"fault-point": "worker:1:backward:1"}))
    crowd = []
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        run.member("worker", 1).wait_stopped()
        members = [process for process in run.processes() if process.role in ("shard", "worker")]
        sockets = sorted({file for process in members for file in process.socket_files() if file.endswith(".fd")})
        tap.ok(len(sockets) == len(members), "%s: each member has a socket for sharing memory" % mode, sockets)
        for path in sockets:
            crowd += approach(path)
        run.member("worker", 1).signal(signal.SIGCONT)
        tap.ok(run.wait(PATIENCE_S) == 0, "%s, %d strangers: the run ends well" % (mode, len(crowd)), run.why())
        tap.ok(run.json()["outcome"]["hash"] == right, "%s, strangers: with the hash of an undisturbed run" % mode)
        told = [name for name in ["rank-0", "rank-1"] + (["shard-0"] if mode == "ps" else [])
                if any("turned away a process that would share memory" in line for line in run.log(name))]
        tap.ok(told, "%s, strangers: and logs say so" % mode)
    except (AssertionError, OSError, KeyError, ValueError) as wrong:
        tap.ok(False, "%s, strangers" % mode, [repr(wrong)] + run.why())
    finally:
        for stranger in crowd:
            stranger.close()
        run.kill()
    tap.ok(not run.leftovers(), "%s, strangers: nothing is left of it" % mode, run.leftovers())


# ---- pieces of checkpoints ----

def pieces(tap, psring, directory, mode):
    """They go to the scheduler by reference, from whoever has them. Metrics tell of workers
    alone."""
    name = "%s, checkpoints" % mode
    run = Run(psring, directory, "pieces-" + mode, dict(OPTIONS, **MODES[mode], **{"bucket-size": "1M", "checkpoint-every": 2}))
    if not tap.ok(run.status == 0, "%s: a run" % name, run.why()):
        return
    logs = os.path.join(run.out, "log")
    members = ["rank-%d.log" % rank for rank in range(OPTIONS["workers"])] + ["shard-%d.log" % shard for shard in range(MODES[mode].get("shards", 0))]
    silent = []
    for member in members:
        with open(os.path.join(logs, member)) as log:
            if "shares memory with scheduler 0" not in log.read():
                silent.append(member)
    tap.ok(not silent, "%s: each member lends to the scheduler" % name, silent)
    sent = sum(line["bytes_sent"] - line["bytes_lent"] for line in run.metrics())
    # small pieces; two checkpoints have four times that before the last line of metrics
    tap.ok(sent < ARENA_BYTES, "%s: large pieces do not go as messages" % name, ["%d bytes went so" % sent])


# ---- a member that writes what others read ----

def own_arena(process):
    """The mapping that its owner writes and that holds its values: begin and bytes. Others are of
    other sizes: pieces of checkpoints, and pipes (net/sharing/pipe.h): who spoils his own is not
    understood, and the deadline ends the run."""
    own = []
    with open("/proc/%d/maps" % process.pid) as maps:
        for line in maps:
            words = line.split()
            if words[1] == "rw-s" and "memfd:psring-arena" in line:
                begin, end = (int(word, 16) for word in words[0].split("-"))
                if end - begin == ARENA_BYTES:
                    own.append(begin)
    if not own:
        raise AssertionError("%r shares no memory of %d bytes" % (process, ARENA_BYTES))
    return max(own), ARENA_BYTES


def spoil(run, process):
    """Writes it again and again while others read it, until its owner has gone."""
    end = time.monotonic() + PATIENCE_S
    begin, size = own_arena(process)
    spoilt = struct.pack("=I", NAN) * (size // 4)
    with open("/proc/%d/mem" % process.pid, "r+b", 0) as memory:
        while not process.ended():
            if time.monotonic() > end:
                raise AssertionError("%r goes on" % process)
            memory.seek(begin)
            try:
                memory.write(spoilt)
            except OSError:
                return


def spoilt_memory(tap, psring, directory, mode, role):
    """It has what a worker may say of its gradients, or a shard of its weights, at any time: a
    wrong number, and never more."""
    name = "%s, spoilt by %s 0" % (mode, role)
    run = LiveRun(psring, directory, "spoilt-%s-%s" % (mode, role),
                  dict(OPTIONS, steps=1000000, **MODES[mode], **{"fault-point": "worker:1:backward:1"}))
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        arenas = set().union(*(process.arenas() for process in run.processes()))
        victim = run.member(role, 0)
        held.signal(signal.SIGCONT)
        spoil(run, victim)
        tap.ok(run.wait(PATIENCE_S) == 1, "%s: the run fails" % name, run.why())
        said = [line for line in run.text("err") if not line.startswith("[")]
        tap.ok(len(said) == 1 and "not finite" in said[0], "%s: since the loss is no number" % name, run.why())
        tap.ok(not still_mapped(arenas), "%s: no memory is left" % name, [str(still_mapped(arenas))])
    except PermissionError as closed:
        tap.ok(True, "%s # SKIP no memory can be written here: %s" % (name, closed))
    except (AssertionError, OSError, KeyError, ValueError) as wrong:
        tap.ok(False, name, [repr(wrong)] + run.why())
    finally:
        run.kill()
    tap.ok(not run.leftovers(), "%s: nothing is left of it" % name, run.leftovers())


def main():
    psring = os.path.abspath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        for mode, options in MODES.items():
            undisturbed = Run(psring, directory, "undisturbed-" + mode, dict(OPTIONS, **options))
            if tap.ok(undisturbed.status == 0, "%s: an undisturbed run" % mode, undisturbed.why()):
                pieces(tap, psring, directory, mode)
                strangers(tap, psring, directory, mode, undisturbed.outcome()["hash"])
            for role in ("worker", "shard") if mode == "ps" else ("worker",):
                spoilt_memory(tap, psring, directory, mode, role)
    tap.end()


if __name__ == "__main__":
    main()
