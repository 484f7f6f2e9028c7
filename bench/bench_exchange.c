/* `psring bench exchange`: the exchange alone. It has the real engines, shards and sockets, the
 * model's real buckets, and real processes, which compute nothing. Times each exchange, and checks
 * its results.
 *
 * On this machine the parent forks workers and shards, gives each the others' endpoints, and for
 * each round sends every worker one byte; a worker then reports all its buckets ready in backward
 * order, runs its engine until all new weights have landed, and answers with its two times of
 * CLOCK_MONOTONIC. Gradients are written anew before a round, untimed. On several hosts (psring
 * bench starts it there by psring run) each rank forks the one member that it is; what the parent
 * tells its children goes by the meeting of the ranks. */
#include "base/system/memory.h"
#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "bench/exchange/link.h"
#include "bench/exchange/peers.h"
#include "bench/exchange/rounds.h"
#include "comm/wire/compression/compression.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    KEY_MPIRUN,
    KEY_CALLS,
    KEY_SSH,
    KEY_TELL_RANKS
};

#define CALLS_MAX 64
#define CALLS_BESIDE_PEERS 3

typedef struct command {
    bench_run run; /* before its plan is made */
    /* sizes of one tensor; begin 0: the network's buckets */
    uint64_t begin, end, factor;
    const char *peers[BENCH_PEERS]; /* commands; NULL: not measured, or not any more */
    const char *ssh;
    uint32_t calls; /* of each party; 0: not said */
    bool json, tells_ranks;
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
    case KEY_CALLS:
        c->calls = (uint32_t)psr_options_number(state, "calls", arg, 1, CALLS_MAX);
        return 0;
    case KEY_SSH:
        c->ssh = arg;
        return 0;
    case KEY_TELL_RANKS:
        c->tells_ranks = true;
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
     "there too. On several hosts they are added to CMD",
     1},
    {"ssh", KEY_SSH, "CMD", OPTION_HIDDEN, "", 1},
    {"tell-ranks", KEY_TELL_RANKS, NULL, OPTION_HIDDEN, "", 1},
    {"calls", KEY_CALLS, "N", 0,
     "measure each row and its peers N times in turn, with new processes, each round of turns "
     "beginning with another; a row has the median (1; with a peer 3)",
     1},
    {"json", KEY_JSON, NULL, 0, "write a JSON object for each row", 1},
    {0}};

static const char doc[] =
    "Times the exchange of gradients and weights alone, without computing: the engines, shards and "
    "sockets of training, on this machine, or on several (psring bench exchange --hostfile FILE).\v"
    "A row has a whole exchange of --model's buckets, or with -b of one tensor: its time is from "
    "the first worker's start to the last worker's end (on several hosts: that of the slowest "
    "worker, behind a barrier), median of --rounds. algbw is its bytes over the time; busbw is "
    "algbw times what the busiest link must carry (docs/algorithms.md). On one machine each "
    "process has a link of its own: 2(n-1)/n in a ring, max(1, n/s) with s shards. On several each "
    "host has: with shards it follows from where they are. All values are checked. With --compress "
    "or --compress-weights a line below the row has the bytes that a worker sends and receives in "
    "an exchange.\n"
    "\n"
    "On one machine --transport auto is tcp, not encrypted, as its peers are; tcp is encrypted, or "
    "not with --no-encrypt. On several hosts auto is what psring train has: encrypted between "
    "them, and shared memory within each; --no-encrypt=trusted-network compares in the clear.\n"
    "\n"
    "Peers are called in turn with psring's own rows, with the same bytes, workers and hosts. One "
    "that fails gets one line and is left out from then on.\n"
    "\n"
    "Examples:\n"
    "  psring bench exchange --mode ring --model resnet50 --workers 2 --rounds 21\n"
    "  psring bench exchange --mode ring --workers 2 -b 64K -e 256M -f 4 \\\n"
    "    --gloo python3\n"
    "  psring bench exchange --mode ps --workers 2 -b 4M --compress 1bit \\\n"
    "    --compress-weights int8\n"
    "  psring bench exchange --hostfile hosts --mode ps --shards 2 --model resnet50\n"
    "\n"
    "Exit status: 0 done; 1 a value was wrong, or a peer failed; 2 bad input.\n";

