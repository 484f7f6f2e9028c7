/* Recordings: the orders that a stream was given, and those of streams that came to wait for it.
 * Each of these streams is a lane. When a recording is run, orders of one lane keep their order,
 * and a wait comes after what it waits for; nothing else holds, so a seed mixes the lanes. */
#include "tests/emulator/cuda/device.h"

#include <stdlib.h>

/* ---- recording ---- */

static void free_recording(void *object)
{
    psr_emulator_recording_free(object);
}

psr_err psr_emulator_record_begin(psr_cuda_stream *stream)
{
    psr_cuda_device *device = stream->made.device;
    psr_cuda_recording *recording = calloc(1, sizeof *recording);
    if (recording == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for a recording");
    psr_emulator_keep(device, PSR_EMULATOR_RECORDING, &recording->made, free_recording);
    pthread_mutex_lock(&device->lock);
    psr_err err = psr_emulator_failed(device);
    if (err == PSR_OK && stream->recording != NULL)
        err = psr_fail(PSR_ERR_COMPUTE, "a stream that records begins to record");
    if (err == PSR_OK) {
        recording->number = ++device->recordings;
        recording->origin = stream;
        recording->end = &recording->first;
        recording->lanes = 1;
        stream->recording = recording;
        stream->lane = 0;
    }
    pthread_mutex_unlock(&device->lock);
    if (err != PSR_OK)
        psr_emulator_recording_free(recording);
    return err;
}

void psr_emulator_recording_add(psr_cuda_stream *stream, psr_emulator_order *order)
{
    psr_cuda_recording *recording = stream->recording;
    order->lane = stream->lane;
    *recording->end = order;
    recording->end = &order->next;
}

/* Whether all work lies before the origin's end: CUDA refuses to end a recording in which a stream
 * that joined was not waited for. Walks back from the end: needed[lane] is the place behind the
 * lane's last order that something needed waits for. */
static bool is_joined(const psr_cuda_recording *recording)
{
    uint32_t count = 0;
    for (const psr_emulator_order *o = recording->first; o != NULL; o = o->next)
        count++;
    const psr_emulator_order **orders = calloc((size_t)count + 1, sizeof *orders);
    uint32_t *needed = calloc(recording->lanes, sizeof *needed); /* places + 1 */
    uint32_t *mark_at = calloc((size_t)recording->marks + 1, sizeof *mark_at);
    if (orders == NULL || needed == NULL || mark_at == NULL)
        psr_emulator_fault("no memory is left on the host");
    uint32_t at = 0;
    for (const psr_emulator_order *o = recording->first; o != NULL; o = o->next, at++) {
        orders[at] = o;
        if (o->kind == PSR_EMULATOR_RECORD)
            mark_at[o->mark->index] = at;
    }
    needed[0] = count;
    bool joined = true;
    while (at-- > 0) {
        const psr_emulator_order *o = orders[at];
        const bool is_needed = at < needed[o->lane];
        if (is_needed && o->kind == PSR_EMULATOR_WAIT) {
            const uint32_t behind = mark_at[o->mark->index] + 1;
            if (behind > needed[o->mark->lane])
                needed[o->mark->lane] = behind;
        }
        joined &= is_needed || o->kind == PSR_EMULATOR_WAIT || o->kind == PSR_EMULATOR_RECORD;
    }
    free(orders);
    free(needed);
    free(mark_at);
    return joined;
}

psr_err psr_emulator_record_end(psr_cuda_stream *stream, psr_cuda_recording **ret_recording)
{
    psr_cuda_device *device = stream->made.device;
    pthread_mutex_lock(&device->lock);
    psr_cuda_recording *recording = stream->recording;
    if (recording == NULL || recording->origin != stream) {
        const psr_err err =
            psr_fail(PSR_ERR_COMPUTE, "a stream ends a recording that it did not begin");
        pthread_mutex_unlock(&device->lock);
        return err;
    }
    for (psr_cuda_stream *s = device->streams; s != NULL; s = s->next)
        if (s->recording == recording)
            s->recording = NULL;
    psr_err err = psr_emulator_failed(device);
    if (err == PSR_OK && !is_joined(recording))
        err = psr_fail(PSR_ERR_COMPUTE,
                       "a recording ends without waiting for a stream that joined it");
    pthread_mutex_unlock(&device->lock);
    if (err != PSR_OK)
        psr_emulator_recording_free(recording);
    else
        *ret_recording = recording;
    return err;
}

psr_err psr_emulator_recording_run(psr_cuda_stream *stream, const psr_cuda_recording *recording)
{
    if (stream->recording != NULL)
        return psr_fail(PSR_ERR_COMPUTE, "a recording is run by a stream that records");
    psr_emulator_order *order = psr_emulator_order_new(PSR_EMULATOR_RECORDING_RUN);
    if (order == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for an order");
    order->of.recording = recording;
    return psr_emulator_give(stream, order);
}

void psr_emulator_recording_free(psr_cuda_recording *recording)
{
    if (recording == NULL)
        return;
    psr_cuda_device *device = recording->made.device;
    pthread_mutex_lock(&device->lock);
    for (psr_emulator_order *o = recording->first; o != NULL;) {
        psr_emulator_order *next = o->next;
        psr_emulator_order_free(o);
        o = next;
    }
    pthread_mutex_unlock(&device->lock);
    psr_emulator_forget(&recording->made);
    free(recording);
}

/* ---- running ---- */

typedef struct running {
    const psr_emulator_order **head; /* of each lane: its next order; NULL: none */
    bool *passed;                    /* of each mark */
    uint32_t lanes;
    psr_cuda_device *device;
} running;

static const psr_emulator_order *in_lane(const psr_emulator_order *order, uint32_t lane)
{
    while (order != NULL && order->lane != lane)
        order = order->next;
    return order;
}

static bool is_blocked(const running *r, uint32_t lane)
{
    const psr_emulator_order *o = r->head[lane];
    return o->kind == PSR_EMULATOR_WAIT && !r->passed[o->mark->index];
}

static void move_lane(running *r, uint32_t lane, uint64_t seed)
{
    const psr_emulator_order *o = r->head[lane];
    if (o->kind == PSR_EMULATOR_RECORD)
        r->passed[o->mark->index] = true;
    else if (o->kind != PSR_EMULATOR_WAIT)
        psr_emulator_carry_out(r->device, o, seed);
    r->head[lane] = in_lane(o->next, lane);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; /* Marsaglia, "Xorshift RNGs", 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The lane that moves next. Without a seed the origin's, or what blocks it: the others as late as
 * can be. With one, mostly the same again, so that one lane may run far ahead. */
static uint32_t choose(const running *r, uint32_t lane, uint64_t *random)
{
    if (*random == 0)
        lane = 0;
    else if (next_random(random) % 4 == 0)
        lane = (uint32_t)(next_random(random) >> 33) % r->lanes;
    for (uint32_t i = 0; i < r->lanes && r->head[lane] == NULL; i++)
        lane = (lane + 1) % r->lanes;
    while (r->head[lane] != NULL && is_blocked(r, lane))
        lane = r->head[lane]->mark->lane;
    return lane;
}

void psr_emulator_recording_carry_out(psr_cuda_device *device, const psr_cuda_recording *recording,
                                      uint64_t seed)
{
    running r = {.lanes = recording->lanes, .device = device};
    r.head = calloc(r.lanes, sizeof *r.head);
    r.passed = calloc((size_t)recording->marks + 1, sizeof *r.passed);
    if (r.head == NULL || r.passed == NULL)
        psr_emulator_fault("no memory is left on the host");
    for (uint32_t lane = 0; lane < r.lanes; lane++)
        r.head[lane] = in_lane(recording->first, lane);
    uint64_t random = seed;
    for (uint32_t lane = choose(&r, 0, &random); r.head[lane] != NULL;
         lane = choose(&r, lane, &random))
        move_lane(&r, lane, random);
    free(r.head);
    free(r.passed);
}
