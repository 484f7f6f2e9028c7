#include "bench/collectives/local_ranks.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void be_rank(psring_options place, pid_t parent, const sigset_t *mask,
                              int (*body)(const psring_options *place, void *context), void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    exit(body(&place, context));
}

static void end_all(const pid_t *children, int count)
{
    for (int i = 0; i < count; i++)
        if (children[i] > 0)
            kill(children[i], SIGKILL);
}

/* Those that have ended become 0. True: all that did, did well. */
static bool reap(pid_t *children, int count, int *left)
{
    bool well = true;
    for (int i = 0; i < count; i++) {
        int status;
        if (children[i] <= 0 || waitpid(children[i], &status, WNOHANG) != children[i])
            continue;
        children[i] = 0;
        --*left;
        well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return well;
}

static int wait_for_all(pid_t *children, int count, const sigset_t *signals)
{
    int status = 0, signal;
    for (int left = count; left > 0;) {
        if (sigwait(signals, &signal) != 0 || signal != SIGCHLD) {
            end_all(children, count);
            status = 1;
        }
        if (!reap(children, count, &left))
            status = 1;
    }
    return status;
}

static int start_all(int ranks, const char *socket, pid_t *children,
                     int (*body)(const psring_options *place, void *context), void *context)
{
    const pid_t parent = getpid();
    sigset_t signals, mask;
    int started = 0;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    for (; started < ranks; started++) {
        children[started] = fork();
        if (children[started] < 0)
            break;
        if (children[started] == 0)
            be_rank((psring_options){.size = sizeof(psring_options),
                                     .ranks = ranks,
                                     .rank = started,
                                     .scheduler = socket,
                                     .host_scheduler = started == 0},
                    parent, &mask, body, context);
    }
    if (started < ranks) {
        perror("fork");
        end_all(children, started);
    }
    const int status = wait_for_all(children, started, &signals);
    return started < ranks ? 1 : status;
}

int bench_local_ranks(int ranks, int (*body)(const psring_options *place, void *context), void *context)
{
    const char *above = getenv("TMPDIR");
    char folder[PATH_MAX / 2], socket[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/psring-bench-comm.XXXXXX", above != NULL ? above : "/tmp");
    pid_t *children = calloc((size_t)ranks, sizeof *children);
    if (children == NULL || mkdtemp(folder) == NULL) {
        perror(folder);
        free(children);
        return 1;
    }
    snprintf(socket, sizeof socket, "%s/scheduler", folder);
    const int status = start_all(ranks, socket, children, body, context);
    (void)unlink(socket); /* where rank 0 could not */
    if (rmdir(folder) != 0)
        perror(folder);
    free(children);
    return status;
}
