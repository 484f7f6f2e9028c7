"""Nothing goes on when the test that has started it was killed (bench/outlived.py), and no wait for
an end is over before the end. TAP.

usage: test_outlived.py PSRING"""

import os
import signal
import subprocess
import sys
import time

from psring_live import Live, Process, marked
from psring_run import PATIENCE_S, Tap, Workspace, outlived

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import forks  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Tests in their middle, and a script of bench/. Each prints the numbers of its processes.
RUN = """
import signal, sys
from psring_live import LiveRun
from psring_run import Workspace

options = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 16, "steps": 1000000, "lr": 0.01,
           "threads": 1, "workers": 2, "mode": "ring", "deadline": 600, "no-eval": True, "slow": "0:8"}
with Workspace() as directory:
    run = LiveRun(sys.argv[1], directory, "run", options)
    run.wait_until(lambda: run.last_step() >= 1, 300)
    processes = run.processes()
    print(*sorted(process.role for process in processes if process.role is not None))
    print(directory, *(process.pid for process in processes), flush=True)
    signal.pause()
"""
RANKS = """
import os, signal, sys
import forks

if __name__ == "__main__":
    forks.started(None, os.environ["PYTHONPATH"], "os")

def rank():
    os.write(ready[1], b"r")
    signal.pause()

ready = os.pipe()
with forks.Workspace() as directory, forks.Ranks(rank, [{}, {}]) as running:
    while len(os.read(ready[0], 1)) and not os.read(ready[0], 1):
        pass
    print("ranks that it forks")
    print(directory, *running.pids, flush=True)
    signal.pause()
"""
BENCH = """
import beside, os, subprocess, sys, tempfile

with tempfile.TemporaryDirectory(prefix=beside.outlived.name()) as directory:
    command = [sys.argv[1], "run", "-n", "2", "--", "sh", "-c", "echo $$; exec sleep 1000"]
    ranks = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    pids = [ranks.stdout.readline().split()[-1] for _ in range(2)]
    print("ranks of psring run")
    print(directory, ranks.pid, *pids, flush=True)
    ranks.wait()
"""
SHELL = """
. "$ROOT/tests/watched"
directory=$(mktemp -d -t "psr-${PSR_SCRIPT_MARK:0:8}-XXXXXX")
setsid sleep 1000 &
until grep -qs "$PSR_SCRIPT_MARK" /proc/$!/environ; do sleep 0.01; done # until then it is this shell's fork
echo "a process of a shell script"
echo "$directory $!"
wait
"""
ENDS = """
set -euo pipefail
. "$ROOT/tests/watched"
finish() {
    trap - EXIT
    end_watch
}
trap finish EXIT
echo "$watcher"
exit "$1"
"""
FORKS = "echo begins; while :; do sleep 1000 & done"


def unmarked():
    """The environment of a script that nothing has started."""
    return {key: value for key, value in os.environ.items() if key not in (outlived.MARK, "PSR_TEST_PACKAGES")}


def ends(tap):
    for status in ("0", "3"):
        done = subprocess.run(["bash", "-c", ENDS, "bash", status], capture_output=True, text=True, timeout=PATIENCE_S, env={**unmarked(), "ROOT": ROOT})
        tap.ok(done.returncode == int(status) and done.stdout.strip().isdigit() and not os.path.exists("/proc/" + done.stdout.strip()),
               "a shell script that ends by itself with %s does so, and so does who watches" % status, [str(done)])


