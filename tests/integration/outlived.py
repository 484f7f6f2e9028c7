"""What a test has started ends with the test, also if that is ended before it could see to it: by
Ctrl-C on `meson test`, by a time limit, by SIGKILL. Its runs are in sessions of their own and would
go on.

A process forked from the test, in a session of its own, waits for the test's end. Then it kills all
that have the test's mark in their environment, which everything that the test starts inherits:
whoever their parent is by then, and nobody else. Python's standard library alone."""

import atexit
import os
import select
import signal
import uuid

MARK = "PSR_TEST_MARK"


def begin():
    """Once, before the test has threads. A test that another one has started ends with that one."""
    if MARK in os.environ:
        return
    mark, test = uuid.uuid4().hex, os.pidfd_open(os.getpid())
    watcher = os.fork()
    if watcher == 0:
        _watch(test, mark)
    os.close(test)
    os.environ[MARK] = mark
    atexit.register(_dismiss, os.getpid(), watcher)


def _dismiss(test, watcher):
    """The test has come to its own end, and has seen to what it started."""
    if os.getpid() == test:
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)


def _watch(test, mark):
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.dup2(test, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # a pipe's end comes when the test closes it
        _wait(3)
        end_marked(mark)
    finally:
        os._exit(0)


def _wait(test):
    poll = select.poll()
    poll.register(test, select.POLLIN)
    poll.poll()


def _marked(mark):
    """(pidfd, whether it has the mark) of each process that there is."""
    wanted = ("%s=%s" % (MARK, mark)).encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fd = os.pidfd_open(int(name))
        except OSError:
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as environment:
                yield fd, wanted in environment.read().split(b"\0")
        except OSError:
            pass
        finally:
            os.close(fd)


def end_marked(mark):
    """Kills all that have the mark, until none is left: they may have started others meanwhile."""
    found = True
    while found:
        found = False
        for fd, has in _marked(mark):
            if has:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                found = True
