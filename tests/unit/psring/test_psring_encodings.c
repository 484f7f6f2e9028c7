/* All-reduces in fewer bytes, and structs of other versions of the library, as a program sees them.
 * Ranks are threads. */
#include "tests/unit/psring/ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { COUNT = 20011, STARTS = 4 };

static float own(int rank, int start, size_t i)
{
    const size_t mixed = (i * 2654435761u + (size_t)rank * 40503u + (size_t)start * 9973u) % 8191;
    return ((float)mixed - 4095.0f) * (i % 3 == 0 ? 1e-3f : 1.0f / 64);
}

/* ---- fp16 and bf16 ---- */

/* To so many significant bits; exponents below the least are those of subnormal numbers. */
static float rounded(float x, int bits, int least)
{
    int exponent;
    (void)frexpf(x, &exponent);
    if (exponent < least)
        exponent = least;
    return ldexpf(nearbyintf(ldexpf(x, bits - exponent)), exponent - bits);
}

/* docs/algorithms.md's order and roundings, which are training's too: chunk c begins on rank c + 1,
 * and each rank rounds what it sends on; rank c rounds the whole sum, or the mean. */
static float expected_of(int ranks, int start, size_t i, bool is_half, psring_op op)
{
    size_t chunk = 0;
    while ((chunk + 1) * COUNT / (size_t)ranks <= i)
        chunk++;
    float sum = 0;
    for (int k = 1; k <= ranks; k++) {
        const float x = own((int)((chunk + (size_t)k) % (size_t)ranks), start, i);
        sum = k == 1 ? x : sum + x;
        if (k == ranks && op == PSRING_MEAN)
            sum /= (float)ranks;
        sum = is_half ? rounded(sum, 11, -13) : rounded(sum, 8, -125);
    }
    return sum;
}

static void round_at_each_hop(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    const int ranks = psring_size(world);
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    (void)context;
    for (int way = 0; way < 4; way++) {
        const bool is_half = way % 2 == 0;
        const psring_op op = way < 2 ? PSRING_SUM : PSRING_MEAN;
        const psring_call call = {.size = sizeof call, .encoding = is_half ? "fp16" : "bf16"};
        for (size_t i = 0; i < COUNT; i++)
            x[i] = own(rank, way, i);
        expect_ok(psring_all_reduce(world, x, y, COUNT, PSRING_FLOAT32, op, &call, NULL));
        for (size_t i = 0; i < COUNT; i++) {
            const float expected = expected_of(ranks, way, i, is_half, op);
            expect(memcmp(&y[i], &expected, sizeof expected) == 0 || y[i] == expected);
        }
    }
    free(x);
    free(y);
}

static void sums_in_16_bits_are_rounded_at_each_hop_as_training_does(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        ranks_run(ranks, round_at_each_hop, NULL);
}

/* ---- encodings with a residual ---- */

/* Is it on all ranks what it is on rank 0? */
static bool is_same(psring_group *world, const float *values)
{
    const int ranks = psring_size(world);
    float *all = malloc((size_t)ranks * COUNT * sizeof *all);
    bool same = true;
    expect_ok(psring_all_gather(world, values, all, COUNT, PSRING_FLOAT32, NULL, NULL));
    for (int r = 1; r < ranks; r++)
        same = same && memcmp(all + (size_t)r * COUNT, all, COUNT * sizeof *all) == 0;
    free(all);
    return same;
}

