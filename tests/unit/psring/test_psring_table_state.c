/* Tables that are read and written whole: a run that goes on from what another one read ends in the
 * bits of one that was not interrupted; what a read holds in each consistency; all parts in one
 * call; what is refused. Ranks are threads. */
#include "tests/unit/psring/ranks.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { DEADLINE_MS = 20000, PARTS = 4, STATES = 2, STEPS = 7, SAVED_AFTER = 3 };

/* One that several slices carry, one of a single value, and odd ones. */
static const size_t parts[PARTS] = {70001, 1, 17, 4096};
enum { VALUES = 70001 + 1 + 17 + 4096 };

static float pushed_by(int rank, int step, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 13 + (size_t)step * 5) % 101) *
           (rank % 2 == 1 ? 1e-3f : 1.0f);
}

/* Momentum, and a second array that counts: a step that is as long as its number says. */
static psring_err heavy(void *context, const psring_update_run *run)
{
    (void)context;
    for (size_t i = 0; i < run->count; i++) {
        run->states[0][i] = 0.9f * run->states[0][i] + run->pushed[i];
        run->states[1][i] += 1.0f;
        run->values[i] -= run->states[0][i] / (float)(run->number + 2);
    }
    return PSRING_OK;
}

static void define(psring_comm *comm)
{
    expect_ok(psring_update_define(comm, "heavy",
                                   PSRING_WITH(psring_update, .states = STATES, .apply = heavy)));
}

static void serve(psring_comm *comm)
{
    define(comm);
    expect_ok(psring_serve(comm));
}

static psring_table *open_table(psring_comm *comm, const char *update, const char *sync,
                                const float *initial, uint64_t updates)
{
    psring_table *table = NULL;
    expect_ok(psring_table_open(psring_world(comm), "weights",
                                PSRING_WITH(psring_table_options, .parts = parts,
                                            .part_count = PARTS, .update = update, .sync = sync,
                                            .initial = initial, .updates = updates),
                                NULL, &table));
    return table;
}

static void push_step(psring_comm *comm, psring_table *table, int step, float *x, float *values)
{
    for (size_t i = 0; i < VALUES; i++)
        x[i] = pushed_by(psring_rank(psring_world(comm)), step, i);
    expect_ok(psring_push_pull(table, PSRING_ALL, x, values, NULL, NULL));
}

/* ---- saved and restored ---- */

/* What a program writes to a file. */
typedef struct saved {
    float values[VALUES], states[STATES][VALUES];
    uint64_t updates;
} saved;

typedef struct life {
    const char *sync;
    int first, end; /* steps */
    const saved *from;
    saved *to; /* rank 0's */
} life;

/* Each rank reads for itself, part by part; rank 0 also all at once, and only it writes. */
static void save(psring_comm *comm, psring_table *table, const life *l)
{
    float *values = malloc(VALUES * sizeof *values);
    const bool first = psring_rank(psring_world(comm)) == 0;
    expect(psring_table_states(table) == STATES);
    for (uint32_t state = 0; state <= STATES; state++) {
        float *to = state == 0 ? l->to->values : l->to->states[state - 1];
        size_t at = 0;
        expect_ok(psring_table_read(table, state, PSRING_ALL, first ? to : NULL, VALUES, NULL));
        for (size_t p = 0; p < PARTS; at += parts[p++])
            expect_ok(psring_table_read(table, state, p, values + at, parts[p], NULL));
        expect(!first || memcmp(to, values, VALUES * sizeof *values) == 0);
    }
    if (first)
        l->to->updates =
            (uint64_t)l->end *
            (strcmp(l->sync, "bsp") == 0 ? 1 : (uint64_t)psring_size(psring_world(comm)));
    free(values);
}

static void live(psring_comm **comm, int rank, void *context)
{
    const life *l = context;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    float *x = malloc(VALUES * sizeof *x), *values = malloc(VALUES * sizeof *values);
    psring_table *table =
        open_table(*comm, "heavy", l->sync, rank == 0 && l->from != NULL ? l->from->values : NULL,
                   l->from != NULL ? l->from->updates : 0);
    for (uint32_t state = 1; state <= STATES && l->from != NULL; state++)
        expect_ok(psring_table_write(table, state, PSRING_ALL,
                                     rank == 0 ? l->from->states[state - 1] : NULL, VALUES, NULL));
    for (int step = l->first; step < l->end; step++)
        push_step(*comm, table, step, x, values);
    save(*comm, table, l);
    expect(strcmp(l->sync, "bsp") != 0 || rank != 0 ||
           memcmp(values, l->to->values, VALUES * sizeof *values) == 0);
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(values);
}

