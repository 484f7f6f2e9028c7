/* Tables: what is pushed and pulled in each consistency, the same bits with any number of shards,
 * updates of one's own, and what each call refuses. Ranks are threads. */
#include "tests/unit/psring/ranks.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_MS = 20000, PARTS = 4, ROUNDS = 5 };

/* One that several slices carry, one of a single value, and odd ones. */
static const size_t parts[PARTS] = {70001, 1, 17, 4096};
enum { VALUES = 70001 + 1 + 17 + 4096 };

static psring_table *open_table(psring_comm *comm, const char *update, const char *sync,
                                const float *initial)
{
    psring_table *table = NULL;
    expect_ok(
        psring_table_open(psring_world(comm), "weights",
                          PSRING_WITH(psring_table_options, .parts = parts, .part_count = PARTS,
                                      .update = update, .sync = sync, .initial = initial),
                          NULL, &table));
    return table;
}

static size_t offset_of(size_t part)
{
    size_t offset = 0;
    for (size_t p = 0; p < part; p++)
        offset += parts[p];
    return offset;
}

/* What a worker pushes: of very different sizes, so that the order of a sum shows. */
static float pushed_by(int rank, int round, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + (size_t)round * 5) % 101) * (rank % 3 == 1 ? 1e4f
                                                                             : rank % 3 == 2
                                                                                 ? 1e-4f
                                                                                 : 1.0f);
}

static void fill(float *values, size_t part, int rank, int round)
{
    for (size_t i = 0; i < parts[part]; i++)
        values[i] = pushed_by(rank, round, i);
}

/* base/arrays/fold.h's order, written from its words: chunk c of n begins with rank c + 1. */
static float sum_of(int workers, int round, size_t length, size_t i)
{
    size_t chunk = 0;
    while ((chunk + 1) * length / (size_t)workers <= i)
        chunk++;
    float sum = pushed_by((int)((chunk + 1) % (size_t)workers), round, i);
    for (int p = 1; p < workers; p++)
        sum += pushed_by((int)((chunk + 1 + (size_t)p) % (size_t)workers), round, i);
    return sum;
}

/* ---- BSP ---- */

/* Pushes and pulls in each way that there is; after each round all have the sum, bit by bit. */
static void take_rounds(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        expect_ok(psring_serve(*comm)); /* all have left: nothing more is to be waited for */
        return;
    }
    const int workers = psring_size(psring_world(*comm));
    float *initial = malloc(VALUES * sizeof *initial),
          *expected = malloc(VALUES * sizeof *expected);
    float *x = malloc(VALUES * sizeof *x), *y = malloc(VALUES * sizeof *y);
    for (size_t i = 0; i < VALUES; i++)
        expected[i] = initial[i] = (float)i;
    psring_table *table = open_table(*comm, NULL, NULL, rank == 0 ? initial : NULL);
    for (size_t p = 0; p < PARTS; p++) { /* before any push */
        expect_ok(psring_pull(table, p, y + offset_of(p), NULL, NULL));
        expect(memcmp(y + offset_of(p), initial + offset_of(p), parts[p] * sizeof *y) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        psring_request *requests[2 * PARTS] = {NULL};
        for (size_t k = 0; k < PARTS; k++) {
            size_t p = round % 2 == 0 ? k : PARTS - 1 - k, at = offset_of(p);
            fill(x + at, p, rank, round);
            if (round % 3 == 0) {
                expect_ok(psring_push_pull(table, p, x + at, y + at, NULL, &requests[p]));
            } else if (round % 3 == 1) {
                expect_ok(psring_push(table, p, x + at, NULL, &requests[p]));
                expect_ok(psring_pull(table, p, y + at, NULL, &requests[PARTS + p]));
            } else {
                expect_ok(psring_push(table, p, x + at, NULL, NULL));
                memset(x + at, 0xff, parts[p] * sizeof *x); /* ended: they are ours again */
                expect_ok(psring_pull(table, p, y + at, NULL, &requests[p]));
            }
        }
        for (int i = 0; i < 2 * PARTS; i++) {
            if (requests[i] != NULL)
                expect_ok(psring_wait(requests[i], PSRING_FOREVER));
            psring_request_free(&requests[i]);
        }
        for (size_t p = 0; p < PARTS; p++)
            for (size_t i = 0; i < parts[p]; i++)
                expected[offset_of(p) + i] += sum_of(workers, round, parts[p], i);
        expect(memcmp(y, expected, VALUES * sizeof *y) == 0);
    }
    expect(psring_table_staleness(table) == 0);
    expect_ok(psring_table_close(&table, NULL));
    expect(table == NULL);
    free(initial);
    free(expected);
    free(x);
    free(y);
}

