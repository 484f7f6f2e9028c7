/* Steps that multiply: every channel by a number of its own (the gate of squeeze and excitation),
 * the sigmoid that gives such numbers, and all values by one number. A gate's numbers lie plain,
 * float32 or bf16 as all values; what it multiplies may lie in blocks of channels, whose padding
 * stays zero. */
#include "base/arrays/multiversion.h"
#include "model/onednn/kernels/bf16.h"
#include "model/onednn/kernels/value.h"
#include "model/onednn/private.h"

#include <math.h>
#include <stdlib.h>

/* Channels whose sums a thread keeps at a time. */
#define LANES 16

typedef struct multiply {
    uint32_t x, s, y; /* nodes; s: the gate's numbers */
    uint32_t dy, ds;  /* buffers; dx takes dy's place */
} multiply;

static psr_err plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    multiply *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->y = step->group->output;
    self->x = exec->net->nodes[self->y].input[0];
    self->s = exec->net->nodes[self->y].input[1];
    const psr_onednn_tensor *x = psr_onednn_use(exec, self->x);
    const bool gates = self->s != PSR_NONE;
    if (x->layout == PSR_ONEDNN_OTHER ||
        (gates && psr_onednn_use(exec, self->s)->layout != PSR_ONEDNN_PLAIN))
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s cannot read the layout of its input",
                        exec->net->nodes[self->y].name);
    psr_onednn_tensor y;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, x->layout, x->type, &y));
    return psr_onednn_give(exec, self->y, &y);
}

/* ---- sigmoid: y = 1 / (1 + exp(-x)) ---- */

static psr_err sigmoid_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    multiply *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->dy = dy[0];
    psr_onednn_use(exec, self->y);
    return psr_onednn_gradient_put(exec, self->x, self->dy);
}

/* A padding of 0 would become 1/2: values that it is for lie plain and have none. */
static psr_err sigmoid_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const multiply *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    const void *from = psr_onednn_data(exec, x);
    void *to = psr_onednn_data(exec, y);
    const size_t count = psr_onednn_elements(y);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t i = 0; i < count; i++)
        psr_value_store(y->type, to, i,
                        (float)(1 / (1 + exp(-(double)psr_value_load(x->type, from, i)))));
    return PSR_OK;
}

static psr_err sigmoid_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const multiply *self = step->self;
    const psr_onednn_tensor *y = &exec->values[self->y];
    const void *value = psr_onednn_data(exec, y);
    void *gradient = psr_onednn_at(exec, self->dy);
    const size_t count = psr_onednn_elements(y);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t i = 0; i < count; i++) {
        const float v = psr_value_load(y->type, value, i);
        psr_value_store(y->type, gradient, i, psr_value_load(y->type, gradient, i) * v * (1 - v));
    }
    return PSR_OK;
}

static psr_err sigmoid_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    PSR_TRY(plan_forward(exec, step));
    const psr_onednn_tensor *y = &exec->values[step->group->output];
    return y->layout == PSR_ONEDNN_PLAIN
               ? PSR_OK
               : psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s wants its input flattened",
                          exec->net->nodes[step->group->output].name);
}

const psr_onednn_step_class psr_onednn_sigmoid = {sigmoid_plan_forward, sigmoid_plan_backward,
                                                  sigmoid_forward, sigmoid_backward, NULL};

/* ---- gate: y[n,c,s] = x[n,c,s] gate[n,c] ---- */

/* Up to LANES channels of one image: value s of lane l is at first + s * stride + l. */
typedef struct channels {
    size_t first, stride, size; /* size: H * W */
    size_t lanes, real;         /* the lanes from real on are padding */
    float gate[LANES];
} channels;

PSR_MULTIVERSION static void gate_float32(const channels *at, const float *x, float *y)
{
    for (size_t s = 0; s < at->size; s++)
        for (size_t l = 0; l < at->lanes; l++)
            y[at->first + s * at->stride + l] = x[at->first + s * at->stride + l] * at->gate[l];
}

PSR_MULTIVERSION static void gate_bf16(const channels *at, const uint16_t *x, uint16_t *y)
{
    for (size_t s = 0; s < at->size; s++)
        for (size_t l = 0; l < at->lanes; l++) {
            const size_t i = at->first + s * at->stride + l;
            y[i] = psr_bf16_from_float(psr_bf16_to_float(x[i]) * at->gate[l]);
        }
}

/* sums[l] += dy * x over all s; then dx = dy * gate, which may lie where dy does. */
PSR_MULTIVERSION static void gradients_float32(const channels *at, const float *x, const float *dy,
                                               float *dx, double sums[LANES])
{
    for (size_t s = 0; s < at->size; s++)
        for (size_t l = 0; l < at->lanes; l++) {
            const size_t i = at->first + s * at->stride + l;
            sums[l] += (double)dy[i] * (double)x[i];
            dx[i] = dy[i] * at->gate[l];
        }
}

