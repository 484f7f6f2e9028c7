#include "bench/exchange/member.h"

#include "base/arrays/arena.h"
#include "base/clock.h"
#include "bench/exchange/check.h"
#include "bench/exchange/link.h"
#include "comm/view/plan.h"
#include "comm/tables/table.h"
#include "comm/tables/table_shard.h"
#include "model/optimizers/optimizer.h"
#include "net/transport.h"
#include "ps/shard/shard.h"
#include "worker/exchange/binding.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct process {
    const bench_run *b;
    psr_peer self;
    psr_transport *transport;
    /* What this process sends from: a worker's gradients, a shard's weights; and weights that a
     * worker holds. With shm */
    psr_shared_arena shared, held;
    /* of a worker */
    psr_binding *binding;
    float *weights, *gradients;
    uint32_t landed, fetched;
    atomic_bool waits_for_loans;
} process;

static psr_err send_message(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    return psr_transport_send(context, to, head, payload);
}

static psr_err send_of_worker(void *context, psr_peer to, const psr_head *head,
                              const psr_payload *payload)
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

static psr_err on_fetched(void *context, uint32_t bucket)
{
    process *p = context;
    (void)bucket;
    p->fetched++;
    return PSR_OK;
}

static void say_unshared(void *context, bool shared, const char *line)
{
    (void)context;
    if (!shared)
        fprintf(stderr, "bench_exchange: %s\n", line);
}

static void lend_from(const process *p, psr_shared_arena *arena)
{
    bench_must(psr_shared_arena_new(p->b->layout.length, arena), "shared memory");
    bench_must(psr_transport_lend_from(p->transport, arena), "lending memory");
}

static void fill_held(const process *p, const psr_shared_arena *arena)
{
    psr_span run;
    for (uint32_t b = p->b->plan.bucket_count;
         (run = psr_plan_next_run(&p->b->plan, p->self, true, &b)).count > 0;)
        psr_shared_arena_fill(arena, run);
}

/* What is sent lies in memory that is shared, when that is asked for. As in the product what a
 * process writes lies in huge pages. */
static void share_memory(process *p)
{
    if (!bench_shares_memory(p->b))
        return;
    bench_must(psr_transport_share(p->transport, say_unshared, NULL), "sharing memory");
    lend_from(p, &p->shared);
    if (p->self.role == PSR_ROLE_SHARD)
        fill_held(p, &p->shared);
    else
        psr_shared_arena_fill(&p->shared, (psr_span){0, p->b->layout.length});
    if (psr_plan_has_route(&p->b->plan, PSR_ROUTE_HOST)) {
        lend_from(p, &p->held);
        fill_held(p, &p->held);
    }
}

/* Binds, tells the parent, hears of everybody, connects to everybody. */
static void join(process *p, uint32_t index, int link)
{
    const bench_run *b = p->b;
    psr_zmq_options options = {.self = p->self,
                               .interface = b->meeting != NULL ? bench_meeting_interface(b->meeting)
                                                               : "127.0.0.1",
                               .keys = &b->keys[1 + index]};
    const char *directory =
        b->meeting != NULL ? b->sharing : b->sockets[bench_host_of(b, p->self)].path;
    const psr_transport_kind transport = b->config.transport;
    if (b->meeting != NULL ? transport == PSR_TRANSPORT_IPC || transport == PSR_TRANSPORT_SHM
                           : b->hosts == 1)
        options.directory = directory;
    else
        options.sharing = directory;
    bench_must(psr_transport_zmq_new(&options, &p->transport), "a transport");
    share_memory(p);
    bench_places own = {.endpoint = ""}, other;
    snprintf(own.endpoint, sizeof own.endpoint, "%s", psr_transport_endpoint(p->transport));
    snprintf(own.memory, sizeof own.memory, "%s", psr_transport_share_path(p->transport));
    bench_write(link, &own, sizeof own);
    for (uint32_t i = 0; i < b->members; i++) {
        bench_read(link, &other, sizeof other);
        if (i == index)
            continue;
        bench_must(psr_transport_connect(p->transport, bench_member_peer(b, i), other.endpoint,
                                         psr_keys_of(options.keys, bench_member_peer(b, i))),
                   "a connection");
        if (bench_host_of(b, bench_member_peer(b, i)) == bench_host_of(b, p->self))
            psr_transport_lend_to(p->transport, bench_member_peer(b, i), other.memory);
    }
}

static _Noreturn void shard_main(const bench_run *b, uint32_t index, int link)
{
    process p = {.b = b, .self = bench_member_peer(b, index)};
    join(&p, index, link);
    psr_shard_options options = {.config = &b->config,
                                 .layout = &b->layout,
                                 .plan = &b->plan,
                                 .shard = index,
                                 .total_steps = UINT64_MAX,
                                 .weights = p.shared.values,
                                 .readable = psr_plan_pulls_differences(&b->plan),
                                 .outbox = {.context = p.transport, .send = send_message}};
    psr_shard *shard;
    bench_must(psr_shard_new(&options, &shard), "a shard");
    psr_table_shard *table = psr_shard_table(shard);
    for (bool told = false;;) { /* until the parent ends it */
        if (!told && psr_table_shard_initialised(table)) {
            bench_write(link, "i", 1);
            told = true;
        }
        psr_message *message = NULL;
        bench_must(psr_transport_recv(p.transport, -1, &message), "receiving");
        bench_must(psr_table_shard_message(table, &message), "a shard's message");
    }
}

/* Or wakes without one: a loan came back. The product's loop (comm/loop.h) has a thread of its own,
 * and to hand over to it and back would be half of what a small exchange takes. */
