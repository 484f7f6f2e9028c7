#include "base/system/child.h"

#include "base/system/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define EVENT_PIPE_BYTES (1 << 20)

typedef struct pipes {
    /* failed: why it could not be executed; closed if it could */
    int in[2], out[2], err[2], failed[2];
} pipes;

typedef enum failed_call {
    FAILED_EXEC,
    FAILED_CHDIR,
    FAILED_BIND,
} failed_call;

typedef struct failure {
    failed_call call;
    int number; /* errno */
} failure;

static void close_all(pipes *p)
{
    int *fds = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static void none_open(pipes *p)
{
    int *fds = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *fds; i++)
        fds[i] = -1;
}

static psr_err no_pipes(pipes *p)
{
    psr_err err = psr_fail(PSR_ERR_IO, "pipes for a process: %s", strerror(errno));
    close_all(p);
    return err;
}

static psr_err open_all(pipes *p, unsigned flags)
{
    none_open(p);
    bool keep_stderr = flags & PSR_CHILD_KEEP_STDERR, keep_stdout = flags & PSR_CHILD_KEEP_STDOUT;
    if (pipe2(p->in, O_CLOEXEC) || pipe2(p->failed, O_CLOEXEC) ||
        (!keep_stdout && pipe2(p->out, O_CLOEXEC)) || (!keep_stderr && pipe2(p->err, O_CLOEXEC)))
        return no_pipes(p);
    if (!keep_stdout)
        (void)fcntl(p->out[1], F_SETPIPE_SZ, EVENT_PIPE_BYTES);
    if (flags & PSR_CHILD_LOSSY_OUTPUT) {
        if (!keep_stdout)
            (void)fcntl(p->out[1], F_SETFL, O_NONBLOCK);
        if (!keep_stderr)
            (void)fcntl(p->err[1], F_SETFL, O_NONBLOCK);
    }
    return PSR_OK;
}

/* Takes the descriptors that it is given. */
static psr_err open_for_program(pipes *p, const psr_child_surroundings *with)
{
    none_open(p);
    p->out[1] = with->out;
    p->err[1] = with->err;
    p->in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (p->in[0] < 0 || pipe2(p->failed, O_CLOEXEC) ||
        (with->out < 0 && pipe2(p->out, O_CLOEXEC)) || (with->err < 0 && pipe2(p->err, O_CLOEXEC)))
        return no_pipes(p);
    return PSR_OK;
}

/* The parent obeys what a terminal sent to its group while this process was in it. A stop before
 * the exec would keep the parent waiting. Signals are still blocked: to ignore one drops it. What
 * nohup has made ignored stays so. */
static void forget_the_terminal(void)
{
    const int of_terminals[] = {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGWINCH};
    for (size_t i = 0; i < sizeof of_terminals / sizeof *of_terminals; i++) {
        if (of_terminals[i] == SIGHUP && psr_signal_is_ignored(SIGHUP))
            continue;
        signal(of_terminals[i], SIG_IGN);
        signal(of_terminals[i], SIG_DFL);
    }
}

static _Noreturn void give_up(const pipes *p, failed_call call)
{
    failure why = {call, errno};
    ssize_t told = write(p->failed[1], &why, sizeof why);
    (void)told;
    _exit(127);
}

/* What a child is to become. */
typedef struct start_of {
    char *const *argv;
    unsigned flags;
    const psr_child_setting *setting;
    const psr_child_surroundings *with; /* NULL for one of our own programs */
} start_of;

/* In the child, with all signals blocked: never returns. Only async-signal-safe calls (execvpe of
 * glibc's is). */
