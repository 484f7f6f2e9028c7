#include "worker/exchange/binding.h"

#include "comm/view/plan.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct way {
    const psr_engine_ops *ops;
    psr_engine *engine;
} way;

struct psr_binding {
    const psr_plan *plan;
    float *weights; /* env's */
    /* --clip-norm, fp16, unless the engine plays all ranks; otherwise NULL */
    psr_global_norm *norm;
    psr_tensor_norms *tensors; /* --tensorboard-norms, likewise */
    psr_span *spans;           /* [buckets], with either */
    void *context;             /* env's; so is clipped */
    void (*clipped)(void *context, uint64_t step, double norm);
    way ways[PSR_ROUTES];
    uint32_t way_count;
    way *of_route[PSR_ROUTES]; /* NULL: no bucket goes it */
};

/* The way of a bucket: all of them go the one way of an engine of all buckets. */
static way *way_of(psr_binding *binding, uint32_t bucket)
{
    way *by_route = binding->of_route[binding->plan->buckets[bucket].route];
    return by_route != NULL ? by_route : &binding->ways[0];
}

/* ---- life ---- */

void psr_binding_free(psr_binding *binding)
{
    if (binding == NULL)
        return;
    for (uint32_t w = 0; w < binding->way_count; w++)
        binding->ways[w].ops->close(binding->ways[w].engine);
    psr_global_norm_free(binding->norm);
    psr_tensor_norms_free(binding->tensors);
    free(binding->spans);
    free(binding);
}

void psr_binding_stop(psr_binding *binding)
{
    for (uint32_t w = 0; binding != NULL && w < binding->way_count; w++)
        if (binding->ways[w].ops->stop != NULL)
            binding->ways[w].ops->stop(binding->ways[w].engine);
}

static psr_err open_ways(psr_binding *binding, const psr_ways *ways, const psr_engine_env *env)
{
    for (uint32_t w = 0; w < ways->count; w++) {
        way *opened = &binding->ways[w];
        opened->ops = ways->engines[w];
        PSR_TRY(opened->ops->open(env, &opened->engine));
        binding->way_count++;
        binding->of_route[opened->ops->route] = opened;
    }
    return PSR_OK;
}

static psr_err open_norm(psr_binding *binding, psr_engine_env *env)
{
    const psr_peer self = {PSR_ROLE_WORKER, env->rank};
    PSR_TRY(psr_global_norm_new(env->plan, self, env->first_step,
                                psr_config_scales_loss(env->config), &env->outbox, &binding->norm));
    env->norm = binding->norm;
    return PSR_OK;
}

static psr_err open_tensors(psr_binding *binding, psr_engine_env *env)
{
    const psr_tensor_norms_options options = {.config = env->config,
                                              .layout = env->layout,
                                              .plan = env->plan,
                                              .rank = env->rank,
                                              .outbox = env->outbox,
                                              .context = env->context,
                                              .known = env->normed};
    PSR_TRY(psr_tensor_norms_new(&options, &binding->tensors));
    env->tensors = binding->tensors;
    return PSR_OK;
}

static psr_err open_norms(psr_binding *binding, psr_engine_env *env)
{
    const psr_config *config = env->config;
    const bool together = psr_config_updates_together(config);
    if (!together && config->tensorboard_norms == 0)
        return PSR_OK;
    PSR_TRY(psr_plan_spans(env->plan, &binding->spans));
    env->spans = binding->spans;
    if (together)
        PSR_TRY(open_norm(binding, env));
    return config->tensorboard_norms > 0 ? open_tensors(binding, env) : PSR_OK;
}

