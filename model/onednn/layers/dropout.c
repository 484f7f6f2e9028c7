/* Dropout of elements and of whole channels. The mask is asked for again in the backward pass. */
#include "model/dropout.h"
#include "model/onednn/kernels/bf16.h"
#include "model/onednn/private.h"

#include <stdlib.h>

typedef struct dropout {
    uint32_t x, y;     /* nodes */
    uint32_t gradient; /* buffer: dy, then dx */
    bool channels;     /* whole ones */
    uint32_t mask;     /* buffer: a mask per thread */
    size_t mask_count;
} dropout;

static psr_err dropout_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    dropout *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->y = step->group->output;
    const psr_network_node *node = &exec->net->nodes[self->y];
    self->x = node->input[0];
    self->channels = node->op == PSR_OP_DROPOUT2D;
    self->mask_count =
        self->channels ? node->channels : (size_t)node->channels * node->height * node->width;
    psr_onednn_tensor *x = psr_onednn_use(exec, self->x);
    if (x->layout == PSR_ONEDNN_OTHER)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s cannot read the layout of its input",
                        node->name);
    if (!exec->training) { /* the identity */
        exec->values[self->y] = *x;
        return PSR_OK;
    }
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, self->mask_count * exec->context->threads,
                                &self->mask));
    psr_onednn_tensor tensor;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, x->layout, x->type, &tensor));
    return psr_onednn_give(exec, self->y, &tensor);
}

static psr_err dropout_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    dropout *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->gradient = dy[0];
    psr_pass_buffer_use(&exec->buffers, self->mask);
    if (!psr_onednn_wants_gradient(exec, self->x))
        return PSR_OK;
    return psr_onednn_gradient_put(exec, self->x, self->gradient);
}

/* out = in * scale where keep says so, else 0; keep is of each value, or its first of all. */
static inline void scale_run(dnnl_data_type_t type, const uint8_t *keep, bool each, float scale,
                             const void *in, void *out, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool kept = keep[each ? i : 0];
        if (type == dnnl_bf16)
            ((uint16_t *)out)[first + i] =
                kept ? psr_bf16_from_float(psr_bf16_to_float(((const uint16_t *)in)[first + i]) *
                                           scale)
                     : 0;
        else
            ((float *)out)[first + i] = kept ? ((const float *)in)[first + i] * scale : 0.0f;
    }
}

/* One sample of plain values, which begins at `first`. */
static void apply_plain(const dropout *self, const psr_onednn_tensor *x, size_t first,
                        const uint8_t *keep, float scale, const void *in, void *out)
{
    const size_t size = (size_t)x->h * x->w;
    if (!self->channels) {
        scale_run(x->type, keep, true, scale, in, out, first, self->mask_count);
        return;
    }
    for (size_t c = 0; c < x->c; c++)
        scale_run(x->type, keep + c, false, scale, in, out, first + c * size, size);
}

/* One sample: out = in * keep * scale; padded channels are zero and stay so. */
static void apply(const dropout *self, const psr_onednn_tensor *x, const uint8_t *keep, float scale,
                  const void *in, void *out, size_t sample)
{
    size_t size = (size_t)x->h * x->w, channels = (size_t)x->blocks * x->block;
    if (x->layout == PSR_ONEDNN_PLAIN) {
        apply_plain(self, x, sample * x->c * size, keep, scale, in, out);
        return;
    }
    for (size_t c = 0; c < channels; c++) {
        for (size_t s = 0; s < size; s++) {
            size_t at = ((sample * x->blocks + c / x->block) * size + s) * x->block + c % x->block;
            bool kept = c < x->c && keep[self->channels ? c : c * size + s];
            if (x->type == dnnl_bf16)
                ((uint16_t *)out)[at] =
                    kept
                        ? psr_bf16_from_float(psr_bf16_to_float(((const uint16_t *)in)[at]) * scale)
                        : 0;
            else
                ((float *)out)[at] = kept ? ((const float *)in)[at] * scale : 0.0f;
        }
    }
}

static void run(const psr_onednn_exec *exec, const dropout *self, const void *in, void *out)
{
    const psr_onednn_tensor *x = &exec->values[self->x];
    double drop = exec->net->nodes[self->y].drop;
    float scale = psr_dropout_scale(drop);
    uint8_t *masks = psr_onednn_at(exec, self->mask);
    uint32_t threads = exec->context->threads;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint32_t thread = 0; thread < threads; thread++) {
        uint8_t *keep = masks + thread * self->mask_count;
        uint32_t end = (uint32_t)psr_onednn_cut(x->n, threads, thread + 1);
        for (uint32_t n = (uint32_t)psr_onednn_cut(x->n, threads, thread); n < end; n++) {
            psr_dropout_keep(exec->batch, n, self->y, drop, keep, self->mask_count);
            apply(self, x, keep, scale, in, out, n);
        }
    }
}

static psr_err dropout_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const dropout *self = step->self;
    if (exec->training)
        run(exec, self, psr_onednn_data(exec, &exec->values[self->x]),
            psr_onednn_data(exec, &exec->values[self->y]));
    return PSR_OK;
}

static psr_err dropout_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const dropout *self = step->self;
    void *gradient = psr_onednn_at(exec, self->gradient);
    run(exec, self, gradient, gradient);
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_dropout = {dropout_plan_forward, dropout_plan_backward,
                                                  dropout_forward, dropout_backward, NULL};
