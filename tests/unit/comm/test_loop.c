/* The progress loop between a transport and a member that are played here: the transport's recv
 * hands out what a test has put into the inbox, and says CANCELLED when a wake is all that there
 * is. */
#include "tests/unit/expect.h"

#include "comm/operations/loan.h"
#include "comm/loop.h"
#include "comm/wire/messages.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- the network ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool woken;
    psr_message *inbox[16];
    uint32_t inbox_count;
    psr_message *early;
    int64_t heard_ms;
    psr_err error; /* recv's from now on */
    psr_message_type sent[16];
    uint32_t sent_count;
    psr_payload loan; /* of the last lent payload, until the test gives it back */
    psr_transport_watcher watcher;
    uint32_t failed; /* FAILEDs told */
    bool gave_back;
    char line[64];
} net = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};

psr_err psr_transport_send(psr_transport *transport, psr_peer to, const psr_head *head,
                           const psr_payload *payload)
{
    (void)transport;
    (void)to;
    pthread_mutex_lock(&net.mutex);
    net.sent[net.sent_count++] = head->type;
    if (payload != NULL && head->type == PSR_MSG_PUSH)
        net.loan = *payload;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
    if (payload != NULL && payload->release != NULL && head->type != PSR_MSG_PUSH)
        payload->release(payload->context);
    return PSR_OK;
}

void psr_transport_watch(psr_transport *transport, const psr_transport_watcher *watcher)
{
    (void)transport;
    net.watcher = watcher != NULL ? *watcher : (psr_transport_watcher){.seen = NULL};
}

void psr_transport_give_back(psr_transport *transport)
{
    (void)transport;
    net.gave_back = true;
}

size_t psr_transport_waiting(const psr_transport *transport, psr_peer peer)
{
    (void)transport, (void)peer;
    return 0;
}

bool psr_transport_lends_to(const psr_transport *transport, psr_peer peer)
{
    (void)transport, (void)peer;
    return false;
}

void psr_transport_wake(psr_transport *transport)
{
    (void)transport;
    pthread_mutex_lock(&net.mutex);
    net.woken = true;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

psr_err psr_transport_recv(psr_transport *transport, int timeout_ms, psr_message **ret_message)
{
    (void)transport;
    assert_int_equal(timeout_ms, 0);
    psr_err err = PSR_OK;
    pthread_mutex_lock(&net.mutex);
    if (net.inbox_count > 0) {
        *ret_message = net.inbox[0];
        memmove(net.inbox, net.inbox + 1, --net.inbox_count * sizeof net.inbox[0]);
    } else if (net.error != PSR_OK) {
        err = psr_fail(net.error, "worker 1 on host7 died");
    } else {
        err = net.woken ? PSR_ERR_CANCELLED : PSR_ERR_TIMEOUT;
        net.woken = false;
    }
    pthread_mutex_unlock(&net.mutex);
    return err;
}

/* Without its time: what a test waits for comes by a message, a wake, or never. */
bool psr_transport_look(psr_transport *transport)
{
    (void)transport;
    return false;
}

void psr_transport_wait(psr_transport *transport, int timeout_ms)
{
    (void)transport;
    if (timeout_ms == 0)
        abort(); /* that would be polling */
    pthread_mutex_lock(&net.mutex);
    while (net.inbox_count == 0 && !net.woken && net.error == PSR_OK)
        pthread_cond_wait(&net.condition, &net.mutex);
    pthread_mutex_unlock(&net.mutex);
}

psr_message *psr_member_early(psr_member *member)
{
    (void)member;
    psr_message *early = net.early;
    net.early = NULL;
    return early;
}

/* ALIVE is the member's own. */
psr_err psr_member_message(psr_member *member, psr_message **message, int64_t now_ms)
{
    (void)member;
    net.heard_ms = now_ms;
    if ((*message)->head.type == PSR_MSG_ALIVE)
        psr_message_free(message);
    return PSR_OK;
}

psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms)
{
    (void)member;
    *ret_next_ms = now_ms + 100;
    return PSR_OK;
}

void psr_member_failed(psr_member *member, psr_err status, const char *line)
{
    (void)member;
    (void)status;
    pthread_mutex_lock(&net.mutex);
    net.failed++;
    strncpy(net.line, line, sizeof net.line - 1);
    pthread_mutex_unlock(&net.mutex);
}

static _Atomic unsigned freed;

static void release_message(psr_message *message)
{
    atomic_fetch_add(&freed, 1);
    free(message);
}

