/* The exchange alone: the real engines, shards and sockets, the model's real buckets, real processes on loopback, no
 * computing. Times each exchange from the first worker's start to the last worker's end, and checks its results.
 *
 * The parent forks workers and shards, gives each the others' endpoints, and for each round sends every worker one
 * byte; a worker then reports all its buckets ready in backward order, runs its engine until all new weights have
 * landed, and answers with its two times of CLOCK_MONOTONIC. Gradients are written anew before a round, untimed. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/fold.h"
#include "base/memory.h"
#include "base/options_argp.h"
#include "comm/comm.h"
#include "model/networks/network.h"
#include "model/networks/network_list.h"
#include "model/optimizers/optimizer.h"
#include "net/keys.h"
#include "net/socket_directory.h"
#include "net/transport.h"
#include "ps/parts.h"
#include "ps/shard/shard.h"
#include "worker/engine.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTS_MAX 64
#define LR 0.125f /* a power of two: the check needs no rounding of its own */

typedef struct bench {
    psr_config config;
    uint64_t bytes; /* of one tensor instead of a model; 0: the model */
    uint32_t rounds, warmup;
    bool pin;
    bool sum_only, sum_shared; /* no weights: each worker gets a sum of its own; all read one */
    uint32_t hosts;            /* that are emulated: memory is shared within each, TCP goes between them */
    psr_network *net;          /* owned; NULL with bytes */
    psr_layout layout;         /* net's, or of its own */
    psr_buckets buckets;
    psr_plan plan;
    psr_keys *keys;
    size_t key_count;
    uint32_t members; /* shards, then workers */
    float *owed; /* [workers][layout.length] what each owes: memory that all share; NULL: nothing is owed */
    psr_socket_directory *sockets; /* [hosts] of ipc and shm; else none */
} bench;

typedef struct member {
    pid_t pid;
    int link; /* socket pair to it */
} member;

/* What a worker answers after a round. */
typedef struct answer {
    int64_t begin_ns, end_ns;
    uint32_t wrong; /* elements that are not what they must be */
} answer;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_exchange: %s: %s\n", what,
            psr_err_detail()[0] ? psr_err_detail() : strerror(errno));
    _exit(1);
}

static void must(psr_err err, const char *what)
{
    if (err)
        die(what);
}

static void read_all(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = read(fd, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            _exit(1); /* the other end is gone: it has said why */
        at += got;
        size -= (size_t)got;
    }
}

static void write_all(int fd, const void *data, size_t size)
{
    if (write(fd, data, size) != (ssize_t)size)
        die("the link between the processes");
}

/* Worker rank's gradient at arena element i: small integers, so sums are exact whatever their order and the check is simple. */
static float gradient_at(uint32_t rank, size_t i)
{
    return (float)((i * 7 + rank * 13) % 61) - 30.0f;
}

/* ---- a member process ---- */

typedef struct process {
    const bench *b;
    psr_peer self;
    psr_transport *transport;
    /* What this process sends from: a worker's gradients, a shard's weights; and weights that a worker holds. With shm */
    psr_shared_arena shared, held;
    /* of a worker */
    const psr_engine_ops *ops;
    psr_engine *engine;
    float *weights, *gradients;
    uint32_t landed;
    atomic_bool waits_for_loans;
} process;

static psr_err send_message(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    return psr_transport_send(context, to, head, payload);
}

static psr_err send_of_worker(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    return psr_transport_send(((process *)context)->transport, to, head, payload);
}

static bool lends_to(void *context, psr_peer to)
{
    return psr_transport_lends_to(((process *)context)->transport, to);
}

/* A worker's bucket came back, on a thread of libzmq's: it wakes a worker that waits for that. */
static void wake_who_waits(void *context)
{
    process *p = context;
    if (atomic_load(&p->waits_for_loans))
        psr_transport_wake(p->transport);
}

static psr_err on_landed(void *context, uint64_t step, uint32_t bucket)
{
    process *p = context;
    (void)step, (void)bucket;
    p->landed++;
    return PSR_OK;
}

static psr_peer member_peer(const bench *b, uint32_t index)
{
    uint32_t shards = b->members - b->config.workers;
    return index < shards ? (psr_peer){PSR_ROLE_SHARD, index} : (psr_peer){PSR_ROLE_WORKER, index - shards};
}

