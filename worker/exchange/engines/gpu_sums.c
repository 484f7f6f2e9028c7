#include "worker/exchange/engines/gpu_sums.h"

#include "base/clock.h"
#include "base/system/thread.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1024 };

typedef struct sum {
    uint32_t number;
    size_t first, count;
} sum;

struct psr_gpu_sums {
    psr_gpu_sums_options options;
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    pthread_t thread;

    /* ---- under the mutex ---- */
    pthread_mutex_t mutex;
    pthread_cond_t condition; /* a sum was started or has passed, or the thread shall end */
    sum *asked;               /* [most], in order: those that the thread has not taken */
    uint32_t asked_count;
    uint32_t passed; /* sums that the stream is through with, and the thread has not taken */
    uint32_t *ended; /* [most] numbers, in order: those that psr_gpu_sums_take has not told */
    uint32_t ended_count;
    uint32_t under_way;     /* sums that were started and whose end was not returned yet */
    bool quit, group_ended; /* the owner has ended the group during a call on it */
    psr_err status;         /* for good */
    char failure[LINE_MAX_BYTES];

    /* Held during calls on the group. It is NULL before and after. */
    pthread_mutex_t calls;
    psr_cuda_group *group;

    /* ---- the thread's own ---- */
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    float *on_device, *pinned; /* [length]: as the arena lies; NULL with the options' on_device */
    sum *ordered;              /* [most], in order: on the stream */
    uint32_t ordered_count;
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
    pthread_mutex_lock(&sums->mutex);
    sums->passed++;
    pthread_cond_signal(&sums->condition);
    pthread_mutex_unlock(&sums->mutex);
}

/* After calls on the group. */
static void leave_calls(psr_gpu_sums *sums)
{
    pthread_mutex_lock(&sums->mutex);
    if (sums->group_ended)
        sums->group = NULL;
    pthread_mutex_unlock(&sums->mutex);
    pthread_mutex_unlock(&sums->calls);
}

static psr_err sum_on_device(psr_gpu_sums *sums, const sum *s, float *on_device)
{
    pthread_mutex_lock(&sums->calls);
    const psr_err err = sums->group != NULL
                            ? sums->options.api->group_sum(sums->group, sums->stream,
                                                           on_device + s->first, s->count)
                            : psr_fail(PSR_ERR_COMPUTE, "the group was ended");
    sums->group_failed = err != PSR_OK;
    leave_calls(sums);
    return err;
}

/* To the device, and back. */
static psr_err order_copied(psr_gpu_sums *sums, const sum *s)
{
    const psr_cuda_api *api = sums->options.api;
    const size_t bytes = s->count * sizeof(float);
    float *pinned = sums->pinned + s->first, *on_device = sums->on_device + s->first;
    memcpy(pinned, sums->options.arena + s->first, bytes);
    PSR_TRY(api->copy(sums->stream, on_device, pinned, bytes));
    PSR_TRY(sum_on_device(sums, s, sums->on_device));
    return api->copy(sums->stream, pinned, on_device, bytes);
}

static psr_err order(psr_gpu_sums *sums, const sum *s)
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

/* Under the mutex. Once the owner has let go it hears no more. */
static void tell_owner(const psr_gpu_sums *sums)
{
    if (!sums->quit)
        sums->options.changed(sums->options.context);
}

static psr_err take_passed(psr_gpu_sums *sums, uint32_t count)
{
    PSR_TRY(check(sums));
    for (uint32_t i = 0; i < count && sums->options.on_device == NULL; i++) {
        const sum *s = &sums->ordered[i];
        memcpy(sums->options.arena + s->first, sums->pinned + s->first, s->count * sizeof(float));
    }
    pthread_mutex_lock(&sums->mutex);
    for (uint32_t i = 0; i < count; i++)
        sums->ended[sums->ended_count++] = sums->ordered[i].number;
    tell_owner(sums);
    pthread_mutex_unlock(&sums->mutex);
    sums->ordered_count -= count;
    memmove(sums->ordered, sums->ordered + count, sums->ordered_count * sizeof *sums->ordered);
    return PSR_OK;
}

/* What was asked for comes to *ret_asked [most]. false: it ends. */
static bool wait_for_work(psr_gpu_sums *sums, sum *ret_asked, uint32_t *ret_count,
                          uint32_t *ret_passed)
{
    pthread_mutex_lock(&sums->mutex);
    while (!sums->quit && sums->asked_count == 0 && sums->passed == 0)
        pthread_cond_wait(&sums->condition, &sums->mutex);
    const bool goes_on = !sums->quit;
    *ret_count = sums->asked_count;
    *ret_passed = sums->passed;
    memcpy(ret_asked, sums->asked, sums->asked_count * sizeof *ret_asked);
    sums->asked_count = sums->passed = 0;
    pthread_mutex_unlock(&sums->mutex);
    return goes_on;
}