static void owe(psring_comm **comm, int rank, void *context)
{
    static const char *const encodings[] = {"int8", "topk:0.1", "topk:1", "1bit", "fp16", "none"};
    psring_group *world = psring_world(*comm);
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    float(*first)[COUNT] = context; /* rank 0's, of the run before */
    for (size_t e = 0; e < sizeof encodings / sizeof encodings[0]; e++) {
        double sent = 0, exact = 0;
        psring_request *request = NULL;
        expect_ok(psring_all_reduce(
            world, x, y, COUNT, PSRING_FLOAT32, PSRING_SUM,
            PSRING_CALL(.encoding = encodings[e], .persistent = true, .priority = (int32_t)e),
            &request));
        for (int start = 0; start < STARTS; start++) {
            for (size_t i = 0; i < COUNT; i++) {
                x[i] = own(rank, start, i);
                for (int r = 0; r < psring_size(world); r++)
                    exact += i % 3 != 0 ? fabsf(own(r, start, i)) : 0;
            }
            expect_ok(psring_start(request));
            expect_ok(psring_wait(request, PSRING_FOREVER));
            expect(strcmp(psring_algorithm(request), "ring") == 0);
            expect(is_same(world, y));
            for (size_t i = 0; i < COUNT; i++)
                sent += fabsf(y[i]);
        }
        expect(sent > 0 && sent < 4 * exact);
        if (rank == 0 && first[e][0] != 0)
            expect(memcmp(first[e], y, COUNT * sizeof *y) == 0); /* the same in every run */
        if (rank == 0)
            memcpy(first[e], y, COUNT * sizeof *y);
        psring_request_free(&request);
    }
    y[7] += rank == 1; /* the control */
    expect(!is_same(world, y));
    free(x);
    free(y);
}

static void encodings_with_a_residual_have_the_same_bits_on_all_ranks_and_in_every_run(void **state)
{
    (void)state;
    void *first = calloc(6, COUNT * sizeof(float));
    for (int run = 0; run < 2; run++)
        ranks_run(3, owe, first);
    free(first);
}

/* ---- residuals that are saved ---- */

static psring_request *make(psring_group *world, const char *encoding, const float *x, float *y)
{
    psring_request *request = NULL;
    expect_ok(psring_all_reduce(world, x, y, COUNT, PSRING_FLOAT32, PSRING_SUM,
                                PSRING_CALL(.encoding = encoding, .persistent = true), &request));
    return request;
}

typedef enum after_break { GOES_ON, SAVES, FORGETS } after_break;

/* The sum of the last start. In the middle the request is freed, and another one goes on with what
 * this rank owed, or owes nothing. */
