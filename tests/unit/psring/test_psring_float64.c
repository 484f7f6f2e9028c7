/* Tables of float64 against a scalar reference, with one shard and with two: nothing is rounded to
 * float32 on any way. Ranks are threads. */
#include "tests/unit/psring/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { DEADLINE_MS = 20000, WORKERS = 3, PARTS = 4, VALUES = 70001 + 1 + 5000 + 2, STEPS = 3 };

static const size_t parts[PARTS] = {70001, 1, 5000, 2}; /* one in several slices */

/* With a momentum. It sees each run whole. */
static psring_err apply(void *context, const psring_update_run *run)
{
    (void)context;
    expect(run->type == PSRING_FLOAT64 && run->values == NULL && run->pushed == NULL &&
           run->states == NULL && run->offset + run->count <= parts[run->part]);
    for (size_t i = 0; i < run->count; i++) {
        run->states64[0][i] = 0.5 * run->states64[0][i] + run->pushed64[i];
        run->values64[i] -= 0.1 * run->states64[0][i];
    }
    return PSRING_OK;
}

static psring_err apply_floats(void *context, const psring_update_run *run)
{
    (void)context;
    expect(run->type == PSRING_FLOAT32 && run->values64 == NULL);
    memcpy(run->values, run->pushed, run->count * sizeof *run->values);
    return PSRING_OK;
}

static void serve(psring_comm *comm)
{
    expect_ok(psring_update_define(
        comm, "momentum",
        PSRING_WITH(psring_update, .states = 1, .apply = apply, .float64 = true)));
    expect_ok(
        psring_update_define(comm, "floats", PSRING_WITH(psring_update, .apply = apply_floats)));
    expect_ok(psring_serve(comm));
}

/* No float32 has these digits, and a sum of three depends on its order. */
static double pushed_by(int rank, int step, size_t i)
{
    const double x = (double)((i * 7 + (size_t)rank * 13 + (size_t)step * 5) % 101) + 1.0 / 3;
    return rank == 1 ? x * 1e-9 : x;
}

typedef struct way {
    const char *update;
    psring_op fold;
} way;

static bool has_momentum(const way *w)
{
    return strcmp(w->update, "momentum") == 0;
}

/* The sum of a part of L values in the order of base/arrays/fold.h. */
static void step_of_reference(const way *w, int step, double *values, double *state)
{
    for (size_t p = 0, at = 0; p < PARTS; at += parts[p++])
        for (size_t c = 0; c < WORKERS; c++)
            for (size_t k = at + c * parts[p] / WORKERS; k < at + (c + 1) * parts[p] / WORKERS;
                 k++) {
                double s = pushed_by((int)((c + 1) % WORKERS), step, k);
                for (size_t r = 2; r <= WORKERS; r++)
                    s += pushed_by((int)((c + r) % WORKERS), step, k);
                if (w->fold == PSRING_MEAN)
                    s /= WORKERS;
                if (!has_momentum(w)) {
                    values[k] += s;
                    continue;
                }
                state[k] = 0.5 * state[k] + s;
                values[k] -= 0.1 * state[k];
            }
}

static psring_table *open_table(psring_comm *comm, const psring_table_options *options)
{
    psring_table *table = NULL;
    psring_table_options o = *options;
    o.size = sizeof o;
    o.type = PSRING_FLOAT64;
    o.parts = parts;
    o.part_count = PARTS;
    expect_ok(psring_table_open(psring_world(comm), "weights", &o, NULL, &table));
    return table;
}

static void save_and_go_on(psring_table *table, const way *w, double *values, double *state)
{
    double *held = malloc(VALUES * sizeof *held);
    expect_ok(psring_table_read(table, 0, PSRING_ALL, held, VALUES, NULL));
    expect(memcmp(held, values, VALUES * sizeof *held) == 0);
    if (has_momentum(w)) {
        expect_ok(psring_table_read(table, 1, PSRING_ALL, held, VALUES, NULL));
        expect(memcmp(held, state, VALUES * sizeof *held) == 0);
        for (size_t i = 0; i < VALUES; i++)
            state[i] = held[i] = 0.7 * (double)i;
        expect_ok(psring_table_write(table, 1, PSRING_ALL, held, VALUES, NULL));
    }
    for (size_t i = 0; i < parts[2]; i++)
        values[parts[0] + 1 + i] = 1.0 / (double)(i + 3);
    expect_ok(psring_table_write(table, 0, 2, values + parts[0] + 1, parts[2], NULL));
    free(held);
}

