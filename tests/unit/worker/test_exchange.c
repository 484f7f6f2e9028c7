/* The front of session and exchange and their thread, between an engine, a member and a transport that are played here:
 * the real ones have tests of their own, and played ones can wait for each other. */
#include "tests/unit/expect.h"

#include "base/fault.h"
#include "comm/operations/loan.h"
#include "worker/exchange_private.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 3, LENGTH = 16 * BUCKETS };

/* ---- the network ---- */

enum { EVENTS_MAX = 4096 };

/* What came out of the exchange thread, in order. */
typedef struct event {
    const char *what; /* "ready", or what was told or sent: "tell", "send", "failed" */
    psr_head head;    /* "tell", "send" */
    psr_peer to;
    uint64_t step;   /* "ready" */
    uint32_t bucket; /* "ready" */
    psr_err status;  /* "failed" */
    size_t bytes;
    float first; /* of the payload */
    char text[256];
} event;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool woken;
    psr_message *inbox[64];
    uint32_t inbox_count;
    psr_err error; /* recv's from now on */
    event events[EVENTS_MAX];
    uint32_t event_count;
    psr_payload loan; /* the payload that is lent now */
} net = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};

static void note(event happened, const void *payload, size_t bytes)
{
    pthread_mutex_lock(&net.mutex);
    event *e = &net.events[net.event_count < EVENTS_MAX ? net.event_count++ : 0];
    *e = happened;
    e->bytes = bytes;
    if (bytes >= sizeof e->first)
        memcpy(&e->first, payload, sizeof e->first);
    if (bytes > 0)
        memcpy(e->text, payload, bytes < sizeof e->text ? bytes : sizeof e->text - 1);
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

/* Waits for the n-th event (from 0). */
static event *event_at(uint32_t n)
{
    pthread_mutex_lock(&net.mutex);
    while (net.event_count <= n)
        pthread_cond_wait(&net.condition, &net.mutex);
    pthread_mutex_unlock(&net.mutex);
    return &net.events[n];
}

static void release_message(psr_message *message)
{
    free(message);
}

static void deliver(psr_role role, psr_head head, const void *payload, size_t bytes)
{
    psr_message *message = calloc(1, sizeof *message + bytes);
    *message = (psr_message){.from = {role, 0},
                             .head = head,
                             .payload = message + 1,
                             .payload_bytes = bytes,
                             .release = release_message};
    if (bytes > 0)
        memcpy(message + 1, payload, bytes);
    pthread_mutex_lock(&net.mutex);
    net.inbox[net.inbox_count++] = message;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

static void deliver_landed(uint64_t step, uint32_t bucket)
{
    deliver(PSR_ROLE_SHARD, psr_msg_weights_head(&(psr_msg_weights){.bucket = bucket, .step = step}), NULL,
            0);
}

static void break_network(psr_err error)
{
    pthread_mutex_lock(&net.mutex);
    net.error = error;
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

/* net/transport.h and comm/members/member.h, as far as the exchange calls them. */
psr_err psr_transport_send(psr_transport *transport, psr_peer to, const psr_head *head,
                           const psr_payload *payload)
{
    (void)transport;
    if (payload != NULL && head->type == PSR_MSG_PUSH)
        net.loan = *payload; /* until the test gives it back */
    note((event){.what = "send", .to = to, .head = *head}, payload != NULL ? payload->data : NULL,
         payload != NULL ? payload->bytes : 0);
    if (payload != NULL && payload->release != NULL && head->type != PSR_MSG_PUSH)
        payload->release(payload->context);
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

void psr_transport_counts_get(const psr_transport *transport, psr_transport_counts *ret_counts)
{
    (void)transport;
    *ret_counts = (psr_transport_counts){.bytes_sent = 1000, .bytes_received = 2000};
}

psr_err psr_member_recv(psr_member *member, int timeout_ms, psr_message **ret_message)
{
    (void)member;
    assert_int_equal(timeout_ms, -1); /* anything else would be polling */
    psr_err err = PSR_ERR_CANCELLED;
    pthread_mutex_lock(&net.mutex);
    while (net.inbox_count == 0 && !net.woken && net.error == PSR_OK)
        pthread_cond_wait(&net.condition, &net.mutex);
    if (net.inbox_count > 0) {
        *ret_message = net.inbox[0];
        memmove(net.inbox, net.inbox + 1, --net.inbox_count * sizeof net.inbox[0]);
        err = PSR_OK;
    } else if (net.woken) {
        net.woken = false;
    } else {
        err = psr_fail(net.error, "worker 1 on host7 died");
    }
    pthread_mutex_unlock(&net.mutex);
    return err;
}

psr_err psr_member_tell(psr_member *member, const psr_head *head, const void *payload, size_t bytes)
{
    (void)member;
    note((event){.what = "tell", .to = {PSR_ROLE_SCHEDULER, 0}, .head = *head}, payload, bytes);
    return PSR_OK;
}

/* What a loop without a thread calls: none here is one. */
psr_err psr_transport_recv(psr_transport *transport, int timeout_ms, psr_message **ret_message)
{
    (void)transport, (void)timeout_ms, (void)ret_message;
    fail();
    return PSR_OK;
}

psr_err psr_member_message(psr_member *member, psr_message **message, int64_t now_ms)
{
    (void)member, (void)message, (void)now_ms;
    fail();
    return PSR_OK;
}

psr_message *psr_member_early(psr_member *member)
{
    (void)member;
    fail();
    return NULL;
}

psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms)
{
    (void)member, (void)now_ms, (void)ret_next_ms;
    fail();
    return PSR_OK;
}

psr_err psr_member_ready(psr_member *member, const char *json)
{
    return psr_member_tell(member, &(psr_head){.type = PSR_MSG_READY}, json, json != NULL ? strlen(json) : 0);
}

void psr_member_failed(psr_member *member, psr_err status, const char *line)
{
    (void)member;
    note((event){.what = "failed", .to = {PSR_ROLE_SCHEDULER, 0}, .status = status}, line, strlen(line));
}

void psr_fault_point(const char *phase, uint64_t step)
{
    (void)phase;
    (void)step;
}

/* ---- the engine ---- */

struct psr_engine {
    psr_engine_env env;
    psr_loan loan;
};

static psr_engine *played; /* the open one */

static psr_err played_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    played = calloc(1, sizeof *played);
    played->env = *env;
    psr_loan_init(&played->loan, &env->outbox);
    *ret_engine = played;
    return PSR_OK;
}

static void played_close(psr_engine *engine)
{
    free(engine);
    played = NULL;
}

static psr_err played_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    const psr_bucket *b = &engine->env.buckets->items[bucket];
    note((event){.what = "ready", .step = step, .bucket = bucket}, engine->env.gradients + b->offset,
         b->length * sizeof(float));
    return PSR_OK;
}

/* WEIGHTS land; ACK makes the engine lend a slice. */
static psr_err played_message(psr_engine *engine, psr_message **message)
{
    bool lands = (*message)->head.type == PSR_MSG_WEIGHTS;
    psr_msg_weights says;
    if (lands)
        expect_ok(psr_msg_weights_read(*message, &says));
    psr_message_free(message);
    if (lands)
        return engine->env.landed(engine->env.context, says.step, says.bucket);
    psr_loan_begin(&engine->loan, 1);
    const psr_payload payload =
        psr_loan_payload(&engine->loan, (psr_payload){.data = engine->env.gradients, .bytes = 4});
    return engine->env.outbox.send(engine->env.outbox.context, (psr_peer){PSR_ROLE_SHARD, 0},
                                   &(psr_head){.type = PSR_MSG_PUSH}, &payload);
}

static bool played_waits(const psr_engine *engine, psr_peer *ret_peer, uint64_t *ret_step,
                         uint32_t *ret_bucket)
{
    (void)engine;
    *ret_peer = (psr_peer){PSR_ROLE_SHARD, 2};
    *ret_step = 5;
    *ret_bucket = 1;
    return true;
}

static uint32_t played_lent(const psr_engine *engine, uint32_t bucket)
{
    return bucket == 0 ? psr_loan_lent(&engine->loan) : 0;
}

#define PLAYED                                                                                               \
    .name = "played", .open = played_open, .close = played_close, .ready = played_ready,                     \
    .message = played_message, .waits = played_waits, .lent = played_lent
static const psr_engine_ops played_ops = {PLAYED, .waits_in = PSR_PHASE_RING};
static const psr_engine_ops played_with_shards = {PLAYED, .shards_update = true};

/* ---- one exchange for each test ---- */

static psr_config config;
static psr_layout layout;
static psr_buckets buckets;
static psr_session *session;
static psr_plan plan;
static psr_exchange *exchange;

static int set_up_config(void **state)
{
    (void)state;
    psr_config_defaults(&config);
    config.workers = 1;
    layout = (psr_layout){0};
    for (uint32_t i = 0; i < BUCKETS; i++) {
        char name[] = "t0";
        name[1] = (char)('0' + i);
        expect_ok(psr_layout_add(&layout, name, 1, (uint32_t[]){LENGTH / BUCKETS}));
    }
    expect_ok(psr_buckets_plan(&layout, LENGTH / BUCKETS * sizeof(float), &buckets));
    assert_int_equal(buckets.count, BUCKETS);
    net.event_count = net.inbox_count = 0;
    net.woken = false;
    net.error = PSR_OK;
    return 0;
}

static void start(const psr_engine_ops *ops)
{
    const psr_plan_options planned = {.route = ops->shards_update ? PSR_ROUTE_SHARD : PSR_ROUTE_RING,
                                      .ranks = config.workers,
                                      .shards = ops->shards_update ? config.shards : 0,
                                      .slice_floats = LENGTH,
                                      .window = 2};
    psr_part *parts = NULL;
    expect_ok(psr_buckets_parts(&buckets, false, &parts));
    expect_ok(psr_plan_make(&planned, parts, buckets.count, &plan));
    free(parts);
    const psr_session_options options_of_session = {.total_steps = 100,
                                                    .commands_max = psr_exchange_commands_max(&buckets)};
    expect_ok(psr_session_new(&options_of_session, &session));
    const psr_exchange_options options = {.session = session,
                                          .config = &config,
                                          .layout = &layout,
                                          .buckets = &buckets,
                                          .plan = &plan,
                                          .engine = ops};
    expect_ok(psr_exchange_new(&options, &exchange));
    expect_ok(psr_session_start(session));
}

static int set_up(void **state)
{
    set_up_config(state);
    start(&played_ops);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_session_stop(session);
    psr_exchange_free(exchange);
    psr_session_free(session);
    session = NULL;
    exchange = NULL;
    while (net.inbox_count > 0)
        psr_message_free(&net.inbox[--net.inbox_count]);
    psr_plan_done(&plan);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
    return 0;
}

static void begin(uint64_t step, uint32_t batch)
{
    expect_ok(psr_exchange_begin_step(exchange, &(psr_step){step, 0, batch, 4}));
}

static void whole_step(uint64_t step)
{
    begin(step, 4);
    for (uint32_t b = 0; b < BUCKETS; b++)
        expect_ok(psr_exchange_gradient_ready(exchange, b));
    expect_ok(psr_exchange_end_step(exchange));
}

/* The compute thread waits for this now. */
static void until_it_waits_for(psr_wait wait)
{
    while (atomic_load(&session->wait) != (int)wait)
        sched_yield();
}

/* Something to do on another thread while the test's own, the compute thread, waits. */
static pthread_t helper;

static void meanwhile(void *(*function)(void *))
{
    assert_int_equal(pthread_create(&helper, NULL, function, NULL), 0);
}

static void *helper_result(void)
{
    void *result = NULL;
    pthread_join(helper, &result);
    return result;
}

/* ---- tests ---- */

static void the_engine_hears_of_buckets_in_the_compute_threads_order(void **state)
{
    (void)state;
    whole_step(0);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        assert_string_equal(event_at(i)->what, "ready");
        assert_int_equal(event_at(i)->step, 0);
        assert_int_equal(event_at(i)->bucket, i);
    }
}

