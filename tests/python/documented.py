"""Whether what a user is told is what docs/pytorch.md, "What a user sees", has: line by line, but
for the host's name, who waits, seconds, folders, torch's version, and a device that stands in for a
GPU."""

import pathlib
import re
import socket

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"


def lines():
    """The lines of the section's blocks of text."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## What a user sees\n")
    blocks = re.findall(r"^```text\n(.*?)^```$", section.partition("\n## ")[0], re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def documented(line):
    """line: as it was said, or as Python ends a program with it."""
    said = line.replace(socket.gethostname(), "node3").replace("localhost", "node3")
    said = re.sub(r"\d+\.\d s\b", "22.5 s", said)
    said = re.sub(r"; rank \d+ on node3 waits", "; rank 0 on node3 waits", said)
    said = re.sub(r"\bmeta\b", "cuda:0", said)
    said = re.sub(r"\btorch \d[\w.+]*", "torch 2.6.0", said)
    return said in lines()
