#include "worker/exchange/engines/gpu_sums.h"

#include "base/clock.h"
#include "base/system/thread.h"
#include "worker/exchange/engines/sum_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct psr_gpu_sums {
    psr_gpu_sums_options options;
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    pthread_t thread;

    psr_sum_queue queue; /* its condition: also that a sum has passed */

    /* ---- under the queue's mutex ---- */
    uint32_t passed;  /* sums that the stream is through with, and the thread has not taken */
    bool group_ended; /* the owner has ended the group during a call on it */

    /* Held during calls on the group. It is NULL before and after. */
    pthread_mutex_t calls;
    psr_cuda_group *group;

    /* ---- the thread's own ---- */
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    float *on_device, *pinned; /* [length]: as the arena lies; NULL with the options' on_device */
    psr_started_sum *ordered;  /* [most], in order: on the stream */
    uint32_t ordered_count;
    uint32_t *ended;   /* [most]: numbers of the sums that have passed at once */
    bool group_failed; /* what failed was a call on the group */
};

/* ---- the thread ---- */

static psr_err open_device(psr_gpu_sums *sums)
{
    const psr_gpu_sums_options *o = &sums->options;
    const psr_cuda_api *api = o->api;
    const size_t bytes = o->length * sizeof(float);
    uint32_t count = 0, index = o->device;
    if (o->shares_devices) {
        PSR_TRY(api->device_count(&count));
        index %= count;
    }
    PSR_TRY(api->device_open(index, &sums->device));
    PSR_TRY(api->stream_new(sums->device, &sums->stream));
    if (o->on_device != NULL)
        return PSR_OK;
    PSR_TRY(api->memory_new(sums->device, bytes, (void **)&sums->on_device));
    return api->pinned_new(sums->device, bytes, (void **)&sums->pinned);
}

static psr_err join(psr_gpu_sums *sums)
{
    const psr_gpu_sums_options *o = &sums->options;
    psr_cuda_group *group = NULL;
    const psr_err err =
        o->api->group_join(sums->device, sums->id, o->processes, o->process, &group);
    sums->group_failed = err != PSR_OK;
    PSR_TRY(err);
    pthread_mutex_lock(&sums->calls);
    sums->group = group;
    pthread_mutex_unlock(&sums->calls);
    return PSR_OK;
}

/* Called by a thread of the table's, in the order of the sums. */
static void stream_came(void *context)
{
    psr_gpu_sums *sums = context;
    pthread_mutex_lock(&sums->queue.mutex);
    sums->passed++;
    pthread_cond_signal(&sums->queue.condition);
    pthread_mutex_unlock(&sums->queue.mutex);
}

/* After calls on the group. */
static void leave_calls(psr_gpu_sums *sums)
{
    pthread_mutex_lock(&sums->queue.mutex);
    if (sums->group_ended)
        sums->group = NULL;
    pthread_mutex_unlock(&sums->queue.mutex);
    pthread_mutex_unlock(&sums->calls);
}

static psr_err sum_on_device(psr_gpu_sums *sums, const psr_started_sum *s, float *on_device)
{
    pthread_mutex_lock(&sums->calls);
    const psr_err err =
        sums->group != NULL
            ? sums->options.api->group_sum(sums->group, sums->stream, on_device + s->span.offset,
                                           s->span.count)
            : psr_fail(PSR_ERR_COMPUTE, "the group was ended");
    sums->group_failed = err != PSR_OK;
    leave_calls(sums);
    return err;
}

/* To the device, and back. */
static psr_err order_copied(psr_gpu_sums *sums, const psr_started_sum *s)
{
    const psr_cuda_api *api = sums->options.api;
    const size_t bytes = s->span.count * sizeof(float);
    float *pinned = sums->pinned + s->span.offset, *on_device = sums->on_device + s->span.offset;
    memcpy(pinned, sums->options.arena + s->span.offset, bytes);
    PSR_TRY(api->copy(sums->stream, on_device, pinned, bytes));
    PSR_TRY(sum_on_device(sums, s, sums->on_device));
    return api->copy(sums->stream, pinned, on_device, bytes);
}

