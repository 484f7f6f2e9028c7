/* What goes on after a failure: ranks are killed or stopped in an operation, the others shrink to
 * those who live, and all operations give right numbers among them; who wakes is out. Ranks that
 * are lost are processes, in the other tests threads.
 *
 *     test_psring_shrink [all]    all: each rank, by each signal, in each operation */
#include "tests/unit/psring/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* LOST_MS: a stopped rank is missed within three quarters of it, and no other one may be. */
enum { RANKS = 4, LOST_MS = 12000, COUNT = 50000, AT_ONCE = 4 };

enum { SHORT_MS = 10000 }; /* of calls that wait in vain, and that others begin within it */

/* ---- are the numbers right? ---- */

static int32_t sum_of(int ranks, int i)
{
    return (int32_t)(ranks * i + ranks * (ranks - 1) / 2);
}

static void check_sums(psring_group *g, int32_t *x, int32_t *y)
{
    int n = psring_size(g), rank = psring_rank(g);
    for (int i = 0; i < n * 100; i++)
        x[i] = i + rank;
    expect_ok(psring_all_reduce(g, x, y, (size_t)n * 100, PSRING_INT32, PSRING_SUM, NULL, NULL));
    for (int i = 0; i < n * 100; i++)
        expect(y[i] == sum_of(n, i));
    expect_ok(psring_reduce(g, x, y, 100, PSRING_INT32, PSRING_MAXIMUM, n - 1, NULL, NULL));
    for (int i = 0; rank == n - 1 && i < 100; i++)
        expect(y[i] == i + n - 1);
    expect_ok(psring_reduce_scatter(g, x, y, 100, PSRING_INT32, PSRING_SUM, NULL, NULL));
    for (int i = 0; i < 100; i++)
        expect(y[i] == sum_of(n, 100 * rank + i));
}

static void check_copies(psring_group *g, int32_t *x, int32_t *y)
{
    int n = psring_size(g), rank = psring_rank(g);
    for (int i = 0; i < n * 100; i++)
        x[i] = 1000 * rank + i;
    expect_ok(psring_all_gather(g, x, y, 100, PSRING_INT32, NULL, NULL));
    for (int i = 0; i < n * 100; i++)
        expect(y[i] == 1000 * (i / 100) + i % 100);
    expect_ok(psring_gather(g, x, y, 100, PSRING_INT32, 0, NULL, NULL));
    for (int i = 0; rank == 0 && i < n * 100; i++)
        expect(y[i] == 1000 * (i / 100) + i % 100);
    expect_ok(psring_scatter(g, x, y, 100, PSRING_INT32, n - 1, NULL, NULL));
    for (int i = 0; i < 100; i++)
        expect(y[i] == 1000 * (n - 1) + 100 * rank + i);
    expect_ok(psring_all_to_all(g, x, y, 100, PSRING_INT32, NULL, NULL));
    for (int i = 0; i < n * 100; i++)
        expect(y[i] == 1000 * (i / 100) + 100 * rank + i % 100);
    expect_ok(psring_broadcast(g, x, 100, PSRING_INT32, n - 1, NULL, NULL));
    for (int i = 0; i < 100; i++)
        expect(x[i] == 1000 * (n - 1) + i);
}

/* To the next rank in a circle, by messages and by neighbour exchange. */
static void check_messages(psring_group *g)
{
    int n = psring_size(g), rank = psring_rank(g), next = (rank + 1) % n,
        before = (rank + n - 1) % n;
    int32_t mine = 7 + rank, got = 0, beside = 0;
    psring_request *sent = NULL;
    if (n > 1) {
        expect_ok(psring_send(g, &mine, 1, PSRING_INT32, next, 3, NULL, &sent));
        expect_ok(psring_receive(g, &got, 1, PSRING_INT32, before, 3, NULL, NULL));
        expect_ok(psring_wait(sent, PSRING_FOREVER));
        psring_request_free(&sent);
        expect(got == 7 + before);
    }
    const psring_block out = {next, &mine, {1, 1, 1, 1}, {0}},
                       in = {before, &beside, {1, 1, 1, 1}, {0}};
    expect_ok(psring_neighbor_exchange(g, &out, 1, &in, 1, PSRING_INT32, NULL, NULL));
    expect(beside == 7 + before);
}

