/* `psring bench exchange`: the exchange alone. It has the real engines, shards and sockets, the
 * model's real buckets, and real processes on this machine, which compute nothing. Times each
 * exchange from the first worker's start to the last worker's end, and checks its results.
 *
 * The parent forks workers and shards, gives each the others' endpoints, and for each round sends
 * every worker one byte; a worker then reports all its buckets ready in backward order, runs its
 * engine until all new weights have landed, and answers with its two times of CLOCK_MONOTONIC.
 * Gradients are written anew before a round, untimed. */
#include "base/system/memory.h"
#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "bench/exchange/link.h"
#include "bench/exchange/member.h"
#include "bench/exchange/peers.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
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

/* What an exchange came to; times in ms. */
typedef struct figures {
    double least, median, most, size_bytes, factor; /* factor 0: none */
    uint32_t wrong;
} figures;

static figures run(bench_run *b)
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
    const figures f = {.least = ms[0],
                       .median = ms[b->rounds / 2],
                       .most = ms[b->rounds - 1],
                       .size_bytes = (double)(b->layout.length * sizeof(float)),
                       .factor = bus_factor(b),
                       .wrong = wrong};
    free(ms);
    free(members);
    return f;
}

/* ---- the command line ---- */

enum {
    KEY_BYTES = 1000,
    KEY_ROUNDS,
    KEY_WARMUP,
    KEY_PIN,
    KEY_SUM_ONLY,
    KEY_SUM_SHARED,
    KEY_HOSTS,
    KEY_JSON,
    KEY_GLOO,
    KEY_MXNET,
    KEY_MPIRUN
};

typedef struct command {
    bench_run run; /* before its plan is made */
    /* sizes of one tensor; begin 0: the network's buckets */
    uint64_t begin, end, factor;
    const char *peers[BENCH_PEERS]; /* commands; NULL: not measured */
    bool json;
    bool wrong, failed; /* a result was, a peer has */
} command;

/* A number of bytes with K, M or G. */
static uint64_t bytes_of(struct argp_state *state, const char *name, const char *text)
{
    char *end = NULL, digits[32], line[128];
    static const char suffixes[] = "KMG";
    const size_t length = strlen(text);
    const char *suffix = length > 1 ? strchr(suffixes, text[length - 1]) : NULL;
    snprintf(digits, sizeof digits, "%.*s", (int)(length - (suffix != NULL)), text);
    const unsigned long long value = strtoull(digits, &end, 10);
    const unsigned shift = suffix != NULL ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || value << shift < 64 ||
        value << shift > UINT32_MAX) {
        snprintf(line, sizeof line, "--%s: '%.20s' is no size; give 64 to 4G bytes, as 64K", name,
                 text);
        psr_options_refuse(state, line);
    }
    return value << shift;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    command *c = state->input;
    bench_run *b = &c->run;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &b->config;
        return 0;
    case KEY_BYTES:
        c->begin = c->end = bytes_of(state, "bytes", arg);
        return 0;
    case 'b':
        c->begin = bytes_of(state, "begin", arg);
        return 0;
    case 'e':
        c->end = bytes_of(state, "end", arg);
        return 0;
    case 'f':
        c->factor = psr_options_number(state, "factor", arg, 2, 1u << 20);
        return 0;
    case KEY_ROUNDS:
        b->rounds = (uint32_t)psr_options_number(state, "rounds", arg, 1, 10000);
        return 0;
    case KEY_WARMUP:
        b->warmup = (uint32_t)psr_options_number(state, "warmup-rounds", arg, 0, 10000);
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
    case KEY_JSON:
        c->json = true;
        return 0;
    case KEY_GLOO:
    case KEY_MXNET:
    case KEY_MPIRUN:
        c->peers[key - KEY_GLOO] = arg;
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "it takes options alone; they begin with -");
        return EINVAL;
    case ARGP_KEY_END:
        if (c->begin == 0 && c->end != 0)
            psr_options_refuse(state, "--end: it goes with --begin, the smallest size");
        if (c->end != 0 && c->end < c->begin)
            psr_options_refuse(state, "--end: it is below --begin");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"begin", 'b', "BYTES", 0,
     "exchange one tensor of so many bytes rather than the buckets of --model, 64 or more; "
     "suffixes "
     "K, M, G are powers of 1024",
     1},
    {"end", 'e', "BYTES", 0, "and of larger ones, up to this size (--begin alone)", 1},
    {"factor", 'f', "N", 0, "each size is the one before times N (2)", 1},
    {"bytes", KEY_BYTES, "BYTES", 0, "the same as --begin, for one size", 1},
    {"rounds", KEY_ROUNDS, "N", 0, "timed exchanges (default 11)", 1},
    {"warmup-rounds", KEY_WARMUP, "N", 0, "exchanges before them (default 3)", 1},
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
    {"gloo", KEY_GLOO, "PYTHON", 0, "measure Gloo beside it, by a Python that has torch", 1},
    {"mxnet", KEY_MXNET, "PYTHON", 0,
     "measure MXNet's KVStore beside it, by a Python that has mxnet 1.9", 1},
    {"mpirun", KEY_MPIRUN, "CMD", 0,
     "measure Open MPI's all-reduce beside it; CMD's words are separated by blanks. mpicc must be "
     "there too",
     1},
    {"json", KEY_JSON, NULL, 0, "write a JSON object for each row", 1},
    {0}};

