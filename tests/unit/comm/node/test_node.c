/* Nodes of a communicator on the simulated network, in virtual time, and a coordinator that is
 * played here. */
#include "tests/unit/expect.h"

#include "comm/node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, DEADLINE_MS = 1000, COUNT = 200000 /* several slices */ };

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

typedef struct member {
    psr_transport *transport;
    psr_node *node;
    psr_node_group *world;
    psr_node_request *request;
    int32_t *values;
    psr_msg_failure found; /* the last FINDING */
    char line[512];
    uint32_t findings, changes, retired, cuts;
    uint64_t sent[RANKS]; /* messages to each rank */
} member;

static struct {
    psr_sim *sim;
    psr_view view;
    psr_view_member entries[RANKS];
    member members[RANKS];
} world;

static int64_t now_ms(void)
{
    return psr_sim_now_us(world.sim) / 1000;
}

static psr_err play_send(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    member *m = context;
    if (!psr_peer_equal(to, scheduler)) {
        m->sent[to.rank]++;
        return psr_transport_send(m->transport, to, head, payload);
    }
    const psr_message message = {.head = *head};
    expect_ok(psr_msg_failure_read(&message, &(psr_msg_limits){.workers = RANKS}, &m->found));
    snprintf(m->line, sizeof m->line, "%.*s", payload != NULL ? (int)payload->bytes : 0,
             payload != NULL ? (const char *)payload->data : "");
    m->findings++;
    return PSR_OK;
}

static void play_cut(void *context, psr_peer peer)
{
    ((member *)context)->cuts |= 1u << peer.rank;
    psr_transport_disconnect(((member *)context)->transport, peer);
}

static void play_retire(void *context, psr_peer peer)
{
    ((member *)context)->retired |= 1u << peer.rank;
}

static void play_changed(void *context)
{
    ((member *)context)->changes++;
}

static void open_member(uint32_t rank)
{
    static const uint32_t ranks[RANKS] = {0, 1, 2};
    member *m = &world.members[rank];
    const psr_node_options options = {
        .view = &world.view,
        .rank = rank,
        .deadline_ms = DEADLINE_MS,
        .outbox = {.context = m, .send = play_send, .returned = play_changed},
        .context = m,
        .cut = play_cut,
        .retire = play_retire,
        .changed = play_changed};
    expect_ok(psr_transport_sim_new(world.sim, (psr_peer){PSR_ROLE_WORKER, rank}, &m->transport));
    for (uint32_t r = 0; r < RANKS; r++)
        if (r != rank)
            expect_ok(
                psr_transport_connect(m->transport, (psr_peer){PSR_ROLE_WORKER, r}, "", NULL));
    expect_ok(psr_node_new(&options, now_ms(), &m->node));
    expect_ok(psr_node_group_new(m->node, 0, 0, ranks, RANKS, &m->world));
    psr_node_take(m->node, PSR_NODE_OPEN_GROUP, m->world, now_ms());
    m->values = calloc(COUNT, sizeof *m->values);
    assert_non_null(m->values);
    for (int32_t i = 0; i < COUNT; i++)
        m->values[i] = i % 7 + (int32_t)rank;
}

static void open_network(bool by_reference)
{
    memset(&world, 0, sizeof world);
    expect_ok(psr_sim_new(
        &(psr_sim_faults){.seed = 5, .delay_max_us = 3000, .by_reference = by_reference},
        &world.sim));
    world.view = (psr_view){.members = world.entries, .member_count = RANKS};
    for (uint32_t r = 0; r < RANKS; r++)
        world.entries[r] = (psr_view_member){.peer = {PSR_ROLE_WORKER, r}, .host = "host"};
    for (uint32_t r = 0; r < RANKS; r++)
        open_member(r);
}

static int open_world(void **state)
{
    (void)state;
    open_network(false);
    return 0;
}

/* What is lent comes back when its message is freed. */
static int open_sharing_world(void **state)
{
    (void)state;
    open_network(true);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        psr_transport_free(&world.members[r].transport, 0);
    psr_sim_free(world.sim);
    for (uint32_t r = 0; r < RANKS; r++) {
        psr_node_free(world.members[r].node);
        free(world.members[r].values);
    }
    return 0;
}