static void bsp_has_the_same_bits_with_any_number_of_shards(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 4; workers++)
        for (int shards = 1; shards <= 3; shards++)
            ranks_run_sharded(workers + shards, shards, DEADLINE_MS, take_rounds, NULL);
}

/* ---- SSP and async ---- */

/* Each worker adds 1 a push: what it pulls holds its own pushes, and of the others' no fewer than
 * the bound allows. */
static void count_up(psring_comm **comm, int rank, void *context)
{
    enum { PUSHES = 40 };
    const char *sync = context;
    const int bound = strncmp(sync, "ssp:", 4) == 0 ? atoi(sync + 4) : PUSHES;
    (void)rank;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    static const float one = 1.0f;
    const int workers = psring_size(psring_world(*comm));
    psring_table *table = open_table(*comm, "sum", sync, NULL);
    float values = -1.0f, before = 0.0f;
    for (int push = 1; push <= PUSHES; push++) {
        if (push % 2 == 0) {
            expect_ok(psring_push_pull(table, 1, &one, &values, NULL, NULL));
        } else {
            expect_ok(psring_push(table, 1, &one, NULL, NULL));
            expect_ok(psring_pull(table, 1, &values, NULL, NULL));
        }
        const int others = push - bound > 0 ? push - bound : 0;
        expect(values >= (float)(push + (workers - 1) * others) && values >= before &&
               values <= (float)(workers * PUSHES));
        before = values;
    }
    expect(psring_table_staleness(table) <= (uint64_t)bound && psring_table_staleness(table) == 0);
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
    /* nobody pushes any more: it is all there */
    expect_ok(psring_pull(table, 1, &values, NULL, NULL));
    expect(values == (float)(workers * PUSHES));
    expect_ok(psring_pull(table, 2, (float[17]){0}, NULL, NULL)); /* never pushed */
    expect_ok(psring_table_close(&table, NULL));
}

static void without_bsp_a_pull_holds_ones_own_pushes_and_the_bound_holds(void **state)
{
    (void)state;
    static const char *const syncs[] = {"async", "ssp:0", "ssp:2"};
    for (size_t s = 0; s < sizeof syncs / sizeof syncs[0]; s++)
        for (int workers = 1; workers <= 3; workers += 2)
            ranks_run_sharded(workers + 2, 2, DEADLINE_MS, count_up, (void *)(uintptr_t)syncs[s]);
}

/* ---- updates ---- */

static psring_err scaled_check(void *context, const char *arguments, char *ret_line,
                               size_t line_bytes)
{
    (void)context;
    char *end = NULL;
    (void)strtof(arguments, &end);
    if (arguments[0] != '\0' && *end == '\0')
        return PSRING_OK;
    snprintf(ret_line, line_bytes, "give a factor");
    return PSRING_ERR_USAGE;
}

/* state = 0.5 state + pushed; values -= factor state. */
static psring_err scaled(void *context, const psring_update_run *run)
{
    expect(context != NULL && run->size == sizeof *run && run->number > 0 && run->part < PARTS &&
           run->offset + run->count <= parts[run->part] && run->states[0] != NULL);
    atomic_fetch_add((_Atomic size_t *)context, run->count);
    const float factor = strtof(run->arguments, NULL);
    for (size_t i = 0; i < run->count; i++) {
        run->states[0][i] = 0.5f * run->states[0][i] + run->pushed[i];
        run->values[i] -= factor * run->states[0][i];
    }
    return PSRING_OK;
}

static psring_err refusing(void *context, const psring_update_run *run)
{
    (void)context;
    return run->number < 3 ? PSRING_OK : PSRING_ERR_NUMERIC;
}

