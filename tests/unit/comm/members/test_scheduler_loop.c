/* The loop of the three schedulers on a simulated transport: in which order it does what, and when
 * it lets time pass. */
#include "tests/unit/network_fixture.h"

#include "base/clock.h"
#include "comm/members/scheduler_loop.h"

enum { DEADLINE_MS = 600000, MANY = 2 * PSR_SCHEDULER_BURST + 7, CALLS_MAX = 64 };

static const psr_peer w0 = {PSR_ROLE_WORKER, 0};

typedef struct fixture {
    psr_sim *sim;
    psr_transport *at, *from;
    psr_scheduler_loop loop;
    size_t taken, over_at; /* messages; of so many the loop ends */
    size_t ticks, over_at_ticks;
    /* 'm' for a run of messages, 'b' between, 't' tick, 'f' failed */
    char calls[CALLS_MAX];
    size_t call_count;
} fixture;

static void note(fixture *f, char call)
{
    if (call == 'm' && f->call_count > 0 && f->calls[f->call_count - 1] == 'm')
        return;
    assert_true(f->call_count < CALLS_MAX - 1);
    f->calls[f->call_count++] = call;
}

static void take(void *context, psr_message *message, int64_t now_ms)
{
    fixture *f = context;
    assert_true(now_ms <= psr_clock_ms());
    f->taken++;
    psr_message_free(&message);
    note(f, 'm');
}

static void fail_loop(void *context, psr_err err)
{
    (void)err;
    note(context, 'f');
}

static bool between(void *context, int64_t now_ms)
{
    (void)now_ms;
    note(context, 'b');
    return false;
}

static void tick_loop(void *context, int64_t now_ms)
{
    fixture *f = context;
    (void)now_ms;
    f->ticks++;
    note(f, 't');
}

static int64_t next_ms(void *context)
{
    (void)context;
    return 0; /* at once */
}

static bool over(void *context)
{
    const fixture *f = context;
    return f->taken >= f->over_at || f->ticks >= f->over_at_ticks;
}

static int set_up(void **state)
{
    static fixture f;
    f = (fixture){.over_at = SIZE_MAX, .over_at_ticks = 1};
    const psr_sim_faults none = {.seed = 1};
    assert_ok(psr_sim_new(&none, &f.sim));
    assert_ok(psr_transport_sim_new(f.sim, scheduler, &f.at));
    assert_ok(psr_transport_sim_new(f.sim, w0, &f.from));
    assert_ok(psr_transport_connect(f.from, scheduler, psr_transport_endpoint(f.at), NULL));
    f.loop = (psr_scheduler_loop){.transport = f.at,
                                  .deadline_ms = DEADLINE_MS,
                                  .context = &f,
                                  .take = take,
                                  .failed = fail_loop,
                                  .between = between,
                                  .tick = tick_loop,
                                  .next_ms = next_ms,
                                  .over = over};
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    psr_transport_free(&f->from, 0);
    psr_transport_free(&f->at, 0);
    psr_sim_free(f->sim);
    return 0;
}

static void deliver(fixture *f)
{
    psr_peer to;
    while (psr_sim_step(f->sim, &to))
        ;
}

static void say(fixture *f, size_t count)
{
    const psr_head head = {.type = PSR_MSG_DONE};
    for (size_t i = 0; i < count; i++)
        assert_ok(psr_transport_send(f->from, scheduler, &head, NULL));
    deliver(f);
}

static void time_passes_when_the_inbox_is_empty_and_orders_do_not_wait_for_that(void **state)
{
    fixture *f = *state;
    say(f, MANY);
    psr_scheduler_loop_run(&f->loop);
    assert_int_equal(f->taken, MANY);
    assert_string_equal(f->calls, "mbmbmbt");
}

static void time_passes_after_two_deadlines_though_there_is_no_end_of_messages(void **state)
{
    fixture *f = *state;
    f->loop.deadline_ms = -1; /* they have passed at once */
    say(f, MANY);
    psr_scheduler_loop_run(&f->loop);
    assert_int_equal(f->taken, PSR_SCHEDULER_BURST);
    assert_string_equal(f->calls, "mbt");
}

static void the_loop_ends_with_the_message_that_ends_it(void **state)
{
    fixture *f = *state;
    f->over_at = 3;
    say(f, MANY);
    psr_scheduler_loop_run(&f->loop);
    assert_int_equal(f->taken, 3);
    assert_int_equal(f->ticks, 0);
}

static void
a_coordinator_reaches_members_over_the_transport_also_of_a_name_that_was_here(void **state)
{
    fixture *f = *state;
    const psr_provision provision = {0};
    const psr_head head = {.type = PSR_MSG_BYE};
    f->loop.provision = &provision;
    const psr_coordinator_ways ways = psr_scheduler_loop_ways(&f->loop);
    for (int i = 0; i < 2; i++) {
        psr_message *message = NULL;
        assert_ok(ways.connect(ways.context, w0, psr_transport_endpoint(f->from)));
        assert_ok(ways.send(ways.context, w0, &head, NULL));
        deliver(f);
        assert_ok(psr_transport_recv(f->from, 0, &message));
        assert_int_equal(message->head.type, PSR_MSG_BYE);
        psr_message_free(&message);
    }
    ways.cut(ways.context, w0);
    assert_int_not_equal(ways.send(ways.context, w0, &head, NULL), PSR_OK);
}

int main(void)
{
#define LOOP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LOOP(time_passes_when_the_inbox_is_empty_and_orders_do_not_wait_for_that),
        LOOP(time_passes_after_two_deadlines_though_there_is_no_end_of_messages),
        LOOP(the_loop_ends_with_the_message_that_ends_it),
        LOOP(a_coordinator_reaches_members_over_the_transport_also_of_a_name_that_was_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