static void *land_then_give_back(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    deliver_landed(0, 0);
    while (atomic_load(&exchange->landed[0]) != 1)
        sched_yield();
    /* It has landed, and is still lent: the compute thread must go on waiting. */
    bool waited = atomic_load(&session->wait) == PSR_WAIT_BUCKET;
    net.loan.release(net.loan.context);
    return waited ? unused : &net;
}

static void weights_are_wanted_until_they_landed_and_the_gradient_is_no_longer_lent(void **state)
{
    (void)state;
    whole_step(0);
    event_at(2);
    deliver(PSR_ROLE_SHARD, (psr_head){.type = PSR_MSG_ACK}, NULL, 0);
    assert_string_equal(event_at(3)->what, "send");
    begin(1, 4);
    meanwhile(land_then_give_back);
    expect_ok(psr_exchange_weights_wanted(exchange, 0));
    assert_null(helper_result());
    assert_int_equal(psr_loan_lent(&played->loan), 0);

    psr_exchange_figures figures;
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.wait_s > 0);
    assert_int_equal(figures.bytes_sent, 1000);
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.wait_s == 0);
    assert_int_equal(figures.bytes_sent, 0);
}

static void *land_all_but_one_then_that(void *unused)
{
    until_it_waits_for(PSR_WAIT_ALL);
    deliver_landed(0, 2);
    deliver_landed(0, 0);
    while (atomic_load(&exchange->landed[0]) != 1)
        sched_yield();
    bool waited = atomic_load(&session->wait) == PSR_WAIT_ALL;
    deliver_landed(0, 1);
    return waited ? unused : &net;
}

