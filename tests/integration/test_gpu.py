"""Runs of `psring train --device cuda` on a GPU that the processor plays: one command line ends
every step with the same bits in ps with one and two shards, in a ring and in local, whatever is
delayed, and whether images come to the GPU as bytes or as floats; losses are those of a run on the
processor; a run that was cut goes on; in fp16 all leave out the same steps, and what overflows
halves the scale of the loss; what cannot be is refused by name; a trace has a row of what each GPU
computes; a device that fails, has too little memory or loses its worker ends the run in order; and
with --update-on device all is as with the host's updates, bit by bit.

usage: test_gpu.py EMULATED-PSRING PSRING CASE [all]

Of each network with few ways, or with all. EMULATED-PSRING: the one beside which the emulated
psring-worker-cuda lies."""

import os
import re
import shutil
import signal
import subprocess
import sys

from psring_live import LiveRun
from psring_run import PATIENCE_S, Run, Tap, Workspace
from test_trace import Trace, overlapping
from trace_format import problems

GRAY = "synthetic:count=49,test=20,channels=1,size=28"
COLOUR = "synthetic:count=25,test=10,channels=3,size=16"
COMMON = dict(threads=1, hash=True, seed=11, workers=3, device="cuda")
# As far as losses may be from those of the processor, relative to them.
CASES = {
    "mlp": (dict(model="mlp", data=GRAY, steps=5, lr=0.05, **{"batch-size": 8, "bucket-size": 99968}), 1e-3),
    "convnet-bf16": (dict(model="convnet", data=GRAY, steps=4, lr=0.05, precision="bf16", augment="crop,flip,cutout:9", **{"batch-size": 8}), 0.05),
    "resnet20": (dict(model="resnet20", data=COLOUR, steps=3, lr=0.05, augment="flip,cutmix:1",
                      **{"batch-size": 4, "bucket-size": 65600, "eval-every": 2}), 1e-2),
}
MODES = {
    "ps-1": dict(mode="ps", shards=1),
    "ps-2": dict(mode="ps", shards=2),
    "ps-2-without-shared-memory": dict(mode="ps", shards=2, transport="ipc"),
    "ring": dict(mode="ring"),
    "ring-by-hops": dict(mode="ring", transport="ipc"),
}
# Mixing makes floats; evaluations mix nothing.
INPUT = {"mlp": "bytes", "convnet-bf16": "bytes", "resnet20": "floats"}
# Each way with one network or another; all of them in the suite slow.
FEW = {"mlp": ("ps-2-without-shared-memory", "ring"), "convnet-bf16": ("ps-1", "ring-by-hops"), "resnet20": ("ps-2", "ring")}

LAYERS = ("fc1", "relu1", "fc2", "relu2", "fc3")  # of mlp

UPDATES = {
    "sgd": {"momentum": 0.9, "nesterov": True, "weight-decay": 0.001, "no-decay": "bias", "lr-factor": "fc2.*=2", "freeze": "conv2"},
    "adam": {"optimizer": "adam", "lr": 0.001, "ema": "0.8:3", "eval-every": 3},
}
UPDATED = dict(COMMON, model="convnet", data=GRAY, steps=5, lr=0.05, **{"batch-size": 8, "bucket-size": "4K", "checkpoint-every": 2})


def environment(**settings):
    """Of a run on GPUs that are set like this (tests/emulator/cuda/linked.c)."""
    return dict(os.environ, **{"PSR_CUDA_EMULATOR_" + name.upper(): str(value) for name, value in settings.items()})


def without_gpus(psring, directory):
    """A psring beside which there is no program for GPUs."""
    programs = os.path.join(directory, "programs")
    os.mkdir(programs)
    built = os.path.dirname(os.path.realpath(psring))
    for folder, name in (("", "psring"), ("../ps", "psring-ps"), ("../ps", "psring-scheduler"), ("../worker", "psring-worker")):
        shutil.copy(os.path.join(built, folder, name), programs)
    return os.path.join(programs, "psring")


