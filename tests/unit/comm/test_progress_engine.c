/* Who makes progress, between a loop and a transport that are played here: a message is a number,
 * and is taken by who has the turn. */
#include "tests/unit/expect.h"

#include "comm/progress_engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS ((int64_t)1000000)
#define SOON_NS (60000 * MS_NS) /* more than anything here takes: who waits so long has failed */

/* ---- the played loop and transport ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool woken;
    unsigned messages,
        waiting;     /* that came, and have not been taken; threads in psr_transport_wait */
    bool silent;     /* who waits in the transport is not told of the messages that came */
    int64_t next_ms; /* what the loop answers: INT64_MAX, or how far away */
    psr_err error;   /* the loop's, from now on */
    _Atomic unsigned by_caller, by_thread, passes;
    _Atomic unsigned inside; /* threads with the turn: never two */
    _Atomic bool under_way;
    _Atomic unsigned failures;
    pthread_t caller;
} net = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};

static psr_progress_engine *engine;

/* cmocka's assertions are for the thread of the test alone. */
#define must(is)                                                                                   \
    do {                                                                                           \
        if (!(is))                                                                                 \
            abort();                                                                               \
    } while (0)

static bool is_caller(void)
{
    return pthread_equal(pthread_self(), net.caller);
}

static psr_err pass(void *context, int64_t now_ms, int64_t *ret_next_ms)
{
    must(context == &net);
    must(atomic_fetch_add(&net.inside, 1) == 0);
    atomic_fetch_add(&net.passes, 1);
    pthread_mutex_lock(&net.mutex);
    psr_err err = net.error == PSR_OK ? PSR_OK : psr_fail(net.error, "the network is gone");
    *ret_next_ms = net.next_ms == INT64_MAX ? INT64_MAX : now_ms + net.next_ms;
    pthread_mutex_unlock(&net.mutex);
    atomic_fetch_sub(&net.inside, 1);
    return err;
}

static psr_err take(void *context, int64_t now_ms, bool *ret_any)
{
    must(context == &net);
    (void)now_ms;
    must(atomic_fetch_add(&net.inside, 1) == 0);
    pthread_mutex_lock(&net.mutex);
    bool message = net.messages > 0;
    *ret_any = message || net.woken;
    net.messages -= message;
    if (!message)
        net.woken = false;
    pthread_mutex_unlock(&net.mutex);
    if (message)
        atomic_fetch_add(is_caller() ? &net.by_caller : &net.by_thread, 1);
    atomic_fetch_sub(&net.inside, 1);
    if (message)
        psr_progress_engine_changed(engine);
    return PSR_OK;
}