/* ---- rows ---- */

/* Rank 0 alone writes, and on one machine the only process. */
static bool writes(const bench_run *b)
{
    return b->meeting == NULL || bench_meeting_rank(b->meeting) == 0;
}

static const char *mode_of(const bench_run *b)
{
    return b->config.mode == PSR_MODE_PS ? "ps" : "ring";
}

static void print_head(const command *c)
{
    const bench_run *b = &c->run;
    if (c->json || !writes(b))
        return;
    const uint32_t workers = b->config.workers, shards = psr_config_shards(&b->config);
    printf("# mode %s, %" PRIu32 " worker%s, %" PRIu32 " shard%s; ms, median of %" PRIu32
           " rounds after %" PRIu32,
           mode_of(b), workers, workers == 1 ? "" : "s", shards, shards == 1 ? "" : "s", b->rounds,
           b->warmup);
    if (c->calls > 1)
        printf(", and of %" PRIu32 " calls", c->calls);
    printf("; GB is 1e9 bytes\n");
    printf("%-10s %12s %8s %9s %9s %9s %7s %7s\n", "#", "bytes", "buckets", "median", "min", "max",
           "algbw", "busbw");
    fflush(stdout);
}

static double algbw(const bench_rounds_figures *f)
{
    return f->size_bytes / f->median / 1e6;
}

static bool is_compressed(const psr_config *config)
{
    return strcmp(config->compress, "none") != 0 || strcmp(config->compress_weights, "none") != 0;
}

/* who: "psring" or a peer's name; ours: psring's row above. */
static void print_row(const char *who, const bench_run *b, const bench_rounds_figures *f,
                      const bench_rounds_figures *ours)
{
    char busbw[24] = "-", buckets[16] = "-";
    if (f->factor > 0)
        snprintf(busbw, sizeof busbw, "%.3g", algbw(f) * f->factor);
    if (ours == f)
        snprintf(buckets, sizeof buckets, "%" PRIu32, b->buckets.count);
    printf("%-10s %12.0f %8s %9.2f %9.2f %9.2f %7.3g %7s%s", who, f->size_bytes, buckets, f->median,
           f->least, f->most, algbw(f), busbw, f->wrong > 0 ? "  WRONG" : "");
    if (ours != f)
        printf("  psring takes %.2f of it%s", ours->median / f->median,
               b->key_count > 0 && b->keys[0].curve ? ", and encrypts" : "");
    printf("\n");
    if (ours == f && is_compressed(&b->config))
        printf(
            "#          a worker sends %.0f bytes and receives %.0f: %.3g%% and %.3g%% of them\n",
            f->sent, f->received, 100 * f->sent / f->size_bytes, 100 * f->received / f->size_bytes);
}

static void print_json(const char *who, const bench_run *b, const bench_rounds_figures *f,
                       const bench_rounds_figures *ours)
{
    char busbw[96] = "\"busbw_factor\":null,\"busbw_gb_s\":null";
    if (f->factor > 0)
        snprintf(busbw, sizeof busbw, "\"busbw_factor\":%.4f,\"busbw_gb_s\":%.2f", f->factor,
                 algbw(f) * f->factor);
    if (ours == f)
        printf("{\"mode\":\"%s\",\"workers\":%u,\"shards\":%u,\"hosts\":%u,\"bytes\":%.0f,"
               "\"buckets\":%u,\"rounds\":%u,",
               mode_of(b), b->config.workers, b->members - b->config.workers, b->hosts,
               f->size_bytes, b->buckets.count, b->rounds);
    else
        printf("{\"peer\":\"%s\",\"bytes\":%.0f,", who, f->size_bytes);
    printf("\"min_ms\":%.3f,\"median_ms\":%.3f,\"max_ms\":%.3f,\"algbw_gb_s\":%.3f,%s,", f->least,
           f->median, f->most, algbw(f), busbw);
    if (ours == f)
        printf("\"sent_bytes\":%.0f,\"received_bytes\":%.0f,\"wrong\":%u}\n", f->sent, f->received,
               f->wrong);
    else
        printf("\"ratio\":%.3f}\n", ours->median / f->median);
}

