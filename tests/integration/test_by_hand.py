"""The programs started by hand rather than by `psring train`: keys from files, ranks asked for or
given, the same hash.

usage: test_by_hand.py PSRING SCHEDULER SHARD WORKER"""

import json
import os
import re
import signal
import subprocess
import sys
import threading

from psring_run import PATIENCE_S, Run, Tap, Workspace, free_port, join_thread

OPTIONS = {"mode": "ps", "workers": 3, "shards": 2, "model": "mlp", "steps": 6, "batch-size": 16, "threads": 1, "seed": 11,
           "data": "synthetic:count=97,test=40,channels=1,size=28", "lr": 0.05, "bucket-size": 99968, "hash": True}


def options_of(options):
    return ["--" + key if value is True else "--%s=%s" % (key, value) for key, value in options.items()]


class Cluster:
    """Processes that this test started, each ended by its id whatever happens."""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(self, command, **streams):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, **streams)
        self.processes.append(process)
        return process


def listen(process, lines):
    """Reads all that a process says; (the thread that does, what endpoint_of waits for)"""
    found = threading.Event()

    def read():
        for line in process.stdout:
            lines.append(line.rstrip())
            if "listening endpoint=" in line:
                found.set()
        found.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread, found


def endpoint_of(found, lines):
    """("tcp" or "ipc", the place) where the process whose lines these are listens. None: it has
    ended without."""
    if not found.wait(PATIENCE_S):
        raise AssertionError("it does not say within %d s where it listens: %s" % (PATIENCE_S, lines))
    match = re.search(r"listening endpoint=(tcp|ipc)://(\S+)", "\n".join(lines))
    return match.groups() if match else None


def run_by_hand(tap, programs, directory, name, keygen_options, how, asks_for_ranks, transport, scheme):
    """how: each has a key "file", they find theirs in the "folder", or the file is "shared"."""
    psring, scheduler, shard, worker = programs
    keys, out = os.path.join(directory, name + "-keys"), os.path.join(directory, name)
    made = subprocess.run([psring, "keygen", *(["--shared"] if how == "shared" else []), keys, "--workers", "3", "--shards", "2"] + keygen_options,
                          capture_output=True, text=True, timeout=PATIENCE_S)
    if not tap.ok(made.returncode == 0, name + ": keys are made", made.stderr.splitlines()):
        return
    key = lambda who: ["--keys", keys] if how == "folder" else ["--key-file", keys if how == "shared" else os.path.join(keys, who + ".key")]
    lines = []
    with Cluster() as cluster:
        head = cluster.start([scheduler, *key("scheduler-0"), "--out", out] + options_of(dict(OPTIONS, transport=transport)))
        thread, found = listen(head, lines)
        endpoint = endpoint_of(found, lines)
        if not tap.ok(endpoint and endpoint[0] == scheme, name + ": the scheduler says where it listens", lines):
            return
        at = ["--scheduler", endpoint[1]]
        folder = os.path.dirname(endpoint[1]) if scheme == "ipc" else None
        if folder:
            tap.ok(os.stat(folder).st_mode & 0o777 == 0o700, name + ": its socket is in a directory of this user's alone", [folder])
        # In an order that is not that of the ranks.
        members = []
        for program, who, rank in [(worker, "worker", 2), (shard, "shard", 1), (worker, "worker", 0), (shard, "shard", 0),
                                   (worker, "worker", 1)]:
            wanted = ["--rank", str(rank)] if asks_for_ranks else []
            members.append(cluster.start([program, *key("%s-%d" % (who, rank))] + at + wanted))
        statuses, said = [], []
        for process in members:
            try:
                said += process.communicate(timeout=PATIENCE_S)[0].splitlines()[-3:]
            except subprocess.TimeoutExpired:
                said.append("(still there after %d s)" % PATIENCE_S)
            statuses.append(process.poll())
        try:
            statuses.append(head.wait(PATIENCE_S))
        except subprocess.TimeoutExpired:
            statuses.append(None)
        join_thread(thread, "what the scheduler says")
        shown = ["psring ", "  mode       ps (bsp), 3 workers, 2 shards", "  run        " + out, "result ", "written    " + out]
        tap.ok([sum(line.startswith(text) for line in lines) for text in shown] == [1] * len(shown),
               name + ": the scheduler tells the configuration and the result as psring train does", lines)
        tap.ok(statuses == [0] * 6, name + ": all six processes end with status 0", [str(statuses)] + said + lines[-10:])
        if folder:
            tap.ok(not os.path.exists(folder), name + ": the directory of sockets is gone", [folder])
    try:
        with open(os.path.join(out, "run.json")) as text:
            return json.load(text)["outcome"]["hash"]
    except (OSError, KeyError, ValueError) as wrong:
        tap.ok(False, name + ": run.json has the outcome", [repr(wrong)])


