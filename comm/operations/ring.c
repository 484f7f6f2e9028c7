/* Rank r of n; left = r - 1, right = r + 1. Everything modulo n.
 *
 *   reduce-scatter: hop h = 0..n-2 of chunk c goes from rank c+1+h to rank c+2+h, which adds its own values.
 *     So r injects chunk r-1 at hop 0, receives chunk c at hop r-c-2, and ends chunk r at hop n-2.
 *
 *   all-gather: hop h = 0..n-2 of chunk c goes from rank c+h to rank c+h+1.
 *     So r begins chunk r, receives chunk c at hop r-c-1, and passes on all but chunk r+1, which has then
 *     been everywhere.
 *
 * Why in place and without a copy: a slice that r lent in the reduce-scatter is overwritten here only by its final sum. The right
 * neighbour's hop is a part of that sum, so the sum cannot come back before the neighbour has read what was lent: also where it reads in
 * this process's own memory (psr_transport_lend_from), since it adds first and sends then. A slice that r lent in the all-gather holds its
 * final value, and nothing here writes it again. But the next backward pass does, and no message says that the right neighbour has copied
 * it: the last one that came of it came from the left. So the bucket's loan is waited for before (lent), and who waits for that alone waits
 * for the right neighbour.
 *
 * Why in order: every rank sends the slices of a chunk from its beginning on and channels are first-in
 * first-out, so each (bucket, phase, chunk) arrives from the left in ascending order; the next expected
 * offset is all there is to keep, and a duplicate or a gap shows at once.
 *
 * Compressed (docs/algorithms.md, "Compression"): what is encoded as one is a unit. With a residual that is a whole chunk, since scale,
 * means or selection are the chunk's; else a slice, as every value is rounded by itself. So a hop begins when its unit is complete, and
 * the slices of a unit go together: of a chunk that stopped at the window no credit would ever come back. A finished chunk is encoded by
 * the rank where it ends, which takes what the others decode, and goes round as the same bytes. Payloads are in memory of their own.
 *
 * Why at most one step early: the left neighbour completes a bucket only after it has sent us everything
 * of it. */
#include "comm/operations/ring.h"

#include "base/arena.h"
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
    psr_span span; /* of the arena */
    float *values; /* of the buffer, where span begins */
    /* NULL: not compressed. One for all buckets of the same compression, the first of which owns it. */
    psr_encoder *encoder;
    float *residual; /* where span begins; NULL: the compression has none */
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
    uint32_t ahead;  /* slices of one rank on their way, at most: what goes together passes the window */
    float *decoded;  /* a slice that came compressed */
};

/* One slice: where it lies in its chunk and in the arena. */
typedef struct slice {
    uint32_t chunk;
    size_t begin;  /* within the chunk */
    psr_span span; /* of the arena */
} slice;

/* ---- geometry: the plan's ---- */

static const psr_plan_bucket *planned(const bucket *b)
{
    return &b->ring->plan->buckets[b->index];
}

static slice slice_numbered(const bucket *b, uint32_t number)
{
    const psr_slice *cut = &b->ring->plan->slices[number];
    size_t begin = cut->span.offset - psr_plan_chunk(b->ring->plan, b->index, cut->chunk).offset;
    return (slice){.chunk = cut->chunk, .begin = begin, .span = cut->span};
}

static slice slice_at(const bucket *b, uint32_t chunk, size_t begin)
{
    return slice_numbered(b, psr_plan_slice_at(b->ring->plan, b->index, chunk, begin));
}

/* The unit that a slice is of. */
static psr_span unit_of(const bucket *b, const slice *s)
{
    return b->residual != NULL ? psr_plan_chunk(b->ring->plan, b->index, s->chunk) : s->span;
}

static uint32_t slices_of(const bucket *b, psr_span unit)
{
    size_t whole = planned(b)->slice_floats;
    return (uint32_t)((unit.count + whole - 1) / whole);
}

/* ---- sending ---- */