static _Noreturn void become(const start_of *s, const pipes *p, pid_t parent)
{
    char *const *environment = s->setting->environment != NULL ? s->setting->environment : environ;
    sigset_t none;
    setpgid(0, 0);
    forget_the_terminal();
    signal(SIGPIPE, SIG_DFL);
    const int of_jobs[] = {SIGTERM, SIGUSR1, SIGHUP};
    for (size_t i = 0; i < sizeof of_jobs / sizeof *of_jobs; i++) {
        if (s->flags & PSR_CHILD_LEAVES_TERM)
            signal(of_jobs[i], SIG_IGN);
        /* somebody else's program, whatever signals we ignore */
        else if (s->with != NULL && of_jobs[i] != SIGHUP)
            signal(of_jobs[i], SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!(s->flags & PSR_CHILD_SEES_END)) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before the line above */
            _exit(1);
    }
    if (dup2(p->in[0], 0) < 0 || (!(s->flags & PSR_CHILD_KEEP_STDOUT) && dup2(p->out[1], 1) < 0) ||
        (!(s->flags & PSR_CHILD_KEEP_STDERR) && dup2(p->err[1], 2) < 0))
        _exit(1);
    if (s->setting->cpus != NULL &&
        sched_setaffinity(0, sizeof s->setting->cpus->words,
                          (const cpu_set_t *)s->setting->cpus->words) != 0)
        give_up(p, FAILED_BIND);
    if (s->with == NULL) {
        execve(s->argv[0], s->argv, environment);
        give_up(p, FAILED_EXEC);
    }
    if (chdir(s->with->directory) != 0)
        give_up(p, FAILED_CHDIR);
    (void)fcntl(s->with->inherits, F_SETFD, 0);
    execvpe(s->argv[0], s->argv, environment);
    give_up(p, FAILED_EXEC);
}

static psr_err describe_failure(const failure *why, const char *program,
                                const psr_child_surroundings *with)
{
    if (why->call == FAILED_BIND)
        return psr_fail(PSR_ERR_NOT_FOUND, "cannot bind %s to its processors: %s", program,
                        strerror(why->number));
    if (why->call == FAILED_CHDIR)
        return psr_fail(PSR_ERR_NOT_FOUND, "cannot run %s in %s: %s", program, with->directory,
                        strerror(why->number));
    return psr_fail(PSR_ERR_NOT_FOUND, "cannot run %s: %s", program, strerror(why->number));
}

static psr_err fork_child(const start_of *s, pipes *p, pid_t *ret_pid)
{
    pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int refused = errno;
    if (pid == 0)
        become(s, p, parent);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return psr_fail(PSR_ERR_IO, "fork: %s", strerror(refused));
    close(p->failed[1]);
    p->failed[1] = -1;
    failure why;
    ssize_t got;
    do
        got = read(p->failed[0], &why, sizeof why);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof why) {
        waitpid(pid, NULL, 0);
        return describe_failure(&why, s->argv[0], s->with);
    }
    *ret_pid = pid;
    return PSR_OK;
}

/* Takes what is open in p. */
static psr_err start(const start_of *s, pipes *p, psr_child *ret_child)
{
    pid_t pid = 0;
    psr_err err = fork_child(s, p, &pid);
    if (err != PSR_OK) {
        close_all(p);
        return err;
    }
    psr_child child = {
        .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0), .group = s->with != NULL};
    if (child.pidfd >= 0)
        (void)fcntl(child.pidfd, F_SETFD, FD_CLOEXEC);
    psr_line_writer_init(&child.in, p->in[1]);
    psr_line_reader_init(&child.out, p->out[0]);
    psr_line_reader_init(&child.err, p->err[0]); /* -1: not ours to read */
    p->in[1] = p->out[0] = p->err[0] = -1;
    close_all(p);
    if (child.pidfd < 0) {
        err =
            psr_fail(PSR_ERR_IO, "pidfd_open: %s (Linux 5.3 or later is needed)", strerror(errno));
        psr_child_done(&child);
        return err;
    }
    *ret_child = child;
    return PSR_OK;
}

psr_err psr_child_start_with(char *const argv[], unsigned flags, const psr_child_setting *setting,
                             psr_child *ret_child)
{
    pipes p;
    PSR_TRY(open_all(&p, flags));
    return start(&(start_of){argv, flags, setting, NULL}, &p, ret_child);
}

psr_err psr_child_start(char *const argv[], unsigned flags, psr_child *ret_child)
{
    return psr_child_start_with(argv, flags, &(psr_child_setting){NULL, NULL}, ret_child);
}

