/* Members that may send a holder anything in well-formed heads: its host's workers PUSH, anybody
 * RING (comm/tables/host_ring.h). Each record of the input is one message; fields are near what
 * would be right, but for one of them, and its sender and step may be those that are due. What is
 * refused must be PROTOCOL, and nothing may be written outside the buckets. The first byte says the
 * rank and the window. */
#include "tests/fuzz/records.h"

#include "comm/tables/host_ring.h"
#include "comm/wire/messages.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA = 64, PARTS = 3, TWIST = 6, RECORD = TWIST + RECORDS_TWIST_BYTES };

RECORDS_MUTATOR(1, RECORD);

static const psr_part parts[PARTS] = {{{40, 20}, 0}, {{9, 23}, 1}, {{3, 1}, 2}};
static const psr_host_ranks hosts = {3, (uint32_t[]){0, 2, 3, 5}};

typedef struct holder {
    uint32_t rank;
    psr_plan plan, within;
    psr_table_shard *table;
    psr_host_ring *ring;
} holder;

static psr_err gathered(void *context, uint32_t slice)
{
    return psr_host_ring_gathered(((holder *)context)->ring, slice);
}

static void must(psr_err err)
{
    if (err != PSR_OK)
        abort();
}

static void open_holder(holder *h, uint8_t how, float *values)
{
    const uint32_t rank = h->rank = how % 5;
    const psr_plan_options planned = {.route = PSR_ROUTE_HOST,
                                      .ranks = 5,
                                      .hosts = &hosts,
                                      .slice_floats = 4,
                                      .window = 1 + how / 5 % 3};
    must(psr_plan_make(&planned, parts, PARTS, &h->plan));
    must(psr_plan_within(&h->plan, rank, &h->within));
    const psr_outbox outbox = {.context = NULL, .send = records_give_back};
    const psr_table_shard_options held = {.plan = &h->within,
                                          .by_host = true,
                                          .shard = rank - psr_plan_first_rank(&h->within),
                                          .consistency = {PSR_CONSISTENCY_BSP, 0},
                                          .update = "sum",
                                          .given = true,
                                          .end = 100,
                                          .values = values,
                                          .outbox = outbox,
                                          .context = h,
                                          .gathered = gathered};
    must(psr_table_shard_new(&held, &h->table));
    const psr_host_ring_options options = {
        .plan = &h->plan, .rank = rank, .table = h->table, .outbox = outbox};
    must(psr_host_ring_new(&options, &h->ring));
}

static void close_holder(holder *h)
{
    psr_host_ring_free(h->ring);
    psr_table_shard_free(h->table);
    psr_plan_done(&h->within);
    psr_plan_done(&h->plan);
}

/* Who sends of that bucket: a worker of this host, or the one before it in the ring. */
static psr_peer due_from(const holder *h, const psr_slice *slice, const uint8_t *record)
{
    const uint32_t host = psr_plan_host_of(&h->plan, h->rank), first = hosts.first[host],
                   left = (host + hosts.count - 1) % hosts.count;
    const uint32_t rank = (record[0] & 1) != 0
                              ? psr_plan_holder(&h->plan, slice->bucket, left)
                              : first + record[4] % (hosts.first[host + 1] - first);
    return (psr_peer){PSR_ROLE_WORKER, rank};
}

/* Mostly of a slice that there is. The payload is of its exact size, so that a read beyond it is
 * seen. */
static psr_message *make(const holder *h, const uint8_t *record)
{
    psr_slice slice = h->plan.slices[record[1] % h->plan.slice_count];
    const bool due = (record[0] & 4) != 0;
    const uint64_t version = psr_table_shard_version(h->table, slice.bucket);
    const psr_peer from =
        due ? due_from(h, &slice, record)
            : (psr_peer){record[4] >> 7 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER, record[4] & 7};
    slice.span.count += record[5] >> 7;
    slice.span.offset += record[5] >> 6 & 1;
    const psr_msg_ring ring = {.bucket = slice.bucket,
                               .step = due ? version + (record[2] & 1) : record[2] & 3,
                               .span = slice.span,
                               .phase = (psr_ring_phase)(record[3] & 3),
                               .chunk = slice.chunk + (record[5] >> 5 & 1),
                               .hop = record[3] >> 2 & 3};
    const size_t bytes = (slice.span.count + (record[5] >> 4 & 1)) * sizeof(float);
    const psr_head head =
        (record[0] & 1) != 0
            ? psr_msg_ring_head(&ring)
            : psr_msg_push_head(&(psr_msg_push){slice.bucket, ring.step, slice.span, true});
    psr_message *m = records_message(from, head, bytes, "", 1);
    records_twist(&m->head, record + TWIST, PARTS);
    m->head.encoding = PSR_ENCODING_FLOAT32;
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    float values[ARENA];
    for (size_t i = 0; i < ARENA; i++)
        values[i] = 1.0f;
    holder h;
    open_holder(&h, data[0], values);
    for (data++, size--; size >= RECORD; data += RECORD, size -= RECORD) {
        psr_message *message = make(&h, data);
        psr_err err = (data[0] & 1) != 0 ? psr_host_ring_message(h.ring, &message)
                                         : psr_table_shard_message(h.table, &message);
        if (err != PSR_OK && err != PSR_ERR_PROTOCOL)
            abort();
        psr_waiting waiting;
        uint32_t bucket = 0;
        if (psr_host_ring_waits(h.ring, &waiting, &bucket) &&
            (bucket >= PARTS || waiting.peer.rank >= hosts.first[hosts.count]))
            abort();
    }
    close_holder(&h);
    for (size_t i = 0; i < ARENA; i++) { /* every gradient is zero, and a
                                            sum is added to the values */
        bool inside = false;
        for (size_t b = 0; b < PARTS; b++)
            inside = inside || (i >= parts[b].span.offset && i < psr_span_end(parts[b].span));
        if (values[i] != 1.0f && !inside)
            abort();
    }
    return 0;
}
