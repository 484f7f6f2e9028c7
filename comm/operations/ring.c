/* Rank r of n; left = r - 1, right = r + 1. Everything modulo n.
 *
 *   reduce-scatter: hop h = 0..n-2 of chunk c goes from rank c+1+h to rank c+2+h, which adds its own values.
 *     So r injects chunk r-1 at hop 0, receives chunk c at hop r-c-2, and ends chunk r at hop n-2.
 *
 *   all-gather: hop h = 0..n-2 of chunk c goes from rank c+h to rank c+h+1.
 *     So r begins chunk r, receives chunk c at hop r-c-1, and passes on all but chunk r+1, which has then
 *     been everywhere.
 *
 * Why in place and without a copy: a slice that r lent to the transport is overwritten here only by its
 * final sum, which cannot come back before the right neighbour has received what was lent.
 *
 * Why in order: every rank sends the slices of a chunk from its beginning on and channels are first-in
 * first-out, so each (bucket, phase, chunk) arrives from the left in ascending order; the next expected
 * offset is all there is to keep, and a duplicate or a gap shows at once.
 *
 * Why at most one step early: the left neighbour completes a bucket only after it has sent us everything
 * of it. */
#include "comm/operations/ring.h"

#include "base/fold.h"
#include "comm/operations/early.h"
#include "comm/wire/encoding.h"
#include "comm/operations/lane.h"
#include "comm/operations/loan.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The all-reduce of one bucket: an operation that is started again for each step. */
typedef struct bucket {
    psr_operation base;
    psr_ring *ring;
    uint32_t index;
    psr_span span;   /* of the arena */
    float *values;   /* of the buffer, where span begins */
    uint64_t step;   /* in work when active, else the next one */
    bool step_known; /* by its start or by a message that came before it */
    bool active;
    uint64_t turn;                    /* of being started: the smallest is the oldest */
    size_t injected;                  /* floats of chunk r-1 on their way */
    uint32_t pending;                 /* slices whose sum is not here yet */
    size_t *arrived[PSR_RING_PHASES]; /* [chunk]: floats received from the left */
    psr_loan loan;
} bucket;

struct psr_ring {
    psr_ring_options options;
    const psr_plan *plan;          /* the options' */
    uint32_t left, right, injects; /* injects: chunk r-1 */
    psr_lane lane;    /* of slices to inject, by bucket_of_place; credit is that their sum has come back */
    uint32_t *room;   /* the lane's */
    psr_early *early; /* [bucket]: messages that came before its start */
    uint64_t turns;
    bucket *buckets;
    size_t *arrived; /* memory of all buckets' */
};

/* One slice: where it lies in its chunk and in the arena. */
typedef struct slice {
    uint32_t chunk;
    size_t begin;  /* within the chunk */
    psr_span span; /* of the arena */
} slice;

/* ---- geometry: the plan's ---- */

static slice slice_numbered(const bucket *b, uint32_t number)
{
    const psr_slice *cut = &b->ring->plan->slices[number];
    size_t begin = cut->span.offset - psr_plan_chunk(b->ring->plan, b->index, cut->chunk).offset;
    return (slice){.chunk = cut->chunk, .begin = begin, .span = cut->span};
}

/* ---- sending ---- */

static float *values_of(const bucket *b, const slice *s)
{
    return b->values + (s->span.offset - b->span.offset);
}

static psr_encoding encoding_of(const bucket *b)
{
    return b->ring->plan->buckets[b->index].compression.encoding;
}

static psr_err send_slice(bucket *b, const slice *s, psr_ring_phase phase, uint32_t hop)
{
    const psr_ring *ring = b->ring;
    psr_head head = psr_msg_ring_head(&(psr_msg_ring){
        .bucket = b->index, .step = b->step, .span = s->span, .phase = phase, .chunk = s->chunk, .hop = hop});
    psr_loan_begin(&b->loan, 1);
    psr_payload payload =
        psr_loan_payload(&b->loan, psr_encode(&head, encoding_of(b), values_of(b, s), s->span.count));
    return ring->options.outbox.send(ring->options.outbox.context, (psr_peer){PSR_ROLE_WORKER, ring->right},
                                     &head, &payload);
}

/* The next forward pass needs the last bucket first: so it has the first place in the lane. Its own inverse. */
static uint32_t bucket_of_place(const psr_ring *ring, uint32_t place)
{
    return ring->plan->bucket_count - 1 - place;
}

static void wait_to_inject(bucket *b)
{
    if (b->injected < psr_plan_chunk(b->ring->plan, b->index, b->ring->injects).count)
        psr_lane_add(&b->ring->lane, bucket_of_place(b->ring, b->index));
}

/* The lane has room for one slice. */
static psr_err bucket_event(psr_operation *operation, psr_event event)
{
    bucket *b = (bucket *)operation;
    assert(event == PSR_EVENT_ROOM);
    (void)event;
    const psr_ring *ring = b->ring;
    slice s = slice_numbered(b, psr_plan_slice_at(ring->plan, b->index, ring->injects, b->injected));
    b->injected += s.span.count;
    wait_to_inject(b);
    return send_slice(b, &s, PSR_RING_REDUCE, 0);
}

