#include "model/backend.h"

#include "model/backend_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct psr_backend {
    const psr_backend_class *class;
    void *self;
    const psr_network *net;
    psr_readiness *readiness;
    uint32_t max_batch;
    /* --sync-bn; otherwise NULL */
    psr_norm_stop *stops;
    uint32_t stop_count;
    double *zeros; /* what a worker without samples gives at a stop */
    /* Of the pass under way. */
    psr_batch batch;
    psr_exec_state state;
    uint32_t passed; /* stops, without samples: forward ones, and backward ones in reverse */
};

static const psr_backend_class *class_of(psr_backend_kind kind)
{
    switch (kind) {
    case PSR_BACKEND_REFERENCE:
        return &psr_backend_class_reference;
    case PSR_BACKEND_ONEDNN:
        return &psr_backend_class_onednn;
    case PSR_BACKEND_PLAYED:
        return &psr_backend_class_played;
    case PSR_BACKEND_CUDA:
        return &psr_backend_class_cuda;
    }
    assert(!"a back end that psr_backend_kind does not name");
    return NULL;
}

static psr_err open_stops(psr_backend *backend)
{
    const psr_network *net = backend->net;
    size_t most = 0;
    backend->stops = calloc(net->node_count, sizeof *backend->stops);
    if (backend->stops == NULL)
        return psr_fail(PSR_ERR_NOMEM, "back end: out of memory");
    backend->stop_count = backend->class->stops(backend->self, backend->stops);
    for (uint32_t i = 0; i < backend->stop_count; i++) {
        const size_t count = psr_norm_stop_count(net, &backend->stops[i], false);
        most = count > most ? count : most;
    }
    backend->zeros = calloc(most + 1, sizeof *backend->zeros);
    return backend->zeros != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "back end: out of memory");
}

psr_err psr_backend_new(const psr_network *net, const psr_backend_options *options,
                        psr_backend **ret_backend)
{
    assert(options->max_batch > 0);
    psr_backend *backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return psr_fail(PSR_ERR_NOMEM, "back end: out of memory");
    backend->class = class_of(options->kind);
    backend->net = net;
    backend->max_batch = options->max_batch;
    psr_err err = PSR_OK;
    if (options->sync_norms && backend->class->begin == NULL)
        err = psr_fail(PSR_ERR_UNSUPPORTED, "--sync-bn: this back end has no batch statistics");
    if (options->updates != NULL && backend->class->hold == NULL)
        err = psr_fail(PSR_ERR_UNSUPPORTED, "--update-on device: this back end has no device");
    if (err == PSR_OK)
        err = psr_readiness_new(net, options->buckets, &backend->readiness);
    if (err == PSR_OK)
        err = backend->class->create(net, options, &backend->self);
    if (err == PSR_OK && options->sync_norms)
        err = open_stops(backend);
    if (err != PSR_OK) {
        psr_backend_free(backend);
        return err;
    }
    *ret_backend = backend;
    return PSR_OK;
}

void psr_backend_free(psr_backend *backend)
{
    if (backend == NULL)
        return;
    backend->class->destroy(backend->self);
    psr_readiness_free(backend->readiness);
    free(backend->stops);
    free(backend->zeros);
    free(backend);
}

psr_err psr_backend_begin(psr_backend *backend, const psr_batch *batch, const psr_exec_state *state,
                          float loss_scale, const psr_exec_hooks *hooks)
{
    assert(backend->stops != NULL && batch->count <= backend->max_batch);
    assert(batch->bytes == NULL || backend->class->takes_bytes);
    backend->batch = *batch;
    backend->state = *state;
    backend->passed = 0;
    if (batch->count == 0)
        return PSR_OK;
    psr_readiness_begin(backend->readiness, hooks);
    return backend->class->begin(backend->self, &backend->batch, &backend->state, loss_scale,
                                 backend->readiness);
}