static void run_life(int workers, int shards, life l)
{
    ranks_run_sharded(workers + shards, shards, DEADLINE_MS, live, &l);
}

static void expect_same(const saved *a, const saved *b)
{
    expect(memcmp(a->values, b->values, sizeof a->values) == 0);
    for (int s = 0; s < STATES; s++)
        expect(memcmp(a->states[s], b->states[s], sizeof a->states[s]) == 0);
    expect(a->updates == b->updates);
}

/* The second run has another number of shards. One worker alone has bits in any consistency. */
static void a_run_that_goes_on_from_what_was_read_has_the_bits_of_one_that_never_ended(void **state)
{
    (void)state;
    static const char *const syncs[] = {"bsp", "async", "ssp:1"};
    saved *whole = calloc(1, sizeof *whole), *half = calloc(1, sizeof *half),
          *resumed = calloc(1, sizeof *resumed);
    for (size_t s = 0; s < sizeof syncs / sizeof syncs[0]; s++) {
        const int workers = s == 0 ? 3 : 1;
        run_life(workers, 1, (life){.sync = syncs[s], .end = STEPS, .to = whole});
        expect(whole->states[1][0] == (float)STEPS);
        for (int shards = 1; shards <= 4; shards++) {
            run_life(workers, shards, (life){.sync = syncs[s], .end = SAVED_AFTER, .to = half});
            expect(memcmp(half->values, whole->values, sizeof half->values) != 0);
            run_life(workers, 5 - shards,
                     (life){.sync = syncs[s],
                            .first = SAVED_AFTER,
                            .end = STEPS,
                            .from = half,
                            .to = resumed});
            expect_same(resumed, whole);
        }
    }
    free(whole);
    free(half);
    free(resumed);
}

/* ---- what is written is pulled ---- */

static void write_and_pull(psring_comm **comm, int rank, void *context)
{
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    const bool bsp = strcmp(context, "bsp") == 0;
    const int workers = psring_size(psring_world(*comm));
    float *x = malloc(VALUES * sizeof *x), *y = malloc(VALUES * sizeof *y);
    psring_table *table = open_table(*comm, "sum", context, NULL, 0);
    expect(psring_table_states(table) == 0);
    for (size_t i = 0; i < VALUES; i++)
        x[i] = 1.0f;
    for (int round = 0; round < 3; round++) {
        psring_request *requests[2] = {NULL};
        expect_ok(psring_push(table, PSRING_ALL, x, NULL, &requests[0]));
        expect_ok(psring_pull(table, PSRING_ALL, y, NULL, &requests[1]));
        for (int i = 0; i < 2; i++) {
            expect_ok(psring_wait(requests[i], PSRING_FOREVER));
            psring_request_free(&requests[i]);
        }
        for (size_t i = 0; i < VALUES; i++)
            expect(bsp ? y[i] == (float)(workers * (round + 1)) : y[i] >= (float)(round + 1));
    }
    expect_ok(psring_push(table, PSRING_ALL, x, NULL, NULL)); /* its answer is still on its way */
    /* Of all: in any consistency what has been pushed is there, and nothing else. */
    expect_ok(psring_table_read(table, 0, PSRING_ALL, y, VALUES, NULL));
    for (size_t i = 0; i < VALUES; i++)
        expect(y[i] == (float)(4 * workers));
    expect_ok(psring_push(table, 3, x, NULL, NULL));
    for (size_t i = 0; i < VALUES; i++)
        y[i] = (float)i;
    expect_ok(psring_table_write(table, 0, 0, rank == 0 ? y : NULL, parts[0], NULL));
    expect_ok(psring_pull(table, PSRING_ALL, y, NULL, NULL));
    for (size_t i = 0; i < parts[0]; i++)
        expect(y[i] == (float)i);
    expect(y[parts[0]] == (float)(4 * workers));
    expect(!bsp || y[VALUES - 1] == (float)(5 * workers));
    for (size_t i = 0; i < VALUES; i++)
        y[i] = -(float)i;
    expect_ok(psring_table_write(table, 0, PSRING_ALL, rank == 0 ? y : NULL, VALUES, NULL));
    expect_ok(psring_push_pull(table, PSRING_ALL, x, y, NULL, NULL));
    for (size_t i = 0; i < VALUES; i++)
        expect(bsp ? y[i] == (float)workers - (float)i : y[i] >= 1.0f - (float)i);
    expect_ok(psring_table_read(table, 0, 2, y, 17, NULL));
    for (size_t i = 0; i < 17; i++)
        expect(y[i] == (float)workers - (float)(parts[0] + 1 + i));
    expect_ok(psring_table_close(&table, NULL));
    free(x);
    free(y);
}

