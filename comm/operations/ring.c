/* Each bucket is a persistent all-reduce by ring (comm/collectives/algorithms/ring.c), in place in
 * the arena, in one group of all workers: hops, sums, the lane and compression are the group's.
 * This file adds what only training needs. Its messages are RING, whose heads give bucket and span
 * as in the plan; and messages that come before a bucket is ready are kept.
 *
 * Rank r hears its left neighbour r - 1 only (modulo n). In the reduce-scatter it hears chunk c at
 * hop r-c-2, in the all-gather at hop r-c-1. Channels are first-in first-out, so each (bucket,
 * phase, chunk) arrives in ascending order: a duplicate or a gap shows at once. A bucket is at most
 * one step early, because the left neighbour completes it only after it has sent us everything of
 * it. */
#include "comm/operations/ring.h"

#include "base/arrays/fold.h"
#include "comm/collectives/group.h"
#include "comm/collectives/schedule.h"
#include "comm/operations/early.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* The all-reduce of one bucket: an operation that is started again for each step. */
typedef struct bucket {
    psr_operation base;
    psr_ring *ring;
    uint32_t index;
    psr_span span;                 /* in the arena */
    psr_request *request;          /* NULL: the bucket goes another way */
    uint64_t step;                 /* the step under way if active, else the next one */
    bool step_known;               /* known by its start, or by a message that came before */
    bool active;                   /* from its start until its owner is told that it is reduced */
    size_t *held[PSR_RING_PHASES]; /* [chunk]: floats that came before its start */
} bucket;

struct psr_ring {
    psr_ring_options options;
    const psr_plan *plan; /* the options' */
    uint32_t left, right;
    psr_group *group;
    psr_early *early; /* [bucket]: messages that came before its start */
    /* most slices of one rank that are on their way: encoded slices that go together pass the
     * window */
    uint32_t ahead;
    bucket *buckets;
    size_t *held; /* memory for all buckets */
};

static const psr_plan_bucket *planned(const bucket *b)
{
    return &b->ring->plan->buckets[b->index];
}

/* ---- called by the group ---- */

/* The group counts the hops of both phases on. */
static psr_head head_of(void *owner, const psr_action *transfer, size_t done, size_t count)
{
    const bucket *b = owner;
    const uint32_t round = b->ring->plan->ranks - 1;
    const size_t chunk = transfer->a.offset;
    return psr_msg_ring_head(
        &(psr_msg_ring){.bucket = b->index,
                        .step = b->step,
                        .span = {b->span.offset + chunk + done, count},
                        .phase = transfer->hops < round ? PSR_RING_REDUCE : PSR_RING_GATHER,
                        .chunk = psr_fold_chunk_of(b->span.count, round + 1, chunk),
                        .hop = transfer->hops % round});
}

static psr_err not_finite(void *owner)
{
    const bucket *b = owner;
    return b->ring->options.not_finite(b->ring->options.context, b->step, b->index);
}

/* Tells the owner of buckets that are reduced. A bucket may be started again before its owner is
 * told. */
static psr_err see_ends(psr_ring *ring)
{
    for (bucket *b; (b = psr_group_take_ended(ring->group)) != NULL;) {
        uint64_t step = b->step++;
        b->active = false;
        PSR_TRY(ring->options.reduced(ring->options.context, step, b->index));
    }
    return PSR_OK;
}

/* ---- messages ---- */

/* A decoded message of the left neighbour. */
typedef struct arrival {
    psr_msg_ring says;
    size_t begin;      /* within the chunk */
    uint32_t transfer; /* the number in the bucket's request */
} arrival;

