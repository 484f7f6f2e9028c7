/* A whole ring in one process: every rank with its own arena, over a network that delays by a seed.
 * What must come out is summed here by lines of their own. */
#include "tests/unit/network_fixture.h"
#include "tests/unit/ring_values.h"
#include "tests/unit/seeds.h"

#include "base/rng.h"
#include "comm/wire/messages.h"
#include "comm/operations/ring.h"

#include <math.h>

enum { RANKS_MAX = 8, BUCKETS_MAX = 8, STEPS_MAX = 3, ARENA_MAX = 4096 };

typedef struct setup {
    uint32_t ranks, window, steps;
    size_t slice_floats;
    size_t lengths[BUCKETS_MAX]; /* ends at 0 */
    uint32_t delay_max_us;
    uint64_t seed;
    const char *compress; /* NULL: none */
} setup;

typedef struct cluster cluster;

typedef struct member {
    cluster *cluster;
    uint32_t rank;
    psr_transport *transport;
    psr_ring *ring;
    float arena[ARENA_MAX], residual[ARENA_MAX];
    uint64_t made_ready[BUCKETS_MAX], reduced[BUCKETS_MAX]; /* steps */
    uint32_t in_flight;
    uint64_t floats_sent;
} member;

/* What is to come out. Compressed: of rounding at every hop, by an encoder of this file's that is
 * given whole chunks. */
typedef struct expected {
    psr_encoder *encoder; /* NULL: nothing is rounded */
    uint32_t steps[BUCKETS_MAX];
    float sums[STEPS_MAX][ARENA_MAX];
    float residuals[RANKS_MAX][ARENA_MAX];
    double magnitudes[ARENA_MAX]; /* of all numbers that were rounded */
} expected;

struct cluster {
    setup setup;
    psr_compression compression;
    psr_plan plan;
    expected expected;
    psr_sim *sim;
    member members[RANKS_MAX];
    uint64_t draws;
};

static uint32_t draw(cluster *c, uint32_t bound)
{
    psr_rng_at at = {.seed = c->setup.seed, .purpose = PSR_RNG_TEST, .layer = 1};
    return psr_rng_below(at, &c->draws, bound);
}

/* Of very different sizes, so that the order of a sum shows in its bits. */
static float gradient(uint64_t seed, uint32_t rank, uint64_t step, size_t i)
{
    psr_rng_at at = {
        .seed = seed, .purpose = PSR_RNG_TEST, .epoch = (uint32_t)step, .sample = rank, .layer = 2};
    uint32_t word = psr_rng_word(at, i);
    return ldexpf(psr_rng_unit(word) - 0.5f, (int)(word % 23) - 11);
}

/* The sum of element i of a bucket, chunk by chunk: from rank c + 1 on round to rank c. */
static float expected_sum(const setup *s, uint64_t step, size_t offset, size_t length, size_t i)
{
    uint32_t n = s->ranks, c = 0;
    while (!(i >= length * c / n && i < length * (c + 1) / n))
        c++;
    float sum = gradient(s->seed, (c + 1) % n, step, offset + i);
    for (uint32_t k = 2; k <= n; k++)
        sum = sum + gradient(s->seed, (c + k) % n, step, offset + i);
    return sum;
}

/* What receivers decode of values, which rank sends. */
static void send_rounded(cluster *c, uint32_t rank, psr_span span, float *values)
{
    expected *e = &c->expected;
    uint64_t payload[ARENA_MAX + 2];
    float *residual =
        psr_compression_has_residual(c->compression) ? e->residuals[rank] + span.offset : NULL;
    assert_ok(psr_encoder_prepare(e->encoder, values, residual, span.count));
    psr_message message = {.payload = payload};
    message.payload_bytes =
        psr_encode_slice(e->encoder, &message.head, (psr_span){0, span.count}, payload).bytes;
    assert_ok(psr_decode_slice(&message, c->compression, span.count, values));
    for (size_t i = 0; i < span.count && residual != NULL; i++)
        e->magnitudes[span.offset + i] += fabs((double)values[i]) + fabs((double)residual[i]);
}

/* A chunk leaves rank c + 1, and each of n ranks on its way adds its own values and rounds what it
 * sends on, rank c too. */
static void expect_chunk(cluster *c, uint64_t step, uint32_t chunk, psr_span span)
{
    float *sum = c->expected.sums[step] + span.offset;
    uint32_t n = c->setup.ranks;
    for (uint32_t k = 1; k <= n; k++) {
        for (size_t i = 0; i < span.count; i++) {
            float own = gradient(c->setup.seed, (chunk + k) % n, step, span.offset + i);
            sum[i] = k == 1 ? own : sum[i] + own;
        }
        send_rounded(c, (chunk + k) % n, span, sum);
    }
}

static void expect_step(cluster *c, uint64_t step, uint32_t bucket)
{
    const psr_span *all = &c->plan.buckets[bucket].span;
    uint32_t n = c->setup.ranks;
    for (uint32_t chunk = 0; chunk < n && c->expected.encoder != NULL; chunk++) {
        size_t begin = all->count * chunk / n, end = all->count * (chunk + 1) / n;
        if (begin < end)
            expect_chunk(c, step, chunk, (psr_span){all->offset + begin, end - begin});
    }
    for (size_t i = 0; i < all->count && c->expected.encoder == NULL; i++)
        c->expected.sums[step][all->offset + i] =
            expected_sum(&c->setup, step, all->offset, all->count, i);
}

static ring_slice read_head(const psr_plan *plan, uint32_t sender, const psr_head *head)
{
    const ring_slice says = ring_slice_of(plan, sender, head);
    assert_true(says.chunk < plan->ranks);
    return says;
}

