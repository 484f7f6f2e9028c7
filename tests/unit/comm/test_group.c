/* What a group does around its operations: which message is whose, credits, what comes early, calls
 * that do not fit together, and messages that no honest member sends. */
#include "tests/unit/comm/group_network.h"

enum { RANKS = 4, WINDOW = 2, SLICE_BYTES = 64, SLICE_INTS = SLICE_BYTES / 4 };

static psr_request *start(network *net, uint32_t rank, const psr_request_options *options)
{
    psr_request *request = network_request(net, rank, options);
    assert_ok(psr_request_start(request));
    return request;
}

static void fill(int32_t *values, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        values[i] = first + (int32_t)i;
}

static void check(const int32_t *values, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] != first + (int32_t)i)
            fail_msg("value %zu is %d, not %d", i, values[i], first + (int32_t)i);
}

static psr_request_options broadcast_of(int32_t *values, size_t count, uint32_t root)
{
    return (psr_request_options){.kind = PSR_KIND_BROADCAST,
                                 .algorithm = PSR_ALGORITHM_CHAIN,
                                 .type = PSR_TYPE_INT32,
                                 .root = root,
                                 .receive = values,
                                 .count = count};
}

static psr_peer name_of(uint32_t rank)
{
    return (psr_peer){PSR_ROLE_WORKER, 2 * rank + 1};
}

/* ---- credits ---- */

static void a_sender_has_at_most_a_window_of_slices_under_way(void **state)
{
    (void)state;
    network *net = network_open(2, SLICE_BYTES, 3, 1);
    enum { COUNT = 10 * SLICE_INTS };
    int32_t sent[COUNT], received[COUNT];
    fill(sent, COUNT, 7);
    psr_request_options options = broadcast_of(sent, COUNT, 0);
    psr_request *root = start(net, 0, &options);
    assert_int_equal(psr_sim_under_way(net->sim, name_of(0), name_of(1), PSR_MSG_VALUES), 3);
    assert_int_equal(psr_request_lent(root), 3);
    network_settle(net); /* the other one has not called it: all is
                            kept there, and nothing more comes */
    assert_false(psr_request_done(root));
    assert_int_equal(network_waits(root), 1);
    options.receive = received;
    psr_request *leaf = start(net, 1, &options);
    do
        assert_true(psr_sim_under_way(net->sim, name_of(0), name_of(1), PSR_MSG_VALUES) <= 3);
    while (network_deliver(net, NULL));
    assert_true(psr_request_done(root) && psr_request_done(leaf));
    assert_int_equal(psr_request_lent(root), 0);
    check(received, COUNT, 7);
    psr_request_free(root);
    psr_request_free(leaf);
    network_close(net);
}

/* A root that sends and hears nothing is let on by those that call the same. */
static void who_only_sends_is_at_most_so_many_operations_ahead(void **state)
{
    (void)state;
    enum { CALLS = 3 * PSR_AHEAD_OPERATIONS };
    network *net = network_open(2, SLICE_BYTES, 3, 2);
    static int32_t sent[CALLS], received[CALLS];
    psr_request *roots[CALLS], *leaves[CALLS];
    fill(sent, CALLS, -5);
    for (uint32_t i = 0; i < CALLS; i++) {
        psr_request_options options = broadcast_of(&sent[i], 1, 0);
        roots[i] = start(net, 0, &options);
    }
    assert_int_equal(psr_sim_under_way(net->sim, name_of(0), name_of(1), PSR_MSG_VALUES),
                     PSR_AHEAD_OPERATIONS);
    network_settle(net);
    for (uint32_t i = 0; i < CALLS; i++)
        assert_int_equal(psr_request_done(roots[i]), i < PSR_AHEAD_OPERATIONS);
    assert_int_equal(network_waits(roots[PSR_AHEAD_OPERATIONS]), 1);
    for (uint32_t i = 0; i < CALLS; i++) {
        psr_request_options options = broadcast_of(&received[i], 1, 0);
        leaves[i] = start(net, 1, &options);
        network_settle(net);
        assert_true(psr_request_done(leaves[i]));
    }
    check(received, CALLS, -5);
    for (uint32_t i = 0; i < CALLS; i++) {
        assert_true(psr_request_done(roots[i]));
        psr_request_free(roots[i]);
        psr_request_free(leaves[i]);
    }
    network_close(net);
}

/* ---- persistent operations, messages, neighbours ---- */

static void persistent_operations_start_in_any_order_again_and_again(void **state)
{
    (void)state;
    enum { OPERATIONS = 3, STARTS = 5, COUNT = 50 };
    for (uint64_t seed = 0; seed < 12; seed++) {
        network *net = network_open(RANKS, SLICE_BYTES, WINDOW, seed);
        static int32_t values[RANKS][OPERATIONS][COUNT];
        psr_request *requests[RANKS][OPERATIONS];
        uint32_t starts[RANKS][OPERATIONS] = {{0}}, left = RANKS * OPERATIONS * STARTS;
        for (uint32_t r = 0; r < RANKS; r++)
            for (uint32_t k = 0; k < OPERATIONS; k++) {
                psr_request_options options = {.kind = PSR_KIND_ALL_REDUCE,
                                               .algorithm = k % 2 ? PSR_ALGORITHM_HALVING
                                                                  : PSR_ALGORITHM_RING,
                                               .type = PSR_TYPE_INT32,
                                               .send = values[r][k],
                                               .receive = values[r][k],
                                               .count = COUNT,
                                               .persistent = true};
                requests[r][k] = network_request(net, r, &options);
                assert_true(psr_request_done(requests[r][k]));
            }
        while (left > 0) {
            uint32_t r = network_draw(net, RANKS), k = network_draw(net, OPERATIONS);
            for (uint32_t d = network_draw(net, 8); d > 0; d--)
                network_deliver(net, NULL);
            if (!psr_request_done(requests[r][k]) || psr_request_lent(requests[r][k]) > 0 ||
                starts[r][k] == STARTS)
                continue;
            if (starts[r][k] > 0)
                for (int32_t i = 0; i < COUNT; i++)
                    assert_int_equal(values[r][k][i], RANKS * (i + 10 * (int32_t)starts[r][k]));
            starts[r][k]++;
            left--;
            fill(values[r][k], COUNT, 10 * (int32_t)starts[r][k]);
            assert_ok(psr_request_start(requests[r][k]));
        }
        network_settle(net);
        for (uint32_t r = 0; r < RANKS; r++)
            for (uint32_t k = 0; k < OPERATIONS; k++) {
                assert_true(psr_request_done(requests[r][k]));
                for (int32_t i = 0; i < COUNT; i++)
                    assert_int_equal(values[r][k][i], RANKS * (i + 10 * STARTS));
                psr_request_free(requests[r][k]);
            }
        network_close(net);
    }
}

