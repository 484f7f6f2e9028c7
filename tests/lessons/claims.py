"""What each lesson's page claims, held after its commands have run."""

import collections
import json
import os
import re
import shutil
import subprocess


def read(folder, *names):
    with open(os.path.join(folder, *names), encoding="utf-8") as text:
        return json.load(text)


def lines_of(folder, run):
    with open(os.path.join(folder, run, "metrics.jsonl"), encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def outcome(folder, run):
    return read(folder, run, "run.json")["outcome"]


class Trace:
    def __init__(self, folder, run):
        events = read(folder, run, "trace.json")["traceEvents"]
        self.names = {e["pid"]: e["args"]["name"].split(" on ")[0] for e in events if e["name"] == "process_name"}
        self.events = [e for e in events if e["ph"] in "Xbe"]
        self.steps = sorted({e["args"]["step"] for e in events if e["ph"] == "X" and e["cat"] == "step"})

    def of(self, category, step, phase="X", who=None, name=""):
        return [e for e in self.events if e["ph"] == phase and e["cat"] == category and e["args"].get("step") == step and
                who in (None, self.names[e["pid"]]) and e["name"].startswith(name)]

    def of_bucket(self, category, step, bucket, **more):
        return [e for e in self.of(category, step, **more) if int(e["name"].split()[-1]) == bucket]

    def workers(self):
        return sorted(name for name in self.names.values() if name.startswith("worker"))


class Claims:
    least_steps = 4

    def needs(self, command):
        """Why the command cannot run here; None: it can."""
        return None

    def status_of(self, command):
        return 0

    def claims(self, tap, folder, ran):
        raise NotImplementedError


M = 269722 * 4  # bytes of ResNet-20's parameters
LINK = 100e6 / 8


class Journey(Claims):
    """1: n pushes, one fold, n answers; 2(n-1) hops of each of n chunks."""

    def claims(self, tap, folder, ran):
        n = 3
        ps, ring = Trace(folder, "l1-ps"), Trace(folder, "l1-ring")
        size = 0
        for step in ps.steps:
            pushes, folds = ps.of_bucket("send", step, 0, name="push"), ps.of_bucket("fold", step, 0)
            answers = ps.of_bucket("send", step, 0, name="weights")
            taken = ps.of_bucket("receive", step, 0, name="take push")
            size = pushes[0]["args"]["bytes"]
            tap.ok(len(pushes) == n and len(answers) == n and len(folds) == 1 and {e["args"]["bytes"] for e in pushes + answers} == {size},
                   "ps, step %d: 2n messages of M bytes, and one sum" % step, [str(pushes + folds + answers)])
            tap.ok(all(e["ts"] <= folds[0]["ts"] for e in taken) and len(taken) == n and all(e["ts"] >= folds[0]["ts"] for e in answers),
                   "ps, step %d: the sum is made when the last push is there, and answered then" % step, [str(taken + folds + answers)])
        for step in ring.steps:
            hops, updates = ring.of_bucket("send", step, 0, name="hop"), ring.of_bucket("update", step, 0)
            tap.ok(len(hops) == 2 * n * (n - 1) and sum(e["args"]["bytes"] for e in hops) == 2 * (n - 1) * size and len(updates) == n,
                   "ring, step %d: 2n(n-1) messages, 2(n-1)M bytes, and an update by each" % step, [str(hops + updates), str(size)])
        for name in ("journey-ps.svg", "journey-ring.svg"):
            with open(os.path.join(folder, name), encoding="utf-8") as text:
                tap.ok(text.read().count("marker-end") == (2 * n if "ps" in name else 2 * n * (n - 1)), "%s has an arrow for each message" % name)


class Bits(Claims):
    """2: hashes after each step."""

    def status_of(self, command):
        words = command.split()
        same = ("l2-ps l2-ring", "l2-ps l2-local", "l2-ps-reversed l2-ring-reversed")
        return 0 if words[1] != "diff" or " ".join(words[2:]) in same else 1

    def claims(self, tap, folder, ran):
        hashes = {name: {(line["step"], line["rank"]): line["hash"] for line in lines_of(folder, "l2-" + name)}
                  for name in ("ps", "ring", "local", "ps-reversed", "ring-reversed", "arrival")}
        tap.ok(hashes["ps"] == hashes["ring"] == hashes["local"], "ps, ring and local have the same bits after every step")
        tap.ok(hashes["ps-reversed"] == hashes["ring-reversed"], "so have ps and ring with reversed ranks")
        for name in ("ps-reversed", "arrival"):
            tap.ok(all(hashes[name][key] != hashes["ps"][key] for key in hashes["ps"]), "%s has others, from the first step on" % name)
        first = {name: {line["rank"]: line["loss"] for line in lines_of(folder, "l2-" + name) if line["step"] == 1} for name in hashes}
        tap.ok(all(losses == first["ps"] for losses in first.values()), "the losses of the first step are equal", [str(first)])
        last = {name: outcome(folder, "l2-" + name)["loss"] for name in hashes}
        tap.ok(max(last.values()) - min(last.values()) < 0.01, "and those at the end are close", [str(last)])


def predicted(ran):
    """psring predict's tables, one for each command: {(hosts, mode, shards): seconds}"""
    tables = []
    for one in ran:
        if " predict " in one.command:
            rows = re.findall(r"^ *(\d+) [ *](ps|ring) +(\d+|-) +(?:apart|beside|-) +([\d.e+-]+)", one.text, re.M)
            tables.append({(int(hosts), mode, shards): float(seconds) for hosts, mode, shards, seconds in rows})
    return tables


def whole_step_s(row):
    """Seconds of a step from START to the last weights, so that every byte of a run is in it."""
    return row["train_s"] / row["steps"]


def bench_rows(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as text:
        return [row for row in map(json.loads, text) if "configuration" in row and row.get("status") == "done"]


class ServersLink(Claims):
    """3: nM/s bytes on a shard's link."""

    least_steps = 2

    def claims(self, tap, folder, ran):
        rows = bench_rows(folder, "l3.jsonl")
        least = {}
        for row in rows:
            least.setdefault(row["configuration"], []).append(whole_step_s(row))
        shards = {name: int(name.split(":")[1].split()[0]) for name in least}
        tap.ok(sorted(shards.values()) == [1, 2, 4], "three numbers of shards were measured", [str(least)])
        for name, seconds in least.items():
            # What the emulated link promises; a link may pass some bytes at once at first.
            bound = 0.9 * max(1, 4 / shards[name]) * M / LINK
            tap.ok(min(seconds) >= bound, "%s: no step is shorter than max(M/B, nM/(sB))" % name, ["%s, %g" % (seconds, bound)])
        (table,) = predicted(ran)
        of = [table[4, "ps", s] for s in "1248"]
        tap.ok(1.6 < of[0] / of[1] < 2.1 and 1.4 < of[1] / of[2] < 2.1 and 0.9 < of[2] / of[3] < 1.1,
               "predicted: two shards halve it, four halve it again, eight do nothing", [str(of)])
        tap.ok(os.path.getsize(os.path.join(folder, "lesson3.html")) > 1000, "the report is written")


class Ring(Claims):
    """4: bytes hardly grow, hops do."""

    least_steps = 2

    def claims(self, tap, folder, ran):
        near, far = predicted(ran)
        hosts = (2, 4, 8, 16, 32)
        ring = [near[n, "ring", "-"] for n in hosts]
        ps = [near[n, "ps", "1"] for n in hosts]
        tap.ok(ring[-1] < 2.2 * ring[0] and ps[-1] > 10 * ps[0], "from 2 to 32 hosts a ring's step does not grow as a server's does", [str((ring, ps))])
        tap.ok(all(far[n, "ring", "-"] >= 2 * (n - 1) * 0.005 for n in hosts), "with 5 ms a message no step is shorter than 2(n-1) of them", [str(far)])
        added = {mode: [far[n, mode, s] - near[n, mode, s] for n in hosts] for mode, s in (("ring", "-"), ("ps", "1"))}
        tap.ok(added["ring"][-1] > 5 * added["ps"][-1], "which a ring of 32 feels, and a server does not", [str(added)])
        sent = {}
        for run in ("l4-one-bucket", "l4-64K", "l4-4K"):
            sent[run] = sum(line["gradient_bytes"] for line in lines_of(folder, run))
            steps = [line["exchange_s"] for line in lines_of(folder, run) if line["step"] > 1]
            tap.ok(len(steps) > 0 and min(steps) >= 2 * 3 * 0.005, "%s: no exchange is shorter than its six hops" % run, [str(min(steps))])
        tap.ok(len(set(sent.values())) == 1, "all sizes of buckets send the same bytes", [str(sent)])
        messages = {run: len(trace.of("send", trace.steps[0], name="hop")) for run, trace in
                    ((run, Trace(folder, run)) for run in sent)}
        tap.ok(messages["l4-one-bucket"] < messages["l4-64K"] < messages["l4-4K"], "smaller buckets are more messages", [str(messages)])


class Hiding(Claims):
    """5: when the first push leaves."""

    least_steps = 3

    def claims(self, tap, folder, ran):
        for run, hides in (("l5-one-bucket", False), ("l5-64K", True)):
            trace = Trace(folder, run)
            early = []
            for step in trace.steps:
                for who in trace.workers():
                    last = max(e["ts"] for e in trace.of("bucket", step, "b", who))
                    early.append(sum(e["ts"] < last for e in trace.of("send", step, who=who, name="push")))
            # On a busy machine the thread that sends may come late in a step, but not in all.
            tap.ok(any(early) == hides, "%s: pushes leave before the last gradient is computed%s" % (run, "" if hides else ", which none does"),
                   [str(early)])
        sent = [sum(line["gradient_bytes"] for line in lines_of(folder, run)) for run in ("l5-one-bucket", "l5-64K")]
        tap.ok(sent[0] == sent[1] > 0, "both send the same bytes", [str(sent)])
        profile = read(folder, "resnet20.json")
        # of 16 samples; the profile has 8
        pass_s = 2 * sum(tensor["forward_s"] + tensor["backward_s"] for tensor in profile["tensors"])
        whole = [whole_step_s(row) for row in bench_rows(folder, "l5.jsonl") if "2M" in row["configuration"]]
        tap.ok(len(whole) > 0 and min(whole) >= 0.9 * (pass_s + 2 * M / (8 * LINK)), "with one bucket a step is its passes and then what goes into the shard's link",
               [str((whole, pass_s))])


class Stragglers(Claims):
    """6: who may be how far ahead."""

    BOUND = 4

    def claims(self, tap, folder, ran):
        stale = {}
        for run in ("l6-bsp", "l6-ssp", "l6-async"):
            lines = lines_of(folder, run)
            by_time, done, gap = sorted(lines, key=lambda line: line["unix_s"]), collections.Counter(), 0
            for line in by_time:
                done[line["rank"]] = line["step"]
                gap = max(gap, max(done.values()) - min(done[rank] for rank in range(3)))
            stale[run] = (max(line.get("staleness") or 0 for line in lines), gap)
            tap.ok(len({max(line["step"] for line in lines if line["rank"] == rank) for rank in range(3)}) == 1,
                   "%s: in the end all have taken the same number of steps" % run)
        tap.ok(stale["l6-bsp"][0] == 0, "bsp: nothing is stale", [str(stale)])
        # The bound is on steps that begin. A line is written when its step ends, and the slow
        # worker's after its last push.
        tap.ok(stale["l6-ssp"][0] <= self.BOUND and stale["l6-ssp"][1] <= self.BOUND + 2, "ssp: nobody is further ahead than the bound", [str(stale)])
        # Where nobody ever got ahead, on a machine that is too busy, nothing is stale either.
        tap.ok(stale["l6-async"][0] > self.BOUND or stale["l6-async"][1] <= self.BOUND + 2, "async: they are, and weights are staler", [str(stale)])


class Compression(Claims):
    """7: bytes by direction."""

    least_steps = 4

    def claims(self, tap, folder, ran):
        rows = {}
        for row in bench_rows(folder, "l7.jsonl"):
            rows.setdefault(row["configuration"], row)
        ps = {("1bit" in name): row for name, row in rows.items() if name.startswith("ps")}
        ring = {("1bit" in name): row for name, row in rows.items() if name.startswith("ring")}
        tap.ok(len(ps) == 2 and len(ring) == 2, "both architectures were measured with and without", [str(list(rows))])
        fewer = [way[False]["step_bytes"] / way[True]["step_bytes"] for way in (ring, ps)]
        tap.ok(all(28 < times < 32 for times in fewer), "workers send about a thirtieth", [str(fewer)])
        both_ways = {compressed: sum(link["bytes"] for link in row["links"]) for compressed, row in ps.items()}
        tap.ok(1.5 < both_ways[False] / both_ways[True] < 2, "with shards more than half of all bytes remains: the answers", [str(both_ways)])
        tap.ok(min(map(whole_step_s, ps.values())) >= 0.9 * 4 * M / LINK, "with one shard no step is shorter than its 4M of answers",
               [str(list(map(whole_step_s, ps.values())))])
        saved = {run: outcome(folder, run)["gradient_float32_bytes"] / outcome(folder, run)["gradient_bytes"] for run in ("l7-none", "l7-topk", "l7-1bit")}
        tap.ok(saved["l7-none"] == 1 and 45 < saved["l7-topk"] < 51 and 28 < saved["l7-1bit"] < 32, "1% top-k is a fiftieth, 1bit a thirtieth", [str(saved)])


def lab_works(folder):
    """Whether hosts can be emulated here, and entered to cut a link."""
    if shutil.which("nsenter") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(["unshare", "-Urn", "true"], capture_output=True, check=False).returncode == 0 or os.geteuid() == 0


class Breaking(Claims):
    """8: one line that names who."""

    least_steps = 20

    def needs(self, command):
        return "no network namespaces here" if "psring lab run" in command and not lab_works(None) else None

    def status_of(self, command):
        return 0

    def claims(self, tap, folder, ran):
        said = {re.search(r"--out (\S+)", one.command).group(1): one.text for one in ran if "break_run" in one.command}
        for run, who in (("l8-shard", "shard 1"), ("l8-worker", "worker 1"), ("l8-silent", "worker 2"), ("l8-link", "node2")):
            if run not in said:
                continue
            tap.ok("with exit status 1" in said[run] and who in said[run].splitlines()[-1], "%s: the line names %s" % (run, who), said[run].splitlines())
        steps = [name for name in os.listdir(os.path.join(folder, "l8-shard", "checkpoints"))]
        tap.ok(any(int(name.split("-")[1]) >= 10 for name in steps), "a checkpoint was there when the shard died", [str(steps)])
        tap.ok(outcome(folder, "l8-resumed")["status"] == "ok", "and a run went on from it")


LESSONS = {1: Journey(), 2: Bits(), 3: ServersLink(), 4: Ring(), 5: Hiding(), 6: Stragglers(), 7: Compression(), 8: Breaking()}
