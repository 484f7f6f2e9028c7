/* Own host h of H; everything modulo H. Chunk c begins at the host of rank c+1, which is its leg 0,
 * and ends at the host of rank c, its leg T.
 *
 *   reduce-scatter: hop k = 0..T-1 of chunk c goes from its leg k to its leg k+1.
 *   all-gather: hop k = 0..H-2 goes from the host of rank c, on by k, to the one after.
 *
 * Where sums are: a leg is summed, block by block in cache, into an arena of this worker's, and
 * sent from there; gradients stay where they are, since the host of rank c needs some of them
 * again, for its last leg. A sum that was lent in the reduce-scatter is written again only by the
 * whole one, of which the next host's leg is a part: so that host has read it. A sum that was lent
 * in the all-gather is written again by the next step's leg, which needs every push of this host,
 * this worker's too: that one it makes when nothing of the bucket is lent (psr_host_ring_lent).
 * What no host after needs is updated from the message itself.
 *
 * Why at most one message early: a host's holder sends a slice's next step only after its workers
 * have all had this step's weights, and so after it has sent on, by the same channel, this step's
 * sum. */
#include "comm/tables/host_ring.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"
#include "comm/operations/lane.h"
#include "comm/operations/loan.h"
#include "comm/tables/fold_blocks.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a slice needs next on this host. */
typedef enum stage {
    STAGE_BEGIN,  /* room in the lane: this host has its first leg */
    STAGE_REDUCE, /* the sum of the legs before */
    STAGE_GATHER, /* the complete sum */
} stage;

/* A slice that this worker holds for its host. */
typedef struct slice {
    uint32_t bucket, chunk;
    psr_span span;
    stage stage;
    bool gathered; /* this host's workers have all pushed it in `step` */
    uint64_t step; /* the step under way, or the next one */
    psr_message *early;
} slice;

#define HELD_ELSEWHERE UINT32_MAX

struct psr_host_ring {
    psr_host_ring_options options;
    const psr_plan *plan;              /* the options' */
    uint32_t host, left, right, hosts; /* left, right: the hosts before and after */
    slice *slices;                     /* as the table numbers them */
    uint32_t *numbers; /* [the plan's slice] its index in slices, or HELD_ELSEWHERE */
    uint32_t slice_count;
    float *sums;          /* as long as the arena; holds sums of this worker's slices */
    size_t length;        /* of the arena */
    const float **pushed; /* [the host's workers] */
    psr_lane lane;        /* slices that are to begin */
    uint32_t *room;       /* the lane's */
    psr_loan *loans;      /* [bucket] */
};

/* ---- the path of a chunk ---- */

static uint32_t last_host(const psr_host_ring *ring, uint32_t chunk)
{
    return psr_plan_host_of(ring->plan, chunk);
}

static uint32_t first_host(const psr_host_ring *ring, uint32_t chunk)
{
    return psr_plan_host_of(ring->plan, (chunk + 1) % ring->plan->ranks);
}

/* T: the number of the last leg. */
static uint32_t last_leg(const psr_host_ring *ring, uint32_t chunk)
{
    return last_host(ring, chunk) == first_host(ring, chunk) ? ring->hosts : ring->hosts - 1;
}

/* The workers of leg k of the chunk, which is on this host, in the order in which they are
 * added. */
static void workers_of_leg(const psr_host_ring *ring, uint32_t chunk, uint32_t k,
                           uint32_t *ret_begin, uint32_t *ret_end)
{
    const uint32_t first = ring->plan->hosts.first[ring->host];
    *ret_begin = 0;
    *ret_end = ring->plan->hosts.first[ring->host + 1] - first;
    if (k == last_leg(ring, chunk))
        *ret_end = chunk - first + 1;
    else if (k == 0 && last_host(ring, chunk) == ring->host)
        *ret_begin = chunk - first + 1;
}

static stage first_stage(const psr_host_ring *ring, uint32_t chunk)
{
    return first_host(ring, chunk) == ring->host ? STAGE_BEGIN : STAGE_REDUCE;
}

/* ---- out ---- */