static void start(uint32_t rank, psr_kind kind, size_t count)
{
    member *m = &world.members[rank];
    const psr_request_options options = {.kind = kind,
                                         .type = PSR_TYPE_INT32,
                                         .send = m->values,
                                         .receive = m->values,
                                         .count = count};
    expect_ok(psr_node_request_new(m->world, &options, DEADLINE_MS, "halo", &m->request));
    psr_node_request_begins(m->request);
    psr_node_take(m->node, PSR_NODE_START, m->request, now_ms());
}

/* Until nothing is under way. */
static void settle(void)
{
    psr_peer to;
    while (psr_sim_step(world.sim, &to)) {
        member *m = &world.members[to.rank];
        psr_message *message = NULL;
        while (psr_transport_recv(m->transport, 0, &message) == PSR_OK)
            psr_node_message(m->node, &message, now_ms());
    }
}

static void pass(int64_t ms)
{
    settle();
    for (int64_t end_ms = now_ms() + ms; now_ms() < end_ms;) {
        psr_sim_pass(world.sim, psr_sim_now_us(world.sim) + 50000);
        for (uint32_t r = 0; r < RANKS; r++) {
            int64_t next_ms = 0;
            psr_node_tick(world.members[r].node, now_ms(), &next_ms);
        }
    }
}

static void tell(uint32_t rank, psr_head head, const char *line)
{
    psr_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    *message = (psr_message){.from = scheduler,
                             .head = head,
                             .payload = line,
                             .payload_bytes = strlen(line),
                             .release = (void (*)(psr_message *))free};
    psr_node_message(world.members[rank].node, &message, now_ms());
}

static void answer(uint32_t rank, const psr_msg_failure *says, const char *line)
{
    tell(rank, psr_msg_verdict_head(says), line);
}

static void judge(uint32_t rank, psr_err status, psr_scope scope, uint32_t culprit,
                  const char *line)
{
    answer(rank, &(psr_msg_failure){.status = status, .scope = scope, .rank = culprit}, line);
}

static void operations_end_with_their_last_message(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        start(r, PSR_KIND_ALL_REDUCE, COUNT);
        assert_false(psr_node_request_ended(world.members[r].request));
    }
    settle();
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_true(psr_node_request_ended(world.members[r].request));
        expect_ok(psr_node_request_status(world.members[r].request));
        for (int32_t i = 0; i < COUNT; i++)
            assert_int_equal(world.members[r].values[i], 3 * (i % 7) + 3);
    }
}

static void a_deadline_is_a_question_and_the_answer_may_be_to_wait_on(void **state)
{
    (void)state;
    member *m = &world.members[0];
    psr_msg_progress progress = {0};
    start(0, PSR_KIND_BARRIER, 0);
    psr_node_report(m->node, &progress);
    assert_true(progress.waits && progress.waits_for.role == PSR_ROLE_WORKER &&
                progress.waits_for.rank != 0);
    pass(DEADLINE_MS - 100);
    assert_int_equal(m->findings, 0);
    pass(200);
    assert_int_equal(m->findings, 1); /* once */
    assert_int_equal(m->found.status, PSR_ERR_TIMEOUT);
    assert_int_equal(m->found.rank, progress.waits_for.rank);
    assert_int_equal(m->found.within_ms, DEADLINE_MS);
    assert_non_null(strstr(m->line, "rank 0 on host has waited for rank"));
    assert_non_null(strstr(m->line, "1.0 s in barrier 1 (halo)"));
    pass(DEADLINE_MS);
    assert_int_equal(m->findings, 1); /* until it is answered */
    answer(0, &(psr_msg_failure){.rank = PSR_RANK_ANY, .within_ms = DEADLINE_MS / 2}, "");
    pass(DEADLINE_MS / 2 - 100);
    assert_int_equal(m->findings, 1);
    pass(200); /* it asks again when that is over, and says how long it has waited in all */
    assert_int_equal(m->findings, 2);
    assert_int_equal(m->found.within_ms, DEADLINE_MS);
    assert_non_null(strstr(m->line, "2.6 s in barrier 1 (halo)"));
    answer(0, &(psr_msg_failure){.rank = PSR_RANK_ANY, .within_ms = DEADLINE_MS}, "");
    for (uint32_t r = 1; r < RANKS; r++)
        start(r, PSR_KIND_BARRIER, 0);
    settle();
    assert_true(psr_node_request_ended(m->request) && psr_node_group_failure(m->world) == NULL);
    assert_int_equal(m->findings, 3); /* that it is over */
    assert_true(m->found.status == PSR_OK && m->line[0] == '\0');
    start(0, PSR_KIND_BARRIER, 0);
    for (uint32_t r = 1; r < RANKS; r++)
        start(r, PSR_KIND_BARRIER, 0);
    settle();
    assert_int_equal(m->findings, 3); /* of what it never asked about it says nothing */
}

