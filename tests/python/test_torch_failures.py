"""A rank of a training that is killed, stopped, or ends with an exception: the others raise, and
the exception names it and its host. Nothing is left behind. TAP.

usage: test_torch_failures.py SHARD PACKAGES"""

import os
import signal
import socket
import sys
import time

from documented import documented
from forks import PATIENCE_S, Ranks, Tap, ranks_by_hand, started

if __name__ == "__main__":
    started(*sys.argv[1:3])

import torch  # noqa: E402
from torch_work import Batches, loss, mlp  # noqa: E402

import psring.torch as psring  # noqa: E402

FAILS_AT, DEADLINE_S = 3, 8
# What docs/pytorch.md promises, from the failure until all others have raised: this, or three
# quarters of the deadline. A process that is ready to run may still have to wait for a processor:
# the soonest of some tries counts, and where more processes want to run than there are processors,
# a longer time says nothing.
AT_ONCE_S, TRIES = 1, 4


def training(mode, fail, victim, deadline):
    """Steps until something fails; the victim says when, and fails in its own way."""
    def work():
        psring.init(deadline=deadline)
        model, batches = mlp(), Batches(20)
        optimizer = psring.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), mode)
        try:
            for step in range(1000000):
                if psring.rank() == victim and step == FAILS_AT:
                    print("fails", time.monotonic(), flush=True)
                    fail()
                optimizer.zero_grad()
                loss(model, batches.own()).backward()
                optimizer.step()
        except psring.Error as failure:
            print("raised", time.monotonic(), type(failure).__name__, failure.rank, failure.host, failure.line, flush=True)
            raise
    return work


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def excepts():
    raise ValueError("this batch is bad")


def leaves():
    psring.shutdown()
    sys.exit(0)


def raised_by(ended, victim, line):
    """When that rank raised an exception that names the victim and its host. None: it did not."""
    raised = [words.split(" ", 5) for words in ended.lines if words.startswith("raised ")]
    named = ended.status == 1 and len(raised) == 1 and raised[0][3:5] == [str(victim), socket.gethostname()] and line in raised[0][5]
    return float(raised[0][1]) if named else None


def failure_of(way, mode, victim, deadline, line):
    """(seconds until all others had raised, or None if they have not as they should; what was said
    then, or is not documented)."""
    with ranks_by_hand(training(mode, way, victim, deadline), 3, 1 if mode == "ps" else 0) as ranks:
        others = [ranks.wait(rank) for rank in range(3) if rank != victim]
        ranks.kill(victim)
        said = ranks.wait(victim).lines
    times = [raised_by(rank, victim, line) for rank in others]
    if None in times or not said:
        return None, [text for rank in others for text in rank.why()]
    undocumented = [rank.err[-1] for rank in others if not documented(rank.err[-1])]
    return max(times) - float(said[0].split()[1]), undocumented


def failures(tap):
    for name, way, mode, victim, deadline, line, least, most in [
            ("killed", killed, "ps", 1, 60, "", 0, AT_ONCE_S), ("killed", killed, "ring", 1, DEADLINE_S, "", 0, AT_ONCE_S),
            ("killed, the first", killed, "ring", 0, 60, "", 0, AT_ONCE_S),
            ("stopped", stopped, "ring", 1, DEADLINE_S, "", DEADLINE_S / 2, DEADLINE_S * 3 / 4),
            ("stopped, the first", stopped, "ring", 0, DEADLINE_S, "", DEADLINE_S / 2, DEADLINE_S * 3 / 4),
            ("that raises", excepts, "ps", 1, 60, "ValueError: this batch is bad", 0, AT_ONCE_S),
            ("that has left", leaves, "ring", 1, 60, "has left", 0, AT_ONCE_S),
            ("that has left", leaves, "ps", 1, 60, "has left", 0, AT_ONCE_S)]:
        took = []
        for _ in range(TRIES):
            seconds, why = failure_of(way, mode, victim, deadline, line)
            took.append(seconds)
            if seconds is None or seconds <= most:
                break
        what = "a rank %s is named with its host by all others within %g s (mode %s, a deadline of %d s), as documented" % (name, most, mode, deadline)
        seconds = min(took) if None not in took else None
        busy = os.getloadavg()[0] / os.cpu_count()
        if seconds is not None and not why and most < seconds < deadline and busy > 1:
            tap.skip(what, "it took %.3f s on a machine with %.1f processes for each processor" % (seconds, busy))
            continue
        tap.ok(seconds is not None and least <= seconds <= most and not why, what, why + ["seconds: %s" % took])
        print("# after %s s" % " ".join("%.3f" % seconds for seconds in took if seconds is not None), flush=True)


def exists(pid):
    """Whether that process runs; who is dead and not yet reaped does not."""
    try:
        with open("/proc/%d/stat" % pid) as text:
            return text.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def shards_end(tap):
    """Rank 0 has started the shards, and is killed: they end with it, and the others raise."""
    def work():
        psring.init(shards=2, deadline=DEADLINE_S)
        import psring.torch._place as place  # the test looks behind the scenes
        told = place._shards
        print(*([process.pid for process in told._processes]), told._folder.path, flush=True)
        psring.barrier()
        if psring.rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            psring.barrier()

    torchs = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(os.getpid() % 20000 + 20000)}
    with Ranks(work, [torchs, dict(torchs, RANK="1", LOCAL_RANK="1")]) as ranks:
        zero, one = ranks.wait_all()
    *pids, folder = zero.lines[0].split() if zero.lines else ("",)
    end = time.monotonic() + PATIENCE_S
    while any(exists(int(pid)) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    tap.ok(len(pids) == 2 and not any(exists(int(pid)) for pid in pids), "shards end with the rank that started them", zero.why())
    tap.ok(zero.status == -signal.SIGKILL and one.status == 1 and "Error" in one.err[-1] and not os.path.exists(folder or "/"),
           "the other rank raises, and leaves no folder", one.why() + [folder])


def main():
    torch.set_num_threads(1)
    tap = Tap()
    failures(tap)
    shards_end(tap)
    tap.end()


if __name__ == "__main__":
    main()
