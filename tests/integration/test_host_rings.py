#!/usr/bin/env python3
"""A ring over hosts with real processes: hosts of every size end each step with the bits of `local`
and of `ps`, and a run goes on from a checkpoint of any other layout. The hosts are this machine,
each with its agent, and TCP between them.

usage: test_host_rings.py PSRING [all]"""

import os
import sys
from functools import partial

from psring_run import Run, Tap, Workspace, together
from test_hosts import PLAYED_SSH

# Neither the tensors nor the chunks of 3 to 6 ranks are divided by buckets and slices.
STEPS, MIDDLE = 6, 3
OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=20,channels=1,size=28", "batch-size": 8, "threads": 1, "seed": 5, "hash": True,
           "bucket-size": 99968, "slice-size": 16448, "no-eval": True, "steps": STEPS, "checkpoint-every": MIDDLE}
RULES = {"momentum": dict(lr=0.05, momentum=0.9), "lars": dict(lr=0.5, optimizer="lars", **{"lars-trust": 0.02})}

# Workers of each host. The ranks of hosts of one share memory with nobody: theirs is a ring of
# ranks.
RINGS = {"1-3": (1, 3), "3-1": (3, 1), "3-2": (3, 2), "2-2-2": (2, 2, 2), "1-1-1": (1, 1, 1)}
FEW = {"momentum": ("1-3", "2-2-2", "1-1-1"), "lars": ("3-2",)}
SHARDS_BESIDE = (("momentum", "1-3"),)  # and the bits of two shards on them

# What goes on where, of four workers.
RESUMED = {"momentum": (("1-3", "ps-1-3"), ("ps-1-3", "1-3"), ("hops", "1-3"), ("1-3", "local-4")), "lars": ()}
RESUMED_ALL = [(origin, target) for places in [("1-3", "3-1", "ps-1-3", "hops", "local-4")] for origin in places for target in places]


class Hosts:
    def __init__(self, psring, directory):
        self.psring, self.directory = psring, directory
        ssh = os.path.join(directory, "ssh")
        with open(ssh, "w") as file:
            file.write(PLAYED_SSH)
        os.chmod(ssh, 0o755)
        self.places = {"hops": dict(workers=4, mode="ring", transport="ipc")}
        for name, slots in RINGS.items():
            path = os.path.join(directory, "hosts-" + name)
            with open(path, "w") as file:
                file.write("".join("b%d slots=%d\n" % pair for pair in enumerate(slots, 1)))
            on = {"hostfile": path, "ssh": ssh, "workers": sum(slots), "transport": "auto"}
            self.places[name] = dict(on, mode="ring")
            self.places["ps-" + name] = dict(on, mode="ps", shards=2)
            self.places["local-%d" % sum(slots)] = dict(workers=sum(slots), mode="local", transport="auto")
        self.hashes = {}  # of runs: (rule, place)

    def out(self, rule, place):
        return os.path.join(self.directory, "%s-%s" % (rule, place))

    def run(self, name, rule, place, **more):
        return Run(self.psring, self.directory, name, dict(OPTIONS, **RULES[rule], **self.places[place], **more))


def whole_run(tap, hosts, rule, place):
    run = hosts.run("%s-%s" % (rule, place), rule, place)
    if tap.ok(run.status == 0, "%s on %s ends with status 0" % (rule, place), run.why()):
        hosts.hashes[rule, place] = run.hashes()
    if place in RINGS:
        slots = RINGS[place]
        told = "on each of %d hosts the workers divide the sums" % len(slots)
        tap.ok((told in run.stdout) == (max(slots) > 1), "%s: it is told whether sums go from host to host" % place, run.stdout.splitlines())


def resumed_run(tap, hosts, rule, origin, target):
    checkpoint = os.path.join(hosts.out(rule, origin), "checkpoints", "step-%d" % MIDDLE)
    run = hosts.run("%s-%s-to-%s" % (rule, origin, target), rule, target, resume=checkpoint)
    name = "%s on %s, resumed from a checkpoint of %s" % (rule, target, origin)
    if tap.ok(run.status == 0, name + " ends with status 0", run.why()):
        behind = {step: hashed for step, hashed in hosts.hashes.get((rule, "local-4"), {}).items() if step > MIDDLE}
        tap.ok(run.hashes() == behind, name + " has the bits of local", [str(behind), str(run.hashes())])


def wanted(everything):
    """What runs: (rule, place) from the beginning, and (rule, origin, target) behind it."""
    rings = [(rule, ring) for rule in RULES for ring in (RINGS if everything else FEW[rule])]
    shards = [(rule, "ps-" + ring) for rule, ring in rings if everything or (rule, ring) in SHARDS_BESIDE]
    hops = [("momentum", "hops")] + [("lars", "hops")] * everything
    alone = sorted({(rule, "local-%d" % sum(RINGS[ring])) for rule, ring in rings})
    return alone + rings + shards + hops, [(rule, *pair) for rule in RULES for pair in (RESUMED_ALL if everything else RESUMED[rule])]


def main():
    tap = Tap()
    whole, behind = wanted("all" in sys.argv[2:])
    with Workspace() as directory:
        hosts = Hosts(os.path.abspath(sys.argv[1]), directory)
        together(tap, [partial(whole_run, hosts=hosts, rule=rule, place=place) for rule, place in whole])
        for rule, ring in [of for of in whole if of[1] in RINGS]:
            local = hosts.hashes.get((rule, "local-%d" % sum(RINGS[ring])))
            for place in [ring] + ["ps-" + ring] * ((rule, "ps-" + ring) in whole):
                hashes = hosts.hashes.get((rule, place))
                tap.ok(local is not None and hashes == local, "%s on %s: each step has the bits of local" % (rule, place), [str(local), str(hashes)])
        together(tap, [partial(resumed_run, hosts=hosts, rule=rule, origin=origin, target=target) for rule, origin, target in behind])
    tap.end()


if __name__ == "__main__":
    main()
