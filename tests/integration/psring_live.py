"""A run of psring as it goes on: its output line by line, its processes, and what is left when it
has ended.

Processes are found by a word that the test puts into the launcher's environment and that all it
starts inherit: so an orphan is found too, whoever its parent is by then, and two runs on one
machine never see each other. None is ever found by name."""

import json
import os
import re
import select
import signal
import subprocess
import threading
import time
import uuid

from psring_run import PATIENCE_S, join_thread, outlived

MARK = "PSRING_TEST_RUN"
FORKED = 0x00000040  # include/linux/sched.h: PF_FORKNOEXEC


class Process:
    """One process, for as long as it lives: its pidfd stays that process's when the number is given
    to another."""

    def __init__(self, pid):
        self.pid = pid
        self.fd = os.pidfd_open(pid)
        self.program, self.command, self.role = "", [], None
        stat = stat_of(pid)
        self.began = int(stat[19]) if stat else 0  # in ticks: proc(5), starttime
        self.look()

    def look(self):
        """What it runs. A child looks like its parent until it has begun a program of its own
        (proc(5): flags), and has no role yet. One that has ended shows no command, and keeps
        it."""
        stat = stat_of(self.pid)
        forked = bool(stat) and bool(int(stat[6]) & FORKED)
        words = read_bytes("/proc/%d/cmdline" % self.pid).split(b"\0")
        if not words[0]:
            return
        self.program = os.path.basename(words[0].decode(errors="replace"))
        self.command = [word.decode(errors="replace") for word in words if word]
        self.role = {"psring-worker": "worker", "psring-worker-cuda": "worker", "psring-ps": "shard", "psring-scheduler": "scheduler"}.get(self.program)
        if self.program == "psring" and not forked:
            self.role = "agent" if "agent" in self.command[1:2] else "launcher"

    def __repr__(self):
        return "%s (process %d)" % (" ".join(self.command), self.pid)

    def signal(self, number):
        try:
            signal.pidfd_send_signal(self.fd, number)
        except ProcessLookupError:
            pass

    def ended(self, timeout_s=0.0):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(max(0, timeout_s) * 1000))

    def state(self):
        stat = stat_of(self.pid)
        return stat[0].decode() if stat else "X"

    def wait_stopped(self, timeout_s=PATIENCE_S):
        """The kernel tells nobody but a parent when a process stops, so its state is asked for
        again and again."""
        end = time.monotonic() + timeout_s
        while self.state() not in "Tt":
            if time.monotonic() > end or self.ended():
                raise AssertionError("%r does not stop" % self)
            time.sleep(0.002)

    def sockets(self):
        found = set()
        try:
            for fd in os.listdir("/proc/%d/fd" % self.pid):
                match = re.match(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" % (self.pid, fd)))
                found |= {match.group(1)} if match else set()
        except OSError:
            pass
        return found

    def ports(self):
        """TCP ports that it listens on."""
        sockets, ports = self.sockets(), []
        for line in read_bytes("/proc/net/tcp").decode().splitlines()[1:]:
            field = line.split()
            if field[3] == "0A" and field[9] in sockets:
                ports.append(int(field[1].split(":")[1], 16))
        return ports

    def socket_files(self):
        """Paths of ipc sockets that it listens on, or has accepted connections of; but psring
        mode's, which is in the run directory and no member's."""
        sockets, files = self.sockets(), []
        for line in read_bytes("/proc/net/unix").decode(errors="replace").splitlines()[1:]:
            field = line.split()
            if len(field) > 7 and field[6] in sockets and not field[7].startswith("@") and not field[7].endswith("/mode.sock"):
                files.append(field[7])
        return files

    def arenas(self):
        """The shared memory that it has mapped, of its own or of others: devices and inodes."""
        return {tuple(line.split()[3:5]) for line in read_bytes("/proc/%d/maps" % self.pid).decode(errors="replace").splitlines()
                if "/memfd:psring-arena" in line}

    def children(self):
        """Numbers of its children, those included that have ended and that it has not yet looked
        at."""
        found = []
        for name in os.listdir("/proc"):
            stat = stat_of(int(name)) if name.isdigit() else []
            if stat and int(stat[1]) == self.pid:
                found.append(int(name))
        return found

    def memory_peak_bytes(self):
        match = re.search(rb"VmHWM:\s+(\d+) kB", read_bytes("/proc/%d/status" % self.pid))
        return int(match.group(1)) * 1024 if match else 0

    def close(self):
        os.close(self.fd)


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def stat_of(pid):
    """The fields of its stat behind the name, from the state on (proc(5)); none if it is gone."""
    return read_bytes("/proc/%d/stat" % pid).rpartition(b")")[2].split()


def end_of(path, most):
    """Its last bytes, as many as are asked for."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read()
    except OSError:
        return b""


def still_mapped(arenas):
    """Which of them any process of this machine maps."""
    maps = [read_bytes("/proc/%s/maps" % name).decode(errors="replace") for name in os.listdir("/proc") if name.isdigit()]
    return sorted(arena for arena in arenas if any("%s %s " % arena in text for text in maps))


def marked(mark):
    """Numbers of the processes that have the mark in their environment."""
    wanted = ("%s=%s" % (MARK, mark)).encode()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid() and
            wanted in outlived.environment(int(name))]


class Live:
    """One command that may start a whole run. It gets a directory of its own to be in and to put
    temporary files into. out: a descriptor for all it says, which is then the caller's to read or
    not."""

    def __init__(self, command, directory, name, stdin=subprocess.DEVNULL, out=None, env=None):
        self.name = name
        self.command = command
        self.here = os.path.join(directory, name + ".here")
        self.temporary = os.path.join(directory, name + ".tmp")
        os.mkdir(self.here)
        os.mkdir(self.temporary, 0o700)
        self.mark = uuid.uuid4().hex
        self.changed = threading.Condition()
        self.lines = []  # (stream, line)
        self.process = subprocess.Popen(command, stdin=stdin, stdout=out or subprocess.PIPE, stderr=out or subprocess.PIPE, text=True,
                                        errors="replace", start_new_session=True, cwd=self.here,
                                        env=dict(env or os.environ, TMPDIR=self.temporary, XDG_RUNTIME_DIR=self.temporary,
                                                 **{MARK: self.mark}))
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in (("out", self.process.stdout), ("err", self.process.stderr)) if pair[1]]
        self.open_streams = len(self.readers)
        for reader in self.readers:
            reader.start()
        self.seen = {}

    def _read(self, stream, file):
        for line in file:
            with self.changed:
                self.lines.append((stream, line.rstrip("\n")))
                self.changed.notify_all()
        with self.changed:
            self.open_streams -= 1
            self.changed.notify_all()

    def text(self, stream):
        with self.changed:
            return [line for of, line in self.lines if of == stream]

    def why(self):
        with self.changed:
            said = ["%s: %s" % line for line in self.lines]
        # A sanitizer's report begins with what it is about, and is longer than the lines that are
        # shown of the end.
        reports = [i for i, line in enumerate(said[:-40]) if "ERROR: AddressSanitizer" in line]
        head = said[reports[0]:reports[0] + 60][:max(0, len(said) - 40 - reports[0])] if reports else []
        return ["$ " + " ".join(self.command), "exit status %s" % self.process.poll()] + head + said[-40:]

    def wait_line(self, pattern, timeout_s=PATIENCE_S):
        """The first line, of either stream, in which pattern is found."""
        end = time.monotonic() + timeout_s
        at = 0
        with self.changed:
            while True:
                for _, line in self.lines[at:]:
                    if re.search(pattern, line):
                        return line
                at = len(self.lines)
                left = end - time.monotonic()
                if left <= 0 or self.open_streams == 0:
                    raise AssertionError("no line with '%s' %s" % (pattern, "came in %d s" % timeout_s if left <= 0
                                                                     else "came: it ended"))
                self.changed.wait(left)

    def wait_until(self, condition, timeout_s):
        """For what only files tell: asks again and again. A file that is not there yet, or
        half-written, is a no."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                if condition():
                    return
            except (OSError, ValueError, KeyError, TypeError):
                pass
            if time.monotonic() > end:
                raise AssertionError("what was waited for did not come in %d s" % timeout_s)
            time.sleep(0.02)

    def processes(self):
        """All that are alive, parents before their children."""
        alive = []
        for pid in marked(self.mark):
            known = self.seen.get(pid)
            try:
                process = known if known and not known.ended() else Process(pid)
            except OSError:
                continue  # it ended meanwhile
            if process is known:
                process.look()
            self.seen[pid] = process
            if not process.ended():
                alive.append(process)
        return sorted(alive, key=lambda process: (process.began, process.pid))

    def wait_ended(self, timeout_s, but=None):
        """Seconds until all of its processes were gone (but one); None when some are not by then,
        which is the caller's to judge."""
        begin = time.monotonic()
        while True:
            alive = [process for process in self.processes() if process is not but]
            if not alive:
                return time.monotonic() - begin
            for process in alive:
                if not process.ended(begin + timeout_s - time.monotonic()):
                    return None

    def wait(self, timeout_s):
        """The exit status, and all output read; None: it has not ended, which is the caller's to
        judge."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        for reader in self.readers:
            join_thread(reader, "what %s writes" % self.name)
        return status

    def await_end(self, timeout_s=PATIENCE_S):
        """The exit status. It has to end by then."""
        status = self.wait(timeout_s)
        if status is None:
            raise AssertionError("\n".join(["it does not end within %g s:" % timeout_s] + self.why()))
        return status

    def kill(self, timeout_s=PATIENCE_S):
        """Whatever happened: nothing of it lives on, what others of it start meanwhile neither.
        Returns what did when it was called."""
        end = time.monotonic() + timeout_s
        first = alive = self.processes()
        while alive:
            # Children first: where a parent ends, the kernel wakes those that are stopped.
            for process in reversed(alive):
                process.signal(signal.SIGKILL)
            lasting = [process for process in alive if not process.ended(end - time.monotonic())]
            if lasting:
                raise AssertionError("killed, and not ended after %g s: %s" % (timeout_s, lasting))
            alive = self.processes()
        self.process.wait(max(0, end - time.monotonic()))
        for process in self.seen.values():
            process.close()
        self.seen = {}
        return first

    def leftovers(self):
        """Files that should not be there, when it has ended."""
        return sorted(os.path.join(folder, name) for top in (self.here, self.temporary) for folder, folders, names in os.walk(top)
                      for name in names + (folders if top == self.temporary else []))


class LiveRun(Live):
    """`psring train` with options: a dict of long names (True: a flag). more: words behind them."""

    def __init__(self, psring, directory, name, options, out=None, env=None, before=(), more=()):
        self.out = os.path.join(directory, name)
        self.options = dict(options)
        words = ["--" + key if value is True else "--%s=%s" % (key, value) for key, value in options.items()]
        super().__init__(list(before) + [psring, "train", "--out", self.out] + words + list(more), directory, name, out=out, env=env)

    def json(self):
        with open(os.path.join(self.out, "run.json")) as text:
            return json.load(text)

    def metrics(self):
        with open(os.path.join(self.out, "metrics.jsonl")) as lines:
            return [json.loads(line) for line in lines]

    def last_step(self, rank=0):
        """The last step of which metrics are written; 0: none yet. The file's last line may be
        half-written."""
        lines = end_of(os.path.join(self.out, "metrics.jsonl"), 1 << 16).split(b"\n")[-20:-1]
        return max((step["step"] for step in map(json.loads, lines) if step["rank"] == rank), default=0)

    def log(self, name):
        return read_bytes(os.path.join(self.out, "log", name + ".log")).decode(errors="replace").splitlines()

    def member(self, role, rank):
        """The process of that rank, by the socket or port that the roster gives it."""
        for entry in self.json()["roster"]:
            if entry["role"] == role and entry["rank"] == rank:
                scheme, place = entry["endpoint"].split("://")
                for process in self.processes():
                    if process.role == role and (place in process.socket_files() if scheme == "ipc" else
                                                 int(place.rsplit(":", 1)[1]) in process.ports()):
                        return process
        raise AssertionError("no process of %s %d" % (role, rank))

    def of_role(self, role):
        found = [process for process in self.processes() if process.role == role]
        if len(found) != 1:
            raise AssertionError("%d processes of role %s" % (len(found), role))
        return found[0]

    def leftovers(self):
        """Besides those of any command: what is half-written in the run directory."""
        torn = [os.path.join(folder, name) for folder, folders, names in os.walk(self.out) for name in folders + names
                if re.search(r"^\.|\.part$|\.tmp$|~$|\.new-", name)]
        return super().leftovers() + sorted(torn)
