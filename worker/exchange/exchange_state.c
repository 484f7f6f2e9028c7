/* State of an exchange in and out, on the compute thread: what a run starts from is distributed,
 * and what other members hold of the optimizer's state is fetched. */
#include "worker/exchange/exchange_private.h"

#include "base/arrays/arena.h"
#include "comm/tables/table.h"

#include <assert.h>
#include <string.h>

/* ---- in ---- */

static psr_err send_by_session(void *session, psr_peer to, const psr_head *head,
                               const psr_payload *payload)
{
    return psr_session_send(session, to, head, payload->data, payload->bytes);
}

/* All were given the whole optimizer state; a worker that holds some buckets only needs theirs,
 * unless its device makes all updates. */
static void drop_what_others_hold(const psr_exchange *exchange, float *arena)
{
    if (psr_config_updates_on_device(exchange->options.config))
        return;
    const psr_plan *plan = exchange->options.plan;
    const psr_peer self = {PSR_ROLE_WORKER, exchange->options.rank};
    psr_span run;
    for (uint32_t b = plan->bucket_count;
         (run = psr_plan_next_run(plan, self, false, &b)).count > 0;)
        psr_arena_drop(arena, exchange->options.layout->length, run);
}

psr_err psr_exchange_install(psr_exchange *exchange, uint32_t state, float *arena)
{
    bool workers_use_it = state == 0 || psr_exchange_updates_here(exchange);
    assert(!workers_use_it ||
           arena == (state == 0 ? exchange->weights : psr_exchange_slot(exchange, state - 1)));
    if (workers_use_it)
        PSR_TRY(psr_exchange_broadcast_arena(exchange, arena));
    const psr_exchange_options *o = &exchange->options;
    const psr_outbox outbox = {.context = exchange->session, .send = send_by_session};
    if (o->rank == 0)
        PSR_TRY(psr_table_write(o->plan, &outbox, o->session->options.first_step, state, arena));
    if (state > 0 && workers_use_it)
        drop_what_others_hold(exchange, arena);
    return state == 0 ? psr_binding_installed(exchange->binding, o->session->options.first_step > 0)
                      : PSR_OK;
}

bool psr_exchange_pulls_differences(const psr_exchange *exchange)
{
    return psr_plan_pulls_differences(exchange->plan);
}

psr_err psr_exchange_install_pulled(psr_exchange *exchange, uint32_t state, const float *pulled)
{
    const psr_exchange_options *o = &exchange->options;
    const psr_outbox outbox = {.context = exchange->session, .send = send_by_session};
    if (o->rank == 0) {
        PSR_TRY(psr_table_write(o->plan, &outbox, o->session->options.first_step, state, pulled));
        memcpy(exchange->weights, pulled, o->layout->length * sizeof *pulled);
    }
    return psr_exchange_broadcast_arena(exchange, exchange->weights);
}

/* ---- out ---- */

bool psr_exchange_updates_here(const psr_exchange *exchange)
{
    return !psr_plan_all_go(exchange->plan, PSR_ROUTE_SHARD);
}

bool psr_exchange_saves_state(const psr_exchange *exchange, uint32_t bucket)
{
    const psr_peer self = {PSR_ROLE_WORKER, exchange->options.rank};
    return psr_peer_equal(psr_plan_home(exchange->plan, bucket), self);
}

uint32_t psr_exchange_slot_count(psr_exchange *exchange)
{
    return exchange->optimizer != NULL ? psr_optimizer_slot_count(exchange->optimizer) : 0;
}

float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot)
{
    return psr_optimizer_slot(exchange->optimizer, slot);
}

static psr_err fetch_bucket(psr_exchange *exchange, uint32_t bucket, uint32_t slot)
{
    exchange->fetches_begun++;
    return psr_session_command(
        exchange->session,
        &(psr_command){.kind = PSR_COMMAND_FETCH,
                       .bucket = bucket,
                       .rank = 1 + slot,
                       .step = psr_session_steps_begun(exchange->session),
                       .object = exchange->fetched + exchange->plan->buckets[bucket].span.offset});
}

/* A worker whose device makes all updates has the state of all buckets. */
static bool has_state(const psr_exchange *exchange, uint32_t bucket)
{
    const psr_peer self = {PSR_ROLE_WORKER, exchange->options.rank};
    return psr_config_updates_on_device(exchange->options.config) ||
           psr_plan_holds(exchange->plan, bucket, self);
}

/* What this process holds has had its last update: the weights have landed. */
static psr_err gather(psr_exchange *exchange, uint32_t slot)
{
    const psr_plan *plan = exchange->plan;
    for (uint32_t b = plan->bucket_count; b-- > 0;) {
        const psr_span span = plan->buckets[b].span;
        if (plan->buckets[b].route == PSR_ROUTE_FROZEN) /* of what stays, the average is itself */
            memcpy(exchange->fetched + span.offset, exchange->weights + span.offset,
                   span.count * sizeof *exchange->fetched);
        else if (has_state(exchange, b))
            memcpy(exchange->fetched + span.offset, psr_exchange_slot(exchange, slot) + span.offset,
                   span.count * sizeof *exchange->fetched);
        else
            PSR_TRY(fetch_bucket(exchange, b, slot));
    }
    return psr_session_wait(exchange->session, PSR_WAIT_FETCHED, PSR_PHASE_PULL);
}

/* Every bucket, as the slot has them: none is frozen. */
static bool holds_all(const psr_exchange *exchange)
{
    uint32_t b = exchange->plan->bucket_count;
    while (b > 0 && exchange->plan->buckets[b - 1].route != PSR_ROUTE_FROZEN &&
           has_state(exchange, b - 1))
        b--;
    return b == 0;
}

psr_err psr_exchange_fetch_slot(psr_exchange *exchange, uint32_t slot, const float **ret_values)
{
    PSR_TRY(psr_session_failure(exchange->session));
    if (holds_all(exchange)) {
        *ret_values = psr_exchange_slot(exchange, slot);
        return PSR_OK;
    }
    if (exchange->fetched == NULL)
        PSR_TRY(psr_arena_new(exchange->options.layout->length, &exchange->fetched));
    PSR_TRY(gather(exchange, slot));
    *ret_values = exchange->fetched;
    return PSR_OK;
}