/* Checks its fields by themselves. */
static psr_err check_fields(const bucket *b, const psr_message *message, arrival *ret_arrival)
{
    const psr_ring *ring = b->ring;
    uint32_t n = ring->plan->ranks, number = 0;
    psr_msg_ring says;
    PSR_TRY(psr_msg_ring_read(message, &says));
    /* chunk c begins at rank c + start */
    uint64_t start = says.phase == PSR_RING_REDUCE ? 1 : 0;
    if (says.chunk >= n || says.hop >= n - 1 || (says.chunk + start + says.hop) % n != ring->left)
        return psr_violation(message, "chunk %" PRIu32 " does not come from there at hop %" PRIu32,
                             says.chunk, says.hop);
    PSR_TRY(psr_plan_find(ring->plan, message, (psr_slice){says.bucket, says.chunk, says.span},
                          &number));
    const size_t chunk = psr_plan_chunk(ring->plan, b->index, says.chunk).offset;
    const uint32_t hops = says.hop + (says.phase == PSR_RING_GATHER ? n - 1 : 0);
    *ret_arrival = (arrival){says, says.span.offset - chunk,
                             psr_request_transfer(b->request, hops, chunk - b->span.offset)};
    return PSR_OK;
}

/* Checks it against what has come before. */
static psr_err check_turn(const bucket *b, const psr_message *message, const arrival *a)
{
    const psr_ring *ring = b->ring;
    if (b->step_known && a->says.step != b->step)
        return psr_violation(message, "the bucket is at wire step %" PRIu64 " here", b->step);
    size_t before = b->active ? psr_request_arrived(b->request, a->transfer)
                              : b->held[a->says.phase][a->says.chunk];
    if (a->begin != before)
        return psr_violation(message,
                             "%zu floats of chunk %" PRIu32 " came before, this begins at %zu",
                             before, a->says.chunk, a->begin);
    if (!b->active && a->says.phase == PSR_RING_REDUCE && psr_early_full(ring->early))
        return psr_violation(
            message, "more than %" PRIu32 " slices for each of %" PRIu32 " ranks are on their way",
            ring->ahead, ring->plan->ranks - 1);
    if (a->says.phase == PSR_RING_GATHER &&
        (!b->active || !psr_request_is_due(b->request, a->transfer)))
        return psr_violation(message, "it claims a sum to which this worker has not contributed");
    return PSR_OK;
}

static psr_err apply(bucket *b, const arrival *a, const psr_message *message)
{
    PSR_TRY(psr_request_take(b->request, a->transfer, message));
    psr_request_see_end(b->request);
    return see_ends(b->ring);
}

static psr_err take(bucket *b, psr_message **message)
{
    arrival a = {0};
    PSR_TRY(check_fields(b, *message, &a));
    PSR_TRY(check_turn(b, *message, &a));
    if (b->active)
        return apply(b, &a, *message);
    b->held[a.says.phase][a.says.chunk] += a.says.span.count;
    b->step = a.says.step;
    b->step_known = true;
    psr_early_put(b->ring->early, b->index, message);
    return PSR_OK;
}

static psr_err bucket_message(psr_operation *operation, psr_message **message)
{
    psr_err err = take((bucket *)operation, message);
    psr_message_free(message); /* NULL if it is kept */
    return err;
}

static psr_err find_bucket(const psr_ring *ring, const psr_message *message, uint32_t *ret_bucket)
{
    uint32_t n = ring->plan->ranks;
    if (message->head.type != PSR_MSG_RING || message->from.role != PSR_ROLE_WORKER ||
        message->from.rank != ring->left || n == 1)
        return psr_violation(
            message, "in a ring of %" PRIu32 " worker %" PRIu32 " hears worker %" PRIu32 " alone",
            n, ring->options.rank, ring->left);
    psr_msg_ring says;
    PSR_TRY(psr_msg_ring_read(message, &says));
    if (says.bucket >= ring->plan->bucket_count)
        return psr_violation(message, "there are %" PRIu32 " buckets", ring->plan->bucket_count);
    if (ring->plan->buckets[says.bucket].route != PSR_ROUTE_RING)
        return psr_violation(message, "the bucket is no ring's");
    *ret_bucket = says.bucket;
    return PSR_OK;
}

psr_err psr_ring_message(psr_ring *ring, psr_message **message)
{
    uint32_t b = 0;
    psr_err err = find_bucket(ring, *message, &b);
    if (err == PSR_OK)
        return psr_operation_message(&ring->buckets[b].base, message);
    psr_message_free(message);
    return err;
}