void psr_transport_wake(psr_transport *transport)
{
    (void)transport;
    pthread_mutex_lock(&net.mutex);
    net.woken = true;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

bool psr_transport_look(psr_transport *transport)
{
    (void)transport;
    return false;
}

/* Without its time: what a test waits for comes by a message, a wake, or never. */
void psr_transport_wait(psr_transport *transport, int timeout_ms)
{
    (void)transport;
    pthread_mutex_lock(&net.mutex);
    net.waiting++;
    pthread_cond_broadcast(&net.condition);
    while ((net.messages == 0 || net.silent) && !net.woken && net.error == PSR_OK &&
           timeout_ms > 1000)
        pthread_cond_wait(&net.condition, &net.mutex);
    net.waiting--;
    pthread_mutex_unlock(&net.mutex);
}

static void deliver(unsigned messages)
{
    pthread_mutex_lock(&net.mutex);
    net.messages += messages;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

static void break_network(void)
{
    pthread_mutex_lock(&net.mutex);
    net.error = PSR_ERR_PEER;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

static void until_somebody_waits(void)
{
    pthread_mutex_lock(&net.mutex);
    while (net.waiting == 0)
        pthread_cond_wait(&net.condition, &net.mutex);
    pthread_mutex_unlock(&net.mutex);
}

/* ---- the owner ---- */

static bool busy(void *context)
{
    must(context == &net);
    return atomic_load(&net.under_way);
}

static void failed(void *context, psr_err err)
{
    must(context == &net);
    must(err == PSR_ERR_PEER);
    must(strcmp(psr_err_detail(), "the network is gone") == 0);
    atomic_fetch_add(&net.failures, 1);
}

static _Atomic unsigned alone_calls;

static int64_t alone(void *context)
{
    must(context == &net);
    atomic_fetch_add(&alone_calls, 1);
    return INT64_MAX;
}

static int open_engine(bool is_alone, bool by_turns)
{
    const psr_progress_engine_options options = {.transport =
                                                     is_alone ? NULL : (psr_transport *)&net,
                                                 .context = &net,
                                                 .pass = pass,
                                                 .take = take,
                                                 .busy = by_turns ? busy : NULL,
                                                 .failed = failed,
                                                 .alone = alone};
    net.woken = false;
    net.messages = 0;
    net.silent = false;
    net.next_ms = INT64_MAX;
    net.error = PSR_OK;
    net.caller = pthread_self();
    atomic_store(&net.by_caller, 0);
    atomic_store(&net.by_thread, 0);
    atomic_store(&net.passes, 0);
    atomic_store(&net.under_way, false);
    atomic_store(&net.failures, 0);
    atomic_store(&alone_calls, 0);
    expect_ok(psr_progress_engine_new(&options, &engine));
    expect_ok(psr_progress_engine_start(engine));
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return open_engine(false, true);
}

static int set_up_alone(void **state)
{
    (void)state;
    return open_engine(true, true);
}

static int tear_down(void **state)
{
    (void)state;
    psr_progress_engine_stop(engine);
    psr_progress_engine_free(engine);
    return 0;
}

static bool taken(void *context)
{
    return atomic_load(&net.by_caller) + atomic_load(&net.by_thread) >= *(const unsigned *)context;
}

static bool is_set(void *context)
{
    return atomic_load((_Atomic bool *)context);
}

static void *deliver_later(void *context)
{
    until_somebody_waits();
    deliver(*(const unsigned *)context);
    return NULL;
}

/* ---- the tests ---- */

/* Once the caller has the turn, which the thread may have had at first. */
static void who_waits_takes_its_messages_itself(void **state)
{
    (void)state;
    for (unsigned round = 1; atomic_load(&net.by_caller) < 20; round++) {
        unsigned one = 1, until = atomic_load(&net.by_caller) + atomic_load(&net.by_thread) + 1;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, deliver_later, &one), 0);
        assert_true(psr_progress_engine_wait(engine, true, taken, &until, SOON_NS));
        pthread_join(thread, NULL);
    }
    assert_int_equal(atomic_load(&net.failures), 0);
}

/* The thread sleeps in the transport, and was told of both when the first one came. */
static void what_the_caller_leaves_unread_the_thread_reads(void **state)
{
    (void)state;
    unsigned one = 1, two = 2;
    until_somebody_waits();
    pthread_mutex_lock(&net.mutex);
    net.silent = true;
    net.messages = 2;
    pthread_mutex_unlock(&net.mutex);
    assert_true(psr_progress_engine_wait(engine, true, taken, &one, SOON_NS));
    assert_int_equal(atomic_load(&net.by_caller), 1);
    assert_true(psr_progress_engine_wait(engine, false, taken, &two, SOON_NS));
    assert_int_equal(atomic_load(&net.by_thread), 1);
}

static void what_is_under_way_goes_on_without_the_caller(void **state)
{
    (void)state;
    unsigned one = 1;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, deliver_later, &one), 0);
    assert_true(
        psr_progress_engine_wait(engine, true, taken, &one, SOON_NS)); /* the thread stands aside */
    pthread_join(thread, NULL);
    atomic_store(&net.under_way, true);
    psr_progress_engine_submit(engine);
    unsigned by_thread = atomic_load(&net.by_thread);
    deliver(3);
    while (atomic_load(&net.by_thread) < by_thread + 3)
        sched_yield();
}

/* The thread lets a caller go first that comes back at once, but not for ever. */
static void after_many_calls_what_is_under_way_goes_on_too(void **state)
{
    (void)state;
    atomic_store(&net.under_way, true);
    for (int i = 0; i < 100; i++)
        psr_progress_engine_submit(engine);
    deliver(3);
    while (atomic_load(&net.by_thread) < 3)
        sched_yield();
}