/* A chunk that has a residual goes as a whole. */
static uint32_t most_in_flight(const cluster *c)
{
    uint32_t longest = 1;
    for (uint32_t i = 0; i < c->plan.slice_count && psr_compression_has_residual(c->compression);
         i++) {
        const psr_slice *slice = &c->plan.slices[i];
        size_t before =
            slice->span.offset - psr_plan_chunk(&c->plan, slice->bucket, slice->chunk).offset;
        uint32_t slices = (uint32_t)(before / c->setup.slice_floats) + 1;
        longest = slices > longest ? slices : longest;
    }
    return c->setup.window - 1 + longest;
}

static psr_err send_on(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    member *m = context;
    assert_int_equal(head->type, PSR_MSG_VALUES);
    assert_true(
        psr_peer_equal(to, (psr_peer){PSR_ROLE_WORKER, (m->rank + 1) % m->cluster->setup.ranks}));
    const ring_slice says = read_head(&m->cluster->plan, m->rank, head);
    size_t most = psr_compression_bytes_max(m->cluster->compression, says.span.count);
    if (m->cluster->compression.encoding == PSR_ENCODING_TOPK)
        assert_in_range(payload->bytes, 0, most);
    else
        assert_int_equal(payload->bytes, most);
    assert_int_equal(head->encoding, psr_compression_is_none(m->cluster->compression)
                                         ? PSR_ENCODING_BYTES
                                         : m->cluster->compression.encoding);
    assert_non_null(payload->release); /* lent, never copied */
    assert_true(says.span.count <= m->cluster->setup.slice_floats);
    if (says.phase == PSR_RING_REDUCE && says.hop == 0)
        assert_true(++m->in_flight <= most_in_flight(m->cluster));
    m->floats_sent += says.span.count;
    return psr_transport_send(m->transport, to, head, payload);
}

/* This rank's gradient of the bucket is in the arena. */
static psr_err start(psr_ring *ring, uint64_t step, uint32_t bucket, float *arena,
                     const psr_plan *plan)
{
    psr_span span = plan->buckets[bucket].span;
    const psr_buffer buffer = {
        .data = arena + span.offset, .count = span.count, .type = PSR_TYPE_FLOAT32};
    return psr_ring_start(ring, bucket, step, &buffer);
}

static psr_err bucket_reduced(void *context, uint64_t step, uint32_t bucket)
{
    member *m = context;
    const psr_span *range = &m->cluster->plan.buckets[bucket].span;
    assert_int_equal(m->reduced[bucket]++, step);
    assert_int_equal(m->made_ready[bucket], step + 1);
    expected *e = &m->cluster->expected;
    if (e->steps[bucket] == step) {
        expect_step(m->cluster, step, bucket);
        e->steps[bucket]++;
    }
    for (size_t i = range->offset; i < psr_span_end(*range); i++)
        if (memcmp(&e->sums[step][i], &m->arena[i], sizeof m->arena[i]) != 0)
            fail_msg("%s, n %u step %llu bucket %u element %zu: %a rather than %a",
                     m->cluster->setup.compress, m->cluster->setup.ranks, (unsigned long long)step,
                     bucket, i - range->offset, (double)m->arena[i], (double)e->sums[step][i]);
    return PSR_OK;
}

static psr_err never_not_finite(void *context, uint64_t step, uint32_t bucket)
{
    (void)context;
    fail_msg("step %llu of bucket %u is not finite", (unsigned long long)step, bucket);
    return PSR_ERR_NUMERIC;
}

/* Buckets fill from the end of the arena; gaps between them, that nobody may touch. */
static void lay_out(cluster *c)
{
    psr_part parts[BUCKETS_MAX];
    uint32_t count = 0;
    size_t at = ARENA_MAX;
    for (; count < BUCKETS_MAX && c->setup.lengths[count] > 0; count++) {
        at -= c->setup.lengths[count] + 3;
        parts[count] = (psr_part){{at, c->setup.lengths[count]}, count};
    }
    const psr_plan_options options = {.route = PSR_ROUTE_RING,
                                      .ranks = c->setup.ranks,
                                      .slice_floats = c->setup.slice_floats,
                                      .window = c->setup.window,
                                      .compression = &c->compression};
    assert_ok(psr_compression_parse(c->setup.compress, &c->compression));
    assert_ok(psr_plan_make(&options, parts, count, &c->plan));
    if (!psr_compression_is_none(c->compression))
        assert_ok(psr_encoder_new(c->compression, ARENA_MAX, &c->expected.encoder));
}

static cluster *build(const setup *s)
{
    cluster *c = calloc(1, sizeof *c);
    c->setup = *s;
    c->setup.compress = s->compress != NULL ? s->compress : "none";
    lay_out(c);
    psr_sim_faults faults = {.seed = s->seed, .delay_max_us = s->delay_max_us};
    assert_ok(psr_sim_new(&faults, &c->sim));
    for (uint32_t r = 0; r < s->ranks; r++) {
        member *m = &c->members[r];
        *m = (member){.cluster = c, .rank = r};
        for (size_t i = 0; i < ARENA_MAX; i++)
            m->arena[i] = NAN;
        assert_ok(psr_transport_sim_new(c->sim, (psr_peer){PSR_ROLE_WORKER, r}, &m->transport));
        assert_ok(psr_transport_connect(m->transport,
                                        (psr_peer){PSR_ROLE_WORKER, (r + 1) % s->ranks}, "", NULL));
        psr_ring_options options = {
            .plan = &c->plan,
            .rank = r,
            .residual = psr_compression_has_residual(c->compression) ? m->residual : NULL,
            .outbox = {.context = m, .send = send_on},
            .context = m,
            .reduced = bucket_reduced,
            .not_finite = never_not_finite,
        };
        assert_ok(psr_ring_new(&options, &m->ring));
    }
    return c;
}

