/* A whole table in one process: workers and shards on a network that delays and repeats by a seed,
 * with the updates that come with comm. What must come out is computed here by lines of their own.
 * Then a worker's end by hand. */
#include "tests/unit/network_fixture.h"
#include "tests/unit/seeds.h"

#include "base/rng.h"
#include "comm/tables/table.h"
#include "comm/tables/table_shard.h"
#include "comm/wire/messages.h"

#include <math.h>

enum { WORKERS_MAX = 8, SHARDS_MAX = 3, PARTS_MAX = 8, STEPS_MAX = 4, TABLE_MAX = 2048 };

typedef struct setup {
    uint32_t workers, shards, window, steps;
    size_t slice_floats;
    size_t lengths[PARTS_MAX]; /* from the table's end; ends at 0 */
    psr_consistency consistency;
    bool by_arrival;
    const char *update;
    const char *compression; /* NULL: none */
    uint32_t delay_max_us, duplicate_permille;
    uint64_t seed;
} setup;

typedef struct cluster cluster;

typedef struct worker {
    cluster *cluster;
    uint32_t rank;
    psr_transport *transport;
    psr_table *table;
    float pushed[TABLE_MAX], values[TABLE_MAX], residual[TABLE_MAX];
    uint64_t started[PARTS_MAX], landed[PARTS_MAX]; /* rounds */
    uint64_t pushes[SHARDS_MAX];                    /* sent to each */
    uint64_t staleness;
} worker;

typedef struct shard {
    cluster *cluster;
    uint32_t rank;
    psr_transport *transport;
    psr_table_shard *table;
    uint64_t taken[WORKERS_MAX]; /* pushes of each, repeated ones not counted */
} shard;

struct cluster {
    setup setup;
    psr_plan plan;
    psr_sim *sim;
    worker workers[WORKERS_MAX];
    shard shards[SHARDS_MAX];
    uint64_t draws;
    psr_compression compression;
    float sent[WORKERS_MAX][STEPS_MAX][TABLE_MAX]; /* what shards must decode of a
                                                      worker's gradient of a step */
};

static uint32_t draw(cluster *c, uint32_t bound)
{
    psr_rng_at at = {.seed = c->setup.seed, .purpose = PSR_RNG_TEST, .layer = 1};
    return psr_rng_below(at, &c->draws, bound);
}

static float initial(size_t i)
{
    return (float)(i % 7);
}

static bool is_whole(const setup *s)
{
    return s->by_arrival || s->consistency.kind != PSR_CONSISTENCY_BSP;
}

/* Folded by rank, of very different sizes, so that the order of a sum shows in its bits; else whole
 * numbers, whose sum is the same in every order. */
static float gradient(const setup *s, uint32_t rank, uint64_t step, size_t i)
{
    psr_rng_at at = {.seed = s->seed,
                     .purpose = PSR_RNG_TEST,
                     .epoch = (uint32_t)step,
                     .sample = rank,
                     .layer = 2};
    uint32_t word = psr_rng_word(at, i);
    if (is_whole(s))
        return (float)(1 + word % 50);
    return ldexpf(psr_rng_unit(word) - 0.5f, (int)(word % 23) - 11);
}

/* The sum of element i of a part, chunk by chunk: from rank c + 1 on round to rank c. */
static float sum_of(const cluster *k, uint64_t step, psr_span part, size_t i)
{
    uint32_t n = k->setup.workers, c = 0;
    size_t at = i - part.offset;
    while (!(at >= part.count * c / n && at < part.count * (c + 1) / n))
        c++;
    float sum = k->sent[(c + 1) % n][step][i];
    for (uint32_t p = 2; p <= n; p++)
        sum = sum + k->sent[(c + p) % n][step][i];
    return sum;
}

static bool sums(const setup *s)
{
    return strcmp(s->update, "sum") == 0;
}

/* In BSP, after so many steps. */
static float expected(const cluster *c, uint64_t steps, psr_span part, size_t i)
{
    float value = initial(i);
    for (uint64_t step = 0; step < steps; step++)
        value = sums(&c->setup) ? value + sum_of(c, step, part, i) : sum_of(c, step, part, i);
    return value;
}

/* ---- what lands ---- */

static void check_bsp(const worker *w, uint64_t round, psr_span part)
{
    for (size_t i = part.offset; i < psr_span_end(part); i++) {
        float want = expected(w->cluster, round + 1, part, i);
        if (memcmp(&want, &w->values[i], sizeof want) != 0)
            fail_msg("n %u round %llu element %zu: %a rather than %a", w->cluster->setup.workers,
                     (unsigned long long)round, i, (double)w->values[i], (double)want);
    }
}

/* Values for the round that follows hold the worker's own pushes, of the others all but those that
 * the bound allows to be missing, and nothing that has not been pushed yet. */
static void check_relaxed(const worker *w, uint64_t round, uint32_t p, psr_span part)
{
    const cluster *c = w->cluster;
    const setup *s = &c->setup;
    uint64_t bound = s->consistency.kind == PSR_CONSISTENCY_SSP ? s->consistency.bound : s->steps;
    for (size_t i = part.offset; i < psr_span_end(part); i++) {
        float least = initial(i), most = initial(i);
        for (uint32_t r = 0; r < s->workers; r++)
            for (uint64_t step = 0; step < c->workers[r].started[p]; step++) {
                float pushed = c->sent[r][step][i];
                most += pushed;
                if (r == w->rank ? step <= round : step + bound <= round)
                    least += pushed;
            }
        assert_true(w->values[i] >= least && w->values[i] <= most);
    }
}

