"""psring run: any program, with its place in its environment; how it ends, what it prints, and that
nothing of it outlives the run.

usage: test_run.py PSRING RANK BAD-MEMBER [all]

RANK: tests/integration/rank.c, which uses libpsring. BAD-MEMBER: tests/integration/bad_member.c,
which misuses its keys."""

import os
import re
import select
import signal
import sys
import time
from functools import partial

from psring_live import Live, read_bytes, stat_of
from psring_run import PATIENCE_S, Tap, Workspace, outlived, together
from terminal import Terminal

RANK = os.path.realpath(sys.argv[2])
BAD_MEMBER = os.path.realpath(sys.argv[3])
ALL = sys.argv[4:] == ["all"]
DEADLINE_S = 15.0  # a busy machine keeps it
SHELL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "job_shell.py")
WAITS = "echo ready $PSRING_RANK; exec sleep 1000"
# What ssh is for an agent: its words by pipe, and where it was reached.
PLAYED_SSH = """#!/bin/sh
for command; do :; done
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$command"
"""


class Run(Live):
    def __init__(self, psring, directory, name, options, program, before=(), **more):
        super().__init__(list(before) + [psring, "run"] + options + ["--"] + program, directory, name, **more)

    def rank(self, rank):
        """The process that is that rank; not what it has started. It may not have been started
        yet: so it is looked for again."""
        wanted = ("PSRING_RANK=%d" % rank).encode()
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            agents = [process.pid for process in self.processes() if process.role == "agent"]
            for process in self.processes():
                stat = stat_of(process.pid)
                if not stat or int(stat[1]) not in agents:
                    continue
                if wanted in outlived.environment(process.pid):
                    return process
        raise AssertionError("no process of rank %d" % rank)

    def of_role(self, role):
        return [process for process in self.processes() if process.role == role][0]

    def wait_ready(self, ranks):
        for rank in range(ranks):
            self.wait_line("^ready %d$" % rank)


def guarded(tap, play, psring, directory):
    """What play starts it puts into a list, and all of it is ended."""
    runs = []

    def start(name, options, program, **more):
        runs.append(Run(psring, directory, name, options, program, **more))
        return runs[-1]

    try:
        play(tap, start, directory)
    except AssertionError as error:
        tap.ok(False, play.__name__, [str(error)] + [line for run in runs for line in run.why()])
    finally:
        for run in runs:
            run.kill()


def ends(tap, run, status, lines, what):
    """It ends with that status, says these lines on stderr, and leaves nothing."""
    got = run.wait(PATIENCE_S)
    said = run.text("err")
    tap.ok(got == status and len(said) == len(lines) and all(re.fullmatch(a, b) for a, b in zip(lines, said)), what, run.why())
    tap.ok(run.wait_ended(PATIENCE_S) is not None and not run.leftovers(), "%s: nothing is left" % what,
           [str(run.processes())] + run.leftovers())


def places(tap, start, directory):
    run = start("places", ["-n", "4", "-x", "COLOUR=red = green", "-x", "GIVEN", "--deadline=7"],
                ["sh", "-c", 'echo "$PSRING_RANK of $PSRING_RANKS, $PSRING_LOCAL_RANK of $PSRING_LOCAL_SIZE on $PSRING_HOST, $PSRING_DEADLINE_MS, $COLOUR, $GIVEN"; '
                 'test -S "$PSRING_SCHEDULER" && grep -q own "$PSRING_KEY_FILE" || exit 1; test -z "$PSRING_INTERFACE"'],
                env=dict(os.environ, GIVEN="it", PSRING_RANK="9", PSRING_INTERFACE="nowhere"))
    ends(tap, run, 0, [], "four ranks know their place")
    tap.ok(sorted(run.text("out")) == ["%d of 4, %d of 4 on localhost, 7000, red = green, it" % (rank, rank) for rank in range(4)],
           "and their environment is as it was asked for", run.why())


