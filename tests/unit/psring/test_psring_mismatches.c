/* Ranks that call different things: all get the same line, which names two ranks and what each of
 * them calls. The lines are printed. */
#include "tests/unit/psring/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { RANKS = 3, CULPRIT = 2, VALUES = 32 };

/* other: this is the rank that calls another thing than all others. x and y have VALUES values. */
typedef psring_err any_call(psring_group *world, bool other, int32_t *x, int32_t *y);

static psring_err operation(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return other ? psring_barrier(world, NULL, NULL)
                 : psring_all_reduce(world, x, y, 2, PSRING_INT32, PSRING_SUM, NULL, NULL);
}

static psring_err type(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return psring_all_reduce(world, x, y, 2, other ? PSRING_FLOAT32 : PSRING_INT32, PSRING_SUM,
                             NULL, NULL);
}

static psring_err count(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return psring_all_reduce(world, x, y, other ? 3 : 2, PSRING_INT32, PSRING_SUM, NULL, NULL);
}

static psring_err root(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    (void)y;
    return psring_broadcast(world, x, 2, PSRING_INT32, other, NULL, NULL);
}

static psring_err op(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return psring_reduce(world, x, y, 2, PSRING_INT32, other ? PSRING_MAXIMUM : PSRING_SUM, 0, NULL,
                         NULL);
}

static psring_err prefix(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return other ? psring_exscan(world, x, y, 2, PSRING_INT32, PSRING_SUM, NULL, NULL)
                 : psring_scan(world, x, y, 2, PSRING_INT32, PSRING_SUM, NULL, NULL);
}

static psring_err sign(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return psring_scan(world, x, y, 2, other ? PSRING_UINT32 : PSRING_INT32, PSRING_BITWISE_OR,
                       NULL, NULL);
}

static psring_err algorithm(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return psring_all_gather(world, x, y, 2, PSRING_INT32,
                             PSRING_CALL(.algorithm = other ? "bruck" : "ring"), NULL);
}

/* The same in sum. */
static psring_err counts(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    const size_t of_all[RANKS] = {1, 2, 3}, of_other[RANKS] = {2, 1, 3};
    return psring_all_gather(world, x, y, 0, PSRING_INT32,
                             PSRING_CALL(.counts = other ? of_other : of_all), NULL);
}

static psring_err counts_or_none(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    const size_t of_other[RANKS] = {2, 2, 2};
    return psring_gather(world, x, y, 2, PSRING_INT32, 0,
                         other ? PSRING_CALL(.counts = of_other) : NULL, NULL);
}

/* Rank 0 gets less from the other than it expects. */
static psring_err pair(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    const size_t equal[RANKS] = {2, 2, 2}, less[RANKS] = {1, 2, 2};
    return psring_all_to_all_v(world, x, other ? less : equal, y, equal, PSRING_INT32, NULL, NULL);
}

static psring_err block(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    int rank = psring_rank(world);
    const psring_block send = {
        .rank = (rank + 1) % RANKS, .data = x, .shape = {1, 1, 1, other ? 3 : 4}};
    const psring_block receive = {
        .rank = (rank + RANKS - 1) % RANKS, .data = y, .shape = {1, 1, 1, 4}};
    return psring_neighbor_exchange(world, &send, 1, &receive, 1, PSRING_INT32, NULL, NULL);
}

/* Rank 1 takes no part. */
static psring_err message(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    if (other)
        return psring_send(world, x, 3, PSRING_INT32, 0, 7, NULL, NULL);
    return psring_rank(world) == 0
               ? psring_receive(world, y, 2, PSRING_INT32, CULPRIT, 7, NULL, NULL)
               : PSRING_OK;
}

static psring_err list(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    const int all[RANKS] = {0, 1, 2}, less[2] = {0, 2};
    psring_group *group = NULL;
    (void)x, (void)y;
    return psring_group_from_ranks(world, other ? less : all, other ? 2 : RANKS, NULL, &group);
}

/* The same ranks in another order: nobody waits for who tells what. */
static psring_err order(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    const int all[RANKS] = {0, 1, 2}, turned[RANKS] = {1, 0, 2};
    psring_group *group = NULL;
    (void)x, (void)y;
    return psring_group_from_ranks(world, other ? turned : all, RANKS, NULL, &group);
}

static psring_err split(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    psring_group *group = NULL;
    return other ? psring_group_split(world, 0, 0, NULL, &group) : operation(world, false, x, y);
}

