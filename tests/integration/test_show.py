"""psring show: the table says what the run of the same options does; the picture is well-formed.

usage: test_show.py PSRING"""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

from psring_run import PATIENCE_S, Run, Tap, Workspace

OPTIONS = {"model": "mlp", "data": "synthetic:count=96,test=8,channels=1,size=28", "workers": 3}
ROW = re.compile(r"^ *(\d+) +([\d.]+) +(\d+)-(\d+) +(shard \d+|worker \d+|all, by ring|itself) +(\S.*)$", re.M)


def show(psring, options, *more):
    words = ["--%s=%s" % pair for pair in options.items()]
    done = subprocess.run([psring, "show", *words, *more], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, text=True)
    return done.returncode, done.stdout, done.stderr


def as_the_run(tap, psring, directory):
    """The shard that folds a bucket in a trace is the one that the table names."""
    options = dict(OPTIONS, mode="ps", shards=2)
    code, told, said = show(psring, options)
    held = {int(row[0]): row[4] for row in ROW.findall(told)}
    run = Run(psring, directory, "ps", dict(options, steps=2, threads=1, trace="1-2", **{"batch-size": 8, "no-eval": True}))
    with open(os.path.join(run.out, "trace.json")) as text:
        events = json.load(text)["traceEvents"]
    names = {e["pid"]: e["args"]["name"].split(" on ")[0] for e in events if e["name"] == "process_name"}
    folds = {e["args"]["bucket"]: names[e["pid"]] for e in events if e.get("cat") == "fold"}
    tap.ok(code == 0 and said == "" and len(held) > 2 and held == folds, "each bucket is folded where the table says", [told, said, str(folds)] + run.why())
    tap.ok("buckets    " + re.search(r"^buckets: (.*)$", told, re.M).group(1) in run.stdout, "and the line is the run's", [told] + run.why())
    slices = [slice for row in reversed(ROW.findall(told)) for slice in range(int(row[2]), int(row[3]) + 1)]
    tap.ok(slices == list(range(len(slices))), "slices count through", [told])


def ring(tap, psring):
    code, told, said = show(psring, dict(OPTIONS, mode="ring", transport="tcp"))
    rows, chunks = ROW.findall(told), re.findall(r"^ *(\d+) +(\d+) +(\d+) +(\d+)$", told, re.M)
    tap.ok(code == 0 and rows and all(row[4] == "all, by ring" for row in rows) and len(chunks) == len(rows), "by ring each rank has a chunk of each bucket", [told, said])
    floats = {int(row[0]): float(row[1]) * 256 for row in rows}
    tap.ok(all(abs(sum(map(int, chunk[1:])) - floats[int(chunk[0])]) < 14 for chunk in chunks), "chunks are the whole bucket", [told])
    code, told, _ = show(psring, dict(OPTIONS, mode="ring"))
    tap.ok(code == 0 and {row[4] for row in ROW.findall(told)} == {"worker 0", "worker 1", "worker 2"}, "workers of one host hold the buckets", [told])
    code, told, _ = show(psring, dict(OPTIONS, mode="ring"), "--hosts", "3")
    tap.ok(code == 0 and all(row[4] == "all, by ring" for row in ROW.findall(told)), "each on a host of its own: by ring", [told])


def picture(tap, psring, directory):
    path = os.path.join(directory, "plan.svg")
    code, told, said = show(psring, dict(OPTIONS, mode="ps", shards=3), "-o", path)
    tree = xml.etree.ElementTree.parse(path).getroot()
    titles = [e.text for e in tree.iter() if e.tag.endswith("title")]
    buckets = len(ROW.findall(told))
    tap.ok(code == 0 and "written    " + path in told and len([t for t in titles if re.match(r"bucket \d+, ", t)]) == buckets and
           any(t.startswith("slice 0 of bucket %d: shard " % (buckets - 1)) for t in titles), "the picture has every bucket and slice", [told, said])
    code, told, said = show(psring, OPTIONS, "-o", os.path.join(directory, "nowhere", "plan.svg"))
    tap.ok(code != 0 and len(said.splitlines()) == 1 and "nowhere" in said, "a file that cannot be written is named", [said])


def refused(tap, psring):
    for more, line in (({"model": "vgg"}, "vgg"), ({"shards": 99}, "would hold nothing"), ({"data": "/nowhere"}, "/nowhere"),
                       ({"bucket-size": "5"}, "--bucket-size")):
        code, told, said = show(psring, dict(OPTIONS, **more))
        tap.ok(code == 2 and line in said and len(said.splitlines()) == 1, "%s is refused in a line" % more, [told, said])
    code, _, said = show(psring, OPTIONS, "more")
    tap.ok(code == 2 and len(said.splitlines()) == 1, "words that are no options are refused", [said])


def main():
    psring, tap = sys.argv[1], Tap()
    with Workspace() as directory:
        as_the_run(tap, psring, directory)
        ring(tap, psring)
        picture(tap, psring, directory)
        refused(tap, psring)
    tap.end()


if __name__ == "__main__":
    main()