static void a_drain_waits_for_every_bucket(void **state)
{
    (void)state;
    expect_ok(psr_exchange_drain(exchange)); /* before the first step there is nothing to wait for */
    whole_step(0);
    meanwhile(land_all_but_one_then_that);
    expect_ok(psr_exchange_drain(exchange));
    assert_null(helper_result());
    psr_exchange_figures figures;
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.exchange_s > 0);
}

static void *break_it_while_it_waits(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    event_at(2);
    break_network(PSR_ERR_PEER);
    return unused;
}

static void a_failure_of_the_exchange_reaches_a_waiting_compute_thread_at_once(void **state)
{
    (void)state;
    whole_step(0);
    begin(1, 4);
    meanwhile(break_it_while_it_waits);
    expect_failure(psr_exchange_weights_wanted(exchange, 0), PSR_ERR_PEER, "worker 1 on host7 died");
    helper_result();
    /* And every call after it. */
    expect_failure(psr_exchange_gradient_ready(exchange, 0), PSR_ERR_PEER, "worker 1 on host7 died");
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_PEER, "worker 1 on host7 died");
    expect_failure(psr_exchange_begin_step(exchange, &(psr_step){.step = 2}), PSR_ERR_PEER,
                   "worker 1 on host7 died");
    expect_failure(psr_session_metrics(session, "{}"), PSR_ERR_PEER, "worker 1 on host7 died");
    expect_failure(psr_session_pause(session, 1000), PSR_ERR_PEER, "worker 1 on host7 died");
    event *last = event_at(3); /* 3 ready before it */
    assert_string_equal(last->what, "failed");
    assert_string_equal(last->text, "worker 1 on host7 died");
}

