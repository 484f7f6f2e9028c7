/* Streams and events. A stream is a queue of orders; an event's record is a mark in it. A stream's
 * first order stays in the queue until it has been carried out, so an empty queue is a stream that
 * has come to its end.
 *
 * With threads each stream's own takes the orders. Lazy streams have none: who waits for a mark
 * carries out what lies before it, and of other streams only what that in turn waits for. A seed
 * lets other streams move in between, and each move ahead with a chance of its own. */
#include "tests/emulator/cuda/device.h"

#include "base/clock.h"
#include "base/system/thread.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- marks and orders ---- */

static psr_emulator_mark *mark_new(psr_cuda_stream *stream)
{
    psr_emulator_mark *mark = calloc(1, sizeof *mark);
    if (mark == NULL)
        psr_emulator_fault("no memory is left on the host");
    mark->references = 1;
    mark->stream = stream;
    return mark;
}

void psr_emulator_mark_drop(psr_emulator_mark *mark)
{
    if (mark != NULL && --mark->references == 0)
        free(mark);
}

psr_emulator_order *psr_emulator_order_new(psr_emulator_order_kind kind)
{
    psr_emulator_order *order = calloc(1, sizeof *order);
    if (order != NULL)
        order->kind = kind;
    return order;
}

void psr_emulator_order_free(psr_emulator_order *order)
{
    psr_emulator_mark_drop(order->mark);
    free(order);
}

/* An order that holds the mark. */
static psr_emulator_order *order_of(psr_emulator_order_kind kind, psr_emulator_mark *mark)
{
    psr_emulator_order *order = psr_emulator_order_new(kind);
    if (order == NULL)
        psr_emulator_fault("no memory is left on the host");
    order->mark = mark;
    mark->references++;
    return order;
}

/* ---- moving on; all with the lock ---- */

static bool can_move(const psr_cuda_stream *s)
{
    return s->first != NULL && !s->busy &&
           (s->first->kind != PSR_EMULATOR_WAIT || s->first->mark->passed);
}

static void carry_out(psr_cuda_stream *s, const psr_emulator_order *order)
{
    psr_cuda_device *device = s->made.device;
    const uint64_t seed = device->settings.seed > 0 ? psr_emulator_random(device) : 0;
    pthread_mutex_unlock(&device->lock);
    if (s->threaded && seed > 0)
        usleep((useconds_t)(seed >> 32) % 200);
    if (order->kind == PSR_EMULATOR_RECORDING_RUN)
        psr_emulator_recording_carry_out(device, order->of.recording, seed);
    else
        psr_emulator_carry_out(device, order, seed);
    pthread_mutex_lock(&device->lock);
}

static void move(psr_cuda_stream *s)
{
    psr_emulator_order *order = s->first;
    if (order->kind == PSR_EMULATOR_RECORD) {
        order->mark->passed = true;
        order->mark->passed_ns = psr_clock_ns();
        order->mark->stream = NULL;
    } else if (order->kind != PSR_EMULATOR_WAIT) {
        s->busy = true;
        carry_out(s, order);
        s->busy = false;
    }
    s->first = order->next;
    if (s->first == NULL)
        s->end = &s->first;
    psr_emulator_order_free(order);
    pthread_cond_broadcast(&s->made.device->moved);
}

static void *run_stream(void *argument)
{
    psr_cuda_stream *s = argument;
    psr_cuda_device *device = s->made.device;
    pthread_mutex_lock(&device->lock);
    while (!s->closing || s->first != NULL) {
        if (can_move(s))
            move(s);
        else
            pthread_cond_wait(&device->moved, &device->lock);
    }
    pthread_mutex_unlock(&device->lock);
    return NULL;
}

static uint32_t below(psr_cuda_device *device, uint32_t bound)
{
    return (uint32_t)(psr_emulator_random(device) >> 33) % bound;
}

static psr_cuda_stream *any_stream(psr_cuda_device *device)
{
    uint32_t count = 0;
    for (psr_cuda_stream *s = device->streams; s != NULL; s = s->next)
        count++;
    psr_cuda_stream *chosen = device->streams;
    for (uint32_t i = below(device, count); i > 0; i--)
        chosen = chosen->next;
    return chosen;
}