static void say_unshared(void *context, bool shared, const char *line)
{
    (void)context;
    if (!shared)
        fprintf(stderr, "bench_exchange: %s\n", line);
}

static void lend_from(const process *p, psr_shared_arena *arena)
{
    must(psr_shared_arena_new(p->b->layout.length, arena), "shared memory");
    must(psr_transport_lend_from(p->transport, arena), "lending memory");
}

static bool shares_memory(const bench *b)
{
    return b->config.transport == PSR_TRANSPORT_SHM || b->hosts > 1;
}

static void fill_held(const process *p, const psr_shared_arena *arena)
{
    psr_span run;
    for (uint32_t b = p->b->plan.bucket_count;
         (run = psr_plan_next_run(&p->b->plan, p->self.rank, true, &b)).count > 0;)
        psr_shared_arena_fill(arena, run);
}

/* What is sent lies in memory that is shared, when that is asked for. As in the product what a process writes lies in huge pages. */
static void share_memory(process *p)
{
    if (!shares_memory(p->b))
        return;
    must(psr_transport_share(p->transport, say_unshared, NULL), "sharing memory");
    lend_from(p, &p->shared);
    if (p->self.role == PSR_ROLE_SHARD)
        fill_held(p, &p->shared);
    else
        psr_shared_arena_fill(&p->shared, (psr_span){0, p->b->layout.length});
    if (p->b->plan.homes_are_workers) {
        lend_from(p, &p->held);
        fill_held(p, &p->held);
    }
}

/* Where a process is reached: for messages, and to share memory. */
typedef struct places {
    char endpoint[128], memory[128];
} places;

/* Workers of consecutive ranks are on one host; shards are on the first. */
static uint32_t host_of(const bench *b, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER ? peer.rank * b->hosts / b->config.workers : 0;
}

/* Binds, tells the parent, hears of everybody, connects to everybody. */
static void join(process *p, uint32_t index, int link)
{
    const bench *b = p->b;
    psr_zmq_options options = {.self = p->self, .interface = "127.0.0.1", .keys = &b->keys[1 + index]};
    const char *directory = b->sockets[host_of(b, p->self)].path;
    if (b->hosts == 1)
        options.directory = directory;
    else
        options.sharing = directory;
    must(psr_transport_zmq_new(&options, &p->transport), "a transport");
    share_memory(p);
    places own = {.endpoint = ""}, other;
    snprintf(own.endpoint, sizeof own.endpoint, "%s", psr_transport_endpoint(p->transport));
    snprintf(own.memory, sizeof own.memory, "%s", psr_transport_share_path(p->transport));
    write_all(link, &own, sizeof own);
    for (uint32_t i = 0; i < b->members; i++) {
        read_all(link, &other, sizeof other);
        if (i == index)
            continue;
        must(psr_transport_connect(p->transport, member_peer(b, i), other.endpoint,
                                   psr_keys_of(options.keys, member_peer(b, i))),
             "a connection");
        if (host_of(b, member_peer(b, i)) == host_of(b, p->self))
            psr_transport_lend_to(p->transport, member_peer(b, i), other.memory);
    }
}

static void shard_main(const bench *b, uint32_t index, int link)
{
    process p = {.b = b, .self = member_peer(b, index)};
    join(&p, index, link);
    psr_shard_options options = {.config = &b->config,
                                 .layout = &b->layout,
                                 .plan = &b->plan,
                                 .shard = index,
                                 .total_steps = UINT64_MAX,
                                 .weights = p.shared.values,
                                 .outbox = {.context = p.transport, .send = send_message}};
    psr_shard *shard;
    must(psr_shard_new(&options, &shard), "a shard");
    psr_table_shard *table = psr_shard_table(shard);
    for (bool told = false;;) { /* until the parent ends it */
        if (!told && psr_table_shard_initialised(table)) {
            write_all(link, "i", 1);
            told = true;
        }
        psr_message *message = NULL;
        must(psr_transport_recv(p.transport, -1, &message), "receiving");
        must(psr_table_shard_message(table, &message), "a shard's message");
    }
}

/* Ring mode sums in place, so gradients are made again before each round. */
static void fill_gradients(process *p)
{
    for (size_t t = 0; t < p->b->layout.tensor_count; t++) {
        const psr_tensor *tensor = &p->b->layout.tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++)
            p->gradients[i] = gradient_at(p->self.rank, i);
    }
}