psr_err psr_binding_new(const psr_ways *ways, const psr_engine_env *env, psr_binding **ret_binding)
{
    psr_engine_env own = *env;
    psr_err err = PSR_OK;
    psr_binding *binding = calloc(1, sizeof *binding);
    if (binding == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a binding");
    binding->plan = env->plan;
    binding->weights = env->weights;
    binding->context = env->context;
    binding->clipped = env->clipped;
    if (!ways->engines[0]->computes_all_ranks)
        err = open_norms(binding, &own);
    if (err == PSR_OK)
        err = open_ways(binding, ways, &own);
    if (err != PSR_OK) {
        psr_binding_free(binding);
        return err;
    }
    *ret_binding = binding;
    return PSR_OK;
}

/* ---- events ---- */

/* Called after each event: updates wait for the norm of their step. */
static psr_err settle(psr_binding *binding)
{
    uint64_t step;
    double norm;
    while (binding->norm != NULL && psr_global_norm_take(binding->norm, &step, &norm)) {
        if (binding->clipped != NULL)
            binding->clipped(binding->context, step, norm);
        for (uint32_t w = 0; w < binding->way_count; w++)
            if (binding->ways[w].ops->norm_known != NULL)
                PSR_TRY(binding->ways[w].ops->norm_known(binding->ways[w].engine, step, norm));
    }
    return PSR_OK;
}

psr_err psr_binding_ready(psr_binding *binding, uint64_t step, uint32_t bucket)
{
    way *w = way_of(binding, bucket);
    PSR_TRY(w->ops->ready(w->engine, step, bucket));
    return settle(binding);
}

psr_err psr_binding_fetch(psr_binding *binding, uint32_t bucket, uint64_t steps, uint32_t array,
                          float *ret_values)
{
    way *w = way_of(binding, bucket);
    assert(w->ops->fetch != NULL);
    return w->ops->fetch(w->engine, bucket, steps, array, ret_values);
}

psr_err psr_binding_end_step(psr_binding *binding, uint64_t step, uint32_t rank)
{
    return binding->ways[0].ops->end_step(binding->ways[0].engine, step, rank);
}

psr_err psr_binding_installed(psr_binding *binding, bool goes_on)
{
    for (uint32_t w = 0; w < binding->way_count; w++)
        if (binding->ways[w].ops->installed != NULL)
            PSR_TRY(binding->ways[w].ops->installed(binding->ways[w].engine, goes_on));
    return PSR_OK;
}

psr_err psr_binding_woken(psr_binding *binding)
{
    for (uint32_t w = 0; w < binding->way_count; w++)
        if (binding->ways[w].ops->woken != NULL)
            PSR_TRY(binding->ways[w].ops->woken(binding->ways[w].engine));
    return settle(binding);
}

/* The engine for a message, by its sender. NULL: no engine takes such messages. */
static way *way_of_message(psr_binding *binding, const psr_message *message)
{
    if (message->from.role == PSR_ROLE_SHARD)
        return binding->of_route[PSR_ROUTE_SHARD];
    return binding
        ->of_route[message->head.type == PSR_MSG_VALUES ? PSR_ROUTE_RING : PSR_ROUTE_HOST];
}

/* It says of which: the gradient's, or a tensor's. */
static psr_err take_norm(psr_binding *binding, psr_message **message)
{
    psr_msg_norm says;
    psr_err err = psr_msg_norm_read(*message, &says);
    if (err != PSR_OK) {
        psr_message_free(message);
        return err;
    }
    if (binding->tensors != NULL && says.phase == PSR_NORM_TENSOR)
        return psr_tensor_norms_message(binding->tensors, message);
    if (binding->norm != NULL)
        return psr_global_norm_message(binding->norm, message);
    err = psr_violation(*message, "no such norm is due in this run");
    psr_message_free(message);
    return err;
}

psr_err psr_binding_message(psr_binding *binding, psr_message **message)
{
    if ((*message)->head.type == PSR_MSG_NORM &&
        (binding->norm != NULL || binding->tensors != NULL)) {
        PSR_TRY(take_norm(binding, message));
        return settle(binding);
    }
    way *w = way_of_message(binding, *message);
    if (w != NULL && w->ops->message != NULL) {
        PSR_TRY(w->ops->message(w->engine, message));
        return settle(binding);
    }
    psr_err err = psr_violation(*message, "a worker in this mode does not take that");
    psr_message_free(message);
    return err;
}

/* ---- what it tells ---- */

bool psr_binding_takes_steps(const psr_binding *binding)
{
    return binding->ways[0].ops->ready == NULL;
}

bool psr_binding_waits(const psr_binding *binding, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    bool any = false;
    for (uint32_t i = 0; i < binding->way_count; i++) {
        const way *w = &binding->ways[i];
        psr_waiting waiting;
        uint32_t bucket = 0;
        if (w->ops->waits == NULL || !w->ops->waits(w->engine, &waiting, &bucket) ||
            (any && waiting.round >= ret_waiting->round))
            continue;
        any = true;
        *ret_waiting = waiting;
        *ret_bucket = bucket;
    }
    psr_waiting norm;
    uint32_t bucket = 0;
    if (any && binding->norm != NULL && psr_global_norm_waits(binding->norm, &norm, &bucket) &&
        norm.round == ret_waiting->round) {
        *ret_waiting = norm;
        *ret_bucket = bucket;
    }
    return any;
}

psr_phase psr_binding_waits_in(psr_binding *binding, uint32_t bucket)
{
    return way_of(binding, bucket)->ops->waits_in;
}

uint32_t psr_binding_lent(psr_binding *binding, uint32_t bucket)
{
    const way *w = way_of(binding, bucket);
    return w->ops->lent != NULL ? w->ops->lent(w->engine, bucket) : 0;
}

float *psr_binding_gradients(const psr_binding *binding, uint32_t rank)
{
    const way *w = &binding->ways[0];
    return w->ops->gradients != NULL ? w->ops->gradients(w->engine, rank) : NULL;
}

const float *psr_binding_sums(const psr_binding *binding)
{
    const way *w = &binding->ways[0];
    return w->ops->sums != NULL ? w->ops->sums(w->engine) : NULL;
}

const float *psr_binding_saved(const psr_binding *binding)
{
    for (uint32_t i = 0; i < binding->way_count; i++)
        if (binding->ways[i].ops->saved != NULL)
            return binding->ways[i].ops->saved(binding->ways[i].engine);
    return binding->weights;
}
