#!/usr/bin/env python3
"""`psring doctor` on this machine alone, on hosts that are this machine, and on hosts of which each
is bad in its own way: each becomes a line, and the others are examined all the same.
tests/integration/test_doctor_hosts has hosts with networks of their own.

usage: test_doctor.py PSRING"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

from psring_run import PATIENCE_S, Tap, Workspace
from test_classes import write_set

BAD_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bad_probe.py")

# What the finding says of a host of this name, and of some what would be right.
BAD = {
    "refuses": r"login +refuses: ssh could not connect: u@refuses: Permission denied \(publickey\)\.\n +-> .*ssh-copy-id.*",
    "lacks": r"login +lacks: lacks the program psring \(psring is neither at that path nor in PATH\)\n +-> install it there .*",
    "older": r"login +older: has psring 0\.0\.1, this is [0-9.]+\n +-> install the same version on both",
    "garbage": r"answer +garbage: it answers what it was not asked: 'what is JSON\? \?\[2J\?\?'",
    "terminal": r"answer +terminal: field \"hostname\" holds control characters: .*\?\]0;owned\?.*",
    "points": r"answer +points: it says that it listens on tcp://127\.0\.0\.1:\d+, which is not where it was told to.*",
    "unasked": r"answer +unasked: it answers what it was not asked: .*",
    "dies": r"answer +dies: its probe ended \(killed by signal 11 \(Segmentation fault\)\): a last word \?\[2J",
}


class Doctor:
    """One `psring doctor`, told to be patient with a loaded machine."""

    def __init__(self, psring, *options, deadline=200, env=None):
        self.command = [psring, "doctor", "--deadline", str(deadline), *options]
        process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env=env)
        try:
            self.stdout, self.stderr = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.stdout, self.stderr = process.communicate()
            self.stderr += "\n(ended by the test)"
        self.status = process.returncode

    def says(self, pattern):
        return re.search("^" + pattern + "$", self.stdout, re.MULTILINE)

    def memory(self):
        facts = json.loads(self.stdout)["hosts"][0]["facts"]
        return facts["fixed_bytes"], facts["sample_bytes"], facts["data_bytes"]

    def why(self):
        return ["$ " + " ".join(self.command), "exit status %d" % self.status] + self.stdout.splitlines() + self.stderr.splitlines()


def ssh(version):
    return ("--ssh", "%s %s %s" % (sys.executable, BAD_PROBE, version))


def alone(tap, psring, directory):
    run = Doctor(psring, "--data", "synthetic", "--out", os.path.join(directory, "not", "there", "yet"))
    tap.ok(run.status == 0 and run.says(r"psring [0-9.]+   1 host, 1 slot") and run.says(r"     data: synthetic, .*") and
           not run.says("would stop a run") and not os.listdir(directory), "without hosts it examines this machine, and changes nothing",
           run.why())
    run = Doctor(psring, "--json")
    told = json.loads(run.stdout)
    facts = told["hosts"][0]["facts"]
    tap.ok(run.status == 0 and not told["pairs"] and facts["cores"] > 0 and facts["identity"].startswith("onednn") and facts["data"] == "" and
           facts["endpoint"].startswith("tcp://127.0.0.1:"), "--json has its facts", run.why())

    run = Doctor(psring, "--data", os.path.join(directory, "none"), "--out", "/dev/null/runs")
    tap.ok(run.status == 1 and run.says(r"  data +localhost: .*no such directory.*") and run.says(r"  out +this machine: /dev/null/runs cannot .*"),
           "data that is not there and a directory that cannot be made would stop a run", run.why())
    shapes = [("--augment", "resize:64"), ("--image-size", "64"), ("--augment", "resize:64", "--stem", "small"),
              ("--augment", "resize:64", "--se", "16"), ("--augment", "resize:64", "--accumulate", "3")]
    sizes = [Doctor(psring, "--data", "synthetic:size=32,count=64,test=8", "--model", "resnet18", "--json", *shape).memory() for shape in shapes]
    tap.ok(sizes[0] == sizes[1] and sizes[2][1] > sizes[0][1] and sizes[3][0] > sizes[0][0] and sizes[4][0] > sizes[0][0]
           and sizes[4][1] == sizes[0][1], "a worker's memory follows --augment's side, --stem, --se and --accumulate", [str(sizes)])
    tap.ok(all(size[2] == (64 + 8) * 4 for size in sizes), "of generated data only labels lie in memory", [str(sizes)])
    run = Doctor(psring, "--data", "synthetic:channels=3,size=64,count=64,test=8", "--model", "resnet50", "--batch-size", "1000000")
    tap.ok(run.status == 1 and run.says(r"     memory: about [0-9.]+ GiB for each slot, a worker of resnet50 with batches of 1000000") and
           run.says(r"  memory +localhost: a worker of resnet50 with batches of 1000000 takes about .*\n +-> .*--batch-size [0-9]+ or less.*"),
           "a batch that no machine holds would stop a run, and what would fit is told", run.why())
    run = Doctor(psring, "--data", "synthetic:channels=1,size=8,count=64,test=8", "--model", "convnet")
    tap.ok(run.status == 1 and run.says(r"  model +localhost: .*convnet.*"), "a network that does not fit the images would stop a run", run.why())
    run = Doctor(psring, "--interface", "nosuch0")
    tap.ok(run.status == 1 and run.says(r"  listen +localhost: interface nosuch0: this machine has none of that name.*"),
           "an interface that is not there would stop a run", run.why())
    run = Doctor(psring, "--clock-fault", "localhost:-7.25")
    tap.ok(run.status == 0 and run.says(r"  clock +localhost: its clock is 7\.2[0-9]+ s behind this machine's .*"),
           "a clock that is wrong is told by how much; it stops no run", run.why())

    other = os.path.join(directory, "psring")
    with open(other, "w") as script:
        script.write("#!/bin/sh\necho psring 0.0.7\n")
    os.chmod(other, 0o755)
    run = Doctor(psring, env=dict(os.environ, PATH=directory + ":" + os.environ["PATH"]))
    tap.ok(run.status == 0 and run.says(r"  path +localhost: the psring in PATH is another: %s is version 0\.0\.7\n +-> .*" % re.escape(other)),
           "another version in PATH is told", run.why())
    os.remove(other)


def data_read(tap, psring, directory):
    """Files are read to their end, on each host, and what they hold is told."""
    os.environ["XDG_CACHE_HOME"] = os.path.join(directory, "cache")
    data = write_set(os.path.join(directory, "set"), 10)
    run = Doctor(psring, "--data", data, "--json")
    content = json.loads(run.stdout)["hosts"][0]["facts"]["data_content"]
    tap.ok(run.status == 0 and re.fullmatch("[0-9a-f]{32}-[0-9a-f]{32}", content), "what the samples are is among the facts", run.why())
    # its head and labels are whole
    with open(os.path.join(data, "t10k-images-idx3-ubyte"), "r+b") as file:
        file.truncate(os.path.getsize(file.name) - 1)
    run = Doctor(psring, "--data", data)
    tap.ok(run.status == 1 and run.says(r"  data +localhost: .*/t10k-images-idx3-ubyte: truncated: .*\n +-> .*"),
           "a truncated file would stop a run", run.why())
    shutil.rmtree(data)
    shutil.rmtree(os.environ.pop("XDG_CACHE_HOME"), ignore_errors=True)


def beside_one_another(tap, psring, version):
    run = Doctor(psring, "-H", "good2:2,good3,good4", *ssh(version), "--json")
    told = json.loads(run.stdout)
    measured = [pair for pair in told["pairs"] if pair["connected"] and pair["round_trip_ns"] > 0 and pair["bytes_per_s"] > 0]
    tap.ok(run.status == 0 and len(measured) == 6 and [host["slots"] for host in told["hosts"]] == [2, 1, 1],
           "of three hosts each way is measured", run.why())
    run = Doctor(psring, "-H", "good2,good3", *ssh(version), "-x", "ONEDNN_MAX_CPU_ISA=SSE41")
    tap.ok(run.status == 0 and "sse41" in run.stdout and "\n  1  as the one above\n" in run.stdout, "variables of -x are those of what it starts", run.why())
    run = Doctor(psring, "-H", "good2,good3", *ssh(version), "--interface", "127.0.0.5", "--json")
    told = json.loads(run.stdout)
    tap.ok(run.status == 0 and all(host["facts"]["endpoint"].startswith("tcp://127.0.0.5:") for host in told["hosts"]),
           "--interface is where probes listen", run.why())


def bad_hosts(tap, psring, version):
    run = Doctor(psring, "-H", ",".join(["good2", *BAD, "good3"]), *ssh(version))
    for host, pattern in BAD.items():
        tap.ok(run.status == 1 and run.says("  " + pattern), "host %s is a line" % host, run.why())
    tap.ok(run.says(r" +least [0-9.e-]+, middle [0-9.e-]+, most [0-9.e-]+ of \d+ ways; --json has each") and len(re.findall(r"^  answer +\w+: nothing else is known of this host$", run.stdout, re.M)) == len(BAD),
           "the others are examined, and what is not known is told", run.why())
    tap.ok("\x1b" not in run.stdout + run.stderr, "nothing of what they say reaches the terminal as a command", run.why())
    for host, deadline, pattern in (("mute", 1, r"login +mute: it did not tell its agent's hello within 3 s.*"),
                                    # which must have said hello before
                                    ("hangs", 10, r"answer +hangs: it did not tell what its probe found within 20 s\n +-> .*")):
        run = Doctor(psring, "-H", host, *ssh(version), deadline=deadline)
        tap.ok(run.status == 1 and run.says("  " + pattern), "host %s is given up at the deadline" % host, run.why())


def refused(tap, psring):
    for options, pattern in {("good", ): r"psring doctor: it takes options alone; name hosts by -H or --hostfile\n",
                             ("--deadline", "0"): r"psring doctor: --deadline: '0' is not a number from 1 to 600\n",
                             ("--model", "resnet19"): r"psring doctor: --model: 'resnet19' is not known .*\n",
                             ("--model", "resnet20"): r"psring doctor: --model, --batch-size and the like say what .*; give --data too .*\n",
                             ("--batch-size", "0"): r"psring doctor: --batch-size.*\n",
                             ("--map-by", "node"): r"psring doctor: --map-by, --bind-to and --report-bindings: nothing is placed on the hosts here; leave them out\n",
                             ("--hostfile", "/nonexistent"): r"psring doctor: .*/nonexistent.*\n",
                             ("-H", "node[1-300]"): r"psring doctor: 300 hosts are more than 256; give fewer at a time\n",
                             ("--clock-fault", "node9:1"): r"psring doctor: --clock-fault 'node9:1': give HOST:SECONDS of one of the hosts\n"}.items():
        process = subprocess.run([psring, "doctor", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(process.returncode == 2 and re.fullmatch(pattern, process.stderr) and not process.stdout, "refused: " + " ".join(options),
               [process.stdout, process.stderr])


def interrupted(tap, psring, version):
    process = subprocess.Popen([psring, "doctor", "--deadline", "200", "-H", "mute", *ssh(version)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    children = "/proc/%d/task/%d/children" % (process.pid, process.pid)
    while process.poll() is None:  # until it has begun to wait for its host
        with open(children) as list_of_them:
            if list_of_them.read().strip():
                break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    tap.ok(process.returncode == 130 and stderr == "psring doctor: interrupted\n" and stdout == "", "Ctrl-C ends it with status 130",
           [stdout, stderr])


def main():
    psring = sys.argv[1]
    version = subprocess.run([psring, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    tap = Tap()
    with Workspace() as directory:
        alone(tap, psring, directory)
        data_read(tap, psring, directory)
    beside_one_another(tap, psring, version)
    bad_hosts(tap, psring, version)
    refused(tap, psring)
    interrupted(tap, psring, version)
    tap.end()


main()
