/* Several threads in one communicator, waits that are woken, and the descriptor that says that a
 * request has ended. */
#include "tests/unit/psring/ranks.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>

static pthread_t start_thread(void *(*run)(void *), void *context)
{
    pthread_t thread;
    expect(pthread_create(&thread, NULL, run, context) == 0);
    return thread;
}

static void join_thread(pthread_t thread)
{
    expect(pthread_join(thread, NULL) == 0);
}

/* ---- calls at the same time ---- */

enum { SUMS = 1000 };

typedef struct summing {
    psring_group *group;
    int count; /* of values */
} summing;

static void *sum_often(void *context)
{
    const summing *s = context;
    enum { MOST = 300000 };
    float *x = calloc(MOST, sizeof *x);
    const int n = psring_size(s->group), rank = psring_rank(s->group);
    expect(x != NULL && s->count <= MOST);
    for (int k = 0; k < (s->count > 1000 ? SUMS / 20 : SUMS); k++) {
        psring_request *request = NULL;
        for (int i = 0; i < s->count; i++)
            x[i] = (float)(rank + i % 7 + k);
        expect_ok(psring_all_reduce(s->group, x, x, (size_t)s->count, PSRING_FLOAT32, PSRING_SUM,
                                    NULL, k % 2 == 0 ? NULL : &request));
        if (request != NULL)
            expect_ok(psring_wait(request, PSRING_FOREVER));
        psring_request_free(&request);
        for (int i = 0; i < s->count; i++)
            expect(x[i] == (float)(n * (n - 1) / 2 + n * (i % 7 + k)));
    }
    free(x);
    return NULL;
}

static void sum_in_two_threads(psring_comm **comm, int rank, void *context)
{
    summing s[2] = {{.count = ((const int *)context)[0]}, {.count = ((const int *)context)[1]}};
    pthread_t threads[2];
    for (int g = 0; g < 2; g++)
        expect_ok(psring_group_split(psring_world(*comm), 0, rank, NULL, &s[g].group));
    for (int g = 0; g < 2; g++)
        threads[g] = start_thread(sum_often, &s[g]);
    for (int g = 0; g < 2; g++)
        join_thread(threads[g]);
    for (int g = 0; g < 2; g++)
        psring_group_free(&s[g].group);
}

static void two_threads_have_a_group_each(void **state)
{
    (void)state;
    ranks_run(2, sum_in_two_threads, (int[]){1, 100});
    ranks_run(3, sum_in_two_threads, (int[]){1000, 100000}); /* slices, and the progress thread */
    ranks_run(2, sum_in_two_threads, (int[]){1, 300000});
}

typedef struct receiving {
    psring_comm *comm;
    float x;
} receiving;

static void *receive(void *context)
{
    receiving *r = context;
    expect_ok(psring_receive(psring_world(r->comm), &r->x, 1, PSRING_FLOAT32, 1, 5, NULL, NULL));
    return NULL;
}

/* Rank 1 sends what the other thread waits for only when this one has made all its calls. */
static void call_beside_a_wait(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm), *half = NULL;
    float x = 42;
    (void)context;
    receiving r = {.comm = *comm};
    pthread_t thread = rank == 0 ? start_thread(receive, &r) : pthread_self();
    summing s = {.group = world, .count = 10};
    sum_often(&s);
    expect_ok(psring_group_split(world, rank, 0, NULL, &half));
    expect(psring_size(half) == 1);
    psring_group_free(&half);
    void *memory = NULL;
    expect_ok(psring_memory_new(*comm, PSRING_SHARED, 1000, &memory));
    expect_ok(psring_memory_free(*comm, &memory));
    expect_ok(psring_barrier(world, NULL, NULL));
    if (rank == 1)
        expect_ok(psring_send(world, &x, 1, PSRING_FLOAT32, 0, 5, NULL, NULL));
    else
        join_thread(thread);
    expect(rank == 1 || r.x == 42);
}

static void a_wait_lets_other_threads_in(void **state)
{
    (void)state;
    ranks_run(2, call_beside_a_wait, NULL);
}

static void *receive_alone(void *context)
{
    receiving *r = context;
    for (int k = 0; k < SUMS; k++) {
        expect_ok(
            psring_receive(psring_world(r->comm), &r->x, 1, PSRING_FLOAT32, 0, 1, NULL, NULL));
        expect(r->x == (float)k);
    }
    return NULL;
}

static void a_rank_that_is_alone_has_threads_too(void **state)
{
    receiving r = {0};
    (void)state;
    expect_ok(psring_init(PSRING_WITH(psring_options, .ranks = 1), &r.comm));
    pthread_t thread = start_thread(receive_alone, &r);
    for (int k = 0; k < SUMS; k++)
        expect_ok(psring_send(psring_world(r.comm), &(float){(float)k}, 1, PSRING_FLOAT32, 0, 1,
                              NULL, NULL));
    join_thread(thread);
    expect_ok(psring_close(&r.comm));
}

/* ---- the end of a communicator in which a thread is ---- */

