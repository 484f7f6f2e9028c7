/* Tables of nodes on the simulated network, in virtual time: every consistency, numbers of workers
 * and shards, with messages that are late or come twice; what a node that is broken gives back; and
 * what members send that keep to no protocol. */
#include "tests/unit/expect.h"

#include "comm/node/node_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 7, PARTS = 3, DEADLINE_MS = 1000, ROUNDS = 4, GROUP = 9 };
static const size_t parts[PARTS] = {3, 150000, 1000}; /* one of several slices */

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

typedef struct member {
    psr_transport *transport;
    psr_node *node;
    psr_node_group *group;
    psr_node_request *requests[PARTS];
    float *pushed[PARTS], *pulled[PARTS];
    int round[PARTS]; /* begun */
} member;

static struct {
    psr_sim *sim;
    psr_view view;
    psr_view_member entries[RANKS_MAX];
    member members[RANKS_MAX];
    uint32_t ranks, workers;
} net;

static int64_t now_ms(void)
{
    return psr_sim_now_us(net.sim) / 1000;
}

static psr_err play_send(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    if (psr_peer_equal(to, scheduler))
        return PSR_OK;
    return psr_transport_send(((member *)context)->transport, to, head, payload);
}

static void play_cut(void *context, psr_peer peer)
{
    psr_transport_disconnect(((member *)context)->transport, peer);
}

static void changed(void *context)
{
    (void)context;
}

static void open_member(uint32_t rank, psr_consistency consistency)
{
    static const uint32_t ranks[RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6};
    member *m = &net.members[rank];
    const psr_node_options options = {
        .view = &net.view,
        .rank = rank,
        .deadline_ms = DEADLINE_MS,
        .outbox = {.context = m, .send = play_send, .returned = changed},
        .context = m,
        .cut = play_cut,
        .retire = play_cut,
        .changed = changed};
    const psr_node_table_options table = {.name = "t",
                                          .parts = parts,
                                          .part_count = PARTS,
                                          .workers = net.workers,
                                          .consistency = consistency,
                                          .update = "sum"};
    expect_ok(psr_transport_sim_new(net.sim, (psr_peer){PSR_ROLE_WORKER, rank}, &m->transport));
    for (uint32_t r = 0; r < net.ranks; r++)
        if (r != rank)
            expect_ok(
                psr_transport_connect(m->transport, (psr_peer){PSR_ROLE_WORKER, r}, "", NULL));
    expect_ok(psr_node_new(&options, now_ms(), &m->node));
    expect_ok(psr_node_group_new(m->node, 0, GROUP, ranks, net.ranks, &m->group));
    expect_ok(psr_node_table_new(m->group, &table));
    psr_node_take(m->node, PSR_NODE_OPEN_GROUP, m->group, now_ms());
    for (size_t p = 0; p < PARTS; p++) {
        m->pushed[p] = calloc(parts[p], sizeof(float));
        m->pulled[p] = calloc(parts[p], sizeof(float));
        assert_true(m->pushed[p] != NULL && m->pulled[p] != NULL);
    }
}

static void open_net(uint32_t workers, uint32_t shards, psr_consistency consistency, uint64_t seed)
{
    memset(&net, 0, sizeof net);
    net.ranks = workers + shards;
    net.workers = workers;
    expect_ok(psr_sim_new(
        &(psr_sim_faults){.seed = seed, .delay_max_us = 3000, .duplicate_permille = 200},
        &net.sim));
    net.view = (psr_view){.members = net.entries, .member_count = net.ranks};
    for (uint32_t r = 0; r < net.ranks; r++)
        net.entries[r] = (psr_view_member){.peer = {PSR_ROLE_WORKER, r}, .host = "host"};
    for (uint32_t r = 0; r < net.ranks; r++)
        open_member(r, consistency);
}