static psr_err inject(psr_ring *ring)
{
    for (uint32_t place; psr_lane_next(&ring->lane, &place);)
        PSR_TRY(psr_operation_event(&ring->buckets[bucket_of_place(ring, place)].base, PSR_EVENT_ROOM));
    return PSR_OK;
}

/* ---- receiving ---- */

/* A message from the left neighbour, taken apart: the slice that it speaks of here, and its values. */
typedef struct arrival {
    psr_msg_ring says;
    slice slice;
    const float *values;
} arrival;

/* What it must look like, by its own fields alone. */
static psr_err check_fields(const bucket *b, const psr_message *message, arrival *ret_arrival)
{
    const psr_ring *ring = b->ring;
    uint32_t n = ring->plan->ranks;
    psr_msg_ring says;
    PSR_TRY(psr_msg_ring_read(message, &says));
    uint64_t start = says.phase == PSR_RING_REDUCE ? 1 : 0; /* chunk c sets out from rank c + start */
    if (says.chunk >= n || says.hop >= n - 1 || (says.chunk + start + says.hop) % n != ring->left)
        return psr_violation(message, "chunk %" PRIu32 " does not come from there at hop %" PRIu32,
                             says.chunk, says.hop);
    uint32_t number = 0;
    PSR_TRY(psr_plan_find(ring->plan, message, (psr_slice){says.bucket, says.chunk, says.span}, &number));
    slice s = slice_numbered(b, number);
    const float *values;
    PSR_TRY(psr_decode_floats(message, encoding_of(b), s.span.count, &values));
    *ret_arrival = (arrival){says, s, values};
    return PSR_OK;
}

/* And by what happened before. */
static psr_err check_turn(const bucket *b, const psr_message *message, const arrival *a)
{
    const slice *s = &a->slice;
    const psr_ring *ring = b->ring;
    if (b->step_known && a->says.step != b->step)
        return psr_violation(message, "the bucket is at wire step %" PRIu64 " here", b->step);
    if (s->begin != b->arrived[a->says.phase][s->chunk])
        return psr_violation(message, "%zu floats of chunk %" PRIu32 " came before, this begins at %zu",
                             b->arrived[a->says.phase][s->chunk], s->chunk, s->begin);
    if (a->says.phase == PSR_RING_REDUCE) {
        if (!b->active && psr_early_full(ring->early))
            return psr_violation(
                message, "more than %" PRIu32 " slices for each of %" PRIu32 " ranks are on their way",
                ring->plan->window, ring->plan->ranks - 1);
        return PSR_OK;
    }
    size_t given = s->chunk == ring->injects ? b->injected : b->arrived[PSR_RING_REDUCE][s->chunk];
    if (!b->active || given < s->begin + s->span.count)
        return psr_violation(message, "it claims a sum to which this worker has not contributed");
    return PSR_OK;
}

static psr_err take_reduce(bucket *b, const arrival *a)
{
    const slice *s = &a->slice;
    float *sum = values_of(b, s);
    psr_fold_sum(sum, a->values, sum, s->span.count);
    if (a->says.hop < b->ring->plan->ranks - 2)
        return send_slice(b, s, PSR_RING_REDUCE, a->says.hop + 1);
    b->pending--;
    return send_slice(b, s, PSR_RING_GATHER, 0);
}

static psr_err take_gather(bucket *b, const arrival *a)
{
    const slice *s = &a->slice;
    memcpy(values_of(b, s), a->values, s->span.count * sizeof *a->values);
    b->pending--;
    if (a->says.hop < b->ring->plan->ranks - 2)
        PSR_TRY(send_slice(b, s, PSR_RING_GATHER, a->says.hop + 1));
    if (s->chunk != b->ring->injects)
        return PSR_OK;
    psr_lane_credit(&b->ring->lane, 1);
    return inject(b->ring);
}

/* A bucket may be started again before its owner hears that this step is done. */
static psr_err complete(bucket *b)
{
    psr_ring *ring = b->ring;
    uint64_t step = b->step++;
    b->active = false;
    b->injected = 0;
    for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++)
        memset(b->arrived[phase], 0, ring->plan->ranks * sizeof(size_t));
    return ring->options.reduced(ring->options.context, step, b->index);
}

/* A checked message of an active bucket. */
static psr_err apply(bucket *b, const arrival *a)
{
    PSR_TRY(a->says.phase == PSR_RING_REDUCE ? take_reduce(b, a) : take_gather(b, a));
    return b->pending == 0 ? complete(b) : PSR_OK;
}

static psr_err take(bucket *b, psr_message **message)
{
    arrival a = {0};
    PSR_TRY(check_fields(b, *message, &a));
    PSR_TRY(check_turn(b, *message, &a));
    b->arrived[a.says.phase][a.slice.chunk] += a.slice.span.count;
    if (b->active)
        return apply(b, &a);
    b->step = a.says.step;
    b->step_known = true;
    psr_early_put(b->ring->early, b->index, message);
    return PSR_OK;
}

