"""The parts of bench/gpu_check: what each runs on the machine, and what it takes down. A part is a
function of a Part, which bounds its time and writes what it has after each command."""
import json
import os
import platform
import re
import shutil
import statistics
import sys
import time

import bounded
from beside import PEERS, metrics_of, processor, step_figures, train_command

HAND_WRITTEN = PEERS.parent.parent / "tests" / "unit" / "model" / "cuda" / "devices"
WAYS = ("eager", "graphs", "compile")
SANITIZER = "/usr/local/cuda/bin/compute-sanitizer"

# What is trained and compared. The small ones are for tests of these scripts on a GPU that the
# processor plays.
GRAY, COLOUR = "channels=1,size=28", "channels=3,size=32"
SIZES = {
    "operators": ["operators"],
    "networks": ["networks"],
    "large": ["large"],
    "sanitized": ["conv_16_33", "everything", "convnet"],
    "bits": [dict(model="resnet20", data="synthetic:count=400,test=20," + COLOUR, steps=5, precision="fp32", **{"batch-size": 16}),
             dict(model="resnet18", data="synthetic:count=400,test=20," + COLOUR, steps=5, precision="bf16", **{"batch-size": 16})],
    "nccl": dict(model="resnet20", data="synthetic:count=400,test=20," + COLOUR, steps=5, **{"batch-size": 16}),
    "resnet50": dict(model="resnet50", size=224, batch=256, steps=30, skip=10),
    "resnet18": dict(model="resnet18", size=32, batch=128, steps=150, skip=30),
    "exchange": dict(model="resnet18", size=32, batch=128, steps=60, skip=20),
}
SMALL = {
    "operators": ["norm_add", "pools"],
    "networks": ["mlp"],
    "large": ["convnet"],
    "sanitized": ["norm"],
    "bits": [dict(model="mlp", data="synthetic:count=49,test=20," + GRAY, steps=2, precision="fp32", **{"batch-size": 8})],
    "nccl": dict(model="mlp", data="synthetic:count=49,test=20," + GRAY, steps=2, **{"batch-size": 8}),
    "resnet50": dict(model="mlp", size=28, batch=8, steps=2, skip=1),
    "resnet18": dict(model="mlp", size=28, batch=4, steps=2, skip=1),
    "exchange": dict(model="mlp", size=28, batch=4, steps=2, skip=1),
}


class LeftOut(Exception):
    """What the part needs is not there."""


class Part:
    """What a part takes down, and its commands. check: what all parts know (gpu_check's Check)."""

    def __init__(self, check, name, title, folder, limit_s):
        self.check, self.name, self.title, self.folder, self.limit_s = check, name, title, folder, limit_s
        self.began = time.monotonic()
        self.status, self.why, self.seconds = "under way", "", 0.0
        self.lines, self.heads, self.rows, self.figures, self.wrong = [], [], [], {}, []

    def left_s(self):
        return self.began + self.limit_s - time.monotonic()

    def say(self, line):
        self.lines.append(line)

    def fail(self, line):
        """The part has failed, and goes on."""
        self.wrong.append(line)

    def record(self):
        return {"part": self.name, "title": self.title, "status": self.status, "why": self.why, "seconds": round(self.seconds, 1),
                "limit_s": round(self.limit_s, 1), "lines": self.lines, "heads": self.heads, "rows": self.rows, "figures": self.figures}

    def save(self):
        self.seconds = time.monotonic() - self.began
        write(os.path.join(self.folder, "result.json"), json.dumps(self.record(), indent=1) + "\n")

    def command(self, name, words, may_fail=False, env=None):
        """bounded.Done. name: of the files with what it says."""
        done = bounded.run(words, self.began + self.limit_s, os.path.join(self.folder, name), env or self.check.env)
        self.save()
        if done.status != 0 and not may_fail:
            raise bounded.Failed(done)
        return done

    def train(self, name, options):
        """The lines of a run's metrics. Its checkpoints are not kept."""
        out = os.path.join(self.folder, name)
        try:
            self.command(name, train_command(self.check.psring, out, dict(options, device="cuda")))
            return metrics_of(out)
        finally:
            shutil.rmtree(os.path.join(out, "checkpoints"), ignore_errors=True)


