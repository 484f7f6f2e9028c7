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
#include "comm/ring.h"

#include "base/fold.h"
#include "comm/early.h"
#include "comm/encoding.h"
#include "comm/loan.h"
#include "comm/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct bucket_state {
    uint64_t step;   /* in work when active, else the next one */
    bool step_known; /* by psr_ring_ready or by a message that came before it */
    bool active;
    uint64_t turn;                    /* of becoming ready: the smallest is the oldest */
    size_t injected;                  /* floats of chunk r-1 on their way */
    uint32_t slices;                  /* of all chunks together */
    uint32_t pending;                 /* slices whose sum is not here yet */
    size_t *arrived[PSR_RING_PHASES]; /* [chunk]: floats received from the left */
    psr_loan loan;
} bucket_state;

struct psr_ring {
    psr_ring_options options;
    uint32_t left, right, injects; /* injects: chunk r-1 */
    uint32_t in_flight;            /* slices injected whose sum has not come back */
    psr_early *early;              /* [bucket]: messages that came before ready */
    uint32_t active_count;
    uint64_t turns;
    bucket_state *buckets;
    size_t *arrived; /* memory of all buckets' */
};

/* One slice: where it lies in its chunk and in the arena. */
typedef struct slice {
    uint32_t bucket, chunk;
    size_t begin;  /* within the chunk */
    psr_span span; /* of the arena */
} slice;

/* ---- geometry ---- */

static size_t chunk_begin(const psr_ring *ring, uint32_t bucket, uint32_t chunk)
{
    return psr_fold_chunk_begin(ring->options.buckets[bucket].count, ring->options.ranks, chunk);
}

static size_t chunk_length(const psr_ring *ring, uint32_t bucket, uint32_t chunk)
{
    return chunk_begin(ring, bucket, chunk + 1) - chunk_begin(ring, bucket, chunk);
}

/* The slice that begins there: begin < the chunk's length. */
static slice slice_at(const psr_ring *ring, uint32_t bucket, uint32_t chunk, size_t begin)
{
    size_t left = chunk_length(ring, bucket, chunk) - begin;
    size_t offset = ring->options.buckets[bucket].offset + chunk_begin(ring, bucket, chunk) + begin;
    size_t count = left < ring->options.slice_floats ? left : ring->options.slice_floats;
    return (slice){.bucket = bucket, .chunk = chunk, .begin = begin, .span = {offset, count}};
}

static uint32_t count_slices(const psr_ring *ring, uint32_t bucket)
{
    size_t count = 0;
    for (uint32_t c = 0; c < ring->options.ranks; c++)
        count +=
            (chunk_length(ring, bucket, c) + ring->options.slice_floats - 1) / ring->options.slice_floats;
    return (uint32_t)count;
}

/* ---- sending ---- */

static float *values_of(const psr_ring *ring, const slice *s)
{
    return ring->options.arena + s->span.offset;
}

static psr_err send_slice(psr_ring *ring, const slice *s, psr_ring_phase phase, uint32_t hop)
{
    bucket_state *state = &ring->buckets[s->bucket];
    psr_head head = psr_msg_ring_head(&(psr_msg_ring){.bucket = s->bucket,
                                                      .step = state->step,
                                                      .span = s->span,
                                                      .phase = phase,
                                                      .chunk = s->chunk,
                                                      .hop = hop});
    psr_loan_begin(&state->loan, 1);
    psr_payload payload =
        psr_loan_payload(&state->loan, psr_encode(PSR_ENCODING_FLOAT32, values_of(ring, s), s->span.count));
    return ring->options.outbox.send(ring->options.outbox.context, (psr_peer){PSR_ROLE_WORKER, ring->right},
                                     &head, &payload);
}

/* The ready bucket that the next forward pass needs first and that has something to inject; bucket_count:
 * none. */
static uint32_t next_to_inject(const psr_ring *ring)
{
    for (uint32_t b = ring->options.bucket_count; b-- > 0;)
        if (ring->buckets[b].active && ring->buckets[b].injected < chunk_length(ring, b, ring->injects))
            return b;
    return ring->options.bucket_count;
}