static void what_another_question_was_about_is_not_taken_back(void **state)
{
    (void)state;
    member *m = &world.members[0];
    const psr_request_options options = {.kind = PSR_KIND_RECEIVE,
                                         .type = PSR_TYPE_INT32,
                                         .receive = m->values,
                                         .count = 1,
                                         .peer = 1};
    start(0, PSR_KIND_BARRIER, 0);
    expect_ok(psr_node_request_new(m->world, &options, 2 * DEADLINE_MS, NULL, &m->request));
    psr_node_request_begins(m->request);
    psr_node_take(m->node, PSR_NODE_START, m->request, now_ms());
    pass(DEADLINE_MS + 100);
    assert_int_equal(m->findings, 1); /* of the barrier */
    answer(0, &(psr_msg_failure){.rank = PSR_RANK_ANY, .within_ms = 10 * DEADLINE_MS}, "");
    pass(DEADLINE_MS);
    assert_int_equal(m->findings, 2); /* of the message */
    for (uint32_t r = 1; r < RANKS; r++)
        start(r, PSR_KIND_BARRIER, 0);
    settle();
    assert_int_equal(m->findings, 2);
    assert_non_null(strstr(m->line, "receive from rank 1"));
}

static void a_verdict_ends_everything_and_gives_back_what_is_lent(void **state)
{
    (void)state;
    member *m = &world.members[0];
    start(0, PSR_KIND_ALL_REDUCE, COUNT); /* its first slices are lent */
    judge(0, PSR_ERR_PEER, PSR_SCOPE_ALL, 2, "rank 2 on host: no sign of life");
    settle();
    assert_true(psr_node_request_ended(m->request));
    expect_failure(psr_node_request_status(m->request), PSR_ERR_PEER,
                   "rank 2 on host: no sign of life");
    assert_int_equal(psr_node_failure(m->node)->rank, 2);
    judge(0, PSR_ERR_TIMEOUT, PSR_SCOPE_ALL, 1, "a second one");
    assert_int_equal(psr_node_failure(m->node)->rank, 2);
    psr_node_request *before = m->request;
    start(0, PSR_KIND_BARRIER, 0); /* what is started then has failed alike */
    assert_true(psr_node_request_ended(m->request) && m->request != before);
    expect_failure(psr_node_request_status(m->request), PSR_ERR_PEER,
                   "rank 2 on host: no sign of life");
}

/* Or who is asleep would seem to move as long as others send it something. */
static void what_comes_from_others_is_no_progress_of_a_rank(void **state)
{
    (void)state;
    psr_msg_progress before = {0}, after = {0};
    psr_node_report(world.members[1].node, &before);
    start(0, PSR_KIND_ALL_REDUCE, 4);
    settle();
    psr_node_report(world.members[1].node, &after);
    assert_int_equal(after.counter, before.counter);
    start(1, PSR_KIND_ALL_REDUCE, 4);
    psr_node_report(world.members[1].node, &after);
    assert_int_not_equal(after.counter, before.counter);
}

/* Both tell; the coordinator chooses, and who hears nothing of it has its own line. */
static void a_mismatch_waits_for_the_line_that_all_get(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        start(r, PSR_KIND_ALL_REDUCE, r == 2 ? 3 : 2);
    settle();
    assert_int_equal(world.members[2].findings, 1);
    assert_int_equal(world.members[2].found.status, PSR_ERR_MISMATCH);
    assert_int_equal(world.members[2].found.other, 2);
    assert_false(psr_node_request_ended(world.members[2].request));
    judge(2, PSR_ERR_MISMATCH, PSR_SCOPE_GROUP, 0, "the line of all");
    expect_failure(psr_node_request_status(world.members[2].request), PSR_ERR_MISMATCH,
                   "the line of all");
    assert_int_equal(world.members[0].findings, 1);
    pass(DEADLINE_MS / 2);
    assert_true(psr_node_request_ended(world.members[0].request));
    assert_int_equal(psr_node_request_status(world.members[0].request), PSR_ERR_MISMATCH);
    assert_string_equal(psr_err_detail(), world.members[0].line);
}

