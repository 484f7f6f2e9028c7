"""psring-worker as N identical commands that find their places in the environment: a shell loop,
one command for a node, roles of MXNet and MindSpore; the hash is that of mode local. What
contradicts itself, is taken, missing or of another run is refused in one line. Kills and stops.

usage: test_launched.py SOURCE-ROOT PSRING SCHEDULER SHARD WORKER"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading

from psring_run import PATIENCE_S, Run, Tap, Workspace, free_port, join_thread

OPTIONS = {"model": "mlp", "data": "synthetic:count=97,test=40,channels=1,size=28", "steps": 6, "batch-size": 16, "threads": 1, "seed": 11,
           "lr": 0.05, "no-eval": True}
FOREIGN = ("PSRING_", "DMLC_", "MS_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "LOCAL_", "GROUP_")


def words_of(options):
    return ["--" + key if value is True else "--%s=%s" % (key, value) for key, value in options.items()]


class Process:
    """One of a launcher's processes; what it says is read as it comes."""

    def __init__(self, command, env, cwd, stdin=None):
        self.lines = []
        self.said = threading.Condition()
        self.over = False
        self.process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        if stdin and stdin != subprocess.PIPE:  # text; else it stays open
            self.process.stdin.write(stdin)
            self.process.stdin.close()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            with self.said:
                self.lines.append(line.rstrip())
                self.said.notify_all()
        with self.said:
            self.over = True
            self.said.notify_all()

    def await_line(self, text):
        """Whether it says that; False: it has ended without."""
        with self.said:
            if not self.said.wait_for(lambda: self.over or any(text in line for line in self.lines), PATIENCE_S):
                raise AssertionError("no line with '%s' came in %d s: %s" % (text, PATIENCE_S, self.lines))
            return any(text in line for line in self.lines)

    def wait(self):
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return None
        join_thread(self.thread, "what the start says")
        return status

    def errors(self):
        return [line for line in self.lines if " error " in line]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Launcher:
    """A launcher of somebody else's, as this test: starts psring-worker in the environments that it
    is told."""

    def __init__(self, worker, directory):
        self.worker = worker
        self.directory = directory
        self.runtime = os.path.join(directory, "runtime")
        os.mkdir(self.runtime, 0o700)
        self.processes = []

    def environment(self, variables):
        env = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN) and key not in ("RANK", "WORLD_SIZE")}
        env.update({key: str(value) for key, value in variables.items()}, XDG_RUNTIME_DIR=self.runtime)
        return env

    def start(self, variables, options, *more):
        process = Process([self.worker] + words_of(options) + list(more), self.environment(variables), self.directory)
        self.processes.append(process)
        return process

    def loop(self, ranks, options, port, **more):
        return [self.start(dict(RANK=rank, WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **more), options)
                for rank in range(ranks)]

    def hash_of(self, name):
        try:
            with open(os.path.join(self.directory, name, "run.json")) as text:
                return json.load(text)["outcome"]["hash"]
        except (OSError, KeyError, ValueError) as wrong:
            return repr(wrong)

    def end(self):
        for process in self.processes:
            process.end()
        self.processes = []

    def left(self):
        return os.listdir(self.runtime)


def well(tap, launcher, processes, name, right, beside=()):
    """All end with status 0, with this hash, and leave nothing. beside: processes of another
    run."""
    statuses = [process.wait() for process in processes + list(beside)]
    said = [line for process in processes for line in process.lines[-4:]]
    found = launcher.hash_of(name)
    tap.ok(statuses == [0] * len(statuses), name + ": every process ends with status 0", [str(statuses)] + said)
    tap.ok(found == right, name + ": the hash is that of mode local", [found, right] + said)
    tap.ok(not launcher.left(), name + ": nothing is left of the meeting", launcher.left())
    told(tap, name, [process.lines for process in processes], right)


