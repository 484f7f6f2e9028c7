"""The C++ half of the backend "psring", compiled when it is first used: torch's C++ interface
differs from version to version, so that a wheel cannot bring it along."""

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import torch

from .. import _psring
from .._errors import Error, UnsupportedError

NAME = "psring_torch_backend"
SOURCES = ("backend.cpp", "backend_tensors.hpp", "backend_work.hpp")
HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent / "include"
INSTEAD = "psring.ddp_hook and psring.DistributedOptimizer work without"


class _Symbol(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _library():
    """The file of the libpsring that this process has loaded."""
    address = ctypes.cast(ctypes.CDLL(_psring.__file__).psring_version, ctypes.c_void_p)
    symbol = _Symbol()
    ctypes.CDLL(None).dladdr(address, ctypes.byref(symbol))
    return os.path.realpath(os.fsdecode(symbol.file))


def _compiler():
    """The command, or None."""
    named = shlex.split(os.environ.get("CXX", ""))
    return next((command for command in ([named] if named else [["c++"], ["g++"], ["clang++"]]) if shutil.which(command[0])), None)


def _missing(missing):
    """missing: (what, package) of each."""
    return UnsupportedError("unsupported", "the backend psring is compiled when it is first used, and %s %s missing: install %s; %s"
                            % (" and ".join(what for what, _ in missing), "is" if len(missing) == 1 else "are",
                               " ".join(package for _, package in missing), INSTEAD))


def _check_tools(include, python):
    """include, python: where torch's headers and Python's are. Debian has each in a package of its
    own; torch's wheels have its headers in them, and pybind11's."""
    missing = [] if _compiler() else [("a C++ compiler (%s)" % (os.environ.get("CXX") or "c++, or what CXX names"), "g++")]
    for folder, header, package in ((python, "Python.h", "python3-dev"),
                                    (include, "torch/csrc/distributed/c10d/Backend.hpp", "libtorch-dev pybind11-dev")):
        if not os.path.exists(os.path.join(folder, header)):
            missing.append(("%s (%s)" % (header, folder), package))
    if missing:
        raise _missing(missing)


def _folder():
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(cache if os.path.isabs(cache) else os.path.expanduser("~/.cache")) / "psring"


def key(sources):
    """What a build serves: this torch, this Python, this libpsring, and these sources."""
    version = _psring.lib.psring_version()
    told = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    abi = "cxx11" if torch.compiled_with_cxx11_abi() else "cxx03"
    return "torch-%s-%s-%s-%s-psring-%d.%d.%d-%s" % (torch.__version__, abi, sysconfig.get_config_var("SOABI") or "python",
                                                     platform.machine(), version >> 16, version >> 8 & 255, version & 255, told)


def _command(out):
    root, python = pathlib.Path(torch.__file__).parent, sysconfig.get_paths()["include"]
    _check_tools(root / "include", python)
    return [*_compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", "-w", "-D_GLIBCXX_USE_CXX11_ABI=%d" % torch.compiled_with_cxx11_abi(),
            "-I", str(INCLUDE), "-isystem", str(root / "include"), "-isystem", str(root / "include/torch/csrc/api/include"),
            "-isystem", python, str(HERE / SOURCES[0]), "-o", str(out), "-L", str(root / "lib"), "-ltorch_python", "-ltorch_cpu", "-lc10", _library()]


@contextlib.contextmanager
def _locked(path):
    """One process at a time. A file system without locks costs a build more, and nothing else."""
    with open(path, "w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(built):
    """Builds aside and renames: whoever sees the file sees all of it. What builds that were killed
    have left is removed."""
    for old in built.parent.glob("building-*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=built.parent) as folder:
        out = pathlib.Path(folder) / built.name
        command = _command(out)
        print("psring: compiling the backend for torch %s, once: a minute or two" % torch.__version__, file=sys.stderr, flush=True)
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        if done.returncode != 0:
            log = built.with_suffix(".log")
            log.write_text(done.stderr)
            # The compiler alone knows where else it may be.
            if re.search(r"fatal error: \W?pybind11/", done.stderr):
                raise _missing([("pybind11", "pybind11-dev")])
            first = next((line for line in done.stderr.splitlines() if "error" in line), "status %d" % done.returncode)
            raise UnsupportedError("unsupported", "the backend psring could not be compiled for torch %s: %s (all of it: %s); %s"
                                   % (torch.__version__, first.strip(), log, INSTEAD))
        os.replace(out, built)


def _load(path):
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(NAME, loader))
    loader.exec_module(module)
    return module


def place():
    """The file that is built."""
    return _folder() / key([HERE / name for name in SOURCES] + [INCLUDE / "psring" / "psring.h"]) / (NAME + ".so")


_module = None


def compiled():
    """The module, from the user's cache or built into it now."""
    global _module
    if _module is not None:
        return _module
    built = place()
    try:
        built.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not built.exists():
            with _locked(built.parent / "lock"):
                if not built.exists():
                    _build(built)
    except OSError as failure:
        raise Error("io", "the backend psring is compiled into %s: %s; set XDG_CACHE_HOME to a folder that can be written"
                    % (built.parent, failure.strerror or failure)) from None
    _module = _load(built)
    return _module


def is_loaded():
    """Whether compiled() has been called with success."""
    return _module is not None