/* ---- ranks that have left ---- */

static void tell_left(uint32_t rank, uint32_t who, uint64_t messages)
{
    tell(rank, psr_msg_left_head(&(psr_msg_left){who, messages}), "");
}

static void all_start(psr_kind kind, size_t count)
{
    for (uint32_t r = 0; r < RANKS; r++)
        start(r, kind, count);
}

/* All that it has sent is waited for, however late it comes, and nothing else. */
static void who_has_left_is_waited_for_as_long_as_its_messages_are_on_their_way(void **state)
{
    (void)state;
    member *m = &world.members[0];
    int64_t next_ms = 0;
    all_start(PSR_KIND_ALL_REDUCE, COUNT);
    settle();
    const uint64_t each = world.members[2].sent[0];
    assert_true(each > 1);
    all_start(PSR_KIND_ALL_REDUCE, COUNT);
    tell_left(0, 2, 2 * each); /* it needs credits for them, so it has not left; but it shows */
    psr_node_tick(m->node, now_ms(), &next_ms);
    assert_false(psr_node_request_ended(m->request));
    settle();
    psr_node_tick(m->node, now_ms(), &next_ms);
    assert_int_equal(world.members[2].sent[0], 2 * each);
    for (uint32_t r = 0; r < RANKS; r++)
        expect_ok(psr_node_request_status(world.members[r].request));
    assert_int_equal(m->findings, 0);
    start(0, PSR_KIND_BARRIER, 0);
    start(1, PSR_KIND_BARRIER, 0);
    pass(100);
    assert_int_equal(m->findings, 1);
    assert_true(m->found.status == PSR_ERR_PEER && m->found.scope == PSR_SCOPE_GROUP &&
                m->found.rank == 2);
    assert_string_equal(m->line,
                        "rank 2 on host has left; rank 0 on host waits for it in barrier 3 (halo)");
    expect_failure(psr_node_request_status(m->request), PSR_ERR_PEER, m->line);
    assert_false(psr_node_request_ended(world.members[1].request)); /* it was not told */
}

static void who_has_left_matters_only_to_who_waits_for_it(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 2};
    psr_node_group *pair[RANKS] = {NULL};
    psr_node_request *requests[RANKS] = {NULL};
    for (uint32_t r = 0; r < RANKS; r += 2) {
        psr_node *node = world.members[r].node;
        expect_ok(psr_node_group_new(node, 0, RANKS, ranks, 2, &pair[r]));
        psr_node_take(node, PSR_NODE_OPEN_GROUP, pair[r], now_ms());
        tell_left(r, 1, 0);
    }
    for (uint32_t r = 0; r < RANKS; r += 2) {
        member *m = &world.members[r];
        const psr_request_options options = {.kind = PSR_KIND_ALL_REDUCE,
                                             .type = PSR_TYPE_INT32,
                                             .send = m->values,
                                             .receive = m->values,
                                             .count = COUNT};
        expect_ok(psr_node_request_new(pair[r], &options, DEADLINE_MS, NULL, &requests[r]));
        psr_node_request_begins(requests[r]);
        psr_node_take(m->node, PSR_NODE_START, requests[r], now_ms());
        pass(100);
    }
    settle();
    for (uint32_t r = 0; r < RANKS; r += 2) {
        assert_true(psr_node_request_ended(requests[r]));
        expect_ok(psr_node_request_status(requests[r]));
        assert_int_equal(world.members[r].findings, 0);
        assert_null(psr_node_group_failure(world.members[r].world));
    }
    tell_left(0, RANKS, 0); /* the coordinator lies: nothing is believed from then on */
    assert_int_equal(psr_node_failure(world.members[0].node)->err, PSR_ERR_PROTOCOL);
}

/* ---- what is lent when an operation has ended ---- */

enum { HELD_MAX = 16 };
static psr_message *held[HELD_MAX];
static size_t held_count;

