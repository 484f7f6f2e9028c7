"""What bench/gpu_check runs: where the programs and libraries are, and a pack of them for a machine
on which nothing of ours is installed. Python's standard library alone."""
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

PROGRAMS = ("psring", "psring-worker", "psring-worker-cuda", "psring-ps", "psring-scheduler")
# Folders of a build tree, from psring's (psring_program_path of base/system/child.c).
BESIDE = (".", "../ps", "../worker", "../tests/unit")
SCRIPTS = ("bench/gpu_check", "bench/gpu_parts.py", "bench/gpu_pack.py", "bench/bounded.py", "bench/beside.py", "bench/outlived.py", "bench/peers/torch_gpu.py")
DEVICES = "tests/unit/model/cuda/devices"
RECIPES = "deploy/recipes"
# glibc's own, which have to be the machine's.
GLIBC = re.compile(r"(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|nsl|BrokenLocale|thread_db|nss_\w+))\.so(\.\d+)*$")
NVIDIA = re.compile(r"lib(cudart|nvrtc|cublas|cublasLt)\.so\.13$|libnvrtc-builtins\.so\.13\.\d+$|libcudnn(_\w+)?\.so\.9$|libnccl\.so\.2$")
NVIDIA_NEEDED = ("libcudart.so.13", "libcudnn.so.9", "libnccl.so.2")
MIB = 1 << 20

HOW_TO_RUN = """psring for a machine with a GPU: programs, the libraries that they need, and a check.

    bench/gpu_check                    # the check; --help tells its parts. Results: gpu-results/
    bench/gpu_check --python PYTHON    # beside the PyTorch of that PYTHON
    bench/gpu_check --nvidia DIR       # NVIDIA's libraries lie below DIR

It needs Python 3.9 and glibc %(glibc)s or later, NVIDIA's driver for CUDA 13, and
%(nvidia)s.

By hand, in this folder:

    export LD_LIBRARY_PATH=$PWD/lib%(path)s
    bin/psring doctor
    bin/psring train --device cuda --model resnet20 --data synthetic:count=4000 --steps 100
"""


class Missing(Exception):
    """Something that is needed is not there."""


def find_programs(top, psring, parity, build):
    """{name: path} of what is run. top: the folder above bench/, of a pack or of the source."""
    packed = top / "bin" / "psring"
    psring = pathlib.Path(psring) if psring else packed if packed.exists() else pathlib.Path(build) / "deploy" / "psring"
    if not psring.exists():
        raise Missing("there is no %s: give --psring or --build" % psring)
    found = {"psring": str(psring.resolve())}
    for name in PROGRAMS[1:] + ("gpu_parity",):
        there = [psring.resolve().parent / folder / name for folder in BESIDE]
        if name == "gpu_parity" and parity:
            there = [pathlib.Path(parity)]
        path = next((path for path in there if path.exists()), None)
        if path is None and name in ("psring-worker-cuda", "gpu_parity"):
            raise Missing("there is no %s beside %s: build with -Dcuda=enabled and -Dtests=enabled" % (name, psring))
        if path is None:
            raise Missing("there is no %s beside %s" % (name, psring))
        found[name] = str(path.resolve())
    return found


def environment(top, nvidia):
    """Of the programs: NVIDIA's libraries below those folders, LD_LIBRARY_PATH's, the pack's."""
    folders = [*sorted({os.path.dirname(path) for path in nvidia_of(nvidia).values()}), os.environ.get("LD_LIBRARY_PATH", ""), *(str(top / name) for name in ("lib", "nvidia") if (top / "bin" / "psring").exists())]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(folder for folder in folders if folder))


def packed(top):
    """What the pack was made of; "": this is none."""
    mark = top / "PACKED"
    return mark.read_text().strip() if mark.exists() else ""


# ---- packing ----