static void when_the_caller_stays_away_the_thread_comes_back(void **state)
{
    (void)state;
    unsigned one = 1;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, deliver_later, &one), 0);
    assert_true(psr_progress_engine_wait(engine, true, taken, &one, SOON_NS));
    pthread_join(thread, NULL);
    unsigned by_thread = atomic_load(&net.by_thread), passes = atomic_load(&net.passes);
    deliver(1);
    while (atomic_load(&net.by_thread) == by_thread)
        sched_yield();
    assert_true(atomic_load(&net.passes) > passes); /* it heard of the time too */
}

static void who_waits_beside_leaves_the_messages_to_the_thread(void **state)
{
    (void)state;
    for (unsigned until = 1; until <= 20; until++) {
        unsigned one = 1;
        pthread_t thread;
        atomic_store(&net.under_way, true);
        psr_progress_engine_submit(engine);
        assert_int_equal(pthread_create(&thread, NULL, deliver_later, &one), 0);
        assert_true(psr_progress_engine_wait(engine, false, taken, &until, SOON_NS));
        pthread_join(thread, NULL);
    }
    assert_int_equal(atomic_load(&net.by_caller), 0);
    unsigned never = 1000;
    assert_false(psr_progress_engine_wait(engine, false, taken, &never, 10 * MS_NS));
}

static void what_is_submitted_is_taken_over(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        unsigned passes = atomic_load(&net.passes);
        psr_progress_engine_submit(engine);
        while (atomic_load(&net.passes) == passes)
            sched_yield();
    }
}

/* The thread sleeps without end; then something with a deadline is submitted. */
static void an_earlier_deadline_reaches_the_thread_that_sleeps(void **state)
{
    (void)state;
    until_somebody_waits();
    atomic_store(&net.under_way, true);
    pthread_mutex_lock(&net.mutex);
    net.next_ms = 1;
    pthread_mutex_unlock(&net.mutex);
    unsigned passes = atomic_load(&net.passes);
    psr_progress_engine_submit(engine);
    while (atomic_load(&net.passes) <
           passes + 3) /* the caller's, and what the thread hears of the time */
        sched_yield();
}

static void a_wait_ends_at_its_time(void **state)
{
    (void)state;
    unsigned never = 1000;
    pthread_mutex_lock(&net.mutex);
    net.next_ms = 1;
    pthread_mutex_unlock(&net.mutex);
    assert_false(psr_progress_engine_wait(engine, true, taken, &never, 0));
    assert_false(psr_progress_engine_wait(engine, true, taken, &never, 20 * MS_NS));
}

static void *set_later(void *context)
{
    until_somebody_waits();
    atomic_store((_Atomic bool *)context, true);
    psr_progress_engine_changed(engine);
    return NULL;
}

static void a_change_by_any_thread_ends_a_wait(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        _Atomic bool is = false;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, set_later, &is), 0);
        assert_true(psr_progress_engine_wait(engine, true, is_set, &is, SOON_NS));
        pthread_join(thread, NULL);
    }
}

static bool is_over(void *context)
{
    return psr_progress_engine_over(context);
}

static void *break_later(void *context)
{
    (void)context;
    until_somebody_waits();
    break_network();
    return NULL;
}

static void a_failure_is_told_once_and_ends_the_wait(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, break_later, NULL), 0);
    assert_true(psr_progress_engine_wait(engine, true, is_over, engine, SOON_NS));
    pthread_join(thread, NULL);
    unsigned never = 1000;
    assert_false(psr_progress_engine_wait(engine, true, taken, &never, 0));
    assert_int_equal(atomic_load(&alone_calls), 1); /* nobody else does anything now */
    psr_progress_engine_stop(engine);
    assert_int_equal(atomic_load(&net.failures), 1);
}

static void a_failure_in_the_threads_turn_is_told_too(void **state)
{
    (void)state;
    until_somebody_waits();
    break_network();
    while (!psr_progress_engine_over(engine))
        sched_yield();
    assert_int_equal(atomic_load(&net.failures), 1);
    psr_progress_engine_submit(engine); /* nothing comes of it */
    assert_int_equal(atomic_load(&net.failures), 1);
}

static void without_a_loop_the_caller_does_what_there_is(void **state)
{
    (void)state;
    unsigned never = 1;
    assert_true(psr_progress_engine_over(engine));
    assert_false(psr_progress_engine_wait(engine, true, taken, &never, 10 * MS_NS));
    assert_true(atomic_load(&alone_calls) > 0);
    assert_int_equal(atomic_load(&net.passes), 0);
}

