/* How the ends of messages find each other: in random orders of calls and of arrivals, from any
 * rank and with any tag, with as many steps for one of 100,000 as for one of few, and nothing kept
 * behind them; and what is refused of liars. */
#include "tests/unit/comm/group_network.h"

#include <malloc.h>

enum { WINDOW = 2, SLICE_BYTES = 64, MANY = 20000 };

static psr_request *start(network *net, uint32_t rank, const psr_request_options *options)
{
    psr_request *request = network_request(net, rank, options);
    assert_ok(psr_request_start(request));
    return request;
}

static psr_request *start_message(network *net, uint32_t rank, psr_kind kind, int32_t *values,
                                  size_t count, uint32_t peer, uint32_t tag)
{
    psr_request_options options = message_of(kind, values, count, peer, tag);
    options.at_most =
        kind == PSR_KIND_RECEIVE && (peer == PSR_RANK_ANY || tag == PSR_MESSAGE_TAG_ANY);
    return start(net, rank, &options);
}

static void expect_came(const psr_request *request, uint32_t from, uint32_t tag, uint64_t count)
{
    uint32_t was_from = 0, was_tag = 0;
    uint64_t was_count = 0;
    psr_type type = PSR_TYPES;
    assert_true(psr_request_done(request));
    assert_true(psr_request_came(request, &was_from, &was_tag, &was_count, &type));
    assert_int_equal(was_from, from);
    assert_int_equal(was_tag, tag);
    assert_int_equal(was_count, count);
    assert_int_equal(type, PSR_TYPE_INT32);
}

/* Nothing is left that was of a message or an operation. */
static void expect_empty(const network *net)
{
    for (uint32_t r = 0; r < net->ranks; r++) {
        psr_group_load load = psr_group_load_of(net->groups[r]);
        assert_int_equal(load.requests, 0);
        assert_int_equal(load.kept, 0);
        assert_int_equal(load.offers, 0);
        assert_int_equal(load.keys, 0);
    }
}

/* ---- random programs ---- */

enum { RANKS = 4, EACH = 50, MOST = 12 * EACH, TAGS = 3, COUNT_MOST = 40 };

typedef struct end {
    psr_request *request;
    uint32_t peer, tag; /* as called */
    size_t count;
    int32_t values[COUNT_MOST];
} end;

typedef struct program {
    network *net;
    end sends[RANKS][MOST], receives[RANKS][MOST];
    uint32_t sent[RANKS], received[RANKS];
} program;

/* What is sent says whose it is, and its number. */
static void send_one(program *p, uint32_t rank, uint32_t to, uint32_t tag)
{
    assert_true(p->sent[rank] < MOST);
    end *e = &p->sends[rank][p->sent[rank]];
    *e = (end){.peer = to, .tag = tag, .count = 1 + network_draw(p->net, COUNT_MOST - 1)};
    for (size_t i = 0; i < e->count; i++)
        e->values[i] = (int32_t)(rank * MOST + p->sent[rank]);
    p->sent[rank]++;
    e->request = start_message(p->net, rank, PSR_KIND_SEND, e->values, e->count, to, tag);
}

static void receive_one(program *p, uint32_t rank, uint32_t peer, uint32_t tag)
{
    assert_true(p->received[rank] < MOST);
    end *e = &p->receives[rank][p->received[rank]++];
    *e = (end){.peer = peer, .tag = tag, .count = COUNT_MOST};
    psr_request_options options = message_of(PSR_KIND_RECEIVE, e->values, COUNT_MOST, peer, tag);
    options.at_most = true;
    e->request = start(p->net, rank, &options);
}

static bool fits(const end *receive, uint32_t sender, const end *send)
{
    return (receive->peer == PSR_RANK_ANY || receive->peer == sender) &&
           (receive->tag == PSR_MESSAGE_TAG_ANY || receive->tag == send->tag);
}

