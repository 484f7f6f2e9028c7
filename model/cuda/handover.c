#include "model/cuda/handover.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Whom to tell. */
typedef struct listener {
    void (*told)(void *context);
    void *context;
} listener;

/* What the gradients of one node's buckets wait for. */
typedef struct node_fence {
    psr_fence fence;
    psr_cuda_handover *handover;
    uint32_t node;
    psr_cuda_event *event; /* recorded behind the copies; NULL: the node has no buckets */
    float *gradients;      /* where they go */
    pthread_mutex_t mutex;
    bool landed, ended;
    uint32_t buckets;    /* of the node, each of which somebody may ask for once a pass */
    listener *listeners; /* [buckets] */
    uint32_t listening;
} node_fence;

struct psr_cuda_handover {
    psr_cuda_handover_options o;
    psr_cuda_stream *leaving;
    psr_cuda_event *computed, *left;
    bool has_left;              /* left was recorded, behind the landing of a pass's gradients */
    float *weights, *gradients; /* pinned: params.length floats; weights: what comes, sums too */
    float factor;               /* of this pass's gradients */
    uint32_t *first_reader;     /* [buckets]: a node */
    node_fence *fences;         /* [node_count] */
};

/* ---- which node has which buckets ---- */

static bool reads(const psr_layout *layout, uint32_t tensor, const psr_bucket *b)
{
    if (tensor == PSR_NONE)
        return false;
    const psr_tensor *t = &layout->tensors[tensor];
    return t->offset < b->offset + b->length && b->offset < t->offset + t->count;
}

static uint32_t first_reader(const psr_network *net, const psr_bucket *bucket)
{
    for (uint32_t i = 0; i < net->node_count; i++)
        if (reads(&net->params, net->nodes[i].weight, bucket) ||
            reads(&net->params, net->nodes[i].bias, bucket))
            return i;
    return PSR_NONE;
}

/* ---- fences ---- */

/* The values are there; or the device has failed, as its event knows. */
static psr_err has_passed(psr_fence *fence, bool *ret_passed)
{
    node_fence *f = (node_fence *)fence;
    pthread_mutex_lock(&f->mutex);
    const bool landed = f->landed;
    pthread_mutex_unlock(&f->mutex);
    bool passed;
    PSR_TRY(f->handover->o.api->event_passed(f->event, &passed));
    *ret_passed = landed && passed;
    return PSR_OK;
}

static void tell(psr_fence *fence, void (*told)(void *context), void *context)
{
    node_fence *f = (node_fence *)fence;
    pthread_mutex_lock(&f->mutex);
    const bool now = f->landed || f->ended;
    assert(now || f->listening < f->buckets);
    if (!now)
        f->listeners[f->listening++] = (listener){told, context};
    pthread_mutex_unlock(&f->mutex);
    if (now)
        told(context);
}

static const psr_fence_ops ops = {has_passed, tell};

static void pass_fence(node_fence *f, bool landed)
{
    pthread_mutex_lock(&f->mutex);
    f->landed = f->landed || landed;
    f->ended = !landed;
    const uint32_t count = f->listening;
    f->listening = 0; /* nobody else comes: who asks from now on is told at once */
    pthread_mutex_unlock(&f->mutex);
    for (uint32_t i = 0; i < count; i++)
        f->listeners[i].told(f->listeners[i].context);
}

static void land_run(const psr_cuda_handover *h, size_t begin, size_t end, float *gradients)
{
    if (h->factor == 1)
        memcpy(gradients + begin, h->gradients + begin, (end - begin) * sizeof(float));
    else
        for (size_t i = begin; i < end; i++)
            gradients[i] = h->gradients[i] * h->factor;
}

/* The padding between tensors is not ours to write. */
static void land_bucket(const psr_cuda_handover *h, const psr_bucket *bucket, float *gradients)
{
    const psr_layout *layout = &h->o.net->params;
    const size_t bucket_end = bucket->offset + bucket->length;
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const psr_tensor *t = &layout->tensors[i];
        const size_t begin = t->offset > bucket->offset ? t->offset : bucket->offset,
                     end = t->offset + t->count < bucket_end ? t->offset + t->count : bucket_end;
        if (begin < end)
            land_run(h, begin, end, gradients);
    }
}

/* On a thread of the device's: the copies into pinned memory are done, or there are none. */
static void land(void *context)
{
    node_fence *f = context;
    const psr_cuda_handover *h = f->handover;
    for (uint32_t b = 0; b < h->o.buckets->count && !h->o.keeps_gradients; b++)
        if (h->first_reader[b] == f->node && !h->o.buckets->items[b].frozen)
            land_bucket(h, &h->o.buckets->items[b], f->gradients);
    pass_fence(f, true);
}

