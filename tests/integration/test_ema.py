"""The average of the weights (--ema): the same bits in every way that a run can go, after a change
of its mode, of its workers and after a resume; evaluated and saved beside the weights, which it
does not touch; and what it cannot go with.

usage: test_ema.py PSRING modes|modes-all|files|refusals"""

import array
import json
import os
import re
import subprocess
import sys
from functools import partial

from psring_run import Run, Tap, Workspace, over, together

STEPS, MIDDLE = 4, 2
OPTIONS = {"data": "synthetic:count=97,test=40,channels=1,size=8", "model": "resnet20", "batch-size": 4, "threads": 1, "hash": True,
           "seed": 5, "steps": STEPS, "workers": 3, "lr": 0.05, "eval-every": 1, "checkpoint-every": 1, "ema": "0.8"}


def tensors(path):
    """{name: bytes} of a safetensors file, and its metadata."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    about = header.pop("__metadata__", {})
    return {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}, about


def checkpoint(run, step):
    return os.path.join(run.out, "checkpoints", "step-%d" % step)


def averages(run, step):
    return tensors(os.path.join(checkpoint(run, step), "model-ema.safetensors"))[0]


def evaluations(run):
    """{step: what all ranks say of the average}."""
    told = {}
    for line in run.metrics():
        if "ema_accuracy" in line:
            told.setdefault(line["step"], set()).add((line["ema_loss"], line["ema_accuracy"], line["ema_top5"]))
    return told


def check_same(tap, run, right, steps=range(1, STEPS + 1)):
    """right: another run, whose weights, averages and evaluations this one must have."""
    if not tap.ok(run.status == 0, run.name + " ends with status 0", run.why()):
        return
    tap.ok(run.hashes() == {s: h for s, h in right.hashes().items() if s in steps}, run.name + " has the right weights", run.why())
    tap.ok(evaluations(run) == {s: e for s, e in evaluations(right).items() if s in steps},
           run.name + " evaluates the average to the same figures", [str(evaluations(run)), str(evaluations(right))])
    tap.ok(all(averages(run, s) == averages(right, s) for s in steps), run.name + " saves the same averages")


# ---- modes ----

# An update that waits for norms, and differences of weights; the others in the suite slow.
FEW_RULES = ("lars", "differences")


def ways(directory):
    return {"ring": dict(mode="ring"), "hops": dict(mode="ring", transport="ipc"), "hosts": dict(over("mixed", directory, 3), mode="ring"),
            "ps-1": dict(mode="ps", shards=1), "ps-2": dict(mode="ps", shards=2), "ps-tcp": dict(mode="ps", shards=2, transport="tcp"),
            "routes": dict(mode="ring", shards=2, route="layer3.*=ps"),
            "changes": dict(mode="ps@1,ring@%d,ps@%d" % (MIDDLE, STEPS), shards=2)}


def with_other_rules(tap, psring, directory, name, more):
    """Rules whose updates wait, several updates from one averaging to the next, and weights that
    come back rounded: ps and ring against local."""
    options = dict(OPTIONS, **more)
    local = Run(psring, directory, name + "-local", dict(options, mode="local"))
    if not tap.ok(local.status == 0, name + ": local ends with status 0", local.why()):
        return
    for way, chosen in (("ps", dict(mode="ps", shards=2)), ("ring", dict(mode="ring"))):
        if way != "ring" or "compress-weights" not in more:
            check_same(tap, Run(psring, directory, name + "-" + way, dict(options, **chosen)), local)


def of_a_part(tap, psring, directory, everything):
    """With --freeze: what is frozen is its own average, in files and evaluations, also where a run
    without an average, or another mode's, goes on."""
    options = dict(OPTIONS, freeze="conv1,bn1,layer1,layer2.0.conv1")
    local = Run(psring, directory, "part-local", dict(options, mode="local"))
    if not tap.ok(local.status == 0, "of a part: local ends with status 0", local.why()):
        return
    for way, chosen in (("ps", dict(mode="ps", shards=2)), ("ring", dict(mode="ring")), ("hops", dict(mode="ring", transport="ipc")))[:3 if everything else 1]:
        check_same(tap, Run(psring, directory, "part-" + way, dict(options, **chosen)), local)
    weights, _ = tensors(os.path.join(checkpoint(local, STEPS), "model.safetensors"))
    saved = averages(local, STEPS)
    same = {name for name in saved if saved[name] == weights[name]}
    tap.ok(sorted(saved) == sorted(weights) and {"conv1.weight", "bn1.bias", "layer1.2.conv2.weight", "layer2.0.conv1.weight"} <= same
           and not {"layer2.0.conv2.weight", "bn1.running_mean", "fc.weight"} & same, "of a part: the file of averages has what is frozen as it is", sorted(same))
    if not everything:
        return
    again = Run(psring, directory, "part-again", dict(options, mode="ring", resume=checkpoint(Run(psring, directory, "part-ps-1", dict(options, mode="ps")), MIDDLE)))
    check_same(tap, again, local, range(MIDDLE + 1, STEPS + 1))
    bare = Run(psring, directory, "part-bare", dict(options, mode="ps", ema="none"))
    late = [Run(psring, directory, "part-late-" + way, dict(options, mode=way, resume=checkpoint(bare, MIDDLE))) for way in ("local", "ps")]
    if tap.ok(late[0].status == 0, "of a part: an average begins in the middle", late[0].why()):
        check_same(tap, late[1], late[0], range(MIDDLE + 1, STEPS + 1))


