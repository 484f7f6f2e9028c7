/* Each bucket is a persistent all-reduce by ring (comm/collectives/algorithms/ring.c), in place in
 * the arena, in one group of all workers: messages, hops, sums, the lane and compression are the
 * group's. This file adds what only training knows: which bucket, at which step, and whom a worker
 * waits for.
 *
 * A bucket is at most one step early, because the left neighbour completes it only after it has
 * sent us everything of it. */
#include "comm/operations/ring.h"

#include "comm/collectives/group.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* The all-reduce of one bucket: an operation that is started again for each step. */
typedef struct bucket {
    psr_ring *ring;
    uint32_t index;
    psr_span span;        /* in the arena */
    psr_request *request; /* NULL: the bucket goes another way */
    uint64_t step;        /* the step under way if active, else the next one */
    bool step_known;      /* known by its start, or by a message that came before */
    bool active;          /* from its start until its owner is told that it is reduced */
} bucket;

struct psr_ring {
    psr_ring_options options;
    const psr_plan *plan; /* the options' */
    uint32_t left, right;
    psr_group *group;
    bucket *buckets;
};

static const psr_plan_bucket *planned(const bucket *b)
{
    return &b->ring->plan->buckets[b->index];
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

static psr_err find_bucket(const psr_ring *ring, const psr_message *message, uint32_t *ret_bucket)
{
    const uint32_t n = ring->plan->ranks, b = psr_msg_bucket(&message->head);
    if (message->from.role != PSR_ROLE_WORKER || message->from.rank != ring->left || n == 1)
        return psr_violation(
            message, "in a ring of %" PRIu32 " worker %" PRIu32 " hears worker %" PRIu32 " alone",
            n, ring->options.rank, ring->left);
    if (b >= ring->plan->bucket_count)
        return psr_violation(message, "there are %" PRIu32 " buckets", ring->plan->bucket_count);
    if (ring->plan->buckets[b].route != PSR_ROUTE_RING)
        return psr_violation(message, "the bucket is no ring's");
    *ret_bucket = b;
    return PSR_OK;
}

static psr_err take(psr_ring *ring, psr_message **message)
{
    uint32_t index = 0;
    PSR_TRY(find_bucket(ring, *message, &index));
    bucket *b = &ring->buckets[index];
    const uint64_t step = psr_msg_step(&(*message)->head);
    if (b->step_known && step != b->step)
        return psr_violation(*message, "the bucket is at wire step %" PRIu64 " here", b->step);
    b->step = step;
    b->step_known = true;
    PSR_TRY(psr_group_message(ring->group, message));
    return see_ends(ring);
}

psr_err psr_ring_message(psr_ring *ring, psr_message **message)
{
    psr_err err = take(ring, message);
    psr_message_free(message); /* NULL if it is kept */
    return err;
}

/* ---- a bucket ---- */

psr_err psr_ring_start(psr_ring *ring, uint32_t index, uint64_t step, const psr_buffer *buffer)
{
    bucket *b = &ring->buckets[index];
    assert(!b->active && buffer->count == b->span.count);
    if (b->step_known && b->step != step)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "worker %" PRIu32 " is at step %" PRIu64 " of bucket %" PRIu32
                        ", this one at %" PRIu64,
                        ring->left, b->step + 1, b->index, step + 1);
    float *values = psr_buffer_data(buffer, PSR_TYPE_FLOAT32);
    b->step = step;
    b->step_known = true;
    b->active = true;
    PSR_TRY(psr_request_start_round(b->request, step, values, values));
    return see_ends(ring);
}

uint32_t psr_ring_lent(const psr_ring *ring, uint32_t index)
{
    const psr_request *request = ring->buckets[index].request;
    return request != NULL ? psr_request_lent(request) : 0;
}

/* A bucket that is reduced and has slices that the right neighbour has not read. */
static const bucket *first_lent(const psr_ring *ring)
{
    for (uint32_t b = 0; b < ring->plan->bucket_count; b++)
        if (psr_ring_lent(ring, b) > 0)
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

/* The next forward pass needs the last bucket first. */
static psr_err begin_bucket(psr_ring *ring, uint32_t index)
{
    const psr_plan *plan = ring->plan;
    bucket *b = &ring->buckets[index];
    *b = (bucket){.ring = ring, .index = index, .span = plan->buckets[index].span};
    if (planned(b)->route != PSR_ROUTE_RING)
        return PSR_OK;
    const bool owes = psr_compression_has_residual(planned(b)->compression);
    assert(!owes || (ring->options.residual != NULL && ring->options.not_finite != NULL));
    const psr_request_options options = {
        .kind = PSR_KIND_ALL_REDUCE,
        .algorithm = PSR_ALGORITHM_RING,
        .type = PSR_TYPE_FLOAT32,
        .reduction = PSR_REDUCTION_SUM,
        .count = b->span.count,
        .persistent = true,
        .slot = index + 1,
        .owner = b,
        .priority = -(int32_t)index,
        .compression = &planned(b)->compression,
        .residual = owes ? ring->options.residual + b->span.offset : NULL,
        .not_finite = owes ? not_finite : NULL,
        .slice_values = planned(b)->slice_floats,
    };
    return psr_request_new(ring->group, &options, &b->request);
}

static psr_err begin_group(psr_ring *ring)
{
    const psr_plan *plan = ring->plan;
    psr_peer *members = calloc(plan->ranks, sizeof *members);
    if (members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " workers", plan->ranks);
    for (uint32_t place = 0; place < plan->ranks; place++)
        members[place] = (psr_peer){PSR_ROLE_WORKER, psr_plan_place(plan, place)};
    const psr_group_options options = {.id = PSR_GROUP_OF_BUCKETS,
                                       .rank = psr_plan_place(plan, ring->options.rank),
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
    const uint32_t count = plan->bucket_count;
    ring->buckets = calloc((size_t)count + 1, sizeof *ring->buckets);
    if (ring->buckets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " buckets", count);
    PSR_TRY(begin_group(ring));
    for (uint32_t b = 0; b < count; b++)
        PSR_TRY(begin_bucket(ring, b));
    return PSR_OK;
}

psr_err psr_ring_new(const psr_ring_options *options, psr_ring **ret_ring)
{
    const psr_plan *plan = options->plan;
    const uint32_t n = plan->ranks, place = psr_plan_place(plan, options->rank);
    assert(options->rank < n);
    psr_ring *ring = malloc(sizeof *ring);
    if (ring == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring");
    *ring = (psr_ring){
        .options = *options,
        .plan = plan,
        .left = psr_plan_place(plan, (place + n - 1) % n),
        .right = psr_plan_place(plan, (place + 1) % n),
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
    for (uint32_t b = 0; ring->buckets != NULL && b < ring->plan->bucket_count; b++)
        psr_request_free(ring->buckets[b].request);
    psr_group_free(ring->group);
    free(ring->buckets);
    free(ring);
}
