"""Starts under mpirun: deploy/examples/openmpi.sh and mpich.sh, and the options that users of Open
MPI give it. Each run ends with the bits of --mode local, but --mode mpi, which ends near them.

usage: test_mpirun.py openmpi|mpich SOURCE-ROOT BUILT-WITH PSRING SCHEDULER SHARD WORKER
BUILT-WITH: openmpi, mpich or none"""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from launched import OPTIONS, Tap, Workspace, call, losses, options_of, outcome, path_of, program, right, version_of, why

RANKS = 3
TOLERANCE = 1e-4  # of tests/integration/test_mpi.py


class Launcher:
    def __init__(self, kind, root, directory, programs):
        self.kind, self.directory, self.path = kind, directory, path_of(programs)
        self.mpirun = program(*{"openmpi": ["mpirun.openmpi", "mpirun"], "mpich": ["mpirun.mpich", "mpiexec.hydra"]}[kind])
        self.script = os.path.join(root, "deploy", "examples", kind + ".sh")
        self.version = version_of(self.mpirun, "--version")
        told = re.search(r"\(Open(?:RTE| MPI)\) (\d+)", self.version)
        self.open_mpi = int(told.group(1)) if told else None
        self.root = ["--allow-run-as-root"] if kind == "openmpi" and os.geteuid() == 0 else []

    def example(self, name, **options):
        """The example script, for a run of that name."""
        words = options_of(dict(OPTIONS, out=os.path.join(self.directory, name), **options))
        return call([self.script] + words, self.directory, self.path, MPIRUN=self.mpirun, RANKS=str(RANKS))

    def plain(self, words, name, **options):
        return call([self.mpirun] + self.root + words + ["psring-worker"] + options_of(dict(OPTIONS, out=os.path.join(self.directory, name), **options)),
                    self.directory, self.path)

    def hash(self, name):
        return outcome(os.path.join(self.directory, name)).get("hash")


def examples(tap, launcher, local):
    for name, more in [("ring", {"mode": "ring"}), ("ps", {"mode": "ps", "shards": 2})]:
        status, lines = launcher.example(name, **more)
        tap.ok(status == 0 and launcher.hash(name) == local.outcome()["hash"],
               "the example ends with the hash of --mode local: " + name, why(status, lines) + [str(launcher.hash(name))])


def of_open_mpi(tap, launcher, local):
    """The options that its users give: where ranks go, what they inherit, where their output
    goes."""
    hosts, logs = os.path.join(launcher.directory, "hosts"), os.path.join(launcher.directory, "log_output")
    with open(hosts, "w") as file:
        file.write("localhost slots=%d\n" % RANKS)
    os.environ["PSRING_HOST"] = "a-name"
    # Without merge-stderr-to-stdout 5.0.7 loses stdout or stderr.
    to_files = ["--output-filename", logs] if launcher.open_mpi < 5 else ["--output", "dir=%s,merge-stderr-to-stdout" % logs]
    status, lines = launcher.plain(["-n", str(RANKS), "--hostfile", hosts, "-x", "PSRING_HOST", "-mca", "mpi_yield_when_idle", "1", "-bind-to", "none",
                                    "-map-by", "slot"] + to_files, "options", mode="ring")
    del os.environ["PSRING_HOST"]
    tap.ok(status == 0 and launcher.hash("options") == local.outcome()["hash"],
           "with --hostfile, -x, -mca, -bind-to, -map-by and %s too" % to_files[0], why(status, lines))
    said = {}
    for folder, _, names in os.walk(logs):
        for name in names:
            with open(os.path.join(folder, name)) as text:
                said.setdefault(os.path.basename(folder), []).append(text.read())
    steps = {rank: len(re.findall(r"^epoch: \d+ step: \d+, loss is [\d.]+$", "\n".join(texts), re.M)) for rank, texts in said.items()}
    tap.ok(steps == {"rank.0": 6, "rank.1": 5, "rank.2": 5}, "each rank's file has a line for each step in which it has samples", [str(steps)] + why(status, lines))
    tap.ok(any("worker 0 on a-name has joined" in line for texts in said.values() for text in texts for line in text.splitlines()),
           "-x hands a variable on", [str(sorted(said))])
    status, lines = launcher.plain(["-H", "localhost:%d" % RANKS, "--bind-to", "none"], "list", mode="ring")
    tap.ok(status == 0 and launcher.hash("list") == local.outcome()["hash"], "with -H", why(status, lines))


def two_at_once(tap, launcher, local, psring):
    """They are the same user's, on the same host, at the same time."""
    other = right(tap, psring, launcher.directory, RANKS, momentum=0)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(launcher.example, "one", mode="ring")
        two = pool.submit(launcher.example, "two", mode="ring", momentum=0)
        ends = [one.result(), two.result()]
    tap.ok([end[0] for end in ends] == [0, 0] and launcher.hash("one") == local.outcome()["hash"] and launcher.hash("two") == other.outcome()["hash"],
           "two jobs at once do not meet", why(*ends[0]) + why(*ends[1]))


def by_mpi(tap, launcher, local, built_with):
    status, lines = launcher.example("mpi", mode="mpi")
    if built_with != launcher.kind:
        names = {"openmpi": "Open MPI", "mpich": "MPICH"}
        wanted = r"--mode mpi: this psring-worker is built with %s.*, and started by %s's mpirun: start it by the mpirun of %s \(mpirun\.%s on Debian\)$" % (
            names.get(built_with), names[launcher.kind], names.get(built_with), built_with) if built_with != "none" else "--mode mpi is not in this build"
        said = [line for line in lines if " error " in line]
        tap.ok(status == 2 and len(said) == RANKS and all(re.search(wanted, line) for line in said), "--mode mpi is refused: psring-worker is built with %s" % built_with,
               why(status, lines))
        return
    found, wanted = losses(os.path.join(launcher.directory, "mpi")) if status == 0 else {}, losses(local.out)
    far = [at for at in wanted if (found.get(at) is None) != (wanted[at] is None) or
           wanted[at] is not None and abs(found[at] - wanted[at]) > TOLERANCE * abs(wanted[at])]
    tap.ok(status == 0 and not far and len(found) == len(wanted), "--mode mpi: every loss is within %g of --mode local's" % TOLERANCE,
           why(status, lines) + [str(far)])


def contradictions(tap, launcher):
    os.environ.update(RANK="0", WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    status, lines = launcher.plain((["--oversubscribe"] if launcher.kind == "openmpi" else []) + ["-n", str(RANKS)], "never", mode="ring", deadline=3)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        del os.environ[name]
    # Rank 1 or rank 2: mpirun may end the other before it says so.
    wanted = r"RANK=0 and WORLD_SIZE=3 say rank 0 of 3, but .* say rank [12] of 3: unset those that are not meant"
    tap.ok(status not in (0, None) and any(re.search(wanted, line) for line in lines),
           "a rank that another launcher's variables contradict is refused by name", why(status, lines))


def main():
    kind, root, built_with, *programs = sys.argv[1:]
    programs = [os.path.abspath(path) for path in programs]
    tap = Tap()
    with Workspace() as directory:
        launcher = Launcher(kind, root, directory, programs)
        print("# %s: %s" % (launcher.mpirun, launcher.version))
        local = right(tap, programs[0], directory, RANKS)
        examples(tap, launcher, local)
        if kind == "openmpi":
            of_open_mpi(tap, launcher, local)
        two_at_once(tap, launcher, local, programs[0])
        by_mpi(tap, launcher, local, built_with)
        contradictions(tap, launcher)
    tap.end()


if __name__ == "__main__":
    main()