static void a_persistent_operation_sends_nothing_unasked(void **state)
{
    (void)state;
    network *net = network_open(2, SLICE_BYTES, WINDOW, 1);
    int32_t value = 4, received = 0;
    psr_request_options options = broadcast_of(&value, 1, 0);
    options.persistent = true;
    psr_request *root = start(net, 0, &options);
    assert_int_equal(psr_sim_under_way(net->sim, name_of(0), name_of(1), PSR_MSG_VALUES), 0);
    assert_int_equal(network_waits(root), 1);
    options.receive = &received;
    psr_request *leaf = start(net, 1, &options);
    network_settle(net);
    assert_true(psr_request_done(root) && psr_request_done(leaf));
    assert_int_equal(received, 4);
    psr_request_free(root);
    psr_request_free(leaf);
    network_close(net);
}

static void messages_are_matched_by_peer_and_tag_in_order(void **state)
{
    (void)state;
    enum { COUNT = 5 * SLICE_INTS + 3 };
    for (uint64_t seed = 0; seed < 6; seed++) {
        network *net = network_open(2, SLICE_BYTES, WINDOW, seed);
        /* To rank 1: tag 9, tag 4, tag 9 again (empty), tag 4; back: tag 9. Received in another
         * order of tags. */
        static const uint32_t tags[] = {9, 4, 9, 4}, order[] = {1, 0, 3, 2};
        static const size_t counts[] = {COUNT, 1, 0, COUNT};
        int32_t sent[4][COUNT], received[4][COUNT], back[2] = {11, 12}, back_received[2] = {0};
        psr_request *requests[10];
        size_t used = 0;
        for (size_t i = 0; i < 4; i++) {
            fill(sent[i], COUNT, 100 * (int32_t)i);
            psr_request_options options = message_of(PSR_KIND_SEND, sent[i], counts[i], 1, tags[i]);
            requests[used++] = start(net, 0, &options);
        }
        psr_request_options options = message_of(PSR_KIND_RECEIVE, back_received, 2, 1, 9);
        requests[used++] = start(net, 0, &options);
        if (seed % 2)
            network_settle(net);
        options = message_of(PSR_KIND_SEND, back, 2, 0, 9);
        requests[used++] = start(net, 1, &options);
        /* The k-th of a tag is the k-th that is received with it. */
        for (size_t i = 0; i < 4; i++) {
            options = message_of(PSR_KIND_RECEIVE, received[order[i]], counts[order[i]], 0,
                                 tags[order[i]]);
            requests[used++] = start(net, 1, &options);
        }
        network_settle(net);
        for (size_t i = 0; i < used; i++) {
            assert_true(psr_request_done(requests[i]));
            psr_request_free(requests[i]);
        }
        for (size_t i = 0; i < 4; i++)
            check(received[i], counts[i], 100 * (int32_t)i);
        check(back_received, 2, 11);
        network_close(net);
    }
}

/* On a ring of ranks: two blocks to the right, one of them empty, one to the left, one to
 * oneself. */
static void neighbours_exchange_blocks_in_order(void **state)
{
    (void)state;
    enum { COUNT = 3 * SLICE_INTS + 1 };
    for (uint32_t n = 1; n <= 5; n++) {
        network *net = network_open(n, SLICE_BYTES, WINDOW, n);
        static int32_t out[5][3][COUNT], in[5][3][COUNT];
        psr_request *requests[5];
        for (uint32_t r = 0; r < n; r++) {
            uint32_t left = (r + n - 1) % n, right = (r + 1) % n;
            for (int32_t k = 0; k < 3; k++)
                fill(out[r][k], COUNT, 1000 * (int32_t)r + 300 * k);
            memset(in[r], 0, sizeof in[r]);
            psr_block sends[] = {psr_block_dense(right, out[r][0], COUNT),
                                 psr_block_dense(right, NULL, 0),
                                 psr_block_dense(left, out[r][1], 5),
                                 psr_block_dense(r, out[r][2], 9)},
                      receives[] = {
                          psr_block_dense(left, in[r][0], COUNT), psr_block_dense(left, NULL, 0),
                          psr_block_dense(right, in[r][1], 5), psr_block_dense(r, in[r][2], 9)};
            psr_request_options options = {.kind = PSR_KIND_NEIGHBORS,
                                           .type = PSR_TYPE_INT32,
                                           .send_blocks = sends,
                                           .send_block_count = 4,
                                           .receive_blocks = receives,
                                           .receive_block_count = 4};
            requests[r] = start(net, r, &options);
        }
        network_settle(net);
        for (uint32_t r = 0; r < n; r++) {
            assert_true(psr_request_done(requests[r]));
            check(in[r][0], COUNT, 1000 * (int32_t)((r + n - 1) % n));
            check(in[r][1], 5, 1000 * (int32_t)((r + 1) % n) + 300);
            check(in[r][2], 9, 1000 * (int32_t)r + 600);
            psr_request_free(requests[r]);
        }
        network_close(net);
    }
}

