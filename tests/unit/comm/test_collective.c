#include "tests/unit/network_fixture.h"

#include "base/rng.h"
#include "comm/operations/collective.h"
#include "comm/wire/messages.h"

#include <math.h>

enum { RANKS_MAX = 8 };

typedef struct cluster {
    uint32_t ranks;
    psr_sim *sim;
    psr_transport *transports[RANKS_MAX];
    psr_collective *collectives[RANKS_MAX];
    uint64_t seed, draws, lent;
} cluster;

typedef struct sender {
    cluster *cluster;
    uint32_t rank;
} sender;

static sender senders[RANKS_MAX];

static psr_err send_on(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    sender *s = context;
    if (payload != NULL && payload->release != NULL)
        s->cluster->lent++;
    return psr_transport_send(s->cluster->transports[s->rank], to, head, payload);
}

static cluster *build(uint32_t ranks, size_t slice_bytes, uint64_t seed)
{
    cluster *c = calloc(1, sizeof *c);
    c->ranks = ranks;
    c->seed = seed;
    psr_sim_faults faults = {.seed = seed, .delay_max_us = (uint32_t)(seed % 3) * 25};
    assert_ok(psr_sim_new(&faults, &c->sim));
    for (uint32_t r = 0; r < ranks; r++) {
        senders[r] = (sender){c, r};
        assert_ok(psr_transport_sim_new(c->sim, (psr_peer){PSR_ROLE_WORKER, r}, &c->transports[r]));
        for (uint32_t to = 0; to < ranks; to++)
            if (to != r)
                assert_ok(psr_transport_connect(c->transports[r], (psr_peer){PSR_ROLE_WORKER, to}, "", NULL));
        assert_ok(psr_collective_new(r, ranks, slice_bytes, 8192,
                                     (psr_outbox){.context = &senders[r], .send = send_on},
                                     &c->collectives[r]));
    }
    return c;
}

static void destroy(cluster *c)
{
    for (uint32_t r = 0; r < c->ranks; r++) {
        psr_transport_free(&c->transports[r], 0);
        psr_collective_free(c->collectives[r]);
    }
    psr_sim_free(c->sim);
    free(c);
}

static psr_err fold(psr_collective *collective, double *values, size_t count)
{
    const psr_buffer buffer = {.data = values, .count = count, .type = PSR_TYPE_FLOAT64};
    return psr_collective_start(collective, psr_collective_fold(collective), &buffer);
}

static psr_err broadcast(psr_collective *collective, void *bytes, size_t size)
{
    const psr_buffer buffer = {.data = bytes, .count = size, .type = PSR_TYPE_UINT8};
    return psr_collective_start(collective, psr_collective_broadcast(collective), &buffer);
}

/* The rank that it waits for. */
static uint32_t waits(const psr_collective *collective)
{
    psr_waiting waiting;
    assert_true(psr_collective_waits(collective, &waiting));
    assert_int_equal(waiting.peer.role, PSR_ROLE_WORKER);
    return waiting.peer.rank;
}

static bool deliver(cluster *c)
{
    psr_peer to;
    psr_message *message = NULL;
    if (!psr_sim_step(c->sim, &to))
        return false;
    assert_ok(psr_transport_recv(c->transports[to.rank], 0, &message));
    assert_ok(psr_collective_message(c->collectives[to.rank], &message));
    assert_null(message);
    return true;
}

static uint32_t draw(cluster *c, uint32_t bound)
{
    psr_rng_at at = {.seed = c->seed, .purpose = PSR_RNG_TEST, .layer = 1};
    return psr_rng_below(at, &c->draws, bound);
}

static double value(uint32_t rank, uint64_t operation, size_t i)
{
    psr_rng_at at = {
        .seed = 3, .purpose = PSR_RNG_TEST, .sample = rank, .epoch = (uint32_t)operation, .layer = 2};
    uint32_t word = psr_rng_word(at, i);
    return ldexp((double)psr_rng_unit(word) - 0.5, (int)(word % 41) - 20);
}

