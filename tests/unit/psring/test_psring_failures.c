/* How a communicator fails: everybody's call returns within its deadline and names the same rank;
 * afterwards it is broken. Ranks are threads, but for those whose scheduler is killed: they are
 * processes. Killed and stopped in each operation: tests/integration/lost_ranks.c. */
#include "tests/unit/psring/ranks.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Of calls that wait in vain. Those of all ranks begin within it, however slow the machine. */
enum { RANKS = 4, CULPRIT = 2, SHORT_MS = 10000 };

/* What all who are not to blame see. */
static void expect_failure(psring_comm *comm, psring_err got, psring_err err, int rank,
                           const char *words)
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

/* ---- without the scheduler ---- */

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
    expect_failure(comm, err, PSRING_ERR_PEER, 0, "scheduler");
    expect_ok(psring_close(&comm));
    _exit(0);
}

static void the_rank_that_hosts_the_scheduler_is_named(void **state)
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
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0);
    close(ready[0]);
    close(ready[1]);
    ranks_folder_empty(&folder);
    ranks_folder_remove(&folder);
}

/* ---- closing ---- */

typedef struct closing {
    ranks_folder folder;
    int ranks, ready[2], may_close[2]; /* pipes */
} closing;

static psring_comm *join(const closing *c, int rank)
{
    psring_comm *comm = NULL;
    const psring_options options = ranks_options(&c->folder, c->ranks, rank, SHORT_MS);
    expect_ok(psring_init(&options, &comm));
    expect_ok(psring_barrier(psring_world(comm), NULL, NULL));
    return comm;
}

/* The one that is killed never comes to close; another one may have left when that is found. */
static void join_and_close(const closing *c, int rank)
{
    char byte;
    psring_comm *comm = join(c, rank);
    expect(write(c->ready[1], "r", 1) == 1);
    close(c->may_close[1]);
    expect(read(c->may_close[0], &byte, 1) == 0);
    psring_err err = psring_close(&comm);
    _exit(err == PSRING_OK || err == PSRING_ERR_PEER ? 0 : 1);
}

/* Rank 1 is dead, and not missed yet, when the others close. */
static void close_beside_a_dead_one(int ranks)
{
    closing c = {.ranks = ranks};
    pid_t pids[RANKS];
    int status = 0;
    char byte;
    ranks_folder_make(&c.folder);
    expect(pipe(c.ready) == 0 && pipe(c.may_close) == 0);
    for (int r = 1; r < ranks; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            join_and_close(&c, r);
    }
    psring_comm *comm = join(&c, 0);
    for (int r = 1; r < ranks; r++)
        expect(read(c.ready[0], &byte, 1) == 1);
    expect(kill(pids[1], SIGKILL) == 0 && waitpid(pids[1], NULL, 0) == pids[1]);
    close(c.may_close[1]);
    expect(psring_close(&comm) == PSRING_ERR_PEER && comm == NULL);
    expect(strstr(psring_err_detail(), "rank 1 on ") != NULL);
    for (int r = 2; r < ranks; r++)
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0);
    close(c.may_close[0]);
    close(c.ready[0]);
    close(c.ready[1]);
    ranks_folder_empty(&c.folder);
    ranks_folder_remove(&c.folder);
}

static void who_hosts_the_scheduler_hears_in_closing_of_who_died_before(void **state)
{
    (void)state;
    close_beside_a_dead_one(2);
    close_beside_a_dead_one(3);
}

/* Rank 0 waits for the others in psring_close. */
static void abort_behind_who_has_left(psring_comm **comm, int rank, void *context)
{
    sem_t *leaves = context;
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
    if (rank == 0) {
        expect(sem_post(leaves) == 0);
        expect(psring_close(comm) == PSRING_ERR_PEER);
        expect(strstr(psring_err_detail(), "rank 1 on ") != NULL &&
               strstr(psring_err_detail(), "aborted: too late") != NULL);
    } else {
        expect(sem_wait(leaves) == 0);
        psring_abort(comm, "too late");
    }
}

static void who_hosts_the_scheduler_hears_in_closing_of_an_abort(void **state)
{
    (void)state;
    sem_t leaves;
    expect(sem_init(&leaves, 0, 0) == 0);
    ranks_run(2, abort_behind_who_has_left, &leaves);
    sem_destroy(&leaves);
}