/* ---- calls that do not fit together ---- */

typedef struct misfit {
    psr_request_options one, other;
    const char *one_line, *other_line; /* what the line has of rank 0's call and of rank 1's */
} misfit;

/* Rank 1 calls other than rank 0. Someone must say so, naming both; nobody may take the other's
 * values for its own. */
static void expect_mismatch(const misfit *m)
{
    for (uint64_t play = 0; play < 8; play++) {
        const uint64_t seed = play / 2;
        network *net =
            (play % 2 ? network_open_shared : network_open)(2, SLICE_BYTES, WINDOW, seed);
        static int32_t memory[4][256];
        psr_request_options options[] = {m->one, m->other};
        psr_request *requests[2] = {NULL};
        psr_err err = PSR_OK;
        for (uint32_t k = 0; k < 2 && err == PSR_OK; k++) {
            uint32_t r = (k + (uint32_t)seed) % 2;
            options[r].send = memory[2 * r];
            options[r].receive = memory[2 * r + 1];
            requests[r] = network_request(net, r, &options[r]);
            err = psr_request_start(requests[r]);
            while (k == 0 && seed > 1 && network_deliver(net, NULL))
                ;
        }
        while (err == PSR_OK && network_deliver(net, &err))
            ;
        if (err == PSR_OK)
            fail_msg("%s and %s went unnoticed", m->one_line, m->other_line);
        assert_string_equal(psr_err_name(err), "mismatch");
        if (strstr(psr_err_detail(), m->one_line) == NULL ||
            strstr(psr_err_detail(), m->other_line) == NULL)
            fail_msg("\"%s\" lacks \"%s\" or \"%s\"", psr_err_detail(), m->one_line, m->other_line);
        network_close_broken(net, requests, 2);
    }
}

static void calls_that_differ_are_told_with_both_ranks_and_both_calls(void **state)
{
    (void)state;
    const psr_request_options sum = {.kind = PSR_KIND_ALL_REDUCE,
                                     .algorithm = PSR_ALGORITHM_RING,
                                     .type = PSR_TYPE_INT32,
                                     .count = 10},
                              gather = {.kind = PSR_KIND_GATHER,
                                        .algorithm = PSR_ALGORITHM_DIRECT,
                                        .type = PSR_TYPE_INT32,
                                        .root = 1,
                                        .count = 10};
    static const size_t counts[] = {3, 4}, other_counts[] = {4, 3};
    misfit misfits[16];
    size_t used = 0;
#define MISFIT(base, field, value, first, second)                                                  \
    misfits[used] = (misfit){base, base, "rank 1 calls " first, "rank 3 calls " second};           \
    misfits[used++].other.field = value
    MISFIT(sum, count, 11, "all_reduce(count 10, int32, sum, ring)",
           "all_reduce(count 11, int32, sum, ring)");
    MISFIT(sum, count, 0, "all_reduce(count 10,", "all_reduce(count 0,");
    MISFIT(sum, type, PSR_TYPE_FLOAT32, "all_reduce(count 10, int32,",
           "all_reduce(count 10, float32,");
    MISFIT(sum, reduction, PSR_REDUCTION_MAXIMUM, "all_reduce(count 10, int32, sum,",
           "all_reduce(count 10, int32, maximum,");
    MISFIT(sum, algorithm, PSR_ALGORITHM_HALVING, "all_reduce(count 10, int32, sum, ring)",
           "all_reduce(count 10, int32, sum, halving)");
    MISFIT(gather, root, 0, "gather(count 10, int32, root 1, direct)",
           "gather(count 10, int32, root 0, direct)");
    MISFIT(gather, counts, counts, "gather(count 10,", "gather(counts #");
    misfits[used++] = (misfit){sum, gather, "rank 1 calls all_reduce(", "rank 3 calls gather("};
    misfits[used++] = (misfit){gather, sum, "rank 1 calls gather(", "rank 3 calls all_reduce("};
    misfits[used] =
        (misfit){gather, gather, "rank 1 calls gather(counts #", "rank 3 calls gather(counts #"};
    misfits[used].one.counts = counts;
    misfits[used++].other.counts = other_counts;
    misfits[used] = (misfit){gather, sum, "rank 1 calls barrier", "rank 3 calls all_reduce("};
    misfits[used++].one = (psr_request_options){.kind = PSR_KIND_BARRIER};
    /* A persistent one and messages, where the receiver's word comes first. */
    misfits[used] =
        (misfit){sum, sum, "rank 1 calls all_reduce(count 10,", "rank 3 calls all_reduce(count 9,"};
    misfits[used].one.persistent = misfits[used].other.persistent = true;
    misfits[used++].other.count = 9;
    misfits[used++] = (misfit){message_of(PSR_KIND_SEND, NULL, 5, 1, 3),
                               message_of(PSR_KIND_RECEIVE, NULL, 6, 0, 3),
                               "rank 1 calls send(count 5,", "rank 3 calls receive(count 6,"};
#undef MISFIT
    for (size_t i = 0; i < used; i++)
        expect_mismatch(&misfits[i]);
}