def told(tap, name, said, right):
    """What psring train tells of a run is told once, whoever has started it, and of its steps no
    more than --log-every asks for."""
    for text in ("  mode       ", "  run        " + name, "step %d/%d " % (OPTIONS["steps"], OPTIONS["steps"]), "result ",
                 "written    " + name):
        lines = [line for lines in said for line in lines if line.startswith(text)]
        tap.ok(len(lines) == 1, "%s: one process says '%s'" % (name, text.strip()), lines + said[0])
        if text == "result ":
            tap.ok(lines and right in lines[0], name + ": with the hash", lines)
    steps = [line for lines in said for line in lines if line.startswith("step ")]
    tap.ok(len(steps) == 1, name + ": and no other step", steps)


def names(tap, launcher, psring):
    """Runs of one second, none of which was given a name."""
    ring = dict(OPTIONS, mode="ring")
    runs = [launcher.loop(2, ring, free_port()) for _ in range(3)]
    trains = [Process([psring, "train"] + words_of(dict(ring, workers=1)), launcher.environment({}), launcher.directory) for _ in range(3)]
    launcher.processes += trains
    processes = [process for run in runs for process in run] + trains
    statuses = [process.wait() for process in processes]
    tap.ok(statuses == [0] * 9, "runs that are started at once and given no --out all end well",
           [str(statuses)] + [line for process in processes for line in process.lines[-3:]])
    written = [line.split()[1] for process in processes for line in process.lines if line.startswith("written ")]
    tap.ok(len(set(written)) == 6 and sorted(os.path.basename(name) for name in written) ==
           sorted(os.listdir(os.path.join(launcher.directory, "psring-runs"))), "each in a directory of its own, which it names", written)
    again = [launcher.start(dict(RANK=0, WORLD_SIZE=1), dict(ring, out="again", resume="auto")) for _ in range(2)]
    statuses = [process.wait() for process in again]
    written = sorted(line.split()[1] for process in again for line in process.lines if line.startswith("written "))
    tap.ok(statuses == [0, 0] and written == ["again", "again-2"], "so do two attempts of one name, which are one behind the other",
           [str(statuses)] + [line for process in again for line in process.lines])


