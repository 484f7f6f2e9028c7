#include "comm/psring/driver.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { COMMANDS_MAX = 1 /* the loop's own queue is not used */ };

typedef struct ordered {
    psr_node_order order;
    void *object;
} ordered;

struct psr_driver {
    psr_driver_options options;
    psr_node *node;
    psr_loop *loop;       /* NULL: alone */
    bool *connected;      /* [ranks] the progress thread's */
    _Atomic bool bye;     /* the coordinator has let this rank go */
    _Atomic bool ended;   /* the progress thread takes no orders any more: whoever gives them does */
    _Atomic bool waiting; /* the caller, for a change */

    pthread_mutex_t mutex;
    pthread_cond_t condition;
    /* Under mutex: */
    ordered *orders;
    size_t count, capacity;
    bool leaves; /* say DONE, once */
};

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

/* ---- waiting ---- */

static void changed(void *context)
{
    psr_driver *d = context;
    /* The fence pairs with the one in psr_driver_wait: either the waiter sees what was written before this call, or this call sees that
     * somebody waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&d->waiting, memory_order_relaxed))
        return;
    pthread_mutex_lock(&d->mutex);
    pthread_cond_broadcast(&d->condition);
    pthread_mutex_unlock(&d->mutex);
}

/* ---- orders ---- */

static psr_err add(psr_driver *d, psr_node_order order, void *object)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&d->mutex);
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
    bool any = d->count > 0;
    if (any) {
        *ret_order = d->orders[0];
        d->count--;
        for (size_t i = 0; i < d->count; i++)
            d->orders[i] = d->orders[i + 1];
    }
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

/* There is no progress thread, or it has ended. */
static bool is_callers(const psr_driver *d)
{
    return d->loop == NULL || atomic_load_explicit(&d->ended, memory_order_acquire);
}

psr_err psr_driver_order(psr_driver *driver, psr_node_order order, void *object)
{
    PSR_TRY(add(driver, order, object));
    if (is_callers(driver))
        take_orders(driver);
    else
        psr_transport_wake(driver->options.transport);
    return PSR_OK;
}

/* ---- waiting, the other side ---- */

/* Until a change, or a time that is ms from now. */
static void pause_for(psr_driver *d, int64_t ms)
{
    const int64_t day_ms = 86400000;
    struct timespec until = psr_clock_after_ns((ms < day_ms ? ms : day_ms) * 1000000);
    pthread_cond_timedwait(&d->condition, &d->mutex, &until);
}

/* How long nothing happens if nobody else makes it happen. */
static int64_t move_alone(psr_driver *d)
{
    int64_t next_ms = INT64_MAX, now_ms = psr_clock_ms();
    take_orders(d);
    if (d->loop == NULL)
        psr_node_tick(d->node, now_ms, &next_ms);
    return next_ms == INT64_MAX ? next_ms : next_ms - now_ms;
}

bool psr_driver_wait(psr_driver *driver, bool (*reached)(void *context), void *context, int64_t timeout_ms)
{
    int64_t begin_ms = psr_clock_ms();
    bool is = reached(context);
    while (!is) {
        int64_t past_ms = psr_clock_ms() - begin_ms;
        int64_t left_ms = is_callers(driver) ? move_alone(driver) : INT64_MAX;
        if (timeout_ms != INT64_MAX && timeout_ms - past_ms < left_ms)
            left_ms = timeout_ms - past_ms;
        pthread_mutex_lock(&driver->mutex);
        atomic_store_explicit(&driver->waiting, true, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        is = reached(context);
        if (!is && left_ms > 0)
            pause_for(driver, left_ms);
        atomic_store_explicit(&driver->waiting, false, memory_order_relaxed);
        pthread_mutex_unlock(&driver->mutex);
        is = is || reached(context);
        if (timeout_ms != INT64_MAX && psr_clock_ms() - begin_ms >= timeout_ms)
            break;
    }
    return is;
}

static bool is_let_go(void *context)
{
    psr_driver *d = context;
    return atomic_load(&d->bye) || is_callers(d) || psr_node_failure(d->node) != NULL;
}

void psr_driver_leave(psr_driver *driver, int64_t timeout_ms)
{
    if (is_callers(driver))
        return;
    pthread_mutex_lock(&driver->mutex);
    driver->leaves = true;
    pthread_mutex_unlock(&driver->mutex);
    psr_transport_wake(driver->options.transport);
    if (timeout_ms > 0)
        (void)psr_driver_wait(driver, is_let_go, driver, timeout_ms);
}

/* ---- the progress thread ---- */

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
    return psr_transport_send(d->options.transport, to, head, payload);
}

static void cut(void *context, psr_peer peer)
{
    psr_driver *d = context;
    d->connected[peer.rank] = true; /* never again */
    psr_transport_disconnect(d->options.transport, peer);
}

/* What waits to be sent to who has left is of no use to anybody. */
static void forget_who_left(psr_driver *d, const psr_message *bye)
{
    for (uint32_t rank = 0; rank < d->options.view->member_count; rank++)
        if (rank != d->options.rank && psr_msg_ranks_has(bye->payload, bye->payload_bytes, rank))
            cut(d, (psr_peer){PSR_ROLE_WORKER, rank});
}

static psr_err take_message(void *context, psr_message **message)
{
    psr_driver *d = context;
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
static psr_err receiving_failed(void *context, psr_err err)
{
    psr_driver *d = context;
    if (!atomic_load(&d->bye))
        psr_node_fail(d->node, err, psr_clock_ms());
    atomic_store_explicit(&d->ended, true, memory_order_release);
    changed(d);
    return err;
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
                                      .alone = o->transport == NULL,
                                      .deadline_ms = o->deadline_ms,
                                      .outbox = {d, send_message, changed},
                                      .context = d,
                                      .cut = cut,
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
                                      .tick = tick,
                                      .failed = receiving_failed};
    return psr_loop_new(&options, &d->loop);
}

psr_err psr_driver_new(const psr_driver_options *options, psr_driver **ret_driver)
{
    psr_driver *d = calloc(1, sizeof *d);
    if (d == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    d->options = *options;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    psr_err err = open_node(d);
    if (err == PSR_OK)
        err = open_loop(d);
    if (err != PSR_OK) {
        psr_driver_free(d);
        return err;
    }
    *ret_driver = d;
    return PSR_OK;
}

psr_err psr_driver_start(psr_driver *driver)
{
    return driver->loop != NULL ? psr_loop_start(driver->loop) : PSR_OK;
}

void psr_driver_stop(psr_driver *driver)
{
    if (driver == NULL || driver->loop == NULL)
        return;
    psr_loop_stop(driver->loop);
    atomic_store(&driver->ended, true);
    take_orders(driver); /* where the thread did not come to it */
}

void psr_driver_free(psr_driver *driver)
{
    if (driver == NULL)
        return;
    psr_loop_free(driver->loop);
    psr_node_free(driver->node);
    free(driver->connected);
    free(driver->orders);
    pthread_cond_destroy(&driver->condition);
    pthread_mutex_destroy(&driver->mutex);
    free(driver);
}

psr_node *psr_driver_node(const psr_driver *driver)
{
    return driver->node;
}
