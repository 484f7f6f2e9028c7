#!/usr/bin/env python3
"""A member of the roster that speaks another version or breaks the protocol is named, and ends the
run with status 3.

usage: test_bad_member.py BAD-MEMBER PSRING PSRING-SCHEDULER PSRING-PS PSRING-WORKER

All processes are started by hand; worker 1 is tests/integration/bad_member.c (its memory:
bad_memory.c), or worker 0 where it is alone with the scheduler."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from psring_live import Live
from psring_run import PATIENCE_S, Results, Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "workers": 2, "batch-size": 16, "steps": 6, "lr": 0.05,
           "threads": 1, "seed": 3, "bucket-size": "4M", "deadline": 600}  # none of them ends by it

# What it does: (modes, what the line must tell).
PS, RING, BOTH, ALONE = ("ps",), ("ring",), ("ps", "ring"), ("alone",)
HOPS = ("hops",)  # a ring whose workers share no memory
OF_VICTIM = r"(shard|worker) 0 on \S+: worker 1: "
LENT = OF_VICTIM + r"shared memory: .*"
CASES = {
    "other-version": (BOTH, r"worker 1 on elsewhere is psring 99\.0, the scheduler on \S+ is psring [\d.]+: install one version"),
    "other-wire-version": (PS, r"worker 1: .*version 3\b.*\b2\b"),
    "torn-join": (PS, r"worker 1 .*JOIN"),
    "join-from-nowhere": (PS, r"worker 1 .*JOIN.*\"host\""),
    "garbage": (PS, r"worker 1: a message does not begin with PSRG"),
    "no-hello": (PS, r"worker 1: its first message is not HELLO"),
    "another-rank": (PS, r"worker 1: says it is worker 2"),
    "another-name": (PS, r"worker 1: says it is worker 0"),
    "payload-that-does-not-come": (PS, r"worker 1: announced a payload of 1000 bytes"),
    "same-message-twice": (PS, r"worker 1: sent message 0 twice"),
    "facts-twice": (BOTH, r"worker 1 sent FACTS.*told its facts before"),
    "no-phase": (BOTH, r"worker 1 sent PROGRESS.*its phase is 99: 12 is the most"),
    "metrics-before-start": (PS, r"worker 1 sent METRICS.*not due before START"),
    "checkpoint-before-start": (RING, r"worker 1 sent CHECKPOINT.*not due before START"),
    "welcomes-the-scheduler": (RING, r"worker 1 sent WELCOME.*not due"),
    "push-no-bucket": (PS, r"shard 0 on \S+: .*worker 1 .*sent PUSH.*bucket 4000000000.*there are \d+ buckets"),
    "push-no-slice": (PS, r"shard 0 on \S+: .*worker 1 .*sent PUSH.*no slice of the bucket begins there"),
    "set-the-weights": (PS, r"shard 0 on \S+: .*worker 1 .*sent INIT.*initial state is worker 0's to send"),
    "ring-to-a-shard": (PS, r"shard 0 on \S+: .*worker 1 .*sent RING.*not for a shard"),
    "push-to-a-worker": (PS + HOPS, r"worker 0 on \S+: .*worker 1 .*sent PUSH.*does not take that"),
    "push-no-slice-to-a-worker": (RING, r"worker 0 on \S+: .*worker 1 .*sent PUSH.*no slice of the bucket begins there"),
    "weights-of-anothers-bucket": (RING, r"worker 0 on \S+: .*worker 1 .*sent WEIGHTS.*the bucket is worker 0's"),
    "ring-no-hop": (RING + HOPS, r"worker 0 on \S+: .*worker 1 .*sent RING"),
    "another-call": (BOTH, r"worker 0 on \S+: call 1: rank 1 calls all_reduce\(count 8, float64, sum, root\), rank 0 calls broadcast\("),
    "values-of-another-group": (RING, r"worker 0 on \S+: .*worker 1 .*sent VALUES.*this is group 0 of epoch 0"),
    "values-of-no-bucket": (HOPS, r"worker 0 on \S+: .*worker 1 .*sent VALUES.*there are \d+ buckets"),
    "credit-for-nothing": (PS, r"worker 0 on \S+: .*worker 1 .*sent CREDIT.*it is for no call that is under way"),
    "stop-the-run": (RING, r"worker 0 on \S+: .*worker 1 .*sent STOP_AT.*does not take that"),
    # With memory that is shared.
    "pass-a-pipe": (BOTH, LENT + r"no memory that can be sealed"),
    "pass-a-file": (PS, LENT + r"no memory that can be sealed"),
    "pass-dev-zero": (RING, LENT + r"no memory that can be sealed"),
    "pass-what-can-shrink": (BOTH, LENT + r"not sealed against another size"),
    "pass-less-than-it-says": (PS, LENT + r"has 4096 bytes, not 262144"),
    "pass-more-than-there-is": (RING, LENT + r"has 4096 bytes, not 18446744073709547520"),
    "pass-too-many": (PS, OF_VICTIM + r"passes an arena 16 twice or too many"),
    "flood-records": (BOTH, OF_VICTIM + r"sent a record that no process that lends memory sends"),
    "refer-to-nothing": (BOTH, OF_VICTIM + r"refers to an arena 0 that it has not shared"),
    "refer-to-another-arena": (PS, OF_VICTIM + r"refers to an arena 3 that it has not shared"),
    "refer-beyond": (BOTH, OF_VICTIM + r"refers to 262144 bytes at 262148 of an arena of 524288 bytes"),
    "refer-beyond-2-64": (BOTH, OF_VICTIM + r"refers to 262144 bytes at 18446744073709289472 of an arena of 524288 bytes"),
    "refer-to-an-odd-place": (RING, OF_VICTIM + r"refers to 262144 bytes at 2 of an arena"),
    "refer-to-counts": (PS, OF_VICTIM + r"refers to a payload that is not in float32"),
    "return-what-it-was-not-lent": (BOTH, OF_VICTIM + r"gives back what it was not lent \(token 000000000012d687\)"),
    "take-twice": (PS, OF_VICTIM + r"answers to an arena 0 that it was not offered"),
    "refuse-what-it-has-taken": (RING, OF_VICTIM + r"answers to an arena 0 that it was not offered"),
    "pass-as-a-borrower": (PS, OF_VICTIM + r"passes a descriptor"),
    "metrics-of-another-rank": (ALONE, r"worker 0 sent METRICS.*the metrics of rank 1 are not its to tell"),
    "metrics-of-a-later-step": (ALONE, r"worker 0 sent METRICS.*it tells step 2 of rank 0 after step 0"),
    "metrics-twice": (ALONE, r"worker 0 sent METRICS.*it tells step 1 of rank 0 after step 1"),
    "metrics-with-a-terminal-command": (ALONE, r"worker 0 sent METRICS.*its payload holds control characters"),
    "metrics-of-many-bytes": (ALONE, r"worker 0 sent METRICS.*its payload has 1000000 bytes, more than 65536"),
    "checkpoints-of-invented-steps": (ALONE, r"worker 0 sent CHECKPOINT.*no checkpoint of 1000 steps is due; its next one is of 2"),
    "checkpoint-that-is-not-due": (ALONE, r"worker 0 sent CHECKPOINT.*no checkpoint of 4 steps is due; its next one is of 2"),
    "two-checkpoints-at-once": (ALONE, r"worker 0 sent CHECKPOINT.*its checkpoint of 2 steps is not in place"),
    "checkpoint-in-crumbs": (ALONE, r"worker 0 sent CHECKPOINT.*section 0 of the checkpoint of step 2 comes in more than \d+ pieces"),
    "done-after-more-steps-than-there-are": (ALONE, r"worker 0 sent DONE.*its steps is 1000000: 6 is the most"),
}


def options_of(mode):
    if mode == "alone":
        return dict(OPTIONS, mode="ring", workers=1, **{"checkpoint-every": 2})
    return dict(OPTIONS, mode="ring", transport="ipc") if mode == "hops" else dict(OPTIONS, mode=mode)


class Cluster:
    def __init__(self, programs, directory):
        self.bad, self.psring, self.scheduler, self.shard, self.worker = programs
        self.directory = directory
        self.facts = {}

    def honest_facts(self, mode):
        """What honest workers find, from run.json of an honest run."""
        run = Run(self.psring, self.directory, "honest-" + mode, options_of(mode))
        if run.status == 0:
            with open(os.path.join(run.out, "run.json")) as text:
                self.facts[mode] = json.dumps(json.load(text)["facts"])
        return run

    def play(self, case):
        mode, what, pattern = case
        tap = Results()
        name = "%s-%s" % (what, mode)
        keys, out = os.path.join(self.directory, name + ".keys"), os.path.join(self.directory, name)
        options = options_of(mode)
        workers, rank = options["workers"], options["workers"] - 1
        subprocess.run([self.psring, "keygen", "--out", keys, "--workers", str(workers), "--shards", str(int(mode == "ps")), "--loopback"],
                       check=True, stdout=subprocess.DEVNULL)
        key = lambda who: os.path.join(keys, who + ".key")
        words = ["--%s=%s" % item for item in options.items()]
        lives, why = [], []
        try:
            head = Live([self.scheduler, "--key-file", key("scheduler-0"), "--out", out] + words, self.directory, name + "-scheduler")
            lives.append(head)
            endpoint = head.wait_line("listening endpoint=ipc://", PATIENCE_S).rsplit("endpoint=", 1)[1]
            at = ["--scheduler", endpoint, "--key-file"]
            if mode == "ps":
                lives.append(Live([self.shard] + at + [key("shard-0"), "--rank", "0"], self.directory, name + "-shard"))
            if rank > 0:
                lives.append(Live([self.worker] + at + [key("worker-0"), "--rank", "0"], self.directory, name + "-worker"))
                head.wait_line(r"has joined: %d of %d" % (len(lives) - 1, len(lives)), PATIENCE_S)
            bad = Live([self.bad, endpoint, key("worker-%d" % rank), str(rank), self.facts[mode], what], self.directory, name + "-bad",
                       stdin=subprocess.PIPE)
            lives.append(bad)
            statuses = [live.wait(PATIENCE_S) for live in lives[:-1]]
            bad.process.stdin.close()
            bad_status = bad.wait(PATIENCE_S)
            said = [line for line in head.text("err") if " error " in line]
            why = [str(statuses), "bad_member: %s" % bad_status] + [line for live in lives for line in live.why()]
            line = said[-1] if said else ""
            good = tap.ok(statuses[0] == 3 and all(statuses), "%s, %s: the run ends with status 3" % (what, mode), why)
            good = tap.ok(len(said) == 1 and re.search(pattern, line), "%s, %s: one line names the worker and what it did" % (what, mode),
                          [pattern] + said + ([] if not good else why)) and good
            tap.ok(bad_status == 0, "%s, %s: it misbehaved, and was told the run's end if it had joined" % (what, mode),
                   bad.why() if good else [])
            return tap, line
        except (AssertionError, OSError) as wrong:
            tap.ok(False, "%s, %s" % (what, mode), [repr(wrong)] + [line for live in lives for line in live.why()])
            return tap, ""
        finally:
            left = [process for live in lives for process in live.kill()]
            tap.ok(not left, "%s, %s: nothing is left running" % (what, mode), [str(left)])
            files = [file for live in lives for file in live.leftovers()]
            tap.ok(not files, "%s, %s: and no socket" % (what, mode), files)


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:6]]
    tap, rows = Tap(), []
    can_do = subprocess.run([programs[0]], capture_output=True, text=True, check=True).stdout.split()
    tap.ok(sorted(can_do) == sorted(CASES), "all that bad_member can do is done", [str(set(can_do) ^ set(CASES))])
    with Workspace() as directory:
        cluster = Cluster(programs, directory)
        for mode in BOTH + HOPS + ALONE:
            run = cluster.honest_facts(mode)
            if not tap.ok(mode in cluster.facts, "%s: an honest run" % mode, run.why()):
                tap.end()
        cases = [(mode, what, pattern) for what, (modes, pattern) in CASES.items() for mode in modes]
        with ThreadPoolExecutor(3) as pool:  # most of the time they wait
            for (mode, what, _), (results, line) in zip(cases, pool.map(cluster.play, cases)):
                results.tell(tap)
                rows.append("%-36s %-5s %s" % (what, mode, re.sub(r"^.* error +scheduler: ", "", line)))
    for row in rows:
        print("# " + row)
    tap.end()


if __name__ == "__main__":
    main()
