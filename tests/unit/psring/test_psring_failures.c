/* How a communicator fails: everybody's call returns within its deadline and names the same rank; afterwards it is broken. Ranks that are
 * killed or stopped are processes, the others threads. */
#include "tests/unit/psring/ranks.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

enum { RANKS = 4, CULPRIT = 2, SHORT_MS = 2500, COUNT = 100000 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What all who are not to blame see. */
static void expect_failure(psring_comm *comm, psring_err got, psring_err err, int rank, const char *words)
{
    psring_failure failure = {.size = sizeof failure};
    psring_group *world = psring_world(comm);
    char line[512];
    expect(got == err);
    snprintf(line, sizeof line, "%s", psring_err_detail());
    expect(strstr(line, words) != NULL);
    expect_ok(psring_group_failure(world, &failure));
    expect(failure.err == err && failure.rank == rank && strcmp(failure.line, line) == 0);
    expect(psring_barrier(world, NULL, NULL) == PSRING_ERR_BROKEN);
    expect(strstr(psring_err_detail(), line) != NULL);
}

/* ---- killed and stopped ---- */

typedef psring_err operation(psring_group *world, float *x, float *y);

static psring_err all_reduce(psring_group *world, float *x, float *y)
{
    return psring_all_reduce(world, x, y, COUNT, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err broadcast(psring_group *world, float *x, float *y)
{
    (void)y;
    return psring_broadcast(world, x, COUNT, PSRING_FLOAT32, CULPRIT, NULL, NULL);
}

static psring_err all_to_all(psring_group *world, float *x, float *y)
{
    return psring_all_to_all(world, x, y, COUNT / RANKS, PSRING_FLOAT32, NULL, NULL);
}

static psring_err barrier(psring_group *world, float *x, float *y)
{
    (void)x;
    (void)y;
    return psring_barrier(world, NULL, NULL);
}

/* From the culprit to rank 0; then all meet. */
static psring_err message(psring_group *world, float *x, float *y)
{
    int rank = psring_rank(world);
    psring_err err = PSRING_OK;
    if (rank == CULPRIT)
        err = psring_send(world, x, COUNT, PSRING_FLOAT32, 0, 7, NULL, NULL);
    if (rank == 0)
        err = psring_receive(world, y, COUNT, PSRING_FLOAT32, CULPRIT, 7, NULL, NULL);
    return err == PSRING_OK ? psring_all_reduce(world, x, y, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL) : err;
}

/* A process: calls the operation until it fails. Tells when it has done so a first time, and at the end how long after the kill. */
static void be_rank(const ranks_folder *folder, int rank, operation *call, int ready)
{
    static float x[COUNT], y[COUNT];
    psring_comm *comm = NULL;
    const psring_options options = ranks_options(folder, RANKS, rank, SHORT_MS);
    expect_ok(psring_init(&options, &comm));
    psring_err err = call(psring_world(comm), x, y);
    expect(err == PSRING_OK && write(ready, "r", 1) == 1);
    while (err == PSRING_OK)
        err = call(psring_world(comm), x, y);
    double failed_s = now_s();
    expect(write(ready, &failed_s, sizeof failed_s) == sizeof failed_s);
    expect_failure(comm, err, PSRING_ERR_PEER, CULPRIT, "rank 2");
    expect(psring_close(&comm) == PSRING_OK); /* what failed is said */
    _exit(0);
}

static void lose(operation *call, int signal)
{
    ranks_folder folder;
    pid_t pids[RANKS];
    int ready[RANKS][2];
    ranks_folder_make(&folder);
    for (int r = 0; r < RANKS; r++) {
        expect(pipe(ready[r]) == 0);
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            be_rank(&folder, r, call, ready[r][1]);
        close(ready[r][1]);
    }
    char byte;
    for (int r = 0; r < RANKS; r++)
        expect(read(ready[r][0], &byte, 1) == 1);
    double lost_s = now_s(), failed_s;
    expect(kill(pids[CULPRIT], signal) == 0);
    for (int r = 0; r < RANKS; r++) {
        int status = 0;
        if (r == CULPRIT)
            continue;
        expect(read(ready[r][0], &failed_s, sizeof failed_s) == sizeof failed_s);
        printf("# rank %d: %.2f s after the signal\n", r, failed_s - lost_s);
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expect(kill(pids[CULPRIT], SIGKILL) == 0 && waitpid(pids[CULPRIT], NULL, 0) == pids[CULPRIT]);
    for (int r = 0; r < RANKS; r++)
        close(ready[r][0]);
    ranks_folder_empty(&folder); /* of the socket of the one that was killed */
    ranks_folder_remove(&folder);
}

#define LOST(how, signal, name)                                                                              \
    static void a_rank_##how##_in_##name##_is_named_by_all(void **state)                                     \
    {                                                                                                        \
        (void)state;                                                                                         \
        lose(name, signal);                                                                                  \
    }

LOST(killed, SIGKILL, all_reduce)
LOST(stopped, SIGSTOP, all_reduce)
LOST(killed, SIGKILL, broadcast)
LOST(stopped, SIGSTOP, all_to_all)
LOST(stopped, SIGSTOP, barrier)
LOST(killed, SIGKILL, message)

/* The scheduler goes with the rank that hosts it. */
static void be_without_scheduler(const ranks_folder *folder, int rank, int ready)
{
    psring_comm *comm = NULL;
    const psring_options options = ranks_options(folder, 3, rank, SHORT_MS);
    expect_ok(psring_init(&options, &comm));
    psring_err err = psring_barrier(psring_world(comm), NULL, NULL);
    expect(err == PSRING_OK && write(ready, "r", 1) == 1);
    while (err == PSRING_OK)
        err = psring_barrier(psring_world(comm), NULL, NULL);
    expect_failure(comm, err, PSRING_ERR_PEER, PSRING_NO_RANK, "scheduler");
    expect_ok(psring_close(&comm));
    _exit(0);
}

static void the_scheduler_that_is_killed_is_named(void **state)
{
    (void)state;
    ranks_folder folder;
    pid_t pids[3];
    int ready[2], status = 0;
    char byte;
    ranks_folder_make(&folder);
    expect(pipe(ready) == 0);
    for (int r = 0; r < 3; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            be_without_scheduler(&folder, r, ready[1]);
    }
    for (int r = 0; r < 3; r++)
        expect(read(ready[0], &byte, 1) == 1);
    expect(kill(pids[0], SIGKILL) == 0 && waitpid(pids[0], NULL, 0) == pids[0]);
    for (int r = 1; r < 3; r++)
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ready[0]);
    close(ready[1]);
    ranks_folder_empty(&folder);
    ranks_folder_remove(&folder);
}

/* ---- alive, but ---- */

static void call_nothing(psring_comm **comm, int rank, void *context)
{
    sem_t *given_up = context;
    if (rank == CULPRIT) {
        for (int r = 0; r < RANKS - 1; r++)
            expect(sem_wait(given_up) == 0);
        expect(psring_barrier(psring_world(*comm), NULL, NULL) == PSRING_ERR_TIMEOUT);
        return;
    }
    psring_err err = psring_barrier(psring_world(*comm), PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
    expect_failure(*comm, err, PSRING_ERR_TIMEOUT, CULPRIT, "rank 2");
    expect(sem_post(given_up) == 0);
}

static void a_rank_that_calls_nothing_is_named(void **state)
{
    (void)state;
    sem_t given_up;
    expect(sem_init(&given_up, 0, 0) == 0);
    ranks_run(RANKS, call_nothing, &given_up);
    sem_destroy(&given_up);
}

static void report_progress(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (rank == CULPRIT)
        for (uint64_t step = 0; step < 100; step++) {
            usleep(35000); /* it computes, for longer than the others' calls may wait */
            psring_report(*comm, step);
        }
    expect_ok(psring_barrier(psring_world(*comm), PSRING_CALL(.deadline_ms = SHORT_MS), NULL));
}

static void who_waits_for_a_rank_that_reports_progress_waits_on(void **state)
{
    (void)state;
    ranks_run(RANKS, report_progress, NULL);
}

static void wait_in_a_circle(psring_comm **comm, int rank, void *context)
{
    float x = 0;
    int other = 1 - rank;
    (void)context;
    psring_err err = psring_receive(psring_world(*comm), &x, 1, PSRING_FLOAT32, other, 0,
                                    PSRING_CALL(.deadline_ms = SHORT_MS, .name = "halo"), NULL);
    expect(err == PSRING_ERR_TIMEOUT && strstr(psring_err_detail(), "circle") != NULL);
    expect(strstr(psring_err_detail(), "halo") != NULL);
}

static void ranks_that_wait_for_each_other_are_told_so(void **state)
{
    (void)state;
    ranks_run(2, wait_in_a_circle, NULL);
}

static void leave(psring_comm **comm, int rank, void *context)
{
    (void)context;
    if (rank == CULPRIT)
        return;
    psring_err err = psring_barrier(psring_world(*comm), PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
    expect_failure(*comm, err, PSRING_ERR_PEER, CULPRIT, "has left");
}

static void a_rank_that_has_left_is_named(void **state)
{
    (void)state;
    ranks_run(RANKS, leave, NULL);
}

static void give_up(psring_comm **comm, int rank, void *context)
{
    const int *culprit = context;
    if (rank == *culprit) {
        psring_abort(comm, "the loss is not finite");
        expect(*comm == NULL);
        return;
    }
    psring_err err = psring_barrier(psring_world(*comm), NULL, NULL);
    expect_failure(*comm, err, PSRING_ERR_PEER, *culprit, "the loss is not finite");
}

/* Also of the one that hosts the scheduler. */
static void an_abort_ends_the_calls_of_all(void **state)
{
    (void)state;
    for (int culprit = 0; culprit <= CULPRIT; culprit += CULPRIT)
        ranks_run(RANKS, give_up, &culprit);
}

/* ---- calls that do not fit together ---- */

typedef psring_err other_call(psring_group *world, bool other, float *x);

static psring_err other_count(psring_group *world, bool other, float *x)
{
    return psring_all_reduce(world, x, x, other ? 2 : 3, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err other_type(psring_group *world, bool other, float *x)
{
    return psring_all_reduce(world, x, x, 2, other ? PSRING_INT32 : PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err other_root(psring_group *world, bool other, float *x)
{
    return psring_broadcast(world, x, 2, PSRING_FLOAT32, other ? 1 : 0, NULL, NULL);
}

static psring_err other_kind(psring_group *world, bool other, float *x)
{
    return other ? psring_barrier(world, NULL, NULL)
                 : psring_all_reduce(world, x, x, 2, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static void call_another(psring_comm **comm, int rank, void *context)
{
    other_call *const *call = context;
    float x[4] = {0};
    psring_failure failure = {.size = sizeof failure};
    psring_err err = (*call)(psring_world(*comm), rank == CULPRIT, x);
    if (err == PSRING_OK) /* some can have all that they need: they hear of it in the next call */
        err = psring_barrier(psring_world(*comm), NULL, NULL);
    expect(err == PSRING_ERR_MISMATCH);
    expect_ok(psring_group_failure(psring_world(*comm), &failure));
    expect(failure.rank == CULPRIT || failure.other == CULPRIT);
    expect(strstr(failure.line, "rank 2 calls") != NULL);
    if (rank == 0)
        printf("# %s\n", failure.line);
}

static void calls_that_differ_are_told_to_all_with_both_ranks(void **state)
{
    static other_call *const calls[] = {other_count, other_type, other_root, other_kind};
    (void)state;
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        other_call *call = calls[c];
        ranks_run(3, call_another, &call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_killed_in_all_reduce_is_named_by_all),
        cmocka_unit_test(a_rank_stopped_in_all_reduce_is_named_by_all),
        cmocka_unit_test(a_rank_killed_in_broadcast_is_named_by_all),
        cmocka_unit_test(a_rank_stopped_in_all_to_all_is_named_by_all),
        cmocka_unit_test(a_rank_stopped_in_barrier_is_named_by_all),
        cmocka_unit_test(a_rank_killed_in_message_is_named_by_all),
        cmocka_unit_test(the_scheduler_that_is_killed_is_named),
        cmocka_unit_test(a_rank_that_calls_nothing_is_named),
        cmocka_unit_test(who_waits_for_a_rank_that_reports_progress_waits_on),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_told_so),
        cmocka_unit_test(a_rank_that_has_left_is_named),
        cmocka_unit_test(an_abort_ends_the_calls_of_all),
        cmocka_unit_test(calls_that_differ_are_told_to_all_with_both_ranks),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