static void close_net(void)
{
    for (uint32_t r = 0; r < net.ranks; r++)
        psr_transport_free(&net.members[r].transport, 0);
    psr_sim_free(net.sim);
    for (uint32_t r = 0; r < net.ranks; r++) {
        psr_node_free(net.members[r].node);
        for (size_t p = 0; p < PARTS; p++) {
            free(net.members[r].pushed[p]);
            free(net.members[r].pulled[p]);
        }
    }
}

static void order(member *m, psr_node_table_verb verb, uint32_t part)
{
    const float *pushed = verb != PSR_NODE_PULL ? m->pushed[part] : NULL;
    float *pulled = verb != PSR_NODE_PUSH ? m->pulled[part] : NULL;
    psr_node_request **request = &m->requests[part];
    const psr_node_table_task task = {
        .verb = verb, .part = part, .values = pushed, .ret_values = pulled};
    expect_ok(psr_node_table_request_new(m->group, &task, DEADLINE_MS, NULL, request));
    psr_node_request_begins(*request);
    psr_node_take(m->node, PSR_NODE_START, *request, now_ms());
}

static float value_of(uint32_t rank, int round, size_t i)
{
    return (float)((i * 3 + rank * 7 + (size_t)round) % 29) * (rank % 2 == 0 ? 1.0f : 1e-5f);
}

/* Its next round of a part: of both at once, or a push and then a pull that is started at once
 * too. */
static void begin_round(uint32_t rank, uint32_t part)
{
    member *m = &net.members[rank];
    for (size_t i = 0; i < parts[part]; i++)
        m->pushed[part][i] = value_of(rank, m->round[part], i);
    if (m->round[part]++ % 2 == 0) {
        order(m, PSR_NODE_PUSH_PULL, part);
    } else {
        order(m, PSR_NODE_PUSH, part);
        order(m, PSR_NODE_PULL, part);
    }
}

/* base/arrays/fold.h's order. */
static float sum_of(int round, size_t length, size_t i)
{
    size_t n = net.workers, chunk = 0;
    while ((chunk + 1) * length / n <= i)
        chunk++;
    float sum = value_of((uint32_t)((chunk + 1) % n), round, i);
    for (size_t p = 1; p < n; p++)
        sum += value_of((uint32_t)((chunk + 1 + p) % n), round, i);
    return sum;
}

static void expect_bsp(const member *m, uint32_t part)
{
    for (size_t i = 0; i < parts[part]; i++) {
        float expected = 0.0f;
        for (int round = 0; round < m->round[part]; round++)
            expected += sum_of(round, parts[part], i);
        if (m->pulled[part][i] != expected)
            fail_msg("part %u, value %zu: %a, not %a", part, i, (double)m->pulled[part][i],
                     (double)expected);
    }
}

static bool step(void)
{
    psr_peer to;
    if (!psr_sim_step(net.sim, &to))
        return false;
    member *m = &net.members[to.rank];
    psr_message *message = NULL;
    while (psr_transport_recv(m->transport, 0, &message) == PSR_OK)
        psr_node_message(m->node, &message, now_ms());
    return true;
}

static bool is_over(const member *m, uint32_t part)
{
    return m->requests[part] == NULL || psr_node_request_ended(m->requests[part]);
}

/* Every worker goes on with a part when it has what it pulled. */
static void play_rounds(bool bsp)
{
    for (bool more = true; more;) {
        for (uint32_t r = 0; r < net.workers; r++)
            for (uint32_t p = 0; p < PARTS; p++) {
                member *m = &net.members[r];
                if (!is_over(m, p))
                    continue;
                if (bsp && m->round[p] > 0)
                    expect_bsp(m, p);
                m->requests[p] = NULL; /* ended: the group's to free */
                if (m->round[p] < ROUNDS)
                    begin_round(r, p);
            }
        more = step();
    }
    for (uint32_t r = 0; r < net.workers; r++)
        for (uint32_t p = 0; p < PARTS; p++)
            assert_true(net.members[r].round[p] == ROUNDS && is_over(&net.members[r], p));
    for (uint32_t r = 0; r < net.ranks; r++)
        if (psr_node_group_failure(net.members[r].group) != NULL)
            fail_msg("rank %u: %s", r, psr_node_group_failure(net.members[r].group)->line);
}