/* Without BSP a worker's last weights lack what others push after it has pulled. An exchange of zeros behind the last round, when all are
 * through that, shows what all pushes together came to: the same as in BSP. */
static bool settles(const bench *b)
{
    return b->config.mode == PSR_MODE_PS && b->config.sync != PSR_SYNC_BSP;
}

/* By how much what was exchanged in so many rounds may differ from what was given. Not at all if it is float32, or if all sums are whole
 * numbers that 16 bits hold. With error feedback sums and what is owed add up to it, but for float32's rounding. */
static float tolerance_of(const bench *b, uint32_t rounds)
{
    const psr_compression compression = b->plan.buckets[0].compression;
    float largest = 30.0f * (float)b->config.workers, all = largest * (float)(rounds * b->config.workers);
    if (psr_compression_is_none(compression))
        return 0;
    if (psr_compression_has_residual(compression))
        return all * 0x1p-16f;
    return largest <= 256 ? 0 : all * 0x1p-8f;
}

/* All ranks owe it: who has sent a final sum, or had a part in one, has settled what it owes of that. */
static float owed_at(const bench *b, size_t i)
{
    float owed = 0;
    for (uint32_t r = 0; r < b->config.workers && b->owed != NULL; r++)
        owed += b->owed[r * b->layout.length + i];
    return owed;
}

static uint32_t count_wrong(const process *p, uint32_t rounds)
{
    float tolerance = tolerance_of(p->b, p->b->sum_only ? 1 : rounds);
    /* Of weights that come in 16 bits: half a unit of bfloat16's last place, and float32's. */
    float rounding = p->b->config.compress_weights != PSR_COMPRESS_WEIGHTS_NONE ? 0x1.01p-8f : 0;
    uint32_t wrong = 0;
    for (size_t t = 0; t < p->b->layout.tensor_count; t++) {
        const psr_tensor *tensor = &p->b->layout.tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
            float sum = 0;
            for (uint32_t r = 0; r < p->b->config.workers; r++)
                sum += gradient_at(r, i);
            float want = p->b->sum_only ? sum : sum * (float)rounds - owed_at(p->b, i);
            float got = p->b->sum_shared ? p->weights[i]
                        : p->b->sum_only ? p->gradients[i]
                                         : p->weights[i] / -LR;
            wrong += !(fabsf(got - want) <= tolerance + rounding * fabsf(want));
        }
    }
    return wrong;
}

/* Or wakes without one: a loan came back. The product's loop (comm/loop.h) has a thread of its own, and to hand over to it and back would
 * be half of what a small exchange takes. */
static void take_message(process *p)
{
    psr_message *message = NULL;
    psr_err err = psr_transport_recv(p->transport, 60000, &message);
    if (err == PSR_ERR_CANCELLED)
        return;
    must(err, "receiving");
    must(p->ops->message(p->engine, &message), "an engine's message");
}

static void exchange_once(process *p, uint64_t step)
{
    p->landed = 0;
    for (uint32_t k = 0; k < p->b->buckets.count; k++)
        must(p->ops->ready(p->engine, step, k), "ready");
    while (p->landed < p->b->buckets.count)
        take_message(p);
}

static bool all_given_back(const process *p)
{
    for (uint32_t k = 0; k < p->b->buckets.count; k++)
        if (p->ops->lent(p->engine, k))
            return false;
    return true;
}

/* The round is over everywhere, but libzmq's thread may still be giving slices back, and the transport what this process was lent. */
static void await_loans(process *p)
{
    atomic_store(&p->waits_for_loans, true);
    psr_transport_wake(p->transport);
    do
        take_message(p);
    while (!all_given_back(p));
    atomic_store(&p->waits_for_loans, false);
}