static void destroy(cluster *c)
{
    for (uint32_t r = 0; r < c->setup.ranks; r++)
        psr_transport_free(&c->members[r].transport, 0);
    psr_sim_free(c->sim);
    for (uint32_t r = 0; r < c->setup.ranks; r++)
        psr_ring_free(c->members[r].ring);
    psr_encoder_free(&c->expected.encoder);
    psr_plan_done(&c->plan);
    free(c);
}

/* A random rank's next bucket, when its range may be written. false: not now. */
static bool make_ready(cluster *c)
{
    member *m = &c->members[draw(c, c->setup.ranks)];
    uint32_t b = draw(c, c->plan.bucket_count);
    if (m->made_ready[b] == c->setup.steps || m->reduced[b] < m->made_ready[b] ||
        psr_ring_lent(m->ring, b) > 0)
        return false;
    uint64_t step = m->made_ready[b]++;
    for (size_t i = 0; i < c->plan.buckets[b].span.count; i++)
        m->arena[c->plan.buckets[b].span.offset + i] =
            gradient(c->setup.seed, m->rank, step, c->plan.buckets[b].span.offset + i);
    assert_ok(start(m->ring, step, b, m->arena, &c->plan));
    return true;
}

static bool deliver(cluster *c)
{
    psr_peer to;
    if (!psr_sim_step(c->sim, &to))
        return false;
    member *m = &c->members[to.rank];
    psr_message *message = NULL;
    assert_ok(psr_transport_recv(m->transport, 0, &message));
    const ring_slice says = read_head(&c->plan, message->from.rank, &message->head);
    if (says.phase == PSR_RING_GATHER && (says.chunk + 1) % c->setup.ranks == m->rank)
        m->in_flight--;
    assert_ok(psr_ring_message(m->ring, &message));
    assert_null(message);
    return true;
}

static bool done(const cluster *c)
{
    for (uint32_t r = 0; r < c->setup.ranks; r++)
        for (uint32_t b = 0; b < c->plan.bucket_count; b++)
            if (c->members[r].reduced[b] < c->setup.steps)
                return false;
    return true;
}

/* What the gradients came to is what the sums came to and what is owed now, by all ranks, but for
 * the rounding of sums. */
static void check_accounts(const cluster *c, size_t i)
{
    double made = 0, sent = 0;
    for (uint32_t step = 0; step < c->setup.steps; step++) {
        sent += (double)c->expected.sums[step][i];
        for (uint32_t r = 0; r < c->setup.ranks; r++)
            made += (double)gradient(c->setup.seed, r, step, i);
    }
    for (uint32_t r = 0; r < c->setup.ranks; r++)
        sent += (double)c->members[r].residual[i];
    if (!(fabs(made - sent) <= c->expected.magnitudes[i] * 0x1p-23))
        fail_msg("element %zu: %g was made, %g sent or owed", i, made, sent);
}

static void check_residuals(const cluster *c)
{
    if (!psr_compression_has_residual(c->compression))
        return;
    for (uint32_t r = 0; r < c->setup.ranks; r++)
        assert_memory_equal(c->members[r].residual, c->expected.residuals[r],
                            sizeof c->members[r].residual);
    for (uint32_t b = 0; b < c->plan.bucket_count; b++)
        for (size_t i = 0; i < c->plan.buckets[b].span.count; i++)
            check_accounts(c, c->plan.buckets[b].span.offset + i);
}

static void run(const setup *s)
{
    cluster *c = build(s);
    for (unsigned idle = 0; !done(c);) {
        bool moved = draw(c, 4) == 0 ? make_ready(c) : deliver(c);
        idle = moved ? 0 : idle + 1;
        assert_true(idle < 10000); /* nobody waits for ever */
    }
    assert_false(deliver(c));
    uint64_t floats = 0;
    for (uint32_t r = 0; r < s->ranks; r++) {
        member *m = &c->members[r];
        psr_waiting waiting;
        uint32_t bucket;
        assert_false(psr_ring_waits(m->ring, &waiting, &bucket));
        assert_int_equal(m->in_flight, 0);
        floats += m->floats_sent;
        size_t outside = 0;
        for (size_t i = 0; i < ARENA_MAX; i++)
            outside += isnan(m->arena[i]) ? 1 : 0;
        for (uint32_t b = 0; b < c->plan.bucket_count; b++) {
            assert_int_equal(psr_ring_lent(m->ring, b), 0);
            outside += c->plan.buckets[b].span.count;
        }
        assert_int_equal(outside, ARENA_MAX); /* nothing beside the buckets was written */
    }
    /* 2(n-1) times the bucket over all ranks: the formula of ring.h. */
    uint64_t all = 0;
    for (uint32_t b = 0; b < c->plan.bucket_count; b++)
        all += c->plan.buckets[b].span.count;
    assert_int_equal(floats, 2 * (s->ranks - 1) * all * s->steps);
    check_residuals(c);
    destroy(c);
}

static const uint32_t worlds[] = {1, 2, 3, 5, 8};

static void sums_have_the_bits_of_the_fold_for_every_number_of_ranks(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++)
        for (uint64_t seed = 1; seed <= seeds_of(20); seed++) {
            setup s = {.ranks = worlds[w],
                       .window = 1 + (uint32_t)seed % 4,
                       .steps = STEPS_MAX,
                       .slice_floats = 16,
                       .lengths = {1000, 64, 13, 777, 1, 2, 7},
                       .delay_max_us = (uint32_t)(seed % 3) * 20,
                       .seed = seed};
            run(&s);
        }
}

