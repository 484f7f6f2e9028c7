#include "worker/passes.h"

#include "base/arrays/fold.h"
#include "base/clock.h"
#include "worker/device_update.h"

#include <stdlib.h>

/* Of --slow, between two reports of progress: to fall asleep takes longer than a small layer. */
#define SHORTEST_PAUSE_S 0.01

/* One replica's passes of the present step. */
typedef struct running {
    psr_passes *passes;
    psr_trainer *t;
    psr_share *share;
    psr_exec_hooks hooks; /* of the pass under way */
    bool adds;            /* it is the last of several whose gradients are added */
    bool alone;           /* no other replica's passes go on between its parts */
    bool backward;
    uint32_t nodes_done;
    /* --slow: after each bucket this rank waits in proportion to what it has computed since the
     * last one */
    double slow_factor; /* 1: it does not */
    bool records;       /* the pass is recorded */
    double marked_s, busy_s;
    int64_t pass_ns; /* --trace: when the pass under way began */
} running;

/* ---- the trace ---- */

static void record_span(const psr_passes *passes, psr_trace_kind kind, uint32_t index,
                        uint32_t count, int64_t begin_ns, int64_t end_ns)
{
    if (passes->tracer != NULL)
        psr_tracer_span(passes->tracer, kind, passes->step, index, count, begin_ns, end_ns);
}

void psr_passes_record(const psr_passes *passes, psr_trace_kind kind, uint32_t index,
                       uint32_t count, int64_t begin_ns)
{
    record_span(passes, kind, index, count, begin_ns, psr_passes_clock(passes));
}

int64_t psr_passes_clock(const psr_passes *passes)
{
    return passes->tracer != NULL ? psr_clock_ns() : 0;
}

/* Passes that go on in turn overlap: their layers are recorded, and they as a whole are not. */
static void record_pass(const running *r, psr_trace_kind kind, int64_t end_ns)
{
    if (r->alone)
        record_span(r->passes, kind, PSR_TRACE_NO_INDEX, 0, r->pass_ns, end_ns);
}

/* The first layer backward ends the forward pass. */
static void see_layer(void *context, const psr_exec_layer *layer, int64_t begin_ns, int64_t end_ns)
{
    running *r = context;
    if (layer->backward && !r->backward) {
        record_pass(r, PSR_TRACE_FORWARD, begin_ns);
        r->backward = true;
        r->pass_ns = begin_ns;
    }
    record_span(r->passes, layer->backward ? PSR_TRACE_LAYER_BACK : PSR_TRACE_LAYER, layer->node,
                layer->count, begin_ns, end_ns);
}

/* ---- the back end's hooks ---- */

static void mark_busy(running *r)
{
    r->busy_s += psr_clock_s() - r->marked_s;
}

static psr_err weights_wanted(void *context, uint32_t bucket)
{
    running *r = context;
    mark_busy(r);
    psr_err err = psr_exchange_weights_wanted(r->t->exchange, bucket);
    r->marked_s = psr_clock_s();
    return err;
}

/* The last pass wrote its gradient where the exchange reads it: the sum of those before it is
 * added. Padding is zero in both. */
static psr_err add_accumulated(running *r, uint32_t bucket, const psr_fence *fence)
{
    const psr_bucket *b = &r->t->buckets->items[bucket];
    if (fence != NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--accumulate: a device still writes the gradient, and cannot add to it");
    psr_fold_add(r->share->gradients + b->offset,
                 r->share->replica->executor->accumulated + b->offset, b->length);
    return PSR_OK;
}

static psr_err gradient_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    running *r = context;
    if (r->adds)
        PSR_TRY(add_accumulated(r, bucket, fence));
    if (!r->alone)
        return PSR_OK;
    mark_busy(r);
    psr_err err = psr_exchange_gradient_ready(r->t->exchange, bucket, fence);
    r->marked_s = psr_clock_s();
    return err;
}

/* Called once for each node of the forward pass, and then once for each node of the backward pass.
 * With --slow it waits, so that the node takes FACTOR times as long. */
static void progress(void *context)
{
    running *r = context;
    r->nodes_done++;
    psr_phase phase =
        r->nodes_done <= r->t->net->node_count ? PSR_PHASE_FORWARD : PSR_PHASE_BACKWARD;
    psr_session_progress(r->t->session, phase);
    if (r->slow_factor <= 1 && !r->records)
        return;
    mark_busy(r);
    if (r->records)
        psr_pass_times_progress(r->passes->times, r->busy_s);
    /* fails if the exchange has failed; the next call of the exchange returns that */
    psr_err held_up = PSR_OK;
    const double part_s = r->busy_s > SHORTEST_PAUSE_S ? r->busy_s : SHORTEST_PAUSE_S;
    for (double left_s = (r->slow_factor - 1) * r->busy_s; left_s > 0 && held_up == PSR_OK;
         left_s -= part_s) {
        held_up = psr_session_pause(r->t->session, left_s < part_s ? left_s : part_s);
        psr_session_progress(r->t->session, phase);
    }
    r->busy_s = 0;
    r->marked_s = psr_clock_s();
}

