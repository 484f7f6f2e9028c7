/* All-reduces by ring whose slices overtake one another: what is encoded, and the lane that they
 * share. What must come out of an encoded one is computed here, by an encoder of this file's that
 * is given whole chunks, hop by hop. */
#include "tests/unit/comm/group_network.h"

#include <math.h>

enum { SLICE_BYTES = 64, COUNT_MAX = 600, ROUNDS = 3, REQUESTS = 6 };

static const char *const encodings[] = {"fp16", "bf16", "int8", "topk:0.1", "topk:1", "1bit"};
enum { ENCODINGS = sizeof encodings / sizeof encodings[0] };

static psr_compression encoding_of(const char *text)
{
    psr_compression compression;
    assert_ok(psr_compression_parse(text, &compression));
    return compression;
}

/* Of very different sizes, so that the order of a sum shows in its bits. */
static float value(uint64_t seed, uint32_t rank, uint64_t round, size_t i)
{
    psr_rng_at at = {.seed = seed,
                     .purpose = PSR_RNG_TEST,
                     .epoch = (uint32_t)round,
                     .sample = rank,
                     .layer = 2};
    uint32_t word = psr_rng_word(at, i);
    return ldexpf(psr_rng_unit(word) - 0.5f, (int)(word % 23) - 11);
}

/* ---- what is to come out ---- */

typedef struct expected {
    psr_compression compression;
    psr_encoder *encoder;
    float sum[COUNT_MAX], residuals[NETWORK_RANKS_MAX][COUNT_MAX];
} expected;

static void round_chunk(expected *e, uint32_t rank, size_t begin, size_t count)
{
    float *residual =
        psr_compression_has_residual(e->compression) ? &e->residuals[rank][begin] : NULL;
    assert_ok(psr_encoder_round(e->encoder, &e->sum[begin], residual, count));
}

/* Chunk c sets out from rank c + 1; each rank adds its own and rounds what it sends on, rank c too,
 * which divides a mean before. */
static void expect_round(expected *e, uint64_t seed, uint32_t n, uint64_t round, size_t count,
                         psr_reduction reduction)
{
    for (uint32_t c = 0; c < n; c++) {
        const size_t begin = count * c / n, chunk = count * (c + 1) / n - begin;
        for (uint32_t k = 1; k <= n && chunk > 0; k++) {
            const uint32_t rank = (c + k) % n;
            for (size_t i = begin; i < begin + chunk; i++) {
                float own = value(seed, rank, round, i);
                e->sum[i] = k == 1 ? own : e->sum[i] + own;
            }
            if (k == n && reduction == PSR_REDUCTION_MEAN)
                psr_reduce_finish(PSR_TYPE_FLOAT32, reduction, &e->sum[begin], chunk, n);
            round_chunk(e, rank, begin, chunk);
        }
    }
}

/* ---- encoded ---- */

typedef struct setup {
    const char *encoding;
    uint32_t ranks, window;
    size_t count;
    psr_reduction reduction;
    bool in_place, persistent;
    uint64_t seed;
} setup;

static psr_request_options options_of(const setup *s, const psr_compression *compression,
                                      float *send, float *receive, float *residual)
{
    return (psr_request_options){.kind = PSR_KIND_ALL_REDUCE,
                                 .type = PSR_TYPE_FLOAT32,
                                 .reduction = s->reduction,
                                 .send = s->in_place ? receive : send,
                                 .receive = receive,
                                 .count = s->count,
                                 .persistent = s->persistent,
                                 .compression = compression,
                                 .residual = residual};
}

static void await_all(network *net, psr_request **requests)
{
    network_settle(net);
    for (uint32_t r = 0; r < net->ranks; r++) {
        assert_true(psr_request_done(requests[r]));
        assert_int_equal(psr_request_lent(requests[r]), 0);
    }
}