static psr_err inject(psr_ring *ring)
{
    while (ring->in_flight < ring->options.window) {
        uint32_t b = next_to_inject(ring);
        if (b == ring->options.bucket_count)
            break;
        slice s = slice_at(ring, b, ring->injects, ring->buckets[b].injected);
        ring->buckets[b].injected += s.span.count;
        ring->in_flight++;
        PSR_TRY(send_slice(ring, &s, PSR_RING_REDUCE, 0));
    }
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
static psr_err check_fields(const psr_ring *ring, const psr_message *message, arrival *ret_arrival)
{
    uint32_t n = ring->options.ranks, r = ring->options.rank;
    if (message->head.type != PSR_MSG_RING || message->from.role != PSR_ROLE_WORKER ||
        message->from.rank != ring->left || n == 1)
        return psr_violation(message,
                             "in a ring of %" PRIu32 " worker %" PRIu32 " hears worker %" PRIu32 " alone", n,
                             r, ring->left);
    psr_msg_ring says;
    PSR_TRY(psr_msg_ring_read(message, &says));
    if (says.bucket >= ring->options.bucket_count)
        return psr_violation(message, "there are %" PRIu32 " buckets", ring->options.bucket_count);
    uint64_t start = says.phase == PSR_RING_REDUCE ? 1 : 0; /* chunk c sets out from rank c + start */
    if (says.chunk >= n || says.hop >= n - 1 || (says.chunk + start + says.hop) % n != ring->left)
        return psr_violation(message, "chunk %" PRIu32 " does not come from there at hop %" PRIu32,
                             says.chunk, says.hop);
    size_t first = ring->options.buckets[says.bucket].offset + chunk_begin(ring, says.bucket, says.chunk);
    if (says.span.offset < first || says.span.offset - first >= chunk_length(ring, says.bucket, says.chunk) ||
        (says.span.offset - first) % ring->options.slice_floats != 0)
        return psr_violation(message, "no slice of chunk %" PRIu32 " begins there", says.chunk);
    slice s = slice_at(ring, says.bucket, says.chunk, says.span.offset - first);
    if (says.span.count != s.span.count)
        return psr_violation(message, "that slice has %zu floats", s.span.count);
    const float *values;
    PSR_TRY(psr_decode_floats(message, s.span.count, &values));
    *ret_arrival = (arrival){says, s, values};
    return PSR_OK;
}

/* And by what happened before. */
static psr_err check_turn(const psr_ring *ring, const psr_message *message, const arrival *a)
{
    const slice *s = &a->slice;
    const bucket_state *state = &ring->buckets[s->bucket];
    if (state->step_known && a->says.step != state->step)
        return psr_violation(message, "the bucket is at wire step %" PRIu64 " here", state->step);
    if (s->begin != state->arrived[a->says.phase][s->chunk])
        return psr_violation(message, "%zu floats of chunk %" PRIu32 " came before, this begins at %zu",
                             state->arrived[a->says.phase][s->chunk], s->chunk, s->begin);
    if (a->says.phase == PSR_RING_REDUCE) {
        if (!state->active && psr_early_full(ring->early))
            return psr_violation(
                message, "more than %" PRIu32 " slices for each of %" PRIu32 " ranks are on their way",
                ring->options.window, ring->options.ranks - 1);
        return PSR_OK;
    }
    size_t given = s->chunk == ring->injects ? state->injected : state->arrived[PSR_RING_REDUCE][s->chunk];
    if (!state->active || given < s->begin + s->span.count)
        return psr_violation(message, "it claims a sum to which this worker has not contributed");
    return PSR_OK;
}

static psr_err take_reduce(psr_ring *ring, const arrival *a)
{
    const slice *s = &a->slice;
    float *sum = values_of(ring, s);
    psr_fold_sum(sum, a->values, sum, s->span.count);
    if (a->says.hop < ring->options.ranks - 2)
        return send_slice(ring, s, PSR_RING_REDUCE, a->says.hop + 1);
    ring->buckets[s->bucket].pending--;
    return send_slice(ring, s, PSR_RING_GATHER, 0);
}

static psr_err take_gather(psr_ring *ring, const arrival *a)
{
    const slice *s = &a->slice;
    memcpy(values_of(ring, s), a->values, s->span.count * sizeof *a->values);
    ring->buckets[s->bucket].pending--;
    if (a->says.hop < ring->options.ranks - 2)
        PSR_TRY(send_slice(ring, s, PSR_RING_GATHER, a->says.hop + 1));
    if (s->chunk != ring->injects)
        return PSR_OK;
    ring->in_flight--;
    return inject(ring);
}

/* A bucket is ready for its next step before its owner hears that this one is done. */
static psr_err complete(psr_ring *ring, uint32_t bucket)
{
    bucket_state *state = &ring->buckets[bucket];
    uint64_t step = state->step++;
    state->active = false;
    state->injected = 0;
    for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++)
        memset(state->arrived[phase], 0, ring->options.ranks * sizeof(size_t));
    ring->active_count--;
    return ring->options.reduced(ring->options.context, step, bucket);
}