static void take_message(process *p)
{
    psr_message *message = NULL;
    psr_err err = psr_transport_recv(p->transport, 60000, &message);
    if (err == PSR_ERR_CANCELLED)
        return;
    bench_must(err, "receiving");
    bench_must(psr_binding_message(p->binding, &message), "an engine's message");
}

static void exchange_once(process *p, uint64_t step)
{
    p->landed = 0;
    for (uint32_t k = 0; k < p->b->buckets.count; k++)
        bench_must(psr_binding_ready(p->binding, step, k), "ready");
    while (p->landed < p->b->buckets.count)
        take_message(p);
}

static bool all_given_back(const process *p)
{
    for (uint32_t k = 0; k < p->b->buckets.count; k++)
        if (psr_binding_lent(p->binding, k))
            return false;
    return true;
}

/* The round is over everywhere, but libzmq's thread may still be giving slices back, and the
 * transport what this process was lent. */
static void await_loans(process *p)
{
    atomic_store(&p->waits_for_loans, true);
    psr_transport_wake(p->transport);
    do
        take_message(p);
    while (!all_given_back(p));
    atomic_store(&p->waits_for_loans, false);
}

/* What the shards hold after so many rounds: array 0 is the weights, 1 what they have sent of them
 * (comm/tables/differences.h); this update has no state between the two. */
static void fetch(process *p, uint32_t rounds, uint32_t array, float *values)
{
    p->fetched = 0;
    for (uint32_t k = 0; k < p->b->buckets.count; k++)
        bench_must(psr_binding_fetch(p->binding, k, rounds, array,
                                     values + p->b->plan.buckets[k].span.offset),
                   "reading of the shards");
    while (p->fetched < p->b->buckets.count)
        take_message(p);
}

/* A worker whose weights are the sum of many differences lacks something of the shards' weights.
 * Those must be right, and the worker must have, to the bit, what the shards know that it has: so
 * what it lacks is all that is left to be sent. */
static uint32_t count_wrong(process *p, uint32_t rounds)
{
    const size_t length = p->b->layout.length;
    float *values = NULL;
    if (!psr_plan_pulls_differences(&p->b->plan))
        return bench_count_wrong(p->b, rounds, p->gradients, p->weights);
    bench_must(psr_arena_new(length, &values), "memory for the shards' weights");
    fetch(p, rounds, 1, values);
    uint32_t wrong = bench_count_unlike(p->b, p->weights, values);
    fetch(p, rounds, 0, values);
    wrong += bench_count_wrong(p->b, rounds, p->gradients, values);
    psr_arena_free(values, length);
    return wrong;
}

/* When all have ended the last round, and so what each owes is known. */
static void tell_wrong(process *p, int link, uint32_t rounds)
{
    char check;
    bench_read(link, &check, 1);
    const uint32_t wrong = count_wrong(p, rounds);
    bench_write(link, &wrong, sizeof wrong);
}

static _Noreturn void worker_main(const bench_run *b, uint32_t index, int link)
{
    process p = {.b = b, .self = bench_member_peer(b, index)};
    join(&p, index, link);
    p.weights = p.held.values;
    if (p.weights == NULL)
        bench_must(psr_arena_new(b->layout.length, &p.weights), "memory for the weights");
    p.gradients = p.shared.values;
    if (p.gradients == NULL)
        bench_must(psr_arena_new(b->layout.length, &p.gradients), "memory for the gradients");
    memset(p.gradients, 0, b->layout.length * sizeof(float));
    psr_ways ways = {.count = 0};
    bench_must(psr_engine_choose(&b->config, &b->plan, &ways), "ways");
    psr_optimizer *optimizer = NULL;
    if (b->config.mode == PSR_MODE_RING && !b->sum_only)
        bench_must(psr_optimizer_new(&b->config, &b->layout, &optimizer), "an optimizer");
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
                          .outbox = {&p, send_of_worker, wake_who_waits, lends_to, NULL},
                          .context = &p,
                          .landed = on_landed,
                          .fetched = on_fetched};
    bench_must(psr_binding_new(&ways, &env, &p.binding), "a binding");
    if (b->config.mode == PSR_MODE_PS && p.self.rank == 0)
        bench_must(psr_table_write(&b->plan, &env.outbox, 0, 0, p.weights), "INIT");
    uint64_t rounds = b->warmup + b->rounds, all = rounds + bench_settles(b);
    for (uint64_t round = 0; round < all; round++) {
        char go;
        await_loans(&p);
        if (round < rounds)
            bench_fill_gradients(b, p.self.rank, p.gradients);
        else
            memset(p.gradients, 0, b->layout.length * sizeof(float));
        bench_write(link, "r", 1);
        bench_read(link, &go, 1);
        psr_transport_counts before, after;
        psr_transport_counts_get(p.transport, &before);
        bench_answer a = {.begin_ns = psr_clock_ns()};
        exchange_once(&p, round);
        a.end_ns = psr_clock_ns();
        psr_transport_counts_get(p.transport, &after);
        a.bytes_sent = after.bytes_sent - before.bytes_sent;
        a.bytes_received = after.bytes_received - before.bytes_received;
        bench_write(link, &a, sizeof a);
    }
    tell_wrong(&p, link, (uint32_t)rounds);
    char bye;
    (void)!read(link, &bye, 1); /* stays until all are through: its
                                   messages may still be on their way */
    _exit(0);
}

_Noreturn void bench_member_main(const bench_run *b, uint32_t index, int link)
{
    if (bench_member_peer(b, index).role == PSR_ROLE_SHARD)
        shard_main(b, index, link);
    worker_main(b, index, link);
}
