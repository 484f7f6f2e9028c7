/* The engine of --mode ring where the workers of a host share memory. Where all are on one host no
 * sum goes round: the plan gives each bucket to one of the workers, which folds it in the ring's
 * order from where all gradients lie, updates it, and lends the others what came out. With several
 * hosts one worker of each does so, and between them the sums go from host to host
 * (comm/tables/host_ring.h). That is what a shard does (comm/tables/table_shard.h): each worker
 * holds one beside its own end of the table (comm/tables/table.h), and both are of one process, so
 * that what goes between them is no transport's (comm/operations/own_messages.h). Payloads lie in
 * memory that is shared, or go as messages to who has none: the bits are the same.
 *
 * The values of both ends are one array, the weights: what this worker holds is new where it lies,
 * what others hold lands in it. Without an optimizer the sums are all that is made. They take the
 * weights' place, or the gradients', as an all-reduce library puts them: then a sum is written over
 * this worker's own gradient, block by block behind the fold, and stays until all others have
 * copied it. */
#include "worker/exchange/engines/engine.h"

#include "base/arrays/stream.h"
#include "comm/buffer.h"
#include "comm/operations/loan.h"
#include "comm/operations/own_messages.h"
#include "comm/observer.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/consistency.h"
#include "comm/tables/host_ring.h"
#include "comm/tables/table.h"
#include "comm/tables/table_shard.h"
#include "comm/tables/update.h"
#include "comm/wire/messages.h"
#include "model/optimizers/ema.h"
#include "model/optimizers/updater.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

struct psr_engine {
    psr_engine_env env;
    psr_peer self;
    psr_plan within; /* the plan within the host; with one host, the run's */
    psr_own_messages *own;
    psr_table *table;      /* this worker's end: what it pushes, and what lands */
    psr_table_shard *held; /* the buckets that it holds */
    psr_host_ring *ring;   /* sums them over all hosts; NULL: there is one host */
    psr_updater *updater;  /* NULL: the sums are all */
    float *values;         /* of both */
    psr_loan *sums;        /* [bucket] where gradients were: lent to
                              the others; NULL: no sum is put there */
};

/* ---- what both ends send ---- */

static psr_err send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    const psr_engine *engine = context;
    const psr_outbox *outbox = &engine->env.outbox;
    return psr_peer_equal(to, engine->self) ? psr_own_messages_send(engine->own, head, payload)
                                            : outbox->send(outbox->context, to, head, payload);
}

static bool lends_to(void *context, psr_peer to)
{
    const psr_engine *engine = context;
    const psr_outbox *outbox = &engine->env.outbox;
    return psr_peer_equal(to, engine->self) ||
           (outbox->lends_to != NULL && outbox->lends_to(outbox->context, to));
}

static void tell(void *context, const psr_observed *observed)
{
    const psr_outbox *outbox = &((const psr_engine *)context)->env.outbox;
    if (outbox->tell != NULL)
        outbox->tell(outbox->context, observed);
}

/* A sum in the gradient's place: the gradient may be written again when nobody reads the sum any
 * more. */
static psr_err send_held(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    psr_engine *engine = context;
    if (engine->sums == NULL || head->type != PSR_MSG_WEIGHTS)
        return send(engine, to, head, payload);
    psr_loan *loan = &engine->sums[psr_msg_bucket(head)];
    psr_loan_begin(loan, 1);
    const psr_payload lent = psr_loan_payload(loan, *payload);
    return send(engine, to, head, &lent);
}

/* Otherwise it is for the end of the table that pushes. */
static bool is_for_holder(const psr_message *message)
{
    return message->head.type == PSR_MSG_PUSH || message->head.type == PSR_MSG_ASK;
}

/* A message to this worker itself may make it send again. */
static psr_err take_own(psr_engine *engine)
{
    psr_err err = PSR_OK;
    for (psr_message *message;
         err == PSR_OK && (message = psr_own_messages_take(engine->own)) != NULL;)
        err = is_for_holder(message) ? psr_table_shard_message(engine->held, &message)
                                     : psr_table_message(engine->table, &message);
    return err;
}

/* ---- updates ---- */

static psr_err take_run(void *context, const psr_table_run *run)
{
    const psr_sum sum = {run->part, run->span, run->step, run->number, run->pushed};
    return psr_updater_take(((psr_engine *)context)->updater, &sum);
}

/* A sum that all read where it lies, in an array that caches do not hold. */
static psr_err put_past_caches(void *context, const psr_table_run *run)
{
    (void)context;
    psr_stream_copy(run->values, run->pushed, run->span.count);
    return PSR_OK;
}

static float *optimizer_state(void *context, uint32_t state)
{
    return psr_optimizer_slot(((psr_engine *)context)->env.optimizer, state);
}