def ways(tap, launcher, right):
    ring, ps = dict(OPTIONS, mode="ring"), dict(OPTIONS, mode="ps", shards=2)
    loop = launcher.loop(3, dict(ring, out="loop"), free_port())
    well(tap, launcher, loop, "loop", right)
    with open(os.path.join(launcher.directory, "loop", "run.json")) as text:
        command = json.load(text)["command"]
    typed = shlex.join([launcher.worker] + words_of(dict(ring, out="loop")))
    tap.ok(command == typed, "run.json has the command line that was typed", [command, typed])
    for rank, process in enumerate(loop):
        tap.ok(any("rank %d of 3 from RANK and WORLD_SIZE (torch.distributed's variables)" % rank in line for line in process.lines),
               "rank %d says its place and where it has it from" % rank, process.lines[:3])
    shards = launcher.loop(3, dict(ps, out="shards"), free_port())
    well(tap, launcher, shards, "shards", right)
    for rank in (0, 1):
        tap.ok(any("shard %d is beside this process" % rank in line for line in shards[rank].lines),
               "worker %d says that shard %d is beside it" % (rank, rank), shards[rank].lines)
    spawned = launcher.start({}, dict(ring, out="spawn", **{"multiprocessing-distributed": True, "nproc-per-node": 3, "rank": 0, "world-size": 1,
                                      "addr": "127.0.0.1", "port": free_port(), "dist-url": "env://", "total-batch-size": 48,
                                      "batch-size": 4}))
    well(tap, launcher, [spawned], "spawn", right)
    port = free_port()
    nodes = [launcher.start({}, dict(ring, out="nodes", **{"multiprocessing-distributed": True, "nproc-per-node": 1, "rank": node, "world-size": 3,
                                     "addr": "127.0.0.1", "port": port, "dist-url": "env://", "dist-backend": "ring", "total-batch-size": 16}))
             for node in (2, 0, 1)]
    well(tap, launcher, nodes, "nodes", right)
    alone = [launcher.start({}, dict(ring, out="options", rank=rank, **{"world-size": 3, "dist-url": url, "local_rank": rank}))
             for url in ["tcp://127.0.0.1:%d" % free_port()] for rank in range(3)]
    well(tap, launcher, alone, "options", right)
    port = free_port()
    node = dict(ring, **{"multiprocessing-distributed": True, "rank": 0, "world-size": 1, "dist-url": "env://", "port": port,
                         "total-batch-size": 48})
    for name, variables, more in (("node-loop", {"WORLD_SIZE": 3}, {}), ("node-loop-options", {}, {"nproc-per-node": 3})):
        loop = [launcher.start(dict(variables, LOCAL_RANK=rank), dict(node, out=name, **more)) for rank in range(3)]
        well(tap, launcher, loop, name, right)
    heard = [launcher.start({variable: rank, "MASTER_PORT": port}, dict(ring, out="heard", **{"world-size": 3}))
             for rank, variable in enumerate(("RANK", "LOCAL_RANK", "RANK"))]
    well(tap, launcher, heard, "heard", right)
    without = {key: value for key, value in ring.items() if key != "data"}
    path = [launcher.start(dict(RANK=rank, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, DATA_PATH=OPTIONS["data"]),
                           dict(without, out="path")) for rank in range(3)]
    well(tap, launcher, path, "path", right)
    tap.ok(all(any("as DATA_PATH says" in line for line in process.lines) for process in path), "DATA_PATH is read, and that is said",
           path[0].lines[:3])
    spawned = launcher.start({"DATA_PATH": OPTIONS["data"], "MASTER_PORT": port},
                             dict(without, out="spawned-path", **{"multiprocessing-distributed": True, "nproc-per-node": 3}))
    well(tap, launcher, [spawned], "spawned-path", right)
    for way, roles, words in [("DMLC", {"DMLC_ROLE": ("worker", "server", "worker", "scheduler", "server", "worker")},
                               dict(DMLC_NUM_WORKER=3, DMLC_NUM_SERVER=2, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=9091,
                                    DMLC_INTERFACE="lo")),
                              ("MS", {"MS_ROLE": ("MS_WORKER", "MS_WORKER", "MS_SCHED", "MS_WORKER")},
                               dict(MS_WORKER_NUM=3, MS_SCHED_HOST="127.0.0.1", MS_SCHED_PORT=8118, DATA_PATH=OPTIONS["data"]))]:
        options = {key: value for key, value in OPTIONS.items() if way == "DMLC" or key != "data"}
        variable, order = next(iter(roles.items()))
        processes = [launcher.start(dict(words, **{variable: role}), dict(options, out=way)) for role in order]
        well(tap, launcher, processes, way, right)


