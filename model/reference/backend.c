/* The reference back end behind the wall of model/backend.h. */
#include "model/backend_private.h"
#include "model/reference/reference.h"

#include <stdlib.h>
#include <string.h>

typedef struct adapter {
    psr_reference *reference;
    const psr_network *net;
} adapter;

static psr_err create(const psr_network *net, const psr_backend_options *options, void **ret_self)
{
    if (options->precision != PSR_PRECISION_FP32)
        return psr_fail(PSR_ERR_UNSUPPORTED, "--backend reference computes in float32 only: use "
                                             "--precision fp32, or --backend onednn");
    adapter *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "reference back end: out of memory");
    self->net = net;
    psr_err err =
        psr_reference_new(net, options->max_batch, options->label_smoothing, &self->reference);
    if (err != PSR_OK) {
        free(self);
        return err;
    }
    *ret_self = self;
    return PSR_OK;
}

static void destroy(void *self)
{
    adapter *a = self;
    if (a == NULL)
        return;
    psr_reference_free(a->reference);
    free(a);
}

static psr_err train(void *self, const psr_batch *batch, const psr_exec_state *state,
                     float loss_scale, psr_readiness *readiness, psr_pass_result *ret_result)
{
    const adapter *a = self;
    const psr_reference_state s = {state->weights, state->gradients, state->buffers};
    return psr_reference_train(a->reference, batch, &s, loss_scale, readiness, ret_result);
}

static psr_err begin(void *self, const psr_batch *batch, const psr_exec_state *state,
                     float loss_scale, psr_readiness *readiness)
{
    const adapter *a = self;
    const psr_reference_state s = {state->weights, state->gradients, state->buffers};
    return psr_reference_begin(a->reference, batch, &s, loss_scale, readiness);
}

static psr_err advance(void *self, psr_norm_sums *ret_sums, psr_pass_result *ret_result)
{
    const adapter *a = self;
    return psr_reference_advance(a->reference, ret_sums, ret_result);
}

static uint32_t stops(const void *self, psr_norm_stop *ret_stops)
{
    const psr_network *net = ((const adapter *)self)->net;
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->node_count; i++)
        if (net->nodes[i].op == PSR_OP_BATCHNORM && !net->nodes[i].held)
            ret_stops[count++] = (psr_norm_stop){{i, PSR_NONE}, !net->nodes[i].fixed};
    return count;
}

static psr_err infer(void *self, const psr_batch *batch, const psr_exec_state *state,
                     psr_readiness *readiness, float *logits, psr_pass_result *ret_result)
{
    const adapter *a = self;
    const psr_reference_state s = {state->weights, NULL, state->buffers};
    PSR_TRY(psr_reference_infer(a->reference, batch, &s, readiness, ret_result));
    if (logits != NULL)
        memcpy(logits, psr_reference_value(a->reference, a->net->node_count - 1),
               (size_t)batch->count * a->net->classes * sizeof(*logits));
    return PSR_OK;
}

/* There is nothing to choose. */
static const char *algorithms(const void *self)
{
    (void)self;
    return "";
}

/* All of it, as was asked. */
static const char *loops(const void *self)
{
    (void)self;
    return "";
}

static const char *identity(uint32_t device)
{
    (void)device;
    return "reference " PSR_VERSION;
}

static size_t bytes(const void *self)
{
    const adapter *a = self;
    return sizeof(*a) + psr_reference_bytes(a->reference);
}

const psr_backend_class psr_backend_class_reference = {
    .create = create,
    .destroy = destroy,
    .train = train,
    .begin = begin,
    .advance = advance,
    .stops = stops,
    .infer = infer,
    .takes_bytes = true,
    .algorithms = algorithms,
    .loops = loops,
    .identity = identity,
    .bytes = bytes,
};
