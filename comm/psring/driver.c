#include "comm/psring/driver.h"

#include "base/clock.h"
#include "comm/loop.h"
#include "comm/psring/waiters.h"
#include "net/violation.h"

#include <stdio.h>
#include <stdlib.h>

/* The node's orders are commands of these kinds, from ORDERS on. */
enum { LEAVE = PSR_COMMAND_OWNER, LEND_FROM, LEND_NO_MORE, ORDERS };

/* To a rank. One that is cut is never opened again. */
typedef enum channel_state { NONE_YET, OPEN, CUT } channel_state;

struct psr_driver {
    psr_driver_options options;
    psr_node *node;
    psr_loop *loop; /* driven by turns, or alone */
    /* [ranks] used by whoever has the turn, as the next one: */
    channel_state *channels;
    uint64_t *sent;      /* messages for that rank since the beginning */
    uint8_t *sent_list;  /* room for all of them in DONE */
    _Atomic bool bye;    /* the coordinator has let this rank go */
    _Atomic bool judged; /* it has said how everything failed here */
    psr_waiters waiters;
    _Atomic uint32_t wakes; /* how often psr_driver_wake was called */
    uint32_t wakes_heard;   /* of these: told to waiting threads; used by whoever has the turn */
    /* Protected by options.calls: */
    uint32_t wakes_taken; /* of these: have ended a wait */
    bool driven;          /* a thread of the program waits in the loop */
    int64_t waited_ns;
};

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

static void changed(void *context)
{
    psr_driver *d = context;
    psr_loop_changed(d->loop);
    psr_waiters_ended(&d->waiters);
}

/* ---- orders ---- */

/* With what it has sent to each rank: whoever has as many messages of it waits for no more. */
static void say_left(psr_driver *d)
{
    psr_head head = psr_msg_done_head(&(psr_msg_done){0});
    const psr_payload list = {
        .data = d->sent_list,
        .bytes = psr_msg_sent_write(d->sent, d->options.view->member_count, d->sent_list)};
    psr_err told =
        psr_transport_send(d->options.transport, coordinator, &head, list.bytes > 0 ? &list : NULL);
    (void)told; /* a scheduler that cannot be told will miss this rank */
}

/* If the transport takes no more arenas, values that lie there are sent as any others are. */
static void lend_from(psr_driver *d, const psr_driver_arena *arena)
{
    psr_err err = psr_transport_lend_from(d->options.transport, &arena->arena);
    (void)err;
}

static void lend_no_more(psr_driver *d, psr_driver_arena *arena)
{
    psr_transport_lend_no_more(d->options.transport, &arena->arena);
    atomic_store(&arena->ended, true);
    changed(d);
}

static psr_err take_command(void *context, const psr_command *command)
{
    psr_driver *d = context;
    if (command->kind == LEAVE)
        say_left(d);
    else if (command->kind == LEND_FROM)
        lend_from(d, command->object);
    else if (command->kind == LEND_NO_MORE)
        lend_no_more(d, command->object);
    else
        psr_node_take(d->node, (psr_node_order)(command->kind - ORDERS), command->object,
                      psr_clock_ms());
    return PSR_OK;
}

static psr_command command_of(psr_node_order order, void *object)
{
    return (psr_command){.kind = ORDERS + (uint32_t)order, .object = object};
}

static psr_err taken(bool is)
{
    return is ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for an order");
}

psr_err psr_driver_order(psr_driver *driver, psr_node_order order, void *object)
{
    const psr_command command = command_of(order, object);
    return taken(psr_loop_submit(driver->loop, &command));
}

psr_err psr_driver_order_later(psr_driver *driver, psr_node_order order, void *object)
{
    const psr_command command = command_of(order, object);
    return taken(psr_loop_submit_later(driver->loop, &command));
}

/* ---- waiting ---- */

#define MS_NS ((int64_t)1000000)

/* For how long nothing happens unless somebody else causes it. */
static int64_t move_alone(void *context)
{
    psr_driver *d = context;
    int64_t next_ms = INT64_MAX, now_ms = psr_clock_ms();
    if (d->options.transport == NULL)
        psr_node_tick(d->node, now_ms, &next_ms);
    return next_ms == INT64_MAX ? next_ms : next_ms - now_ms;
}