PSR_MULTIVERSION static void gradients_bf16(const channels *at, const uint16_t *x,
                                            const uint16_t *dy, uint16_t *dx, double sums[LANES])
{
    for (size_t s = 0; s < at->size; s++)
        for (size_t l = 0; l < at->lanes; l++) {
            const size_t i = at->first + s * at->stride + l;
            const float gradient = psr_bf16_to_float(dy[i]);
            sums[l] += (double)gradient * (double)psr_bf16_to_float(x[i]);
            dx[i] = psr_bf16_from_float(gradient * at->gate[l]);
        }
}

/* Parts of LANES channels in a block, and in an image. */
static size_t parts_of_block(const psr_onednn_tensor *x)
{
    return (x->block + LANES - 1) / LANES;
}

static size_t parts_of_image(const psr_onednn_tensor *x)
{
    return x->blocks * parts_of_block(x);
}

/* Part `part` of image n, with its numbers from gate[N,C]; returns its first channel. */
static size_t channels_of(const psr_onednn_tensor *x, size_t n, size_t part, const void *gate,
                          channels *ret_at)
{
    const size_t block = part / parts_of_block(x), lane = part % parts_of_block(x) * LANES;
    const size_t channel = block * x->block + lane, size = (size_t)x->h * x->w;
    const size_t left = x->c > channel ? x->c - channel : 0;
    channels at = {.first = (n * x->blocks + block) * size * x->block + lane,
                   .stride = x->block,
                   .size = size,
                   .lanes = x->block - lane < LANES ? x->block - lane : LANES};
    at.real = left < at.lanes ? left : at.lanes;
    for (size_t l = 0; l < at.real; l++)
        at.gate[l] = psr_value_load(x->type, gate, n * x->c + channel + l);
    *ret_at = at;
    return channel;
}

static psr_err gate_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const multiply *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x];
    const void *gate = psr_onednn_data(exec, &exec->values[self->s]);
    const void *from = psr_onednn_data(exec, x);
    void *to = psr_onednn_data(exec, &exec->values[self->y]);
    const size_t parts = parts_of_image(x);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t i = 0; i < x->n * parts; i++) {
        channels at;
        channels_of(x, i / parts, i % parts, gate, &at);
        if (x->type == dnnl_bf16)
            gate_bf16(&at, from, to);
        else
            gate_float32(&at, from, to);
    }
    return PSR_OK;
}

static psr_err gate_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    multiply *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->dy = dy[0];
    psr_onednn_use(exec, self->x);
    psr_onednn_use(exec, self->s);
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, exec->values[self->s].bytes, &self->ds));
    if (psr_onednn_wants_gradient(exec, self->s))
        PSR_TRY(psr_onednn_gradient_put(exec, self->s, self->ds));
    return psr_onednn_wants_gradient(exec, self->x)
               ? psr_onednn_gradient_put(exec, self->x, self->dy)
               : PSR_OK;
}

static psr_err gate_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const multiply *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x];
    const void *gate = psr_onednn_data(exec, &exec->values[self->s]);
    const void *value = psr_onednn_data(exec, x);
    void *gradient = psr_onednn_at(exec, self->dy), *of_gate = psr_onednn_at(exec, self->ds);
    const size_t parts = parts_of_image(x);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t i = 0; i < x->n * parts; i++) {
        channels at;
        double sums[LANES] = {0};
        const size_t channel = channels_of(x, i / parts, i % parts, gate, &at);
        if (x->type == dnnl_bf16)
            gradients_bf16(&at, value, gradient, gradient, sums);
        else
            gradients_float32(&at, value, gradient, gradient, sums);
        for (size_t l = 0; l < at.real; l++)
            psr_value_store(x->type, of_gate, i / parts * x->c + channel + l, (float)sums[l]);
    }
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_gate = {plan_forward, gate_plan_backward, gate_forward,
                                               gate_backward, NULL};

/* ---- scale: y = factor x ---- */

static void scale(const psr_onednn_exec *exec, const psr_onednn_tensor *like, double factor,
                  const void *from, void *to)
{
    const size_t count = psr_onednn_elements(like);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t i = 0; i < count; i++)
        psr_value_store(like->type, to, i, (float)factor * psr_value_load(like->type, from, i));
}

static psr_err scale_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    multiply *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->dy = dy[0];
    return psr_onednn_wants_gradient(exec, self->x)
               ? psr_onednn_gradient_put(exec, self->x, self->dy)
               : PSR_OK;
}

static psr_err scale_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const multiply *self = step->self;
    const psr_onednn_tensor *y = &exec->values[self->y];
    scale(exec, y, exec->net->nodes[self->y].factor, psr_onednn_data(exec, &exec->values[self->x]),
          psr_onednn_data(exec, y));
    return PSR_OK;
}

static psr_err scale_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const multiply *self = step->self;
    void *gradient = psr_onednn_at(exec, self->dy);
    scale(exec, &exec->values[self->y], exec->net->nodes[self->y].factor, gradient, gradient);
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_scale = {plan_forward, scale_plan_backward, scale_forward,
                                                scale_backward, NULL};
