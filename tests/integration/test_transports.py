#!/usr/bin/env python3
"""A run on one host is on ipc sockets that no other user reaches; TCP is encrypted unless that is
switched off aloud; within each host memory is shared unless that is switched off; the bits are the
same over each. The directories of sockets go with the run, however that ends.

usage: test_transports.py PSRING [all]"""

import os
import re
import signal
import socket
import subprocess
import sys
from functools import partial

from psring_live import LiveRun, still_mapped
from psring_run import PATIENCE_S, Run, Tap, Workspace, over, together

NOBODY = 65534
OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 3, "mode": "ps", "shards": 2,
           "batch-size": 16, "steps": 6, "lr": 0.05, "threads": 1, "seed": 3, "deadline": 600}
HELD = dict(OPTIONS, **{"fault-point": "worker:1:backward:1"})
WIDE = dict(HELD, **{"bucket-size": "256K"})  # of which slices are long enough to be mapped
ALL, SOME, NONE = (0.9, 1), (0.2, 0.8), (0, 0)


# Left to the suite slow: what they add, tests of bits, of rings over hosts and of faults show too.
ONLY_OF_ALL = ("shm-late", "ipc-ring", "one-host-ring", "trusted", "two-hosts-tcp")


def same_bits(tap, psring, directory, everything):
    hashes, mixed = {}, over("mixed", directory, OPTIONS["workers"])
    # shared: at least and at most how much of what workers send goes through memory
    for name, options, schemes, shared, words in [
            ("auto", {}, "ipc", ALL, r"network +shared memory, and ipc sockets in /"),
            ("shm", {"transport": "shm"}, "ipc", ALL, r"network +shared memory, and ipc sockets in /"),
            ("shm-ring", {"transport": "shm", "mode": "ring"}, "ipc", ALL, r"buckets .*; each worker sums its part where the gradients lie"),
            ("ipc-ring", {"transport": "ipc", "mode": "ring"}, "ipc", NONE, r"buckets +\d+ of at most \w+\n"),
            ("shm-late", {"transport": "shm", "slow": "0:3"}, "ipc", ALL, r"exchanged +[\d.]+ MB sent by workers, [\d.]+% of it through shared"),
            ("ipc", {"transport": "ipc"}, "ipc", NONE, r"network +ipc sockets in /"),
            ("tcp", {"transport": "tcp"}, "tcp", NONE, r"network +tcp, encrypted \(CURVE, values sealed\)"),
            ("bare", {"transport": "tcp", "no-encrypt": True}, "tcp", NONE, r"bare +not encrypted \(--no-encrypt\), within this machine"),
            ("trusted", {"transport": "tcp", "no-encrypt": "trusted-network"}, "tcp", NONE,
             r"bare +NOT encrypted \(--no-encrypt=trusted-network\)"),
            ("one-host", {"transport": "shm", "interface": "lo"}, "tcp", ALL, r"network +shared memory, and tcp, encrypted \(CURVE, values sealed\)"),
            ("one-host-ring", {"transport": "shm", "mode": "ring", "interface": "lo"}, "tcp", ALL, r"each worker sums its part where the gradients lie"),
            ("two-hosts", mixed, "tcp", SOME, r"network +memory shared within 2 hosts, tcp between them, encrypted \(CURVE, values sealed\)"),
            ("two-hosts-ring", dict(mixed, mode="ring", transport="shm"), "tcp", SOME,
             r"(?s)(?=.*network +memory shared within 1 host, tcp between them).*on each of 2 hosts the workers divide the sums"),
            ("two-hosts-bare", dict(mixed, **{"no-encrypt": True}), "tcp", SOME, r"network +memory shared within 2 hosts, tcp between them, not enc"),
            ("two-hosts-tcp", dict(mixed, transport="tcp"), "tcp", NONE, r"network +tcp, encrypted \(CURVE, values sealed\)")]:
        if name in ONLY_OF_ALL and not everything:
            continue
        options = dict(OPTIONS, **options)
        if options["mode"] == "ring":
            del options["shards"]
        run = Run(psring, directory, name, options)
        if not tap.ok(run.status == 0, "a run over %s" % name, run.why()):
            continue
        hashes[name] = run.outcome()["hash"]
        tap.ok(re.search(words, run.stdout), "%s: a person is told" % name, run.stdout.splitlines())
        endpoints = re.findall(r'"endpoint":\s*"([^"]+)"', open(os.path.join(run.out, "run.json")).read())
        part = run.outcome()["bytes_lent"] / run.outcome()["bytes_sent"]
        tap.ok(shared[0] <= part <= shared[1], "%s: what workers send goes that way" % name, [str(run.outcome())])
        tap.ok(not run.stderr, "%s: and nobody is warned" % name, run.stderr.splitlines())
        tap.ok(len(endpoints) == (3 if "ring" in name else 5) and all(e.startswith(schemes + "://") for e in endpoints),
               "%s: everybody listens there" % name, endpoints)
    tap.ok(len(set(hashes.values())) == 1, "one hash over all of them", [str(hashes)])