static void play(const setup *s)
{
    static float send[NETWORK_RANKS_MAX][COUNT_MAX], receive[NETWORK_RANKS_MAX][COUNT_MAX];
    static float owed[NETWORK_RANKS_MAX][COUNT_MAX];
    expected *e = calloc(1, sizeof *e);
    e->compression = encoding_of(s->encoding);
    assert_ok(psr_encoder_new(e->compression, COUNT_MAX, &e->encoder));
    /* Where all share memory too: an encoded ring has hops, which are where it rounds. */
    network *net = (s->seed % 2 ? network_open_shared : network_open)(s->ranks, SLICE_BYTES,
                                                                      s->window, s->seed);
    psr_request *requests[NETWORK_RANKS_MAX] = {NULL};
    memset(owed, 0, sizeof owed);
    for (uint64_t round = 0; round < (s->persistent ? ROUNDS : 1); round++) {
        expect_round(e, s->seed, s->ranks, round, s->count, s->reduction);
        for (uint32_t r = 0; r < s->ranks; r++) {
            float *values = s->in_place ? receive[r] : send[r];
            for (size_t i = 0; i < s->count; i++)
                values[i] = value(s->seed, r, round, i);
            if (requests[r] == NULL) {
                const psr_request_options o =
                    options_of(s, &e->compression, send[r], receive[r], owed[r]);
                requests[r] = network_request(net, r, &o);
            }
            assert_ok(psr_request_start(requests[r]));
            for (uint32_t k = network_draw(net, 4); k > 0; k--)
                (void)network_deliver(net, NULL);
        }
        await_all(net, requests);
        for (uint32_t r = 0; r < s->ranks; r++)
            if (memcmp(receive[r], e->sum, s->count * sizeof(float)) != 0)
                fail_msg("%s, %u ranks, count %zu, window %u, round %llu: rank %u has other bits",
                         s->encoding, s->ranks, s->count, s->window, (unsigned long long)round, r);
    }
    for (uint32_t r = 0; r < s->ranks; r++)
        psr_request_free(requests[r]);
    network_close(net);
    psr_encoder_free(&e->encoder);
    free(e);
}

static void encoded_sums_have_the_bits_of_rounding_at_every_hop(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 5, 157, COUNT_MAX};
    for (size_t k = 0; k < ENCODINGS; k++)
        for (uint32_t ranks = 1; ranks <= 8; ranks++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                for (uint64_t seed = 0; seed < 4; seed++)
                    play(&(setup){.encoding = encodings[k],
                                  .ranks = ranks,
                                  .window = 1 + (uint32_t)(seed + c) % 3,
                                  .count = counts[c],
                                  .reduction = seed % 2 ? PSR_REDUCTION_MEAN : PSR_REDUCTION_SUM,
                                  .in_place = seed / 2 % 2,
                                  .persistent = k >= 2 || seed % 3 > 0,
                                  .seed = seed + 1});
}

static void refuse(const char *encoding, psr_request_options o, const char *line)
{
    const psr_compression compression = encoding_of(encoding);
    float values[8] = {0};
    network *net = network_open(2, SLICE_BYTES, 1, 0);
    psr_request *request = NULL;
    o.compression = &compression;
    o.send = o.receive = values;
    o.count = 2;
    assert_fails(psr_request_new(net->groups[0], &o, &request), PSR_ERR_USAGE, line);
    network_close(net);
}

static void an_encoding_is_refused_where_there_is_none(void **state)
{
    (void)state;
    const psr_request_options sum = {.kind = PSR_KIND_ALL_REDUCE, .type = PSR_TYPE_FLOAT32};
    psr_request_options o = sum;
    o.kind = PSR_KIND_BROADCAST;
    refuse("fp16", o, "broadcast: encoding fp16 is of all_reduce alone");
    o = sum;
    o.type = PSR_TYPE_FLOAT64;
    refuse("bf16", o, "encoding bf16 is of sums and means of float32, not of sum of float64");
    o = sum;
    o.reduction = PSR_REDUCTION_MAXIMUM;
    refuse("fp16", o, "not of maximum of float32");
    o = sum;
    o.algorithm = PSR_ALGORITHM_DIRECT;
    refuse("fp16", o, "encoding fp16 goes by ring, not by direct");
    refuse("int8", sum, "encoding int8 keeps a residual, so it is of persistent requests alone");
    refuse("topk:0.25", sum, "encoding topk:0.25 keeps a residual");
    refuse("1bit", sum, "encoding 1bit keeps a residual");
}