static void counts_of_a_pair_that_differ_are_told(void **state)
{
    (void)state;
    static const size_t two[] = {0, 2}, none[] = {0, 0}, back[] = {1, 0};
    misfit m = {
        {.kind = PSR_KIND_ALL_TO_ALL_V, .type = PSR_TYPE_INT32, .send_counts = two, .counts = none},
        {.kind = PSR_KIND_ALL_TO_ALL_V,
         .type = PSR_TYPE_INT32,
         .send_counts = none,
         .counts = back},
        "rank 1 sends rank 3 2 values in all_to_all_v",
        "rank 3 expects 1"};
    expect_mismatch(&m);
    m.one.send_counts = none;
    m.one_line = "rank 1 sends rank 3 0 values";
    expect_mismatch(&m);
    int32_t value[4];
    psr_block out = psr_block_dense(1, value, 3), in = psr_block_dense(0, value, 4);
    m = (misfit){{.kind = PSR_KIND_NEIGHBORS,
                  .type = PSR_TYPE_INT32,
                  .send_blocks = &out,
                  .send_block_count = 1},
                 {.kind = PSR_KIND_NEIGHBORS,
                  .type = PSR_TYPE_INT32,
                  .receive_blocks = &in,
                  .receive_block_count = 1},
                 "rank 1 sends rank 3 3 values in neighbor_exchange",
                 "rank 3 expects 4"};
    expect_mismatch(&m);
}

static void a_call_that_ended_is_still_compared(void **state)
{
    (void)state;
    network *net = network_open(3, SLICE_BYTES, WINDOW, 0);
    int32_t value = 1;
    psr_request *requests[4];
    /* Rank 0 has done all that it has to do in its broadcast of nothing, and went on, when rank 1's
     * values come. */
    psr_request_options options = broadcast_of(&value, 0, 0);
    requests[0] = start(net, 0, &options);
    assert_true(psr_request_done(requests[0]));
    requests[1] = start(net, 0, &options);
    options = broadcast_of(&value, 1, 2);
    requests[2] = start(net, 2, &options);
    psr_err err = PSR_OK;
    while (err == PSR_OK && network_deliver(net, &err))
        ;
    assert_string_equal(psr_err_name(err), "mismatch");
    assert_string_equal(psr_err_detail(), "call 1 of the group of ranks 1, 3, 5: rank 5 calls "
                                          "broadcast(count 1, int32, root 2, chain), rank 1 calls "
                                          "broadcast(count 0, int32, root 0, chain)");
    network_close_broken(net, requests, 3);
}

/* ---- calls that cannot be ---- */

static void what_cannot_be_called_is_refused(void **state)
{
    (void)state;
    network *net = network_open(3, SLICE_BYTES, WINDOW, 0);
    psr_group *group = net->groups[1];
    int32_t values[8];
    psr_request *request = NULL;
    psr_request_options o = {
        .kind = PSR_KIND_ALL_REDUCE, .type = PSR_TYPE_INT32, .send = values, .receive = values};
    o.reduction = PSR_REDUCTION_MEAN;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_reduce: there is no mean of int32");
    o.reduction = PSR_REDUCTION_MINLOC;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_reduce: there is no minloc of int32");
    o.type = PSR_TYPE_FLOAT64_INT32;
    o.reduction = PSR_REDUCTION_SUM;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_reduce: there is no sum of float64_int32");
    o.type = PSR_TYPE_FLOAT16;
    o.reduction = PSR_REDUCTION_BITWISE_XOR;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_reduce: there is no bitwise_xor of float16");
    o.kind = PSR_KIND_EXSCAN;
    o.reduction = PSR_REDUCTION_MEAN;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "exscan: there is no mean of a prefix");
    o.kind = PSR_KIND_ALL_REDUCE;
    o.type = PSR_TYPE_INT32;
    o.reduction = (psr_reduction)77;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_reduce: there is no ? of int32");
    o.reduction = PSR_REDUCTION_SUM;
    o.algorithm = PSR_ALGORITHM_BRUCK;
    assert_fails(
        psr_request_new(group, &o, &request), PSR_ERR_USAGE,
        "all_reduce has no algorithm bruck: there are ring, direct, doubling, halving, root");
    o.algorithm = PSR_ALGORITHM_RING;
    o.count = SIZE_MAX / 8;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_reduce: more values than memory can hold");
    o.kind = (psr_kind)99;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "operation 99 of type 6: there is none");
    o = broadcast_of(values, 1, 3);
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "broadcast: root 3 is none of 3 ranks");
    o = message_of(PSR_KIND_SEND, values, 1, 3, 0);
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "send: rank 3 is none of 3 ranks");
    o.peer = 0;
    o.tag = UINT32_MAX;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "send: tag 4294967295 is above 2147483647");
    o = (psr_request_options){.kind = PSR_KIND_ALL_TO_ALL_V, .type = PSR_TYPE_INT32};
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_to_all_v: it needs the counts");
    const size_t large[] = {SIZE_MAX / 8, SIZE_MAX / 8, 1};
    o = (psr_request_options){.kind = PSR_KIND_ALL_GATHER, .type = PSR_TYPE_UINT8, .counts = large};
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_gather: more values than memory can hold");
    const size_t to[] = {1, 2, 0}, from[] = {1, 1, 0}, other[] = {2, 2, 0};
    o = (psr_request_options){
        .kind = PSR_KIND_ALL_TO_ALL_V, .type = PSR_TYPE_INT32, .counts = from, .send_counts = to};
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "all_to_all_v: rank 1 sends itself 2 values and expects 1");
    o.send = o.receive = values;
    o.counts = other;
    assert_fails(
        psr_request_new(group, &o, &request), PSR_ERR_USAGE,
        "all_to_all_v: in place send_counts are receive_counts, and of rank 0 they are 1 and 2");
    psr_block outside = psr_block_dense(3, values, 1),
              own[] = {psr_block_dense(1, values, 2), psr_block_dense(1, values + 4, 3)};
    o = (psr_request_options){
        .kind = PSR_KIND_NEIGHBORS, .send_blocks = &outside, .send_block_count = 1};
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "neighbor_exchange: rank 3 is none of 3");
    o = (psr_request_options){
        .kind = PSR_KIND_NEIGHBORS, .send_blocks = own, .send_block_count = 1};
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "rank 1 sends itself other values");
    o.receive_blocks = own + 1;
    o.receive_block_count = 1;
    assert_fails(psr_request_new(group, &o, &request), PSR_ERR_USAGE,
                 "rank 1 sends itself other values");
    assert_null(request);
    network_close(net);
    psr_peer twice[] = {name_of(4), name_of(2), name_of(4)};
    psr_group_options options = {.ranks = 3, .members = twice, .slice_bytes = 64, .window = 1};
    assert_fails(psr_group_new(&options, &group), PSR_ERR_USAGE,
                 "worker 9 is two ranks of group 0");
    psr_request_free(NULL);
    psr_group_free(NULL);
}

