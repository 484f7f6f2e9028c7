#!/usr/bin/env python3
"""The folder of a run's sockets: nothing of it is there before it is made, so nobody can be
quicker; it is made once; and it goes though the launcher is interrupted or killed the moment that
it appears.

usage: test_sockets_folder.py PSRING"""

import ctypes
import os
import select
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from psring_run import PATIENCE_S, Tap, Workspace, is_sanitized

IN_CREATE, IN_MOVED_TO = 0x100, 0x80
OPTIONS = ["--model", "mlp", "--data", "synthetic:count=600,test=90,channels=1,size=28", "--batch-size", "16", "--threads", "1", "--workers", "2",
           "--steps", "1000000", "--mode", "ring"]


class Watch:
    """What comes into a folder, in its order."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init()
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_CREATE | IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def next(self, timeout_s):
        """Names, as soon as there is one; none when the time is over."""
        names = []
        if select.select([self.fd], [], [], timeout_s)[0]:
            data, at = os.read(self.fd, 65536), 0
            while at < len(data):
                length = struct.unpack_from("iIII", data, at)[3]
                names.append(data[at + 16:at + 16 + length].rstrip(b"\0").decode())
                at += 16 + length
        return names


def play(psring, directory, name, kill):
    """(the first names that came into the runtime folder, what is in it after all processes of the
    run have gone)"""
    runtime, out = os.path.join(directory, name), os.path.join(directory, name + ".out")
    os.mkdir(runtime, 0o700)
    watch = Watch(runtime)
    alive, held = os.pipe()  # all that the launcher starts holds the other end
    launcher = subprocess.Popen([psring, "train", "--out", out] + OPTIONS, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, pass_fds=[held], env=dict(os.environ, XDG_RUNTIME_DIR=runtime), start_new_session=True)
    os.close(held)
    try:
        names = watch.next(PATIENCE_S)
        launcher.send_signal(kill)
        launcher.wait(PATIENCE_S)
        gone = bool(select.select([alive], [], [], PATIENCE_S)[0])
        names += watch.next(0)
        return names, os.listdir(runtime) if gone else ["processes"]
    finally:
        os.close(alive)
        os.close(watch.fd)
        if launcher.poll() is None:
            os.killpg(launcher.pid, signal.SIGKILL)
            launcher.wait()


def main():
    psring, tap = os.path.abspath(sys.argv[1]), Tap()
    with Workspace() as directory:
        names, left = play(psring, directory, "interrupted", signal.SIGINT)
        tap.ok(len(names) == 1 and names[0].startswith("psring-") and not left, "a run's folder is made once, and removed",
               [str(names), str(left)])
        for number in range(3 if is_sanitized(psring) else 20):
            names, left = play(psring, directory, "killed-%d" % number, signal.SIGKILL)
            if not tap.ok(len(names) == 1 and not left, "killed the moment that the folder is there (%d)" % number, [str(names), str(left)]):
                break
    tap.end()


if __name__ == "__main__":
    main()