static void on_stale(void *context, uint64_t steps)
{
    worker *w = context;
    assert_true(steps > 0);
    w->staleness = steps > w->staleness ? steps : w->staleness;
}

static psr_err on_landed(void *context, uint64_t round, uint32_t p)
{
    worker *w = context;
    const setup *s = &w->cluster->setup;
    psr_span part = w->cluster->plan.buckets[p].span;
    assert_int_equal(w->landed[p]++, round);
    assert_int_equal(w->started[p], round + 1);
    assert_true(psr_table_done(w->table, p));
    if (s->consistency.kind == PSR_CONSISTENCY_BSP)
        check_bsp(w, round, part);
    else if (sums(s))
        check_relaxed(w, round, p, part);
    return PSR_OK;
}

/* ---- what is sent ---- */

static psr_err send_of_worker(void *context, psr_peer to, const psr_head *head,
                              const psr_payload *payload)
{
    worker *w = context;
    cluster *c = w->cluster;
    assert_int_equal(to.role, PSR_ROLE_SHARD);
    if (head->type == PSR_MSG_PUSH) {
        assert_non_null(payload->release); /* lent, never copied */
        assert_true(++w->pushes[to.rank] - c->shards[to.rank].taken[w->rank] <= c->setup.window);
    } else {
        assert_int_equal(head->type, PSR_MSG_PULL);
        assert_int_not_equal(c->setup.consistency.kind, PSR_CONSISTENCY_BSP);
    }
    return psr_transport_send(w->transport, to, head, payload);
}

static psr_err send_of_shard(void *context, psr_peer to, const psr_head *head,
                             const psr_payload *payload)
{
    shard *s = context;
    bool lent = payload != NULL && payload->release != NULL;
    /* where they lie, or a copy of the table's own */
    assert_int_equal(lent, head->type == PSR_MSG_WEIGHTS);
    return psr_transport_send(s->transport, to, head, payload);
}

/* ---- life ---- */

static void lay_out(cluster *c)
{
    psr_part parts[PARTS_MAX];
    uint32_t count = 0;
    size_t at = TABLE_MAX;
    for (; count < PARTS_MAX && c->setup.lengths[count] > 0; count++) {
        at -= c->setup.lengths[count] + 3; /* gaps that nobody may touch */
        parts[count] = (psr_part){{at, c->setup.lengths[count]}, count};
    }
    const psr_plan_options options = {.route = PSR_ROUTE_SHARD,
                                      .ranks = c->setup.workers,
                                      .shards = c->setup.shards,
                                      .slice_floats = c->setup.slice_floats,
                                      .window = c->setup.window,
                                      .compression = &c->compression};
    assert_ok(psr_plan_make(&options, parts, count, &c->plan));
}

/* The whole part as one message, and what a worker owes from step to step. */
static void encode_part(cluster *c, uint32_t rank, psr_span part)
{
    static float payload[2 * TABLE_MAX];
    float residual[TABLE_MAX] = {0};
    psr_encoder *encoder;
    assert_ok(psr_encoder_new(c->compression, part.count, &encoder));
    for (uint32_t step = 0; step < c->setup.steps; step++) {
        float *sent = c->sent[rank][step] + part.offset;
        psr_message message = {0};
        assert_ok(psr_encoder_prepare(
            encoder, sent, psr_compression_has_residual(c->compression) ? residual : NULL,
            part.count));
        const psr_payload said =
            psr_encode_slice(encoder, &message.head, (psr_span){0, part.count}, payload);
        message.payload = said.data;
        message.payload_bytes = said.bytes;
        assert_ok(psr_decode_slice(&message, c->compression, part.count, sent));
    }
    psr_encoder_free(&encoder);
}

static void encode_all(cluster *c)
{
    const setup *s = &c->setup;
    for (uint32_t r = 0; r < s->workers; r++) {
        for (uint32_t step = 0; step < s->steps; step++)
            for (size_t i = 0; i < TABLE_MAX; i++)
                c->sent[r][step][i] = gradient(s, r, step, i);
        for (uint32_t p = 0; p < c->plan.bucket_count && s->compression != NULL; p++)
            encode_part(c, r, c->plan.buckets[p].span);
    }
}

static void open_shard(cluster *c, uint32_t rank)
{
    shard *s = &c->shards[rank];
    s->cluster = c;
    s->rank = rank;
    assert_ok(psr_transport_sim_new(c->sim, (psr_peer){PSR_ROLE_SHARD, rank}, &s->transport));
    for (uint32_t r = 0; r < c->setup.workers; r++)
        assert_ok(psr_transport_connect(s->transport, (psr_peer){PSR_ROLE_WORKER, r}, "", NULL));
    const psr_table_shard_options options = {.plan = &c->plan,
                                             .shard = rank,
                                             .consistency = c->setup.consistency,
                                             .fold_by_arrival = c->setup.by_arrival,
                                             .update = c->setup.update,
                                             .end = c->setup.steps,
                                             .outbox = {.context = s, .send = send_of_shard}};
    assert_ok(psr_table_shard_new(&options, &s->table));
}

