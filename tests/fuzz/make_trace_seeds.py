#!/usr/bin/env python3
"""make_trace_seeds.py DIRECTORY: seeds of fuzz_trace_message and fuzz_trace_file below DIRECTORY
(tests/fuzz/corpus)."""

import json
import os
import struct
import sys

NS_MAX = (2 ** 63 - 1) // 8
# Kinds of comm/trace/trace_event.h; then net/message.h's.
STEP, FORWARD, LAYER, BEGIN, LANDED, OUT, IN, FOLD = 0, 1, 3, 12, 13, 14, 15, 16
PUSH, SHARD, WORKER = 51, 1, 2


def event(kind, index=0, begin=2000, lasts=500, message=0, role=0, rank=0, step=7):
    return struct.pack(">BBBxIIIQQQQQ", kind, message, role, index, 1, rank, step, begin, lasts, 32, 64)


def message(who, well, events, left=0, offset=0):
    reading = struct.pack(">QQQ", 1500, offset + NS_MAX, 40)
    return bytes([who, 0 if well else 1]) + struct.pack(">QQ", left, 3) + reading + reading + b"".join(events)


def file(*events, first=2, last=4):
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n%s],\n\"otherData\":%s}\n" % (
        ",\n".join(json.dumps(e, separators=(",", ":")) for e in events), json.dumps({"first_step": first, "last_step": last}))


def span(name, category, begin, lasts, pid=1, **args):
    return {"ph": "X", "pid": pid, "tid": pid, "cat": category, "name": name, "ts": begin, "dur": lasts, "args": dict(step=3, **args)}


def process(pid, name):
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def end(phase, at):
    return {"ph": phase, "pid": 1, "tid": 2, "cat": "bucket", "name": "bucket 0", "id": "1f", "ts": at, "args": {"step": 3, "bucket": 0}}


SEEDS = {
    "trace_message": {
        "computes": message(0, True, [event(STEP), event(FORWARD), event(LAYER, 2)]),
        "exchanges": message(1, True, [event(BEGIN, 3), event(OUT, 3, message=PUSH, role=SHARD), event(LANDED, 3)]),
        "folds": message(2, False, [event(IN, 1, message=PUSH, role=WORKER, rank=1), event(FOLD, 1)]),
        "early": message(0, True, [event(STEP, begin=0)], offset=-900),
        "nothing": message(0, True, []),
        "lost": message(0, False, [event(STEP)], left=9),
    },
    "trace_file": {
        "step": file(process(1, "worker 0 on a"), process(2, "shard 0 on b"), span("step 3", "step", 1, 90), span("conv1", "forward", 2, 9),
                     span("conv1", "backward", 50, 9), end("b", 60), span("push 0", "send", 61, 1, bucket=0), span("fold 0", "fold", 65, 2, 2, bucket=0),
                     end("e", 80), span("wait for bucket 0", "wait", 70, 10, bucket=0)),
        "no-name": file(span("step 3", "step", 1, 90)),
        "no-end": file(process(1, "worker 0 on a"), end("b", 1)),
        "one-step": file(process(1, "worker 0"), span("step 3", "step", 1, 90), first=3, last=3),
    },
}

for folder, seeds in SEEDS.items():
    os.makedirs(os.path.join(sys.argv[1], folder), exist_ok=True)
    for name, seed in seeds.items():
        with open(os.path.join(sys.argv[1], folder, name), "wb") as out:
            out.write(seed.encode() if isinstance(seed, str) else seed)