/* Which receive got each message; checks what that was told, and that it has the values. */
static void find_receivers(const program *p, uint32_t rank, uint32_t receiver_of[RANKS][MOST])
{
    memset(receiver_of, 0xff, sizeof(uint32_t[RANKS][MOST]));
    for (uint32_t i = 0; i < p->received[rank]; i++) {
        const end *e = &p->receives[rank][i];
        uint32_t from = (uint32_t)e->values[0] / MOST, number = (uint32_t)e->values[0] % MOST;
        const end *sent = &p->sends[from][number];
        assert_int_equal(sent->peer, rank);
        assert_true(fits(e, from, sent));
        expect_came(e->request, from, sent->tag, sent->count);
        for (size_t k = 1; k < sent->count; k++)
            assert_int_equal(e->values[k], e->values[0]);
        assert_true(receiver_of[from][number] == UINT32_MAX); /* once */
        receiver_of[from][number] = i;
    }
}

/* Of two messages of one rank that fit a receive, the first was received by it or by one before
 * it. */
static void check_order(const program *p, uint32_t rank)
{
    static uint32_t receiver_of[RANKS][MOST];
    find_receivers(p, rank, receiver_of);
    for (uint32_t from = 0; from < RANKS; from++)
        for (uint32_t k = 0; k < p->sent[from]; k++)
            for (uint32_t i = 0; i < k; i++)
                if (p->sends[from][i].peer == rank && p->sends[from][k].peer == rank &&
                    fits(&p->receives[rank][receiver_of[from][k]], from, &p->sends[from][i]) &&
                    receiver_of[from][i] > receiver_of[from][k])
                    fail_msg("seed %d: message %d of rank %d to %d came past message %d",
                             (int)p->net->seed, (int)k, (int)from, (int)rank, (int)i);
}

/* For a receive that has got nothing something that fits; for a message that is left a receive of
 * anything. false: all is over. */
static bool help(program *p)
{
    bool helped = false;
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0, most = p->received[r]; i < most; i++) {
            const end *e = &p->receives[r][i];
            if (psr_request_done(e->request))
                continue;
            send_one(p, e->peer == PSR_RANK_ANY ? r : e->peer, r,
                     e->tag == PSR_MESSAGE_TAG_ANY ? 0 : e->tag);
            network_settle(p->net);
            helped = true;
        }
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < p->sent[r]; i++) {
            const end *e = &p->sends[r][i];
            if (psr_request_done(e->request))
                continue;
            receive_one(p, e->peer, PSR_RANK_ANY, PSR_MESSAGE_TAG_ANY);
            network_settle(p->net);
            helped = true;
        }
    return helped;
}

/* wild: of how many receives one is of any rank, or any tag; 0: none. */
static void run_program(uint64_t seed, uint32_t wild)
{
    program *p = calloc(1, sizeof *p);
    p->net = network_open(RANKS, SLICE_BYTES, WINDOW, seed);
    for (uint32_t turn = 0; turn < 2 * RANKS * EACH; turn++) {
        uint32_t rank = network_draw(p->net, RANKS), other = network_draw(p->net, RANKS);
        uint32_t tag = network_draw(p->net, TAGS);
        if (network_draw(p->net, 2) == 0)
            send_one(p, rank, other, tag);
        else
            receive_one(p, rank, wild > 0 && network_draw(p->net, wild) == 0 ? PSR_RANK_ANY : other,
                        wild > 0 && network_draw(p->net, wild) == 0 ? PSR_MESSAGE_TAG_ANY : tag);
        for (uint32_t d = network_draw(p->net, 6); d > 0; d--)
            network_deliver(p->net, NULL);
    }
    network_settle(p->net);
    while (help(p))
        ;
    expect_empty(p->net);
    for (uint32_t r = 0; r < RANKS; r++)
        check_order(p, r);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < p->sent[r]; i++)
            psr_request_free(p->sends[r][i].request);
        for (uint32_t i = 0; i < p->received[r]; i++)
            psr_request_free(p->receives[r][i].request);
    }
    network_close(p->net);
    free(p);
}