static psr_err slice_summed(void *context, uint32_t slice, uint64_t step)
{
    return psr_updater_summed(((psr_engine *)context)->updater, slice, step);
}

static psr_err slice_gathered(void *context, uint32_t slice)
{
    return psr_host_ring_gathered(((psr_engine *)context)->ring, slice);
}

static psr_err slice_updated(void *context, uint32_t slice)
{
    return psr_table_shard_updated(((psr_engine *)context)->held, slice);
}

static psr_err take_squares(void *context, uint32_t bucket, double squares)
{
    return psr_global_norm_part(((psr_engine *)context)->env.norm, bucket, squares);
}

static psr_err take_tensor_squares(void *context, uint32_t run, uint64_t step, double squares)
{
    return psr_tensor_norms_part(((psr_engine *)context)->env.tensors, run, step, squares);
}

/* The parts in which sums come are the slices that this worker holds. */
static psr_err begin_updates(psr_engine *engine)
{
    psr_span *parts;
    uint32_t count;
    PSR_TRY(psr_table_shard_slices(engine->held, &parts, &count));
    psr_err err = psr_updater_begin(engine->updater, engine->values, parts, count);
    free(parts);
    return err;
}

/* ---- life ---- */

static const psr_consistency bsp = {.kind = PSR_CONSISTENCY_BSP};

/* Messages that were sent and not taken are lent by both ends, and an end may keep messages of the
 * other. */
static void engine_close(psr_engine *engine)
{
    if (engine == NULL)
        return;
    psr_own_messages_free(engine->own);
    psr_host_ring_free(engine->ring);
    psr_table_shard_free(engine->held);
    psr_table_free(engine->table);
    psr_updater_free(engine->updater);
    psr_plan_done(&engine->within);
    free(engine->sums);
    free(engine);
}

static psr_err open_updater(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    const psr_updater_options options = {.config = env->config,
                                         .layout = env->layout,
                                         .optimizer = env->optimizer,
                                         .total_steps = env->total_steps,
                                         .skipped = env->skipped_steps,
                                         .context = engine,
                                         .updated = slice_updated,
                                         .buckets = env->spans,
                                         .bucket_count = env->plan->bucket_count,
                                         .squares = take_squares,
                                         .tensor_squares = take_tensor_squares};
    return psr_updater_new(&options, &engine->updater);
}

/* Sums of an array that caches do not hold. */
static bool past_caches(const psr_engine_env *env)
{
    return env->optimizer == NULL && psr_plan_length(env->plan) >= PSR_STREAM_LEAST / sizeof(float);
}

/* Where a sum takes its gradient's place the caches have just read that. */
static const char *update_name(const psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    if (env->optimizer != NULL)
        return "optimizer";
    return past_caches(env) && engine->sums == NULL ? "put past caches" : "assign";
}

static psr_err open_held(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    bool waits = env->optimizer != NULL && psr_updater_waits(env->config);
    const psr_table_update updates[] = {
        {.name = "optimizer",
         .context = engine,
         .state_count = env->optimizer != NULL ? psr_optimizer_slot_count(env->optimizer) : 0,
         .state = optimizer_state,
         .apply = take_run,
         .applied = waits ? slice_summed : NULL},
        {.name = "put past caches", .apply = put_past_caches},
    };
    const psr_table_shard_options options = {
        .plan = &engine->within,
        .by_host = true,
        .shard = env->rank - psr_plan_first_rank(&engine->within),
        .consistency = bsp,
        .update = update_name(engine),
        .registered = updates,
        .registered_count = sizeof updates / sizeof updates[0],
        .given = true,
        .readable = psr_ema_is_on(env->config),
        .first_step = env->first_step,
        .end = env->total_steps,
        .values = engine->values,
        .outbox = {.context = engine, .send = send_held, .tell = tell},
        .context = engine,
        .gathered = env->plan->hosts.count > 1 ? slice_gathered : NULL};
    return psr_table_shard_new(&options, &engine->held);
}

static psr_err open_ring(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    const psr_host_ring_options options = {.plan = env->plan,
                                           .rank = env->rank,
                                           .first_step = env->first_step,
                                           .table = engine->held,
                                           .outbox = env->outbox};
    return env->plan->hosts.count > 1 ? psr_host_ring_new(&options, &engine->ring) : PSR_OK;
}

static psr_err open_table(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    const psr_table_options options = {
        .plan = &engine->within,
        .by_host = true,
        .first_step = env->first_step,
        .consistency = bsp,
        .values = engine->values,
        .in_place = env->in_place && engine->sums == NULL,
        .past_caches = past_caches(env),
        .outbox = {.context = engine, .send = send, .lends_to = lends_to},
        .lender = &env->outbox,
        .context = env->context,
        .landed = env->landed,
        .got = env->fetched};
    return psr_table_new(&options, &engine->table);
}

