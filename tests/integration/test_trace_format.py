#!/usr/bin/env python3
"""The checker of traces (trace_format.py) accepts a good trace, and names each fault that is put
into it.

usage: test_trace_format.py"""

import copy
import json

from psring_run import Tap
from trace_format import problems

GOOD = {"displayTimeUnit": "ms", "traceEvents": [
    {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "worker 0"}},
    {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "compute"}},
    {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "worker 1"}},
    {"ph": "M", "pid": 2, "tid": 2, "name": "thread_name", "args": {"name": "compute"}},
    {"ph": "X", "pid": 1, "tid": 1, "cat": "step", "name": "step 1", "ts": 1, "dur": 9.5},
    {"ph": "X", "pid": 1, "tid": 1, "cat": "pass", "name": "forward", "ts": 1, "dur": 4, "args": {"step": 1}},
    {"ph": "X", "pid": 2, "tid": 2, "cat": "receive", "name": "take", "ts": 3, "dur": 1},
    {"ph": "B", "pid": 2, "tid": 2, "cat": "a", "name": "outer", "ts": 5},
    {"ph": "B", "pid": 2, "tid": 2, "cat": "a", "name": "inner", "ts": 5},
    {"ph": "E", "pid": 2, "tid": 2, "cat": "a", "name": "inner", "ts": 6},
    {"ph": "E", "pid": 2, "tid": 2, "cat": "a", "name": "outer", "ts": 7},
    {"ph": "b", "pid": 1, "tid": 1, "cat": "bucket", "name": "bucket 0", "id": "1a", "ts": 2},
    {"ph": "e", "pid": 1, "tid": 1, "cat": "bucket", "name": "bucket 0", "id": "1a", "ts": 8},
    {"ph": "s", "pid": 1, "tid": 1, "cat": "message", "name": "PUSH", "id": "2b", "ts": 2},
    {"ph": "f", "pid": 2, "tid": 2, "cat": "message", "name": "PUSH", "id": "2b", "bp": "e", "ts": 3},
]}
DROP = object()
# Where, what becomes of it, and what is said.
FAULTS = [
    (4, {"ph": "Z"}, "none that is shown"), (4, {"ph": DROP}, "none that is shown"), (4, {"name": ""}, "no name"),
    (4, {"pid": 0}, "no pid"), (4, {"pid": "1"}, "no pid"), (4, {"tid": -1}, "tid -1"), (4, {"tid": 2 ** 40}, "tid"),
    (4, {"ts": -0.5}, "no time from 0 on"), (4, {"ts": "1"}, "no time from 0 on"), (4, {"dur": -1}, "no time from 0 on"),
    (4, {"dur": DROP}, "a X without dur"), (5, {"ts": 5, "dur": 20}, "overlaps"), (5, {"args": [1]}, "args no object"),
    (1, {"args": {"name": 7}}, "says nothing"), (0, {"name": "process_colour"}, "says nothing"), (0, {"pid": 3}, "process 1 has no name"),
    (1, {"tid": 4}, "has no name"), (2, {"pid": 1}, "is said twice"), (9, {"name": "outer"}, "did not begin"), (10, {"ts": 5.5}, "behind a later"),
    (10, {"ph": "B", "ts": 7}, "does not end"), (11, {"id": DROP}, "a b without id"), (11, {"cat": DROP}, "a b without cat"),
    (11, {"ts": 8.5}, "ends before it begins"), (12, {"id": "1b"}, "b of it"), (13, {"id": "3c"}, "has the ends"),
    (13, {"ts": 30}, "is in no span"), (14, {"bp": DROP}, "binds to what follows"), (14, {"id": DROP}, "a f without id"),
]


def spoilt(at, changes):
    whole = copy.deepcopy(GOOD)
    for name, value in changes.items():
        if value is DROP:
            del whole["traceEvents"][at][name]
        else:
            whole["traceEvents"][at][name] = value
    return json.dumps(whole)


def main():
    tap = Tap()
    good = json.dumps(GOOD)
    tap.ok(problems(good) == [], "a good trace has no fault", problems(good))
    for at, changes, line in FAULTS:
        found = problems(spoilt(at, changes))
        shown = {name: "dropped" if value is DROP else value for name, value in changes.items()}
        tap.ok(any(line in said for said in found), "event %d with %s: %s" % (at, shown, line), found)
    shared = json.loads(good)
    for e in shared["traceEvents"]:
        e["tid"] = 1
    found = problems(json.dumps(shared))
    tap.ok(any("both have a tid 1" in said for said in found), "two processes with one tid are named", found)
    for text, line in ((good[:-2], "no JSON"), ("[]", "no object"), ('{"traceEvents":{}}', "no object"),
                       (good.replace('"ts": 1,', '"ts": NaN,', 1), "NaN is no JSON"), (good.replace('"ph": "X",', '"ph": "X", "ph": "X",', 1), "two members"),
                       (good.replace('"ms"', '"s"'), "displayTimeUnit")):
        found = problems(text)
        tap.ok(len(found) == 1 and line in found[0], "what is no trace: %s" % line, found)
    part = json.dumps(dict(GOOD, traceEvents=GOOD["traceEvents"][:-4]))
    tap.ok(problems(part + " ", ends=False) == [] and problems(spoilt(13, {"id": "3c"}), ends=False) == [], "of a part not all must end")
    tap.end()


main()