def losses(run):
    """A rank whose share of a step is empty has none."""
    return {(line["step"], line["rank"]): line["loss"] for line in run.metrics() if line["loss"] is not None}


def check_modes(tap, psring, directory, case, everything):
    options, limit = CASES[case]
    local = Run(psring, directory, "local", dict(COMMON, **options, mode="local"))
    if not tap.ok(local.status == 0, "%s: local ends well" % case, local.why()):
        return
    tap.ok(len(set(local.hashes().values())) == options["steps"], "%s: every step changes the weights" % case, local.why())
    tap.ok("%s, %s on cuda" % (options["model"], options.get("precision", "fp32")) in local.stdout, "%s: a person is told what computes" % case, local.why())
    described = local.described()
    tap.ok("algorithms" not in described and re.fullmatch(r"\d+(,\d+)*", described.get("engines", "")),
           "%s: run.json has the engines of the GPU's library, and no algorithms of a processor" % case, [str(described.get(n)) for n in ("engines", "algorithms")])
    tap.ok(described.get("input") == INPUT[case], "%s: run.json has as what images come to the GPU" % case, local.why())
    for name in MODES if everything else FEW[case]:
        floats = name == FEW[case][0]
        run = Run(psring, directory, name, dict(COMMON, **options, **MODES[name]), env=dict(os.environ, PSR_CUDA_INPUT="floats" if floats else "bytes"))
        tap.ok(run.status == 0 and run.hashes() == local.hashes(), "%s: %s ends every step with the bits of local" % (case, name), run.why())
        tap.ok(len(evaluations(local)) > 0 and evaluations(run) == evaluations(local), "%s: %s: so do evaluations" % (case, name), run.why())
    run = Run(psring, directory, "delayed", dict(COMMON, **options, mode="ring", **{"mixed-hosts": True}), env=environment(seed=7, devices=2, other_from=1))
    tap.ok(run.status == 0 and run.hashes() == local.hashes(), "%s: so does a ring whose orders are delayed, on devices of two kinds" % case, run.why())
    tap.ok("--mixed-hosts: workers may compute with what differs" in run.stdout + run.stderr, "%s: and is told that bits may differ" % case, run.why())
    near = Run(psring, directory, "processor", dict(COMMON, **options, mode="local", device="cpu"))
    tap.ok("engines" not in near.described(), "%s: which has no engines" % case, near.why())
    theirs, ours = losses(near), losses(local)
    tap.ok(theirs.keys() == ours.keys() and all(abs(ours[at] - loss) <= limit * loss for at, loss in theirs.items()),
           "%s: losses are those of a run on the processor" % case, ["%s %s" % (at, (theirs[at], ours[at])) for at in theirs if at in ours])


def check_trace(tap, run, step):
    """Of a run of the network mlp in which one step was traced."""
    trace = Trace(os.path.join(run.out, "trace.json"))
    bad = problems(trace.text) + overlapping(trace)
    tap.ok(not bad, "a trace is what its format asks for, and spans of one row nest", bad[:3])
    for pid in trace.workers():
        row = sorted((e for e in trace.of("X") if e["pid"] == pid and trace.rows[pid, e["tid"]] == "GPU"), key=lambda e: (e["ts"], -e["dur"]))
        told = [(e["cat"], e["name"]) for e in row if e["cat"] != "pass"]
        tap.ok([e["name"] for e in row if e["cat"] == "pass"] == ["forward", "backward"] and {e["args"]["step"] for e in row} == {step},
               "%s: its GPU's row has the passes of the step" % trace.names[pid], [str(row)])
        tap.ok(told == [("forward", name) for name in LAYERS] + [("backward", name) for name in reversed(LAYERS)],
               "%s: and in them each layer, one behind the other" % trace.names[pid], [str(told)])
        tap.ok(not [e for e in trace.of("X", "forward") if e["pid"] == pid and e not in row], "%s: and no other row has any" % trace.names[pid])