static void define(psring_comm *comm, _Atomic size_t *applied)
{
    const psring_update update = {.size = sizeof update,
                                  .states = 1,
                                  .context = applied,
                                  .check = scaled_check,
                                  .apply = scaled};
    expect_ok(psring_update_define(comm, "scaled", &update));
    expect_ok(
        psring_update_define(comm, "refusing", PSRING_WITH(psring_update, .apply = refusing)));
    expect(psring_update_define(comm, "scaled", &update) == PSRING_ERR_USAGE);
    expect(psring_update_define(comm, "sum", &update) == PSRING_ERR_USAGE);
    expect(psring_update_define(comm, "a b", &update) == PSRING_ERR_USAGE);
    expect(psring_update_define(comm, NULL, &update) == PSRING_ERR_USAGE);
    expect(psring_update_define(comm, "nothing", PSRING_WITH(psring_update, .states = 1)) ==
           PSRING_ERR_USAGE);
    expect(psring_update_define(comm, "large",
                                PSRING_WITH(psring_update, .states = 9, .apply = scaled)) ==
           PSRING_ERR_USAGE);
}

static void update_by_own_rule(psring_comm **comm, int rank, void *context)
{
    if (psring_is_shard(*comm)) {
        define(*comm, context);
        expect_ok(psring_serve(*comm));
        return;
    }
    float y[4096] = {0}, x[4096], values = 0.0f, momentum = 0.0f;
    const int workers = psring_size(psring_world(*comm));
    psring_table *table = open_table(*comm, "scaled 0.25", "bsp", NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < 4096; i++)
            x[i] = (float)(rank + round);
        expect_ok(psring_push_pull(table, 3, x, y, NULL, NULL));
        float sum = 0.0f;
        for (int r = 0; r < workers; r++)
            sum += (float)(r + round);
        momentum = 0.5f * momentum + sum;
        values -= 0.25f * momentum;
        for (size_t i = 0; i < 4096; i++)
            expect(y[i] == values);
    }
    expect_ok(psring_table_close(&table, NULL));
}

static void an_update_of_ones_own_has_states_and_arguments(void **state)
{
    (void)state;
    _Atomic size_t applied = 0;
    ranks_run_sharded(5, 2, DEADLINE_MS, update_by_own_rule, &applied);
    assert_int_equal(applied, 4096 * ROUNDS); /* every value once */
}

static void push_until_it_fails(psring_comm **comm, int rank, void *context)
{
    (void)rank;
    psring_err err = PSRING_OK;
    if (psring_is_shard(*comm)) {
        define(*comm, context);
        expect_ok(psring_serve(*comm)); /* it serves others, as long as there are any */
    } else {
        float x = 1.0f;
        psring_table *table = open_table(*comm, "refusing", "bsp", NULL);
        for (int round = 0; round < ROUNDS && err == PSRING_OK; round++)
            err = psring_push_pull(table, 1, &x, &x, NULL, NULL);
        expect(err == PSRING_ERR_PEER);
        expect(strstr(psring_err_detail(), "update 3 of part 1 by \"refusing\" failed: numeric") !=
               NULL);
    }
    expect_ok(psring_close(comm));
}

static void an_updates_failure_is_all_workers(void **state)
{
    (void)state;
    _Atomic size_t applied = 0;
    ranks_run_sharded(3, 1, DEADLINE_MS, push_until_it_fails, &applied);
}

/* ---- errors ---- */

static psring_err open_as(psring_comm *comm, psring_table_options options, const char *name,
                          const psring_call *call)
{
    psring_table *table = NULL;
    options.size = sizeof options;
    psring_err err = psring_table_open(psring_world(comm), name, &options, call, &table);
    expect(table == NULL);
    return err;
}