/* Each rank's list of operations: folds and broadcasts in turn, of several sizes, each begun when the rank's
 * last is finished and a draw says so. */
static const size_t sizes[] = {1, 100, 0, 17, 64, 2, 1000};
enum { OPERATIONS = 14 };

typedef struct progress {
    uint64_t begun;
    double values[1000];
} progress;

static size_t count_of(uint64_t operation)
{
    return sizes[operation % 7];
}

static void check(const cluster *c, uint32_t rank, uint64_t operation, const double *values)
{
    for (size_t i = 0; i < count_of(operation); i++) {
        double want = value(0, operation, i);
        for (uint32_t r = 1; operation % 2 == 0 && r < c->ranks; r++)
            want = want + value(r, operation, i);
        if (memcmp(&want, &values[i], sizeof want) != 0)
            fail_msg("rank %u of %u, operation %llu, value %zu: %a rather than %a", rank, c->ranks,
                     (unsigned long long)operation, i, values[i], want);
    }
}

static void begin_next(cluster *c, uint32_t rank, progress *p)
{
    if (p->begun > 0)
        check(c, rank, p->begun - 1, p->values);
    uint64_t operation = p->begun++;
    if (operation == OPERATIONS)
        return;
    for (size_t i = 0; i < count_of(operation); i++)
        p->values[i] = operation % 2 == 0 || rank == 0 ? value(rank, operation, i) : NAN;
    if (operation % 2 == 0)
        assert_ok(fold(c->collectives[rank], p->values, count_of(operation)));
    else
        assert_ok(broadcast(c->collectives[rank], p->values, count_of(operation) * sizeof(double)));
}

static void run(uint32_t ranks, size_t slice_bytes, uint64_t seed)
{
    cluster *c = build(ranks, slice_bytes, seed);
    progress *all = calloc(ranks, sizeof *all);
    for (unsigned idle = 0;;) {
        bool moved = true, ended = true;
        uint32_t r = draw(c, ranks);
        if (draw(c, 3) > 0)
            moved = deliver(c);
        else if (all[r].begun <= OPERATIONS && psr_collective_finished(c->collectives[r]))
            begin_next(c, r, &all[r]);
        else
            moved = false;
        for (uint32_t i = 0; i < ranks; i++)
            ended = ended && all[i].begun > OPERATIONS;
        if (ended)
            break;
        idle = moved ? 0 : idle + 1;
        assert_true(idle < 10000);
    }
    assert_false(deliver(c));
    free(all);
    destroy(c);
}

static void folds_and_broadcasts_give_everybody_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 2, 3, 5, 8};
    for (size_t w = 0; w < 5; w++)
        for (uint64_t seed = 0; seed < 10; seed++)
            run(worlds[w], seed % 2 ? 100 : 8192, seed);
}

static void only_a_broadcasts_bytes_are_lent_and_worker_0_ends_it_last(void **state)
{
    (void)state;
    cluster *c = build(3, 64, 4);
    uint8_t bytes[3][1000] = {{0}};
    memset(bytes[0], 5, sizeof bytes[0]);
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(broadcast(c->collectives[r], bytes[r], sizeof bytes[r]));
    assert_int_equal(c->lent, 2 * 16);
    while (!psr_collective_finished(c->collectives[1]) || !psr_collective_finished(c->collectives[2])) {
        assert_false(psr_collective_finished(c->collectives[0]));
        assert_true(deliver(c));
    }
    while (deliver(c))
        ;
    assert_true(psr_collective_finished(c->collectives[0]));
    assert_memory_equal(bytes[2], bytes[0], sizeof bytes[0]);
    double values[3][100] = {{0}};
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(fold(c->collectives[r], values[r], 100));
    while (deliver(c))
        ;
    assert_int_equal(c->lent, 2 * 16);
    destroy(c);
}