/* ---- a thread that has the turn for good ---- */

static int set_up_with_thread(void **state)
{
    (void)state;
    return open_engine(false, false);
}

static void a_thread_of_its_own_takes_every_message_whoever_waits(void **state)
{
    (void)state;
    for (unsigned until = 1; until <= 20; until++) {
        unsigned one = 1;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, deliver_later, &one), 0);
        assert_true(psr_progress_engine_wait(engine, true, taken, &until, SOON_NS));
        pthread_join(thread, NULL);
    }
    assert_int_equal(atomic_load(&net.by_caller), 0);
    unsigned passes = atomic_load(&net.passes);
    psr_progress_engine_submit(engine);
    while (atomic_load(&net.passes) == passes)
        sched_yield();
}

static void a_failure_of_that_thread_is_told_once(void **state)
{
    (void)state;
    until_somebody_waits();
    break_network();
    assert_true(psr_progress_engine_wait(engine, false, is_over, engine, SOON_NS));
    psr_progress_engine_stop(engine);
    assert_int_equal(atomic_load(&net.failures), 1);
}

static void *quit_later(void *context)
{
    until_somebody_waits();
    psr_progress_engine_quit(context);
    return NULL;
}

static void on_the_owners_thread_it_runs_until_it_is_told_to_quit(void **state)
{
    (void)state;
    psr_progress_engine_stop(engine);
    psr_progress_engine_free(engine);
    const psr_progress_engine_options options = {
        .transport = (psr_transport *)&net, .context = &net, .pass = pass, .take = take};
    expect_ok(psr_progress_engine_new(&options, &engine));
    net.woken = false;
    deliver(5);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, quit_later, engine), 0);
    expect_ok(psr_progress_engine_run(engine));
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&net.by_caller), 5);
}

/* The turn goes to and fro while messages come from a third thread: none is lost, and never two
 * have it (pass, take). */
static void *deliver_many(void *context)
{
    for (unsigned i = 0; i < *(const unsigned *)context; i++) {
        deliver(1);
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

static void the_turn_goes_to_and_fro(void **state)
{
    (void)state;
    unsigned all = 20000;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, deliver_many, &all), 0);
    for (unsigned i = 1; i <= all; i += 7) {
        atomic_store(&net.under_way, i % 3 == 0);
        psr_progress_engine_submit(engine);
        assert_true(psr_progress_engine_wait(engine, true, taken, &i, SOON_NS));
        (void)psr_progress_engine_wait(engine, true, taken, &all, 0);
    }
    assert_true(psr_progress_engine_wait(engine, true, taken, &all, SOON_NS));
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&net.by_caller) + atomic_load(&net.by_thread), all);
}

#define DRIVEN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DRIVEN(who_waits_takes_its_messages_itself),
        DRIVEN(what_the_caller_leaves_unread_the_thread_reads),
        DRIVEN(what_is_under_way_goes_on_without_the_caller),
        DRIVEN(after_many_calls_what_is_under_way_goes_on_too),
        DRIVEN(when_the_caller_stays_away_the_thread_comes_back),
        DRIVEN(who_waits_beside_leaves_the_messages_to_the_thread),
        DRIVEN(what_is_submitted_is_taken_over),
        DRIVEN(an_earlier_deadline_reaches_the_thread_that_sleeps),
        DRIVEN(a_wait_ends_at_its_time),
        DRIVEN(a_change_by_any_thread_ends_a_wait),
        DRIVEN(on_the_owners_thread_it_runs_until_it_is_told_to_quit),
        cmocka_unit_test_setup_teardown(a_thread_of_its_own_takes_every_message_whoever_waits,
                                        set_up_with_thread, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_of_that_thread_is_told_once, set_up_with_thread,
                                        tear_down),
        DRIVEN(a_failure_is_told_once_and_ends_the_wait),
        DRIVEN(a_failure_in_the_threads_turn_is_told_too),
        cmocka_unit_test_setup_teardown(without_a_loop_the_caller_does_what_there_is, set_up_alone,
                                        tear_down),
        DRIVEN(the_turn_goes_to_and_fro),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
