/* Messages of any rank and with any tag, probes, sends that are copied, folds of the program's own,
 * and groups that are made without waiting: by real ranks. */
#include "tests/unit/psring/ranks.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static psring_message message_new(void)
{
    return (psring_message){.size = sizeof(psring_message)};
}

/* ---- from any rank ---- */

static void receive_of_any(psring_comm **comm, int rank, void *context)
{
    enum { EACH = 200, MOST = 50 };
    psring_group *world = psring_world(*comm);
    (void)context;
    int32_t values[MOST] = {0};
    if (rank != 0) {
        for (int k = 0; k < EACH; k++) {
            values[0] = k;
            expect_ok(psring_send(world, values, (size_t)(1 + k % MOST), PSRING_INT32, 0,
                                  (uint32_t)(k % 3), NULL, NULL));
        }
        return;
    }
    int next[3] = {0};
    for (int k = 0; k < 2 * EACH; k++) {
        psring_message came = message_new();
        expect_ok(psring_receive(world, values, MOST, PSRING_INT32, PSRING_ANY_RANK, PSRING_ANY_TAG,
                                 PSRING_CALL(.message = &came), NULL));
        expect(came.from > 0 && came.from < 3);
        expect(values[0] == next[came.from]); /* of one rank in its order */
        expect(came.tag == (uint32_t)(values[0] % 3) && came.type == PSRING_INT32);
        expect(came.count == (size_t)(1 + values[0] % MOST));
        next[came.from]++;
    }
    expect(next[1] == EACH && next[2] == EACH);
}

static void messages_of_any_rank_are_told(void **state)
{
    (void)state;
    ranks_run(3, receive_of_any, NULL);
}

static void wait_in_vain(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    int32_t value = 0;
    (void)context;
    if (rank == 0) {
        psring_err err = psring_receive(world, &value, 1, PSRING_INT32, PSRING_ANY_RANK, 7,
                                        PSRING_CALL(.deadline_ms = 300), NULL);
        expect(err == PSRING_ERR_TIMEOUT);
        expect(strstr(psring_err_detail(), "any of ranks 0, 1, 2 for") != NULL);
        expect(strstr(psring_err_detail(), "receive from any rank, tag 7") != NULL);
    } else { /* both wait for rank 0, which waits for any: that is the failure that all hear of */
        psring_err err = psring_receive(world, &value, 1, PSRING_INT32, 0, 8, NULL, NULL);
        expect(err == PSRING_ERR_TIMEOUT);
        expect(strstr(psring_err_detail(), "any of ranks 0, 1, 2 for") != NULL);
    }
}

static void who_waits_for_any_in_vain_names_all(void **state)
{
    (void)state;
    ranks_run(3, wait_in_vain, NULL);
}

/* ---- probes ---- */

static void probe(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    double values[20] = {0};
    (void)context;
    if (rank == 1) {
        for (int i = 0; i < 20; i++)
            values[i] = i;
        expect_ok(psring_send(world, values, 20, PSRING_FLOAT64, 0, 4, NULL, NULL));
        return;
    }
    psring_message came = message_new();
    expect(psring_probe_now(world, PSRING_ANY_RANK, 5, &came) == PSRING_ERR_NOT_FOUND);
    expect(psring_probe(world, 2, 5, NULL, &came) == PSRING_ERR_USAGE);
    expect_ok(psring_probe(world, PSRING_ANY_RANK, PSRING_ANY_TAG, NULL, &came));
    expect(came.from == 1 && came.tag == 4 && came.count == 20 && came.type == PSRING_FLOAT64);
    came = message_new();
    expect_ok(psring_probe_now(world, 1, 4, &came)); /* it is there still */
    expect(came.count == 20);
    expect_ok(
        psring_receive(world, values, came.count, came.type, came.from, came.tag, NULL, NULL));
    expect((int)values[19] == 19);
    expect(psring_probe_now(world, 1, 4, &came) == PSRING_ERR_NOT_FOUND);
}

static void what_is_probed_can_be_received(void **state)
{
    (void)state;
    ranks_run(2, probe, NULL);
}

/* ---- sends that are copied ---- */