static void the_lowest_rank_that_is_missing_is_named(void **state)
{
    (void)state;
    cluster *c = build(4, 64, 1);
    double values[4][20] = {{0}};
    assert_ok(fold(c->collectives[0], values[0], 20));
    assert_int_equal(waits(c->collectives[0]), 1);
    assert_ok(fold(c->collectives[1], values[1], 20));
    assert_ok(fold(c->collectives[3], values[3], 20));
    assert_int_equal(waits(c->collectives[3]), 0);
    while (deliver(c))
        ;
    assert_int_equal(waits(c->collectives[0]), 2);
    assert_false(psr_collective_finished(c->collectives[0]));
    assert_ok(fold(c->collectives[2], values[2], 20));
    while (deliver(c))
        ;
    assert_true(psr_collective_finished(c->collectives[0]));
    destroy(c);
}

/* ---- one rank, messages made by hand ---- */

static psr_err ignore(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)context;
    (void)to;
    (void)head;
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

typedef struct made {
    psr_message base;
    double values[16];
} made;

static unsigned freed;

static void made_release(psr_message *message)
{
    freed++;
    free(message);
}

static psr_message *make(psr_message_type type, uint32_t from, uint64_t number, uint64_t offset,
                         uint64_t count, size_t bytes)
{
    psr_span span = {offset, count};
    made *m = calloc(1, sizeof *m);
    m->base =
        (psr_message){.from = {PSR_ROLE_WORKER, from},
                      .head = type == PSR_MSG_GATHER ? psr_msg_gather_head(&(psr_msg_gather){number, span})
                                                     : psr_msg_spread_head(&(psr_msg_spread){number, span}),
                      .payload = m->values,
                      .payload_bytes = bytes,
                      .release = made_release};
    if (type == PSR_MSG_GATHER && bytes > 0)
        m->base.head.encoding = PSR_ENCODING_FLOAT64;
    return &m->base;
}

static void refused(psr_collective *c, psr_message *message, const char *text)
{
    unsigned before = freed;
    assert_fails(psr_collective_message(c, &message), PSR_ERR_PROTOCOL, text);
    assert_null(message);
    assert_int_equal(freed, before + 1);
}

static void accepted(psr_collective *c, psr_message *message)
{
    assert_ok(psr_collective_message(c, &message));
    assert_null(message);
}

static void worker_0_refuses_what_cannot_come_now(void **state)
{
    (void)state;
    psr_collective *c;
    double values[12] = {0};
    assert_ok(psr_collective_new(0, 3, 64, 128, (psr_outbox){.context = NULL, .send = ignore},
                                 &c)); /* 8 doubles a slice */
    refused(c, make(PSR_MSG_GATHER, 1, 2, 0, 8, 64), "collective 2 while 0");
    refused(c, make(PSR_MSG_GATHER, 1, 0, 0, 8, 64), "collective 0 while 0");
    assert_ok(fold(c, values, 12));
    refused(c, make(PSR_MSG_SPREAD, 1, 1, 0, 64, 64), "does not hear that");
    refused(c, make(PSR_MSG_GATHER, 0, 1, 0, 8, 64), "does not hear that");
    refused(c, make(PSR_MSG_GATHER, 3, 1, 0, 8, 64), "does not hear that");
    psr_message *of_shard = make(PSR_MSG_GATHER, 1, 1, 0, 8, 64);
    of_shard->from.role = PSR_ROLE_SHARD;
    refused(c, of_shard, "does not hear that");
    refused(c, make(PSR_MSG_GATHER, 1, 3, 0, 8, 64), "collective 3 while 1");
    refused(c, make(PSR_MSG_GATHER, 1, 1, 0, 7, 64), "0 of 12 doubles");
    refused(c, make(PSR_MSG_GATHER, 1, 1, 0, 8, 56),
            "its payload has 56 bytes, not those of 8 values of float64");
    refused(c, make(PSR_MSG_GATHER, 1, 1, 8, 4, 32), "0 of 12 doubles");
    refused(c, make(PSR_MSG_GATHER, 1, 1, UINT64_MAX, 8, 64), "0 of 12 doubles");
    accepted(c, make(PSR_MSG_GATHER, 1, 1, 0, 8, 64));
    refused(c, make(PSR_MSG_GATHER, 1, 1, 0, 8, 64), "8 of 12 doubles");
    accepted(c, make(PSR_MSG_GATHER, 1, 1, 8, 4, 32));
    refused(c, make(PSR_MSG_GATHER, 1, 1, 12, 0, 0), "12 of 12 doubles");
    accepted(c, make(PSR_MSG_GATHER, 1, 2, 0, 0, 0)); /* early: held */
    accepted(c, make(PSR_MSG_GATHER, 2, 1, 0, 8, 64));
    accepted(c, make(PSR_MSG_GATHER, 2, 1, 8, 4, 32));
    assert_true(psr_collective_finished(c));
    refused(c, make(PSR_MSG_GATHER, 2, 1, 8, 4, 32), "collective 1 while 1");
    /* Collective 2 is a broadcast: rank 1 has answered already. */
    assert_ok(broadcast(c, values, sizeof values));
    refused(c, make(PSR_MSG_GATHER, 1, 2, 0, 0, 0), "answered once");
    refused(c, make(PSR_MSG_GATHER, 2, 2, 0, 1, 8), "answered once");
    assert_int_equal(waits(c), 2);
    accepted(c, make(PSR_MSG_GATHER, 2, 2, 0, 0, 0));
    assert_true(psr_collective_finished(c));
    accepted(c, make(PSR_MSG_GATHER, 2, 3, 0, 8, 64));
    psr_collective_free(c); /* with one held */
    psr_collective_free(NULL);
}