static void open_worker(cluster *c, uint32_t rank)
{
    worker *w = &c->workers[rank];
    w->cluster = c;
    w->rank = rank;
    assert_ok(psr_transport_sim_new(c->sim, (psr_peer){PSR_ROLE_WORKER, rank}, &w->transport));
    for (uint32_t s = 0; s < c->setup.shards; s++)
        assert_ok(psr_transport_connect(w->transport, (psr_peer){PSR_ROLE_SHARD, s}, "", NULL));
    const psr_table_options options = {.plan = &c->plan,
                                       .consistency = c->setup.consistency,
                                       .values = w->values,
                                       .residual = w->residual,
                                       .outbox = {.context = w, .send = send_of_worker},
                                       .context = w,
                                       .landed = on_landed,
                                       .stale = on_stale};
    assert_ok(psr_table_new(&options, &w->table));
    for (size_t i = 0; i < TABLE_MAX; i++)
        w->values[i] = w->pushed[i] = NAN;
}

static psr_err send_initial(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    assert_int_equal(head->type, PSR_MSG_INIT);
    assert_null(payload->release); /* copied */
    return psr_transport_send(context, to, head, payload);
}

static void give_initial_values(cluster *c)
{
    float values[TABLE_MAX];
    for (size_t i = 0; i < TABLE_MAX; i++)
        values[i] = initial(i);
    const psr_outbox outbox = {.context = c->workers[0].transport, .send = send_initial};
    assert_ok(psr_table_write(&c->plan, &outbox, 0, 0, values));
}

static bool deliver(cluster *c)
{
    psr_peer to;
    if (!psr_sim_step(c->sim, &to))
        return false;
    psr_message *message = NULL;
    if (to.role == PSR_ROLE_WORKER) {
        assert_ok(psr_transport_recv(c->workers[to.rank].transport, 0, &message));
        assert_ok(psr_table_message(c->workers[to.rank].table, &message));
    } else {
        shard *s = &c->shards[to.rank];
        assert_ok(psr_transport_recv(s->transport, 0, &message));
        uint32_t from = message->from.rank;
        s->taken[from] += message->head.type == PSR_MSG_PUSH;
        if (s->taken[from] > c->workers[from].pushes[to.rank]) /* a repeated one */
            s->taken[from] = c->workers[from].pushes[to.rank];
        assert_ok(psr_table_shard_message(s->table, &message));
    }
    assert_null(message);
    return true;
}

static cluster *build(const setup *s)
{
    cluster *c = calloc(1, sizeof *c);
    c->setup = *s;
    assert_ok(
        psr_compression_parse(s->compression != NULL ? s->compression : "none", &c->compression));
    lay_out(c);
    encode_all(c);
    psr_sim_faults faults = {.seed = s->seed,
                             .delay_max_us = s->delay_max_us,
                             .duplicate_permille = s->duplicate_permille};
    assert_ok(psr_sim_new(&faults, &c->sim));
    for (uint32_t r = 0; r < s->shards; r++)
        open_shard(c, r);
    for (uint32_t r = 0; r < s->workers; r++)
        open_worker(c, r);
    give_initial_values(c);
    while (deliver(c))
        ;
    for (uint32_t r = 0; r < s->shards; r++)
        assert_true(psr_table_shard_initialised(c->shards[r].table));
    return c;
}

static void destroy(cluster *c)
{
    for (uint32_t r = 0; r < c->setup.workers; r++)
        psr_transport_free(&c->workers[r].transport, 0);
    for (uint32_t r = 0; r < c->setup.shards; r++)
        psr_transport_free(&c->shards[r].transport, 0);
    psr_sim_free(c->sim);
    for (uint32_t r = 0; r < c->setup.workers; r++)
        psr_table_free(c->workers[r].table);
    for (uint32_t r = 0; r < c->setup.shards; r++)
        psr_table_shard_free(c->shards[r].table);
    psr_plan_done(&c->plan);
    free(c);
}

/* ---- a run ---- */

/* A random worker's next round of a random part, when its memory may be written. false: not now. */
static bool start_one(cluster *c)
{
    worker *w = &c->workers[draw(c, c->setup.workers)];
    uint32_t p = draw(c, c->plan.bucket_count);
    if (w->started[p] == c->setup.steps || !psr_table_done(w->table, p) ||
        psr_table_lent(w->table, p) > 0)
        return false;
    uint64_t round = w->started[p]++;
    psr_span part = c->plan.buckets[p].span;
    for (size_t i = part.offset; i < psr_span_end(part); i++)
        w->pushed[i] = gradient(&c->setup, w->rank, round, i);
    const psr_buffer buffer = {
        .data = w->pushed + part.offset, .count = part.count, .type = PSR_TYPE_FLOAT32};
    assert_ok(psr_table_start(w->table, p, round, &buffer));
    return true;
}

static bool done(const cluster *c)
{
    for (uint32_t r = 0; r < c->setup.workers; r++)
        for (uint32_t p = 0; p < c->plan.bucket_count; p++)
            if (c->workers[r].landed[p] < c->setup.steps)
                return false;
    return true;
}

/* Nothing is lost: what the table has of element i and what is still owed of it come to the
 * gradients. */
static void check_nothing_is_lost(const cluster *c, size_t i, float value)
{
    const setup *s = &c->setup;
    double gradients = initial(i), has = value, largest = 0;
    for (uint32_t r = 0; r < s->workers; r++) {
        has += c->workers[r].residual[i];
        for (uint32_t step = 0; step < s->steps; step++) {
            gradients += gradient(s, r, step, i);
            largest = fmax(largest, fabs(has));
        }
    }
    /* Whole numbers of top-k are exact; else every step rounds, and scales are those of the largest
     * value. */
    if (is_whole(s))
        assert_true(has == gradients);
    else
        assert_true(fabs(has - gradients) <= 1e-5 * (largest + 4096));
}

