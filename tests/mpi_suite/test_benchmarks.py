"""OSU's micro-benchmarks of collectives and messages over libpsring.

mpi.h of this folder stands between.

usage: test_benchmarks.py PSRING LIBPSRING INCLUDE [--osu DIR] [--only NAME] [--keep DIR]

Each C program in the folders collective and pt2pt of OSU's source is a test: it is run with small
sizes and few repetitions, and passes where it ends well and has printed a line for each size. Their
figures are not looked at. What needs what the library has not is counted as skipped, with the name
of that. All is skipped where no source is given."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from psring_run import Tap  # noqa: E402
from shim_build import BUILD_S, Shim, arguments_of, lacking, run  # noqa: E402

KINDS = {"collective": 4, "pt2pt": 2}  # folder: ranks
OF_PAIRS = {"osu_mbw_mr": 4, "osu_multi_lat": 4}  # these of pt2pt take several pairs of ranks
MOST_BYTES = 1024
OWN_MOST_BYTES = 1 << 22  # where a program goes that takes no sizes, as those of pt2pt in 5.3
FIRST_BYTES = 8  # no type that the programs use is larger
REPEATS = ["-i", "5", "-x", "1"]
CONFIGURED = ["-DFIELD_WIDTH=18", "-DFLOAT_PRECISION=2"]  # by OSU's configure
MAIN = re.compile(r"^(int\s+)?main\s*\(", re.M)
USAGE = re.compile(r"^\s*(usage *:|options:)", re.M | re.I)
THREADS = "MPI_THREAD_MULTIPLE"


class Osu:
    """OSU's source: mpi/ and, in later versions, util/; later still c/mpi/ and c/util/."""

    def __init__(self, source, directory, libpsring, include):
        self.root = source / "c" if (source / "c" / "mpi").is_dir() else source
        self.util = self.root / "util"
        self.shim = Shim(directory, libpsring, include, CONFIGURED + ["-I%s" % self.util])
        self.helpers = {}  # folder: archive

    def programs(self):
        """(kind, path) of each."""
        return [(kind, path) for kind in KINDS for path in sorted((self.root / "mpi" / kind).rglob("osu_*.c")) if has_main(path)]

    def gather_helpers(self):
        """An archive for each folder of what its programs link: of its sources those without a
        main, and util's."""
        for folder in {path.parent for _, path in self.programs()}:
            sources = [path for where in (folder, self.util) for path in sorted(where.glob("*.c")) if not has_main(path)]
            archive = self.shim.built / ("-".join(folder.relative_to(self.root).parts) + ".a")
            objects = [self.shim.try_compile(path, ["-I%s" % folder]) for path in sources]
            archive.unlink(missing_ok=True)
            subprocess.run(["ar", "rcs", str(archive)] + [made for made in objects if made], check=True, timeout=BUILD_S)
            self.helpers[folder] = str(archive)

    def build(self, path):
        """None, or why there is no such program."""
        return self.shim.program(path, [self.helpers[path.parent]], self.program(path), ["-I%s" % path.parent, "-pthread"])

    def program(self, path):
        return self.shim.built / "-".join(path.relative_to(self.root).with_suffix("").parts)


def has_main(path):
    return MAIN.search(path.read_text(errors="replace")) is not None


def sizes_are_whole(said, most):
    """Whether a table of sizes goes in powers of two up to the most; one without sizes has a line
    of figures."""
    rows = [line.split() for line in said.splitlines() if re.match(r"^\s*[0-9]+(\.[0-9]+)?(\s+[0-9.]+)*\s*$", line)]
    if not re.search(r"^# Size", said, re.M):
        return len(rows) > 0
    sizes = [int(row[0]) for row in rows if len(row) > 1 and row[0].isdigit()]
    first = next((size for size in sizes if size > 0), 0)
    doubled = [first << i for i in range(most.bit_length()) if first << i <= most]
    return 0 < first <= FIRST_BYTES and sizes in (doubled, [0] + doubled) and sizes[-1] == most


def play(given, osu):
    osu.gather_helpers()
    tap, counts = Tap(), {}
    entries = [(kind, path) for kind, path in osu.programs() if given.only in (None, path.stem)]

    def one(entry):
        kind, path = entry
        why_not = osu.build(path)
        if why_not:
            return "lacks", why_not
        ranks, most = OF_PAIRS.get(path.stem, KINDS[kind]), MOST_BYTES
        status, said = run(given.psring, osu.program(path), ranks, ["-m", str(most)] + REPEATS)
        if USAGE.search(said):
            most = OWN_MOST_BYTES
            status, said = run(given.psring, osu.program(path), ranks, REPEATS)
        if status != 0 and (lacking(said) or THREADS in said):
            return "lacks", lacking(said) or "%s: a rank has one thread" % THREADS
        return ("passes" if status == 0 and sizes_are_whole(said, most) else "fails"), said

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (kind, path), (how, said) in zip(entries, pool.map(one, entries)):
            row = counts.setdefault(kind, {})
            row[how] = row.get(how, 0) + 1
            title = str(path.relative_to(osu.root).with_suffix(""))
            if how == "lacks":
                tap.skip(title, said)
            else:
                tap.ok(how == "passes", title, said.splitlines()[-40:])
    tap.ok(any("passes" in row for row in counts.values()), "there are programs that pass", ["none of %d" % len(entries)])
    print("# %-10s %8s %8s %8s" % ("folder", "passes", "fails", "lacks"))
    for kind, row in counts.items():
        print("# %-10s %8d %8d %8d" % (kind, *(row.get(how, 0) for how in ("passes", "fails", "lacks"))))
    tap.end()


def main():
    parser = arguments_of(__doc__.split("\n", 1)[0])
    parser.add_argument("--osu", type=pathlib.Path, help="an unpacked source of OSU's micro-benchmarks")
    parser.add_argument("--only", help="a program, as osu_latency")
    given = parser.parse_args()
    if given.osu is None:
        print("1..0 # SKIP no source of OSU's benchmarks is given: -Dosu_root=DIR names OSU's sources")
        return
    with tempfile.TemporaryDirectory(prefix="psring-osu-") as directory:
        built = given.keep or os.path.join(directory, "built")
        os.makedirs(built, exist_ok=True)
        play(given, Osu(given.osu, built, given.libpsring, given.include))


if __name__ == "__main__":
    main()
