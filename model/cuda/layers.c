#include "model/cuda/layers.h"

#include "base/clock.h"

#include <stdlib.h>

/* Steps of one layer, one behind the other. */
typedef struct span {
    psr_exec_layer layer;
    psr_cuda_event *begins, *ends;
} span;

struct psr_cuda_layers {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    psr_cuda_event *zero; /* where the pass begins */
    int64_t zero_ns;      /* by psr_clock_ns, a moment before */
    span *spans;
    uint32_t count, room;
    bool under_way; /* the last span's end is not ordered yet */
};

/* ---- the life ---- */

psr_err psr_cuda_layers_new(const psr_cuda_api *api, psr_cuda_device *device,
                            psr_cuda_stream *stream, psr_cuda_layers **ret_layers)
{
    psr_cuda_layers *l = calloc(1, sizeof *l);
    if (l == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for the times of layers");
    *l = (psr_cuda_layers){.api = api, .device = device, .stream = stream};
    const psr_err err = api->event_new_timed(device, &l->zero);
    if (err != PSR_OK) {
        psr_cuda_layers_free(l);
        return err;
    }
    *ret_layers = l;
    return PSR_OK;
}

void psr_cuda_layers_free(psr_cuda_layers *layers)
{
    if (layers == NULL)
        return;
    for (uint32_t i = 0; i < layers->room; i++) {
        layers->api->event_free(layers->spans[i].begins);
        layers->api->event_free(layers->spans[i].ends);
    }
    layers->api->event_free(layers->zero);
    free(layers->spans);
    free(layers);
}

static psr_err open_span(psr_cuda_layers *l)
{
    span s = {.layer = {0}};
    PSR_TRY(l->api->event_new_timed(l->device, &s.begins));
    const psr_err err = l->api->event_new_timed(l->device, &s.ends);
    if (err != PSR_OK) {
        l->api->event_free(s.begins);
        return err;
    }
    l->spans[l->room++] = s;
    return PSR_OK;
}

static psr_err make_room(psr_cuda_layers *l, uint32_t room)
{
    if (l->room >= room)
        return PSR_OK;
    span *spans = realloc(l->spans, room * sizeof *spans);
    if (spans == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for the times of layers");
    l->spans = spans;
    while (l->room < room)
        PSR_TRY(open_span(l));
    return PSR_OK;
}

/* ---- in a pass ---- */

psr_err psr_cuda_layers_begin(psr_cuda_layers *layers, uint32_t step_count)
{
    psr_cuda_layers *l = layers;
    l->count = 0;
    l->under_way = false;
    PSR_TRY(make_room(l, step_count));
    PSR_TRY(l->api->stream_synchronize(l->stream));
    l->zero_ns = psr_clock_ns();
    PSR_TRY(l->api->event_record(l->zero, l->stream));
    return l->api->event_synchronize(l->zero);
}

psr_err psr_cuda_layers_pause(psr_cuda_layers *layers)
{
    if (!layers->under_way)
        return PSR_OK;
    layers->under_way = false;
    return layers->api->event_record(layers->spans[layers->count - 1].ends, layers->stream);
}

psr_err psr_cuda_layers_step(psr_cuda_layers *layers, const psr_cuda_step *step)
{
    psr_cuda_layers *l = layers;
    const psr_exec_layer of = {step->layer, step->layer_nodes, step->backward};
    const psr_exec_layer *last = l->under_way ? &l->spans[l->count - 1].layer : NULL;
    if (last != NULL && last->node == of.node && last->count == of.count &&
        last->backward == of.backward)
        return PSR_OK;
    PSR_TRY(psr_cuda_layers_pause(l));
    if (of.count == 0)
        return PSR_OK;
    l->spans[l->count].layer = of;
    l->under_way = true;
    return l->api->event_record(l->spans[l->count++].begins, l->stream);
}

static psr_err time_of(const psr_cuda_layers *l, psr_cuda_event *event, int64_t *ret_ns)
{
    int64_t elapsed_ns;
    PSR_TRY(l->api->event_elapsed(l->zero, event, &elapsed_ns));
    *ret_ns = l->zero_ns + elapsed_ns;
    return PSR_OK;
}

/* What the two clocks differ in speed is not to show as a layer that ends behind the pass. */
static int64_t at_most(int64_t ns, int64_t most_ns)
{
    return ns < most_ns ? ns : most_ns;
}

psr_err psr_cuda_layers_tell(const psr_cuda_layers *layers, const psr_readiness *readiness)
{
    const int64_t now_ns = psr_clock_ns();
    for (uint32_t i = 0; i < layers->count; i++) {
        int64_t begin_ns, end_ns;
        PSR_TRY(time_of(layers, layers->spans[i].begins, &begin_ns));
        PSR_TRY(time_of(layers, layers->spans[i].ends, &end_ns));
        psr_readiness_layer(readiness, &layers->spans[i].layer, at_most(begin_ns, now_ns),
                            at_most(end_ns, now_ns));
    }
    return PSR_OK;
}