static void a_failure_of_the_compute_thread_is_told_and_ends_the_exchange(void **state)
{
    (void)state;
    psr_session_fail(session, psr_fail(PSR_ERR_NUMERIC, "step 3: the loss is not finite"));
    event *first = event_at(0);
    assert_string_equal(first->what, "failed");
    assert_int_equal(first->status, PSR_ERR_NUMERIC);
    assert_string_equal(first->text, "step 3: the loss is not finite");
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_NUMERIC, "step 3: the loss is not finite");
}

static void the_first_of_two_failures_is_the_one_that_stays(void **state)
{
    (void)state;
    break_network(PSR_ERR_TIMEOUT);
    assert_string_equal(event_at(0)->what, "failed");
    psr_session_fail(session, psr_fail(PSR_ERR_NUMERIC, "something else"));
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_TIMEOUT, "worker 1 on host7 died");
}

static void *stop_after_step_two(void *unused)
{
    until_it_waits_for(PSR_WAIT_HOLD);
    deliver(PSR_ROLE_SCHEDULER, psr_msg_stop_at_head(2), NULL, 0);
    return unused;
}

static uint64_t held_said(const event *e)
{
    psr_message message = {.head = e->head};
    uint64_t step;
    expect_ok(psr_msg_held_read(&message, &step));
    return step;
}