static const psr_consistency consistencies[] = {{PSR_CONSISTENCY_BSP, 0},
                                                {PSR_CONSISTENCY_SSP, 0},
                                                {PSR_CONSISTENCY_SSP, 2},
                                                {PSR_CONSISTENCY_ASYNC, 0}};

/* Without BSP the order of pushes is the network's: the sum of all is near, and what comes last
 * holds all. */
static void expect_near(void)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        member *m = &net.members[0];
        order(m, PSR_NODE_PULL, p);
        while (step())
            continue;
        assert_true(is_over(m, p));
        for (size_t i = 0; i < parts[p]; i++) {
            double sum = 0;
            for (uint32_t r = 0; r < net.workers; r++)
                for (int round = 0; round < ROUNDS; round++)
                    sum += (double)value_of(r, round, i);
            double off = sum - (double)m->pulled[p][i];
            assert_true(off < 1e-4 && off > -1e-4);
        }
    }
}

static void every_consistency_with_any_number_of_workers_and_shards(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof consistencies / sizeof consistencies[0]; c++)
        for (uint32_t workers = 1; workers <= 4; workers++)
            for (uint32_t shards = 1; shards <= 3; shards++) {
                bool bsp = consistencies[c].kind == PSR_CONSISTENCY_BSP;
                open_net(workers, shards, consistencies[c], 100 * c + 10 * workers + shards);
                play_rounds(bsp);
                if (!bsp)
                    expect_near();
                for (uint32_t r = 0; r < net.ranks; r++)
                    psr_node_take(net.members[r].node, PSR_NODE_CLOSE_GROUP, net.members[r].group,
                                  now_ms());
                close_net();
            }
}

/* ---- who does not go on ---- */

static void judge(uint32_t rank, const char *line)
{
    psr_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    *message = (psr_message){
        .from = scheduler,
        .head = psr_msg_verdict_head(&(psr_msg_failure){
            .status = PSR_ERR_PEER, .scope = PSR_SCOPE_LOST, .rank = 1, .other = PSR_RANK_ANY}),
        .payload = line,
        .payload_bytes = strlen(line),
        .release = (void (*)(psr_message *))free};
    psr_node_message(net.members[rank].node, &message, now_ms());
}

static void a_shard_waits_for_the_worker_that_is_missing(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        psr_msg_progress progress = {0};
        open_net(3, 1, consistencies[c], 1);
        begin_round(0, 1);
        begin_round(2, 1);
        while (step())
            continue;
        psr_node_report(net.members[3].node, &progress);
        assert_true(progress.waits && progress.waits_for.rank == 1);
        psr_node_report(net.members[0].node, &progress);
        assert_true(progress.waits && progress.waits_for.rank == 3);
        begin_round(1, 1);
        while (step())
            continue;
        for (uint32_t r = 0; r < net.ranks; r++) {
            psr_node_report(net.members[r].node, &progress);
            assert_false(progress.waits);
        }
        close_net();
    }
}

/* At any time: what is on its way, waits for room, or for the call before it, ends, and nothing
 * stays lent. */
static void a_verdict_ends_pushes_and_pulls_at_any_time(void **state)
{
    (void)state;
    for (int steps = 0; steps < 60; steps++) {
        open_net(3, 2, consistencies[steps % 4], (uint64_t)steps);
        for (uint32_t r = 0; r < net.workers; r++)
            for (uint32_t p = 0; p < PARTS; p++) {
                net.members[r].round[p] = 1; /* a push, and a pull behind it */
                begin_round(r, p);
            }
        for (int i = 0; i < steps && step(); i++)
            continue;
        psr_sim_cut(net.sim, (psr_peer){PSR_ROLE_WORKER, 1});
        for (uint32_t r = 0; r < net.ranks; r++)
            if (r != 1)
                judge(r, "rank 1 on host: no sign of life");
        while (step())
            continue;
        for (uint32_t r = 0; r < net.workers; r++)
            for (uint32_t p = 0; r != 1 && p < PARTS; p++) {
                assert_true(is_over(&net.members[r], p));
                order(&net.members[r], PSR_NODE_PUSH, p); /* and what comes then has failed too */
                assert_true(is_over(&net.members[r], p));
                expect_failure(psr_node_request_status(net.members[r].requests[p]), PSR_ERR_PEER,
                               "rank 1 on host: no sign of life");
            }
        close_net();
    }
}

