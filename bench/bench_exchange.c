/* The exchange alone: the real engines, shards and sockets, the model's real buckets, real
 * processes on loopback, no computing. Times each exchange from the first worker's start to the
 * last worker's end, and checks its results.
 *
 * The parent forks workers and shards, gives each the others' endpoints, and for each round sends
 * every worker one byte; a worker then reports all its buckets ready in backward order, runs its
 * engine until all new weights have landed, and answers with its two times of CLOCK_MONOTONIC.
 * Gradients are written anew before a round, untimed. */
#include "base/system/memory.h"
#include "base/config/options_argp.h"
#include "bench/exchange/link.h"
#include "bench/exchange/member.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct member {
    pid_t pid;
    int link; /* socket pair to it */
} member;

static void start_members(const bench_run *b, member *members)
{
    pid_t parent = getpid();
    for (uint32_t i = 0; i < b->members; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            bench_die("socketpair");
        members[i] = (member){.pid = fork(), .link = pair[0]};
        if (members[i].pid < 0)
            bench_die("fork");
        if (members[i].pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            cpu_set_t cpus;
            CPU_ZERO(&cpus);
            CPU_SET((int)(i % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)), &cpus);
            if (b->pin && sched_setaffinity(0, sizeof cpus, &cpus))
                bench_die("pinning");
            bench_member_main(b, i, pair[1]);
        }
        close(pair[1]);
    }
    bench_places *of = calloc(b->members, sizeof *of);
    if (of == NULL)
        bench_die("memory");
    for (uint32_t i = 0; i < b->members; i++)
        bench_read(members[i].link, &of[i], sizeof of[i]);
    for (uint32_t i = 0; i < b->members; i++)
        bench_write(members[i].link, of, b->members * sizeof *of);
    free(of);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* One round's milliseconds. */
static double run_round(const bench_run *b, const member *members, uint32_t *wrong)
{
    uint32_t first = b->members - b->config.workers;
    int64_t begin = INT64_MAX, end = 0;
    char ready;
    for (uint32_t i = first; i < b->members; i++)
        bench_read(members[i].link, &ready, 1);
    for (uint32_t i = first; i < b->members; i++)
        bench_write(members[i].link, "g", 1);
    for (uint32_t i = first; i < b->members; i++) {
        bench_answer a;
        bench_read(members[i].link, &a, sizeof a);
        begin = a.begin_ns < begin ? a.begin_ns : begin;
        end = a.end_ns > end ? a.end_ns : end;
        *wrong += a.wrong;
    }
    return (double)(end - begin) / 1e6;
}

/* busbw over algbw, as nccl-tests derives it: what the busiest link carries in one direction, in
 * units of the exchanged bytes, each process with a link of its own (docs/algorithms.md). 0: none,
 * since nothing crosses a link. */
static double bus_factor(const bench_run *b)
{
    double n = b->config.workers, s = psr_config_shards(&b->config);
    if (b->config.mode == PSR_MODE_PS)
        return n > s ? n / s : 1;
    if (b->plan.hosts.count > 1) /* each host with a link of its own */
        return (n - 1) / n + (double)(b->hosts - 1) / b->hosts;
    return 2 * (n - 1) / n;
}

static int run(bench_run *b)
{
    member *members = calloc(b->members, sizeof *members);
    double *ms = calloc(b->rounds, sizeof *ms);
    uint32_t wrong = 0;
    if (members == NULL || ms == NULL)
        bench_die("memory");
    start_members(b, members);
    /* shards: the initial weights have come */
    for (uint32_t i = 0; i < b->members - b->config.workers; i++) {
        char initialised;
        bench_read(members[i].link, &initialised, 1);
    }
    for (uint32_t i = 0; i < b->warmup; i++)
        (void)run_round(b, members, &wrong);
    for (uint32_t i = 0; i < b->rounds; i++)
        ms[i] = run_round(b, members, &wrong);
    if (bench_settles(b))
        (void)run_round(b, members, &wrong);
    for (uint32_t i = 0; i < b->members; i++) {
        close(members[i].link);
        kill(members[i].pid, SIGTERM);
        waitpid(members[i].pid, NULL, 0);
    }
    qsort(ms, b->rounds, sizeof *ms, compare);
    double median = ms[b->rounds / 2], bytes = (double)b->layout.length * sizeof(float),
           factor = bus_factor(b);
    char busbw[96] = "\"busbw_factor\":null,\"busbw_gb_s\":null";
    if (factor > 0)
        snprintf(busbw, sizeof busbw, "\"busbw_factor\":%.4f,\"busbw_gb_s\":%.2f", factor,
                 bytes / median / 1e6 * factor);
    printf(
        "{\"mode\":\"%s\",\"workers\":%u,\"shards\":%u,\"bytes\":%.0f,\"buckets\":%u,\"rounds\":%u,"
        "\"min_ms\":%.2f,\"median_ms\":%.2f,\"max_ms\":%.2f,\"algbw_gb_s\":%.2f,%s,\"wrong\":%u}\n",
        b->config.mode == PSR_MODE_PS ? "ps" : "ring", b->config.workers,
        b->members - b->config.workers, bytes, b->buckets.count, b->rounds, ms[0], median,
        ms[b->rounds - 1], bytes / median / 1e6, busbw, wrong);
    free(ms);
    free(members);
    return wrong ? 1 : 0;
}