static void a_hold_is_answered_and_lasts_until_the_last_step_is_named(void **state)
{
    (void)state;
    whole_step(0);
    whole_step(1);
    event_at(5);
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_HOLD}, NULL, 0);
    event *held = event_at(6);
    assert_string_equal(held->what, "tell");
    assert_int_equal(held->head.type, PSR_MSG_HELD);
    assert_int_equal(held_said(held), 1);
    meanwhile(stop_after_step_two);
    begin(2, 4); /* waits, and is the last */
    helper_result();
    for (uint32_t b = 0; b < BUCKETS; b++)
        expect_ok(psr_exchange_gradient_ready(exchange, b));
    expect_ok(psr_exchange_end_step(exchange));
    expect_failure(psr_exchange_begin_step(exchange, &(psr_step){3, 0, 4, 4}), PSR_ERR_CANCELLED,
                   "the run was stopped after step 3");
    assert_int_equal(psr_session_last_step(session), 2);
    for (uint32_t b = 0; b < BUCKETS; b++)
        for (uint64_t step = 0; step < 3; step++)
            deliver_landed(step, b);
    expect_ok(psr_exchange_drain(exchange)); /* a stopped run is still whole */
}

static void before_its_first_step_a_worker_promises_that_one(void **state)
{
    (void)state;
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_HOLD}, NULL, 0);
    assert_int_equal(event_at(0)->head.type, PSR_MSG_HELD);
    assert_int_equal(held_said(event_at(0)), 0);
    deliver(PSR_ROLE_SCHEDULER, psr_msg_stop_at_head(0), NULL, 0);
    begin(0, 4);
}

static void a_rank_without_samples_gives_zeros_for_every_bucket(void **state)
{
    (void)state;
    float *gradients = psr_exchange_gradients(exchange);
    for (size_t i = 0; i < LENGTH; i++)
        gradients[i] = 7;
    begin(0, 0);
    expect_ok(psr_exchange_end_step(exchange));
    for (uint32_t i = 0; i < BUCKETS; i++) {
        assert_string_equal(event_at(i)->what, "ready");
        assert_true(event_at(i)->first == 0);
    }
    for (size_t i = 0; i < LENGTH; i++)
        assert_true(gradients[i] == 0);
}

static void a_step_that_forgot_a_bucket_is_refused(void **state)
{
    (void)state;
    begin(4, 4);
    expect_ok(psr_exchange_gradient_ready(exchange, 0));
    expect_failure(psr_exchange_end_step(exchange), PSR_ERR_COMPUTE,
                   "step 5: 1 of 3 buckets were reported ready");
}

static void a_report_says_what_the_compute_thread_does(void **state)
{
    (void)state;
    begin(3, 4);
    psr_session_progress(session, PSR_PHASE_BACKWARD);
    psr_msg_progress now = {0}, later = {0};
    psr_session_report(session, &now);
    assert_int_equal(now.step, 3);
    assert_int_equal(now.phase, PSR_PHASE_BACKWARD);
    assert_false(now.waits);
    assert_false(now.evaluates);
    psr_session_progress(session, PSR_PHASE_BACKWARD);
    psr_session_report(session, &later);
    assert_true(later.counter > now.counter);
}

