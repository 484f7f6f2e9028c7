#include "comm/tables/table_shard_private.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"
#include "comm/observer.h"
#include "comm/operations/loan.h"
#include "comm/tables/fold_blocks.h"
#include "comm/tables/table.h"
#include "comm/wire/encoding.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool by_arrival(const psr_table_shard *table)
{
    return psr_table_shard_is_bsp(table) && table->options.fold_by_arrival;
}

/* ---- life ---- */

static psr_err find_update(psr_table_shard *table)
{
    const psr_table_shard_options *options = &table->options;
    const psr_table_update *update = NULL;
    PSR_TRY(psr_table_update_find(options->update, options->registered, options->registered_count,
                                  &update));
    const uint32_t more = update->state_count + psr_plan_pulls_differences(table->plan);
    assert(more <= 31); /* a bit for each, and one for the values */
    if (update->applied != NULL && !psr_table_shard_is_bsp(table))
        return psr_fail(PSR_ERR_USAGE,
                        "the update \"%s\" needs more than a slice, which BSP alone gathers",
                        update->name);
    table->update = *update;
    table->sections_wanted = 1;
    if (options->first_step > 0)
        table->sections_wanted |= ((1u << more) - 1) << 1;
    return PSR_OK;
}

static psr_err make_arrays(psr_table_shard *table)
{
    const psr_compression pulled = table->plan->pulled;
    if (table->options.values == NULL)
        PSR_TRY(psr_arena_new(table->length, &table->own_values));
    table->values = table->own_values != NULL ? table->own_values : table->options.values;
    if (by_arrival(table))
        PSR_TRY(psr_arena_new(table->length, &table->sums));
    if (psr_compression_has_residual(pulled)) {
        PSR_TRY(psr_differences_new(table->plan, table->options.context, table->options.blank,
                                    &table->differences));
    } else if (!psr_compression_is_none(pulled)) {
        PSR_TRY(psr_encoder_new(pulled, table->plan->slice_floats, &table->encoder));
        table->encoded = malloc(psr_compression_bytes_max(pulled, table->plan->slice_floats));
        if (table->encoded == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a payload of what is pulled");
    }

    size_t cells = (size_t)table->slices.count * table->n + 1;
    table->held = calloc(cells, sizeof *table->held);
    table->pushes = calloc(cells, sizeof *table->pushes);
    table->pulls = calloc(cells, sizeof *table->pulls);
    table->answer = calloc(cells, sizeof *table->answer);
    table->inputs = calloc(table->n, sizeof *table->inputs);
    table->answers = calloc(table->n, sizeof *table->answers);
    table->unsent = calloc(table->n, sizeof *table->unsent);
    table->scratch = aligned_alloc(64, PSR_FOLD_BLOCK * sizeof(float));
    if (table->held == NULL || table->pushes == NULL || table->pulls == NULL ||
        table->answer == NULL || table->inputs == NULL || table->answers == NULL ||
        table->unsent == NULL || table->scratch == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices of %" PRIu32 " workers",
                        table->slices.count, table->n);
    for (size_t i = 0; i < cells; i++) {
        table->pushes[i] = table->options.first_step;
        table->pulls[i] = PSR_NO_PULL;
    }
    for (uint32_t r = 0; r < table->n && !psr_table_shard_is_bsp(table); r++)
        PSR_TRY(psr_unsent_new(&table->unsent[r]));
    return PSR_OK;
}

/* With fewer in flight nobody gets far ahead. Workers on one host have no link between them, and
 * programs push tables as they like. */
#define HOLDS_BACK_FROM 4

static psr_err make_credits(psr_table_shard *table)
{
    const psr_table_shard_options *options = &table->options;
    const uint32_t window = table->plan->window, half = window > 1 ? window / 2 : 1;
    const bool holds_back = window >= HOLDS_BACK_FROM && psr_table_shard_is_bsp(table) &&
                            !options->open && !options->by_host;
    return psr_credits_init(&table->credits, table->n, table->slices.count, holds_back ? half : 0,
                            half);
}

static psr_err table_init(psr_table_shard *table)
{
    const psr_table_shard_options *options = &table->options;
    if (psr_plan_pulls_differences(table->plan) &&
        (!psr_table_shard_is_bsp(table) || options->given))
        return psr_fail(PSR_ERR_USAGE,
                        "values come back as %s in BSP alone, to workers that began with the table",
                        psr_encoding_name(table->plan->pulled.encoding));
    PSR_TRY(find_update(table));
    PSR_TRY(psr_table_slices_init(table->plan, options->by_host ? PSR_ROUTE_HOST : PSR_ROUTE_SHARD,
                                  options->shard, options->first_step, &table->slices));
    PSR_TRY(make_arrays(table));
    PSR_TRY(make_credits(table));
    table->parts_at_clock = table->slices.held_count;
    table->clock = table->parts_at_clock > 0 ? options->first_step : options->end;
    if (options->given) {
        table->sections_wanted = 0;
        table->slices_initialised = table->slices.count;
    }
    return PSR_OK;
}

psr_err psr_table_shard_new(const psr_table_shard_options *options, psr_table_shard **ret_table)
{
    psr_table_shard *table = calloc(1, sizeof *table);
    if (table == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard of a table");
    table->options = *options;
    table->plan = options->plan;
    table->n = options->plan->ranks;
    table->first_rank = psr_plan_first_rank(options->plan);
    table->length = psr_plan_length(options->plan);
    psr_err err = table_init(table);
    if (err != PSR_OK) {
        psr_table_shard_free(table);
        return err;
    }
    *ret_table = table;
    return PSR_OK;
}

void psr_table_shard_free(psr_table_shard *table)
{
    if (table == NULL)
        return;
    if (table->held != NULL)
        for (size_t i = 0; i < (size_t)table->slices.count * table->n; i++)
            psr_message_free(&table->held[i]);
    for (uint32_t r = 0; table->unsent != NULL && r < table->n; r++)
        psr_unsent_free(table->unsent[r]);
    psr_encoder_free(&table->encoder);
    psr_differences_free(table->differences);
    free(table->encoded);
    free(table->unsent);
    free(table->held);
    free(table->pushes);
    free(table->pulls);
    free(table->answer);
    free(table->inputs);
    psr_credits_done(&table->credits);
    free(table->answers);
    free(table->scratch);
    psr_table_slices_done(&table->slices);
    psr_arena_free(table->own_values, table->length);
    psr_arena_free(table->sums, table->length);
    free(table);
}

/* ---- versions and clock ---- */

static void part_left(psr_table_shard *table, uint64_t version)
{
    if (version != table->clock || --table->parts_at_clock > 0)
        return;
    table->clock++;
    for (uint32_t b = 0; b < table->plan->bucket_count; b++)
        table->parts_at_clock +=
            table->slices.parts[b].held && table->slices.parts[b].version == table->clock;
}

/* One more step is in the slice's values. */
static psr_err slice_advanced(psr_table_shard *table, psr_table_slice *slice)
{
    psr_table_part *part = &table->slices.parts[slice->part];
    if (slice->version++ != part->version || --part->at_version > 0)
        return PSR_OK;
    part->version++;
    for (uint32_t s = part->first; s < part->first + part->count; s++)
        part->at_version += table->slices.items[s].version == part->version;
    part_left(table, part->version - 1);
    if (table->options.advanced == NULL)
        return PSR_OK;
    return table->options.advanced(table->options.context, slice->part, part->version);
}

/* For each slice one answer, or first its initial values and then the answer; and one ACK for every
 * `at_once` pushes that a worker may have on their way. */
size_t psr_table_shard_waiting_max(const psr_table_shard *table)
{
    const size_t pushes = (size_t)PSR_TABLE_WINDOW_LENT * table->plan->window;
    return 2 * (size_t)table->slices.count + pushes / table->credits.at_once + 64;
}

void psr_table_shard_end_at(psr_table_shard *table, uint64_t end)
{
    table->options.end = end;
    if (table->slices.held_count == 0)
        table->clock = end;
}

/* ---- answers ---- */

psr_err psr_table_shard_payload(psr_table_shard *table, psr_span span, psr_head *form,
                                psr_payload *ret_payload)
{
    const float *values = table->values + span.offset;
    if (table->encoder != NULL) {
        PSR_TRY(psr_encoder_prepare(table->encoder, values, NULL, span.count));
        *ret_payload =
            psr_encode_slice(table->encoder, form, (psr_span){0, span.count}, table->encoded);
        return PSR_OK;
    }
    *ret_payload = psr_encode(form, PSR_ENCODING_FLOAT32, values, span.count);
    /* In BSP the values stay as long as anybody reads them. The next update of the range needs
     * every worker's next push, which a worker makes when it has received and read these values:
     * also if the message points into this process's memory (psr_transport_lend_from), or a worker
     * has that memory in place of its own (net/sharing/landing.h). In SSP and async another
     * worker's push may change the values at any time, so they are copied. */
    if (psr_table_shard_is_bsp(table))
        *ret_payload = psr_loan_payload(NULL, *ret_payload);
    return PSR_OK;
}

psr_err psr_table_shard_send(psr_table_shard *table, const psr_table_slice *slice, uint32_t rank,
                             uint64_t step, uint64_t staleness, const psr_head *form,
                             const psr_payload *payload)
{
    psr_head head = psr_msg_weights_head(
        &(psr_msg_weights){.bucket = slice->part,
                           .step = step,
                           .span = slice->span,
                           .staleness = staleness,
                           .received = psr_credits_tell(&table->credits, rank)});
    psr_encode_alike(&head, form);
    return table->options.outbox.send(table->options.outbox.context,
                                      (psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, &head,
                                      payload);
}

psr_err psr_table_shard_show(psr_table_shard *table)
{
    const psr_outbox *outbox = &table->options.outbox;
    if (!psr_table_shard_is_bsp(table) || !psr_compression_is_none(table->plan->pulled) ||
        outbox->lends_to == NULL)
        return PSR_OK;
    for (uint32_t r = 0; r < table->n; r++) {
        const psr_peer worker = {PSR_ROLE_WORKER, table->first_rank + r};
        for (uint32_t s = 0; s < table->slices.count && outbox->lends_to(outbox->context, worker);
             s++) {
            const psr_table_slice *slice = &table->slices.items[s];
            if (slice->version > table->options.first_step) /* its WEIGHTS were sent already */
                continue;
            psr_head head = psr_msg_init_head(&(psr_msg_init){
                .bucket = slice->part, .step = table->options.first_step, .span = slice->span});
            psr_payload payload = psr_loan_payload(
                NULL, psr_encode(&head, PSR_ENCODING_FLOAT32, table->values + slice->span.offset,
                                 slice->span.count));
            PSR_TRY(outbox->send(outbox->context, worker, &head, &payload));
        }
    }
    return PSR_OK;
}

psr_err psr_table_shard_acknowledge(psr_table_shard *table, uint32_t rank)
{
    psr_head head = psr_msg_ack_head(psr_credits_tell(&table->credits, rank));
    return table->options.outbox.send(table->options.outbox.context,
                                      (psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, &head,
                                      NULL);
}

/* Credit that nothing else has told: of the worker whose push came, and of those who were held back
 * for it. */
static psr_err acknowledge(psr_table_shard *table, uint32_t rank, bool others)
{
    for (uint32_t r = others ? 0 : rank; r < (others ? table->n : rank + 1); r++)
        if (psr_credits_due(&table->credits, r))
            PSR_TRY(psr_table_shard_acknowledge(table, r));
    return PSR_OK;
}

static psr_err send_to_all(psr_table_shard *table, const psr_table_slice *slice, uint64_t step,
                           const psr_head *form, const psr_payload *payload)
{
    for (uint32_t r = 0; r < table->n; r++)
        PSR_TRY(psr_table_shard_send(table, slice, r, step, 0, form, payload));
    return PSR_OK;
}

/* All slices of the part have been updated. The payload is used again, so the transport copies
 * it. */
static psr_err send_differences(psr_table_shard *table, uint32_t p, uint64_t step)
{
    const psr_table_part *part = &table->slices.parts[p];
    PSR_TRY(psr_differences_prepare(table->differences, p, step, table->values));
    for (uint32_t s = part->first; s < part->first + part->count; s++) {
        const psr_table_slice *slice = &table->slices.items[s];
        psr_head form = {0};
        const psr_payload payload = psr_differences_send(table->differences, slice->span, &form);
        PSR_TRY(send_to_all(table, slice, step, &form, &payload));
    }
    return PSR_OK;
}

psr_err psr_table_shard_updated(psr_table_shard *table, uint32_t s)
{
    psr_table_slice *slice = &table->slices.items[s];
    uint64_t step = slice->version;
    psr_head form = {0};
    psr_payload payload;
    if (table->differences != NULL) {
        PSR_TRY(slice_advanced(table, slice));
        return table->slices.parts[slice->part].version > step
                   ? send_differences(table, slice->part, step)
                   : PSR_OK;
    }
    /* Workers wait for the values, and nobody for what the owner does with them. */
    PSR_TRY(psr_table_shard_payload(table, slice->span, &form, &payload));
    PSR_TRY(send_to_all(table, slice, step, &form, &payload));
    return slice_advanced(table, slice);
}

/* ---- updates ---- */

typedef struct applying {
    psr_table_shard *table;
    const psr_table_slice *slice;
    uint64_t step, number;
} applying;

static psr_err apply_block(void *context, const float *pushed, size_t at, size_t count)
{
    const applying *a = context;
    const psr_table_update *update = &a->table->update;
    size_t offset = a->slice->span.offset + at;
    return update->apply(update->context, &(psr_table_run){.part = a->slice->part,
                                                           .span = {offset, count},
                                                           .step = a->step,
                                                           .number = a->number,
                                                           .pushed = pushed,
                                                           .values = a->table->values + offset});
}

/* BSP: the sum of all pushes of the slice's step has been applied. */
static psr_err slice_applied(psr_table_shard *table, uint32_t s)
{
    const psr_table_update *update = &table->update;
    psr_table_slice *slice = &table->slices.items[s];
    slice->arrived = 0;
    return update->applied != NULL ? update->applied(update->context, s, slice->version)
                                   : psr_table_shard_updated(table, s);
}

static void free_held(psr_table_shard *table, uint32_t s)
{
    for (uint32_t r = 0; r < table->n; r++)
        psr_message_free(&table->held[(size_t)s * table->n + r]);
}

/* A sum and its update are one span of time, because the update follows block by block. */
static void tell_fold(const applying *a, psr_observed_kind kind)
{
    psr_outbox_tell(&a->table->options.outbox, kind, a->step, a->slice->part, a->slice->span);
}

/* What is pushed is the slice's sum already. */
static psr_err apply_sum(applying *a, const float *sum)
{
    tell_fold(a, PSR_OBSERVED_FOLDS);
    psr_err err = apply_block(a, sum, 0, a->slice->span.count);
    tell_fold(a, PSR_OBSERVED_FOLDED);
    return err;
}

/* Puts each rank's input at the rank's place in the order of the sum. */
static void order_inputs(psr_table_shard *table)
{
    for (uint32_t r = 0, last = table->n - 1; table->plan->reversed && r < last; r++, last--) {
        const float *input = table->inputs[r];
        table->inputs[r] = table->inputs[last];
        table->inputs[last] = input;
    }
}

/* All n pushes of the slice's step are held. */
static psr_err fold_held(psr_table_shard *table, uint32_t s)
{
    const psr_table_slice *slice = &table->slices.items[s];
    const psr_plan_bucket *part = &table->plan->buckets[slice->part];
    applying a = {table, slice, slice->version, slice->version + 1};
    PSR_TRY(psr_table_shard_pushed(table, s, table->inputs));
    order_inputs(table);
    tell_fold(&a, PSR_OBSERVED_FOLDS);
    psr_err err = psr_fold_blocks(table->inputs, table->n, part->span.count,
                                  slice->span.offset - part->span.offset, slice->span.count,
                                  table->options.float64 ? 2 : 1, table->scratch, apply_block, &a);
    tell_fold(&a, PSR_OBSERVED_FOLDED);
    PSR_TRY(err);
    free_held(table, s);
    return slice_applied(table, s);
}

psr_err psr_table_shard_pushed(const psr_table_shard *table, uint32_t s, const float **ret_values)
{
    psr_message **held = &table->held[(size_t)s * table->n];
    for (uint32_t r = 0; r < table->n; r++)
        PSR_TRY(psr_decode_floats(held[r], PSR_ENCODING_FLOAT32, table->slices.items[s].span.count,
                                  &ret_values[r]));
    return PSR_OK;
}

psr_err psr_table_shard_take_sum(psr_table_shard *table, uint32_t s, const float *sum)
{
    const psr_table_slice *slice = &table->slices.items[s];
    applying a = {table, slice, slice->version, slice->version + 1};
    PSR_TRY(apply_sum(&a, sum));
    free_held(table, s);
    return slice_applied(table, s);
}

/* The sum is made in the order in which pushes come. */
static psr_err fold_arrival(psr_table_shard *table, uint32_t s, const float *pushed)
{
    const psr_table_slice *slice = &table->slices.items[s];
    float *sum = table->sums + slice->span.offset;
    if (slice->arrived == 1)
        memcpy(sum, pushed, slice->span.count * sizeof *sum);
    else
        psr_fold_add(sum, pushed, slice->span.count);
    if (slice->arrived < table->n)
        return PSR_OK;
    applying a = {table, slice, slice->version, slice->version + 1};
    PSR_TRY(apply_sum(&a, sum));
    return slice_applied(table, s);
}

/* ---- messages ---- */

static psr_err take_init(psr_table_shard *table, const psr_message *message)
{
    uint32_t s;
    psr_msg_init says;
    const float *values;
    PSR_TRY(psr_msg_init_read(message, &says));
    PSR_TRY(psr_table_slices_find(&table->slices, message, says.bucket, says.span, &s));
    psr_table_slice *slice = &table->slices.items[s];
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, slice->span.count, &values));
    uint32_t section = says.section;
    if (message->from.rank != 0)
        return psr_violation(message, "initial state is worker 0's to send");
    if (table->options.open)
        return psr_table_shard_take_put(table, message, s, &says, values);
    if (section > 31 || (table->sections_wanted >> section & 1) == 0)
        return psr_violation(message, "there is no section %" PRIu32 " to be set", section);
    if (slice->sections_known >> section & 1)
        return PSR_OK;
    memcpy(psr_table_shard_section(table, section) + slice->span.offset, values,
           slice->span.count * sizeof *values);
    if (table->differences != NULL && table->options.first_step == 0) /* workers have them too */
        memcpy(psr_differences_pulled(table->differences) + slice->span.offset, values,
               slice->span.count * sizeof *values);
    slice->sections_known |= 1u << section;
    table->slices_initialised += slice->sections_known == table->sections_wanted;
    return PSR_OK;
}

/* Whether others may be due: the worker has mapped the shard's memory, so it is on its host. */
static bool has_come_near(psr_table_shard *table, uint32_t rank)
{
    const psr_outbox *outbox = &table->options.outbox;
    const psr_peer worker = {PSR_ROLE_WORKER, table->first_rank + rank};
    return !table->credits.near[rank] && outbox->lends_to != NULL &&
           outbox->lends_to(outbox->context, worker) && psr_credits_set_near(&table->credits, rank);
}

static psr_err take_push_bsp(psr_table_shard *table, uint32_t s, uint64_t step, const float *pushed,
                             psr_message **message)
{
    psr_table_slice *slice = &table->slices.items[s];
    uint32_t rank = psr_table_shard_pusher(table, *message);
    size_t cell = (size_t)s * table->n + rank;
    /* nobody was answered before all of the part was updated */
    const uint64_t due =
        table->differences != NULL ? table->slices.parts[slice->part].version : slice->version;
    if (step != due)
        return psr_violation(*message, "the slice is at wire step %" PRIu64, due);
    table->pushes[cell]++;
    const bool near = has_come_near(table, rank),
               others = psr_credits_take(&table->credits, rank) || near;
    slice->arrived++;
    if (by_arrival(table)) {
        PSR_TRY(fold_arrival(table, s, pushed));
    } else {
        table->held[cell] = *message;
        *message = NULL;
        if (slice->arrived == table->n)
            PSR_TRY(table->options.gathered != NULL
                        ? table->options.gathered(table->options.context, s)
                        : fold_held(table, s));
    }
    return acknowledge(table, rank, others);
}

static psr_err take_push_alone(psr_table_shard *table, uint32_t s, uint32_t rank,
                               const float *pushed)
{
    psr_table_slice *slice = &table->slices.items[s];
    uint64_t *pushes = &table->pushes[(size_t)s * table->n];
    applying a = {table, slice, slice->updates / table->n, slice->updates + 1};
    PSR_TRY(apply_sum(&a, pushed));
    slice->updates++;
    pushes[rank]++;
    (void)psr_credits_take(&table->credits, rank);

    uint64_t least = pushes[0];
    for (uint32_t r = 1; r < table->n; r++)
        least = pushes[r] < least ? pushes[r] : least;
    if (least > slice->version)
        PSR_TRY(slice_advanced(table, slice));
    PSR_TRY(psr_table_shard_answer_pulls(table, s));
    return acknowledge(table, rank, false);
}

static psr_err take_push(psr_table_shard *table, psr_message **message)
{
    uint32_t s, rank = psr_table_shard_pusher(table, *message);
    psr_msg_push says;
    const float *pushed;
    PSR_TRY(psr_msg_push_read(*message, &says));
    PSR_TRY(psr_table_slices_find(&table->slices, *message, says.bucket, says.span, &s));
    const psr_compression compression = table->plan->buckets[says.bucket].compression;
    if (!psr_compression_is_none(compression))
        PSR_TRY(psr_decode_message(message, compression, says.span.count));
    PSR_TRY(psr_decode_floats(*message, PSR_ENCODING_FLOAT32, says.span.count, &pushed));
    if (!psr_table_shard_initialised(table))
        return psr_violation(*message, "the initial weights are not complete yet");
    if (says.answer != psr_table_shard_is_bsp(table))
        return psr_violation(*message,
                             "its answer is %d, which does not go with the table's consistency",
                             says.answer);
    uint64_t before = table->pushes[(size_t)s * table->n + rank];
    if (says.step < before)
        return PSR_OK; /* a duplicate */
    if (says.step > before || says.step >= table->options.end)
        return psr_violation(*message,
                             "%" PRIu64 " steps of it were pushed, and the run has %" PRIu64,
                             before, table->options.end);
    return psr_table_shard_is_bsp(table) ? take_push_bsp(table, s, says.step, pushed, message)
                                         : take_push_alone(table, s, rank, pushed);
}

static psr_err take(psr_table_shard *table, psr_message **message)
{
    if ((*message)->from.role != PSR_ROLE_WORKER ||
        psr_table_shard_pusher(table, *message) >= table->n)
        return psr_violation(
            *message, "a shard hears the scheduler and the run's %" PRIu32 " workers", table->n);
    switch ((*message)->head.type) {
    case PSR_MSG_INIT:
        return take_init(table, *message);
    case PSR_MSG_PUSH:
        return take_push(table, message);
    case PSR_MSG_PULL:
        return psr_table_shard_take_pull(table, *message);
    case PSR_MSG_ASK:
        return psr_table_shard_take_ask(table, *message);
    default:
        return psr_violation(*message, "that is not for a shard");
    }
}

psr_err psr_table_shard_message(psr_table_shard *table, psr_message **message)
{
    table->progress++;
    psr_err err = take(table, message);
    psr_message_free(message); /* NULL if it is kept */
    return err;
}

/* ---- what it tells ---- */

bool psr_table_shard_holds(const psr_table_shard *table)
{
    return table->slices.held_count > 0;
}

bool psr_table_shard_initialised(const psr_table_shard *table)
{
    return table->slices_initialised == table->slices.count;
}

uint64_t psr_table_shard_clock(const psr_table_shard *table)
{
    return table->clock;
}

bool psr_table_shard_finished(const psr_table_shard *table)
{
    return table->clock >= table->options.end;
}

uint64_t psr_table_shard_version(const psr_table_shard *table, uint32_t part)
{
    return table->slices.parts[part].version;
}

uint64_t psr_table_shard_progress(const psr_table_shard *table)
{
    return table->progress;
}

float *psr_table_shard_values(psr_table_shard *table)
{
    return table->values;
}

psr_err psr_table_shard_slices(const psr_table_shard *table, psr_span **ret_slices,
                               uint32_t *ret_count)
{
    uint32_t count = table->slices.count;
    psr_span *slices = malloc(((size_t)count + 1) * sizeof *slices);
    if (slices == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices", count);
    for (uint32_t s = 0; s < count; s++)
        slices[s] = table->slices.items[s].span;
    *ret_slices = slices;
    *ret_count = count;
    return PSR_OK;
}
