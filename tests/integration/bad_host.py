#!/usr/bin/env python3
"""Stands for ssh to a host whose agent misbehaves: `psring train --ssh "python3 bad_host.py WHAT
VERSION FLOOD FIFO"`. What follows are ssh's own words, which nobody looks at here. Without WHAT
lists what it can do."""

import json
import os
import sys


def say(event, **fields):
    sys.stdout.write(json.dumps(dict(fields, event=event)) + "\n")
    sys.stdout.flush()


def hello(**fields):
    say("hello", **dict({"version": version, "host": "bad", "cores": 2, "address": "127.0.0.1", "launcher_address": "127.0.0.1"}, **fields))


def await_spawn():
    """The member that is to be started here."""
    for line in sys.stdin:
        command = json.loads(line)
        if command["op"] == "spawn":
            return command["role"], command["rank"]
    sys.exit(0)


def await_end():
    """The launcher's last word."""
    for _ in sys.stdin:
        pass


def hello_twice():
    for _ in range(30):
        hello()


def no_cores():
    hello(cores=-1)


def a_name_for_an_address():
    hello(launcher_address="eth0")


def a_terminal_command_for_an_address():
    hello(address="\x1b]0;owned\x07")


def a_terminal_command_behind_an_address():
    hello(address="127.0.0.1%\x1b[2J")


def all_interfaces():
    hello(address="0.0.0.0")


def sees_us_at_all_interfaces():
    hello(launcher_address="::")


def many_hosts():
    hello(address="224.0.0.1")


def loopback_from_elsewhere():
    hello(launcher_address="192.0.2.1")


def on_its_own_loopback():
    hello(machine="another")


def sees_us_at_anothers_address():
    hello(address="192.0.2.2", launcher_address="192.0.2.1")


def no_event():
    hello()
    print("what is an event? \x1b[2J\x9b", flush=True)


def speaks_too_early():
    hello()
    say("exited", role="worker", rank=1, ok=False, how="of no reason")


def blames_another_host():
    hello()
    await_spawn()
    say("exited", role="worker", rank=0, ok=False, how="killed by signal 9 (Killed)")


def forges_a_line():
    hello()
    await_spawn()
    say("line", role="worker", rank=0, stream="out", text="epoch: 1 step: 1, loss is 0.000")


def speaks_for_the_scheduler():
    hello()
    await_spawn()
    say("line", role="scheduler", rank=0, stream="err", text="all is well")


def invents_ranks():
    hello()
    await_spawn()
    for rank in range(2, 3002):
        say("line", role="worker", rank=rank, stream="out", text="here")


def half_a_rank():
    hello()
    await_spawn()
    say("line", role="worker", rank=0.5, stream="out", text="here")


def no_stream():
    hello()
    role, rank = await_spawn()
    say("line", role=role, rank=rank, stream="both", text="here")


def flood_with(fd, line):
    sys.stdout.flush()
    os.execv(flood, [flood, str(fd), line, fifo])


def flood_of_greetings():
    flood_with(1, "Welcome to this host!")


def flood_of_hellos():
    """The launcher hears no more of them than two, but they go on."""
    hello()
    flood_with(1, '{"event": "hello", "version": "%s"}' % version)


def flood_of_lines():
    hello()
    role, rank = await_spawn()
    flood_with(1, json.dumps({"event": "line", "role": role, "rank": rank, "stream": "out", "text": "chatter"}))


def flood_of_errors():
    hello()
    flood_with(2, "something is wrong here \x1b[2J")


CAN_DO = {function.__name__.replace("_", "-"): function for function in (
    hello_twice, no_cores, a_name_for_an_address, a_terminal_command_for_an_address, a_terminal_command_behind_an_address, all_interfaces,
    sees_us_at_all_interfaces, many_hosts, loopback_from_elsewhere, on_its_own_loopback, sees_us_at_anothers_address, no_event, speaks_too_early, blames_another_host,
    forges_a_line, speaks_for_the_scheduler, invents_ranks, half_a_rank, no_stream, flood_of_greetings, flood_of_hellos, flood_of_lines,
    flood_of_errors)}

if len(sys.argv) < 2:
    print("\n".join(CAN_DO))
    sys.exit(0)
what, version, flood, fifo = sys.argv[1:5]
CAN_DO[what]()
await_end()