static psr_msg_progress report_while_waiting;

static void *report_then_land(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    psr_session_report(session, &report_while_waiting);
    deliver_landed(0, 1);
    return unused;
}

static void a_report_names_whom_it_waits_for(void **state)
{
    (void)state;
    whole_step(0);
    begin(1, 4);
    meanwhile(report_then_land);
    expect_ok(psr_exchange_weights_wanted(exchange, 1));
    helper_result();
    assert_int_equal(report_while_waiting.phase, PSR_PHASE_RING);
    assert_int_equal(report_while_waiting.step, 5);
    assert_int_equal(report_while_waiting.bucket, 1);
    assert_true(report_while_waiting.waits);
    assert_true(psr_peer_equal(report_while_waiting.waits_for, (psr_peer){PSR_ROLE_SHARD, 2}));
}

static void more_metrics_than_the_queue_holds_all_arrive_in_order(void **state)
{
    (void)state;
    enum { LINES = 1000 };
    char line[32];
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "{\"step\": %d}", i);
        expect_ok(psr_session_metrics(session, line));
    }
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "{\"step\": %d}", i);
        assert_int_equal(event_at((uint32_t)i)->head.type, PSR_MSG_METRICS);
        assert_string_equal(event_at((uint32_t)i)->text, line);
    }
}

static void a_checkpoints_section_leaves_in_pieces_that_cover_it_once(void **state)
{
    (void)state;
    const size_t piece = PSR_PAYLOAD_BYTES_MAX / sizeof(float), count = 2 * piece + 5;
    float *data = calloc(count, sizeof *data);
    data[0] = 1;
    data[piece] = 2;
    data[2 * piece] = 3;
    expect_ok(psr_session_checkpoint(session, 9, PSR_SECTION_SLOT(1), data, count));
    free(data); /* it was copied */
    uint64_t next = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const event *e = event_at(i);
        assert_int_equal(e->head.type, PSR_MSG_CHECKPOINT);
        psr_message message = {.head = e->head};
        psr_msg_piece says;
        expect_ok(psr_msg_piece_read(&message, &says));
        assert_int_equal(says.steps, 9);
        assert_int_equal(says.section, PSR_SECTION_SLOT(1));
        assert_int_equal(says.span.offset, next);
        assert_int_equal(e->bytes, says.span.count * sizeof(float));
        assert_true(e->first == (float)(i + 1));
        next += says.span.count;
    }
    assert_int_equal(next, count);
}

static void *report_then_say_saved(void *unused)
{
    until_it_waits_for(PSR_WAIT_SAVED);
    psr_session_report(session, &report_while_waiting);
    deliver(PSR_ROLE_SCHEDULER, psr_msg_saved_head(20), NULL, 0);
    return unused;
}

static void the_next_checkpoint_waits_until_the_last_one_is_in_place(void **state)
{
    (void)state;
    expect_ok(psr_session_await_saved(session, 0)); /* there was none */
    whole_step(29);
    meanwhile(report_then_say_saved);
    expect_ok(psr_session_await_saved(session, 20));
    helper_result();
    assert_int_equal(report_while_waiting.phase, PSR_PHASE_CHECKPOINT);
    assert_int_equal(report_while_waiting.step, 29);
    assert_true(report_while_waiting.waits);
    assert_true(psr_peer_equal(report_while_waiting.waits_for, (psr_peer){PSR_ROLE_SCHEDULER, 0}));
    expect_ok(psr_session_await_saved(session, 20));
}