static void misuse(psring_comm **comm, int rank, void *context)
{
    (void)rank;
    float x = 1.0f;
    expect(psring_shards(*comm) == 1);
    if (psring_is_shard(*comm)) {
        define(*comm, context);
        expect_ok(psring_update_define(*comm, "wide",
                                       PSRING_WITH(psring_update, .states = 8, .apply = refusing)));
        expect(psring_size(psring_world(*comm)) == 1);
        expect_words(
            open_as(*comm, (psring_table_options){.parts = parts, .part_count = 1}, "t", NULL),
            PSRING_ERR_USAGE, "is a shard");
        expect_ok(psring_serve(*comm));
        return;
    }
    const psring_table_options good = {.parts = parts, .part_count = PARTS};
    psring_table_options o = good;
    psring_request *request = NULL;
    expect(psring_size(psring_world(*comm)) == 2);
    expect_words(psring_serve(*comm), PSRING_ERR_USAGE, "no shard");
    expect_words(psring_update_define(*comm, "a", PSRING_WITH(psring_update, .apply = refusing)),
                 PSRING_ERR_USAGE, "no shard");
    expect_words(open_as(*comm, good, NULL, NULL), PSRING_ERR_USAGE, "name");
    expect_words(open_as(*comm, good, "", NULL), PSRING_ERR_USAGE, "name");
    o.part_count = 0;
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE, "without parts");
    o = good;
    o.parts = (const size_t[]){3, 0, 1, 1};
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE, "part 1 has no values");
    o.parts = (const size_t[]){(size_t)1 << 40, 1, 1, 1};
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE, "more than");
    o.parts = (const size_t[]){((size_t)1 << 40) - 3, 1, 1, 1};
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_NOMEM, "table \"t\": of it 4096.0 GiB");
    o = good;
    o.type = PSRING_INT64;
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_UNSUPPORTED, "a table of int64: ");
    o = good;
    static const char *const no_sync[] = {
        "", "BSP", "ssp", "ssp:", "ssp:-1", "ssp:2x", "ssp:99999999999"};
    for (size_t i = 0; i < sizeof no_sync / sizeof no_sync[0]; i++) {
        o.sync = no_sync[i];
        expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE, "sync");
    }
    o = good;
    o.initial = (const void *)((uintptr_t)parts + 1);
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE, "aligned");
    expect_words(open_as(*comm, good, "t", PSRING_CALL(.persistent = true)), PSRING_ERR_USAGE,
                 "deadline");
    expect_words(open_as(*comm, good, "t", PSRING_CALL(.deadline_ms = -1)), PSRING_ERR_USAGE,
                 "deadline_ms");
    /* What the shard does not know is refused by all, and nothing is broken. */
    o.initial = NULL;
    o.update = "adamw lr=1";
    expect_words(
        open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE,
        "rank 2, a shard: there is no update \"adamw\", but sum, assign, wide, refusing, scaled");
    const size_t half =
        (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / sizeof(float) / 2;
    o.parts = &half; /* fits here; with its states not on a shard */
    o.part_count = 1;
    o.update = "wide";
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_NOMEM,
                 "rank 2, a shard: no memory for table \"t\"");
    o = good;
    o.update = "sum 3";
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE,
                 "\"sum 3\": it takes no arguments");
    o.update = "scaled much";
    expect_words(open_as(*comm, o, "t", NULL), PSRING_ERR_USAGE, "\"scaled much\": give a factor");
    psring_table *table = open_table(*comm, "assign", "async", NULL);
    expect_words(psring_push(table, PARTS, &x, NULL, NULL), PSRING_ERR_USAGE,
                 "part 4 is none of 4");
    expect_words(psring_push(table, 1, NULL, NULL, NULL), PSRING_ERR_USAGE, "NULL");
    expect_words(psring_pull(table, 1, (void *)((uintptr_t)parts + 1), NULL, NULL),
                 PSRING_ERR_USAGE, "aligned");
    expect_words(psring_push_pull(table, 1, &x, NULL, NULL, NULL), PSRING_ERR_USAGE, "NULL");
    expect_words(psring_push(table, 1, &x, PSRING_CALL(.persistent = true), &request),
                 PSRING_ERR_USAGE, "deadline");
    expect_ok(psring_push(table, 1, &x, NULL, &request));
    expect(psring_start(request) == PSRING_ERR_USAGE);
    float both[18] = {0}; /* part 2 has 17 */
    expect_words(psring_push_pull(table, 2, both, both + 1, NULL, NULL), PSRING_ERR_USAGE,
                 "overlap");
    expect_ok(psring_push_pull(table, 2, both, both, NULL, NULL));
    size_t ended = 1;
    psring_request *forgotten = NULL;
    expect_ok(psring_push(table, 1, &x, NULL, &forgotten));
    expect_ok(psring_table_close(&table, NULL)); /* its requests stay */
    expect_ok(psring_wait_any(&request, 1, 0, &ended));
    expect(ended == 0 && psring_test(request) == PSRING_OK && psring_algorithm(request) == NULL);
    psring_request_free(&request);
    expect_ok(psring_table_close(&table, NULL));
    expect_ok(psring_table_close(NULL, NULL));
}

static void what_cannot_be_is_refused_and_breaks_nothing(void **state)
{
    (void)state;
    _Atomic size_t applied = 0;
    ranks_run_sharded(3, 1, DEADLINE_MS, misuse, &applied);
}

static void no_shards(psring_comm **comm, int rank, void *context)
{
    (void)rank;
    (void)context;
    expect(psring_shards(*comm) == 0 && !psring_is_shard(*comm));
    expect_words(open_as(*comm, (psring_table_options){.parts = parts, .part_count = 1}, "t", NULL),
                 PSRING_ERR_USAGE, "no shards");
}