/* What breaks a group of others alone is nothing to who is not in it. */
static void fail_without_rank_0(psring_comm **comm, int rank, void *context)
{
    sem_t *leaves = context;
    psring_group *others = NULL;
    expect_ok(psring_group_split(psring_world(*comm), rank > 0, 0, NULL, &others));
    if (rank == 0) {
        expect(sem_post(leaves) == 0);
        expect_ok(psring_close(comm));
        return;
    }
    if (rank == 1) {
        expect(sem_wait(leaves) == 0);
        expect_ok(psring_revoke(others, "enough"));
    } else {
        expect(psring_barrier(others, NULL, NULL) == PSRING_ERR_CANCELLED);
    }
    expect_ok(psring_close(comm));
}

static void what_breaks_others_alone_is_not_said_in_closing(void **state)
{
    (void)state;
    sem_t leaves;
    expect(sem_init(&leaves, 0, 0) == 0);
    ranks_run(3, fail_without_rank_0, &leaves);
    sem_destroy(&leaves);
}

/* ---- alive, but ---- */

static void call_nothing(psring_comm **comm, int rank, void *context)
{
    sem_t *given_up = context;
    if (rank == CULPRIT) {
        for (int r = 0; r < RANKS - 1; r++)
            expect(sem_wait(given_up) == 0);
        psring_err err;
        do /* all that one barrier needs of the others had come
              before they gave up; of a second one nothing */
            err = psring_barrier(psring_world(*comm), NULL, NULL);
        while (err == PSRING_OK);
        expect(err == PSRING_ERR_TIMEOUT);
        return;
    }
    psring_err err =
        psring_barrier(psring_world(*comm), PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
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
            usleep(150000); /* it computes, for longer than the others' calls may wait */
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
    psring_err err = psring_receive(psring_world(*comm), &x, 1, PSRING_FLOAT32, other, 6,
                                    PSRING_CALL(.deadline_ms = SHORT_MS, .name = "halo"), NULL);
    expect(err == PSRING_ERR_TIMEOUT && strstr(psring_err_detail(), "circle") != NULL);
    expect(strstr(psring_err_detail(), "in receive from rank ") != NULL);
    expect(strstr(psring_err_detail(), ", tag 6 (halo)") != NULL);
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
    psring_err err =
        psring_barrier(psring_world(*comm), PSRING_CALL(.deadline_ms = SHORT_MS), NULL);
    expect_failure(*comm, err, PSRING_ERR_PEER, CULPRIT, "has left");
}

static void a_rank_that_has_left_is_named(void **state)
{
    (void)state;
    ranks_run(RANKS, leave, NULL);
}

/* Operations that need a rank which leaves, with a deadline that no test lives to see. */
enum { LONG_MS = 3600 * 1000, VALUES = 1000000 };

typedef psring_err waiting_call(psring_group *world, float *send, float *receive);

static psring_err in_barrier(psring_group *world, float *send, float *receive)
{
    (void)send, (void)receive;
    return psring_barrier(world, NULL, NULL);
}

static psring_err in_sum(psring_group *world, float *send, float *receive)
{
    return psring_all_reduce(world, send, receive, VALUES, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err in_small_sum(psring_group *world, float *send, float *receive)
{
    return psring_all_reduce(world, send, receive, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err in_gather(psring_group *world, float *send, float *receive)
{
    return psring_all_gather(world, send, receive, 1000, PSRING_FLOAT32, NULL, NULL);
}

static psring_err in_group_split(psring_group *world, float *send, float *receive)
{
    psring_group *group = NULL;
    (void)send, (void)receive;
    return psring_group_split(world, 0, psring_rank(world), NULL, &group);
}

static psring_err in_receive(psring_group *world, float *send, float *receive)
{
    (void)send;
    return psring_receive(world, receive, 1, PSRING_FLOAT32, psring_size(world) - 1, 3, NULL, NULL);
}

static psring_err in_send(psring_group *world, float *send, float *receive)
{
    (void)receive;
    return psring_send(world, send, VALUES, PSRING_FLOAT32, psring_size(world) - 1, 3, NULL, NULL);
}

static psring_err in_probe(psring_group *world, float *send, float *receive)
{
    psring_message found = {.size = sizeof found};
    (void)send, (void)receive;
    return psring_probe(world, psring_size(world) - 1, 3, NULL, &found);
}

static psring_err in_broadcast(psring_group *world, float *send, float *receive)
{
    (void)receive;
    return psring_broadcast(world, send, VALUES, PSRING_FLOAT32, 0, NULL, NULL);
}

/* The last rank leaves when all are there, and has sent the others something before. */
static void leave_early(psring_comm **comm, int rank, void *context)
{
    waiting_call *const *call = context;
    psring_group *world = psring_world(*comm);
    const int last = psring_size(world) - 1;
    float *send = calloc(VALUES, sizeof *send), *receive = calloc(VALUES, sizeof *receive);
    expect_ok(
        psring_all_reduce(world, send, receive, VALUES, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    if (rank < last)
        expect_failure(*comm, (*call)(world, send, receive), PSRING_ERR_PEER, last, "has left");
    free(send);
    free(receive);
}

static void who_waits_for_a_rank_that_has_left_need_not_wait_for_its_deadline(void **state)
{
    (void)state;
    waiting_call *of_all[] = {in_barrier, in_sum, in_small_sum, in_gather, in_group_split};
    waiting_call *of_two[] = {in_receive, in_send, in_probe, in_broadcast};
    for (size_t i = 0; i < sizeof of_all / sizeof of_all[0]; i++)
        ranks_run_within(RANKS, LONG_MS, leave_early, &of_all[i]);
    for (size_t i = 0; i < sizeof of_two / sizeof of_two[0]; i++)
        ranks_run_within(2, LONG_MS, leave_early, &of_two[i]);
}

/* By the second call it is known who has left, and has been cut off; the call sends to it all the
 * same. */
static void leave_two_groups(psring_comm **comm, int rank, void *context)
{
    waiting_call *const *call = context;
    psring_group *world = psring_world(*comm), *group = NULL;
    const int last = psring_size(world) - 1;
    float *send = calloc(VALUES, sizeof *send), *receive = calloc(VALUES, sizeof *receive);
    expect_ok(psring_group_split(world, 0, rank, NULL, &group));
    if (rank < last) {
        expect(psring_barrier(group, NULL, NULL) == PSRING_ERR_PEER);
        expect_failure(*comm, (*call)(world, send, receive), PSRING_ERR_PEER, last, "has left");
    }
    free(send);
    free(receive);
}

static void who_has_left_is_named_in_each_group(void **state)
{
    (void)state;
    waiting_call *calls[] = {in_barrier,     in_sum,  in_small_sum, in_gather,
                             in_group_split, in_send, in_broadcast};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        ranks_run_within(2, LONG_MS, leave_two_groups, &calls[i]);
}

/* Its shard waits for the push, and the other worker for its shard. */
static void leave_without_a_push(psring_comm **comm, int rank, void *context)
{
    static const size_t parts[] = {5000};
    static float x[5000];
    psring_table *table = NULL;
    (void)context;
    if (psring_is_shard(*comm)) {
        expect_ok(psring_serve(*comm));
        return;
    }
    expect_ok(psring_table_open(psring_world(*comm), "weights",
                                PSRING_WITH(psring_table_options, .parts = parts, .part_count = 1),
                                NULL, &table));
    if (rank == 1)
        return;
    psring_err err = psring_push_pull(table, 0, x, x, NULL, NULL);
    expect_failure(*comm, err, PSRING_ERR_PEER, 1, "rank 1");
    expect(strstr(psring_err_detail(), "has left; rank 2") != NULL);
}

static void a_shard_need_not_wait_for_a_push_of_a_rank_that_has_left(void **state)
{
    (void)state;
    ranks_run_sharded(3, 1, LONG_MS, leave_without_a_push, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_that_hosts_the_scheduler_is_named),
        cmocka_unit_test(who_hosts_the_scheduler_hears_in_closing_of_who_died_before),
        cmocka_unit_test(who_hosts_the_scheduler_hears_in_closing_of_an_abort),
        cmocka_unit_test(what_breaks_others_alone_is_not_said_in_closing),
        cmocka_unit_test(a_rank_that_calls_nothing_is_named),
        cmocka_unit_test(who_waits_for_a_rank_that_reports_progress_waits_on),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_told_so),
        cmocka_unit_test(a_rank_that_has_left_is_named),
        cmocka_unit_test(who_waits_for_a_rank_that_has_left_need_not_wait_for_its_deadline),
        cmocka_unit_test(who_has_left_is_named_in_each_group),
        cmocka_unit_test(a_shard_need_not_wait_for_a_push_of_a_rank_that_has_left),
        cmocka_unit_test(an_abort_ends_the_calls_of_all),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