static psr_err work(psr_gpu_sums *sums, sum *asked)
{
    uint32_t count = 0, passed = 0;
    PSR_TRY(open_device(sums));
    PSR_TRY(join(sums));
    while (wait_for_work(sums, asked, &count, &passed)) {
        for (uint32_t i = 0; i < count; i++)
            PSR_TRY(order(sums, &asked[i]));
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
    pthread_mutex_lock(&sums->mutex);
    while (!sums->quit &&
           pthread_cond_clockwait(&sums->condition, &sums->mutex, CLOCK_MONOTONIC, &until) == 0)
        continue;
    pthread_mutex_unlock(&sums->mutex);
}

static void *run_thread(void *context)
{
    psr_gpu_sums *sums = context;
    sum *asked = calloc(sums->options.most, sizeof *asked);
    const psr_err err =
        asked != NULL ? work(sums, asked) : psr_fail(PSR_ERR_NOMEM, "no memory for sums on a GPU");
    free(asked);
    if (err != PSR_OK) {
        keep_back(sums);
        pthread_mutex_lock(&sums->mutex);
        snprintf(sums->failure, sizeof sums->failure, "--mode nccl: %.900s", psr_err_detail());
        sums->status = err;
        tell_owner(sums);
        pthread_mutex_unlock(&sums->mutex);
    }
    close_device(sums);
    return NULL;
}

/* ---- the owner's ---- */

psr_err psr_gpu_sums_start(psr_gpu_sums *sums, uint32_t number, size_t first, size_t count)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&sums->mutex);
    if (sums->under_way == sums->options.most) {
        err = psr_fail(PSR_ERR_USAGE, "%" PRIu32 " sums are under way already", sums->under_way);
    } else {
        sums->under_way++;
        sums->asked[sums->asked_count++] = (sum){number, first, count};
        pthread_cond_signal(&sums->condition);
    }
    pthread_mutex_unlock(&sums->mutex);
    return err;
}

psr_err psr_gpu_sums_take(psr_gpu_sums *sums, bool *ret_any, uint32_t *ret_number)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&sums->mutex);
    *ret_any = sums->ended_count > 0;
    if (*ret_any) {
        *ret_number = sums->ended[0];
        sums->ended_count--;
        sums->under_way--;
        memmove(sums->ended, sums->ended + 1, sums->ended_count * sizeof *sums->ended);
    } else if (sums->status != PSR_OK) {
        err = psr_fail(sums->status, "%s", sums->failure);
    }
    pthread_mutex_unlock(&sums->mutex);
    return err;
}

/* ---- life ---- */

static psr_err make_room(psr_gpu_sums *sums)
{
    const size_t most = sums->options.most;
    sums->asked = calloc(most, sizeof *sums->asked);
    sums->ended = calloc(most, sizeof *sums->ended);
    sums->ordered = calloc(most, sizeof *sums->ordered);
    if (sums->asked == NULL || sums->ended == NULL || sums->ordered == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu sums", most);
    return PSR_OK;
}

static void give_back(psr_gpu_sums *sums)
{
    pthread_cond_destroy(&sums->condition);
    pthread_mutex_destroy(&sums->mutex);
    pthread_mutex_destroy(&sums->calls);
    free(sums->asked);
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
    pthread_mutex_init(&sums->mutex, NULL);
    pthread_mutex_init(&sums->calls, NULL);
    pthread_cond_init(&sums->condition, NULL);
    psr_err err = make_room(sums);
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
    pthread_mutex_lock(&sums->mutex);
    sums->group_ended = true;
    pthread_mutex_unlock(&sums->mutex);
    sums->options.api->group_end(sums->group);
}

void psr_gpu_sums_free(psr_gpu_sums *sums, int linger_ms)
{
    if (sums == NULL)
        return;
    pthread_mutex_lock(&sums->mutex);
    sums->quit = true;
    pthread_cond_signal(&sums->condition);
    pthread_mutex_unlock(&sums->mutex);
    struct timespec until = psr_clock_after_ns((int64_t)linger_ms * 1000000);
    end_calls(sums, &until);
    until = psr_clock_after_ns((int64_t)linger_ms * 1000000);
    if (pthread_clockjoin_np(sums->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        give_back(sums);
    else
        pthread_detach(sums->thread);
}
