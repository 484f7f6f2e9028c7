"""What the fault tests share: the small run that they disturb, what is true of it undisturbed, and
what must hold after whatever was done to it."""

import json
import os
import re
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from psring_live import Live, LiveRun, still_mapped
from psring_run import PATIENCE_S, Tap, Workspace, over

DEADLINE_S = 6.0
# No machine is so busy that a process that is well says nothing for so long; and who says nothing
# is to be missed. psr_liveness_silence_ms(DEADLINE_S).
SILENCE_S = 4.0
# No run ends by this one before a test is given up: what ends with it has ended by itself.
FAR_S = 2 * PATIENCE_S

STEPS = 8

OPTIONS = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 16, "steps": STEPS,
           "lr": 0.05, "seed": 7, "threads": 1, "deadline": FAR_S, "eval-every": 3, "checkpoint-every": 2,
           "bucket-size": 262144, "slice-size": 65536}

# The same with longer steps, and more of them than one thread can take while a test lasts: for what
# must still be going on when a deadline has passed, or when it is told to end. Most of a step it
# waits, and not so long that a worker held up by other processes would be told to be slow.
SLOW = "0:8"
LONG = {"data": "synthetic:count=8300,test=90,channels=1,size=28", "steps": 20000, "checkpoint-every": 6, "slow": SLOW}