/* What a thread of the program waits for. */
typedef struct goal {
    psr_driver *driver;
    bool (*reached)(void *context);
    void *context;
    bool wakeable;
    uint32_t wakes; /* of the driver that have ended earlier waits */
    int64_t end_ns; /* INT64_MAX: none */
} goal;

static bool is_woken(const goal *g)
{
    return g->wakeable && atomic_load(&g->driver->wakes) != g->wakes;
}

static bool is_over(const goal *g)
{
    return g->reached(g->context) || is_woken(g);
}

/* Without a loop the thread has to do the work itself, with the mutex. */
static bool leaves_loop(void *context)
{
    const goal *g = context;
    return is_over(g) || psr_loop_over(g->driver->loop);
}

static int64_t left_ns_of(const goal *g)
{
    return g->end_ns == INT64_MAX ? INT64_MAX : g->end_ns - psr_clock_ns();
}

static void wait_in_loop(psr_driver *d, bool drives, goal *g)
{
    const int64_t left_ns = left_ns_of(g);
    d->driven = true;
    pthread_mutex_unlock(d->options.calls);
    (void)psr_loop_await(d->loop, drives, leaves_loop, g, left_ns > 0 ? left_ns : 0);
    pthread_mutex_lock(d->options.calls);
    d->driven = false;
    psr_waiters_notify(&d->waiters);
}

/* Sleeps while another thread waits in the loop, or most_ns. */
static void sleep_beside(psr_driver *d, const goal *g, int64_t most_ns)
{
    const int64_t left_ns = left_ns_of(g);
    const uint32_t begun = psr_waiters_begin(&d->waiters);
    if (!is_over(g) && left_ns > 0) {
        pthread_mutex_unlock(d->options.calls);
        psr_waiters_sleep(&d->waiters, begun, most_ns < left_ns ? most_ns : left_ns);
        pthread_mutex_lock(d->options.calls);
    }
    psr_waiters_end(&d->waiters);
}

static void wait_alone(psr_driver *d, const goal *g)
{
    const int64_t next_ms = psr_loop_alone(d->loop);
    sleep_beside(d, g, next_ms < INT64_MAX / MS_NS ? next_ms * MS_NS : INT64_MAX);
}

static bool wait_for(psr_driver *d, bool drives, goal *g, int64_t timeout_ms)
{
    if (g->reached(g->context))
        return true;
    const int64_t begin_ns = psr_clock_ns();
    const int64_t timeout_ns = timeout_ms < INT64_MAX / MS_NS ? timeout_ms * MS_NS : INT64_MAX;
    g->driver = d;
    g->wakes = d->wakes_taken;
    g->end_ns = timeout_ns > INT64_MAX - begin_ns ? INT64_MAX : begin_ns + timeout_ns;
    do {
        if (psr_loop_over(d->loop)) {
            wait_alone(d, g);
        } else if (!d->driven) {
            wait_in_loop(d, drives, g);
        } else if (left_ns_of(g) > 0) {
            psr_loop_nudge(d->loop);
            sleep_beside(d, g, INT64_MAX);
        }
    } while (!is_over(g) && left_ns_of(g) > 0);
    d->waited_ns += psr_clock_ns() - begin_ns;
    if (g->wakeable)
        d->wakes_taken = atomic_load(&d->wakes);
    return g->reached(g->context);
}

bool psr_driver_wait(psr_driver *driver, bool (*reached)(void *context), void *context,
                     int64_t timeout_ms)
{
    goal g = {.reached = reached, .context = context};
    return wait_for(driver, true, &g, timeout_ms);
}

bool psr_driver_wait_beside(psr_driver *driver, bool (*reached)(void *context), void *context,
                            int64_t timeout_ms)
{
    goal g = {.reached = reached, .context = context};
    return wait_for(driver, false, &g, timeout_ms);
}

bool psr_driver_wait_wakeable(psr_driver *driver, bool beside, bool (*reached)(void *context),
                              void *context, int64_t timeout_ms)
{
    goal g = {.reached = reached, .context = context, .wakeable = true};
    return wait_for(driver, !beside, &g, timeout_ms);
}