def meetings(tap, launcher, psring, right):
    """Two jobs at once, a port that somebody has, keys."""
    ring = dict(OPTIONS, mode="ring")
    first = launcher.loop(3, dict(ring, out="first"), free_port())
    second = launcher.loop(3, dict(ring, out="second"), free_port())
    well(tap, launcher, first, "first", right, beside=second)
    tap.ok(launcher.hash_of("second") == right, "two jobs of one host do not meet", [launcher.hash_of("second")])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        well(tap, launcher, launcher.loop(3, dict(ring, out="taken"), taken.getsockname()[1]), "taken", right)
    for name, keygen, given in [("folder", ["keys"], {"keys": "keys"}), ("shared", ["--shared", "all.key"], {"key-file": "all.key"})]:
        subprocess.run([psring, "keygen", "--workers", "3", "--shards", "1"] + keygen, cwd=launcher.directory, check=True, timeout=PATIENCE_S,
                       stdout=subprocess.DEVNULL)
        processes = launcher.loop(3, dict(ring, out=name, **given), free_port(beside=1000))
        well(tap, launcher, processes, name, right)
        tap.ok(any("scheduler is at tcp://127.0.0.1:" in line for line in processes[1].lines), name + ": with keys they meet over TCP",
               processes[1].lines[:2])
    own = os.path.join(launcher.directory, "others")
    subprocess.run([psring, "keygen", "--workers", "3", "--shards", "0", own], check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    port = free_port(beside=1000)
    place = lambda rank: dict(RANK=rank, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    there = launcher.start(place(0), dict(ring, out="never", keys="keys"))
    tap.ok(there.await_line("listening"), "a run waits for its ranks over TCP", there.lines)
    stranger = launcher.start(place(1), dict(ring, out="never", keys="others"))
    tap.ok(stranger.wait() == 3 and len(stranger.errors()) == 1, "a worker of another run at the same port is turned away: status 3",
           stranger.lines)
    launcher.end()


def refused(tap, launcher, name, variables, options, word, *more):
    process = launcher.start(variables, options, *more)
    status = process.wait()
    tap.ok(status == 2 and len(process.errors()) == 1 and word in process.errors()[0],
           "%s: one line that says '%s', status 2" % (name, word), ["status %s" % status] + process.lines)


def bad_input(tap, launcher):
    ring = dict(OPTIONS, mode="ring", out="never")
    here = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    torch = dict(here, RANK=1, WORLD_SIZE=2)
    dmlc = dict(DMLC_ROLE="worker", DMLC_NUM_WORKER=2, DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=9091)
    for name, variables, options, word in [
            ("a rank out of range", dict(torch, RANK=2), ring, "RANK is \"2\": it should be a number from 0 to 1"),
            ("a rank that is no number", dict(torch, RANK="one"), ring, "RANK is \"one\""),
            ("a role that is none", dict(dmlc, DMLC_ROLE="master"), ring, "it should be scheduler, server or worker"),
            ("a role that is none", dict(MS_ROLE="WORKER"), ring, "it should be MS_SCHED, MS_PSERVER or MS_WORKER"),
            ("a role without its address", {key: dmlc[key] for key in dmlc if "URI" not in key}, ring, "DMLC_PS_ROOT_URI is not set"),
            ("a server where there are none", dict(dmlc, DMLC_ROLE="server"), ring, "DMLC_NUM_SERVER says that there are none"),
            ("two sources", dict(torch, SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2, SLURM_STEP_NODELIST="a"), ring, "SLURM_PROCID=0"),
            ("two frameworks", dict(torch, **dmlc), ring, "unset those that are not meant"),
            ("an option beside the environment", torch, dict(ring, workers=3), "--workers is 3, and WORLD_SIZE says 2"),
            ("a rank beside the environment", torch, dict(ring, rank=0), "--rank is 0, and RANK says 1"),
            ("several hosts without keys", dict(torch, MASTER_ADDR="192.0.2.1"), ring, "--key-file"),
            ("roles on several hosts without keys", dict(dmlc, DMLC_PS_ROOT_URI="192.0.2.1"), ring,
             "give all of them --key-file DIR, as psring keygen writes it, or set PSRING_KEY_FILE, or name a folder that all hosts see by "
             "PSRING_MEETING, and each worker and each server its own --rank, from 0; on this host alone let DMLC_PS_ROOT_URI be 127.0.0.1"),
            ("roles on several hosts without ranks", dict(dmlc, DMLC_PS_ROOT_URI="192.0.2.1"), dict(ring, keys="keys"),
             "which rank this worker is must be said: give --rank N"),
            ("keys that are not there", torch, dict(ring, keys="nowhere"), "nowhere"),
            ("the reference in several processes", torch, dict(OPTIONS, mode="local"), "--mode local is one process"),
            ("no encryption", torch, {"no-encrypt": True}, "--no-encrypt"),
            ("an option that is none", torch, dict(ring, lr="fast"), "--lr"),
            ("what psring run has started", dict(PSRING_RANK=0, PSRING_RANKS=2, PSRING_SCHEDULER="/a/b", PSRING_HOST_SCHEDULER=0), ring, "psring train"),
            ("spawning without a rank", {}, {"multiprocessing-distributed": True, "rank": 1, "world-size": 1}, "--rank"),
            ("a loop over the ranks of a node, which says nowhere how many", {"LOCAL_RANK": 1},
             {"multiprocessing-distributed": True, "rank": 0, "world-size": 1}, "let the loop that starts each rank set WORLD_SIZE"),
            ("a number of ranks without a rank", {}, {"world-size": 2}, "nothing says which of them this process is: give --rank"),
            ("a batch that cannot be shared", {}, {"multiprocessing-distributed": True, "nproc-per-node": 3, "total-batch-size": 16},
             "--total-batch-size"),
            ("a back end of PyTorch's", {}, {"multiprocessing-distributed": True, "nproc-per-node": 2, "dist-backend": "nccl"},
             "--dist-backend: psring has no 'nccl'; give ring"),
            ("another of them", {}, {"dist-backend": "gloo", "rank": 0, "world-size": 1}, "--dist-backend: psring has no 'gloo'; give ring"),
            ("a third one", {}, {"dist-backend": "hccl", "rank": 0, "world-size": 1}, "--dist-backend: psring has no 'hccl'; give ring"),
            ("an address that is none", {}, {"world-size": 2, "rank": 0, "dist-url": "127.0.0.1"}, "tcp://HOST:PORT")]:
        # what is wrong in itself is told before the log begins
        if word.startswith(("--lr", "--dist-backend")):
            process = launcher.start(variables, options)
            tap.ok(process.wait() == 2 and len(process.lines) == 1 and word in process.lines[0], name + ": refused by name", process.lines)
        else:
            refused(tap, launcher, name, variables, options, word)
    launcher.end()
    tap.ok(not launcher.left(), "what was refused leaves nothing", launcher.left())


def places_that_are_taken(tap, launcher):
    ring = dict(OPTIONS, mode="ring", out="never")
    torch = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), WORLD_SIZE=3)
    for name, variables, word in [("a rank that is started twice", dict(torch, RANK=1), "rank 1 is taken: process "),
                                  ("two schedulers", dict(torch, RANK=0), "rank 0 is taken: process "),
                                  ("two schedulers by role", dict(DMLC_ROLE="scheduler", DMLC_NUM_WORKER=2, DMLC_PS_ROOT_URI="127.0.0.1",
                                                                  DMLC_PS_ROOT_PORT=9091), "the scheduler's place is taken: process ")]:
        first = launcher.start(variables, ring)
        tap.ok(first.await_line("the scheduler is at"), name + ": the first is there", first.lines)
        refused(tap, launcher, name, variables, ring, word)
        first.process.send_signal(signal.SIGTERM)
        tap.ok(first.wait() is not None, name + ": the first ends when it is told to", first.lines)
    launcher.end()
    found = launcher.start(dict(torch, RANK=1), ring)
    found.await_line("the scheduler is at")
    folder = next(line for line in found.lines if "the scheduler is at" in line).split("ipc://")[1].split("/scheduler")[0]
    launcher.end()
    for made in (lambda: os.mkdir(folder, 0o755), lambda: os.symlink(launcher.directory, folder)):
        subprocess.run(["rm", "-rf", folder], check=True)
        made()
        refused(tap, launcher, "a meeting that others can enter", dict(torch, RANK=1), ring, "somebody else has put something there")
    subprocess.run(["rm", "-rf", folder], check=True)