/* ---- the operation of a bucket ---- */

static psr_err take_early(bucket *b)
{
    psr_err err = PSR_OK;
    for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++)
        for (uint32_t c = 0; c < b->ring->plan->ranks; c++)
            b->held[phase][c] = 0;
    for (psr_message *message;
         err == PSR_OK && (message = psr_early_take(b->ring->early, b->index)) != NULL;) {
        arrival a = {0};
        err = check_fields(b, message, &a); /* it was checked before; this finds its place again */
        if (err == PSR_OK)
            err = apply(b, &a, message);
        psr_message_free(&message);
    }
    return err;
}

static psr_err bucket_start(psr_operation *operation, uint64_t step, const psr_buffer *buffer)
{
    bucket *b = (bucket *)operation;
    psr_ring *ring = b->ring;
    assert(!b->active && buffer->count == b->span.count);
    if (b->step_known && b->step != step)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "worker %" PRIu32 " is at step %" PRIu64 " of bucket %" PRIu32
                        ", this one at %" PRIu64,
                        ring->left, b->step + 1, b->index, step + 1);
    float *values = psr_buffer_data(buffer, PSR_TYPE_FLOAT32);
    psr_request_move(b->request, values, values);
    b->step = step;
    b->step_known = true;
    b->active = true;
    PSR_TRY(psr_request_start(b->request));
    PSR_TRY(see_ends(ring));
    return b->active ? take_early(b) : PSR_OK;
}

static bool bucket_done(const psr_operation *operation)
{
    return !((const bucket *)operation)->active;
}

static bool bucket_waits(const psr_operation *operation, psr_waiting *ret_waiting)
{
    const bucket *b = (const bucket *)operation;
    if (!b->active)
        return false;
    *ret_waiting = (psr_waiting){{PSR_ROLE_WORKER, b->ring->left}, b->step};
    return true;
}

static uint32_t bucket_lent(const psr_operation *operation)
{
    const bucket *b = (const bucket *)operation;
    return b->request != NULL ? psr_request_lent(b->request) : 0;
}

static const psr_operation_ops bucket_ops = {
    .name = "ring",
    .start = bucket_start,
    .message = bucket_message,
    .done = bucket_done,
    .waits = bucket_waits,
    .lent = bucket_lent,
};

psr_operation *psr_ring_operation(psr_ring *ring, uint32_t index)
{
    assert(index < ring->plan->bucket_count);
    return &ring->buckets[index].base;
}

/* A bucket that is reduced and has slices that the right neighbour has not read. */
static const bucket *first_lent(const psr_ring *ring)
{
    for (uint32_t b = 0; b < ring->plan->bucket_count; b++)
        if (bucket_lent(&ring->buckets[b].base) > 0)
            return &ring->buckets[b];
    return NULL;
}

bool psr_ring_waits(const psr_ring *ring, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    const psr_request *oldest = psr_group_next(ring->group, NULL);
    const bucket *b = oldest != NULL ? psr_request_owner(oldest) : first_lent(ring);
    if (b == NULL)
        return false;
    *ret_bucket = b->index;
    *ret_waiting = oldest != NULL ? (psr_waiting){{PSR_ROLE_WORKER, ring->left}, b->step}
                                  : (psr_waiting){{PSR_ROLE_WORKER, ring->right}, b->step - 1};
    return true;
}

/* ---- beginning and end ---- */

/* The slices of a bucket that are sent together pass the window, by all but one. */
static void allow_ahead(psr_ring *ring, const bucket *b)
{
    const psr_plan *plan = ring->plan;
    const size_t longest = (b->span.count + plan->ranks - 1) / plan->ranks,
                 slice = planned(b)->slice_floats;
    const uint32_t together = (uint32_t)((longest + slice - 1) / slice);
    if (ring->ahead < plan->window - 1 + together)
        ring->ahead = plan->window - 1 + together;
}