/* Lazy: the stream that has to move so that s can. */
static psr_cuda_stream *that_blocks(psr_cuda_stream *s)
{
    while (s->first != NULL && !s->busy && s->first->kind == PSR_EMULATOR_WAIT &&
           !s->first->mark->passed)
        s = s->first->mark->stream;
    return s;
}

/* Up to 16 orders at once: a stream may run far ahead of another. */
static void move_far(psr_cuda_stream *s)
{
    for (uint32_t most = 1u << below(s->made.device, 5); most > 0 && can_move(s); most--)
        move(s);
}

/* Lazy: at least one order towards the end of what s was given. */
static void move_towards(psr_cuda_stream *s)
{
    psr_cuda_device *device = s->made.device;
    psr_cuda_stream *mover = that_blocks(s);
    if (device->settings.seed > 0 && below(device, 2) == 0)
        move_far(any_stream(device));
    else if (can_move(mover))
        move(mover);
    else
        pthread_cond_wait(&device->moved, &device->lock); /* another thread moves it */
}

/* Lazy: an order was given, and streams may move ahead of being waited for. */
static void move_ahead(psr_cuda_device *device)
{
    if (device->settings.seed == 0)
        return;
    for (uint32_t i = 0; i < 3; i++) {
        psr_cuda_stream *s = any_stream(device);
        if (below(device, 8) < s->ahead)
            move_far(s);
        if (below(device, 32) == 0)
            s->ahead = below(device, 9);
    }
}

psr_err psr_emulator_give(psr_cuda_stream *stream, psr_emulator_order *order)
{
    psr_cuda_device *device = stream->made.device;
    pthread_mutex_lock(&device->lock);
    const psr_err err = psr_emulator_failed(device);
    if (err != PSR_OK) {
        if (order->kind == PSR_EMULATOR_RECORD)
            order->mark->passed = true; /* nobody waits for it for ever */
        psr_emulator_order_free(order);
    } else if (stream->recording != NULL) {
        psr_emulator_recording_add(stream, order);
    } else {
        *stream->end = order;
        stream->end = &order->next;
        pthread_cond_broadcast(&device->moved);
        if (!stream->threaded)
            move_ahead(device);
    }
    pthread_mutex_unlock(&device->lock);
    return err;
}

/* ---- streams ---- */

static void take_off_list(psr_cuda_stream *stream)
{
    psr_cuda_stream **at = &stream->made.device->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
}

/* Carries out the rest. */
static void end_stream(void *object)
{
    psr_cuda_stream *stream = object;
    psr_cuda_device *device = stream->made.device;
    pthread_mutex_lock(&device->lock);
    stream->closing = true;
    pthread_cond_broadcast(&device->moved);
    pthread_mutex_unlock(&device->lock);
    if (stream->threaded)
        pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&device->lock);
    while (stream->first != NULL)
        move_towards(stream);
    take_off_list(stream);
    pthread_mutex_unlock(&device->lock);
    psr_emulator_forget(&stream->made);
    free(stream);
}

psr_err psr_emulator_stream_new(psr_cuda_device *device, psr_cuda_stream **ret_stream)
{
    psr_cuda_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for a stream");
    s->end = &s->first;
    s->threaded = device->settings.streams == PSR_EMULATOR_THREADS;
    psr_emulator_keep(device, PSR_EMULATOR_STREAM, &s->made, end_stream);
    pthread_mutex_lock(&device->lock);
    psr_err err = psr_emulator_failed(device);
    s->ahead = device->settings.seed > 0 ? below(device, 9) : 0;
    s->next = device->streams;
    device->streams = s;
    pthread_mutex_unlock(&device->lock);
    if (err == PSR_OK && s->threaded) {
        err = psr_thread_start("cuda-stream", run_stream, s, &s->thread);
        s->threaded = err == PSR_OK;
    }
    if (err != PSR_OK) {
        end_stream(s);
        return err;
    }
    *ret_stream = s;
    return PSR_OK;
}

/* What it was given is still carried out, as CUDA does, and nobody waits for it: so whoever frees
 * memory too early meets it there. The device's end ends the stream. */
