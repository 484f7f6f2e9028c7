/* Convolution: oneDNN's primitives around weights that are packed afresh in every pass.
 *
 * The source's layout is given; the destination's is oneDNN's choice, unless the value is later
 * added to one that has its layout already. Gradients have the layouts of their values. The weights
 * are packed right before the primitive that reads them, into a buffer that all convolutions share:
 * it stays in the cache, and nothing reads the arena's weights after the step's backward.
 *
 * Late stages of a network see small images. Taps of a window that meet nothing but padding are
 * left out (crop): 3x3 on one pixel is 1x1, a ninth of the work and of the weights to pack.
 *
 * What oneDNN has but reference loops for is computed another way (conv_way.h). Few channels
 * between plain values are summed by our own kernels (image_lanes.h), which need no packing. */
#include "model/onednn/layers/conv_way.h"

#include <stdlib.h>

typedef struct conv {
    psr_conv shape;
    psr_conv_way forward, data, weight; /* by oneDNN; or */
    psr_winograd winograd;              /* by it: */
    bool forward_by_winograd, data_by_winograd, weight_by_winograd;
    psr_image_lanes lanes; /* all directions, of few channels: */
    bool by_lanes;
    uint32_t diff_source, diff_destination; /* buffers */
} conv;

/* Along one axis: the taps that meet images for some output. The others meet nothing but padding,
 * and are left out: a 3x3 window on images of one pixel is a 1x1 window. Returns the first that
 * stays. */
static dnnl_dim_t crop(psr_conv *self, int axis, const psr_network_node *node, uint32_t in,
                       uint32_t out)
{
    const dnnl_dim_t pad = node->pad, last_output = (dnnl_dim_t)(out - 1) * node->stride;
    const dnnl_dim_t first = pad > last_output ? pad - last_output : 0;
    const dnnl_dim_t last = in + pad < node->kernel ? in + pad - 1 : node->kernel - 1;
    self->kernel[axis] = last - first + 1;
    self->pad_begin[axis] = pad - first;
    self->pad_end[axis] = pad - (node->kernel - 1 - last);
    self->strides[axis] = node->stride;
    if (out == 1 && self->kernel[axis] == in) { /* the window covers the image:
                                                   any stride is the same */
        self->pad_begin[axis] = self->pad_end[axis] = 0;
        self->strides[axis] = 1;
    }
    return first;
}

/* self->weights: the cropped window of those in the arena. */
static psr_err describe_weights(psr_onednn_exec *exec, psr_conv *self, const dnnl_dims_t first)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const uint32_t *shape = exec->net->params.tensors[node->weight].shape;
    const uint32_t out = shape[0], in = shape[1] * self->groups, groups = self->groups;
    const dnnl_dim_t window[2] = {shape[2], shape[3]};
    const dnnl_dims_t dims = {out, in, self->kernel[0], self->kernel[1]};
    const dnnl_dims_t dims_in_groups = {groups, out / groups, in / groups, self->kernel[0],
                                        self->kernel[1]};
    const dnnl_dims_t offsets = {0, 0, first[0], first[1]},
                      offsets_in_groups = {0, 0, 0, first[0], first[1]};
    dnnl_memory_desc_t arena;
    PSR_TRY(psr_conv_weights_desc(exec, self, out, in, window, dnnl_f32, dnnl_oihw, &arena));
    PSR_TRY(psr_onednn_desc_within(exec, arena, groups > 1 ? dims_in_groups : dims,
                                   groups > 1 ? offsets_in_groups : offsets, &self->weights));
    PSR_TRY(psr_conv_weights_desc(exec, self, out, in, self->kernel, exec->context->type,
                                  dnnl_format_tag_any, &self->any_weights));
    PSR_TRY(psr_conv_weights_desc(exec, self, out, in, self->kernel, dnnl_f32, dnnl_format_tag_any,
                                  &self->any_gradient));
    if (node->bias == PSR_NONE)
        return PSR_OK;
    return psr_onednn_desc(exec, 1, dims, dnnl_f32, dnnl_x, &self->bias);
}