/* The shards have what all pushes come to, and only parts were written anywhere. */
static void check_end(cluster *c)
{
    const setup *s = &c->setup;
    for (uint32_t r = 0; r < s->shards; r++) {
        assert_true(psr_table_shard_finished(c->shards[r].table));
        assert_int_equal(psr_table_shard_clock(c->shards[r].table), s->steps);
    }
    for (uint32_t p = 0; p < c->plan.bucket_count && sums(s); p++) {
        psr_span part = c->plan.buckets[p].span;
        const float *values = psr_table_shard_values(c->shards[c->plan.buckets[p].home].table);
        for (size_t i = part.offset; i < psr_span_end(part); i++)
            assert_true(values[i] == expected(c, s->steps, part, i));
        for (size_t i = part.offset;
             psr_compression_has_residual(c->compression) && i < psr_span_end(part); i++)
            check_nothing_is_lost(c, i, values[i]);
    }
    size_t inside = 0;
    for (uint32_t p = 0; p < c->plan.bucket_count; p++)
        inside += c->plan.buckets[p].span.count;
    for (uint32_t r = 0; r < s->workers; r++) {
        psr_waiting waiting;
        uint32_t part;
        size_t written = 0;
        assert_false(psr_table_waits(c->workers[r].table, &waiting, &part));
        for (size_t i = 0; i < TABLE_MAX; i++)
            written += !isnan(c->workers[r].values[i]);
        assert_int_equal(written, inside);
    }
}

static void run(const setup *s)
{
    cluster *c = build(s);
    for (unsigned idle = 0; !done(c);) {
        bool moved = draw(c, 4) == 0 ? start_one(c) : deliver(c);
        idle = moved ? 0 : idle + 1;
        assert_true(idle < 10000); /* nobody waits for ever */
    }
    while (deliver(c)) /* credit, and what comes twice */
        ;
    uint64_t staleness = 0;
    for (uint32_t r = 0; r < s->workers; r++) {
        const uint64_t most = c->workers[r].staleness;
        staleness = most > staleness ? most : staleness;
    }
    if (s->consistency.kind == PSR_CONSISTENCY_BSP)
        assert_int_equal(staleness, 0);
    if (s->consistency.kind == PSR_CONSISTENCY_SSP)
        assert_in_range(staleness, 0, s->consistency.bound);
    check_end(c);
    destroy(c);
}

static const uint32_t worlds[] = {1, 2, 3, 5, 8};

static void run_all(setup s)
{
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++)
        for (uint64_t seed = 1; seed <= seeds_of(9); seed++) {
            s.workers = worlds[w];
            s.shards = 1 + (uint32_t)seed % 3;
            s.window = 1 + (uint32_t)seed % 4;
            s.steps = STEPS_MAX;
            s.delay_max_us = (uint32_t)(seed % 3) * 20;
            s.duplicate_permille = seed % 2 ? 0 : 200;
            s.seed = seed;
            run(&s);
        }
}

static void sum_in_bsp_has_the_bits_of_the_fold(void **state)
{
    (void)state;
    run_all((setup){.update = "sum", .slice_floats = 16, .lengths = {300, 64, 13, 177, 1, 2, 7}});
    run_all((setup){.update = "sum", .slice_floats = 5, .lengths = {33, 101}});
}

static void assign_in_bsp_leaves_the_sum_of_a_step(void **state)
{
    (void)state;
    run_all((setup){.update = "assign", .slice_floats = 16, .lengths = {100, 3, 40}});
}

static void a_fold_by_arrival_sums_the_same_numbers(void **state)
{
    (void)state;
    run_all(
        (setup){.update = "sum", .by_arrival = true, .slice_floats = 16, .lengths = {100, 3, 40}});
}

static void ssp_lets_values_lack_no_more_than_its_bound(void **state)
{
    (void)state;
    for (uint32_t bound = 0; bound < 3; bound++)
        run_all((setup){.update = "sum",
                        .consistency = {PSR_CONSISTENCY_SSP, bound},
                        .slice_floats = 16,
                        .lengths = {50, 3, 40}});
}

static void async_waits_for_nobody_and_loses_nothing(void **state)
{
    (void)state;
    run_all((setup){.update = "sum",
                    .consistency = {PSR_CONSISTENCY_ASYNC, 0},
                    .slice_floats = 16,
                    .lengths = {50, 3, 40}});
}

static const char *const compressions[] = {"fp16", "bf16", "int8", "topk:0.1", "topk:1", "1bit"};

/* Shards, slices, delays and repeated messages change no bit: the unit is a worker's part. */
static void compressed_pushes_are_rounded_once_and_folded_as_float32(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof compressions / sizeof compressions[0]; i++) {
        run_all((setup){.update = "sum",
                        .compression = compressions[i],
                        .slice_floats = 16,
                        .lengths = {300, 64, 13, 177, 1, 2, 7}});
        run_all((setup){.update = "assign",
                        .compression = compressions[i],
                        .slice_floats = 5,
                        .lengths = {33, 101}});
    }
}

static void what_topk_leaves_out_is_owed_until_it_is_sent(void **state)
{
    (void)state;
    static const psr_consistency_kind kinds[] = {PSR_CONSISTENCY_BSP, PSR_CONSISTENCY_SSP,
                                                 PSR_CONSISTENCY_ASYNC};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        run_all((setup){.update = "sum",
                        .compression = "topk:0.1",
                        .consistency = {kinds[i], 1},
                        .by_arrival = kinds[i] == PSR_CONSISTENCY_BSP,
                        .slice_floats = 16,
                        .lengths = {50, 3, 40}});
}