static void free_copy(psr_message *message)
{
    free(message);
}

/* Until nothing is under way. Rank 1 takes a copy of every payload, and keeps what it was lent. */
static void settle_while_rank_1_keeps_what_it_is_lent(void)
{
    psr_peer to;
    while (psr_sim_step(world.sim, &to)) {
        member *m = &world.members[to.rank];
        psr_message *message = NULL;
        while (psr_transport_recv(m->transport, 0, &message) == PSR_OK) {
            if (to.rank == 1 && message->payload_bytes > 0) {
                psr_message *copy = malloc(sizeof *copy + message->payload_bytes);
                assert_non_null(copy);
                assert_true(held_count < HELD_MAX);
                *copy = (psr_message){.from = message->from,
                                      .head = message->head,
                                      .payload = copy + 1,
                                      .payload_bytes = message->payload_bytes,
                                      .release = free_copy};
                memcpy(copy + 1, message->payload, message->payload_bytes);
                held[held_count++] = message;
                message = copy;
            }
            psr_node_message(m->node, &message, now_ms());
        }
    }
}

static void give_all_back(void)
{
    while (held_count > 0)
        psr_message_free(&held[--held_count]);
}

/* Rank 0's broadcast is over, and rank 1 keeps what it was lent. */
static member *lend_to_rank_1(void)
{
    psr_msg_progress progress = {0};
    for (uint32_t r = 0; r < RANKS; r++)
        start(r, PSR_KIND_BROADCAST, COUNT);
    settle_while_rank_1_keeps_what_it_is_lent();
    assert_true(held_count > 0);
    for (uint32_t r = 1; r < RANKS; r++)
        assert_true(psr_node_request_ended(world.members[r].request));
    member *m = &world.members[0];
    assert_false(psr_node_request_ended(m->request));
    psr_node_report(m->node, &progress);
    assert_true(progress.waits && progress.waits_for.rank == 1);
    return m;
}

static void who_does_not_give_back_what_it_was_lent_is_named(void **state)
{
    (void)state;
    member *m = lend_to_rank_1();
    pass(DEADLINE_MS - 100);
    assert_int_equal(m->findings, 0);
    pass(200);
    assert_int_equal(m->findings, 1);
    assert_true(m->found.status == PSR_ERR_TIMEOUT && m->found.rank == 1);
    assert_int_equal(m->found.within_ms, DEADLINE_MS);
    assert_non_null(strstr(m->line,
                           "rank 0 on host has waited for rank 1 on host for 1.0 s to give "
                           "back what it was lent in broadcast 1 (halo)"));
    /* The coordinator says that rank 1 has left: it is given up at once. */
    assert_int_equal(m->cuts, 0);
    judge(0, PSR_ERR_PEER, PSR_SCOPE_GROUP, 1, "rank 1 on host has left");
    pass(100);
    assert_true(m->cuts & 2);
    give_all_back(); /* as the end of the channel does */
    assert_true(psr_node_request_ended(m->request));
    expect_ok(psr_node_request_status(m->request)); /* its values are right */
    start(0, PSR_KIND_BARRIER, 0);
    expect_failure(psr_node_request_status(m->request), PSR_ERR_PEER, "rank 1 on host has left");
}

/* It reads nothing more. */
static void who_has_left_gives_back_at_once_what_it_was_lent(void **state)
{
    (void)state;
    member *m = lend_to_rank_1();
    tell_left(0, 1, world.members[1].sent[0]);
    assert_int_equal(m->cuts, 2);
    give_all_back(); /* as the end of the channel does */
    assert_true(psr_node_request_ended(m->request));
    expect_ok(psr_node_request_status(m->request));
    assert_int_equal(m->findings, 0);
}

/* Its call has failed, and ends when its values are back. */
static void who_has_left_gives_back_what_a_broken_group_has_lent_it(void **state)
{
    (void)state;
    psr_msg_progress progress = {0};
    member *m = lend_to_rank_1();
    judge(0, PSR_ERR_PEER, PSR_SCOPE_GROUP, 2, "rank 2 on host has left");
    pass(100);
    psr_node_report(m->node, &progress); /* so it is told */
    assert_true(progress.waits && progress.waits_for.rank == 1);
    assert_int_equal(m->cuts, 0);
    tell_left(0, 1, world.members[1].sent[0]);
    assert_int_equal(m->cuts, 2);
    give_all_back();
    assert_true(psr_node_request_ended(m->request));
    psr_node_report(m->node, &progress);
    assert_false(progress.waits);
}