/* ---- calls in turn ---- */

enum { PSRING = BENCH_PEERS, PARTIES };

/* What the calls of one party came to. */
typedef struct party {
    bench_rounds_figures figures;
    double medians[CALLS_MAX];
    uint32_t calls;
} party;

static void add_call(party *p, const bench_rounds_figures *f)
{
    const uint32_t wrong = p->figures.wrong + f->wrong;
    const double least = p->calls > 0 && p->figures.least < f->least ? p->figures.least : f->least,
                 most = p->calls > 0 && p->figures.most > f->most ? p->figures.most : f->most;
    uint32_t at = p->calls++;
    for (; at > 0 && p->medians[at - 1] > f->median; at--)
        p->medians[at] = p->medians[at - 1];
    p->medians[at] = f->median;
    p->figures = *f;
    p->figures.least = least;
    p->figures.most = most;
    p->figures.wrong = wrong; /* bytes are those of the last call */
    p->figures.median = bench_median(p->medians, p->calls);
}

static void call_peer(command *c, const bench_run *b, bench_peer peer, party *p)
{
    const bench_peer_task task = {.command = c->peers[peer], .ssh = c->ssh, .run = b};
    bench_peer_figures figures;
    if (c->peers[peer] == NULL || !bench_peer_suits(peer, b->config.mode))
        return;
    if (bench_peer_run(peer, &task, &figures) != PSR_OK) {
        if (writes(b))
            psr_print(stderr, "psring bench exchange: %s\n", psr_err_detail());
        c->peers[peer] = NULL;
        c->failed = true;
        p->calls = 0;
        return;
    }
    add_call(p, &(bench_rounds_figures){.least = figures.least_ms,
                                        .median = figures.median_ms,
                                        .most = figures.most_ms,
                                        .size_bytes = (double)(b->layout.length * sizeof(float)),
                                        .factor = bench_bus_factor(b)});
}

/* Each round of calls begins with another party, so that none always follows the same one. */
static void call_all(command *c, bench_run *b, party parties[static PARTIES])
{
    for (uint32_t call = 0; call < c->calls; call++)
        for (uint32_t k = 0; k < PARTIES; k++) {
            const uint32_t who = (PSRING + call + k) % PARTIES;
            if (who != PSRING) {
                call_peer(c, b, (bench_peer)who, &parties[who]);
                continue;
            }
            const bench_rounds_figures f = bench_rounds_run(b);
            add_call(&parties[PSRING], &f);
        }
}

static void print_parties(const command *c, const bench_run *b, const party *parties)
{
    const bench_rounds_figures *ours = &parties[PSRING].figures;
    (c->json ? print_json : print_row)("psring", b, ours, ours);
    for (uint32_t k = 0; k < PSRING; k++)
        if (parties[k].calls > 0)
            (c->json ? print_json : print_row)(bench_peer_name((bench_peer)k), b,
                                               &parties[k].figures, ours);
    fflush(stdout);
}