def write(path, text):
    """Beside, and renamed: it is whole whenever this ends."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def rate_of(found):
    return ["%.1f" % found["images_per_s"], "%.2f" % (1000 * found["step_s"])]


# ---- the machine ----

def machine(part):
    check, facts = part.check, part.figures
    facts["devices"], facts["libraries"], facts["missing"] = check.devices, check.libraries, check.missing
    facts["host"] = "%d x %s, Linux %s, glibc %s" % (os.cpu_count(), processor(), platform.release(), platform.libc_ver()[1] or "unknown")
    facts["python"] = sys.version.split()[0]
    facts["psring"] = part.command("version", [check.psring, "--version"]).out.strip()
    if shutil.which("nvidia-smi"):
        told = part.command("nvidia-smi", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm",
                                           "--format=csv,noheader"], may_fail=True)
        facts["nvidia-smi"] = told.out.strip().splitlines() if told.status == 0 else told.last_line()
    else:
        facts["nvidia-smi"] = "there is none"
    doctor = json.loads(part.command("doctor", [check.psring, "doctor", "--json"], may_fail=True).out)
    facts["doctor"] = ["%s: %s" % (finding["check"], finding["what"]) for finding in doctor["findings"]]
    facts["PyTorch"] = check.find_torch(part)
    part.heads = ["what", "found"]
    for name, fact in facts.items():
        part.rows.append([name, "; ".join(fact) if isinstance(fact, list) else fact or "none"])
    if check.missing:
        part.fail(check.missing)


def properties(part):
    """Each device's, in the form of those that were written by hand, and what differs from them."""
    folder = os.path.join(part.check.out, "devices")
    os.makedirs(folder, exist_ok=True)
    part.heads = ["device", "property", "by hand", "the device"]
    for index in range(part.check.device_count):
        told = json.loads(part.command("device-%d" % index, [part.check.worker, "properties", index]).out)
        name = "sm_%d.json" % (told["deviceVer"] // 10)
        path = os.path.join(folder, name if index == 0 else "%d-%s" % (index, name))
        write(path, json.dumps(told, indent=2) + "\n")
        part.figures["device %d" % index] = told
        part.say("GPU %d, %s: `devices/%s`." % (index, told["deviceName"], os.path.basename(path)))
        if not (HAND_WRITTEN / name).exists():
            part.say("There is no %s that was written by hand." % name)
            continue
        by_hand = json.loads((HAND_WRITTEN / name).read_text())
        for field in sorted(by_hand.keys() | told.keys()):
            if by_hand.get(field) != told.get(field):
                part.rows.append([str(index), field] + ["none" if field not in of else json.dumps(of[field]) for of in (by_hand, told)])


# ---- numbers ----

def compare(part, words, name="parity", before=()):
    """Runs gpu_parity, and takes down each case that it came to."""
    part.heads = ["case", "outcome", "largest error, of what is allowed", "where"]
    overran = None
    try:
        done = part.command(name, [*before, part.check.parity, *words], may_fail=True)
    except bounded.Overran as end:
        overran, done = end, end.done
    errors = {found[0]: found[1:] for found in re.findall(r"^# (.+): (\S+) of what is allowed \((.*)\)$", done.out, re.M)}
    for outcome, case in re.findall(r"^(ok|not ok) \d+ - (.+)$", done.out, re.M):
        share, where = errors.get(case, ("", "it ended before it was compared"))
        part.rows.append([case, "good" if outcome == "ok" else "WRONG", share, where])
        part.figures[case] = {"good": outcome == "ok", "share": float(share) if share else None}
        if outcome != "ok":
            part.fail("%s differs" % case)
    if overran:
        raise overran
    if done.status not in (0, 1) or (done.status == 1 and not part.wrong) or not part.rows:
        part.fail(str(bounded.Failed(done)))
    return done


def numbers_of(size):
    def compare_size(part):
        compare(part, part.check.sizes[size])
    return compare_size


def hashes_of(metrics, ranks):
    """Of each step. ValueError: ranks differ, or one is missing."""
    steps = {}
    for line in metrics:
        if "hash" in line:
            steps.setdefault(line["step"], {})[line["rank"]] = line["hash"]
    for step, of_ranks in steps.items():
        if len(of_ranks) != ranks or len(set(of_ranks.values())) != 1:
            raise ValueError("step %d: workers' weights differ: %s" % (step, of_ranks))
    return [of_ranks[0] for _, of_ranks in sorted(steps.items())]


def bits(part):
    """Each command twice: all calls of all modes must have the same weights after every step."""
    part.heads = ["network", "mode", "call", "steps", "last hash", "outcome"]
    for options in part.check.sizes["bits"]:
        first, network = None, "%s %s" % (options["model"], options["precision"])
        for call in (1, 2):
            for mode in (dict(mode="ring"), dict(mode="ps", shards=2), dict(mode="local")):
                name = "%s-%s-%d" % (options["model"], mode["mode"], call)
                hashes = hashes_of(part.train(name, dict(options, workers=3, seed=11, lr=0.05, hash=True, **mode)), 3)
                first = first or hashes
                same = hashes == first and len(hashes) == options["steps"]
                if not same:
                    part.fail("%s: the weights of %s, call %d, are others than those of the first call" % (network, mode["mode"], call))
                part.rows.append([network, mode["mode"], str(call), str(len(hashes)), hashes[-1] if hashes else "none",
                                  "same" if same else "OTHER"])


def sanitize(tool):
    """compute-sanitizer over small cases: what they compute is compared too."""
    def run(part):
        program = part.check.sanitizer or shutil.which("compute-sanitizer") or (SANITIZER if os.path.exists(SANITIZER) else None)
        if program is None:
            raise LeftOut("compute-sanitizer is not on this machine")
        done = compare(part, part.check.sizes["sanitized"], tool,
                       [program, "--tool", tool, "--error-exitcode", "9", "--target-processes", "all"])
        said = re.findall(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*)$", done.out + "\n" + done.err, re.M)
        part.say("%s: %s" % (tool, said[-1] if said else "it told no summary"))
        if not said:
            part.fail("%s told no summary: %s" % (tool, done.last_line()))
    return run


def nccl(part):
    """One worker a GPU; and two, which NCCL may refuse where there is one GPU. Losses beside a
    ring's."""
    part.heads = ["workers", "outcome", "losses beside a ring's"]
    for workers in (1, 2):
        options = dict(part.check.sizes["nccl"], workers=workers, seed=11, lr=0.05)
        ring = {(line["step"], line["rank"]): line["loss"] for line in part.train("ring-%d" % workers, dict(options, mode="ring"))}
        try:
            found = {(line["step"], line["rank"]): line["loss"] for line in part.train("nccl-%d" % workers, dict(options, mode="nccl"))}
        except bounded.Failed as failed:
            part.rows.append([str(workers), "ended: " + failed.done.last_line(), "none"])
            if workers <= part.check.device_count:
                part.fail("%d workers: %s" % (workers, failed.done.last_line()))
            else:
                part.say("%d workers on %d GPU: NCCL may refuse that, and did: no failure of psring's." % (workers, part.check.device_count))
            continue
        far = max(abs(found.get(at, float("inf")) - loss) / loss for at, loss in ring.items() if loss is not None)
        part.rows.append([str(workers), "good" if far <= 1e-3 else "WRONG", "%.1e apart (1e-3 is allowed)" % far])
        if not far <= 1e-3:
            part.fail("%d workers: losses are %.1e apart from a ring's" % (workers, far))


# ---- speed ----

def of_size(size):
    """Options of a training run on data that is made as it goes."""
    gray, large = size["model"] in ("mlp", "convnet"), size["size"] >= 64
    return {"model": size["model"], "batch-size": size["batch"], "steps": size["skip"] + size["steps"] + 1, "seed": 1, "lr": 0.01,
            "momentum": 0.9, "weight-decay": 1e-4, "no-eval": True,
            "data": "synthetic:size=%d,channels=%d,classes=%d,count=%d,test=8" % (
                size["size"], 1 if gray else 3, 1000 if large else 10, 4 * size["batch"])}


def name_of(size):
    return "%s, %d px, batch %d" % (size["model"], size["size"], size["batch"])


def speed(size_name):
    """One worker's training beside PyTorch's steps, which take turns as far as time allows."""
    def measure(part):
        size = part.check.sizes[size_name]
        part.say("%s, bf16, generated images, one worker; medians of %d steps after %d." % (name_of(size), size["steps"], size["skip"]))
        part.heads = ["", "images/s", "step, ms", "of it waits for images"]
        rates = []

        def ours(name):
            metrics = part.train(name, dict(of_size(size), mode="ring", workers=1, precision="bf16"))
            found = step_figures(metrics, size["batch"], size["skip"])
            rates.append(found["images_per_s"])
            part.figures[name] = found
            part.rows.append(["psring" if name == "psring" else "psring, again", *rate_of(found), "%.1f%%" % (100 * found["load_wait_share"])])

        ours("psring")
        theirs = {}
        try:
            peers(part, size, theirs)
            if theirs:
                ours("psring-again")
        finally:  # what was measured is told, also where time has run out
            tell_ratio(part, statistics.median(rates), theirs)
    return measure


def peers(part, size, rates):
    """PyTorch's rates, by way. One that fails is told, and the others are measured."""
    check = part.check
    check.find_torch(part)
    for way in WAYS if check.torch else ():
        words = [check.python, PEERS / "torch_gpu.py", "--way", way, "--steps", size["steps"], "--skip", size["skip"], "--model", size["model"],
                 "--image-size", size["size"], "--batch-size", size["batch"]]
        done = part.command("torch-" + way, words, may_fail=True, env=check.plain_env)
        if done.status != 0:
            part.rows.append(["PyTorch, " + way, "none", "none", done.last_line()])
            continue
        found = json.loads(done.out.splitlines()[-1])
        rates[way] = found["images_per_s"]
        part.figures["PyTorch, " + way] = found
        part.rows.append(["PyTorch, " + way, *rate_of(found), "its images are on the GPU"])


def tell_ratio(part, rate, theirs):
    if theirs:
        best = max(theirs, key=theirs.get)
        part.figures["ratio"] = rate / theirs[best]
        part.say("psring over the best of PyTorch (%s, channels_last): %.2f. psring's rate is of whole training, with its loader, "
                 "the copies to the GPU and the optimizer on the host." % (best, rate / theirs[best]))
    else:
        part.say("No ratio was measured: %s." % (part.check.no_torch or "no way of PyTorch's came to an end"))


def exchange(part):
    """Two workers, that share a GPU where there is one: how much of a step waits for the
    exchange."""
    size = part.check.sizes["exchange"]
    part.say("%s per worker, bf16, generated images, two workers on %s; medians of %d steps after %d." % (
        name_of(size), "one GPU" if part.check.device_count == 1 else "a GPU each", size["steps"], size["skip"]))
    part.heads = ["", "images/s", "step, ms", "exposed", "step beside no exchange"]
    alone_s = None
    for name, mode in (("no exchange", {"mode": "ring", "no-exchange": True}), ("ring", {"mode": "ring"}), ("ps, 1 shard", {"mode": "ps", "shards": 1})):
        metrics = part.train(name.split(",")[0].replace(" ", "-"), dict(of_size(size), workers=2, precision="bf16", **mode))
        found = step_figures(metrics, size["batch"], size["skip"])
        alone_s = alone_s or found["step_s"]
        part.figures[name] = found
        part.rows.append([name, *rate_of(found), "%.1f%%" % (100 * found["wait_share"]), "%.3f" % (found["step_s"] / alone_s)])


def cifar(part):
    """The recipe airbench94-cifar10 in bf16."""
    data = part.check.cifar
    if data is None:
        raise LeftOut("--cifar names no CIFAR-10")
    part.heads = ["recipe", "of the test set", "training, s"]
    part.train("run", {"recipe": "airbench94-cifar10", "data": data, "mode": "ring", "workers": 1, "precision": "bf16"})
    with open(os.path.join(part.folder, "run", "run.json")) as file:
        outcome = json.load(file)["outcome"]
    part.figures.update({"test_accuracy": outcome["test_accuracy"], "train_s": outcome["train_s"]})
    part.rows.append(["airbench94-cifar10", "%.2f%%" % (100 * outcome["test_accuracy"]), "%.1f" % outcome["train_s"]])
    if outcome["test_accuracy"] < 0.94:
        part.fail("%.2f%% of the test set are right, and the recipe is for 94" % (100 * outcome["test_accuracy"]))


# In order of importance: name, what it is, limit in seconds, function.
PARTS = [
    ("machine", "The machine", 40, machine),
    ("properties", "The device's properties", 20, properties),
    ("operators", "Operators beside the reference back end", 75, numbers_of("operators")),
    ("bits", "The same command twice, in every mode", 80, bits),
    ("networks", "Networks beside the processor's back end", 60, numbers_of("networks")),
    ("resnet50", "ResNet-50", 110, speed("resnet50")),
    ("memcheck", "compute-sanitizer: memory", 45, sanitize("memcheck")),
    ("exchange", "The exchange of two workers", 60, exchange),
    ("nccl", "Sums by NCCL", 40, nccl),
    ("resnet18", "ResNet-18", 60, speed("resnet18")),
    ("cifar", "CIFAR-10 to 94%", 120, cifar),
    ("large", "ResNets of 224 px beside the processor's back end", 45, numbers_of("large")),
    ("racecheck", "compute-sanitizer: shared memory", 45, sanitize("racecheck")),
]
