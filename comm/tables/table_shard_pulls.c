/* What workers ask a shard of a table for: pulls (SSP, async), and sections that are read or
 * written. */
#include "comm/tables/table_shard_private.h"

#include "comm/operations/loan.h"
#include "comm/wire/encoding.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_LEAVING 8 /* answers that a worker has read and that may still count as waiting */

/* ---- sections ---- */

float *psr_table_shard_section(const psr_table_shard *table, uint32_t section)
{
    if (section == 0)
        return table->values;
    if (section <= table->update.state_count)
        return table->update.state(table->update.context, section - 1);
    return section == table->update.state_count + 1 && table->differences != NULL
               ? psr_differences_pulled(table->differences)
               : NULL;
}

/* What a worker speaks of is as it is after all that it has pushed. */
static psr_err check_section(const psr_table_shard *table, bool allowed, uint32_t s, uint64_t step,
                             uint32_t section, const psr_message *message)
{
    const uint64_t pushed =
        table->pushes[(size_t)s * table->n + psr_table_shard_pusher(table, message)];
    if (!allowed)
        return psr_violation(message, "this table is not to be read or written");
    if (psr_table_shard_section(table, section) == NULL)
        return psr_violation(message, "there is no section %" PRIu32, section);
    if (step != pushed || (psr_table_shard_is_bsp(table) && step != table->slices.items[s].version))
        return psr_violation(message, "%" PRIu64 " steps of it were pushed", pushed);
    return PSR_OK;
}

psr_err psr_table_shard_take_put(psr_table_shard *table, const psr_message *message, uint32_t s,
                                 const psr_msg_init *says, const float *values)
{
    PSR_TRY(check_section(table, table->options.open, s, says->step, says->section, message));
    memcpy(psr_table_shard_section(table, says->section) + says->span.offset, values,
           says->span.count * sizeof *values);
    (void)psr_credits_take(&table->credits, 0);
    return psr_table_shard_acknowledge(table, 0);
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

psr_err psr_table_shard_answer_pulls(psr_table_shard *table, uint32_t s)
{
    const psr_table_slice *slice = &table->slices.items[s];
    const psr_consistency *consistency = &table->options.consistency;
    for (uint32_t r = 0; r < table->n; r++) {
        size_t cell = (size_t)s * table->n + r;
        uint64_t step = table->pulls[cell];
        if (step == PSR_NO_PULL)
            continue;
        uint64_t staleness = step > slice->version ? step - slice->version : 0;
        if (consistency->kind == PSR_CONSISTENCY_SSP && staleness > consistency->bound)
            continue;
        table->pulls[cell] = PSR_NO_PULL;
        table->answer[cell] = ++table->answers[r];
        psr_head form = {0};
        psr_payload payload;
        PSR_TRY(psr_table_shard_payload(table, slice->span, &form, &payload));
        PSR_TRY(copy_for(table, r, &payload));
        PSR_TRY(psr_table_shard_send(table, slice, r, step, staleness, &form, &payload));
    }
    return PSR_OK;
}

/* Answers are copies of values, so this process keeps at most one for each slice and worker. */
static psr_err check_open(const psr_table_shard *table, uint32_t rank, size_t cell, uint64_t taken,
                          const psr_message *message)
{
    if (taken > table->answers[rank])
        return psr_violation(message, "it was answered %" PRIu64 " times", table->answers[rank]);
    if (table->pulls[cell] != PSR_NO_PULL)
        return psr_violation(message, "it has pulled the slice before, and waits for the answer");
    if (table->answer[cell] > taken)
        return psr_violation(
            message,
            "it has pulled the slice before, and has not taken the answer, number %" PRIu64,
            table->answer[cell]);
    return PSR_OK;
}

psr_err psr_table_shard_take_pull(psr_table_shard *table, const psr_message *message)
{
    uint32_t s;
    psr_msg_pull says;
    const void *nothing;
    PSR_TRY(psr_msg_pull_read(message, &says));
    PSR_TRY(psr_table_slices_find(&table->slices, message, says.bucket, says.span, &s));
    PSR_TRY(psr_decode_bytes(message, 0, &nothing));
    uint32_t rank = psr_table_shard_pusher(table, message);
    size_t cell = (size_t)s * table->n + rank;
    if (psr_table_shard_is_bsp(table))
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
    return psr_table_shard_answer_pulls(table, s);
}

psr_err psr_table_shard_take_ask(psr_table_shard *table, const psr_message *message)
{
    uint32_t s;
    psr_msg_ask says;
    const void *nothing;
    PSR_TRY(psr_msg_ask_read(message, &says));
    PSR_TRY(psr_table_slices_find(&table->slices, message, says.bucket, says.span, &s));
    PSR_TRY(psr_decode_bytes(message, 0, &nothing));
    const uint32_t rank = psr_table_shard_pusher(table, message);
    const size_t cell = (size_t)s * table->n + rank;
    PSR_TRY(check_section(table, table->options.open || table->options.readable, s, says.step,
                          says.section, message));
    PSR_TRY(check_open(table, rank, cell, says.taken, message));
    table->answer[cell] = ++table->answers[rank];
    psr_head head = psr_msg_init_head(&(psr_msg_init){
        .bucket = says.bucket, .step = says.step, .span = says.span, .section = says.section});
    psr_payload payload = psr_encode(
        &head, PSR_ENCODING_FLOAT32,
        psr_table_shard_section(table, says.section) + says.span.offset, says.span.count);
    if (psr_table_shard_is_bsp(table))
        payload = psr_loan_payload(NULL, payload);
    else
        PSR_TRY(copy_for(table, rank, &payload));
    return table->options.outbox.send(table->options.outbox.context,
                                      (psr_peer){PSR_ROLE_WORKER, table->first_rank + rank}, &head,
                                      &payload);
}
