#!/usr/bin/env python3
"""Whoever connects again and again, a stranger or a member with its own token, makes nobody hold
more than a few connections: the run ends with the hash of an undisturbed one, in little memory, and
its files are written.

usage: test_connections.py PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER [FIGURES]

All processes are started by hand, over ipc sockets or over TCP without encryption, so that the test
knows worker 1's tokens. The run is held at a fault point while its inboxes are flooded. With
FIGURES, a file, the memory of all processes is written there."""

import json
import os
import signal
import subprocess
import sys

import key_files
from crowd import FRAME_BYTES, Crowd, of_a_member, of_a_stranger, sockets_in, token_for
from psring_live import Live, Process
from psring_run import PATIENCE_S, Run, Tap, Workspace, is_sanitized

CONNECTIONS = 400  # at each inbox; 1500 where figures are asked for
UNKNOWN_MAX, HALF_OPEN_MAX = 8, 64  # net/trust/admission.h, net/zmq/inbox/half_open.h
FEW = 300  # descriptors that a process may have, where they are few
OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 2, "batch-size": 16, "steps": 6, "lr": 0.05,
           "threads": 1, "seed": 3, "deadline": 600, "bucket-size": 262144, "mode": "ps", "checkpoint-every": 1}
HELD = {"fault-point": "worker:1:backward:1"}


class Cluster:
    """A run by hand, held at the fault point."""

    def __init__(self, programs, directory, name, transport, descriptors):
        psring, scheduler, shard, worker = programs
        self.out, self.lives = os.path.join(directory, name), []
        self.keys = os.path.join(directory, name + ".keys")
        subprocess.run([psring, "keygen", "--out", self.keys, "--workers", "2", "--shards", "1", "--loopback"], check=True,
                       stdout=subprocess.DEVNULL)
        if transport == "tcp":
            for file in os.listdir(self.keys):
                # which no certificate can say
                key_files.write_as_json(os.path.join(self.keys, file.replace("_secret", "")), bare=True)
        key = lambda who: ["--key-file", os.path.join(self.keys, who + ".key")]
        options = ["--%s=%s" % item for item in dict(OPTIONS, **HELD).items()]
        options += ["--transport", transport] if transport != "auto" else []
        with_limit = lambda command: ["sh", "-c", 'ulimit -n %d; exec "$@"' % descriptors, "sh"] + command if descriptors else command
        start = lambda who, command: self.lives.append(Live(with_limit(command), directory, "%s-%s" % (name, who)))
        start("scheduler", [scheduler] + key("scheduler-0") + ["--out", self.out] + options)
        self.endpoint = self.lives[0].wait_line("listening endpoint=", PATIENCE_S).rsplit("endpoint=", 1)[1]
        at = ["--scheduler", self.endpoint.replace("tcp://", "").replace("ipc://", "")]
        start("shard", [shard] + key("shard-0") + ["--rank", "0"] + at)
        for rank in (0, 1):
            start("worker-%d" % rank, [worker] + key("worker-%d" % rank) + ["--rank", str(rank)] + at)
        self.lives[3].wait_line("fault-point backward:1 reached", PATIENCE_S)
        self.processes = {who: Process(live.process.pid)
                          for who, live in zip(("scheduler", "shard", "worker 0", "worker 1"), self.lives)}
        self.processes["worker 1"].wait_stopped()

    def inboxes(self):
        """[(where, role, rank)] of those whose processes run."""
        if self.endpoint.startswith("ipc://"):
            return [inbox for inbox in sockets_in(os.path.dirname(self.endpoint[len("ipc://"):])) if inbox[1:] != ("worker", 1)]
        return [(process.ports()[0], *((who.split() + ["0"])[:2])) for who, process in self.processes.items()
                if who != "worker 1" and process.ports()]

    def why(self):
        return [line for live in self.lives for line in live.why()]

    def end(self):
        left = [process for live in self.lives for process in live.kill()]
        for process in self.processes.values():
            process.close()
        return left