static psr_err order(psr_gpu_sums *sums, const psr_started_sum *s)
{
    const psr_gpu_sums_options *o = &sums->options;
    PSR_TRY(o->on_device != NULL ? sum_on_device(sums, s, *o->on_device) : order_copied(sums, s));
    PSR_TRY(o->api->call_host(sums->stream, stream_came, sums));
    sums->ordered[sums->ordered_count++] = *s;
    return PSR_OK;
}

/* What failed on the device, or in another process, passes too. */
static psr_err check(psr_gpu_sums *sums)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&sums->calls);
    if (sums->group != NULL)
        err = sums->options.api->group_check(sums->group);
    sums->group_failed = err != PSR_OK;
    leave_calls(sums);
    return err == PSR_OK ? sums->options.api->device_check(sums->device) : err;
}

static psr_err take_passed(psr_gpu_sums *sums, uint32_t count)
{
    PSR_TRY(check(sums));
    for (uint32_t i = 0; i < count && sums->options.on_device == NULL; i++) {
        const psr_started_sum *s = &sums->ordered[i];
        memcpy(sums->options.arena + s->span.offset, sums->pinned + s->span.offset,
               s->span.count * sizeof(float));
    }
    for (uint32_t i = 0; i < count; i++)
        sums->ended[i] = sums->ordered[i].number;
    psr_sum_queue_end(&sums->queue, sums->ended, count);
    sums->ordered_count -= count;
    memmove(sums->ordered, sums->ordered + count, sums->ordered_count * sizeof *sums->ordered);
    return PSR_OK;
}

/* What was started comes to *ret_started [most]. false: it ends. */
static bool wait_for_work(psr_gpu_sums *sums, psr_started_sum *ret_started, uint32_t *ret_count,
                          uint32_t *ret_passed)
{
    psr_sum_queue *queue = &sums->queue;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->quit && queue->started_count == 0 && sums->passed == 0)
        pthread_cond_wait(&queue->condition, &queue->mutex);
    const bool goes_on = !queue->quit;
    *ret_count = psr_sum_queue_take_started(queue, ret_started);
    *ret_passed = sums->passed;
    sums->passed = 0;
    pthread_mutex_unlock(&queue->mutex);
    return goes_on;
}

static psr_err work(psr_gpu_sums *sums, psr_started_sum *started)
{
    uint32_t count = 0, passed = 0;
    PSR_TRY(open_device(sums));
    PSR_TRY(join(sums));
    while (wait_for_work(sums, started, &count, &passed)) {
        for (uint32_t i = 0; i < count; i++)
            PSR_TRY(order(sums, &started[i]));
        if (passed > 0)
            PSR_TRY(take_passed(sums, passed));
    }
    return PSR_OK;
}

static void end_group(psr_gpu_sums *sums)
{
    sums->options.api->group_end(sums->group);
    sums->group = NULL;
}

static void close_device(psr_gpu_sums *sums)
{
    pthread_mutex_lock(&sums->calls);
    end_group(sums); /* first: else a sum might wait for others for ever */
    pthread_mutex_unlock(&sums->calls);
    if (sums->stream != NULL)
        (void)sums->options.api->stream_synchronize(sums->stream); /* stream_came is over */
    sums->options.api->device_close(sums->device);
}

/* Until the owner ends the sums, since it has heard who was lost; or this failure is the first. A
 * device that failed by itself is told at once. The detail is kept. */
static void keep_back(psr_gpu_sums *sums)
{
    char detail[PSR_ERR_DETAIL_BYTES];
    psr_err_detail_keep(detail);
    const bool others =
        sums->group_failed && sums->options.api->device_check(sums->device) == PSR_OK;
    psr_err_detail_restore(detail);
    if (!others)
        return;
    const struct timespec until = psr_clock_after_ns((int64_t)sums->options.patience_ms * 1000000);
    pthread_mutex_lock(&sums->queue.mutex);
    while (!sums->queue.quit && pthread_cond_clockwait(&sums->queue.condition, &sums->queue.mutex,
                                                       CLOCK_MONOTONIC, &until) == 0)
        continue;
    pthread_mutex_unlock(&sums->queue.mutex);
}

