#include "comm/psring/driver.h"

#include "base/clock.h"
#include "comm/psring/progress_engine.h"
#include "net/violation.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMANDS_MAX = 1 /* the loop's own queue is not used */ };

typedef struct ordered {
    psr_node_order order;
    void *object;
} ordered;

struct psr_driver {
    psr_driver_options options;
    psr_node *node;
    psr_loop *loop; /* NULL: alone */
    psr_progress_engine *engine;
    bool *connected;     /* [ranks] who has the turn's */
    _Atomic bool bye;    /* the coordinator has let this rank go */
    _Atomic bool judged; /* it has said how everything failed here */
    int64_t waited_ns;   /* the caller's */

    pthread_mutex_t mutex;
    /* Under mutex: */
    ordered *orders; /* [first, count) are to be taken */
    size_t first, count, capacity;
    bool leaves; /* say DONE, once */
};

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

static void changed(void *context)
{
    psr_driver *d = context;
    psr_progress_engine_changed(d->engine);
}

/* ---- orders ---- */

static psr_err add(psr_driver *d, psr_node_order order, void *object)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&d->mutex);
    if (d->count == d->capacity && d->first > d->count / 2) { /* what is moved is less than what was taken */
        memmove(d->orders, d->orders + d->first, (d->count - d->first) * sizeof *d->orders);
        d->count -= d->first;
        d->first = 0;
    }
    if (d->count == d->capacity) {
        size_t larger = d->capacity > 0 ? 2 * d->capacity : 16;
        ordered *grown = realloc(d->orders, larger * sizeof *grown);
        if (grown != NULL) {
            d->orders = grown;
            d->capacity = larger;
        } else {
            err = psr_fail(PSR_ERR_NOMEM, "no memory for an order");
        }
    }
    if (err == PSR_OK)
        d->orders[d->count++] = (ordered){order, object};
    pthread_mutex_unlock(&d->mutex);
    return err;
}

/* The first of them. false: there is none. */
static bool next_order(psr_driver *d, ordered *ret_order)
{
    pthread_mutex_lock(&d->mutex);
    bool any = d->first < d->count;
    if (any)
        *ret_order = d->orders[d->first++];
    if (d->first == d->count)
        d->first = d->count = 0;
    pthread_mutex_unlock(&d->mutex);
    return any;
}

static void say_done(psr_driver *d)
{
    pthread_mutex_lock(&d->mutex);
    bool leaves = d->leaves;
    d->leaves = false;
    pthread_mutex_unlock(&d->mutex);
    if (!leaves)
        return;
    psr_head head = psr_msg_done_head(&(psr_msg_done){0});
    psr_err told = psr_transport_send(d->options.transport, coordinator, &head, NULL);
    (void)told; /* who cannot be told misses this rank */
}

static void take_orders(void *context)
{
    psr_driver *d = context;
    ordered o;
    while (next_order(d, &o))
        psr_node_take(d->node, o.order, o.object, psr_clock_ms());
    say_done(d);
}

psr_err psr_driver_order(psr_driver *driver, psr_node_order order, void *object)
{
    PSR_TRY(add(driver, order, object));
    if (psr_progress_engine_over(driver->engine))
        take_orders(driver);
    else
        psr_progress_engine_submit(driver->engine);
    return PSR_OK;
}

psr_err psr_driver_order_later(psr_driver *driver, psr_node_order order, void *object)
{
    if (psr_progress_engine_over(driver->engine))
        return psr_driver_order(driver, order, object);
    return add(driver, order, object);
}

/* ---- waiting ---- */

/* How long nothing happens if nobody else makes it happen. */
static int64_t move_alone(void *context)
{
    psr_driver *d = context;
    int64_t next_ms = INT64_MAX, now_ms = psr_clock_ms();
    take_orders(d);
    if (d->loop == NULL)
        psr_node_tick(d->node, now_ms, &next_ms);
    return next_ms == INT64_MAX ? next_ms : next_ms - now_ms;
}

static bool wait_for(psr_driver *d, bool drives, bool (*reached)(void *context), void *context,
                     int64_t timeout_ms)
{
    if (reached(context))
        return true;
    int64_t begin_ns = psr_clock_ns();
    bool is = psr_progress_engine_wait(d->engine, drives, reached, context, timeout_ms);
    d->waited_ns += psr_clock_ns() - begin_ns;
    return is;
}