/* ---- one rank, messages made by hand ---- */

static psr_err ignore(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)to;
    (void)head;
    ++*(uint64_t *)context;
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static unsigned freed;

static void made_release(psr_message *message)
{
    freed++;
    free(message);
}

static psr_message *made(uint32_t from, psr_head head, size_t bytes)
{
    static const double payload[16];
    psr_message *message = malloc(sizeof *message);
    *message = (psr_message){.from = name_of(from),
                             .head = head,
                             .payload = payload,
                             .payload_bytes = bytes,
                             .release = made_release};
    return message;
}

static psr_msg_call broadcast_call(uint64_t count)
{
    return psr_call_message(&(psr_call){.kind = PSR_KIND_BROADCAST,
                                        .algorithm = PSR_ALGORITHM_CHAIN,
                                        .type = PSR_TYPE_INT32,
                                        .root = 0,
                                        .count = count});
}

static psr_message *values_of(uint32_t from, uint64_t round, uint64_t count, uint64_t slice,
                              size_t bytes)
{
    psr_tag tag = {NETWORK_EPOCH, NETWORK_GROUP, 0, round};
    return made(from,
                psr_msg_values_head(&(psr_msg_values){
                    .tag = tag, .call = broadcast_call(count), .total = count, .slice = slice}),
                bytes);
}

static psr_message *credit_of(uint32_t from, uint32_t slot, uint64_t round, uint64_t count,
                              uint64_t slices)
{
    psr_tag tag = {NETWORK_EPOCH, NETWORK_GROUP, slot, round};
    return made(from, psr_msg_credit_head(&(psr_msg_credit){tag, broadcast_call(count), slices, 0}),
                0);
}

static psr_message *ahead_of(uint32_t from, psr_tag tag, uint64_t operations)
{
    return made(from, psr_msg_ahead_head(&(psr_msg_ahead){tag, operations}), 0);
}

static psr_group *alone_in(uint32_t rank, uint64_t *sent, bool shares_memory)
{
    psr_group *group;
    psr_peer members[] = {name_of(0), name_of(1), name_of(2)};
    psr_group_options options = {.epoch = NETWORK_EPOCH,
                                 .id = NETWORK_GROUP,
                                 .rank = rank,
                                 .ranks = 3,
                                 .members = members,
                                 .hosts = 1,
                                 .slice_bytes = SLICE_BYTES,
                                 .shares_memory = shares_memory,
                                 .window = WINDOW,
                                 .outbox = {.context = sent, .send = ignore}};
    assert_ok(psr_group_new(&options, &group));
    return group;
}

static psr_group *alone(uint32_t rank, uint64_t *sent)
{
    return alone_in(rank, sent, false);
}

static void refused(psr_group *group, psr_message *message, psr_err err, const char *text)
{
    unsigned before = freed;
    assert_fails(psr_group_message(group, &message), err, text);
    assert_null(message);
    assert_int_equal(freed, before + 1);
}

static void accepted(psr_group *group, psr_message *message)
{
    assert_ok(psr_group_message(group, &message));
    assert_null(message);
}

static void a_receiver_refuses_what_cannot_come_now(void **state)
{
    (void)state;
    uint64_t sent = 0;
    psr_group *group = alone(1, &sent);
    enum { COUNT = 5 * SLICE_INTS };
    int32_t values[COUNT];
    psr_message *stranger = values_of(0, 1, COUNT, 0, 64);
    stranger->from = (psr_peer){PSR_ROLE_SHARD, 1};
    refused(group, stranger, PSR_ERR_PROTOCOL, "it is not another rank of group 5");
    refused(group, values_of(1, 1, COUNT, 0, 64), PSR_ERR_PROTOCOL,
            "it is not another rank of group 5");
    refused(group, made(0, (psr_head){.type = PSR_MSG_START}, 0), PSR_ERR_PROTOCOL,
            "a group hears");
    psr_tag other = {NETWORK_EPOCH, NETWORK_GROUP + 1, 0, 1};
    refused(group, made(0, psr_msg_values_head(&(psr_msg_values){.tag = other}), 0),
            PSR_ERR_PROTOCOL, "this is group 5 of epoch 3");
    refused(group, values_of(0, 0, COUNT, 0, 64), PSR_ERR_PROTOCOL,
            "no call that is under way; 0 were begun here");
    psr_tag message = {NETWORK_EPOCH, NETWORK_GROUP, PSR_MESSAGE_TAG_MAX + 3, 1};
    refused(group, made(0, psr_msg_values_head(&(psr_msg_values){.tag = message}), 0),
            PSR_ERR_PROTOCOL, "no call here waits for it");
    psr_request *request = NULL;
    psr_request_options options = broadcast_of(values, COUNT, 0);
    assert_ok(psr_request_new(group, &options, &request));
    assert_ok(psr_request_start(request));
    refused(group, values_of(2, 1, COUNT, 0, 64), PSR_ERR_PROTOCOL,
            "rank 3 expects nothing from rank 5 in this broadcast");
    refused(group, values_of(0, 1, COUNT, 1, 64), PSR_ERR_PROTOCOL, "0 of 5 slices came before");
    refused(group, values_of(0, 1, COUNT, 0, 60), PSR_ERR_PROTOCOL, "its payload has 60 bytes");
    psr_request_free(request); /* what was of it is not known any more */
    psr_group_free(group);

    group = alone(1, &sent);
    assert_ok(psr_request_new(group, &options, &request));
    assert_ok(psr_request_start(request));
    for (uint64_t slice = 0; slice < 5; slice++)
        accepted(group, values_of(0, 1, COUNT, slice, 64));
    assert_false(psr_request_done(request)); /* it hands on, and has no credit */
    refused(group, values_of(0, 1, COUNT, 5, 64), PSR_ERR_PROTOCOL, "5 of 5 slices came before");
    refused(group, credit_of(2, 0, 1, COUNT, WINDOW), PSR_ERR_PROTOCOL,
            "2 slices were sent, and 2 were allowed");
    refused(group, credit_of(2, 0, 1, COUNT, 5), PSR_ERR_PROTOCOL,
            "2 slices were sent, and 2 were allowed");
    refused(group, credit_of(0, 0, 1, COUNT, 3), PSR_ERR_PROTOCOL,
            "rank 3 sends rank 1 nothing in this broadcast");
    refused(group, credit_of(2, 0, 2, COUNT, 3), PSR_ERR_PROTOCOL,
            "no call that is under way; 1 were begun here");
    accepted(group, credit_of(2, 0, 1, COUNT, 4));
    accepted(group, credit_of(2, 0, 1, COUNT, 6));
    assert_true(psr_request_done(request));
    refused(group, credit_of(2, 0, 1, COUNT, 7), PSR_ERR_PROTOCOL,
            "no call that is under way; 1 were begun here");
    psr_request_free(request);
    psr_group_free(group);
}