static const char doc[] =
    "Times the exchange of gradients and weights alone, without computing: the engines, shards and "
    "sockets of training, between processes on this machine.\vA row has a whole exchange of "
    "--model's "
    "buckets, or with -b of one tensor: its time is from the first worker's start to the last "
    "worker's end, median of --rounds. algbw is its bytes over the time; busbw is algbw times what "
    "the busiest process must carry (docs/algorithms.md): 2(n-1)/n in a ring, max(1, n/s) with s "
    "dedicated shards. All values are checked. --transport auto is tcp here, not encrypted, as its "
    "peers are; tcp is encrypted, or not with --no-encrypt. For several hosts: psring bench comm, "
    "and "
    "psring bench train.\n"
    "Exit status: 0 done; 1 a value was wrong, or a peer failed; 2 bad input.\n"
    "Examples:\n"
    "  psring bench exchange --mode ring --model resnet50 --workers 2 --rounds 21\n"
    "  psring bench exchange --mode ring --workers 2 -b 64K -e 256M -f 4 --gloo python3\n";

/* ---- rows ---- */

static void print_head(const command *c)
{
    const psr_config *config = &c->run.config;
    if (c->json)
        return;
    printf("# mode %s, %" PRIu32 " workers, %" PRIu32 " shards; ms, median of %" PRIu32
           " rounds after %" PRIu32 "; GB is 1e9 bytes\n",
           config->mode == PSR_MODE_PS ? "ps" : "ring", config->workers, psr_config_shards(config),
           c->run.rounds, c->run.warmup);
    printf("%-10s %12s %8s %9s %9s %9s %7s %7s\n", "#", "bytes", "buckets", "median", "min", "max",
           "algbw", "busbw");
    fflush(stdout);
}

static void print_row(const bench_run *b, const figures *f)
{
    char busbw[24] = "-";
    if (f->factor > 0)
        snprintf(busbw, sizeof busbw, "%.3g", f->size_bytes / f->median / 1e6 * f->factor);
    printf("%-10s %12.0f %8" PRIu32 " %9.2f %9.2f %9.2f %7.3g %7s%s\n", "psring", f->size_bytes,
           b->buckets.count, f->median, f->least, f->most, f->size_bytes / f->median / 1e6, busbw,
           f->wrong > 0 ? "  WRONG" : "");
    fflush(stdout);
}

static void print_json(const bench_run *b, const figures *f)
{
    char busbw[96] = "\"busbw_factor\":null,\"busbw_gb_s\":null";
    if (f->factor > 0)
        snprintf(busbw, sizeof busbw, "\"busbw_factor\":%.4f,\"busbw_gb_s\":%.2f", f->factor,
                 f->size_bytes / f->median / 1e6 * f->factor);
    printf(
        "{\"mode\":\"%s\",\"workers\":%u,\"shards\":%u,\"bytes\":%.0f,\"buckets\":%u,\"rounds\":%u,"
        "\"min_ms\":%.2f,\"median_ms\":%.2f,\"max_ms\":%.2f,\"algbw_gb_s\":%.2f,%s,\"wrong\":%u}\n",
        b->config.mode == PSR_MODE_PS ? "ps" : "ring", b->config.workers,
        b->members - b->config.workers, f->size_bytes, b->buckets.count, b->rounds, f->least,
        f->median, f->most, f->size_bytes / f->median / 1e6, busbw, f->wrong);
    fflush(stdout);
}

