/* A back end that finishes late, for workers of real runs: it is linked into psring-worker in the
 * place of the one that computes (the linker's --wrap). The real back end computes the gradients
 * into memory beside the arena. A bucket is reported with a fence while its part of the arena holds
 * no numbers. Threads of their own, the device, copy the gradient into the arena some time later,
 * in no particular order, and pass the fence.
 *
 * Whoever reads a gradient before its fence has passed finds NaNs; whoever writes the bucket's
 * weights before that is told so, and ends. */
#include "model/backend.h"

#include "base/system/thread.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS = 2,
    LONGEST_TURNS = 500 /* a piece of work takes so many times what it takes to let others run */
};

typedef struct work {
    psr_fence fence;
    bool ordered, taken, passed;
    float *gradients; /* the arena that it writes */
    const float *weights;
    void (*told)(void *context); /* NULL: nobody has asked */
    void *context;
} work;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool ends;
    const psr_buckets *buckets;
    const psr_layout *layout;
    work *works;        /* [buckets] */
    float *shadow;      /* arena: what the real back end writes */
    float *read;        /* arena: the weights that the work was ordered with */
    uint32_t last_draw; /* how long pieces of work take: a sequence of its own */
    pthread_t threads[THREADS];
} device = {.mutex = PTHREAD_MUTEX_INITIALIZER, .condition = PTHREAD_COND_INITIALIZER};

psr_err __real_psr_backend_new(const psr_network *net, const psr_backend_options *options,
                               psr_backend **ret_backend);
psr_err __wrap_psr_backend_new(const psr_network *net, const psr_backend_options *options,
                               psr_backend **ret_backend);
void __real_psr_backend_free(psr_backend *backend);
void __wrap_psr_backend_free(psr_backend *backend);
psr_err __real_psr_backend_train(psr_backend *backend, const psr_batch *batch,
                                 const psr_exec_state *state, float loss_scale,
                                 const psr_exec_hooks *hooks, psr_pass_result *ret_result);
psr_err __wrap_psr_backend_train(psr_backend *backend, const psr_batch *batch,
                                 const psr_exec_state *state, float loss_scale,
                                 const psr_exec_hooks *hooks, psr_pass_result *ret_result);

/* ---- fences ---- */

static psr_err has_passed(psr_fence *fence, bool *ret_passed)
{
    pthread_mutex_lock(&device.mutex);
    *ret_passed = ((work *)fence)->passed;
    pthread_mutex_unlock(&device.mutex);
    return PSR_OK;
}

static void tell(psr_fence *fence, void (*told)(void *context), void *context)
{
    work *w = (work *)fence;
    pthread_mutex_lock(&device.mutex);
    const bool now = w->passed || device.ends;
    if (!now) {
        w->told = told;
        w->context = context;
    }
    pthread_mutex_unlock(&device.mutex);
    if (now)
        told(context);
}

static const psr_fence_ops late = {has_passed, tell};

/* Under the mutex, which it leaves for the call. */
static void tell_of(work *w)
{
    void (*told)(void *context) = w->told, *context = w->context;
    w->told = NULL;
    pthread_mutex_unlock(&device.mutex);
    if (told != NULL)
        told(context);
    pthread_mutex_lock(&device.mutex);
}

/* ---- the device ---- */

/* Runs of the bucket that are parameters: their padding is not the back end's to write. */
static size_t next_run(uint32_t bucket, size_t *tensor, size_t *ret_offset)
{
    const psr_bucket *b = &device.buckets->items[bucket];
    while (*tensor < device.layout->tensor_count) {
        const psr_tensor *t = &device.layout->tensors[(*tensor)++];
        size_t begin = t->offset > b->offset ? t->offset : b->offset;
        size_t end = t->offset + t->count < b->offset + b->length ? t->offset + t->count
                                                                  : b->offset + b->length;
        *ret_offset = begin;
        if (begin < end)
            return end - begin;
    }
    return 0;
}

static uint32_t draw(uint32_t below)
{
    device.last_draw = device.last_draw * 1664525u + 1013904223u;
    return (device.last_draw >> 8) % below;
}

static void write_gradient(const work *w, uint32_t bucket, uint32_t turns)
{
    size_t tensor = 0, offset = 0;
    for (uint32_t i = 0; i < turns; i++)
        sched_yield();
    for (size_t count; (count = next_run(bucket, &tensor, &offset)) > 0;) {
        if (memcmp(w->weights + offset, device.read + offset, count * sizeof(float)) != 0) {
            fprintf(stderr,
                    "late_device: the weights of bucket %u changed while the device read them\n",
                    bucket);
            abort();
        }
        memcpy(w->gradients + offset, device.shadow + offset, count * sizeof(float));
    }
}