def other_options(tap, launcher):
    port = free_port()
    place = lambda rank: dict(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    ring = dict(OPTIONS, mode="ring", out="never")
    first, second = launcher.start(place(0), ring), launcher.start(place(1), dict(ring, lr=0.2))
    statuses = [first.wait(), second.wait()]
    tap.ok(statuses[1] == 2 and len(second.errors()) == 1 and "--lr is \"0.2\" here and \"0.05\" in this run" in second.errors()[0],
           "a rank with other options is refused by the option's name", [str(statuses)] + second.lines)
    tap.ok(statuses[0] not in (0, None) and any("--lr" in line for line in first.lines), "and the others hear of it", first.lines)


def too_few(tap, launcher):
    """With roles: two of three workers, and one of two servers."""
    words = dict(MS_WORKER_NUM=3, MS_SERVER_NUM=2, MS_SCHED_HOST="127.0.0.1", MS_SCHED_PORT=free_port(), DATA_PATH=OPTIONS["data"])
    options = dict({key: value for key, value in OPTIONS.items() if key != "data"}, out="never", deadline=20)
    processes = [launcher.start(dict(words, MS_ROLE=role), options) for role in ("MS_SCHED", "MS_WORKER", "MS_PSERVER", "MS_WORKER")]
    statuses = [process.wait() for process in processes]
    said = [line for process in processes for line in process.lines]
    tap.ok(None not in statuses and 0 not in statuses and
           any("shard 1, worker 2 never came up; 3 of 5 did: shard 0 on " in line and ", worker 1 on " in line for line in processes[0].errors()),
           "too few: how many of how many have come, and which", [str(statuses)] + said)
    tap.ok(all(len(process.errors()) > 0 for process in processes), "and all that have come say so", said)
    tap.ok(not launcher.left(), "too few: nothing is left of the meeting", launcher.left())


def ends(tap, launcher):
    """Deaths and stops while a run goes on."""
    long = dict(OPTIONS, mode="ps", shards=2, steps=1000000, deadline=10 * PATIENCE_S, **{"log-every": 1})
    # On one host the kernel tells of a death, and nobody waits for the deadline. Worker 1's shard
    # dies with it. torchrun tells the others to end then, which means the run: its scheduler waits
    # for nobody who is gone.
    for name, victim, others_are_told, words in [("killed-1", 1, False, ("worker 1 on ", "shard 1 on ")),
                                                 ("killed-1-told", 1, True, ("worker 1 on ", "shard 1 on ")),
                                                 ("killed-0", 0, False, ("the process that started the scheduler is gone",))]:
        processes = launcher.loop(3, dict(long, out=name), free_port())
        tap.ok(processes[0].await_line("step 1/"), name + ": it trains", processes[0].lines)
        processes[victim].process.kill()
        for rank in (0, 2) if others_are_told else ():
            processes[rank].process.send_signal(signal.SIGTERM)
        statuses = [process.wait() for process in processes]
        said = [line for process in processes for line in process.lines[-3:]]
        tap.ok(None not in statuses and 0 not in statuses, name + ": all end, none of them well", [str(statuses)] + said)
        tap.ok(any(word in line for line in said for word in words), name + ": who was lost is named", said)
    # As a resource manager does, and as a terminal that closes: twice, and what has been ended by
    # then takes no harm.
    for name, number, times in (("stopped", signal.SIGTERM, 1), ("closed", signal.SIGHUP, 2)):
        processes = launcher.loop(3, dict(long, out=name, **{"checkpoint-every": 0}), free_port())
        tap.ok(processes[0].await_line("step 1/"), name + ": it trains", processes[0].lines)
        for _ in range(times):
            for process in reversed(processes):
                process.process.send_signal(number)
        statuses = [process.wait() for process in processes]
        kept = os.path.join(launcher.directory, name, "checkpoints")
        tap.ok(statuses == [130, 0, 0] and os.path.isdir(kept) and os.listdir(kept),
               "%s to all ranks ends the run in order, with a checkpoint" % number.name, [str(statuses)] + processes[0].lines[-5:])
        tap.ok("to go on   the same command with --resume %s and another --out" % name in processes[0].lines, "and says how to go on",
               processes[0].lines[-5:])
    tap.ok(not launcher.left(), "nothing is left of the meetings", launcher.left())


def main():
    programs = [os.path.abspath(program) for program in sys.argv[2:6]]
    tap = Tap()
    with Workspace() as directory:
        local = Run(programs[0], directory, "local", dict(OPTIONS, mode="local", workers=3))
        launcher = Launcher(programs[3], directory)
        try:
            if tap.ok(local.status == 0, "mode local ends with status 0", local.why()):
                right = local.outcome()["hash"]
                ways(tap, launcher, right)
                names(tap, launcher, programs[0])
                meetings(tap, launcher, programs[0], right)
                bad_input(tap, launcher)
                places_that_are_taken(tap, launcher)
                other_options(tap, launcher)
                too_few(tap, launcher)
                ends(tap, launcher)
        finally:
            launcher.end()
    tap.end()


if __name__ == "__main__":
    main()