static void messages_keep_their_order_whatever_they_are_received_by(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 90; seed++)
        run_program(seed, (uint32_t)(seed % 3) * 2);
}

/* A rank dies: what it had offered, and what was to come of it, is freed with the group. */
static void what_is_under_way_with_the_dead_is_freed(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        network *net = network_open(3, SLICE_BYTES, WINDOW, seed);
        static int32_t values[60][COUNT_MOST];
        psr_request *requests[60];
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t rank = network_draw(net, 3), other = network_draw(net, 3);
            bool sends = network_draw(net, 2) == 0;
            requests[i] = start_message(net, rank, sends ? PSR_KIND_SEND : PSR_KIND_RECEIVE,
                                        values[i], 30, !sends && i % 2 ? PSR_RANK_ANY : other, 0);
            for (uint32_t d = network_draw(net, 3); d > 0; d--)
                network_deliver(net, NULL);
            if (i == 40)
                network_cut(net, 1);
        }
        network_settle(net);
        network_close_broken(net, requests, 60);
    }
}

/* ---- from any rank ---- */

static void what_was_announced_first_is_received_first(void **state)
{
    (void)state;
    network *net = network_open(3, SLICE_BYTES, WINDOW, 0);
    int32_t sent[3] = {10, 11, 12}, received[3] = {0};
    psr_request *requests[6];
    /* Rank 2 is heard before rank 1; within a rank the order is that of sending, whatever the
     * tag. */
    requests[0] =
        start_message(net, 0, PSR_KIND_RECEIVE, &received[0], 1, PSR_RANK_ANY, PSR_MESSAGE_TAG_ANY);
    assert_true(psr_request_waits_for_any(requests[0]));
    psr_waiting waiting;
    assert_false(psr_request_waits(requests[0], &waiting));
    requests[1] = start_message(net, 2, PSR_KIND_SEND, &sent[2], 1, 0, 8);
    network_settle(net);
    expect_came(requests[0], 2, 8, 1);
    requests[2] = start_message(net, 1, PSR_KIND_SEND, &sent[0], 1, 0, 5);
    requests[3] = start_message(net, 1, PSR_KIND_SEND, &sent[1], 1, 0, 4);
    network_settle(net);
    requests[4] = start_message(net, 0, PSR_KIND_RECEIVE, &received[1], 1, 1, PSR_MESSAGE_TAG_ANY);
    requests[5] = start_message(net, 0, PSR_KIND_RECEIVE, &received[2], 1, PSR_RANK_ANY, 4);
    network_settle(net);
    expect_came(requests[4], 1, 5, 1);
    expect_came(requests[5], 1, 4, 1);
    assert_int_equal(received[0], 12);
    assert_int_equal(received[1], 10);
    assert_int_equal(received[2], 11);
    expect_empty(net);
    for (size_t i = 0; i < 6; i++)
        psr_request_free(requests[i]);
    network_close(net);
}

