#include "ps/shard/shard.h"

#include "base/arena.h"
#include "base/finite.h"
#include "base/fold.h"
#include "comm/comm.h"
#include "model/optimizers/optimizer.h"
#include "model/optimizers/whole_tensors.h"
#include "net/violation.h"
#include "ps/shard/fold_blocks.h"
#include "ps/shard/shard_slices.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_PULL UINT64_MAX

struct psr_shard {
    psr_shard_options options;
    uint32_t n; /* workers */
    psr_optimizer *optimizer;
    float *weights;
    float *sums;              /* arena of sums that outlive a call: fold arrival, whole tensors; else NULL */
    float *scratch;           /* [PSR_FOLD_BLOCK] */
    psr_whole_tensors *whole; /* NULL: elements are updated one by one */
    psr_shard_slices slices;

    psr_message **held;   /* [slice * n + rank] BSP: the push of the step that is being gathered */
    const float **inputs; /* [n] payloads of a slice's held pushes */
    uint64_t *pushes;     /* [slice * n + rank] steps that rank has pushed, those before the run included */
    uint64_t *pulls;      /* [slice * n + rank] SSP: the step of a pull that waits, or NO_PULL */

    uint64_t *received, *told; /* [rank] pushes that came, and how many of them the worker knows of */
    uint64_t ack_after;

    uint32_t sections_wanted, slices_initialised;
    uint64_t clock;            /* the least version of an owned bucket */
    uint32_t buckets_at_clock; /* owned buckets that have no more */
    uint64_t end;              /* steps at which the run ends */
    uint64_t summed_step;      /* of the slice whose tensors are being looked at */
    uint64_t progress;
};

static bool is_bsp(const psr_shard *shard)
{
    return shard->options.config->sync == PSR_SYNC_BSP;
}

static bool by_arrival(const psr_shard *shard)
{
    return is_bsp(shard) && shard->options.config->fold == PSR_FOLD_ARRIVAL;
}

/* ---- life ---- */

static void update_tensor(void *context, size_t tensor);
static psr_err slice_updated(void *context, uint32_t slice);

static psr_err follow_whole_tensors(psr_shard *shard)
{
    psr_span *parts = calloc((size_t)shard->slices.count + 1, sizeof *parts);
    if (!parts)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u slices", shard->slices.count);
    for (uint32_t s = 0; s < shard->slices.count; s++)
        parts[s] = (psr_span){shard->slices.items[s].offset, shard->slices.items[s].length};
    psr_whole_tensors_events events = {shard, update_tensor, slice_updated};
    psr_err err =
        psr_whole_tensors_new(shard->options.layout, parts, shard->slices.count, &events, &shard->whole);
    free(parts);
    return err;
}

static psr_err shard_init(psr_shard *shard)
{
    const psr_shard_options *options = &shard->options;
    PSR_TRY(psr_optimizer_new(options->config, options->layout, &shard->optimizer));
    bool whole = psr_optimizer_whole_tensors(shard->optimizer);
    if (whole && !is_bsp(shard))
        return psr_fail(PSR_ERR_USAGE, "--optimizer lars needs --sync bsp: its update needs whole tensors");
    PSR_TRY(psr_shard_slices_init(options->plan, options->shard, options->first_step, &shard->slices));
    PSR_TRY(psr_arena_new(options->layout->length, &shard->weights));
    if (whole || by_arrival(shard))
        PSR_TRY(psr_arena_new(options->layout->length, &shard->sums));
    if (whole)
        PSR_TRY(follow_whole_tensors(shard));

    size_t cells = (size_t)shard->slices.count * shard->n + 1;
    shard->held = calloc(cells, sizeof *shard->held);
    shard->pushes = calloc(cells, sizeof *shard->pushes);
    shard->pulls = calloc(cells, sizeof *shard->pulls);
    shard->inputs = calloc(shard->n, sizeof *shard->inputs);
    shard->received = calloc(shard->n, sizeof *shard->received);
    shard->told = calloc(shard->n, sizeof *shard->told);
    shard->scratch = aligned_alloc(64, PSR_FOLD_BLOCK * sizeof(float));
    if (!shard->held || !shard->pushes || !shard->pulls || !shard->inputs || !shard->received ||
        !shard->told || !shard->scratch)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u slices of %u workers", shard->slices.count,
                        shard->n);
    for (size_t i = 0; i < cells; i++) {
        shard->pushes[i] = options->first_step;
        shard->pulls[i] = NO_PULL;
    }
    return PSR_OK;
}

psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard)
{
    psr_shard *shard = calloc(1, sizeof *shard);
    if (!shard)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard");
    shard->options = *options;
    shard->n = options->plan->ranks;
    shard->ack_after = options->plan->window / 2 ? options->plan->window / 2 : 1;
    shard->end = options->total_steps;
    psr_err err = shard_init(shard);
    if (err != PSR_OK) {
        psr_shard_free(shard);
        return err;
    }
    for (uint32_t s = 0; s < shard->slices.count; s++)
        shard->slices.items[s].updates = options->first_step * shard->n;
    shard->sections_wanted = 1;
    if (options->first_step > 0)
        shard->sections_wanted |= ((1u << psr_optimizer_slot_count(shard->optimizer)) - 1) << 1;
    shard->clock = shard->slices.owned_count ? options->first_step : shard->end;
    shard->buckets_at_clock = shard->slices.owned_count;
    *ret_shard = shard;
    return PSR_OK;
}

void psr_shard_free(psr_shard *shard)
{
    if (!shard)
        return;
    if (shard->held)
        for (size_t i = 0; i < (size_t)shard->slices.count * shard->n; i++)
            psr_message_free(&shard->held[i]);
    free(shard->held);
    free(shard->pushes);
    free(shard->pulls);
    free(shard->inputs);
    free(shard->received);
    free(shard->told);
    free(shard->scratch);
    psr_whole_tensors_free(shard->whole);
    psr_shard_slices_done(&shard->slices);
    psr_arena_free(shard->weights, shard->options.layout->length);
    psr_arena_free(shard->sums, shard->options.layout->length);
    psr_optimizer_free(shard->optimizer);
    free(shard);
}

/* ---- clock and checkpoints ---- */

static bool checkpoint_due(const psr_shard *shard, uint64_t version)
{
    uint64_t every = shard->options.config->checkpoint_every;
    return version == shard->end || (every != 0 && version % every == 0);
}

static psr_err checkpoint_bucket(psr_shard *shard, uint32_t b)
{
    if (!shard->options.checkpoint)
        return PSR_OK;
    psr_span span = shard->options.plan->buckets[b].span;
    for (uint32_t i = 0; i < psr_optimizer_slot_count(shard->optimizer); i++)
        PSR_TRY(shard->options.checkpoint(shard->options.context, shard->slices.buckets[b].version, i,
                                          psr_optimizer_slot(shard->optimizer, i) + span.offset, span.offset,
                                          span.count));
    return PSR_OK;
}

static void bucket_left(psr_shard *shard, uint64_t version)
{
    if (version != shard->clock || --shard->buckets_at_clock > 0)
        return;
    shard->clock++;
    for (uint32_t b = 0; b < shard->options.plan->bucket_count; b++)
        shard->buckets_at_clock +=
            shard->slices.buckets[b].owned && shard->slices.buckets[b].version == shard->clock;
}

/* One more step of the slice is in the weights. */
static psr_err slice_advanced(psr_shard *shard, psr_shard_slice *slice)
{
    psr_shard_bucket *bucket = &shard->slices.buckets[slice->bucket];
    if (slice->version++ != bucket->version || --bucket->at_version > 0)
        return PSR_OK;
    bucket->version++;
    for (uint32_t s = bucket->first; s < bucket->first + bucket->count; s++)
        bucket->at_version += shard->slices.items[s].version == bucket->version;
    bucket_left(shard, bucket->version - 1);
    return checkpoint_due(shard, bucket->version) ? checkpoint_bucket(shard, slice->bucket) : PSR_OK;
}

psr_err psr_shard_stop_at(psr_shard *shard, uint64_t step)
{
    bool was_due = checkpoint_due(shard, step + 1);
    shard->end = step + 1;
    if (shard->slices.owned_count == 0)
        shard->clock = shard->end;
    for (uint32_t b = 0; b < shard->options.plan->bucket_count && !was_due; b++)
        if (shard->slices.buckets[b].owned && shard->slices.buckets[b].version == shard->end)
            PSR_TRY(checkpoint_bucket(shard, b));
    return PSR_OK;
}

/* ---- answers ---- */

static psr_err send_weights(psr_shard *shard, const psr_shard_slice *slice, uint32_t rank, uint64_t step,
                            uint64_t staleness)
{
    psr_head head = psr_msg_weights_head(&(psr_msg_weights){.bucket = slice->bucket,
                                                            .step = step,
                                                            .span = {slice->offset, slice->length},
                                                            .staleness = staleness,
                                                            .received = shard->received[rank]});
    psr_payload payload =
        psr_encode(&head, PSR_ENCODING_FLOAT32, shard->weights + slice->offset, slice->length);
    /* In BSP they stand for as long as they are lent: the next update of the range needs every worker's next
     * push, which it makes after it has these. */
    if (is_bsp(shard))
        payload = psr_loan_payload(NULL, payload);
    shard->told[rank] = shard->received[rank];
    return shard->options.outbox.send(shard->options.outbox.context, (psr_peer){PSR_ROLE_WORKER, rank}, &head,
                                      &payload);
}