static float *sum_of(const psr_host_ring *ring, const slice *s)
{
    return ring->sums + s->span.offset;
}

static psr_err send_sum(psr_host_ring *ring, const slice *s, psr_ring_phase phase, uint32_t hop)
{
    psr_head head = psr_msg_ring_head(&(psr_msg_ring){.bucket = s->bucket,
                                                      .step = s->step,
                                                      .span = s->span,
                                                      .phase = phase,
                                                      .chunk = s->chunk,
                                                      .hop = hop});
    psr_loan *loan = &ring->loans[s->bucket];
    const psr_peer to = {PSR_ROLE_WORKER, psr_plan_holder(ring->plan, s->bucket, ring->right)};
    psr_loan_begin(loan, 1);
    const psr_payload payload = psr_loan_payload(
        loan, psr_encode(&head, PSR_ENCODING_FLOAT32, sum_of(ring, s), s->span.count));
    return ring->options.outbox.send(ring->options.outbox.context, to, &head, &payload);
}

/* The complete sum is here, which ends the slice's step. */
static psr_err take_whole(psr_host_ring *ring, slice *s, const float *sum)
{
    s->stage = first_stage(ring, s->chunk);
    s->gathered = false;
    s->step++;
    if (s->stage == STAGE_BEGIN)
        psr_lane_credit(&ring->lane, 1);
    return psr_table_shard_take_sum(ring->options.table, (uint32_t)(s - ring->slices), sum);
}

/* before: the sum of the legs before; NULL: this is the first leg. */
static psr_err sum_leg(psr_host_ring *ring, const slice *s, uint32_t k, const float *before)
{
    uint32_t begin, end;
    workers_of_leg(ring, s->chunk, k, &begin, &end);
    PSR_TRY(
        psr_table_shard_pushed(ring->options.table, (uint32_t)(s - ring->slices), ring->pushed));
    for (size_t at = 0; at < s->span.count; at += PSR_FOLD_BLOCK) {
        const size_t left = s->span.count - at,
                     count = left < PSR_FOLD_BLOCK ? left : PSR_FOLD_BLOCK;
        float *sum = sum_of(ring, s) + at;
        uint32_t next = begin + 1;
        if (before != NULL)
            psr_fold_sum(sum, before + at, ring->pushed[begin] + at, count);
        else if (next < end)
            psr_fold_sum(sum, ring->pushed[begin] + at, ring->pushed[next++] + at, count);
        else
            memcpy(sum, ring->pushed[begin] + at, count * sizeof *sum);
        for (; next < end; next++)
            psr_fold_add(sum, ring->pushed[next] + at, count);
    }
    return PSR_OK;
}

/* The sum is sent on before it is used here. */
static psr_err do_leg(psr_host_ring *ring, slice *s, uint32_t k, const float *before)
{
    PSR_TRY(sum_leg(ring, s, k, before));
    if (k == last_leg(ring, s->chunk)) {
        PSR_TRY(send_sum(ring, s, PSR_RING_GATHER, 0));
        return take_whole(ring, s, sum_of(ring, s));
    }
    s->stage = k == 0 && last_host(ring, s->chunk) == ring->host ? STAGE_REDUCE : STAGE_GATHER;
    return send_sum(ring, s, PSR_RING_REDUCE, k);
}

static psr_err begin_what_may(psr_host_ring *ring)
{
    for (uint32_t number; psr_lane_next(&ring->lane, &number);)
        PSR_TRY(do_leg(ring, &ring->slices[number], 0, NULL));
    return PSR_OK;
}

/* ---- in ---- */

/* A decoded message of the host before: its slice and values. */
typedef struct arrival {
    psr_msg_ring says;
    uint32_t slice;
    const float *values;
} arrival;