static psr_err describe(psr_onednn_exec *exec, const psr_fusion_group *group, psr_conv *self)
{
    const psr_network *net = exec->net;
    self->node = group->output;
    const psr_network_node *node = &net->nodes[self->node];
    self->input = node->input[0];
    self->groups = node->groups;
    for (uint32_t i = 0; i < self->node; i++)
        self->index += net->nodes[i].op == PSR_OP_CONV;
    const psr_network_node *source = &net->nodes[self->input];
    const dnnl_dims_t first = {crop(self, 0, node, source->height, node->height),
                               crop(self, 1, node, source->width, node->width)};
    return describe_weights(exec, self, first);
}

bool psr_onednn_conv_create(const psr_onednn_exec *exec, const psr_onednn_step *step,
                            psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                            dnnl_primitive_desc_t *ret_pd)
{
    const psr_conv *shape = &((const conv *)step->self)->shape;
    if (direction == PSR_ONEDNN_BACKWARD_DATA && !psr_onednn_wants_gradient(exec, shape->input))
        return false;
    dnnl_primitive_desc_t pd;
    if (psr_conv_describe(exec, shape, direction, algorithm, exec->values[shape->input].desc,
                          exec->values[shape->node].desc, &pd) != dnnl_success)
        return false;
    if (psr_onednn_is_loops(pd)) {
        dnnl_primitive_desc_destroy(pd);
        return false;
    }
    *ret_pd = pd;
    return true;
}

bool psr_onednn_conv_winograd(const psr_onednn_exec *exec, const psr_onednn_step *step,
                              psr_winograd *ret_winograd)
{
    const psr_conv *shape = &((const conv *)step->self)->shape;
    const psr_network_node *node = &exec->net->nodes[shape->node];
    const psr_onednn_tensor *x = &exec->values[shape->input], *y = &exec->values[shape->node];
    const bool window = shape->kernel[0] == 3 && shape->kernel[1] == 3 && node->stride == 1 &&
                        node->pad == 1 && shape->groups == 1;
    const bool blocks = x->layout == y->layout &&
                        (x->layout == PSR_ONEDNN_BLOCKED_8 || x->layout == PSR_ONEDNN_BLOCKED_16) &&
                        x->c % x->block == 0 && y->c % y->block == 0;
    if (!window || !blocks || shape->bias != NULL || !psr_onednn_allows_avx2())
        return false;
    *ret_winograd = (psr_winograd){.images = x->n,
                                   .in = x->c,
                                   .out = y->c,
                                   .height = x->h,
                                   .width = x->w,
                                   .lanes = x->block,
                                   .threads = exec->context->threads,
                                   .bf16 = x->type == dnnl_bf16};
    return ret_winograd->bf16 ? psr_onednn_has_bf16_dots() && psr_bf16_dots_supported() &&
                                    psr_winograd_bf16_fits(ret_winograd)
                              : psr_winograd_supported();
}

/* Whether it is to be computed by our own Winograd, and can be. */
static bool is_own(const psr_onednn_exec *exec, const psr_onednn_step *step,
                   psr_onednn_direction direction)
{
    conv *self = step->self;
    return psr_onednn_choice(exec->choices, self->shape.index, direction) ==
               PSR_ONEDNN_OWN_WINOGRAD &&
           psr_onednn_conv_winograd(exec, step, &self->winograd);
}

/* Whether images in lanes are the direct way, for values that lie plain. */
static bool fits_lanes(const psr_onednn_exec *exec, conv *self)
{
    const psr_conv *shape = &self->shape;
    const psr_network_node *node = &exec->net->nodes[shape->node];
    const psr_onednn_tensor *x = &exec->values[shape->input], *y = &exec->values[shape->node];
    self->lanes = (psr_image_lanes){.images = x->n,
                                    .in = x->c,
                                    .out = y->c,
                                    .height = x->h,
                                    .width = x->w,
                                    .kernel = node->kernel,
                                    .bf16 = x->type == dnnl_bf16,
                                    .lanes = psr_image_lanes_widest(),
                                    .threads = exec->context->threads};
    return x->layout == PSR_ONEDNN_PLAIN && y->layout == PSR_ONEDNN_PLAIN && node->stride == 1 &&
           node->pad == 0 && shape->groups == 1 && psr_onednn_allows_avx2() &&
           psr_image_lanes_fit(&self->lanes);
}

static psr_err any_value(psr_onednn_exec *exec, uint32_t node, dnnl_memory_desc_t *ret_desc)
{
    const psr_network_node *n = &exec->net->nodes[node];
    dnnl_dims_t dims = {exec->count, n->channels, n->height, n->width};
    return psr_onednn_desc(exec, 4, dims, exec->context->type, dnnl_format_tag_any, ret_desc);
}