static void more_slices_than_it_had_credit_for_are_not_kept(void **state)
{
    (void)state;
    uint64_t sent = 0;
    psr_group *group = alone(1, &sent);
    /* Of calls that are not begun here, so many operations' windows; and in a ring what comes
     * through it from two ranks. */
    for (uint64_t i = 0; i < PSR_AHEAD_OPERATIONS * WINDOW + 2 * (WINDOW + PSR_AHEAD_OPERATIONS);
         i++)
        accepted(group, values_of(0, 1 + i / WINDOW, 1000, i % WINDOW, 64));
    refused(group, values_of(0, 2000, 1000, 0, 64), PSR_ERR_PROTOCOL,
            "260 messages for calls that have not begun here are kept already");
    accepted(group, values_of(2, 2000, 1000, 0, 64)); /* each sender by itself */
    for (uint64_t i = 0; i < PSR_CREDITS_KEPT; i++)
        accepted(group, credit_of(0, 1 + (uint32_t)i, 1, 1000, 2));
    refused(group, credit_of(0, 1, 1, 1000, 2), PSR_ERR_PROTOCOL,
            "4096 messages for calls that have not begun here are kept already");
    psr_group_free(group); /* with all of them */

    /* Of one that waits for another one: reduce by a tree, where rank 1's second child may come
     * before the first. */
    group = alone(0, &sent);
    int32_t values[100] = {0};
    psr_request *request = NULL;
    psr_request_options options = {.kind = PSR_KIND_REDUCE,
                                   .algorithm = PSR_ALGORITHM_BINOMIAL,
                                   .type = PSR_TYPE_INT32,
                                   .send = values,
                                   .receive = values,
                                   .count = 100};
    assert_ok(psr_request_new(group, &options, &request));
    assert_ok(psr_request_start(request));
    psr_msg_values says = {.tag = {NETWORK_EPOCH, NETWORK_GROUP, 0, 1},
                           .call = psr_call_message(psr_request_call(request)),
                           .total = 100};
    for (; says.slice < WINDOW; says.slice++)
        accepted(group, made(2, psr_msg_values_head(&says), 64));
    refused(group, made(2, psr_msg_values_head(&says), 64), PSR_ERR_PROTOCOL,
            "it had credit for 2 slices");
    psr_request_free(request);
    psr_group_free(group);
}

/* ---- an all-reduce by ring without hops (comm/collectives/request_gathering.c) ---- */

static psr_request *started_sum(psr_group *group, int32_t *values, size_t count)
{
    psr_request *request = NULL;
    const psr_request_options options = {.kind = PSR_KIND_ALL_REDUCE,
                                         .algorithm = PSR_ALGORITHM_RING,
                                         .type = PSR_TYPE_INT32,
                                         .send = values,
                                         .receive = values,
                                         .count = count};
    assert_ok(psr_request_new(group, &options, &request));
    assert_ok(psr_request_start(request));
    return request;
}

static psr_message *slice_of(const psr_request *request, uint32_t from, uint64_t total,
                             uint64_t slice, size_t bytes)
{
    const psr_msg_values says = {.tag = {NETWORK_EPOCH, NETWORK_GROUP, 0, 1},
                                 .call = psr_call_message(psr_request_call(request)),
                                 .total = total,
                                 .slice = slice};
    return made(from, psr_msg_values_head(&says), bytes);
}

static psr_message *asks_for(const psr_request *request, uint32_t from, uint64_t slices)
{
    const psr_tag tag = {NETWORK_EPOCH, NETWORK_GROUP, 0, 1};
    return made(from,
                psr_msg_credit_head(
                    &(psr_msg_credit){tag, psr_call_message(psr_request_call(request)), slices, 0}),
                0);
}

/* Three chunks of five slices. Between two ranks slices 0 to 4 are values of the receiver's chunk,
 * and 5 to 9 sums of the sender's. */