static void check_all_operations(psring_group *g)
{
    static _Thread_local int32_t x[RANKS * 100], y[RANKS * 100];
    psring_group *half = NULL;
    int n = psring_size(g), rank = psring_rank(g), one = 1, halves = 0;
    check_sums(g, x, y);
    check_copies(g, x, y);
    check_messages(g);
    expect_ok(psring_group_split(g, rank % 2, 0, NULL, &half));
    expect(psring_epoch(half) == psring_epoch(g));
    expect_ok(psring_all_reduce(half, &one, &halves, 1, PSRING_INT32, PSRING_SUM, NULL, NULL));
    expect(halves == (n + 1 - rank % 2) / 2);
    psring_group_free(&half);
    expect_ok(psring_barrier(g, NULL, NULL));
}

/* ---- killed and stopped ---- */

typedef psring_err operation(psring_group *g, float *x, float *y);

static psring_err all_reduce(psring_group *g, float *x, float *y)
{
    return psring_all_reduce(g, x, y, COUNT, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err reduce_scatter(psring_group *g, float *x, float *y)
{
    return psring_reduce_scatter(g, x, y, COUNT / RANKS, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
}

static psring_err all_gather(psring_group *g, float *x, float *y)
{
    return psring_all_gather(g, x, y, COUNT / RANKS, PSRING_FLOAT32, NULL, NULL);
}

static psring_err broadcast(psring_group *g, float *x, float *y)
{
    (void)y;
    return psring_broadcast(g, x, COUNT, PSRING_FLOAT32, 1, NULL, NULL);
}

static psring_err all_to_all(psring_group *g, float *x, float *y)
{
    return psring_all_to_all(g, x, y, COUNT / RANKS, PSRING_FLOAT32, NULL, NULL);
}

static psring_err barrier(psring_group *g, float *x, float *y)
{
    (void)x;
    (void)y;
    return psring_barrier(g, NULL, NULL);
}

static psring_err reduce_and_scatter(psring_group *g, float *x, float *y)
{
    psring_err err = psring_reduce(g, x, y, COUNT, PSRING_FLOAT32, PSRING_SUM, 0, NULL, NULL);
    return err == PSRING_OK ? psring_scatter(g, x, y, COUNT / RANKS, PSRING_FLOAT32, 2, NULL, NULL)
                            : err;
}

static psring_err messages(psring_group *g, float *x, float *y)
{
    int n = psring_size(g), rank = psring_rank(g);
    psring_request *sent = NULL;
    psring_err err = psring_send(g, x, COUNT, PSRING_FLOAT32, (rank + 1) % n, 0, NULL, &sent);
    if (err == PSRING_OK)
        err = psring_receive(g, y, COUNT, PSRING_FLOAT32, (rank + n - 1) % n, 0, NULL, NULL);
    if (err == PSRING_OK)
        err = psring_wait(sent, PSRING_FOREVER);
    psring_request_free(&sent);
    return err;
}

static operation *const operations[] = {all_reduce, reduce_scatter, all_gather,         broadcast,
                                        all_to_all, barrier,        reduce_and_scatter, messages};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

typedef struct loss {
    operation *call;
    int culprit, signal;
    ranks_folder folder;
    pid_t pids[RANKS];
    int said[RANKS][2], go[RANKS][2]; /* pipes: from a rank, and to it */
} loss;

static void say(const loss *l, int rank, char what)
{
    expect(write(l->said[rank][1], &what, 1) == 1);
}

static void await_word(int pipe_end, char what)
{
    char byte = 0;
    expect(read(pipe_end, &byte, 1) == 1 && byte == what);
}

/* It was stopped, and wakes when the others go on without it. */
static void be_out(psring_comm **comm, psring_err err, int rank)
{
    char self[16];
    psring_group *living = NULL;
    snprintf(self, sizeof self, "rank %d", rank);
    expect(err == PSRING_ERR_PEER && strstr(psring_err_detail(), self) != NULL);
    expect(psring_shrink(psring_world(*comm), NULL, &living) == PSRING_ERR_PEER && living == NULL);
    expect(strstr(psring_err_detail(), self) != NULL);
    expect_ok(psring_close(comm));
    _exit(0);
}

/* The end of the test is theirs too, also where it fails. */
static void end_with_parent(void)
{
    expect(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
}

static void be_rank(const loss *l, int rank)
{
    static float x[COUNT], y[COUNT];
    psring_comm *comm = NULL;
    psring_group *living = NULL;
    const psring_options options = ranks_options(&l->folder, RANKS, rank, LOST_MS);
    end_with_parent();
    expect_ok(psring_init(&options, &comm));
    psring_err err = l->call(psring_world(comm), x, y);
    expect_ok(err);
    say(l, rank, 'r');
    while (err == PSRING_OK)
        err = l->call(psring_world(comm), x, y);
    if (rank == l->culprit)
        be_out(&comm, err, rank);
    expect(err == PSRING_ERR_PEER);
    expect_ok(psring_shrink(psring_world(comm), NULL, &living));
    expect(psring_size(living) == RANKS - 1 && psring_epoch(living) == 1);
    expect(psring_rank(living) == rank - (rank > l->culprit));
    expect(psring_group_translate(psring_world(comm), l->culprit, living) == PSRING_NO_RANK);
    check_all_operations(living);
    say(l, rank, 's');
    await_word(l->go[rank][0], 'g');
    check_all_operations(living); /* who woke is not heard */
    expect(psring_barrier(psring_world(comm), NULL, NULL) == PSRING_ERR_BROKEN);
    expect_ok(psring_close(&comm));
    _exit(0);
}

static void begin(loss *l)
{
    ranks_folder_make(&l->folder);
    for (int r = 0; r < RANKS; r++)
        expect(pipe(l->said[r]) == 0 && pipe(l->go[r]) == 0);
    for (int r = 0; r < RANKS; r++) {
        l->pids[r] = fork();
        expect(l->pids[r] >= 0);
        if (l->pids[r] == 0)
            be_rank(l, r);
    }
    for (int r = 0; r < RANKS; r++)
        close(l->said[r][1]);
}

static void expect_end(pid_t pid)
{
    int status = 0;
    expect(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void end(loss *l)
{
    for (int r = 0; r < RANKS; r++)
        if (r != l->culprit)
            await_word(l->said[r][0], 's');
    if (l->signal == SIGSTOP) {
        expect(kill(l->pids[l->culprit], SIGCONT) == 0);
        expect_end(l->pids[l->culprit]);
    } else {
        expect(waitpid(l->pids[l->culprit], NULL, 0) == l->pids[l->culprit]);
    }
    for (int r = 0; r < RANKS; r++)
        expect(write(l->go[r][1], "g", 1) == 1);
    for (int r = 0; r < RANKS; r++)
        if (r != l->culprit)
            expect_end(l->pids[r]);
    for (int r = 0; r < RANKS; r++) {
        close(l->said[r][0]);
        close(l->go[r][0]);
        close(l->go[r][1]);
    }
    ranks_folder_empty(&l->folder); /* of the socket of the one that was killed */
    ranks_folder_remove(&l->folder);
}

/* Several at once: each waits for the deadline. */
static void lose(loss *losses, int count)
{
    for (int i = 0; i < count; i++) {
        loss *l = &losses[i];
        begin(l);
        for (int r = 0; r < RANKS; r++)
            await_word(l->said[r][0], 'r');
        expect(kill(l->pids[l->culprit], l->signal) == 0);
    }
    for (int i = 0; i < count; i++)
        end(&losses[i]);
}

static void who_lives_goes_on_after_a_rank_was_lost_in_an_operation(void **state)
{
    (void)state;
    for (int i = 0; i < OPERATIONS; i += AT_ONCE) {
        loss losses[AT_ONCE] = {0};
        int count = 0;
        for (int k = i; k < i + AT_ONCE && k < OPERATIONS; k++)
            losses[count++] = (loss){.call = operations[k],
                                     .culprit = 1 + k % (RANKS - 1),
                                     .signal = k % 2 == 0 ? SIGKILL : SIGSTOP};
        lose(losses, count);
    }
}

static void
who_lives_goes_on_after_each_rank_was_lost_in_each_operation_by_each_signal(void **state)
{
    (void)state;
    for (int k = 0; k < OPERATIONS; k++)
        for (int stopped = 0; stopped < 2; stopped++) {
            loss losses[RANKS - 1] = {0};
            for (int c = 1; c < RANKS; c++)
                losses[c - 1] = (loss){
                    .call = operations[k], .culprit = c, .signal = stopped ? SIGSTOP : SIGKILL};
            lose(losses, RANKS - 1);
            printf("# operation %d, %s: 3 ranks, one after the other\n", k,
                   stopped ? "stopped" : "killed");
        }
}

/* ---- 3, 2, 1 ---- */

static void be_one_of_fewer(const ranks_folder *folder, int rank)
{
    psring_comm *comm = NULL;
    const psring_options options = ranks_options(folder, 3, rank, LOST_MS);
    end_with_parent();
    expect_ok(psring_init(&options, &comm));
    psring_group *group = psring_world(comm);
    for (int left = 3; left > 1; left--) {
        psring_group *living = NULL;
        check_all_operations(group);
        if (rank == left - 1) {
            expect_ok(psring_barrier(group, NULL, NULL)); /* all have checked */
            (void)raise(SIGKILL);
        }
        psring_err err = PSRING_OK;
        while (err == PSRING_OK)
            err = psring_barrier(group, NULL, NULL);
        expect(err == PSRING_ERR_PEER);
        expect_ok(psring_shrink(group, NULL, &living));
        expect(psring_size(living) == left - 1 && psring_epoch(living) == (uint64_t)(4 - left));
        psring_group_free(&group); /* but for the world */
        group = living;
    }
    check_all_operations(group);
    expect_ok(psring_close(&comm));
    _exit(0);
}

static void three_become_two_become_one(void **state)
{
    (void)state;
    ranks_folder folder;
    pid_t pids[3];
    int status = 0;
    ranks_folder_make(&folder);
    for (int r = 0; r < 3; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            be_one_of_fewer(&folder, r);
    }
    for (int r = 1; r < 3; r++)
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFSIGNALED(status) &&
               WTERMSIG(status) == SIGKILL);
    expect_end(pids[0]);
    ranks_folder_empty(&folder);
    ranks_folder_remove(&folder);
}

/* ---- one group alone ---- */

/* A call may end well on one rank when it fails on another, if the first breaks the group before.
 * Where a test wants it to end well on all, the threads meet here, outside of the library. */
static pthread_barrier_t all_are_here;

static void meet(void)
{
    int met = pthread_barrier_wait(&all_are_here);
    expect(met == 0 || met == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void run_ranks(ranks_body *body)
{
    expect(pthread_barrier_init(&all_are_here, NULL, RANKS) == 0);
    ranks_run(RANKS, body, NULL);
    expect(pthread_barrier_destroy(&all_are_here) == 0);
}

/* Ranks 0 and 1, and 2 and 3, have a group each beside the world. */
static psring_group *pair_of(psring_comm *comm)
{
    psring_group *pair = NULL, *world = psring_world(comm);
    expect_ok(psring_group_split(world, psring_rank(world) / 2, 0, NULL, &pair));
    meet();
    return pair;
}

static void expect_whole(const psring_group *group)
{
    psring_failure failure = {.size = sizeof failure};
    expect(psring_group_failure(group, &failure) == PSRING_ERR_NOT_FOUND);
}

static void revoke_pair(psring_comm **comm, int rank, void *context)
{
    psring_group *pair = pair_of(*comm), *again = NULL;
    psring_failure failure = {.size = sizeof failure};
    (void)context;
    if (rank == 2)
        expect_ok(psring_revoke(pair, "the loss is not finite"));
    if (rank == 3) {
        expect(psring_barrier(pair, NULL, NULL) == PSRING_ERR_CANCELLED);
        expect(strstr(psring_err_detail(), "the loss is not finite") != NULL);
    }
    if (rank >= 2) {
        expect_ok(psring_group_failure(pair, &failure));
        expect(failure.err == PSRING_ERR_CANCELLED && failure.rank == 2 && failure.epoch == 0);
        expect_ok(psring_revoke(pair, "again")); /* it is */
        expect(psring_barrier(pair, NULL, NULL) == PSRING_ERR_BROKEN);
        expect_ok(psring_shrink(pair, NULL, &again));
        expect(psring_size(again) == 2 && psring_rank(again) == rank - 2 &&
               psring_epoch(again) == 1);
        check_all_operations(again);
    } else {
        check_all_operations(pair);
    }
    expect_whole(psring_world(*comm));
    check_all_operations(psring_world(*comm));
}

static void a_group_that_is_revoked_is_broken_alone(void **state)
{
    (void)state;
    run_ranks(revoke_pair);
}

static void differ(psring_comm **comm, int rank, void *context)
{
    psring_group *pair = pair_of(*comm);
    float x[4] = {0};
    (void)context;
    if (rank < 2) {
        psring_err err =
            psring_broadcast(pair, x, rank == 0 ? 2 : 3, PSRING_FLOAT32, 0, NULL, NULL);
        if (err == PSRING_OK) /* who only sends hears of it in the next call */
            err = psring_barrier(pair, NULL, NULL);
        expect(err == PSRING_ERR_MISMATCH);
    }
    check_all_operations(psring_world(*comm));
    if (rank >= 2)
        check_all_operations(pair);
}

static void calls_that_differ_break_their_group_alone(void **state)
{
    (void)state;
    run_ranks(differ);
}

/* Rank 1 comes to the pair's barrier when the other has given up. */
static void come_late(psring_comm **comm, int rank, void *context)
{
    psring_group *pair = pair_of(*comm), *world = psring_world(*comm);
    (void)context;
    if (rank == 0) {
        expect(psring_barrier(pair, PSRING_CALL(.deadline_ms = 2500), NULL) == PSRING_ERR_TIMEOUT);
        expect(strstr(psring_err_detail(), "rank 1") != NULL);
    }
    expect_ok(psring_barrier(world, NULL, NULL));
    if (rank == 1) {
        psring_err err = psring_barrier(pair, NULL, NULL);
        if (err == PSRING_OK) /* by what rank 0 sent before it gave up;
                                 of the next one it has sent nothing */
            err = psring_barrier(pair, NULL, NULL);
        expect(err == PSRING_ERR_TIMEOUT);
    }
    check_all_operations(world);
}

static void a_deadline_that_passes_breaks_its_group_alone(void **state)
{
    (void)state;
    run_ranks(come_late);
}

/* ---- how a smaller group comes, or not ---- */

static void shrink_a_whole_group(psring_comm **comm, int rank, void *context)
{
    psring_group *group = psring_world(*comm), *next = NULL;
    (void)context;
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        if (rank != 0) /* the others are in a call */
            expect(psring_barrier(group, NULL, NULL) == PSRING_ERR_CANCELLED);
        expect_ok(psring_shrink(group, NULL, &next));
        expect(psring_size(next) == RANKS && psring_rank(next) == rank &&
               psring_epoch(next) == epoch);
        check_all_operations(next);
        meet();
        group = next;
    }
}

static void a_group_that_is_whole_can_be_made_anew(void **state)
{
    (void)state;
    run_ranks(shrink_a_whole_group);
}

/* Rank 2 has left, and rank 3 does not come at first. */
static void shrink_late(psring_comm **comm, int rank, void *context)
{
    psring_group *pair = NULL, *world = psring_world(*comm), *living = NULL;
    (void)context;
    expect_ok(psring_group_split(world, rank == 2, rank, NULL, &pair));
    if (rank == 2)
        expect_ok(psring_close(comm));
    meet(); /* before it has left, a failure of the world would be its own too */
    if (rank == 2)
        return;
    if (rank != 3) {
        expect(psring_shrink(world, PSRING_CALL(.deadline_ms = SHORT_MS), &living) ==
               PSRING_ERR_TIMEOUT);
        expect(strstr(psring_err_detail(), "rank 3") != NULL && living == NULL);
    }
    expect_ok(psring_barrier(pair, NULL, NULL));
    expect_ok(psring_shrink(world, NULL, &living));
    expect(psring_size(living) == 3 && psring_rank(living) == (rank == 3 ? 2 : rank));
    check_all_operations(living);
    check_all_operations(pair);
}

static void who_does_not_come_is_named_and_it_can_be_tried_again_without_who_has_left(void **state)
{
    (void)state;
    run_ranks(shrink_late);
}

static void alone(psring_comm **comm, int rank, void *context)
{
    psring_group *living = NULL;
    (void)context;
    (void)rank;
    expect_ok(psring_revoke(psring_world(*comm), NULL));
    expect_ok(psring_shrink(psring_world(*comm), NULL, &living));
    check_all_operations(living);
}

static void one_rank_alone_shrinks_to_itself(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    const psring_options options = {.size = sizeof options, .ranks = 1};
    expect_ok(psring_init(&options, &comm));
    alone(&comm, 0, NULL);
    expect_ok(psring_close(&comm));
    ranks_run(1, alone, NULL);
}

static void wrong_arguments(psring_comm **comm, int rank, void *context)
{
    psring_group *living = NULL, *world = psring_world(*comm);
    (void)context;
    (void)rank;
    expect(psring_shrink(world, PSRING_CALL(.deadline_ms = -1), &living) == PSRING_ERR_USAGE);
    expect(psring_shrink(world, PSRING_CALL(.algorithm = "ring"), &living) == PSRING_ERR_USAGE);
    expect_whole(world);
    expect_ok(psring_barrier(world, NULL, NULL));
}

static void wrong_arguments_break_nothing(void **state)
{
    (void)state;
    ranks_run(2, wrong_arguments, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_lives_goes_on_after_a_rank_was_lost_in_an_operation),
        cmocka_unit_test(three_become_two_become_one),
        cmocka_unit_test(a_group_that_is_revoked_is_broken_alone),
        cmocka_unit_test(calls_that_differ_break_their_group_alone),
        cmocka_unit_test(a_deadline_that_passes_breaks_its_group_alone),
        cmocka_unit_test(a_group_that_is_whole_can_be_made_anew),
        cmocka_unit_test(who_does_not_come_is_named_and_it_can_be_tried_again_without_who_has_left),
        cmocka_unit_test(one_rank_alone_shrinks_to_itself),
        cmocka_unit_test(wrong_arguments_break_nothing),
    };
    const struct CMUnitTest all[] = {
        cmocka_unit_test(
            who_lives_goes_on_after_each_rank_was_lost_in_each_operation_by_each_signal),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        return cmocka_run_group_tests(all, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
