"""What is refused when a run comes together, each with the line and the exit status of the table in
docs/launching.md: its rows and what is played here are the same, so the table cannot rot. Nobody
waits for a deadline, and who is in the right goes on.

usage: test_refusals.py SOURCE-ROOT PSRING SCHEDULER SHARD WORKER BAD-MEMBER"""

import json
import os
import re
import signal
import subprocess
import sys

import key_files
from psring_run import PATIENCE_S, Run, Tap, Workspace, free_port, together
from test_launched import OPTIONS, Launcher, Process, words_of

RING = dict(OPTIONS, mode="ring")
HEADING = "## What is refused"
# between hosts: test_meeting_hosts plays it on emulated ones, with the same words
ELSEWHERE = {"an address that others cannot reach",
             # with the mpirun of both: tests/launch/test_mpirun.py
             "mpirun of one MPI, `--mode mpi` of a program built with another"}


def table_of(root):
    """{situation: (line, status)} of the document. In a line `..` stands for anything."""
    with open(os.path.join(root, "docs", "launching.md")) as text:
        part = text.read().split(HEADING, 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in part.splitlines() if line.startswith("| ")]
    return {row[0]: (row[1].strip("`").replace("\\|", "|"), int(row[2])) for row in rows if row[2].isdigit()}


class Place:
    """A folder of keys, and processes that are ended whatever happens."""

    def __init__(self, tests, name):
        self.tests, self.name = tests, name
        self.directory = os.path.join(tests.directory, name)
        os.mkdir(self.directory)
        self.launcher = Launcher(tests.worker, self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.launcher.end()

    def path(self, *name):
        return os.path.join(self.directory, *name)

    def keys(self, name, workers=3, shards=0, *more):
        subprocess.run([self.tests.psring, "keygen", "--workers", str(workers), "--shards", str(shards), *more, self.path(name)], check=True,
                       timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
        return self.path(name)

    def start(self, command, stdin=None):
        process = Process(command, self.launcher.environment({}), self.directory, stdin=stdin)
        self.launcher.processes.append(process)
        return process

    def worker(self, variables, options, *more):
        return self.launcher.start(variables, options, *more)

    def scheduler(self, keys, **options):
        """One by hand, and where it listens."""
        head = self.start([self.tests.scheduler, "--keys", keys, "--out", self.path("run")] + words_of(dict(RING, **options)))
        head.await_line("listening endpoint=")
        return head, next((line.rsplit("endpoint=", 1)[1] for line in head.lines if "listening endpoint=" in line), "nowhere")


class Tests:
    def __init__(self, root, programs, directory):
        self.psring, self.scheduler, self.shard, self.worker, self.bad_member = programs
        self.directory = directory
        self.table = table_of(root)
        self.played = set()
        self.rows = []

    def refused(self, tap, situation, process):
        """The process ends with the table's status, and one line of its own is the table's."""
        self.played.add(situation)
        status = process.wait()
        line, right = self.table.get(situation, ("(the table does not have it)", None))
        pattern = re.escape(line).replace(re.escape(".."), ".*") + "$"
        # psring train's have no time before them
        said = [text for text in process.lines if " error " in text] or process.lines[-1:]
        tap.ok(status == right and len(said) == 1 and re.search(pattern, said[0]), "%s: one line, status %s" % (situation, right),
               [line, "status %s" % status] + process.lines)
        self.rows.append("%-44s %s  %s" % (situation, status, re.sub(r"^.* error +\S+ *\d*: ", "", said[-1] if said else "")))


# ---- what a process sees by itself ----

def by_itself(t, tap):
    with Place(t, "by-itself") as p:
        keys = p.keys("keys")
        p.keys("open")
        os.chmod(p.path("open", "worker-0.key_secret"), 0o644)
        torch = dict(RANK=1, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        dmlc = dict(DMLC_ROLE="worker", DMLC_NUM_WORKER=2, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=free_port())
        by_hand = lambda *words: p.start([t.worker, "--scheduler", "127.0.0.1:1", *words])
        started = [
            ("a variable with an impossible value", p.worker(dict(dmlc, DMLC_ROLE="master"), RING)),
            ("a rank out of range", p.worker(dict(torch, RANK=2), RING)),
            ("a role without its address", p.worker({key: dmlc[key] for key in dmlc if "URI" not in key}, RING)),
            ("two launchers that contradict each other", p.worker(dict(torch, SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2, SLURM_STEP_NODELIST="a"), RING)),
            ("several hosts and no keys", p.worker(dict(torch, MASTER_ADDR="192.0.2.1"), RING)),
            ("no slots left", p.start([t.psring, "train", "-H", "localhost:1"] + words_of(dict(RING, workers=2, out="never")))),
            ("keys that are not there", p.worker(torch, dict(RING, keys="nowhere"))),
            ("a key file that others can read", by_hand("--key-file", p.path("open", "worker-0.key"))),
            ("another process's key", by_hand("--key-file", os.path.join(keys, "worker-1.key"), "--rank", "0"))]
        for situation, process in started:
            t.refused(tap, situation, process)
        tap.ok(not p.launcher.left(), "what was refused leaves nothing", p.launcher.left())


# ---- places that are taken ----

def taken_on_a_host(t, tap):
    with Place(t, "taken") as p:
        torch = dict(RANK=1, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
        dmlc = dict(DMLC_NUM_WORKER=1, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=free_port())
        for situation, variables in [("a rank that is started twice on one host", torch), ("two schedulers on one host", dict(dmlc, DMLC_ROLE="scheduler")),
                                     ("one worker too many", dict(dmlc, DMLC_ROLE="worker", DMLC_PS_ROOT_PORT=free_port()))]:
            first = p.worker(variables, dict(RING, out="never"))
            first.await_line("the scheduler is at")
            t.refused(tap, situation, p.worker(variables, dict(RING, out="never")))


def taken_over_tcp(t, tap):
    """The second is told at once, the first and its run go on."""
    with Place(t, "tcp") as p:
        keys, port = p.keys("keys"), free_port(beside=1000)
        options = dict(RING, out="well", keys=keys)
        start = lambda rank: p.worker(dict(RANK=rank, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=port), options)
        ranks = [start(0), start(1)]
        for rank in (0, 1):  # rank 0's scheduler admits whoever is first
            ranks[0].await_line("worker %d on" % rank)
        t.refused(tap, "a rank that is started twice, over TCP", start(1))
        second = start(0)  # its scheduler finds the port taken, and itself the rank
        second_status = second.wait()  # before the run can end, and free both
        ranks.append(start(2))
        statuses = [rank.wait() for rank in ranks]
        tap.ok(statuses == [0, 0, 0] and p.launcher.hash_of("well") == t.right, "the run that has them goes on to the right hash",
               [str(statuses), p.launcher.hash_of("well")] + [line for rank in ranks for line in rank.lines[-5:]])
        said = [line for line in second.lines if " error " in line]
        tap.ok(second_status in (2, 3) and any("port %d of 127.0.0.1 is in use" % (port + 1000) in line for line in said),
               "a second rank 0, and with it a second scheduler, ends at once", second.lines)


def two_schedulers(t, tap):
    with Place(t, "schedulers") as p:
        keys = p.keys("keys")
        head, endpoint = p.scheduler(keys)
        t.refused(tap, "two schedulers at one port", p.start([t.scheduler, "--keys", keys, "--port", endpoint.rsplit(":", 1)[1], "--out", p.path("never")]
                                                             + words_of(RING)))
        tap.ok(head.process.poll() is None, "the first one goes on", head.lines)


# ---- strangers at a scheduler's port ----

def with_anothers_own_key(path, other, to):
    """The key file of a member of the run, whose own pair is somebody else's."""
    own, foreign = key_files.read(path)["curve"], key_files.read(other)["curve"]
    with open(path + "_secret") as file:
        text = file.read()
    for name in ("public-key", "secret-key"):
        text = text.replace(own[name], foreign[name])
    with open(os.open(to, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(text)
    return to


def clear_text(endpoint):
    """A provision as a launcher gives it with --no-encrypt."""
    return json.dumps({"role": "worker", "rank": 1, "host": "here", "scheduler": endpoint, "directory": "", "sharing": "", "interface": "127.0.0.1",
                       "port": 0, "keys": {"curve": False, "bare": True, "token": "0" * 64}}) + "\n"


def strangers(t, tap):
    with Place(t, "strangers") as p:
        keys, others = p.keys("keys"), p.keys("others")
        wrong = with_anothers_own_key(os.path.join(keys, "worker-1.key"), os.path.join(others, "worker-1.key"), p.path("wrong.key"))
        head, endpoint = p.scheduler(keys, workers=3)
        at = [t.worker, "--scheduler", endpoint, "--rank", "1"]
        started = [("a worker of another run at the same port", p.start(at + ["--keys", others])),
                   ("a key that is not admitted", p.start(at + ["--key-file", wrong])),
                   ("clear text at an encrypted port", p.start([t.worker, "--provision", "-"], stdin=clear_text(endpoint)))]
        for situation, process in started:
            t.refused(tap, situation, process)
        ranks = [p.start(at[:3] + ["--keys", keys, "--rank", str(rank)]) for rank in range(3)]
        statuses = [process.wait() for process in [head] + ranks]
        tap.ok(statuses == [0, 0, 0, 0], "the run goes on with those who belong to it", [str(statuses)] + head.lines)


def no_place(t, tap):
    with Place(t, "no-place") as p:
        keys = p.keys("keys")
        head, endpoint = p.scheduler(keys, workers=2)
        start = lambda rank: p.start([t.worker, "--scheduler", endpoint, "--keys", keys, "--rank", str(rank)])
        t.refused(tap, "a rank that the run does not have", start(2))
        statuses = [process.wait() for process in [start(0), start(1), head]]
        tap.ok(statuses == [0, 0, 0], "and the run goes on", [str(statuses)] + head.lines)


# ---- runs that fail before all have come ----

def other_version(t, tap):
    with Place(t, "version") as p:
        keys = p.keys("keys", 2, 0, "--loopback")
        head, endpoint = p.scheduler(keys, workers=2)
        bad = p.start([t.bad_member, endpoint, os.path.join(keys, "worker-1.key"), "1", "{}", "other-version"], stdin=subprocess.PIPE)
        t.refused(tap, "another version", head)
        bad.process.stdin.close()  # until then it stays
        tap.ok(bad.wait() is not None, "the other one ends too", bad.lines)


def too_late(t, tap):
    """Rank 2 comes when rank 1 has ended the run by other options: it hears that at once, and
    why."""
    with Place(t, "late") as p:
        for keys in ({}, {"keys": p.keys("keys")}):
            port = free_port(beside=1000)
            options = dict(RING, out="late", **keys)
            start = lambda rank, **more: p.worker(dict(RANK=rank, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=port), dict(options, **more))
            first = start(0)
            first.await_line("worker 0 on")
            other = start(1, lr=0.2)
            first.await_line("have not joined yet are told")
            t.refused(tap, "a rank that comes when its run has failed", start(2))
            t.refused(tap, "a rank that has other options", other)
            status = first.wait()
            tap.ok(status not in (0, None), "rank 0 ends with the run", ["status %s" % status] + first.lines)
        tap.ok(not p.launcher.left(), "nothing is left of the meeting", p.launcher.left())


def never_came(t, tap):
    with Place(t, "never") as p:
        keys = p.keys("keys", 2)
        head, endpoint = p.scheduler(keys, workers=2, deadline=20)
        first = p.start([t.worker, "--scheduler", endpoint, "--keys", keys, "--rank", "0"])
        first.wait()
        # it stays for the other, as the test before this one shows
        head.process.send_signal(signal.SIGTERM)
        t.refused(tap, "a rank that never comes", head)


def main():
    programs = [os.path.abspath(program) for program in sys.argv[2:7]]
    tap = Tap()
    with Workspace() as directory:
        t = Tests(os.path.abspath(sys.argv[1]), programs, directory)
        local = Run(t.psring, directory, "local", dict(OPTIONS, mode="local", workers=3))
        if tap.ok(local.status == 0, "mode local ends with status 0", local.why()):
            t.right = local.outcome()["hash"]
            parts = [by_itself, taken_on_a_host, taken_over_tcp, two_schedulers, strangers, no_place, other_version, too_late, never_came]
            together(tap, [lambda results, part=part: part(t, results) for part in parts])
            tap.ok(t.played | ELSEWHERE == set(t.table), "each row of the table in docs/launching.md is played here", sorted((t.played | ELSEWHERE) ^ set(t.table)))
    for row in t.rows:
        print("# " + row)
    tap.end()


if __name__ == "__main__":
    main()
