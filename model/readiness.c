#include "model/readiness.h"

#include "base/clock.h"
#include "model/backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The buckets that one node reads: list[first .. first + count), ascending. */
typedef struct span {
    uint32_t first;
    uint32_t count;
} span;

struct psr_readiness {
    uint32_t node_count;
    uint32_t bucket_count;
    span *spans;    /* [node] */
    uint32_t *list; /* bucket indices, node after node */
    size_t list_count;
    uint32_t *readers; /* [bucket]: nodes that read it */
    /* state of the pass */
    uint32_t *waiting; /* [bucket]: readers whose backward has not finished */
    bool *asked;       /* [bucket] */
    bool *finished;    /* [node]: its backward has been reported */
    int64_t layer_ns;  /* when the layer under way began */
    const psr_exec_hooks *hooks;
};

static bool overlaps(const psr_layout *layout, uint32_t tensor, const psr_bucket *bucket)
{
    if (tensor == PSR_NONE)
        return false;
    const psr_tensor *t = &layout->tensors[tensor];
    return t->offset < bucket->offset + bucket->length && bucket->offset < t->offset + t->count;
}

/* Appends node's buckets, or only counts them while list is NULL. */
static void plan_node(psr_readiness *readiness, const psr_network *net, const psr_buckets *buckets,
                      uint32_t node)
{
    const psr_network_node *n = &net->nodes[node];
    span *s = &readiness->spans[node];
    *s = (span){.first = (uint32_t)readiness->list_count};
    for (uint32_t b = 0; b < buckets->count; b++) {
        if (buckets->items[b].frozen)
            continue;
        if (!overlaps(&net->params, n->weight, &buckets->items[b]) &&
            !overlaps(&net->params, n->bias, &buckets->items[b]))
            continue;
        if (readiness->list != NULL) {
            readiness->list[readiness->list_count] = b;
            readiness->readers[b]++;
        }
        readiness->list_count++;
        s->count++;
    }
}

psr_err psr_readiness_new(const psr_network *net, const psr_buckets *buckets,
                          psr_readiness **ret_readiness)
{
    psr_readiness *readiness = calloc(1, sizeof(*readiness));
    if (readiness == NULL)
        goto fail;
    readiness->node_count = net->node_count;
    readiness->bucket_count = buckets->count;
    readiness->spans = calloc(net->node_count, sizeof(*readiness->spans));
    readiness->finished = calloc(net->node_count, sizeof(*readiness->finished));
    readiness->readers = calloc(buckets->count, sizeof(*readiness->readers));
    readiness->waiting = calloc(buckets->count, sizeof(*readiness->waiting));
    readiness->asked = calloc(buckets->count, sizeof(*readiness->asked));
    if (readiness->spans == NULL || readiness->finished == NULL || readiness->readers == NULL ||
        readiness->waiting == NULL || readiness->asked == NULL)
        goto fail;

    for (uint32_t node = 0; node < net->node_count; node++)
        plan_node(readiness, net, buckets, node);
    readiness->list = calloc(readiness->list_count + 1, sizeof(*readiness->list));
    if (readiness->list == NULL)
        goto fail;
    readiness->list_count = 0;
    for (uint32_t node = 0; node < net->node_count; node++)
        plan_node(readiness, net, buckets, node);
    /* A bucket that no node reads would never become ready and its exchange would wait for ever. */
    for (uint32_t b = 0; b < buckets->count; b++)
        assert(readiness->readers[b] > 0 || buckets->items[b].frozen);

    *ret_readiness = readiness;
    return PSR_OK;
fail:
    psr_readiness_free(readiness);
    return psr_fail(PSR_ERR_NOMEM, "plan of %u buckets: out of memory", buckets->count);
}

void psr_readiness_free(psr_readiness *readiness)
{
    if (readiness == NULL)
        return;
    free(readiness->spans);
    free(readiness->finished);
    free(readiness->list);
    free(readiness->readers);
    free(readiness->waiting);
    free(readiness->asked);
    free(readiness);
}

void psr_readiness_begin(psr_readiness *readiness, const psr_exec_hooks *hooks)
{
    readiness->hooks = hooks;
    memcpy(readiness->waiting, readiness->readers,
           readiness->bucket_count * sizeof(*readiness->waiting));
    memset(readiness->asked, 0, readiness->bucket_count * sizeof(*readiness->asked));
    memset(readiness->finished, 0, readiness->node_count * sizeof(*readiness->finished));
}

static void progress(const psr_readiness *readiness)
{
    if (readiness->hooks != NULL && readiness->hooks->progress != NULL)
        readiness->hooks->progress(readiness->hooks->context);
}

psr_err psr_readiness_forward(psr_readiness *readiness, uint32_t node)
{
    assert(node < readiness->node_count);
    const psr_exec_hooks *hooks = readiness->hooks;
    const span s = readiness->spans[node];
    for (uint32_t i = s.count; i-- > 0;) {
        uint32_t b = readiness->list[s.first + i];
        if (readiness->asked[b])
            continue;
        readiness->asked[b] = true;
        if (hooks != NULL && hooks->weights_wanted != NULL)
            PSR_TRY(hooks->weights_wanted(hooks->context, b));
    }
    progress(readiness);
    return PSR_OK;
}

psr_err psr_readiness_backward(psr_readiness *readiness, uint32_t node, psr_fence *fence)
{
    assert(node < readiness->node_count);
    assert(!readiness->finished[node]);
    readiness->finished[node] = true;
    const psr_exec_hooks *hooks = readiness->hooks;
    const span s = readiness->spans[node];
    for (uint32_t i = 0; i < s.count; i++) {
        uint32_t b = readiness->list[s.first + i];
        if (--readiness->waiting[b] > 0)
            continue;
        if (hooks != NULL && hooks->gradient_ready != NULL)
            PSR_TRY(hooks->gradient_ready(hooks->context, b, fence));
    }
    progress(readiness);
    return PSR_OK;
}

bool psr_readiness_wants_layers(const psr_readiness *readiness)
{
    return readiness->hooks != NULL && readiness->hooks->layer != NULL;
}

void psr_readiness_layer(const psr_readiness *readiness, const psr_exec_layer *layer,
                         int64_t begin_ns, int64_t end_ns)
{
    if (psr_readiness_wants_layers(readiness))
        readiness->hooks->layer(readiness->hooks->context, layer, begin_ns, end_ns);
}

void psr_readiness_layer_begins(psr_readiness *readiness)
{
    if (psr_readiness_wants_layers(readiness))
        readiness->layer_ns = psr_clock_ns();
}

void psr_readiness_layer_ends(const psr_readiness *readiness, const psr_exec_layer *layer)
{
    if (psr_readiness_wants_layers(readiness))
        psr_readiness_layer(readiness, layer, readiness->layer_ns, psr_clock_ns());
}

bool psr_readiness_reports(const psr_readiness *readiness)
{
    return readiness->hooks != NULL && readiness->hooks->gradient_ready != NULL;
}

bool psr_readiness_complete(const psr_readiness *readiness, bool training)
{
    for (uint32_t b = 0; b < readiness->bucket_count; b++)
        if (readiness->readers[b] > 0 &&
            (!readiness->asked[b] || (training && readiness->waiting[b] > 0)))
            return false;
    return true;
}

size_t psr_readiness_bytes(const psr_readiness *readiness)
{
    return sizeof(*readiness) + readiness->node_count * (sizeof(span) + sizeof(bool)) +
           readiness->bucket_count * (2 * sizeof(uint32_t) + sizeof(bool)) +
           (readiness->list_count + 1) * sizeof(uint32_t);
}
