#include "comm/view/handover.h"

#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- who gives what to whom ---- */

typedef struct making {
    const psr_plan *old, *new_plan;
    const psr_handover_members *members;
    psr_handover *handover; /* NULL: runs are only counted */
    uint32_t count;
} making;

static bool lives(const psr_handover_members *members, psr_peer peer)
{
    const bool *dead = peer.role == PSR_ROLE_SHARD ? members->dead_shards : members->dead_workers;
    return dead == NULL || !dead[peer.rank];
}

/* Between the steps of the old plan every worker has all weights. */
static bool has(const psr_plan *plan, uint32_t bucket, uint32_t array, psr_peer peer)
{
    return (array == PSR_HANDOVER_WEIGHTS && peer.role == PSR_ROLE_WORKER) ||
           psr_plan_holds(plan, bucket, peer);
}

static bool on_one_host(const making *m, psr_peer a, psr_peer b)
{
    const psr_plan *plan = m->old->hosts.count > 0 ? m->old : m->new_plan;
    return plan->hosts.count > 0 && a.role == PSR_ROLE_WORKER && b.role == PSR_ROLE_WORKER &&
           psr_plan_host_of(plan, a.rank) == psr_plan_host_of(plan, b.rank);
}

/* A member that has it. Workers take turns by bucket, so that none gives everything. */
static bool find_giver(const making *m, uint32_t bucket, uint32_t array, psr_peer to,
                       psr_peer *ret_from)
{
    const uint32_t workers = m->members->workers;
    const psr_peer shard = psr_plan_home(m->old, bucket);
    bool found = false;
    for (uint32_t i = 0; i < workers; i++) {
        const psr_peer worker = {PSR_ROLE_WORKER, (bucket + i) % workers};
        if (!has(m->old, bucket, array, worker) || !lives(m->members, worker))
            continue;
        if (!found || on_one_host(m, worker, to))
            *ret_from = worker;
        if (on_one_host(m, worker, to))
            return true;
        found = true;
    }
    if (!found && shard.role == PSR_ROLE_SHARD && lives(m->members, shard)) {
        *ret_from = shard;
        found = true;
    }
    return found;
}

static psr_err give(making *m, uint32_t bucket, uint32_t array, psr_peer to)
{
    psr_peer from = to;
    if (!psr_plan_holds(m->new_plan, bucket, to) || has(m->old, bucket, array, to) ||
        !lives(m->members, to))
        return PSR_OK;
    if (!find_giver(m, bucket, array, to, &from))
        return psr_fail(PSR_ERR_NOT_FOUND, "no process that lives has %s of bucket %" PRIu32,
                        array == PSR_HANDOVER_WEIGHTS ? "the weights" : "the optimizer's state",
                        bucket);
    if (m->handover != NULL)
        m->handover->runs[m->count] = (psr_handover_run){
            .array = array, .span = m->new_plan->buckets[bucket].span, .from = from, .to = to};
    m->count++;
    return PSR_OK;
}

static psr_err list(making *m, uint32_t states)
{
    m->count = 0;
    for (uint32_t b = m->new_plan->bucket_count; b-- > 0;)
        for (uint32_t array = 0; array <= states; array++) {
            for (uint32_t s = 0; s < m->members->shards; s++)
                PSR_TRY(give(m, b, array, (psr_peer){PSR_ROLE_SHARD, s}));
            for (uint32_t r = 0; r < m->members->workers; r++)
                PSR_TRY(give(m, b, array, (psr_peer){PSR_ROLE_WORKER, r}));
        }
    return PSR_OK;
}

psr_err psr_handover_make(const psr_plan *old, const psr_plan *new_plan,
                          const psr_handover_members *members, uint32_t states,
                          psr_handover *ret_handover)
{
    assert(old->bucket_count == new_plan->bucket_count);
    making m = {.old = old, .new_plan = new_plan, .members = members};
    psr_handover handover = {0};
    PSR_TRY(list(&m, states));
    handover.runs = calloc((size_t)m.count + 1, sizeof *handover.runs);
    if (handover.runs == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " runs to hand over", m.count);
    m.handover = &handover;
    PSR_TRY(list(&m, states));
    handover.count = m.count;
    *ret_handover = handover;
    return PSR_OK;
}