static void without_shards_there_are_no_tables(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    psring_table *table = NULL;
    assert_int_equal(psring_serve(NULL), PSRING_ERR_USAGE);
    assert_int_equal(psring_update_define(NULL, "a", NULL), PSRING_ERR_USAGE);
    assert_int_equal(psring_table_open(NULL, "a", NULL, NULL, &table), PSRING_ERR_USAGE);
    assert_int_equal(psring_push(NULL, 0, NULL, NULL, NULL), PSRING_ERR_USAGE);
    assert_true(psring_shards(NULL) == 0 && !psring_is_shard(NULL) &&
                psring_table_staleness(NULL) == 0);
    ranks_run(2, no_shards, NULL);
    assert_int_equal(
        psring_init(PSRING_WITH(psring_options, .ranks = 2, .shards = 2, .scheduler = "/x"), &comm),
        PSRING_ERR_USAGE);
    assert_int_equal(psring_init(PSRING_WITH(psring_options, .ranks = 1, .shards = 1), &comm),
                     PSRING_ERR_USAGE);
}

/* A shard, of which no other fails: the workers' failures are none of its own. */
static void serve_to_the_end(psring_comm **comm)
{
    psring_failure failure = {.size = sizeof failure};
    expect_ok(psring_serve(*comm));
    expect(psring_group_failure(psring_world(*comm), &failure) == PSRING_ERR_NOT_FOUND);
    expect_ok(psring_close(comm));
}

static void open_another(psring_comm **comm, int rank, void *context)
{
    psring_failure failure = {.size = sizeof failure};
    (void)context;
    if (psring_is_shard(*comm)) {
        serve_to_the_end(comm);
        return;
    } else {
        const psring_table_options options = {
            .parts = parts, .part_count = PARTS, .update = rank == 2 ? "assign" : "sum"};
        expect_words(
            open_as(*comm, options, "t", NULL), PSRING_ERR_MISMATCH,
            "rank 0 opens table \"t\" of 4 parts (70001, 1, 17, 4096), update \"sum\", bsp, rank 2 "
            "opens table \"t\" of 4 parts (70001, 1, 17, 4096), update \"assign\", bsp");
    }
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.err == PSRING_ERR_MISMATCH && failure.rank == 0 && failure.other == 2 &&
           failure.number == 1);
    expect_ok(psring_close(comm));
}

static void ranks_that_open_different_tables_are_named(void **state)
{
    (void)state;
    ranks_run_sharded(4, 1, DEADLINE_MS, open_another, NULL);
}

static void close_another(psring_comm **comm, int rank, void *context)
{
    psring_failure failure = {.size = sizeof failure};
    psring_request *request = NULL;
    (void)context;
    if (psring_is_shard(*comm)) {
        serve_to_the_end(comm);
        return;
    } else {
        const float x = 1.0f;
        psring_table *tables[2] = {NULL};
        for (int i = 0; i < 2; i++)
            expect_ok(psring_table_open(
                psring_world(*comm), i == 0 ? "A" : "B",
                PSRING_WITH(psring_table_options, .parts = (const size_t[]){1}, .part_count = 1),
                NULL, &tables[i]));
        psring_table **first = &tables[rank == 1], **second = &tables[rank != 1];
        expect_words(psring_table_close(first, NULL), PSRING_ERR_MISMATCH,
                     "rank 0 closes table \"A\", rank 1 closes table \"B\"");
        expect(*first == NULL);
        expect(psring_push(*second, 0, &x, NULL, &request) == PSRING_ERR_BROKEN && request == NULL);
        expect(psring_table_close(second, NULL) == PSRING_ERR_BROKEN && *second == NULL);
    }
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.err == PSRING_ERR_MISMATCH && failure.rank == 0 && failure.other == 1 &&
           failure.number == 3);
    expect_ok(psring_close(comm));
}

static void ranks_that_close_different_tables_are_named(void **state)
{
    (void)state;
    ranks_run_sharded(4, 1, DEADLINE_MS, close_another, NULL);
}

