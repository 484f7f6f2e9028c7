"""trace.json of real runs: spans nest in every row, every bucket of every traced step begins and
lands, messages arrive after they have left, what is hidden and what is exposed is the exchange, and
the figures are those of metrics.jsonl. Nothing here depends on how fast anything is.

usage: test_trace.py PSRING CASE"""

import json
import os
import sys

from psring_run import Run, Tap, Workspace
from trace_format import problems

WORKERS, FIRST, LAST, STEPS = 3, 3, 5, 8
DATA = "synthetic:count=%d,test=8,channels=1,size=28" % (WORKERS * 8 * STEPS)
OPTIONS = {"workers": WORKERS, "steps": STEPS, "threads": 1, "batch-size": 8, "lr": 0.01, "model": "mlp", "data": DATA,
           "no-eval": True, "trace": "%d-%d" % (FIRST, LAST)}
CASES = {
    "ps-shm": {"mode": "ps", "shards": 2, "transport": "shm"},
    "ps-tcp": {"mode": "ps", "shards": 2, "transport": "tcp"},
    "ps-ssp": {"mode": "ps", "shards": 1, "sync": "ssp:1"},
    "ring-shm": {"mode": "ring", "transport": "shm"},
    "ring-tcp": {"mode": "ring", "transport": "tcp"},
    "local": {"mode": "local"},
}
SLACK_US = 0.002  # times are written in nanoseconds
WAITS_FOR_WEIGHTS = ("wait for bucket", "wait for all weights")


class Trace:
    def __init__(self, path):
        with open(path) as file:
            self.text = file.read()
        self.json = json.loads(self.text)
        self.events = self.json["traceEvents"]
        self.names = {e["pid"]: e["args"]["name"] for e in self.events if e["name"] == "process_name"}
        self.rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.events if e["name"] == "thread_name"}
        self.error_us = {c["pid"]: max(c["error_us"], c["error_at_end_us"]) for c in self.json["otherData"]["clocks"]}

    def of(self, phase, category=None, **more):
        return [e for e in self.events if e["ph"] == phase and category in (None, e.get("cat")) and
                all(e["args"].get(key) == value for key, value in more.items())]

    def workers(self):
        return sorted(pid for pid, name in self.names.items() if name.startswith("worker"))

    def shards(self):
        return sorted(pid for pid, name in self.names.items() if name.startswith("shard"))

    def buckets(self, pid, step):
        """{bucket: (begin, landing)}; a bucket that begins or lands twice raises."""
        ends = {}
        for phase in "be":
            for e in self.of(phase, "bucket", step=step):
                if e["pid"] == pid and ends.setdefault((phase, e["args"]["bucket"]), e["ts"]) != e["ts"]:
                    raise AssertionError("bucket %d of step %d has two of %s" % (e["args"]["bucket"], step, phase))
        begun, landed = ({b: ts for (p, b), ts in ends.items() if p == phase} for phase in "be")
        if set(begun) != set(landed):
            raise AssertionError("begun %s, landed %s" % (sorted(begun), sorted(landed)))
        return {b: (begun[b], landed[b]) for b in begun}


def end_of(e):
    return e["ts"] + e["dur"]


def overlapping(trace):
    """Pairs of spans of one row that overlap and do not nest."""
    bad = []
    for row in trace.rows:
        open_spans = []
        for e in sorted((e for e in trace.of("X") if (e["pid"], e["tid"]) == row), key=lambda e: (e["ts"], -e["dur"])):
            while open_spans and end_of(open_spans[-1]) <= e["ts"] + SLACK_US:
                open_spans.pop()
            if open_spans and end_of(e) > end_of(open_spans[-1]) + SLACK_US:
                bad.append("%s in %s" % (e, open_spans[-1]))
            open_spans.append(e)
    return bad


def wrong_messages(trace):
    """Messages that do not leave and arrive once each, or arrive before they have left."""
    left = {e["id"]: e for e in trace.of("s")}
    came = {e["id"]: e for e in trace.of("f")}
    bad = ["%s leaves or arrives alone" % id for id in set(left) ^ set(came)]
    bad += ["two of one id"] * (len(left) != len(trace.of("s")) or len(came) != len(trace.of("f")))
    for id in set(left) & set(came):
        out, into = left[id], came[id]
        error = trace.error_us[out["pid"]] + trace.error_us[into["pid"]] + SLACK_US
        if into["ts"] + error < out["ts"] or out["pid"] == into["pid"]:
            bad.append("%s arrives before %s" % (into, out))
    return bad


def covered(spans, begin, end):
    """How much of [begin, end] the spans cover."""
    total, at = 0, begin
    for b, e in sorted(spans):
        b, e = max(b, at), min(e, end)
        if e > b:
            total, at = total + e - b, e
    return total


def waits_of(trace, pid, step):
    return [e for e in trace.of("X", "wait", step=step) if e["pid"] == pid and e["name"].startswith(WAITS_FOR_WEIGHTS)]


