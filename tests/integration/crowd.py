"""Very many connections to the sockets of a run, over ipc or TCP, with a member's token or with
none."""

import contextlib
import errno
import os
import re
import resource
import select
import socket
import struct
import time

import key_files

FRAME_BYTES = 1 << 20  # the largest that an inbox takes
PATIENCE_S = 300


def greeting(mechanism=b"PLAIN", major=3):
    """https://rfc.zeromq.org/spec/23/"""
    return b"\xff" + b"\0" * 8 + b"\x7f" + bytes([major, 0]) + mechanism.ljust(20, b"\0") + b"\0" * 32


def command(name, body):
    data = bytes([len(name)]) + name + body
    return bytes([4, len(data)]) + data


def plain_hello(name, token):
    return command(b"HELLO", bytes([len(name)]) + name + bytes([len(token)]) + token)


def initiate(routing_id):
    properties = ((b"Socket-Type", b"DEALER"), (b"Identity", routing_id))
    return command(b"INITIATE", b"".join(bytes([len(key)]) + key + struct.pack(">I", len(value)) + value for key, value in properties))


def token_for(key_file, role, rank):
    """What the owner of that file shows to that member."""
    keys = key_files.as_json(key_file)
    if "token" in keys:  # all share it
        return keys["token"]
    return [member["key"] for member in keys["members"] if (member["role"], member["rank"]) == (role, rank)][0]


def most_of_a_frame():
    return struct.pack(">BQ", 2, FRAME_BYTES) + bytes(FRAME_BYTES - 100)


def of_a_stranger():
    """[(what is awaited, what is said then)]: as much as an inbox takes before it knows that it is
    one."""
    return [(b"", greeting() + struct.pack(">BQ", 6, FRAME_BYTES) + b"\x05HELLO" + bytes(FRAME_BYTES - 100))]


def of_a_member(name, token):
    """It is let in, and then sends a first message that never ends."""
    return [(b"", greeting() + plain_hello(name.encode(), token.encode())), (b"WELCOME", initiate(os.urandom(15) + b"x")),
            (b"READY", most_of_a_frame())]


def dial(at):
    """at: a path, or a port of 127.0.0.1. None: it is refused for now."""
    stranger = socket.socket(socket.AF_UNIX if isinstance(at, str) else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        stranger.connect(at if isinstance(at, str) else ("127.0.0.1", at))
    except BlockingIOError as why:
        if why.errno != errno.EINPROGRESS:  # EAGAIN: its queue is full
            stranger.close()
            return None
    except OSError:
        stranger.close()
        return None
    return stranger


class Crowd:
    def __init__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.connections, self.stay = [], []
        self.left = {}  # of a connection what it has still to say
        self.awaiting = {}  # what it hears first, and all that it will say then
        self.let_in = 0

    def come(self, at, count, says):
        """So many connections, of which every other one says something, and the rest nothing:
        says() gives it."""
        end = time.monotonic() + PATIENCE_S
        came = 0
        while came < count and time.monotonic() < end:
            stranger = dial(at)
            if stranger is None:
                self.press(0.01)
                continue
            came += 1
            self.connections.append(stranger)
            if came % 2:
                self.begin(stranger, says())
            if came % 16 == 0:
                self.press(0)
        return came

    def begin(self, stranger, parts):
        self.left[stranger] = parts[0][1]
        if parts[1:]:
            self.awaiting[stranger] = parts[1:]

    def hear(self, stranger):
        """Goes on when what was awaited has come."""
        try:
            heard = stranger.recv(4096)
        except OSError:
            heard = b""
        parts = self.awaiting[stranger]
        if not heard:
            del self.awaiting[stranger]
        elif parts[0][0] in heard:
            self.let_in += parts[0][0] == b"READY"
            del self.awaiting[stranger]
            self.begin(stranger, parts)

    def press(self, timeout_s):
        """Sends what is taken. Whether there is more to send."""
        ready = select.poll()
        silent = [stranger for stranger in self.awaiting if stranger not in self.left]
        by_number = {stranger.fileno(): stranger for stranger in list(self.left) + silent}
        for number, stranger in by_number.items():
            ready.register(number, select.POLLOUT if stranger in self.left else select.POLLIN)
        for number, _ in ready.poll(timeout_s * 1000):
            stranger = by_number[number]
            if stranger not in self.left:
                self.hear(stranger)
                continue
            try:
                self.left[stranger] = self.left[stranger][stranger.send(self.left[stranger]):]
            except BlockingIOError:
                continue
            except OSError:  # hung up on
                self.left[stranger] = b""
            if not self.left[stranger]:
                del self.left[stranger]
        return bool(self.left or self.awaiting)

    def press_on(self, wanted=0, quiet_s=0.5):
        """Until all is sent, or nobody takes any more of it. wanted: so many more are to be let in,
        and who lets them in may not have had its turn yet."""
        end = time.monotonic() + PATIENCE_S
        wanted += self.let_in
        before, since = None, time.monotonic()
        while self.press(0.1) and time.monotonic() < end:
            now = (sum(len(rest) for rest in self.left.values()), len(self.left), len(self.awaiting))
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > (quiet_s if self.let_in >= wanted else 10 * quiet_s):
                return

    def held(self):
        """Those that are not hung up on."""
        count = 0
        for stranger in self.connections:
            try:
                while True:
                    got = stranger.recv(4096)
                    if not got:
                        break
            except BlockingIOError:
                count += 1
            except OSError:
                pass
        return count

    def await_held(self, most):
        """How many are held when they are so few, or after a while: some are still to be looked at
        when all have come."""
        end = time.monotonic() + PATIENCE_S
        while self.held() > most and time.monotonic() < end:
            self.press(0.05)
        return self.held()

    def settle(self):
        """Those that have come stay as they are, and are not of those that are held from now on."""
        self.stay += self.connections
        self.connections, self.left, self.awaiting = [], {}, {}

    def go(self):
        self.settle()
        for stranger in self.stay:
            with contextlib.suppress(OSError):
                stranger.close()
        self.stay = []


def sockets_in(directory):
    """[(path, role, rank)] of the inboxes of a run."""
    found = []
    for name in sorted(os.listdir(directory)):
        of = re.fullmatch(r"(scheduler|shard|worker)-(\d+)-[0-9a-f]{8}", name)
        if of:
            found.append((os.path.join(directory, name), of[1], int(of[2])))
    return found