static float *at_values(const bucket *b, psr_span span)
{
    return b->values + (span.offset - b->span.offset);
}

/* Where a message is on its way round. */
typedef struct stage {
    psr_ring_phase phase;
    uint32_t hop;
} stage;

static psr_head head_of(const bucket *b, const slice *s, stage at)
{
    return psr_msg_ring_head(&(psr_msg_ring){.bucket = b->index,
                                             .step = b->step,
                                             .span = s->span,
                                             .phase = at.phase,
                                             .chunk = s->chunk,
                                             .hop = at.hop});
}

static psr_err send_right(const psr_ring *ring, const psr_head *head, const psr_payload *payload)
{
    return ring->options.outbox.send(ring->options.outbox.context, (psr_peer){PSR_ROLE_WORKER, ring->right},
                                     head, payload);
}

/* From where it lies. */
static psr_err send_slice(bucket *b, const slice *s, stage at)
{
    psr_head head = head_of(b, s, at);
    psr_loan_begin(&b->loan, 1);
    psr_payload payload = psr_loan_payload(
        &b->loan, psr_encode(&head, PSR_ENCODING_FLOAT32, at_values(b, s->span), s->span.count));
    return send_right(b->ring, &head, &payload);
}

static psr_err prepare(const bucket *b, psr_span unit)
{
    const psr_ring *ring = b->ring;
    float *residual = b->residual != NULL ? b->residual + (unit.offset - b->span.offset) : NULL;
    psr_err err = psr_encoder_prepare(b->encoder, at_values(b, unit), residual, unit.count);
    return err == PSR_ERR_NUMERIC ? ring->options.not_finite(ring->options.context, b->step, b->index) : err;
}

/* A slice of the prepared unit. What begins its way round is final: this rank takes it too. */
static psr_err send_encoded(bucket *b, const slice *s, psr_span within, stage at)
{
    psr_head head = head_of(b, s, at);
    psr_payload payload;
    void *memory;
    PSR_TRY(psr_loan_memory(&b->loan, psr_encoder_bytes(b->encoder, within), &payload, &memory));
    psr_encode_slice(b->encoder, &head, within, memory);
    if (at.phase == PSR_RING_GATHER)
        psr_decode_own(planned(b)->compression, &payload, within.count, at_values(b, s->span));
    if (b->ring->plan->ranks > 1)
        return send_right(b->ring, &head, &payload);
    payload.release(payload.context);
    return PSR_OK;
}

/* This rank's part of a unit, which begins with s, is complete. */
static psr_err send_unit(bucket *b, slice s, stage at)
{
    if (b->encoder == NULL)
        return send_slice(b, &s, at);
    const psr_span unit = unit_of(b, &s);
    PSR_TRY(prepare(b, unit));
    for (size_t done = 0; done < unit.count; done += s.span.count) {
        if (done > 0)
            s = slice_at(b, s.chunk, s.begin + s.span.count);
        PSR_TRY(send_encoded(b, &s, (psr_span){done, s.span.count}, at));
    }
    return PSR_OK;
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

/* The lane has room for one slice, with which the rest of its unit goes. */
static psr_err bucket_event(psr_operation *operation, psr_event event)
{
    bucket *b = (bucket *)operation;
    assert(event == PSR_EVENT_ROOM);
    (void)event;
    slice s = slice_at(b, b->ring->injects, b->injected);
    const psr_span unit = unit_of(b, &s);
    b->injected += unit.count;
    psr_lane_together(&b->ring->lane, slices_of(b, unit));
    wait_to_inject(b);
    return send_unit(b, s, (stage){PSR_RING_REDUCE, 0});
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
    const psr_message *message; /* borrowed: what is compressed goes on as it came */
} arrival;

static psr_err decode(const bucket *b, const psr_message *message, size_t count, const float **ret_values)
{
    const psr_ring *ring = b->ring;
    if (b->encoder == NULL)
        return psr_decode_floats(message, PSR_ENCODING_FLOAT32, count, ret_values);
    PSR_TRY(psr_decode_slice(message, planned(b)->compression, count, ring->decoded));
    *ret_values = ring->decoded;
    return PSR_OK;
}

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
    PSR_TRY(decode(b, message, s.span.count, &values));
    *ret_arrival = (arrival){says, s, values, message};
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
                ring->ahead, ring->plan->ranks - 1);
        return PSR_OK;
    }
    size_t given = s->chunk == ring->injects ? b->injected : b->arrived[PSR_RING_REDUCE][s->chunk];
    const psr_span unit = unit_of(b, s);
    if (!b->active || given < s->begin + (psr_span_end(unit) - s->span.offset))
        return psr_violation(message, "it claims a sum to which this worker has not contributed");
    return PSR_OK;
}