def local_places(tap, start, directory):
    """Two hosts, which are both this machine, and shards beside the ranks, which are none of
    them."""
    run = start("local-places", ["-H", "localhost:2,127.0.0.1:2", "-n", "3", "--interface", "lo"],
                ["sh", "-c", 'echo "$PSRING_RANK: $PSRING_LOCAL_RANK of $PSRING_LOCAL_SIZE"'], env=dict(os.environ, PSRING_LOCAL_RANK="7"))
    ends(tap, run, 0, [], "three ranks on two hosts")
    tap.ok(sorted(run.text("out")) == ["0: 0 of 2", "1: 1 of 2", "2: 0 of 1"], "each knows which of its host's ranks it is", run.why())


def words(tap, start, directory):
    given = ["", "two words", "'\"\\$HOME`*", "--ranks", "-n", "--", "\u00e4\u20ac", "a\nb", "=\t"]
    run = start("words", [], [sys.executable, "-c", "import sys, os; print(ascii(sys.argv[1:])); print(os.getcwd()); "
                              "print(repr(sys.stdin.read()))"] + given)
    ends(tap, run, 0, [], "one rank, without options")
    tap.ok(run.text("out") == [ascii(given), run.here, "''"],
           "it gets its arguments as they are, this directory, and nothing to read", run.why())


def descriptors(tap, start, directory):
    """By those of its agent a program would take the launcher's orders, and keep the agent's words
    from ending."""
    run = start("descriptors", ["-n", "2"], ["sh", "-c", "ls -l /proc/$$/fd"])
    ends(tap, run, 0, [], "two ranks list their descriptors")
    pipes = [line.split()[-3] for line in run.text("out") if "pipe:" in line]
    tap.ok(sorted(pipes) == ["1", "1", "2", "2"], "their output is the only pipe that they have", run.why())


def fails(tap, start, directory):
    run = start("fails", ["-n", "3"], ["sh", "-c", "test $PSRING_RANK = 1 && exit 3; " + WAITS])
    ends(tap, run, 1, ["psring run: rank 1 on localhost: exit status 3"], "a rank that exits with 3 ends the run")


def is_killed(tap, start, directory):
    run = start("killed", ["-n", "3"], ["sh", "-c", WAITS])
    run.wait_ready(3)
    run.rank(2).signal(signal.SIGKILL)
    ends(tap, run, 1, [r"psring run: rank 2 on localhost: killed by signal 9 \(Killed\)"], "a rank that is killed ends the run")


def is_stopped(tap, start, directory):
    run = start("stopped", ["-n", "2", "--deadline", str(DEADLINE_S)], ["sh", "-c", WAITS])
    run.wait_ready(2)
    run.rank(0).signal(signal.SIGSTOP)
    ends(tap, run, 1, [r"psring run: rank 0 on localhost: stopped by a signal for 15\.0 s"],
         "a rank that is stopped for longer than the deadline ends the run")


def ctrl_c(tap, start, directory):
    run = start("ctrl-c", ["-n", "2"], ["sh", "-c", "trap 'echo told; exit 0' TERM; echo ready $PSRING_RANK; while :; do sleep 1000 & wait; done"])
    run.wait_ready(2)
    run.of_role("launcher").signal(signal.SIGINT)
    ends(tap, run, 130, ["psring run: interrupted"], "Ctrl-C ends all")
    tap.ok(run.text("out")[2:] == ["told", "told"], "who wants to hear it is told", run.why())
    run = start("ctrl-c-deaf", ["-n", "2"], ["sh", "-c", "trap '' TERM; " + WAITS])
    run.wait_ready(2)
    run.of_role("launcher").signal(signal.SIGTERM)
    ends(tap, run, 130, ["psring run: interrupted"], "who does not is killed")