static psr_err describe_forward(const psr_onednn_exec *exec, const psr_conv *shape,
                                const_dnnl_memory_desc_t source,
                                const_dnnl_memory_desc_t destination, dnnl_primitive_desc_t *ret_pd)
{
    dnnl_status_t status = psr_conv_describe(exec, shape, PSR_ONEDNN_FORWARD, PSR_ONEDNN_DIRECT,
                                             source, destination, ret_pd);
    return status == dnnl_success
               ? PSR_OK
               : psr_onednn_fail(status, "convolution", exec->net->nodes[shape->node].name);
}

psr_err psr_onednn_conv_source(psr_onednn_exec *exec, const psr_fusion_group *group,
                               dnnl_memory_desc_t *ret_desc)
{
    psr_conv shape = {0};
    dnnl_memory_desc_t source, destination;
    dnnl_primitive_desc_t pd;
    PSR_TRY(describe(exec, group, &shape));
    PSR_TRY(any_value(exec, shape.input, &source));
    PSR_TRY(any_value(exec, shape.node, &destination));
    PSR_TRY(describe_forward(exec, &shape, source, destination, &pd));
    psr_onednn_tensor tensor;
    psr_err err = psr_onednn_tensor_as(exec, shape.input,
                                       dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0),
                                       exec->context->type, &tensor);
    dnnl_primitive_desc_destroy(pd);
    if (err == PSR_OK)
        *ret_desc = tensor.desc;
    return err;
}

/* Batch norm, additions and option A shortcuts are kernels of our own, for blocks of channels. */
static bool needs_blocks(const psr_network *net)
{
    for (uint32_t i = 0; i < net->node_count; i++) {
        psr_op op = net->nodes[i].op;
        if (op == PSR_OP_BATCHNORM || op == PSR_OP_ADD || op == PSR_OP_SHORTCUT_A)
            return true;
    }
    return false;
}

/* oneDNN convolves fewer than 16 channels well from a plain source alone, and back to a plain one
 * from a plain gradient alone; anything else it does by loops, a hundred times slower. */
static bool wants_plain(const psr_onednn_exec *exec, const psr_conv *self,
                        const psr_onednn_tensor *destination)
{
    /* Not whether the gradient is wanted: layouts, and bits, do not depend on --freeze. */
    bool few = destination->c < 16 || (exec->values[self->input].layout == PSR_ONEDNN_PLAIN &&
                                       exec->net->nodes[self->input].op != PSR_OP_INPUT);
    return few && !needs_blocks(exec->net);
}

/* Layouts that our own kernels read; batch norm wants whole vectors of channels. */
static bool serves(const psr_onednn_exec *exec, const psr_conv *self,
                   const psr_onednn_tensor *tensor, uint32_t match)
{
    if (match == PSR_NONE && wants_plain(exec, self, tensor))
        return tensor->layout == PSR_ONEDNN_PLAIN;
    if (match != PSR_NONE && exec->values[match].layout != tensor->layout)
        return false;
    return tensor->layout == PSR_ONEDNN_BLOCKED_16 ||
           (tensor->layout == PSR_ONEDNN_BLOCKED_8 && tensor->type == dnnl_f32) ||
           (tensor->layout == PSR_ONEDNN_CHANNELS_LAST && tensor->c % 16 == 0);
}

/* Those of a vector. In others oneDNN has but loops. */
static psr_onednn_layout usual_blocks(const psr_onednn_exec *exec)
{
    return exec->context->type != dnnl_f32 || psr_onednn_has_avx512() ? PSR_ONEDNN_BLOCKED_16
                                                                      : PSR_ONEDNN_BLOCKED_8;
}