static void reduce_with_break(psring_group *world, const char *encoding, after_break how, float *y)
{
    const int rank = psring_rank(world);
    float *x = malloc(COUNT * sizeof *x), *owed = malloc(COUNT * sizeof *owed);
    psring_request *request = make(world, encoding, x, y);
    expect_ok(psring_residual_read(request, owed, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        expect(owed[i] == 0);
    for (int start = 0; start < STARTS; start++) {
        if (start == STARTS / 2 && how != GOES_ON) {
            expect_ok(psring_residual_read(request, owed, COUNT));
            psring_request_free(&request);
            request = make(world, encoding, x, y);
            if (how == SAVES)
                expect_ok(psring_residual_write(request, owed, COUNT));
        }
        for (size_t i = 0; i < COUNT; i++)
            x[i] = own(rank, start, i);
        expect_ok(psring_start(request));
        expect_ok(psring_wait(request, PSRING_FOREVER));
    }
    psring_request_free(&request);
    free(x);
    free(owed);
}

static void save_what_is_owed(psring_comm **comm, int rank, void *context)
{
    static const char *const encodings[] = {"int8", "topk:0.1", "1bit"};
    psring_group *world = psring_world(*comm);
    float(*y)[COUNT] = malloc(3 * sizeof *y);
    (void)rank;
    (void)context;
    for (size_t e = 0; e < sizeof encodings / sizeof encodings[0]; e++) {
        for (after_break how = GOES_ON; how <= FORGETS; how++)
            reduce_with_break(world, encodings[e], how, y[how]);
        expect(memcmp(y[SAVES], y[GOES_ON], sizeof y[0]) == 0);
        expect(memcmp(y[FORGETS], y[GOES_ON], sizeof y[0]) != 0);
    }
    free(y);
}

static void what_a_rank_owes_is_read_and_written_and_the_sums_go_on_with_the_same_bits(void **state)
{
    (void)state;
    ranks_run(3, save_what_is_owed, NULL);
    ranks_run(1, save_what_is_owed, NULL);
}

static void ask_for_what_is_not_owed(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    psring_request *request = NULL, *other = NULL;
    float x[4] = {1, 2, 3, 4}, owed[4] = {0}, told = 0;
    const float bad[4] = {0, 0, INFINITY, 0};
    (void)context;
    expect_ok(psring_all_reduce(world, x, x, 4, PSRING_FLOAT32, PSRING_SUM,
                                PSRING_CALL(.encoding = "int8", .persistent = true), &request));
    expect_ok(psring_all_reduce(world, x, x, 4, PSRING_FLOAT32, PSRING_SUM,
                                PSRING_CALL(.encoding = "fp16", .persistent = true), &other));
    expect_words(psring_residual_read(other, owed, 4), PSRING_ERR_NOT_FOUND,
                 "psring_residual_read: there is no residual");
    expect_words(psring_residual_write(other, owed, 4), PSRING_ERR_NOT_FOUND, "no residual");
    expect_words(psring_residual_read(NULL, owed, 4), PSRING_ERR_USAGE, "request is NULL");
    expect_words(psring_residual_read(request, NULL, 4), PSRING_ERR_USAGE, "values are NULL");
    expect_words(psring_residual_write(request, NULL, 4), PSRING_ERR_USAGE, "values are NULL");
    expect_words(psring_residual_read(request, owed, 3), PSRING_ERR_USAGE,
                 "3 values, where the residual has 4");
    expect_words(psring_residual_write(request, bad, 4), PSRING_ERR_NUMERIC,
                 "value 2 is not finite");
    if (rank == 0) { /* the other one starts it after this */
        expect_ok(psring_start(request));
        expect_words(psring_residual_read(request, owed, 4), PSRING_ERR_BUSY, "is under way");
        expect_words(psring_residual_write(request, owed, 4), PSRING_ERR_BUSY, "is under way");
        expect_ok(psring_send(world, &told, 1, PSRING_FLOAT32, 1, 0, NULL, NULL));
    } else {
        expect_ok(psring_receive(world, &told, 1, PSRING_FLOAT32, 0, 0, NULL, NULL));
        expect_ok(psring_start(request));
    }
    expect_ok(psring_wait(request, PSRING_FOREVER));
    expect_ok(psring_residual_read(request, owed, 4));
    psring_request_free(&request);
    psring_request_free(&other);
}

static void a_residual_that_is_not_there_or_in_use_is_refused(void **state)
{
    (void)state;
    ranks_run(2, ask_for_what_is_not_owed, NULL);
}

static void encodings_are_checked_by_themselves(void **state)
{
    bool keeps = true;
    (void)state;
    expect_ok(psring_encoding_check("bf16", &keeps));
    expect(!keeps);
    expect_ok(psring_encoding_check("topk:0.5", &keeps));
    expect(keeps);
    expect_ok(psring_encoding_check("none", NULL));
    expect_words(psring_encoding_check("fp8", &keeps), PSRING_ERR_USAGE,
                 "encoding: 'fp8' is no compression; give none, fp16, bf16, int8, topk:R");
    expect(keeps); /* untouched */
    expect_words(psring_encoding_check(NULL, &keeps), PSRING_ERR_USAGE, "encoding is NULL");
}

static psring_err encoded(psring_comm *comm, const char *encoding)
{
    float x[4] = {0};
    return psring_all_reduce(psring_world(comm), x, x, 4, PSRING_FLOAT32, PSRING_SUM,
                             PSRING_CALL(.encoding = encoding), NULL);
}

static void ask_for_others(psring_comm **comm, int rank, void *context)
{
    static const char *const unknown[] = {"fp8",      "FP16",   "topk", "topk:0",
                                          "topk:1.5", "topk:x", ""};
    float x[4] = {0};
    (void)rank, (void)context;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        expect_words(encoded(*comm, unknown[i]), PSRING_ERR_USAGE, "all_reduce: encoding");
        expect(strstr(psring_err_detail(), unknown[i]) != NULL);
    }
    expect_words(encoded(*comm, "int8"), PSRING_ERR_USAGE, "encoding int8 keeps a residual");
    expect_words(psring_broadcast(psring_world(*comm), x, 4, PSRING_FLOAT32, 0,
                                  PSRING_CALL(.encoding = "fp16"), NULL),
                 PSRING_ERR_USAGE, "encoding fp16 is of all_reduce alone");
    expect_ok(encoded(*comm, "none")); /* nothing was broken */
}

static void an_unknown_encoding_is_refused_by_its_name(void **state)
{
    (void)state;
    ranks_run(2, ask_for_others, NULL);
}

/* ---- structs of other versions ---- */

/* What a newer program has behind the fields of today. */
#define NEWER(type)                                                                                \
    struct {                                                                                       \
        type known;                                                                                \
        uint64_t more[2];                                                                          \
    }

/* Fails as it should with a value in the unknown part, and then is as it is without. */
#define EXPECT_NEWER(newer, call)                                                                  \
    do {                                                                                           \
        (newer).known.size = sizeof(newer);                                                        \
        (newer).more[1] = 1;                                                                       \
        expect_words(call, PSRING_ERR_USAGE, "does not know");                                     \
        (newer).more[1] = 0;                                                                       \
        expect_ok(call);                                                                           \
    } while (0)

static void no_fold(void *context, void *out, const void *a, const void *b, size_t count,
                    psring_type type)
{
    (void)context, (void)out, (void)a, (void)b, (void)count, (void)type;
}

static psring_err no_update(void *context, const psring_update_run *run)
{
    (void)context;
    return run->size == sizeof *run ? PSRING_OK : PSRING_ERR_USAGE;
}

static psring_err halo_of(psring_group *world, psring_halo *halo)
{
    float in = 1, out = 0;
    for (int d = 0; d < 8; d++)
        halo->send_ranks[d] = halo->receive_ranks[d] = PSRING_NO_RANK;
    for (int d = 0; d < 4; d++)
        halo->shape[d] = 1;
    return psring_halo_exchange(world, halo, &in, &out, PSRING_FLOAT32, NULL, NULL);
}

static psring_err open_and_close(psring_comm *comm, const psring_table_options *options)
{
    psring_table *table = NULL;
    psring_err err = psring_table_open(psring_world(comm), "t", options, NULL, &table);
    return err == PSRING_OK ? psring_table_close(&table, NULL) : err;
}

static psring_err define(psring_comm *comm, const void *update, const char *name)
{
    return psring_update_define(comm, name, update);
}

static void be_of_other_versions(psring_comm **comm, int rank, void *context)
{
    (void)rank, (void)context;
    if (psring_is_shard(*comm)) {
        NEWER(psring_update) update = {.known = {.apply = no_update}};
        EXPECT_NEWER(update, define(*comm, &update, "newer"));
        update.known.size = offsetof(psring_update, apply);
        expect(define(*comm, &update, "older") == PSRING_ERR_USAGE); /* no release was smaller */
        expect_ok(psring_serve(*comm));
        return;
    }
    psring_group *world = psring_world(*comm);
    float x = 1;

    /* psring_call: fields that the caller's version has not are as if they were zero. */
    NEWER(psring_call) call = {.known = {.name = "newer"}};
    EXPECT_NEWER(
        call, psring_all_reduce(world, &x, &x, 1, PSRING_FLOAT32, PSRING_SUM, &call.known, NULL));
    psring_call older;
    memset(&older, 0xff, sizeof older);
    memset(&older, 0, offsetof(psring_call, message));
    older.size = offsetof(psring_call, message);
    expect_ok(psring_all_reduce(world, &x, &x, 1, PSRING_FLOAT32, PSRING_SUM, &older, NULL));
    older.size = offsetof(psring_call, encoding);
    older.message = NULL;
    older.buffered = false;
    expect_ok(psring_all_reduce(world, &x, &x, 1, PSRING_FLOAT32, PSRING_SUM, &older, NULL));
    older.size = offsetof(psring_call, message) - 1;
    expect(psring_barrier(world, &older, NULL) == PSRING_ERR_USAGE);

    psring_table_options first = {.parts = (const size_t[]){3}, .part_count = 1, .updates = 1};
    NEWER(psring_table_options) options = {.known = first};
    EXPECT_NEWER(options, open_and_close(*comm, &options.known));
    first.updates = UINT64_MAX; /* not looked at */
    first.size = offsetof(psring_table_options, updates);
    expect_ok(open_and_close(*comm, &first));
    first.size = sizeof first;
    expect_words(open_and_close(*comm, &first), PSRING_ERR_USAGE, "updates is");
    first.size = offsetof(psring_table_options, updates) - 1;
    expect(open_and_close(*comm, &first) == PSRING_ERR_USAGE);

    NEWER(psring_halo) halo = {.known = {.back = false}};
    EXPECT_NEWER(halo, halo_of(world, &halo.known));
    halo.known.size = 8;
    expect(halo_of(world, &halo.known) == PSRING_ERR_USAGE);

    psring_op op;
    NEWER(psring_fold) fold = {.known = {.fold = no_fold}};
    EXPECT_NEWER(fold, psring_op_make(*comm, &fold.known, &op));
    fold.known.size = 8;
    expect(psring_op_make(*comm, &fold.known, &op) == PSRING_ERR_USAGE);

    /* What is filled in: up to the caller's size, and no byte behind it. */
    NEWER(psring_counts) counts = {.more = {7, 7}};
    counts.known.size = sizeof counts.known;
    expect_ok(psring_counts_get(*comm, &counts.known));
    expect(counts.more[0] == 7 && counts.more[1] == 7);
    counts.known.size = 8;
    expect(psring_counts_get(*comm, &counts.known) == PSRING_ERR_USAGE);
    psring_message message = {.size = 8};
    expect_words(psring_receive(world, &x, 1, PSRING_FLOAT32, PSRING_ANY_RANK, 0,
                                PSRING_CALL(.message = &message), NULL),
                 PSRING_ERR_USAGE, "psring_message: its size says 8 bytes");
    psring_failure failure = {.size = 8};
    expect_ok(psring_barrier(world, NULL, NULL));
    expect_ok(psring_revoke(world, "enough"));
    expect(psring_group_failure(world, &failure) == PSRING_ERR_USAGE && failure.line[0] == '\0');
    NEWER(psring_failure) newer = {.more = {7, 7}};
    newer.known.size = sizeof newer.known;
    expect_ok(psring_group_failure(world, &newer.known));
    expect(strcmp(newer.known.line, "") != 0 && newer.more[0] == 7);
    const psring_err closed = psring_close(comm); /* the failure, if no call has returned it */
    expect(closed == PSRING_OK || closed == PSRING_ERR_CANCELLED);
}

static void structs_of_older_and_newer_programs_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    NEWER(psring_options) options = {.known = {.ranks = 1}, .more = {1, 0}};
    options.known.size = sizeof options;
    assert_int_equal(psring_init(&options.known, &comm), PSRING_ERR_USAGE);
    assert_non_null(strstr(psring_err_detail(), "does not know"));
    options.more[0] = 0;
    assert_int_equal(psring_init(&options.known, &comm), PSRING_OK);
    assert_int_equal(psring_close(&comm), PSRING_OK);
    psring_options older;
    memset(&older, 0xff, sizeof older);
    memset(&older, 0, offsetof(psring_options, transport));
    older.size = offsetof(psring_options, transport);
    older.ranks = 1;
    assert_int_equal(psring_init(&older, &comm), PSRING_OK);
    assert_int_equal(psring_close(&comm), PSRING_OK);
    ranks_run_sharded(3, 1, 20000, be_of_other_versions, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_in_16_bits_are_rounded_at_each_hop_as_training_does),
        cmocka_unit_test(
            encodings_with_a_residual_have_the_same_bits_on_all_ranks_and_in_every_run),
        cmocka_unit_test(
            what_a_rank_owes_is_read_and_written_and_the_sums_go_on_with_the_same_bits),
        cmocka_unit_test(a_residual_that_is_not_there_or_in_use_is_refused),
        cmocka_unit_test(encodings_are_checked_by_themselves),
        cmocka_unit_test(an_unknown_encoding_is_refused_by_its_name),
        cmocka_unit_test(structs_of_older_and_newer_programs_are_read_as_far_as_they_go),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