/* The zeros of the last stop are all workers' sums now. */
static void advance_without_samples(psr_backend *backend, psr_norm_sums *ret_sums)
{
    const uint32_t count = backend->stop_count, before = backend->passed;
    if (before > 0 && before <= count)
        psr_norm_stop_run(backend->net, &backend->stops[before - 1], backend->zeros,
                          backend->state.buffers);
    *ret_sums = (psr_norm_sums){0};
    while (backend->passed >= count && backend->passed < 2 * count &&
           !backend->stops[2 * count - 1 - backend->passed].backward)
        backend->passed++;
    if (backend->passed == 2 * count)
        return;
    const uint32_t at = backend->passed++;
    const psr_norm_stop *stop = &backend->stops[at < count ? at : 2 * count - 1 - at];
    *ret_sums =
        (psr_norm_sums){backend->zeros, psr_norm_stop_count(backend->net, stop, at >= count)};
    memset(ret_sums->values, 0, ret_sums->count * sizeof *ret_sums->values);
}

psr_err psr_backend_advance(psr_backend *backend, psr_norm_sums *ret_sums,
                            psr_pass_result *ret_result)
{
    if (backend->batch.count == 0) {
        advance_without_samples(backend, ret_sums);
        if (ret_sums->values == NULL)
            *ret_result = (psr_pass_result){0};
        return PSR_OK;
    }
    PSR_TRY(backend->class->advance(backend->self, ret_sums, ret_result));
    assert(ret_sums->values != NULL || psr_readiness_complete(backend->readiness, true));
    return PSR_OK;
}

psr_err psr_backend_train(psr_backend *backend, const psr_batch *batch, const psr_exec_state *state,
                          float loss_scale, const psr_exec_hooks *hooks,
                          psr_pass_result *ret_result)
{
    assert(backend->stops == NULL && batch->count > 0 && batch->count <= backend->max_batch);
    assert(batch->bytes == NULL || backend->class->takes_bytes);
    psr_readiness_begin(backend->readiness, hooks);
    PSR_TRY(backend->class->train(backend->self, batch, state, loss_scale, backend->readiness,
                                  ret_result));
    assert(psr_readiness_complete(backend->readiness, true));
    return PSR_OK;
}

psr_err psr_backend_infer(psr_backend *backend, const psr_batch *batch, const psr_exec_state *state,
                          const psr_exec_hooks *hooks, float *logits, psr_pass_result *ret_result)
{
    assert(batch->count > 0 && batch->count <= backend->max_batch);
    assert(batch->bytes == NULL || backend->class->takes_bytes);
    psr_readiness_begin(backend->readiness, hooks);
    PSR_TRY(
        backend->class->infer(backend->self, batch, state, backend->readiness, logits, ret_result));
    assert(psr_readiness_complete(backend->readiness, false));
    return PSR_OK;
}

psr_err psr_backend_hold(psr_backend *backend, const float *weights, float *const *slots,
                         uint64_t number)
{
    return backend->class->hold(backend->self, weights, slots, number);
}

void psr_backend_due(psr_backend *backend, const psr_due_update *update)
{
    backend->class->due(backend->self, update);
}

psr_err psr_backend_held(psr_backend *backend, float *ret_weights, float *const *ret_slots)
{
    return backend->class->held(backend->self, ret_weights, ret_slots);
}

float *psr_backend_gradients(psr_backend *backend)
{
    return backend->class->gradients(backend->self);
}

psr_err psr_backend_zero_gradients(psr_backend *backend)
{
    return backend->class->zero_gradients(backend->self);
}

bool psr_backend_takes_bytes(const psr_backend *backend)
{
    return backend->class->takes_bytes;
}

const char *psr_backend_algorithms(const psr_backend *backend)
{
    return backend->class->algorithms(backend->self);
}

const char *psr_backend_engines(const psr_backend *backend)
{
    return backend->class->engines != NULL ? backend->class->engines(backend->self) : "";
}

const char *psr_backend_loops(const psr_backend *backend)
{
    return backend->class->loops(backend->self);
}

const char *psr_backend_identity(psr_backend_kind kind, uint32_t device)
{
    return class_of(kind)->identity(device);
}

size_t psr_backend_bytes(const psr_backend *backend)
{
    return sizeof(*backend) + psr_readiness_bytes(backend->readiness) +
           backend->class->bytes(backend->self);
}