static void buckets_shorter_than_the_ring_and_of_one_element_are_summed(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++)
        for (size_t length = 1; length <= 9; length++) {
            setup s = {.ranks = worlds[w],
                       .window = 2,
                       .steps = STEPS_MAX,
                       .slice_floats = 2,
                       .lengths = {length},
                       .delay_max_us = 5,
                       .seed = length};
            run(&s);
        }
}

static void how_messages_are_sliced_does_not_matter(void **state)
{
    (void)state;
    static const size_t slices[] = {1, 3, 7, 100, 5000};
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
        setup s = {.ranks = 3,
                   .window = 3,
                   .steps = 2,
                   .slice_floats = slices[i],
                   .lengths = {333, 1001},
                   .delay_max_us = 9,
                   .seed = 5};
        run(&s);
    }
}

static const char *const compressions[] = {"fp16", "bf16", "int8", "topk:0.1", "topk:1", "1bit"};
enum { COMPRESSIONS = sizeof compressions / sizeof compressions[0] };

static void compressed_sums_have_the_bits_of_rounding_at_every_hop(void **state)
{
    (void)state;
    for (size_t c = 0; c < COMPRESSIONS; c++)
        for (uint32_t ranks = 1; ranks <= 5; ranks++)
            for (uint64_t seed = 1; seed <= seeds_of(6); seed++) {
                setup s = {.ranks = ranks,
                           .window = 1 + (uint32_t)seed % 3, /* chunks of more slices too */
                           .steps = STEPS_MAX,
                           .slice_floats = seed % 2 == 0 ? 16 : 48,
                           .lengths = {1000, 64, 13, 777, 1, 2, 7},
                           .delay_max_us = (uint32_t)(seed % 3) * 20,
                           .seed = seed,
                           .compress = compressions[c]};
                run(&s);
            }
}

static void compressed_chunks_that_are_empty_or_of_one_value_go_round(void **state)
{
    (void)state;
    for (size_t c = 0; c < COMPRESSIONS; c++)
        for (uint32_t ranks = 1; ranks <= 5; ranks++)
            for (size_t length = 1; length <= 7; length++) {
                setup s = {.ranks = ranks,
                           .window = 1,
                           .steps = STEPS_MAX,
                           .slice_floats = 2,
                           .lengths = {length},
                           .delay_max_us = 5,
                           .seed = length,
                           .compress = compressions[c]};
                run(&s);
            }
}

static void how_compressed_messages_are_sliced_does_not_matter(void **state)
{
    (void)state;
    static const size_t slices[] = {1, 3, 7, 100, 5000};
    for (size_t c = 0; c < COMPRESSIONS; c++)
        for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++) {
            setup s = {.ranks = 3,
                       .window = 2,
                       .steps = 2,
                       .slice_floats = slices[i],
                       .lengths = {333, 1001},
                       .delay_max_us = 9,
                       .seed = 5,
                       .compress = compressions[c]};
            run(&s);
        }
}

static void the_control_with_another_order_has_other_bits(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= 8; n++) {
        setup s = {.ranks = n, .seed = 9};
        size_t differ = 0, length = 500;
        for (size_t i = 0; i < length; i++) {
            float sum = gradient(s.seed, 0, 0, i); /* rank by rank, the same for all chunks */
            for (uint32_t r = 1; r < n; r++)
                sum = sum + gradient(s.seed, r, 0, i);
            float want = expected_sum(&s, 0, 0, length, i);
            differ += memcmp(&sum, &want, sizeof sum) != 0 ? 1 : 0;
        }
        assert_true(differ > length / 20);
    }
}

/* ---- one rank, its neighbours played by hand ---- */

typedef struct sent {
    ring_slice says;
    psr_payload payload;
} sent;

typedef struct bench {
    psr_plan plan;
    psr_ring *ring;
    float arena[64], residual[64];
    sent sent[64];
    uint32_t sent_count;
    uint32_t reduced;
} bench;

/* Rank 1 of 3. Bucket 0: [32, 44), chunks of 4; bucket 1: [0, 12). Slices of 2. */
static const psr_part bench_buckets[] = {{{32, 12}, 0}, {{0, 12}, 1}};

static psr_plan bench_plan(uint32_t window, const char *compress)
{
    psr_compression compression;
    assert_ok(psr_compression_parse(compress, &compression));
    const psr_plan_options options = {.route = PSR_ROUTE_RING,
                                      .ranks = 3,
                                      .slice_floats = 2,
                                      .window = window,
                                      .compression = &compression};
    psr_plan plan;
    assert_ok(psr_plan_make(&options, bench_buckets, 2, &plan));
    return plan;
}

static psr_err keep(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    bench *b = context;
    assert_true(psr_peer_equal(to, (psr_peer){PSR_ROLE_WORKER, 2}));
    b->sent[b->sent_count++] = (sent){read_head(&b->plan, 1, head), *payload};
    return PSR_OK;
}

static psr_err count_reduced(void *context, uint64_t step, uint32_t bucket)
{
    (void)step;
    (void)bucket;
    ((bench *)context)->reduced++;
    return PSR_OK;
}

static psr_err say_not_finite(void *context, uint64_t step, uint32_t bucket)
{
    (void)context;
    return psr_fail(PSR_ERR_NUMERIC, "round %llu of bucket %u", (unsigned long long)step, bucket);
}