static psr_err bucket_message(psr_operation *operation, psr_message **message)
{
    psr_err err = take((bucket *)operation, message);
    psr_message_free(message); /* NULL when held */
    return err;
}

static psr_err find_bucket(const psr_ring *ring, const psr_message *message, uint32_t *ret_bucket)
{
    uint32_t n = ring->plan->ranks;
    if (message->head.type != PSR_MSG_RING || message->from.role != PSR_ROLE_WORKER ||
        message->from.rank != ring->left || n == 1)
        return psr_violation(message,
                             "in a ring of %" PRIu32 " worker %" PRIu32 " hears worker %" PRIu32 " alone", n,
                             ring->options.rank, ring->left);
    psr_msg_ring says;
    PSR_TRY(psr_msg_ring_read(message, &says));
    if (says.bucket >= ring->plan->bucket_count)
        return psr_violation(message, "there are %" PRIu32 " buckets", ring->plan->bucket_count);
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
    for (psr_message *message;
         err == PSR_OK && (message = psr_early_take(b->ring->early, b->index)) != NULL;) {
        arrival a = {0};
        err = check_fields(b, message, &a); /* was checked before: this finds its place again */
        if (err == PSR_OK)
            err = apply(b, &a);
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
    b->values = psr_buffer_data(buffer, PSR_TYPE_FLOAT32);
    b->step = step;
    b->step_known = true;
    b->active = true;
    b->turn = ring->turns++;
    b->pending = ring->plan->ranks > 1 ? ring->plan->buckets[b->index].slice_count : 0;
    if (b->pending == 0)
        return complete(b);
    wait_to_inject(b);
    PSR_TRY(inject(ring));
    return take_early(b);
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
    return psr_loan_lent(&((const bucket *)operation)->loan);
}

static const psr_operation_ops bucket_ops = {
    .name = "ring",
    .start = bucket_start,
    .message = bucket_message,
    .event = bucket_event,
    .done = bucket_done,
    .waits = bucket_waits,
    .lent = bucket_lent,
};

psr_operation *psr_ring_operation(psr_ring *ring, uint32_t index)
{
    assert(index < ring->plan->bucket_count);
    return &ring->buckets[index].base;
}

bool psr_ring_waits(const psr_ring *ring, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    const bucket *oldest = NULL;
    for (uint32_t b = 0; b < ring->plan->bucket_count; b++) {
        const bucket *active = &ring->buckets[b];
        if (active->active && (oldest == NULL || active->turn < oldest->turn))
            oldest = active;
    }
    if (oldest == NULL)
        return false;
    *ret_bucket = oldest->index;
    return psr_operation_waits(&oldest->base, ret_waiting);
}

/* ---- beginning and end ---- */

psr_err psr_ring_new(const psr_ring_options *options, psr_ring **ret_ring)
{
    const psr_plan *plan = options->plan;
    assert(options->rank < plan->ranks);
    uint32_t n = plan->ranks, count = plan->bucket_count;
    psr_ring *ring = calloc(1, sizeof *ring);
    bucket *buckets = calloc((size_t)count + 1, sizeof *buckets);
    size_t *arrived = calloc((size_t)count * PSR_RING_PHASES * n + 1, sizeof *arrived);
    uint32_t *room = calloc((size_t)count + 1, sizeof *room); /* a bucket waits in the lane once */
    /* Every other rank has at most a window on its way. */
    psr_early *early = NULL;
    psr_err err = psr_early_new(count, (size_t)plan->window * (n - 1), &early);
    if (ring == NULL || buckets == NULL || arrived == NULL || room == NULL || err != PSR_OK) {
        psr_early_free(early);
        free(ring);
        free(buckets);
        free(arrived);
        free(room);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " buckets", count);
    }
    *ring = (psr_ring){
        .options = *options,
        .plan = plan,
        .left = (options->rank + n - 1) % n,
        .right = (options->rank + 1) % n,
        .injects = (options->rank + n - 1) % n,
        .room = room,
        .early = early,
        .buckets = buckets,
        .arrived = arrived,
    };
    psr_lane_init(&ring->lane, room, plan->window);
    for (uint32_t b = 0; b < count; b++) {
        buckets[b].base.ops = &bucket_ops;
        buckets[b].ring = ring;
        buckets[b].index = b;
        buckets[b].span = plan->buckets[b].span;
        for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++, arrived += n)
            buckets[b].arrived[phase] = arrived;
        psr_loan_init(&buckets[b].loan, &options->outbox);
    }
    *ret_ring = ring;
    return PSR_OK;
}

void psr_ring_free(psr_ring *ring)
{
    if (ring == NULL)
        return;
    psr_early_free(ring->early);
    free(ring->arrived);
    free(ring->buckets);
    free(ring->room);
    free(ring);
}