static void a_probe_tells_of_a_message_and_leaves_it(void **state)
{
    (void)state;
    network *net = network_open(2, SLICE_BYTES, WINDOW, 1);
    int32_t sent[30] = {0}, received[30];
    psr_request_options probe = message_of(PSR_KIND_PROBE, NULL, 0, PSR_RANK_ANY, 6);
    probe.at_once = true;
    psr_request *at_once = start(net, 1, &probe);
    uint32_t from, tag;
    uint64_t count;
    psr_type type;
    assert_true(psr_request_done(at_once));
    assert_false(psr_request_came(at_once, &from, &tag, &count, &type));
    probe.at_once = false;
    psr_request *waits = start(net, 1, &probe),
                *other = start_message(net, 0, PSR_KIND_SEND, sent, 3, 1, 5);
    network_settle(net);
    assert_false(psr_request_done(waits)); /* another tag */
    psr_request *send = start_message(net, 0, PSR_KIND_SEND, sent, 30, 1, 6);
    network_settle(net);
    expect_came(waits, 0, 6, 30);
    assert_ok(psr_request_start(at_once)); /* again: it is there still */
    expect_came(at_once, 0, 6, 30);
    assert_int_equal(psr_sim_under_way(net->sim, (psr_peer){PSR_ROLE_WORKER, 1},
                                       (psr_peer){PSR_ROLE_WORKER, 3}, PSR_MSG_VALUES),
                     0); /* nothing comes unasked */
    psr_request *receive = start_message(net, 1, PSR_KIND_RECEIVE, received, 30, 0, 6);
    psr_request *last =
        start_message(net, 1, PSR_KIND_RECEIVE, received, 30, 0, PSR_MESSAGE_TAG_ANY);
    network_settle(net);
    expect_came(receive, 0, 6, 30);
    expect_came(last, 0, 5, 3);
    expect_empty(net);
    psr_request *all[] = {at_once, waits, other, send, receive, last};
    for (size_t i = 0; i < 6; i++)
        psr_request_free(all[i]);
    network_close(net);
}

static void a_message_longer_than_its_place_or_of_another_type_is_a_mismatch(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        network *net = network_open(2, SLICE_BYTES, WINDOW, (uint64_t)which);
        int32_t sent[10] = {0}, received[10];
        bool listens = which % 2 == 1, is_type = which > 1;
        psr_request *requests[2];
        psr_request_options receive =
            message_of(PSR_KIND_RECEIVE, received, 9, listens ? PSR_RANK_ANY : 0, 3);
        receive.at_most = true;
        receive.type = is_type ? PSR_TYPE_FLOAT32 : PSR_TYPE_INT32;
        requests[1] = start(net, 1, &receive);
        requests[0] = start_message(net, 0, PSR_KIND_SEND, sent, is_type ? 8 : 10, 1, 3);
        psr_err err = PSR_OK;
        while (err == PSR_OK && network_deliver(net, &err))
            ;
        assert_int_equal(err, PSR_ERR_MISMATCH);
        assert_non_null(
            strstr(psr_err_detail(), "a message with tag 3 of the group of ranks 1, 3: "));
        assert_non_null(strstr(psr_err_detail(), is_type
                                                     ? "receive(count at most 9, float32, direct)"
                                                     : "receive(count at most 9, int32, direct)"));
        network_close_broken(net, requests, 2);
    }
}

/* ---- many ---- */

typedef enum many_kind {
    ALL_REDUCES,
    PERSISTENT,
    ONE_TAG,
    MANY_TAGS,
    ANY_RANKS,
    MANY_KINDS
} many_kind;

static psr_request_options one_of_many(many_kind kind, uint32_t rank, size_t i, int32_t *value)
{
    psr_request_options o = message_of(rank == 0 ? PSR_KIND_SEND : PSR_KIND_RECEIVE, value, 1,
                                       1 - rank, kind == MANY_TAGS ? (uint32_t)i : 7);
    if (kind == ANY_RANKS && rank == 1)
        o.peer = PSR_RANK_ANY;
    if (kind == ALL_REDUCES || kind == PERSISTENT)
        o = (psr_request_options){.kind = PSR_KIND_ALL_REDUCE,
                                  .algorithm = PSR_ALGORITHM_DIRECT,
                                  .type = PSR_TYPE_INT32,
                                  .send = value,
                                  .receive = value,
                                  .count = 1,
                                  .persistent = kind == PERSISTENT};
    return o;
}

/* Rank 0 begins all, and rank 1 does, in the other order where that may be. Returns entries that
 * were looked at for one of them. */
