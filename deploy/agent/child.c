#include "deploy/agent/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT_PIPE_BYTES (1 << 20)

typedef struct pipes {
    int in[2], out[2], err[2],
        failed[2]; /* failed: errno of an exec that did not happen; closed by one that did */
} pipes;

static void close_all(pipes *p)
{
    int *fds = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static psr_err open_all(pipes *p, unsigned flags)
{
    int *fds = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *fds; i++)
        fds[i] = -1;
    bool keep_stderr = flags & PSR_CHILD_KEEP_STDERR;
    if (pipe2(p->in, O_CLOEXEC) || pipe2(p->out, O_CLOEXEC) || pipe2(p->failed, O_CLOEXEC) ||
        (!keep_stderr && pipe2(p->err, O_CLOEXEC))) {
        psr_err err = psr_fail(PSR_ERR_IO, "pipes for a process: %s", strerror(errno));
        close_all(p);
        return err;
    }
    (void)fcntl(p->out[1], F_SETPIPE_SZ, EVENT_PIPE_BYTES);
    if (flags & PSR_CHILD_LOSSY_OUTPUT) {
        (void)fcntl(p->out[1], F_SETFL, O_NONBLOCK);
        if (!keep_stderr)
            (void)fcntl(p->err[1], F_SETFL, O_NONBLOCK);
    }
    return PSR_OK;
}

/* What a terminal sent to the parent's group while this process was in it: it is the parent's to obey. A stop before the exec
 * would keep the parent waiting for it. Signals are still blocked: to ignore one drops it. */
static void forget_the_terminal(void)
{
    const int of_terminals[] = {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGWINCH};
    for (size_t i = 0; i < sizeof of_terminals / sizeof *of_terminals; i++) {
        signal(of_terminals[i], SIG_IGN);
        signal(of_terminals[i], SIG_DFL);
    }
}

/* In the child, with all signals blocked: never returns. Only async-signal-safe calls. */
static _Noreturn void become(char *const argv[], const pipes *p, unsigned flags, pid_t parent)
{
    sigset_t none;
    setpgid(0, 0);
    forget_the_terminal();
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!(flags & PSR_CHILD_SEES_END)) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before the line above */
            _exit(1);
    }
    if (dup2(p->in[0], 0) < 0 || dup2(p->out[1], 1) < 0 ||
        (!(flags & PSR_CHILD_KEEP_STDERR) && dup2(p->err[1], 2) < 0))
        _exit(1);
    execv(argv[0], argv);
    int failure = errno;
    ssize_t told = write(p->failed[1], &failure, sizeof failure);
    (void)told;
    _exit(127);
}

psr_err psr_child_start(char *const argv[], unsigned flags, psr_child *ret_child)
{
    pipes p;
    PSR_TRY(open_all(&p, flags));
    pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int refused = errno;
    if (pid == 0)
        become(argv, &p, flags, parent);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        close_all(&p);
        return psr_fail(PSR_ERR_IO, "fork: %s", strerror(refused));
    }
    close(p.failed[1]);
    p.failed[1] = -1;
    int failure = 0;
    ssize_t got;
    do
        got = read(p.failed[0], &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof failure) {
        waitpid(pid, NULL, 0);
        close_all(&p);
        return psr_fail(PSR_ERR_NOT_FOUND, "cannot run %s: %s", argv[0], strerror(failure));
    }
    psr_child child = {.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (child.pidfd >= 0)
        (void)fcntl(child.pidfd, F_SETFD, FD_CLOEXEC);
    psr_line_writer_init(&child.in, p.in[1]);
    psr_line_reader_init(&child.out, p.out[0]);
    child.err.fd = -1;
    if (!(flags & PSR_CHILD_KEEP_STDERR))
        psr_line_reader_init(&child.err, p.err[0]);
    p.in[1] = p.out[0] = p.err[0] = -1;
    close_all(&p);
    if (child.pidfd < 0) {
        psr_err err = psr_fail(PSR_ERR_IO, "pidfd_open: %s (Linux 5.3 or later is needed)", strerror(errno));
        psr_child_done(&child);
        return err;
    }
    *ret_child = child;
    return PSR_OK;
}

bool psr_child_reap(psr_child *child)
{
    int status = 0;
    while (child->pid > 0) {
        pid_t got = waitpid(child->pid, &status, WNOHANG | WUNTRACED | WCONTINUED);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got < 0)
            continue;
        child->stopped = WIFSTOPPED(status);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            child->status = status;
            child->pid = 0;
            child->ended = true;
            child->out_end = psr_line_reader_written(&child->out);
            child->err_end = psr_line_reader_written(&child->err);
            close(child->pidfd);
            child->pidfd = -1;
        }
    }
    return child->ended;
}

static bool read_up_to(const psr_line_reader *reader, uint64_t end)
{
    return reader->fd < 0 || reader->taken >= end;
}

bool psr_child_said_all(const psr_child *child)
{
    return child->ended && read_up_to(&child->out, child->out_end) && read_up_to(&child->err, child->err_end);
}

void psr_child_describe(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
}

void psr_child_signal(const psr_child *child, int signo)
{
    if (child->pid > 0)
        (void)kill(child->pid, signo);
}

void psr_child_done(psr_child *child)
{
    if (child->pid > 0) {
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
            continue;
        child->pid = 0;
        child->ended = true;
    }
    if (child->pidfd >= 0)
        close(child->pidfd);
    child->pidfd = -1;
    psr_line_writer_done(&child->in);
    psr_line_reader_done(&child->out);
    psr_line_reader_done(&child->err);
}

psr_err psr_program_path(const char *name, char *path, size_t size)
{
    static const char *const beside[] = {"", "../deploy/", "../ps/", "../worker/"};
    char self[PATH_MAX];
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    if (got < 0)
        return psr_fail(PSR_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    self[got] = '\0';
    char *slash = strrchr(self, '/');
    *(slash ? slash + 1 : self) = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char candidate[PATH_MAX + 64], resolved[PATH_MAX];
        snprintf(candidate, sizeof candidate, "%s%s%s", self, beside[i], name);
        if (access(candidate, X_OK) != 0 || !realpath(candidate, resolved))
            continue;
        if (strlen(resolved) >= size)
            return psr_fail(PSR_ERR_USAGE, "the path of %s is longer than %zu bytes", name, size - 1);
        memcpy(path, resolved, strlen(resolved) + 1);
        return PSR_OK;
    }
    return psr_fail(PSR_ERR_NOT_FOUND,
                    "%s is not beside this program (looked in %s and the build tree's folders)", name, self);
}
