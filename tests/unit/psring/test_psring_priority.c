/* The priority of a call, among processes. Two persistent all-reduces are under way on every rank:
 * a large one, and one that is started after it and is more urgent. No slice of the large one gets
 * on before the urgent one has been started too: its fold waits for that. So what is shown depends
 * on no clock. When a rank folds the last value of the large one, all of the urgent one has been
 * folded; without a priority the order is the other way round, since a lane is first in, first out.
 */
#include "tests/unit/psring/ranks.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { RANKS = 3, DEADLINE_MS = 60000 };

/* In both, every rank has many more slices than a window: they may have 512 KiB, 8 of them. */
enum { LARGE = RANKS * (5 << 19), URGENT = RANKS * (3 << 18), FOLDED = RANKS - 1 };

typedef struct folding {
    sem_t both_started;
    bool waited;
    /* how many values of the urgent and of the large one this rank has folded */
    size_t urgent, large;
    size_t urgent_at_end; /* when the last one of the large one was folded */
} folding;

static void add(void *out, const void *a, const void *b, size_t count)
{
    int32_t *sum = out;
    const int32_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        sum[i] = x[i] + y[i];
}

static void fold_urgent(void *context, void *out, const void *a, const void *b, size_t count,
                        psring_type type)
{
    folding *f = context;
    (void)type;
    add(out, a, b, count);
    f->urgent += count;
}

static void fold_large(void *context, void *out, const void *a, const void *b, size_t count,
                       psring_type type)
{
    folding *f = context;
    (void)type;
    if (!f->waited)
        expect(sem_wait(&f->both_started) == 0);
    f->waited = true;
    add(out, a, b, count);
    f->large += count;
    if (f->large == (size_t)FOLDED * LARGE / RANKS)
        f->urgent_at_end = f->urgent;
}

static psring_request *sum_of(psring_comm *comm, folding *f, bool urgent, int32_t *values,
                              int32_t priority)
{
    psring_op op;
    psring_request *request = NULL;
    expect_ok(
        psring_op_make(comm,
                       PSRING_WITH(psring_fold, .context = f,
                                   .fold = urgent ? fold_urgent : fold_large, .commutative = true),
                       &op));
    expect_ok(psring_all_reduce(
        psring_world(comm), values, values, urgent ? URGENT : LARGE, PSRING_INT32, op,
        PSRING_CALL(.algorithm = "ring", .persistent = true, .priority = priority), &request));
    return request;
}

static void expect_sums(const int32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(values[i] == RANKS * (int32_t)(i % 1000) + RANKS * (RANKS - 1) / 2);
}

static int32_t *values_of(int rank, size_t count)
{
    int32_t *values = malloc(count * sizeof *values);
    expect(values != NULL);
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)(i % 1000) + rank;
    return values;
}

/* Whether all of the urgent one had been folded before the last of the large one. */
static bool overtakes(const ranks_folder *folder, int rank, const char *transport, int32_t priority)
{
    static folding f;
    psring_comm *comm = NULL;
    psring_options options = ranks_options(folder, RANKS, rank, DEADLINE_MS);
    options.transport = transport;
    int32_t *large = values_of(rank, LARGE), *urgent = values_of(rank, URGENT);
    expect(sem_init(&f.both_started, 0, 0) == 0);
    expect_ok(psring_init(&options, &comm));
    psring_request *first = sum_of(comm, &f, false, large, 0),
                   *second = sum_of(comm, &f, true, urgent, priority);
    expect_ok(psring_start(first));
    expect_ok(psring_start(second));
    expect(sem_post(&f.both_started) == 0);
    expect_ok(psring_wait(first, PSRING_FOREVER));
    expect_ok(psring_wait(second, PSRING_FOREVER));
    expect_sums(large, LARGE);
    expect_sums(urgent, URGENT);
    expect(f.urgent == (size_t)FOLDED * URGENT / RANKS);
    psring_request_free(&first);
    psring_request_free(&second);
    expect_ok(psring_close(&comm));
    free(large);
    free(urgent);
    return f.urgent_at_end == f.urgent;
}

static void play(const char *transport, int32_t priority, bool expected)
{
    ranks_folder folder;
    pid_t pids[RANKS];
    int status = 0;
    ranks_folder_make(&folder);
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            _exit(overtakes(&folder, r, transport, priority));
    }
    for (int r = 0; r < RANKS; r++)
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) &&
               WEXITSTATUS(status) == expected);
    ranks_folder_remove(&folder);
}

/* "shm": a ring without hops; "ipc": by hops. */
static void a_later_call_that_is_more_urgent_overtakes(void **state)
{
    (void)state;
    play("shm", -1, true);
    play("ipc", -1, true);
}

static void a_later_call_that_is_not_more_urgent_does_not(void **state)
{
    (void)state;
    play("shm", 0, false);
    play("shm", 1, false);
    play("ipc", 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_call_that_is_more_urgent_overtakes),
        cmocka_unit_test(a_later_call_that_is_not_more_urgent_does_not),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
