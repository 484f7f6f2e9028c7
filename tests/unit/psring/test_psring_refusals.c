/* What a call refuses, as USAGE, before anything moves: the others hear nothing of it, and the
 * group goes on. */
#include "tests/unit/psring/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 2, VALUES = 16 };

typedef struct buffers {
    int32_t x[VALUES], y[VALUES];
} buffers;

/* Refused by the call itself, whether it would wait or start a request. */
typedef psring_err any_call(psring_group *world, buffers *b, psring_request **ret_request);

static void expect_refused(psring_group *world, any_call *call, const char *words)
{
    buffers b = {{0}, {0}};
    psring_request *request = NULL;
    for (int with_request = 0; with_request < 2; with_request++) {
        expect(call(world, &b, with_request ? &request : NULL) == PSRING_ERR_USAGE &&
               request == NULL);
        expect(strstr(psring_err_detail(), words) != NULL);
    }
    for (int i = 0; i < VALUES; i++)
        expect(b.y[i] == 0);
}

/* ---- what a rank sends itself ---- */

static psring_err send_itself_more(psring_group *world, buffers *b, psring_request **ret_request)
{
    const size_t sent[RANKS] = {3, 3}, received[RANKS] = {2, 2};
    return psring_all_to_all_v(world, b->x, sent, b->y, received, PSRING_INT32, NULL, ret_request);
}

static psring_err send_itself_less(psring_group *world, buffers *b, psring_request **ret_request)
{
    const size_t sent[RANKS] = {0, 0}, received[RANKS] = {VALUES / 2, VALUES / 2};
    return psring_all_to_all_v(world, b->x, sent, b->y, received, PSRING_INT32, NULL, ret_request);
}

static psring_err block_to_itself(psring_group *world, buffers *b, psring_request **ret_request)
{
    const psring_block send = {.rank = psring_rank(world), .data = b->x, .shape = {1, 1, 1, 3}};
    const psring_block receive = {.rank = psring_rank(world), .data = b->y, .shape = {1, 1, 1, 2}};
    return psring_neighbor_exchange(world, &send, 1, &receive, 1, PSRING_INT32, NULL, ret_request);
}

static psring_err halo_to_itself(psring_group *world, buffers *b, psring_request **ret_request)
{
    psring_halo h = {.size = sizeof h,
                     .shape = {1, 1, 2, 2},
                     .send_lengths = {[PSRING_EDGE_RIGHT] = 2},
                     .receive_lengths = {[PSRING_EDGE_LEFT] = 1}};
    for (int d = 0; d < 8; d++)
        h.send_ranks[d] = h.receive_ranks[d] = PSRING_NO_RANK;
    h.send_ranks[PSRING_RIGHT] = h.receive_ranks[PSRING_LEFT] = psring_rank(world);
    return psring_halo_exchange(world, &h, b->x, b->y, PSRING_INT32, NULL, ret_request);
}

static void differ_from_oneself(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    (void)rank, (void)context;
    expect_refused(world, send_itself_more, "sends itself 3 values and expects 2");
    expect_refused(world, send_itself_less, "sends itself 0 values and expects 8");
    expect_refused(world, block_to_itself, "sends itself other values than it expects");
    expect_refused(world, halo_to_itself, "sends itself other values than it expects");
    expect_ok(psring_barrier(world, NULL, NULL));
}

static void what_a_rank_sends_itself_is_what_it_expects_of_itself(void **state)
{
    (void)state;
    for (int n = 1; n <= RANKS; n++)
        ranks_run(n, differ_from_oneself, NULL);
}

/* ---- more than can be counted ---- */

static const size_t endless[RANKS] = {SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1}, few[RANKS] = {1, 1};
#define ENDLESS PSRING_CALL(.counts = endless)
#define FEW PSRING_CALL(.counts = few)

static psring_err all_gather(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_all_gather(world, b->x, b->y, 0, PSRING_INT32, ENDLESS, ret_request);
}

static psring_err gather(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_gather(world, b->x, b->y, 0, PSRING_INT32, 0, ENDLESS, ret_request);
}

static psring_err scatter(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_scatter(world, b->x, b->y, 0, PSRING_INT32, 0, ENDLESS, ret_request);
}

static psring_err reduce_scatter(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_reduce_scatter(world, b->x, b->y, 0, PSRING_INT32, PSRING_SUM, ENDLESS,
                                 ret_request);
}

static psring_err send_endless(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_all_to_all_v(world, b->x, endless, b->y, few, PSRING_INT32, NULL, ret_request);
}

static psring_err receive_endless(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_all_to_all_v(world, b->x, few, b->y, endless, PSRING_INT32, NULL, ret_request);
}

static psring_err all_reduce(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_all_reduce(world, b->x, b->y, SIZE_MAX, PSRING_INT32, PSRING_SUM, NULL,
                             ret_request);
}