/* A checked message of an active bucket. */
static psr_err apply(psr_ring *ring, const arrival *a)
{
    PSR_TRY(a->says.phase == PSR_RING_REDUCE ? take_reduce(ring, a) : take_gather(ring, a));
    return ring->buckets[a->slice.bucket].pending == 0 ? complete(ring, a->slice.bucket) : PSR_OK;
}

static psr_err take(psr_ring *ring, psr_message **message)
{
    arrival a = {0};
    PSR_TRY(check_fields(ring, *message, &a));
    PSR_TRY(check_turn(ring, *message, &a));
    bucket_state *state = &ring->buckets[a.slice.bucket];
    state->arrived[a.says.phase][a.slice.chunk] += a.slice.span.count;
    if (state->active)
        return apply(ring, &a);
    state->step = a.says.step;
    state->step_known = true;
    psr_early_put(ring->early, a.slice.bucket, message);
    return PSR_OK;
}

psr_err psr_ring_message(psr_ring *ring, psr_message **message)
{
    psr_err err = take(ring, message);
    psr_message_free(message); /* NULL when held */
    return err;
}

/* ---- events of the owner ---- */

static psr_err take_early(psr_ring *ring, uint32_t bucket)
{
    psr_err err = PSR_OK;
    for (psr_message *message; err == PSR_OK && (message = psr_early_take(ring->early, bucket)) != NULL;) {
        arrival a = {0};
        err = check_fields(ring, message, &a); /* was checked before: this finds its place again */
        if (err == PSR_OK)
            err = apply(ring, &a);
        psr_message_free(&message);
    }
    return err;
}

psr_err psr_ring_ready(psr_ring *ring, uint64_t step, uint32_t bucket)
{
    assert(bucket < ring->options.bucket_count);
    bucket_state *state = &ring->buckets[bucket];
    assert(!state->active);
    if (state->step_known && state->step != step)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "worker %" PRIu32 " is at step %" PRIu64 " of bucket %" PRIu32
                        ", this one at %" PRIu64,
                        ring->left, state->step + 1, bucket, step + 1);
    state->step = step;
    state->step_known = true;
    state->active = true;
    state->turn = ring->turns++;
    state->pending = ring->options.ranks > 1 ? state->slices : 0;
    ring->active_count++;
    if (state->pending == 0)
        return complete(ring, bucket);
    PSR_TRY(inject(ring));
    return take_early(ring, bucket);
}

uint32_t psr_ring_lent(const psr_ring *ring, uint32_t bucket)
{
    return psr_loan_lent(&ring->buckets[bucket].loan);
}

bool psr_ring_waits(const psr_ring *ring, uint64_t *ret_step, uint32_t *ret_bucket, uint32_t *ret_rank)
{
    if (ring->active_count == 0)
        return false;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t b = 0; b < ring->options.bucket_count; b++)
        if (ring->buckets[b].active && ring->buckets[b].turn < oldest) {
            oldest = ring->buckets[b].turn;
            *ret_step = ring->buckets[b].step;
            *ret_bucket = b;
        }
    *ret_rank = ring->left;
    return true;
}

/* ---- beginning and end ---- */

psr_err psr_ring_new(const psr_ring_options *options, psr_ring **ret_ring)
{
    assert(options->ranks >= 1 && options->rank < options->ranks);
    assert(options->slice_floats > 0 && options->window > 0);
    uint32_t n = options->ranks;
    psr_ring *ring = calloc(1, sizeof *ring);
    bucket_state *buckets = calloc((size_t)options->bucket_count + 1, sizeof *buckets);
    size_t *arrived = calloc((size_t)options->bucket_count * PSR_RING_PHASES * n + 1, sizeof *arrived);
    /* Every other rank has at most a window on its way. */
    psr_early *early = NULL;
    psr_err err = psr_early_new(options->bucket_count, (size_t)options->window * (n - 1), &early);
    if (ring == NULL || buckets == NULL || arrived == NULL || err != PSR_OK) {
        psr_early_free(early);
        free(ring);
        free(buckets);
        free(arrived);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " buckets", options->bucket_count);
    }
    *ring = (psr_ring){
        .options = *options,
        .left = (options->rank + n - 1) % n,
        .right = (options->rank + 1) % n,
        .injects = (options->rank + n - 1) % n,
        .early = early,
        .buckets = buckets,
        .arrived = arrived,
    };
    for (uint32_t b = 0; b < options->bucket_count; b++) {
        for (uint32_t phase = 0; phase < PSR_RING_PHASES; phase++, arrived += n)
            buckets[b].arrived[phase] = arrived;
        buckets[b].slices = count_slices(ring, b);
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
    free(ring);
}