static psr_err put_sums_in_gradients(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    engine->values = env->gradients;
    engine->sums = calloc((size_t)env->plan->bucket_count + 1, sizeof *engine->sums);
    if (engine->sums == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the sums of %" PRIu32 " buckets",
                        env->plan->bucket_count);
    for (uint32_t b = 0; b < env->plan->bucket_count; b++)
        psr_loan_init(&engine->sums[b], &env->outbox);
    return PSR_OK;
}

static psr_err engine_init(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    engine->values = env->weights;
    if (env->optimizer == NULL && !env->sums_to_weights)
        PSR_TRY(put_sums_in_gradients(engine));
    PSR_TRY(psr_plan_within(env->plan, env->rank, &engine->within));
    PSR_TRY(psr_own_messages_new(engine->self, &engine->own));
    if (env->optimizer != NULL)
        PSR_TRY(open_updater(engine));
    PSR_TRY(open_held(engine));
    PSR_TRY(open_ring(engine));
    PSR_TRY(open_table(engine));
    return env->optimizer != NULL ? begin_updates(engine) : PSR_OK;
}

static psr_err engine_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    psr_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an engine");
    engine->env = *env;
    engine->self = (psr_peer){PSR_ROLE_WORKER, env->rank};
    psr_err err = engine_init(engine);
    if (err != PSR_OK) {
        engine_close(engine);
        return err;
    }
    *ret_engine = engine;
    return PSR_OK;
}

/* ---- events ---- */

static psr_err engine_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    const psr_buffer gradient = psr_engine_gradient(&engine->env, bucket);
    PSR_TRY(psr_table_start(engine->table, bucket, step, &gradient));
    return take_own(engine);
}

static psr_err engine_fetch(psr_engine *engine, uint32_t bucket, uint64_t steps, uint32_t array,
                            float *ret_values)
{
    PSR_TRY(psr_table_get(engine->table, bucket, steps, array, ret_values));
    return take_own(engine);
}

static psr_err take_ring(psr_engine *engine, psr_message **message)
{
    if (engine->ring != NULL)
        return psr_host_ring_message(engine->ring, message);
    psr_err err = psr_violation(*message, "all workers are on one host, and none sends RING");
    psr_message_free(message);
    return err;
}

static psr_err engine_message(psr_engine *engine, psr_message **message)
{
    if (is_for_holder(*message))
        PSR_TRY(psr_table_shard_message(engine->held, message));
    else if ((*message)->head.type == PSR_MSG_RING)
        PSR_TRY(take_ring(engine, message));
    else
        PSR_TRY(psr_table_message(engine->table, message));
    return take_own(engine);
}

static psr_err engine_norm_known(psr_engine *engine, uint64_t step, double norm)
{
    PSR_TRY(psr_updater_norm_known(engine->updater, step, norm));
    return take_own(engine);
}

/* A worker that has not pushed what others have keeps all waiting, whichever member holds the
 * bucket. A bucket that this worker holds, and that its whole host has pushed, waits for the host
 * before. */
static bool engine_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    uint64_t step = 0;
    uint32_t bucket = 0, rank = 0;
    if (!psr_table_waits(engine->table, ret_waiting, ret_bucket))
        return engine->ring != NULL && psr_host_ring_waits(engine->ring, ret_waiting, ret_bucket);
    if (psr_table_shard_holds_up(engine->held, &step, &bucket, &rank) &&
        rank != engine->self.rank && step <= ret_waiting->round) {
        *ret_waiting = (psr_waiting){{PSR_ROLE_WORKER, rank}, step};
        *ret_bucket = bucket;
    } else if (engine->ring != NULL && psr_peer_equal(ret_waiting->peer, engine->self)) {
        (void)psr_host_ring_waits(engine->ring, ret_waiting, ret_bucket);
    }
    return true;
}

static uint32_t engine_lent(const psr_engine *engine, uint32_t bucket)
{
    uint32_t pushed = psr_table_lent(engine->table, bucket);
    if (engine->ring != NULL)
        pushed += psr_host_ring_lent(engine->ring, bucket);
    return engine->sums != NULL ? pushed + psr_loan_lent(&engine->sums[bucket]) : pushed;
}

const psr_engine_ops psr_engine_direct = {
    .name = "direct",
    .route = PSR_ROUTE_HOST,
    .waits_in = PSR_PHASE_RING,
    .open = engine_open,
    .close = engine_close,
    .ready = engine_ready,
    .fetch = engine_fetch,
    .message = engine_message,
    .norm_known = engine_norm_known,
    .waits = engine_waits,
    .lent = engine_lent,
};
