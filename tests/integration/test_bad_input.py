#!/usr/bin/env python3
"""Bad input gets one line that says what, where and what would be right, exit status 2, and nothing
is written.

usage: test_bad_input.py PSRING

Prints TAP, and at the end each input with the line that it got."""

import gzip
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from functools import partial

from psring_live import Live
from psring_run import PATIENCE_S, Run, Tap, Workspace, together

SIDE, TRAIN, TEST = 28, 48, 16

TINY = {"model": "mlp", "data": "synthetic:count=48,test=16,channels=1,size=28", "workers": 2, "batch-size": 4, "steps": 2,
        "threads": 1, "lr": 0.05}


# ---- data sets ----

def idx_images(count, magic=2051, bytes_less=0, bytes_more=0):
    pixels = bytes((i * 37) % 251 for i in range(count * SIDE * SIDE))
    data = struct.pack(">IIII", magic, count, SIDE, SIDE) + pixels
    return data[:len(data) - bytes_less] + b"\0" * bytes_more


def idx_labels(count, bad_at=None):
    labels = bytearray(i % 10 for i in range(count))
    if bad_at is not None:
        labels[bad_at] = 10
    return struct.pack(">II", 2049, count) + bytes(labels)


def mnist_like(folder, **replaced):
    """A whole data set of the MNIST family in a few files; replaced: {"train_images": bytes or
    None} and the like."""
    os.makedirs(folder)
    files = {"train_images": ("train-images-idx3-ubyte", idx_images(TRAIN)), "test_images": ("t10k-images-idx3-ubyte", idx_images(TEST)),
             "train_labels": ("train-labels-idx1-ubyte", idx_labels(TRAIN)), "test_labels": ("t10k-labels-idx1-ubyte", idx_labels(TEST))}
    for key, (name, data) in files.items():
        data = replaced.get(key, data)
        if isinstance(data, tuple):  # (ending, bytes)
            name, data = name + data[0], data[1]
        if data is not None:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
    return folder


def cifar10(folder, batch=None, data=None):
    """All files of CIFAR-10 with records of zeros, which are all of class 0; one batch's bytes may
    be replaced."""
    os.makedirs(folder)
    whole = bytes(10000 * 3073)
    for name in ["data_batch_%d.bin" % i for i in range(1, 6)] + ["test_batch.bin"]:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data if name == batch else whole)
    return folder


# ---- checkpoints ----

def read_tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for name, t in header.items()}


def write_tensors(path, tensors):
    """As another program would: without checksums."""
    header, at = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))


def copy_of(path, to, change):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data = change(data) or data
    with open(to, "wb") as file:
        file.write(data)
    return to


def flip(data):
    data[-1000] ^= 0x10


def claim_much(data):
    data[:8] = struct.pack("<Q", 1 << 60)


# ---- a case ----

class Inputs:
    """Those of one part, in a directory of its own."""

    def __init__(self, psring, directory, tap):
        self.psring, self.directory, self.tap = psring, directory, tap
        os.mkdir(directory)
        self.rows = []
        self.count = 0

    def path(self, name):
        return os.path.join(self.directory, name)

    def refuse(self, what, patterns, out=None, prefix=(), may_be_there=False, status=2, **options):
        """psring train with these options must be refused in one line in which all patterns are
        found."""
        self.count += 1
        name = "run-%d" % self.count
        out = out or self.path(name)
        words = ["--%s=%s" % (key.replace("_", "-"), value) if value is not True else "--" + key.replace("_", "-")
                 for key, value in dict({k.replace("-", "_"): v for k, v in TINY.items()}, **options).items() if value is not None]
        live = Live(list(prefix) + [self.psring, "train", "--out", out] + words, self.directory, name)
        return self.judge(what, patterns, live, None if may_be_there else out, status)

    def judge(self, what, patterns, live, out, right=2):
        try:
            status = live.wait(PATIENCE_S)
        finally:
            left = live.kill()
        said = live.text("err")
        faults = []
        if status != right:
            faults.append("exit status %s" % status)
        if len(said) != 1:
            faults.append("%d lines on stderr" % len(said))
        line = " ".join(said)
        faults += ["the line lacks '%s'" % pattern for pattern in patterns if not re.search(pattern, line)]
        if out and os.path.isdir(out):
            faults.append("%s was written" % out)
        if left:
            faults.append("still running: %s" % left)
        faults += ["%s was left" % path for path in live.leftovers()]
        self.rows.append((what, said[-1] if said else "(nothing)"))
        self.tap.ok(not faults, what, faults + live.why())
        return live

    def skip(self, what, why):
        self.tap.ok(True, "%s # SKIP %s" % (what, why))