static void the_others_refuse_what_cannot_come_now(void **state)
{
    (void)state;
    psr_collective *c;
    uint8_t bytes[100] = {0};
    assert_ok(psr_collective_new(1, 3, 64, 128, (psr_outbox){.context = NULL, .send = ignore}, &c));
    assert_ok(broadcast(c, bytes, sizeof bytes));
    refused(c, make(PSR_MSG_GATHER, 0, 1, 0, 8, 64), "does not hear that");
    refused(c, make(PSR_MSG_SPREAD, 2, 1, 0, 64, 64), "does not hear that");
    refused(c, make(PSR_MSG_SPREAD, 0, 1, 64, 36, 36), "0 of 100 bytes");
    refused(c, make(PSR_MSG_SPREAD, 0, 1, 0, 100, 100), "0 of 100 bytes");
    refused(c, make(PSR_MSG_SPREAD, 0, 1, 0, 64, 63),
            "its payload has 63 bytes, not those of 64 values of bytes");
    accepted(c, make(PSR_MSG_SPREAD, 0, 1, 0, 64, 64));
    refused(c, make(PSR_MSG_SPREAD, 0, 1, 0, 64, 64), "64 of 100 bytes");
    refused(c, make(PSR_MSG_SPREAD, 0, 1, 64, 64, 64), "64 of 100 bytes");
    accepted(c, make(PSR_MSG_SPREAD, 0, 1, 64, 36, 36));
    assert_true(psr_collective_finished(c));
    psr_collective_free(c);
}

static void more_than_the_largest_operation_of_all_others_is_not_held(void **state)
{
    (void)state;
    psr_collective *c;
    assert_ok(psr_collective_new(0, 3, 64, 64, (psr_outbox){.context = NULL, .send = ignore},
                                 &c)); /* 2 slices of each */
    for (uint32_t i = 0; i < 4; i++)
        accepted(c, make(PSR_MSG_GATHER, 1 + i % 2, 1, 0, 8, 64));
    refused(c, make(PSR_MSG_GATHER, 1, 1, 0, 8, 64), "no collective is as large");
    psr_collective_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folds_and_broadcasts_give_everybody_the_same_bits),
        cmocka_unit_test(only_a_broadcasts_bytes_are_lent_and_worker_0_ends_it_last),
        cmocka_unit_test(the_lowest_rank_that_is_missing_is_named),
        cmocka_unit_test(worker_0_refuses_what_cannot_come_now),
        cmocka_unit_test(the_others_refuse_what_cannot_come_now),
        cmocka_unit_test(more_than_the_largest_operation_of_all_others_is_not_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