psr_err psr_child_start_program(char *const argv[], const psr_child_surroundings *surroundings,
                                psr_child *ret_child)
{
    pipes p;
    PSR_TRY(open_for_program(&p, surroundings));
    return start(&(start_of){argv, 0, &surroundings->setting, surroundings}, &p, ret_child);
}

/* What waitpid tells of a child that is signalled by itself. */
static bool next_change(psr_child *child, int *ret_status)
{
    pid_t got;
    do
        got = waitpid(child->pid, ret_status, WNOHANG | WUNTRACED | WCONTINUED);
    while (got < 0 && errno == EINTR);
    return got > 0;
}

/* The same of one whose group is ended with it: that is done before it is reaped, since until then
 * nobody else's group can have its number. So its end is looked at apart from its stops. */
static bool next_change_of_group(psr_child *child, int *ret_status)
{
    const id_t pid = (id_t)child->pid;
    siginfo_t info = {0};
    if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child->pid) {
        (void)kill(-child->pid, SIGKILL);
        return next_change(child, ret_status);
    }
    info.si_pid = 0;
    if (waitid(P_PID, pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
        info.si_pid != child->pid)
        return false;
    *ret_status = info.si_code == CLD_STOPPED ? W_STOPCODE(info.si_status) : __W_CONTINUED;
    return true;
}

bool psr_child_reap(psr_child *child)
{
    int status = 0;
    while (child->pid > 0 &&
           (child->group ? next_change_of_group(child, &status) : next_change(child, &status))) {
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

void psr_child_wait(psr_child *child)
{
    while (!psr_child_reap(child)) {
        struct pollfd end = {.fd = child->pidfd, .events = POLLIN};
        (void)poll(&end, 1, -1);
    }
}

static bool read_up_to(const psr_line_reader *reader, uint64_t end)
{
    return reader->fd < 0 || reader->taken >= end;
}

bool psr_child_said_all(const psr_child *child)
{
    return child->ended && read_up_to(&child->out, child->out_end) &&
           read_up_to(&child->err, child->err_end);
}

void psr_child_describe(int status, char *text, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
}

void psr_child_signal(const psr_child *child, int signo)
{
    /* it may have left its group */
    if (child->pid > 0 && (!child->group || kill(-child->pid, signo) != 0))
        (void)kill(child->pid, signo);
}

void psr_child_done(psr_child *child)
{
    if (child->pid > 0) {
        psr_child_signal(child, SIGKILL);
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
    static const char *const beside[] = {"",           "../deploy/", "../ps/",
                                         "../worker/", "../bench/",  "../data/"};
    char self[PATH_MAX];
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    if (got < 0)
        return psr_fail(PSR_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    self[got] = '\0';
    char *slash = strrchr(self, '/');
    *(slash != NULL ? slash + 1 : self) = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        char candidate[PATH_MAX + 64], resolved[PATH_MAX];
        snprintf(candidate, sizeof candidate, "%s%s%s", self, beside[i], name);
        if (access(candidate, X_OK) != 0 || realpath(candidate, resolved) == NULL)
            continue;
        if (strlen(resolved) >= size)
            return psr_fail(PSR_ERR_USAGE, "the path of %s is longer than %zu bytes", name,
                            size - 1);
        memcpy(path, resolved, strlen(resolved) + 1);
        return PSR_OK;
    }
    if (strcmp(name, "psring-worker-cuda") == 0)
        return psr_fail(PSR_ERR_NOT_FOUND,
                        "--device cuda: psring-worker-cuda is not beside this program: install "
                        "the package psring-cuda, or give --device cpu");
    return psr_fail(PSR_ERR_NOT_FOUND,
                    "%s is not beside this program (looked in %s and the build tree's folders)",
                    name, self);
}

psr_err psr_program_become(const char *name, char *const *words)
{
    char path[PATH_MAX];
    PSR_TRY(psr_program_path(name, path, sizeof path));
    (void)execv(path, words);
    return psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
}
