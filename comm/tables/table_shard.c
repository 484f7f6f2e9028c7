#include "comm/tables/table_shard.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"
#include "comm/operations/loan.h"
#include "comm/tables/fold_blocks.h"
#include "comm/tables/table.h"
#include "comm/tables/table_slices.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "net/zmq/unsent.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_PULL UINT64_MAX
#define ANSWERS_LEAVING 8 /* answers that a worker has read and that may still count as waiting */

struct psr_table_shard {
    psr_table_shard_options options;
    const psr_plan *plan;   /* the options'; so is n, the number of workers */
    uint32_t n, first_rank; /* of those workers */
    psr_table_update update;
    size_t length; /* of the table */
    float *values;
    float *own_values; /* NULL: the values are the owner's */
    float *sums;       /* if folded by arrival: as long as values; else NULL */
    float *scratch;    /* [PSR_FOLD_BLOCK] */
    psr_table_slices slices;
    psr_encoder *encoder; /* encodes what is pulled, a slice at a time; NULL: it is sent as it is */
    void *encoded;        /* a slice's payload */

    psr_message **held;   /* [slice * n + worker] BSP: the push of the step under way, in float32 */
    const float **inputs; /* [n] payloads of a slice's held pushes */
    /* [slice * n + worker] the steps that this worker has pushed, including those before the
     * first */
    uint64_t *pushes;
    uint64_t *pulls;  /* [slice * n + worker] SSP: the step of its pull that waits, or NO_PULL */
    uint64_t *answer; /* [slice * n + worker] SSP, async: the number of the last answer; 0: none */

    /* [worker] how many of its pushes came, and of how many it was told */
    uint64_t *received, *told;
    uint64_t *answers;   /* [worker] answers to its pulls so far */
    psr_unsent **unsent; /* [worker] copies of values that have not left yet; owned */
    uint64_t ack_after;

    uint32_t sections_wanted, slices_initialised;
    uint64_t clock;          /* the least version of a part that is held */
    uint32_t parts_at_clock; /* how many parts that are held have that version */
    uint64_t progress;
};

static bool is_bsp(const psr_table_shard *table)
{
    return table->options.consistency.kind == PSR_CONSISTENCY_BSP;
}

static bool by_arrival(const psr_table_shard *table)
{
    return is_bsp(table) && table->options.fold_by_arrival;
}

/* ---- life ---- */

