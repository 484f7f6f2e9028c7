"""The weight hash after each of 20 steps of resnet20 on Fashion-MNIST, side by side: local, ring
and ps with 1, 2 and 3 shards, for 3 and 5 workers; and the control, which sums in another order.
Exits with 1 when equal columns differ or the control does not.

usage: show_hashes.py PSRING [DATA]"""

import os
import sys

from psring_run import Run, Workspace

STEPS = 20
DATA = "/usr/share/datasets/fashion-mnist"


def main():
    psring, data = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else DATA
    if not os.path.isdir(data):
        print("skipped: %s is not there (package dataset-fashion-mnist)" % data)
        return 77
    status = 0
    with Workspace() as directory:
        for workers in (3, 5):
            options = {"model": "resnet20", "data": data, "workers": workers, "steps": STEPS, "batch-size": 32, "threads": 1,
                       "augment": "crop-flip", "bucket-size": 131136, "hash": True, "seed": 1}
            modes = [("local", {"mode": "local"}), ("ring", {"mode": "ring"})]
            modes += [("ps, %d shard%s" % (s, "s" if s > 1 else ""), {"mode": "ps", "shards": s}) for s in (1, 2, 3)]
            modes.append(("control", {"mode": "local", "fold": "reversed"}))
            columns = []
            for name, mode in modes:
                run = Run(psring, directory, "%d-%s" % (workers, name.replace(", ", "-")), dict(options, **mode))
                if run.status != 0:
                    print("\n".join(run.why()))
                    return 1
                columns.append((name, run.hashes()))
            print("%d workers\nstep  %s" % (workers, "  ".join("%-16s" % name for name, _ in columns)))
            for step in range(1, STEPS + 1):
                print("%4d  %s" % (step, "  ".join(hashes[step] for _, hashes in columns)))
            right, control = columns[0][1], columns[-1][1]
            equal = all(hashes == right for _, hashes in columns[1:-1])
            differs = all(control[step] != right[step] for step in right)
            print("local, ring and ps: %s; the control: %s\n" % ("equal" if equal else "DIFFERENT",
                                                                "different" if differs else "EQUAL SOMEWHERE"), flush=True)
            status |= not (equal and differs)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
