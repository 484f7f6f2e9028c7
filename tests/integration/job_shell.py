"""What a shell with job control does for one command on a terminal, and no more.

usage: job_shell.py TERMINAL COMMAND [ARGUMENT]...

In a session of its own, whose terminal that is to be. The command runs in the foreground, in a
process group of its own; when it is stopped the terminal comes back, and this says `stopped`;
SIGUSR1 is `fg`. When the terminal closes the kernel tells the shell, which tells the command, and
says `closed`; SIGUSR2 tells it a second time, as the kernel does when the shell has ended. At the
end it says `ended STATUS`."""

import os
import signal
import sys


def main():
    # the first one that a session's leader opens becomes its own
    terminal = os.open(sys.argv[1], os.O_RDWR)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # who is in the background may take the terminal
    heard = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)  # until there are handlers
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        os.setpgid(0, 0)
        os.tcsetpgrp(terminal, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for fd in (0, 1, 2):
            os.dup2(terminal, fd)
        os.execv(sys.argv[2], sys.argv[2:])

    def foreground(*unused):
        os.tcsetpgrp(terminal, pid)
        os.killpg(pid, signal.SIGCONT)

    def closed(*unused):
        os.killpg(pid, signal.SIGHUP)
        print("closed", flush=True)

    signal.signal(signal.SIGUSR1, foreground)
    signal.signal(signal.SIGUSR2, lambda *unused: os.killpg(pid, signal.SIGHUP))
    signal.signal(signal.SIGHUP, closed)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    while True:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            print("ended %d" % os.waitstatus_to_exitcode(status), flush=True)
            return
        os.tcsetpgrp(terminal, os.getpgrp())
        print("stopped by %s" % signal.Signals(os.WSTOPSIG(status)).name, flush=True)


if __name__ == "__main__":
    main()