def flood(tap, programs, directory, case, right, figures):
    who, transport, descriptors = case
    connections = CONNECTIONS if figures is None else 1500
    name = "%s-%s%s" % (who, transport, "-few" if descriptors else "")
    crowd, run, left = Crowd(), None, []
    try:
        run = Cluster(programs, directory, name, transport, descriptors)
        before = {of: process.memory_peak_bytes() for of, process in run.processes.items()}
        own = os.path.join(run.keys, "worker-1.key")
        inboxes = run.inboxes()
        held, most = [], HALF_OPEN_MAX + (UNKNOWN_MAX if who == "member" else 0)
        for at, role, rank in inboxes:
            token = token_for(own, role, int(rank))
            says = of_a_stranger if who == "strangers" else lambda token=token: of_a_member("worker 1", token)
            crowd.come(at, connections, says)
            crowd.press_on(UNKNOWN_MAX if who == "member" else 0)
            held.append(crowd.await_held(most))
            crowd.settle()
        peaks = {of: process.memory_peak_bytes() for of, process in run.processes.items()}
        if who == "member":
            tap.ok(crowd.let_in >= UNKNOWN_MAX, "%s: %d were let in" % (name, crowd.let_in))
        tap.ok(len(held) == 3 and max(held) <= most, "%s: of %d connections at each inbox few are held" % (name, connections),
               ["%s are, %d at most should be" % (held, most), str(inboxes)])
        allowed = 2 * (HALF_OPEN_MAX + UNKNOWN_MAX) * FRAME_BYTES  # some are on their way out
        if not is_sanitized(programs[0]):
            tap.ok(all(peaks[of] - before[of] < allowed for of in peaks), "%s: in little memory" % name, [str(before), str(peaks)])
        for of in peaks if figures is not None else ():
            figures.append("%-18s %-10s %4d MB before, %4d MB at its most; of %d connections held: %s" %
                           (name, of, before[of] >> 20, peaks[of] >> 20, connections, held))
        run.processes["worker 1"].signal(signal.SIGCONT)
        statuses = [live.wait(PATIENCE_S) for live in run.lives]
        if figures is not None:
            figures.append("%-18s statuses %s" % (name, statuses))
        tap.ok(statuses == [0] * 4, "%s: all processes end with status 0" % name, [str(statuses)] + run.why())
        if statuses[0] == 0:
            with open(os.path.join(run.out, "run.json")) as text:
                tap.ok(json.load(text)["outcome"]["hash"] == right, "%s: with the hash of an undisturbed run" % name)
            kept = sorted(os.listdir(os.path.join(run.out, "checkpoints")))
            tap.ok("step-%d" % OPTIONS["steps"] in kept, "%s: and its last checkpoint" % name, kept)
    except (AssertionError, OSError, KeyError, ValueError, IndexError) as wrong:
        tap.ok(False, name, [repr(wrong)] + (run.why() if run else []))
    finally:
        crowd.go()
        left = run.end() if run else []
    tap.ok(not left, "%s: nothing is left of it" % name, [str(left)])


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap, figures = Tap(), [] if len(sys.argv) > 5 else None
    places = (("ipc", FEW), ("tcp", FEW), ("auto", None)) + ((("ipc", None), ("tcp", None)) if len(sys.argv) > 5 else ())
    with Workspace() as directory:
        undisturbed = Run(programs[0], directory, "undisturbed", OPTIONS)
        if tap.ok(undisturbed.status == 0, "an undisturbed run", undisturbed.why()):
            right = undisturbed.outcome()["hash"]
            for case in [(who, transport, descriptors) for who in ("strangers", "member") for transport, descriptors in places]:
                flood(tap, programs, directory, case, right, figures)
    if is_sanitized(programs[0]):
        tap.skip("the memory of all that", "a sanitizer keeps what was freed")
    if figures is not None:
        with open(sys.argv[5], "w") as file:
            file.write("\n".join(figures) + "\n")
    tap.end()


if __name__ == "__main__":
    main()
