"""A terminal for tests: a pseudo terminal of any width, and what a person would see on it.

Screen understands what psring prints and no more: text, line ends, carriage returns, and the two
sequences that erase (to the end of the line, to the end of the screen). Anything else is an error,
so that nothing that it does not understand is overlooked."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import threading

from psring_run import PATIENCE_S, join_thread


class Screen:
    """Rows without an end, `width` columns wide. A character beyond the last column goes to the
    next row, as terminals do."""

    def __init__(self, width):
        self.width = width
        self.rows = [""]
        self.row = self.column = 0
        self.wraps = 0  # characters that did not fit their row

    def put(self, text):
        for piece in re.findall(r"\033\[[JK]|\r|\n|[^\r\n\033]+|\033", text):
            if piece == "\r":
                self.column = 0
            elif piece == "\n":
                self.row += 1
                if self.row == len(self.rows):
                    self.rows.append("")
            elif piece in ("\033[K", "\033[J"):
                self.rows[self.row] = self.rows[self.row][:self.column]
                if piece == "\033[J":
                    del self.rows[self.row + 1:]
            elif piece == "\033":
                raise AssertionError("a sequence that this screen does not know: %r" % text)
            else:
                for character in piece:
                    self._put_character(character)

    def _put_character(self, character):
        if self.column == self.width:
            self.wraps += 1
            self.column = 0
            self.row += 1
            if self.row == len(self.rows):
                self.rows.append("")
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[:self.column] + character + row[self.column + 1:]
        self.column += 1


class Terminal:
    """writes: the descriptor for a process. Reads all that comes, in a thread; changed is notified
    then."""

    def __init__(self, columns, rows=24):
        self.reads, self.writes = pty.openpty()
        self.hung_up, self.hang_up_now = os.pipe()
        self.resize(columns, rows)
        self.changed = threading.Condition()
        self.text = ""
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def resize(self, columns, rows=24):
        fcntl.ioctl(self.reads, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self):
        left = b""
        while True:
            try:
                ready = select.select([self.reads, self.hung_up], [], [])[0]
                chunk = os.read(self.reads, 65536) if self.hung_up not in ready else b""
            except OSError:  # how a terminal ends
                chunk = b""
            with self.changed:
                text = (left + chunk).decode(errors="replace")
                left = b""
                self.text += text
                self.ended = not chunk
                self.changed.notify_all()
            if not chunk:
                return

    def wait_for(self, pattern, timeout_s=PATIENCE_S, start=0):
        """Where the first match behind start ends."""
        with self.changed:
            found = None

            def there():
                nonlocal found
                found = re.compile(pattern).search(self.text, start)
                return found or self.ended
            self.changed.wait_for(there, timeout_s)
            if not found:
                raise AssertionError("'%s' does not come; the terminal has %r" % (pattern, self.text[start:][-600:]))
            return found.end()

    def read_to_end(self, timeout_s=PATIENCE_S):
        join_thread(self.reader, "what is written to the terminal", timeout_s)
        with self.changed:
            return self.text

    def hang_up(self):
        """The window is closed, or the connection lost: the kernel tells who is on the terminal.
        Not while somebody reads: that keeps it, and would go on with whatever gets the descriptor's
        number next."""
        os.write(self.hang_up_now, b"x")
        self.read_to_end()
        os.close(self.reads)
        self.reads = -1

    def close(self):
        if self.reads >= 0:
            self.hang_up()
        os.close(self.hung_up)
        os.close(self.hang_up_now)