static double steps_of(many_kind kind, size_t count, bool reversed)
{
    network *net = network_open(2, SLICE_BYTES, 8, 0);
    for (uint32_t rank = 0; rank < 2; rank++)
        psr_transport_bound(net->transports[rank], PSR_ROLE_WORKER, SIZE_MAX);
    int32_t *values = calloc(2 * count, sizeof *values);
    psr_request **requests = calloc(2 * count, sizeof *requests);
    uint64_t before =
        psr_group_load_of(net->groups[0]).visited + psr_group_load_of(net->groups[1]).visited;
    for (uint32_t rank = 0; rank < 2; rank++)
        for (size_t i = 0; i < count; i++) {
            psr_request_options o = one_of_many(kind, rank, i, &values[rank * count + i]);
            values[rank * count + i] = (int32_t)i;
            requests[rank * count + i] = network_request(net, rank, &o);
        }
    for (uint32_t rank = 0; rank < 2; rank++)
        for (size_t i = 0; i < count; i++)
            assert_ok(psr_request_start(
                requests[rank * count + (rank == 1 && reversed ? count - 1 - i : i)]));
    network_settle(net);
    for (size_t i = 0; i < 2 * count; i++)
        if (!psr_request_done(requests[i]))
            fail_msg("kind %d: request %d of %d has not ended", (int)kind, (int)i,
                     (int)(2 * count));
    for (size_t i = 0; i < count; i++)
        if (kind != ANY_RANKS && !(reversed && kind == ONE_TAG))
            assert_int_equal(values[count + i], kind <= PERSISTENT ? 2 * (int32_t)i : (int32_t)i);
    expect_empty(net);
    uint64_t after =
        psr_group_load_of(net->groups[0]).visited + psr_group_load_of(net->groups[1]).visited;
    for (size_t i = 0; i < 2 * count; i++)
        psr_request_free(requests[i]);
    network_close(net);
    free(values);
    free(requests);
    return (double)(after - before) / (double)count;
}

static void one_of_many_takes_as_many_steps_as_one_of_few(void **state)
{
    (void)state;
    for (many_kind kind = 0; kind < MANY_KINDS; kind++)
        for (int reversed = 0; reversed < (kind == ALL_REDUCES ? 1 : 2); reversed++) {
            double few = steps_of(kind, 10, reversed != 0),
                   many = steps_of(kind, MANY, reversed != 0);
            if (many > 2 * few + 2)
                fail_msg("kind %d: %g steps for each of %d, %g for each of ten", (int)kind, many,
                         MANY, few);
        }
}

/* ---- groups ---- */

static psr_err send_nowhere(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    (void)to, (void)head;
    assert_null(payload);
    ++*(uint64_t *)context;
    return PSR_OK;
}

/* One that ends, one that its sender never begins, and one that this rank does not begin. */
static void use_and_free_group(uint32_t id, uint64_t *sent)
{
    static const psr_peer members[] = {{PSR_ROLE_WORKER, 4}, {PSR_ROLE_WORKER, 9}};
    const psr_group_options options = {.id = id,
                                       .ranks = 2,
                                       .members = members,
                                       .hosts = 1,
                                       .slice_bytes = SLICE_BYTES,
                                       .window = WINDOW,
                                       .outbox = {.context = sent, .send = send_nowhere}};
    psr_group *group = NULL;
    psr_request *requests[4] = {NULL};
    int32_t values[2] = {7, 0};
    const psr_request_options of[] = {message_of(PSR_KIND_SEND, &values[0], 1, 0, id % 5),
                                      message_of(PSR_KIND_RECEIVE, &values[1], 1, 0, id % 5),
                                      message_of(PSR_KIND_RECEIVE, values, 1, 1, id % 7),
                                      one_of_many(PERSISTENT, 0, 0, values)};
    assert_ok(psr_group_new(&options, &group));
    for (size_t i = 0; i < 4; i++)
        assert_ok(psr_request_new(group, &of[i], &requests[i]));
    for (size_t i = 0; i < 3; i++)
        assert_ok(psr_request_start(requests[i]));
    assert_true(psr_request_done(requests[0]) && psr_request_done(requests[1]));
    assert_int_equal(values[1], 7);
    for (size_t i = 0; i < 4; i++)
        psr_request_free(requests[i]);
    psr_group_free(group);
}

