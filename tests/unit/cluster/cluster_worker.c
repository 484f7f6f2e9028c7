/* What a worker of the simulated cluster plays on its compute thread, and what it checks. */
#include "tests/unit/cluster/cluster_private.h"

#include "comm/wire/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Computes something: it takes times of all sizes, as delays are. */
static psr_err compute(worker *w, psr_phase phase)
{
    cluster *c = w->in;
    uint32_t longest_us = (c->compute_max_us >> cluster_draw(c, 6)) + 1;
    if (w->rank == c->options.slow_worker)
        longest_us *= 10;
    return psr_emulated_compute(w->real, phase, cluster_draw(c, longest_us));
}

/* ---- before the first step ---- */

static float *slot_arena(worker *w, uint32_t slot)
{
    return psr_exchange_updates_here(w->real->exchange) ? psr_exchange_slot(w->real->exchange, slot)
                                                        : w->slots[slot];
}

static float *section_arena(worker *w, uint32_t section)
{
    if (section == PSR_SECTION_RESIDUAL(w->rank))
        return psr_exchange_residual(w->real->exchange, 0);
    assert_int_equal(w->rank, 0);
    if (section == PSR_SECTION_PULLED)
        return w->pulled;
    return section == PSR_SECTION_WEIGHTS ? psr_exchange_first_weights(w->real->exchange)
                                          : slot_arena(w, section - PSR_SECTION_SLOT(0));
}

static psr_err restore(worker *w)
{
    const cluster *c = w->in;
    const bool first = w->rank == 0;
    size_t missing = ((first ? 1 + c->slot_count + c->pulls_differences : 0) + c->owes) *
                     c->options.layout->length;
    while (missing > 0) {
        psr_message *message = NULL;
        psr_msg_piece piece;
        PSR_TRY(psr_session_restored(w->real->session, &message));
        psr_err err = psr_msg_piece_read(message, &piece);
        if (err == PSR_OK) {
            memcpy(section_arena(w, piece.section) + piece.span.offset, message->payload,
                   message->payload_bytes);
            missing -= piece.span.count;
        }
        psr_message_free(&message);
        PSR_TRY(err);
    }
    return PSR_OK;
}

/* As psr_snapshot_load. */
static psr_err load(worker *w)
{
    const cluster *c = w->in;
    const bool first = w->rank == 0, resumed = c->options.first_step > 0;
    if (resumed)
        PSR_TRY(restore(w));
    else if (first)
        cluster_initial_weights(c->options.layout, psr_exchange_first_weights(w->real->exchange));
    PSR_TRY(
        psr_exchange_install(w->real->exchange, 0, psr_exchange_first_weights(w->real->exchange)));
    bool has_slots = first || psr_exchange_updates_here(w->real->exchange);
    for (uint32_t slot = 0; slot < c->slot_count && resumed && has_slots; slot++)
        PSR_TRY(psr_exchange_install(w->real->exchange, 1 + slot, slot_arena(w, slot)));
    if (resumed && c->pulls_differences)
        PSR_TRY(psr_exchange_install_pulled(w->real->exchange, 1 + c->slot_count,
                                            first ? w->pulled : NULL));
    return PSR_OK;
}

/* ---- a step ---- */

static void see_gap(worker *w)
{
    cluster *c = w->in;
    uint64_t slowest = UINT64_MAX;
    psr_exchange_figures figures;
    for (uint32_t r = 0; r < c->n; r++)
        slowest = c->workers[r].step < slowest ? c->workers[r].step : slowest;
    if (w->step - slowest > c->gap)
        c->gap = w->step - slowest;
    psr_exchange_take_figures(w->real->exchange, &figures);
    c->staleness = figures.staleness > c->staleness ? figures.staleness : c->staleness;
}