def check_resume(tap, psring, directory):
    options = dict(COMMON, **CASES["mlp"][0], mode="ring", **{"checkpoint-every": 2})
    whole = Run(psring, directory, "whole", options, env=dict(os.environ, PSR_CUDA_RECORDINGS="off"))
    resumed = Run(psring, directory, "resumed", dict(options, mode="ps", device="cuda:1", trace="4-4", resume=os.path.join(whole.out, "checkpoints", "step-2")),
                  env=dict(environment(devices=2, other_from=1), PSR_CUDA_INPUT="floats"))
    tap.ok(resumed.status == 0 and resumed.hashes() == {step: hash for step, hash in whole.hashes().items() if step > 2},
           "a resumed run, whose passes are recorded or traced, and whose images are copied as floats, ends later steps with the same bits",
           whole.why() + resumed.why())
    if resumed.status == 0:
        check_trace(tap, resumed, 4)
        with open(os.path.join(resumed.out, "run.json")) as file:
            tap.ok("emulated sm_80" in file.read(), "with --device cuda:1 it is that GPU's identity that run.json has", resumed.why())


def scales_of(run):
    """[(the loss scale, whether the step was left out)] by steps."""
    return [(line["loss_scale"], line["skipped"]) for line in run.metrics() if line["rank"] == 0]