/* The forward primitive with a destination that oneDNN likes best among those that serve. */
static psr_err choose_destination(psr_onednn_exec *exec, psr_conv *self, uint32_t match,
                                  psr_onednn_tensor *ret_tensor)
{
    const psr_onednn_tensor *source = psr_onednn_use(exec, self->input);
    dnnl_memory_desc_t any;
    PSR_TRY(any_value(exec, self->node, &any));
    PSR_TRY(describe_forward(exec, self, source->desc, any, &self->forward_pd));
    PSR_TRY(psr_onednn_tensor_as(
        exec, self->node, dnnl_primitive_desc_query_md(self->forward_pd, dnnl_query_dst_md, 0),
        exec->context->type, ret_tensor));
    psr_onednn_layout layout = exec->context->layout;
    if (layout == PSR_ONEDNN_OTHER && serves(exec, self, ret_tensor, match))
        return PSR_OK;
    if (layout == PSR_ONEDNN_OTHER)
        layout = match != PSR_NONE                     ? exec->values[match].layout
                 : wants_plain(exec, self, ret_tensor) ? PSR_ONEDNN_PLAIN
                                                       : usual_blocks(exec);
    PSR_TRY(psr_onednn_tensor_in(exec, self->node, layout, exec->context->type, ret_tensor));
    dnnl_primitive_desc_destroy(self->forward_pd);
    self->forward_pd = NULL;
    return describe_forward(exec, self, source->desc, ret_tensor->desc, &self->forward_pd);
}

static void use_scratch(psr_onednn_exec *exec, size_t floats)
{
    psr_pass_buffer_grow(&exec->buffers, exec->scratch, floats * sizeof(float));
}

static psr_err conv_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a convolution");
    step->self = self;
    psr_conv *shape = &self->shape;
    PSR_TRY(describe(exec, step->group, shape));
    psr_onednn_tensor tensor;
    PSR_TRY(choose_destination(exec, shape, step->group->match, &tensor));
    PSR_TRY(psr_onednn_give(exec, shape->node, &tensor));
    const psr_onednn_tensor *source = psr_onednn_use(exec, shape->input);
    const psr_onednn_tensor *destination = psr_onednn_use(exec, shape->node);
    self->by_lanes = fits_lanes(exec, self);
    if (self->by_lanes) {
        use_scratch(exec, psr_image_lanes_scratch(&self->lanes));
        return PSR_OK;
    }
    self->forward_by_winograd = is_own(exec, step, PSR_ONEDNN_FORWARD);
    if (self->forward_by_winograd) {
        use_scratch(exec, psr_winograd_values_scratch(&self->winograd));
        return PSR_OK;
    }
    return psr_conv_way_init(exec, shape, PSR_ONEDNN_FORWARD, source, destination, &self->forward);
}

/* The gradient of a value, which lies as the value does. */
static psr_onednn_tensor gradient_of(const psr_onednn_exec *exec, uint32_t node, uint32_t buffer)
{
    psr_onednn_tensor gradient = exec->values[node];
    gradient.space = PSR_ONEDNN_WORKSPACE;
    gradient.buffer = buffer;
    return gradient;
}

/* Gradient of the source: w^T * dy. */
static psr_err plan_data(psr_onednn_exec *exec, const psr_onednn_step *step)
{
    conv *self = step->self;
    const psr_conv *shape = &self->shape;
    PSR_TRY(
        psr_pass_buffer_add(&exec->buffers, exec->values[shape->input].bytes, &self->diff_source));
    PSR_TRY(psr_onednn_gradient_put(exec, shape->input, self->diff_source));
    if (self->by_lanes)
        return PSR_OK;
    self->data_by_winograd = is_own(exec, step, PSR_ONEDNN_BACKWARD_DATA);
    if (self->data_by_winograd) {
        use_scratch(exec, psr_winograd_values_scratch(&self->winograd));
        return PSR_OK;
    }
    const psr_onednn_tensor source = gradient_of(exec, shape->input, self->diff_source),
                            destination = gradient_of(exec, shape->node, self->diff_destination);
    return psr_conv_way_init(exec, shape, PSR_ONEDNN_BACKWARD_DATA, &source, &destination,
                             &self->data);
}

/* Gradient of the weights: sum over batch and positions of dy * x, in float32 whatever the
 * activations. */
static psr_err plan_weights(psr_onednn_exec *exec, const psr_onednn_step *step)
{
    conv *self = step->self;
    const psr_conv *shape = &self->shape;
    const psr_onednn_tensor *source = psr_onednn_use(exec, shape->input);
    if (self->by_lanes)
        return PSR_OK;
    self->weight_by_winograd = is_own(exec, step, PSR_ONEDNN_BACKWARD_WEIGHTS);
    if (self->weight_by_winograd) {
        use_scratch(exec, psr_winograd_weights_scratch(&self->winograd));
        return PSR_OK;
    }
    const psr_onednn_tensor destination = gradient_of(exec, shape->node, self->diff_destination);
    return psr_conv_way_init(exec, shape, PSR_ONEDNN_BACKWARD_WEIGHTS, source, &destination,
                             &self->weight);
}

