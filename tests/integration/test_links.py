#!/usr/bin/env python3
"""psring train --link-rate and --link-delay: links that are emulated inside the transport. No byte
goes past them, no step is faster than its bytes allow, and the bits are the same.

usage: test_links.py PSRING"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from psring_run import Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 8, "threads": 1, "workers": 3, "steps": 4,
           "hash": True, "no-eval": True}
RATE_BITS_PER_S = 100e6
DELAY_S = 0.002


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        local = Run(psring, directory, "local", {**OPTIONS, "mode": "local"})
        ways = {"ring": {"mode": "ring"}, "ps": {"mode": "ps", "shards": 2}, "tcp": {"mode": "ring", "transport": "tcp"},
                "compressed": {"mode": "ps", "compress": "fp16"}}
        for name, more in ways.items():
            run = Run(psring, directory, name, {**OPTIONS, **more, "link-rate": "100Mbit", "link-delay": "2ms"})
            if not tap.ok(run.status == 0, "%s over emulated links" % name, run.why()):
                continue
            if name != "compressed":
                tap.ok(run.hashes() == local.hashes(), "with the bits of local", run.why())
            lines, outcome = run.metrics(), run.outcome()
            sent = [sum(line["bytes_sent"] for line in lines if line["rank"] == rank) for rank in range(3)]
            received = [sum(line["bytes_received"] for line in lines if line["rank"] == rank) for rank in range(3)]
            # The link promises this much: all bytes of a worker leave, and come, by its own one.
            least_s = max(max(sent), max(received)) * 8 / RATE_BITS_PER_S + DELAY_S
            tap.ok(min(sent) > 0 and outcome["train_s"] >= least_s, "in no less time than the bytes take",
                   ["sent %s, received %s: %g s of %g s" % (sent, received, least_s, outcome["train_s"])])
            tap.ok(sum(line.get("bytes_lent", 0) for line in lines) == 0 and "shared memory, and" not in run.stdout and "--link-rate 100Mbit" in run.stdout,
                   "and none through shared memory, which is said", run.why())
        for options, line in (({"link-rate": "100"}, "is not a rate"), ({"link-delay": "5"}, "is not a delay"),
                              ({"link-rate": "1Gbit", "transport": "shm"}, "shared memory would go past the link")):
            run = Run(psring, directory, "refused-" + line.replace(" ", "-"), {**OPTIONS, **options})
            tap.ok(run.status == 2 and line in run.stderr and len(run.stderr.splitlines()) == 1, "refused: " + line, run.why())
    tap.end()


main(*sys.argv[1:])