def scales_by_rule(first, growth, skipped):
    """What the scale is in each step, and behind the last, by which steps were left out."""
    scale, taken, scales = first, 0, []
    for left_out in skipped:
        scales.append(scale)
        taken = 0 if left_out else taken + 1
        if left_out or taken == growth:
            scale, taken = (scale // 2, 0) if left_out else (scale * 2, 0)
    return scales, scale


def check_left_half(tap, psring, directory, options, path):
    """A run in fp16 goes on in float32: steps that were left out before are no updates for Adam, in
    every mode as in the reference, and behind the next checkpoint."""
    options = dict(options, precision="fp32", device="cpu", **{"loss-scale": "65536:2000"})
    local = Run(psring, directory, "left-local", dict(options, mode="local", resume=path))
    again = Run(psring, directory, "left-again", dict(options, resume=os.path.join(local.out, "checkpoints", "step-8"), **MODES["ps-2"]))
    tap.ok(local.status == 0 and again.status == 0 and again.hashes() == {step: hash for step, hash in local.hashes().items() if step > 8},
           "fp16: a run goes on in float32, and once more behind a checkpoint of that", local.why() + again.why())


def check_half(tap, psring, directory):
    """The first scale lets the gradient of the logits overflow; later it grows until it does so
    again. Adam counts updates."""
    first, growth, steps = 1 << 22, 2, 9
    half = dict(COMMON, **dict(CASES["convnet-bf16"][0], precision="fp16"))
    options = dict(half, steps=steps, lr=0.001, optimizer="adam", **{"loss-scale": "%d:%d" % (first, growth), "checkpoint-every": 4})
    local = Run(psring, directory, "local", dict(options, mode="local"))
    if not tap.ok(local.status == 0, "fp16: local ends well", local.why()):
        return
    told, hashes = scales_of(local), local.hashes()
    skipped = [left_out for _, left_out in told]
    scales, last = scales_by_rule(first, growth, skipped)
    tap.ok(skipped[0] and True in skipped[4:] and skipped.count(False) > growth, "fp16: steps are left out at the beginning and later", [str(told)])
    tap.ok([scale for scale, _ in told] == scales, "fp16: each halves the scale, and %d others in a row double it" % growth, [str(told)])
    tap.ok(all((hashes[step] == hashes[step - 1]) == skipped[step - 1] for step in range(2, steps + 1)), "fp16: they change no weight, and the others do",
           [str(told), str(hashes)])
    outcome = local.outcome()
    tap.ok((outcome["skipped_steps"], outcome["loss_scale"]) == (skipped.count(True), last), "fp16: run.json has their number and the last scale", [str(outcome)])
    tap.ok("skipped    %d steps whose gradient overflowed; the loss scale is %d" % (skipped.count(True), last) in local.stdout,
           "fp16: so is a person told", local.why())
    for name in ("ps-1", "ps-2", "ring"):
        run = Run(psring, directory, name, dict(options, **MODES[name]))
        tap.ok(run.status == 0 and run.hashes() == hashes and scales_of(run) == told, "fp16: %s leaves out the same steps, and has the bits of local" % name,
               run.why())
    for name in ("ps-2", "ring"):
        resumed = Run(psring, directory, name + "-resumed", dict(options, resume=os.path.join(local.out, "checkpoints", "step-4"), **MODES[name]))
        tap.ok(resumed.status == 0 and resumed.hashes() == {step: hash for step, hash in hashes.items() if step > 4} and scales_of(resumed) == told[4:],
               "fp16: %s goes on with the scale, its count and the bits" % name, resumed.why())
        tap.ok(resumed.outcome()["skipped_steps"] == skipped.count(True), "fp16: and counts the steps that were left out before", resumed.why())
    check_left_half(tap, psring, directory, options, os.path.join(local.out, "checkpoints", "step-4"))
    near = Run(psring, directory, "processor", dict(half, mode="local", device="cpu", precision="fp32"))
    theirs, ours = losses(near), losses(Run(psring, directory, "half", dict(half, mode="local", **{"loss-scale": 1024})))
    tap.ok(theirs.keys() == ours.keys() and all(abs(ours[at] - loss) <= 0.02 * loss for at, loss in theirs.items()),
           "fp16: losses are those of float32 on the processor", ["%s %s" % (at, (theirs[at], ours[at])) for at in theirs if at in ours])


def check_refusals(tap, psring, directory, without):
    options = dict(COMMON, **CASES["mlp"][0], mode="ring")
    run = Run(psring, directory, "far", dict(options, device="cuda:7"))
    tap.ok(run.status != 0 and "--device cuda:7: this host has 1 GPU" in run.stderr + run.stdout, "a GPU that is not there is named", run.why())
    run = Run(psring, directory, "mixed", options, env=environment(devices=2, other_from=1))
    tap.ok(run.status == 2 and "worker 1 on localhost: its GPU is emulated sm_80, and worker 0's is emulated sm_90" in run.stderr,
           "another kind of GPU for another worker is refused by name", run.why())
    run = Run(without, directory, "without", options)
    tap.ok(run.status != 0 and "psring-worker-cuda" in run.stderr + run.stdout, "without the program for GPUs, it is named", run.why())
    for given, said in (("PSR_CUDA_PLANS=plans", "give the path of a directory, from / on"), ("PSR_CUDA_RECORDINGS=no", "it is on or off"),
                        ("PSR_CUDA_INPUT=pixels", "it is bytes or floats")):
        name, value = given.split("=")
        worker = subprocess.run([os.path.join(os.path.dirname(psring), "psring-worker-cuda")], env=dict(os.environ, **{name: value}),
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        lines = worker.stderr.splitlines()
        tap.ok(worker.returncode == 2 and len(lines) == 1 and given + ": " + said in lines[0], "%s is refused in one line" % given, lines)


def check_ends(tap, psring, directory):
    """One line each, and no rule of the emulator is broken on the way."""
    for name, case, settings, status, said in (
            ("a device that fails", "mlp", dict(fail_after=400), 1, "the emulated device failed"),
            ("too little memory", "resnet20", dict(bytes=4500000), 1, "would fit (--batch-size)"),
            ("no device", "mlp", dict(devices=0), 2, "the emulator was told to have no device")):
        run = Run(psring, directory, name.replace(" ", "-"), dict(COMMON, **CASES[case][0], mode="ring"), env=environment(**settings))
        tap.ok(run.status == status and len([line for line in run.stderr.splitlines() if said in line]) == 1,
               "%s: the run ends with one line that says so" % name, run.why())
        tap.ok("cuda emulator:" not in "\n".join(run.why()), "%s: and breaks no rule of the device's" % name, run.why())


def check_nccl(tap, psring, directory):
    """Its sums are rounded in another order than a ring's; all workers have the same."""
    for case in ("mlp", "resnet20"):
        options = dict(COMMON, **CASES[case][0])
        ring, nccl = (Run(psring, directory, "%s-%s" % (case, mode), dict(options, mode=mode), env=environment(seed=7, devices=2))
                      for mode in ("ring", "nccl"))
        theirs, ours = losses(ring), losses(nccl)
        tap.ok(nccl.status == 0 and ours.keys() == theirs.keys() and all(abs(ours[at] - loss) <= 1e-3 * loss for at, loss in theirs.items()),
               "%s: losses of sums on GPUs are those of a ring" % case, nccl.why())
        told = [(line["step"], line["hash"]) for line in nccl.metrics()]
        tap.ok(len(told) >= 3 * options["steps"] and len(set(told)) == options["steps"], "%s: after each step all workers have the same weights" % case,
               nccl.why())


def checkpoint(run, step):
    return os.path.join(run.out, "checkpoints", "step-%d" % step)


def saved(run, step):
    """Files of values, without what is said of them."""
    found = {}
    for name in sorted(os.listdir(checkpoint(run, step))):
        if name.endswith(".safetensors"):
            with open(os.path.join(checkpoint(run, step), name), "rb") as file:
                file.seek(8 + int.from_bytes(file.read(8), "little"))
                found[name] = file.read()
    return found


def evaluations(run):
    return {line["step"]: {key: value for key, value in line.items() if key.startswith(("test_", "ema_"))}
            for line in run.metrics() if "test_loss" in line}


def same_values(tap, name, run, right, steps):
    """Of two runs, the second of which may have begun earlier: all that is told after these
    steps."""
    if not tap.ok(run.status == 0, "%s ends well" % name, run.why()):
        return
    tap.ok(run.hashes() == {step: right.hashes()[step] for step in steps}, "%s: weights have the bits of the host's updates" % name, run.why())
    tap.ok(evaluations(run) == {step: told for step, told in evaluations(right).items() if step in steps},
           "%s: and evaluations its figures" % name, [str(evaluations(run)), str(evaluations(right))])
    files = [step for step in (2, 4, 5) if step in steps]
    wrong = [(step, file) for step in files for file, values in saved(right, step).items() if saved(run, step).get(file) != values]
    tap.ok(not wrong, "%s: and checkpoints its values" % name, [str(one) for one in wrong])


def check_passes(tap, psring, directory, name, options, right):
    """Nobody asks for the weights before the end, so that passes make the updates; and in the third
    step, of which two ranks have no sample, who has none."""
    options = {key: value for key, value in options.items() if key not in ("hash", "checkpoint-every", "eval-every")}
    run = Run(psring, directory, name.replace(" ", "-"), dict(options, **{"update-on": "device"}), env=environment(seed=7, devices=2))
    tap.ok(run.status == 0 and run.outcome()["hash"] == right.outcome()["hash"] and saved(run, 5) == saved(right, 5), "%s: passes make the host's updates" % name, run.why())


def check_update(tap, psring, directory):
    delays, steps = environment(seed=7, devices=2), range(1, 6)
    device = {"update-on": "device"}
    sgd, adam = (Run(psring, directory, name, dict(UPDATED, **options, mode="local")) for name, options in UPDATES.items())
    for run, least in ((sgd, 0), (adam, 2)):
        tap.ok(run.status == 0 and len(set(run.hashes().values())) == 5 and len(evaluations(run)) >= least and len(saved(run, 5)) >= 2,
               "the host's updates: %s ends well" % run.name, run.why())
    for name, right, options in (("local", sgd, dict(UPDATES["sgd"], mode="local")), ("hops", sgd, dict(UPDATES["sgd"], mode="ring", transport="ipc")),
                                 ("ring", adam, dict(UPDATES["adam"], mode="ring"))):
        same_values(tap, name, Run(psring, directory, name, dict(UPDATED, **dict(options, **device)), env=delays), right, steps)
    late = dict(UPDATED, **dict(UPDATES["adam"], mode="ring"))
    same_values(tap, "resumed there", Run(psring, directory, "there", dict(late, resume=checkpoint(adam, 2), **device)), adam, range(3, 6))
    same_values(tap, "resumed here", Run(psring, directory, "here", dict(late, resume=os.path.join(directory, "ring", "checkpoints", "step-2"))), adam, range(3, 6))
    host, there = (Run(psring, directory, "nccl" + name, dict(UPDATED, **dict(UPDATES["adam"], mode="nccl", **more)), env=delays)
                   for name, more in (("", {}), ("-there", device)))
    same_values(tap, "nccl", there, host, steps)
    check_passes(tap, psring, directory, "passes", dict(UPDATED, **dict(UPDATES["sgd"], mode="ring")), sgd)
    check_passes(tap, psring, directory, "passes of hops", dict(UPDATED, **dict(UPDATES["sgd"], mode="ring", transport="ipc")), sgd)
    check_passes(tap, psring, directory, "passes of local", dict(UPDATED, **dict(UPDATES["sgd"], mode="local")), sgd)
    check_passes(tap, psring, directory, "passes of nccl", dict(UPDATED, **dict(UPDATES["adam"], mode="nccl")), host)
    run = Run(psring, directory, "refused", dict(UPDATED, mode="ring", optimizer="lars", **device))
    tap.ok(run.status == 2 and "--update-on device does not go with --optimizer lars" in run.stderr, "another optimizer is refused by name", run.why())


def check_killed(tap, psring, directory, mode):
    """While orders may be under way."""
    run = LiveRun(psring, directory, "killed", dict(COMMON, **dict(CASES["mlp"][0], steps=100000), mode=mode))
    try:
        run.wait_until(lambda: run.last_step() >= 2, PATIENCE_S)
        held = run.member("worker", 1)
        held.signal(signal.SIGSTOP)
        held.wait_stopped()
        held.signal(signal.SIGKILL)
        tap.ok(run.wait(PATIENCE_S) == 1 and any("worker 1" in line for line in run.text("err")),
               "a worker is stopped and killed: the run ends with a line that names it", run.why())
        tap.ok(run.wait_ended(PATIENCE_S) is not None, "and so do all of its processes", [repr(p) for p in run.processes()])
    finally:
        run.kill()
    tap.ok(not run.leftovers(), "and nothing is left of it", run.leftovers())


def main():
    emulated, psring = (os.path.abspath(path) for path in sys.argv[1:3])
    case, everything, tap = sys.argv[3], sys.argv[4:] == ["all"], Tap()
    with Workspace() as directory:
        if case == "run":
            check_resume(tap, emulated, directory)
            check_refusals(tap, emulated, directory, without_gpus(psring, directory))
        elif case == "fp16":
            check_half(tap, emulated, directory)
        elif case == "ends":
            check_ends(tap, emulated, directory)
            check_killed(tap, emulated, directory, "ring")
        elif case == "update":
            check_update(tap, emulated, directory)
        elif case == "nccl":
            check_nccl(tap, emulated, directory)
            check_killed(tap, emulated, directory, "nccl")
        else:
            check_modes(tap, emulated, directory, case, everything)
    tap.end()


if __name__ == "__main__":
    main()