def ctrl_z(tap, start, directory):
    """Each rank waits for a line by a FIFO. That nobody misses it for longer than the deadline,
    only time can show."""
    terminal = Terminal(100)
    fifos = [os.path.join(directory, "fifo.%d" % rank) for rank in range(2)]
    for fifo in fifos:
        os.mkfifo(fifo)
    run = start("ctrl-z", ["-n", "2", "--deadline", str(DEADLINE_S)],
                ["sh", "-c", 'echo "ready $PSRING_RANK"; read line < "$0.$PSRING_RANK"; echo "$line"', os.path.join(directory, "fifo")],
                before=[sys.executable, SHELL, os.ttyname(terminal.writes)])
    for rank in range(2):
        terminal.wait_for(r"\[%d\] ready %d" % (rank, rank), PATIENCE_S)
    os.write(terminal.reads, b"\x1a")
    run.wait_line("^stopped by SIGTSTP$")
    ranks = [run.rank(0), run.rank(1)]
    for process in ranks:
        process.wait_stopped(PATIENCE_S)
    run.of_role("launcher").ended(1.2 * DEADLINE_S)
    tap.ok(all(process.state() == "T" for process in ranks), "Ctrl-Z stops all ranks, for longer than the deadline", run.why())
    run.process.send_signal(signal.SIGUSR1)
    for rank, fifo in enumerate(fifos):
        with open(fifo, "w") as file:
            file.write("told %d\n" % rank)
    ended = run.wait_line("^ended ")
    for rank in range(2):  # what they said may come behind the shell's line
        terminal.wait_for(r"\[%d\] told %d" % (rank, rank), PATIENCE_S)
    tap.ok(ended == "ended 0", "fg goes on with them", run.why() + [terminal.text])
    run.await_end()
    os.close(terminal.writes)
    terminal.close()


def launcher_dies(tap, start, directory):
    run = start("launcher-dies", ["-n", "2"], ["sh", "-c", WAITS])
    run.wait_ready(2)
    run.of_role("launcher").signal(signal.SIGKILL)
    run.await_end()
    tap.ok(run.wait_ended(PATIENCE_S) is not None and not run.leftovers(), "all end with the launcher", run.why())


def agent_dies(tap, start, directory):
    run = start("agent-dies", ["-n", "2"], ["sh", "-c", WAITS])
    run.wait_ready(2)
    run.of_role("agent").signal(signal.SIGKILL)
    ends(tap, run, 1, [r"psring run: rank 0 on localhost: with host localhost, whose agent ended \(killed by signal 9 \(Killed\)\)"],
         "all end with the agent")


def scheduler_stops(tap, start, directory):
    run = start("scheduler-stops", ["-n", "2", "--deadline", str(DEADLINE_S)], ["sh", "-c", WAITS])
    run.wait_ready(2)
    run.of_role("scheduler").signal(signal.SIGSTOP)
    ends(tap, run, 1, [r"psring run: scheduler 0 on \S+: no sign of life for \S+ s; the run was at its start"],
         "a scheduler that is silent ends the run")


def not_there(tap, start, directory):
    for name, program, why in (("absent", "./absent", "No such file or directory"), ("absent-name", "psring-no-such-program",
                               "No such file or directory"), ("folder", "/", "Permission denied")):
        run = start(name, ["-n", "2"], [program])
        ends(tap, run, 1, ["psring run: rank 0 on localhost: cannot run %s: %s" % (re.escape(program), why)],
             "%s cannot be run" % program)


def children(tap, start, directory):
    """One in the program's group, one in a session of its own."""
    starts = "sleep 1000 & setsid sleep 1000 & "
    run = start("children", ["-n", "2"], ["sh", "-c", starts + "exit 0"])
    ends(tap, run, 0, [], "what ranks leave behind ends with the run")
    run = start("children-fail", ["-n", "2"], ["sh", "-c", starts + "test $PSRING_RANK = 1 && exit 1; " + WAITS])
    ends(tap, run, 1, ["psring run: rank 1 on localhost: exit status 1"], "and with one that fails")


def output_files(tap, start, directory):
    run = start("files", ["-n", "2", "--output-filename", "a/b"],
                ["sh", "-c", "printf 'a\\033[2Jb\\000c'; echo \"to $PSRING_RANK\" >&2"])
    status = run.wait(PATIENCE_S)
    files = {}
    for folder, _, names in os.walk(run.here):
        for name in names:
            files[os.path.relpath(os.path.join(folder, name), run.here)] = read_bytes(os.path.join(folder, name))
    wanted = {}
    for rank in range(2):
        wanted["a/b/1/rank.%d/stdout" % rank] = b"a\033[2Jb\0c"
        wanted["a/b/1/rank.%d/stderr" % rank] = b"to %d\n" % rank
    tap.ok(status == 0 and files == wanted and not run.lines, "--output-filename: all bytes are in a file for each rank",
           run.why() + [str(files)])
    run = start("no-files", ["-n", "1", "--output-filename", "/proc/absent"], ["true"])
    ends(tap, run, 1, [r"psring run: rank 0 on localhost: --output-filename: /proc/absent: .*"], "a place that cannot be written is told")