/* Credit that nothing else has told. */
static psr_err acknowledge(psr_shard *shard, uint32_t rank)
{
    if (shard->received[rank] - shard->told[rank] < shard->ack_after)
        return PSR_OK;
    psr_head head = psr_msg_ack_head(shard->received[rank]);
    shard->told[rank] = shard->received[rank];
    return shard->options.outbox.send(shard->options.outbox.context, (psr_peer){PSR_ROLE_WORKER, rank}, &head,
                                      NULL);
}

static psr_err slice_updated(void *context, uint32_t s)
{
    psr_shard *shard = context;
    psr_shard_slice *slice = &shard->slices.items[s];
    uint64_t step = slice->version;
    PSR_TRY(slice_advanced(shard, slice));
    for (uint32_t r = 0; r < shard->n; r++)
        PSR_TRY(send_weights(shard, slice, r, step, 0));
    return PSR_OK;
}

/* ---- updates ---- */

typedef struct updating {
    psr_shard *shard;
    const psr_shard_slice *slice;
    float lr;
    uint64_t step, number; /* number: Adam's t */
} updating;

static updating update_of(psr_shard *shard, const psr_shard_slice *slice, uint64_t step)
{
    float lr = psr_schedule_lr(shard->options.config, step, shard->options.total_steps);
    return (updating){shard, slice, lr, step, step + 1};
}

static psr_err check_finite(const updating *update, const float *gradient, size_t count)
{
    if (psr_finite(gradient, count))
        return PSR_OK;
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the gradient of bucket %" PRIu32
                    " is not finite; a lower --lr may help",
                    update->step + 1, update->slice->bucket); /* people count steps from 1 */
}

static psr_err update_block(void *context, const float *sum, size_t at, size_t count)
{
    const updating *update = context;
    PSR_TRY(check_finite(update, sum, count));
    psr_optimizer_update_run(update->shard->optimizer, update->shard->weights, sum,
                             update->slice->offset + at, count, update->lr, update->number);
    return PSR_OK;
}

static psr_err keep_block(void *context, const float *sum, size_t at, size_t count)
{
    const updating *update = context;
    PSR_TRY(check_finite(update, sum, count));
    memcpy(update->shard->sums + update->slice->offset + at, sum, count * sizeof *sum);
    return PSR_OK;
}

static void update_tensor(void *context, size_t tensor)
{
    psr_shard *shard = context;
    float lr = psr_schedule_lr(shard->options.config, shard->summed_step, shard->options.total_steps);
    psr_optimizer_update_tensor(shard->optimizer, shard->weights, shard->sums, tensor, lr,
                                shard->summed_step + 1);
}

static psr_err slice_summed(psr_shard *shard, uint32_t s)
{
    shard->summed_step = shard->slices.items[s].version;
    return psr_whole_tensors_summed(shard->whole, s);
}

/* All n pushes of the slice's step are held. */
static psr_err fold_held(psr_shard *shard, uint32_t s)
{
    psr_shard_slice *slice = &shard->slices.items[s];
    psr_message **held = &shard->held[(size_t)s * shard->n];
    psr_span bucket = shard->options.plan->buckets[slice->bucket].span;
    psr_encoding encoding = shard->options.plan->buckets[slice->bucket].encoding;
    for (uint32_t r = 0; r < shard->n; r++)
        PSR_TRY(psr_decode_floats(held[r], encoding, slice->length, &shard->inputs[r]));
    updating update = update_of(shard, slice, slice->version);
    PSR_TRY(psr_fold_blocks(shard->inputs, shard->n, bucket.count, slice->offset - bucket.offset,
                            slice->length, shard->scratch, shard->whole ? keep_block : update_block,
                            &update));
    for (uint32_t r = 0; r < shard->n; r++)
        psr_message_free(&held[r]);
    slice->arrived = 0;
    return shard->whole ? slice_summed(shard, s) : slice_updated(shard, s);
}

