/* Operations that are started and waited for, persistent ones, and groups. */
#include "tests/unit/psring/ranks.h"

#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

enum { COUNT = 50000 };

/* ---- started ---- */

/* Several under way at once; each is waited for in another way. */
static void start_several(psring_comm **comm, int rank, void *context)
{
    enum { REQUESTS = 4 };
    static float x[RANKS_MAX][REQUESTS][COUNT];
    psring_group *world = psring_world(*comm);
    psring_request *requests[REQUESTS + 1] = {NULL};
    int n = psring_size(world), ended = 0;
    (void)context;
    for (int k = 0; k < REQUESTS; k++) {
        for (int i = 0; i < COUNT; i++)
            x[rank][k][i] = (float)(rank + k);
        expect_ok(psring_all_reduce(world, x[rank][k], x[rank][k], COUNT, PSRING_FLOAT32,
                                    PSRING_SUM, NULL, &requests[k]));
    }
    for (; ended < REQUESTS; ended++) {
        size_t index = REQUESTS + 1;
        expect_ok(psring_wait_any(requests, REQUESTS + 1, PSRING_FOREVER, &index));
        expect(index < REQUESTS);
        for (int i = 0; i < COUNT; i++)
            expect(x[rank][index][i] == (float)(n * (n - 1) / 2 + n * (int)index));
        expect_ok(psring_test(requests[index]));
        psring_request_free(&requests[index]);
        expect(requests[index] == NULL);
    }
    expect(psring_wait_any(requests, REQUESTS + 1, 0, &(size_t){0}) == PSRING_ERR_USAGE);

    /* What is not started, or has been told, does not win. */
    float one = 1, other = 2;
    size_t index = 7;
    const psring_call *persistent = PSRING_CALL(.persistent = true);
    expect_ok(psring_all_reduce(world, &one, &one, 1, PSRING_FLOAT32, PSRING_SUM, persistent,
                                &requests[0]));
    expect_ok(psring_all_reduce(world, &other, &other, 1, PSRING_FLOAT32, PSRING_SUM, persistent,
                                &requests[1]));
    expect(psring_wait_any(requests, 2, 0, &index) == PSRING_ERR_NOT_FOUND && index == 7);
    expect_ok(psring_start(requests[1]));
    expect_ok(psring_wait_any(requests, 2, PSRING_FOREVER, &index));
    expect(index == 1 && psring_wait_any(requests, 2, 0, &index) == PSRING_ERR_NOT_FOUND);
    psring_request_free(&requests[0]);
    psring_request_free(&requests[1]);
}

/* What has ended is told once, all of it together; what has not stays. */
static void take_some(psring_comm **comm, int rank, void *context)
{
    enum { MESSAGES = 5 };
    psring_group *world = psring_world(*comm);
    psring_request *requests[MESSAGES + 1] = {NULL};
    int32_t x[MESSAGES] = {0};
    size_t indices[MESSAGES + 1] = {9}, ended = 9, told = 0;
    bool seen[MESSAGES] = {false};
    (void)context;
    if (rank == 1) {
        for (int32_t k = 0; k < MESSAGES; k++) {
            x[k] = k + 1;
            if (k == MESSAGES - 1) /* rank 0 has the others */
                expect_ok(psring_barrier(world, NULL, NULL));
            expect_ok(psring_send(world, &x[k], 1, PSRING_INT32, 0, (uint32_t)k, NULL, NULL));
        }
        return;
    }
    expect(psring_wait_some(requests, MESSAGES, 0, indices, &ended) == PSRING_ERR_USAGE &&
           ended == 9);
    for (int k = 0; k < MESSAGES; k++) /* the one at MESSAGES - 1 is NULL */
        expect_ok(psring_receive(world, &x[k], 1, PSRING_INT32, 1, (uint32_t)k, NULL,
                                 &requests[k < MESSAGES - 1 ? k : MESSAGES]));
    while (told < MESSAGES - 1) {
        expect_ok(psring_wait_some(requests, MESSAGES + 1, PSRING_FOREVER, indices, &ended));
        expect(ended >= 1 && ended <= MESSAGES - 1 - told);
        for (size_t k = 0; k < ended; k++) {
            expect(indices[k] < MESSAGES - 1 && !seen[indices[k]] &&
                   (k == 0 || indices[k] > indices[k - 1]));
            expect(x[indices[k]] == (int32_t)indices[k] + 1);
            seen[indices[k]] = true;
        }
        told += ended;
    }
    ended = 9;
    expect(psring_wait_some(requests, MESSAGES + 1, 20, indices, &ended) == PSRING_ERR_BUSY &&
           ended == 9);
    expect_ok(psring_barrier(world, NULL, NULL));
    expect_ok(psring_wait_some(requests, MESSAGES + 1, PSRING_FOREVER, indices, &ended));
    expect(ended == 1 && indices[0] == MESSAGES && x[MESSAGES - 1] == MESSAGES);
    expect(psring_wait_some(requests, MESSAGES + 1, 0, indices, &ended) == PSRING_ERR_NOT_FOUND);
    expect(psring_wait_some(requests, MESSAGES + 1, -1, indices, &ended) != PSRING_OK);
    expect(psring_wait_some(requests, MESSAGES + 1, 0, NULL, &ended) == PSRING_ERR_USAGE);
    expect(psring_wait_some(requests, MESSAGES + 1, 0, indices, NULL) == PSRING_ERR_USAGE);
    for (int k = 0; k <= MESSAGES; k++)
        psring_request_free(&requests[k]);
}