/* The weights of a bucket are those after the step before this one. */
static void keep(worker *w, uint32_t b, uint64_t steps)
{
    const cluster_options *o = &w->in->options;
    const psr_bucket *range = &o->buckets->items[b];
    if (steps > o->first_step)
        memcpy(w->history + (steps - 1 - o->first_step) * o->layout->length + range->offset,
               psr_exchange_weights(w->real->exchange) + range->offset,
               range->length * sizeof(float));
}

static psr_err forward(worker *w)
{
    const psr_buckets *buckets = w->in->options.buckets;
    float *gradients = psr_exchange_gradients(w->real->exchange);
    for (uint32_t b = buckets->count; b-- > 0;) {
        PSR_TRY(compute(w, PSR_PHASE_FORWARD));
        PSR_TRY(psr_exchange_weights_wanted(w->real->exchange, b));
        keep(w, b, w->step);
        for (size_t i = 0; i < buckets->items[b].length; i++)
            gradients[buckets->items[b].offset + i] = NAN; /* it may be written again */
    }
    see_gap(w);
    return PSR_OK;
}

static float gradient_of(const worker *w, uint64_t step, size_t i)
{
    const cluster_options *o = &w->in->options;
    const psr_tensor *tensor = &o->layout->tensors[step % o->layout->tensor_count];
    const bool overflows =
        (o->overflows >> step & 1) != 0 && step % w->in->n == w->rank && i == tensor->offset;
    return overflows ? INFINITY : cluster_gradient(w->rank, step, i);
}

/* ---- a device that is late ---- */

static psr_err device_passed(psr_fence *fence, bool *ret_passed)
{
    *ret_passed = ((device_work *)fence)->passed;
    return PSR_OK;
}

static void device_tell(psr_fence *fence, void (*told)(void *context), void *context)
{
    device_work *work = (device_work *)fence;
    assert_true(work->told == NULL && !work->passed);
    work->told = told;
    work->context = context;
}

static const psr_fence_ops device_fence = {device_passed, device_tell};

/* The device writes parameters alone, never their padding. */
static void device_writes(worker *w, uint32_t b, bool poison)
{
    const psr_layout *layout = w->in->options.layout;
    const psr_bucket *range = &w->in->options.buckets->items[b];
    float *gradients = psr_exchange_gradients(w->real->exchange);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++)
            if (i >= range->offset && i < range->offset + range->length)
                gradients[i] = poison ? NAN : gradient_of(w, w->device[b].step, i);
    }
}

/* The gradient is not there, and comes some time after the worker has reported it. */
static psr_fence *order_gradient(worker *w, uint32_t b)
{
    cluster *c = w->in;
    const psr_bucket *range = &c->options.buckets->items[b];
    if (w->device == NULL)
        return NULL;
    w->device[b] =
        (device_work){.fence = {&device_fence},
                      .due_us = psr_sim_now_us(c->sim) + cluster_draw(c, 4 * c->compute_max_us),
                      .step = w->step};
    device_writes(w, b, true);
    memcpy(w->read + range->offset, psr_exchange_weights(w->real->exchange) + range->offset,
           range->length * sizeof(float));
    return &w->device[b].fence;
}

static uint32_t next_of_device(const worker *w)
{
    uint32_t next = 0;
    for (uint32_t b = 1; b < w->in->options.buckets->count; b++)
        if (w->device[b].due_us < w->device[next].due_us)
            next = b;
    return next;
}

int64_t worker_device_us(const worker *w)
{
    return w->device != NULL && !w->device_stuck ? w->device[next_of_device(w)].due_us : NEVER;
}

static void tell_of_device(device_work *work)
{
    void (*told)(void *context) = work->told;
    work->due_us = NEVER;
    work->told = NULL;
    if (told != NULL)
        told(work->context);
}

void worker_device_turn(worker *w)
{
    const uint32_t b = next_of_device(w);
    const psr_bucket *range = &w->in->options.buckets->items[b];
    if (memcmp(w->read + range->offset, psr_exchange_weights(w->real->exchange) + range->offset,
               range->length * sizeof(float)) != 0)
        fail_msg(
            "seed %llu, worker %u: the weights of bucket %u change while the device reads them",
            (unsigned long long)w->in->options.seed, w->rank, b);
    device_writes(w, b, false);
    w->device[b].passed = true;
    tell_of_device(&w->device[b]);
}