/* ---- a worker's end, its shards played by hand ---- */

enum { SENT_MAX = 64 };

typedef struct bench {
    psr_plan plan;
    psr_consistency consistency;
    uint64_t first_step;
    psr_table *table;
    float pushed[64], values[64];
    struct {
        psr_peer to;
        psr_head head;
        psr_payload payload;
    } sent[SENT_MAX];
    uint32_t sent_count, landed;
    uint64_t staleness;
    bool lends; /* to shard 0 */
    bool homes_are_workers;
} bench;

static psr_err keep(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    bench *b = context;
    assert_true(b->sent_count < SENT_MAX);
    b->sent[b->sent_count].to = to;
    b->sent[b->sent_count].head = *head;
    if (payload != NULL)
        b->sent[b->sent_count].payload = *payload;
    b->sent_count++;
    return PSR_OK;
}

static void keep_staleness(void *context, uint64_t steps)
{
    ((bench *)context)->staleness = steps;
}

static psr_err count_landed(void *context, uint64_t round, uint32_t part)
{
    bench *b = context;
    (void)round, (void)part;
    b->landed++;
    return PSR_OK;
}

static bool lends_to_first(void *context, psr_peer to)
{
    return ((const bench *)context)->lends && to.rank == 0;
}

static const psr_host_ranks one_host = {1, (uint32_t[]){0, 2}};

/* Parts 0: [36, 48) and 1: [12, 24) on shard 0, 2: [0, 12) on shard 1; slices of 4. 3 goes by
 * ring. */
static void bench_open(bench *b, uint32_t window)
{
    static const psr_plan_bucket buckets[] = {
        {.span = {36, 12},
         .route = PSR_ROUTE_SHARD,
         .home = 0,
         .compression.encoding = PSR_ENCODING_FLOAT32},
        {.span = {12, 12},
         .route = PSR_ROUTE_SHARD,
         .home = 0,
         .compression.encoding = PSR_ENCODING_FLOAT32},
        {.span = {0, 12},
         .route = PSR_ROUTE_SHARD,
         .home = 1,
         .compression.encoding = PSR_ENCODING_FLOAT32},
        {.span = {24, 12}, .route = PSR_ROUTE_RING, .compression.encoding = PSR_ENCODING_FLOAT32},
    };
    const psr_plan_options limits = {.ranks = 2,
                                     .shards = 2,
                                     .hosts = b->homes_are_workers ? &one_host : NULL,
                                     .slice_floats = 4,
                                     .window = window};
    psr_plan_bucket held[4];
    for (int i = 0; i < 4; i++) {
        held[i] = buckets[i];
        if (b->homes_are_workers && held[i].route == PSR_ROUTE_SHARD)
            held[i].route = PSR_ROUTE_HOST;
    }
    assert_ok(psr_plan_of(&limits, held, 4, &b->plan));
    const psr_table_options options = {
        .plan = &b->plan,
        .by_host = b->homes_are_workers,
        .first_step = b->first_step,
        .consistency = b->consistency,
        .values = b->values,
        .outbox = {.context = b, .send = keep, .lends_to = lends_to_first},
        .context = b,
        .landed = count_landed,
        .stale = keep_staleness};
    assert_ok(psr_table_new(&options, &b->table));
}

static void bench_close(bench *b)
{
    for (uint32_t i = 0; i < b->sent_count; i++)
        if (b->sent[i].payload.release != NULL)
            b->sent[i].payload.release(b->sent[i].payload.context);
    for (uint32_t p = 0; p < b->plan.bucket_count; p++)
        b->plan.buckets[p].route = PSR_ROUTE_NONE;
    psr_table_free(b->table);
    psr_plan_done(&b->plan);
}

static void start(bench *b, uint32_t part, uint64_t round)
{
    psr_span span = b->plan.buckets[part].span;
    const psr_buffer buffer = {
        .data = b->pushed + span.offset, .count = span.count, .type = PSR_TYPE_FLOAT32};
    assert_ok(psr_table_start(b->table, part, round, &buffer));
}

/* What a shard may say, and how. */
typedef struct said {
    psr_peer from;
    psr_message_type type;
    psr_msg_weights weights;
    psr_encoding encoding;
    size_t bytes;
} said;

static psr_err give(bench *b, const said *s)
{
    static const float values[16] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
    psr_message *message = calloc(1, sizeof *message);
    *message = (psr_message){.from = s->from, .payload = values, .payload_bytes = s->bytes};
    if (s->type == PSR_MSG_ACK)
        message->head = psr_msg_ack_head(s->weights.received);
    else
        message->head = psr_msg_weights_head(&s->weights);
    message->head.type = s->type;
    message->head.encoding = s->encoding;
    message->release = (void (*)(psr_message *))free;
    psr_err err = psr_table_message(b->table, &message);
    assert_null(message);
    return err;
}

static said answer(uint32_t from, uint32_t part, uint64_t step, size_t offset, uint64_t received)
{
    return (said){
        .from = {PSR_ROLE_SHARD, from},
        .type = PSR_MSG_WEIGHTS,
        .weights = {.bucket = part, .step = step, .span = {offset, 4}, .received = received},
        .encoding = PSR_ENCODING_FLOAT32,
        .bytes = 4 * sizeof(float)};
}