static psr_err find_update(psr_table_shard *table)
{
    const psr_table_shard_options *options = &table->options;
    const psr_table_update *update = NULL;
    PSR_TRY(psr_table_update_find(options->update, options->registered, options->registered_count,
                                  &update));
    assert(update->state_count <= 31); /* a bit for each state, and one for the values */
    if (update->applied != NULL && !is_bsp(table))
        return psr_fail(PSR_ERR_USAGE,
                        "the update \"%s\" needs more than a slice, which BSP alone gathers",
                        update->name);
    table->update = *update;
    table->sections_wanted = 1;
    if (options->first_step > 0)
        table->sections_wanted |= ((1u << update->state_count) - 1) << 1;
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
    if (!psr_compression_is_none(pulled)) {
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
    table->received = calloc(table->n, sizeof *table->received);
    table->told = calloc(table->n, sizeof *table->told);
    table->answers = calloc(table->n, sizeof *table->answers);
    table->unsent = calloc(table->n, sizeof *table->unsent);
    table->scratch = aligned_alloc(64, PSR_FOLD_BLOCK * sizeof(float));
    if (table->held == NULL || table->pushes == NULL || table->pulls == NULL ||
        table->answer == NULL || table->inputs == NULL || table->received == NULL ||
        table->told == NULL || table->answers == NULL || table->unsent == NULL ||
        table->scratch == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices of %" PRIu32 " workers",
                        table->slices.count, table->n);
    for (size_t i = 0; i < cells; i++) {
        table->pushes[i] = table->options.first_step;
        table->pulls[i] = NO_PULL;
    }
    for (uint32_t r = 0; r < table->n && !is_bsp(table); r++)
        PSR_TRY(psr_unsent_new(&table->unsent[r]));
    return PSR_OK;
}

static psr_err table_init(psr_table_shard *table)
{
    const psr_table_shard_options *options = &table->options;
    PSR_TRY(find_update(table));
    PSR_TRY(psr_table_slices_init(table->plan, options->by_host ? PSR_ROUTE_HOST : PSR_ROUTE_SHARD,
                                  options->shard, options->first_step, &table->slices));
    PSR_TRY(make_arrays(table));
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
    table->ack_after = options->plan->window / 2 ? options->plan->window / 2 : 1;
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
    free(table->encoded);
    free(table->unsent);
    free(table->held);
    free(table->pushes);
    free(table->pulls);
    free(table->answer);
    free(table->inputs);
    free(table->received);
    free(table->told);
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
 * `ack_after` pushes that a worker may have on their way. */
size_t psr_table_shard_waiting_max(const psr_table_shard *table)
{
    const size_t pushes = (size_t)PSR_TABLE_WINDOW_LENT * table->plan->window;
    return 2 * (size_t)table->slices.count + pushes / table->ack_after + 64;
}

void psr_table_shard_end_at(psr_table_shard *table, uint64_t end)
{
    table->options.end = end;
    if (table->slices.held_count == 0)
        table->clock = end;
}

/* ---- answers ---- */

/* The slice's values as they are sent to pulls. form: its encoding is set. Encoded values use
 * memory that the next slice needs too, so the transport copies them. */
static psr_err values_payload(psr_table_shard *table, psr_span span, psr_head *form,
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
    if (is_bsp(table))
        *ret_payload = psr_loan_payload(NULL, *ret_payload);
    return PSR_OK;
}

static psr_err send_values(psr_table_shard *table, const psr_table_slice *slice, uint32_t rank,
                           uint64_t step, uint64_t staleness, const psr_head *form,
                           const psr_payload *payload)
{
    psr_head head = psr_msg_weights_head(&(psr_msg_weights){.bucket = slice->part,
                                                            .step = step,
                                                            .span = slice->span,
                                                            .staleness = staleness,
                                                            .received = table->received[rank]});
    psr_encode_alike(&head, form);
    table->told[rank] = table->received[rank];
    return table->options.outbox.send(table->options.outbox.context,
                                      (psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, &head,
                                      payload);
}

psr_err psr_table_shard_show(psr_table_shard *table)
{
    const psr_outbox *outbox = &table->options.outbox;
    if (!is_bsp(table) || table->encoder != NULL || outbox->lends_to == NULL)
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

static psr_err acknowledge_now(psr_table_shard *table, uint32_t rank)
{
    psr_head head = psr_msg_ack_head(table->received[rank]);
    table->told[rank] = table->received[rank];
    return table->options.outbox.send(table->options.outbox.context,
                                      (psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, &head,
                                      NULL);
}

/* Credit that nothing else has told. */
static psr_err acknowledge(psr_table_shard *table, uint32_t rank)
{
    return table->received[rank] - table->told[rank] < table->ack_after
               ? PSR_OK
               : acknowledge_now(table, rank);
}

psr_err psr_table_shard_updated(psr_table_shard *table, uint32_t s)
{
    psr_table_slice *slice = &table->slices.items[s];
    uint64_t step = slice->version;
    psr_head form = {0};
    psr_payload payload;
    PSR_TRY(slice_advanced(table, slice));
    PSR_TRY(values_payload(table, slice->span, &form, &payload));
    for (uint32_t r = 0; r < table->n; r++)
        PSR_TRY(send_values(table, slice, r, step, 0, &form, &payload));
    return PSR_OK;
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

/* All n pushes of the slice's step are held. */
static psr_err fold_held(psr_table_shard *table, uint32_t s)
{
    const psr_table_slice *slice = &table->slices.items[s];
    const psr_plan_bucket *part = &table->plan->buckets[slice->part];
    applying a = {table, slice, slice->version, slice->version + 1};
    PSR_TRY(psr_table_shard_pushed(table, s, table->inputs));
    PSR_TRY(psr_fold_blocks(table->inputs, table->n, part->span.count,
                            slice->span.offset - part->span.offset, slice->span.count,
                            table->scratch, apply_block, &a));
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
    PSR_TRY(apply_block(&a, sum, 0, slice->span.count));
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
    PSR_TRY(apply_block(&a, sum, 0, slice->span.count));
    return slice_applied(table, s);
}

/* ---- messages ---- */

/* The sender's index among the workers, in the arrays of [rank]; n or more: it is none of them. */
static uint32_t pusher_of(const psr_table_shard *table, const psr_message *message)
{
    return message->from.rank - table->first_rank;
}

/* The array of a section: the values, or one of the update's states. NULL: there is none. */
static float *section_of(const psr_table_shard *table, uint32_t section)
{
    if (section == 0)
        return table->values;
    return section <= table->update.state_count
               ? table->update.state(table->update.context, section - 1)
               : NULL;
}

/* What a worker speaks of is as it is after all that it has pushed. */
static psr_err check_section(const psr_table_shard *table, uint32_t s, uint64_t step,
                             uint32_t section, const psr_message *message)
{
    const uint64_t pushed = table->pushes[(size_t)s * table->n + pusher_of(table, message)];
    if (!table->options.open)
        return psr_violation(message, "this table is not to be read or written");
    if (section_of(table, section) == NULL)
        return psr_violation(message, "there is no section %" PRIu32, section);
    if (step != pushed || (is_bsp(table) && step != table->slices.items[s].version))
        return psr_violation(message, "%" PRIu64 " steps of it were pushed", pushed);
    return PSR_OK;
}

static psr_err take_put(psr_table_shard *table, const psr_message *message, uint32_t s,
                        const psr_msg_init *says, const float *values)
{
    PSR_TRY(check_section(table, s, says->step, says->section, message));
    memcpy(section_of(table, says->section) + says->span.offset, values,
           says->span.count * sizeof *values);
    table->received[0]++;
    return acknowledge_now(table, 0);
}

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
        return take_put(table, message, s, &says, values);
    if (section > 31 || (table->sections_wanted >> section & 1) == 0)
        return psr_violation(message, "there is no section %" PRIu32 " to be set", section);
    if (slice->sections_known >> section & 1)
        return PSR_OK;
    memcpy(section_of(table, section) + slice->span.offset, values,
           slice->span.count * sizeof *values);
    slice->sections_known |= 1u << section;
    table->slices_initialised += slice->sections_known == table->sections_wanted;
    return PSR_OK;
}

static psr_err take_push_bsp(psr_table_shard *table, uint32_t s, uint64_t step, const float *pushed,
                             psr_message **message)
{
    psr_table_slice *slice = &table->slices.items[s];
    uint32_t rank = pusher_of(table, *message);
    size_t cell = (size_t)s * table->n + rank;
    if (step != slice->version)
        return psr_violation(*message, "the slice is at wire step %" PRIu64, slice->version);
    table->pushes[cell]++;
    table->received[rank]++;
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
    return acknowledge(table, rank);
}

/* A copy of values that has not left yet. */
typedef struct copy {
    psr_unsent *unsent;
    _Alignas(64) uint8_t bytes[];
} copy;

static void copy_left(void *context)
{
    copy *c = context;
    psr_unsent_left(c->unsent);
    free(c);
}

/* A worker that acknowledges answers that it has not read is found here. An honest worker has one
 * answer for each slice to read, and an answer that is being sent may count a moment longer. */
static psr_err copy_for(const psr_table_shard *table, uint32_t rank, psr_payload *payload)
{
    psr_unsent *unsent = table->unsent[rank];
    size_t waiting = psr_unsent_count(unsent);
    if (waiting >= (size_t)table->slices.count + ANSWERS_LEAVING)
        return psr_violation_unread((psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, waiting);
    copy *c = aligned_alloc(_Alignof(copy), (sizeof *c + payload->bytes + _Alignof(copy) - 1) &
                                                ~(_Alignof(copy) - 1));
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an answer of %zu bytes", payload->bytes);
    c->unsent = unsent;
    memcpy(c->bytes, payload->data, payload->bytes);
    psr_unsent_add(unsent);
    *payload = (psr_payload){c->bytes, payload->bytes, copy_left, c};
    return PSR_OK;
}

/* Answers the pulls of a slice that may be answered now: a pull for step c when every worker has
 * pushed c - K steps. */
static psr_err answer_pulls(psr_table_shard *table, uint32_t s)
{
    const psr_table_slice *slice = &table->slices.items[s];
    const psr_consistency *consistency = &table->options.consistency;
    for (uint32_t r = 0; r < table->n; r++) {
        size_t cell = (size_t)s * table->n + r;
        uint64_t step = table->pulls[cell];
        if (step == NO_PULL)
            continue;
        uint64_t staleness = step > slice->version ? step - slice->version : 0;
        if (consistency->kind == PSR_CONSISTENCY_SSP && staleness > consistency->bound)
            continue;
        table->pulls[cell] = NO_PULL;
        table->answer[cell] = ++table->answers[r];
        psr_head form = {0};
        psr_payload payload;
        PSR_TRY(values_payload(table, slice->span, &form, &payload));
        PSR_TRY(copy_for(table, r, &payload));
        PSR_TRY(send_values(table, slice, r, step, staleness, &form, &payload));
    }
    return PSR_OK;
}

static psr_err take_push_alone(psr_table_shard *table, uint32_t s, uint32_t rank,
                               const float *pushed)
{
    psr_table_slice *slice = &table->slices.items[s];
    uint64_t *pushes = &table->pushes[(size_t)s * table->n];
    applying a = {table, slice, slice->updates / table->n, slice->updates + 1};
    PSR_TRY(apply_block(&a, pushed, 0, slice->span.count));
    slice->updates++;
    pushes[rank]++;
    table->received[rank]++;

    uint64_t least = pushes[0];
    for (uint32_t r = 1; r < table->n; r++)
        least = pushes[r] < least ? pushes[r] : least;
    if (least > slice->version)
        PSR_TRY(slice_advanced(table, slice));
    PSR_TRY(answer_pulls(table, s));
    return acknowledge(table, rank);
}

static psr_err take_push(psr_table_shard *table, psr_message **message)
{
    uint32_t s, rank = pusher_of(table, *message);
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
    if (says.answer != is_bsp(table))
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
    return is_bsp(table) ? take_push_bsp(table, s, says.step, pushed, message)
                         : take_push_alone(table, s, rank, pushed);
}

/* Answers are copies of values, so this process keeps at most one for each slice and worker. */
static psr_err check_open(const psr_table_shard *table, uint32_t rank, size_t cell, uint64_t taken,
                          const psr_message *message)
{
    if (taken > table->answers[rank])
        return psr_violation(message, "it was answered %" PRIu64 " times", table->answers[rank]);
    if (table->pulls[cell] != NO_PULL)
        return psr_violation(message, "it has pulled the slice before, and waits for the answer");
    if (table->answer[cell] > taken)
        return psr_violation(
            message,
            "it has pulled the slice before, and has not taken the answer, number %" PRIu64,
            table->answer[cell]);
    return PSR_OK;
}

static psr_err take_pull(psr_table_shard *table, const psr_message *message)
{
    uint32_t s;
    psr_msg_pull says;
    const void *nothing;
    PSR_TRY(psr_msg_pull_read(message, &says));
    PSR_TRY(psr_table_slices_find(&table->slices, message, says.bucket, says.span, &s));
    PSR_TRY(psr_decode_bytes(message, 0, &nothing));
    uint32_t rank = pusher_of(table, message);
    size_t cell = (size_t)s * table->n + rank;
    if (is_bsp(table))
        return psr_violation(message, "in BSP weights come by themselves");
    if (!psr_table_shard_initialised(table))
        return psr_violation(message, "the initial weights are not complete yet");
    if (says.step < table->pushes[cell])
        return PSR_OK; /* a duplicate */
    if (says.step > table->pushes[cell])
        return psr_violation(message, "only %" PRIu64 " steps of it were pushed",
                             table->pushes[cell]);
    PSR_TRY(check_open(table, rank, cell, says.taken, message));
    table->pulls[cell] = says.step;
    return answer_pulls(table, s);
}

static psr_err take_ask(psr_table_shard *table, const psr_message *message)
{
    uint32_t s;
    psr_msg_ask says;
    const void *nothing;
    PSR_TRY(psr_msg_ask_read(message, &says));
    PSR_TRY(psr_table_slices_find(&table->slices, message, says.bucket, says.span, &s));
    PSR_TRY(psr_decode_bytes(message, 0, &nothing));
    const uint32_t rank = pusher_of(table, message);
    const size_t cell = (size_t)s * table->n + rank;
    PSR_TRY(check_section(table, s, says.step, says.section, message));
    PSR_TRY(check_open(table, rank, cell, says.taken, message));
    table->answer[cell] = ++table->answers[rank];
    psr_head head = psr_msg_init_head(&(psr_msg_init){
        .bucket = says.bucket, .step = says.step, .span = says.span, .section = says.section});
    psr_payload payload =
        psr_encode(&head, PSR_ENCODING_FLOAT32, section_of(table, says.section) + says.span.offset,
                   says.span.count);
    if (is_bsp(table))
        payload = psr_loan_payload(NULL, payload);
    else
        PSR_TRY(copy_for(table, rank, &payload));
    return table->options.outbox.send(table->options.outbox.context,
                                      (psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, &head,
                                      &payload);
}

static psr_err take(psr_table_shard *table, psr_message **message)
{
    if ((*message)->from.role != PSR_ROLE_WORKER || pusher_of(table, *message) >= table->n)
        return psr_violation(
            *message, "a shard hears the scheduler and the run's %" PRIu32 " workers", table->n);
    switch ((*message)->head.type) {
    case PSR_MSG_INIT:
        return take_init(table, *message);
    case PSR_MSG_PUSH:
        return take_push(table, message);
    case PSR_MSG_PULL:
        return take_pull(table, *message);
    case PSR_MSG_ASK:
        return take_ask(table, *message);
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

/* Of the step that the slice collects: the lowest rank that has not pushed it, and whether another
 * has. false: no push is missing. */
static bool slice_waits(const psr_table_shard *table, uint32_t s, uint32_t *ret_rank,
                        bool *ret_gathering)
{
    const uint64_t *pushes = &table->pushes[(size_t)s * table->n];
    uint64_t version = table->slices.items[s].version;
    uint32_t lacking = UINT32_MAX;
    *ret_gathering = false;
    for (uint32_t r = table->n; r-- > 0;) {
        if (pushes[r] > version)
            *ret_gathering = true;
        else
            lacking = r;
    }
    *ret_rank = table->first_rank + lacking;
    return lacking != UINT32_MAX && version < table->options.end;
}

bool psr_table_shard_waits(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                           uint32_t *ret_rank)
{
    if (!psr_table_shard_initialised(table) || psr_table_shard_finished(table))
        return false;
    bool found = false, found_gathering = false;
    for (uint32_t s = table->slices.count; s-- > 0;) { /* in the order in which pushes come */
        const psr_table_slice *slice = &table->slices.items[s];
        uint32_t rank;
        bool gathering;
        if (!slice_waits(table, s, &rank, &gathering))
            continue;
        if (found && (slice->version > *ret_step ||
                      (slice->version == *ret_step && (found_gathering || !gathering))))
            continue;
        found = true;
        found_gathering = gathering;
        *ret_step = slice->version;
        *ret_part = slice->part;
        *ret_rank = rank;
    }
    return found;
}

static bool any_waits(const psr_table_shard *table, uint32_t s, bool gathering)
{
    if (is_bsp(table))
        return gathering;
    for (uint32_t r = 0; r < table->n; r++)
        if (table->pulls[(size_t)s * table->n + r] != NO_PULL)
            return true;
    return false;
}

bool psr_table_shard_holds_up(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                              uint32_t *ret_rank)
{
    bool found = false;
    for (uint32_t s = table->slices.count; s-- > 0;) {
        const psr_table_slice *slice = &table->slices.items[s];
        uint32_t rank = 0;
        bool gathering = false;
        if (!slice_waits(table, s, &rank, &gathering) || !any_waits(table, s, gathering) ||
            (found && slice->version >= *ret_step))
            continue;
        found = true;
        *ret_step = slice->version;
        *ret_part = slice->part;
        *ret_rank = rank;
    }
    return found;
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
