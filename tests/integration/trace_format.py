"""What the Trace Event Format and Perfetto ask of a trace, written from their documents and not
from psring's writer.

The format is Google's document "Trace Event Format". Perfetto
(docs/getting-started/other-formats.md and its importers/json): spans of a thread must nest; a
negative time is rejected; a begin or end of an asynchronous span needs cat, id and pid; an arrow
binds to the span that encloses its ends; and a name of a thread is looked up by tid alone, so that
two processes must not have one tid (google/perfetto, issue 363)."""

import json
import math

# Phases that Perfetto shows, and what each must have beside ph, name and pid.
MUST_HAVE = {"B": ("ts", "tid"), "E": ("ts", "tid"), "X": ("ts", "dur", "tid"), "i": ("ts", "tid"), "I": ("ts", "tid"), "C": ("ts", "args"),
             "b": ("ts", "cat", "id"), "n": ("ts", "cat", "id"), "e": ("ts", "cat", "id"), "s": ("ts", "tid", "cat", "id"),
             "t": ("ts", "tid", "cat", "id"), "f": ("ts", "tid", "cat", "id"), "M": ("args",)}
# What metadata says, and the type of it.
METADATA = {"process_name": ("name", str), "thread_name": ("name", str), "process_labels": ("labels", str),
            "process_sort_index": ("sort_index", int), "thread_sort_index": ("sort_index", int)}
SLACK_US = 0.002  # times are written in nanoseconds, and added up as doubles


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_id(value, most):
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < most


def unique(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("an object has two members of one name: %s" % names)
    return dict(pairs)


def refuse(constant):
    raise ValueError("%s is no JSON" % constant)


def of_one_event(e):
    """What is wrong with an event by itself."""
    if not isinstance(e, dict):
        return "it is no object"
    phase, name = e.get("ph"), e.get("name")
    if phase not in MUST_HAVE:
        return "ph %r is none that is shown" % (phase,)
    if not isinstance(name, str) or not name or not is_id(e.get("pid"), 2 ** 31):
        return "it has no name, or no pid from 1 on"
    lacks = [field for field in MUST_HAVE[phase] if field not in e]
    if lacks:
        return "a %s without %s" % (phase, ", ".join(lacks))
    if "tid" in e and not is_id(e["tid"], 2 ** 32):
        return "tid %r" % (e["tid"],)
    for field in ("ts", "dur"):
        if field in e and (not is_number(e[field]) or e[field] < 0):
            return "%s %r is no time from 0 on" % (field, e[field])
    if "id" in e and not (isinstance(e["id"], str) and e["id"] or is_id(e["id"], 2 ** 64)):
        return "id %r" % (e["id"],)
    if ("cat" in e and (not isinstance(e["cat"], str) or not e["cat"])) or not isinstance(e.get("args", {}), dict):
        return "cat is no text, or args no object"
    if phase == "M":
        said = METADATA.get(name)
        if said is None or not isinstance(e["args"].get(said[0]), said[1]) or (name.startswith("thread") and "tid" not in e):
            return "metadata that says nothing"
    return None


def end_of(e):
    return e["ts"] + e["dur"]


def row_of(e):
    return e["pid"], e["tid"]


def by_row(events, phases):
    rows = {}
    for e in events:
        if e["ph"] in phases:
            rows.setdefault(row_of(e), []).append(e)
    return rows


def nesting(events):
    """Spans of a row nest: those of one event by their times, B and E also by their order."""
    for spans in by_row(events, "X").values():
        inside = []
        for e in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
            while inside and end_of(inside[-1]) <= e["ts"] + SLACK_US:
                inside.pop()
            if inside and end_of(e) > end_of(inside[-1]) + SLACK_US:
                yield "%s overlaps %s" % (e, inside[-1])
            inside.append(e)
    for row, ends in by_row(events, "BE").items():
        inside, latest = [], 0
        for e in ends:
            if e["ts"] < latest:
                yield "%s comes behind a later one" % e
            latest = e["ts"]
            if e["ph"] == "B":
                inside.append(e)
            elif not inside or inside.pop()["name"] != e["name"]:
                yield "%s ends what did not begin" % e
        if inside:
            yield "row %s: %s does not end" % (row, inside[-1])


def asynchronous(events):
    """Of one pid, category, id and name each begins once, and then ends once."""
    ends = {}
    for e in events:
        if e["ph"] in "be":
            ends.setdefault((e["pid"], e["cat"], e["id"], e["name"]), []).append(e)
    for key, pair in ends.items():
        times = {e["ph"]: e["ts"] for e in pair}
        if len(pair) != 2 or set(times) != {"b", "e"}:
            yield "%s: %s of it" % (key, "".join(e["ph"] for e in pair))
        elif times["e"] < times["b"]:
            yield "%s ends before it begins" % (key,)


def arrows(events):
    """Each end of an arrow lies in a span of its row, and each arrow has two ends."""
    spans = by_row(events, "X")
    ends = {}
    for e in events:
        if e["ph"] not in "sf":
            continue
        ends.setdefault((e["cat"], e["name"], e["id"]), []).append(e["ph"])
        if e["ph"] == "f" and e.get("bp") != "e":
            yield "%s binds to what follows it" % e
        if not any(x["ts"] - SLACK_US <= e["ts"] <= end_of(x) + SLACK_US for x in spans.get(row_of(e), ())):
            yield "%s is in no span" % e
    for key, phases in ends.items():
        if sorted(phases) != ["f", "s"]:
            yield "arrow %s has the ends %s" % (key, phases)


def names(events):
    """Every process and row has one name, and no two processes share a tid."""
    said, processes, rows, owners = {}, set(), set(), {}
    for e in events:
        if e["ph"] == "M":
            key = (e["name"], e["pid"], e.get("tid") if e["name"].startswith("thread") else None)
            if key in said:
                yield "%s is said twice" % (key,)
            said[key] = e["args"]
            if not e["name"].startswith("thread"):
                continue
        else:
            processes.add(e["pid"])
        if "tid" in e:
            rows.add(row_of(e))
    for pid in processes:
        if ("process_name", pid, None) not in said:
            yield "process %d has no name" % pid
    for pid, tid in rows:
        if ("thread_name", pid, tid) not in said:
            yield "row %d of process %d has no name" % (tid, pid)
        if owners.setdefault(tid, pid) != pid:
            yield "processes %d and %d both have a tid %d" % (pid, owners[tid], tid)


def problems(text, ends=True):
    """What is wrong with a trace, as lines; none if it is good. ends: all processes have written
    theirs, so that what begins ends, and each arrow arrives."""
    try:
        whole = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except ValueError as error:
        return ["it is no JSON: %s" % error]
    events = whole.get("traceEvents") if isinstance(whole, dict) else None
    if not isinstance(events, list) or whole.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        return ["it is no object with a list traceEvents, or displayTimeUnit is neither ms nor ns"]
    bad = ["event %d: %s" % (i, wrong) for i, wrong in enumerate(map(of_one_event, events)) if wrong]
    if bad:
        return bad
    bad = list(nesting(events)) + list(names(events))
    return bad + list(asynchronous(events)) + list(arrows(events)) if ends else bad