def refusals(tap, psring, directory):
    for options, words in [
            ({"no-encrypt": True}, "leave it out, or add --transport tcp"),
            ({"no-encrypt": True, "transport": "ipc"}, "--no-encrypt this-machine does not go with --transport ipc"),
            ({"no-encrypt": "home"}, "--no-encrypt: 'home' is not a place"),
            ({"transport": "ipc", "interface": "lo"}, "--interface does not go with --transport ipc"),
            ({"transport": "ipc", "hostfile": "HOSTS"}, "--transport ipc: host elsewhere.invalid cannot be reached by it"),
            ({"no-encrypt": True, "transport": "shm"}, "--no-encrypt this-machine does not go with --transport shm"),
            ({"transport": "pigeon"}, "--transport: 'pigeon'")]:
        if "hostfile" in options:
            options["hostfile"] = os.path.join(directory, "hosts")
            with open(options["hostfile"], "w") as file:
                file.write("localhost\nelsewhere.invalid slots=2\n")
        run = Run(psring, directory, "never", dict(OPTIONS, **options))
        tap.ok(run.status == 2 and words in run.stderr and len(run.stderr.splitlines()) == 1, "refused: %s" % words, run.why())


def connect_as(uid, path):
    """What another user gets from a socket, in a process of its own."""
    code = "import os,socket,sys; os.setresuid(%d,%d,%d); s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(len(s.recv(10)))"
    ended = subprocess.run([sys.executable, "-I", "-c", code % (uid, uid, uid), path], capture_output=True, text=True, timeout=PATIENCE_S)
    return ended.stdout.strip() or ended.stderr.strip().rsplit("\n", 1)[-1]


def held_run(psring, directory, name, options=None):
    run = LiveRun(psring, directory, name, dict(HELD, **(options or {})))
    run.wait_line("fault-point backward:1 reached", PATIENCE_S)
    run.member("worker", 1).wait_stopped()
    members = [process for process in run.processes() if process.role in ("scheduler", "shard", "worker")]
    files = sorted({file for process in members for file in process.socket_files()})
    return run, members, files


def who_can_connect(tap, psring, directory):
    run, members, files = held_run(psring, directory, "connected-to")
    try:
        folder = os.path.dirname(files[0])
        tap.ok(len(files) == 13 and sum(file.endswith(".fd") for file in files) == 6 and
               sum(os.path.basename(file).startswith("data-") for file in files) == 1 and {os.path.dirname(file) for file in files} == {folder},
               "six processes, two sockets each, of messages and of memory that they share, and one of who has read the data, in one directory", files)
        tap.ok(os.stat(folder).st_mode & 0o7777 == 0o700, "which is this user's alone")
        tap.ok(not any(process.ports() for process in members), "nobody listens on a port")
        if os.geteuid() == 0:
            os.chmod(directory, 0o755)
            os.chmod(run.temporary, 0o755)
            got = {file: connect_as(NOBODY, file) for file in files}
            tap.ok(all("PermissionError" in answer for answer in got.values()), "another user cannot connect to any", [str(got)])
            greets = {file for file in run.of_role("scheduler").socket_files() if not file.endswith(".fd")}
            tap.ok([connect_as(0, file) for file in greets] == ["10"], "this user can: the scheduler greets it")
        run.member("worker", 1).signal(signal.SIGCONT)
        tap.ok(run.wait(PATIENCE_S) == 0, "the run ends well", run.why())
    finally:
        run.kill()
    tap.ok(not run.leftovers(), "nothing is left of it", run.leftovers())


