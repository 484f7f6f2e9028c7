/* What an exchange does on the exchange thread when one view follows another: the binding is
 * dropped and made again, and state changes hands (comm/view/handover.h). */
#include "worker/exchange/exchange_private.h"

#include "base/arrays/arena.h"
#include "comm/loop.h"
#include "comm/wire/messages.h"

#include <string.h>

static psr_peer self_of(const psr_exchange *exchange)
{
    return (psr_peer){PSR_ROLE_WORKER, exchange->options.rank};
}

static void wake(void *context)
{
    psr_transport_wake(((psr_exchange *)context)->session->options.transport);
}

static psr_err open_binding(psr_exchange *exchange, uint64_t first_step)
{
    const psr_exchange_options *o = &exchange->options;
    const psr_engine_env env = {
        .config = o->config,
        .layout = o->layout,
        .buckets = o->buckets,
        .plan = exchange->plan,
        .rank = o->rank,
        .gpu = o->gpu,
        .first_step = first_step,
        .total_steps = o->session->options.total_steps,
        .skipped_steps = o->skipped_steps,
        .weights = exchange->weights,
        .gradients = exchange->gradients,
        .gradients_space = o->gradients_space,
        .in_place = o->weights_in_place,
        .residuals = exchange->residuals,
        .optimizer = psr_config_updates_on_device(o->config) ? NULL : exchange->optimizer,
        .outbox = psr_exchange_outbox(exchange),
        .context = exchange,
        .landed = psr_exchange_landed,
        .fetched = psr_exchange_fetched,
        .stale = psr_exchange_stale,
        .clipped = psr_exchange_clipped,
        .normed = psr_exchange_normed,
        .wake = wake,
    };
    return psr_binding_new(&exchange->ways, &env, &exchange->binding);
}

/* The most that all others may have sent under a view that this worker has not bound. */
static size_t waiting_max(const psr_plan *plan)
{
    return psr_plan_waiting_max(plan) * ((size_t)plan->ranks + plan->shards);
}

psr_err psr_exchange_bind_first(psr_exchange *exchange)
{
    PSR_TRY(psr_epoch_gate_new(waiting_max(exchange->plan), &exchange->gate));
    atomic_store(&exchange->bound, true);
    return open_binding(exchange, exchange->session->options.first_step);
}

/* ---- hand-over ---- */

static float *array_of(void *context, uint32_t array)
{
    psr_exchange *exchange = context;
    return array == PSR_HANDOVER_WEIGHTS ? exchange->weights
                                         : psr_optimizer_slot(exchange->optimizer, array - 1);
}

/* Everything that is handed to this worker has come: the messages that waited for it are taken. */
static psr_err see_bound(psr_exchange *exchange)
{
    psr_peer from;
    uint32_t bucket;
    if (atomic_load(&exchange->bound) ||
        psr_handover_waits(&exchange->handover, self_of(exchange), exchange->plan, &from, &bucket))
        return PSR_OK;
    psr_epoch_gate_open(exchange->gate);
    atomic_store(&exchange->bound, true);
    psr_loop_changed(exchange->session->loop);
    return psr_exchange_take_waiting(exchange);
}

psr_err psr_exchange_take_state(psr_exchange *exchange, psr_message **message)
{
    const psr_handover_arrays arrays = {exchange, array_of};
    psr_err err = psr_handover_take(&exchange->handover, self_of(exchange), &arrays, *message);
    psr_message_free(message);
    return err == PSR_OK ? see_bound(exchange) : err;
}

/* The scheduler tells a shard of the new view, and worker 0 tells it that the view begins: then the
 * step will be taken. */
static psr_err tell_shards(psr_exchange *exchange, uint64_t step, const psr_outbox *outbox)
{
    const psr_head head = psr_msg_state_head(&(psr_msg_state){.step = step});
    for (uint32_t s = 0; exchange->options.rank == 0 && s < exchange->plan->shards; s++)
        PSR_TRY(outbox->send(outbox->context, (psr_peer){PSR_ROLE_SHARD, s}, &head, NULL));
    return PSR_OK;
}