static void what_is_written_is_pulled_by_all_and_what_is_read_holds_all_pushes(void **state)
{
    (void)state;
    static const char *const syncs[] = {"bsp", "async", "ssp:2"};
    for (size_t s = 0; s < sizeof syncs / sizeof syncs[0]; s++)
        for (int shards = 1; shards <= 3; shards += 2)
            ranks_run_sharded(3 + shards, shards, DEADLINE_MS, write_and_pull,
                              (void *)(uintptr_t)syncs[s]);
}

/* ---- errors ---- */

static void misuse(psring_comm **comm, int rank, void *context)
{
    (void)rank;
    (void)context;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        return;
    }
    float *y = calloc(VALUES, sizeof *y);
    psring_request *request = NULL;
    psring_table *table = open_table(*comm, "heavy", NULL, NULL, 0);
    expect_words(psring_table_read(table, 3, PSRING_ALL, y, VALUES, NULL), PSRING_ERR_USAGE,
                 "psring_table_read: there is no state 3 of table \"weights\": 0 is its values, "
                 "and its update has 2 states");
    expect_words(psring_table_write(table, 0, PARTS, y, 1, NULL), PSRING_ERR_USAGE,
                 "part 4 is none of 4");
    expect_words(psring_table_write(table, 1, PSRING_ALL, y, VALUES - 1, NULL), PSRING_ERR_USAGE,
                 "psring_table_write: 74114 values for table \"weights\", which has 74115");
    expect_words(psring_table_read(table, 1, 2, y, 16, NULL), PSRING_ERR_USAGE,
                 "16 values for part 2 of table \"weights\", which has 17");
    expect_words(psring_table_read(table, 0, 1, (char *)y + 1, 1, NULL), PSRING_ERR_USAGE,
                 "not aligned");
    expect(psring_table_write(table, 0, 1, NULL, 1, NULL) == PSRING_ERR_USAGE); /* of rank 0 */
    expect_words(psring_table_read(table, 0, 1, y, 1, PSRING_CALL(.encoding = "fp16")),
                 PSRING_ERR_USAGE, "a deadline and a name alone");
    expect(psring_table_read(NULL, 0, 1, y, 1, NULL) == PSRING_ERR_USAGE);
    expect(psring_table_write(NULL, 0, 1, y, 1, NULL) == PSRING_ERR_USAGE);
    expect(psring_table_states(NULL) == 0);
    expect_ok(psring_push_pull(table, 1, y, y, NULL, &request));
    expect_words(psring_table_read(table, 0, 1, y, 1, NULL), PSRING_ERR_USAGE,
                 "a push or pull of table \"weights\" is under way");
    expect_words(psring_table_write(table, 0, 1, y, 1, NULL), PSRING_ERR_USAGE, "is under way");
    expect_ok(psring_wait(request, PSRING_FOREVER));
    expect_ok(psring_table_read(table, 0, 1, y, 1, NULL)); /* nothing was broken */
    psring_request_free(&request);
    expect_ok(psring_table_close(&table, NULL));
    free(y);
}

static void what_cannot_be_is_refused_and_breaks_nothing(void **state)
{
    (void)state;
    ranks_run_sharded(2, 1, DEADLINE_MS, misuse, NULL);
}

enum { OF_OTHER_STATES, OF_OTHER_PARTS, TO_WRITE, AFTER_OTHER_PUSHES, DIFFERENCES };