static void all_that_have_ended_are_taken_together(void **state)
{
    (void)state;
    ranks_run(2, take_some, NULL);
}

/* Of those that fail the first one's line is said, and each is asked for its own. */
static void take_failures(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    psring_request *requests[3] = {NULL};
    int32_t x[3] = {0};
    size_t indices[3], ended = 0, told = 0;
    sem_t *started = context;
    for (int k = 0; k < 3; k++)
        expect_ok(psring_receive(world, &x[k], 1, PSRING_INT32, 1 - rank, (uint32_t)k, NULL,
                                 &requests[k]));
    if (rank == 0) {
        expect(sem_wait(started) == 0);
        expect_ok(psring_revoke(world, "enough"));
    } else {
        expect(sem_post(started) == 0);
    }
    for (; told < 3; told += ended) {
        expect(psring_wait_some(requests, 3, PSRING_FOREVER, indices, &ended) ==
               PSRING_ERR_CANCELLED);
        expect(ended > 0 && strstr(psring_err_detail(), "enough") != NULL);
        for (size_t k = 0; k < ended; k++)
            expect(psring_test(requests[indices[k]]) == PSRING_ERR_CANCELLED);
    }
}

static void failures_are_taken_together_too(void **state)
{
    (void)state;
    sem_t started;
    expect(sem_init(&started, 0, 0) == 0);
    ranks_run(2, take_failures, &started);
    sem_destroy(&started);
}

static void several_operations_are_under_way_at_once(void **state)
{
    (void)state;
    ranks_run(3, start_several, NULL);
}

/* What one costs does not grow with how many there are: or who looks at all of them with each
 * message says nothing until it is taken for dead. */
static void start_very_many(psring_comm **comm, int rank, void *context)
{
    enum { REQUESTS = 20000 };
    psring_group *world = psring_world(*comm);
    psring_request **requests = calloc(REQUESTS, sizeof(psring_request *));
    int32_t *x = calloc(REQUESTS, sizeof *x);
    int n = psring_size(world);
    (void)context;
    expect(requests != NULL && x != NULL);
    for (int k = 0; k < REQUESTS; k++) {
        x[k] = rank + k;
        expect_ok(psring_all_reduce(world, &x[k], &x[k], 1, PSRING_INT32, PSRING_SUM, NULL,
                                    &requests[k]));
    }
    for (int k = REQUESTS - 1; k >= 0; k--) {
        expect_ok(psring_wait(requests[k], PSRING_FOREVER));
        expect(x[k] == n * (n - 1) / 2 + n * k);
    }
    for (int k = 0; k < REQUESTS; k++)
        psring_request_free(&requests[k]);
    for (uint32_t tag = 0; tag < 2000; tag++)
        expect_ok(rank == 0 ? psring_send(world, x, 1, PSRING_INT32, 1, tag, NULL, NULL)
                            : psring_receive(world, x, 1, PSRING_INT32, 0, tag, NULL, NULL));
    free(requests);
    free(x);
}