/* Ranks 0 and 1 end their group under a table; 2 and 3, on the same shards, notice nothing. */
static void one_group_fails(psring_comm **comm, int rank, void *context)
{
    psring_group *pair = NULL, *again = NULL;
    psring_table *table = NULL;
    const psring_table_options options = {
        .size = sizeof options, .parts = (const size_t[]){1}, .part_count = 1};
    float x = 1.0f;
    (void)context;
    if (psring_is_shard(*comm)) {
        serve_to_the_end(comm);
        return;
    }
    expect_ok(psring_group_split(psring_world(*comm), rank / 2, 0, NULL, &pair));
    expect_ok(psring_table_open(pair, "first", &options, NULL, &table));
    for (int round = 1; round <= ROUNDS; round++) {
        float sum = 0.0f;
        expect_ok(psring_push_pull(table, 0, &x, &sum, NULL, NULL));
        expect(sum == (float)(2 * round));
    }
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
    if (rank == 0)
        expect_ok(psring_revoke(pair, "enough"));
    if (rank == 1) /* it waits for rank 0's push */
        expect_words(psring_push_pull(table, 0, &x, &x, NULL, NULL), PSRING_ERR_CANCELLED,
                     "enough");
    if (rank < 2) {
        expect(psring_table_close(&table, NULL) != PSRING_OK);
        expect_ok(psring_shrink(pair, NULL, &again));
        expect_ok(psring_table_open(again, "second", &options, NULL, &table));
    }
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
    for (int round = 1; round <= ROUNDS; round++) {
        float one = 1.0f, sum = 0.0f;
        expect_ok(psring_push_pull(table, 0, &one, &sum, NULL, NULL));
        expect(sum == (float)(2 * (rank < 2 ? round : ROUNDS + round)));
    }
    expect_ok(psring_table_close(&table, NULL));
    expect_ok(psring_close(comm));
}

static void a_failure_of_one_group_leaves_others_and_their_tables_alone(void **state)
{
    (void)state;
    ranks_run_sharded(6, 2, DEADLINE_MS, one_group_fails, NULL);
}

static void shard_gives_up(psring_comm **comm, int rank, void *context)
{
    psring_table *table = NULL;
    psring_request *request = NULL;
    const float x = 1.0f;
    psring_err err = PSRING_OK;
    (void)context;
    if (rank == 2) {
        psring_abort(comm, "no disk");
        return;
    }
    if (psring_is_shard(*comm))
        err = psring_serve(*comm);
    else
        err = psring_table_open(
            psring_world(*comm), "t",
            PSRING_WITH(psring_table_options, .parts = (const size_t[]){1}, .part_count = 1), NULL,
            &table);
    expect_words(err, PSRING_ERR_PEER, "rank 2 on ");
    expect_words(err, PSRING_ERR_PEER, " aborted: no disk");
    expect(strstr(psring_err_detail(), "null") == NULL);
    expect(psring_push(table, 0, &x, NULL, &request) == PSRING_ERR_USAGE);
    expect_ok(psring_close(comm));
}

static void a_shard_that_aborts_is_named_with_its_host(void **state)
{
    (void)state;
    ranks_run_sharded(4, 2, DEADLINE_MS, shard_gives_up, NULL);
}

/* ---- several at once ---- */

static void use_several(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    psring_group *half = NULL;
    expect_ok(psring_group_split(psring_world(*comm), rank % 2, 0, NULL, &half));
    float x = 1.0f, y = 0.0f, z = 0.0f;
    for (int again = 0; again < 3; again++) {
        psring_table *mine = NULL, *all = open_table(*comm, "sum", "bsp", NULL);
        expect_ok(psring_table_open(
            half, "of a half",
            PSRING_WITH(psring_table_options, .parts = (const size_t[]){1}, .part_count = 1), NULL,
            &mine));
        expect_ok(psring_push_pull(all, 1, &x, &y, NULL, NULL));
        expect_ok(psring_push_pull(mine, 0, &x, &z, NULL, NULL));
        expect(y == 4.0f && z == 2.0f);
        expect_ok(psring_table_close(&mine, NULL));
        expect_ok(psring_table_close(&all, NULL));
    }
    psring_group_free(&half);
}

static void tables_of_several_groups_come_and_go(void **state)
{
    (void)state;
    ranks_run_sharded(6, 2, DEADLINE_MS, use_several, NULL);
}

/* ---- who does not come ---- */

enum { SHORT_MS = 6000 }; /* of calls that wait in vain, and that others begin within it */

typedef struct away {
    const char *sync;
    sem_t over; /* rank 0's calls have failed */
} away;

