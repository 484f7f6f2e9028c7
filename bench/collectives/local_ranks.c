#include "bench/collectives/local_ranks.h"

#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A rank may use its part of the processors that this process may use: Linux leaves two processes
 * that wait for one another on one processor for tens of milliseconds, though another is idle. No
 * change where there are fewer processors than ranks, or more than cpu_set_t holds. */
static void keep_to_part(int rank, int ranks)
{
    cpu_set_t all, part;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < ranks)
        return;
    const int each = CPU_COUNT(&all) / ranks;
    CPU_ZERO(&part);
    for (int cpu = 0, k = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && k++ / each == rank)
            CPU_SET(cpu, &part);
    (void)sched_setaffinity(0, sizeof part, &part); /* refused: as the kernel likes */
}

static _Noreturn void be_rank(psring_options place, pid_t parent, const sigset_t *mask,
                              int (*body)(const psring_options *place, void *context),
                              void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    keep_to_part(place.rank, place.ranks);
    exit(body(&place, context));
}

typedef struct family {
    pid_t *children; /* [count]; 0: has ended */
    int count, left;
    bool ending; /* they are being killed */
    bool failed; /* one of them did, or was killed */
} family;

static void end_all(family *f)
{
    f->ending = f->failed = true;
    for (int i = 0; i < f->count; i++)
        if (f->children[i] > 0)
            kill(f->children[i], SIGKILL);
}

/* Who fails tells the others (psring_abort). Who was killed could not: they are ended. */
static void child_ended(family *f, int rank, int status)
{
    f->children[rank] = 0;
    f->left--;
    f->failed = f->failed || status != 0;
    if (!WIFSIGNALED(status) || f->ending)
        return;
    fprintf(stderr, "psring-bench-comm: rank %d: %s\n", rank, strsignal(WTERMSIG(status)));
    end_all(f);
}

static void reap(family *f)
{
    int status;
    for (int rank = 0; rank < f->count; rank++)
        if (f->children[rank] > 0 &&
            waitpid(f->children[rank], &status, WNOHANG) == f->children[rank])
            child_ended(f, rank, status);
}

static void wait_for_all(family *f, const sigset_t *signals)
{
    int signal;
    while (f->left > 0) {
        if (sigwait(signals, &signal) != 0 || signal != SIGCHLD)
            end_all(f);
        reap(f);
    }
}

static void start_all(family *f, int ranks, const char *socket, const sigset_t *mask,
                      int (*body)(const psring_options *place, void *context), void *context)
{
    const pid_t parent = getpid();
    for (; f->count < ranks; f->count++, f->left++) {
        const psring_options place = {.size = sizeof place,
                                      .ranks = ranks,
                                      .rank = f->count,
                                      .scheduler = socket,
                                      .host_scheduler = f->count == 0};
        const pid_t child = fork();
        if (child == 0)
            be_rank(place, parent, mask, body, context);
        if (child < 0) {
            perror("psring-bench-comm: fork");
            end_all(f);
            return;
        }
        f->children[f->count] = child;
    }
}

/* Who was killed leaves its socket. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_type == DT_SOCK)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
    if (rmdir(path) != 0)
        perror(path);
}

int bench_local_ranks(int ranks, int (*body)(const psring_options *place, void *context),
                      void *context)
{
    const char *above = getenv("TMPDIR");
    char folder[PATH_MAX / 2], socket[PATH_MAX];
    sigset_t signals, mask;
    snprintf(folder, sizeof folder, "%s/psring-bench-comm.XXXXXX", above != NULL ? above : "/tmp");
    family f = {.children = calloc((size_t)ranks, sizeof *f.children)};
    if (f.children == NULL || mkdtemp(folder) == NULL) {
        perror(folder);
        free(f.children);
        return 1;
    }
    snprintf(socket, sizeof socket, "%s/scheduler", folder);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    start_all(&f, ranks, socket, &mask, body, context);
    wait_for_all(&f, &signals);
    remove_folder(folder);
    free(f.children);
    return f.failed;
}