def options_of(mode, n, long=False, one_bucket=False, **more):
    options = dict(OPTIONS, mode=mode, workers=n)
    if one_bucket:
        options["bucket-size"] = 64 << 20
    if long:
        options.update(LONG, **{"batch-size": 1024 // n})
    if mode == "ps":
        options["shards"] = n // 2
    return dict(options, **{name.replace("_", "-"): value for name, value in more.items()})


RESUMED_BY = 2  # steps of a run that goes on from a checkpoint of another one


# ---- what a run leaves behind ----

def safetensors_faults(path):
    """Reads the file without psring's code: what is wrong with it, as a list of lines."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8:
        return ["%s has %d bytes" % (path, len(data))]
    size = struct.unpack("<Q", data[:8])[0]
    try:
        header = json.loads(data[8:8 + size])
    except ValueError as wrong:
        return ["%s: header: %s" % (path, wrong)]
    metadata = header.pop("__metadata__", {})
    faults, at = [], 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = tensor["data_offsets"]
        count = 1
        for side in tensor["shape"]:
            count *= side
        if begin != at or end - begin != 4 * count or tensor["dtype"] != "F32":
            faults.append("%s: tensor %s is torn" % (path, name))
        if "xxh3/" + name not in metadata:
            faults.append("%s: tensor %s has no checksum" % (path, name))
        at = end
    if 8 + size + at != len(data):
        faults.append("%s: has %d bytes, its header asks for %d" % (path, len(data), 8 + size + at))
    return faults if header else faults + ["%s holds no tensor" % path]


def checkpoints(out):
    """(steps of the checkpoints, what is wrong with them)"""
    steps, faults = [], []
    top = os.path.join(out, "checkpoints")
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else []:
        if not re.fullmatch(r"step-\d+", name):
            faults.append("%s/%s is no checkpoint" % (top, name))
            continue
        steps.append(int(name[5:]))
        files = sorted(os.listdir(os.path.join(top, name)))
        if files != ["model.safetensors", "state.safetensors"]:
            faults.append("%s/%s holds %s" % (top, name, files))
        for file in files:
            faults += safetensors_faults(os.path.join(top, name, file))
    return sorted(steps), faults


def unprefixed(run):
    """The lines that are psring train's own: those of others bear [ROLE RANK on HOST] or the
    like."""
    return [line for line in run.text("err") if not line.startswith("[")]


# ---- a case ----

class Played:
    """What was done to whom and when, and what came of it."""

    def __init__(self, what, whom, when):
        self.what, self.whom, self.when = what, whom, when
        self.seconds, self.status, self.line = None, None, ""
        self.faults, self.why = [], []

    def expect(self, good, fault):
        if not good:
            self.faults.append(fault)
        return good

    def await_end(self, run):
        """All of its processes end: after how long, and with what status."""
        self.seconds = run.wait_ended(PATIENCE_S)
        self.status = run.wait(PATIENCE_S)
        self.expect(self.seconds is not None, "it does not end")

    def name(self):
        return "%s %s %s" % (self.what, self.whom, self.when)

    def row(self):
        return "%-8s %-10s %-46s %6s %4s  %s" % (self.what, self.whom, self.when, "" if self.seconds is None else
                                                 "%.2f" % self.seconds, self.status, self.line)


class Suite:
    def __init__(self, psring, directory):
        self.psring = psring
        self.directory = directory
        self.had_checkpoint = []  # of each case that could
        # of undisturbed runs: (mode, n, long and so on, as options_of takes them) -> {step: hash}
        self.hashes = {}
        # how many there were, and one at a time, of each such key
        self.made, self.lock = {}, threading.Lock()

    def run(self, name, options, psring=None):
        return LiveRun(psring or self.psring, self.directory, name, options)

    def hash_at(self, key, step):
        """The hash of an undisturbed run after step, from the longest one until now, or from one
        that is made."""
        with self.lock:
            lock = self.made.setdefault(key, [threading.Lock(), 0])
        with lock[0]:
            if step not in self.hashes.get(key, ()):
                lock[1] += 1
                found = self.undisturbed(key, step + RESUMED_BY, lock[1])
                if any(found[step] != hashed for step, hashed in self.hashes.get(key, {}).items()):
                    raise AssertionError("two undisturbed runs differ: %s and %s" % (self.hashes[key], found))
                self.hashes[key] = found
            return self.hashes[key][step]

    def undisturbed(self, key, steps, number):
        run = self.run("-".join(map(str, ("undisturbed", *key, number))),
                       options_of(*key, steps=steps, hash=True, checkpoint_every=0, slow=""))
        try:
            if run.wait(PATIENCE_S) != 0:
                raise AssertionError("\n".join(["an undisturbed run fails:"] + run.why()))
            by_step = {}
            for line in run.metrics():
                by_step.setdefault(line["step"], set()).add(line["hash"])
            if any(len(hashes) != 1 for hashes in by_step.values()) or len(by_step) != steps:
                raise AssertionError("an undisturbed run's hashes: %s" % by_step)
            return {step: min(hashes) for step, hashes in by_step.items()}
        finally:
            run.kill()

    # What holds after every case, whatever was done.

    def check_nothing_left(self, played, run):
        left = run.kill()
        played.expect(not left, "still there: %s" % left)
        files = run.leftovers()
        played.expect(not files, "left behind: %s" % files)

    def check_complete(self, played, run, key):
        played.expect(played.status == 0, "exit status %s" % played.status)
        self.check_hash(played, run, key)

    def check_hash(self, played, run, key):
        right = self.hash_at(key, run.options["steps"])
        try:
            got = run.json()["outcome"]["hash"]
        except (OSError, KeyError, ValueError) as wrong:
            got = repr(wrong)
        played.expect(got == right, "hash %s, undisturbed %s" % (got, right))

    def check_resumes(self, played, run, key, can_have=True):
        """Its checkpoints are whole, and a run that goes on from the last comes to the weights of
        an undisturbed one. can_have: it was disturbed behind the step of the first checkpoint,
        which is in place when it has been flushed to the disk: soon."""
        steps, faults = checkpoints(run.out)
        played.faults += faults
        if can_have:
            self.had_checkpoint.append(bool(steps))
        if not steps:
            return
        name = run.name + "-resumed"
        to_step = (steps[-1] if key[2] else STEPS) + RESUMED_BY
        resumed = Live([self.psring, "train", "--resume", run.out, "--out", os.path.join(self.directory, name), "--steps", str(to_step),
                        "--deadline", str(FAR_S), "--fault-point=", "--slow="],
                       self.directory, name)
        try:
            status = resumed.wait(PATIENCE_S)
            if played.expect(status == 0, "resuming: exit status %s" % status):
                with open(os.path.join(self.directory, name, "run.json")) as text:
                    got = json.load(text)["outcome"]["hash"]
                right = self.hash_at(key, to_step)
                played.expect(got == right, "resumed from step %d: hash %s, undisturbed %s" % (steps[-1], got, right))
            else:
                played.why += resumed.why()
        finally:
            played.expect(not resumed.kill(), "processes of the resumed run are still there")

    def guarded(self, played, run, play):
        """Plays; whatever happens is the case's, and nothing of the run outlives it."""
        try:
            play()
        except (AssertionError, OSError, ValueError, KeyError) as wrong:
            played.faults.append(repr(wrong))
        played.why = run.why() + played.why
        self.check_nothing_left(played, run)
        return played


def report(suite_class, psring, cases, jobs):
    """Plays every case by suite.play(case), some at a time; prints TAP and the table; ends the
    program."""
    tap, rows = Tap(), []
    with Workspace() as directory, ThreadPoolExecutor(jobs) as pool:
        suite = suite_class(os.path.abspath(psring), directory)
        for played in pool.map(suite.play, cases):
            tap.ok(not played.faults, played.name(), played.faults + played.why)
            rows.append(played.row())
    for key in sorted(key for key in suite.hashes if key[0] == "ps" and ("ring",) + key[1:] in suite.hashes):
        ps, ring = suite.hashes[key], suite.hashes[("ring",) + key[1:]]
        both = ps.keys() & ring.keys()
        tap.ok(both and all(ps[step] == ring[step] for step in both),
               "undisturbed runs of %d workers%s end every step with the same bits in both modes" % (key[1], ", of long steps," * key[2]),
               [str(ps), str(ring)])
    with_one, could = sum(suite.had_checkpoint), len(suite.had_checkpoint)
    tap.ok(2 * with_one >= could, "%d of %d disturbed runs had a checkpoint and were resumed from it" % (with_one, could))
    for line in ["%-8s %-10s %-46s %6s %4s  %s" % ("done", "to whom", "when", "gone s", "exit", "line")] + rows:
        print("# " + line)
    tap.end()
