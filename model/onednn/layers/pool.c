/* Max pooling: oneDNN's primitive, or our own kernels (max_pool.h) where oneDNN has loops for
 * values that lie plain; the forward pass notes in a workspace which element was the largest. */
#include "model/onednn/kernels/max_pool.h"
#include "model/onednn/private.h"

#include <stdlib.h>

typedef struct pool {
    uint32_t x, y;  /* nodes */
    uint32_t noted; /* buffer: which element was the largest; training only */
    uint32_t dx;    /* buffer */
    dnnl_dims_t kernel, stride, dilation, pad;
    dnnl_primitive_desc_t forward_pd;
    psr_onednn_primitive forward, backward;
    psr_max_pool own; /* or by it: */
    bool by_own;
    uint32_t dy; /* buffer */
} pool;

/* Whether our own kernels fit. */
static bool fits_own(const psr_onednn_exec *exec, pool *self)
{
    const psr_network_node *node = &exec->net->nodes[self->y];
    const psr_onednn_tensor *x = &exec->values[self->x];
    self->own = (psr_max_pool){.planes = (size_t)x->n * x->c,
                               .height = x->h,
                               .width = x->w,
                               .out_height = node->height,
                               .out_width = node->width,
                               .kernel = node->kernel,
                               .stride = node->stride,
                               .pad = node->pad,
                               .bf16 = x->type == dnnl_bf16,
                               .threads = exec->context->threads};
    return x->layout == PSR_ONEDNN_PLAIN && psr_max_pool_fits(&self->own);
}

static psr_err plan_own(psr_onednn_exec *exec, pool *self)
{
    const psr_network_node *node = &exec->net->nodes[self->y];
    const psr_onednn_tensor *x = &exec->values[self->x];
    psr_onednn_tensor y;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, PSR_ONEDNN_PLAIN, x->type, &y));
    PSR_TRY(psr_onednn_give(exec, self->y, &y));
    psr_pass_buffer_grow(&exec->buffers, exec->scratch,
                         psr_max_pool_scratch(&self->own) * sizeof(float));
    if (!exec->training)
        return PSR_OK;
    return psr_pass_buffer_add(&exec->buffers, self->own.planes * node->height * node->width,
                               &self->noted);
}

static psr_err create_forward(psr_onednn_exec *exec, pool *self)
{
    const psr_network_node *node = &exec->net->nodes[self->y];
    const psr_onednn_tensor *x = &exec->values[self->x];
    dnnl_dims_t dims = {exec->count, node->channels, node->height, node->width};
    dnnl_memory_desc_t any;
    PSR_TRY(psr_onednn_desc(exec, 4, dims, x->type, dnnl_format_tag_any, &any));
    dnnl_status_t status = dnnl_pooling_forward_primitive_desc_create(
        &self->forward_pd, exec->context->engine,
        exec->training ? dnnl_forward_training : dnnl_forward_inference, dnnl_pooling_max, x->desc,
        any, self->stride, self->kernel, self->dilation, self->pad, self->pad, exec->context->attr);
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "max pooling", node->name);
}

static psr_err create_backward(const psr_onednn_exec *exec, const pool *self,
                               dnnl_primitive_desc_t *ret_pd)
{
    dnnl_status_t status = dnnl_pooling_backward_primitive_desc_create(
        ret_pd, exec->context->engine, dnnl_pooling_max, exec->values[self->x].desc,
        dnnl_primitive_desc_query_md(self->forward_pd, dnnl_query_dst_md, 0), self->stride,
        self->kernel, self->dilation, self->pad, self->pad, self->forward_pd, exec->context->attr);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "max pooling's backward", exec->net->nodes[self->y].name);
    return PSR_OK;
}

/* Our own kernels where they fit and oneDNN has loops for either pass. */
static psr_err choose(psr_onednn_exec *exec, pool *self)
{
    if (!fits_own(exec, self))
        return PSR_OK;
    self->by_own = psr_onednn_is_loops(self->forward_pd);
    if (self->by_own || !exec->training)
        return PSR_OK;
    dnnl_primitive_desc_t pd;
    PSR_TRY(create_backward(exec, self, &pd));
    self->by_own = psr_onednn_is_loops(pd);
    dnnl_primitive_desc_destroy(pd);
    return PSR_OK;
}