void psr_emulator_stream_free(psr_cuda_stream *stream)
{
    if (stream == NULL)
        return;
    psr_cuda_device *device = stream->made.device;
    pthread_mutex_lock(&device->lock);
    if (stream->recording != NULL)
        psr_emulator_fault("a stream is freed while it records");
    stream->closing = true;
    pthread_cond_broadcast(&device->moved);
    pthread_mutex_unlock(&device->lock);
}

psr_err psr_emulator_stream_synchronize(psr_cuda_stream *stream)
{
    psr_cuda_device *device = stream->made.device;
    pthread_mutex_lock(&device->lock);
    psr_err err = PSR_OK;
    if (stream->recording != NULL)
        err = psr_fail(PSR_ERR_COMPUTE, "a stream that records cannot be waited for");
    while (err == PSR_OK && stream->first != NULL) {
        if (stream->threaded)
            pthread_cond_wait(&device->moved, &device->lock);
        else
            move_towards(stream);
    }
    if (err == PSR_OK)
        err = psr_emulator_failed(device);
    pthread_mutex_unlock(&device->lock);
    return err;
}

static psr_cuda_stream *that_sums(psr_cuda_device *device, const psr_cuda_group *group)
{
    for (psr_cuda_stream *s = device->streams; s != NULL; s = s->next)
        for (const psr_emulator_order *o = s->first; o != NULL; o = o->next)
            if (o->kind == PSR_EMULATOR_SUM && o->of.sum.group == group)
                return s;
    return NULL;
}

void psr_emulator_finish_sums(psr_cuda_device *device, const psr_cuda_group *group)
{
    pthread_mutex_lock(&device->lock);
    for (psr_cuda_stream *s; (s = that_sums(device, group)) != NULL;) {
        if (s->threaded)
            pthread_cond_wait(&device->moved, &device->lock);
        else
            move_towards(s);
    }
    pthread_mutex_unlock(&device->lock);
}

/* ---- events ---- */

static void free_event(void *object)
{
    psr_emulator_event_free(object);
}

psr_err psr_emulator_event_new(psr_cuda_device *device, psr_cuda_event **ret_event)
{
    psr_cuda_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for an event");
    psr_emulator_keep(device, PSR_EMULATOR_EVENT, &event->made, free_event);
    *ret_event = event;
    return PSR_OK;
}

psr_err psr_emulator_event_new_timed(psr_cuda_device *device, psr_cuda_event **ret_event)
{
    PSR_TRY(psr_emulator_event_new(device, ret_event));
    (*ret_event)->timed = true;
    return PSR_OK;
}

void psr_emulator_event_free(psr_cuda_event *event)
{
    if (event == NULL)
        return;
    psr_cuda_device *device = event->made.device;
    pthread_mutex_lock(&device->lock);
    psr_emulator_mark_drop(event->mark);
    pthread_mutex_unlock(&device->lock);
    psr_emulator_forget(&event->made);
    free(event);
}

psr_err psr_emulator_event_record(psr_cuda_event *event, psr_cuda_stream *stream)
{
    psr_cuda_device *device = stream->made.device;
    psr_emulator_mark *mark = mark_new(stream);
    pthread_mutex_lock(&device->lock);
    if (stream->recording != NULL) {
        mark->recording = stream->recording->number;
        mark->lane = stream->lane;
        mark->index = stream->recording->marks++;
    }
    psr_emulator_mark_drop(event->mark);
    event->mark = mark;
    psr_emulator_order *order = order_of(PSR_EMULATOR_RECORD, mark);
    pthread_mutex_unlock(&device->lock);
    return psr_emulator_give(stream, order);
}

/* A stream that waits for a recorded mark joins the recording. Locked. */
static psr_err join_recording(psr_cuda_stream *stream, const psr_emulator_mark *mark)
{
    if (stream->recording != NULL) {
        if (stream->recording->number != mark->recording)
            return psr_fail(PSR_ERR_COMPUTE, "a stream that records waits for an event that was "
                                             "recorded outside of it");
        return PSR_OK;
    }
    if (mark->recording == 0)
        return PSR_OK;
    psr_cuda_recording *recording = NULL;
    for (psr_cuda_stream *s = stream->made.device->streams; s != NULL; s = s->next)
        if (s->recording != NULL && s->recording->number == mark->recording)
            recording = s->recording;
    if (recording == NULL)
        return psr_fail(PSR_ERR_COMPUTE,
                        "a stream waits for an event of a recording that has ended");
    stream->recording = recording;
    stream->lane = recording->lanes++;
    return PSR_OK;
}