/* ---- who keeps to no protocol ---- */

static void send_head(uint32_t from, uint32_t to, psr_head head)
{
    expect_ok(psr_transport_send(net.members[from].transport, (psr_peer){PSR_ROLE_WORKER, to},
                                 &head, NULL));
    while (step())
        continue;
}

static void expect_violation(uint32_t from, uint32_t to, psr_head head, const char *words)
{
    open_net(2, 1, consistencies[0], 1);
    send_head(from, to, head);
    const psr_failure *failure = psr_node_group_failure(net.members[to].group);
    assert_non_null(failure);
    assert_int_equal(failure->err, PSR_ERR_PROTOCOL);
    assert_int_equal(failure->rank, from);
    if (strstr(failure->line, words) == NULL)
        fail_msg("%s: not in: %s", words, failure->line);
    close_net();
}

static void what_cannot_be_is_a_violation_of_its_sender(void **state)
{
    (void)state;
    const psr_msg_push push = {.bucket = 0, .span = {150016, 1000}, .answer = true};
    const psr_msg_pull pull = {.bucket = 0, .span = {150016, 1000}};
    const psr_msg_weights weights = {.bucket = 0, .span = {150016, 1000}};
    const psr_head good = psr_msg_in_group(psr_msg_push_head(&push), 0, GROUP);
    expect_violation(0, 2, good, "rank 0"); /* without its values */
    expect_violation(0, 2, psr_msg_in_group(good, 7, GROUP), "this group is not open here");
    expect_violation(0, 2, psr_msg_in_group(good, 0, GROUP + 1), "this group is not open here");
    expect_violation(0, 2, psr_msg_in_group(psr_msg_pull_head(&pull), 0, GROUP),
                     "in BSP weights come by");
    expect_violation(0, 1, good, "that is a shard's to send");
    expect_violation(2, 0, good, "that is not for a worker");
    expect_violation(0, 2, psr_msg_in_group(psr_msg_weights_head(&weights), 0, GROUP),
                     "not for a shard");
    expect_violation(2, 0, psr_msg_in_group(psr_msg_weights_head(&weights), 0, GROUP), "rank 2");
    expect_violation(2, 0, psr_msg_in_group(psr_msg_ack_head(1), 0, GROUP),
                     "received 1 pushes of 0");
}

static void a_group_without_a_table_hears_nothing_of_one(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 1, 2};
    psr_node_group *group = NULL;
    open_net(2, 1, consistencies[0], 1);
    expect_ok(psr_node_group_new(net.members[1].node, 0, 12, ranks, 3, &group));
    psr_node_take(net.members[1].node, PSR_NODE_OPEN_GROUP, group, now_ms());
    send_head(0, 1, psr_msg_in_group(psr_msg_ack_head(1), 0, 12));
    assert_non_null(strstr(psr_node_group_failure(group)->line, "group 12 has no table"));
    close_net();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_consistency_with_any_number_of_workers_and_shards),
        cmocka_unit_test(a_shard_waits_for_the_worker_that_is_missing),
        cmocka_unit_test(a_verdict_ends_pushes_and_pulls_at_any_time),
        cmocka_unit_test(what_cannot_be_is_a_violation_of_its_sender),
        cmocka_unit_test(a_group_without_a_table_hears_nothing_of_one),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
