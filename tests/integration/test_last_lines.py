"""What a process prints after the end of its run is in its log: the scheduler stays until the
launcher says that all has come.

This test is the launcher: it starts the scheduler and a worker, hears that the run has ended, and
only then passes a line on.

usage: test_last_lines.py SCHEDULER WORKER"""

import json
import os
import secrets
import subprocess
import sys
import tempfile

from psring_run import PATIENCE_S, Tap, Workspace

OPTIONS = ["--mode=local", "--workers=1", "--model=mlp", "--steps=1", "--batch-size=4", "--threads=1", "--no-eval", "--transport=ipc",
           "--data=synthetic:count=8,test=4,channels=1,size=28", "--deadline=%d" % PATIENCE_S]
LATE = {"order": "log", "role": "worker", "rank": 0, "line": "what came after the end"}


class Started:
    """A process with pipes, ended by its id whatever happens."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def tell(self, line):
        print(json.dumps(line), file=self.process.stdin, flush=True)

    def hear(self, event):
        """The next event of this kind; None: it said nothing more."""
        for line in self.process.stdout:
            said = json.loads(line)
            if said["event"] == event:
                return said
        return None

    def wait(self):
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None


def log_after(scheduler_exe, worker_exe, directory, name, last_order):
    """A run of one step. last_order: what the launcher says last; None: it goes. Returns the
    statuses, and the log of the worker."""
    sockets, out = os.path.join(directory, "psring-run-" + secrets.token_hex(8)), os.path.join(directory, name)
    os.mkdir(sockets, 0o700)  # as an agent would
    place = {"directory": sockets, "keys": {"curve": False, "bare": False, "token": secrets.token_hex(32)}}
    with Started([scheduler_exe, "--provision", "-", "--out", out] + OPTIONS) as scheduler, Started([worker_exe, "--provision", "-"]) as worker:
        scheduler.tell(dict(place, role="scheduler"))
        endpoint = scheduler.hear("listening")["endpoint"]
        worker.tell(dict(place, role="worker", rank=0, scheduler=endpoint))
        ended = scheduler.hear("ended")
        worker_status = worker.wait()
        scheduler.tell(LATE)
        if last_order is None:
            scheduler.process.stdin.close()
            scheduler.process.stdin = None
        else:
            scheduler.tell(last_order)
        statuses = [ended["status"], worker_status, scheduler.wait()]
    with open(os.path.join(out, "log", "rank-0.log")) as text:
        return statuses, text.read().splitlines()


def main():
    scheduler, worker = (os.path.abspath(program) for program in sys.argv[1:3])
    tap = Tap()
    with Workspace() as directory:
        for name, last_order in (("closed", {"order": "closed"}), ("gone", None)):
            try:
                statuses, log = log_after(scheduler, worker, directory, name, last_order)
            except (OSError, TypeError) as wrong:
                statuses, log = [], [repr(wrong)]
            tap.ok(statuses == [0, 0, 0], "%s: the run ends well" % name, [str(statuses)])
            tap.ok(log and log[-1] == LATE["line"], "%s: what came after the end is in the log" % name, log)
    tap.end()


main()
