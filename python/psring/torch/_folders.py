"""Folders that the ranks of a host share for as long as they live. Each rank holds its folders by a
lock, which ends with its process: those that nobody holds were left by ranks that were killed
together, and the next start removes them."""

import contextlib
import fcntl
import os
import shutil
import stat
import time

TRIES = 100  # to hold a folder that other starts may remove before it is held
AGAIN_S = 0.01  # between two looks at a folder that is held


def make(path):
    """The descriptor that holds a folder, which is made if it is not there; None: it is not this
    user's alone."""
    for _ in range(TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        held = _hold(path)
        if held is not None:
            return held
    return None


def _hold(path):
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # a file system without locks: its folders are never swept
        fcntl.flock(held, fcntl.LOCK_SH)
    found = os.fstat(held)
    if found.st_nlink > 0 and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700 and _is_there(path, found):
        return held
    os.close(held)
    return None


def _is_there(path, found):
    with contextlib.suppress(OSError):
        return os.path.samestat(os.lstat(path), found)
    return False


def _wait_unheld(own, within_s):
    """Locks it; False: it is still held after so long. flock() knows no time limit, so it is asked
    again."""
    end = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(AGAIN_S)


def remove_unheld(path, within_s=0.0):
    """Removes a folder of this user that nobody holds, or nobody will after so long. Whether it
    did."""
    try:
        own = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.fstat(own).st_uid != os.getuid():
            return False
        if not _wait_unheld(own, within_s):
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(own)


def sweep(base, prefix):
    """Removes what ranks that were killed have left in base."""
    with contextlib.suppress(OSError):
        for name in os.listdir(base):
            if name.startswith(prefix):
                remove_unheld(os.path.join(base, name))