static psr_err acknowledge(bench *b, uint32_t from, uint64_t received)
{
    const said s = {
        .from = {PSR_ROLE_SHARD, from}, .type = PSR_MSG_ACK, .weights = {.received = received}};
    return give(b, &s);
}

static psr_msg_push push_said(const bench *b, uint32_t sent)
{
    psr_message message = {.head = b->sent[sent].head};
    psr_msg_push says;
    assert_int_equal(message.head.type, PSR_MSG_PUSH);
    assert_ok(psr_msg_push_read(&message, &says));
    return says;
}

static void what_a_table_begins_with_goes_to_the_shard_that_holds_it(void **state)
{
    (void)state;
    bench b = {0};
    float states[48];
    bench_open(&b, 2);
    const psr_outbox outbox = {.context = &b, .send = keep};
    assert_ok(psr_table_write(&b.plan, &outbox, 9, 2, states));
    assert_int_equal(b.sent_count, 9); /* what goes by ring is no shard's */
    for (uint32_t i = 0; i < 9; i++) {
        psr_message message = {.head = b.sent[i].head};
        psr_msg_init says;
        assert_int_equal(message.head.type, PSR_MSG_INIT);
        assert_ok(psr_msg_init_read(&message, &says));
        assert_int_equal(says.bucket, i / 3);
        assert_int_equal(says.step, 9);
        assert_int_equal(says.section, 2);
        assert_int_equal(says.span.offset, b.plan.buckets[i / 3].span.offset + i % 3 * 4);
        assert_true(psr_peer_equal(b.sent[i].to, (psr_peer){PSR_ROLE_SHARD, i >= 6}));
        assert_ptr_equal(b.sent[i].payload.data, states + says.span.offset);
        assert_int_equal(b.sent[i].payload.bytes, 4 * sizeof(float));
    }
    bench_close(&b);
}

static void what_is_lower_in_the_table_overtakes_what_is_not_sent_yet(void **state)
{
    (void)state;
    bench b = {0};
    bench_open(&b, 2);
    start(&b, 0, 5);
    assert_int_equal(b.sent_count, 2); /* the window */
    start(&b, 1, 5);
    assert_int_equal(b.sent_count, 2);
    start(&b, 2, 5); /* another shard's window */
    assert_int_equal(b.sent_count, 4);
    assert_ok(acknowledge(&b, 0, 2));
    assert_ok(acknowledge(&b, 0, 4));
    static const size_t offsets[] = {36, 40, 0, 4, 12, 16, 20, 44};
    assert_int_equal(b.sent_count, 8);
    for (uint32_t i = 0; i < 8; i++) {
        psr_msg_push says = push_said(&b, i);
        assert_int_equal(says.span.offset, offsets[i]);
        assert_int_equal(says.step, 5);
        assert_true(says.answer);
        assert_int_equal(b.sent[i].to.rank, says.bucket == 2);
        assert_ptr_equal(b.sent[i].payload.data, b.pushed + offsets[i]);
        assert_int_equal(b.sent[i].payload.bytes, 4 * sizeof(float));
    }
    bench_close(&b);
}

static void a_part_is_lent_from_its_start_until_all_of_it_has_left(void **state)
{
    (void)state;
    bench b = {0};
    bench_open(&b, 2);
    start(&b, 1, 0);
    assert_int_equal(psr_table_lent(b.table, 1), 3); /* one waits to be sent */
    assert_ok(acknowledge(&b, 0, 1));
    for (uint32_t i = 0; i < 3; i++) {
        b.sent[i].payload.release(b.sent[i].payload.context);
        b.sent[i].payload.release = NULL;
        assert_int_equal(psr_table_lent(b.table, 1), 2 - i);
    }
    assert_int_equal(psr_table_lent(b.table, 0), 0);
    bench_close(&b);
}

static void what_a_shard_reads_where_it_lies_has_a_wider_window(void **state)
{
    (void)state;
    bench b = {.lends = true};
    bench_open(&b, 1);
    start(&b, 2, 0);
    assert_int_equal(b.sent_count, 1); /* of three, to shard 1 */
    for (uint32_t part = 0; part < 2; part++)
        start(&b, part, 0);
    assert_int_equal(b.sent_count, 1 + 6);
    const said first = answer(1, 2, 0, 0, 1);
    assert_ok(give(&b, &first));
    assert_int_equal(b.sent_count, 2 + 6);
    bench_close(&b);
}

static void a_window_that_was_wider_holds_back_what_it_no_longer_lets_go(void **state)
{
    (void)state;
    bench b = {.lends = true};
    bench_open(&b, 1);
    start(&b, 0, 0);
    assert_int_equal(b.sent_count, 3);
    b.lends = false; /* shard 0 has hung up: messages go to it */
    start(&b, 1, 0);
    for (uint32_t received = 1; received < 3; received++) {
        const said s = answer(0, 0, 0, 36 + 4 * (received - 1), received);
        assert_ok(give(&b, &s));
        assert_int_equal(b.sent_count, 3);
    }
    const said third = answer(0, 0, 0, 44, 3);
    assert_ok(give(&b, &third));
    assert_int_equal(b.sent_count, 4);
    bench_close(&b);
}

