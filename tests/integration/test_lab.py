#!/usr/bin/env python3
"""psring lab: hosts with networks of their own that run psring over the normal launcher, counts of
what its queues dropped, a verdict on this machine, and nothing that is left however it ends.

Where this kernel lets nobody make namespaces, what needs them is skipped.

usage: test_lab.py PSRING"""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from psring_live import Live
from psring_run import PATIENCE_S, Run, Tap, Workspace, is_sanitized, outlived

DATA = ["--model", "mlp", "--data", "synthetic:count=600,test=90,channels=1,size=28", "--batch-size", "8", "--threads", "1", "--no-eval"]
THREE = "default rate=1Gbit queue=64K\nhost node[1-3]\n"


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


def run(*words, cwd=None, before=()):
    return subprocess.run([*before, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=PATIENCE_S, cwd=cwd)


def said(done):
    return ["exit status %d" % done.returncode] + done.stdout.splitlines()[-15:] + done.stderr.splitlines()[-15:]


def read(path):
    with open(path, encoding="utf-8") as text:
        return json.load(text)


def what_needs_no_namespaces(tap, psring, directory):
    lab = write(os.path.join(directory, "rack.lab"), "default rate=100Mbit\nswitch rack uplink=50Mbit\nhost node[1-2]\nhost far switch=rack slow=2\n"
                "host ps1 shards=2\n")
    done = run(psring, "lab", "check", lab)
    tap.ok(done.returncode == 0 and "4 hosts, 3 workers, 2 shards of their own, 2 switches" in done.stdout and
           "host far rate=100Mbit queue=262144 burst=8192 slots=1 shards=0 slow=2 switch=rack" in done.stdout, "psring lab check", said(done))
    done = run(psring, "lab", "show", lab)
    tap.ok(done.returncode == 0 and "--  switch rack\n" in done.stdout and "far  10.77.0.3  1 worker  slow 2" in done.stdout, "psring lab show", said(done))
    wrong = write(os.path.join(directory, "wrong.lab"), "host a rate=1Gbit\nhost b rate=fast\n")
    cases = ((["check", wrong], "wrong.lab:2: rate=fast: give"), (["run", wrong, "--", "train"], "wrong.lab:2: rate=fast: give"),
             (["check", os.path.join(directory, "none.lab")], "none.lab"), (["run", lab], "the command is missing"), (["look", lab], "run, check or show"),
             (["check"], "the lab file is missing"), (["check", lab, "--", "train"], "only run takes a command"),
             (["run", lab, "--", "report", "x"], "'report' does not run in a lab"),
             (["run", lab, "--", "train", "--hostfile", "x"], "--hostfile: the lab says which hosts"),
             (["run", "--dilate", "0", lab, "--", "train"], "--dilate: '0' is not a factor"),
             (["run", "--dilate", "2", lab, "--", "train"], "--dilate: links would be slower"),
             (["run", lab, "--", "train", "--out", "/run/x"], "a /run of its own"))
    for words, line in cases:
        done = run(psring, "lab", *words)
        tap.ok(done.returncode == 2 and line in done.stderr and len(done.stderr.splitlines()) == 1,
               "refused: psring lab %s" % " ".join(words).replace(directory + "/", ""), said(done))


def why_not(psring, lab):
    """Why no lab can be made here; "" if one can."""
    done = run(psring, "lab", "run", lab, "--", "run", "-n", "1", "--", "true")
    if done.returncode == 2 and re.search(r"namespace|not installed|/proc|/run|Operation not permitted|ip: |tc: ", done.stderr):
        return done.stderr.strip().splitlines()[-1]
    return ""


def a_program_runs_on_each_host(tap, psring, directory, lab):
    script = 'echo rank $PSRING_RANK on $(hostname) knows $(getent hosts node3 | cut -d" " -f1)'
    done = run(psring, "lab", "run", "--result", os.path.join(directory, "result.json"), lab, "--", "run", "--", "sh", "-c", script)
    tap.ok(done.returncode == 0 and sorted(done.stdout.splitlines()) == ["rank %d on node%d knows 10.77.0.3" % (i, i + 1) for i in range(3)],
           "a rank on each host, which has its name and knows the others", said(done))
    result = read(os.path.join(directory, "result.json"))
    tap.ok(result["valid"] is False and "too short" in result["why"] and "INVALID" in done.stderr, "what is too short is not called valid", said(done))
    done = run(psring, "lab", "run", lab, "--", "run", "--", "sh", "-c", "exit 3")
    tap.ok(done.returncode == 1, "the exit status is the command's", said(done))


def slices_follow_the_measured_link(tap, made, mode, done):
    """How fast a link seems depends on how busy this machine is; what follows from it does not."""
    config = made["config"]
    slices = (config["slice-size"], config["window"])
    names = {entry["host"] for entry in made["roster"]}
    if "measured_links" in made:
        links = made["measured_links"]
        rate, each = links["slowest_bits_per_s"] / 8, links["slowest_bits_per_s"] / 8 * 0.0125 / 3
        # three workers push to one shard
        most = min(rate * 0.00177, each / 4 if mode == "ps" else rate)
        fits = [4 << k for k in range(8) if (4 << k) * 1024 <= max(most, 4096)][-1]
        wanted = (fits << 10, min(max(int(each / 1024 / fits), 2), 4) if mode == "ps" else min(max(1024 // fits, 4), 8))
        tap.ok(slices == wanted and links["from"] in names and links["to"] in names and links["slowest_bits_per_s"] < 2e9 and
               re.search(r"^links: \S+bit from \S+ to \S+, the slowest as measured: slices of %s, %s in flight$" % ("%dK" % fits, wanted[1]), done.stdout, re.M),
               "--mode %s: slices and window follow the slowest link, which was measured" % mode, said(done) + [str(slices), str(wanted), str(links)])
    else:
        tap.ok(slices == (512 << 10, 2) and "links between the hosts were not measured: host " in done.stdout,
               "--mode %s: what is not measured in time is said, and changes nothing" % mode, said(done) + [str(slices)])


def training_ends_in_the_same_bits(tap, psring, directory):
    lab = write(os.path.join(directory, "apart.lab"), "congestion reno\ndefault rate=1Gbit queue=64K\nhost node[1-3]\nhost ps1 shards=1\n")
    alone = Run(psring, directory, "alone", {"mode": "local", "workers": 3, "steps": 8, "seed": 7, "model": "mlp", "batch-size": 8, "threads": 1,
                                             "data": "synthetic:count=600,test=90,channels=1,size=28", "no-eval": True})
    for mode in "ps", "ring":
        out = os.path.join(directory, "out-" + mode)
        done = run(psring, "lab", "run", lab, "--", "train", "--mode", mode, "--steps", "8", "--seed", "7", *DATA, "--out", out)
        if not tap.ok(done.returncode == 0, "psring train --mode %s in a lab" % mode, said(done)):
            continue
        made, result = read(os.path.join(out, "run.json")), read(os.path.join(out, "lab.json"))
        tap.ok(made["outcome"]["hash"] == alone.outcome()["hash"], "ends with the bits of local", said(done))
        hosts = {(entry["role"], entry["host"]) for entry in made["roster"] if entry["role"] != "scheduler"}
        tap.ok(hosts == {("worker", "node1"), ("worker", "node2"), ("worker", "node3")} | ({("shard", "ps1")} if mode == "ps" else set()),
               "on the hosts that the file says", [str(hosts)])
        slices_follow_the_measured_link(tap, made, mode, done)
        sent = {host["name"]: host["from"]["sent_bytes"] for host in result["hosts"]}
        weights = made["outcome"]["bytes_sent"] if "bytes_sent" in made["outcome"] else 0
        tap.ok(all(sent[name] > 8 * 100000 for name in ("node1", "node2", "node3")) and weights >= 0 and result["host_drops"] == 0 and
               isinstance(result["valid"], bool) and (result["valid"] or result["why"]), "lab.json counts what went over each link", [json.dumps(result)])
        report = run(psring, "report", out)
        tap.ok("in the lab " in report.stdout, "and the report says that it was a lab", said(report))


def links_have_their_rates(tap, psring, directory):
    """A token bucket promises that no more than its rate and one burst have passed."""
    lab = write(os.path.join(directory, "slow.lab"), "default rate=20Mbit burst=8K\nhost node[1-2]\n")
    result = os.path.join(directory, "slow.json")
    begun = time.monotonic()
    done = run(psring, "lab", "run", "--result", result, lab, "--", "train", "--mode", "ring", "--steps", "6", *DATA, "--out", os.path.join(directory, "slow"))
    seconds = time.monotonic() - begun
    counts = [host[way]["sent_bytes"] for host in read(result)["hosts"] for way in ("to", "from")] if done.returncode == 0 else [0]
    tap.ok(done.returncode == 0 and min(counts) > 1000000 and max(counts) <= seconds * 20e6 / 8 + 8192,
           "no link carries more than its rate", said(done) + [str(counts), str(seconds)])


def what_does_not_fit_is_dropped_and_counted(tap, psring, directory):
    lab = write(os.path.join(directory, "drops.lab"), "host fast rate=1Gbit\nhost slow rate=100Kbit queue=4K burst=4K\n")
    program = write(os.path.join(directory, "flood.py"), "import os, socket\nif os.environ['PSRING_RANK'] == '0':\n"
                    "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n    for _ in range(2000): s.sendto(bytes(1400), ('10.77.0.2', 9))\n")
    result = os.path.join(directory, "drops.json")
    done = run(psring, "lab", "run", "--result", result, lab, "--", "run", "--", sys.executable, program)
    counts = read(result) if done.returncode == 0 else {"hosts": []}
    dropped = {host["name"]: (host["to"]["dropped_packets"], host["from"]["dropped_packets"]) for host in counts["hosts"]}
    tap.ok(done.returncode == 0 and dropped["slow"][0] > 1000 and dropped["fast"][1] == 0 and re.search(r"dropped \d+ of \d+ packets \(\d+ towards slow\)", done.stderr),
           "the switch drops what its queue does not hold, a host does not", said(done) + [str(dropped)])


LOSSY = "default rate=1Gbit\nhost good\nhost bad loss=5%\n"


def what_the_file_says_is_lost(tap, psring, directory):
    lab, result = write(os.path.join(directory, "lossy.lab"), LOSSY), os.path.join(directory, "lossy.json")
    done = run(psring, "lab", "run", "--result", result, lab, "--", "bench", "exchange", "--mode", "ring", "-b", "1M", "--rounds", "1")
    if done.returncode == 2 and "loss=: " in done.stderr:
        tap.skip("a lossy link", done.stderr.strip())
        return
    hosts = {host["name"]: host for host in read(result)["hosts"]} if done.returncode == 0 else {}
    tap.ok(done.returncode == 0 and hosts["good"]["lost_packets"] == 0 and re.search(r"links lost \d+ of \d+ packets, as asked", done.stderr),
           "a run ends well over a link that loses packets", said(done))
    share = hosts["bad"]["lost_packets"] / hosts["bad"]["to"]["sent_packets"] if hosts else 0
    tap.ok(0.02 < share < 0.1, "and about as many are lost as the file says, of thousands", [str(hosts)])


def benchmarks_run_in_it(tap, psring, directory):
    """Slow hosts, hosts for shards, slots and rates are the lab's."""
    lab = write(os.path.join(directory, "bench.lab"), "default rate=1Gbit\nhost node1\nhost node2 slow=2\nhost ps1 shards=1 rate=200Mbit\n")
    done = run(psring, "lab", "run", lab, "--", "bench", "exchange", "--mode", "ps", "-b", "64K", "--rounds", "2", "--bucket-size", "16K", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    tap.ok(done.returncode == 0 and [(row["workers"], row["shards"], row["hosts"], row["busbw_factor"], row["wrong"]) for row in rows] == [(2, 1, 3, 2, 0)],
           "psring bench exchange in a lab: a shard on its own host serves both workers", said(done))
    done = run(psring, "lab", "run", lab, "--", "bench", "train", *DATA, "--mode", "ps,ring", "--steps", "3", "--repetitions", "1", "--keep-runs",
               cwd=directory)
    written = re.search(r"^written +(psring-runs/bench-\S+)$", done.stdout, re.M)
    if not tap.ok(done.returncode == 0 and written, "psring bench train in a lab", said(done)):
        return
    out = os.path.join(directory, written.group(1))
    with open(out) as lines:
        header, *records = [json.loads(line) for line in lines]
    told = {record["configuration"]: record for record in records}
    tap.ok(sorted(told) == ["ps:1 beside", "ps:1 dedicated", "ring"] and header["options"]["slow"] == "1:2" and header["lists"]["workers"] == "2",
           "with its slots, slow hosts, and shards on the workers' hosts and on their own", [json.dumps(header)[:600], str(list(told))])
    hosts = {entry["host"]: entry["shards"] for entry in told["ps:1 dedicated"]["placement"]["hosts"]}
    tap.ok(hosts == {"node1": 0, "node2": 0, "ps1": 1} and any(link["from"] == "ps1" for link in told["ps:1 dedicated"]["links"]),
           "each line has placement and links", [json.dumps(told["ps:1 dedicated"])])
    counted = read(out + ".lab.json")
    tap.ok(counted["hosts"][1]["name"] == "node2", "what the lab counted is beside the file", [out])
    steps_s = sum(record["steps_to_unix_s"] - record["steps_from_unix_s"] for record in records)
    # it looks four times a second, so at most once more than a run has quarters
    tap.ok(counted["seconds"] <= steps_s + 0.25 * len(records), "this machine's load counts while steps are taken", [str(counted["seconds"]), str(steps_s)])
    report = run(psring, "report", out)
    tap.ok("in the lab " in report.stdout, "and the report says that it was a lab", said(report))


def nobody_may_too(tap, psring):
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        tap.skip("a lab of nobody", "only root can become nobody, by setpriv")
        return
    before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    folder = tempfile.mkdtemp(prefix=outlived.name())
    try:
        mine = write(os.path.join(folder, "mine.lab"), THREE)
        os.chown(folder, 65534, 65534)
        if run("unshare", "-Urnm", psring, "--version", before=before, cwd=folder).returncode != 0:
            tap.skip("a lab of nobody", "here nobody may make no namespaces, or not read " + psring)
            return
        done = run(psring, "lab", "run", mine, "--", "run", "--", "hostname", before=before, cwd=folder)
        tap.ok(done.returncode == 0 and sorted(done.stdout.split()) == ["node1", "node2", "node3"], "nobody has a lab too", said(done))
        lossy = write(os.path.join(folder, "lossy.lab"), LOSSY)
        done = run(psring, "lab", "run", lossy, "--", "run", "--", "hostname", before=before, cwd=folder)
        tap.ok(done.returncode == 2 and done.stdout == "" and "lossy.lab: loss=: " in done.stderr and "leave loss out, or run it as root" in done.stderr and
               len(done.stderr.splitlines()) == 1, "but none that loses packets, and one line says so", said(done))
    finally:
        shutil.rmtree(folder)


def kept_of(networks):
    return networks & all_networks() - {os.readlink("/proc/self/ns/net")}


def nothing_is_left(tap, psring, directory, lab):
    for number, how in ((signal.SIGKILL, "killed"), (signal.SIGTERM, "told to end"), (signal.SIGINT, "interrupted")):
        live = Live([psring, "lab", "run", lab, "--", "train", "--mode", "ring", "--steps", "1000000", *DATA, "--progress", "lines",
                     "--out", os.path.join(directory, "left-%d" % number)], directory, "live-%d" % number)
        try:
            live.wait_line("^step ")
            networks = {os.readlink("/proc/%d/ns/net" % process.pid) for process in live.processes()}
            os.kill(live.process.pid, number)
            status = live.wait(PATIENCE_S)
            gone = live.wait_ended(PATIENCE_S) is not None
            tap.ok(status == (130 if number != signal.SIGKILL else -9) and gone, "a lab that is %s leaves no process" % how, live.why())
            kept, end = kept_of(networks), time.monotonic() + PATIENCE_S
            while kept and time.monotonic() < end:  # the kernel takes down what has ended
                time.sleep(0.02)
                kept = kept_of(networks)
            tap.ok(len(networks) >= 4 and not kept, "and no network", [str(networks), str(kept)] + live.why())
            tap.ok(not live.leftovers(), "and no file", live.leftovers())
        finally:
            live.kill()


def a_terminal_interrupts(tap, psring, directory, lab):
    """Ctrl-C goes to all of the terminal's processes; the run ends in order, and the lab counts as
    ever."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        os.execv(psring, [psring, "lab", "run", lab, "--", "train", "--mode", "ring", "--steps", "1000000", *DATA, "--progress", "lines",
                          "--out", os.path.join(directory, "terminal")])
    said, told = b"", False
    end = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < end:
            if not told and b"\nstep " in said:
                os.write(terminal, b"\x03")
                told = True
            if not select.select([terminal], [], [], 1)[0]:
                continue
            more = os.read(terminal, 65536)
            if not more:
                break
            said += more
    except OSError:  # EIO: all have closed it
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, os.WNOHANG if time.monotonic() >= end else 0)[1])
    if time.monotonic() >= end:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(terminal)
    text = said.decode(errors="replace")
    tap.ok(told and status == 130 and "psring lab: the switches' queues dropped" in text, "Ctrl-C ends the run in order", text.splitlines()[-15:])


def all_networks():
    found = set()
    for name in os.listdir("/proc"):
        try:
            found |= {os.readlink("/proc/%s/ns/net" % name)} if name.isdigit() else set()
        except OSError:
            pass
    return found


def what_is_missing_is_said(tap, psring, lab):
    for tool in "ip", "tc":
        path = os.path.realpath(shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") or "/")
        hidden = run(psring, "lab", "run", lab, "--", "run", "true",
                     before=["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind /dev/null "$0" && exec "$@"', path])
        tap.ok(hidden.returncode == 2 and hidden.stderr == "psring lab: %s is not installed (package iproute2)\n" % tool, "%s is missing" % tool, said(hidden))
    if shutil.which("setpriv") is None:
        tap.skip("no rights", "setpriv is not installed")
        return
    bare = run(psring, "lab", "run", lab, "--", "run", "true",
               before=["unshare", "--user", "--map-root-user", "sh", "-c",
                       'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all "$@"', "sh"])
    tap.ok(bare.returncode == 2 and "for root alone" in bare.stderr and len(bare.stderr.splitlines()) == 1, "without rights it says so", said(bare))


def main(psring):
    if is_sanitized(psring):
        # the leak sanitizer stops a process's threads by tracing it, which fails in a lab's own
        # namespaces; what is kept there is looked for in every other test
        os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    tap = Tap()
    with Workspace() as directory:
        lab = write(os.path.join(directory, "three.lab"), THREE)
        what_needs_no_namespaces(tap, psring, directory)
        why = why_not(psring, lab)
        if why:
            tap.skip("what runs in a lab", why)
        else:
            a_program_runs_on_each_host(tap, psring, directory, lab)
            training_ends_in_the_same_bits(tap, psring, directory)
            links_have_their_rates(tap, psring, directory)
            what_does_not_fit_is_dropped_and_counted(tap, psring, directory)
            what_the_file_says_is_lost(tap, psring, directory)
            benchmarks_run_in_it(tap, psring, directory)
            nobody_may_too(tap, psring)
            nothing_is_left(tap, psring, directory, lab)
            a_terminal_interrupts(tap, psring, directory, lab)
            what_is_missing_is_said(tap, psring, lab)
    tap.end()


main(os.path.abspath(sys.argv[1]))