static void *run_thread(void *context)
{
    psr_gpu_sums *sums = context;
    psr_started_sum *started = calloc(sums->options.most, sizeof *started);
    const psr_err err = started != NULL ? work(sums, started)
                                        : psr_fail(PSR_ERR_NOMEM, "no memory for sums on a GPU");
    free(started);
    if (err != PSR_OK) {
        char line[PSR_SUM_FAILURE_MAX];
        keep_back(sums);
        snprintf(line, sizeof line, "--mode nccl: %.900s", psr_err_detail());
        psr_sum_queue_fail(&sums->queue, err, line);
    }
    close_device(sums);
    return NULL;
}

/* ---- the owner's ---- */

psr_err psr_gpu_sums_start(psr_gpu_sums *sums, uint32_t number, size_t first, size_t count)
{
    return psr_sum_queue_start(&sums->queue, (psr_started_sum){number, NULL, {first, count}});
}

psr_err psr_gpu_sums_take(psr_gpu_sums *sums, bool *ret_any, uint32_t *ret_number)
{
    return psr_sum_queue_take(&sums->queue, ret_any, ret_number);
}

/* ---- life ---- */

static psr_err make_room(psr_gpu_sums *sums)
{
    const size_t most = sums->options.most;
    sums->ended = calloc(most, sizeof *sums->ended);
    sums->ordered = calloc(most, sizeof *sums->ordered);
    if (sums->ended == NULL || sums->ordered == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu sums", most);
    return PSR_OK;
}

static void give_back(psr_gpu_sums *sums)
{
    psr_sum_queue_done(&sums->queue);
    pthread_mutex_destroy(&sums->calls);
    free(sums->ended);
    free(sums->ordered);
    free(sums);
}

psr_err psr_gpu_sums_new(const psr_gpu_sums_options *options, psr_gpu_sums **ret_sums)
{
    psr_gpu_sums *sums = calloc(1, sizeof *sums);
    if (sums == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for sums");
    sums->options = *options;
    memcpy(sums->id, options->id, sizeof sums->id);
    pthread_mutex_init(&sums->calls, NULL);
    psr_err err =
        psr_sum_queue_init(&sums->queue, options->most, options->changed, options->context);
    if (err == PSR_OK)
        err = make_room(sums);
    if (err == PSR_OK)
        err = psr_thread_start("psr-nccl", run_thread, sums, &sums->thread);
    if (err != PSR_OK) {
        give_back(sums);
        return err;
    }
    *ret_sums = sums;
    return PSR_OK;
}

/* The thread may be within a call on the group that waits for others; then only the group's end
 * ends it, and it is within, so that ending is safe. */
static void end_calls(psr_gpu_sums *sums, const struct timespec *until)
{
    if (pthread_mutex_clocklock(&sums->calls, CLOCK_MONOTONIC, until) == 0) {
        end_group(sums);
        pthread_mutex_unlock(&sums->calls);
        return;
    }
    pthread_mutex_lock(&sums->queue.mutex);
    sums->group_ended = true;
    pthread_mutex_unlock(&sums->queue.mutex);
    sums->options.api->group_end(sums->group);
}

void psr_gpu_sums_free(psr_gpu_sums *sums, int linger_ms)
{
    if (sums == NULL)
        return;
    psr_sum_queue_quit(&sums->queue);
    struct timespec until = psr_clock_after_ns((int64_t)linger_ms * 1000000);
    end_calls(sums, &until);
    until = psr_clock_after_ns((int64_t)linger_ms * 1000000);
    if (pthread_clockjoin_np(sums->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        give_back(sums);
    else
        pthread_detach(sums->thread);
}