# ---- the list ----

def data_files(t):
    bad = lambda name, **replaced: mnist_like(t.path(name), **replaced)
    t.refuse("a data directory that is not there", ["no-such", "no such directory", "synthetic"], data=t.path("no-such"))
    folder = bad("no-labels", train_labels=None)
    t.refuse("a data file that is missing", ["no-labels/train-labels-idx1-ubyte: missing", r"\.gz"], data=folder)
    folder = bad("short-images", train_images=idx_images(TRAIN, bytes_less=100))
    t.refuse("a truncated data file", ["train-images-idx3-ubyte: truncated", "37548", "should have 37648"], data=folder)
    folder = bad("magic", train_images=idx_images(TRAIN, magic=2049))
    t.refuse("a data file with a wrong magic", ["train-images-idx3-ubyte", "magic 0x00000801", "should be 0x00000803"], data=folder)
    folder = bad("long-images", test_images=idx_images(TEST, bytes_more=1))
    t.refuse("an over-long data file", ["t10k-images-idx3-ubyte: over-long", "12560"], data=folder)
    folder = bad("label", train_labels=idx_labels(TRAIN, bad_at=7))
    t.refuse("more classes than --classes", ["--classes: 10 are too few for label", "up to 10", "give 11"], data=folder, classes=10)
    packed = gzip.compress(idx_images(TRAIN))
    folder = bad("short-gz", train_images=(".gz", packed[:len(packed) // 2]))
    t.refuse("a truncated packed data file", [r"train-images-idx3-ubyte\.gz: truncated"], data=folder)
    folder = bad("counts", train_labels=idx_labels(TRAIN - 1))
    t.refuse("labels that are fewer than the images", ["train-labels-idx1-ubyte", "47 labels", "should be 48"], data=folder)
    records = bytearray(10000 * 3073)
    records[5 * 3073] = 10
    folder = cifar10(t.path("cifar-label"), "data_batch_3.bin", bytes(records))
    t.refuse("a label of CIFAR-10 out of range", [r"data_batch_3\.bin", "label 10 of sample 5 at byte 15365", r"should be 0\.\.9"],
             data=folder)
    shutil.rmtree(folder)
    folder = cifar10(t.path("cifar-short"), "test_batch.bin", bytes(3073 * 10000 - 1))
    t.refuse("a truncated file of CIFAR-10", [r"test_batch\.bin: truncated", "30730000"], data=folder)
    shutil.rmtree(folder)


def checkpoints(t):
    run = Run(t.psring, t.directory, "good", dict(TINY, **{"checkpoint-every": 1}))
    if not t.tap.ok(run.status == 0, "a run that makes the checkpoints for these tests", run.why()):
        return
    last = os.path.join(run.out, "checkpoints", "step-2")
    model = os.path.join(last, "model.safetensors")
    tensors = read_tensors(model)
    names = list(tensors)

    t.refuse("--init: a checkpoint with a flipped byte", [r"flipped\.safetensors", r"tensor \S+: its bytes do not match"],
             init=copy_of(model, t.path("flipped.safetensors"), flip))
    write_tensors(t.path("missing.safetensors"), {name: tensors[name] for name in names[1:]})
    t.refuse("--init: a checkpoint that lacks a tensor", [r"missing\.safetensors", "1 of 6 tensors do not fit mlp: %s is missing" % re.escape(names[0])],
             init=t.path("missing.safetensors"))
    shape, data = tensors[names[0]]
    write_tensors(t.path("shape.safetensors"), dict(tensors, **{names[0]: (shape[::-1] + [1], data)}))
    t.refuse("--init: a tensor of a wrong shape", [r"shape\.safetensors", "%s is [0-9x]+ rather than [0-9x]+" % re.escape(names[0])],
             init=t.path("shape.safetensors"))
    t.refuse("--init: a header that claims 2^60 bytes", [r"much\.safetensors", "header of 1152921504606846976 bytes in a file of"],
             init=copy_of(model, t.path("much.safetensors"), claim_much))
    t.refuse("--init: a truncated checkpoint", [r"torn\.safetensors"],
             init=copy_of(model, t.path("torn.safetensors"), lambda data: data[:len(data) // 2]))
    t.refuse("--init: a file that is not there", [r"absent\.safetensors", "No such file"], init=t.path("absent.safetensors"))
    os.mkdir(t.path("no-checkpoint"))
    t.refuse("--resume: a directory without a checkpoint", ["neither a checkpoint", "checkpoints/"], resume=t.path("no-checkpoint"),
             steps=4)
    t.refuse("--resume: a run of another optimizer", ["is of --optimizer sgd", "--optimizer is adam", "--init"], resume=run.out,
             optimizer="adam", steps=4)
    t.refuse("--resume: a run of another model", ["model mlp", "--model is convnet"], resume=run.out, model="convnet", steps=4)
    t.refuse("--resume: a run that has more steps already", ["step 2", "--steps"], resume=run.out, steps=1)

    for what, file, change in (("with a flipped byte", "state.safetensors", flip),
                               ("that claims 2^60 bytes", "model.safetensors", claim_much)):
        folder = t.path("resume-" + file)
        shutil.copytree(last, folder)
        copy_of(os.path.join(last, file), os.path.join(folder, file), change)
        t.refuse("--resume: a checkpoint %s" % what, [re.escape(file)], resume=folder, steps=4)

    # Of a run directory, the checkpoint before a damaged one is used, in so many words.
    undisturbed = Run(t.psring, t.directory, "undisturbed", dict(TINY, steps=4))
    copy_of(model, model, flip)
    again = Run(t.psring, t.directory, "again", dict(TINY, steps=4, resume=run.out))
    said = again.stdout + again.stderr
    t.tap.ok(again.status == 0 and undisturbed.status == 0 and again.outcome()["hash"] == undisturbed.outcome()["hash"],
             "--resume of a run whose last checkpoint is damaged goes on from the one before, to the same bits", again.why())
    t.tap.ok("step-2" in said and "the one before it" in said, "it names the checkpoint that it passes over", [said])
    t.rows.append(("--resume: a run whose last checkpoint is damaged",
                   next((line for line in said.splitlines() if "the one before it" in line), "(nothing)")))


def special_files(t):
    """Each would keep a program that opens or reads it as a file: a FIFO nobody writes to, a device
    without an end, a directory."""
    def fifo(path):
        os.mkfifo(path)

    def zeros(path):
        os.symlink("/dev/zero", path)

    for kind, make, said in (("a FIFO", fifo, "is something special, not a file"), ("/dev/zero", zeros, "is something special, not a file"),
                             ("a directory", os.mkdir, "is a directory, not a file")):
        folder = mnist_like(t.path("data-%s" % make.__name__), train_labels=None)
        make(os.path.join(folder, "train-labels-idx1-ubyte"))
        t.refuse("%s in the place of a data file" % kind, ["train-labels-idx1-ubyte: %s" % said], data=folder)
        folder = t.path("checkpoint-%s" % make.__name__)
        os.mkdir(folder)
        make(os.path.join(folder, "model.safetensors"))
        t.refuse("%s in the place of a checkpoint, --init" % kind, ["--init", r"model\.safetensors: %s" % said], init=folder)
        t.refuse("%s in the place of a checkpoint, --resume" % kind, [r"model\.safetensors: %s" % said], resume=folder)
        path = t.path("hosts-%s" % make.__name__)
        make(path)
        t.refuse("%s as --hostfile" % kind, ["%s: %s" % (re.escape(path), said)], hostfile=path)
        path = t.path("config-%s" % make.__name__)
        if make != os.mkdir:  # that is a run's
            make(path)
            t.refuse("%s as --config" % kind, ["%s: %s" % (re.escape(path), said)], config=path)


def hostfiles(t):
    def hostfile(name, text):
        with open(t.path(name), "w") as file:
            file.write(text)
        return t.path(name)

    t.refuse("a hostfile with a bad line", ["hosts-bad line 3", "slots=many", "'HOST slots=N max_slots=M'"],
             hostfile=hostfile("hosts-bad", "# two hosts\nlocalhost slots=1\nlocalhost slots=many\n"))
    t.refuse("a hostfile that names no host", ["hosts-none", "names no host"], hostfile=hostfile("hosts-none", "# nobody\n\n"))
    t.refuse("a hostfile that is not there", ["hosts-absent", "No such file"], hostfile=t.path("hosts-absent"))
    t.refuse("more workers than slots", ["--workers 2", "1 slots"], hostfile=hostfile("hosts-few", "localhost slots=1\n"))
    t.refuse("more workers than max_slots", ["--workers 9", "room for 3 by their max_slots"], workers=9,
             hostfile=hostfile("hosts-max", "localhost slots=1 max_slots=3\n"))
    t.refuse("a range of hosts that goes down", ["hosts-range line 1", "node\\[4-1\\]", "ranges that go up"],
             hostfile=hostfile("hosts-range", "node[4-1] slots=2\n"))
    t.refuse("more shards than slots of --ps-hostfile", ["--shards 2", "--ps-hostfile", "1 slots"], mode="ps", shards=2,
             **{"ps-hostfile": hostfile("hosts-ps", "localhost\n")})


def options(t):
    t.refuse("an option that does not exist", ["--batchsize", "batch-size"], batchsize=4)
    t.refuse("a model that does not exist", ["--model", "resnet21", "resnet20"], model="resnet21")
    t.refuse("sums of GPUs without one", ["--mode nccl does not go with --device cpu", "give --device cuda"], mode="nccl")
    t.refuse("a precision that this build has not", ["--precision fp16 does not go with --device cpu", "fp32 or bf16"], precision="fp16")
    t.refuse("a device that does not exist", ["'gpu' is not a device", "cuda:I"], device="gpu")
    t.refuse("sums of several batches on a GPU", ["--device cuda does not go with --accumulate 2"], device="cuda", accumulate=2)
    t.refuse("another back end on a GPU", ["--device cuda:1 does not go with --backend reference"], device="cuda:1", backend="reference")
    t.refuse("a step of --augment that does not exist", ["--augment: 'flop' is not a step", "crop, flip, resize"], augment="crop:28:3,flop")
    t.refuse("--image-size beside a resize in --augment", ["--image-size 32 does not go with --augment flip,resize:64"],
             augment="flip,resize:64", **{"image-size": 32})
    t.refuse("a batch that no memory holds", ["8 workers of resnet50 with batches of 4000 need about", "GiB are free", "--no-memory-check"],
             model="resnet50", workers=8, mode="ring", data="synthetic:count=32000,test=1", augment="resize:224",
             **{"batch-size": 4000})
    t.refuse("a crop that is larger than the pictures", ["--augment crop:64:4: pictures of 28x28"], augment="crop:64:4")
    t.refuse("--shuffle-buffer without shuffling", ["--shuffle-buffer 8 does not go with --shuffle false"],
             **{"no-shuffle": True, "shuffle-buffer": 8})
    t.refuse("a slow worker that there is not", ["--slow 2:2", "--workers 2"], slow="2:2")
    t.refuse("--mean that is no number", ["--mean: 'grey'"], mean="grey")
    t.refuse("--mean for three channels of data with one", ["--mean: '0.5,0.4,0.3' has 3 numbers", "1 channel"], mean="0.5,0.4,0.3")
    t.refuse("--std of 0", ["--std: '0'", "above 0"], std="0")
    t.refuse("a number that is none", ["--lr", "fast"], lr="fast")
    t.refuse("a number out of range", ["--workers", "5000", "1024"], workers=5000)
    t.refuse("--sync ssp with --mode ring", ["--sync", "--mode"], sync="ssp:2", mode="ring")
    t.refuse("--shards with --mode local", ["--shards", "--mode"], shards=2, mode="local")
    t.refuse("--fold arrival with --mode ring", ["--fold", "--mode"], fold="arrival", mode="ring")
    t.refuse("--steps and --epochs", ["--epochs", "--steps"], epochs=1)
    t.refuse("neither --steps nor --epochs", ["--epochs", "--steps"], steps=None)
    t.refuse("--init and --resume", ["--init", "--resume"], init="a", resume="b")
    t.refuse("--nesterov with --optimizer adam", ["--nesterov", "--optimizer"], nesterov=True, optimizer="adam")
    t.refuse("--shortcut b with --model mlp", ["--shortcut", "--model"], shortcut="b")
    t.refuse("--precision bf16 with --backend reference", ["--precision", "--backend"], precision="bf16", backend="reference")
    t.refuse("a batch larger than the data", ["--batch-size", "100", "48 samples", "at most 24"], batch_size=100)
    with open(t.path("run.json"), "w") as file:
        file.write('{"config": {"mode": "ps", ')
    t.refuse("--config of a torn run.json", [r"--config \S*run\.json"], config=t.path("run.json"))


def foreign_config(t):
    """A run.json of somebody else's: what it sets that makes a run another one than it looks like
    is told, or refused."""
    def run_json(name, **config):
        with open(t.path(name), "w") as file:
            json.dump({"config": {key.replace("_", "-"): value for key, value in config.items()}}, file)
        return t.path(name)

    t.refuse("--config with a fault point", [r"stops\.json has --fault-point worker:0:forward:1", "only the command line"],
             config=run_json("stops.json", fault_point="worker:0:forward:1"))
    run = Run(t.psring, t.directory, "told", dict({key: value for key, value in TINY.items() if key != "mode"}, mode="ring",
                                                  config=run_json("told.json", exchange="false", slow="1:2")))
    notes = re.findall(r"^  note +(.*)$", run.stdout, re.MULTILINE)
    t.tap.ok(run.status == 0 and len(notes) == 2 and notes[0].startswith("--no-exchange: ") and notes[1].startswith("--slow 1:2: "),
             "--config with --no-exchange and --slow: both are told at the start", run.why())
    t.rows += [("told at the start", note) for note in notes]
    run = Run(t.psring, t.directory, "bare", dict({key: value for key, value in TINY.items() if key != "mode"}, mode="ring",
                                                  config=run_json("bare.json", transport="tcp", no_encrypt="this-machine")))
    told = run.stderr.splitlines()
    t.tap.ok(run.status == 0 and len(told) == 1 and re.fullmatch(r"psring train: \S+bare\.json has --transport tcp, --no-encrypt this-machine, which "
                                                                 r"only the command line can set: it is ignored", told[0])
             and re.search(r"^  network +.*\bipc sockets", run.stdout, re.MULTILINE) and "encrypt" not in run.stdout,
             "--config with --no-encrypt and a transport: both are ignored, and that is told", run.why())


def directories(t):
    os.mkdir(t.path("there"))
    t.refuse("--out that exists", ["there exists already"], out=t.path("there"), may_be_there=True)
    with open(t.path("file"), "w"):
        pass
    t.refuse("--out below a file", ["file/run", "no directory|Not a directory"], out=t.path("file/run"))
    os.mkdir(t.path("closed"))
    if os.geteuid() == 0:
        script = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, t.path("closed")]
        may_mount = subprocess.run(prefix + ["true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    else:
        prefix, may_mount = [], True
        os.chmod(t.path("closed"), 0o555)
    if may_mount:
        t.refuse("--out in a directory that may not be written", ["closed/run", "Read-only file system|Permission denied"],
                 out=t.path("closed/run"), prefix=prefix)
    else:
        t.skip("--out in a directory that may not be written", "root may write anywhere, and mounting is not allowed here")


def full_disk(t):
    """A file system of 7 MB, on which a run begins and its second checkpoint (of 5.4 MB each) does
    not end. The first is in place by then: nothing of the next is written before."""
    os.mkdir(t.path("small"))
    script = 'mount -t tmpfs -o size=7m none "$0" || exit 77; "$@"; status=$?; cd "$0" && find . | sed s/^/left:/; ' \
             'cat run/run.json; exit $status'
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, t.path("small")]
    if subprocess.run(prefix + ["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 77 \
            or os.geteuid() != 0:
        t.skip("a full disk", "needs root, to mount a small file system")
        return
    live = t.refuse("a full disk", ["small/run/checkpoints", "No space left on device"], out=t.path("small/run"), prefix=prefix,
                    status=1, checkpoint_every=2, steps=6)
    out = live.text("out")
    left = [line[5:] for line in out if line.startswith("left:")]
    torn = [path for path in left if re.search(r"/\.|\.part|\.tmp", path[1:])]
    t.tap.ok(not torn and "./run/checkpoints/step-2/model.safetensors" in left,
             "on a full disk the checkpoint before stays whole, and nothing half-written is left", left)
    text = "\n".join(line for line in out if not line.startswith("left:"))
    t.tap.ok('"outcome"' in text and "No space left on device" in text[text.index('"outcome"'):],
             "run.json says why the run ended", text.splitlines()[-20:])


def port_in_use(t):
    keys = subprocess.run([t.psring, "keygen", "--out", t.path("keys"), "--workers", "1", "--shards", "1"],
                          stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    scheduler = next(path for path in (os.path.join(os.path.dirname(t.psring), place, "psring-scheduler") for place in ("", "../ps"))
                     if os.path.exists(path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        live = Live([scheduler, "--key-file", keys[0], "--port", str(port), "--steps", "1", "--model", "mlp", "--out", t.path("by-hand")],
                    t.directory, "by-hand.live")
        t.judge("a port in use", ["port %d of 127" % port, "in use", "choose another"], live, t.path("by-hand"))


def main():
    with Workspace() as directory:
        psring, tap, rows = os.path.abspath(sys.argv[1]), Tap(), {}

        def play(part, tap):
            t = Inputs(psring, os.path.join(directory, part.__name__), tap)
            part(t)
            rows[part] = t.rows

        parts = (checkpoints, options, foreign_config, data_files, hostfiles, special_files, directories, full_disk, port_in_use)
        together(tap, [partial(play, part) for part in parts])
        for what, line in [row for part in parts for row in rows[part]]:
            print("# %-52s %s" % (what, line.replace(directory, "DIR")))
    tap.end()


if __name__ == "__main__":
    main()