def much_output(tap, start, directory):
    """Nobody reads what it says, and its ranks end all the same."""
    reads, writes = os.pipe()
    run = start("much", ["-n", "2"], [sys.executable, "-c", "for i in range(400000): print('line %d of a rank that says a lot' % i)\n"
                                      "print('x' * 3000000)"], out=writes)
    os.close(writes)
    begun = select.select([reads], [], [], PATIENCE_S)[0]
    tap.ok(begun and run.wait_ended(PATIENCE_S, but=run.of_role("launcher")) is not None, "unread output holds up no rank", run.why())
    size = 0
    while True:
        chunk = os.read(reads, 65536)
        if not chunk:
            break
        size += len(chunk)
    os.close(reads)
    tap.ok(run.wait(PATIENCE_S) == 0 and size > 100000, "and a part of it is there for who reads then", ["%d bytes" % size])


def on_a_terminal(tap, start, directory):
    terminal = Terminal(100)
    run = start("terminal", ["-n", "2"], ["sh", "-c", "printf 'a\\tb\\033[2Jc\\n'; test $PSRING_RANK = 0 || echo oh >&2"], out=terminal.writes)
    status = run.wait(PATIENCE_S)
    os.close(terminal.writes)
    terminal.read_to_end(PATIENCE_S)
    lines = sorted(line.rstrip("\r") for line in terminal.text.splitlines())
    terminal.close()
    tap.ok(status == 0 and lines == ["[0] a\tb?[2Jc", "[1] a\tb?[2Jc", "[1] oh"],
           "on a terminal each line says whose it is, and commands to it do not come through", [repr(lines)])


def joined(tap, start, directory):
    for name, options in (("ipc", ["--transport", "ipc"]), ("tcp", ["--transport", "tcp"]), ("shm", ["--transport", "shm"]),
                          ("shm-over-tcp", ["--transport", "shm", "--interface", "127.0.0.1"])):
        run = start("sum-" + name, ["-n", "4"] + options, [RANK, "sum"])
        ends(tap, run, 0, [], "libpsring over %s" % name)
        tap.ok(sorted(run.text("out")) == ["rank %d of 4 on localhost: 10" % rank for rank in range(4)], "its ranks have found each other",
               run.why())
    told = 'echo "$PSRING_TRANSPORT" && test -z "$PSRING_SHARING" || test "$(stat -c %a "$PSRING_SHARING")" = 700'
    for options, says in ((["--interface", "127.0.0.1"], "auto"), (["--transport", "tcp"], "tcp"), (["--transport", "ipc"], "ipc")):
        run = start("told-" + says, ["-n", "2"] + options, ["sh", "-c", told])
        ends(tap, run, 0, [], "each rank is told %s" % says)
        tap.ok(run.text("out") == [says] * 2, "and says so", run.why())
    run = start("alone", [], [RANK, "sum"])
    ends(tap, run, 0, [], "one rank")
    run = start("again", ["-n", "3"], [RANK, "again"])
    ends(tap, run, 0, [], "psring_init again after psring_close")
    tap.ok(sorted(run.text("out")) == sorted(5 * ["rank %d of 3 on localhost: 6" % rank for rank in range(3)]),
           "and again they find each other", run.why())