static void make_device(worker *w)
{
    const cluster_options *o = &w->in->options;
    if (!o->late_devices)
        return;
    w->device = calloc(o->buckets->count, sizeof *w->device);
    w->read = calloc(o->layout->length + 1, sizeof *w->read);
    for (uint32_t b = 0; b < o->buckets->count; b++)
        w->device[b].due_us = NEVER;
}

/* A back end that ends tells whoever has asked. */
static void free_device(worker *w)
{
    for (uint32_t b = 0; w->device != NULL && b < w->in->options.buckets->count; b++)
        tell_of_device(&w->device[b]);
    free(w->device);
    free(w->read);
}

/* In order, but for what a network with branches makes of it. */
static psr_err backward(worker *w)
{
    cluster *c = w->in;
    const psr_buckets *buckets = c->options.buckets;
    float *gradients = psr_exchange_gradients(w->real->exchange);
    for (uint32_t b = 0; b < buckets->count; b++) {
        w->order[b] = b;
        if (b > 0 && cluster_draw(c, 4) == 0) {
            w->order[b] = w->order[b - 1];
            w->order[b - 1] = b;
        }
    }
    for (uint32_t k = 0; k < buckets->count; k++) {
        const psr_bucket *range = &buckets->items[w->order[k]];
        PSR_TRY(compute(w, PSR_PHASE_BACKWARD));
        for (size_t i = range->offset; i < range->offset + range->length; i++)
            gradients[i] = gradient_of(w, w->step, i);
        PSR_TRY(psr_exchange_gradient_ready(w->real->exchange, w->order[k],
                                            order_gradient(w, w->order[k])));
    }
    return PSR_OK;
}

/* --precision fp16: every worker knows whether the step was left out. */
static psr_err hear_of_overflow(worker *w, uint64_t step)
{
    const cluster_options *o = &w->in->options;
    double norm = 0;
    if (!psr_config_scales_loss(o->config))
        return PSR_OK;
    PSR_TRY(psr_exchange_gradient_norm(w->real->exchange, &norm));
    return isfinite(norm) == !(o->overflows >> step & 1)
               ? PSR_OK
               : psr_fail(PSR_ERR_COMPUTE, "worker %u: the norm of step %llu is %g", w->rank,
                          (unsigned long long)step, norm);
}

static psr_err take_step(worker *w)
{
    cluster *c = w->in;
    PSR_TRY(psr_exchange_begin_step(w->real->exchange, &(psr_step){w->step, w->rank, 1, c->n}));
    if (w->step == c->options.stop_at)
        cluster_stop(c);
    PSR_TRY(forward(w));
    PSR_TRY(backward(w));
    w->step++;
    PSR_TRY(psr_exchange_end_step(w->real->exchange));
    return hear_of_overflow(w, w->step - 1);
}

/* ---- between steps and at the end ---- */

/* The optimizer's state, or what this worker holds of it. */
static psr_err save_slots(worker *w)
{
    const psr_buckets *buckets = w->in->options.buckets;
    for (uint32_t i = 0; i < psr_exchange_slot_count(w->real->exchange); i++)
        for (uint32_t b = 0; b < buckets->count; b++)
            if (psr_exchange_saves_state(w->real->exchange, b))
                PSR_TRY(psr_session_checkpoint(
                    w->real->session, w->step, PSR_SECTION_SLOT(i),
                    psr_exchange_slot(w->real->exchange, i),
                    (psr_span){buckets->items[b].offset, buckets->items[b].length}));
    return PSR_OK;
}