bool psr_driver_wait(psr_driver *driver, bool (*reached)(void *context), void *context, int64_t timeout_ms)
{
    return wait_for(driver, true, reached, context, timeout_ms);
}

bool psr_driver_wait_beside(psr_driver *driver, bool (*reached)(void *context), void *context,
                            int64_t timeout_ms)
{
    return wait_for(driver, false, reached, context, timeout_ms);
}

int64_t psr_driver_waited_ns(const psr_driver *driver)
{
    return driver->waited_ns;
}

static bool is_let_go(void *context)
{
    psr_driver *d = context;
    return atomic_load(&d->bye) || psr_progress_engine_over(d->engine) || psr_node_failure(d->node) != NULL;
}

void psr_driver_leave(psr_driver *driver, int64_t timeout_ms)
{
    if (psr_progress_engine_over(driver->engine))
        return;
    pthread_mutex_lock(&driver->mutex);
    driver->leaves = true;
    pthread_mutex_unlock(&driver->mutex);
    psr_progress_engine_submit(driver->engine);
    if (timeout_ms > 0)
        (void)psr_driver_wait(driver, is_let_go, driver, timeout_ms);
}

static bool is_judged(void *context)
{
    psr_driver *d = context;
    return atomic_load(&d->judged) || psr_progress_engine_over(d->engine);
}

void psr_driver_wait_verdict(psr_driver *driver, int64_t timeout_ms)
{
    (void)psr_driver_wait(driver, is_judged, driver, timeout_ms);
}

/* ---- with the turn ---- */

/* Its owner's calls are its own to make, however many. So what may wait grows with those that are
 * under way, which is asked for only when that matters. */
static bool too_much_waits(const psr_driver *d, psr_peer to)
{
    size_t waiting = psr_transport_waiting(d->options.transport, to);
    return waiting >= PSR_NODE_WAITING_LEAST && waiting >= psr_node_waiting_max(d->node);
}

/* Channels to other ranks are opened when something is first sent there. */
static psr_err send_message(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_driver *d = context;
    if (to.role == PSR_ROLE_WORKER && to.rank < d->options.view->member_count && !d->connected[to.rank]) {
        psr_err err = psr_member_connect(d->options.member, to);
        if (err != PSR_OK) {
            if (payload != NULL && payload->release != NULL)
                payload->release(payload->context);
            return err;
        }
        d->connected[to.rank] = true;
    }
    if (to.role == PSR_ROLE_WORKER && too_much_waits(d, to)) {
        if (payload != NULL && payload->release != NULL)
            payload->release(payload->context);
        return psr_violation_unread(to, psr_transport_waiting(d->options.transport, to));
    }
    return psr_transport_send(d->options.transport, to, head, payload);
}

static size_t waiting(void *context, psr_peer to)
{
    psr_driver *d = context;
    return psr_transport_waiting(d->options.transport, to);
}

static void cut(void *context, psr_peer peer)
{
    psr_driver *d = context;
    d->connected[peer.rank] = true; /* never again */
    psr_transport_disconnect(d->options.transport, peer);
}

static void retire(void *context, psr_peer peer)
{
    psr_driver *d = context;
    psr_transport_retire(d->options.transport, peer);
}

/* What waits to be sent to who has left is of no use to anybody. */
static void forget_who_left(psr_driver *d, const psr_message *bye)
{
    for (uint32_t rank = 0; rank < d->options.view->member_count; rank++)
        if (rank != d->options.rank && psr_msg_ranks_has(bye->payload, bye->payload_bytes, rank))
            cut(d, (psr_peer){PSR_ROLE_WORKER, rank});
}

static void note_verdict(psr_driver *d, const psr_message *message)
{
    psr_msg_failure says;
    const psr_msg_limits limits = {.workers = d->options.view->member_count, .epoch = UINT32_MAX};
    if (psr_msg_failure_read(message, &limits, &says) != PSR_OK || says.status == PSR_OK)
        return;
    bool own = says.scope == PSR_SCOPE_ALL || (says.scope == PSR_SCOPE_LOST && says.rank == d->options.rank);
    if (!own && !d->options.together)
        return;
    atomic_store(&d->judged, true);
    changed(d);
}