/* fold arrival: the sum grows in the order in which pushes come. */
static psr_err fold_arrival(psr_shard *shard, uint32_t s, const float *gradient)
{
    psr_shard_slice *slice = &shard->slices.items[s];
    float *sum = shard->sums + slice->offset;
    if (slice->arrived == 1)
        memcpy(sum, gradient, slice->length * sizeof *sum);
    else
        psr_fold_add(sum, gradient, slice->length);
    if (slice->arrived < shard->n)
        return PSR_OK;
    slice->arrived = 0;
    updating update = update_of(shard, slice, slice->version);
    if (!shard->whole) {
        PSR_TRY(update_block(&update, sum, 0, slice->length));
        return slice_updated(shard, s);
    }
    PSR_TRY(check_finite(&update, sum, slice->length));
    return slice_summed(shard, s);
}

/* ---- messages ---- */

static psr_err find_slice(const psr_shard *shard, const psr_message *message, uint32_t bucket, psr_span span,
                          uint32_t *ret_slice)
{
    return psr_shard_slices_find(&shard->slices, message, bucket, span, ret_slice);
}

static psr_err take_init(psr_shard *shard, const psr_message *message)
{
    uint32_t s;
    psr_msg_init says;
    const float *values;
    PSR_TRY(psr_msg_init_read(message, &says));
    PSR_TRY(find_slice(shard, message, says.bucket, says.span, &s));
    psr_shard_slice *slice = &shard->slices.items[s];
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, slice->length, &values));
    uint32_t section = says.section;
    if (message->from.rank != 0)
        return psr_violation(message, "initial state is worker 0's to send");
    if (section > 31 || (shard->sections_wanted >> section & 1) == 0)
        return psr_violation(message, "there is no section %" PRIu32 " to be set", section);
    if (slice->sections_known >> section & 1)
        return PSR_OK;
    float *to = section == 0 ? shard->weights : psr_optimizer_slot(shard->optimizer, section - 1);
    memcpy(to + slice->offset, values, slice->length * sizeof *to);
    slice->sections_known |= 1u << section;
    shard->slices_initialised += slice->sections_known == shard->sections_wanted;
    return PSR_OK;
}

static psr_err take_push_bsp(psr_shard *shard, uint32_t s, uint64_t step, const float *gradient,
                             psr_message **message)
{
    psr_shard_slice *slice = &shard->slices.items[s];
    uint32_t rank = (*message)->from.rank;
    size_t cell = (size_t)s * shard->n + rank;
    if (step != slice->version)
        return psr_violation(*message, "the slice is at wire step %" PRIu64, slice->version);
    shard->pushes[cell]++;
    shard->received[rank]++;
    slice->arrived++;
    if (by_arrival(shard)) {
        PSR_TRY(fold_arrival(shard, s, gradient));
    } else {
        shard->held[cell] = *message;
        *message = NULL;
        if (slice->arrived == shard->n)
            PSR_TRY(fold_held(shard, s));
    }
    return acknowledge(shard, rank);
}

/* The pulls of a slice that may be answered now: for step c when every worker has pushed c - K. */
static psr_err answer_pulls(psr_shard *shard, uint32_t s)
{
    const psr_shard_slice *slice = &shard->slices.items[s];
    bool bounded = shard->options.config->sync == PSR_SYNC_SSP;
    for (uint32_t r = 0; r < shard->n; r++) {
        uint64_t step = shard->pulls[(size_t)s * shard->n + r];
        if (step == NO_PULL)
            continue;
        uint64_t staleness = step > slice->version ? step - slice->version : 0;
        if (bounded && staleness > shard->options.config->ssp_bound)
            continue;
        shard->pulls[(size_t)s * shard->n + r] = NO_PULL;
        PSR_TRY(send_weights(shard, slice, r, step, staleness));
    }
    return PSR_OK;
}

static psr_err take_push_alone(psr_shard *shard, uint32_t s, uint32_t rank, const float *gradient)
{
    psr_shard_slice *slice = &shard->slices.items[s];
    uint64_t *pushes = &shard->pushes[(size_t)s * shard->n];
    updating update = update_of(shard, slice, slice->updates / shard->n);
    update.number = slice->updates + 1;
    PSR_TRY(update_block(&update, gradient, 0, slice->length));
    slice->updates++;
    pushes[rank]++;
    shard->received[rank]++;

    uint64_t least = pushes[0];
    for (uint32_t r = 1; r < shard->n; r++)
        least = pushes[r] < least ? pushes[r] : least;
    if (least > slice->version)
        PSR_TRY(slice_advanced(shard, slice));
    PSR_TRY(answer_pulls(shard, s));
    return acknowledge(shard, rank);
}