/* 0 where the library does not say it, or a sanitizer has its own. */
static size_t bytes_in_use(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

static void groups_that_were_freed_leave_no_memory(void **state)
{
    (void)state;
    uint64_t sent = 0;
    for (uint32_t id = 0; id < 100; id++)
        use_and_free_group(id, &sent);
    const size_t before = bytes_in_use();
    for (uint32_t id = 0; id < MANY; id++)
        use_and_free_group(id, &sent);
    assert_int_equal(bytes_in_use(), before);
    assert_int_equal(sent, MANY + 100); /* each has said once that it waits for the other rank */
}

/* Each rank waits for one that the other has begun behind more than may be told: it hears which
 * have begun. */
static void who_waits_for_the_last_of_many_gets_it(void **state)
{
    (void)state;
    enum { COUNT = PSR_CREDITS_KEPT + 100 };
    for (int asymmetric = 0; asymmetric < 2; asymmetric++) {
        network *net = network_open(2, SLICE_BYTES, WINDOW, 0);
        static int32_t values[2][COUNT];
        static psr_request *requests[2][COUNT];
        for (uint32_t rank = 0; rank < 2; rank++)
            for (size_t i = 0; i < COUNT; i++) {
                psr_request_options o = one_of_many(PERSISTENT, rank, i, &values[rank][i]);
                if (asymmetric) {
                    o.kind = PSR_KIND_REDUCE;
                    o.algorithm = PSR_ALGORITHM_BINOMIAL;
                }
                requests[rank][i] = network_request(net, rank, &o);
            }
        for (size_t i = 0; i < COUNT; i++)
            assert_ok(psr_request_start(requests[0][i]));
        network_settle(net);
        for (size_t i = COUNT; i-- > 0;) {
            assert_ok(psr_request_start(requests[1][i]));
            network_settle(net);
            assert_true(psr_request_done(requests[0][i]) && psr_request_done(requests[1][i]));
        }
        expect_empty(net);
        for (size_t i = 0; i < COUNT; i++) {
            psr_request_free(requests[0][i]);
            psr_request_free(requests[1][i]);
        }
        network_close(net);
    }
}

/* ---- liars ---- */

static psr_err ignore(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)context, (void)to, (void)head;
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static void made_release(psr_message *message)
{
    free(message);
}

static psr_err hear(psr_group *group, psr_head head)
{
    psr_message *message = malloc(sizeof *message);
    *message = (psr_message){.from = {PSR_ROLE_WORKER, 0}, .head = head, .release = made_release};
    return psr_group_message(group, &message);
}

static psr_msg_call send_call(uint64_t count)
{
    return psr_call_message(&(psr_call){.kind = PSR_KIND_SEND,
                                        .algorithm = PSR_ALGORITHM_DIRECT,
                                        .type = PSR_TYPE_INT32,
                                        .count = count});
}

static psr_head offer_of(uint32_t slot, uint64_t round)
{
    return psr_msg_offer_head(
        &(psr_msg_offer){.tag = {NETWORK_EPOCH, NETWORK_GROUP, slot, round}, .call = send_call(1)});
}

static psr_head ticket_of(uint64_t round, uint64_t offer)
{
    return psr_msg_credit_head(
        &(psr_msg_credit){.tag = {NETWORK_EPOCH, NETWORK_GROUP, PSR_MESSAGE_TAG_MAX + 1, round},
                          .call = send_call(1),
                          .slices = 1,
                          .offer = offer});
}

static void what_no_honest_rank_offers_is_refused(void **state)
{
    (void)state;
    const uint64_t offered = UINT64_C(1) << 63;
    const uint32_t slot = PSR_MESSAGE_TAG_MAX + 1;
    psr_peer members[] = {{PSR_ROLE_WORKER, 0}, {PSR_ROLE_WORKER, 1}};
    psr_group_options options = {.epoch = NETWORK_EPOCH,
                                 .id = NETWORK_GROUP,
                                 .rank = 1,
                                 .ranks = 2,
                                 .members = members,
                                 .hosts = 1,
                                 .slice_bytes = SLICE_BYTES,
                                 .window = WINDOW,
                                 .outbox = {.send = ignore}};
    psr_group *group;
    assert_ok(psr_group_new(&options, &group));
    assert_fails(hear(group, offer_of(slot, offered | 1)), PSR_ERR_PROTOCOL,
                 "this rank does not listen");
    psr_request_options probe = message_of(PSR_KIND_PROBE, NULL, 0, 0, 4);
    psr_request *request = NULL, *send = NULL;
    assert_ok(psr_request_new(group, &probe, &request));
    assert_ok(psr_request_start(request));
    assert_fails(hear(group, offer_of(slot, 1)), PSR_ERR_PROTOCOL, "it offers no message");
    assert_fails(hear(group, offer_of(0, offered | 1)), PSR_ERR_PROTOCOL, "it offers no message");
    for (uint64_t i = 1; i <= PSR_OFFERS_KEPT; i++)
        assert_ok(hear(group, offer_of(slot, offered | i)));
    assert_fails(hear(group, offer_of(slot, offered | 5000)), PSR_ERR_PROTOCOL,
                 "4096 messages for calls that have not begun here are kept already");
    assert_fails(hear(group, offer_of(1, 1)), PSR_ERR_PROTOCOL,
                 "4096 messages for calls that have not begun here are kept already");
    assert_int_equal(psr_group_load_of(group).offers, PSR_OFFERS_KEPT);

    int32_t value = 0;
    psr_request_options message = message_of(PSR_KIND_SEND, &value, 1, 0, 0);
    assert_ok(psr_request_new(group, &message, &send));
    assert_fails(hear(group, ticket_of(1, 1)), PSR_ERR_PROTOCOL, "message 1 was not offered to it");
    assert_ok(hear(group, psr_msg_listen_head(NETWORK_EPOCH, NETWORK_GROUP)));
    assert_fails(hear(group, psr_msg_listen_head(NETWORK_EPOCH, NETWORK_GROUP)), PSR_ERR_PROTOCOL,
                 "it said LISTEN before");
    assert_fails(hear(group, ticket_of(1, 0)), PSR_ERR_PROTOCOL,
                 "it said LISTEN, and this message was not offered to it");
    assert_ok(psr_request_start(send));
    assert_ok(hear(group, ticket_of(1, 1)));
    assert_true(psr_request_done(send));
    assert_fails(hear(group, ticket_of(2, 1)), PSR_ERR_PROTOCOL,
                 "message 1 was not offered to it, or was");
    psr_request_free(request);
    psr_request_free(send);
    psr_group_free(group); /* with what was offered */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_their_order_whatever_they_are_received_by),
        cmocka_unit_test(what_is_under_way_with_the_dead_is_freed),
        cmocka_unit_test(what_was_announced_first_is_received_first),
        cmocka_unit_test(a_probe_tells_of_a_message_and_leaves_it),
        cmocka_unit_test(a_message_longer_than_its_place_or_of_another_type_is_a_mismatch),
        cmocka_unit_test(one_of_many_takes_as_many_steps_as_one_of_few),
        cmocka_unit_test(groups_that_were_freed_leave_no_memory),
        cmocka_unit_test(who_waits_for_the_last_of_many_gets_it),
        cmocka_unit_test(what_no_honest_rank_offers_is_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