/* State that this worker had by the old plan and has not by the new one costs no memory any
 * more. */
static void drop_state(psr_exchange *exchange, const psr_plan *old)
{
    const size_t length = exchange->options.layout->length;
    for (uint32_t b = 0; b < old->bucket_count; b++) {
        if (psr_plan_holds(exchange->plan, b, self_of(exchange)))
            continue;
        for (uint32_t i = 0; i < psr_optimizer_slot_count(exchange->optimizer); i++)
            psr_arena_drop(psr_optimizer_slot(exchange->optimizer, i), length,
                           old->buckets[b].span);
    }
}

static psr_err hand_over(psr_exchange *exchange, const psr_plan *old, uint64_t step)
{
    const psr_handover_members members = {.workers = old->ranks, .shards = exchange->plan->shards};
    const psr_handover_arrays arrays = {exchange, array_of};
    const psr_outbox outbox = psr_exchange_outbox(exchange);
    psr_handover_done(&exchange->handover);
    PSR_TRY(psr_handover_make(old, exchange->plan, &members,
                              psr_optimizer_slot_count(exchange->optimizer), &exchange->handover));
    PSR_TRY(tell_shards(exchange, step, &outbox));
    PSR_TRY(psr_handover_send(&exchange->handover, self_of(exchange), &arrays, step,
                              exchange->plan->slice_floats, &outbox));
    drop_state(exchange, old);
    return PSR_OK;
}

/* ---- from one view to the next ---- */

/* Pages of the weights may be a shard's or another worker's, which will write there no more for
 * this one. */
static psr_err own_weights(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    if (!o->weights_in_place)
        return PSR_OK;
    return o->own_weights != NULL ? o->own_weights(o->context)
                                  : psr_arena_own(exchange->weights, o->layout->length);
}

static psr_err check_buckets(const psr_exchange *exchange, const psr_plan *plan)
{
    bool same = plan->bucket_count == exchange->plan->bucket_count &&
                plan->ranks == exchange->plan->ranks && plan->shards == exchange->plan->shards;
    for (uint32_t b = 0; same && b < plan->bucket_count; b++)
        same = psr_span_equal(plan->buckets[b].span, exchange->plan->buckets[b].span) &&
               (plan->buckets[b].route == PSR_ROUTE_FROZEN) ==
                   (exchange->plan->buckets[b].route == PSR_ROUTE_FROZEN);
    return same ? PSR_OK
                : psr_fail(PSR_ERR_FORMAT,
                           "the scheduler's new view has other buckets or members than the run");
}

psr_err psr_exchange_bind_next(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    const psr_view *before = exchange->view, *view = exchange->next;
    const psr_plan *old = exchange->plan;
    PSR_TRY(check_buckets(exchange, &view->plan));
    psr_binding_free(exchange->binding);
    exchange->binding = NULL;
    PSR_TRY(psr_engine_choose(o->config, &view->plan, &exchange->ways));
    if (o->rebinding != NULL)
        PSR_TRY(o->rebinding(o->context, &view->plan));
    PSR_TRY(own_weights(exchange));
    if (exchange->optimizer == NULL)
        PSR_TRY(psr_optimizer_new(o->config, o->layout, &exchange->optimizer));
    exchange->view = psr_view_hold(view);
    exchange->plan = &view->plan;
    PSR_TRY(open_binding(exchange, view->first_step));
    psr_epoch_gate_move(exchange->gate, view->epoch, waiting_max(&view->plan));
    psr_err err = hand_over(exchange, old, view->first_step);
    psr_view_release(before); /* its plan is freed with it */
    PSR_TRY(err);
    PSR_TRY(psr_exchange_take_waiting(exchange));
    return see_bound(exchange);
}