static void send_copies(psring_comm **comm, int rank, void *context)
{
    enum {
        COUNT = PSRING_BUFFERED_MAX / 4,
        MOST = PSRING_BUFFERED_TO_RANK_MAX / PSRING_BUFFERED_MAX
    };
    psring_group *world = psring_world(*comm);
    int32_t *values = calloc(COUNT + 1, sizeof *values);
    psring_request *started[2 * MOST] = {NULL};
    size_t at_once = 0;
    (void)context;
    expect(values != NULL);
    expect(psring_send(world, values, COUNT + 1, PSRING_INT32, 1 - rank, 0,
                       PSRING_CALL(.buffered = true), NULL) == PSRING_ERR_USAGE);
    values[0] = rank;
    expect_ok(psring_send(world, values, 3, PSRING_INT32, 1 - rank, 0,
                          PSRING_CALL(.buffered = true), NULL)); /* both send first */
    values[0] = -1;
    expect_ok(psring_receive(world, values, 3, PSRING_INT32, 1 - rank, 0, NULL, NULL));
    expect(values[0] == 1 - rank);
    expect_ok(psring_barrier(world, NULL, NULL));
    for (int k = 0; rank == 0 && k < 2 * MOST; k++) {
        expect_ok(psring_send(world, values, COUNT, PSRING_INT32, 1, 1,
                              PSRING_CALL(.buffered = true), &started[k]));
        at_once += psring_test(started[k]) == PSRING_OK;
    }
    if (rank == 0) /* no more than there is room for; those behind wait for their receives */
        expect(at_once >= MOST - 1 && at_once <= MOST);
    expect_ok(psring_barrier(world, NULL, NULL));
    for (int k = 0; rank == 1 && k < 2 * MOST; k++)
        expect_ok(psring_receive(world, values, COUNT, PSRING_INT32, 0, 1, NULL, NULL));
    for (int k = 0; rank == 0 && k < 2 * MOST; k++) {
        expect_ok(psring_wait(started[k], PSRING_FOREVER));
        psring_request_free(&started[k]);
    }
    free(values);
}

static void a_send_that_is_copied_waits_for_nobody_as_long_as_there_is_room(void **state)
{
    (void)state;
    ranks_run(2, send_copies, NULL);
}

/* ---- folds ---- */

/* Which of two ranks comes first: it does not commute. */
static void take_first(void *context, void *out, const void *a, const void *b, size_t count,
                       psring_type type)
{
    (void)b;
    expect(type == PSRING_INT32);
    ++*(size_t *)context;
    memmove(out, a, count * sizeof(int32_t));
}

static void take_last(void *context, void *out, const void *a, const void *b, size_t count,
                      psring_type type)
{
    take_first(context, out, b, a, count, type);
}

static void greater(void *context, void *out, const void *a, const void *b, size_t count,
                    psring_type type)
{
    (void)context, (void)type;
    const int32_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)out)[i] = x[i] > y[i] ? x[i] : y[i];
}

static void fold_all_ways(psring_group *world, psring_op op, int32_t *x, int32_t *y, size_t count,
                          int32_t all, int32_t prefix)
{
    expect_ok(psring_all_reduce(world, x, y, count, PSRING_INT32, op, NULL, NULL));
    expect(y[0] == all && y[count - 1] == all);
    for (int root = 0; root < psring_size(world); root++) {
        expect_ok(psring_reduce(world, x, y, count, PSRING_INT32, op, root, NULL, NULL));
        expect(psring_rank(world) != root || (y[0] == all && y[count - 1] == all));
    }
    expect_ok(psring_reduce_scatter(world, x, y, count / 8, PSRING_INT32, op, NULL, NULL));
    expect(y[0] == all);
    expect_ok(psring_scan(world, x, y, count, PSRING_INT32, op, NULL, NULL));
    expect(y[0] == prefix && y[count - 1] == prefix);
}