SHADOW_BYTES = 1 << 30  # what of a process is larger is a sanitizer's shadow of its memory


def memory_of(process):
    chunks = []
    with open("/proc/%d/maps" % process.pid) as maps, open("/proc/%d/mem" % process.pid, "rb", 0) as memory:
        for line in maps:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - begin < SHADOW_BYTES:
                try:
                    memory.seek(begin)
                    chunks.append(memory.read(end - begin))
                except OSError:
                    continue
    return b"".join(chunks)


def tokens_in(memory):
    """What stands there as a token does: 40 characters of Z85, of all kinds."""
    found = set(re.findall(rb"(?<![0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-])[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}(?=\0)", memory))
    kinds = [rb"[0-9]", rb"[a-z]", rb"[A-Z]", rb"[.:+=^!*?&<>()\[\]{}@%$#-]"]
    return {word for word in found if all(re.search(kind, word) for kind in kinds) and len(set(word)) > 15}


def secrets_are_wiped(tap, psring, directory):
    """What launcher and agent handed on is not in their memory any more. Two members have their
    token, which tells what to look for."""
    run, _, _ = held_run(psring, directory, "secrets")
    try:
        words = tokens_in(memory_of(run.of_role("scheduler")))
        of_worker = memory_of(run.member("worker", 1))
        shared = {word for word in words if word + b"\0" in of_worker}
        tap.ok(len(shared) == 1, "scheduler and worker hold one token that is theirs", [str(len(shared))])
        for role in ("launcher", "agent"):
            held = memory_of(run.of_role(role))
            tap.ok(len(held) > 100000 and not any(word in held for word in shared), "the %s holds it no more" % role)
    except PermissionError as closed:
        tap.ok(True, "no memory can be looked at here # SKIP %s" % closed)
    finally:
        run.kill()


def however_it_ends(tap, psring, directory, everything):
    """Of one process tests/fault tells the same, in each phase."""
    alone = [["scheduler"], ["agent"], ["worker"]] if everything else []
    alone_of_two = [["launcher"], ["scheduler"], ["worker"], ["shard"]] if everything else []
    parts = [partial(without, name="without-" + "-and-".join(roles), roles=roles, options={})
             for roles in [["launcher"], ["launcher", "agent"], ["launcher", "scheduler"]] + alone]
    # each agent has a directory
    hosts = over("mixed", directory, OPTIONS["workers"])
    parts += [partial(without, name="two-without-" + "-and-".join(roles), roles=roles, options=hosts)
              for roles in [["launcher", "scheduler"]] + alone_of_two]
    together(tap, [partial(part, psring=psring, directory=directory) for part in parts])


def without(tap, psring, directory, name, roles, options):
    run, members, files = held_run(psring, directory, name, options)
    try:
        arenas = set().union(*(process.arenas() for process in members))
        folders = {os.path.dirname(file) for file in files}
        tap.ok(arenas and len(folders) == (2 if options else 1) and all(os.stat(folder).st_mode & 0o7777 == 0o700 for folder in folders),
               "%s: memory is shared, and sockets are in directories of this user's alone" % name, sorted(folders))
        victims = [run.member(role, 1) if role == "shard" else run.member(role, 2) if role == "worker" else run.of_role(role)
                   for role in roles]
        held = run.member("worker", 1)
        for victim in victims:
            victim.signal(signal.SIGSTOP)
        for victim in victims:
            victim.signal(signal.SIGKILL)
        # not before: it would come to a checkpoint, whose files a killed scheduler leaves
        held.signal(signal.SIGCONT)
        tap.ok(run.wait_ended(PATIENCE_S) is not None, "%s: all end" % name, run.why())
        tap.ok(not run.leftovers(), "%s: every directory of sockets goes too" % name, run.leftovers())
        tap.ok(not still_mapped(arenas), "%s: and all memory" % name, [str(still_mapped(arenas))])
    finally:
        run.kill()