static psring_err all_to_all(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_all_to_all(world, b->x, b->y, SIZE_MAX / 2, PSRING_INT32, NULL, ret_request);
}

static psring_err block(psring_group *world, buffers *b, psring_request **ret_request)
{
    const psring_block send = {.rank = 0, .data = b->x, .shape = {SIZE_MAX, 2, 1, 1}};
    return psring_neighbor_exchange(world, &send, 1, NULL, 0, PSRING_INT32, NULL, ret_request);
}

static void count_too_many(psring_comm **comm, int rank, void *context)
{
    static any_call *const calls[] = {all_gather,     gather,       scatter,
                                      reduce_scatter, send_endless, receive_endless,
                                      all_reduce,     all_to_all,   block};
    psring_group *world = psring_world(*comm);
    (void)rank, (void)context;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        expect_refused(world, calls[c], "more values than memory can hold");
    expect_ok(psring_barrier(world, NULL, NULL));
}

static void counts_that_no_memory_has_are_refused(void **state)
{
    (void)state;
    ranks_run(RANKS, count_too_many, NULL);
}

/* ---- values that are nowhere ---- */

static psring_err all_gather_of_nothing(psring_group *world, buffers *b,
                                        psring_request **ret_request)
{
    return psring_all_gather(world, NULL, b->y, 0, PSRING_INT32, FEW, ret_request);
}

static psring_err all_gather_to_nowhere(psring_group *world, buffers *b,
                                        psring_request **ret_request)
{
    return psring_all_gather(world, b->x, NULL, 0, PSRING_INT32, FEW, ret_request);
}

static psring_err gather_of_nothing(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_gather(world, NULL, b->y, 0, PSRING_INT32, 0, FEW, ret_request);
}

static psring_err scatter_to_nowhere(psring_group *world, buffers *b, psring_request **ret_request)
{
    return psring_scatter(world, b->x, NULL, 0, PSRING_INT32, 0, FEW, ret_request);
}

static psring_err reduce_scatter_of_nothing(psring_group *world, buffers *b,
                                            psring_request **ret_request)
{
    return psring_reduce_scatter(world, NULL, b->y, 0, PSRING_INT32, PSRING_SUM, FEW, ret_request);
}

static psring_err all_to_all_of_nothing(psring_group *world, buffers *b,
                                        psring_request **ret_request)
{
    return psring_all_to_all_v(world, NULL, few, b->y, few, PSRING_INT32, NULL, ret_request);
}

static psring_err all_to_all_to_nowhere(psring_group *world, buffers *b,
                                        psring_request **ret_request)
{
    return psring_all_to_all_v(world, b->x, few, NULL, few, PSRING_INT32, NULL, ret_request);
}

static void have_no_memory(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    (void)rank, (void)context;
    expect_refused(world, all_gather_of_nothing, "send is NULL");
    expect_refused(world, all_gather_to_nowhere, "receive is NULL");
    expect_refused(world, gather_of_nothing, "send is NULL");
    expect_refused(world, scatter_to_nowhere, "receive is NULL");
    expect_refused(world, reduce_scatter_of_nothing, "send is NULL");
    expect_refused(world, all_to_all_of_nothing, "send is NULL");
    expect_refused(world, all_to_all_to_nowhere, "receive is NULL");
    expect_ok(psring_barrier(world, NULL, NULL));
}

static void values_of_varying_counts_are_somewhere(void **state)
{
    (void)state;
    ranks_run(RANKS, have_no_memory, NULL);
}

/* ---- in place ---- */

static psring_err in_place_of_other_counts(psring_group *world, buffers *b,
                                           psring_request **ret_request)
{
    const size_t sent[2][RANKS] = {{2, 3}, {3, 2}}, received[2][RANKS] = {{2, 2}, {2, 2}};
    int rank = psring_rank(world);
    return psring_all_to_all_v(world, b->y, sent[rank], b->y, received[rank], PSRING_INT32, NULL,
                               ret_request);
}

static psring_err in_place_beside_its_place(psring_group *world, buffers *b,
                                            psring_request **ret_request)
{
    return psring_all_to_all(world, b->y, b->y + 1, 2, PSRING_INT32, NULL, ret_request);
}

static void be_out_of_place(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    (void)rank, (void)context;
    expect_refused(world, in_place_of_other_counts, "in place send_counts are receive_counts");
    expect_refused(world, in_place_beside_its_place, "send and receive overlap");
    expect_ok(psring_barrier(world, NULL, NULL));
}

static void an_exchange_in_place_has_equal_counts_and_one_buffer(void **state)
{
    (void)state;
    ranks_run(RANKS, be_out_of_place, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_sends_itself_is_what_it_expects_of_itself),
        cmocka_unit_test(counts_that_no_memory_has_are_refused),
        cmocka_unit_test(values_of_varying_counts_are_somewhere),
        cmocka_unit_test(an_exchange_in_place_has_equal_counts_and_one_buffer),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