static bench *bench_compressed(uint32_t window, const char *compress)
{
    bench *b = calloc(1, sizeof *b);
    b->plan = bench_plan(window, compress);
    psr_ring_options options = {.plan = &b->plan,
                                .rank = 1,
                                .residual = b->residual,
                                .outbox = {.context = b, .send = keep},
                                .context = b,
                                .reduced = count_reduced,
                                .not_finite = say_not_finite};
    assert_ok(psr_ring_new(&options, &b->ring));
    return b;
}

static bench *bench_new(uint32_t window)
{
    return bench_compressed(window, "none");
}

static void return_loans(bench *b)
{
    for (uint32_t i = 0; i < b->sent_count; i++)
        b->sent[i].payload.release(b->sent[i].payload.context);
    b->sent_count = 0;
}

static void bench_free(bench *b)
{
    return_loans(b);
    psr_ring_free(b->ring);
    psr_plan_done(&b->plan);
    free(b);
}

typedef struct made {
    psr_message base;
    float values[64];
} made;

static unsigned freed;

static void made_release(psr_message *message)
{
    freed++;
    free(message);
}

/* What rank 0 may send to rank 1: chunk, hop, begin within the chunk. */
static psr_message *make(const bench *b, uint64_t step, uint32_t bucket, psr_ring_phase phase,
                         uint32_t chunk, uint32_t hop, size_t begin)
{
    made *m = calloc(1, sizeof *m);
    m->base = (psr_message){
        .from = {PSR_ROLE_WORKER, 0},
        .head = ring_head_of(
            &b->plan, 0,
            (ring_slice){.bucket = bucket,
                         .step = step,
                         .span = {bench_buckets[bucket].span.offset + 4 * chunk + begin, 2},
                         .phase = phase,
                         .chunk = chunk,
                         .hop = hop}),
        .payload = m->values,
        .payload_bytes = 2 * sizeof(float),
        .release = made_release,
    };
    m->base.head.encoding = PSR_ENCODING_BYTES;
    for (size_t i = 0; i < 64; i++)
        m->values[i] = 1.0f;
    return &m->base;
}

static psr_err give(bench *b, psr_message *message)
{
    unsigned before = freed;
    psr_err err = psr_ring_message(b->ring, &message);
    assert_null(message);
    if (err != PSR_OK)
        assert_int_equal(freed, before + 1);
    return err;
}

static void assert_sent_last(const bench *b, psr_ring_phase phase, uint32_t chunk, uint32_t hop)
{
    const ring_slice *says = &b->sent[b->sent_count - 1].says;
    assert_int_equal(says->phase, phase);
    assert_int_equal(says->chunk, chunk);
    assert_int_equal(says->hop, hop);
}

static void a_bucket_goes_round_and_is_reported_once(void **state)
{
    (void)state;
    bench *b = bench_new(4);
    psr_waiting waiting = {{PSR_ROLE_SHARD, 9}, 0};
    uint32_t bucket = 9;
    for (int i = 0; i < 64; i++)
        b->arena[i] = 10.0f;
    assert_false(psr_ring_waits(b->ring, &waiting, &bucket));
    assert_ok(start(b->ring, 7, 0, b->arena, &b->plan));
    assert_true(psr_ring_waits(b->ring, &waiting, &bucket));
    assert_int_equal(waiting.round, 7);
    assert_int_equal(bucket, 0);
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_WORKER, 0}));
    /* It injects chunk 0: two slices, from the arena itself. */
    assert_int_equal(b->sent_count, 2);
    assert_ptr_equal(b->sent[0].payload.data, b->arena + 32);
    assert_ptr_equal(b->sent[1].payload.data, b->arena + 34);
    assert_int_equal(b->sent[1].says.span.offset, 34);
    assert_int_equal(b->sent[1].says.chunk, 0);
    assert_int_equal(b->sent[1].says.hop, 0);
    assert_int_equal(psr_ring_lent(b->ring, 0), 2);
    return_loans(b);
    assert_int_equal(psr_ring_lent(b->ring, 0), 0);
    for (size_t begin = 0; begin < 4; begin += 2) {
        assert_ok(
            give(b, make(b, 7, 0, 0, 2, 0, begin))); /* chunk 2 on its first hop: add, pass on */
        assert_sent_last(b, PSR_RING_REDUCE, 2, 1);
        assert_ok(
            give(b, make(b, 7, 0, 0, 1, 1, begin))); /* chunk 1 comes home: its sum sets out */
        assert_sent_last(b, PSR_RING_GATHER, 1, 0);
    }
    for (size_t begin = 0; begin < 4; begin += 2) {
        assert_ok(give(b, make(b, 7, 0, 1, 0, 0, begin))); /* the sum of what it injected:
                                                           passed on once more */
        assert_sent_last(b, PSR_RING_GATHER, 0, 1);
        assert_int_equal(b->reduced, 0);
        uint32_t before = b->sent_count;
        assert_ok(give(b, make(b, 7, 0, 1, 2, 1, begin))); /* has been everywhere */
        assert_int_equal(b->sent_count, before);
    }
    assert_int_equal(b->reduced, 1);
    /* What it lent last, its right neighbour has not read. */
    assert_true(psr_ring_waits(b->ring, &waiting, &bucket));
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_WORKER, 2}));
    assert_true(waiting.round == 7 && bucket == 0);
    return_loans(b);
    assert_false(psr_ring_waits(b->ring, &waiting, &bucket));
    for (int i = 0; i < 12; i++)
        assert_true(b->arena[32 + i] == (i >= 4 && i < 8 ? 11.0f : 1.0f));
    bench_free(b);
}