def goes_on(tap, psring, directory, local, origin, name, more):
    run = Run(psring, directory, name.replace(" ", "-"), dict(OPTIONS, resume=os.path.join(directory, origin, "checkpoints", "step-%d" % MIDDLE), **more))
    check_same(tap, run, local, range(MIDDLE + 1, STEPS + 1))


def with_fewer_workers(tap, psring, directory):
    runs = [Run(psring, directory, "two-" + mode, dict(OPTIONS, workers=2, resume=os.path.join(directory, "ps-2", "checkpoints", "step-%d" % MIDDLE), **more))
            for mode, more in (("local", dict(mode="local")), ("ring", dict(mode="ring")), ("ps", dict(mode="ps", shards=2)))]
    if tap.ok(runs[0].status == 0, "two workers go on where three were", runs[0].why()):
        for run in runs[1:]:
            check_same(tap, run, runs[0], [s for s in runs[0].hashes()])


def modes(tap, psring, directory, everything=False):
    local = Run(psring, directory, "local", dict(OPTIONS, mode="local"))
    if not tap.ok(local.status == 0, "local ends with status 0", local.why()):
        return
    told = evaluations(local)
    tap.ok(sorted(told) == list(range(1, STEPS + 1)) and all(len(t) == 1 for t in told.values()), "all ranks tell the average's figures of each evaluation", [str(told)])
    tap.ok(len({json.dumps(sorted((n, b.hex()[:64]) for n, b in averages(local, s).items())) for s in told}) == STEPS, "every step moves the average")
    chosen = ways(directory)
    together(tap, [partial(lambda results, name: check_same(results, Run(psring, directory, name, dict(OPTIONS, **chosen[name])), local), name=name)
                   for name in chosen])
    late = [("hops", "ring to ps", chosen["ps-2"]), ("ps-2", "ps to ring", chosen["ring"]), ("changes", "changes to local", dict(mode="local"))]
    parts = [partial(lambda results, o, n, m: goes_on(results, psring, directory, local, o, n, m), o=o, n=n, m=m) for o, n, m in late]
    others = {"lars": {"optimizer": "lars"}, "clipped": {"clip-norm": 0.5}, "second": {"ema": "0.8:2", "warmup": 1},
              "rounded": {"compress-weights": "bf16"}, "differences": {"compress-weights": "topk:0.1"}}
    parts += [partial(lambda results, n, m: with_other_rules(results, psring, directory, n, m), n=n, m=m)
              for n, m in others.items() if everything or n in FEW_RULES]
    parts.append(lambda results: with_fewer_workers(results, psring, directory))
    parts.append(lambda results: of_a_part(results, psring, directory, everything))
    together(tap, parts)