static void deliver(psr_role from, psr_message_type type)
{
    psr_message *message = calloc(1, sizeof *message);
    *message = (psr_message){.from = {from, 0}, .head = {.type = type}, .release = release_message};
    pthread_mutex_lock(&net.mutex);
    net.inbox[net.inbox_count++] = message;
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

static void until_sent(uint32_t count)
{
    pthread_mutex_lock(&net.mutex);
    while (net.sent_count < count)
        pthread_cond_wait(&net.condition, &net.mutex);
    pthread_mutex_unlock(&net.mutex);
}

/* ---- the owner ---- */

enum { NUMBERED = PSR_COMMAND_OWNER };

static struct {
    psr_loop *loop;
    _Atomic uint64_t steps; /* of the commands taken, all of them together */
    uint32_t registered, others, woken;
    bool quits_when_woken;
    psr_message *kept;
    psr_loan loan;
} owner;

static psr_err take_command(void *context, const psr_command *command)
{
    assert_ptr_equal(context, &owner);
    assert_int_equal(command->kind, NUMBERED);
    atomic_store(&owner.steps, atomic_load(&owner.steps) * 10 + command->step);
    psr_loop_changed(owner.loop);
    return PSR_OK;
}

static psr_err take_registered(void *context, psr_message **message)
{
    assert_ptr_equal(context, &net);
    owner.registered++;
    psr_message_free(&owner.kept);
    owner.kept = *message; /* it may take it */
    *message = NULL;
    return PSR_OK;
}

/* BYE ends the loop, ACK lends something, FAILED fails. */
static psr_err take_other(void *context, psr_message **message)
{
    assert_ptr_equal(context, &owner);
    owner.others++;
    if ((*message)->head.type == PSR_MSG_BYE)
        psr_loop_quit(owner.loop);
    if ((*message)->head.type == PSR_MSG_FAILED)
        return psr_fail(PSR_ERR_PROTOCOL, "that is not for us");
    if ((*message)->head.type != PSR_MSG_ACK)
        return PSR_OK;
    const psr_outbox outbox = psr_loop_outbox(owner.loop);
    const psr_payload payload =
        psr_loan_payload(&owner.loan, (psr_payload){.data = "abcd", .bytes = 4});
    return outbox.send(outbox.context, (psr_peer){0}, &(psr_head){.type = PSR_MSG_PUSH}, &payload);
}

static psr_err take_wake(void *context)
{
    assert_ptr_equal(context, &owner);
    owner.woken++;
    if (owner.quits_when_woken)
        psr_loop_quit(owner.loop);
    return PSR_OK;
}

static int set_up(void **state)
{
    (void)state;
    const psr_loop_options options = {.transport = (psr_transport *)&net,
                                      .commands_max = 16,
                                      .context = &owner,
                                      .command = take_command,
                                      .message = take_other,
                                      .woken = take_wake};
    memset(&owner, 0, sizeof owner);
    net.woken = false;
    net.error = PSR_OK;
    net.sent_count = net.failed = 0;
    net.gave_back = false;
    atomic_store(&freed, 0);
    expect_ok(psr_loop_new(&options, &owner.loop));
    const psr_outbox outbox = psr_loop_outbox(owner.loop);
    psr_loan_init(&owner.loan, &outbox);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_loop_stop(owner.loop);
    psr_loop_free(owner.loop);
    psr_message_free(&owner.kept);
    while (net.inbox_count > 0)
        psr_message_free(&net.inbox[--net.inbox_count]);
    return 0;
}

static bool submit(uint64_t step)
{
    return psr_loop_submit(owner.loop, &(psr_command){.kind = NUMBERED, .step = step});
}

static bool submit_message(size_t bytes)
{
    psr_outgoing *message = calloc(1, sizeof *message + bytes);
    *message = (psr_outgoing){.head = {.type = PSR_MSG_METRICS}, .bytes = bytes};
    return psr_loop_submit(owner.loop, &(psr_command){.kind = PSR_COMMAND_SEND, .object = message});
}

static bool three_were_taken(void *context)
{
    assert_ptr_equal(context, &owner);
    return atomic_load(&owner.steps) == 123;
}

static bool nothing_is_lent(void *context)
{
    assert_ptr_equal(context, &owner);
    return psr_loan_lent(&owner.loan) == 0;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

/* ---- tests ---- */

static void a_message_goes_to_who_registered_for_its_type_and_role_or_to_the_owner(void **state)
{
    (void)state;
    psr_loop_route(owner.loop, PSR_ROLE_SHARD, PSR_MSG_WEIGHTS, &net, take_registered);
    deliver(PSR_ROLE_SHARD, PSR_MSG_WEIGHTS);
    deliver(PSR_ROLE_WORKER, PSR_MSG_WEIGHTS); /* another role */
    deliver(PSR_ROLE_SHARD, PSR_MSG_PULL);     /* another type */
    deliver(PSR_ROLE_SHARD, (psr_message_type)1000);
    deliver(PSR_ROLE_SHARD, PSR_MSG_WEIGHTS);
    deliver(PSR_ROLE_SCHEDULER, PSR_MSG_BYE);
    expect_ok(psr_loop_run(owner.loop));
    assert_int_equal(owner.registered, 2);
    assert_int_equal(owner.others, 4);
    assert_int_equal(atomic_load(&freed), 5); /* what nobody kept */
}

static void commands_are_taken_in_their_order_before_the_loop_waits(void **state)
{
    (void)state;
    assert_true(submit(1));
    assert_true(submit_message(3)); /* freed when it has left */
    assert_true(submit(2));
    assert_true(submit(3));
    deliver(PSR_ROLE_SCHEDULER, PSR_MSG_BYE);
    expect_ok(psr_loop_run(owner.loop));
    assert_true(three_were_taken(&owner));
    assert_int_equal(net.sent_count, 1);
    assert_int_equal(net.sent[0], PSR_MSG_METRICS);
}

static void a_full_queue_takes_nothing_and_says_so(void **state)
{
    (void)state;
    uint32_t count = 0;
    while (submit(0))
        assert_in_range(++count, 1, 1000);
    assert_in_range(count, 16, 1000);
    assert_false(psr_loop_room(owner.loop));
    expect_ok(psr_loop_start(owner.loop));
    while (!psr_loop_room(owner.loop))
        sched_yield();
    assert_true(submit(0));
}

static void what_wakes_the_transport_is_the_owners_to_look_at(void **state)
{
    (void)state;
    owner.quits_when_woken = true;
    psr_transport_wake(NULL);
    expect_ok(psr_loop_run(owner.loop));
    assert_int_equal(owner.woken, 1);
}

static void on_its_owners_thread_a_failure_is_returned_and_not_told(void **state)
{
    (void)state;
    deliver(PSR_ROLE_SCHEDULER, PSR_MSG_FAILED);
    expect_failure(psr_loop_run(owner.loop), PSR_ERR_PROTOCOL, "that is not for us");
    assert_int_equal(net.failed, 0);
    expect_ok(psr_loop_failure(owner.loop));
}

static void who_waits_goes_on_when_a_command_was_taken(void **state)
{
    (void)state;
    expect_ok(psr_loop_start(owner.loop));
    for (uint64_t step = 1; step <= 3; step++)
        assert_true(submit(step));
    expect_ok(psr_loop_wait(owner.loop, three_were_taken, &owner));
}

static void *give_back_when_it_is_lent(void *unused)
{
    until_sent(1);
    net.loan.release(net.loan.context);
    return unused;
}

static void who_waits_goes_on_when_what_was_lent_came_back(void **state)
{
    (void)state;
    pthread_t thread;
    psr_loan_begin(&owner.loan, 1);
    expect_ok(psr_loop_start(owner.loop));
    assert_int_equal(pthread_create(&thread, NULL, give_back_when_it_is_lent, NULL), 0);
    deliver(PSR_ROLE_SHARD, PSR_MSG_ACK);
    expect_ok(psr_loop_wait(owner.loop, nothing_is_lent, &owner));
    pthread_join(thread, NULL);
}

static void a_failure_of_the_thread_ends_every_wait_and_is_told_once(void **state)
{
    (void)state;
    expect_ok(psr_loop_start(owner.loop));
    break_network();
    expect_failure(psr_loop_wait(owner.loop, never, NULL), PSR_ERR_PEER, "worker 1 on host7 died");
    expect_failure(psr_loop_pause(owner.loop, 1000), PSR_ERR_PEER, "worker 1 on host7 died");
    psr_loop_fail(owner.loop, PSR_ERR_NUMERIC, "something else"); /* the first one stays */
    expect_failure(psr_loop_failure(owner.loop), PSR_ERR_PEER, "worker 1 on host7 died");
    assert_false(net.gave_back);
    psr_loop_stop(owner.loop);
    assert_true(net.gave_back); /* nobody receives any more */
    psr_loop_stop(owner.loop);
    assert_int_equal(net.failed, 1);
    assert_string_equal(net.line, "worker 1 on host7 died");
}

static void a_failure_of_the_other_thread_ends_the_loop_and_is_told(void **state)
{
    (void)state;
    expect_ok(psr_loop_start(owner.loop));
    psr_loop_fail(owner.loop, PSR_ERR_NUMERIC, "the loss is not finite");
    expect_failure(psr_loop_wait(owner.loop, never, NULL), PSR_ERR_NUMERIC,
                   "the loss is not finite");
    psr_loop_stop(owner.loop);
    assert_int_equal(net.failed, 1);
    assert_string_equal(net.line, "the loss is not finite");
}

static void commands_that_were_never_taken_are_freed_with_the_loop(void **state)
{
    (void)state;
    /* The address sanitizer's leak check is what fails here. */
    assert_true(submit_message(3));
    psr_loop_stop(NULL);
    psr_loop_free(NULL);
}

static void without_a_thread_a_step_does_what_there_is_to_do_and_waits_for_nothing(void **state)
{
    (void)state;
    int64_t next_ms = 0;
    expect_ok(psr_loop_step(owner.loop, 1000, &next_ms));
    assert_int_equal(next_ms, 1100);
    assert_int_equal(owner.others, 0);

    for (uint64_t step = 1; step <= 3; step++)
        assert_true(submit(step));
    deliver(PSR_ROLE_SHARD, PSR_MSG_PULL);
    net.early = net.inbox[0]; /* came before the others */
    net.inbox_count = 0;
    deliver(PSR_ROLE_SCHEDULER, PSR_MSG_ALIVE);
    deliver(PSR_ROLE_SHARD, PSR_MSG_PULL);
    expect_ok(psr_loop_step(owner.loop, 2000, &next_ms));
    assert_int_equal(next_ms, 2100);
    assert_int_equal(net.heard_ms, 2000);
    assert_true(three_were_taken(&owner));
    assert_int_equal(owner.others, 2);
    assert_int_equal(atomic_load(&freed), 3);
    assert_int_equal(owner.woken, 1); /* by the commands */

    deliver(PSR_ROLE_SCHEDULER, PSR_MSG_FAILED);
    expect_failure(psr_loop_step(owner.loop, 3000, &next_ms), PSR_ERR_PROTOCOL,
                   "that is not for us");
    psr_loop_fail(owner.loop, PSR_ERR_NUMERIC, "the loss is not finite");
    expect_failure(psr_loop_step(owner.loop, 4000, &next_ms), PSR_ERR_NUMERIC,
                   "the loss is not finite");
}

static struct {
    uint32_t pauses, changes;
    double passed_s;
} played;

/* Each pause is a step of the loop. */
static void pause_for_a_step(void *context)
{
    int64_t next_ms = 0;
    assert_ptr_equal(context, &played);
    played.pauses++;
    submit(played.pauses);
    expect_ok(psr_loop_step(owner.loop, 0, &next_ms));
}

static void pass_through(void *context, double seconds)
{
    assert_ptr_equal(context, &played);
    played.passed_s += seconds;
}

static void count_change(void *context)
{
    assert_ptr_equal(context, &played);
    played.changes++;
}

static void without_a_thread_who_waits_lets_the_loop_get_on(void **state)
{
    (void)state;
    static const psr_loop_waiter waiter = {.context = &played,
                                           .pause = pause_for_a_step,
                                           .pass = pass_through,
                                           .changed = count_change};
    const psr_loop_options options = {.transport = (psr_transport *)&net,
                                      .commands_max = 16,
                                      .context = &owner,
                                      .command = take_command,
                                      .message = take_other,
                                      .waiter = &waiter};
    psr_loop_free(owner.loop);
    expect_ok(psr_loop_new(&options, &owner.loop));
    psr_loop_changed(owner.loop);
    assert_int_equal(played.changes, 0); /* nobody waits */
    expect_ok(psr_loop_wait(owner.loop, three_were_taken, &owner));
    assert_int_equal(played.pauses, 3);
    assert_true(played.changes >= 3);
    expect_ok(psr_loop_pause(owner.loop, 0.5));
    assert_true(played.passed_s == 0.5);
    psr_loop_fail(owner.loop, PSR_ERR_NUMERIC, "the loss is not finite");
    expect_failure(psr_loop_wait(owner.loop, never, NULL), PSR_ERR_NUMERIC,
                   "the loss is not finite");
    expect_failure(psr_loop_pause(owner.loop, 0.5), PSR_ERR_NUMERIC, "the loss is not finite");
}

/* What an observer heard, with the waiter's clock. */
static psr_observed heard[8];
static uint32_t heard_count;

static void hear(void *context, const psr_observed *observed)
{
    assert_ptr_equal(context, heard);
    heard[heard_count++] = *observed;
}

static int64_t next_ns(void *context)
{
    (void)context;
    return 1000 + heard_count;
}

static void
an_observer_hears_of_messages_and_of_what_it_is_told_with_the_drivers_stamps(void **state)
{
    (void)state;
    static const psr_loop_waiter waiter = {.context = &played,
                                           .pause = pause_for_a_step,
                                           .pass = pass_through,
                                           .changed = count_change,
                                           .now_ns = next_ns};
    const psr_loop_options options = {.transport = (psr_transport *)&net, .waiter = &waiter};
    psr_loop_free(owner.loop);
    expect_ok(psr_loop_new(&options, &owner.loop));
    const psr_observed begin = {.kind = PSR_OBSERVED_BEGIN, .bucket = 3, .step = 7};
    psr_loop_tell(owner.loop, &begin); /* nobody hears it */
    psr_loop_observe(owner.loop, &(psr_observer){.context = heard, .see = hear});
    psr_loop_tell(owner.loop, &begin);
    const psr_peer shard = {PSR_ROLE_SHARD, 1};
    const psr_head push =
        psr_msg_push_head(&(psr_msg_push){.bucket = 3, .step = 7, .span = {16, 4}});
    net.watcher.seen(net.watcher.context, true, shard, &push, 8);
    const psr_head values = {.type = PSR_MSG_VALUES, .tag = {.slot = 4, .round = 9}};
    net.watcher.seen(net.watcher.context, false, shard, &values, 24);
    assert_int_equal(heard_count, 3);
    for (uint32_t i = 0; i < heard_count; i++)
        assert_int_equal(heard[i].stamp_ns, 1000 + i);
    assert_int_equal(heard[0].kind, PSR_OBSERVED_BEGIN);
    assert_int_equal(heard[0].bucket, 3);
    assert_int_equal(heard[1].kind, PSR_OBSERVED_OUT);
    assert_int_equal(heard[1].type, PSR_MSG_PUSH);
    assert_true(psr_peer_equal(heard[1].peer, shard));
    assert_int_equal(heard[1].bucket, 3);
    assert_int_equal(heard[1].step, 7);
    assert_int_equal(heard[1].span.offset, 16);
    assert_int_equal(heard[1].span.count, 4);
    assert_int_equal(heard[1].bytes, 8);
    assert_true(psr_observed_is_gradient(&heard[1]));
    assert_int_equal(heard[2].kind, PSR_OBSERVED_IN);
    assert_int_equal(heard[2].bucket, PSR_OBSERVED_NO_BUCKET);
    assert_int_equal(heard[2].step, 9);
    assert_false(psr_observed_is_gradient(&heard[2]));
    psr_loop_observe(owner.loop, NULL);
    assert_null(net.watcher.seen);
    psr_loop_tell(owner.loop, &begin);
    assert_int_equal(heard_count, 3);
}

#define with_loop(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_loop(a_message_goes_to_who_registered_for_its_type_and_role_or_to_the_owner),
        with_loop(commands_are_taken_in_their_order_before_the_loop_waits),
        with_loop(a_full_queue_takes_nothing_and_says_so),
        with_loop(what_wakes_the_transport_is_the_owners_to_look_at),
        with_loop(on_its_owners_thread_a_failure_is_returned_and_not_told),
        with_loop(who_waits_goes_on_when_a_command_was_taken),
        with_loop(who_waits_goes_on_when_what_was_lent_came_back),
        with_loop(a_failure_of_the_thread_ends_every_wait_and_is_told_once),
        with_loop(a_failure_of_the_other_thread_ends_the_loop_and_is_told),
        with_loop(without_a_thread_a_step_does_what_there_is_to_do_and_waits_for_nothing),
        with_loop(without_a_thread_who_waits_lets_the_loop_get_on),
        with_loop(an_observer_hears_of_messages_and_of_what_it_is_told_with_the_drivers_stamps),
        with_loop(commands_that_were_never_taken_are_freed_with_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