def keys_are_not_replaced(tap, psring, directory):
    keys = os.path.join(directory, "kept")
    keygen = lambda *options: subprocess.run([psring, "keygen", "--out", keys, *options], capture_output=True, text=True,
                                             timeout=PATIENCE_S)
    contents = lambda: {name: open(os.path.join(keys, name)).read() for name in sorted(os.listdir(keys))}
    first = keygen("--workers", "2")
    before = contents()
    tap.ok(first.returncode == 0 and len(before) == 8, "psring keygen makes two key files for each process", first.stderr.splitlines())
    for options in ((), ("--workers", "2"), ("--workers", "9", "--shards", "0", "--loopback")):
        again = keygen(*options)
        tap.ok(again.returncode == 2 and len(again.stderr.splitlines()) == 1 and not again.stdout
               and "kept: holds keys already" in again.stderr and contents() == before,
               "psring keygen %s into the same directory is refused and changes nothing" % " ".join(options),
               ["status %d" % again.returncode, again.stdout, again.stderr])


def example_of_the_help(tap, programs, directory):
    """The example of `psring keygen --help`, as it stands there but for the port, which is one that
    is free here."""
    place = os.path.join(directory, "example")
    os.mkdir(place)
    told = subprocess.run([programs[0], "keygen", "--help"], capture_output=True, text=True, timeout=PATIENCE_S).stdout
    example = [line for line in told[told.index("Example"):].splitlines() if line.startswith("  ")]
    script = "\n".join(example).replace("4100", str(free_port()))
    path = os.pathsep.join([os.path.dirname(program) for program in programs] + [os.environ["PATH"]])
    shell = subprocess.Popen(["sh", "-e"], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=dict(os.environ, PATH=path), start_new_session=True)
    try:
        said = shell.communicate(script, timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        said = shell.communicate()[0] + "\n(ended by the test)"
    try:
        with open(os.path.join(place, "by-hand", "run.json")) as text:
            outcome = json.load(text)["outcome"]
    except (OSError, KeyError, ValueError) as wrong:
        outcome = {"status": repr(wrong)}
    tap.ok(len(example) > 4 and shell.returncode == 0 and outcome.get("hash"), "the example of psring keygen --help works as printed",
           script.splitlines() + said.splitlines() + [str(outcome)])


def versions(tap, programs):
    psring = subprocess.run([programs[0], "--version"], capture_output=True, text=True, timeout=PATIENCE_S).stdout
    for command in [[programs[0]], [programs[0], "train"]] + [[program] for program in programs[1:]]:
        told = subprocess.run(command + ["--version"], capture_output=True, text=True, timeout=PATIENCE_S)
        name = os.path.basename(command[0])
        onednn = r"onednn \d+\.\d+\.\d+[^,]*, " if name == "psring-worker" else ""
        wanted = r"%s \d+\.\d+\.\d+ \(%slibzmq \d+\.\d+\.\d+\)\n" % (name, onednn)
        tap.ok(told.returncode == 0 and re.fullmatch(wanted, told.stdout) and told.stdout.split()[1] == psring.split()[1],
               "%s --version tells its version and the libraries'" % " ".join([name] + command[1:]), [told.stdout, told.stderr])


def wrong_keys(tap, programs, directory):
    """Keys that are not this process's: one line, status 2; what the other end turns away for its
    keys: status 3."""
    psring, _, shard, worker = programs
    made = lambda name: os.path.join(directory, name)  # by the runs above
    for command, word in [([worker, "--key-file", made("curve-keys/worker-1.key"), "--rank", "0"], "it is of worker 1, and this is worker 0"),
                          ([shard, "--key-file", made("curve-keys/worker-1.key")], "it is of worker 1, and this is shard"),
                          ([worker, "--keys", made("curve-keys")], "which rank this worker is must be said"),
                          ([worker, "--keys", made("curve-keys"), "--rank", "3"], "worker-3.key"),
                          ([worker, "--key-file", made("shared-keys")], "which rank this worker is must be said"),
                          ([worker, "--key-file", made("shared-keys"), "--rank", "3"], "it has no key for worker 3"),
                          ([worker, "--key-file", made("shared-keys"), "--keys", made("curve-keys")], "give one of them")]:
        ended = subprocess.run(command + ["--scheduler", "127.0.0.1:1"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=PATIENCE_S)
        lines = ended.stderr.splitlines()
        tap.ok(ended.returncode == 2 and len(lines) == 1 and word in lines[0], "refused: " + word, ["status %d" % ended.returncode] + lines)
    lines = []
    with Cluster() as cluster:
        head = cluster.start([programs[1], "--keys", made("curve-keys"), "--out", made("strange")] + options_of(OPTIONS))
        thread, found = listen(head, lines)
        endpoint = endpoint_of(found, lines)
        if tap.ok(endpoint, "a scheduler listens", lines):
            ended = subprocess.run([worker, "--key-file", made("shared-keys"), "--rank", "0", "--scheduler", endpoint[1]],
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
            said = ended.stderr.splitlines()
            tap.ok(ended.returncode == 3 and len(said) == 1 and "has other keys" in said[0], "keys of another set are turned away: one line, status 3",
                   ["status %d" % ended.returncode] + said)
        head.kill()
        join_thread(thread, "what the scheduler says")


def refusals(tap, worker, directory):
    open_key = os.path.join(directory, "open.key")
    with open(open_key, "w") as file:
        file.write("{}\n")
    os.chmod(open_key, 0o644)
    for arguments, word in [([], "--scheduler"), (["--scheduler", "127.0.0.1:1"], "--key-file"),
                            (["--provision", "-", "--rank", "1"], "--provision"), (["--rank", "minus"], "--rank"),
                            (["--ranc", "1"], "--rank"),
                            (["--scheduler", "head", "--key-file", open_key], "is not HOST:PORT"), (["extra"], "options alone"),
                            (["--scheduler", "127.0.0.1:1", "--key-file", "/nonexistent.key"], "/nonexistent.key"),
                            (["--scheduler", "127.0.0.1:1", "--key-file", open_key], open_key),
                            (["--provision", "-"], "standard input")]:
        ended = subprocess.run([worker] + arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=PATIENCE_S)
        lines = ended.stderr.splitlines()
        tap.ok(ended.returncode == 2 and len(lines) == 1 and word in lines[0] and not ended.stdout,
               "psring-worker %s: one line that names what is wrong, status 2" % " ".join(arguments).replace(directory, ""),
               ["status %d" % ended.returncode] + lines)


def long_provisions(tap, programs):
    """One reader, one limit: the three programs say the same of a provision that never ends."""
    for program, options in zip(programs, (["--steps", "1"], [], [])):
        ended = subprocess.run([program, "--provision", "-"] + options, input="{" + " " * (2 << 20), capture_output=True, text=True,
                               timeout=PATIENCE_S)
        lines = ended.stderr.splitlines()
        tap.ok(ended.returncode == 2 and len(lines) == 1 and "provision: a line longer than 1048576 bytes" in lines[0],
               "%s: a provision longer than the limit is refused in the same words" % os.path.basename(program),
               ["status %d" % ended.returncode] + lines)


def token_refusals(tap, programs, directory):
    """A token never goes over TCP, where whoever took a port would read it."""
    psring, scheduler, _, worker = programs
    keys = os.path.join(directory, "token-keys")  # of the run above
    key = lambda who: ["--key-file", os.path.join(keys, who + ".key")]
    words = options_of(OPTIONS) + ["--out", os.path.join(directory, "never")]
    for command, word in [([scheduler] + key("scheduler-0") + words + ["--transport", "tcp"], "TCP needs CURVE keys"),
                          ([scheduler] + key("scheduler-0") + words + ["--port", "0", "--interface", "lo"], "--interface is for TCP"),
                          ([worker] + key("worker-0") + ["--scheduler", "127.0.0.1:1"], "TCP needs CURVE keys"),
                          ([worker] + key("worker-0") + ["--scheduler", "/tmp/scheduler"], "of mode 0700"),
                          ([worker] + key("worker-0") + ["--scheduler", "nowhere"], "is not HOST:PORT nor a socket's path")]:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        tap.ok(ended.returncode == 2 and word in ended.stderr, "refused: %s" % word, ["status %d" % ended.returncode, ended.stderr])


def main():
    programs = [os.path.abspath(program) for program in sys.argv[1:5]]
    tap = Tap()
    with Workspace() as directory:
        launched = Run(programs[0], directory, "launched", OPTIONS)
        if tap.ok(launched.status == 0, "psring train ends with status 0", launched.why()):
            right = launched.outcome()["hash"]
            for name, keygen_options, how, asks, transport, scheme in [("curve", [], "file", False, "auto", "tcp"),
                                                                       ("token", ["--loopback"], "file", True, "auto", "ipc"),
                                                                       ("curve-ipc", [], "file", False, "ipc", "ipc"),
                                                                       ("folder", [], "folder", True, "auto", "tcp"),
                                                                       ("shared", [], "shared", True, "auto", "tcp")]:
                found = run_by_hand(tap, programs, directory, name, keygen_options, how, asks, transport, scheme)
                tap.ok(found == right, name + ": the hash is that of psring train", [str((found, right))])
        versions(tap, programs)
        keys_are_not_replaced(tap, programs[0], directory)
        example_of_the_help(tap, programs, directory)
        wrong_keys(tap, programs, directory)
        refusals(tap, programs[3], directory)
        long_provisions(tap, programs[1:])
        token_refusals(tap, programs, directory)
    tap.end()


if __name__ == "__main__":
    main()
