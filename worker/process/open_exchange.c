/* Makes what carries the exchange under the first view: buckets, arenas that others may read, the
 * channels, the tracer, this worker's GPU where GPUs sum, session and exchange. */
#include "worker/process/process_private.h"

#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "worker/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static psr_err connect_peers(void *context, const psr_plan *plan)
{
    psr_worker *w = context;
    psr_transport_bound(w->transport, PSR_ROLE_SHARD, psr_plan_waiting_max(plan));
    psr_transport_bound(w->transport, PSR_ROLE_WORKER, psr_plan_waiting_max(plan));
    return psr_peers_connect(&w->peers, plan);
}

/* The view's plan has their runs. */
static psr_err make_buckets(psr_worker *w)
{
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    psr_span *spans = calloc((size_t)plan->bucket_count + 1, sizeof *spans);
    if (spans == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u buckets", plan->bucket_count);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        spans[b] = plan->buckets[b].span;
    psr_err err = psr_buckets_of(&w->net->params, spans, plan->bucket_count, &w->buckets);
    free(spans);
    PSR_TRY(err);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (w->buckets.items[b].frozen != (plan->buckets[b].route == PSR_ROUTE_FROZEN))
            return psr_fail(PSR_ERR_FORMAT,
                            "the plan's bucket %" PRIu32 " is %s, and --freeze of this worker has "
                            "it otherwise; give all the same",
                            b, w->buckets.items[b].frozen ? "exchanged" : "frozen");
    return PSR_OK;
}

/* Makes the arena of the weights in shared memory. Buckets that other workers hold are in those
 * workers' memory when they have come, so their part of this arena may be private. */
static psr_err make_weights(psr_worker *w, float **ret_weights)
{
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    const psr_peer self = psr_member_self(w->member);
    float *weights = psr_shared_memory_arena(&w->memory, w->net->params.length);
    psr_span run;
    for (uint32_t b = plan->bucket_count;
         (run = psr_plan_next_run(plan, self, false, &b)).count > 0;)
        PSR_TRY(psr_shared_memory_keep(&w->memory, weights, run));
    psr_shared_memory_fill_held(&w->memory, weights, plan, self);
    *ret_weights = weights;
    return PSR_OK;
}

static psr_err own_weights(void *context)
{
    psr_worker *w = context;
    return psr_shared_memory_own(&w->memory, psr_exchange_weights(w->exchange));
}

static float *make_gradients(psr_worker *w)
{
    float *gradients = psr_shared_memory_arena(&w->memory, w->net->params.length);
    psr_shared_memory_fill(&w->memory, gradients, (psr_span){0, w->net->params.length});
    return gradients;
}

static psr_err make_tracer(psr_worker *w, bool alone)
{
    psr_traced_steps steps;
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    PSR_TRY(psr_config_traced_steps(&w->config, w->start.first_step, w->start.total_steps, &steps));
    if (steps.count == 0)
        return PSR_OK;
    const psr_tracer_options room = psr_tracer_room(plan, steps.first, steps.count,
                                                    w->net->node_count, alone ? plan->ranks : 1);
    return psr_tracer_new(&room, &w->tracer);
}

/* This worker's GPU, and the group of all. */
static psr_err find_gpu(psr_worker *w)
{
    const char *text = w->start.group;
    if (strlen(text) != 2 * sizeof w->gpu.group)
        return psr_fail(PSR_ERR_FORMAT, "--mode nccl: worker 0 told no group of GPUs");
    for (size_t i = 0; i < sizeof w->gpu.group; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        w->gpu.group[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    w->gpu.device = psr_trainer_device(&w->config, w->number_on_host, &w->gpu.shares_devices);
    return PSR_OK;
}

/* What this worker has of a checkpoint goes to a scheduler of this host by reference. */
static void share_pieces(psr_worker *w)
{
    psr_member_lend_to_scheduler(w->member);
    psr_shared_memory_blocks(&w->memory, psr_session_pieces(w->session),
                             psr_snapshot_pieces(w->exchange, &w->net->params, &w->buckets,
                                                 psr_member_self(w->member).rank == 0),
                             !psr_duration_is_none(w->config.checkpoint_every));
}

static psr_err start_exchange(psr_worker *w, const psr_ways *ways)
{
    const bool alone = ways->engines[0]->computes_all_ranks;
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    float *weights = NULL;
    const bool sums_on_gpus = psr_engine_sums_on_gpus(&w->config);
    PSR_TRY(make_buckets(w));
    PSR_TRY(make_tracer(w, alone));
    if (sums_on_gpus)
        PSR_TRY(find_gpu(w));
    /* If ways can change, also by hand, a later plan may let this worker hold buckets that it does
     * not hold now. Until then they take addresses, but no memory. Weights that each device updates
     * are nobody else's. */
    if (!psr_config_updates_on_device(&w->config) &&
        (psr_plan_has_route(plan, PSR_ROUTE_HOST) || psr_config_has_several_ways(&w->config) ||
         psr_config_can_change(&w->config)))
        PSR_TRY(make_weights(w, &weights));
    if (!alone) {
        PSR_TRY(psr_peers_init(w->member, &w->peers));
        PSR_TRY(connect_peers(w, plan));
    }
    const psr_session_options options_of_session = {
        .first_step = w->start.first_step,
        .total_steps = w->start.total_steps,
        .view = psr_member_view(w->member),
        .commands_max = psr_exchange_commands_max(&w->buckets),
        .transport = w->transport,
        .member = w->member,
        .tracer = w->tracer,
    };
    PSR_TRY(psr_session_new(&options_of_session, &w->session));
    const psr_exchange_options options_of_exchange = {
        .session = w->session,
        .config = &w->config,
        .layout = &w->net->params,
        .buckets = &w->buckets,
        .plan = plan,
        .rank = psr_member_self(w->member).rank,
        .gpu = sums_on_gpus ? &w->gpu : NULL,
        .ways = ways,
        .skipped_steps = w->start.skipped_steps,
        .weights = weights,
        .gradients = alone ? NULL : make_gradients(w),
        .weights_in_place = w->memory.transport != NULL,
        .context = w,
        .rebinding = alone ? NULL : connect_peers,
        .own_weights = weights != NULL ? own_weights : NULL,
        .observer = w->tracer != NULL ? psr_tracer_observer(w->tracer) : NULL,
    };
    PSR_TRY(psr_exchange_new(&options_of_exchange, &w->exchange));
    share_pieces(w);
    PSR_TRY(psr_session_start(w->session));
    return psr_lost_process_watch(w->options.lost, NULL, w->session, true);
}

psr_err psr_worker_open_exchange(psr_worker *w)
{
    psr_ways ways = {.count = 0};
    PSR_TRY(psr_worker_start_from_json(psr_member_agreed(w->member), &w->start));
    w->config.pace = w->start.pace;
    PSR_TRY(psr_engine_choose(&w->config, &psr_member_view(w->member)->plan, &ways));
    return start_exchange(w, &ways);
}
