"""No run goes on when the test that has started it was killed (outlived.py), and no wait for an end
is over before the end. TAP.

usage: test_outlived.py PSRING"""

import os
import signal
import subprocess
import sys

import outlived
from psring_live import Live, Process, marked
from psring_run import PATIENCE_S, Tap, Workspace

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import forks  # noqa: E402

FORKS = "echo begins; while :; do sleep 1000 & done"

# A test in its middle.
TEST = """
import signal, sys
from psring_live import LiveRun

psring, directory = sys.argv[1:]
options = {"model": "mlp", "data": "synthetic:count=600,test=90,channels=1,size=28", "batch-size": 16, "steps": 1000000, "lr": 0.01,
           "threads": 1, "workers": 2, "mode": "ring", "deadline": 600, "no-eval": True, "slow": "0:8"}
run = LiveRun(psring, directory, "run", options)
run.wait_until(lambda: run.last_step() >= 1, 300)
print(run.mark, flush=True)
signal.pause()
"""


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
    with Workspace() as directory:
        environment = {name: value for name, value in os.environ.items() if name != outlived.MARK}
        test = subprocess.Popen([sys.executable, "-c", TEST, psring, directory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                start_new_session=True, env=dict(environment, PYTHONPATH=os.path.dirname(os.path.abspath(__file__))))
        mark = test.stdout.readline().strip()
        processes = [Process(pid) for pid in marked(mark)] if mark else []
        try:
            roles = sorted(process.role for process in processes if process.role is not None)
            tap.ok(roles == ["agent", "launcher", "scheduler", "worker", "worker"], "a test has a run", [str(processes)])
            os.killpg(test.pid, signal.SIGTERM)  # as meson does
            test.wait()
            tap.ok(all(process.ended(PATIENCE_S) for process in processes) and not marked(mark), "when the test is ended, the run ends",
                   [repr(process) for process in processes if not process.ended()])
        finally:
            for process in processes:
                process.signal(signal.SIGKILL)
                process.close()
            test.kill()
            test.communicate()
    kills(tap)
    shards_stay(tap)
    tap.end()


if __name__ == "__main__":
    main()