def dies(tap, name, command, said, number, **environment):
    """A script of that name is killed, or told to end as Meson tells its tests, once it has
    begun."""
    script = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
                              env={**unmarked(), "PSR_PYTHON": sys.executable, **environment})
    begun, (folder, *pids) = script.stdout.readline().strip(), (script.stdout.readline().split() or [""])
    processes = [Process(int(pid)) for pid in pids]
    try:
        tap.ok(begun == said and os.path.isdir(folder) and not any(process.ended() for process in processes), "%s has %s" % (name, said), [begun, folder] + pids)
        os.killpg(script.pid, number) if number == signal.SIGTERM else os.kill(script.pid, number)
        script.wait(PATIENCE_S)
        tap.ok(processes and all(process.ended(PATIENCE_S) for process in processes), "%s: %s ends them" % (name, signal.Signals(number).name),
               [repr(process) for process in processes if not process.ended()])
        end = time.monotonic() + PATIENCE_S
        while os.path.exists(folder) and time.monotonic() < end:
            time.sleep(0.02)  # who removes it is nobody's child any more
        tap.ok(not os.path.exists(folder), "%s: and its folder goes" % name, [folder])
    finally:
        for process in processes:
            process.signal(signal.SIGKILL)
            process.close()
        script.kill()
        script.communicate()


def tests_die(tap, psring):
    paths = os.pathsep.join(os.path.join(ROOT, *folder) for folder in (("tests", "integration"), ("tests", "python"), ("bench",)))
    roles = "agent launcher scheduler worker worker"
    for number in (signal.SIGTERM, signal.SIGKILL):
        dies(tap, "a test", [sys.executable, "-c", RUN, psring], roles, number, PYTHONPATH=paths)
        dies(tap, "a script of bench", [sys.executable, "-c", BENCH, psring], "ranks of psring run", number, PYTHONPATH=paths)
        dies(tap, "a shell script", ["bash", "-c", SHELL], "a process of a shell script", number, ROOT=ROOT)
    with Workspace() as directory:
        path = os.path.join(directory, "forking.py")
        with open(path, "w") as file:
            file.write(RANKS)
        for name, more in (("a test of Python", {}), ("one that has what it goes on with", {"PSR_TEST_PACKAGES": paths})):
            dies(tap, name, [sys.executable, path], "ranks that it forks", signal.SIGKILL, PYTHONPATH=paths, **more)


class Deaf(Process):
    """Whom no signal reaches, as one that hangs in a driver."""

    def signal(self, number):
        pass


def kills(tap):
    with Workspace() as directory:
        live = Live(["bash", "-c", FORKS], directory, "forks")
        live.wait_line("begins")
        live.wait_until(lambda: len(marked(live.mark)) > 20, PATIENCE_S)
        live.kill()
        tap.ok(not marked(live.mark), "a family that goes on starting others is killed in whole", [str(marked(live.mark))])
        live = Live(["sleep", "1000"], directory, "sleeps")
        live.seen[live.process.pid] = Deaf(live.process.pid)
        for name, wait in (("a kill", lambda: live.kill(0.1)), ("a wait for an end", lambda: live.await_end(0.1))):
            try:
                wait()
                tap.ok(False, "%s that does not come to it fails" % name)
            except AssertionError as said:
                tap.ok("sleep 1000" in str(said), "%s that does not come to it fails" % name, [str(said)])
        live.seen.popitem()[1].close()
        live.kill()


def shards_stay(tap):
    """psring-ps is one that stays when its ranks have ended."""
    with Workspace() as directory:
        path = os.path.join(directory, "psring-ps")
        with open(path, "w") as file:
            file.write("#!/bin/sh\nexec sleep 1000\n")
        os.chmod(path, 0o755)
        before, os.environ["PATH"] = os.environ["PATH"], directory + os.pathsep + os.environ["PATH"]
        try:
            with forks.ranks_by_hand(lambda: None, 1, 1, patience_s=0.1) as ranks:
                ended = ranks.wait(0)
            tap.ok(False, "a shard that does not end with its ranks fails the test")
        except AssertionError as said:
            tap.ok(ended.status == 0 and "shards that do not end" in str(said), "a shard that does not end with its ranks fails the test", [str(said)])
        finally:
            os.environ["PATH"] = before


def main():
    tap, psring = Tap(), os.path.abspath(sys.argv[1])
    tests_die(tap, psring)
    ends(tap)
    kills(tap)
    shards_stay(tap)
    tap.end()


if __name__ == "__main__":
    main()