# ---- files, and what goes by the average ----

def floats(data):
    values = array.array("f")
    values.frombytes(data)
    return values


def is_the_formula(tap, run):
    """The average of each step, from the weights and statistics of all steps as the checkpoints
    have them."""
    mean, worst = {}, 0
    for step in range(1, STEPS + 1):
        weights, _ = tensors(os.path.join(checkpoint(run, step), "model.safetensors"))
        saved = averages(run, step)
        tap.ok(sorted(saved) == sorted(weights), "step %d: the file of averages has the names of the model's" % step)
        for name in (n for n in weights if not n.endswith("num_batches_tracked")):
            now = floats(weights[name])
            mean[name] = [e + 0.2 * (w - e) for e, w in zip(mean[name], now)] if name in mean else list(now)
            worst = max([worst] + [abs(e - f) / max(1, abs(e)) for e, f in zip(mean[name], floats(saved[name]))])
    tap.ok(worst < 1e-5, "averages are 0.8 of the average and 0.2 of what is new, batch norm's statistics too", ["largest difference %g" % worst])


def opens(tap, psring, directory, run):
    """What else reads a model reads the file of averages."""
    file = os.path.join(checkpoint(run, STEPS), "model-ema.safetensors")
    outcome = run.outcome()
    said = subprocess.run([psring, "eval", file, "--threads", "1", "--batch-size", "4"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    figures = re.search(r"Average loss: ([0-9.]+), Accuracy: ([0-9.]+)%", said.stdout)
    tap.ok(said.returncode == 0 and figures and float(figures[2]) == round(100 * outcome["ema_accuracy"], 2) and
           abs(float(figures[1]) - outcome["ema_loss"]) < 1e-3 * outcome["ema_loss"], "psring eval comes to the run's figures of the average",
           [said.stdout, said.stderr, str(outcome)])
    for words in (["inspect", file], ["export", file, "--to", "safetensors", "--out", os.path.join(directory, "exported.safetensors")]):
        said = subprocess.run([psring] + words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        tap.ok(said.returncode == 0, "psring %s takes it" % words[0], [said.stdout, said.stderr])
    only = Run(psring, directory, "init", {k: v for k, v in dict(OPTIONS, init=file, mode="ring", **{"eval-only": True}).items() if k != "ema"})
    tap.ok(only.status == 0 and only.outcome()["test_accuracy"] == outcome["ema_accuracy"], "--init begins with it", only.why())


def said_of(run, word):
    return [line for line in run.stdout.splitlines() if "resumed" in line and word in line]


def comes_and_goes(tap, psring, directory, run, plain):
    """Resumed with an average that the checkpoint has not, and the other way round."""
    begins = Run(psring, directory, "begins", dict(OPTIONS, mode="ring", resume=checkpoint(plain, MIDDLE)))
    if tap.ok(begins.status == 0 and said_of(begins, "begins with the checkpoint's weights"), "an average may begin with a resume", begins.why()):
        tap.ok(begins.hashes() == {s: h for s, h in run.hashes().items() if s > MIDDLE}, "which does not touch the weights")
        before = floats(tensors(os.path.join(checkpoint(plain, MIDDLE), "model.safetensors"))[0]["conv1.weight"])
        after = floats(tensors(os.path.join(checkpoint(begins, MIDDLE + 1), "model.safetensors"))[0]["conv1.weight"])
        saved = floats(averages(begins, MIDDLE + 1)["conv1.weight"])
        tap.ok(all(abs(e - (b + 0.2 * (a - b))) < 1e-6 for e, b, a in zip(saved, before, after)), "it begins with the weights of the checkpoint")
    ends = Run(psring, directory, "ends", dict(OPTIONS, mode="ring", resume=checkpoint(run, MIDDLE), ema="none"))
    tap.ok(ends.status == 0 and said_of(ends, "ends here") and not os.path.exists(os.path.join(checkpoint(ends, STEPS), "model-ema.safetensors")),
           "and end with one", ends.why())


def goes_by_it(tap, psring, directory, run):
    told = {line["step"]: (line["test_accuracy"], line["ema_accuracy"]) for line in run.metrics() if line["rank"] == 0}
    best = max(told, key=lambda s: (told[s][1], -s))
    kept = Run(psring, directory, "kept", dict(OPTIONS, mode="ps", shards=2, keep=1, **{"keep-best": True}))
    tap.ok(kept.status == 0 and kept.outcome()["best_step"] == best and kept.outcome()["best_accuracy"] == told[best][1],
           "--keep-best goes by the average", [str(told)] + kept.why())
    target = max(e for _, e in told.values())
    first = min(s for s in told if told[s][1] >= target)
    if first < STEPS:
        ended = Run(psring, directory, "target", dict(OPTIONS, mode="ring", **{"target-accuracy": target}))
        tap.ok(ended.status == 0 and ended.outcome()["steps"] == first and "of the average of the weights" in ended.stdout, "--target-accuracy too", [str(told)] + ended.why())
    else:
        tap.skip("--target-accuracy too", "the average is best at the end")


def files(tap, psring, directory):
    run = Run(psring, directory, "ring", dict(OPTIONS, mode="ring"))
    plain = Run(psring, directory, "plain", {k: v for k, v in dict(OPTIONS, mode="ring").items() if k != "ema"})
    if not tap.ok(run.status == 0 and plain.status == 0, "runs with and without it end with status 0", run.why() + plain.why()):
        return
    tap.ok(run.hashes() == plain.hashes() and all(
        tensors(os.path.join(checkpoint(run, s), "model.safetensors"))[0] == tensors(os.path.join(checkpoint(plain, s), "model.safetensors"))[0]
        for s in range(1, STEPS + 1)), "the weights are those of the run without it")
    outcome, last = run.outcome(), list(evaluations(run)[STEPS])[0]
    tap.ok((outcome["ema_loss"], outcome["ema_accuracy"], outcome["ema_top5"]) == last, "run.json has the last evaluation's figures", [str(outcome)])
    tap.ok("average    of the weights: test accuracy %.2f%%" % (100 * last[1]) in run.stdout, "so has the summary", run.why())
    tap.ok(plain.outcome().get("ema_accuracy") is None and not evaluations(plain), "a run without it has none")
    about = tensors(os.path.join(checkpoint(run, STEPS), "model-ema.safetensors"))[1]
    tap.ok(about.get("ema") == "0.8" and about.get("step") == str(STEPS), "its file says how it was averaged", [str(about)])
    is_the_formula(tap, run)
    opens(tap, psring, directory, run)
    comes_and_goes(tap, psring, directory, run, plain)
    goes_by_it(tap, psring, directory, run)


# ---- refusals ----

def refusals(tap, psring, directory):
    small = {"model": "mlp", "data": "synthetic:count=8,test=4,channels=1,size=28", "steps": 1, "workers": 1}
    for text in ("1", "0", "-0.5", "1.5", "nan", "0.99999999999", "0.9:", "0.9:0", "0.9:-1", "0.9:1e9", "0.9:2:3", ":2", "x", ""):
        run = Run(psring, directory, "bad", dict(small, ema=text))
        tap.ok(run.status == 2 and "--ema: '%s' is no average of the weights; give DECAY" % text in run.stderr and run.stderr.count("\n") <= 2,
               "--ema '%s' is refused in a line" % text, run.why())
    for more, word in (({"sync": "async"}, "--sync"), ({"sync": "ssp:1"}, "--sync"), ({"no-exchange": True}, "--no-exchange")):
        run = Run(psring, directory, "bad", dict(small, ema="0.9", mode="ps", **more))
        tap.ok(run.status == 2 and "--ema" in run.stderr, "it does not go with %s" % word, run.why())


def main():
    psring, case = sys.argv[1:]
    tap = Tap()
    with Workspace() as directory:
        {"modes": modes, "modes-all": partial(modes, everything=True), "files": files, "refusals": refusals}[case](tap, psring, directory)
    tap.end()


if __name__ == "__main__":
    main()
