"""torch's own tests of a backend, torch/testing/_internal/distributed/distributed_test.py of its
wheel, on three ranks that are forked for each test. What names other backends in order to leave
them in is opened for "psring" too; nothing else of the file is changed. Prints a line for each test
that was run: passed, skipped or failed, its name, and why.

usage: torch_own_tests.py BACKEND [TEST..], with TEMP_DIR set to a folder of its own"""

import os
import pathlib
import re
import sys
import types
import unittest

os.environ.update(BACKEND=sys.argv[1], WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", OMP_NUM_THREADS="1",
                  INIT_METHOD="file://" + os.environ["TEMP_DIR"] + "/again")

import torch  # noqa: E402

try:
    import expecttest  # noqa: F401
except ImportError:  # torch's tests of distributed need no more of it than its base class
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase
import torch.testing._internal.common_distributed as common  # noqa: E402

import psring.torch  # noqa: E402, F401
from psring.torch import _compile  # noqa: E402

MODULE = "torch.testing._internal.distributed.distributed_test"
GATES = [
    # Gloo's own, and what MPI alone had.
    (r'BACKEND != "(gloo|mpi)"', r'BACKEND not in ("\1", "psring")'),
    (r'BACKEND == "mpi" or BACKEND == "gloo"', 'BACKEND in ("mpi", "gloo", "psring")'),
    (r'require_backend_is_available\(\{"gloo"\}\)', 'require_backend_is_available({"gloo", "psring"})'),
    (r"(_SUPPORTED_BACKENDS = \[\n)", r'\1    "psring",\n'),
]
ON_GPUS = re.compile(r"GPU|CUDA|cuda|[Nn]ccl|NCCL|accelerator|XPU")


def distributed_test():
    """The module, with the gates open."""
    for features in ("ddp", "subgroup", "plugin"):
        common.DistTestCases.backend_feature[features].add("psring")
    path = pathlib.Path(torch.__file__).parent / "testing/_internal/distributed/distributed_test.py"
    source = path.read_text(encoding="utf-8")
    for closed, opened in GATES:
        source, count = re.subn(closed, opened, source)
        if count == 0:
            sys.exit("torch's distributed_test.py has nothing like %s any more" % closed)
    module = types.ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


class Told(unittest.TestResult):
    def _tell(self, word, test, why=""):
        if word != "skipped" or not ON_GPUS.search(why):
            print(word, test.id().rsplit(".", 1)[-1], why, flush=True)

    def addSuccess(self, test):
        self._tell("passed", test)

    def addSkip(self, test, reason):
        self._tell("skipped", test, " ".join(str(reason).split()))

    def addError(self, test, err):
        print(self._exc_info_to_string(err, test), file=sys.stderr, flush=True)
        lines = [line.strip() for line in str(err[1]).splitlines()]
        self._tell("failed", test, next((line for line in lines if re.match(r"\w*(Error|Exception)\b", line)), lines[0] if lines else ""))

    addFailure = addError


def main():
    module = distributed_test()

    class TestPsring(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    TestPsring.__qualname__ = "TestPsring"
    TestPsring.__module__ = "__main__"
    globals()["TestPsring"] = TestPsring
    if sys.argv[1] == "psring":
        _compile.compiled()  # once, and before any test's time runs
    names = sys.argv[2:] or unittest.defaultTestLoader.getTestCaseNames(TestPsring)
    unittest.TestSuite(TestPsring(name) for name in names).run(Told())


main()
