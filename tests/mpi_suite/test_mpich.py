"""MPICH's own tests of collectives, communicators and messages, over libpsring.

mpi.h of this folder stands between.

usage: test_mpich.py PSRING LIBPSRING INCLUDE [--source DIR] [--only NAME] [--keep DIR]

Each line of MPICH's test lists that these suites have is a test: it passes where the program says
"No Errors". What needs what the library has not is counted as skipped, with the name of that. What
differs by decision stands in mpich_differs.txt with its reason, which docs/library.md tells too: it
must fail, or the file is wrong.

MPICH's source comes from --source, or is fetched with apt-get from the distribution into the test's
own folder; all is skipped where neither is to be had."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from psring_run import Tap  # noqa: E402
from shim_build import HERE, PATIENCE_S, Shim, arguments_of, lacking, run  # noqa: E402

SUITES = ["coll", "comm", "pt2pt"]
SUPPORT = ["mtest.c", "mtest_common.c", "mtest_single.c", "dtypes.c"]
MOST_RANKS = 16


def fetch(directory):
    """The distribution's source package, unpacked below directory: by apt's own means, from the
    machine's archives, with lists of its own. None: it is not to be had, and why."""
    if shutil.which("apt-get") is None:
        return None, "apt-get is not here"
    lists, sources = os.path.join(directory, "lists"), os.path.join(directory, "sources.list")
    os.makedirs(os.path.join(lists, "partial"))
    with open(sources, "w") as file:
        file.write("\n".join(source_lines()) + "\n")
    apt = ["apt-get", "-q", "-oDir::Etc::SourceList=" + sources, "-oDir::Etc::SourceParts=-", "-oDir::State::Lists=" + lists,
           "-oAPT::Sandbox::User=root", "-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache="]
    for step in (["update"], ["source", "--download-only", "mpich"]):
        done = subprocess.run(apt + step, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
        archives = [name for name in os.listdir(directory) if ".orig.tar" in name]
        if done.returncode != 0 or (step[0] == "source" and not archives):
            return None, "apt-get %s: %s" % (step[0], (done.stdout.strip().splitlines() or ["it said nothing"])[-1])
    subprocess.run(["tar", "-xf", archives[0]], cwd=directory, check=True, timeout=PATIENCE_S)
    unpacked = [path for path in pathlib.Path(directory).glob("mpich*") if path.is_dir()]
    return unpacked[0], None


def source_lines():
    """deb-src lines of the archives that the machine uses."""
    told = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)"], capture_output=True,
                          text=True, timeout=PATIENCE_S)
    lines = set()
    for line in told.stdout.splitlines():
        words = line.split()
        if len(words) >= 3 and "debian" in words[0] or "ubuntu" in words[0]:
            signed = "[signed-by=%s] " % words[3] if len(words) > 3 and words[3].startswith("/") else ""
            lines.add("deb-src %s%s %s %s" % (signed, words[0], words[1], words[2]))
    return sorted(lines)


class Suite:
    """MPICH's test folder, and where its programs are built."""

    def __init__(self, source, directory, libpsring, include):
        self.source = source / "test" / "mpi"
        self.shim = Shim(directory, libpsring, include, ["-I%s" % (self.source / "include")])
        self.objects = [self.shim.compile(self.source / "util" / name) for name in SUPPORT]

    def build(self, suite, name):
        """None, or why there is no such program."""
        path, more = self.source / suite / (name + ".c"), []
        if not path.exists() and name.startswith("nb"):
            path, more = self.source / suite / (name[2:] + ".c"), ["-DUSE_MTEST_NBC"]
        if not path.exists():
            return "its source is made by MPICH's configure"
        return self.shim.program(path, self.objects, self.program(suite, name), more)

    def program(self, suite, name):
        return self.shim.built / ("%s-%s" % (suite, name))

    def lines(self, suite):
        """(name, ranks, arguments, GB that it needs) of the suite's list, each once. Those marked
        @..@ MPICH leaves out too, unless it is asked."""
        folder = self.source / suite
        path = folder / "testlist.in" if (folder / "testlist.in").exists() else folder / "testlist"
        seen = []
        for line in path.read_text().splitlines():
            words = line.partition("#")[0].split()
            if len(words) < 2 or words[0].startswith("@"):
                continue
            arguments = [word[len("arg="):] for word in words[2:] if word.startswith("arg=")]
            needs = [float(word[len("mem="):]) for word in words[2:] if word.startswith("mem=")]
            entry = (words[0], int(words[1]), arguments, max(needs, default=0))
            if entry not in seen:
                seen.append(entry)
        return seen


def memory_gb():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def differs():
    """{"suite/name": why} of what is not as MPI has it, by decision."""
    lines = (HERE / "mpich_differs.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def main():
    parser = arguments_of(__doc__.split("\n", 1)[0])
    parser.add_argument("--source", help="an unpacked source of MPICH")
    parser.add_argument("--only", help="SUITE or SUITE/NAME")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="psring-mpich-") as directory:
        if given.source:
            source, why = pathlib.Path(given.source), None
        else:
            source, why = fetch(directory)
        if source is None:
            print("1..0 # SKIP MPICH's source: %s; -Dmpich_root=DIR takes one that is there" % why)
            return
        print("# %s" % source.name)
        built = given.keep or os.path.join(directory, "built")
        os.makedirs(built, exist_ok=True)
        play(given, Suite(source, built, given.libpsring, given.include))


def play(given, suite):
    expected, tap, table = differs(), Tap(), {}
    entries = [(folder, *line) for folder in SUITES for line in suite.lines(folder)
               if not given.only or given.only in (folder, folder + "/" + line[0])]

    def one(entry):
        folder, name, ranks, arguments, needs_gb = entry
        if ranks > MOST_RANKS:
            return "lacks", "it wants %d ranks; this test starts up to %d" % (ranks, MOST_RANKS)
        if needs_gb > memory_gb() / 2:
            return "lacks", "it wants %.1f GB of memory, which is more than half of this machine's" % needs_gb
        if why_not[folder, name]:
            return "lacks", why_not[folder, name]
        status, said = run(given.psring, suite.program(folder, name), ranks, arguments)
        well = status == 0 and re.search(r"^ No Errors$", said, re.M) is not None
        if lacking(said) and not well:
            return "lacks", lacking(said)
        return ("passes" if well else "fails"), said

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = sorted({(folder, name) for folder, name, *_ in entries})
        why_not = dict(zip(programs, pool.map(lambda key: suite.build(*key), programs)))
        for entry, (how, said) in zip(entries, pool.map(one, entries)):
            folder, name, ranks, arguments, _ = entry
            key, row = folder + "/" + name, table.setdefault(folder, {})
            title = " ".join([key, "%d ranks" % ranks] + arguments)
            if how == "fails" and key in expected:
                how = "differs"
                print("# %s: %s" % (key, expected[key]))
            row[how] = row.get(how, 0) + 1
            if how == "lacks":
                tap.skip(title, said)
            else:
                right = how == "differs" or (how == "passes" and key not in expected)
                tap.ok(right, title, ["$ psring run -n %d -- %s" % (ranks, name)] + said.splitlines()[-25:])
    print("# %-8s %8s %8s %8s %8s" % ("suite", "passes", "differs", "fails", "lacks"))
    for folder, row in table.items():
        print("# %-8s %8d %8d %8d %8d" % (folder, *(row.get(how, 0) for how in ("passes", "differs", "fails", "lacks"))))
    tap.end()


if __name__ == "__main__":
    main()