/* Beside a row of psring's. A peer that fails gets one line, and the rest goes on. */
static void run_peers(command *c, const bench_run *b, const figures *f)
{
    for (size_t i = 0; i < BENCH_PEERS; i++) {
        const bench_peer_task task = {.command = c->peers[i],
                                      .workers = b->config.workers,
                                      .shards = psr_config_shards(&b->config),
                                      .rounds = b->rounds,
                                      .warmup = b->warmup,
                                      .bytes = (uint64_t)f->size_bytes};
        const char *name = bench_peer_name((bench_peer)i);
        double ms = 0;
        /* MXNet has servers, the others none */
        if (c->peers[i] == NULL || (i == BENCH_MXNET) != (b->config.mode == PSR_MODE_PS))
            continue;
        if (bench_peer_run((bench_peer)i, &task, &ms) != PSR_OK) {
            psr_print(stderr, "psring bench exchange: %s\n", psr_err_detail());
            c->failed = true;
        } else if (c->json) {
            printf("{\"peer\":\"%s\",\"bytes\":%.0f,\"median_ms\":%.2f,\"ratio\":%.3f}\n", name,
                   f->size_bytes, ms, f->median / ms);
        } else {
            printf("%-10s %12.0f %8s %9.2f %9s %9s %7.3g %7s  psring takes %.2f of it\n", name,
                   f->size_bytes, "-", ms, "-", "-", f->size_bytes / ms / 1e6, "-", f->median / ms);
        }
        fflush(stdout);
    }
}

static psr_err measure(command *c, uint64_t bytes)
{
    bench_run b = c->run;
    b.bytes = bytes;
    psr_err err = bench_run_plan(&b);
    if (err == PSR_OK) {
        const figures f = run(&b);
        c->wrong = c->wrong || f.wrong > 0;
        if (c->json)
            print_json(&b, &f);
        else
            print_row(&b, &f);
        run_peers(c, &b, &f);
    }
    bench_run_done(&b);
    return err;
}

static psr_err measure_all(command *c)
{
    const uint64_t end = c->end > 0 ? c->end : c->begin;
    print_head(c);
    if (c->begin == 0)
        return measure(c, 0);
    for (uint64_t bytes = c->begin; bytes <= end; bytes *= c->factor)
        PSR_TRY(measure(c, bytes));
    return PSR_OK;
}

/* ---- what can be measured ---- */

static psr_err check(const bench_run *b)
{
    const psr_config *config = &b->config;
    if (psr_config_has_several_ways(config))
        return psr_fail(PSR_ERR_USAGE,
                        "--%s: every round goes one way here; give --mode ps or ring",
                        config->stretch_count > 1 ? "mode" : "route");
    if (config->mode != PSR_MODE_PS && config->mode != PSR_MODE_RING)
        return psr_fail(PSR_ERR_USAGE, "--mode: only ps and ring exchange anything");
    if (b->sum_only && config->mode != PSR_MODE_RING)
        return psr_fail(PSR_ERR_USAGE,
                        "--sum-only: it is in the shards that parameter servers sum; "
                        "take --mode ring");
    const bool over_tcp =
        config->transport == PSR_TRANSPORT_TCP || config->transport == PSR_TRANSPORT_AUTO;
    if (b->hosts > 1 && (!over_tcp || b->hosts > config->workers))
        return psr_fail(PSR_ERR_USAGE,
                        "--hosts: it goes with --transport auto or tcp, and a worker on each");
    PSR_TRY(psr_network_check(config));
    return psr_config_check(config);
}

/* The update is a plain one, which the check can undo. */
static void set_update(bench_run *b)
{
    b->config.lr = BENCH_LR;
    b->config.momentum = 0;
    b->config.weight_decay = 0;
    b->config.optimizer = PSR_OPTIMIZER_SGD;
    b->config.schedule = PSR_SCHEDULE_CONSTANT;
    b->config.warmup = 0;
    b->config.steps = b->rounds + b->warmup + 1;
}

int main(int argc, char **argv)
{
    psr_memory_keep_pages();
    command c = {.run = {.rounds = 11, .warmup = 3, .hosts = 1}, .factor = 2};
    psr_config_defaults(&c.run.config);
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    if (table == NULL)
        bench_die("memory");
    const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 2}, {0}};
    const struct argp argp = {options, parse, NULL, doc, children, NULL, NULL};
    psr_options_parse(&argp, argc, argv, 0, NULL, &c);
    psr_options_argp_free(table);
    set_update(&c.run);
    psr_err err = check(&c.run);
    if (err == PSR_OK)
        err = measure_all(&c);
    bench_peers_done();
    if (err != PSR_OK)
        psr_print(stderr, "psring bench exchange: %s\n", psr_err_detail());
    return err != PSR_OK ? psr_err_exit_status(err) : c.wrong || c.failed;
}
