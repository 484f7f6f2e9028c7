"""bench/gpu_check on a GPU that the processor plays: each part writes what it found, and the
summary has all; a part that fails, or is at its limit, is told and the others go on; what was
started ends; without a device it says so; and a pack has all that another machine needs.

usage: test_gpu_check.py GPU-CHECK EMULATED-PSRING EMULATED-PARITY sample|all|played|pack

sample, all: parts that really run. played: programs that answer as they are told."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tarfile
import time
import types

from psring_run import PATIENCE_S, Tap, Workspace

SAMPLE = ("machine", "properties", "operators", "networks", "resnet50", "memcheck")
ALL = SAMPLE[:3] + ("bits", "networks", "resnet50", "memcheck", "exchange", "nccl", "resnet18", "cifar", "large", "racecheck")

# Torch and a device, with the rates that it is told.
TORCH = """#!/bin/sh
case "$*" in
*--probe*) echo '{"torch": "9.9", "cuda": %s, "device": "a played device"}' ;;
*compile*) echo '{"images_per_s": 4.0, "step_s": 2.0}' ;;
*graphs*) echo '{"images_per_s": 8.0, "step_s": 1.0}' ;;
*) echo '{"images_per_s": 2.0, "step_s": 4.0}' ;;
esac
"""
# Runs what it is given, as compute-sanitizer does.
SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
"$@"
status=$?
echo "========= ERROR SUMMARY: 0 errors"
exit $status
"""
# Tells its id, and ends only when it is killed; or when the test has ended without that.
HANGS = """#!/bin/sh
trap '' TERM
echo $$ >'%s.new'
mv '%s.new' '%s'
while [ -e '%s' ]; do sleep 1; done
"""
# There is no device, and it tells where it looks for libraries.
WORKER = """#!/bin/sh
echo '{"devices": "", "libraries": "", "missing": "'$LD_LIBRARY_PATH'"}'
"""
PARITY = """#!/bin/sh
case "$*" in
*convnet*) echo '# convnet fp32: 0.2500 of what is allowed (fc.bias is off by 1e-05 of 1)'; echo 'ok 1 - convnet fp32' ;;
*) echo '# pools fp32: 3.0000 of what is allowed (the logits are off by 3 of 1)'; echo 'not ok 1 - pools fp32'; exit 1 ;;
esac
"""
# Trains nothing: a run directory with hashes and losses, which differ in the second call of ps, and
# a refusal of --mode nccl for two workers.
PSRING = """#!%s
import json, os, re, sys
options = dict(re.findall(r"--([\\w-]+)=(\\S+)", " ".join(sys.argv)), out=sys.argv[sys.argv.index("--out") + 1])
if options["mode"] == "nccl" and options["workers"] == "2":
    sys.exit("rank 1: Duplicate GPU detected")
os.makedirs(options["out"])
other = options["out"].endswith("ps-2")
with open(os.path.join(options["out"], "metrics.jsonl"), "w") as file:
    for step in range(1, int(options["steps"]) + 1):
        for rank in range(int(options["workers"])):
            file.write(json.dumps({"step": step, "rank": rank, "loss": 2.0, "hash": "%%04x" %% (step + 16 * other)}) + "\\n")
"""


def script(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)
    return path


class Call:
    """One bench/gpu_check, and what it left."""

    def __init__(self, program, out, *words, env=None):
        self.out = out
        done = subprocess.run([program, *map(str, words), "--out", out], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, env=env)
        self.status, self.said, self.told = done.returncode, done.stdout, done.stderr

    def summary(self):
        with open(os.path.join(self.out, "summary.json")) as file:
            return json.load(file)

    def parts(self):
        return {part["part"]: part for part in self.summary()["parts"]}

    def markdown(self):
        with open(os.path.join(self.out, "summary.md")) as file:
            return file.read()

    def why(self):
        return ["exit status %d" % self.status, *self.said.splitlines(), *self.told.splitlines()] + (
            self.markdown().splitlines() if os.path.exists(os.path.join(self.out, "summary.md")) else [])