static void worker_main(const bench *b, uint32_t index, int link)
{
    process p = {.b = b, .self = member_peer(b, index)};
    join(&p, index, link);
    p.weights = p.held.values;
    if (p.weights == NULL)
        must(psr_arena_new(b->layout.length, &p.weights), "memory for the weights");
    p.gradients = p.shared.values;
    if (p.gradients == NULL)
        must(psr_arena_new(b->layout.length, &p.gradients), "memory for the gradients");
    memset(p.gradients, 0, b->layout.length * sizeof(float));
    must(psr_engine_choose(&b->config, &b->plan, &p.ops), "an engine");
    psr_optimizer *optimizer = NULL;
    if (b->config.mode == PSR_MODE_RING && !b->sum_only)
        must(psr_optimizer_new(&b->config, &b->layout, &optimizer), "an optimizer");
    float *residual = b->owed != NULL ? b->owed + (size_t)p.self.rank * b->layout.length : NULL;
    psr_engine_env env = {.config = &b->config,
                          .layout = &b->layout,
                          .buckets = &b->buckets,
                          .plan = &b->plan,
                          .rank = p.self.rank,
                          .total_steps = UINT64_MAX,
                          .weights = p.weights,
                          .gradients = p.gradients,
                          .in_place = p.shared.values != NULL,
                          .residuals = residual != NULL ? &residual : NULL,
                          .optimizer = optimizer,
                          .sums_to_weights = b->sum_shared,
                          .outbox = {&p, send_of_worker, wake_who_waits, lends_to},
                          .context = &p,
                          .landed = on_landed};
    must(p.ops->open(&env, &p.engine), "an engine");
    if (b->config.mode == PSR_MODE_PS && p.self.rank == 0)
        must(psr_table_write(&b->plan, &env.outbox, 0, 0, p.weights), "INIT");
    uint64_t rounds = b->warmup + b->rounds, all = rounds + settles(b);
    for (uint64_t round = 0; round < all; round++) {
        char go;
        await_loans(&p);
        if (round < rounds)
            fill_gradients(&p);
        else
            memset(p.gradients, 0, b->layout.length * sizeof(float));
        write_all(link, "r", 1);
        read_all(link, &go, 1);
        answer a = {.begin_ns = psr_clock_ns()};
        exchange_once(&p, round);
        a.end_ns = psr_clock_ns();
        a.wrong = round + 1 == all ? count_wrong(&p, (uint32_t)rounds) : 0;
        write_all(link, &a, sizeof a);
    }
    char bye;
    (void)!read(link, &bye, 1); /* stays until all are through: its messages may still be on their way */
    _exit(0);
}

/* ---- the parent ---- */

static void start_members(const bench *b, member *members)
{
    pid_t parent = getpid();
    for (uint32_t i = 0; i < b->members; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
            die("socketpair");
        members[i] = (member){.pid = fork(), .link = pair[0]};
        if (members[i].pid < 0)
            die("fork");
        if (members[i].pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            cpu_set_t cpus;
            CPU_ZERO(&cpus);
            CPU_SET((int)(i % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)), &cpus);
            if (b->pin && sched_setaffinity(0, sizeof cpus, &cpus))
                die("pinning");
            if (member_peer(b, i).role == PSR_ROLE_SHARD)
                shard_main(b, i, pair[1]);
            else
                worker_main(b, i, pair[1]);
        }
        close(pair[1]);
    }
    places *of = calloc(b->members, sizeof *of);
    if (!of)
        die("memory");
    for (uint32_t i = 0; i < b->members; i++)
        read_all(members[i].link, &of[i], sizeof of[i]);
    for (uint32_t i = 0; i < b->members; i++)
        write_all(members[i].link, of, b->members * sizeof *of);
    free(of);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* One round's milliseconds. */
static double run_round(const bench *b, const member *members, uint32_t *wrong)
{
    uint32_t first = b->members - b->config.workers;
    int64_t begin = INT64_MAX, end = 0;
    char ready;
    for (uint32_t i = first; i < b->members; i++)
        read_all(members[i].link, &ready, 1);
    for (uint32_t i = first; i < b->members; i++)
        write_all(members[i].link, "g", 1);
    for (uint32_t i = first; i < b->members; i++) {
        answer a;
        read_all(members[i].link, &a, sizeof a);
        begin = a.begin_ns < begin ? a.begin_ns : begin;
        end = a.end_ns > end ? a.end_ns : end;
        *wrong += a.wrong;
    }
    return (double)(end - begin) / 1e6;
}

/* busbw over algbw, as nccl-tests derives it: what the busiest link carries in one direction, in units of the exchanged bytes, each
 * process with a link of its own (docs/algorithms.md). 0: none, since nothing crosses a link. */
