#include "bench/exchange/rounds.h"

#include "base/system/signals.h"
#include "bench/exchange/link.h"
#include "bench/exchange/member.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct member {
    pid_t pid;
    int link; /* socket pair to it */
} member;

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING = sizeof ending / sizeof *ending };

typedef struct rounds {
    bench_run *b;
    uint32_t first, count; /* the members that this process starts */
    member *own;           /* [count] */
    struct pollfd *links;  /* [count] to them */
    /* before the rounds */
    struct sigaction before[ENDING];
    sigset_t mask;
    /* what own members say, [count], and what all do, [members]; of the largest size */
    bench_answer *said, *heard;
} rounds;

/* ---- signals ----
 *
 * A process that has started all members itself ends them first, and removes the directory in which
 * they meet. During the rounds a signal comes only while a member is heard. */

static volatile sig_atomic_t told; /* the signal; 0: none */

static void take_signal(int signal)
{
    told = signal;
}

static void watch_signals(rounds *r)
{
    const struct sigaction action = {.sa_handler = take_signal};
    sigset_t all;
    sigemptyset(&all);
    for (size_t i = 0; i < ENDING && r->b->meeting == NULL; i++) {
        sigaction(ending[i], NULL, &r->before[i]);
        if (psr_signal_is_ignored(ending[i]))
            continue;
        sigaction(ending[i], &action, NULL);
        sigaddset(&all, ending[i]);
    }
    sigprocmask(SIG_BLOCK, &all, &r->mask);
}

static void unwatch_signals(const rounds *r)
{
    for (size_t i = 0; i < ENDING && r->b->meeting == NULL; i++)
        sigaction(ending[i], &r->before[i], NULL);
    sigprocmask(SIG_SETMASK, &r->mask, NULL);
}

/* In a member. */
static void leave_signals(const rounds *r)
{
    for (size_t i = 0; i < ENDING && r->b->meeting == NULL; i++)
        if (!psr_signal_is_ignored(ending[i]))
            signal(ending[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &r->mask, NULL);
}

/* ---- processes ---- */

static _Noreturn void become_member(const rounds *r, uint32_t index, pid_t parent, int link)
{
    const bench_run *b = r->b;
    leave_signals(r);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((int)(index % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)), &cpus);
    if (b->pin && sched_setaffinity(0, sizeof cpus, &cpus))
        bench_die("pinning");
    bench_member_main(b, index, link);
}

static void start_members(const rounds *r)
{
    const pid_t parent = getpid();
    for (uint32_t i = 0; i < r->count; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            bench_die("socketpair");
        r->own[i] = (member){.pid = fork(), .link = pair[0]};
        if (r->own[i].pid < 0)
            bench_die("fork");
        if (r->own[i].pid == 0)
            become_member(r, r->first + i, parent, pair[1]);
        close(pair[1]);
    }
}

static bool is_worker(const rounds *r, uint32_t own)
{
    return bench_member_peer(r->b, r->first + own).role == PSR_ROLE_WORKER;
}

static void end_members(const rounds *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        close(r->own[i].link);
        if (r->own[i].pid <= 0) /* it was lost */
            continue;
        kill(r->own[i].pid, SIGTERM);
        waitpid(r->own[i].pid, NULL, 0);
    }
}

/* By the signal that has come. */
static _Noreturn void leave(const rounds *r)
{
    end_members(r);
    bench_run_done(r->b);
    unwatch_signals(r);
    raise(told); /* whoever watches signals beside the rounds hears of it too */
    _exit(1);
}