void psr_handover_done(psr_handover *handover)
{
    free(handover->runs);
    *handover = (psr_handover){0};
}

/* ---- out ---- */

static psr_err send_run(const psr_handover_run *run, const float *values, uint64_t step,
                        size_t slice_floats, const psr_outbox *outbox)
{
    for (size_t at = 0; at < run->span.count; at += slice_floats) {
        const size_t left = run->span.count - at;
        const psr_span span = {run->span.offset + at, left < slice_floats ? left : slice_floats};
        psr_head head = psr_msg_state_head(&(psr_msg_state){step, span, run->array});
        const psr_payload payload =
            psr_encode(&head, PSR_ENCODING_FLOAT32, values + span.offset, span.count);
        PSR_TRY(outbox->send(outbox->context, run->to, &head, &payload));
    }
    return PSR_OK;
}

psr_err psr_handover_send(const psr_handover *handover, psr_peer self,
                          const psr_handover_arrays *arrays, uint64_t step, size_t slice_floats,
                          const psr_outbox *outbox)
{
    for (uint32_t i = 0; i < handover->count; i++) {
        const psr_handover_run *run = &handover->runs[i];
        if (psr_peer_equal(run->from, self))
            PSR_TRY(send_run(run, arrays->array(arrays->context, run->array), step, slice_floats,
                             outbox));
    }
    return PSR_OK;
}

/* ---- in ---- */

/* The run of that sender to which the values belong; NULL: there is none. */
static psr_handover_run *find_run(psr_handover *handover, psr_peer self, const psr_message *message,
                                  const psr_msg_state *says)
{
    for (uint32_t i = 0; i < handover->count; i++) {
        psr_handover_run *run = &handover->runs[i];
        if (psr_peer_equal(run->to, self) && psr_peer_equal(run->from, message->from) &&
            run->array == says->array && says->span.offset >= run->span.offset &&
            says->span.offset - run->span.offset < run->span.count &&
            says->span.count <= run->span.count - (says->span.offset - run->span.offset))
            return run;
    }
    return NULL;
}

psr_err psr_handover_take(psr_handover *handover, psr_peer self, const psr_handover_arrays *arrays,
                          const psr_message *message)
{
    psr_msg_state says;
    const float *values;
    PSR_TRY(psr_msg_state_read(message, &says));
    if (says.span.count == 0) /* the sender has begun the view, and sends nothing more */
        return PSR_OK;
    psr_handover_run *run = find_run(handover, self, message, &says);
    if (run == NULL)
        return psr_violation(message, "it is not to hand that over");
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
    const size_t begin = says.span.offset - run->span.offset;
    if (begin < run->arrived)
        return PSR_OK; /* a duplicate */
    if (begin > run->arrived)
        return psr_violation(message, "%zu floats of the run came before, this begins at %zu",
                             run->arrived, begin);
    memcpy(arrays->array(arrays->context, run->array) + says.span.offset, values,
           says.span.count * sizeof *values);
    run->arrived += says.span.count;
    return PSR_OK;
}

bool psr_handover_waits(const psr_handover *handover, psr_peer self, const psr_plan *plan,
                        psr_peer *ret_from, uint32_t *ret_bucket)
{
    for (uint32_t i = 0; i < handover->count; i++) {
        const psr_handover_run *run = &handover->runs[i];
        if (!psr_peer_equal(run->to, self) || run->arrived == run->span.count)
            continue;
        *ret_from = run->from;
        for (uint32_t b = 0; b < plan->bucket_count; b++)
            if (plan->buckets[b].span.offset == run->span.offset)
                *ret_bucket = b;
        return true;
    }
    return false;
}