def arenas_of_others(process):
    """{inode: bytes of each of its mappings} of the memory of other processes that it can read. A
    borrower maps all of it once."""
    arenas = {}
    for line in open("/proc/%d/maps" % process.pid):
        words = line.split()
        begin, end = (int(word, 16) for word in words[0].split("-"))
        if words[1] == "r--s" and "memfd:psring-arena" in line:
            arenas.setdefault(words[4], []).append(end - begin)
    return arenas


def weights_in_place(tap, psring, directory):
    """On one host a worker's weights are the shards' own memory, where slices are long enough; with
    the bits of a run that copies them."""
    run = LiveRun(psring, directory, "in-place", WIDE)
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        run.member("worker", 1).wait_stopped()
        arenas = arenas_of_others(run.member("worker", 1))
        whole = max((max(mappings) for mappings in arenas.values() if len(mappings) > 1), default=0)
        again = sum(sum(mappings) - max(mappings) for mappings in arenas.values())
        tap.ok(0.8 * whole < again <= whole, "a worker has the shards' weights in the place of its own", [str(arenas)])
        run.member("worker", 1).signal(signal.SIGCONT)
        tap.ok(run.wait(PATIENCE_S) == 0, "the run ends well", run.why())
    finally:
        run.kill()
    hashes = {"in-place": run.json()["outcome"]["hash"]}
    for name, more in [("copied", {"transport": "ipc"}), ("other-slices", {"slice-size": "80000"}), ("alone", {"mode": "local"})]:
        options = {key: value for key, value in dict(WIDE, **more).items()
                   if key != "fault-point" and (name, key) != ("alone", "shards")}
        other = Run(psring, directory, name, options)
        tap.ok(other.status == 0, "%s: the run ends well" % name, other.why())
        hashes[name] = other.outcome()["hash"]
    tap.ok(len(set(hashes.values())) == 1, "and with the same weights", [str(hashes)])


def without_a_shard(tap, psring, directory):
    """What a worker has of a shard's memory stays when that is gone: it is told, and ends."""
    run = LiveRun(psring, directory, "without-a-shard", WIDE)
    try:
        run.wait_line("fault-point backward:1 reached", PATIENCE_S)
        held = run.member("worker", 1)
        held.wait_stopped()
        run.member("shard", 1).signal(signal.SIGKILL)
        held.signal(signal.SIGCONT)
        tap.ok(run.wait(PATIENCE_S) == 1 and any("shard 1" in line for line in run.text("err")),
               "killed: shard 1: the run ends with a line that names it", run.why())
    finally:
        run.kill()
    tap.ok(not run.leftovers(), "and nothing is left of it", run.leftovers())


def killed_as_a_whole(tap, psring, directory):
    for name, options in (("whole", {}), ("whole-two-hosts", over("mixed", directory, OPTIONS["workers"]))):
        run, _, files = held_run(psring, directory, name, options)
        everybody = run.processes()
        for process in everybody:  # who saw another one end would begin to tidy up
            process.signal(signal.SIGSTOP)
        for process in everybody:
            process.wait_stopped()
        run.kill()
        tap.ok(os.path.exists(files[0]), "%s: a run that was killed as a whole leaves its sockets" % name)
        os.environ["XDG_RUNTIME_DIR"] = run.temporary
        after = Run(psring, directory, name + "-after", dict(OPTIONS, **options))
        del os.environ["XDG_RUNTIME_DIR"]
        tap.ok(after.status == 0 and not run.leftovers(), "%s: and the next one removes them" % name, run.leftovers() + after.why())


def main():
    psring, everything = os.path.abspath(sys.argv[1]), sys.argv[2:] == ["all"]
    tap = Tap()
    with Workspace() as directory:
        for part in (partial(same_bits, everything=everything), refusals, who_can_connect, secrets_are_wiped,
                     partial(however_it_ends, everything=everything), weights_in_place, without_a_shard, killed_as_a_whole):
            try:
                part(tap, psring, directory)
            except (AssertionError, OSError, KeyError, ValueError, IndexError) as wrong:
                tap.ok(False, str(part), [repr(wrong)])
    tap.end()


if __name__ == "__main__":
    main()