/* Checks its sender and its hop. */
static psr_err check_way(const psr_host_ring *ring, const psr_message *message,
                         const psr_msg_ring *says)
{
    const bool reduce = says->phase == PSR_RING_REDUCE;
    const uint32_t holder = psr_plan_holder(ring->plan, says->bucket, ring->left);
    if (message->from.role != PSR_ROLE_WORKER || message->from.rank != holder)
        return psr_violation(
            message, "of the host before, worker %" PRIu32 " speaks for that bucket", holder);
    const uint32_t from = reduce ? first_host(ring, says->chunk) : last_host(ring, says->chunk);
    const uint32_t hops = reduce ? last_leg(ring, says->chunk) : ring->hosts - 1;
    if (says->hop >= hops || (from + says->hop) % ring->hosts != ring->left)
        return psr_violation(message, "chunk %" PRIu32 " does not come from there at hop %" PRIu32,
                             says->chunk, says->hop);
    return PSR_OK;
}

static psr_err check(const psr_host_ring *ring, const psr_message *message, arrival *ret_arrival)
{
    arrival a = {0};
    uint32_t number = 0;
    PSR_TRY(psr_msg_ring_read(message, &a.says));
    PSR_TRY(psr_plan_find(ring->plan, message, a.says.bucket, a.says.span, &number));
    a.slice = ring->numbers[number];
    if (a.slice == HELD_ELSEWHERE)
        return psr_violation(message, "worker %" PRIu32 " does not hold that bucket",
                             ring->options.rank);
    const slice *s = &ring->slices[a.slice];
    if (a.says.chunk != s->chunk)
        return psr_violation(message, "the slice is of chunk %" PRIu32, s->chunk);
    PSR_TRY(check_way(ring, message, &a.says));
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, s->span.count, &a.values));
    if (a.says.step != s->step)
        return psr_violation(message, "the slice is at wire step %" PRIu64, s->step);
    const stage due = a.says.phase == PSR_RING_REDUCE ? STAGE_REDUCE : STAGE_GATHER;
    if (s->stage != due || s->early != NULL)
        return psr_violation(
            message, due == STAGE_GATHER
                         ? "it claims a sum to which this host has not contributed"
                         : "this host has its part of that sum already, or cannot have it yet");
    *ret_arrival = a;
    return PSR_OK;
}

static psr_err take_reduce(psr_host_ring *ring, slice *s, const arrival *a)
{
    return do_leg(ring, s, a->says.hop + 1, a->values);
}

static psr_err take_gather(psr_host_ring *ring, slice *s, const arrival *a)
{
    if (a->says.hop + 1 < ring->hosts - 1) {
        memcpy(sum_of(ring, s), a->values, s->span.count * sizeof *a->values);
        PSR_TRY(send_sum(ring, s, PSR_RING_GATHER, a->says.hop + 1));
    }
    return take_whole(ring, s, a->values);
}

static psr_err take(psr_host_ring *ring, psr_message **message)
{
    arrival a = {0};
    PSR_TRY(check(ring, *message, &a));
    slice *s = &ring->slices[a.slice];
    if (s->gathered) {
        PSR_TRY(a.says.phase == PSR_RING_REDUCE ? take_reduce(ring, s, &a)
                                                : take_gather(ring, s, &a));
        return begin_what_may(ring);
    }
    s->early = *message;
    *message = NULL;
    return PSR_OK;
}

psr_err psr_host_ring_message(psr_host_ring *ring, psr_message **message)
{
    psr_err err = take(ring, message);
    psr_message_free(message); /* NULL if it is kept */
    return err;
}

psr_err psr_host_ring_gathered(psr_host_ring *ring, uint32_t number)
{
    slice *s = &ring->slices[number];
    assert(!s->gathered);
    s->gathered = true;
    if (s->stage == STAGE_BEGIN) {
        psr_lane_add(&ring->lane, number);
        return begin_what_may(ring);
    }
    psr_message *early = s->early;
    s->early = NULL;
    return early != NULL ? psr_host_ring_message(ring, &early) : PSR_OK;
}

/* ---- what it tells ---- */