static void very_many_operations_are_under_way_at_once(void **state)
{
    (void)state;
    ranks_run(2, start_very_many, NULL);
}

/* What the other rank has not begun has not ended. */
static void be_busy(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    float x = 1;
    psring_request *request = NULL;
    size_t index = 7;
    (void)context;
    if (rank == 0) {
        expect_ok(psring_receive(world, &x, 1, PSRING_FLOAT32, 1, 0, NULL, &request));
        expect(psring_test(request) == PSRING_ERR_BUSY);
        expect(psring_wait(request, 20) == PSRING_ERR_BUSY);
        expect(psring_wait_any(&request, 1, 20, &index) == PSRING_ERR_BUSY && index == 7);
        expect(psring_start(request) == PSRING_ERR_USAGE); /* not persistent */
    }
    expect_ok(psring_barrier(world, NULL, NULL));
    if (rank == 1) {
        x = 42;
        expect_ok(psring_send(world, &x, 1, PSRING_FLOAT32, 0, 0, NULL, NULL));
        return;
    }
    expect_ok(psring_wait(request, PSRING_FOREVER));
    expect(x == 42);
    psring_request_free(&request);
}

static void what_has_not_ended_is_busy(void **state)
{
    (void)state;
    ranks_run(2, be_busy, NULL);
}

/* ---- signals ---- */

enum {
    /* at most: who is interrupted without end goes on no more on a slow machine */
    SIGNALS = 5000
};

static _Atomic unsigned signals;
static timer_t often;

static void count_signal(int number)
{
    (void)number;
    if (atomic_fetch_add(&signals, 1) + 1 == SIGNALS)
        timer_settime(often, 0, &(struct itimerspec){0}, NULL);
}

/* A program's timer interrupts whatever its calls wait in. */
static void be_interrupted(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    int n = psring_size(world);
    expect(pthread_sigmask(SIG_UNBLOCK, context, NULL) == 0);
    for (int round = 0; round < 1000; round++) {
        int32_t x[2] = {rank + round, rank};
        psring_request *request = NULL;
        expect_ok(psring_all_reduce(world, &x[0], &x[0], 1, PSRING_INT32, PSRING_SUM, NULL, NULL));
        expect(x[0] == n * (n - 1) / 2 + n * round);
        expect_ok(
            psring_all_reduce(world, &x[1], &x[1], 1, PSRING_INT32, PSRING_SUM, NULL, &request));
        expect_ok(psring_wait(request, PSRING_FOREVER));
        expect(x[1] == n * (n - 1) / 2);
        psring_request_free(&request);
    }
}

static void a_programs_signals_disturb_no_call(void **state)
{
    /* without SA_RESTART: calls of the system are interrupted */
    const struct sigaction counts = {.sa_handler = count_signal};
    struct sigaction before;
    const struct itimerspec times = {{0, 20000}, {0, 20000}};
    struct sigevent alarm = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    sigset_t alarms, mask;
    (void)state;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    expect(sigaction(SIGALRM, &counts, &before) == 0);
    expect(pthread_sigmask(SIG_BLOCK, &alarms, &mask) == 0); /* so they go to the ranks' threads */
    expect(timer_create(CLOCK_MONOTONIC, &alarm, &often) == 0);
    expect(timer_settime(often, 0, &times, NULL) == 0);
    ranks_run(2, be_interrupted, &alarms);
    expect(timer_delete(often) == 0);
    expect(pthread_sigmask(SIG_SETMASK, &mask, NULL) == 0); /* what is pending comes now */
    expect(sigaction(SIGALRM, &before, NULL) == 0);
    assert_true(atomic_load(&signals) > 0);
}

/* ---- persistent ---- */