static void ranks_that_encode_differently_are_told_both_calls(void **state)
{
    (void)state;
    const psr_compression ours[] = {encoding_of("topk:0.5"), encoding_of("topk:0.25")};
    network *net = network_open(2, SLICE_BYTES, 2, 0);
    psr_request *requests[2];
    float values[2][40] = {{0}}, owed[2][40] = {{0}};
    for (uint32_t r = 0; r < 2; r++) {
        const psr_request_options o = {.kind = PSR_KIND_ALL_REDUCE,
                                       .type = PSR_TYPE_FLOAT32,
                                       .send = values[r],
                                       .receive = values[r],
                                       .count = 40,
                                       .persistent = true,
                                       .compression = &ours[r],
                                       .residual = owed[r]};
        requests[r] = network_request(net, r, &o);
        psr_err err = psr_request_start(requests[r]);
        assert_true(err == PSR_OK || err == PSR_ERR_MISMATCH);
    }
    psr_err err = PSR_OK;
    while (err == PSR_OK && network_deliver(net, &err))
        ;
    assert_int_equal(err, PSR_ERR_MISMATCH);
    assert_non_null(strstr(psr_err_detail(), "float32, sum, ring, topk:0.5)"));
    assert_non_null(strstr(psr_err_detail(), "float32, sum, ring, topk:0.25)"));
    network_close_broken(net, requests, 2);
}

/* ---- the lane ---- */

typedef struct fleet {
    network *net;
    psr_request *requests[NETWORK_RANKS_MAX][REQUESTS];
    float values[NETWORK_RANKS_MAX][REQUESTS][COUNT_MAX];
} fleet;

/* shared: the ring has no hops (comm/collectives/algorithms/gathered.c). */
static fleet *fleet_new(uint32_t ranks, uint32_t window, uint64_t seed, bool shared)
{
    fleet *f = calloc(1, sizeof *f);
    f->net = (shared ? network_open_shared : network_open)(ranks, SLICE_BYTES, window, seed);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t k = 0; k < REQUESTS; k++) {
            const psr_request_options o = {.kind = PSR_KIND_ALL_REDUCE,
                                           .algorithm = PSR_ALGORITHM_RING,
                                           .type = PSR_TYPE_FLOAT32,
                                           .send = f->values[r][k],
                                           .receive = f->values[r][k],
                                           .count = COUNT_MAX,
                                           .persistent = true,
                                           .priority = -(int32_t)k};
            f->requests[r][k] = network_request(f->net, r, &o);
        }
    return f;
}

static void fleet_free(fleet *f)
{
    for (uint32_t r = 0; r < f->net->ranks; r++)
        for (uint32_t k = 0; k < REQUESTS; k++)
            psr_request_free(f->requests[r][k]);
    network_close(f->net);
    free(f);
}

static void start(fleet *f, uint32_t rank, uint32_t k)
{
    for (size_t i = 0; i < COUNT_MAX; i++)
        f->values[rank][k][i] = (float)(rank + k);
    assert_ok(psr_request_start(f->requests[rank][k]));
}

static void until_done(fleet *f, uint32_t rank, uint32_t k)
{
    while (!psr_request_done(f->requests[rank][k]))
        if (!network_deliver(f->net, NULL))
            fail_msg("request %u of rank %u waits for ever", k, rank);
}

/* One rank waits for the end of each before it starts the next, another starts all in the other
 * order: a window that is full of what one rank has not begun may not keep out what it waits
 * for. */
static void start_in_any_order(uint32_t window, uint64_t seed, bool shared)
{
    fleet *f = fleet_new(3, window, seed, shared);
    for (uint32_t k = REQUESTS; k-- > 0;) {
        start(f, 0, k);
        start(f, 2, (k + 2) % REQUESTS);
    }
    for (uint32_t k = 0; k < REQUESTS; k++) {
        start(f, 1, k);
        until_done(f, 1, k);
    }
    network_settle(f->net);
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t k = 0; k < REQUESTS; k++)
            for (size_t i = 0; i < COUNT_MAX; i++)
                assert_true(f->values[r][k][i] == (float)(3 + 3 * k));
    fleet_free(f);
}

static void ranks_may_start_their_requests_in_any_order(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 3; window++)
        for (uint64_t seed = 0; seed < 8; seed++)
            for (int shared = 0; shared < 2; shared++)
                start_in_any_order(window, seed, shared > 0);
}

