/* Tables whose pushes are sent in fewer bytes, against training's encoders: what a worker rounds
 * away it adds to its next push, so that all arrives. Ranks are threads. */
#include "comm/wire/compression/compression.h"
#include "tests/unit/psring/ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { DEADLINE_MS = 20000, WORKERS = 3, PARTS = 3, ROUNDS = 5, VALUES = 70001 + 1 + 4096 };

static const size_t parts[PARTS] = {70001, 1, 4096}; /* one in several slices */
static const char *const encodings[] = {"none", "fp16", "bf16", "int8", "topk:0.1", "1bit"};
enum { ENCODINGS = sizeof encodings / sizeof encodings[0] };

static psring_table *open_table(psring_comm *comm, const char *encoding, const char *sync,
                                const float *initial)
{
    psring_table *table = NULL;
    expect_ok(
        psring_table_open(psring_world(comm), "weights",
                          PSRING_WITH(psring_table_options, .parts = parts, .part_count = PARTS,
                                      .sync = sync, .encoding = encoding, .initial = initial),
                          NULL, &table));
    return table;
}

/* Of very different sizes, so that no encoding but none is exact. */
static float pushed_by(int rank, int round, size_t i)
{
    const size_t mixed = (i * 2654435761u + (size_t)rank * 40503u + (size_t)round * 9973u) % 8191;
    return ((float)mixed - 4095.0f) * (i % 3 == 0 ? 1e-3f : 1.0f / 64);
}

/* ---- the bits ---- */

/* What the shards decode of a worker's push. Each part is encoded as one. */
static void decoded(const char *encoding, int rank, int round, float *values, float *residual)
{
    psr_compression compression;
    for (size_t i = 0; i < VALUES; i++)
        values[i] = pushed_by(rank, round, i);
    expect(psr_compression_parse(encoding, &compression) == PSR_OK);
    for (size_t p = 0, at = 0; p < PARTS && !psr_compression_is_none(compression);
         at += parts[p++]) {
        psr_encoder *encoder = NULL;
        expect(psr_encoder_new(compression, parts[p], &encoder) == PSR_OK);
        float *owed = psr_compression_has_residual(compression) ? residual + at : NULL;
        expect(psr_encoder_round(encoder, values + at, owed, parts[p]) == PSR_OK);
        psr_encoder_free(&encoder);
    }
}

/* Adds the sum of all workers' values in the order of base/arrays/fold.h: chunk c of n begins with
 * rank c + 1. */
static void add_sum(float *sums, const float (*values)[VALUES], size_t workers)
{
    for (size_t p = 0, at = 0; p < PARTS; at += parts[p++])
        for (size_t c = 0; c < workers; c++)
            for (size_t i = at + c * parts[p] / workers; i < at + (c + 1) * parts[p] / workers;
                 i++) {
                float sum = values[(c + 1) % workers][i];
                for (size_t k = 2; k <= workers; k++)
                    sum += values[(c + k) % workers][i];
                sums[i] += sum;
            }
}

/* Saves the table, whose values and whose residual on this rank must be these, and goes on with
 * another one: the residual by parts or as a whole. */
static void open_again(psring_comm *comm, const char *encoding, const char *sync,
                       const float *values, const float *residual, psring_table **table)
{
    bool keeps = false;
    const bool by_parts = psring_rank(psring_world(comm)) != 1;
    float *owed = malloc(VALUES * sizeof *owed);
    expect(owed != NULL);
    expect_ok(psring_encoding_check(encoding, &keeps));
    for (size_t p = 0, at = 0; keeps && by_parts && p < PARTS; at += parts[p++])
        expect_ok(psring_table_residual_read(*table, p, owed + at, parts[p]));
    if (keeps && !by_parts)
        expect_ok(psring_table_residual_read(*table, PSRING_ALL, owed, VALUES));
    if (!keeps)
        expect_words(psring_table_residual_read(*table, PSRING_ALL, owed, VALUES),
                     PSRING_ERR_NOT_FOUND, "there is no residual");
    expect(!keeps || memcmp(owed, residual, VALUES * sizeof *owed) == 0);
    expect_ok(psring_table_close(table, NULL));
    *table = open_table(comm, encoding, sync, values);
    for (size_t p = 0, at = 0; keeps && by_parts && p < PARTS; at += parts[p++])
        expect_ok(psring_table_residual_write(*table, p, owed + at, parts[p]));
    if (keeps && !by_parts)
        expect_ok(psring_table_residual_write(*table, PSRING_ALL, owed, VALUES));
    free(owed);
}