psr_err psr_emulator_stream_wait(psr_cuda_stream *stream, psr_cuda_event *event)
{
    psr_cuda_device *device = stream->made.device;
    pthread_mutex_lock(&device->lock);
    psr_emulator_order *order = NULL;
    psr_err err = psr_emulator_failed(device);
    if (err == PSR_OK && event->mark != NULL) {
        err = join_recording(stream, event->mark);
        order = err == PSR_OK ? order_of(PSR_EMULATOR_WAIT, event->mark) : NULL;
    }
    pthread_mutex_unlock(&device->lock);
    return order != NULL ? psr_emulator_give(stream, order) : err;
}

static psr_err refuse_recorded(const psr_emulator_mark *mark)
{
    if (mark->recording != 0)
        return psr_fail(PSR_ERR_COMPUTE, "the host asks for an event that was recorded into a "
                                         "recording");
    return PSR_OK;
}

/* Lazy: a device moves on by itself, so who asks again and again has to see that some day: of what
 * the mark waits for, or of anything when it has passed. */
static void move_when_asked(psr_cuda_device *device, const psr_emulator_mark *mark)
{
    if (device->settings.streams != PSR_EMULATOR_LAZY)
        return;
    if (mark != NULL && !mark->passed) {
        psr_cuda_stream *mover = that_blocks(mark->stream);
        if (can_move(mover))
            move(mover);
        return;
    }
    for (psr_cuda_stream *s = device->streams; s != NULL; s = s->next)
        if (can_move(s)) {
            move(s);
            return;
        }
}

psr_err psr_emulator_event_passed(psr_cuda_event *event, bool *ret_passed)
{
    psr_cuda_device *device = event->made.device;
    pthread_mutex_lock(&device->lock);
    const psr_emulator_mark *mark = event->mark;
    psr_err err = mark != NULL ? refuse_recorded(mark) : PSR_OK;
    if (err == PSR_OK)
        err = psr_emulator_failed(device);
    if (err == PSR_OK) {
        *ret_passed = mark == NULL || mark->passed;
        move_when_asked(device, mark);
    }
    pthread_mutex_unlock(&device->lock);
    return err;
}

psr_err psr_emulator_event_synchronize(psr_cuda_event *event)
{
    psr_cuda_device *device = event->made.device;
    pthread_mutex_lock(&device->lock);
    psr_emulator_mark *mark = event->mark;
    psr_err err = mark != NULL ? refuse_recorded(mark) : PSR_OK;
    if (mark != NULL)
        mark->references++;
    while (err == PSR_OK && mark != NULL && !mark->passed) {
        if (mark->stream->threaded)
            pthread_cond_wait(&device->moved, &device->lock);
        else
            move_towards(mark->stream);
    }
    psr_emulator_mark_drop(mark);
    if (err == PSR_OK)
        err = psr_emulator_failed(device);
    pthread_mutex_unlock(&device->lock);
    return err;
}

/* Locked. */
static psr_err check_timed(const psr_cuda_event *event)
{
    if (!event->timed)
        return psr_fail(PSR_ERR_COMPUTE, "the host asks for the time of an event without times");
    if (event->mark != NULL)
        PSR_TRY(refuse_recorded(event->mark));
    if (event->mark == NULL || !event->mark->passed)
        return psr_fail(PSR_ERR_COMPUTE, "the host asks for the time of an event that has not "
                                         "passed");
    return PSR_OK;
}

psr_err psr_emulator_event_elapsed(psr_cuda_event *from, psr_cuda_event *to, int64_t *ret_ns)
{
    psr_cuda_device *device = from->made.device;
    pthread_mutex_lock(&device->lock);
    psr_err err = psr_emulator_failed(device);
    if (err == PSR_OK && to->made.device != device)
        err = psr_fail(PSR_ERR_COMPUTE, "the host asks for the time between two devices' events");
    if (err == PSR_OK)
        err = check_timed(from);
    if (err == PSR_OK)
        err = check_timed(to);
    if (err == PSR_OK)
        *ret_ns = to->mark->passed_ns - from->mark->passed_ns;
    pthread_mutex_unlock(&device->lock);
    return err;
}