static void fold_own(psring_comm **comm, int rank, void *context)
{
    enum { COUNT = 40000 };
    psring_group *world = psring_world(*comm);
    const int last = psring_size(world) - 1;
    size_t calls = 0;
    psring_op first_op, last_op, greater_op, again;
    int32_t *x = calloc(COUNT, sizeof *x), *y = calloc(COUNT, sizeof *y);
    (void)context;
    expect(x != NULL && y != NULL);
    expect_ok(psring_op_make(*comm, PSRING_WITH(psring_fold, .context = &calls, .fold = take_first),
                             &first_op));
    expect_ok(psring_op_make(*comm, PSRING_WITH(psring_fold, .context = &calls, .fold = take_last),
                             &last_op));
    expect_ok(psring_op_make(*comm, PSRING_WITH(psring_fold, .fold = greater, .commutative = true),
                             &greater_op));
    for (size_t i = 0; i < COUNT; i++)
        x[i] = rank + 10;
    for (size_t count = 8; count <= COUNT; count *= 70) {
        fold_all_ways(world, first_op, x, y, count, 10, 10);
        fold_all_ways(world, last_op, x, y, count, last + 10, rank + 10);
        fold_all_ways(world, greater_op, x, y, count, last + 10, rank + 10);
    }
    expect(calls > 0);
    expect_ok(psring_all_reduce(world, x, y, COUNT, PSRING_INT32, greater_op,
                                PSRING_CALL(.algorithm = "ring"), NULL));
    expect(psring_all_reduce(world, x, y, 8, PSRING_INT32, first_op,
                             PSRING_CALL(.algorithm = "ring"), NULL) == PSRING_ERR_USAGE);
    psring_request *request = NULL;
    expect_ok(psring_all_reduce(world, x, y, 8, PSRING_INT32, last_op,
                                PSRING_CALL(.persistent = true), &request));
    expect(psring_op_free(*comm, last_op) == PSRING_ERR_BUSY);
    expect_ok(psring_start(request));
    expect_ok(psring_wait(request, PSRING_FOREVER));
    expect(y[7] == last + 10);
    psring_request_free(&request);
    expect_ok(psring_op_free(*comm, last_op));
    expect(psring_op_free(*comm, last_op) == PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, x, y, 8, PSRING_INT32, last_op, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect_ok(psring_op_make(*comm, PSRING_WITH(psring_fold, .fold = greater), &again));
    expect(again == last_op);
    free(x);
    free(y);
}

static void folds_of_the_program_are_in_order_unless_they_commute(void **state)
{
    (void)state;
    ranks_run(3, fold_own, NULL);
    ranks_run(4, fold_own, NULL);
}

static void fold_others(psring_comm **comm, int rank, void *context)
{
    psring_op ops[2];
    int32_t x = rank;
    (void)context;
    for (int i = 0; i < 2; i++)
        expect_ok(psring_op_make(
            *comm, PSRING_WITH(psring_fold, .fold = greater, .commutative = true), &ops[i]));
    expect(psring_all_reduce(psring_world(*comm), &x, &x, 1, PSRING_INT32, ops[rank], NULL, NULL) ==
           PSRING_ERR_MISMATCH);
    expect(strstr(psring_err_detail(), "own fold 0") != NULL &&
           strstr(psring_err_detail(), "own fold 1") != NULL);
}

static void folds_that_differ_are_a_mismatch(void **state)
{
    (void)state;
    ranks_run(2, fold_others, NULL);
}

/* ---- groups ---- */

static void split_without_waiting(psring_comm **comm, int rank, void *context)
{
    enum { GROUPS = 20 };
    psring_group *world = psring_world(*comm), *groups[GROUPS] = {NULL}, *none = world;
    psring_request *requests[GROUPS], *of_none = NULL;
    (void)context;
    for (int i = 0; i < GROUPS; i++)
        expect_ok(
            psring_group_split_start(world, (rank + i) % 2, -rank, NULL, &groups[i], &requests[i]));
    expect_ok(psring_group_split_start(world, PSRING_NO_COLOUR, 0, NULL, &none, &of_none));
    if (rank == 0) /* while others wait for their groups already */
        expect_ok(psring_barrier(world, NULL, NULL));
    for (int k = 0; k < GROUPS; k++) {
        int i = rank % 2 ? GROUPS - 1 - k : k;
        expect_ok(psring_wait(requests[i], PSRING_FOREVER));
        expect(groups[i] != NULL);
        psring_request_free(&requests[i]);
    }
    if (rank != 0)
        expect_ok(psring_barrier(world, NULL, NULL));
    expect_ok(psring_wait(of_none, PSRING_FOREVER));
    expect(none == NULL);
    for (int i = 0; i < GROUPS; i++) {
        int64_t sum = rank;
        expect_ok(
            psring_all_reduce(groups[i], &sum, &sum, 1, PSRING_INT64, PSRING_SUM, NULL, NULL));
        expect(sum == (rank % 2 ? 1 + 3 : 0 + 2));
        expect(psring_rank(groups[i]) == (rank < 2)); /* the larger first, by its key */
        psring_group_free(&groups[i]);
    }
}

static void groups_are_made_without_waiting(void **state)
{
    (void)state;
    ranks_run(4, split_without_waiting, NULL);
}

/* Every set of ranks, several times, upwards and downwards: a rank is in half of them at once. */
static void list_without_waiting(psring_comm **comm, int rank, void *context)
{
    enum { RANKS = 4, SETS = 1 << RANKS, GROUPS = 4 * SETS };
    psring_group *world = psring_world(*comm), *groups[GROUPS] = {NULL};
    psring_request *requests[GROUPS] = {NULL};
    (void)context;
    for (int i = 0; i < GROUPS; i++) {
        int ranks[RANKS], count = 0;
        for (int k = 0; k < RANKS; k++) {
            const int r = i / SETS % 2 == 0 ? k : RANKS - 1 - k;
            if (i % SETS >> r & 1)
                ranks[count++] = r;
        }
        if (i % SETS >> rank & 1)
            expect_ok(
                psring_group_from_ranks_start(world, ranks, count, NULL, &groups[i], &requests[i]));
    }
    for (int k = 0; k < GROUPS; k++) {
        const int i = rank % 2 ? GROUPS - 1 - k : k;
        if (requests[i] == NULL)
            continue;
        expect_ok(psring_wait(requests[i], PSRING_FOREVER));
        expect_ok(psring_test(requests[i]));
        expect(groups[i] != NULL);
        psring_request_free(&requests[i]);
    }
    for (int i = 0; i < GROUPS; i++) {
        int64_t set = INT64_C(1) << rank;
        if (groups[i] == NULL)
            continue;
        expect_ok(
            psring_all_reduce(groups[i], &set, &set, 1, PSRING_INT64, PSRING_SUM, NULL, NULL));
        expect(set == i % SETS);
        if (i % 3 == 0) /* the others end with comm */
            psring_group_free(&groups[i]);
    }
}

static void groups_of_lists_are_made_without_waiting(void **state)
{
    (void)state;
    ranks_run(4, list_without_waiting, NULL);
}

static void list_differently(psring_comm **comm, int rank, void *context)
{
    static const int up[] = {0, 1, 2}, turned[] = {0, 2, 1};
    psring_group *world = psring_world(*comm), *group = world;
    psring_request *request = NULL;
    sem_t *started = context; /* before it is found, and has failed the world */
    expect(psring_group_from_ranks_start(world, up, 3, NULL, &group, NULL) == PSRING_ERR_USAGE);
    expect(psring_group_from_ranks_start(world, up, 4, NULL, NULL, &request) == PSRING_ERR_USAGE);
    expect(psring_group_from_ranks_start(world, (const int[]){0, 0}, 2, NULL, &group, &request) ==
           PSRING_ERR_USAGE);
    for (int r = 0; rank == 2 && r < 2; r++)
        expect(sem_wait(started) == 0);
    expect_ok(
        psring_group_from_ranks_start(world, rank == 2 ? turned : up, 3, NULL, &group, &request));
    expect(rank == 2 || sem_post(started) == 0);
    expect(psring_wait(request, PSRING_FOREVER) == PSRING_ERR_MISMATCH);
    expect(strstr(psring_err_detail(), "rank 0 makes a group of ranks 0, 1, 2; rank 2 makes one of "
                                       "ranks 0, 2, 1") != NULL);
    expect(group == world);
    psring_request_free(&request);
    expect(psring_barrier(world, NULL, NULL) == PSRING_ERR_BROKEN);
    expect_ok(psring_close(comm));
}

static void lists_that_differ_are_found_when_they_are_started(void **state)
{
    (void)state;
    sem_t started;
    expect(sem_init(&started, 0, 0) == 0);
    ranks_run(3, list_differently, &started);
    sem_destroy(&started);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_rank_are_told),
        cmocka_unit_test(who_waits_for_any_in_vain_names_all),
        cmocka_unit_test(what_is_probed_can_be_received),
        cmocka_unit_test(a_send_that_is_copied_waits_for_nobody_as_long_as_there_is_room),
        cmocka_unit_test(folds_of_the_program_are_in_order_unless_they_commute),
        cmocka_unit_test(folds_that_differ_are_a_mismatch),
        cmocka_unit_test(groups_are_made_without_waiting),
        cmocka_unit_test(groups_of_lists_are_made_without_waiting),
        cmocka_unit_test(lists_that_differ_are_found_when_they_are_started),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