static void it_waits_for_the_oldest_round_and_of_those_for_the_lowest(void **state)
{
    (void)state;
    bench b = {0};
    psr_waiting waiting;
    uint32_t part;
    bench_open(&b, 8);
    assert_false(psr_table_waits(b.table, &waiting, &part));
    start(&b, 2, 4);
    start(&b, 0, 3);
    start(&b, 1, 3);
    assert_true(psr_table_waits(b.table, &waiting, &part));
    assert_int_equal(part, 1);
    assert_int_equal(waiting.round, 3);
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_SHARD, 0}));
    for (size_t i = 0; i < 3; i++) {
        const said s = answer(0, 1, 3, 12 + 4 * i, 0);
        assert_false(psr_table_done(b.table, 1));
        assert_ok(give(&b, &s));
    }
    assert_true(psr_table_done(b.table, 1));
    assert_int_equal(b.landed, 1);
    assert_true(b.values[12] == 7 && b.values[23] == 7 && b.values[11] == 0 && b.values[24] == 0);
    assert_true(psr_table_waits(b.table, &waiting, &part));
    assert_int_equal(part, 0);
    bench_close(&b);
}

static void it_waits_for_a_shard_that_has_not_read_what_was_pushed(void **state)
{
    (void)state;
    bench b = {0};
    psr_waiting waiting = {{PSR_ROLE_WORKER, 9}, 0};
    uint32_t part = 9;
    bench_open(&b, 8);
    start(&b, 1, 3);
    for (size_t i = 0; i < 3; i++) {
        const said s = answer(0, 1, 3, 12 + 4 * i, 0);
        assert_ok(give(&b, &s));
    }
    assert_int_equal(b.landed, 1);
    assert_true(psr_table_waits(b.table, &waiting, &part));
    assert_true(part == 1 && waiting.round == 3);
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_SHARD, 0}));
    for (uint32_t i = 0; i < 3; i++) {
        b.sent[i].payload.release(b.sent[i].payload.context);
        b.sent[i].payload.release = NULL;
    }
    assert_false(psr_table_waits(b.table, &waiting, &part));
    bench_close(&b);
}

static void what_workers_hold_is_pushed_to_them_and_lands_from_them(void **state)
{
    (void)state;
    bench b = {.homes_are_workers = true};
    psr_waiting waiting = {{PSR_ROLE_SHARD, 9}, 0};
    uint32_t part = 9;
    bench_open(&b, 8);
    start(&b, 2, 3);
    assert_int_equal(b.sent_count, 3);
    assert_true(psr_peer_equal(b.sent[0].to, (psr_peer){PSR_ROLE_WORKER, 1}));
    assert_true(psr_table_waits(b.table, &waiting, &part));
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_WORKER, 1}));
    said s = answer(1, 2, 3, 0, 0);
    assert_fails(give(&b, &s), PSR_ERR_PROTOCOL, "that is a worker's to send");
    s.from.role = PSR_ROLE_WORKER;
    assert_ok(give(&b, &s));
    assert_true(b.values[0] == 7);
    s.from.rank = 0;
    assert_fails(give(&b, &s), PSR_ERR_PROTOCOL, "the bucket is worker 1's");
    bench_close(&b);
}

/* Gives a message that says something else than it should, or is from somebody else. */
#define REFUSED(detail, ...)                                                                       \
    do {                                                                                           \
        said s = answer(0, 1, 3, 12, 0);                                                           \
        __VA_ARGS__;                                                                               \
        assert_fails(give(&b, &s), PSR_ERR_PROTOCOL, detail);                                      \
    } while (0)

static void each_violation_of_the_protocol_gets_its_line_and_changes_nothing(void **state)
{
    (void)state;
    bench b = {0};
    bench_open(&b, 2);
    REFUSED("wire step 3, bucket 1, offset 12, count 4, staleness 0, received 0): 0 steps of it "
            "were pushed",
            (void)s);
    start(&b, 1, 3);
    REFUSED("worker 0 sent WEIGHTS", s.from.role = PSR_ROLE_WORKER);
    REFUSED("that is a shard's to send", s.from.role = PSR_ROLE_WORKER);
    REFUSED("that is a shard's to send", s.from.rank = 2);
    REFUSED("that is not for a worker", s.type = PSR_MSG_PUSH);
    REFUSED("there are 4 buckets", s.weights.bucket = 4);
    REFUSED("the bucket is shard 0's", s.from.rank = 1);
    REFUSED("the bucket is no shard's", s.weights.bucket = 3, s.weights.span.offset = 24);
    REFUSED("no slice of the bucket begins there", s.weights.span.offset = 13);
    REFUSED("no slice of the bucket begins there", s.weights.span.offset = 24);
    REFUSED("no slice of the bucket begins there", s.weights.span.offset = SIZE_MAX - 3);
    REFUSED("the slice has 4 floats", s.weights.span.count = 5);
    REFUSED("its payload has 12 bytes, not those of 4 values of float32", s.bytes = 12);
    REFUSED("its payload is in int8, not in float32", s.encoding = PSR_ENCODING_INT8);
    REFUSED("it has received 3 pushes of 2", s.weights.received = 3);
    REFUSED("it has received 1 pushes of 0", s.type = PSR_MSG_ACK, s.from.rank = 1,
            s.weights.received = 1);
    REFUSED("4 steps of it were pushed", s.weights.step = 4);
    REFUSED("3 steps of it were pushed", s.weights.span.offset = 20); /* the window keeps it back */
    assert_int_equal(b.sent_count, 2);
    for (size_t i = 0; i < 64; i++)
        assert_true(b.values[i] == 0);

    const said right = answer(0, 1, 3, 12, 2), older = answer(0, 1, 2, 12, 2);
    assert_ok(give(&b, &right));
    assert_int_equal(b.sent_count, 3); /* its credit */
    b.values[12] = 1;
    assert_ok(give(&b, &right)); /* comes again */
    assert_ok(give(&b, &older));
    assert_true(b.values[12] == 1 && b.values[13] == 7);
    assert_int_equal(b.landed, 0);
    bench_close(&b);
}