static void push_in(psring_comm *comm, const char *encoding, const char *sync)
{
    psring_group *world = psring_world(comm);
    const int workers = psring_size(world), rank = psring_rank(world);
    float(*values)[VALUES] = calloc((size_t)workers, sizeof *values);
    float(*residuals)[VALUES] = calloc((size_t)workers, sizeof *residuals);
    float *x = malloc(VALUES * sizeof *x), *expected = calloc(VALUES, sizeof *expected);
    expect(values != NULL && residuals != NULL && x != NULL && expected != NULL);
    psring_table *table = open_table(comm, encoding, sync, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2 && strcmp(sync, "bsp") == 0)
            open_again(comm, encoding, sync, expected, residuals[rank], &table);
        for (int r = 0; r < workers; r++)
            decoded(encoding, r, round, values[r], residuals[r]);
        add_sum(expected, (const float(*)[VALUES])values, (size_t)workers);
        for (size_t i = 0; i < VALUES; i++)
            x[i] = pushed_by(rank, round, i);
        if (round % 2 == 0) {
            expect_ok(psring_push_pull(table, PSRING_ALL, x, x, NULL, NULL));
        } else {
            expect_ok(psring_push(table, PSRING_ALL, x, NULL, NULL));
            memset(x, 0xff, VALUES * sizeof *x); /* ended: they are ours again */
            expect_ok(psring_pull(table, PSRING_ALL, x, NULL, NULL));
        }
        expect(memcmp(x, expected, VALUES * sizeof *x) == 0);
    }
    expect_ok(psring_table_close(&table, NULL));
    free(values);
    free(residuals);
    free(x);
    free(expected);
}

static void push_in_each(psring_comm **comm, int rank, void *context)
{
    (void)rank;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    for (size_t e = 0; e < ENCODINGS; e++)
        push_in(*comm, encodings[e], context);
}

static void shards_fold_what_trainings_encoders_leave_of_each_push(void **state)
{
    (void)state;
    char bsp[] = "bsp", ssp[] = "ssp:1", async[] = "async";
    for (int shards = 1; shards <= 2; shards++)
        ranks_run_sharded(WORKERS + shards, shards, DEADLINE_MS, push_in_each, bsp);
    ranks_run_sharded(2, 1, DEADLINE_MS, push_in_each, ssp);
    ranks_run_sharded(3, 2, DEADLINE_MS, push_in_each, async);
}

/* ---- what is owed ---- */

/* Whole numbers, whose sums are exact, and then zeros, until nothing is owed any more. */
static void pay_back(psring_comm **comm, int rank, void *context)
{
    enum { ZEROS = 10 /* a tenth of the values each */ };
    (void)context;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    const int workers = psring_size(psring_world(*comm));
    float *x = malloc(VALUES * sizeof *x), *sums = calloc(VALUES, sizeof *sums);
    expect(x != NULL && sums != NULL);
    psring_table *table = open_table(*comm, "topk:0.1", NULL, NULL);
    for (int round = 0; round < ROUNDS + ZEROS; round++) {
        for (size_t i = 0; i < VALUES && round < ROUNDS; i++)
            for (int r = 0; r < workers; r++)
                sums[i] += (float)(i * 7 % 101 + (size_t)(13 * r + round));
        for (size_t i = 0; i < VALUES; i++)
            x[i] = round < ROUNDS ? (float)(i * 7 % 101 + (size_t)(13 * rank + round)) : 0.0f;
        expect_ok(psring_push_pull(table, PSRING_ALL, x, x, NULL, NULL));
        expect(round != ROUNDS - 1 || memcmp(x, sums, VALUES * sizeof *x) != 0); /* not all yet */
    }
    expect(memcmp(x, sums, VALUES * sizeof *x) == 0);
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(sums);
}