static psr_err pool_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    pool *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->y = step->group->output;
    const psr_network_node *node = &exec->net->nodes[self->y];
    self->x = node->input[0];
    for (int axis = 0; axis < 2; axis++) {
        self->kernel[axis] = node->kernel;
        self->stride[axis] = node->stride;
        self->pad[axis] = node->pad;
    }
    const psr_onednn_tensor *x = psr_onednn_use(exec, self->x);
    PSR_TRY(create_forward(exec, self));
    PSR_TRY(choose(exec, self));
    if (self->by_own)
        return plan_own(exec, self);
    psr_onednn_tensor y;
    PSR_TRY(psr_onednn_tensor_as(
        exec, self->y, dnnl_primitive_desc_query_md(self->forward_pd, dnnl_query_dst_md, 0),
        x->type, &y));
    PSR_TRY(psr_onednn_give(exec, self->y, &y));
    PSR_TRY(psr_onednn_primitive_init(exec, self->forward_pd, node->name, 0, &self->forward));
    PSR_TRY(psr_onednn_primitive_tensor(exec, &self->forward, DNNL_ARG_SRC, x));
    PSR_TRY(
        psr_onednn_primitive_tensor(exec, &self->forward, DNNL_ARG_DST, &exec->values[self->y]));
    if (!exec->training)
        return PSR_OK;
    const_dnnl_memory_desc_t noted =
        dnnl_primitive_desc_query_md(self->forward_pd, dnnl_query_workspace_md, 0);
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, dnnl_memory_desc_get_size(noted), &self->noted));
    return psr_onednn_primitive_arg(exec, &self->forward, DNNL_ARG_WORKSPACE, noted,
                                    PSR_ONEDNN_WORKSPACE, self->noted);
}

static psr_err bind_backward(psr_onednn_exec *exec, pool *self, const_dnnl_primitive_desc_t pd,
                             uint32_t dy)
{
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, exec->values[self->x].bytes, &self->dx));
    psr_pass_buffer_use(&exec->buffers, self->noted);
    PSR_TRY(
        psr_onednn_primitive_init(exec, pd, exec->net->nodes[self->y].name, 0, &self->backward));
    PSR_TRY(psr_onednn_primitive_arg(exec, &self->backward, DNNL_ARG_DIFF_DST,
                                     exec->values[self->y].desc, PSR_ONEDNN_WORKSPACE, dy));
    PSR_TRY(psr_onednn_primitive_arg(exec, &self->backward, DNNL_ARG_DIFF_SRC,
                                     exec->values[self->x].desc, PSR_ONEDNN_WORKSPACE, self->dx));
    PSR_TRY(psr_onednn_primitive_arg(
        exec, &self->backward, DNNL_ARG_WORKSPACE,
        dnnl_primitive_desc_query_md(self->forward_pd, dnnl_query_workspace_md, 0),
        PSR_ONEDNN_WORKSPACE, self->noted));
    return psr_onednn_gradient_put(exec, self->x, self->dx);
}

static psr_err pool_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    pool *self = step->self;
    uint32_t dy[2];
    psr_onednn_gradient_take(exec, step, self->y, 1, dy);
    if (!psr_onednn_wants_gradient(exec, self->x))
        return PSR_OK;
    if (self->by_own) {
        self->dy = dy[0];
        psr_pass_buffer_use(&exec->buffers, self->noted);
        PSR_TRY(psr_pass_buffer_add(&exec->buffers, exec->values[self->x].bytes, &self->dx));
        return psr_onednn_gradient_put(exec, self->x, self->dx);
    }
    dnnl_primitive_desc_t pd;
    PSR_TRY(create_backward(exec, self, &pd));
    psr_err err = bind_backward(exec, self, pd, dy[0]);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err pool_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const pool *self = step->self;
    if (!self->by_own)
        return psr_onednn_primitive_run(exec, &self->forward);
    psr_max_pool_forward(&self->own, psr_onednn_data(exec, &exec->values[self->x]),
                         psr_onednn_data(exec, &exec->values[self->y]),
                         exec->training ? psr_onednn_at(exec, self->noted) : NULL,
                         psr_onednn_at(exec, exec->scratch));
    return PSR_OK;
}

static psr_err pool_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const pool *self = step->self;
    if (!self->by_own || !psr_onednn_wants_gradient(exec, self->x))
        return psr_onednn_primitive_run(exec, &self->backward);
    psr_max_pool_backward(&self->own, psr_onednn_at(exec, self->dy),
                          psr_onednn_at(exec, self->noted), psr_onednn_at(exec, self->dx),
                          psr_onednn_at(exec, exec->scratch));
    return PSR_OK;
}

static void pool_done(psr_onednn_step *step)
{
    pool *self = step->self;
    psr_onednn_primitive_done(&self->forward);
    psr_onednn_primitive_done(&self->backward);
    if (self->forward_pd != NULL)
        dnnl_primitive_desc_destroy(self->forward_pd);
}

const psr_onednn_step_class psr_onednn_pool = {pool_plan_forward, pool_plan_backward, pool_forward,
                                               pool_backward, pool_done};