/* Also where some ranks have no chunk of their own. */
static void sum_again_and_again(psr_kind kind, uint32_t ranks, size_t count, uint64_t seed)
{
    static float values[NETWORK_RANKS_MAX][COUNT_MAX], sums[NETWORK_RANKS_MAX][COUNT_MAX];
    static size_t counts[NETWORK_RANKS_MAX];
    psr_request *requests[NETWORK_RANKS_MAX];
    network *net = network_open_shared(ranks, SLICE_BYTES, 1 + (uint32_t)seed % 3, seed);
    for (uint32_t r = 0; r < ranks; r++)
        counts[r] = count * (r + 1) / ranks - count * r / ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        const psr_request_options o = {.kind = kind,
                                       .algorithm = PSR_ALGORITHM_RING,
                                       .type = PSR_TYPE_FLOAT32,
                                       .send = values[r],
                                       .receive = sums[r],
                                       .count = count,
                                       .counts = counts,
                                       .persistent = true};
        requests[r] = network_request(net, r, &o);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t k = 0; k < ranks; k++) {
            const uint32_t r = (k + (uint32_t)seed) % ranks;
            for (size_t i = 0; i < count; i++)
                values[r][i] = (float)(i + r) + (float)round;
            assert_ok(psr_request_start(requests[r]));
            for (uint32_t n = network_draw(net, 6); n > 0; n--)
                (void)network_deliver(net, NULL);
        }
        await_all(net, requests);
        for (uint32_t r = 0; r < ranks; r++) {
            const bool whole = kind == PSR_KIND_ALL_REDUCE;
            const size_t first = whole ? 0 : count * r / ranks;
            for (size_t i = 0; i < (whole ? count : counts[r]); i++)
                assert_true(sums[r][i] == (float)(ranks * (first + i) + ranks * (ranks - 1) / 2 +
                                                  ranks * (uint32_t)round));
        }
    }
    for (uint32_t r = 0; r < ranks; r++)
        psr_request_free(requests[r]);
    network_close(net);
}

static void a_ring_without_hops_is_started_again_and_again(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 5, 157, COUNT_MAX};
    for (uint32_t ranks = 1; ranks <= 7; ranks++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (uint64_t seed = 0; seed < 5; seed++) {
                sum_again_and_again(PSR_KIND_ALL_REDUCE, ranks, counts[c], seed);
                sum_again_and_again(PSR_KIND_REDUCE_SCATTER, ranks, counts[c], seed);
            }
}

/* Each rank finds another request the most urgent, and so do their lanes: none may wait for what
 * the others hold back. */
static void ranks_may_find_different_requests_urgent(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    for (uint32_t window = 1; window <= 3; window++)
        for (int shared = 0; shared < 2; shared++) {
            network *net =
                (shared ? network_open_shared : network_open)(RANKS, SLICE_BYTES, window, window);
            static float values[RANKS][REQUESTS][COUNT_MAX];
            psr_request *requests[RANKS][REQUESTS];
            for (uint32_t k = 0; k < REQUESTS; k++)
                for (uint32_t r = 0; r < RANKS; r++) {
                    const psr_request_options o = {.kind = PSR_KIND_ALL_REDUCE,
                                                   .algorithm = PSR_ALGORITHM_RING,
                                                   .type = PSR_TYPE_FLOAT32,
                                                   .send = values[r][k],
                                                   .receive = values[r][k],
                                                   .count = COUNT_MAX,
                                                   .priority = (int32_t)((k + r) % REQUESTS)};
                    requests[r][k] = network_request(net, r, &o);
                    assert_ok(psr_request_start(requests[r][k]));
                }
            network_settle(net);
            for (uint32_t r = 0; r < RANKS; r++)
                for (uint32_t k = 0; k < REQUESTS; k++) {
                    assert_true(psr_request_done(requests[r][k]));
                    psr_request_free(requests[r][k]);
                }
            network_close(net);
        }
}

static void go_by_priority(bool shared)
{
    fleet *f = fleet_new(2, 1, 0, shared);
    for (uint32_t k = 0; k < REQUESTS; k++)
        for (uint32_t r = 0; r < 2; r++)
            start(f, r, k);
    /* The last one that was started is needed first. */
    for (uint32_t k = REQUESTS; k-- > 1;) {
        until_done(f, 0, k);
        for (uint32_t later = 0; later < k; later++)
            assert_false(psr_request_done(f->requests[0][later]));
    }
    network_settle(f->net);
    fleet_free(f);
}

static void of_what_waits_the_smallest_priority_goes_first(void **state)
{
    (void)state;
    go_by_priority(false);
    go_by_priority(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_sums_have_the_bits_of_rounding_at_every_hop),
        cmocka_unit_test(an_encoding_is_refused_where_there_is_none),
        cmocka_unit_test(ranks_that_encode_differently_are_told_both_calls),
        cmocka_unit_test(ranks_may_start_their_requests_in_any_order),
        cmocka_unit_test(a_ring_without_hops_is_started_again_and_again),
        cmocka_unit_test(ranks_may_find_different_requests_urgent),
        cmocka_unit_test(of_what_waits_the_smallest_priority_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