static void train(psring_comm **comm, int rank, void *context)
{
    const way *w = context;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    double *x = malloc(VALUES * sizeof *x), *values = malloc(VALUES * sizeof *values),
           *state = calloc(VALUES, sizeof *state), *pulled = malloc(VALUES * sizeof *pulled);
    expect(x != NULL && values != NULL && state != NULL && pulled != NULL);
    for (size_t i = 0; i < VALUES; i++)
        values[i] = 1 + (double)i * 1e-12;
    psring_table *table = open_table(
        *comm, &(psring_table_options){.update = w->update, .fold = w->fold, .initial = values});
    expect_ok(psring_pull(table, PSRING_ALL, pulled, NULL, NULL));
    expect(memcmp(pulled, values, VALUES * sizeof *values) == 0);
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < VALUES; i++)
            x[i] = pushed_by(rank, step, i);
        psring_request *request = NULL;
        expect_ok(psring_push_pull(table, PSRING_ALL, x, x, NULL, step == 1 ? &request : NULL));
        if (request != NULL)
            expect_ok(psring_wait(request, PSRING_FOREVER));
        psring_request_free(&request);
        step_of_reference(w, step, values, state);
        expect(memcmp(x, values, VALUES * sizeof *values) == 0);
        if (step == 0)
            save_and_go_on(table, w, values, state);
    }
    expect_ok(psring_pull(table, 2, pulled, NULL, NULL));
    expect(memcmp(pulled, values + parts[0] + 1, parts[2] * sizeof *pulled) == 0);
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(values);
    free(state);
    free(pulled);
}

static void doubles_are_summed_and_updated_as_doubles(void **state)
{
    (void)state;
    way ways[] = {{"sum", PSRING_SUM},
                  {"sum", PSRING_MEAN},
                  {"momentum", PSRING_SUM},
                  {"momentum", PSRING_MEAN}};
    for (int shards = 1; shards <= 2; shards++)
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
            ranks_run_sharded(WORKERS + shards, shards, DEADLINE_MS, train, &ways[i]);
}

/* One worker pushes, so the order is one. */
static void push_alone(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    double *x = malloc(VALUES * sizeof *x), *pulled = malloc(VALUES * sizeof *pulled);
    for (size_t i = 0; i < VALUES; i++)
        x[i] = pushed_by(0, 0, i);
    psring_table *table = open_table(*comm, &(psring_table_options){.sync = "async"});
    for (int i = 0; i < 2 && rank == 0; i++)
        expect_ok(psring_push(table, PSRING_ALL, x, NULL, NULL));
    expect_ok(psring_table_read(table, 0, PSRING_ALL, pulled, VALUES, NULL));
    for (size_t i = 0; i < VALUES; i++)
        expect(pulled[i] == 2 * x[i]);
    expect_ok(psring_pull(table, PSRING_ALL, x, NULL, NULL));
    expect(memcmp(x, pulled, VALUES * sizeof *x) == 0);
    expect_ok(psring_table_close(&table, NULL));

    table = open_table(*comm, &(psring_table_options){.update = "assign", .sync = "ssp:1"});
    if (rank == 1)
        expect_ok(psring_push(table, 0, x, NULL, NULL));
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
    expect_ok(psring_table_read(table, 0, 0, pulled, parts[0], NULL));
    expect(memcmp(x, pulled, parts[0] * sizeof *x) == 0);
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(pulled);
}

static void doubles_are_pushed_alone(void **state)
{
    (void)state;
    ranks_run_sharded(4, 2, DEADLINE_MS, push_alone, NULL);
}

static void be_refused(psring_comm **comm, int rank, void *context)
{
    static double values[VALUES];
    (void)context;
    (void)rank;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    psring_table *table = NULL;
    psring_table_options o = {.size = sizeof o,
                              .parts = parts,
                              .part_count = PARTS,
                              .type = PSRING_FLOAT64,
                              .update = "floats"};
    expect_words(psring_table_open(psring_world(*comm), "t", &o, NULL, &table), PSRING_ERR_USAGE,
                 "update \"floats\" does not work in float64");
    o.type = PSRING_INT32;
    expect_words(psring_table_open(psring_world(*comm), "t", &o, NULL, &table),
                 PSRING_ERR_UNSUPPORTED, "float32, float64, float16 and bfloat16");
    table = open_table(*comm, &(psring_table_options){.update = "sum"});
    expect_words(psring_push(table, 0, (const char *)values + 4, NULL, NULL), PSRING_ERR_USAGE,
                 "not aligned for float64");
    expect_words(psring_table_read(table, 0, 2, values, 2 * parts[2], NULL), PSRING_ERR_USAGE,
                 "10000 values for part 2 of table \"weights\", which has 5000");
    expect_words(psring_table_read(table, 0, 2, (char *)values + 4, parts[2], NULL),
                 PSRING_ERR_USAGE, "not aligned for float64");
    expect_ok(psring_table_close(&table, NULL));
}

static void wrong_doubles_are_refused(void **state)
{
    (void)state;
    ranks_run_sharded(2, 1, DEADLINE_MS, be_refused, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_are_summed_and_updated_as_doubles),
        cmocka_unit_test(doubles_are_pushed_alone),
        cmocka_unit_test(wrong_doubles_are_refused),
    };
    return cmocka_run_group_tests_name("psring: float64 tables", tests, NULL, NULL);
}