/* Worker 0 sends what the shards do not hold, and each worker what it owes and what it holds. */
static psr_err save(worker *w)
{
    const bool first = w->rank == 0, owes = w->in->owes;
    if (w->last_saved == w->step)
        return PSR_OK;
    PSR_TRY(psr_exchange_drain(w->real->exchange));
    PSR_TRY(psr_session_await_saved(w->real->session, w->last_saved));
    w->last_saved = w->step;
    const psr_span all = {0, w->in->options.layout->length};
    if (owes)
        PSR_TRY(psr_session_checkpoint(w->real->session, w->step, PSR_SECTION_RESIDUAL(w->rank),
                                       psr_exchange_residual(w->real->exchange, 0), all));
    PSR_TRY(save_slots(w));
    if (!first)
        return PSR_OK;
    if (w->in->pulls_differences)
        PSR_TRY(psr_session_checkpoint(w->real->session, w->step, PSR_SECTION_PULLED,
                                       psr_exchange_weights(w->real->exchange), all));
    const float *weights = psr_exchange_saved_weights(w->real->exchange);
    return weights != NULL ? psr_session_checkpoint(w->real->session, w->step, PSR_SECTION_WEIGHTS,
                                                    weights, all)
                           : PSR_OK;
}

/* As an evaluation's figures are averaged. */
static psr_err average(worker *w)
{
    double row[2] = {(double)cluster_gradient(w->rank, w->step, 0), 1};
    double want = (double)cluster_gradient(0, w->step, 0);
    for (uint32_t r = 1; r < w->in->n; r++)
        want += (double)cluster_gradient(r, w->step, 0);
    want /= w->in->n;
    PSR_TRY(psr_exchange_average(w->real->exchange, row, 2));
    return memcmp(&want, row, sizeof want) == 0
               ? PSR_OK
               : psr_fail(PSR_ERR_COMPUTE, "the average is %a rather than %a", row[0], want);
}

static psr_err finish(worker *w)
{
    const cluster_options *o = &w->in->options;
    PSR_TRY(psr_exchange_drain(w->real->exchange));
    for (uint32_t b = 0; b < o->buckets->count; b++)
        keep(w, b, w->step);
    PSR_TRY(average(w));
    PSR_TRY(save(w));
    w->done = true;
    return psr_session_done(w->real->session, w->step, false, "{}");
}

static psr_err train(worker *w)
{
    const cluster_options *o = &w->in->options;
    PSR_TRY(compute(w, PSR_PHASE_START));
    PSR_TRY(load(w));
    PSR_TRY(psr_session_ready(w->real->session, NULL));
    while (w->step < o->first_step + o->steps) {
        psr_err err = take_step(w);
        if (err == PSR_ERR_CANCELLED && w->step > psr_session_last_step(w->real->session))
            break;
        PSR_TRY(err);
        if (psr_pace_due(&o->config->pace, o->config->checkpoint_every, w->step))
            PSR_TRY(save(w));
    }
    return finish(w);
}

/* ---- life ---- */

psr_err worker_trains(void *context, psr_emulated_worker *real)
{
    (void)context;
    return train(real->played);
}

psr_err worker_welcomed(void *context, psr_emulated_worker *real)
{
    const cluster_options *o = &((cluster *)context)->options;
    worker *w = real->played;
    w->step = real->first_step;
    w->history = calloc(o->layout->length * (o->steps + 1) + 1, sizeof(float));
    w->order = calloc(o->buckets->count + 1, sizeof *w->order);
    for (uint32_t i = 0; i < CLUSTER_SLOTS; i++)
        w->slots[i] = calloc(o->layout->length + 1, sizeof(float));
    w->pulled = calloc(o->layout->length + 1, sizeof(float));
    make_device(w);
    return PSR_OK;
}

/* After its transport. */
void worker_freed(void *context, psr_emulated_worker *real)
{
    worker *w = real->played;
    (void)context;
    if (w == NULL)
        return;
    free_device(w);
    free(w->history);
    free(w->order);
    for (uint32_t i = 0; i < CLUSTER_SLOTS; i++)
        free(w->slots[i]);
    free(w->pulled);
}