typedef struct folding {
    sem_t inside, goes_on;
    _Atomic bool held;
} folding;

/* Only a test may wait here: it holds the call open. */
static void hold(void *context, void *out, const void *a, const void *b, size_t count,
                 psring_type type)
{
    folding *f = context;
    (void)type;
    for (size_t i = 0; i < count; i++)
        ((float *)out)[i] = ((const float *)a)[i] + ((const float *)b)[i];
    if (atomic_exchange(&f->held, true))
        return;
    expect(sem_post(&f->inside) == 0);
    expect(sem_wait(&f->goes_on) == 0);
}

typedef struct reducing {
    psring_group *group;
    psring_op op;
} reducing;

static void *reduce(void *context)
{
    const reducing *r = context;
    float x = 1;
    expect_ok(psring_all_reduce(r->group, &x, &x, 1, PSRING_FLOAT32, r->op,
                                PSRING_CALL(.algorithm = "direct"), NULL));
    expect(x == 2);
    return NULL;
}

static void close_beside_a_call(psring_comm **comm, int rank, void *context)
{
    folding f;
    (void)context;
    expect(sem_init(&f.inside, 0, 0) == 0 && sem_init(&f.goes_on, 0, 0) == 0);
    atomic_store(&f.held, rank == 1);
    reducing r = {.group = psring_world(*comm)};
    const psring_fold fold = {
        .size = sizeof fold, .context = &f, .fold = hold, .commutative = false};
    expect_ok(psring_op_make(*comm, &fold, &r.op));
    pthread_t thread = start_thread(reduce, &r);
    if (rank == 0) {
        expect(sem_wait(&f.inside) == 0);
        psring_comm *same = *comm;
        expect(psring_close(&same) == PSRING_ERR_USAGE && same == *comm);
        expect(strstr(psring_err_detail(), "another thread is in a call") != NULL);
        psring_abort(&same, "it does nothing");
        expect(same == *comm);
        expect(sem_post(&f.goes_on) == 0);
    }
    join_thread(thread);
    sem_destroy(&f.inside);
    sem_destroy(&f.goes_on);
}

static void what_a_thread_is_in_is_not_closed(void **state)
{
    (void)state;
    ranks_run(2, close_beside_a_call, NULL);
}

/* ---- waits that are woken ---- */

static _Atomic(psring_comm *) to_wake;

static void wake_by_signal(int signal)
{
    (void)signal;
    psring_wake(atomic_load(&to_wake));
}

typedef struct waiting {
    psring_request *request;
    int how; /* 0: psring_wait, 1: psring_wait_any, 2: psring_wait_some */
    psring_err err;
} waiting;

static void *wait_for(void *context)
{
    waiting *w = context;
    size_t index[1], count = 0;
    w->err = w->how == 0   ? psring_wait(w->request, PSRING_FOREVER)
             : w->how == 1 ? psring_wait_any(&w->request, 1, PSRING_FOREVER, index)
                           : psring_wait_some(&w->request, 1, PSRING_FOREVER, index, &count);
    return NULL;
}

/* Nothing that is waited for comes before the threads were woken. */
static void be_woken(psring_comm **comm, int rank, void *context)
{
    enum { WAITING = 3, LARGE = 400000 };
    static float large[LARGE];
    psring_group *world = psring_world(*comm);
    float x[WAITING] = {1, 2, 3};
    waiting w[WAITING];
    (void)context;
    if (rank == 0) {
        pthread_t threads[WAITING];
        for (int k = 0; k < WAITING; k++) {
            w[k] = (waiting){.how = k};
            expect_ok(psring_receive(world, k == 0 ? large : &x[k], k == 0 ? LARGE : 1,
                                     PSRING_FLOAT32, 1, (uint32_t)k, NULL, &w[k].request));
        }
        /* a wake before a wait is not lost */
        for (int k = 0; k < WAITING; k++) {
            psring_wake(*comm);
            threads[k] = start_thread(wait_for, &w[k]);
            join_thread(threads[k]);
            expect(w[k].err == PSRING_ERR_BUSY);
            expect(psring_test(w[k].request) == PSRING_ERR_BUSY);
        }
        /* by a signal, during the wait or before it */
        atomic_store(&to_wake, *comm);
        for (int k = 0; k < WAITING; k++) {
            threads[k] = start_thread(wait_for, &w[k]);
            expect(pthread_kill(threads[k], SIGUSR1) == 0);
            join_thread(threads[k]);
            expect(w[k].err == PSRING_ERR_BUSY);
        }
        expect(psring_wait(w[1].request, 1) == PSRING_ERR_BUSY); /* by its time */
    }
    expect_ok(psring_barrier(world, NULL, NULL));
    for (int k = 0; k < WAITING && rank == 1; k++)
        expect_ok(psring_send(world, k == 0 ? large : &x[k], k == 0 ? LARGE : 1, PSRING_FLOAT32, 0,
                              (uint32_t)k, NULL, NULL));
    for (int k = 0; k < WAITING && rank == 0; k++)
        expect_ok(psring_wait(w[k].request, PSRING_FOREVER));
}

