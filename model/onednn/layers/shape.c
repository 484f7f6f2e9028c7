/* Steps that move values from one shape or layout to another: the images' way in, global average
 * pooling, option A's shortcut, flattening. */
#include "model/onednn/kernels/value.h"
#include "model/onednn/private.h"

#include <stdlib.h>
#include <string.h>

/* Where x[n,c,s] lies. */
static inline size_t place(const psr_onednn_tensor *x, size_t n, size_t c, size_t s)
{
    size_t size = (size_t)x->h * x->w;
    return ((n * x->blocks + c / x->block) * size + s) * x->block + c % x->block;
}

/* ---- the images ---- */

typedef struct input {
    psr_onednn_primitive reorder; /* none: the first reader takes them as they are */
} input;

/* The only reader's wish decides the layout; plain in the compute type when there are several. */
static psr_err input_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    input *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    uint32_t node = step->group->output;
    psr_onednn_tensor images, value;
    PSR_TRY(psr_onednn_tensor_in(exec, node, PSR_ONEDNN_PLAIN, dnnl_f32, &images));
    PSR_TRY(psr_onednn_tensor_in(exec, node, PSR_ONEDNN_PLAIN, exec->context->type, &value));
    if (exec->groups->readers[node] == 1) {
        for (uint32_t i = 0; i < exec->groups->count; i++) {
            const psr_fusion_group *group = &exec->groups->items[i];
            if (group->op != PSR_OP_CONV || exec->net->nodes[group->output].input[0] != node)
                continue;
            dnnl_memory_desc_t wish;
            PSR_TRY(psr_onednn_conv_source(exec, group, &wish));
            PSR_TRY(psr_onednn_tensor_as(exec, node, wish, exec->context->type, &value));
        }
    }
    if (dnnl_memory_desc_equal(images.desc, value.desc)) {
        images.space = PSR_ONEDNN_IMAGES;
        exec->values[node] = images;
        return PSR_OK;
    }
    PSR_TRY(psr_onednn_give(exec, node, &value));
    return psr_onednn_reorder_init(exec, images.desc, PSR_ONEDNN_IMAGES, 0, value.desc,
                                   PSR_ONEDNN_WORKSPACE, exec->values[node].buffer, "the images",
                                   &self->reorder);
}

static psr_err input_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    return psr_onednn_primitive_run(exec, &((input *)step->self)->reorder);
}

static void input_done(psr_onednn_step *step)
{
    psr_onednn_primitive_done(&((input *)step->self)->reorder);
}

const psr_onednn_step_class psr_onednn_input = {input_plan_forward, NULL, input_forward, NULL,
                                                input_done};

/* ---- what the others share ---- */

typedef struct reshape {
    uint32_t x, y;   /* nodes */
    uint32_t dy, dx; /* buffers */
    bool view;       /* flatten: y is x */
} reshape;

static psr_err reshape_new(psr_onednn_exec *exec, psr_onednn_step *step)
{
    reshape *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->y = step->group->output;
    self->x = exec->net->nodes[self->y].input[0];
    if (psr_onednn_use(exec, self->x)->layout == PSR_ONEDNN_OTHER)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s cannot read the layout of its input",
                        exec->net->nodes[self->y].name);
    return PSR_OK;
}

static psr_err reshape_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    reshape *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    self->dy = dy[0];
    if (!psr_onednn_wants_gradient(exec, self->x))
        return PSR_OK;
    if (self->view)
        return psr_onednn_gradient_put(exec, self->x, self->dy);
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, exec->values[self->x].bytes, &self->dx));
    return psr_onednn_gradient_put(exec, self->x, self->dx);
}

/* ---- y[n,c] = mean over s of x[n,c,s] ---- */

static psr_err mean_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    psr_onednn_tensor tensor;
    PSR_TRY(reshape_new(exec, step));
    reshape *self = step->self;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, PSR_ONEDNN_PLAIN, exec->context->type, &tensor));
    return psr_onednn_give(exec, self->y, &tensor);
}

static psr_err mean_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const reshape *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    const void *from = psr_onednn_data(exec, x);
    void *to = psr_onednn_data(exec, y);
    size_t size = (size_t)x->h * x->w, rows = (size_t)x->n * x->c;
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        size_t n = row / x->c, c = row % x->c;
        double sum = 0;
        for (size_t s = 0; s < size; s++)
            sum += (double)psr_value_load(x->type, from, place(x, n, c, s));
        psr_value_store(y->type, to, row, (float)(sum / (double)size));
    }
    return PSR_OK;
}

static psr_err mean_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const reshape *self = step->self;
    if (!psr_onednn_wants_gradient(exec, self->x))
        return PSR_OK;
    const psr_onednn_tensor *x = &exec->values[self->x];
    const void *from = psr_onednn_at(exec, self->dy);
    void *to = psr_onednn_at(exec, self->dx);
    size_t size = (size_t)x->h * x->w, rows = (size_t)x->n * x->c;
    float share = (float)(1.0 / (double)size);
    /* The channels that blocks are padded with stay zero. */
    if (x->c % x->block != 0)
        memset(to, 0, x->bytes);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        float gradient = psr_value_load(x->type, from, row) * share;
        for (size_t s = 0; s < size; s++)
            psr_value_store(x->type, to, place(x, row / x->c, row % x->c, s), gradient);
    }
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_mean = {mean_plan_forward, reshape_plan_backward,
                                               mean_forward, mean_backward, NULL};

