"""Commands with an end: each in a session of its own, with a deadline, after which it is ended by
its id with all of its group. What it says goes into files, so that nothing waits for a pipe that
somebody still holds. Python's standard library alone."""
import os
import signal
import subprocess
import threading
import time

GRACE_S = 5  # between the request to end and the kill


class Done:
    """A command that has ended. status: as subprocess has it."""

    def __init__(self, words, status, path):
        self.words, self.status = [str(word) for word in words], status
        self.out, self.err = (_text(path + ending) for ending in (".out", ".err"))

    def last_line(self):
        """What it said last, which is what went wrong, if something did."""
        lines = [line.strip() for line in (self.out + "\n" + self.err).splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


class Failed(Exception):
    """It ended with a status that is not 0. done: what it said."""

    def __init__(self, done):
        super().__init__("%s ended with status %d: %s" % (os.path.basename(done.words[0]), done.status, done.last_line()))
        self.done = done


class Overran(Exception):
    """It was ended at its deadline. done: what it had said."""

    def __init__(self, done):
        super().__init__("%s was ended at the part's limit" % os.path.basename(done.words[0]))
        self.done = done


def _text(path):
    with open(path, errors="replace") as file:
        return file.read()


class _Running:
    """A command. It is reaped last of all, so that until then its id is nobody else's."""

    def __init__(self, words, path, env):
        with open(path + ".out", "wb") as out, open(path + ".err", "wb") as err:
            self.process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                            start_new_session=True)
        self.waiting = threading.Thread(target=os.waitid, args=(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT), daemon=True)
        self.waiting.start()

    def has_ended(self, seconds):
        """Within so many."""
        self.waiting.join(max(0.0, seconds))
        return not self.waiting.is_alive()

    def signal(self, number):
        """To its group."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        """Asks first, so that it can end what it started elsewhere. What does not even end when it
        is killed, inside a driver that hangs, is left alone."""
        self.signal(signal.SIGTERM)
        self.has_ended(GRACE_S)
        self.signal(signal.SIGKILL)
        if self.has_ended(GRACE_S):
            self.process.wait()


class _Start:
    """Whether one is being started, and what interrupted that."""
    under_way, interrupted_by = False, None


def interrupt(error):
    """For handlers of signals: raises the error, but while a command is being started only after
    it, so that none is left that nobody would end."""
    if not _Start.under_way:
        raise error
    _Start.interrupted_by = error


def _end_start():
    _Start.under_way = False
    if _Start.interrupted_by is not None:
        raise _Start.interrupted_by


def run(words, deadline, path, env=None):
    """Done. words: the command's. deadline: of time.monotonic(). path: of its output, with .out and
    .err behind it. Overran; OSError, where it cannot be started."""
    _Start.under_way = True
    try:
        running = _Running(words, path, env)
    except BaseException:
        _end_start()
        raise
    try:
        _end_start()
        ended = running.has_ended(deadline - time.monotonic())
    except BaseException:  # a signal to this script
        running.end()
        raise
    if not ended:
        running.end()
        raise Overran(Done(words, -signal.SIGKILL, path))
    running.signal(signal.SIGKILL)  # what it has left of its group
    return Done(words, running.process.wait(), path)