enum { KEY_BYTES = 1000, KEY_ROUNDS, KEY_WARMUP, KEY_PIN, KEY_SUM_ONLY, KEY_SUM_SHARED, KEY_HOSTS };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench_run *b = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &b->config;
        return 0;
    case KEY_BYTES:
        b->bytes = psr_options_number(state, "bytes", arg, 64, UINT32_MAX);
        return 0;
    case KEY_ROUNDS:
        b->rounds = (uint32_t)psr_options_number(state, "rounds", arg, 1, 10000);
        return 0;
    case KEY_WARMUP:
        b->warmup = (uint32_t)psr_options_number(state, "warmup", arg, 0, 10000);
        return 0;
    case KEY_PIN:
        b->pin = true;
        return 0;
    case KEY_SUM_ONLY:
        b->sum_only = true;
        return 0;
    case KEY_SUM_SHARED:
        b->sum_only = b->sum_shared = true;
        return 0;
    case KEY_HOSTS:
        b->hosts = (uint32_t)strtoul(arg, NULL, 10);
        if (b->hosts < 1 || b->hosts > BENCH_HOSTS_MAX)
            psr_options_refuse(state, "--hosts: give a number from 1 to 64");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"bytes", KEY_BYTES, "N", 0, "exchange one tensor of N bytes rather than --model", 1},
        {"rounds", KEY_ROUNDS, "N", 0, "timed exchanges (default 11)", 1},
        {"warmup", KEY_WARMUP, "N", 0, "exchanges before them (default 3)", 1},
        {"pin", KEY_PIN, NULL, 0, "give each process one processor, round robin", 1},
        {"sum-only", KEY_SUM_ONLY, NULL, 0,
         "in mode ring: sum the gradients, and leave the "
         "weights as they are; each worker gets a sum of its own, where its gradient was",
         1},
        {"sum-shared", KEY_SUM_SHARED, NULL, 0,
         "the same, but all workers read one sum (--transport shm)", 1},
        {"hosts", KEY_HOSTS, "N", 0,
         "emulate so many: memory is shared among the workers of each, whose ranks are "
         "consecutive, and --transport auto or tcp goes between them",
         1},
        {0}};
    psr_memory_keep_pages();
    bench_run b = {.rounds = 11, .warmup = 3, .hosts = 1};
    psr_config_defaults(&b.config);
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    if (table == NULL)
        bench_die("memory");
    const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 2}, {0}};
    const struct argp argp = {
        options,
        parse,
        NULL,
        "Times the exchange alone and prints one JSON object. --transport auto is tcp here, not "
        "encrypted, as its peers are; tcp is encrypted, or not with --no-encrypt.\vExample:\n"
        "  bench_exchange --mode ring --model resnet50 --workers 2 --rounds 21\n",
        children,
        NULL,
        NULL};
    psr_options_parse(&argp, argc, argv, 0, NULL, &b);
    psr_options_argp_free(table);
    if (psr_config_has_several_ways(&b.config)) {
        fprintf(stderr,
                "bench_exchange: --%s: every round goes one way here; give --mode ps or ring\n",
                b.config.stretch_count > 1 ? "mode" : "route");
        return 2;
    }
    if (b.config.mode != PSR_MODE_PS && b.config.mode != PSR_MODE_RING) {
        fprintf(stderr, "bench_exchange: --mode: only ps and ring exchange anything\n");
        return 2;
    }
    if (b.sum_only && b.config.mode != PSR_MODE_RING) {
        fprintf(stderr, "bench_exchange: --sum-only: it is in the shards that parameter servers "
                        "sum; take --mode ring\n");
        return 2;
    }
    b.config.lr = BENCH_LR;
    b.config.momentum = 0;
    b.config.weight_decay = 0;
    b.config.optimizer = PSR_OPTIMIZER_SGD;
    b.config.schedule = PSR_SCHEDULE_CONSTANT;
    b.config.warmup = 0;
    b.config.steps = b.rounds + b.warmup + 1;
    bool over_tcp =
        b.config.transport == PSR_TRANSPORT_TCP || b.config.transport == PSR_TRANSPORT_AUTO;
    if (b.hosts > 1 && (!over_tcp || b.hosts > b.config.workers)) {
        fprintf(stderr, "bench_exchange: --hosts: it goes with --transport auto or tcp, and a "
                        "worker on each\n");
        return 2;
    }
    psr_err err = psr_network_check(&b.config);
    if (!err)
        err = psr_config_check(&b.config);
    if (!err)
        err = bench_run_plan(&b);
    int status = psr_err_exit_status(err);
    if (err)
        fprintf(stderr, "bench_exchange: %s\n", psr_err_detail());
    else
        status = run(&b);
    bench_run_done(&b);
    return status;
}