def one_of_the_joined_ends(tap, start, directory):
    how = r"rank 1 on localhost: killed by signal 9 \(Killed\)"
    run = start("joined-killed", ["-n", "3", "--deadline", "60"], [RANK, "loop"])
    run.wait_ready(3)
    run.rank(1).signal(signal.SIGKILL)
    ends(tap, run, 1, 2 * ["peer: .*" + how + ".*"] + ["psring run: " + how],
         "one that is killed is named by the run, and by the calls of the others")
    run = start("joined-stopped", ["-n", "3", "--deadline", str(DEADLINE_S)], [RANK, "loop"])
    run.wait_ready(3)
    run.rank(1).signal(signal.SIGSTOP)
    ends(tap, run, 1, 2 * ["peer: .*rank 1 on localhost: no sign of life for .*"] +
         [r"psring run: rank 1 on localhost: no sign of life for \d+\.\d s.*"], "one that is stopped too")
    run = start("joined-abort", ["-n", "3"], [RANK, "abort"])
    ends(tap, run, 1, 2 * ["peer: .*rank 1 .*it has had enough.*"] + ["psring run: rank 1 .*it has had enough.*"],
         "the line of one that aborts is the run's")
    said = r"rank 1 exited \(status 0\) without psring_%s, and others, which have called psring_init, wait for it"
    left, never = said % "close", said % "init"
    run = start("joined-leave", ["-n", "3"], [RANK, "leave"])
    ends(tap, run, 1, 2 * ["peer: .*" + left + ".*"] + ["psring run: " + left], "one that goes without a word is missed")
    run = start("joined-never", ["-n", "3"], ["sh", "-c", 'test $PSRING_RANK = 1 || exec "$0" loop', RANK])
    got = run.wait(PATIENCE_S)
    tap.ok(got == 1 and re.fullmatch("psring run: " + never, run.text("err")[-1]) is not None, "and so is one that never comes", run.why())


def two_hosts(tap, start, directory):
    ssh, hosts = os.path.join(directory, "ssh"), os.path.join(directory, "hosts")
    with open(ssh, "w") as file:
        file.write(PLAYED_SSH)
    os.chmod(ssh, 0o755)
    with open(hosts, "w") as file:
        file.write("host-b slots=2\nhost-c\n")
    options = ["--hostfile", hosts, "--ssh", ssh]
    run = start("hosts", options + ["-x", "GIVEN=it"],
                ["sh", "-c", 'grep -q secret "$PSRING_KEY_FILE" && echo "$PSRING_RANK $PSRING_HOST $PSRING_INTERFACE $GIVEN $PWD" '
                 '"${PSRING_SCHEDULER%:*}"'])
    ends(tap, run, 0, [], "on two hosts")
    tap.ok(sorted(run.text("out")) == ["%d %s 127.0.0.1 it %s 127.0.0.1" % (rank, host, run.here)
                                       for rank, host in enumerate(["host-b", "host-b", "host-c"])],
           "each slot has a rank, in this directory, with a key of its own", run.why())
    run = start("hosts-by-node", ["-H", "host-b:2,host-c", "--ssh", ssh, "-np", "3", "--map-by", "node"],
                ["sh", "-c", 'echo "$PSRING_RANK $PSRING_HOST"'])
    ends(tap, run, 0, [], "one slot a host in turn")
    tap.ok(sorted(run.text("out")) == ["0 host-b", "1 host-c", "2 host-b"], "ranks are mapped by node", run.why())
    run = start("hosts-sum", options, [RANK, "sum"])
    ends(tap, run, 0, [], "libpsring on two hosts")
    tap.ok(sorted(run.text("out")) == ["rank %d of 3 on %s: 6" % (rank, host) for rank, host in enumerate(["host-b", "host-b", "host-c"])],
           "its ranks have found each other there", run.why())
    run = start("hosts-fail", options, ["sh", "-c", "test $PSRING_RANK = 2 && exit 7; " + WAITS])
    ends(tap, run, 1, ["psring run: rank 2 on host-c: exit status 7"], "one that fails is named with its host")


def by_sgd(rounds, pushed, rate, momentum):
    """torch.optim.SGD's, exact in these numbers."""
    value = velocity = 0.0
    for _ in range(rounds):
        velocity = momentum * velocity + pushed
        value -= rate * velocity
    return value