/* ---- one pass ---- */

/* What a pass takes of a replica's batch: samples [first, first + count). Its gradient goes to the
 * exchange if it is the step's last one of that replica, and is added up otherwise. */
typedef struct part {
    uint32_t first, count;
    bool last;
    float *gradients;
    psr_second_labels second;
    psr_byte_images bytes;
    psr_batch batch, next;
    psr_exec_state state;
} part;

/* What this replica's next step begins with. Several replicas take turns with one back end, whose
 * next pass is another one's. NULL: it is not known. */
static const psr_batch *next_of(const running *r, part *of)
{
    const uint32_t size = r->t->config->batch_size;
    if (!of->last || r->t->replica_count > 1)
        return NULL;
    const psr_loader_batch *next = psr_loader_peek(r->share->replica->loader);
    if (next == NULL || next->bytes == NULL || next->count == 0)
        return NULL;
    of->next = (psr_batch){.bytes = next->bytes, .count = next->count < size ? next->count : size};
    return &of->next;
}

/* Number `index` of a step; without samples when those of the replica have run out. */
static void cut(const running *r, uint32_t index, part *ret_part)
{
    const psr_trainer *t = r->t;
    const psr_loader_batch *loaded = r->share->batch;
    const psr_executor *executor = r->share->replica->executor;
    const uint32_t size = t->config->batch_size,
                   first = index * size < loaded->count ? index * size : loaded->count,
                   left = loaded->count - first, count = left < size ? left : size;
    const bool mixed = loaded->second_labels != NULL, as_bytes = loaded->bytes != NULL;
    const size_t image = (size_t)t->net->channels * t->net->height * t->net->width;
    *ret_part = (part){.first = first, .count = count, .last = count == left};
    ret_part->second = (psr_second_labels){mixed ? loaded->second_labels + first : NULL,
                                           mixed ? loaded->shares + first : NULL};
    if (as_bytes)
        ret_part->bytes = (psr_byte_images){.bytes = loaded->bytes->bytes + first * image,
                                            .images = loaded->bytes->images + first,
                                            .values = loaded->bytes->values};
    ret_part->batch = (psr_batch){.images = as_bytes ? NULL : loaded->images + first * image,
                                  .bytes = as_bytes ? &ret_part->bytes : NULL,
                                  .labels = loaded->labels + first,
                                  .samples = loaded->samples + first,
                                  .count = count,
                                  .epoch = loaded->epoch,
                                  .seed = t->config->seed,
                                  .second = mixed ? &ret_part->second : NULL,
                                  .next = next_of(r, ret_part),
                                  .gradient_scale = (float)t->loss_scale.scale};
    ret_part->state = (psr_exec_state){
        .weights = psr_exchange_weights(t->exchange),
        .gradients = ret_part->last ? r->share->gradients
                     : index == 0   ? executor->accumulated
                                    : executor->pass,
        .buffers = r->share->replica->buffers,
    };
}

static void begin_pass(running *r, const part *p)
{
    r->hooks = (psr_exec_hooks){.context = r,
                                .weights_wanted = weights_wanted,
                                .gradient_ready = p->last ? gradient_ready : NULL,
                                .progress = progress,
                                .layer = r->passes->tracer != NULL ? see_layer : NULL};
    r->adds = p->last && p->first > 0;
    r->nodes_done = 0;
    r->backward = false;
    r->pass_ns = psr_passes_clock(r->passes);
}

/* The gradients of the passes before the last one are added in their order. Nothing is exchanged
 * meanwhile. */
static void end_pass(running *r, const part *p, const psr_pass_result *result)
{
    const psr_executor *executor = r->share->replica->executor;
    if (p->count == 0)
        return;
    record_pass(r, PSR_TRACE_BACKWARD, psr_passes_clock(r->passes));
    r->share->result.loss_sum += result->loss_sum;
    r->share->result.correct += result->correct;
    if (!p->last && p->first > 0)
        psr_fold_add(executor->accumulated, executor->pass, r->t->net->params.length);
}

static float loss_scale(const running *r)
{
    return (float)(1.0 / r->share->batch->global_count);
}

static psr_err run_pass(running *r, uint32_t index)
{
    part p;
    psr_pass_result result;
    cut(r, index, &p);
    begin_pass(r, &p);
    PSR_TRY(psr_backend_train(r->share->replica->executor->backend, &p.batch, &p.state,
                              loss_scale(r), &r->hooks, &result));
    end_pass(r, &p, &result);
    return PSR_OK;
}

/* ---- passes of all workers together ---- */