static double bus_factor(const bench *b)
{
    double n = b->config.workers, s = b->config.shards;
    if (b->config.mode == PSR_MODE_PS)
        return n > s ? n / s : 1;
    if (b->plan.hosts.count > 1) /* each host with a link of its own */
        return (n - 1) / n + (double)(b->hosts - 1) / b->hosts;
    return 2 * (n - 1) / n;
}

static int run(bench *b)
{
    member *members = calloc(b->members, sizeof *members);
    double *ms = calloc(b->rounds, sizeof *ms);
    uint32_t wrong = 0;
    if (!members || !ms)
        die("memory");
    start_members(b, members);
    for (uint32_t i = 0; i < b->members - b->config.workers;
         i++) { /* shards: the initial weights have come */
        char initialised;
        read_all(members[i].link, &initialised, 1);
    }
    for (uint32_t i = 0; i < b->warmup; i++)
        (void)run_round(b, members, &wrong);
    for (uint32_t i = 0; i < b->rounds; i++)
        ms[i] = run_round(b, members, &wrong);
    if (settles(b))
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
    printf("{\"mode\":\"%s\",\"workers\":%u,\"shards\":%u,\"bytes\":%.0f,\"buckets\":%u,\"rounds\":%u,\"min_"
           "ms\":%.2f,\"median_ms\":%.2f,"
           "\"max_ms\":%.2f,\"algbw_gb_s\":%.2f,%s,\"wrong\":%u}\n",
           b->config.mode == PSR_MODE_PS ? "ps" : "ring", b->config.workers, b->members - b->config.workers,
           bytes, b->buckets.count, b->rounds, ms[0], median, ms[b->rounds - 1], bytes / median / 1e6, busbw,
           wrong);
    free(ms);
    free(members);
    return wrong ? 1 : 0;
}

static size_t owed_bytes(const bench *b)
{
    return (size_t)b->config.workers * b->layout.length * sizeof(float);
}