static void one_stays_away(psring_comm **comm, int rank, void *context)
{
    psring_failure failure = {.size = sizeof failure};
    away *a = context;
    float x = 1.0f;
    psring_err err = PSRING_OK;
    psring_table *table = NULL;
    if (psring_is_shard(*comm)) {
        serve_to_the_end(comm);
        return;
    } else {
        table = open_table(*comm, "sum", a->sync, NULL);
        expect_ok(psring_push_pull(table, 1, &x, &x, NULL, NULL));
    }
    if (rank == 1) { /* lives, and pushes no more */
        expect(sem_wait(&a->over) == 0);
        err = psring_push_pull(table, 1, &x, &x, NULL, NULL);
    }
    while (err == PSRING_OK)
        err = psring_push_pull(table, 1, &x, &x, PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
    if (rank == 0)
        expect(sem_post(&a->over) == 0);
    expect_words(err, PSRING_ERR_TIMEOUT, "rank 1 on ");
    expect_words(err, PSRING_ERR_TIMEOUT, "push_pull of part 1 of table \"weights\"");
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.err == PSRING_ERR_TIMEOUT && failure.rank == 1);
    if (table != NULL)
        expect(psring_table_close(&table, NULL) == PSRING_ERR_BROKEN && table == NULL);
    expect_ok(psring_close(comm));
}

static void a_worker_that_does_not_push_is_named_to_all_who_wait(void **state)
{
    (void)state;
    static const char *const syncs[] = {"bsp", "ssp:3"};
    for (size_t i = 0; i < sizeof syncs / sizeof syncs[0]; i++) {
        away a = {.sync = syncs[i]};
        expect(sem_init(&a.over, 0, 0) == 0);
        ranks_run_sharded(4, 1, DEADLINE_MS, one_stays_away, &a);
        sem_destroy(&a.over);
    }
}

/* Rank 1 waits for the others where it should push. */
static void one_pushes_less(psring_comm **comm, int rank, void *context)
{
    const bool closes = *(const bool *)context;
    psring_failure failure = {.size = sizeof failure};
    psring_table *table = NULL;
    psring_err err = PSRING_OK;
    float x = 1.0f;
    if (psring_is_shard(*comm)) {
        serve_to_the_end(comm);
        return;
    } else {
        table = open_table(*comm, "sum", closes ? "ssp:0" : "bsp", NULL);
        expect_ok(psring_push_pull(table, 1, &x, &x, NULL, NULL));
        if (rank != 1) {
            expect_ok(psring_push(table, 1, &x, NULL, NULL));
            err = psring_pull(table, 1, &x, PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
        } else if (closes) {
            err = psring_table_close(&table, PSRING_CALL(.deadline_ms = SHORT_MS));
        } else {
            err = psring_barrier(psring_world(*comm), PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
        }
    }
    expect_words(err, PSRING_ERR_TIMEOUT, ", a shard, waits for a push of rank 1 on ");
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.err == PSRING_ERR_TIMEOUT && failure.rank == 1);
    if (table != NULL)
        expect(psring_table_close(&table, NULL) == PSRING_ERR_BROKEN);
    expect_ok(psring_close(comm));
}

static void a_worker_that_waits_where_it_should_push_is_to_blame(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool closes = i == 1;
        ranks_run_sharded(4, 2, DEADLINE_MS, one_pushes_less, &closes);
    }
}

/* ---- who is lost ---- */

/* Three workers, and the last one a shard. A stopped one is missed within three quarters of the
 * deadline, and no other one may be. */
enum { LOST_RANKS = 4, LOST_DEADLINE_MS = 12000 };

/* Those who live open another table on the same shard, and its sums are theirs. */
static void go_on_without_one(psring_comm *comm, int rank, int lost)
{
    psring_group *living = NULL;
    psring_table *table = NULL;
    float x = (float)(rank + 1);
    expect_ok(psring_shrink(psring_world(comm), NULL, &living));
    expect(psring_size(living) == LOST_RANKS - 2);
    expect_ok(psring_table_open(
        living, "again",
        PSRING_WITH(psring_table_options, .parts = (const size_t[]){1}, .part_count = 1), NULL,
        &table));
    for (int round = 1; round <= ROUNDS; round++) {
        float sum = 0.0f;
        expect_ok(psring_push_pull(table, 0, &x, &sum, NULL, NULL));
        expect(sum == (float)(round * (1 + 2 + 3 - (lost + 1))));
    }
    expect_ok(psring_table_close(&table, NULL));
}