static psr_err show(bench *b, const psr_msg_init *says)
{
    static const float values[4] = {7, 7, 7, 7};
    psr_message *message = calloc(1, sizeof *message);
    *message = (psr_message){.from = {PSR_ROLE_SHARD, 0},
                             .head = psr_msg_init_head(says),
                             .payload = values,
                             .payload_bytes = sizeof values,
                             .release = (void (*)(psr_message *))free};
    message->head.encoding = PSR_ENCODING_FLOAT32;
    return psr_table_message(b->table, &message);
}

static void the_first_values_are_shown_before_any_others(void **state)
{
    static const char late[] = "these are not the values before the first step";
    (void)state;
    bench b = {.first_step = 3};
    bench_open(&b, 2);
    const psr_msg_init right = {.bucket = 1, .step = 3, .span = {12, 4}};
    psr_msg_init wrong = right;
    assert_ok(show(&b, &right));
    wrong.step = 2;
    assert_fails(show(&b, &wrong), PSR_ERR_PROTOCOL, late);
    wrong.step = 4;
    assert_fails(show(&b, &wrong), PSR_ERR_PROTOCOL, late);
    wrong = (psr_msg_init){.bucket = 1, .step = 3, .span = {12, 4}, .section = 1};
    assert_fails(show(&b, &wrong), PSR_ERR_PROTOCOL, late);
    wrong = (psr_msg_init){.bucket = 2, .step = 3, .span = {0, 4}};
    assert_fails(show(&b, &wrong), PSR_ERR_PROTOCOL, "the bucket is shard 1's");
    wrong = (psr_msg_init){.bucket = 1, .step = 3, .span = {13, 4}};
    assert_fails(show(&b, &wrong), PSR_ERR_PROTOCOL, "no slice of the bucket begins there");
    start(&b, 1, 3);
    assert_ok(show(&b, &right));
    for (size_t i = 0; i < 64; i++)
        assert_true(b.values[i] == 0); /* nothing is copied */
    const said weights = answer(0, 1, 3, 12, 1);
    assert_ok(give(&b, &weights));
    assert_fails(show(&b, &right), PSR_ERR_PROTOCOL, late);
    bench_close(&b);
}

static void who_pulls_is_shown_nothing(void **state)
{
    (void)state;
    bench b = {.consistency = {PSR_CONSISTENCY_SSP, 2}};
    bench_open(&b, 2);
    assert_fails(show(&b, &(psr_msg_init){.bucket = 1, .span = {12, 4}}), PSR_ERR_PROTOCOL,
                 "these are not the values before the first step");
    bench_close(&b);
}

static void values_that_are_older_than_ssps_bound_are_refused(void **state)
{
    (void)state;
    bench b = {.consistency = {PSR_CONSISTENCY_SSP, 2}};
    bench_open(&b, 2);
    start(&b, 1, 3);
    assert_int_equal(b.sent_count, 4); /* a pull behind each push */
    assert_int_equal(b.sent[1].head.type, PSR_MSG_PULL);
    assert_false(push_said(&b, 2).answer);
    REFUSED("its weights are 3 steps old, and the bound is 2", s.weights.step = 4,
            s.weights.staleness = 3);
    assert_true(b.values[12] == 0);
    said s = answer(0, 1, 4, 12, 0);
    s.weights.staleness = 2;
    assert_ok(give(&b, &s));
    assert_true(b.values[12] == 7);
    assert_int_equal(b.staleness, 2);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_in_bsp_has_the_bits_of_the_fold),
        cmocka_unit_test(assign_in_bsp_leaves_the_sum_of_a_step),
        cmocka_unit_test(a_fold_by_arrival_sums_the_same_numbers),
        cmocka_unit_test(ssp_lets_values_lack_no_more_than_its_bound),
        cmocka_unit_test(async_waits_for_nobody_and_loses_nothing),
        cmocka_unit_test(compressed_pushes_are_rounded_once_and_folded_as_float32),
        cmocka_unit_test(what_topk_leaves_out_is_owed_until_it_is_sent),
        cmocka_unit_test(what_a_table_begins_with_goes_to_the_shard_that_holds_it),
        cmocka_unit_test(what_is_lower_in_the_table_overtakes_what_is_not_sent_yet),
        cmocka_unit_test(a_part_is_lent_from_its_start_until_all_of_it_has_left),
        cmocka_unit_test(what_a_shard_reads_where_it_lies_has_a_wider_window),
        cmocka_unit_test(a_window_that_was_wider_holds_back_what_it_no_longer_lets_go),
        cmocka_unit_test(it_waits_for_the_oldest_round_and_of_those_for_the_lowest),
        cmocka_unit_test(it_waits_for_a_shard_that_has_not_read_what_was_pushed),
        cmocka_unit_test(what_workers_hold_is_pushed_to_them_and_lands_from_them),
        cmocka_unit_test(each_violation_of_the_protocol_gets_its_line_and_changes_nothing),
        cmocka_unit_test(the_first_values_are_shown_before_any_others),
        cmocka_unit_test(who_pulls_is_shown_nothing),
        cmocka_unit_test(values_that_are_older_than_ssps_bound_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