/* Whoever waits in the loop may sleep in a condition, which a signal handler must not touch: the
 * transport's wake brings the progress thread to tell it (take_wake). */
void psr_driver_wake(psr_driver *driver)
{
    atomic_fetch_add(&driver->wakes, 1);
    psr_waiters_notify(&driver->waiters);
    if (driver->options.transport != NULL)
        psr_transport_wake(driver->options.transport);
}

static psr_err take_wake(void *context)
{
    psr_driver *d = context;
    const uint32_t wakes = atomic_load(&d->wakes);
    if (wakes != d->wakes_heard)
        psr_loop_changed(d->loop);
    d->wakes_heard = wakes;
    return PSR_OK;
}

void psr_driver_changed_here(psr_driver *driver)
{
    psr_loop_changed(driver->loop);
    psr_waiters_notify(&driver->waiters);
}

psr_err psr_driver_event_fd(psr_driver *driver, int *ret_fd)
{
    PSR_TRY(psr_waiters_event_fd(&driver->waiters, ret_fd));
    psr_loop_unattended(driver->loop);
    return PSR_OK;
}

void psr_driver_take_event(psr_driver *driver)
{
    psr_waiters_take_event(&driver->waiters);
}

int64_t psr_driver_waited_ns(const psr_driver *driver)
{
    return driver->waited_ns;
}

static bool is_let_go(void *context)
{
    psr_driver *d = context;
    return atomic_load(&d->bye) || psr_loop_over(d->loop) || psr_node_failure(d->node) != NULL;
}

void psr_driver_leave(psr_driver *driver, int64_t timeout_ms)
{
    if (psr_loop_over(driver->loop))
        return;
    if (!psr_loop_submit(driver->loop, &(psr_command){.kind = LEAVE}))
        return; /* without memory this rank will be missed */
    if (timeout_ms > 0)
        (void)psr_driver_wait(driver, is_let_go, driver, timeout_ms);
}

psr_err psr_driver_lend_from(psr_driver *driver, psr_driver_arena *arena)
{
    return taken(psr_loop_submit(driver->loop, &(psr_command){.kind = LEND_FROM, .object = arena}));
}

typedef struct awaited_arena {
    const psr_driver *driver;
    const psr_driver_arena *arena;
} awaited_arena;

static bool has_ended(void *context)
{
    const awaited_arena *awaited = context;
    return atomic_load(&awaited->arena->ended) || psr_loop_over(awaited->driver->loop);
}

bool psr_driver_lend_no_more(psr_driver *driver, psr_driver_arena *arena)
{
    awaited_arena awaited = {driver, arena};
    if (psr_loop_submit(driver->loop, &(psr_command){.kind = LEND_NO_MORE, .object = arena}))
        (void)psr_driver_wait(driver, has_ended, &awaited, INT64_MAX);
    return atomic_load(&arena->ended);
}

static bool is_judged(void *context)
{
    psr_driver *d = context;
    return atomic_load(&d->judged) || psr_loop_over(d->loop);
}

void psr_driver_wait_verdict(psr_driver *driver, int64_t timeout_ms)
{
    (void)psr_driver_wait(driver, is_judged, driver, timeout_ms);
}

/* ---- with the turn ---- */

/* The caller may have any number of operations under way, so the limit grows with them. They are
 * counted only if many messages wait. */
static bool too_much_waits(const psr_driver *d, psr_peer to)
{
    size_t waiting = psr_transport_waiting(d->options.transport, to);
    return waiting >= PSR_NODE_WAITING_LEAST && waiting >= psr_node_waiting_max(d->node);
}

static void give_back(const psr_payload *payload)
{
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
}

/* Channels to other ranks are opened when something is first sent there. Who was cut off reads
 * nothing: an operation may be done although it sends to a rank that has left. */