/* A process: pushes and pulls until that fails, and tells when it has done so a first time. */
static void be_rank(const ranks_folder *folder, int rank, int lost, const char *sync, int ready)
{
    char who[32], line[512];
    psring_comm *comm = NULL;
    psring_err err = PSRING_OK;
    psring_failure failure = {.size = sizeof failure};
    psring_options options = ranks_options(folder, LOST_RANKS, rank, LOST_DEADLINE_MS);
    options.shards = 1;
    expect_ok(psring_init(&options, &comm));
    if (psring_is_shard(comm)) {
        expect(write(ready, "r", 1) == 1);
        serve_to_the_end(&comm);
        _exit(0);
    } else {
        float *x = calloc(parts[0], sizeof *x);
        psring_table *table = open_table(comm, "sum", sync, NULL);
        expect_ok(psring_push_pull(table, 0, x, x, NULL, NULL));
        expect(write(ready, "r", 1) == 1);
        while (err == PSRING_OK)
            err = psring_push_pull(table, 0, x, x, NULL, NULL);
        free(x);
    }
    snprintf(line, sizeof line, "%s", psring_err_detail());
    snprintf(who, sizeof who, "rank %d on ", lost);
    expect_words(err, PSRING_ERR_PEER, who);
    expect_ok(psring_group_failure(psring_world(comm), &failure));
    expect(failure.err == PSRING_ERR_PEER && failure.rank == lost);
    expect((lost < LOST_RANKS - 1) == (strstr(line, "table \"weights\" is lost: ") == NULL));
    if (lost < LOST_RANKS - 1)
        go_on_without_one(comm, rank, lost);
    expect_ok(psring_close(&comm));
    _exit(0);
}

static void lose(int lost, int signal, const char *sync)
{
    ranks_folder folder;
    pid_t pids[LOST_RANKS];
    int ready[2];
    char bytes[LOST_RANKS];
    ranks_folder_make(&folder);
    expect(pipe(ready) == 0);
    for (int r = 0; r < LOST_RANKS; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            be_rank(&folder, r, lost, sync, ready[1]);
    }
    for (int r = 0; r < LOST_RANKS; r++)
        expect(read(ready[0], &bytes[r], 1) == 1);
    expect(kill(pids[lost], signal) == 0);
    for (int r = 0; r < LOST_RANKS; r++) {
        int status = 0;
        if (r == lost)
            continue;
        expect(waitpid(pids[r], &status, 0) == pids[r]);
        expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expect(signal == SIGKILL || kill(pids[lost], SIGKILL) == 0);
    expect(waitpid(pids[lost], NULL, 0) == pids[lost]);
    close(ready[0]);
    close(ready[1]);
    ranks_folder_empty(&folder);
    ranks_folder_remove(&folder);
}

static void a_worker_that_is_killed_or_stopped_is_named(void **state)
{
    (void)state;
    lose(2, SIGKILL, "bsp");
    lose(1, SIGSTOP, "ssp:1");
}

static void a_shard_that_is_killed_or_stopped_is_named(void **state)
{
    (void)state;
    lose(LOST_RANKS - 1, SIGKILL, "async");
    lose(LOST_RANKS - 1, SIGSTOP, "bsp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_has_the_same_bits_with_any_number_of_shards),
        cmocka_unit_test(without_bsp_a_pull_holds_ones_own_pushes_and_the_bound_holds),
        cmocka_unit_test(an_update_of_ones_own_has_states_and_arguments),
        cmocka_unit_test(an_updates_failure_is_all_workers),
        cmocka_unit_test(what_cannot_be_is_refused_and_breaks_nothing),
        cmocka_unit_test(without_shards_there_are_no_tables),
        cmocka_unit_test(ranks_that_open_different_tables_are_named),
        cmocka_unit_test(ranks_that_close_different_tables_are_named),
        cmocka_unit_test(a_failure_of_one_group_leaves_others_and_their_tables_alone),
        cmocka_unit_test(a_shard_that_aborts_is_named_with_its_host),
        cmocka_unit_test(tables_of_several_groups_come_and_go),
        cmocka_unit_test(a_worker_that_does_not_push_is_named_to_all_who_wait),
        cmocka_unit_test(a_worker_that_waits_where_it_should_push_is_to_blame),
        cmocka_unit_test(a_worker_that_is_killed_or_stopped_is_named),
        cmocka_unit_test(a_shard_that_is_killed_or_stopped_is_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
