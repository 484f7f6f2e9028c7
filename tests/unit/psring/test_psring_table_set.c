/* Tables whose update gets new arguments, means, and tables of 16-bit values, against a scalar
 * reference, with one shard and with two. Ranks are threads. */
#include "tests/unit/psring/ranks.h"

#include "comm/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { DEADLINE_MS = 20000, WORKERS = 3, PARTS = 3, VALUES = 70001 + 1 + 5000, STEPS = 6 };

static const size_t parts[PARTS] = {70001, 1, 5000}; /* one in several slices */

/* ---- an update with a rate ---- */

static psring_err check(void *context, const char *arguments, char *ret_line, size_t line_bytes)
{
    float rate = 0;
    char after = 0;
    (void)context;
    if (sscanf(arguments, "rate=%f%c", &rate, &after) == 1 && rate > 0)
        return PSRING_OK;
    snprintf(ret_line, line_bytes, "it takes a rate above 0");
    return PSRING_ERR_USAGE;
}

/* With a momentum, so that an update by a wrong rate stays visible. */
static psring_err apply(void *context, const psring_update_run *run)
{
    float rate = 0;
    (void)context;
    expect(sscanf(run->arguments, "rate=%f", &rate) == 1);
    for (size_t i = 0; i < run->count; i++) {
        run->states[0][i] = 0.5f * run->states[0][i] + run->pushed[i];
        run->values[i] -= rate * run->states[0][i];
    }
    return PSRING_OK;
}

static void serve(psring_comm *comm)
{
    expect_ok(psring_update_define(
        comm, "rated", PSRING_WITH(psring_update, .states = 1, .check = check, .apply = apply)));
    expect_ok(psring_serve(comm));
}

static float pushed_by(int rank, int step, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + (size_t)step * 5) % 101) * (rank == 1 ? 1e-3f : 1);
}

/* The sum of a part of L values in the order of base/arrays/fold.h: chunk c of n is folded in the
 * order c + 1, .., n - 1, 0, .., c. */
static void sum_part(int step, size_t first, size_t length, float *sum)
{
    for (size_t c = 0; c < WORKERS; c++)
        for (size_t k = c * length / WORKERS; k < (c + 1) * length / WORKERS; k++) {
            float s = pushed_by((int)((c + 1) % WORKERS), step, first + k);
            for (size_t r = 2; r <= WORKERS; r++)
                s += pushed_by((int)((c + r) % WORKERS), step, first + k);
            sum[first + k] = s;
        }
}

static float rate_of(int step)
{
    return step < 2 ? 0.5f : step < 4 ? 0.25f : 0.125f;
}

static float *reference(bool mean)
{
    float *values = calloc(VALUES, sizeof *values), *state = calloc(VALUES, sizeof *state),
          *sum = calloc(VALUES, sizeof *sum);
    expect(values != NULL && state != NULL && sum != NULL);
    for (int step = 0; step < STEPS; step++) {
        size_t at = 0;
        for (size_t p = 0; p < PARTS; at += parts[p++])
            sum_part(step, at, parts[p], sum);
        for (size_t i = 0; i < VALUES; i++) {
            state[i] = 0.5f * state[i] + (mean ? sum[i] / WORKERS : sum[i]);
            values[i] -= rate_of(step) * state[i];
        }
    }
    free(state);
    free(sum);
    return values;
}

typedef struct schedule {
    bool ahead; /* all of it is set before the first push; otherwise each rate when it begins */
    bool mean;
    const float *expected;
} schedule;

static void set_rate(psring_table *table, int step, uint64_t from)
{
    char arguments[32];
    snprintf(arguments, sizeof arguments, "rate=%.4f", (double)rate_of(step));
    expect_ok(psring_table_set(table, arguments, from, NULL));
}

static psring_table *open_table(psring_comm *comm, const psring_table_options *options)
{
    psring_table *table = NULL;
    psring_table_options o = *options;
    o.size = sizeof o;
    o.parts = parts;
    o.part_count = PARTS;
    expect_ok(psring_table_open(psring_world(comm), "weights", &o, NULL, &table));
    return table;
}

