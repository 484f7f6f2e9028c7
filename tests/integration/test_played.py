#!/usr/bin/env python3
"""psring train --record and --backend played: a step that was recorded is played without computing,
with the same buckets; played gradients go through PS and ring to the same bits; what was played is
called so everywhere.

usage: test_played.py PSRING"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from psring_run import PATIENCE_S, Run, Tap, Workspace

DATA = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 8, "threads": 1}


def read(path):
    with open(path, encoding="utf-8") as text:
        return json.load(text)


def a_run_is_recorded(tap, psring, directory, profile):
    run = Run(psring, directory, "recorded", {**DATA, "workers": 2, "mode": "ring", "steps": 6, "record": profile, "no-eval": True})
    tap.ok(run.status == 0 and os.path.exists(profile), "--record writes a profile", run.why())
    made = read(profile)
    tap.ok(made["format"] == "psring profile 1" and made["network"] == "mlp" and made["batch"] == 8 and made["threads"] == 1 and
           made["machine"] and sum(tensor["forward_s"] + tensor["backward_s"] for tensor in made["tensors"]) > 0 and
           all(tensor["bytes"] % 4 == 0 for tensor in made["tensors"]), "with tensors, bytes and times", [json.dumps(made)[:500]])


def set_times(profile, to, seconds):
    made = read(profile)
    for tensor in made["tensors"]:
        tensor["forward_s"] = tensor["backward_s"] = seconds
    made["rest_s"] = 0
    with open(to, "w", encoding="utf-8") as text:
        json.dump(made, text)
    return 2 * seconds * len(made["tensors"])


def it_is_played(tap, psring, directory, profile):
    slow = os.path.join(directory, "slow.json")
    step_s = set_times(profile, slow, 0.01)
    run = Run(psring, directory, "played", {**DATA, "workers": 3, "mode": "ps", "steps": 4, "backend": "played:" + slow})
    outcome = run.outcome() if run.status == 0 else {}
    # Sleeping is what the back end promises: no step is shorter.
    tap.ok(run.status == 0 and outcome["train_s"] >= 4 * step_s, "a played run takes at least its times", run.why())
    tap.ok("played:" + slow in run.stdout and "played     passes from" in run.stdout, "and says so before and after", run.why())
    tap.ok(read(os.path.join(run.out, "run.json"))["config"]["backend"] == "played:" + slow and "test_accuracy" not in
           [key for key, value in outcome.items() if value is not None], "as run.json does, without an accuracy", [json.dumps(outcome)])
    for words, name in ((["--json"], "JSON"), ([], "a table"), (["--csv"], "CSV")):
        done = subprocess.run([psring, "report", run.out, *words], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        tap.ok("played from " + slow in done.stdout, "and the report as " + name, [done.stdout])
    page = os.path.join(directory, "page.html")
    done = subprocess.run([psring, "report", run.out, "-o", page], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    with open(page, encoding="utf-8") as text:
        tap.ok("played from " in text.read(), "and the page", [done.stderr])
    dilated = Run(psring, directory, "dilated", {**DATA, "workers": 1, "mode": "local", "steps": 2, "backend": "played:" + slow, "dilate": 5})
    tap.ok(dilated.status == 0 and dilated.outcome()["train_s"] >= 2 * 5 * step_s and "--dilate 5" in dilated.stdout,
           "--dilate makes it longer, aloud", dilated.why())


def its_gradients_are_summed(tap, psring, directory, profile):
    fast = os.path.join(directory, "fast.json")
    set_times(profile, fast, 0)
    options = {**DATA, "workers": 3, "steps": 5, "backend": "played:" + fast, "played-gradients": "seeded", "hash": True}
    runs = [Run(psring, directory, "seeded-" + name, {**options, **more})
            for name, more in (("local", {"mode": "local"}), ("ps", {"mode": "ps", "shards": 2}), ("ring", {"mode": "ring"}))]
    if tap.ok(all(run.status == 0 for run in runs), "seeded gradients are played in local, ps and ring", [line for run in runs for line in run.why()]):
        hashes = [run.hashes() for run in runs]
        tap.ok(hashes[0] == hashes[1] == hashes[2] and len(set(hashes[0].values())) == 5, "to the same bits in each step", [str(hashes)])


def what_cannot_be(tap, psring, directory, profile):
    torn = os.path.join(directory, "torn.json")
    with open(torn, "w", encoding="ascii") as text:
        text.write('{"format": "psring profile 1"')
    cases = (({"backend": "played:"}, 2, "is not a back end"), ({"backend": "played:" + directory + "/none"}, 2, "none"),
             ({"backend": "played:" + torn}, 2, "no JSON object"), ({"dilate": 2}, 2, "it is for --backend played:PROFILE"),
             ({"played-gradients": "seeded"}, 2, "it is for --backend played:PROFILE"),
             ({"backend": "played:" + profile, "record": "x"}, 2, "recorded already"),
             ({"backend": "played:" + profile, "eval-every": 2}, 2, "played weights mean nothing"),
             ({"backend": "played:" + profile, "model": "resnet20"}, 2, "record one of this --model"),
             ({"record": "x", "slow": "0:2"}, 2, "it would record the waiting"),
             ({"record": os.path.join(directory, "nowhere", "x"), "steps": 2}, 2, "nowhere"),
             ({"record": os.path.join(directory, "one"), "steps": 1}, 2, "give --steps 2 or more"))
    for number, (more, status, line) in enumerate(cases):
        run = Run(psring, directory, "refused-%d" % number, {**DATA, "workers": 1, "steps": 3, "mode": "ring", "no-eval": True, **more}
                  if "eval-every" not in more else {**DATA, "workers": 1, "steps": 3, "mode": "ring", **more})
        tap.ok(run.status == status and line in run.stderr, "refused: %s" % " ".join("--%s %s" % pair for pair in more.items()).replace(directory, ""),
               run.why())


def main(psring):
    tap = Tap()
    with Workspace() as directory:
        profile = os.path.join(directory, "profile.json")
        a_run_is_recorded(tap, psring, directory, profile)
        it_is_played(tap, psring, directory, profile)
        its_gradients_are_summed(tap, psring, directory, profile)
        what_cannot_be(tap, psring, directory, profile)
    tap.end()


main(*sys.argv[1:])