/* Made in one order, started in another one on each rank, many times. */
static void start_again(psring_comm **comm, int rank, void *context)
{
    enum { REQUESTS = 3, ROUNDS = 20 };
    psring_group *world = psring_world(*comm);
    float x[REQUESTS];
    psring_request *requests[REQUESTS];
    int n = psring_size(world);
    (void)context;
    for (int k = 0; k < REQUESTS; k++) {
        expect_ok(psring_all_reduce(world, &x[k], &x[k], 1, PSRING_FLOAT32, PSRING_SUM,
                                    PSRING_CALL(.persistent = true), &requests[k]));
        expect_ok(psring_test(requests[k])); /* it was never started */
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < REQUESTS; k++) {
            int turn = (k + rank + round) % REQUESTS;
            x[turn] = (float)(rank + turn * round);
            expect_ok(psring_start(requests[turn]));
        }
        expect_ok(psring_barrier(world, NULL, NULL)); /* the order of calls goes on beside */
        for (int k = 0; k < REQUESTS; k++) {
            expect_ok(psring_wait(requests[k], PSRING_FOREVER));
            expect(x[k] == (float)(n * (n - 1) / 2 + n * k * round));
        }
    }
    expect(strcmp(psring_algorithm(requests[0]), "direct") == 0);
    for (int k = 0; k < REQUESTS; k++)
        psring_request_free(&requests[k]);
    expect(psring_all_reduce(world, x, x, 1, PSRING_FLOAT32, PSRING_SUM,
                             PSRING_CALL(.persistent = true), NULL) == PSRING_ERR_USAGE);
}

static void persistent_operations_are_started_in_any_order(void **state)
{
    (void)state;
    ranks_run(3, start_again, NULL);
}

static void start_messages_again(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    psring_request *request = NULL;
    int32_t x = 0;
    (void)context;
    expect_ok(rank == 0 ? psring_send(world, &x, 1, PSRING_INT32, 1, 3,
                                      PSRING_CALL(.persistent = true), &request)
                        : psring_receive(world, &x, 1, PSRING_INT32, 0, 3,
                                         PSRING_CALL(.persistent = true), &request));
    for (int32_t round = 1; round <= 10; round++) {
        if (rank == 0)
            x = round;
        expect_ok(psring_start(request));
        expect_ok(psring_wait(request, PSRING_FOREVER));
        expect(x == round);
    }
    psring_request_free(&request);
}

static void persistent_messages_are_sent_again(void **state)
{
    (void)state;
    ranks_run(2, start_messages_again, NULL);
}

/* What is not freed ends with the communicator. */
static void leave_all_behind(psring_comm **comm, int rank, void *context)
{
    static float x[RANKS_MAX][COUNT];
    psring_request *request = NULL;
    psring_group *group = NULL;
    (void)context;
    expect_ok(psring_group_split(psring_world(*comm), rank % 2, 0, NULL, &group));
    expect_ok(psring_all_reduce(group, x[rank], x[rank], COUNT, PSRING_FLOAT32, PSRING_SUM, NULL,
                                &request));
    expect_ok(psring_all_reduce(psring_world(*comm), x[rank], x[rank], 1, PSRING_FLOAT32,
                                PSRING_SUM, PSRING_CALL(.persistent = true), &request));
}

static void what_was_not_freed_ends_with_the_communicator(void **state)
{
    (void)state;
    ranks_run(4, leave_all_behind, NULL);
}

/* ---- groups ---- */

static int32_t sum_in(psring_group *group, int32_t x)
{
    expect_ok(psring_all_reduce(group, &x, &x, 1, PSRING_INT32, PSRING_SUM, NULL, NULL));
    return x;
}

/* By colour, in the other order. */
static void split(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm), *half = NULL, *none = world;
    (void)context;
    expect_ok(psring_group_split(world, rank % 2, -rank, NULL, &half));
    expect(psring_size(half) == (rank % 2 == 0 ? 3 : 2));
    expect(psring_rank(half) == psring_size(half) - 1 - rank / 2);
    expect(psring_group_translate(half, 0, world) == (rank % 2 == 0 ? 4 : 3));
    expect(psring_group_translate(world, rank, half) == psring_rank(half));
    expect(psring_group_translate(world, (rank + 1) % 2, half) == PSRING_NO_RANK);
    expect(psring_group_translate(world, 9, half) == PSRING_NO_RANK);
    expect(sum_in(half, rank) == (rank % 2 == 0 ? 6 : 4));
    expect(sum_in(world, rank) == 10);
    expect_ok(psring_group_split(world, rank == 3 ? 0 : PSRING_NO_COLOUR, 0, NULL, &none));
    expect((none == NULL) == (rank != 3) && (none == NULL || sum_in(none, 7) == 7));
    expect(psring_group_split(world, -2, 0, NULL, &none) == PSRING_ERR_USAGE);
    psring_group_free(&none);
    psring_group_free(&half);
    expect(half == NULL);
    psring_group_free(&world); /* left alone */
    expect(world != NULL && sum_in(world, 1) == 5);
}