static psr_err take_message(void *context, psr_message **message)
{
    psr_driver *d = context;
    if (psr_peer_equal((*message)->from, coordinator) && (*message)->head.type == PSR_MSG_VERDICT)
        note_verdict(d, *message);
    if (psr_peer_equal((*message)->from, coordinator) && (*message)->head.type == PSR_MSG_BYE) {
        forget_who_left(d, *message);
        atomic_store(&d->bye, true);
        changed(d);
        return PSR_OK;
    }
    psr_node_message(d->node, message, psr_clock_ms());
    return PSR_OK;
}

static psr_err tick(void *context, int64_t now_ms, int64_t *ret_next_ms)
{
    psr_driver *d = context;
    psr_node_tick(d->node, now_ms, ret_next_ms);
    return PSR_OK;
}

/* The scheduler is gone, or what comes in cannot be read: nothing more can be heard. After BYE that is as it should be. */
static void receiving_failed(void *context, psr_err err)
{
    psr_driver *d = context;
    char line[PSR_FAILURE_LINE_BYTES];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    if (!atomic_load(&d->bye))
        psr_node_fail(d->node, err, psr_clock_ms());
    psr_member_failed(d->options.member, err, line);
}

static bool busy(void *context)
{
    const psr_driver *d = context;
    return psr_node_busy(d->node);
}

static void turned(void *context)
{
    take_orders(context);
}

/* ---- life ---- */

static psr_err open_node(psr_driver *d)
{
    const psr_driver_options *o = &d->options;
    const psr_node_options options = {.view = o->view,
                                      .rank = o->rank,
                                      .together = o->together,
                                      .alone = o->transport == NULL,
                                      .deadline_ms = o->deadline_ms,
                                      .outbox = {.context = d,
                                                 .send = send_message,
                                                 .returned = changed,
                                                 .waiting = o->transport != NULL ? waiting : NULL},
                                      .context = d,
                                      .cut = cut,
                                      .retire = retire,
                                      .changed = changed};
    d->connected = calloc(o->view->member_count, sizeof *d->connected);
    if (d->connected == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u ranks", o->view->member_count);
    return psr_node_new(&options, psr_clock_ms(), &d->node);
}

static psr_err open_loop(psr_driver *d)
{
    if (d->options.transport == NULL)
        return PSR_OK;
    const psr_loop_options options = {.transport = d->options.transport,
                                      .member = d->options.member,
                                      .commands_max = COMMANDS_MAX,
                                      .context = d,
                                      .message = take_message,
                                      .turned = turned,
                                      .tick = tick};
    psr_transport_bound(d->options.transport, PSR_ROLE_WORKER, SIZE_MAX); /* too_much_waits bounds them */
    return psr_loop_new(&options, &d->loop);
}

static psr_err open_engine(psr_driver *d)
{
    const psr_progress_engine_options options = {.loop = d->loop,
                                                 .transport = d->options.transport,
                                                 .context = d,
                                                 .busy = busy,
                                                 .failed = receiving_failed,
                                                 .alone = move_alone};
    return psr_progress_engine_new(&options, &d->engine);
}

psr_err psr_driver_new(const psr_driver_options *options, psr_driver **ret_driver)
{
    psr_driver *d = calloc(1, sizeof *d);
    if (d == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    d->options = *options;
    pthread_mutex_init(&d->mutex, NULL);
    psr_err err = open_node(d);
    if (err == PSR_OK)
        err = open_loop(d);
    if (err == PSR_OK)
        err = open_engine(d);
    if (err != PSR_OK) {
        psr_driver_free(d);
        return err;
    }
    *ret_driver = d;
    return PSR_OK;
}

psr_err psr_driver_start(psr_driver *driver)
{
    return psr_progress_engine_start(driver->engine);
}

void psr_driver_stop(psr_driver *driver)
{
    if (driver == NULL || driver->loop == NULL)
        return;
    psr_progress_engine_stop(driver->engine);
    take_orders(driver); /* those that nobody came to */
}

void psr_driver_free(psr_driver *driver)
{
    if (driver == NULL)
        return;
    psr_progress_engine_free(driver->engine);
    psr_loop_free(driver->loop);
    psr_node_free(driver->node);
    free(driver->connected);
    free(driver->orders);
    pthread_mutex_destroy(&driver->mutex);
    free(driver);
}

psr_node *psr_driver_node(const psr_driver *driver)
{
    return driver->node;
}