/* Each sends the next its right column, and the culprit's has two. */
static psring_err halo(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    int rank = psring_rank(world);
    psring_halo h = {.size = sizeof h,
                     .shape = {1, 1, 2, 2},
                     .send_lengths = {[PSRING_EDGE_RIGHT] = other ? 2 : 1},
                     .receive_lengths = {[PSRING_EDGE_LEFT] = 1}};
    for (int d = 0; d < 8; d++)
        h.send_ranks[d] = h.receive_ranks[d] = PSRING_NO_RANK;
    h.send_ranks[PSRING_RIGHT] = (rank + 1) % RANKS;
    h.receive_ranks[PSRING_LEFT] = (rank + RANKS - 1) % RANKS;
    return psring_halo_exchange(world, &h, x, y, PSRING_INT32, NULL, NULL);
}

typedef struct differing {
    any_call *call;
    const char *all, *other; /* what each is said to do; %d: one of all others, the culprit */
    bool turned;             /* in a group whose ranks are numbered the other
                                way round; named by their ranks in the world */
} differing;

static const differing cases[] = {
    {operation, "rank %d calls all_reduce(count 2, int32, sum, direct)", "rank %d calls barrier",
     false},
    {type, "rank %d calls all_reduce(count 2, int32, sum, direct)",
     "rank %d calls all_reduce(count 2, float32, sum, direct)", false},
    {count, "rank %d calls all_reduce(count 2, int32, sum, direct)",
     "rank %d calls all_reduce(count 3, int32, sum, direct)", false},
    {root, "rank %d calls broadcast(count 2, int32, root 0, binomial)",
     "rank %d calls broadcast(count 2, int32, root 1, binomial)", false},
    {op, "rank %d calls reduce(count 2, int32, sum, root 0, binomial)",
     "rank %d calls reduce(count 2, int32, maximum, root 0, binomial)", false},
    {prefix, "rank %d calls scan(count 2, int32, sum, doubling)",
     "rank %d calls exscan(count 2, int32, sum, doubling)", false},
    {sign, "rank %d calls scan(count 2, int32, bitwise_or, doubling)",
     "rank %d calls scan(count 2, uint32, bitwise_or, doubling)", false},
    {algorithm, "rank %d calls all_gather(count 2, int32, ring)",
     "rank %d calls all_gather(count 2, int32, bruck)", false},
    {counts, "rank %d calls all_gather(counts #", "rank %d calls all_gather(counts #", false},
    {counts_or_none, "rank %d calls gather(count 2, int32, root 0, direct)",
     "rank %d calls gather(counts #", false},
    {pair, "where rank %d expects 2", "rank %d sends rank 0 1 values in all_to_all_v", false},
    {block, "where rank %d expects 4", "rank %d sends rank 0 3 values in neighbor_exchange", false},
    {message, "rank %d calls receive(count 2, int32, direct)",
     "rank %d calls send(count 3, int32, direct)", false},
    {operation, "rank %d calls all_reduce(count 2, int32, sum, direct)", "rank %d calls barrier",
     true},
    {order, "rank %d makes a group of ranks 0, 1, 2", "rank %d makes one of ranks 1, 0, 2", false},
    {split, "rank %d calls all_reduce(", "rank %d calls group_split", false},
    {halo, "where rank %d expects 2",
     "rank %d sends rank 0 4 values in halo_exchange, in all blocks", false},
    {list, "rank %d makes a group of ranks 0, 1, 2", "rank %d makes one of ranks 0, 2", false},
};

/* With one of two ranks in place of %d. */
static bool says(const char *line, const char *what, int first, int last)
{
    char text[256];
    bool said = false;
    for (int rank = first; rank <= last; rank++) {
        const char *number = strstr(what, "%d");
        snprintf(text, sizeof text, "%.*s%d%s", (int)(number - what), what, rank, number + 2);
        said = said || strstr(line, text) != NULL;
    }
    return said;
}

static void call_another(psring_comm **comm, int rank, void *context)
{
    const differing *d = context;
    int32_t x[VALUES] = {0}, y[VALUES] = {0};
    psring_failure failure = {.size = sizeof failure};
    psring_group *group = psring_world(*comm);
    if (d->turned) {
        expect_ok(psring_group_from_ranks(group, (const int[]){2, 1, 0}, RANKS, NULL, &group));
        expect_ok(psring_barrier(psring_world(*comm), NULL, NULL)); /* all have made it */
    }
    psring_err err = d->call(group, rank == CULPRIT, x, y);
    if (err == PSRING_OK) /* some can have all that they need: they hear of it in the next call */
        err = psring_barrier(group, NULL, NULL);
    expect(err == PSRING_ERR_MISMATCH);
    expect_ok(psring_group_failure(group, &failure));
    if (rank == 0)
        printf("# %s: %s\n", psring_err_name(err), psring_err_detail());
    expect(strcmp(failure.line, psring_err_detail()) == 0);
    if (d->turned) /* the barrier with which it begins is no call of this program's */
        expect(strstr(failure.line, "call 1 of the group of ranks 2, 1, 0: ") == failure.line);
    expect((failure.rank == CULPRIT) != (failure.other == CULPRIT));
    expect(failure.rank >= 0 && failure.rank < RANKS && failure.other >= 0 &&
           failure.other < RANKS);
    expect(says(failure.line, d->all, 0, CULPRIT - 1) &&
           says(failure.line, d->other, CULPRIT, CULPRIT));
}