/* Any of those that are ordered; NULL: there is none. */
static work *next_work(void)
{
    const uint32_t count = device.buckets->count, first = draw(count);
    for (uint32_t i = 0; i < count; i++) {
        work *w = &device.works[(first + i) % count];
        if (w->ordered && !w->taken)
            return w;
    }
    return NULL;
}

static void *run_device(void *unused)
{
    pthread_mutex_lock(&device.mutex);
    while (!device.ends) {
        work *w = next_work();
        if (w == NULL) {
            pthread_cond_wait(&device.condition, &device.mutex);
            continue;
        }
        const uint32_t turns = draw(LONGEST_TURNS);
        w->taken = true;
        pthread_mutex_unlock(&device.mutex);
        write_gradient(w, (uint32_t)(w - device.works), turns);
        pthread_mutex_lock(&device.mutex);
        w->ordered = false;
        w->passed = true;
        tell_of(w);
    }
    pthread_mutex_unlock(&device.mutex);
    return unused;
}

/* ---- in the place of the back end ---- */

psr_err __wrap_psr_backend_new(const psr_network *net, const psr_backend_options *options,
                               psr_backend **ret_backend)
{
    PSR_TRY(__real_psr_backend_new(net, options, ret_backend));
    device.buckets = options->buckets;
    device.layout = &net->params;
    device.works = calloc(options->buckets->count, sizeof *device.works);
    device.read = calloc(net->params.length, sizeof(float));
    /* As arenas are: the back end's kernels ask for it. */
    device.shadow = aligned_alloc(64, (net->params.length * sizeof(float) + 63) / 64 * 64);
    if (device.works == NULL || device.read == NULL || device.shadow == NULL)
        abort();
    memset(device.shadow, 0, net->params.length * sizeof(float));
    for (uint32_t b = 0; b < options->buckets->count; b++)
        device.works[b].fence.ops = &late;
    for (int i = 0; i < THREADS; i++)
        PSR_TRY(psr_thread_start("late-device", run_device, NULL, &device.threads[i]));
    return PSR_OK;
}

/* Whoever has asked is told. */
void __wrap_psr_backend_free(psr_backend *backend)
{
    __real_psr_backend_free(backend);
    if (backend == NULL || device.works == NULL)
        return;
    pthread_mutex_lock(&device.mutex);
    device.ends = true;
    pthread_cond_broadcast(&device.condition);
    pthread_mutex_unlock(&device.mutex);
    for (int i = 0; i < THREADS; i++)
        pthread_join(device.threads[i], NULL);
    pthread_mutex_lock(&device.mutex);
    for (uint32_t b = 0; b < device.buckets->count; b++)
        tell_of(&device.works[b]);
    pthread_mutex_unlock(&device.mutex);
    free(device.works);
    free(device.read);
    free(device.shadow);
}

typedef struct pass {
    const psr_exec_hooks *hooks; /* the worker's */
    const psr_exec_state *state; /* likewise */
} pass;

static psr_err weights_wanted(void *context, uint32_t bucket)
{
    const psr_exec_hooks *hooks = ((pass *)context)->hooks;
    return hooks->weights_wanted(hooks->context, bucket);
}

static void progress(void *context)
{
    const psr_exec_hooks *hooks = ((pass *)context)->hooks;
    hooks->progress(hooks->context);
}

static psr_err gradient_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    const pass *p = context;
    work *w = &device.works[bucket];
    size_t tensor = 0, offset = 0;
    if (fence != NULL)
        abort(); /* the one that computes is this processor */
    for (size_t count; (count = next_run(bucket, &tensor, &offset)) > 0;) {
        for (size_t i = offset; i < offset + count; i++)
            p->state->gradients[i] = NAN;
        memcpy(device.read + offset, p->state->weights + offset, count * sizeof(float));
    }
    pthread_mutex_lock(&device.mutex);
    *w = (work){.fence = w->fence,
                .ordered = true,
                .gradients = p->state->gradients,
                .weights = p->state->weights};
    pthread_cond_signal(&device.condition);
    pthread_mutex_unlock(&device.mutex);
    return p->hooks->gradient_ready(p->hooks->context, bucket, &w->fence);
}

psr_err __wrap_psr_backend_train(psr_backend *backend, const psr_batch *batch,
                                 const psr_exec_state *state, float loss_scale,
                                 const psr_exec_hooks *hooks, psr_pass_result *ret_result)
{
    pass p = {hooks, state};
    psr_exec_state beside = *state;
    beside.gradients = device.shadow;
    const psr_exec_hooks late_hooks = {.context = &p,
                                       .weights_wanted = weights_wanted,
                                       .gradient_ready = gradient_ready,
                                       .progress = progress};
    return __real_psr_backend_train(backend, batch, &beside, loss_scale, &late_hooks, ret_result);
}
