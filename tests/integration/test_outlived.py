"""No run goes on when the test that has started it was killed (outlived.py). TAP.

usage: test_outlived.py PSRING"""

import os
import signal
import subprocess
import sys

import outlived
from psring_live import Process, marked
from psring_run import PATIENCE_S, Tap, Workspace

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
    tap.end()


if __name__ == "__main__":
    main()