bool psr_host_ring_waits(const psr_host_ring *ring, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    const slice *oldest = NULL;
    for (uint32_t i = 0; i < ring->slice_count; i++) {
        const slice *s = &ring->slices[i];
        if (s->gathered && (oldest == NULL || s->step < oldest->step))
            oldest = s;
    }
    if (oldest != NULL) {
        *ret_bucket = oldest->bucket;
        *ret_waiting = (psr_waiting){
            {PSR_ROLE_WORKER, psr_plan_holder(ring->plan, oldest->bucket, ring->left)},
            oldest->step};
        return true;
    }
    for (uint32_t i = 0; i < ring->slice_count; i++) {
        const slice *s = &ring->slices[i];
        if (s->step == ring->options.first_step || psr_loan_lent(&ring->loans[s->bucket]) == 0)
            continue; /* nothing of a slice was lent in its first step */
        *ret_bucket = s->bucket;
        *ret_waiting = (psr_waiting){
            {PSR_ROLE_WORKER, psr_plan_holder(ring->plan, s->bucket, ring->right)}, s->step - 1};
        return true;
    }
    return false;
}

uint32_t psr_host_ring_lent(const psr_host_ring *ring, uint32_t bucket)
{
    return psr_loan_lent(&ring->loans[bucket]);
}

/* ---- beginning and end ---- */

static void begin_slices(psr_host_ring *ring)
{
    const psr_plan *plan = ring->plan;
    for (uint32_t i = 0; i < plan->slice_count; i++) {
        const psr_slice *cut = &plan->slices[i];
        const bool held = plan->buckets[cut->bucket].route == PSR_ROUTE_HOST &&
                          psr_plan_holder(plan, cut->bucket, ring->host) == ring->options.rank;
        ring->numbers[i] = held ? ring->slice_count : HELD_ELSEWHERE;
        if (held)
            ring->slices[ring->slice_count++] = (slice){.bucket = cut->bucket,
                                                        .chunk = cut->chunk,
                                                        .span = cut->span,
                                                        .stage = first_stage(ring, cut->chunk),
                                                        .step = ring->options.first_step};
    }
}

static psr_err begin(psr_host_ring *ring)
{
    const psr_plan *plan = ring->plan;
    const uint32_t workers = plan->hosts.first[ring->host + 1] - plan->hosts.first[ring->host];
    ring->slices = calloc((size_t)plan->slice_count + 1, sizeof *ring->slices);
    ring->numbers = calloc((size_t)plan->slice_count + 1, sizeof *ring->numbers);
    ring->room = calloc((size_t)plan->slice_count + 1, sizeof *ring->room);
    ring->pushed = calloc(workers, sizeof *ring->pushed);
    ring->loans = calloc((size_t)plan->bucket_count + 1, sizeof *ring->loans);
    if (ring->slices == NULL || ring->numbers == NULL || ring->room == NULL ||
        ring->pushed == NULL || ring->loans == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring of %" PRIu32 " slices",
                        plan->slice_count);
    PSR_TRY(psr_arena_new(ring->length, &ring->sums));
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        psr_loan_init(&ring->loans[b], &ring->options.outbox);
    psr_lane_init(&ring->lane, ring->room, plan->window);
    begin_slices(ring);
    return PSR_OK;
}

psr_err psr_host_ring_new(const psr_host_ring_options *options, psr_host_ring **ret_ring)
{
    const psr_plan *plan = options->plan;
    const uint32_t hosts = plan->hosts.count, host = psr_plan_host_of(plan, options->rank);
    assert(hosts > 1);
    psr_host_ring *ring = malloc(sizeof *ring);
    if (ring == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a ring over hosts");
    *ring = (psr_host_ring){.options = *options,
                            .plan = plan,
                            .host = host,
                            .left = (host + hosts - 1) % hosts,
                            .right = (host + 1) % hosts,
                            .hosts = hosts,
                            .length = psr_plan_length(plan)};
    psr_err err = begin(ring);
    if (err != PSR_OK) {
        psr_host_ring_free(ring);
        return err;
    }
    *ret_ring = ring;
    return PSR_OK;
}

void psr_host_ring_free(psr_host_ring *ring)
{
    if (ring == NULL)
        return;
    for (uint32_t i = 0; i < ring->slice_count; i++)
        psr_message_free(&ring->slices[i].early);
    psr_arena_free(ring->sums, ring->length);
    free(ring->loans);
    free(ring->pushed);
    free(ring->room);
    free(ring->numbers);
    free(ring->slices);
    free(ring);
}