static psr_err take_reduce(bucket *b, const arrival *a)
{
    const slice *s = &a->slice;
    const psr_span unit = unit_of(b, s);
    float *sum = at_values(b, s->span);
    psr_fold_sum(sum, a->values, sum, s->span.count);
    if (psr_span_end(s->span) < psr_span_end(unit))
        return PSR_OK;
    slice first = slice_at(b, s->chunk, s->begin + s->span.count - unit.count);
    if (a->says.hop < b->ring->plan->ranks - 2)
        return send_unit(b, first, (stage){PSR_RING_REDUCE, a->says.hop + 1});
    b->pending -= slices_of(b, unit);
    return send_unit(b, first, (stage){PSR_RING_GATHER, 0});
}

/* What is compressed as the bytes that came: all decode the same. */
static psr_err pass_on(bucket *b, const arrival *a)
{
    const stage at = {PSR_RING_GATHER, a->says.hop + 1};
    if (b->encoder == NULL)
        return send_slice(b, &a->slice, at);
    psr_head head = head_of(b, &a->slice, at);
    psr_payload payload;
    void *memory;
    PSR_TRY(psr_loan_memory(&b->loan, a->message->payload_bytes, &payload, &memory));
    psr_encode_again(a->message, &head, memory);
    return send_right(b->ring, &head, &payload);
}

static psr_err take_gather(bucket *b, const arrival *a)
{
    const slice *s = &a->slice;
    memcpy(at_values(b, s->span), a->values, s->span.count * sizeof *a->values);
    b->pending--;
    if (a->says.hop < b->ring->plan->ranks - 2)
        PSR_TRY(pass_on(b, a));
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

/* A ring of one: the sum is its own values, and is rounded as any other. */
static psr_err round_alone(bucket *b)
{
    for (size_t at = 0; b->encoder != NULL && at < b->span.count;) {
        slice s = slice_at(b, 0, at);
        PSR_TRY(send_unit(b, s, (stage){PSR_RING_GATHER, 0}));
        at += unit_of(b, &s).count;
    }
    return complete(b);
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
    if (ring->plan->ranks == 1)
        return round_alone(b);
    b->pending = planned(b)->slice_count;
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

static const bucket *oldest_active(const psr_ring *ring)
{
    const bucket *oldest = NULL;
    for (uint32_t b = 0; b < ring->plan->bucket_count; b++) {
        const bucket *active = &ring->buckets[b];
        if (active->active && (oldest == NULL || active->turn < oldest->turn))
            oldest = active;
    }
    return oldest;
}

/* Of those that are reduced, one whose slices the right neighbour has not read. */
static const bucket *first_lent(const psr_ring *ring)
{
    for (uint32_t b = 0; b < ring->plan->bucket_count; b++)
        if (psr_loan_lent(&ring->buckets[b].loan) > 0)
            return &ring->buckets[b];
    return NULL;
}

bool psr_ring_waits(const psr_ring *ring, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    const bucket *oldest = oldest_active(ring), *lent = oldest == NULL ? first_lent(ring) : NULL;
    if (lent != NULL) {
        *ret_bucket = lent->index;
        *ret_waiting = (psr_waiting){{PSR_ROLE_WORKER, ring->right}, lent->step - 1};
        return true;
    }
    if (oldest == NULL)
        return false;
    *ret_bucket = oldest->index;
    return psr_operation_waits(&oldest->base, ret_waiting);
}

/* ---- beginning and end ---- */

static void begin_bucket(psr_ring *ring, uint32_t index)
{
    bucket *b = &ring->buckets[index];
    b->base.ops = &bucket_ops;
    b->ring = ring;
    b->index = index;
    b->span = ring->plan->buckets[index].span;
    size_t *arrived = ring->arrived + (size_t)index * PSR_RING_PHASES * ring->plan->ranks;
    for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++)
        b->arrived[phase] = arrived + (size_t)phase * ring->plan->ranks;
    psr_loan_init(&b->loan, &ring->options.outbox);
}

/* Of the bucket, or the first that is compressed as it is. */
static uint32_t first_alike(const psr_plan *plan, uint32_t index)
{
    uint32_t first = 0;
    while (!psr_compression_equal(plan->buckets[first].compression, plan->buckets[index].compression))
        first++;
    return first;
}

static size_t longest_chunk(const psr_plan *plan)
{
    size_t longest = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        size_t length = plan->buckets[b].span.count, chunk = (length + plan->ranks - 1) / plan->ranks;
        longest = chunk > longest ? chunk : longest;
    }
    return longest;
}