static psr_err share_owed(bench *b)
{
    if (!psr_plan_has_residual(&b->plan))
        return PSR_OK;
    if (b->sum_only)
        return psr_fail(PSR_ERR_USAGE,
                        "--sum-only: what --compress %s owes is checked by the weights; leave one out",
                        b->config.compress);
    if (settles(b))
        return psr_fail(PSR_ERR_USAGE, "--compress %s: what is owed is checked with --sync bsp alone",
                        b->config.compress);
    void *memory = mmap(NULL, owed_bytes(b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what %u workers owe", b->config.workers);
    b->owed = memory;
    return PSR_OK;
}

/* Where the processes of each host meet. */
static psr_err make_directories(bench *b)
{
    b->sockets = calloc(b->hosts, sizeof *b->sockets);
    if (b->sockets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u hosts", b->hosts);
    for (uint32_t h = 0; h < b->hosts; h++)
        b->sockets[h] = PSR_SOCKET_DIRECTORY_NONE;
    if (b->config.transport != PSR_TRANSPORT_IPC && !shares_memory(b))
        return PSR_OK;
    for (uint32_t h = 0; h < b->hosts; h++)
        PSR_TRY(psr_socket_directory_make(NULL, &b->sockets[h]));
    return PSR_OK;
}

static psr_err plan(bench *b)
{
    if (b->bytes) {
        uint32_t shape[] = {(uint32_t)(b->bytes / sizeof(float))};
        PSR_TRY(psr_layout_add(&b->layout, "tensor", 1, shape));
    } else {
        PSR_TRY(psr_network_new(b->config.model, 1000, 3, 224, 224, b->config.shortcut, &b->net));
        b->layout = b->net->params;
    }
    PSR_TRY(psr_buckets_plan(&b->layout, psr_bucket_bytes(&b->layout, b->config.bucket_bytes), &b->buckets));
    uint32_t shards = b->config.mode == PSR_MODE_PS ? b->config.shards : 0;
    b->members = shards + b->config.workers;
    uint32_t first[HOSTS_MAX + 1];
    for (uint32_t h = 0; h <= b->hosts; h++) /* the ranks of which host_of says h begin there */
        first[h] = (h * b->config.workers + b->hosts - 1) / b->hosts;
    const psr_host_ranks hosts = {b->hosts, first};
    PSR_TRY(psr_parts_plan(&b->config, &b->buckets, shares_memory(b) ? &hosts : NULL, &b->plan));
    if (b->sum_shared && !b->plan.homes_are_workers)
        return psr_fail(PSR_ERR_USAGE,
                        "--sum-shared: one sum for all lies in shared memory; it needs --transport shm, two "
                        "workers and --compress none");
    PSR_TRY(share_owed(b));
    bool encrypted = b->config.transport == PSR_TRANSPORT_TCP && b->config.bare == PSR_BARE_NOWHERE;
    PSR_TRY(psr_keys_generate(b->config.workers, shards, encrypted, &b->keys, &b->key_count));
    for (size_t i = 0; i < b->key_count; i++)
        b->keys[i].bare = !encrypted;
    return make_directories(b);
}

static void bench_done(bench *b)
{
    for (size_t i = 0; i < b->key_count; i++)
        psr_keys_done(&b->keys[i]);
    free(b->keys);
    for (uint32_t h = 0; b->sockets != NULL && h < b->hosts; h++)
        psr_socket_directory_remove(&b->sockets[h]);
    free(b->sockets);
    if (b->owed != NULL)
        munmap(b->owed, owed_bytes(b));
    psr_plan_done(&b->plan);
    psr_buckets_done(&b->buckets);
    if (b->net == NULL)
        psr_layout_done(&b->layout);
    psr_network_free(b->net);
}

enum { KEY_BYTES = 1000, KEY_ROUNDS, KEY_WARMUP, KEY_PIN, KEY_SUM_ONLY, KEY_SUM_SHARED, KEY_HOSTS };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench *b = state->input;
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
        if (b->hosts < 1 || b->hosts > HOSTS_MAX)
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
        {"sum-shared", KEY_SUM_SHARED, NULL, 0, "the same, but all workers read one sum (--transport shm)",
         1},
        {"hosts", KEY_HOSTS, "N", 0,
         "emulate so many: memory is shared among the workers of each, whose ranks are consecutive, and "
         "--transport auto or tcp goes between them",
         1},
        {0}};
    psr_memory_keep_pages();
    bench b = {.rounds = 11, .warmup = 3, .hosts = 1};
    psr_config_defaults(&b.config);
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    if (!table)
        die("memory");
    const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 2}, {0}};
    const struct argp argp = {options,
                              parse,
                              NULL,
                              "Times the exchange alone and prints one JSON object. --transport auto is tcp "
                              "here, not encrypted, as its peers are; tcp is encrypted, or not with "
                              "--no-encrypt.\vExample:\n"
                              "  bench_exchange --mode ring --model resnet50 --workers 2 --rounds 21\n",
                              children,
                              NULL,
                              NULL};
    psr_options_parse(&argp, argc, argv, 0, NULL, &b);
    psr_options_argp_free(table);
    if (b.config.mode != PSR_MODE_PS && b.config.mode != PSR_MODE_RING) {
        fprintf(stderr, "bench_exchange: --mode: only ps and ring exchange anything\n");
        return 2;
    }
    if (b.sum_only && b.config.mode != PSR_MODE_RING) {
        fprintf(
            stderr,
            "bench_exchange: --sum-only: it is in the shards that parameter servers sum; take --mode ring\n");
        return 2;
    }
    b.config.lr = LR;
    b.config.momentum = 0;
    b.config.weight_decay = 0;
    b.config.optimizer = PSR_OPTIMIZER_SGD;
    b.config.schedule = PSR_SCHEDULE_CONSTANT;
    b.config.warmup = 0;
    b.config.steps = b.rounds + b.warmup + 1;
    bool over_tcp = b.config.transport == PSR_TRANSPORT_TCP || b.config.transport == PSR_TRANSPORT_AUTO;
    if (b.hosts > 1 && (!over_tcp || b.hosts > b.config.workers)) {
        fprintf(stderr,
                "bench_exchange: --hosts: it goes with --transport auto or tcp, and a worker on each\n");
        return 2;
    }
    psr_err err = psr_network_check(&b.config);
    if (!err)
        err = psr_config_check(&b.config);
    if (!err)
        err = plan(&b);
    int status = psr_err_exit_status(err);
    if (err)
        fprintf(stderr, "bench_exchange: %s\n", psr_err_detail());
    else
        status = run(&b);
    bench_done(&b);
    return status;
}
