"""deploy/examples: each script starts a run as it stands there, which ends with the bits of --mode
local. Prints who started it, and its version.

usage: test_examples_of_starts.py SOURCE-ROOT PSRING WORKER shell|torch [TORCHRUN]"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from psring_run import PATIENCE_S, Run, Tap, Workspace
from test_launched import OPTIONS, Launcher, free_port, words_of


def first_line(command):
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    return (told.stdout + told.stderr).strip().splitlines()[0]


class Examples:
    def __init__(self, tap, launcher, examples, psring, path):
        self.tap, self.launcher, self.examples, self.psring, self.path = tap, launcher, examples, psring, path
        self.options = dict(OPTIONS, **{"batch-size": 8})  # eight workers share few samples
        self.hashes = {}

    def right(self, ranks):
        if ranks not in self.hashes:
            local = Run(self.psring, self.launcher.directory, "local-%d" % ranks, dict(self.options, mode="local", workers=ranks))
            self.tap.ok(local.status == 0, "mode local plays %d workers" % ranks, local.why())
            self.hashes[ranks] = local.outcome()["hash"]
        return self.hashes[ranks]

    def run(self, name, script, arguments, ranks, options, component, says, **variables):
        """component: who starts it, with its version. says: what a rank's first line has."""
        directory = os.path.join(self.launcher.directory, name)
        os.mkdir(directory)
        # torchrun leaves a folder there
        env = dict(self.launcher.environment(variables), PATH=self.path, TMPDIR=self.launcher.directory)
        shell = subprocess.Popen([os.path.join(self.examples, script)] + arguments + words_of(dict(options, out="run")), cwd=directory, env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            said = shell.communicate(timeout=PATIENCE_S)[0].splitlines()
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, 9)
            said = shell.communicate()[0].splitlines() + ["(ended by the test)"]
        for file in sorted(os.listdir(directory)):
            if file.endswith(".txt"):
                with open(os.path.join(directory, file)) as text:
                    said += text.read().splitlines()
        found = self.launcher.hash_of(os.path.join(name, "run"))
        self.tap.ok(shell.returncode == 0 and any(says in line for line in said), "%s (%s): ends with status 0" % (name, component),
                    ["status %s" % shell.returncode] + said[-15:])
        self.tap.ok(found == self.right(ranks), "%s: the hash is that of mode local" % name, [found] + said[-5:])
        return directory, said


def asks_for_numbers(e):
    """A script whose number of ranks was left out starts nothing."""
    for script in ("shell_loop.sh", "spawn.sh", "mxnet.sh", "torchrun.sh", "torch_distributed_launch.sh", "torchrun_two_nodes.sh"):
        told = subprocess.run([os.path.join(e.examples, script), "--mode", "ring"], cwd=e.launcher.directory, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        e.tap.ok(told.returncode == 2 and not told.stdout and re.fullmatch(r"usage: .*/%s \S+( SERVERS)? OPTION\.\.\.\n" % re.escape(script), told.stderr),
                 script + " without a number of ranks says its usage: status 2", ["status %s" % told.returncode, told.stdout + told.stderr])


def shell(e):
    asks_for_numbers(e)
    ring, ps = dict(e.options, mode="ring"), dict(e.options, mode="ps", shards=2)
    sh = "sh is " + os.path.realpath(shutil.which("sh"))
    worker = first_line([shutil.which("psring-worker", path=e.path), "--version"])
    e.run("shell_loop", "shell_loop.sh", ["3"], 3, ps, sh, "from LOCAL_RANK and WORLD_SIZE", MASTER_PORT=free_port())
    e.run("spawn", "spawn.sh", ["3"], 3, ring, worker, "from --rank and --world-size", MASTER_PORT=free_port())
    e.run("mxnet", "mxnet.sh", ["3", "2"], 3, e.options, worker, "from DMLC_ROLE", DMLC_PS_ROOT_PORT=free_port())
    e.run("mxnet_ring", "mxnet.sh", ["3", "0"], 3, e.options, worker, "from DMLC_ROLE", DMLC_PS_ROOT_PORT=free_port())
    bash = first_line(["bash", "--version"])
    options = {key: value for key, value in e.options.items() if key != "data"}
    for name, servers in (("mindspore", {}), ("mindspore_ps", {"MS_SERVER_NUM": 2})):
        directory, said = e.run(name, "mindspore/run.sh", [OPTIONS["data"]], 8, options, bash,
                                "from MS_ROLE", MS_SCHED_PORT=free_port(), **servers)
        files = ["scheduler.txt"] + ["worker_%d.txt" % i for i in range(8)] + ["pserver_%d.txt" % i for i in range(servers.get("MS_SERVER_NUM", 0))]
        e.tap.ok(sorted(set(os.listdir(directory)) - {"run"}) == sorted(files), name + ": a file of each process", os.listdir(directory))
        e.tap.ok(all(any(line.startswith(file + ": process ") for line in said) for file in files), name + ": each process is told", said[:12])
        with open(os.path.join(directory, "worker_0.txt")) as text:
            lines = [line for line in text if line.startswith("epoch: 1 step: 1, loss is ")]
        e.tap.ok(len(lines) == 1, name + ": each step's loss is in the workers' files", lines)


def torch(e, torchrun):
    python = os.path.join(os.path.dirname(os.path.realpath(torchrun)), "python3")
    python = python if os.path.exists(python) else os.path.join(os.path.dirname(torchrun), "python3")
    version = "PyTorch " + first_line([python, "-c", "import torch; print(torch.__version__)"])
    ring, ps = dict(e.options, mode="ring"), dict(e.options, mode="ps", shards=2)
    e.path = os.path.dirname(torchrun) + os.pathsep + e.path
    e.run("torchrun", "torchrun.sh", ["3"], 3, ring, version, "of 3 from RANK and WORLD_SIZE (torchrun)", MASTER_PORT=free_port())
    e.run("torchrun_ps", "torchrun.sh", ["3"], 3, ps, version, "shard 1 is beside this process", MASTER_PORT=free_port())
    e.run("torch_distributed_launch", "torch_distributed_launch.sh", ["3"], 3, ring, version, "from RANK and WORLD_SIZE (torchrun)",
          MASTER_PORT=free_port(), PYTHON=python)
    e.run("torchrun_two_nodes", "torchrun_two_nodes.sh", ["2"], 4, ring, version, "rank 3 of 4 from RANK and WORLD_SIZE (torchrun)",
          MASTER_PORT=free_port())


def main():
    root, psring, worker, which = sys.argv[1:5]
    torchrun = shutil.which(sys.argv[5] if len(sys.argv) > 5 and sys.argv[5] else "torchrun") if which == "torch" else None
    if which == "torch" and torchrun is None:
        print("1..0 # SKIP torchrun is not in PATH, and no -Dtorchrun=PATH names it")
        return
    tap = Tap()
    with Workspace() as directory:
        launcher = Launcher(os.path.abspath(worker), directory)
        path = os.path.dirname(launcher.worker) + os.pathsep + os.environ["PATH"]
        examples = Examples(tap, launcher, os.path.join(os.path.abspath(root), "deploy", "examples"), os.path.abspath(psring), path)
        if which == "torch":
            torch(examples, torchrun)
        else:
            shell(examples)
        tap.ok(not launcher.left(), "nothing is left of the meetings", launcher.left())
    tap.end()


if __name__ == "__main__":
    main()