def is_running(pid):
    """A process that nobody has reaped yet does not run."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def has_held(path):
    """Whether what wrote its id there runs; on a busy machine it may have been ended before."""
    if not os.path.exists(path):
        return False
    with open(path) as file:
        return is_running(int(file.read()))


def wait_until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def check_parts(tap, program, psring, parity, directory, names):
    call = Call(program, os.path.join(directory, "results"), "--psring", psring, "--parity", parity, "--small", "--only", ",".join(names),
                "--python", script(os.path.join(directory, "torch"), TORCH % "true"),
                "--sanitizer", script(os.path.join(directory, "sanitizer"), SANITIZER))
    if not tap.ok(call.status == 0, "all parts: status 0", call.why()):
        return
    parts, markdown = call.parts(), call.markdown()
    tap.ok(tuple(parts) == names, "the summary has each part, in order", [str(list(parts))])
    tap.ok(all(part["status"] == ("left out" if name == "cifar" else "good") for name, part in parts.items()), "each is good, or left out", call.why())
    tap.ok(all("\n### %s\n" % part["title"] in markdown for part in parts.values()), "the page has each part", call.why())
    files = [os.path.join(call.out, "%02d-%s" % (number, name), "result.json") for number, name in enumerate(names, 1)]
    tap.ok(all(json.load(open(path)) == parts[name] for path, name in zip(files, names)), "and so has its own file", files)
    tap.ok("played by the processor" in markdown and call.summary()["emulated"], "the page says that no GPU computed", call.why())
    with open(os.path.join(call.out, "devices", "sm_90.json")) as file:
        device = json.load(file)
    tap.ok(device["deviceName"] == "emulated GPU" and device["deviceVer"] == 900, "the device's properties have a file", [str(device)])
    tap.ok(["0", "deviceName", '"NVIDIA H100 80GB HBM3"', '"emulated GPU"'] in parts["properties"]["rows"],
           "and are shown beside those written by hand", call.why())
    tap.ok({row[0] for row in parts["operators"]["rows"]} == {"%s %s" % (case, precision) for case in ("norm_add", "pools") for precision in ("fp32", "bf16", "fp16")}
           and any(float(row[2]) > 0 for row in parts["operators"]["rows"]) and all(row[1] == "good" and 0 <= float(row[2]) <= 1 for row in parts["operators"]["rows"]), "each comparison has its largest error", call.why())
    figures = parts["resnet50"]["figures"]
    ours = sorted(figures[name]["images_per_s"] for name in ("psring", "psring-again"))
    tap.ok(abs(figures["ratio"] - sum(ours) / 2 / 8.0) < 1e-9 * figures["ratio"] and "(graphs, channels_last)" in markdown,
           "the ratio is to the fastest of PyTorch's ways", [str(figures)])
    if "bits" not in names:
        return
    rows = parts["bits"]["rows"]
    tap.ok([row[1] for row in rows] == ["ring", "ps", "local"] * 2 and {row[5] for row in rows} == {"same"} and len({row[4] for row in rows}) == 1,
           "two calls of three modes have the same bits", call.why())
    tap.ok([row[:2] for row in parts["nccl"]["rows"]] == [["1", "good"], ["2", "good"]], "sums on GPUs are near a ring's", call.why())
    tap.ok([row[0] for row in parts["exchange"]["rows"]] == ["no exchange", "ring", "ps, 1 shard"], "the exchange has three rows", call.why())


def without_torch(tap, program, psring, parity, directory):
    call = Call(program, os.path.join(directory, "alone"), "--psring", psring, "--parity", parity, "--small", "--only", "resnet18",
                "--python", script(os.path.join(directory, "no-device"), TORCH % "false"))
    tap.ok(call.status == 0 and "No ratio was measured: PyTorch 9.9 of %s finds no CUDA device" % os.path.join(directory, "no-device") in call.markdown()
           and [row[0] for row in call.parts()["resnet18"]["rows"]] == ["psring"], "without PyTorch psring is measured alone, and the page says so", call.why())


def played_programs(psring, directory):
    """A psring that is played, with the real programs beside it."""
    folder = os.path.join(directory, "programs")
    os.mkdir(folder)
    for name in ("psring-worker", "psring-worker-cuda", "psring-ps", "psring-scheduler"):
        os.symlink(os.path.join(os.path.dirname(os.path.realpath(psring)), name), os.path.join(folder, name))
    return script(os.path.join(folder, "psring"), PSRING % sys.executable)


def failures_are_told(tap, program, psring, directory):
    held = os.path.join(directory, "held")
    call = Call(program, os.path.join(directory, "failures"), "--psring", played_programs(psring, directory), "--small",
                "--parity", script(os.path.join(directory, "parity"), PARITY), "--sanitizer", script(os.path.join(directory, "hangs"), HANGS % ((held,) * 4)),
                "--limit", "memcheck=2", "--only", "operators,bits,memcheck,nccl,resnet18,large")
    tap.ok(call.status == 1, "parts that fail: status 1", call.why())
    parts = call.parts()
    tap.ok({name: part["status"] for name, part in parts.items()} == {"operators": "failed", "bits": "failed", "memcheck": "ended", "nccl": "good",
                                                                     "resnet18": "failed", "large": "good"}, "the others go on", call.why())
    tap.ok(parts["operators"]["rows"] == [["pools fp32", "WRONG", "3.0000", "the logits are off by 3 of 1"]]
           and parts["operators"]["why"] == "pools fp32 differs", "a wrong number is named", call.why())
    tap.ok([row[5] for row in parts["bits"]["rows"]] == ["same"] * 4 + ["OTHER", "same"] and "the weights of ps, call 2, are others" in parts["bits"]["why"],
           "bits that differ are named", call.why())
    tap.ok("was ended at the part's limit" in parts["memcheck"]["why"] and wait_until(lambda: not has_held(held)), "what hangs is killed at the limit", call.why())
    tap.ok(parts["nccl"]["rows"][1][1] == "ended: rank 1: Duplicate GPU detected" and "no failure of psring's" in call.markdown(),
           "two workers on one GPU may be refused by NCCL", call.why())
    tap.ok(parts["large"]["rows"] == [["convnet fp32", "good", "0.2500", "fc.bias is off by 1e-05 of 1"]], "and a good part has its figures", call.why())
    tap.ok(all("| %s | %s |" % (part["title"], part["status"]) in call.markdown() for part in parts.values()), "the page tells how each ended", call.why())


def time_runs_out(tap, program, psring, parity, directory):
    call = Call(program, os.path.join(directory, "late"), "--psring", psring, "--parity", parity, "--seconds", 0, "--only", "machine,large")
    tap.ok(call.status == 1 and [(part["status"], part["why"]) for part in call.parts().values()] == [("not begun", "no time was left")] * 2,
           "without time no part begins, and the summary says so", call.why())


def a_signal_ends_all(tap, program, psring, parity, directory):
    held, out = os.path.join(directory, "held-2"), os.path.join(directory, "signal")
    process = subprocess.Popen([program, "--psring", psring, "--parity", parity, "--out", out, "--only", "memcheck,large", "--sanitizer",
                                script(os.path.join(directory, "hangs-2"), HANGS % ((held,) * 4))], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    wait_until(lambda: os.path.exists(held))
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE_S)
    tap.ok(process.returncode == 143 and wait_until(lambda: not has_held(held)), "a signal ends it and what it started", [str(process.returncode), *said])
    with open(os.path.join(out, "summary.json")) as file:
        parts = json.load(file)["parts"]
    tap.ok([part["status"] for part in parts] == ["ended", "not begun"], "and the summary has what there is", [str(parts)])


class Stop(BaseException):
    """What a handler would raise."""


def a_signal_at_a_start_ends_all(tap, program, directory):
    """A command that is started while the signal comes is ended too."""
    sys.path.insert(0, os.path.dirname(program))
    import bounded
    started = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *words, **more):
            super().__init__(*words, **more)
            started.append(self.pid)
            bounded.interrupt(Stop())

    bounded.subprocess = types.SimpleNamespace(Popen=Interrupted, DEVNULL=subprocess.DEVNULL)
    try:
        bounded.run(["sleep", "1000"], time.monotonic() + PATIENCE_S, os.path.join(directory, "interrupted"))
        stopped = False
    except Stop:
        stopped = True
    tap.ok(stopped and not is_running(started[0]), "a signal while a command is started ends it too", [str(started)])
    for pid in filter(is_running, started):
        os.kill(pid, signal.SIGKILL)


def refusals(tap, program, psring, parity, directory):
    common = ("--psring", psring, "--parity", parity)
    call = Call(program, os.path.join(directory, "none"), *common, env=dict(os.environ, PSR_CUDA_EMULATOR_DEVICES="0"))
    tap.ok(call.status == 2 and call.told == "gpu_check: the emulator was told to have no device\n" and not os.path.exists(call.out),
           "without a device: one line and status 2", call.why())
    call = Call(program, os.path.join(directory, "none"), "--psring", script(os.path.join(directory, "alone.sh"), "#!/bin/sh\n"))
    tap.ok(call.status == 2 and "there is no psring-worker beside" in call.told and call.told.count("\n") == 1, "without programs: one line", call.why())
    told = script(os.path.join(directory, "psring-worker-cuda"), WORKER)
    for name in ("psring-worker", "psring-ps", "psring-scheduler"):
        script(os.path.join(directory, name), "#!/bin/sh\n")
    below = os.path.join(directory, "wheels")
    for name in ("cu13/libcudart.so.13", "cudnn/libcudnn.so.9", "nccl/libnccl.so.2"):
        os.makedirs(os.path.dirname(os.path.join(below, name)))
        open(os.path.join(below, name), "w").close()
    call = Call(program, os.path.join(directory, "none"), "--psring", os.path.join(directory, "alone.sh"), "--parity", told, "--nvidia", below,
                env=dict(os.environ, LD_LIBRARY_PATH="/elsewhere"))
    tap.ok(call.status == 2 and call.told == "gpu_check: %s:/elsewhere\n" % ":".join(os.path.join(below, name) for name in ("cu13", "cudnn", "nccl")),
           "NVIDIA's libraries are found below a folder", call.why())
    call = Call(program, directory, *common)
    tap.ok(call.status == 2 and "is there already; give another --out" in call.told, "results are not written over", call.why())


def resolved(program, folder):
    """{name: path} of the libraries that a program finds, with that folder."""
    said = subprocess.run(["ldd", program], env=dict(os.environ, LD_LIBRARY_PATH=folder), capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^\s*(\S+) => (.*?)(?: \(0x\w+\))?$", said, re.M))


def a_pack_has_all(tap, program, psring, parity, directory):
    nvidia, tar = os.path.join(directory, "nvidia"), os.path.join(directory, "pack.tar")
    os.mkdir(nvidia)
    for name in ("libcudart.so.13", "libcudnn.so.9", "libcudnn_ops.so.9", "libcudnn_ops.so.9.19.0", "libother.so.1"):
        open(os.path.join(nvidia, name), "w").close()
    words = ("--psring", psring, "--parity", parity, "--pack", tar, "--nvidia", nvidia)
    call = Call(program, os.path.join(directory, "unused"), *words)
    tap.ok(call.status == 2 and call.told == "gpu_check: --nvidia: there is no libnccl.so.2 below %s\n" % nvidia and not os.path.exists(tar),
           "a library of NVIDIA's that is missing is named", call.why())
    open(os.path.join(nvidia, "libnccl.so.2"), "w").close()
    call = Call(program, os.path.join(directory, "unused"), *words)
    if not tap.ok(call.status == 0, "a pack is made", call.why()):
        return
    with tarfile.open(tar) as file:
        file.extractall(directory)
    root = os.path.join(directory, "psring-gpu")
    tap.ok(sorted(os.listdir(os.path.join(root, "nvidia"))) == ["libcudart.so.13", "libcudnn.so.9", "libcudnn_ops.so.9", "libnccl.so.2"],
           "it has NVIDIA's libraries, each once", os.listdir(os.path.join(root, "nvidia")))
    lib = os.path.join(root, "lib")
    programs = [os.path.join(root, "bin", name) for name in sorted(os.listdir(os.path.join(root, "bin"))) if name != "recipes"]
    outside = {name: path for each in programs for name, path in resolved(each, lib).items() if os.path.dirname(path) != lib}
    tap.ok([os.path.basename(each) for each in programs] == ["gpu_parity", "psring", "psring-ps", "psring-scheduler", "psring-worker", "psring-worker-cuda"]
           and all(re.match(r"(lib(c|m|mvec|pthread|dl|rt|resolv)|ld-linux.*)\.so\.", name) for name in outside),
           "its programs find all libraries but glibc's in it", [str(outside)])
    with open(os.path.join(root, "HOW-TO-RUN")) as file:
        said = file.read()
    tap.ok("LD_LIBRARY_PATH=$PWD/lib:$PWD/nvidia" in said and re.search(r"glibc 2\.\d+ or later", said), "it says how to run it", said.splitlines())
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    call = Call(os.path.join(root, "bench", "gpu_check"), os.path.join(directory, "packed"), "--small", "--only", "machine,properties,large", env=env)
    tap.ok(call.status == 0 and call.summary()["packed"].startswith("of ") and len(call.parts()["large"]["rows"]) == 3
           and call.parts()["properties"]["rows"], "and it runs from there", call.why())


def main():
    program, psring, parity = (os.path.abspath(path) for path in sys.argv[1:4])
    tap = Tap()
    with Workspace() as directory:
        if sys.argv[4] == "pack":
            a_pack_has_all(tap, program, psring, parity, directory)
        elif sys.argv[4] == "played":
            failures_are_told(tap, program, psring, directory)
            time_runs_out(tap, program, psring, parity, directory)
            a_signal_ends_all(tap, program, psring, parity, directory)
            a_signal_at_a_start_ends_all(tap, program, directory)
            refusals(tap, program, psring, parity, directory)
        else:
            check_parts(tap, program, psring, parity, directory, ALL if sys.argv[4] == "all" else SAMPLE)
            without_torch(tap, program, psring, parity, directory)
    tap.end()


if __name__ == "__main__":
    main()
