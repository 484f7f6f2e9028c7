/* A member that may send anything in well-formed heads: psr_ring_message. Each record of the input
 * is one event; fields are near what would be right, so that the fuzzer gets past the first checks.
 * What is refused must be PROTOCOL; MISMATCH where the call is another; or NUMERIC where a sum is
 * to be sent that has come to more than a float. Nothing may be written outside the buckets. The
 * first byte says the rank and the compression. */
#include "tests/fuzz/records.h"
#include "tests/unit/ring_values.h"

#include "comm/wire/messages.h"
#include "comm/operations/ring.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA = 64, TWIST = 8, RECORD = TWIST + RECORDS_TWIST_BYTES };

RECORDS_MUTATOR(1, RECORD);

static const psr_part buckets[] = {{{40, 20}, 0}, {{9, 23}, 1}, {{3, 1}, 2}};

static const psr_compression compressions[8] = {
    {PSR_ENCODING_FLOAT32, 0},      {PSR_ENCODING_FP16, 0},         {PSR_ENCODING_BF16, 0},
    {PSR_ENCODING_INT8, 0},         {PSR_ENCODING_1BIT, 0},         {PSR_ENCODING_TOPK, 100000000},
    {PSR_ENCODING_TOPK, 900000000}, {PSR_ENCODING_TOPK, 300000000},
};

static psr_err ignore_reduced(void *context, uint64_t step, uint32_t bucket)
{
    (void)step;
    ((uint64_t *)context)[bucket]++;
    return PSR_OK;
}

static psr_err not_finite(void *context, uint64_t step, uint32_t bucket)
{
    (void)context;
    (void)step;
    (void)bucket;
    return PSR_ERR_NUMERIC;
}

/* What the left neighbour may send at some time, or a slice and a total of the record's. */
static psr_head make_head(const uint8_t *record, const psr_plan *plan, uint32_t left)
{
    const uint32_t b = record[1] & 3, bucket = b < 3 ? b : 0;
    const uint32_t phase = record[2] >> 6, chunk = record[2] & 7, hop = record[2] >> 3 & 7;
    ring_slice says = {.bucket = bucket, .step = record[1] >> 4};
    if (phase < PSR_RING_PHASES && chunk < 3 && hop < 2)
        says = (ring_slice){bucket, says.step, {record[3], record[4]}, (psr_ring_phase)phase,
                            chunk,  hop};
    else
        says.span = psr_plan_chunk(plan, bucket, 0);
    psr_head head = ring_head_of(plan, left, says);
    psr_msg_values values;
    if (psr_msg_values_read(&(psr_message){.head = head}, &values) != PSR_OK)
        abort();
    if (phase >= PSR_RING_PHASES) {
        values.slice = record[3];
        values.total = record[4];
    }
    values.tag.slot = b + 1;
    return psr_msg_values_head(&values);
}

/* What is all of one byte is no value of these; mostly it is brought near one. */
static void shape(psr_encoding encoding, void *payload, size_t bytes)
{
    uint32_t *words = payload;
    if (encoding == PSR_ENCODING_TOPK)
        for (uint32_t i = 0; i < bytes / 8; i++)
            words[i] = i;
    if (encoding == PSR_ENCODING_1BIT && bytes >= 8) {
        words[0] &= 0x7fffffff;
        words[1] |= 0x80000000;
        if (bytes > 8)
            ((uint8_t *)payload)[bytes - 1] &= 7;
    }
}

static psr_message *make(const uint8_t *record, psr_encoding encoding, const psr_plan *plan,
                         uint32_t left)
{
    size_t payload_bytes = (size_t)record[6] * (encoding != PSR_ENCODING_FLOAT32 ? 1 : 4);
    const psr_peer from = {record[0] >> 6 ? PSR_ROLE_WORKER : PSR_ROLE_SHARD, record[0] >> 4 & 3};
    psr_message *m =
        records_message(from, make_head(record, plan, left), payload_bytes, record + 7, 1);
    if ((record[5] & 8) == 0)
        shape(encoding, (void *)(uintptr_t)m->payload, payload_bytes);
    records_twist(&m->head, record + TWIST, 3);
    /* now and then in another than the ring's */
    if (payload_bytes > 0 || encoding == PSR_ENCODING_TOPK)
        m->head.encoding = record[5] >> 6 == 3                ? PSR_ENCODING_FLOAT64
                           : encoding == PSR_ENCODING_FLOAT32 ? PSR_ENCODING_BYTES
                                                              : encoding;
    return m;
}

static void play(const uint8_t *data, size_t size, psr_encoding encoding, const psr_plan *plan,
                 uint32_t rank, psr_ring *ring, float *arena, uint64_t *begun,
                 const uint64_t *reduced)
{
    for (; size >= RECORD; data += RECORD, size -= RECORD) {
        uint32_t bucket = data[1] & 3, waits_in = 0;
        psr_waiting waiting;
        if (psr_ring_waits(ring, &waiting, &waits_in) && (waits_in >= 3 || waiting.peer.rank >= 3))
            abort(); /* there is no such */
        if ((data[0] & 7) > 0) {
            psr_message *message = make(data, encoding, plan, (rank + 2) % 3);
            psr_err err = psr_ring_message(ring, &message);
            if (err == PSR_ERR_NUMERIC && encoding >= PSR_ENCODING_INT8)
                return; /* the run is over */
            if (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_MISMATCH)
                abort();
        } else if (bucket < 3 && begun[bucket] == reduced[bucket]) {
            const psr_buffer buffer = {.data = arena + buckets[bucket].span.offset,
                                       .count = buckets[bucket].span.count,
                                       .type = PSR_TYPE_FLOAT32};
            if (psr_ring_start(ring, bucket, begun[bucket]++, &buffer) != PSR_OK)
                return; /* the neighbour began at another step: the run is over */
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    float arena[ARENA], residual[ARENA] = {0};
    uint64_t begun[3] = {0}, reduced[3] = {0};
    uint32_t rank = data[0] & 1;
    const psr_compression *compression = &compressions[data[0] >> 1 & 7];
    for (size_t i = 0; i < ARENA; i++)
        arena[i] = 1.0f;
    const psr_plan_options planned = {.route = PSR_ROUTE_RING,
                                      .ranks = 3,
                                      .slice_floats = 4,
                                      .window = 2,
                                      .compression = compression};
    psr_plan plan;
    if (psr_plan_make(&planned, buckets, 3, &plan) != PSR_OK)
        abort();
    psr_ring_options options = {.plan = &plan,
                                .rank = rank,
                                .residual = residual,
                                .outbox = {.context = NULL, .send = records_give_back},
                                .context = reduced,
                                .reduced = ignore_reduced,
                                .not_finite = not_finite};
    psr_ring *ring;
    if (psr_ring_new(&options, &ring) != PSR_OK)
        abort();
    play(data + 1, size - 1, compression->encoding, &plan, rank, ring, arena, begun, reduced);
    for (size_t i = 0; i < ARENA; i++) {
        bool inside = false;
        for (size_t b = 0; b < 3; b++)
            inside = inside || (i >= buckets[b].span.offset && i < psr_span_end(buckets[b].span));
        if (!inside && (arena[i] != 1.0f || residual[i] != 0))
            abort();
    }
    psr_ring_free(ring);
    psr_plan_done(&plan);
    return 0;
}