static void a_split_has_its_own_order_of_calls(void **state)
{
    (void)state;
    ranks_run(5, split, NULL);
}

/* Rank 0 revokes it as soon as it has it, when others may not have it yet: they have it too, and
 * hear why it failed in its first call. */
static void revoke_at_once(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    (void)context;
    for (int round = 0; round < 200; round++) {
        psring_group *group = NULL;
        expect_ok(round % 2 == 0 ? psring_group_split(world, 0, 0, NULL, &group)
                                 : psring_group_on_host(world, NULL, &group));
        expect(group != NULL && psring_size(group) == psring_size(world));
        if (rank == 0)
            expect_ok(psring_revoke(group, "enough"));
        psring_err err = psring_barrier(group, NULL, NULL);
        expect(err == (rank == 0 ? PSRING_ERR_BROKEN : PSRING_ERR_CANCELLED));
        expect(strstr(psring_err_detail(), "enough") != NULL);
        psring_group_free(&group);
        expect(sum_in(world, 1) == psring_size(world));
    }
}

static void a_group_that_fails_while_it_is_made_is_had_by_all(void **state)
{
    (void)state;
    ranks_run(5, revoke_at_once, NULL);
}

/* Overlapping groups of listed ranks, each called by those alone. */
static void list(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm), *ends = NULL, *row = NULL, *local = NULL;
    const int of_ends[] = {3, 0}, of_row[] = {1, 2, 3}, twice[] = {rank, rank},
              beyond[] = {rank, 4};
    int size = 0;
    (void)context;
    if (rank == 0 || rank == 3) {
        expect_ok(psring_group_from_ranks(world, of_ends, 2, NULL, &ends));
        expect(psring_rank(ends) == (rank == 3 ? 0 : 1) && sum_in(ends, rank) == 3);
    }
    if (rank > 0) {
        expect_ok(psring_group_from_ranks(world, of_row, 3, NULL, &row));
        expect(psring_rank(row) == rank - 1 && sum_in(row, rank) == 6);
    }
    for (int round = 0; round < 10 && ends != NULL; round++)
        expect(sum_in(ends, 1) == 2);
    expect(psring_group_from_ranks(world, twice, 2, NULL, &local) == PSRING_ERR_USAGE);
    expect(psring_group_from_ranks(world, beyond, 2, NULL, &local) == PSRING_ERR_USAGE);
    expect(psring_group_from_ranks(world, &(int){(rank + 1) % 4}, 1, NULL, &local) ==
           PSRING_ERR_USAGE);
    expect_ok(psring_group_on_host(world, NULL, &local)); /* all are on this one */
    expect(psring_size(local) == 4 && psring_rank(local) == rank && sum_in(local, 1) == 4);
    expect(psring_local_rank(world, &size) == rank && size == 4 &&
           psring_local_rank(world, NULL) == rank);
    expect(strcmp(psring_host(world, 0), psring_host(world, 3)) == 0 &&
           psring_host(world, 4) == NULL);
    psring_group_free(&ends);
    psring_group_free(&row);
    psring_group_free(&local);
    expect(sum_in(world, rank) == 6);
}

static void groups_of_listed_ranks_overlap(void **state)
{
    (void)state;
    ranks_run(4, list, NULL);
}