static psr_err take_push(psr_shard *shard, psr_message **message)
{
    uint32_t s, rank = (*message)->from.rank;
    psr_msg_push says;
    const float *gradient;
    PSR_TRY(psr_msg_push_read(*message, &says));
    PSR_TRY(find_slice(shard, *message, says.bucket, says.span, &s));
    psr_encoding encoding = shard->options.plan->buckets[says.bucket].encoding;
    PSR_TRY(psr_decode_floats(*message, encoding, says.span.count, &gradient));
    if (!psr_shard_initialised(shard))
        return psr_violation(*message, "the initial weights are not complete yet");
    if (says.answer != is_bsp(shard))
        return psr_violation(*message, "its answer is %d, which --sync does not go with", says.answer);
    uint64_t pushed = shard->pushes[(size_t)s * shard->n + rank];
    if (says.step < pushed)
        return PSR_OK; /* a duplicate */
    if (says.step > pushed || says.step >= shard->end)
        return psr_violation(*message, "%" PRIu64 " steps of it were pushed, and the run has %" PRIu64,
                             pushed, shard->end);
    return is_bsp(shard) ? take_push_bsp(shard, s, says.step, gradient, message)
                         : take_push_alone(shard, s, rank, gradient);
}

static psr_err take_pull(psr_shard *shard, const psr_message *message)
{
    uint32_t s;
    psr_msg_pull says;
    const void *nothing;
    PSR_TRY(psr_msg_pull_read(message, &says));
    PSR_TRY(find_slice(shard, message, says.bucket, says.span, &s));
    PSR_TRY(psr_decode_bytes(message, 0, &nothing));
    size_t cell = (size_t)s * shard->n + message->from.rank;
    if (is_bsp(shard))
        return psr_violation(message, "with --sync bsp weights come by themselves");
    if (!psr_shard_initialised(shard))
        return psr_violation(message, "the initial weights are not complete yet");
    if (says.step < shard->pushes[cell])
        return PSR_OK; /* a duplicate */
    if (says.step > shard->pushes[cell])
        return psr_violation(message, "only %" PRIu64 " steps of it were pushed", shard->pushes[cell]);
    shard->pulls[cell] = says.step;
    return answer_pulls(shard, s);
}

psr_err psr_shard_message(psr_shard *shard, psr_message **message)
{
    psr_err err;
    shard->progress++;
    if ((*message)->from.role != PSR_ROLE_WORKER || (*message)->from.rank >= shard->n) {
        err = psr_violation(*message, "a shard hears the scheduler and the run's %" PRIu32 " workers",
                            shard->n);
    } else {
        switch ((*message)->head.type) {
        case PSR_MSG_INIT:
            err = take_init(shard, *message);
            break;
        case PSR_MSG_PUSH:
            err = take_push(shard, message);
            break;
        case PSR_MSG_PULL:
            err = take_pull(shard, *message);
            break;
        default:
            err = psr_violation(*message, "that is not for a shard");
            break;
        }
    }
    psr_message_free(message);
    return err;
}

/* ---- what it tells ---- */

bool psr_shard_initialised(const psr_shard *shard)
{
    return shard->slices_initialised == shard->slices.count;
}

bool psr_shard_waits(const psr_shard *shard, uint64_t *ret_step, uint32_t *ret_bucket, uint32_t *ret_rank)
{
    if (!psr_shard_initialised(shard) || psr_shard_finished(shard))
        return false;
    bool found = false, found_gathering = false;
    uint64_t oldest = 0;
    for (uint32_t s = shard->slices.count; s-- > 0;) { /* in the order in which gradients come */
        const psr_shard_slice *slice = &shard->slices.items[s];
        const uint64_t *pushes = &shard->pushes[(size_t)s * shard->n];
        uint32_t lacking = UINT32_MAX;
        bool gathering = false;
        for (uint32_t r = 0; r < shard->n; r++) {
            if (pushes[r] > slice->version)
                gathering = true;
            else if (lacking == UINT32_MAX)
                lacking = r;
        }
        if (lacking == UINT32_MAX || slice->version >= shard->end)
            continue;
        if (found &&
            (slice->version > oldest || (slice->version == oldest && (found_gathering || !gathering))))
            continue;
        found = true;
        found_gathering = gathering;
        oldest = slice->version;
        *ret_step = slice->version;
        *ret_bucket = slice->bucket;
        *ret_rank = lacking;
    }
    return found;
}

uint64_t psr_shard_clock(const psr_shard *shard)
{
    return shard->clock;
}

bool psr_shard_finished(const psr_shard *shard)
{
    return shard->clock >= shard->end;
}

uint64_t psr_shard_progress(const psr_shard *shard)
{
    return shard->progress;
}
