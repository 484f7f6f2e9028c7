"""What a script has started ends with the script, also if that is ended before it could see to it:
by Ctrl-C on `meson test`, by a time limit, by SIGKILL. Runs are in sessions of their own and would
go on.

A process forked from the script, in a session of its own, waits for the script's end. Then it kills
all that have the script's mark in their environment, which everything that the script starts
inherits: whoever their parent is by then, and nobody else. Folders and network namespaces whose
names begin with name() are removed. Python's standard library alone.

The environment that is looked at is the one that a program began with. So ranks that a script forks
of itself have the mark if the script itself began with it: is_shown().

usage of shell scripts, with the mark in PSR_SCRIPT_MARK: outlived.py PROCESS"""

import atexit
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

MARK = "PSR_SCRIPT_MARK"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KERNEL_THREAD = 0x00200000  # include/linux/sched.h: PF_KTHREAD
GRACE_S = 10  # from the kill of a process to its end; one that hangs in a driver is left alone


def begin():
    """Once, before the script has threads. A script that another one has started ends with that
    one."""
    if MARK in os.environ:
        return
    mark, script = uuid.uuid4().hex, os.pidfd_open(os.getpid())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # of the script's group
    watcher = os.fork()
    if watcher == 0:
        _watch(script, mark)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(script)
    os.environ[MARK] = mark
    atexit.register(_dismiss, os.getpid(), watcher)


def name():
    """What names begin with of folders and namespaces that are to go with the script."""
    return "psr-%s-" % os.environ[MARK][:8]


def is_shown():
    """Whether this process began with the mark, so that what it forks is found too."""
    return _has(os.getpid(), os.environ[MARK])


def _dismiss(script, watcher):
    """The script has come to its own end, and has seen to what it started."""
    if os.getpid() == script:
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)


def _watch(script, mark):
    try:
        if os.getpgrp() != os.getpid():
            os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.dup2(script, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # a pipe's end comes when the script closes it
        _has_ended(3)
        clean(mark)
    finally:
        os._exit(0)


def _has_ended(fd, seconds=None):
    """Of a pidfd, within so many seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if seconds is None else max(0, seconds) * 1000))


def environment(number):
    """The variables that a process began with, as in [b"HOME=/root"]. None where it has ended or is
    another user's."""
    while True:
        try:
            begins = _begins(number)  # asked first: it may be shown from now on
            with open("/proc/%d/environ" % number, "rb") as file:
                shown = file.read().split(b"\0")[:-1]
        except OSError:
            return []
        if shown or not begins:
            return shown
        time.sleep(0.001)


def _begins(number):
    """Whether the process is between the kernel's taking of a program and its first instruction:
    for that long it shows no environment. Threads of the kernel and who has ended have none
    (proc(5): state, flags, env_end)."""
    with open("/proc/%d/stat" % number, "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return fields[0] not in b"ZX" and not int(fields[6]) & KERNEL_THREAD and int(fields[48]) == 0


def _has(number, mark):
    return ("%s=%s" % (MARK, mark)).encode() in environment(number)


def _marked(mark):
    """{number: pidfd} of all processes that have the mark, but this one."""
    found = {}
    for number in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            fd = os.pidfd_open(number)
        except OSError:
            continue
        if number != os.getpid() and _has(number, mark):
            found[number] = fd
        else:
            os.close(fd)
    return found


def end_marked(mark):
    """Kills all that have the mark, until none is left: they may have started others meanwhile."""
    lasting = set()
    while True:
        marked = _marked(mark)
        for fd in marked.values():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        end = time.monotonic() + GRACE_S
        ended = {number for number, fd in marked.items() if number not in lasting and _has_ended(fd, end - time.monotonic())}
        for fd in marked.values():
            os.close(fd)
        lasting = set(marked) - ended
        if not ended:
            return


def clean(mark):
    """What a script has left. Folders are those for temporary files."""
    end_marked(mark)
    start = "psr-%s-" % mark[:8]
    for folder in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():
        if folder.startswith(start):
            subprocess.run(["ip", "netns", "del", folder], check=False)
    for folder in os.listdir(tempfile.gettempdir()):
        if folder.startswith(start):
            shutil.rmtree(os.path.join(tempfile.gettempdir(), folder), ignore_errors=True)


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit() or MARK not in os.environ:
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    try:
        script = os.pidfd_open(int(sys.argv[1]))
    except ProcessLookupError:  # it has ended already
        clean(os.environ[MARK])
    else:
        _watch(script, os.environ[MARK])


if __name__ == "__main__":
    main()