/* One part of a replica's pass. */
static psr_err advance(running *r, psr_norm_sums *ret_sums, psr_pass_result *ret_result)
{
    r->marked_s = psr_clock_s();
    const double begun_s = r->marked_s;
    psr_err err = psr_backend_advance(r->share->replica->executor->backend, ret_sums, ret_result);
    mark_busy(r);
    r->share->computing_s += psr_clock_s() - begun_s;
    return err;
}

/* results and rows: [count]. All have begun. */
static psr_err advance_all(running *all, uint32_t count, psr_pass_result *results, double **rows)
{
    psr_norm_sums sums;
    do {
        for (uint32_t i = 0; i < count; i++) {
            PSR_TRY(advance(&all[i], &sums, &results[i]));
            rows[i] = sums.values;
        }
        if (sums.values != NULL)
            PSR_TRY(psr_exchange_sum(all->t->exchange, rows, count, sums.count));
    } while (sums.values != NULL);
    return PSR_OK;
}

/* What the passes of a step need, one of each for each replica. */
typedef struct together {
    part *parts;
    psr_pass_result *results;
    double **rows;
} together;

static void together_done(together *room)
{
    free(room->parts);
    free(room->results);
    free(room->rows);
}

static psr_err together_init(uint32_t count, together *ret_room)
{
    together room = {calloc(count, sizeof *room.parts), calloc(count, sizeof *room.results),
                     calloc(count, sizeof *room.rows)};
    if (room.parts == NULL || room.results == NULL || room.rows == NULL) {
        together_done(&room);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the passes of %u replicas", count);
    }
    *ret_room = room;
    return PSR_OK;
}

static psr_err run_together(running *all, uint32_t count, uint32_t index, together *room)
{
    for (uint32_t i = 0; i < count; i++) {
        running *r = &all[i];
        const part *p = &room->parts[i];
        cut(r, index, &room->parts[i]);
        begin_pass(r, p);
        PSR_TRY(psr_backend_begin(r->share->replica->executor->backend, &p->batch, &p->state,
                                  loss_scale(r), &r->hooks));
    }
    PSR_TRY(advance_all(all, count, room->results, room->rows));
    for (uint32_t i = 0; i < count; i++)
        end_pass(&all[i], &room->parts[i], &room->results[i]);
    return PSR_OK;
}

/* Shares of a step differ by one sample at most, and the first ranks have the larger ones. */
static uint32_t largest_share(const psr_trainer *t, uint32_t global_count)
{
    return (global_count + t->ranks - 1) / t->ranks;
}

/* ---- a step ---- */

bool psr_passes_are_together(const psr_trainer *trainer)
{
    return trainer->config->sync_bn && trainer->replica_count > 1;
}

static void begin_share(psr_passes *passes, psr_share *share, bool alone, running *ret_running)
{
    psr_trainer *t = passes->trainer;
    const psr_replica *replica = share->replica;
    share->result = (psr_pass_result){0};
    share->computing_s = 0;
    *ret_running = (running){
        .passes = passes,
        .t = t,
        .share = share,
        .alone = alone,
        .slow_factor = share->first_step ? 1 : psr_config_slow_factor(t->config, replica->rank),
        .records = passes->times != NULL && replica->rank == 0 && !share->first_step &&
                   share->batch->count == t->config->batch_size,
    };
    if (ret_running->records)
        psr_pass_times_begin(passes->times);
    ret_running->marked_s = psr_clock_s();
}

static void end_share(running *r)
{
    if (!r->records)
        return;
    mark_busy(r);
    psr_pass_times_end(r->passes->times, r->busy_s);
}

/* The number of passes: with --sync-bn that of all workers, of which the last ones may be without
 * samples here. */
static uint32_t count_passes(const psr_trainer *t, const psr_loader_batch *batch)
{
    const uint32_t size = t->config->batch_size,
                   samples =
                       t->config->sync_bn ? largest_share(t, batch->global_count) : batch->count;
    return (samples + size - 1) / size;
}

psr_err psr_passes_run(psr_passes *passes, psr_share *shares, uint32_t count)
{
    const psr_trainer *t = passes->trainer;
    const uint32_t parts = count_passes(t, shares->batch);
    together room = {0};
    running *all = calloc(count, sizeof *all);
    psr_err err = PSR_OK;
    if (all == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for %u replicas", count);
    else if (t->config->sync_bn)
        err = together_init(count, &room);
    if (err == PSR_OK && parts == 0)
        err = psr_device_update_without_pass(t, passes->step);
    else
        psr_device_update_due(t, passes->step);
    for (uint32_t i = 0; i < count && err == PSR_OK; i++)
        begin_share(passes, &shares[i], count == 1, &all[i]);
    for (uint32_t index = 0; index < parts && err == PSR_OK; index++)
        err = t->config->sync_bn ? run_together(all, count, index, &room) : run_pass(all, index);
    for (uint32_t i = 0; i < count && err == PSR_OK; i++)
        end_share(&all[i]);
    together_done(&room);
    free(all);
    return err;
}
