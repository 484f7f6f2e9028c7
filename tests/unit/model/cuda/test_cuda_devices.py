#!/usr/bin/env python3
"""`psring doctor` and what it says of CUDA, on a machine of which driver and libraries are played:
each is a file under the name that the dynamic linker is asked for. And what psring-worker-cuda
tells of a device's properties, which are cuDNN's.

usage: test_cuda_devices.py PSRING PSRING-WORKER-CUDA LIBRARIES

LIBRARIES: a folder with those libraries (model/cuda/played).
"""
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile

NAMES = {"driver": "libcuda.so.1", "runtime": "libcudart.so.13", "cudnn": "libcudnn.so.9", "nccl": "libnccl.so.2"}
GOOD = {"driver": 13000, "runtime": 13000, "devices": 3, "cudnn": 91900, "nccl": 22809}
LIBRARIES = "driver 13.0, runtime 13.0, cuDNN 9.19.0, NCCL 2.28.9"
NO_DRIVER = r"no CUDA device: libcuda\.so\.1 (is not there: install NVIDIA's driver for CUDA 13|cannot be loaded: .*)"
CUDNN, NCCL, RUNTIME = "install cuDNN 9.11 or later for CUDA 13", "install NCCL 2 for CUDA 13", "install CUDA's runtime, version 13"

# Which answers differ from GOOD; the devices, libraries and what is missing that the doctor tells.
CASES = {
    "devices, alike ones together": ({}, "2 x Played A (sm_90, 80.0 GiB), 1 x Played B (sm_100, 80.0 GiB)", LIBRARIES, ""),
    "a driver that finds no device": ({"devices": 0}, "", LIBRARIES, "no CUDA device: NVIDIA's driver finds none"),
    "a driver that is too old": ({"driver": 12040}, "", LIBRARIES.replace("13.0", "12.4", 1),
                                 "NVIDIA's driver is too old: it is for CUDA 12.4; install one for CUDA 13"),
    "a driver that fails": ({"broken": 1}, "", LIBRARIES, "no CUDA device: initialization error"),
    "a cuDNN that is too old": ({"cudnn": 91002}, "2 x Played A (sm_90, 80.0 GiB), 1 x Played B (sm_100, 80.0 GiB)",
                                LIBRARIES.replace("cuDNN 9.19.0, ", ""), "libcudnn.so.9 is version 9.10.2: " + CUDNN),
    "two libraries of other versions": ({"devices": 1, "cudnn": 80907, "nccl": 32809}, "1 x Played B (sm_100, 80.0 GiB)",
                                        "driver 13.0, runtime 13.0",
                                        "libcudnn.so.9 is version 8.9.7: " + CUDNN + "; libnccl.so.2 is version 3.28.9: " + NCCL),
    "a runtime of another version": ({"runtime": 12080}, "", "driver, cuDNN 9.19.0, NCCL 2.28.9", "libcudart.so.13 is version 12.8: " + RUNTIME),
}


def doctor(psring, folder, answers, *options):
    env = dict(os.environ, LD_LIBRARY_PATH=folder, PLAYED_CUDA=" ".join("%s=%d" % answer for answer in answers.items()))
    run = subprocess.run([psring, "doctor", "--deadline", "200", *options], env=env, capture_output=True, text=True, timeout=300, check=False)
    return run.stdout if run.returncode == 0 else "exit status %d: %s" % (run.returncode, run.stderr)


def properties(worker, folder, word):
    """(exit status, what was said)"""
    env = dict(os.environ, LD_LIBRARY_PATH=folder, PLAYED_CUDA=" ".join("%s=%d" % answer for answer in GOOD.items()))
    run = subprocess.run([worker, "properties", word], env=env, capture_output=True, text=True, timeout=300, check=False)
    return run.returncode, run.stdout + run.stderr


def facts(psring, folder, answers):
    told = json.loads(doctor(psring, folder, answers, "--json"))["hosts"][0]["facts"]
    return tuple(told["cuda_" + name] for name in ("devices", "libraries", "missing"))


def libraries_without_driver(folder, paths):
    """A machine that has a driver takes that where the folder has none: there it is a torn one."""
    os.remove(paths["driver"])
    try:
        ctypes.CDLL(NAMES["driver"])
    except OSError:
        return folder
    with open(paths["driver"], "wb") as torn:
        torn.write(b"\x7fELF torn")
    return folder


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def ok(self, good, name, why):
        self.count += 1
        self.failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", self.count, name))
        if not good:
            print("".join("# %s\n" % line for line in str(why).splitlines()), end="")


def main():
    if len(sys.argv) != 4 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 2
    psring, worker, libraries = (os.path.abspath(path) for path in sys.argv[1:])
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, NAMES[name]) for name in NAMES}
        for name, path in paths.items():
            os.symlink(os.path.join(libraries, NAMES[name]), path)
        for name, (answers, *expected) in CASES.items():
            told = facts(psring, folder, dict(GOOD, **answers))
            tap.ok(told == tuple(expected), name, told)
        text = doctor(psring, folder, dict(GOOD, cudnn=91002))
        tap.ok("  0  2 x Played A (sm_90, 80.0 GiB), 1 x Played B (sm_100, 80.0 GiB)\n     driver 13.0, runtime 13.0, NCCL 2.28.9\n" in text and
               "\n  cuda           localhost: libcudnn.so.9 is version 9.10.2: " + CUDNN in text, "the screen has them too", text)
        told = properties(worker, folder, "1")
        tap.ok(told == (0, '{"deviceName":"Played","cudaDeviceId":1,"driverVer":13000}\n'), "a device's properties are told on one line", told)
        for word, said in (("3", "there is no GPU 3: this host has 3, from 0 on"), ("one", "properties: 'one' is no number of a GPU")):
            status, text = properties(worker, folder, word)
            tap.ok(status != 0 and said in text and text.count("\n") == 1, "properties of GPU %s are refused in one line" % word, (status, text))
        # A library that is none of CUDA's, under its name.
        os.remove(paths["cudnn"])
        os.symlink(os.path.join(libraries, NAMES["nccl"]), paths["cudnn"])
        told = facts(psring, folder, GOOD)
        tap.ok(told[2] == "libcudnn.so.9 has no function cudnnGetVersion: " + CUDNN, "a library without its functions", told)
        with open(paths["runtime"] + ".torn", "wb") as torn:
            torn.write(b"\x7fELF torn")
        os.replace(paths["runtime"] + ".torn", paths["runtime"])
        told = facts(psring, folder, GOOD)
        tap.ok(told[0] == "" and told[2].startswith("libcudart.so.13 cannot be loaded: "), "a torn file", told)
        told = facts(psring, libraries_without_driver(folder, paths), GOOD)
        tap.ok(told[:2] == ("", "") and re.fullmatch(NO_DRIVER, told[2]), "no driver: one line, and no library is loaded", told)
        text = doctor(psring, folder, GOOD)
        tap.ok(re.search("^  0  " + NO_DRIVER + "$", text, re.M) and "\n  cuda  " not in text, "the screen has that line", text)
    print("1..%d" % tap.count)
    return tap.failed > 0


sys.exit(main())