static void the_window_bounds_what_is_injected_and_the_next_needed_goes_first(void **state)
{
    (void)state;
    bench *b = bench_new(1);
    assert_ok(start(b->ring, 0, 0, b->arena, &b->plan));
    assert_ok(start(b->ring, 0, 1, b->arena, &b->plan));
    assert_int_equal(b->sent_count, 1);
    assert_int_equal(b->sent[0].says.bucket, 0); /* it was ready first and there was room */
    assert_ok(give(b, make(b, 0, 0, 1, 0, 0, 0)));
    assert_int_equal(b->sent_count, 3);          /* the sum passed on, then one more */
    assert_int_equal(b->sent[2].says.bucket, 1); /* the first layers' bucket
                                                    overtakes the rest of bucket 0 */
    assert_int_equal(b->sent[2].says.phase, PSR_RING_REDUCE);
    bench_free(b);
}

static void what_comes_before_a_bucket_is_ready_is_held(void **state)
{
    (void)state;
    bench *b = bench_new(2);
    freed = 0;
    assert_ok(give(b, make(b, 5, 0, 0, 2, 0, 0)));
    assert_ok(give(b, make(b, 5, 0, 0, 1, 1, 0)));
    assert_ok(give(b, make(b, 5, 0, 0, 2, 0, 2)));
    assert_int_equal(freed, 0);
    assert_int_equal(b->sent_count, 0);
    for (int i = 0; i < 64; i++)
        b->arena[i] = 10.0f;
    assert_ok(start(b->ring, 5, 0, b->arena, &b->plan));
    assert_int_equal(freed, 3);
    assert_int_equal(b->sent_count, 2 + 3);
    assert_true(b->arena[40] == 11.0f && b->arena[43] == 11.0f && b->arena[36] == 11.0f &&
                b->arena[38] == 10.0f);
    /* Held messages of a ring that ends are freed. */
    assert_ok(give(b, make(b, 5, 1, 0, 2, 0, 0)));
    bench_free(b);
    assert_int_equal(freed, 4);
}

static void more_early_messages_than_windows_allow_are_refused(void **state)
{
    (void)state;
    bench *b = bench_new(1); /* two other ranks: two slices */
    assert_ok(give(b, make(b, 0, 0, 0, 2, 0, 0)));
    assert_ok(give(b, make(b, 0, 1, 0, 1, 1, 0)));
    assert_fails(give(b, make(b, 0, 0, 0, 1, 1, 0)), PSR_ERR_PROTOCOL,
                 "2 messages for calls that have not begun here are kept already");
    bench_free(b);
}

static void a_neighbour_at_another_step_is_refused(void **state)
{
    (void)state;
    bench *b = bench_new(4);
    assert_ok(give(b, make(b, 5, 0, 0, 2, 0, 0)));
    assert_fails(give(b, make(b, 6, 0, 0, 2, 0, 2)), PSR_ERR_PROTOCOL, "at wire step 5 here");
    assert_fails(start(b->ring, 4, 0, b->arena, &b->plan), PSR_ERR_PROTOCOL,
                 "worker 0 is at step 6");
    assert_ok(start(b->ring, 3, 1, b->arena, &b->plan));
    assert_fails(give(b, make(b, 4, 1, 0, 2, 0, 0)), PSR_ERR_PROTOCOL, "at wire step 3 here");
    assert_fails(give(b, make(b, 2, 1, 0, 2, 0, 0)), PSR_ERR_PROTOCOL, "at wire step 3 here");
    bench_free(b);
}

static void every_message_that_cannot_come_now_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    bench *b = bench_new(4);
    for (int i = 0; i < 64; i++)
        b->arena[i] = 10.0f;
    assert_ok(start(b->ring, 0, 0, b->arena, &b->plan));
    uint32_t sent_before = b->sent_count;

/* A message that was changed after it was made: what it says, and what it is. */
#define refused(says_change, message_change, status, text)                                         \
    do {                                                                                           \
        psr_message *m = make(b, 0, 0, PSR_RING_REDUCE, 2, 0, 0);                                  \
        psr_msg_values says;                                                                       \
        assert_ok(psr_msg_values_read(m, &says));                                                  \
        says_change;                                                                               \
        m->head = psr_msg_values_head(&says);                                                      \
        m->head.encoding = PSR_ENCODING_BYTES;                                                     \
        message_change;                                                                            \
        assert_fails(give(b, m), status, text);                                                    \
        assert_int_equal(b->sent_count, sent_before);                                              \
    } while (0)
#define refused_message(change, text) refused((void)0, change, PSR_ERR_PROTOCOL, text)
#define refused_field(change, text) refused(change, (void)0, PSR_ERR_PROTOCOL, text)
#define mismatch(change, text) refused(change, (void)0, PSR_ERR_MISMATCH, text)

    refused_message(m->from.rank = 2, "hears worker 0 alone");
    refused_message(m->from.role = PSR_ROLE_SHARD, "hears worker 0 alone");
    refused_message(m->head.type = PSR_MSG_PUSH, "a group hears VALUES");
    refused_field(says.tag.slot = 0, "there are 2 buckets");
    refused_field(says.tag.slot = 3, "there are 2 buckets");
    refused_field(says.tag.slot = UINT32_MAX, "there are 2 buckets");
    b->plan.buckets[1].route = PSR_ROUTE_SHARD;
    refused_field(says.tag.slot = 2, "the bucket is no ring's");
    b->plan.buckets[1].route = PSR_ROUTE_RING;
    refused_field(says.tag.group = 0, "this is group 1 of epoch 0");
    refused_field(says.tag.epoch = 1, "this is group 1 of epoch 0");
    mismatch(says.call.count = 13, "rank 0 calls all_reduce(count 13");
    mismatch(says.call.word ^= 1 << 8, "rank 0 calls all_reduce");
    mismatch(says.total = 15, "sends rank 1 15 values");
    /* slices 0 and 1: chunk 2; 2 and 3: chunk 1; the sums, 4 and 5: chunk 0; 6 and 7: chunk 2 */
    for (uint64_t slice = 1; slice < 8; slice += 2)
        refused_field(says.slice = slice, "is due");
    refused_field(says.slice = 8, "no slice 8 is due");
    refused_field(says.slice = UINT64_MAX, "is due");
    refused_field(says.slice = 6, "a sum to which rank 1 has not contributed");
    refused_message(m->payload_bytes = 4, "payload has 4 bytes");
    refused_message(m->payload_bytes = 0, "payload has 0 bytes");
    refused_message(m->payload_bytes = 9, "payload has 9 bytes");
