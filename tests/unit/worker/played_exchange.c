#include "tests/unit/worker/played_exchange.h"

#include "base/fault.h"
#include "comm/operations/loan.h"
#include "worker/exchange/exchange_private.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- the network ---- */

enum { EVENTS_MAX = 4096 };

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
    psr_transport_watcher watcher;
} net = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};

static void note(event happened, const void *payload, size_t bytes)
{
    pthread_mutex_lock(&net.mutex);
    event *e = &net.events[net.event_count < EVENTS_MAX ? net.event_count++ : 0];
    *e = happened;
    e->bytes = bytes;
    e->payload = payload;
    if (bytes >= sizeof e->first)
        memcpy(&e->first, payload, sizeof e->first);
    if (bytes > 0)
        memcpy(e->text, payload, bytes < sizeof e->text ? bytes : sizeof e->text - 1);
    pthread_cond_broadcast(&net.condition);
    pthread_mutex_unlock(&net.mutex);
}

event *event_at(uint32_t n)
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

void deliver_from(psr_peer from, psr_head head, const void *payload, size_t bytes)
{
    psr_message *message = calloc(1, sizeof *message + bytes);
    *message = (psr_message){.from = from,
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

void deliver(psr_role role, psr_head head, const void *payload, size_t bytes)
{
    deliver_from((psr_peer){role, 0}, head, payload, bytes);
}

void deliver_landed(uint64_t step, uint32_t bucket)
{
    deliver(PSR_ROLE_SHARD,
            psr_msg_weights_head(&(psr_msg_weights){.bucket = bucket, .step = step}), NULL, 0);
}

void break_network(psr_err error)
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
    net.watcher.seen(net.watcher.context, true, to, head, payload != NULL ? payload->bytes : 0);
    if (payload != NULL && head->type == PSR_MSG_PUSH)
        net.loan = *payload; /* until the test gives it back */
    note((event){.what = "send", .to = to, .head = *head}, payload != NULL ? payload->data : NULL,
         payload != NULL ? payload->bytes : 0);
    if (payload != NULL && payload->release != NULL && head->type != PSR_MSG_PUSH)
        payload->release(payload->context);
    return PSR_OK;
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

void psr_transport_give_back(psr_transport *transport)
{
    (void)transport; /* nothing is lent to this process */
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
    *ret_counts = (psr_transport_counts){.bytes_lent = 500};
}

void psr_transport_watch(psr_transport *transport, const psr_transport_watcher *watcher)
{
    (void)transport;
    net.watcher = *watcher;
}

psr_err psr_transport_recv(psr_transport *transport, int timeout_ms, psr_message **ret_message)
{
    (void)transport, (void)timeout_ms;
    psr_err err = PSR_OK;
    pthread_mutex_lock(&net.mutex);
    if (net.inbox_count > 0) {
        *ret_message = net.inbox[0];
        memmove(net.inbox, net.inbox + 1, --net.inbox_count * sizeof net.inbox[0]);
        net.watcher.seen(net.watcher.context, false, (*ret_message)->from, &(*ret_message)->head,
                         (*ret_message)->payload_bytes);
    } else if (net.woken) {
        net.woken = false;
        err = PSR_ERR_CANCELLED;
    } else {
        err = net.error == PSR_OK ? PSR_ERR_TIMEOUT : psr_fail(net.error, "worker 1 on host7 died");
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

psr_err psr_member_tell(psr_member *member, const psr_head *head, const void *payload, size_t bytes)
{
    (void)member;
    note((event){.what = "tell", .to = {PSR_ROLE_SCHEDULER, 0}, .head = *head}, payload, bytes);
    return PSR_OK;
}

/* Every message is the exchange's, and nothing depends on the time. */
psr_err psr_member_message(psr_member *member, psr_message **message, int64_t now_ms)
{
    (void)member, (void)message, (void)now_ms;
    return PSR_OK;
}

psr_message *psr_member_early(psr_member *member)
{
    (void)member;
    return NULL;
}

psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms)
{
    (void)member, (void)now_ms;
    *ret_next_ms = INT64_MAX;
    return PSR_OK;
}

void psr_member_failed(psr_member *member, psr_err status, const char *line)
{
    (void)member;
    note((event){.what = "failed", .to = {PSR_ROLE_SCHEDULER, 0}, .status = status}, line,
         strlen(line));
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
    note((event){.what = "ready", .step = step, .bucket = bucket},
         engine->env.gradients + b->offset, b->length * sizeof(float));
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

static bool played_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    (void)engine;
    *ret_waiting = (psr_waiting){{PSR_ROLE_SHARD, 2}, 5};
    *ret_bucket = 1;
    return true;
}

static uint32_t played_lent(const psr_engine *engine, uint32_t bucket)
{
    return bucket == 0 ? psr_loan_lent(&engine->loan) : 0;
}

#define PLAYED                                                                                     \
    .name = "played", .open = played_open, .close = played_close, .ready = played_ready,           \
    .message = played_message, .waits = played_waits, .lent = played_lent
/* Both hear shards; with the first one no bucket is a shard's. */
const psr_engine_ops played_ops = {PLAYED, .route = PSR_ROUTE_SHARD, .waits_in = PSR_PHASE_RING};
const psr_engine_ops played_with_shards = {PLAYED, .route = PSR_ROUTE_SHARD};

/* The ways of a later view: the played engine takes every route. */
psr_err psr_engine_choose(const psr_config *config_of_run, const psr_plan *plan_of_view,
                          psr_ways *ret_ways)
{
    (void)config_of_run, (void)plan_of_view;
    *ret_ways = (psr_ways){{&played_ops}, 1};
    return PSR_OK;
}

void give_back_the_loan(void)
{
    net.loan.release(net.loan.context);
}

uint32_t slices_lent(void)
{
    return psr_loan_lent(&played->loan);
}

/* ---- one exchange for each test ---- */

psr_config config;
static psr_layout layout;
psr_buckets buckets;
psr_session *session;
static psr_plan plan;
psr_exchange *exchange;

int set_up_config(void **state)
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

void start(const psr_engine_ops *ops)
{
    const bool with_shards = ops == &played_with_shards;
    const psr_plan_options planned = {.route = with_shards ? PSR_ROUTE_SHARD : PSR_ROUTE_RING,
                                      .ranks = config.workers,
                                      .shards = with_shards ? config.shards : 0,
                                      .slice_floats = LENGTH,
                                      .window = 2};
    psr_part *parts = NULL;
    expect_ok(psr_buckets_parts(&buckets, false, &parts));
    expect_ok(psr_plan_make(&planned, parts, buckets.count, &plan));
    free(parts);
    const psr_session_options options_of_session = {.transport = (psr_transport *)&net,
                                                    .total_steps = 100,
                                                    .commands_max =
                                                        psr_exchange_commands_max(&buckets)};
    expect_ok(psr_session_new(&options_of_session, &session));
    const psr_exchange_options options = {.session = session,
                                          .config = &config,
                                          .layout = &layout,
                                          .buckets = &buckets,
                                          .plan = &plan,
                                          .ways = &(psr_ways){{ops}, 1}};
    expect_ok(psr_exchange_new(&options, &exchange));
    expect_ok(psr_session_start(session));
}

int set_up(void **state)
{
    set_up_config(state);
    start(&played_ops);
    return 0;
}

int tear_down(void **state)
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

void begin(uint64_t step, uint32_t batch)
{
    expect_ok(psr_exchange_begin_step(exchange, &(psr_step){step, 0, batch, 4}));
}

void whole_step(uint64_t step)
{
    begin(step, 4);
    for (uint32_t b = 0; b < BUCKETS; b++)
        expect_ok(psr_exchange_gradient_ready(exchange, b, NULL));
    expect_ok(psr_exchange_end_step(exchange));
}

void until_it_waits_for(psr_wait wait)
{
    while (atomic_load(&session->wait) != (int)wait)
        sched_yield();
}

static pthread_t helper;

void meanwhile(void *(*function)(void *))
{
    assert_int_equal(pthread_create(&helper, NULL, function, NULL), 0);
}

void *helper_result(void)
{
    void *result = NULL;
    pthread_join(helper, &result);
    return result;
}