static void differ(psring_comm **comm, int rank, void *context)
{
    const int how = *(const int *)context;
    psring_failure failure = {.size = sizeof failure};
    float y[17] = {0};
    psring_err err;
    if (psring_is_shard(*comm)) {
        serve(*comm);
        expect_ok(psring_close(comm));
        return;
    }
    psring_table *table = open_table(*comm, "heavy", NULL, NULL, 0);
    const bool other = rank == 1;
    if (how == AFTER_OTHER_PUSHES && !other)
        expect_ok(psring_push(table, 2, y, NULL, NULL));
    if (how == TO_WRITE && other)
        err = psring_table_write(table, 0, 2, y, 17, NULL);
    else
        err = psring_table_read(table, how == OF_OTHER_STATES && other ? 1 : 0,
                                how == OF_OTHER_PARTS && other ? 1 : 2, y,
                                how == OF_OTHER_PARTS && other ? 1 : 17, NULL);
    static const char *const words[DIFFERENCES] = {
        "rank 0 reads state 0 of part 2 of table \"weights\", rank 1 reads state 1 of part 2 of ",
        "rank 0 reads state 0 of part 2 of table \"weights\", rank 1 reads state 0 of part 1 of ",
        "table_read",
        ("rank 0 reads state 0 of part 2 of table \"weights\", after 1 pushes, rank 1 reads state "
         "0 "
         "of part 2 of table \"weights\", after 0 pushes")};
    expect_words(err, PSRING_ERR_MISMATCH, words[how]);
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.err == PSRING_ERR_MISMATCH && failure.rank + failure.other == 1);
    expect(psring_table_close(&table, NULL) == PSRING_ERR_BROKEN);
    expect_ok(psring_close(comm));
}

static void ranks_that_read_and_write_different_things_are_named(void **state)
{
    (void)state;
    for (int how = 0; how < DIFFERENCES; how++)
        ranks_run_sharded(3, 1, DEADLINE_MS, differ, &how);
}

/* ---- who is lost ---- */

enum { LOST_RANKS = 4, LOST = 3, LOST_DEADLINE_MS = 20000 }; /* two workers, two shards */

/* A process: reads and writes until that fails, and tells when it has done so a first time. */
static void be_rank(const ranks_folder *folder, int rank, int ready)
{
    psring_comm *comm = NULL;
    psring_err err = PSRING_OK;
    psring_options options = ranks_options(folder, LOST_RANKS, rank, LOST_DEADLINE_MS);
    options.shards = 2;
    expect_ok(psring_init(&options, &comm));
    if (psring_is_shard(comm)) {
        expect(write(ready, "r", 1) == 1);
        define(comm);
        expect_words(psring_serve(comm), PSRING_ERR_PEER, "rank 3 on "); /* a shard as it is */
        expect_ok(psring_close(&comm));
        _exit(0);
    }
    float *x = calloc(VALUES, sizeof *x);
    psring_table *table = open_table(comm, "heavy", NULL, NULL, 0);
    for (int round = 0; err == PSRING_OK; round++) {
        err = psring_table_read(table, 1, PSRING_ALL, x, VALUES, NULL);
        if (err == PSRING_OK)
            err = psring_table_write(table, 1, PSRING_ALL, x, VALUES, NULL);
        expect(round > 0 || write(ready, "r", 1) == 1);
    }
    expect_words(err, PSRING_ERR_PEER, "table \"weights\" is lost: ");
    expect_words(err, PSRING_ERR_PEER, "rank 3 on ");
    expect_ok(psring_close(&comm));
    free(x);
    _exit(0);
}

static void a_shard_that_is_killed_between_reads_and_writes_is_named(void **state)
{
    (void)state;
    ranks_folder folder;
    pid_t pids[LOST_RANKS];
    int ready[2];
    char byte;
    ranks_folder_make(&folder);
    expect(pipe(ready) == 0);
    for (int r = 0; r < LOST_RANKS; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            be_rank(&folder, r, ready[1]);
    }
    for (int r = 0; r < LOST_RANKS; r++)
        expect(read(ready[0], &byte, 1) == 1);
    expect(kill(pids[LOST], SIGKILL) == 0);
    for (int r = 0; r < LOST_RANKS; r++) {
        int status = 0;
        expect(waitpid(pids[r], &status, 0) == pids[r]);
        expect(r == LOST || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    close(ready[0]);
    close(ready[1]);
    ranks_folder_empty(&folder);
    ranks_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_run_that_goes_on_from_what_was_read_has_the_bits_of_one_that_never_ended),
        cmocka_unit_test(what_is_written_is_pulled_by_all_and_what_is_read_holds_all_pushes),
        cmocka_unit_test(what_cannot_be_is_refused_and_breaks_nothing),
        cmocka_unit_test(ranks_that_read_and_write_different_things_are_named),
        cmocka_unit_test(a_shard_that_is_killed_between_reads_and_writes_is_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