def tables(tap, start, directory):
    wanted = by_sgd(4, 3.0, 0.25, 0.5)
    for shards in (1, 2):
        run = start("tables-%d" % shards, ["-n", "2", "--shards", str(shards)],
                    [RANK, "table", "sgd lr=0.25 momentum=0.5", "bsp", "4"])
        ends(tap, run, 0, [], "psring-ps as %d shards of a program" % shards)
        tap.ok(sorted(run.text("out")) == ["rank %d of 2 and %d: %.9g %.9g" % (rank, shards, wanted, wanted) for rank in range(2)],
               "and two ranks are stepped down by what both have pushed", run.why())
    run = start("tables-async", ["-n", "1", "--shards", "2"], [RANK, "table", "adam lr=0.5", "async", "1"])
    ends(tap, run, 0, [], "one rank, async, Adam")
    tap.ok(all(abs(float(x) + 0.5) < 1e-6 for x in run.text("out")[0].split(": ")[1].split()), "and its first step is the learning rate", run.why())
    run = start("tables-refused", ["-n", "2", "--shards", "1"], [RANK, "table", "sgd", "bsp", "1"])
    got = run.wait(PATIENCE_S)
    tap.ok(got == 1 and any(re.search('usage: rank 2, a shard: update "sgd": its learning rate is missing: "sgd lr=0.1"', line)
                            for line in run.text("err")), "arguments that cannot be are refused to the program", run.why())
    run = start("tables-none", ["-n", "2", "--shards", "1"], ["sh", "-c", "echo $PSRING_RANKS $PSRING_SHARDS"])
    ends(tap, run, 0, [], "a program that never joins ends with shards as without")
    tap.ok(run.text("out") == ["3 1"] * 2, "and finds how many they are", run.why())


def encodings(tap, start, directory):
    """Encoded sums have the same bits on all ranks, by each transport and in every run."""
    def hashes(name, *options, spoilt="-1"):
        run = start(name, ["-n", "3", *options], [RANK, "encode", encoding, spoilt])
        ends(tap, run, 0, [], "%s: %s" % (encoding, name))
        return [line.split(": ")[1] for line in sorted(run.text("out"))]
    seen = set()
    tried = ("none", "fp16", "bf16", "int8", "topk:0.1", "1bit") if ALL else ("none", "int8", "1bit")
    for encoding in tried:
        short = encoding.replace(":", "-")
        first, second = hashes("encoded-shm-" + short, "--transport", "shm"), hashes("encoded-tcp-" + short, "--transport", "tcp")
        tap.ok(len(first) == 3 and len(set(first + second)) == 1, "%s: the same bits on all ranks, by shared memory and by TCP" % encoding,
               [str(first), str(second)])
        seen.update(first)
    tap.ok(len(seen) == len(tried), "and other bits in each encoding", [str(seen)])
    tap.ok(len(set(hashes("encoded-spoilt", spoilt="1"))) == 2, "the control: one bit that a rank has otherwise is found")
    encoding = "fp4"
    run = start("encoded-unknown", ["-n", "2"], [RANK, "encode", encoding, "-1"])
    got = run.wait(PATIENCE_S)
    tap.ok(got == 1 and any("usage: all_reduce: encoding" in line and "fp4" in line for line in run.text("err")),
           "an unknown encoding is refused by its name", run.why())


def tables_are_kept(tap, start, directory):
    """Adam's first steps depend on their number, momentum on what was pushed before."""
    for update in ("sgd lr=0.25 momentum=0.5", "adam lr=0.01") if ALL else ("adam lr=0.01",):
        files = {}
        for name, runs in (("whole", ((2, 7),)), ("halves", ((1, 3), (4, 4))), ("halves", ((3, 3), (2, 4)))):
            path = os.path.join(directory, "%s-%s-%d" % (update[:4].strip(), name, runs[0][0]))
            for shards, steps in runs:
                run = start("kept-%s-%s-%d-%d" % (update[:4].strip(), name, shards, steps), ["-n", "3", "--shards", str(shards)],
                            [RANK, "keep", update, str(steps), path])
                ends(tap, run, 0, [], "%s: %d steps with %d shards, from and to a file" % (update, steps, shards))
            files[path] = read_bytes(path)
        tap.ok(len(set(files.values())) == 1 and len(next(iter(files.values()))) > 70000 * 4 * 2,
               "%s: a run that goes on with other shards has the bits of one that was never interrupted" % update)