def compare_with_metrics(tap, run, trace, case):
    metrics = {(m["rank"], m["step"]): m for m in run.metrics()}
    exchanges, hidden, early, waits = [], [], [], []
    # A step's line has the last exchange that has landed: that of the step, or of one for whose
    # weights it need not have waited.
    behind = 2 if "ssp" in case else 1
    for rank, pid in enumerate(trace.workers()):
        spans = {}
        for step in range(FIRST, LAST + 1):
            times = trace.buckets(pid, step)
            begin, end = min(b for b, _ in times.values()), max(e for _, e in times.values())
            spans[step] = (end - begin) * 1e-6
            # Exposed is what the compute thread waits for; hidden is what it does meanwhile.
            waited = [(e["ts"], end_of(e)) for e in waits_of(trace, pid, step)]
            does = [(e["ts"], end_of(e)) for e in trace.of("X") if e["pid"] == pid and trace.rows[pid, e["tid"]] == "compute" and e["cat"] in ("forward", "backward")]
            exposed = covered(waited, begin, end)
            hidden.append(exposed + covered(does, begin, end) <= end - begin + SLACK_US and 0 <= exposed)
            early += [e for e in waits_of(trace, pid, step) if "bucket" in e["args"] and
                      end_of(e) + SLACK_US < times[e["args"]["bucket"]][1]]
            if step > FIRST:  # what a step waits for are the weights after the one before
                waits.append(abs(sum(e["dur"] for e in waits_of(trace, pid, step - 1)) * 1e-6 - metrics[rank, step]["wait_s"]))
            if step >= FIRST + behind:
                exchanges.append(min(abs(metrics[rank, step]["exchange_s"] - spans[s]) for s in range(step - behind, step + 1)))
    tap.ok(max(exchanges) < 2e-8, "%s: a step's exchange, from first begin to last landing, is exchange_s" % case, [str(exchanges)])
    tap.ok(all(hidden), "%s: what is exposed and what computing hides fit into the exchange" % case, [str(hidden)])
    tap.ok(not early, "%s: no wait for a bucket ends before it has landed" % case, [str(early[:3])])
    tap.ok(max(waits) < 2e-6, "%s: the waits of a step are its wait_s" % case, [str(waits)])


def has_all_layers(trace):
    """Every worker computes the same layers in every step, forward and backward."""
    layers = {tuple(sorted(e["name"] for e in trace.of("X", category, step=step) if e["pid"] == pid))
              for pid in trace.workers() for step in range(FIRST, LAST + 1) for category in ("forward", "backward")}
    return len(layers) == 1 and len(layers.pop()) > 3


def sent(trace, verb, step):
    return sum(e["args"]["bytes"] for e in trace.of("X", "send", step=step) if e["name"].split()[0] == verb)


def of_ps(tap, trace, case):
    for step in range(FIRST, LAST + 1):
        pushed, folds = sent(trace, "push", step), len(trace.of("X", "fold", step=step))
        pushes = [e for e in trace.of("X", "send", step=step) if e["name"].startswith("push")]
        tap.ok(pushed > 0 and pushed % WORKERS == 0 and len(pushes) == WORKERS * folds if "ssp" not in case else folds == len(pushes),
               "%s: step %d: every push is folded" % (case, step), ["%d bytes, %d pushes, %d folds" % (pushed, len(pushes), folds)])
    homes = {(e["pid"], e["args"]["bucket"]) for e in trace.of("X", "fold")}
    tap.ok({pid for pid, _ in homes} == set(trace.shards()) and len(homes) == len({b for _, b in homes}),
           "%s: each bucket has one shard, and every shard has some" % case, [str(sorted(homes))])


def of_ring(tap, psring, directory, trace):
    """Each bucket's values are sent 2(n-1) times by all ranks together; a push is sent by each."""
    run = Run(psring, directory, "pushes", dict(OPTIONS, **CASES["ps-tcp"]))
    tap.ok(run.status == 0, "the same network by shards ends with status 0", run.why())
    other = Trace(os.path.join(run.out, "trace.json"))
    for step in range(FIRST, LAST + 1):
        hops, pushes = sent(trace, "hop", step), sent(other, "push", step) // WORKERS
        tap.ok(hops == 2 * (WORKERS - 1) * pushes, "ring-tcp: step %d: 2(n-1) times the gradient goes round" % step, ["%d, %d" % (hops, pushes)])


