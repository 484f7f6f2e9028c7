#include "model/backend.h"

#include "model/backend_private.h"

#include <assert.h>
#include <stdlib.h>

struct psr_backend {
    const psr_backend_class *class;
    void *self;
    psr_readiness *readiness;
    uint32_t max_batch;
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
    }
    assert(!"a back end that psr_backend_kind does not name");
    return NULL;
}

psr_err psr_backend_new(const psr_network *net, const psr_backend_options *options,
                        psr_backend **ret_backend)
{
    assert(options->max_batch > 0);
    psr_backend *backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return psr_fail(PSR_ERR_NOMEM, "back end: out of memory");
    backend->class = class_of(options->kind);
    backend->max_batch = options->max_batch;
    psr_err err = psr_readiness_new(net, options->buckets, &backend->readiness);
    if (err == PSR_OK)
        err = backend->class->create(net, options, &backend->self);
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
    free(backend);
}

psr_err psr_backend_train(psr_backend *backend, const psr_batch *batch, const psr_exec_state *state,
                          float loss_scale, const psr_exec_hooks *hooks,
                          psr_pass_result *ret_result)
{
    assert(batch->count > 0 && batch->count <= backend->max_batch);
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
    psr_readiness_begin(backend->readiness, hooks);
    PSR_TRY(
        backend->class->infer(backend->self, batch, state, backend->readiness, logits, ret_result));
    assert(psr_readiness_complete(backend->readiness, false));
    return PSR_OK;
}

const char *psr_backend_algorithms(const psr_backend *backend)
{
    return backend->class->algorithms(backend->self);
}

const char *psr_backend_loops(const psr_backend *backend)
{
    return backend->class->loops(backend->self);
}

const char *psr_backend_identity(psr_backend_kind kind)
{
    return class_of(kind)->identity();
}

size_t psr_backend_bytes(const psr_backend *backend)
{
    return sizeof(*backend) + psr_readiness_bytes(backend->readiness) +
           backend->class->bytes(backend->self);
}
