"""Key files are certificates: other ZeroMQ programs load them and speak CURVE with them, among
themselves and with psring's scheduler. Files of before are read once more, and converted.

usage: test_certificates.py PSRING SCHEDULER WORKER PEER"""

import json
import os
import subprocess
import sys

import key_files
from psring_live import Live
from psring_run import PATIENCE_S, Tap, Workspace

OPTIONS = ["--mode", "ring", "--workers", "1", "--model", "mlp", "--data", "synthetic:count=64,test=8", "--steps", "2",
           "--batch-size", "16", "--threads", "1", "--deadline", "600"]
OLD = "psring keygen --convert FILE makes certificates of a file"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)


class Place:
    def __init__(self, psring, directory):
        self.psring, self.directory = psring, directory

    def keys(self, name, *options):
        made = run(self.psring, "keygen", *options, os.path.join(self.directory, name))
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        return lambda who="": os.path.join(self.directory, name, who)


def others_among_themselves(tap, place, peer):
    keys, strangers = place.keys("keys", "--workers", "2"), place.keys("strangers")
    # zauth's store takes each file of a folder that does not end in _secret.
    server = subprocess.Popen([peer, "serve", keys("scheduler-0.key"), keys()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        who, endpoint = server.stdout.readline().strip(), server.stdout.readline().strip()
        tap.ok(who == "scheduler 0", "zcert_load finds role and rank in a certificate", [who])
        for certificate, right in [(keys("worker-1.key"), "worker 1\nhello\n"), (keys("shard-0.key"), "shard 0\nhello\n"),
                                   (strangers("worker-0.key"), "worker 0\nrefused\n")]:
            asked = run(peer, "ask", certificate, keys("scheduler-0.key"), endpoint)
            tap.ok(asked.returncode == 0 and asked.stdout == right,
                   "a program on czmq asks another with %s: %s" % (os.path.relpath(certificate, place.directory), right.split()[-1]),
                   [asked.stdout, asked.stderr])
        asked = run(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyzmq_peer.py"), keys("worker-0.key_secret"),
                    keys("scheduler-0.key"), endpoint)
        if asked.returncode == 77:
            tap.skip("a program on pyzmq asks one on czmq", asked.stdout.strip())
        else:
            tap.ok(asked.stdout == "hello\n", "a program on pyzmq asks one on czmq", [asked.stdout, asked.stderr])
    finally:
        server.stdin.close()
        server.wait(timeout=PATIENCE_S)


def with_psring(tap, place, programs, peer):
    """The scheduler of a run lets in who has a certificate of the run, whatever program it is, and
    no other; the run goes on."""
    keys, strangers = place.keys("members", "--shards", "0"), place.keys("foreign", "--shards", "0")
    live = [Live([programs[1], "--keys", keys(), "--out", os.path.join(place.directory, "run"), *OPTIONS], place.directory, "scheduler")]
    try:
        endpoint = live[0].wait_line("listening endpoint=", PATIENCE_S).rsplit("endpoint=", 1)[1]
        for certificate, right in [(keys("worker-0.key"), "worker 0\nlet in\n"), (strangers("worker-0.key"), "worker 0\nrefused\n")]:
            asked = run(peer, "greet", certificate, keys("scheduler-0.key"), endpoint)
            tap.ok(asked.returncode == 0 and asked.stdout == right, "psring's scheduler and a program on czmq with %s: %s"
                   % (os.path.relpath(certificate, place.directory), right.split("\n")[1]), [asked.stdout, asked.stderr] + live[0].why())
        live.append(Live([programs[2], "--keys", keys(), "--rank", "0", "--scheduler", endpoint.replace("tcp://", "")], place.directory, "worker"))
        statuses = [process.wait(PATIENCE_S) for process in reversed(live)]
        tap.ok(statuses == [0, 0], "the run of that scheduler ends well", [str(statuses)] + live[0].why())
    finally:
        for process in live:
            process.kill()


def old_files(tap, place, programs):
    for name, options, sort in [("old-curve", (), "own"), ("old-tokens", ("--loopback",), "own"), ("old-shared", ("--shared",), "shared"),
                                ("old-token", ("--loopback", "--shared"), "shared")]:
        path = place.keys(name, *options)().rstrip("/")
        path = path if sort == "shared" else os.path.join(path, "worker-0.key")
        before = key_files.as_json(path)
        key_files.write_as_json(path)
        worker = [programs[2], "--key-file", path, "--rank", "0", "--scheduler", "127.0.0.1:1", "--interface", "no-such-interface"]
        said = run(*worker).stderr
        tap.ok(said.count(OLD) == 1, "%s: a file of before is read, and one line says how to convert it" % name, [said])
        converted = run(programs[0], "keygen", "--convert", path)
        files = [file for file in (path, path + "_secret") if os.path.exists(file)]
        tap.ok(converted.returncode == 0 and converted.stdout.split() == files, "%s: it is converted" % name,
               [converted.stdout, converted.stderr, str(files)])
        modes = [os.stat(file).st_mode & 0o777 for file in files if file.endswith("_secret") or sort == "shared"]
        tap.ok(key_files.as_json(path) == before and modes == [0o600], "%s: with the same keys, mode 0600" % name, [str(modes)])
        said = run(*worker).stderr
        tap.ok(OLD not in said and "no-such-interface" in said, "%s: and the line is gone" % name, [said])
        again = run(programs[0], "keygen", "--convert", path)
        tap.ok(again.returncode == 2 and len(again.stderr.splitlines()) == 1 and key_files.as_json(path) == before,
               "%s: to convert it again is refused" % name, [again.stdout, again.stderr])


def main():
    *programs, peer = (os.path.abspath(program) for program in sys.argv[1:])
    tap = Tap()
    with Workspace() as directory:
        place = Place(programs[0], directory)
        others_among_themselves(tap, place, peer)
        with_psring(tap, place, programs, peer)
        old_files(tap, place, programs)
    return tap.end()


sys.exit(main())