/* ---- option A: every stride-th pixel, new channels zero, half of them in front ---- */

static psr_err shortcut_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    psr_onednn_tensor tensor;
    PSR_TRY(reshape_new(exec, step));
    reshape *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x];
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, x->layout, x->type, &tensor));
    return psr_onednn_give(exec, self->y, &tensor);
}

/* Element (n, c, i, j) of y and the element of x behind it. */
static inline size_t shortcut_from(const psr_onednn_tensor *x, const psr_onednn_tensor *y,
                                   uint32_t stride, size_t n, size_t c, size_t s)
{
    size_t i = s / y->w * stride, j = s % y->w * stride;
    return place(x, n, c, i * x->w + j);
}

static psr_err shortcut_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const reshape *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    uint32_t stride = exec->net->nodes[self->y].stride;
    const void *from = psr_onednn_data(exec, x);
    void *to = psr_onednn_data(exec, y);
    size_t size = (size_t)y->h * y->w, front = (y->c - x->c) / 2;
    memset(to, 0, y->bytes);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t n = 0; n < x->n; n++)
        for (size_t c = 0; c < x->c; c++)
            for (size_t s = 0; s < size; s++)
                psr_value_store(
                    y->type, to, place(y, n, front + c, s),
                    psr_value_load(x->type, from, shortcut_from(x, y, stride, n, c, s)));
    return PSR_OK;
}

static psr_err shortcut_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const reshape *self = step->self;
    if (!psr_onednn_wants_gradient(exec, self->x))
        return PSR_OK;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    uint32_t stride = exec->net->nodes[self->y].stride;
    const void *from = psr_onednn_at(exec, self->dy);
    void *to = psr_onednn_at(exec, self->dx);
    size_t size = (size_t)y->h * y->w, front = (y->c - x->c) / 2;
    memset(to, 0, x->bytes);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t n = 0; n < x->n; n++)
        for (size_t c = 0; c < x->c; c++)
            for (size_t s = 0; s < size; s++)
                psr_value_store(x->type, to, shortcut_from(x, y, stride, n, c, s),
                                psr_value_load(y->type, from, place(y, n, front + c, s)));
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_shortcut = {shortcut_plan_forward, reshape_plan_backward,
                                                   shortcut_forward, shortcut_backward, NULL};

/* ---- [N,C,H,W] to [N,C*H*W], C major: a view where x lies so already ---- */

static psr_err flatten_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    psr_onednn_tensor tensor;
    PSR_TRY(reshape_new(exec, step));
    reshape *self = step->self;
    const psr_onednn_tensor *x = &exec->values[self->x];
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, PSR_ONEDNN_PLAIN, x->type, &tensor));
    self->view = x->layout == PSR_ONEDNN_PLAIN ||
                 (x->layout == PSR_ONEDNN_CHANNELS_LAST && x->h * x->w == 1);
    if (!self->view)
        return psr_onednn_give(exec, self->y, &tensor);
    tensor.space = x->space;
    tensor.buffer = x->buffer;
    exec->values[self->y] = tensor;
    return PSR_OK;
}

static psr_err flatten_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const reshape *self = step->self;
    if (self->view)
        return PSR_OK;
    const psr_onednn_tensor *x = &exec->values[self->x], *y = &exec->values[self->y];
    const void *from = psr_onednn_data(exec, x);
    void *to = psr_onednn_data(exec, y);
    size_t size = (size_t)x->h * x->w, rows = (size_t)x->n * x->c;
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t row = 0; row < rows; row++)
        for (size_t s = 0; s < size; s++)
            psr_value_store(y->type, to, row * size + s,
                            psr_value_load(x->type, from, place(x, row / x->c, row % x->c, s)));
    return PSR_OK;
}

static psr_err flatten_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const reshape *self = step->self;
    if (self->view || !psr_onednn_wants_gradient(exec, self->x))
        return PSR_OK;
    const psr_onednn_tensor *x = &exec->values[self->x];
    const void *from = psr_onednn_at(exec, self->dy);
    void *to = psr_onednn_at(exec, self->dx);
    size_t size = (size_t)x->h * x->w, rows = (size_t)x->n * x->c;
    if (x->c % x->block != 0)
        memset(to, 0, x->bytes);
#pragma omp parallel for num_threads(exec->context->threads) schedule(static)
    for (size_t row = 0; row < rows; row++)
        for (size_t s = 0; s < size; s++)
            psr_value_store(x->type, to, place(x, row / x->c, row % x->c, s),
                            psr_value_load(x->type, from, row * size + s));
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_flatten = {flatten_plan_forward, reshape_plan_backward,
                                                  flatten_forward, flatten_backward, NULL};