static void all_that_was_pushed_arrives(void **state)
{
    (void)state;
    ranks_run_sharded(WORKERS + 1, 1, DEADLINE_MS, pay_back, NULL);
}

/* ---- refusals ---- */

static psring_err open_with(psring_comm *comm, const char *encoding, psring_type type)
{
    psring_table *table = NULL;
    return psring_table_open(psring_world(comm), "weights",
                             PSRING_WITH(psring_table_options, .parts = parts, .part_count = PARTS,
                                         .type = type, .encoding = encoding),
                             NULL, &table);
}

static void ask_for_residuals(psring_table *table)
{
    static const char under_way[] = "a push or pull of table \"weights\" is under way";
    psring_request *push = NULL;
    float *x = calloc(VALUES, sizeof *x), owed[2] = {0, NAN};
    expect(x != NULL);
    expect_words(psring_table_residual_read(NULL, 1, owed, 1), PSRING_ERR_USAGE, "table is NULL");
    expect_words(psring_table_residual_read(table, PARTS, owed, 1), PSRING_ERR_USAGE,
                 "psring_table_residual_read: part 3 is none of 3");
    expect_words(psring_table_residual_write(table, 1, owed, 2), PSRING_ERR_USAGE,
                 "psring_table_residual_write: 2 values, where the residual has 1");
    expect_words(psring_table_residual_write(table, 1, NULL, 1), PSRING_ERR_USAGE,
                 "values are NULL");
    expect_words(psring_table_residual_write(table, 1, owed + 1, 1), PSRING_ERR_NUMERIC,
                 "value 0 is not finite");
    expect_ok(psring_push(table, PSRING_ALL, x, NULL, &push));
    expect_words(psring_table_residual_read(table, 1, owed, 1), PSRING_ERR_USAGE, under_way);
    expect_words(psring_table_residual_write(table, 1, owed, 1), PSRING_ERR_USAGE, under_way);
    expect_ok(psring_wait(push, PSRING_FOREVER));
    expect_ok(psring_table_residual_read(table, 1, owed, 1));
    psring_request_free(&push);
    free(x);
}

static void ask_for_others(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    expect_words(open_with(*comm, "fp8", 0), PSRING_ERR_USAGE, "encoding: 'fp8'");
    expect_words(open_with(*comm, "topk", 0), PSRING_ERR_USAGE, "encoding: 'topk'");
    expect_words(open_with(*comm, "int8", PSRING_FLOAT16), PSRING_ERR_USAGE,
                 "encoding is of tables of float32, not of float16");
    psring_table *table = open_table(*comm, "topk:0.5", "bsp", NULL); /* nothing was broken */
    ask_for_residuals(table);
    expect_ok(psring_table_close(&table, NULL));
    expect_words(open_with(*comm, rank == 0 ? "topk:0.5" : "topk:0.25", 0), PSRING_ERR_MISMATCH,
                 "bsp, topk:0.25");
    expect_ok(psring_close(comm));
}

static void an_encoding_that_cannot_be_is_refused(void **state)
{
    (void)state;
    ranks_run_sharded(3, 1, DEADLINE_MS, ask_for_others, NULL);
}

static void push_what_is_not_finite(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    float *x = calloc(VALUES, sizeof *x);
    psring_table *table = open_table(*comm, "int8", NULL, NULL);
    x[7] = rank == 1 ? NAN : 1.0f;
    const psring_err err = rank == 1 ? PSRING_ERR_NUMERIC : PSRING_ERR_PEER;
    expect_words(psring_push_pull(table, PSRING_ALL, x, x, NULL, NULL), err, "value 7 is nan");
    psring_failure failure = {.size = sizeof failure};
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.err == err && failure.rank == 1);
    free(x);
    expect_ok(psring_close(comm));
}

static void a_value_that_is_not_finite_names_its_rank_everywhere(void **state)
{
    (void)state;
    ranks_run_sharded(3, 1, DEADLINE_MS, push_what_is_not_finite, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_fold_what_trainings_encoders_leave_of_each_push),
        cmocka_unit_test(all_that_was_pushed_arrives),
        cmocka_unit_test(an_encoding_that_cannot_be_is_refused),
        cmocka_unit_test(a_value_that_is_not_finite_names_its_rank_everywhere),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
