"""A Slurm of this test's own: munged, slurmctld and a slurmd for each of two nodes, all on this
machine, in one folder, on ports that the kernel gave; with nodes (nodes.py), each slurmd is on one
of those. with Slurm(directory) as slurm: they end, each by its id, with the block.

Slurm's daemons take their configuration and credentials from the folder alone, and nothing of a
Slurm that this machine may have."""

import os
import shutil
import socket
import subprocess
import time

from launched import PATIENCE_S, program

CONFIGURATION = """ClusterName=psring-test
SlurmctldHost={controller_host}({addresses[0]})
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
JobCompType=jobcomp/none
KillWait=60
SchedulerParameters=bf_interval=1
NodeName=n1 NodeAddr={addresses[0]} NodeHostname={hosts[0]} Port={first} CPUs=24 State=UNKNOWN
NodeName=n2 NodeAddr={addresses[1]} NodeHostname={hosts[1]} Port={second} CPUs=24 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    holders = [socket.socket() for _ in range(count)]
    for holder in holders:
        holder.bind(("127.0.0.1", 0))
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


class Slurm:
    def __init__(self, directory, nodes=None):
        self.nodes = nodes
        self.folder = os.path.join(directory, "slurm" if nodes is None else "slurm-nodes")
        self.programs = {name: program(name) for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "sinfo", "squeue")}
        self.daemons = []

    def __enter__(self):
        shutil.rmtree(self.folder, ignore_errors=True)  # of one before
        os.mkdir(self.folder, 0o755)
        # munged wants no folder above that others may write
        os.chmod(os.path.dirname(self.folder), 0o755)
        os.mkdir(os.path.join(self.folder, "state"), 0o700)
        at = lambda name: os.path.join(self.folder, name)
        with open(at("munge.key"), "wb", opener=lambda path, flags: os.open(path, flags, 0o400)) as key:
            key.write(os.urandom(1024))
        controller, first, second = free_ports(3)
        host = socket.gethostname().split(".")[0]
        hosts, addresses = (self.nodes.names, self.nodes.addresses) if self.nodes else ((host, host), ("127.0.0.1", "127.0.0.1"))
        with open(at("slurm.conf"), "w") as file:
            file.write(CONFIGURATION.format(controller_host=hosts[0], hosts=hosts, addresses=addresses, folder=self.folder,
                                            user=os.environ.get("USER", "root") if os.geteuid() else "root", controller=controller, first=first,
                                            second=second))
        self.env = dict(os.environ, SLURM_CONF=at("slurm.conf"))
        try:
            self._start("munged", "--foreground", "--force", "--key-file", at("munge.key"), "--socket", at("munge.socket"), "--pid-file", at("munge.pid"),
                        "--log-file", at("munge.log"), "--seed-file", at("munge.seed"))
            self._until(lambda: os.path.exists(at("munge.socket")))
            self._start("slurmctld", "-D")
            self._start("slurmd", "-D", "-N", "n1")
            self._start("slurmd", "-D", "-N", "n2", node=1)
            self._until(lambda: self.said("sinfo", "-h", "-t", "idle", "-o", "%D") == "2")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self._end_jobs()
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _end_jobs(self):
        """Jobs that a test left when it failed: their processes are not slurmd's children, and
        would outlive it."""
        end = time.monotonic() + 30
        try:
            while len(self.daemons) == 4 and all(daemon.poll() is None for daemon in self.daemons) and time.monotonic() < end:
                jobs = subprocess.run(self.words("squeue", "-h", "-o", "%A"), env=self.env, capture_output=True, text=True, timeout=30).stdout.split()
                if not jobs:
                    return
                for words in (["--full", "--signal=KILL"], []):
                    subprocess.run(self.words("scancel", *words, *jobs), env=self.env, capture_output=True, timeout=30)
                time.sleep(0.1)
        except subprocess.TimeoutExpired:
            pass  # the daemons end all the same

    def words(self, name, *words, node=0):
        command = [self.programs[name], *words]
        return self.nodes.on(node, command) if self.nodes else command

    def _start(self, name, *words, node=0):
        with open(os.path.join(self.folder, "%s-%d.out" % (name, len(self.daemons))), "w") as said:
            self.daemons.append(subprocess.Popen(self.words(name, *words, node=node), env=self.env, stdin=subprocess.DEVNULL, stdout=said,
                                                 stderr=said, start_new_session=True))

    def _until(self, reached):
        """Slurm tells nobody when its state changes: it is asked again and again."""
        end = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.daemons):
                raise AssertionError("Slurm does not come up: %s" % self.logs())
            time.sleep(0.05)

    def logs(self):
        lines = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".out"):
                with open(os.path.join(self.folder, name), errors="replace") as file:
                    lines += ["%s: %s" % (name, line.rstrip()) for line in file.readlines()[-8:]]
        return lines

    def said(self, name, *words):
        told = subprocess.run(self.words(name, *words), env=self.env, capture_output=True, text=True, timeout=PATIENCE_S)
        return told.stdout.strip()

    def submit(self, path, out, script, options, sbatch=(), **more):
        """The job's number; what it says goes to out. path: where psring's programs are."""
        env = dict(self.env, PSRING_BIN=path, **more)
        told = subprocess.run(self.words("sbatch", "--parsable", "--output", out, *sbatch, script, *options), env=env, capture_output=True,
                              text=True, timeout=PATIENCE_S)
        if told.returncode != 0:
            raise AssertionError(told.stderr)
        return told.stdout.strip()

    def state(self, job):
        """("COMPLETED", "0:0"): its state and exit code."""
        words = dict(word.split("=", 1) for word in self.said("scontrol", "-o", "show", "job", job).split() if "=" in word)
        return words.get("JobState", "?"), words.get("ExitCode", "?")

    def requeue(self, job):
        """Slurm waits for two minutes before it starts such a job again, unless it is told
        otherwise."""
        self.said("scontrol", "requeue", job)
        self.wait(job, ["PENDING"])
        self.said("scontrol", "update", "JobId=" + job, "StartTime=now")

    def wait(self, job, states=("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"), patience_s=PATIENCE_S, progress=lambda: None):
        """patience_s: how long what `progress` returns may stay the same."""
        end, last = time.monotonic() + patience_s, progress()
        while self.state(job)[0] not in states:
            now = progress()
            if now != last:
                end, last = time.monotonic() + patience_s, now
            if time.monotonic() > end:
                raise AssertionError("job %s is %s" % (job, self.state(job)))
            time.sleep(0.05)
        return self.state(job)
