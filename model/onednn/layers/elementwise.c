/* ReLU and addition by themselves, where no batch norm has taken them along, and sums of gradients.
 * Values that are combined have one layout, so that these are loops over all elements, padding
 * included: relu(0) = 0 and 0 + 0 = 0 keep it zero. */
#include "base/arrays/multiversion.h"
#include "model/onednn/kernels/bf16.h"
#include "model/onednn/private.h"

#include <stdlib.h>
#include <string.h>

/* Elements that a thread takes at a time. */
#define BLOCK ((size_t)1 << 14)

typedef void (*kernel)(const void *a, const void *b, void *out, size_t count);

/* kernel over count elements in parallel; b may be NULL. */
static void run(uint32_t threads, dnnl_data_type_t type, kernel each, const void *a, const void *b,
                void *out, size_t count)
{
    size_t width = psr_onednn_type_bytes(type), blocks = (count + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(threads) schedule(static) if (blocks > 1)
    for (size_t i = 0; i < blocks; i++) {
        size_t at = i * BLOCK * width,
               length = count - i * BLOCK < BLOCK ? count - i * BLOCK : BLOCK;
        each((const char *)a + at, b == NULL ? NULL : (const char *)b + at, (char *)out + at,
             length);
    }
}

/* A NaN is not <= 0 and stays. */
PSR_MULTIVERSION static void relu_f32(const void *a, const void *b, void *out, size_t count)
{
    (void)b;
    const float *x = a;
    float *y = out;
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

PSR_MULTIVERSION static void relu_bf16(const void *a, const void *b, void *out, size_t count)
{
    (void)b;
    const uint16_t *x = a;
    uint16_t *y = out;
    for (size_t i = 0; i < count; i++)
        y[i] = psr_bf16_to_float(x[i]) <= 0.0f ? 0 : x[i];
}

/* a: y, b: dy. */
PSR_MULTIVERSION static void relu_gradient_f32(const void *a, const void *b, void *out,
                                               size_t count)
{
    const float *y = a, *dy = b;
    float *dx = out;
    for (size_t i = 0; i < count; i++)
        dx[i] = y[i] <= 0.0f ? 0.0f : dy[i];
}

PSR_MULTIVERSION static void relu_gradient_bf16(const void *a, const void *b, void *out,
                                                size_t count)
{
    const uint16_t *y = a, *dy = b;
    uint16_t *dx = out;
    for (size_t i = 0; i < count; i++)
        dx[i] = psr_bf16_to_float(y[i]) <= 0.0f ? 0 : dy[i];
}

PSR_MULTIVERSION static void add_f32(const void *a, const void *b, void *out, size_t count)
{
    const float *x = a, *r = b;
    float *y = out;
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] + r[i];
}

PSR_MULTIVERSION static void add_bf16(const void *a, const void *b, void *out, size_t count)
{
    const uint16_t *x = a, *r = b;
    uint16_t *y = out;
    for (size_t i = 0; i < count; i++)
        y[i] = psr_bf16_from_float(psr_bf16_to_float(x[i]) + psr_bf16_to_float(r[i]));
}

void psr_onednn_accumulate(uint32_t threads, dnnl_data_type_t type, void *into, const void *from,
                           size_t count)
{
    run(threads, type, type == dnnl_bf16 ? add_bf16 : add_f32, into, from, into, count);
}

PSR_MULTIVERSION static void to_bf16(const float *from, uint16_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = psr_bf16_from_float(from[i]);
}

void psr_onednn_to_bf16(const float *from, uint16_t *to, size_t count)
{
    to_bf16(from, to, count);
}

/* Gives output a new value that lies as `like` does. */
static psr_err give_alike(psr_onednn_exec *exec, uint32_t output, uint32_t like)
{
    psr_onednn_tensor tensor;
    const psr_onednn_tensor *from = psr_onednn_use(exec, like);
    if (from->layout == PSR_ONEDNN_OTHER)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s cannot read the layout of its input",
                        exec->net->nodes[output].name);
    PSR_TRY(psr_onednn_tensor_in(exec, output, from->layout, from->type, &tensor));
    return psr_onednn_give(exec, output, &tensor);
}

typedef struct elementwise {
    uint32_t y, x, r;    /* nodes; r: the addition's second input */
    uint32_t gradient;   /* buffer: dy, then dx in its place, for this is its only reader */
    uint32_t gradient_r; /* addition: buffer of the second input's, a copy */
    bool copies;
} elementwise;

static psr_err plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    elementwise *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->y = step->group->output;
    self->x = exec->net->nodes[self->y].input[0];
    self->r = exec->net->nodes[self->y].input[1];
    if (self->r != PSR_NONE &&
        psr_onednn_use(exec, self->r)->layout != exec->values[self->x].layout)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: the inputs of %s lie in memory differently",
                        exec->net->nodes[self->y].name);
    return give_alike(exec, self->y, self->x);
}

static psr_err relu_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    elementwise *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->gradient = dy[0];
    psr_onednn_use(exec, self->y);
    return psr_onednn_gradient_put(exec, self->x, dy[0]);
}

static psr_err relu_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const elementwise *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    run(exec->context->threads, y->type, y->type == dnnl_bf16 ? relu_bf16 : relu_f32,
        psr_onednn_data(exec, x), NULL, psr_onednn_data(exec, y), psr_onednn_elements(y));
    return PSR_OK;
}

static psr_err relu_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const elementwise *self = step->self;
    const psr_onednn_tensor *y = &exec->values[self->y];
    void *gradient = psr_onednn_at(exec, self->gradient);
    run(exec->context->threads, y->type,
        y->type == dnnl_bf16 ? relu_gradient_bf16 : relu_gradient_f32, psr_onednn_data(exec, y),
        gradient, gradient, psr_onednn_elements(y));
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_relu = {plan_forward, relu_plan_backward, relu_forward,
                                               relu_backward, NULL};

/* Both inputs have dy as their gradient; their makers may overwrite it, so the second gets a
 * copy. */
static psr_err add_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    elementwise *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->gradient = dy[0];
    bool x = psr_onednn_wants_gradient(exec, self->x), r = psr_onednn_wants_gradient(exec, self->r);
    if (x)
        PSR_TRY(psr_onednn_gradient_put(exec, self->x, dy[0]));
    if (r && !x)
        return psr_onednn_gradient_put(exec, self->r, dy[0]);
    if (!r)
        return PSR_OK;
    self->copies = true;
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, exec->values[self->y].bytes, &self->gradient_r));
    return psr_onednn_gradient_put(exec, self->r, self->gradient_r);
}

static psr_err add_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const elementwise *self = step->self;
    const psr_onednn_tensor *y = &exec->values[self->y];
    run(exec->context->threads, y->type, y->type == dnnl_bf16 ? add_bf16 : add_f32,
        psr_onednn_data(exec, &exec->values[self->x]),
        psr_onednn_data(exec, &exec->values[self->r]), psr_onednn_data(exec, y),
        psr_onednn_elements(y));
    return PSR_OK;
}

static psr_err add_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const elementwise *self = step->self;
    if (self->copies)
        memcpy(psr_onednn_at(exec, self->gradient_r), psr_onednn_at(exec, self->gradient),
               exec->values[self->y].bytes);
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_add = {plan_forward, add_plan_backward, add_forward,
                                              add_backward, NULL};