#undef mismatch
#undef refused_field
#undef refused_message
#undef refused
    for (int i = 0; i < 64; i++)
        assert_true(b->arena[i] == 10.0f);

    assert_ok(give(b, make(b, 0, 0, 0, 2, 0, 0)));
    assert_fails(give(b, make(b, 0, 0, 0, 2, 0, 0)), PSR_ERR_PROTOCOL, "no slice 0 is due");
    assert_ok(give(b, make(b, 0, 0, 1, 2, 1, 0)));
    assert_fails(give(b, make(b, 0, 0, 1, 2, 1, 0)), PSR_ERR_PROTOCOL, "no slice 6 is due");
    assert_fails(give(b, make(b, 0, 0, 1, 2, 1, 2)), PSR_ERR_PROTOCOL, "not contributed");
    /* What comes before its bucket is looked at when that begins. */
    assert_ok(give(b, make(b, 0, 1, PSR_RING_GATHER, 2, 1, 0)));
    assert_fails(start(b->ring, 0, 1, b->arena, &b->plan), PSR_ERR_PROTOCOL, "not contributed");
    bench_free(b);
}

/* As make; two values of int8, both 1. */
static psr_message *make_int8(const bench *b, uint64_t step, uint32_t bucket, psr_ring_phase phase,
                              uint32_t chunk, uint32_t hop, size_t begin)
{
    psr_message *m = make(b, step, bucket, phase, chunk, hop, begin);
    m->head.encoding = PSR_ENCODING_INT8;
    m->payload_bytes = sizeof(float) + 2;
    memset(((made *)m)->values + 1, 1, 2);
    return m;
}

static void a_chunk_with_one_scale_goes_on_when_it_is_complete(void **state)
{
    (void)state;
    bench *b = bench_compressed(1, "int8");
    for (int i = 0; i < 64; i++)
        b->arena[i] = 10.0f;
    assert_ok(start(b->ring, 0, 0, b->arena, &b->plan));
    assert_ok(start(b->ring, 0, 1, b->arena, &b->plan));
    assert_int_equal(b->sent_count, 2); /* all of chunk 0, though the window
                                           is 1; bucket 1 waits for both */
    assert_sent_last(b, PSR_RING_REDUCE, 0, 0);
    assert_int_equal(psr_ring_lent(b->ring, 0), 2);
    return_loans(b);

    assert_ok(give(b, make_int8(b, 0, 0, 0, 2, 0, 0)));
    assert_int_equal(b->sent_count, 0);
    assert_ok(give(b, make_int8(b, 0, 0, 0, 2, 0, 2)));
    assert_int_equal(b->sent_count, 2);
    assert_sent_last(b, PSR_RING_REDUCE, 2, 1);

    b->arena[36] = 9.5f; /* chunk 1 ends here: the largest is 11, so a scale is 11/127 */
    assert_ok(give(b, make_int8(b, 0, 0, 0, 1, 1, 0)));
    assert_true(b->arena[36] == 10.5f);
    assert_ok(give(b, make_int8(b, 0, 0, 0, 1, 1, 2)));
    assert_int_equal(b->sent_count, 4);
    assert_sent_last(b, PSR_RING_GATHER, 1, 0);
    float scale = 11.0f / 127;
    /* as the others decode it */
    assert_true(b->arena[36] == 121 * scale && b->arena[37] == 127 * scale);
    assert_true(b->residual[36] == 10.5f - 121 * scale);

    return_loans(b);
    assert_ok(give(b, make_int8(b, 0, 0, 1, 0, 0, 0))); /* passed on as it came */
    assert_int_equal(b->sent_count, 1);
    assert_int_equal(b->sent[0].payload.bytes, 6);
    assert_memory_equal((const char *)b->sent[0].payload.data + 4, "\1\1", 2);
    assert_ok(give(b, make_int8(b, 0, 0, 1, 0, 0, 2)));
    assert_int_equal(b->sent_count, 1 + 1 + 2); /* both are paid for: chunk 0 of bucket 1 */
    assert_int_equal(b->sent[3].says.bucket, 1);
    assert_ok(give(b, make_int8(b, 0, 0, 1, 2, 1, 0)));
    assert_int_equal(b->reduced, 0);
    assert_ok(give(b, make_int8(b, 0, 0, 1, 2, 1, 2)));
    assert_int_equal(b->reduced, 1);
    bench_free(b);
}