/* The next forward pass needs the last bucket first. */
static psr_err begin_bucket(psr_ring *ring, uint32_t index)
{
    const psr_plan *plan = ring->plan;
    bucket *b = &ring->buckets[index];
    *b = (bucket){.base = {.ops = &bucket_ops},
                  .ring = ring,
                  .index = index,
                  .span = plan->buckets[index].span};
    size_t *held = ring->held + (size_t)index * PSR_RING_PHASES * plan->ranks;
    for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++)
        b->held[phase] = held + (size_t)phase * plan->ranks;
    if (planned(b)->route != PSR_ROUTE_RING)
        return PSR_OK;
    const bool owes = psr_compression_has_residual(planned(b)->compression);
    assert(!owes || (ring->options.residual != NULL && ring->options.not_finite != NULL));
    if (owes)
        allow_ahead(ring, b);
    const psr_request_options options = {
        .kind = PSR_KIND_ALL_REDUCE,
        .algorithm = PSR_ALGORITHM_RING,
        .type = PSR_TYPE_FLOAT32,
        .reduction = PSR_REDUCTION_SUM,
        .count = b->span.count,
        .persistent = true,
        .owner = b,
        .priority = -(int32_t)index,
        .compression = &planned(b)->compression,
        .residual = owes ? ring->options.residual + b->span.offset : NULL,
        .not_finite = owes ? not_finite : NULL,
        .slice_values = planned(b)->slice_floats,
        .head = head_of,
    };
    return psr_request_new(ring->group, &options, &b->request);
}

static psr_err begin_group(psr_ring *ring)
{
    const psr_plan *plan = ring->plan;
    psr_peer *members = calloc(plan->ranks, sizeof *members);
    if (members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " workers", plan->ranks);
    for (uint32_t r = 0; r < plan->ranks; r++)
        members[r] = (psr_peer){PSR_ROLE_WORKER, r};
    const psr_group_options options = {.rank = ring->options.rank,
                                       .ranks = plan->ranks,
                                       .members = members,
                                       .hosts = 1,
                                       .slice_bytes = sizeof(double),
                                       .window = plan->window,
                                       .starts_all = true,
                                       .outbox = ring->options.outbox};
    psr_err err = psr_group_new(&options, &ring->group);
    free(members);
    return err;
}

static psr_err begin(psr_ring *ring)
{
    const psr_plan *plan = ring->plan;
    const uint32_t n = plan->ranks, count = plan->bucket_count;
    ring->buckets = calloc((size_t)count + 1, sizeof *ring->buckets);
    ring->held = calloc((size_t)count * PSR_RING_PHASES * n + 1, sizeof *ring->held);
    if (ring->buckets == NULL || ring->held == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " buckets", count);
    PSR_TRY(begin_group(ring));
    for (uint32_t b = 0; b < count; b++)
        PSR_TRY(begin_bucket(ring, b));
    return psr_early_new(count, (size_t)ring->ahead * (n - 1), &ring->early);
}

psr_err psr_ring_new(const psr_ring_options *options, psr_ring **ret_ring)
{
    const uint32_t n = options->plan->ranks;
    assert(options->rank < n);
    psr_ring *ring = malloc(sizeof *ring);
    if (ring == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring");
    *ring = (psr_ring){
        .options = *options,
        .plan = options->plan,
        .left = (options->rank + n - 1) % n,
        .right = (options->rank + 1) % n,
        .ahead = options->plan->window,
    };
    psr_err err = begin(ring);
    if (err != PSR_OK) {
        psr_ring_free(ring);
        return err;
    }
    *ret_ring = ring;
    return PSR_OK;
}

void psr_ring_free(psr_ring *ring)
{
    if (ring == NULL)
        return;
    psr_early_free(ring->early);
    for (uint32_t b = 0; ring->buckets != NULL && b < ring->plan->bucket_count; b++)
        psr_request_free(ring->buckets[b].request);
    psr_group_free(ring->group);
    free(ring->buckets);
    free(ring->held);
    free(ring);
}