static void who_gives_back_late_may(void **state)
{
    (void)state;
    member *m = lend_to_rank_1();
    pass(DEADLINE_MS + 100);
    assert_int_equal(m->findings, 1);
    answer(0, &(psr_msg_failure){.rank = PSR_RANK_ANY, .within_ms = DEADLINE_MS}, "");
    give_all_back();
    assert_true(psr_node_request_ended(m->request));
    pass(2 * DEADLINE_MS);
    assert_int_equal(m->findings, 2); /* that it is over */
    assert_true(m->found.status == PSR_OK && m->line[0] == '\0');

    lend_to_rank_1();
    pass(DEADLINE_MS + 100);
    assert_int_equal(m->findings, 3);
    give_all_back(); /* before the coordinator has answered */
    pass(100);
    assert_int_equal(m->findings, 4);
    assert_int_equal(m->found.status, PSR_OK);

    lend_to_rank_1();
    give_all_back(); /* in time: nobody hears of it */
    pass(3 * DEADLINE_MS);
    assert_int_equal(m->findings, 4);
    psr_node_request *last = m->request;
    lend_to_rank_1();
    pass(DEADLINE_MS + 100);
    give_all_back();
    psr_node_take(m->node, PSR_NODE_FREE, m->request, now_ms()); /* while it asks */
    psr_node_take(m->node, PSR_NODE_FREE, last, now_ms());
    assert_int_equal(m->findings, 6);
    for (uint32_t r = 0; r < RANKS; r++)
        start(r, PSR_KIND_BARRIER, 0);
    settle();
    assert_true(psr_node_request_ended(m->request) && psr_node_group_failure(m->world) == NULL);
    assert_int_equal(m->cuts, 0);
}

/* Only the barrier with which it begins can come to a group that is not open here. */
static void values_for_a_group_that_is_not_open_are_a_violation(void **state)
{
    (void)state;
    static const uint32_t pair[] = {0, 1};
    member *m = &world.members[0];
    psr_node_group *group = NULL;
    psr_node_request *request = NULL;
    const psr_request_options options = {.kind = PSR_KIND_ALL_REDUCE,
                                         .type = PSR_TYPE_INT32,
                                         .send = m->values,
                                         .receive = m->values,
                                         .count = 4};
    expect_ok(psr_node_group_new(m->node, 0, 9, pair, 2, &group));
    psr_node_take(m->node, PSR_NODE_OPEN_GROUP, group, now_ms());
    expect_ok(psr_node_request_new(group, &options, DEADLINE_MS, NULL, &request));
    psr_node_request_begins(request);
    psr_node_take(m->node, PSR_NODE_START, request, now_ms());
    settle();
    const psr_failure *failure = psr_node_group_failure(world.members[1].world);
    assert_non_null(failure);
    assert_int_equal(failure->err, PSR_ERR_PROTOCOL);
    assert_int_equal(failure->rank, 0);
    assert_non_null(strstr(failure->line, "this group is not open here"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
#define SHARING_TEST(name) cmocka_unit_test_setup_teardown(name, open_sharing_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operations_end_with_their_last_message),
        TEST(a_deadline_is_a_question_and_the_answer_may_be_to_wait_on),
        TEST(what_another_question_was_about_is_not_taken_back),
        TEST(what_comes_from_others_is_no_progress_of_a_rank),
        TEST(a_verdict_ends_everything_and_gives_back_what_is_lent),
        TEST(a_mismatch_waits_for_the_line_that_all_get),
        TEST(who_has_left_is_waited_for_as_long_as_its_messages_are_on_their_way),
        TEST(who_has_left_matters_only_to_who_waits_for_it),
        SHARING_TEST(who_does_not_give_back_what_it_was_lent_is_named),
        SHARING_TEST(who_has_left_gives_back_at_once_what_it_was_lent),
        SHARING_TEST(who_has_left_gives_back_what_a_broken_group_has_lent_it),
        SHARING_TEST(who_gives_back_late_may),
        TEST(values_for_a_group_that_is_not_open_are_a_violation),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