static void compressed_messages_that_cannot_come_now_are_refused(void **state)
{
    (void)state;
    bench *b = bench_compressed(1, "int8");
    for (size_t begin = 0; begin < 4; begin += 2) { /* a chunk is two slices, which go together */
        assert_ok(give(b, make_int8(b, 0, 0, 0, 2, 0, begin)));
        assert_ok(give(b, make_int8(b, 0, 1, 0, 2, 0, begin)));
    }
    assert_fails(give(b, make_int8(b, 0, 0, 0, 1, 1, 0)), PSR_ERR_PROTOCOL, "4 messages for calls");
    assert_ok(start(b->ring, 0, 0, b->arena, &b->plan));
    assert_int_equal(b->sent_count, 4); /* its own chunk, and the one that was held */
    assert_fails(give(b, make(b, 0, 0, 0, 1, 1, 0)), PSR_ERR_PROTOCOL, "in bytes, not in int8");
    psr_message *longer = make_int8(b, 0, 0, 0, 1, 1, 0);
    longer->payload_bytes++;
    assert_fails(give(b, longer), PSR_ERR_PROTOCOL, "7 bytes, not the 6");
    assert_ok(start(b->ring, 0, 1, b->arena, &b->plan));
    bench_free(b);

    b = bench_compressed(1, "int8");
    assert_ok(start(b->ring, 0, 0, b->arena, &b->plan));
    assert_ok(give(b, make_int8(b, 0, 0, 0, 2, 0, 0)));
    /* half a chunk */
    assert_fails(give(b, make_int8(b, 0, 0, 1, 2, 1, 0)), PSR_ERR_PROTOCOL, "not contributed");
    assert_ok(give(b, make_int8(b, 0, 0, 0, 2, 0, 2)));
    assert_ok(give(b, make_int8(b, 0, 0, 1, 2, 1, 0)));
    bench_free(b);
}

static void what_is_not_finite_is_the_users_error_where_it_cannot_be_sent(void **state)
{
    (void)state;
    bench *b = bench_compressed(1, "int8");
    b->arena[33] = INFINITY; /* of chunk 0, which it injects */
    assert_fails(start(b->ring, 4, 0, b->arena, &b->plan), PSR_ERR_NUMERIC, "round 4 of bucket 0");
    bench_free(b);

    b = bench_compressed(1, "topk:0.5");
    b->arena[43] = NAN; /* of chunk 2 */
    assert_ok(start(b->ring, 4, 0, b->arena, &b->plan));
    for (size_t begin = 0; begin < 4; begin += 2) {
        psr_message *nothing = make(b, 4, 0, 0, 2, 0, begin); /* none of its values was selected */
        nothing->head.encoding = PSR_ENCODING_TOPK;
        nothing->payload_bytes = 0;
        nothing->payload = NULL;
        if (begin == 0)
            assert_ok(give(b, nothing));
        else
            assert_fails(give(b, nothing), PSR_ERR_NUMERIC, "round 4 of bucket 0");
    }
    for (int i = 0; i < 64; i++)
        assert_true(b->residual[i] == 0);
    bench_free(b);

    b = bench_compressed(1, "bf16"); /* can say it: who updates weights by the sum sees it */
    b->arena[33] = INFINITY;
    assert_ok(start(b->ring, 4, 0, b->arena, &b->plan));
    assert_int_equal(b->sent_count, 1);
    assert_int_equal(b->sent[0].payload.bytes, 4);
    bench_free(b);
}

static psr_err refuse_to_send(void *context, psr_peer to, const psr_head *head,
                              const psr_payload *payload)
{
    (void)context;
    (void)to;
    (void)head;
    payload->release(payload->context);
    return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
}

static void a_failure_to_send_is_the_callers(void **state)
{
    (void)state;
    float arena[64] = {0};
    psr_plan plan = bench_plan(1, "none");
    psr_ring_options options = {.plan = &plan,
                                .rank = 1,
                                .outbox = {.context = NULL, .send = refuse_to_send},
                                .reduced = count_reduced};
    psr_ring *ring;
    assert_ok(psr_ring_new(&options, &ring));
    assert_fails(start(ring, 0, 0, arena, &plan), PSR_ERR_NOMEM, "no memory for a message");
    assert_int_equal(psr_ring_lent(ring, 0), 0);
    psr_ring_free(ring);
    psr_ring_free(NULL);
    psr_plan_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_the_bits_of_the_fold_for_every_number_of_ranks),
        cmocka_unit_test(buckets_shorter_than_the_ring_and_of_one_element_are_summed),
        cmocka_unit_test(how_messages_are_sliced_does_not_matter),
        cmocka_unit_test(compressed_sums_have_the_bits_of_rounding_at_every_hop),
        cmocka_unit_test(compressed_chunks_that_are_empty_or_of_one_value_go_round),
        cmocka_unit_test(how_compressed_messages_are_sliced_does_not_matter),
        cmocka_unit_test(the_control_with_another_order_has_other_bits),
        cmocka_unit_test(a_bucket_goes_round_and_is_reported_once),
        cmocka_unit_test(the_window_bounds_what_is_injected_and_the_next_needed_goes_first),
        cmocka_unit_test(what_comes_before_a_bucket_is_ready_is_held),
        cmocka_unit_test(more_early_messages_than_windows_allow_are_refused),
        cmocka_unit_test(a_neighbour_at_another_step_is_refused),
        cmocka_unit_test(every_message_that_cannot_come_now_is_refused_and_changes_nothing),
        cmocka_unit_test(a_chunk_with_one_scale_goes_on_when_it_is_complete),
        cmocka_unit_test(compressed_messages_that_cannot_come_now_are_refused),
        cmocka_unit_test(what_is_not_finite_is_the_users_error_where_it_cannot_be_sent),
        cmocka_unit_test(a_failure_to_send_is_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