static void who_folds_refuses_what_it_did_not_ask_for(void **state)
{
    (void)state;
    enum { SLICES = 5, CHUNK = SLICES * SLICE_INTS, TOTAL = 2 * CHUNK };
    static int32_t values[3 * CHUNK];
    uint64_t sent = 0;
    psr_group *group = alone_in(1, &sent, true);
    psr_request *r = started_sum(group, values, 3 * CHUNK);
    assert_int_equal(sent, 2); /* its first slice of each other chunk, unasked */
    refused(group, slice_of(r, 0, TOTAL, 1, 64), PSR_ERR_PROTOCOL, "no slice 1 is due");
    refused(group, slice_of(r, 0, TOTAL, 10, 64), PSR_ERR_PROTOCOL, "no slice 10 is due");
    refused(group, slice_of(r, 0, TOTAL, 0, 60), PSR_ERR_PROTOCOL, "its payload has 60 bytes");
    refused(group, slice_of(r, 0, TOTAL - 1, 0, 64), PSR_ERR_MISMATCH, "expects 160");
    accepted(group, slice_of(r, 0, TOTAL, 0, 64));
    refused(group, slice_of(r, 0, TOTAL, 0, 64), PSR_ERR_PROTOCOL, "no slice 0 is due");
    refused(group, slice_of(r, 0, TOTAL, 1, 64), PSR_ERR_PROTOCOL, "it had credit for 1 slices");
    accepted(group, slice_of(r, 0, TOTAL, SLICES, 64));
    refused(group, slice_of(r, 0, TOTAL, SLICES + 1, 64), PSR_ERR_PROTOCOL,
            "it claims a sum to which rank 3 has not contributed");
    refused(group, asks_for(r, 0, 1), PSR_ERR_PROTOCOL, "of 5 slices 1 were allowed");
    refused(group, asks_for(r, 0, SLICES + 1), PSR_ERR_PROTOCOL, "of 5 slices 1 were allowed");
    accepted(group, asks_for(r, 0, SLICES));
    assert_int_equal(sent, 2 + SLICES - 1);
    accepted(group, slice_of(r, 2, TOTAL, 0, 64)); /* folds; a sum for each, and asks for more */
    assert_int_equal(sent, 2 + SLICES - 1 + 4 + 2);
    accepted(group, slice_of(r, 0, TOTAL, 1, 64));
    psr_request_free(r); /* with what it holds */
    psr_group_free(group);

    /* One value: it is the last rank's. */
    group = alone_in(2, &sent, true);
    r = started_sum(group, values, 1);
    refused(group, asks_for(r, 0, 1), PSR_ERR_PROTOCOL, "rank 5 has no values of its own for it");
    psr_request_free(r);
    psr_group_free(group);
    group = alone_in(1, &sent, true);
    r = started_sum(group, values, 1);
    refused(group, asks_for(r, 0, 1), PSR_ERR_PROTOCOL, "rank 3 sends rank 1 nothing");
    psr_request_free(r);
    psr_group_free(group);
}

static void operations_ahead_are_allowed_once_and_upwards(void **state)
{
    (void)state;
    uint64_t sent = 0;
    psr_group *group = alone(0, &sent);
    const psr_tag order = {NETWORK_EPOCH, NETWORK_GROUP, 0, 0};
    refused(group, ahead_of(1, order, PSR_AHEAD_OPERATIONS), PSR_ERR_PROTOCOL,
            "64 operations were allowed before");
    psr_tag slot = order, round = order;
    slot.slot = 1;
    round.round = 1;
    refused(group, ahead_of(1, slot, 100), PSR_ERR_PROTOCOL, "64 operations were allowed before");
    refused(group, ahead_of(1, round, 100), PSR_ERR_PROTOCOL, "64 operations were allowed before");
    int32_t value = 0;
    psr_request *requests[PSR_AHEAD_OPERATIONS + 2];
    for (uint64_t i = 0; i < PSR_AHEAD_OPERATIONS + 2; i++) {
        psr_request_options options = broadcast_of(&value, 1, 0);
        assert_ok(psr_request_new(group, &options, &requests[i]));
        assert_ok(psr_request_start(requests[i]));
    }
    assert_int_equal(sent, PSR_AHEAD_OPERATIONS);
    psr_waiting waiting;
    assert_ptr_equal(psr_group_next(group, NULL), requests[PSR_AHEAD_OPERATIONS]);
    assert_true(psr_request_waits(requests[PSR_AHEAD_OPERATIONS], &waiting));
    assert_int_equal(waiting.peer.rank, name_of(1).rank);
    assert_int_equal(waiting.round, PSR_AHEAD_OPERATIONS + 1);
    accepted(group, ahead_of(1, order, PSR_AHEAD_OPERATIONS + 1));
    assert_int_equal(sent, PSR_AHEAD_OPERATIONS + 1);
    accepted(group, ahead_of(1, order, UINT64_MAX));
    assert_int_equal(sent, PSR_AHEAD_OPERATIONS + 2);
    assert_null(psr_group_next(group, NULL));
    for (uint64_t i = 0; i < PSR_AHEAD_OPERATIONS + 2; i++)
        psr_request_free(requests[i]);
    psr_group_free(group);
}

static psr_err count_lent(void *context, psr_peer to, const psr_head *head,
                          const psr_payload *payload)
{
    *(uint64_t *)context += payload->release != NULL ? 100 : 1;
    return payload->release != NULL ? ignore(&(uint64_t){0}, to, head, payload) : PSR_OK;
}

static void payloads_up_to_a_size_are_copied(void **state)
{
    (void)state;
    uint64_t sent = 0;
    psr_peer members[] = {name_of(0), name_of(1)};
    psr_group_options options = {.ranks = 2,
                                 .members = members,
                                 .slice_bytes = SLICE_BYTES,
                                 .window = WINDOW,
                                 .copied_bytes = 60,
                                 .outbox = {.context = &sent, .send = count_lent}};
    psr_group *group;
    assert_ok(psr_group_new(&options, &group));
    int32_t values[SLICE_INTS + 15];
    psr_request *request = NULL;
    psr_request_options broadcast = broadcast_of(values, SLICE_INTS + 15, 0);
    assert_ok(psr_request_new(group, &broadcast, &request));
    assert_ok(psr_request_start(request));
    assert_true(psr_request_done(request));
    assert_int_equal(sent, 101); /* a whole slice lent, 15 values copied */
    psr_request_free(request);
    psr_group_free(group);
}