def libraries_of(programs):
    """{name: path} of the libraries that these load at their start, but glibc's."""
    found = {}
    for program in programs:
        done = subprocess.run(["ldd", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Missing("ldd %s: %s" % (program, (done.stderr.strip() or "it failed")))
        for name, path in re.findall(r"^\s*(\S+) => (not found|\S+)", done.stdout, re.M):
            if path == "not found":
                raise Missing("%s needs %s, which is not there" % (program, name))
            if not GLIBC.match(name):
                found[name] = path
    return found


def nvidia_of(folders):
    """{name: path} below the folders, the first of each name."""
    found = {}
    for folder in folders:
        for at, _, names in os.walk(folder):
            for name in sorted(names):
                if NVIDIA.match(name):
                    found.setdefault(name, os.path.join(at, name))
    for name in NVIDIA_NEEDED if folders else ():
        if name not in found:
            raise Missing("--nvidia: there is no %s below %s" % (name, " and ".join(folders)))
    return found


def copy(files, folder, strips):
    """Files {name: path}, without what only a debugger reads. Bytes of all."""
    os.makedirs(folder)
    for name, path in files.items():
        shutil.copyfile(os.path.realpath(path), os.path.join(folder, name))
        os.chmod(os.path.join(folder, name), 0o755)
    if strips and files and shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *(os.path.join(folder, name) for name in files)], check=True, timeout=300)
    return sum(os.path.getsize(os.path.join(folder, name)) for name in files)


def glibc_of(paths):
    """The version of glibc that these files ask for: the newest of its symbols'."""
    minors = [0]
    for path in paths:
        with open(path, "rb") as file:
            minors += map(int, re.findall(rb"GLIBC_2\.(\d+)", file.read()))
    return "2.%d" % max(minors)


def commit_of(top):
    if not shutil.which("git"):
        return "of an unknown commit"
    done = subprocess.run(["git", "-C", top, "describe", "--always", "--dirty"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return "of commit " + done.stdout.strip() if done.returncode == 0 else "of an unknown commit"


def fill(root, top, programs, nvidia):
    """(bytes of ours, bytes of NVIDIA's)"""
    libraries = libraries_of(programs.values())
    size = copy(programs, os.path.join(root, "bin"), True) + copy(libraries, os.path.join(root, "lib"), True)
    nvidia_size = copy(nvidia, os.path.join(root, "nvidia"), False) if nvidia else 0
    shutil.copytree(top / RECIPES, os.path.join(root, "bin", "recipes"), ignore=shutil.ignore_patterns("meson.build"))
    shutil.copytree(top / DEVICES, os.path.join(root, DEVICES))
    for script in SCRIPTS:
        os.makedirs(os.path.dirname(os.path.join(root, script)), exist_ok=True)
        shutil.copy(top / script, os.path.join(root, script))
    words = {"glibc": glibc_of([*programs.values(), *libraries.values()]),
             "nvidia": "nothing else: CUDA's runtime, cuDNN and NCCL are here" if nvidia else
                       "CUDA's runtime 13, cuDNN 9.11 or later and NCCL 2: below DIR of --nvidia, in LD_LIBRARY_PATH, or known to ldconfig",
             "path": ":$PWD/nvidia" if nvidia else ":$LD_LIBRARY_PATH"}
    for name, text in (("HOW-TO-RUN", HOW_TO_RUN % words), ("PACKED", commit_of(top) + "\n")):
        with open(os.path.join(root, name), "w") as file:
            file.write(text)
    return size, nvidia_size


def pack(to, top, programs, folders):
    """Exit status. to: a folder or the name of a tar file, which is not there yet."""
    if not (top / RECIPES).exists():
        raise Missing("--pack: %s is no source of psring" % top)
    if os.path.exists(to):
        raise Missing("%s is there already; give another name to --pack" % to)
    nvidia = nvidia_of(folders)
    kind = re.search(r"\.tar(?:\.(gz|xz))?$", to)
    with tempfile.TemporaryDirectory(prefix="psring-pack-", dir=os.path.dirname(os.path.abspath(to))) as work:
        root = os.path.join(work, "psring-gpu")
        os.makedirs(root)
        size, nvidia_size = fill(root, top, programs, nvidia)
        if kind:
            with tarfile.open(os.path.join(work, "tar"), "w:" + (kind.group(1) or "")) as tar:
                tar.add(root, "psring-gpu")
            root = os.path.join(work, "tar")
        os.rename(root, to)
    print("%s: %.1f MiB of programs and libraries%s%s" % (
        to, size / MIB, ", %.1f MiB of NVIDIA's" % (nvidia_size / MIB) if nvidia else ", without NVIDIA's",
        "; the file has %.1f MiB" % (os.path.getsize(to) / MIB) if kind else ""))
    print("There: %s%s/bench/gpu_check" % ("tar xf %s && " % os.path.basename(to) if kind else "", "psring-gpu" if kind else to))
    return 0
