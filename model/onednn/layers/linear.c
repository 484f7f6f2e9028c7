/* Linear layers: y[n,o] = sum over i of x[n,i] w[o,i] + b[o], oneDNN's inner product.
 *
 * In float32 the weights are read and their gradients written where they are, in the arenas:
 * packing them would cost as much as the product at usual batch sizes. In bf16 they have to be
 * converted anyway, and oneDNN chooses the layout. The logits are float32 in every precision. */
#include "model/onednn/private.h"

#include <stdlib.h>

typedef struct linear {
    uint32_t node, input;
    bool logits;
    dnnl_memory_desc_t x, y, dy;      /* two-dimensional; dy in the compute type */
    dnnl_memory_desc_t weights, bias; /* as they lie in the arena */
    dnnl_memory_desc_t wanted, wanted_gradient;
    dnnl_primitive_desc_t forward_pd;
    psr_onednn_weights forward_weights, data_weights, gradient;
    psr_onednn_primitive forward, data, weight;
    uint32_t diff_logits; /* buffer: the gradient as the loss gives it;
                             converted where the compute type is another */
    uint32_t diff_destination, diff_source;
} linear;

static psr_err describe(psr_onednn_exec *exec, linear *self)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const uint32_t *shape = exec->net->params.tensors[node->weight].shape;
    dnnl_data_type_t type = exec->context->type;
    dnnl_format_tag_t tag = type == dnnl_f32 ? dnnl_ab : dnnl_format_tag_any;
    dnnl_dims_t x = {exec->count, shape[1]}, y = {exec->count, shape[0]}, w = {shape[0], shape[1]};
    PSR_TRY(psr_onednn_desc(exec, 2, x, type, dnnl_ab, &self->x));
    PSR_TRY(psr_onednn_desc(exec, 2, y, self->logits ? dnnl_f32 : type, dnnl_ab, &self->y));
    PSR_TRY(psr_onednn_desc(exec, 2, y, type, dnnl_ab, &self->dy));
    PSR_TRY(psr_onednn_desc(exec, 2, w, dnnl_f32, dnnl_ab, &self->weights));
    PSR_TRY(psr_onednn_desc(exec, 2, w, type, tag, &self->wanted));
    PSR_TRY(psr_onednn_desc(exec, 2, w, dnnl_f32, tag, &self->wanted_gradient));
    if (node->bias != PSR_NONE)
        PSR_TRY(psr_onednn_desc(exec, 1, w, dnnl_f32, dnnl_a, &self->bias));
    return PSR_OK;
}

static psr_err bind_forward(psr_onednn_exec *exec, linear *self)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const psr_onednn_tensor *x = psr_onednn_use(exec, self->input),
                            *y = psr_onednn_use(exec, self->node);
    const_dnnl_memory_desc_t packed =
        dnnl_primitive_desc_query_md(self->forward_pd, dnnl_query_weights_md, 0);
    psr_onednn_primitive *forward = &self->forward;
    PSR_TRY(psr_onednn_weights_init(exec, node->weight, self->weights, packed, PSR_ONEDNN_WEIGHTS,
                                    &self->forward_weights));
    PSR_TRY(psr_onednn_primitive_init(exec, self->forward_pd, node->name,
                                      psr_onednn_flop(exec, self->node), forward));
    PSR_TRY(psr_onednn_primitive_arg(exec, forward, DNNL_ARG_SRC, self->x, x->space, x->buffer));
    PSR_TRY(psr_onednn_primitive_arg(exec, forward, DNNL_ARG_WEIGHTS, packed,
                                     self->forward_weights.space, self->forward_weights.at));
    if (self->bias != NULL)
        PSR_TRY(psr_onednn_primitive_arg(exec, forward, DNNL_ARG_BIAS, self->bias,
                                         PSR_ONEDNN_WEIGHTS,
                                         exec->net->params.tensors[node->bias].offset));
    return psr_onednn_primitive_arg(exec, forward, DNNL_ARG_DST, self->y, y->space, y->buffer);
}

static psr_err linear_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    linear *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    self->node = step->group->output;
    const psr_network_node *node = &exec->net->nodes[self->node];
    self->input = node->input[0];
    self->logits = self->node == exec->net->node_count - 1;
    if (psr_onednn_use(exec, self->input)->layout != PSR_ONEDNN_PLAIN)
        return psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s wants its input flattened", node->name);
    PSR_TRY(describe(exec, self));
    psr_onednn_tensor tensor;
    PSR_TRY(psr_onednn_tensor_in(exec, self->node, PSR_ONEDNN_PLAIN,
                                 self->logits ? dnnl_f32 : exec->context->type, &tensor));
    PSR_TRY(psr_onednn_give(exec, self->node, &tensor));
    dnnl_status_t status = dnnl_inner_product_forward_primitive_desc_create(
        &self->forward_pd, exec->context->engine,
        exec->training ? dnnl_forward_training : dnnl_forward_inference, self->x, self->wanted,
        self->bias, self->y, exec->context->attr);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "inner product", node->name);
    return bind_forward(exec, self);
}