static psr_err begin_compressed(psr_ring *ring, bucket *b)
{
    const psr_plan *plan = ring->plan;
    const psr_compression compression = planned(b)->compression;
    const uint32_t first = first_alike(plan, b->index);
    if (ring->decoded == NULL)
        PSR_TRY(psr_arena_new(plan->slice_floats, &ring->decoded));
    if (first == b->index)
        PSR_TRY(psr_encoder_new(compression, longest_chunk(plan), &b->encoder));
    else
        b->encoder = ring->buckets[first].encoder;
    if (!psr_compression_has_residual(compression))
        return PSR_OK;
    assert(ring->options.residual != NULL && ring->options.not_finite != NULL);
    b->residual = ring->options.residual + b->span.offset;
    const uint32_t together = slices_of(b, (psr_span){0, (b->span.count + plan->ranks - 1) / plan->ranks});
    if (ring->ahead < plan->window - 1 + together)
        ring->ahead = plan->window - 1 + together;
    return PSR_OK;
}

static psr_err begin(psr_ring *ring)
{
    const psr_plan *plan = ring->plan;
    const uint32_t n = plan->ranks, count = plan->bucket_count;
    ring->buckets = calloc((size_t)count + 1, sizeof *ring->buckets);
    ring->arrived = calloc((size_t)count * PSR_RING_PHASES * n + 1, sizeof *ring->arrived);
    ring->room = calloc((size_t)count + 1, sizeof *ring->room); /* a bucket waits in the lane once */
    if (ring->buckets == NULL || ring->arrived == NULL || ring->room == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " buckets", count);
    psr_lane_init(&ring->lane, ring->room, plan->window);
    for (uint32_t b = 0; b < count; b++) {
        begin_bucket(ring, b);
        if (!psr_compression_is_none(plan->buckets[b].compression))
            PSR_TRY(begin_compressed(ring, &ring->buckets[b]));
    }
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
        .injects = (options->rank + n - 1) % n,
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

static void free_encoders(psr_ring *ring)
{
    for (uint32_t b = 0; b < ring->plan->bucket_count; b++)
        if (first_alike(ring->plan, b) == b)
            psr_encoder_free(&ring->buckets[b].encoder);
}

void psr_ring_free(psr_ring *ring)
{
    if (ring == NULL)
        return;
    psr_early_free(ring->early);
    if (ring->buckets != NULL)
        free_encoders(ring);
    psr_arena_free(ring->decoded, ring->plan->slice_floats);
    free(ring->arrived);
    free(ring->buckets);
    free(ring->room);
    free(ring);
}