static psr_err measure(command *c, uint64_t bytes)
{
    bench_run b = c->run;
    party *parties = calloc(PARTIES, sizeof *parties);
    b.bytes = bytes;
    psr_err err = parties != NULL ? bench_run_plan(&b)
                                  : psr_fail(PSR_ERR_NOMEM, "no memory for what was measured");
    if (err == PSR_OK) {
        call_all(c, &b, parties);
        c->wrong = c->wrong || parties[PSRING].figures.wrong > 0;
        if (writes(&b))
            print_parties(c, &b, parties);
    }
    bench_run_done(&b);
    free(parties);
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
    if (b->hosts > 1 && b->meeting != NULL)
        return psr_fail(PSR_ERR_USAGE, "--hosts: it emulates hosts, and these are real; leave it "
                                       "out");
    if (b->hosts > 1 && (!over_tcp || b->hosts > config->workers))
        return psr_fail(PSR_ERR_USAGE,
                        "--hosts: it goes with --transport auto or tcp, and a worker on each");
    PSR_TRY(psr_compression_check_options(config->compress, config->compress_weights));
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
    b->config.schedule.kind = PSR_SCHEDULE_CONSTANT;
    b->config.warmup = (psr_duration){0};
    b->config.steps = b->rounds + b->warmup + 1;
}

/* In a launch all ranks but the shards are workers. */
static psr_err resolve_workers(command *c, uint32_t otherwise)
{
    bench_run *b = &c->run;
    const uint32_t shards = psr_config_shards(&b->config);
    if (b->config.workers > 0)
        return PSR_OK;
    b->config.workers = otherwise;
    if (b->meeting == NULL)
        return PSR_OK;
    if (bench_meeting_size(b->meeting) <= shards)
        return psr_fail(PSR_ERR_USAGE, "--shards: %u, and the launch has %u processes in all",
                        shards, bench_meeting_size(b->meeting));
    b->config.workers = bench_meeting_size(b->meeting) - shards;
    return PSR_OK;
}

/* For psring bench, which starts so many: "WORKERS SHARDS". 0 workers: none were said. */
static psr_err tell_ranks(command *c, uint32_t otherwise)
{
    const uint32_t workers = c->run.config.workers;
    if (c->run.hosts > 1)
        return psr_fail(PSR_ERR_USAGE, "--hosts: it emulates hosts on this machine; leave it out, "
                                       "or --hostfile and -H");
    PSR_TRY(resolve_workers(c, otherwise));
    PSR_TRY(check(&c->run));
    printf("%" PRIu32 " %" PRIu32 "\n", workers, psr_config_shards(&c->run.config));
    return PSR_OK;
}

static psr_err run_command(command *c, uint32_t otherwise)
{
    bool called = false;
    if (c->tells_ranks)
        return tell_ranks(c, otherwise);
    PSR_TRY(bench_meeting_is_called(&called));
    if (called)
        PSR_TRY(bench_meeting_join(&c->run.meeting));
    PSR_TRY(resolve_workers(c, otherwise));
    PSR_TRY(check(&c->run));
    if (c->calls == 0) {
        c->calls = 1;
        for (uint32_t k = 0; k < BENCH_PEERS; k++)
            if (c->peers[k] != NULL && bench_peer_suits((bench_peer)k, c->run.config.mode))
                c->calls = CALLS_BESIDE_PEERS;
    }
    return measure_all(c);
}

int main(int argc, char **argv)
{
    psr_memory_keep_pages();
    command c = {.run = {.rounds = 11, .warmup = 3, .hosts = 1}, .factor = 2};
    psr_config_defaults(&c.run.config);
    const uint32_t workers = c.run.config.workers;
    c.run.config.workers = 0;
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
    psr_err err = run_command(&c, workers);
    bench_peers_done();
    /* All ranks refuse alike. */
    if (err != PSR_OK && (writes(&c.run) || psr_err_exit_status(err) != 2))
        psr_print(stderr, "psring bench exchange: %s\n", psr_err_detail());
    const bool tells = writes(&c.run); /* a launcher names the rank that fails */
    bench_meeting_end(c.run.meeting);
    return err != PSR_OK ? psr_err_exit_status(err) : tells && (c.wrong || c.failed);
}