static psr_err bind_data(psr_onednn_exec *exec, linear *self, const_dnnl_primitive_desc_t pd)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const_dnnl_memory_desc_t packed = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    psr_onednn_primitive *data = &self->data;
    PSR_TRY(
        psr_pass_buffer_add(&exec->buffers, exec->values[self->input].bytes, &self->diff_source));
    PSR_TRY(psr_onednn_weights_init(exec, node->weight, self->weights, packed, PSR_ONEDNN_WEIGHTS,
                                    &self->data_weights));
    PSR_TRY(
        psr_onednn_primitive_init(exec, pd, node->name, psr_onednn_flop(exec, self->node), data));
    PSR_TRY(psr_onednn_primitive_arg(exec, data, DNNL_ARG_DIFF_DST, self->dy, PSR_ONEDNN_WORKSPACE,
                                     self->diff_destination));
    PSR_TRY(psr_onednn_primitive_arg(exec, data, DNNL_ARG_WEIGHTS, packed, self->data_weights.space,
                                     self->data_weights.at));
    PSR_TRY(psr_onednn_primitive_arg(exec, data, DNNL_ARG_DIFF_SRC, self->x, PSR_ONEDNN_WORKSPACE,
                                     self->diff_source));
    return psr_onednn_gradient_put(exec, self->input, self->diff_source);
}

static psr_err bind_weights(psr_onednn_exec *exec, linear *self, const_dnnl_primitive_desc_t pd)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const psr_onednn_tensor *x = psr_onednn_use(exec, self->input);
    const_dnnl_memory_desc_t packed =
        dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
    psr_onednn_primitive *weight = &self->weight;
    PSR_TRY(psr_onednn_weights_init(exec, node->weight, self->weights, packed, PSR_ONEDNN_GRADIENTS,
                                    &self->gradient));
    PSR_TRY(
        psr_onednn_primitive_init(exec, pd, node->name, psr_onednn_flop(exec, self->node), weight));
    PSR_TRY(psr_onednn_primitive_arg(exec, weight, DNNL_ARG_SRC, self->x, x->space, x->buffer));
    PSR_TRY(psr_onednn_primitive_arg(exec, weight, DNNL_ARG_DIFF_DST, self->dy,
                                     PSR_ONEDNN_WORKSPACE, self->diff_destination));
    PSR_TRY(psr_onednn_primitive_arg(exec, weight, DNNL_ARG_DIFF_WEIGHTS, packed,
                                     self->gradient.space, self->gradient.at));
    if (self->bias == NULL)
        return PSR_OK;
    return psr_onednn_primitive_arg(exec, weight, DNNL_ARG_DIFF_BIAS, self->bias,
                                    PSR_ONEDNN_GRADIENTS,
                                    exec->net->params.tensors[node->bias].offset);
}

static psr_err plan_data(psr_onednn_exec *exec, linear *self)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_inner_product_backward_data_primitive_desc_create(
        &pd, exec->context->engine, self->x, self->wanted, self->dy, self->forward_pd,
        exec->context->attr);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "inner product's backward data",
                               exec->net->nodes[self->node].name);
    psr_err err = bind_data(exec, self, pd);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err linear_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    linear *self = step->self;
    uint32_t gradient[2];
    psr_onednn_gradient_take(exec, step, self->node, 1, gradient);
    self->diff_logits = self->diff_destination = gradient[0];
    if (self->logits && exec->context->type != dnnl_f32)
        PSR_TRY(psr_pass_buffer_add(&exec->buffers, dnnl_memory_desc_get_size(self->dy),
                                    &self->diff_destination));
    if (psr_onednn_wants_gradient(exec, self->input))
        PSR_TRY(plan_data(exec, self));
    if (!psr_onednn_wants_parameters(exec, self->node))
        return PSR_OK;
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_inner_product_backward_weights_primitive_desc_create(
        &pd, exec->context->engine, self->x, self->wanted_gradient, self->bias, self->dy,
        self->forward_pd, exec->context->attr);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "inner product's backward weights",
                               exec->net->nodes[self->node].name);
    psr_err err = bind_weights(exec, self, pd);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err linear_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const linear *self = step->self;
    PSR_TRY(psr_onednn_weights_move(exec, &self->forward_weights));
    return psr_onednn_primitive_run(exec, &self->forward);
}

static psr_err linear_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const linear *self = step->self;
    if (self->diff_destination != self->diff_logits)
        psr_onednn_to_bf16(psr_onednn_at(exec, self->diff_logits),
                           psr_onednn_at(exec, self->diff_destination),
                           (size_t)exec->count * exec->net->classes);
    PSR_TRY(psr_onednn_weights_move(exec, &self->data_weights));
    PSR_TRY(psr_onednn_primitive_run(exec, &self->data));
    PSR_TRY(psr_onednn_primitive_run(exec, &self->weight));
    return psr_onednn_weights_move(exec, &self->gradient);
}

static void linear_done(psr_onednn_step *step)
{
    linear *self = step->self;
    psr_onednn_primitive *all[] = {&self->forward_weights.reorder,
                                   &self->forward,
                                   &self->data_weights.reorder,
                                   &self->data,
                                   &self->weight,
                                   &self->gradient.reorder};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        psr_onednn_primitive_done(all[i]);
    if (self->forward_pd != NULL)
        dnnl_primitive_desc_destroy(self->forward_pd);
}

const psr_onednn_step_class psr_onednn_linear = {linear_plan_forward, linear_plan_backward,
                                                 linear_forward, linear_backward, linear_done};