static void a_wait_is_woken(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_handler = wake_by_signal, .sa_flags = SA_RESTART};
    struct sigaction before;
    expect(sigaction(SIGUSR1, &action, &before) == 0);
    ranks_run(2, be_woken, NULL);
    expect(sigaction(SIGUSR1, &before, NULL) == 0);
}

static void *wait_until_woken(void *context)
{
    waiting *w = context;
    w->err = psring_wait(w->request, PSRING_FOREVER);
    return NULL;
}

static void a_rank_that_is_alone_is_woken(void **state)
{
    psring_comm *comm = NULL;
    float x = 0;
    waiting w = {0};
    (void)state;
    expect_ok(psring_init(PSRING_WITH(psring_options, .ranks = 1), &comm));
    expect_ok(psring_receive(psring_world(comm), &x, 1, PSRING_FLOAT32, 0, 0, NULL, &w.request));
    for (int k = 0; k < 100; k++) {
        pthread_t thread = start_thread(wait_until_woken, &w);
        psring_wake(comm);
        join_thread(thread);
        expect(w.err == PSRING_ERR_BUSY);
    }
    expect_ok(psring_send(psring_world(comm), &(float){7}, 1, PSRING_FLOAT32, 0, 0, NULL, NULL));
    expect_ok(psring_wait(w.request, PSRING_FOREVER));
    expect(x == 7);
    expect_ok(psring_close(&comm));
}

/* ---- the descriptor ---- */

/* Each step starts some requests, and waits for all of them by poll alone. A lost wake-up ends in
 * the patience of the poll. */
static void poll_for_requests(psring_comm **comm, int rank, void *context)
{
    enum { REQUESTS = 1000, AT_ONCE = 8, PATIENCE_MS = 60000 };
    psring_group *world = psring_world(*comm);
    float x[AT_ONCE];
    psring_request *requests[AT_ONCE] = {NULL};
    int fd = -1, same = -1, ended = 0;
    (void)context;
    psring_event_take(*comm); /* nothing yet */
    expect_ok(psring_event_fd(*comm, &fd));
    expect_ok(psring_event_fd(*comm, &same));
    expect(fd >= 0 && fd == same);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    for (int k = 0; k < REQUESTS; k += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            x[i] = (float)(rank + k + i);
            expect_ok(psring_all_reduce(world, &x[i], &x[i], 1, PSRING_FLOAT32, PSRING_SUM, NULL,
                                        &requests[i]));
        }
        for (int left = AT_ONCE; left > 0;) {
            expect(poll(&polled, 1, PATIENCE_MS) == 1);
            psring_event_take(*comm);
            for (int i = 0; i < AT_ONCE; i++) {
                psring_err err = requests[i] != NULL ? psring_test(requests[i]) : PSRING_ERR_BUSY;
                if (err == PSRING_ERR_BUSY)
                    continue;
                expect(err == PSRING_OK && x[i] == (float)(1 + 2 * (k + i)));
                psring_request_free(&requests[i]);
                left--;
                ended++;
            }
        }
    }
    expect(ended == REQUESTS);
    psring_event_take(*comm);
    expect(poll(&polled, 1, 0) == 0); /* nothing has ended since */
}

static void requests_are_polled_for(void **state)
{
    (void)state;
    ranks_run(2, poll_for_requests, NULL);
}

/* A failure makes it readable too. */
static void poll_for_a_failure(psring_comm **comm, int rank, void *context)
{
    psring_group *group = NULL;
    psring_request *request = NULL;
    float x = 1;
    int fd = -1;
    (void)context;
    expect_ok(psring_group_split(psring_world(*comm), 0, rank, NULL, &group));
    if (rank == 0) {
        expect_ok(psring_event_fd(*comm, &fd));
        expect_ok(psring_receive(group, &x, 1, PSRING_FLOAT32, 1, 0, NULL, &request));
        psring_event_take(*comm);
    }
    expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
    if (rank == 1)
        expect_ok(psring_revoke(group, "enough"));
    while (rank == 0 && psring_test(request) == PSRING_ERR_BUSY) {
        expect(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000) == 1);
        psring_event_take(*comm);
    }
    expect(rank == 1 || psring_test(request) == PSRING_ERR_CANCELLED);
    psring_group_free(&group);
}

static void a_failure_is_polled_for(void **state)
{
    (void)state;
    ranks_run(2, poll_for_a_failure, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_have_a_group_each),
        cmocka_unit_test(a_wait_lets_other_threads_in),
        cmocka_unit_test(a_rank_that_is_alone_has_threads_too),
        cmocka_unit_test(what_a_thread_is_in_is_not_closed),
        cmocka_unit_test(a_wait_is_woken),
        cmocka_unit_test(a_rank_that_is_alone_is_woken),
        cmocka_unit_test(requests_are_polled_for),
        cmocka_unit_test(a_failure_is_polled_for),
    };
    return cmocka_run_group_tests_name("psring: threads", tests, NULL, NULL);
}