def follows(tap, psring, directory, case):
    run = Run(psring, directory, case, dict(OPTIONS, **CASES[case]))
    if not tap.ok(run.status == 0, "%s: ends with status 0" % case, run.why()):
        return
    trace = Trace(os.path.join(run.out, "trace.json"))
    processes = 1 if case == "local" else WORKERS
    tap.ok("trace      %s/trace.json" % run.out in run.stdout and trace.json["otherData"]["dropped"] == 0,
           "%s: the run says where its trace is, and nothing was dropped" % case, run.why())
    tap.ok(not os.path.exists(os.path.join(run.out, "trace.json.new")), "%s: nothing is left beside it" % case)
    tap.ok(len(trace.workers()) == processes and len(trace.shards()) == CASES[case].get("shards", 0),
           "%s: every worker and shard is there" % case, [str(trace.names)])
    tap.ok({e["args"]["step"] for e in trace.of("X", "step")} == set(range(FIRST, LAST + 1)), "%s: it has the steps that were asked for" % case)
    bad = problems(trace.text)
    tap.ok(not bad, "%s: it is what the trace format and Perfetto ask for" % case, bad[:3])
    bad = overlapping(trace)
    tap.ok(not bad, "%s: spans of one row nest" % case, bad[:3])
    bad = wrong_messages(trace)
    tap.ok(not bad and (case == "local") == (not trace.of("s")), "%s: messages arrive after they have left" % case, bad[:3])
    tap.ok(has_all_layers(trace), "%s: every worker computes the same layers in every step" % case)
    if case == "local":
        buckets = [trace.buckets(trace.workers()[0], step) for step in range(FIRST, LAST + 1)]
        tap.ok(all(len(b) == len(buckets[0]) > 1 for b in buckets), "local: every bucket begins and lands in every step")
        tap.ok(len(trace.of("X", "fold")) == LAST - FIRST + 1, "local: one fold a step")
        return
    try:
        counts = {len(trace.buckets(pid, step)) for pid in trace.workers() for step in range(FIRST, LAST + 1)}
        tap.ok(len(counts) == 1 and min(counts) > 1, "%s: every bucket begins and lands once on every worker in every step" % case, [str(counts)])
        compare_with_metrics(tap, run, trace, case)
    except AssertionError as error:
        tap.ok(False, "%s: every bucket begins and lands once" % case, [str(error)])
    if trace.shards():
        of_ps(tap, trace, case)
    if case == "ring-tcp":
        of_ring(tap, psring, directory, trace)
    if case == "ring-shm":
        tap.ok(all(len([e for e in trace.of("X", "fold", step=s)]) == counts.copy().pop() for s in range(FIRST, LAST + 1)),
               "ring-shm: each bucket is folded once a step, by the worker that holds it")


def refused(tap, psring, directory):
    words = {"0-3": "is no range of steps", "5-3": "is no range of steps", "some": "is no range of steps",
             "3-": "is no range of steps", "7-9": "--trace 7-9: this run takes steps 1 to 8; give some of these"}
    for text, line in words.items():
        run = Run(psring, directory, "refused-" + text, dict(OPTIONS, mode="ring", trace=text))
        tap.ok(run.status == 2 and line in run.stderr and not os.path.exists(run.out), "--trace=%s is refused in a line" % text, run.why())
    options = {key: value for key, value in OPTIONS.items() if key != "steps"}
    run = Run(psring, directory, "epochs", dict(options, mode="ring", epochs=1, trace="2-30"))
    tap.ok(run.status == 2 and "--trace 2-30: this run takes steps 1 to 8" in run.stderr, "so is a range behind the last epoch", run.why())
    run = Run(psring, directory, "alone", dict(OPTIONS, mode="ring", trace=True, steps=20, data=DATA.replace("=%d," % (WORKERS * 64), "=480,")))
    steps = {e["args"]["step"] for e in Trace(os.path.join(run.out, "trace.json")).of("X", "step")}
    tap.ok(steps == {11, 12, 13}, "--trace alone traces three steps after the first ten", [str(steps)] + run.why())
    run = Run(psring, directory, "changes", dict(OPTIONS, mode="ps@1,ring@4,ps@6", shards=2, trace="2-8"))
    trace = Trace(os.path.join(run.out, "trace.json")) if run.status == 0 else None
    tap.ok(trace is not None and not overlapping(trace) and not problems(trace.text) and not wrong_messages(trace) and
           {e["args"]["step"] for e in trace.of("X", "step")} == set(range(2, 9)), "a run that changes its mode meanwhile has a whole trace", run.why())
    run = Run(psring, directory, "fails", dict(OPTIONS, mode="ring", lr=1e6, trace="1-8"))
    left = [name for name in os.listdir(run.out) if name.startswith("trace")]
    tap.ok(run.status == 1 and "no trace: the run ended before any process had sent its events" in run.stdout and not left,
           "a run that fails says so, and leaves no part of a trace", [str(left)] + run.why())
    run = Run(psring, directory, "without", dict({k: v for k, v in OPTIONS.items() if k != "trace"}, mode="ring"))
    tap.ok(run.status == 0 and "trace" not in run.stdout and "trace.json" not in os.listdir(run.out), "without --trace there is none", run.why())


def main():
    psring, case = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        if case == "refused":
            refused(tap, psring, directory)
        else:
            follows(tap, psring, directory, case)
    tap.end()


if __name__ == "__main__":
    main()