/* ---- prefixes ---- */

/* By a chain: the last rank gets its first slice before the first rank has sent all of its own. */
static void a_prefix_goes_slice_by_slice_through_the_ranks(void **state)
{
    (void)state;
    enum { RANKS_HERE = 3, COUNT = 20 * SLICE_INTS };
    for (uint32_t which = 0; which < 4; which++) {
        network *net = network_open(RANKS_HERE, SLICE_BYTES, WINDOW, which);
        static int32_t values[RANKS_HERE][COUNT], prefixes[RANKS_HERE][COUNT];
        psr_request *requests[RANKS_HERE];
        const bool scans = which % 2 == 0, in_place = which / 2 > 0;
        for (uint32_t r = 0; r < RANKS_HERE; r++) {
            fill(values[r], COUNT, 1);
            requests[r] =
                start(net, r,
                      &(psr_request_options){.kind = scans ? PSR_KIND_SCAN : PSR_KIND_EXSCAN,
                                             .algorithm = PSR_ALGORITHM_CHAIN,
                                             .type = PSR_TYPE_INT32,
                                             .send = values[r],
                                             .receive = in_place ? values[r] : prefixes[r],
                                             .count = COUNT});
        }
        while (psr_sim_under_way(net->sim, name_of(1), name_of(2), PSR_MSG_VALUES) == 0)
            assert_true(network_deliver(net, NULL));
        assert_false(psr_request_done(requests[0]));
        network_settle(net);
        const int32_t *last = in_place ? values[2] : prefixes[2];
        for (int32_t i = 0; i < COUNT; i++)
            assert_int_equal(last[i], (scans ? 3 : 2) * (i + 1));
        for (uint32_t r = 0; r < RANKS_HERE; r++) {
            assert_true(psr_request_done(requests[r]));
            psr_request_free(requests[r]);
        }
        network_close(net);
    }
}

/* ---- pairs ---- */

/* Has every payload been of values and indices, and zeros between? */
static psr_err look_at_gaps(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    (void)to, (void)head;
    const uint8_t *bytes = payload->data;
    for (size_t i = 0; i < payload->bytes; i++)
        assert_int_equal(bytes[i], i % 16 < 12 ? 0xee : 0);
    *(size_t *)context += payload->bytes;
    return payload->release != NULL ? ignore(&(uint64_t){0}, to, head, payload) : PSR_OK;
}

/* Of whole slices too, which are lent where there are no gaps, and of values that lie not dense. */
static void what_lies_between_the_members_of_a_pair_is_not_sent(void **state)
{
    (void)state;
    enum { COUNT = 21 };
    size_t sent = 0;
    psr_peer members[] = {name_of(0), name_of(1)};
    psr_group_options options = {.ranks = 2,
                                 .members = members,
                                 .slice_bytes = SLICE_BYTES,
                                 .window = 100,
                                 .outbox = {.context = &sent, .send = look_at_gaps}};
    psr_group *group;
    assert_ok(psr_group_new(&options, &group));
    static double pairs[4 * COUNT]; /* aligned for them */
    memset(pairs, 0xee, sizeof pairs);
    const psr_block every_other = {
        .rank = 1, .data = pairs, .shape = {1, 1, 1, COUNT}, .stride = {0, 0, 0, 2}};
    const psr_request_options calls[] = {{.kind = PSR_KIND_SCAN,
                                          .type = PSR_TYPE_FLOAT64_INT32,
                                          .reduction = PSR_REDUCTION_MINLOC,
                                          .send = pairs,
                                          .receive = pairs,
                                          .count = COUNT},
                                         {.kind = PSR_KIND_BROADCAST,
                                          .type = PSR_TYPE_INT64_INT32,
                                          .receive = pairs,
                                          .count = COUNT},
                                         {.kind = PSR_KIND_NEIGHBORS,
                                          .type = PSR_TYPE_INT64_INT32,
                                          .send_blocks = &every_other,
                                          .send_block_count = 1}};
    for (size_t i = 0; i < 3; i++) {
        psr_request *request = NULL;
        assert_ok(psr_request_new(group, &calls[i], &request));
        assert_ok(psr_request_start(request));
        assert_int_equal(sent, (i + 1) * 16 * COUNT);
        psr_request_free(request);
    }
    psr_group_free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_has_at_most_a_window_of_slices_under_way),
        cmocka_unit_test(payloads_up_to_a_size_are_copied),
        cmocka_unit_test(who_only_sends_is_at_most_so_many_operations_ahead),
        cmocka_unit_test(persistent_operations_start_in_any_order_again_and_again),
        cmocka_unit_test(a_persistent_operation_sends_nothing_unasked),
        cmocka_unit_test(messages_are_matched_by_peer_and_tag_in_order),
        cmocka_unit_test(neighbours_exchange_blocks_in_order),
        cmocka_unit_test(calls_that_differ_are_told_with_both_ranks_and_both_calls),
        cmocka_unit_test(counts_of_a_pair_that_differ_are_told),
        cmocka_unit_test(a_call_that_ended_is_still_compared),
        cmocka_unit_test(what_cannot_be_called_is_refused),
        cmocka_unit_test(a_receiver_refuses_what_cannot_come_now),
        cmocka_unit_test(more_slices_than_it_had_credit_for_are_not_kept),
        cmocka_unit_test(who_folds_refuses_what_it_did_not_ask_for),
        cmocka_unit_test(operations_ahead_are_allowed_once_and_upwards),
        cmocka_unit_test(a_prefix_goes_slice_by_slice_through_the_ranks),
        cmocka_unit_test(what_lies_between_the_members_of_a_pair_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