static psr_err conv_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = step->self;
    uint32_t diff_destination[2];
    psr_onednn_gradient_take(exec, step, self->shape.node, 1, diff_destination);
    self->diff_destination = diff_destination[0];
    if (psr_onednn_wants_gradient(exec, self->shape.input))
        PSR_TRY(plan_data(exec, step));
    return psr_onednn_wants_parameters(exec, self->shape.node) ? plan_weights(exec, step) : PSR_OK;
}

static size_t weight_offset(const psr_onednn_exec *exec, const conv *self)
{
    return exec->net->params.tensors[exec->net->nodes[self->shape.node].weight].offset;
}

/* arena + the bias's offset; NULL where there is none. */
static const float *bias_in(const psr_onednn_exec *exec, const conv *self, const float *arena)
{
    const uint32_t bias = exec->net->nodes[self->shape.node].bias;
    return bias == PSR_NONE ? NULL : arena + exec->net->params.tensors[bias].offset;
}

static void forward_by_lanes(const psr_onednn_exec *exec, const conv *self)
{
    psr_image_lanes_forward(
        &self->lanes, psr_onednn_data(exec, &exec->values[self->shape.input]),
        exec->state->weights + weight_offset(exec, self), bias_in(exec, self, exec->state->weights),
        psr_onednn_data(exec, &exec->values[self->shape.node]), psr_onednn_at(exec, exec->scratch));
}

static void backward_by_lanes(const psr_onednn_exec *exec, const conv *self)
{
    const size_t offset = weight_offset(exec, self);
    const void *gradient = psr_onednn_at(exec, self->diff_destination);
    float *scratch = psr_onednn_at(exec, exec->scratch);
    if (psr_onednn_wants_gradient(exec, self->shape.input))
        psr_image_lanes_source_gradient(&self->lanes, gradient, exec->state->weights + offset,
                                        psr_onednn_at(exec, self->diff_source), scratch);
    if (!psr_onednn_wants_parameters(exec, self->shape.node))
        return;
    psr_image_lanes_weights_gradient(
        &self->lanes, psr_onednn_data(exec, &exec->values[self->shape.input]), gradient,
        exec->state->gradients + offset,
        (float *)(uintptr_t)bias_in(exec, self, exec->state->gradients), scratch);
}

static psr_err conv_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = step->self;
    if (self->by_lanes) {
        forward_by_lanes(exec, self);
        return PSR_OK;
    }
    if (!self->forward_by_winograd)
        return psr_conv_way_run(exec, &self->forward);
    psr_winograd_forward(&self->winograd, psr_onednn_data(exec, &exec->values[self->shape.input]),
                         exec->state->weights + weight_offset(exec, self),
                         psr_onednn_data(exec, &exec->values[self->shape.node]),
                         psr_onednn_at(exec, exec->scratch));
    return PSR_OK;
}

static psr_err conv_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = step->self;
    const size_t offset = weight_offset(exec, self);
    const void *gradient = psr_onednn_at(exec, self->diff_destination);
    float *scratch = psr_onednn_at(exec, exec->scratch);
    if (self->by_lanes) {
        backward_by_lanes(exec, self);
        return PSR_OK;
    }
    if (self->data_by_winograd)
        psr_winograd_source_gradient(&self->winograd, gradient, exec->state->weights + offset,
                                     psr_onednn_at(exec, self->diff_source), scratch);
    if (self->weight_by_winograd)
        psr_winograd_weights_gradient(&self->winograd,
                                      psr_onednn_data(exec, &exec->values[self->shape.input]),
                                      gradient, exec->state->gradients + offset, scratch);
    PSR_TRY(psr_conv_way_run(exec, &self->data));
    return psr_conv_way_run(exec, &self->weight);
}

static void conv_done(psr_onednn_step *step)
{
    conv *self = step->self;
    psr_conv_way_done(&self->forward);
    psr_conv_way_done(&self->data);
    psr_conv_way_done(&self->weight);
    if (self->shape.forward_pd != NULL)
        dnnl_primitive_desc_destroy(self->shape.forward_pd);
}

const psr_onednn_step_class psr_onednn_conv = {
    conv_plan_forward, conv_plan_backward, conv_forward, conv_backward, conv_done,
};
