"""Shards that the ranks start themselves where the launcher has started none: processes of
`psring-ps serve`, children of each host's first rank.

Ranks and shards meet anew, at a place that rank 0 tells by the launcher's communicator. On one host
that is a socket in a folder of this user, on several ones rank 0's address and a fresh key."""

import atexit
import os
import secrets
import shutil
import socket
import subprocess
import tempfile

from .. import _communicator
from .._errors import Error, error_of, usage
from .._library import new
from .._psring import ffi, lib
from . import _folders
from ._told import told

# What launchers tell their ranks would tell a shard that it is one of these.
LAUNCHERS = ("PSRING_", "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_", "DMLC_", "MS_", "OMPI_", "PMI",
             "MPI_", "PRTE_", "SLURM_")
PREFIX = "psring-shards-"
END_S = 10  # so long a shard may take to end after the ranks have left
# So long at most a rank that was killed holds the folder after its sockets are closed, by which the
# others hear of it.
DYING_S = 1


class _Folder:
    """A folder of the ranks of one host. The last of them that leaves removes it, or the last that
    still lives: a lock of a process ends with it."""

    def __init__(self, here):
        own = os.path.join(tempfile.gettempdir(), PREFIX + secrets.token_hex(8))
        if here.rank == 0:
            _folders.sweep(tempfile.gettempdir(), PREFIX)
        self.path = told(here, os.fsencode(own) if here.rank == 0 else None, name="folder's name").decode()
        self._held = _folders.make(self.path)
        if self._held is None:
            raise Error("io", "%s is not a folder of this user alone" % self.path)
        here.barrier()

    def leave(self, in_order):
        os.close(self._held)
        _folders.remove_unheld(self.path, 0 if in_order else DYING_S)  # another rank may stay


class Shards:
    """The shards of a communicator, as far as this rank has started them."""

    def __init__(self, folder):
        self._folder, self._processes, self._pid = folder, [], os.getpid()
        atexit.register(self._leave)

    def start(self, ranks, shards, numbers, place):
        program = shutil.which("psring-ps")
        if program is None:
            raise usage("init(shards=%d) starts psring-ps, which is not in PATH: install psring, or name its folder in PATH" % shards)
        env = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        env.update(place, PSRING_RANKS=str(ranks + shards), PSRING_SHARDS=str(shards), PSRING_HOST_SCHEDULER="0")
        for number in numbers:
            self._processes.append(subprocess.Popen([program, "serve", "--parent", str(os.getpid())], stdin=subprocess.DEVNULL,
                                                    env=dict(env, PSRING_RANK=str(ranks + number))))

    def end(self, in_order=True):
        """The communicator has been closed, in order or not, or the program ends: the shards have
        nobody to serve."""
        if self._folder is None or os.getpid() != self._pid:
            return  # again, or a child after fork()
        atexit.unregister(self._leave)
        for process in self._processes:
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.leave(in_order)
        self._folder = None

    def _leave(self):
        """The program ends: the communicator first."""
        if os.getpid() == self._pid:
            self.end(_communicator._leave())


def _address(world):
    """Rank 0's address, as the launcher's place says it, and a socket that keeps a port of it."""
    options = new("psring_options")
    err = lib.psring_options_env(options)
    if err != lib.PSRING_OK:
        raise error_of(err)
    scheduler = ffi.string(options.scheduler).decode() if options.scheduler != ffi.NULL else ""
    host = scheduler.rpartition(":")[0].strip("[]")
    if not options.host_scheduler or not host or scheduler.startswith("/"):
        raise usage("the ranks are on %d hosts, and rank 0's address is not known: start the shards by psring run --shards"
                    % len(set(world.hosts)))
    family, kind, protocol, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    held = socket.socket(family, kind, protocol)
    # Bound, it is nobody else's; the library binds it once more, and alone listens.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(where)
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, held.getsockname()[1]), held


def _interface():
    """The interface on which the launcher's place has this rank listen, or None."""
    options = new("psring_options")
    err = lib.psring_options_env(options)
    if err != lib.PSRING_OK:
        raise error_of(err)
    return ffi.string(options.interface).decode() if options.interface != ffi.NULL else None


def _key(ranks):
    made = ffi.new("char **")
    err = lib.psring_key_make(ranks, made)
    if err != lib.PSRING_OK:
        raise error_of(err)
    try:
        return ffi.string(made[0])
    finally:
        lib.psring_key_free(made)


def _meet(found, ranks, folder):
    """(arguments of the communicator, variables of a shard on this host, what is held meanwhile)"""
    world, first = found.world, found.world.local_rank == 0
    if len(set(world.hosts)) == 1:
        path = os.path.join(folder.path, "scheduler")
        return {"scheduler": path}, {"PSRING_SCHEDULER": path}, None
    scheduler, held = _address(world) if world.rank == 0 else ("", None)
    interface = _interface()
    scheduler = told(world, scheduler.encode(), name="address").decode()
    key = told(world, _key(ranks) if world.rank == 0 else None, name="key")
    key_file = os.path.join(folder.path, "key")
    if first:
        with open(os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
    here = {"scheduler": scheduler, "key": key.decode(), "host": world.host(world.rank), "sharing": folder.path, "interface": interface}
    variables = {"PSRING_SCHEDULER": scheduler, "PSRING_KEY_FILE": key_file, "PSRING_HOST": here["host"], "PSRING_SHARING": folder.path}
    if interface is not None:
        variables["PSRING_INTERFACE"] = interface
    return here, variables, held


def join(found: "_communicator.Communicator", shards: int, deadline: "float | None"):
    """(a communicator of the same ranks with so many shards, the Shards). Closes the one that the
    launcher's place has given. Shard s is on host s mod the number of hosts."""
    world = found.world
    here = world.on_host()
    if deadline is None and os.environ.get("PSRING_DEADLINE_MS"):
        # as the launcher's communicator has taken it
        deadline = int(os.environ["PSRING_DEADLINE_MS"]) / 1000
    own, hosts = Shards(_Folder(here)), list(dict.fromkeys(world.hosts))
    try:
        where, variables, held = _meet(found, world.size + shards, own._folder)
        if here.rank == 0:
            own.start(world.size, shards, range(hosts.index(world.host(world.rank)), shards, len(hosts)), variables)
        world.barrier()  # where a rank could not, it fails on all with that rank's line
        comm = _communicator.Communicator(ranks=world.size + shards, rank=world.rank, shards=shards, deadline=deadline, **where)
        if held is not None:
            held.close()
    except BaseException as failure:
        found.abort(failure.line if isinstance(failure, Error) else _communicator.exception_line(failure))
        for process in own._processes:
            process.kill()
        own.end(in_order=False)
        raise
    found.close()
    return comm, own