static void disagree(psring_comm **comm, int rank, void *context)
{
    psring_group *group = NULL;
    const int ranks[2][3] = {{0, 1, 2}, {0, 1}};
    int32_t nothing = 0;
    (void)context;
    /* the third hears of it in whatever it does */
    psring_err err =
        rank == 2
            ? psring_receive(psring_world(*comm), &nothing, 1, PSRING_INT32, 0, 0, NULL, NULL)
            : psring_group_from_ranks(psring_world(*comm), ranks[rank], 3 - rank, NULL, &group);
    expect(err == PSRING_ERR_MISMATCH &&
           strstr(psring_err_detail(), "rank 0 makes a group") != NULL);
}

static void lists_that_differ_are_a_mismatch(void **state)
{
    (void)state;
    ranks_run(3, disagree, NULL);
}

/* ---- counts ---- */

static psring_counts counts_of(psring_comm *comm)
{
    psring_counts counts = {.size = sizeof counts};
    expect_ok(psring_counts_get(comm, &counts));
    return counts;
}

/* Rank 1 waits in vain for a moment, and then asks for the message. */
static void count(psring_comm **comm, int rank, void *context)
{
    enum { VALUES = 1000 };
    double x[VALUES] = {0};
    psring_group *world = psring_world(*comm);
    psring_request *request = NULL;
    (void)context;
    expect_ok(psring_barrier(world, NULL, NULL));
    psring_counts before = counts_of(*comm);
    if (rank == 1) {
        expect_ok(psring_receive(world, x, VALUES, PSRING_FLOAT64, 0, 0, NULL, &request));
        expect(psring_wait(request, 20) == PSRING_ERR_BUSY);
    }
    expect_ok(psring_barrier(world, NULL, NULL));
    if (rank == 0)
        expect_ok(psring_send(world, x, VALUES, PSRING_FLOAT64, 1, 0, NULL, NULL));
    else
        expect_ok(psring_wait(request, PSRING_FOREVER));
    psring_counts after = counts_of(*comm);
    expect(after.messages_sent > before.messages_sent &&
           after.messages_received > before.messages_received);
    expect((after.bytes_sent - before.bytes_sent >= sizeof x) == (rank == 0));
    expect((after.bytes_received - before.bytes_received >= sizeof x) == (rank == 1));
    expect(after.strangers == 0 && after.waited_s >= before.waited_s);
    expect(rank == 0 || after.waited_s > before.waited_s);
    psring_counts wrong = {.size = 1};
    expect(psring_counts_get(*comm, &wrong) == PSRING_ERR_USAGE &&
           psring_counts_get(*comm, NULL) == PSRING_ERR_USAGE);
    psring_request_free(&request);
}

static void what_is_sent_and_received_and_how_long_calls_waited_is_counted(void **state)
{
    (void)state;
    ranks_run(2, count, NULL);
}

static void who_is_alone_counts_nothing(void **state)
{
    psring_comm *comm = NULL;
    const psring_options options = {.size = sizeof options, .ranks = 1};
    (void)state;
    expect_ok(psring_init(&options, &comm));
    expect_ok(psring_barrier(psring_world(comm), NULL, NULL));
    psring_counts counts = counts_of(comm);
    expect(counts.messages_sent == 0 && counts.messages_received == 0 && counts.bytes_sent == 0);
    expect_ok(psring_close(&comm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_operations_are_under_way_at_once),
        cmocka_unit_test(very_many_operations_are_under_way_at_once),
        cmocka_unit_test(all_that_have_ended_are_taken_together),
        cmocka_unit_test(failures_are_taken_together_too),
        cmocka_unit_test(what_has_not_ended_is_busy),
        cmocka_unit_test(a_programs_signals_disturb_no_call),
        cmocka_unit_test(persistent_operations_are_started_in_any_order),
        cmocka_unit_test(persistent_messages_are_sent_again),
        cmocka_unit_test(what_was_not_freed_ends_with_the_communicator),
        cmocka_unit_test(a_split_has_its_own_order_of_calls),
        cmocka_unit_test(a_group_that_fails_while_it_is_made_is_had_by_all),
        cmocka_unit_test(groups_of_listed_ranks_overlap),
        cmocka_unit_test(lists_that_differ_are_a_mismatch),
        cmocka_unit_test(what_is_sent_and_received_and_how_long_calls_waited_is_counted),
        cmocka_unit_test(who_is_alone_counts_nothing),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