def a_shard_is_killed(tap, start, directory):
    run = start("shard-killed", ["-n", "2", "--shards", "1"], [RANK, "loop"])
    run.wait_ready(2)
    run.rank(2).signal(signal.SIGKILL)
    got = run.wait(PATIENCE_S)
    tap.ok(got == 1 and any(re.fullmatch(r"psring run: rank 2 on localhost: killed by signal 9 \(Killed\)", line) for line in run.text("err")),
           "a shard that is killed ends the run", run.why())


def bad_input(tap, start, directory):
    for number, (options, program, why) in enumerate((
            ([], [], "the program is missing; .*"), (["-n", "0"], ["true"], "--ranks: '0' is not a number from 1 to 1024"),
            (["-n", "3", "-H", "localhost:2"], ["true"], "-n 3: the hosts have 2 slots in all; add slots=N or hosts, or .*"),
            (["-np", "0"], ["true"], "--ranks: '0' is not a number from 1 to 1024"), (["--map-by", "core"], ["true"], "--map-by: 'core' is not one of slot, node"),
            (["-H", "a", "--hostfile", "b"], ["true"], "--hostfile and -H say the same thing twice; give one"),
            (["-x", "NOT_SET_ANYWHERE"], ["true"], "-x 'NOT_SET_ANYWHERE': there is no such variable here; give NAME=VALUE"),
            (["-x", "4=5"], ["true"], "-x '4=5': a variable's name has letters, digits and _"),
            (["--deadline", "0"], ["true"], "--deadline: .*"), (["--transport", "pigeon"], ["true"], "--transport: .*"),
            (["--shards", "0"], ["true"], "--shards: '0' is not a number from 1 to 1024"),
            (["--rank"], ["true"], "--ranks?: .*"),
            ([], ["true", "x" * 100000, "y" * 100000], "the program's arguments and variables have 2000.. bytes, more than 131072; .*"))):
        run = start("bad-%d" % number, options, program)
        ends(tap, run, 2, ["psring run: " + why], "refused: %s" % " ".join(options)[:60])


def few_descriptors(tap, start, directory):
    """libzmq aborts where it lacks a descriptor for its threads: a rank that may open too few says
    so before."""
    for limit in (18, 24, 32, 40, 48, 56, 64) if ALL else (18, 40, 64):
        run = start("descriptors-%d" % limit, ["-n", "2"], ["sh", "-c", 'ulimit -n %d; exec "$0" sum' % limit, RANK])
        got = run.wait(PATIENCE_S)
        said = run.text("err")
        tap.ok(got != 0 and not any("signal" in line for line in said) and any("ulimit -n" in line for line in said),
               "ranks that may open %d files say so" % limit, run.why())
    run = start("descriptors-enough", ["-n", "2"], ["sh", "-c", 'ulimit -n 96; exec "$0" sum', RANK])
    ends(tap, run, 0, [], "with 96 they find each other")


def takes_anothers_name(tap, start, directory):
    """Each rank has a token of its own with each other process; the bad one shows it and says that
    it is rank 0."""
    run = start("another-name", ["-n", "2", "--transport", "ipc"],
                ["sh", "-c", 'test $PSRING_RANK = 0 && exec "$0" loop; sleep 1000 | "$1" "$PSRING_SCHEDULER" "$PSRING_KEY_FILE" 1 "{}" another-name',
                 RANK, BAD_MEMBER])
    got = run.wait(PATIENCE_S)
    last = run.text("err")[-1:]
    tap.ok(got == 3 and last and re.search("worker 1: says it is worker 0|rank 1: says it is rank 0", last[0]) is not None,
           "a rank that takes another's name ends the run with status 3, and is named", ["status %s" % got] + run.why())


def main():
    psring = os.path.realpath(sys.argv[1])
    tap = Tap()
    with Workspace() as directory:
        plays = (places, local_places, words, descriptors, fails, is_killed, is_stopped, ctrl_c, ctrl_z, launcher_dies, agent_dies, scheduler_stops, not_there,
                 children, output_files, much_output, on_a_terminal, joined, one_of_the_joined_ends, takes_anothers_name, few_descriptors, two_hosts, tables, encodings, tables_are_kept, a_shard_is_killed, bad_input)
        together(tap, [partial(guarded, play=play, psring=psring, directory=directory) for play in plays])
    tap.end()


if __name__ == "__main__":
    main()