static void restored_pieces_come_in_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        deliver(PSR_ROLE_SCHEDULER, psr_msg_restore_head(&(psr_msg_piece){.span = {i, 0}}), NULL, 0);
    for (uint32_t i = 0; i < 4; i++) { /* the fifth is freed with the exchange */
        psr_message *message = NULL;
        expect_ok(psr_session_restored(session, &message));
        psr_msg_piece says;
        expect_ok(psr_msg_piece_read(message, &says));
        assert_int_equal(says.span.offset, i);
        psr_message_free(&message);
    }
}

static void ready_waits_for_start_and_done_for_bye(void **state)
{
    (void)state;
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_START}, NULL, 0);
    expect_ok(psr_session_ready(session, "{\"algorithms\": \"\"}"));
    assert_int_equal(event_at(0)->head.type, PSR_MSG_READY);
    assert_string_equal(event_at(0)->text, "{\"algorithms\": \"\"}");
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_BYE}, NULL, 0);
    expect_ok(psr_session_done(session, 12, false, "{}"));
    assert_int_equal(event_at(1)->head.type, PSR_MSG_DONE);
    psr_message message = {.head = event_at(1)->head};
    psr_msg_done says;
    expect_ok(psr_msg_done_read(&message, &says));
    assert_int_equal(says.steps, 12);
    assert_false(says.left_out);
}

static void a_message_that_no_worker_takes_ends_the_run_as_a_violation(void **state)
{
    (void)state;
    deliver(PSR_ROLE_WORKER, psr_msg_push_head(&(psr_msg_push){0}), NULL, 0);
    assert_string_equal(event_at(0)->what, "failed");
    assert_int_equal(event_at(0)->status, PSR_ERR_PROTOCOL);
    expect_failure(
        psr_exchange_drain(exchange), PSR_ERR_PROTOCOL,
        "worker 0 sent PUSH (wire step 0, bucket 0, offset 0, count 0, answer 0): a worker in this mode "
        "does not take that");
}

static void weights_from_another_worker_are_a_violation(void **state)
{
    (void)state;
    deliver(PSR_ROLE_WORKER, (psr_head){.type = PSR_MSG_WEIGHTS}, NULL, 0);
    assert_int_equal(event_at(0)->status, PSR_ERR_PROTOCOL);
}

static void worker_zero_cuts_an_arena_for_the_shards_that_own_it(void **state)
{
    (void)state;
    config.shards = 2;
    start(&played_with_shards);
    float *weights = psr_exchange_weights(exchange);
    for (size_t i = 0; i < LENGTH; i++)
        weights[i] = (float)i;
    expect_ok(psr_exchange_install(exchange, 1, weights));
    for (uint32_t b = 0; b < BUCKETS; b++) {
        const event *e = event_at(b);
        assert_int_equal(e->head.type, PSR_MSG_INIT);
        psr_message message = {.head = e->head};
        psr_msg_init says;
        expect_ok(psr_msg_init_read(&message, &says));
        assert_int_equal(says.bucket, b);
        assert_int_equal(says.section, 1);
        assert_int_equal(e->to.role, PSR_ROLE_SHARD);
        assert_int_equal(e->to.rank, b % 2); /* of one size, they go in turn */
        assert_int_equal(says.span.offset, buckets.items[b].offset);
        assert_true(e->first == (float)buckets.items[b].offset);
    }
}

static void without_an_exchange_every_step_goes_on_at_once(void **state)
{
    (void)state;
    start(&psr_engine_none);
    for (uint64_t step = 0; step < 5; step++) {
        begin(step, 4);
        for (uint32_t b = BUCKETS; b-- > 0;)
            expect_ok(psr_exchange_weights_wanted(exchange, b));
        for (uint32_t b = 0; b < BUCKETS; b++)
            expect_ok(psr_exchange_gradient_ready(exchange, b));
        expect_ok(psr_exchange_end_step(exchange));
    }
    expect_ok(psr_exchange_drain(exchange));
}