static psr_err send_message(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    psr_driver *d = context;
    channel_state *channel = to.role == PSR_ROLE_WORKER && to.rank < d->options.view->member_count
                                 ? &d->channels[to.rank]
                                 : NULL;
    if (channel != NULL && *channel == NONE_YET) {
        psr_err err = psr_member_connect(d->options.member, to);
        if (err != PSR_OK) {
            give_back(payload);
            return err;
        }
        *channel = OPEN;
    }
    if (channel != NULL && *channel == CUT) {
        give_back(payload);
        return PSR_OK;
    }
    if (to.role == PSR_ROLE_WORKER && too_much_waits(d, to)) {
        give_back(payload);
        return psr_violation_unread(to, psr_transport_waiting(d->options.transport, to));
    }
    if (channel != NULL)
        d->sent[to.rank]++;
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
    d->channels[peer.rank] = CUT;
    psr_transport_disconnect(d->options.transport, peer);
}

static void retire(void *context, psr_peer peer)
{
    psr_driver *d = context;
    psr_transport_retire(d->options.transport, peer);
}

/* Messages that wait for a rank that has left are dropped. */
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
    bool own = says.scope == PSR_SCOPE_ALL ||
               (says.scope == PSR_SCOPE_LOST && says.rank == d->options.rank);
    if (!own)
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

/* The scheduler is gone, or nothing can be received any more. After BYE this is expected. */
static void receiving_failed(void *context, psr_err err)
{
    psr_driver *d = context;
    const uint32_t host = psr_transport_scheduler_rank(d->options.transport);
    const int64_t silent_ms = psr_member_silent_ms(d->options.member);
    const bool ended = psr_transport_scheduler_ended(d->options.transport);
    char name[PSR_HOST_MAX + 32];
    if (atomic_load(&d->bye))
        return;
    if (host >= d->options.view->member_count || (!ended && silent_ms == 0)) {
        psr_node_fail(d->node, err, PSR_RANK_ANY);
        return;
    }
    psr_node_name_rank(d->node, host, name, sizeof name);
    if (ended)
        err =
            psr_fail(err, "%s was lost: its process, which hosted the scheduler, has ended", name);
    else
        err = psr_fail(err,
                       "%s: no sign of life for %.1f s of its process, which hosts the scheduler",
                       name, (double)silent_ms / 1000);
    psr_node_fail(d->node, err, host);
}

static bool busy(void *context)
{
    const psr_driver *d = context;
    return psr_node_busy(d->node);
}

/* ---- life ---- */

static psr_err open_node(psr_driver *d)
{
    const psr_driver_options *o = &d->options;
    const psr_node_options options = {.view = o->view,
                                      .rank = o->rank,
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
    d->channels = calloc(o->view->member_count, sizeof *d->channels);
    d->sent = calloc(o->view->member_count, sizeof *d->sent);
    d->sent_list = malloc((size_t)o->view->member_count * PSR_MSG_SENT_BYTES);
    if (d->channels == NULL || d->sent == NULL || d->sent_list == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u ranks", o->view->member_count);
    return psr_node_new(&options, psr_clock_ms(), &d->node);
}

static psr_err open_loop(psr_driver *d)
{
    const psr_loop_options options = {.transport = d->options.transport,
                                      .member = d->options.member,
                                      .context = d,
                                      .command = take_command,
                                      .message = take_message,
                                      .woken = take_wake,
                                      .tick = tick,
                                      .failed = receiving_failed,
                                      .busy = busy,
                                      .alone = move_alone};
    if (d->options.transport != NULL)
        psr_transport_bound(d->options.transport, PSR_ROLE_WORKER,
                            SIZE_MAX); /* too_much_waits limits them */
    return psr_loop_new(&options, &d->loop);
}

psr_err psr_driver_new(const psr_driver_options *options, psr_driver **ret_driver)
{
    psr_driver *d = calloc(1, sizeof *d);
    if (d == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    d->options = *options;
    psr_waiters_init(&d->waiters);
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
    return psr_loop_start(driver->loop);
}

void psr_driver_stop(psr_driver *driver)
{
    if (driver != NULL)
        psr_loop_stop(driver->loop);
}

void psr_driver_free(psr_driver *driver)
{
    if (driver == NULL)
        return;
    psr_loop_free(driver->loop);
    psr_node_free(driver->node);
    psr_waiters_done(&driver->waiters);
    free(driver->channels);
    free(driver->sent);
    free(driver->sent_list);
    free(driver);
}

psr_node *psr_driver_node(const psr_driver *driver)
{
    return driver->node;
}