static void train(psring_comm **comm, int rank, void *context)
{
    const schedule *s = context;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    float *x = malloc(VALUES * sizeof *x), *values = malloc(VALUES * sizeof *values);
    psring_table *table =
        open_table(*comm, &(psring_table_options){.update = "rated rate=0.5",
                                                  .fold = s->mean ? PSRING_MEAN : PSRING_SUM});
    if (s->ahead) {
        set_rate(table, 2, 3);
        set_rate(table, 4, 5);
    }
    for (int step = 0; step < STEPS; step++) {
        if (!s->ahead && (step == 2 || step == 4))
            set_rate(table, step, step == 2 ? 0 : (uint64_t)step + 1);
        for (size_t i = 0; i < VALUES; i++)
            x[i] = pushed_by(rank, step, i);
        expect_ok(psring_push(table, PSRING_ALL, x, NULL, NULL));
    }
    expect_ok(psring_pull(table, PSRING_ALL, values, NULL, NULL));
    expect(memcmp(values, s->expected, VALUES * sizeof *values) == 0);
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(values);
}

static void rates_change_alike_on_all_shards(void **state)
{
    (void)state;
    for (int mean = 0; mean < 2; mean++) {
        float *expected = reference(mean);
        for (int shards = 1; shards <= 2; shards++)
            for (int ahead = 0; ahead < 2; ahead++)
                ranks_run_sharded(WORKERS + shards, shards, DEADLINE_MS, train,
                                  &(schedule){ahead, mean, expected});
        free(expected);
    }
}

/* ---- what is refused ---- */

static void be_refused(psring_comm **comm, int rank, void *context)
{
    float one[VALUES] = {1}, values[VALUES];
    (void)context;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    psring_table *table = open_table(*comm, &(psring_table_options){.update = "rated rate=1"});
    expect_words(psring_table_set(table, "rate=-1", 0, NULL), PSRING_ERR_USAGE, "a rate above 0");
    expect_words(psring_table_set(table, NULL, 0, NULL), PSRING_ERR_USAGE, "at most 511 bytes");
    expect_words(psring_table_set(NULL, "rate=1", 0, NULL), PSRING_ERR_USAGE, "NULL");
    expect_words(psring_table_set(table, "rate=1", 0, PSRING_CALL(.buffered = true)),
                 PSRING_ERR_USAGE, "a deadline and a name");
    expect_ok(psring_push(table, PSRING_ALL, one, NULL, NULL));
    expect_words(psring_table_set(table, "rate=2", 1, NULL), PSRING_ERR_USAGE, "begun update 1");
    psring_request *request = NULL;
    expect_ok(psring_push(table, 1, one, NULL, &request));
    expect_words(psring_table_set(table, "rate=2", 0, NULL), PSRING_ERR_USAGE, "under way");
    expect_ok(psring_wait(request, PSRING_FOREVER));
    psring_request_free(&request);
    expect_ok(psring_pull(table, PSRING_ALL, values, NULL, NULL));
    expect(values[0] == -(float)psring_size(psring_world(*comm))); /* by the first rate */
    expect_ok(psring_table_close(&table, NULL));

    table = open_table(*comm, &(psring_table_options){.update = "rated rate=1", .sync = "async"});
    expect_words(psring_table_set(table, "rate=2", 9, NULL), PSRING_ERR_USAGE, "outside of bsp");
    expect_ok(psring_push(table, 1, one, NULL, NULL));
    expect_ok(psring_table_set(table, "rate=2", 0, NULL));
    expect_ok(psring_push(table, 1, one, NULL, NULL));
    expect_ok(psring_table_close(&table, NULL));

    psring_table_options o = {.size = sizeof o,
                              .parts = parts,
                              .part_count = PARTS,
                              .sync = "async",
                              .fold = PSRING_MEAN};
    expect_words(psring_table_open(psring_world(*comm), "t", &o, NULL, &table), PSRING_ERR_USAGE,
                 "only in bsp");
    o.fold = PSRING_MAXIMUM;
    expect_words(psring_table_open(psring_world(*comm), "t", &o, NULL, &table), PSRING_ERR_USAGE,
                 "PSRING_SUM or PSRING_MEAN");

    psring_group *group = NULL;
    o = (psring_table_options){.size = sizeof o, .parts = parts, .part_count = PARTS};
    expect_ok(psring_group_split(psring_world(*comm), 0, rank, NULL, &group));
    expect_ok(psring_table_open(group, "plain", &o, NULL, &table));
    expect_words(psring_table_set(table, "rate=1", 0, NULL), PSRING_ERR_USAGE, "no arguments");
    expect_words(psring_table_set(table, rank == 0 ? "a" : "b", 7, NULL), PSRING_ERR_MISMATCH,
                 "rank 0 sets \"a\" of table \"plain\" from update 7 on, rank 1 sets \"b\"");
    expect(psring_table_close(&table, NULL) != PSRING_OK);
    psring_group_free(&group);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 2; shards++)
        ranks_run_sharded(2 + shards, shards, DEADLINE_MS, be_refused, NULL);
}