static void take_turn(uint64_t step, uint32_t rank, float gradient)
{
    expect_ok(psr_exchange_begin_step(exchange, &(psr_step){step, rank, 4, 8}));
    float *gradients = psr_exchange_gradients(exchange);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        expect_ok(psr_exchange_weights_wanted(exchange, b));
        for (size_t i = 0; i < buckets.items[b].length; i++)
            gradients[buckets.items[b].offset + i] = gradient;
        expect_ok(psr_exchange_gradient_ready(exchange, b));
    }
    expect_ok(psr_exchange_end_step(exchange));
}

static void a_process_that_plays_all_ranks_updates_when_the_last_ones_step_has_ended(void **state)
{
    (void)state;
    config.workers = 2;
    config.lr = 1;
    config.momentum = config.weight_decay = 0;
    start(&psr_engine_local);
    assert_int_equal(psr_exchange_plays(exchange), 2);
    const float *weights = psr_exchange_weights(exchange);
    for (uint64_t step = 0; step < 3; step++) {
        take_turn(step, 0, 1);
        assert_true(weights[0] == -3 * (float)step);
        take_turn(step, 1, 2);
        assert_true(weights[0] == -3 * (float)(step + 1));
    }
    expect_ok(psr_exchange_drain(exchange));
    psr_exchange_figures figures;
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.wait_s == 0); /* nobody else is to be waited for */
    assert_true(figures.exchange_s > 0);
}

static void an_average_is_the_sum_in_order_of_rank_divided_once_by_all_weights(void **state)
{
    (void)state;
    config.workers = 3;
    start(&psr_engine_local);
    /* Of these three the order shows: (1e16 + 1) + -1e16 is 0, not 1. */
    double rows[] = {1e16, 6, 2, 1, 7, 3, -1e16, 8, 2};
    expect_ok(psr_exchange_average(exchange, rows, 3));
    assert_true(rows[0] == 0);
    assert_true(rows[1] == 21.0 / 7);
    assert_true(rows[2] == 7);
    double nothing[] = {0, 0, 0, 0, 0, 0};
    expect_ok(psr_exchange_average(exchange, nothing, 2));
    assert_true(isnan(nothing[0]));
    assert_true(nothing[1] == 0);
}

#define with_exchange(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define with_config(f) cmocka_unit_test_setup_teardown(f, set_up_config, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_exchange(the_engine_hears_of_buckets_in_the_compute_threads_order),
        with_exchange(weights_are_wanted_until_they_landed_and_the_gradient_is_no_longer_lent),
        with_exchange(a_drain_waits_for_every_bucket),
        with_exchange(a_failure_of_the_exchange_reaches_a_waiting_compute_thread_at_once),
        with_exchange(a_failure_of_the_compute_thread_is_told_and_ends_the_exchange),
        with_exchange(the_first_of_two_failures_is_the_one_that_stays),
        with_exchange(a_hold_is_answered_and_lasts_until_the_last_step_is_named),
        with_exchange(before_its_first_step_a_worker_promises_that_one),
        with_exchange(a_rank_without_samples_gives_zeros_for_every_bucket),
        with_exchange(a_step_that_forgot_a_bucket_is_refused),
        with_exchange(a_report_says_what_the_compute_thread_does),
        with_exchange(a_report_names_whom_it_waits_for),
        with_exchange(more_metrics_than_the_queue_holds_all_arrive_in_order),
        with_exchange(a_checkpoints_section_leaves_in_pieces_that_cover_it_once),
        with_exchange(the_next_checkpoint_waits_until_the_last_one_is_in_place),
        with_exchange(restored_pieces_come_in_order),
        with_exchange(ready_waits_for_start_and_done_for_bye),
        with_exchange(a_message_that_no_worker_takes_ends_the_run_as_a_violation),
        with_exchange(weights_from_another_worker_are_a_violation),
        with_config(worker_zero_cuts_an_arena_for_the_shards_that_own_it),
        with_config(without_an_exchange_every_step_goes_on_at_once),
        with_config(a_process_that_plays_all_ranks_updates_when_the_last_ones_step_has_ended),
        with_config(an_average_is_the_sum_in_order_of_rank_divided_once_by_all_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