/* A member is gone. One that failed has said why; one that was killed could not. */
static _Noreturn void lose(const rounds *r, uint32_t own)
{
    int status = 0;
    const psr_peer peer = bench_member_peer(r->b, r->first + own);
    waitpid(r->own[own].pid, &status, 0);
    r->own[own].pid = 0;
    sigprocmask(SIG_SETMASK, &r->mask, NULL); /* Ctrl-C is for all of them: it may be waiting */
    if (told != 0)
        leave(r);
    if (WIFSIGNALED(status))
        fprintf(stderr, "psring bench exchange: %s %" PRIu32 " was ended by signal %d (%s)\n",
                peer.role == PSR_ROLE_SHARD ? "shard" : "worker", peer.rank, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    end_members(r);
    bench_run_done(r->b);
    _exit(1);
}

/* What a member says. Any other that is lost meanwhile is told of at once: this one may wait for
 * it. */
static void hear(const rounds *r, uint32_t own, void *data, size_t size)
{
    for (uint32_t i = 0; i < r->count; i++)
        r->links[i] = (struct pollfd){r->own[i].link, i == own ? POLLIN : 0, 0};
    while (r->links[own].revents == 0) {
        const int ready = ppoll(r->links, r->count, NULL, &r->mask);
        if (told != 0)
            leave(r);
        if (ready < 0 && errno != EINTR)
            bench_die("waiting for a member");
        for (uint32_t i = 0; i < r->count; i++)
            if (i != own && r->links[i].revents != 0)
                lose(r, i);
    }
    if (!bench_hear(r->own[own].link, data, size))
        lose(r, own);
}

/* own: [count] of this process's members; all: [members] of everybody's. */
static void gather(const rounds *r, const void *own, size_t bytes, void *all)
{
    const bench_run *b = r->b;
    char *to = all;
    if (b->meeting == NULL) {
        memcpy(all, own, bytes * r->count);
        return;
    }
    char *by_rank = malloc(bytes * b->members);
    if (by_rank == NULL)
        bench_die("memory");
    bench_meeting_gather(b->meeting, own, bytes, by_rank);
    for (uint32_t rank = 0; rank < b->members; rank++)
        memcpy(to + bench_member_of_rank(b, rank) * bytes, by_rank + rank * bytes, bytes);
    free(by_rank);
}

/* Returns when all have come. */
static void await_all(const rounds *r)
{
    gather(r, r->said, 1, r->heard);
}

/* Tells all members where the others are. */
static void introduce(const rounds *r)
{
    const uint32_t members = r->b->members;
    bench_places *of = calloc((size_t)members + r->count, sizeof *of), *own = of + members;
    if (of == NULL)
        bench_die("memory");
    for (uint32_t i = 0; i < r->count; i++)
        hear(r, i, &own[i], sizeof *own);
    gather(r, own, sizeof *own, of);
    for (uint32_t i = 0; i < r->count; i++)
        bench_write(r->own[i].link, of, members * sizeof *of);
    free(of);
}

/* The initial weights have come. */
static void await_shards(const rounds *r)
{
    char initialised;
    for (uint32_t i = 0; i < r->count; i++)
        if (!is_worker(r, i))
            hear(r, i, &initialised, 1);
    await_all(r);
}

/* ---- a round ---- */

/* Clocks of several hosts cannot be compared: there it is the slowest worker's time, behind a
 * barrier. */
static double longest_ms(const rounds *r, const bench_answer *answers)
{
    const bench_run *b = r->b;
    int64_t begin = INT64_MAX, end = 0, longest = 0;
    for (uint32_t i = b->members - b->config.workers; i < b->members; i++) {
        const int64_t took = answers[i].end_ns - answers[i].begin_ns;
        begin = answers[i].begin_ns < begin ? answers[i].begin_ns : begin;
        end = answers[i].end_ns > end ? answers[i].end_ns : end;
        longest = took > longest ? took : longest;
    }
    return (double)(b->meeting != NULL ? longest : end - begin) / 1e6;
}

/* Adds what a worker has sent and received in it, in the mean, to *sent and *received. Returns its
 * ms. */
static double run_round(const rounds *r, double *sent, double *received)
{
    const bench_run *b = r->b;
    char ready;
    for (uint32_t i = 0; i < r->count; i++)
        if (is_worker(r, i))
            hear(r, i, &ready, 1);
    await_all(r);
    for (uint32_t i = 0; i < r->count; i++)
        if (is_worker(r, i))
            bench_write(r->own[i].link, "g", 1);
    for (uint32_t i = 0; i < r->count; i++)
        if (is_worker(r, i))
            hear(r, i, &r->said[i], sizeof r->said[i]);
    gather(r, r->said, sizeof *r->said, r->heard);
    for (uint32_t i = b->members - b->config.workers; i < b->members; i++) {
        *sent += (double)r->heard[i].bytes_sent / b->config.workers;
        *received += (double)r->heard[i].bytes_received / b->config.workers;
    }
    return longest_ms(r, r->heard);
}

/* What each worker owes is in memory that children share; in a launch the others' comes here. */
static void share_owed(const rounds *r)
{
    const bench_run *b = r->b;
    if (b->owed == NULL || b->meeting == NULL)
        return;
    const size_t row_bytes = b->layout.length * sizeof(float);
    const uint32_t shards = b->members - b->config.workers;
    char *all = malloc(row_bytes * b->members);
    if (all == NULL)
        bench_die("memory");
    const float *own = is_worker(r, 0) ? b->owed + (r->first - shards) * b->layout.length : b->owed;
    gather(r, own, row_bytes, all);
    memcpy(b->owed, all + shards * row_bytes, b->config.workers * row_bytes);
    free(all);
}

static uint32_t count_wrong(const rounds *r)
{
    uint32_t *own = calloc((size_t)r->count + r->b->members, sizeof *own), wrong = 0;
    if (own == NULL)
        bench_die("memory");
    uint32_t *all = own + r->count;
    share_owed(r);
    await_all(r);
    for (uint32_t i = 0; i < r->count; i++)
        if (is_worker(r, i))
            bench_write(r->own[i].link, "c", 1);
    for (uint32_t i = 0; i < r->count; i++)
        if (is_worker(r, i))
            hear(r, i, &own[i], sizeof own[i]);
    gather(r, own, sizeof *own, all);
    for (uint32_t i = 0; i < r->b->members; i++)
        wrong += all[i];
    free(own);
    return wrong;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(const double *values, uint32_t count)
{
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

bench_rounds_figures bench_rounds_run(bench_run *b)
{
    rounds r = {.b = b,
                .first = b->meeting != NULL ? b->own : 0,
                .count = b->meeting != NULL ? 1 : b->members};
    double *ms = calloc(b->rounds, sizeof *ms);
    r.own = calloc(r.count, sizeof *r.own);
    r.links = calloc(r.count, sizeof *r.links);
    r.said = calloc(r.count, sizeof *r.said);
    r.heard = calloc(b->members, sizeof *r.heard);
    if (r.own == NULL || r.links == NULL || r.said == NULL || r.heard == NULL || ms == NULL)
        bench_die("memory");
    if (b->owed != NULL) /* of an earlier call */
        memset(b->owed, 0, (size_t)b->config.workers * b->layout.length * sizeof(float));
    watch_signals(&r);
    start_members(&r);
    introduce(&r);
    await_shards(&r);
    double sent = 0, received = 0, untold = 0;
    for (uint32_t i = 0; i < b->warmup; i++)
        (void)run_round(&r, &untold, &untold);
    for (uint32_t i = 0; i < b->rounds; i++)
        ms[i] = run_round(&r, &sent, &received);
    if (bench_settles(b))
        (void)run_round(&r, &untold, &untold);
    const uint32_t wrong = count_wrong(&r);
    end_members(&r);
    unwatch_signals(&r);
    qsort(ms, b->rounds, sizeof *ms, compare);
    const bench_rounds_figures f = {.least = ms[0],
                                    .median = bench_median(ms, b->rounds),
                                    .most = ms[b->rounds - 1],
                                    .size_bytes = (double)(b->layout.length * sizeof(float)),
                                    .factor = bench_bus_factor(b),
                                    .sent = sent / b->rounds,
                                    .received = received / b->rounds,
                                    .wrong = wrong};
    free(ms);
    free(r.own);
    free(r.links);
    free(r.said);
    free(r.heard);
    return f;
}