/* ---- 16 bits ---- */

static uint16_t of_float(psring_type type, float value)
{
    uint16_t bits = 0;
    if (type == PSRING_FLOAT16)
        psr_float16_of_floats(&bits, &value, 1);
    else
        bits = psr_bfloat16_of_float(value);
    return bits;
}

static float to_float(psring_type type, uint16_t bits)
{
    return type == PSRING_FLOAT16 ? psr_float16_to_float(bits) : psr_bfloat16_to_float(bits);
}

static uint16_t half_by(psring_type type, int rank, int step, size_t i)
{
    return of_float(type, pushed_by(rank, step, i) / 64);
}

/* "sum" of three steps: folded and added in float32 on the shards, in the order of the reference,
 * and rounded when it is pulled. */
static void push_halves(psring_comm **comm, int rank, void *context)
{
    const psring_type type = *(const psring_type *)context;
    enum { TIMES = 3 };
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    uint16_t *x = malloc(VALUES * sizeof *x), *values = malloc(VALUES * sizeof *values),
             *initial = malloc(VALUES * sizeof *initial);
    float *exact = malloc(VALUES * sizeof *exact), *held = malloc(VALUES * sizeof *held);
    bool any_rounded = false;
    for (size_t i = 0; i < VALUES; i++) {
        initial[i] = of_float(type, (float)(i % 13));
        exact[i] = to_float(type, initial[i]);
    }
    psring_table *table =
        open_table(*comm, &(psring_table_options){.type = type, .initial = initial});
    expect_ok(psring_pull(table, PSRING_ALL, values, NULL, NULL));
    expect(memcmp(values, initial, VALUES * sizeof *values) == 0);
    for (int step = 0; step < TIMES; step++) {
        for (size_t i = 0; i < VALUES; i++)
            x[i] = half_by(type, rank, step, i);
        psring_request *request = NULL;
        expect_ok(psring_push_pull(table, PSRING_ALL, x, x, NULL, step == 1 ? &request : NULL));
        if (request != NULL)
            expect_ok(psring_wait(request, PSRING_FOREVER));
        psring_request_free(&request);
        for (size_t p = 0, at = 0; p < PARTS; at += parts[p++])
            for (size_t c = 0; c < WORKERS; c++)
                for (size_t k = c * parts[p] / WORKERS; k < (c + 1) * parts[p] / WORKERS; k++) {
                    float sum = 0;
                    for (size_t r = 1; r <= WORKERS; r++)
                        sum +=
                            to_float(type, half_by(type, (int)((c + r) % WORKERS), step, at + k));
                    exact[at + k] += sum;
                }
        for (size_t i = 0; i < VALUES; i++) {
            expect(x[i] == of_float(type, exact[i]));
            any_rounded = any_rounded || to_float(type, x[i]) != exact[i];
        }
    }
    expect(any_rounded); /* rounding at each step would end elsewhere */
    expect_ok(psring_pull(table, 2, values, NULL, NULL));
    expect(memcmp(values, x + parts[0] + parts[1], parts[2] * sizeof *values) == 0);
    expect_ok(psring_table_read(table, 0, PSRING_ALL, held, VALUES, NULL));
    expect(memcmp(held, exact, VALUES * sizeof *held) == 0);
    expect_ok(psring_table_write(table, 0, PSRING_ALL, exact, VALUES, NULL));
    expect_ok(psring_pull(table, PSRING_ALL, values, NULL, NULL));
    expect(memcmp(values, x, VALUES * sizeof *values) == 0);
    expect_words(psring_push(table, 0, (const char *)x + 1, NULL, NULL), PSRING_ERR_USAGE,
                 "not aligned for 16-bit values");
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(values);
    free(initial);
    free(exact);
    free(held);
}

static void halves_are_summed_in_float32(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 2; shards++) {
        psring_type types[] = {PSRING_FLOAT16, PSRING_BFLOAT16};
        for (int t = 0; t < 2; t++)
            ranks_run_sharded(WORKERS + shards, shards, DEADLINE_MS, push_halves, &types[t]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_change_alike_on_all_shards),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(halves_are_summed_in_float32),
    };
    return cmocka_run_group_tests_name("psring: new arguments, means, 16 bits", tests, NULL, NULL);
}
