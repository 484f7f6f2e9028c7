"""The backend "psring" of torch.distributed: dist.init_process_group("psring").

Importing psring.torch registers it; torch finds it by itself too, by the entry point
torch.distributed.backends. backend.cpp is the other half."""

import atexit
import contextlib
import datetime
import multiprocessing.util
import os
import secrets
import socket
import sys
import tempfile

import torch
import torch.distributed as dist

from .._communicator import exception_line
from .._errors import usage
from . import _compile, _folders

DEADLINE_S = 30  # after so long a process that says nothing at all is given up
SOCKET_PATH_BYTES = 60  # what a folder's path may have, so that paths of sockets in it fit into 108


def _this_host():
    """What tells one machine from another, also if both have the same name."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip() + " " + socket.gethostname()
    return socket.gethostname()


def _interface():
    """The address at which ranks of other hosts reach this process."""
    named = os.environ.get("PSRING_INTERFACE")
    if named:
        return named
    other = os.environ.get("MASTER_ADDR") or socket.gethostname()
    with contextlib.suppress(OSError):
        family, kind, _, _, address = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing: chooses the way there
            found = probe.getsockname()[0]
        if not found.startswith("127.") and found != "::1":
            return found
    raise usage("the ranks are on several hosts, and the way to %s does not say by which interface: set PSRING_INTERFACE" % other)


_held = {}  # {path: descriptor} of the folders below, which this process holds


def _forget_removed():
    for path in [path for path in _held if not os.path.exists(path)]:
        os.close(_held.pop(path))


def _sharing(token):
    """A folder in which this host's ranks share memory, made by the first; "": there is none."""
    prefix = "psring-torch-"
    name = prefix + token
    _forget_removed()
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        path = os.path.join(base, name)
        if not os.path.isabs(path) or len(os.fsencode(path)) > SOCKET_PATH_BYTES or not os.access(base, os.W_OK):
            continue
        _folders.sweep(base, prefix)
        held = _folders.make(path)
        if held is not None:
            _held[path] = held
            return path
    return ""


def _meet(store, rank, size):
    """(interface, folder for sharing): what the hosts of all ranks decide."""
    if rank == 0:
        store.set("token", secrets.token_hex(8))
    store.set("host-%d" % rank, _this_host())
    hosts = {store.get("host-%d" % other) for other in range(size)}
    return "127.0.0.1" if len(hosts) == 1 else _interface(), _sharing(store.get("token").decode())


def _deadline():
    told = os.environ.get("PSRING_DEADLINE_MS", str(DEADLINE_S * 1000))
    if not told.isdecimal() or int(told) == 0:
        raise usage("PSRING_DEADLINE_MS is %r: it should be a number of milliseconds above 0" % told)
    return datetime.timedelta(milliseconds=int(told))


def _create(options, backend_options):
    """What torch calls for each process group."""
    module = _compile.compiled()
    _leave_at_end()
    rank, size, ranks = options.group_rank, options.group_size, list(options.global_ranks_in_group)
    timeout = options.timeout
    if backend_options is not None:
        raise usage("the backend psring takes no pg_options")
    is_default = not ranks
    if not is_default and dist.is_initialized():
        made = module.create_from_default(ranks, rank, dist.get_world_size(), timeout)
        if made is not None:
            return made
    store = options.store
    if size > 1:
        # A store that outlives a process group still has what its ranks left there.
        store = dist.PrefixStore("psring-%d" % ((store.add("psring", 1) - 1) // size), store)
    interface, sharing = ("", "") if size == 1 else _meet(store, rank, size)
    return module.create(store, rank, size, timeout, _deadline(), interface, sharing,
                         os.environ.get("PSRING_TRANSPORT", ""), os.environ.get("PSRING_HOST", ""), is_default)


@atexit.register
def _leave():
    """As psring's own communicators: in order, or with the exception that ended the program."""
    if _compile.is_loaded():
        failure = getattr(sys, "last_value", None) or sys.exc_info()[1]
        ended = failure is None or isinstance(failure, SystemExit)
        _compile.compiled().leave_all("" if ended else exception_line(failure))


_leaving = None  # the process that will call _leave


def _leave_at_end():
    """Processes of multiprocessing do not come to atexit's functions, but to these."""
    global _leaving
    if _leaving != os.getpid():
        _leaving = os.getpid()
        multiprocessing.util.Finalize(None, _leave, exitpriority=0)


def _gpu():
    """The type of this machine's GPU; None: it has none. PyTorch 2.6 raises where later ones say
    so."""
    if not hasattr(torch, "accelerator") or not torch.accelerator.is_available():
        return None
    return torch.accelerator.current_accelerator().type


def register():
    """Makes the backend known to torch.distributed. Tensors of a GPU are given to it as well, so
    that it refuses them by a line of its own."""
    if dist.is_available():
        gpu = _gpu()
        dist.Backend.register_backend("psring", _create, extended_api=True, devices=["cpu"] + ([gpu] if gpu else []))