/* ---- the life ---- */

static psr_err open_fence(psr_cuda_handover *h, node_fence *f)
{
    f->listeners = calloc(f->buckets, sizeof *f->listeners);
    if (f->listeners == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for fences");
    return h->o.api->event_new(h->o.device, &f->event);
}

static psr_err open_fences(psr_cuda_handover *h)
{
    const psr_network *net = h->o.net;
    h->first_reader = calloc(h->o.buckets->count + 1, sizeof *h->first_reader);
    if (h->first_reader != NULL)
        h->fences = calloc(net->node_count, sizeof *h->fences);
    if (h->fences == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for %u buckets", h->o.buckets->count);
    for (uint32_t i = 0; i < net->node_count; i++) {
        h->fences[i] = (node_fence){.fence = {&ops}, .handover = h, .node = i, .landed = true};
        pthread_mutex_init(&h->fences[i].mutex, NULL);
    }
    for (uint32_t b = 0; b < h->o.buckets->count; b++) {
        const uint32_t node = h->first_reader[b] = first_reader(net, &h->o.buckets->items[b]);
        if (node != PSR_NONE && !h->o.buckets->items[b].frozen)
            h->fences[node].buckets++;
    }
    for (uint32_t i = 0; i < net->node_count; i++)
        if (h->fences[i].buckets > 0)
            PSR_TRY(open_fence(h, &h->fences[i]));
    return PSR_OK;
}

static psr_err open_all(psr_cuda_handover *h)
{
    const psr_cuda_api *api = h->o.api;
    const size_t bytes = h->o.net->params.length * sizeof(float);
    PSR_TRY(open_fences(h));
    PSR_TRY(api->stream_new(h->o.device, &h->leaving));
    PSR_TRY(api->event_new(h->o.device, &h->computed));
    PSR_TRY(api->event_new(h->o.device, &h->left));
    PSR_TRY(api->pinned_new(h->o.device, bytes, (void **)&h->weights));
    return h->o.keeps_gradients ? PSR_OK
                                : api->pinned_new(h->o.device, bytes, (void **)&h->gradients);
}

psr_err psr_cuda_handover_new(const psr_cuda_handover_options *options,
                              psr_cuda_handover **ret_handover)
{
    psr_cuda_handover *h = calloc(1, sizeof *h);
    if (h == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory");
    h->o = *options;
    const psr_err err = open_all(h);
    if (err != PSR_OK) {
        psr_cuda_handover_free(h);
        return err;
    }
    *ret_handover = h;
    return PSR_OK;
}

/* When the device has failed, its thread may come late or never: the streams' end ends that. */
static void close_streams(psr_cuda_handover *h)
{
    const psr_cuda_api *api = h->o.api;
    char detail[PSR_ERR_DETAIL_BYTES];
    if (h->leaving == NULL)
        return;
    psr_err_detail_keep(detail);
    if (psr_cuda_handover_finish(h) != PSR_OK)
        psr_err_detail_restore(detail);
    api->stream_free(h->leaving);
}

void psr_cuda_handover_free(psr_cuda_handover *handover)
{
    if (handover == NULL)
        return;
    const psr_cuda_api *api = handover->o.api;
    close_streams(handover);
    for (uint32_t i = 0; handover->fences != NULL && i < handover->o.net->node_count; i++) {
        node_fence *f = &handover->fences[i];
        pass_fence(f, false);
        if (f->event != NULL)
            api->event_free(f->event);
        free(f->listeners);
        pthread_mutex_destroy(&f->mutex);
    }
    if (handover->computed != NULL)
        api->event_free(handover->computed);
    if (handover->left != NULL)
        api->event_free(handover->left);
    if (handover->weights != NULL)
        api->pinned_free(handover->o.device, handover->weights);
    if (handover->gradients != NULL)
        api->pinned_free(handover->o.device, handover->gradients);
    free(handover->fences);
    free(handover->first_reader);
    free(handover);
}

/* ---- in a pass ---- */

bool psr_cuda_handover_has_buckets(const psr_cuda_handover *handover, uint32_t node)
{
    for (uint32_t b = 0; b < handover->o.buckets->count; b++)
        if (handover->first_reader[b] == node)
            return true;
    return false;
}

/* Into one of the device's arenas, from an arena of the host's. */
static psr_err bring(const psr_cuda_handover *h, uint32_t b, float *to, const float *from)
{
    const psr_bucket *bucket = &h->o.buckets->items[b];
    const size_t bytes = bucket->length * sizeof(float);
    memcpy(h->weights + bucket->offset, from + bucket->offset, bytes);
    return h->o.api->copy(h->o.computing, to + bucket->offset, h->weights + bucket->offset, bytes);
}

psr_err psr_cuda_handover_weights(psr_cuda_handover *h, uint32_t node, const float *weights)
{
    for (uint32_t b = h->o.buckets->count; b-- > 0;)
        if (h->first_reader[b] == node)
            PSR_TRY(bring(h, b, h->o.weights, weights));
    return PSR_OK;
}

static psr_err update(const psr_cuda_handover *h, uint32_t b, const psr_due_update *due)
{
    if (!psr_cuda_update_is_due(h->o.update, b, due->number))
        return PSR_OK;
    if (due->sums != NULL)
        PSR_TRY(bring(h, b, h->o.gradients, due->sums));
    return psr_cuda_update_bucket(h->o.update, b, due);
}

psr_err psr_cuda_handover_update(psr_cuda_handover *h, uint32_t node, const psr_due_update *due)
{
    for (uint32_t b = h->o.buckets->count; b-- > 0;)
        if (h->first_reader[b] == node)
            PSR_TRY(update(h, b, due));
    return PSR_OK;
}

psr_err psr_cuda_handover_update_all(psr_cuda_handover *h, const psr_due_update *due)
{
    for (uint32_t b = h->o.buckets->count; b-- > 0;)
        PSR_TRY(update(h, b, due));
    return PSR_OK;
}

static size_t arena_bytes(const psr_cuda_handover *h)
{
    return h->o.net->params.length * sizeof(float);
}

psr_err psr_cuda_handover_put(psr_cuda_handover *h, float *to, const float *values)
{
    memcpy(h->weights, values, arena_bytes(h));
    PSR_TRY(h->o.api->copy(h->o.computing, to, h->weights, arena_bytes(h)));
    return h->o.api->stream_synchronize(h->o.computing);
}

psr_err psr_cuda_handover_get(psr_cuda_handover *h, const float *from)
{
    return h->o.api->copy(h->o.computing, h->weights, from, arena_bytes(h));
}

void psr_cuda_handover_got(const psr_cuda_handover *h, float *ret_values)
{
    memcpy(ret_values, h->weights, arena_bytes(h));
}

/* Nothing of the pass before lands any more. */
psr_err psr_cuda_handover_begin_gradients(psr_cuda_handover *h, float factor)
{
    if (h->has_left)
        PSR_TRY(h->o.api->event_synchronize(h->left));
    h->factor = factor;
    return PSR_OK;
}

static psr_err copy_buckets(psr_cuda_handover *h, uint32_t node)
{
    for (uint32_t b = 0; b < h->o.buckets->count && !h->o.keeps_gradients; b++) {
        const psr_bucket *bucket = &h->o.buckets->items[b];
        if (h->first_reader[b] == node && !bucket->frozen)
            PSR_TRY(h->o.api->copy(h->leaving, h->gradients + bucket->offset,
                                   h->o.gradients + bucket->offset,
                                   bucket->length * sizeof(float)));
    }
    return PSR_OK;
}

/* The gradients of the pass before have landed (psr_cuda_handover_begin_gradients). */
static void close_fence(node_fence *f, float *gradients)
{
    pthread_mutex_lock(&f->mutex);
    f->landed = false;
    f->gradients = gradients;
    pthread_mutex_unlock(&f->mutex);
}

psr_err psr_cuda_handover_gradients(psr_cuda_handover *h, uint32_t node, float *gradients,
                                    psr_fence **ret_fence)
{
    const psr_cuda_api *api = h->o.api;
    node_fence *f = &h->fences[node];
    *ret_fence = NULL;
    if (f->event == NULL)
        return PSR_OK;
    PSR_TRY(api->event_record(h->computed, h->o.computing));
    PSR_TRY(api->stream_wait(h->leaving, h->computed));
    PSR_TRY(copy_buckets(h, node));
    close_fence(f, gradients);
    PSR_TRY(api->event_record(f->event, h->leaving));
    PSR_TRY(api->call_host(h->leaving, land, f));
    PSR_TRY(api->event_record(h->left, h->leaving));
    h->has_left = true;
    *ret_fence = &f->fence;
    return PSR_OK;
}

psr_err psr_cuda_handover_finish(psr_cuda_handover *h)
{
    return h->o.api->stream_synchronize(h->leaving);
}

size_t psr_cuda_handover_bytes(const psr_cuda_handover *handover)
{
    return (handover->o.keeps_gradients ? 1 : 2) * arena_bytes(handover);
}