static void calls_that_differ_are_told_to_all_with_both_ranks_and_both_calls(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        differing d = cases[c];
        ranks_run(RANKS, call_another, &d);
    }
}

/* ---- what no message crosses, or crosses too late for some: the next barrier finds it ---- */

typedef struct silent {
    any_call *call;
    int culprit;
    const char *all, *other;
    size_t alike; /* calls between it and the barrier */
} silent;

static psring_err nothing(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    return other ? psring_broadcast(world, x, 0, PSRING_INT32, 1, NULL, NULL)
                 : psring_all_reduce(world, x, y, 0, PSRING_INT32, PSRING_SUM, NULL, NULL);
}

/* The root has sent all that it has to; who gathers has too. */
static psring_err from_root_or_to_it(psring_group *world, bool other, int32_t *x, int32_t *y)
{
    const psring_call *direct = PSRING_CALL(.algorithm = "direct");
    return other ? psring_gather(world, x, y, 1, PSRING_INT32, 0, direct, NULL)
                 : psring_scatter(world, x, y, 1, PSRING_INT32, 0, direct, NULL);
}

static void end_in_a_barrier(psring_comm **comm, int rank, void *context)
{
    const silent *s = context;
    int32_t x[VALUES] = {0}, y[VALUES] = {0};
    psring_failure failure = {.size = sizeof failure};
    psring_group *world = psring_world(*comm);
    psring_err err = s->call(world, rank == s->culprit, x, y);
    for (size_t i = 0; i < s->alike && err == PSRING_OK; i++)
        err = psring_all_reduce(world, x, y, 0, PSRING_INT32, PSRING_SUM, NULL, NULL);
    if (err == PSRING_OK)
        err = psring_barrier(world, NULL, NULL);
    expect(err == PSRING_ERR_MISMATCH);
    expect_ok(psring_group_failure(world, &failure));
    expect(strcmp(failure.line, psring_err_detail()) == 0);
    expect((failure.rank == s->culprit) != (failure.other == s->culprit));
    if (s->alike > 0)
        expect(strstr(failure.line,
                      "call barrier, and some time before it they called different things") !=
               NULL);
    else
        expect(strstr(failure.line, "call 1: ") == failure.line &&
               strstr(failure.line, s->all) != NULL && strstr(failure.line, s->other) != NULL);
}

static void no_barrier_ends_where_calls_before_it_differed(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++)
        for (int culprit = 0; culprit < n; culprit++)
            for (size_t alike = 0; alike < 100; alike += 99)
                ranks_run(n, end_in_a_barrier,
                          &(silent){nothing, culprit, "calls all_reduce(count 0, ",
                                    "calls broadcast(count 0, ", alike});
    for (int round = 0; round < 20; round++)
        ranks_run(
            4, end_in_a_barrier,
            &(silent){from_root_or_to_it, 1 + round % 3, "calls scatter(", "calls gather(", 0});
}

/* A group's order is its own. */
static void differ_elsewhere(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm), *half = NULL;
    int32_t x = 0;
    (void)context;
    expect_ok(psring_group_split(world, rank / 2, 0, NULL, &half));
    for (int i = 0; i < rank / 2; i++)
        expect_ok(psring_all_reduce(half, &x, &x, 1, PSRING_INT32, PSRING_SUM, NULL, NULL));
    expect_ok(psring_barrier(half, NULL, NULL));
    expect_ok(psring_barrier(world, NULL, NULL));
}

static void calls_of_other_groups_do_not_count(void **state)
{
    (void)state;
    ranks_run(4, differ_elsewhere, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_barrier_ends_where_calls_before_it_differed),
        cmocka_unit_test(calls_of_other_groups_do_not_count),
        cmocka_unit_test(calls_that_differ_are_told_to_all_with_both_ranks_and_both_calls),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
