/* Convolution: oneDNN's primitives around weights that are packed afresh in every pass.
 *
 * The source's layout is given; the destination's is oneDNN's choice, unless the value is later
 * added to one that has its layout already. Gradients have the layouts of their values. The weights
 * are packed right before the primitive that reads them, into a buffer that all convolutions share:
 * it stays in the cache, and nothing reads the arena's weights after the step's backward.
 *
 * Late stages of a network see small images. Taps of a window that meet nothing but padding are
 * left out (crop): 3x3 on one pixel is 1x1, a ninth of the work and of the weights to pack. And
 * images of fewer rows or channels than oneDNN's kernel for the weights' gradient wants are copied
 * among zeros (plan_larger). */
#include "model/onednn/private.h"

#include <stdlib.h>
#include <string.h>

/* A value with rows of zeros below its own and channels of zeros behind them. Zero: as it is. */
typedef struct conv_larger {
    psr_onednn_tensor tensor;
    psr_onednn_primitive copy;
} conv_larger;

typedef struct conv {
    uint32_t node, input;
    uint32_t index; /* among the convolutions, for the choice of algorithms */
    dnnl_dims_t strides, dilates;
    dnnl_dims_t kernel, pad_begin, pad_end; /* of the window that meets images (crop) */
    dnnl_memory_desc_t weights, bias;       /* as they lie in the arena; bias NULL when absent */
    dnnl_memory_desc_t any_weights;         /* in the compute type */
    dnnl_memory_desc_t any_gradient;
    dnnl_primitive_desc_t forward_pd; /* the hint for the backward pass; freed with the step */
    psr_onednn_weights forward_weights, data_weights, gradient;
    psr_onednn_primitive forward, data, weight;
    conv_larger larger_source, larger_gradient; /* what `weight` reads, if the
                                                   images are too small for it */
    uint32_t diff_source, diff_destination;     /* buffers */
    psr_winograd winograd;                      /* by it, instead of the primitive: */
    bool forward_by_winograd, data_by_winograd, weight_by_winograd;
} conv;

/* Along one axis: the taps that meet images for some output. The others meet nothing but padding,
 * and are left out: a 3x3 window on images of one pixel is a 1x1 window. Returns the first that
 * stays. */
static dnnl_dim_t crop(conv *self, int axis, const psr_network_node *node, uint32_t in,
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

/* The weights of a window of so many input channels, in a layout of oneDNN's choice. */
static psr_err describe_any(psr_onednn_exec *exec, conv *self, uint32_t channels)
{
    const dnnl_dims_t dims = {exec->net->nodes[self->node].channels, channels, self->kernel[0],
                              self->kernel[1]};
    PSR_TRY(psr_onednn_desc(exec, 4, dims, exec->context->type, dnnl_format_tag_any,
                            &self->any_weights));
    return psr_onednn_desc(exec, 4, dims, dnnl_f32, dnnl_format_tag_any, &self->any_gradient);
}

/* self->weights: the cropped window of those in the arena. */
static psr_err describe_weights(psr_onednn_exec *exec, conv *self, const dnnl_dims_t first)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const uint32_t *shape = exec->net->params.tensors[node->weight].shape;
    const dnnl_dims_t whole = {shape[0], shape[1], shape[2], shape[3]};
    const dnnl_dims_t dims = {shape[0], shape[1], self->kernel[0], self->kernel[1]};
    const dnnl_dims_t offsets = {0, 0, first[0], first[1]};
    dnnl_memory_desc_t arena;
    PSR_TRY(psr_onednn_desc(exec, 4, whole, dnnl_f32, dnnl_oihw, &arena));
    PSR_TRY(psr_onednn_desc_within(exec, arena, dims, offsets, &self->weights));
    PSR_TRY(describe_any(exec, self, shape[1]));
    if (node->bias == PSR_NONE)
        return PSR_OK;
    return psr_onednn_desc(exec, 1, dims, dnnl_f32, dnnl_x, &self->bias);
}

static psr_err describe(psr_onednn_exec *exec, const psr_onednn_group *group, conv *self)
{
    const psr_network *net = exec->net;
    self->node = group->output;
    const psr_network_node *node = &net->nodes[self->node];
    self->input = node->input[0];
    for (uint32_t i = 0; i < self->node; i++)
        self->index += net->nodes[i].op == PSR_OP_CONV;
    const psr_network_node *source = &net->nodes[self->input];
    const dnnl_dims_t first = {crop(self, 0, node, source->height, node->height),
                               crop(self, 1, node, source->width, node->width)};
    return describe_weights(exec, self, first);
}

static dnnl_alg_kind_t kind_of(psr_onednn_algorithm algorithm)
{
    return algorithm == PSR_ONEDNN_WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

static dnnl_status_t create_forward(const psr_onednn_exec *exec, const conv *self,
                                    dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t source,
                                    const_dnnl_memory_desc_t destination,
                                    dnnl_primitive_desc_t *ret_pd)
{
    return dnnl_convolution_forward_primitive_desc_create(
        ret_pd, exec->context->engine,
        exec->training ? dnnl_forward_training : dnnl_forward_inference, algorithm, source,
        self->any_weights, self->bias, destination, self->strides, self->dilates, self->pad_begin,
        self->pad_end, exec->context->attr);
}

static dnnl_status_t create_weights(const psr_onednn_exec *exec, const conv *self,
                                    dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t source,
                                    const_dnnl_memory_desc_t gradient,
                                    const_dnnl_primitive_desc_t forward,
                                    dnnl_primitive_desc_t *ret_pd)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(
        ret_pd, exec->context->engine, algorithm, source, self->any_gradient, self->bias, gradient,
        self->strides, self->dilates, self->pad_begin, self->pad_end, forward, exec->context->attr);
}

/* Between the layouts that the values have by now. */
static dnnl_status_t create(const psr_onednn_exec *exec, const conv *self,
                            psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                            dnnl_primitive_desc_t *ret_pd)
{
    const_dnnl_memory_desc_t x = exec->values[self->input].desc, y = exec->values[self->node].desc;
    dnnl_engine_t engine = exec->context->engine;
    const dnnl_alg_kind_t kind = kind_of(algorithm);
    switch (direction) {
    case PSR_ONEDNN_FORWARD:
        return create_forward(exec, self, kind, x, y, ret_pd);
    case PSR_ONEDNN_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            ret_pd, engine, kind, x, self->any_weights, y, self->strides, self->dilates,
            self->pad_begin, self->pad_end, self->forward_pd, exec->context->attr);
    case PSR_ONEDNN_BACKWARD_WEIGHTS:
        return create_weights(exec, self, kind, x, y, self->forward_pd, ret_pd);
    }
    return dnnl_invalid_arguments;
}

/* With the algorithm that was chosen; direct where oneDNN has no such one for this batch. */
static psr_err create_chosen(const psr_onednn_exec *exec, const conv *self,
                             psr_onednn_direction direction, dnnl_primitive_desc_t *ret_pd)
{
    static const char *const what[] = {"convolution", "convolution's backward data",
                                       "convolution's backward weights"};
    psr_onednn_algorithm algorithm = psr_onednn_choice(exec->choices, self->index, direction);
    dnnl_status_t status = create(exec, self, direction, algorithm, ret_pd);
    if (status == dnnl_unimplemented && algorithm != PSR_ONEDNN_DIRECT)
        status = create(exec, self, direction, PSR_ONEDNN_DIRECT, ret_pd);
    return status == dnnl_success
               ? PSR_OK
               : psr_onednn_fail(status, what[direction], exec->net->nodes[self->node].name);
}

static bool is_loops(const_dnnl_primitive_desc_t pd)
{
    const char *implementation = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &implementation) ==
               dnnl_success &&
           strncmp(implementation, "ref", 3) == 0;
}

bool psr_onednn_conv_create(const psr_onednn_exec *exec, const psr_onednn_step *step,
                            psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                            dnnl_primitive_desc_t *ret_pd)
{
    const conv *self = step->self;
    if (direction == PSR_ONEDNN_BACKWARD_DATA && !psr_onednn_wants_gradient(exec, self->input))
        return false;
    dnnl_primitive_desc_t pd;
    if (create(exec, self, direction, algorithm, &pd) != dnnl_success)
        return false;
    if (is_loops(pd)) {
        dnnl_primitive_desc_destroy(pd);
        return false;
    }
    *ret_pd = pd;
    return true;
}

bool psr_onednn_conv_winograd(const psr_onednn_exec *exec, const psr_onednn_step *step,
                              psr_winograd *ret_winograd)
{
    const conv *self = step->self;
    const psr_network_node *node = &exec->net->nodes[self->node];
    const psr_onednn_tensor *x = &exec->values[self->input], *y = &exec->values[self->node];
    const bool window =
        self->kernel[0] == 3 && self->kernel[1] == 3 && node->stride == 1 && node->pad == 1;
    const bool blocks = x->layout == y->layout &&
                        (x->layout == PSR_ONEDNN_BLOCKED_8 || x->layout == PSR_ONEDNN_BLOCKED_16) &&
                        x->c % x->block == 0 && y->c % y->block == 0;
    if (!window || !blocks || x->type != dnnl_f32 || self->bias != NULL ||
        !psr_winograd_supported())
        return false;
    *ret_winograd = (psr_winograd){x->n, x->c, y->c, x->h, x->w, x->block, exec->context->threads};
    return true;
}

/* Whether it is to be computed by our own Winograd, and can be. */
static bool is_own(const psr_onednn_exec *exec, const psr_onednn_step *step,
                   psr_onednn_direction direction)
{
    conv *self = step->self;
    return psr_onednn_choice(exec->choices, self->index, direction) == PSR_ONEDNN_OWN_WINOGRAD &&
           psr_onednn_conv_winograd(exec, step, &self->winograd);
}

static psr_err any_value(psr_onednn_exec *exec, uint32_t node, dnnl_memory_desc_t *ret_desc)
{
    const psr_network_node *n = &exec->net->nodes[node];
    dnnl_dims_t dims = {exec->count, n->channels, n->height, n->width};
    return psr_onednn_desc(exec, 4, dims, exec->context->type, dnnl_format_tag_any, ret_desc);
}

psr_err psr_onednn_conv_source(psr_onednn_exec *exec, const psr_onednn_group *group,
                               dnnl_memory_desc_t *ret_desc)
{
    conv self = {0};
    dnnl_memory_desc_t source, destination;
    PSR_TRY(describe(exec, group, &self));
    PSR_TRY(any_value(exec, self.input, &source));
    PSR_TRY(any_value(exec, self.node, &destination));
    dnnl_primitive_desc_t pd;
    dnnl_status_t status =
        create_forward(exec, &self, dnnl_convolution_direct, source, destination, &pd);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "convolution", exec->net->nodes[self.node].name);
    psr_onednn_tensor tensor;
    psr_err err = psr_onednn_tensor_as(exec, self.input,
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
static bool wants_plain(const psr_onednn_exec *exec, const conv *self,
                        const psr_onednn_tensor *destination)
{
    bool few = destination->c < 16 || (exec->values[self->input].layout == PSR_ONEDNN_PLAIN &&
                                       psr_onednn_wants_gradient(exec, self->input));
    return few && !needs_blocks(exec->net);
}

/* Layouts that our own kernels read; batch norm wants whole vectors of channels. */
static bool serves(const psr_onednn_exec *exec, const conv *self, const psr_onednn_tensor *tensor,
                   uint32_t match)
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
static psr_err choose_destination(psr_onednn_exec *exec, conv *self, uint32_t match,
                                  psr_onednn_tensor *ret_tensor)
{
    const char *name = exec->net->nodes[self->node].name;
    const psr_onednn_tensor *source = psr_onednn_use(exec, self->input);
    dnnl_memory_desc_t any;
    PSR_TRY(any_value(exec, self->node, &any));
    dnnl_status_t status =
        create_forward(exec, self, dnnl_convolution_direct, source->desc, any, &self->forward_pd);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "convolution", name);
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
    status = create_forward(exec, self, dnnl_convolution_direct, source->desc, ret_tensor->desc,
                            &self->forward_pd);
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "convolution", name);
}

static psr_err bind_forward(psr_onednn_exec *exec, conv *self, const_dnnl_primitive_desc_t pd,
                            const psr_onednn_tensor *source, const psr_onednn_tensor *destination)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const_dnnl_memory_desc_t packed = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    PSR_TRY(psr_onednn_weights_init(exec, node->weight, self->weights, packed, PSR_ONEDNN_WEIGHTS,
                                    &self->forward_weights));
    psr_onednn_primitive *forward = &self->forward;
    PSR_TRY(psr_onednn_primitive_init(exec, pd, node->name, forward));
    PSR_TRY(psr_onednn_primitive_arg(exec, forward, DNNL_ARG_WEIGHTS, packed,
                                     self->forward_weights.space, self->forward_weights.at));
    PSR_TRY(psr_onednn_primitive_tensor(exec, forward, DNNL_ARG_SRC, source));
    if (self->bias != NULL)
        PSR_TRY(psr_onednn_primitive_arg(exec, forward, DNNL_ARG_BIAS, self->bias,
                                         PSR_ONEDNN_WEIGHTS,
                                         exec->net->params.tensors[node->bias].offset));
    return psr_onednn_primitive_tensor(exec, forward, DNNL_ARG_DST, destination);
}

static void use_scratch(psr_onednn_exec *exec, size_t floats)
{
    psr_onednn_buffer_grow(&exec->buffers, exec->scratch, floats * sizeof(float));
}

static psr_err conv_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a convolution");
    step->self = self;
    PSR_TRY(describe(exec, step->group, self));
    psr_onednn_tensor tensor;
    PSR_TRY(choose_destination(exec, self, step->group->match, &tensor));
    PSR_TRY(psr_onednn_give(exec, self->node, &tensor));
    const psr_onednn_tensor *source = psr_onednn_use(exec, self->input);
    const psr_onednn_tensor *destination = psr_onednn_use(exec, self->node);
    self->forward_by_winograd = is_own(exec, step, PSR_ONEDNN_FORWARD);
    if (self->forward_by_winograd) {
        use_scratch(exec, psr_winograd_values_scratch(&self->winograd));
        return PSR_OK;
    }

    dnnl_primitive_desc_t pd;
    PSR_TRY(create_chosen(exec, self, PSR_ONEDNN_FORWARD, &pd));
    psr_err err = bind_forward(exec, self, pd, source, destination);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

/* Gradient of the source: w^T * dy. */
static psr_err bind_data(psr_onednn_exec *exec, conv *self, const_dnnl_primitive_desc_t pd)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const psr_onednn_tensor *source = &exec->values[self->input],
                            *destination = &exec->values[self->node];
    const_dnnl_memory_desc_t packed = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    PSR_TRY(psr_onednn_weights_init(exec, node->weight, self->weights, packed, PSR_ONEDNN_WEIGHTS,
                                    &self->data_weights));
    psr_onednn_primitive *data = &self->data;
    PSR_TRY(psr_onednn_primitive_init(exec, pd, node->name, data));
    PSR_TRY(psr_onednn_primitive_arg(exec, data, DNNL_ARG_WEIGHTS, packed, self->data_weights.space,
                                     self->data_weights.at));
    PSR_TRY(psr_onednn_primitive_arg(exec, data, DNNL_ARG_DIFF_DST, destination->desc,
                                     PSR_ONEDNN_WORKSPACE, self->diff_destination));
    return psr_onednn_primitive_arg(exec, data, DNNL_ARG_DIFF_SRC, source->desc,
                                    PSR_ONEDNN_WORKSPACE, self->diff_source);
}

static psr_err plan_data(psr_onednn_exec *exec, const psr_onednn_step *step)
{
    conv *self = step->self;
    PSR_TRY(
        psr_onednn_buffer_add(&exec->buffers, exec->values[self->input].bytes, &self->diff_source));
    PSR_TRY(psr_onednn_gradient_put(exec, self->input, self->diff_source));
    self->data_by_winograd = is_own(exec, step, PSR_ONEDNN_BACKWARD_DATA);
    if (self->data_by_winograd) {
        use_scratch(exec, psr_winograd_values_scratch(&self->winograd));
        return PSR_OK;
    }
    dnnl_primitive_desc_t pd;
    PSR_TRY(create_chosen(exec, self, PSR_ONEDNN_BACKWARD_DATA, &pd));
    psr_err err = bind_data(exec, self, pd);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

/* Gradient of the weights: sum over batch and positions of dy * x, in float32 whatever the
 * activations. */
static psr_err bind_weights(psr_onednn_exec *exec, conv *self, const_dnnl_primitive_desc_t pd,
                            const psr_onednn_tensor *source, const psr_onednn_tensor *gradient)
{
    const psr_network_node *node = &exec->net->nodes[self->node];
    const_dnnl_memory_desc_t packed =
        dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
    const_dnnl_memory_desc_t wanted = packed;
    const uint32_t channels = exec->values[self->input].c;
    if (channels < source->c) { /* channels of zeros, which have no weights in the arena */
        const dnnl_dims_t origin = {0};
        const dnnl_dims_t dims = {node->channels, channels, self->kernel[0], self->kernel[1]};
        dnnl_memory_desc_t part;
        PSR_TRY(psr_onednn_desc_within(exec, packed, dims, origin, &part));
        psr_onednn_buffer_grow(&exec->buffers, exec->diff_weights,
                               dnnl_memory_desc_get_size(packed));
        wanted = part;
    }
    PSR_TRY(psr_onednn_weights_init(exec, node->weight, self->weights, wanted, PSR_ONEDNN_GRADIENTS,
                                    &self->gradient));
    if (self->kernel[0] * self->kernel[1] < (dnnl_dim_t)node->kernel * node->kernel)
        self->gradient.zeros = exec->net->params.tensors[node->weight].count; /* of cropped taps */
    psr_onednn_primitive *weight = &self->weight;
    PSR_TRY(psr_onednn_primitive_init(exec, pd, node->name, weight));
    PSR_TRY(psr_onednn_primitive_tensor(exec, weight, DNNL_ARG_SRC, source));
    PSR_TRY(psr_onednn_primitive_tensor(exec, weight, DNNL_ARG_DIFF_DST, gradient));
    PSR_TRY(psr_onednn_primitive_arg(exec, weight, DNNL_ARG_DIFF_WEIGHTS, packed,
                                     self->gradient.space, self->gradient.at));
    if (self->bias == NULL)
        return PSR_OK;
    return psr_onednn_primitive_arg(exec, weight, DNNL_ARG_DIFF_BIAS, self->bias,
                                    PSR_ONEDNN_GRADIENTS,
                                    exec->net->params.tensors[node->bias].offset);
}

/* A buffer for tensor among zeros, so many channels and rows in all, and the copy into it. */
static psr_err larger_init(psr_onednn_exec *exec, const psr_onednn_tensor *tensor,
                           uint32_t channels, uint32_t height, const char *name,
                           conv_larger *ret_larger)
{
    const dnnl_dims_t origin = {0}, dims = {tensor->n, tensor->c, tensor->h, tensor->w};
    const dnnl_dims_t larger_dims = {tensor->n, channels, height, tensor->w};
    dnnl_memory_desc_t part;
    psr_onednn_tensor *larger = &ret_larger->tensor;
    *larger = *tensor;
    larger->c = channels;
    larger->h = height;
    larger->space = PSR_ONEDNN_WORKSPACE;
    PSR_TRY(psr_onednn_desc(exec, 4, larger_dims, tensor->type, psr_onednn_tag(tensor->layout),
                            &larger->desc));
    larger->bytes = dnnl_memory_desc_get_size(larger->desc);
    PSR_TRY(psr_onednn_buffer_add(&exec->buffers, larger->bytes, &larger->buffer));

    PSR_TRY(psr_onednn_desc_within(exec, larger->desc, dims, origin, &part));
    return psr_onednn_copy_init(exec, tensor->desc, tensor->space, psr_onednn_place(tensor), part,
                                larger->space, larger->buffer, name, &ret_larger->copy);
}

static psr_err larger_fill(const psr_onednn_exec *exec, const conv_larger *larger)
{
    if (larger->copy.primitive == NULL)
        return PSR_OK;
    memset(psr_onednn_data(exec, &larger->tensor), 0, larger->tensor.bytes);
    return psr_onednn_primitive_run(exec, &larger->copy);
}

/* What oneDNN's AVX2 kernel for the weights' gradient wants of a source that does not lie in
 * blocks. */
enum { PLAIN_CHANNELS = 3 };

static bool too_few(const psr_onednn_tensor *source)
{
    return source->layout == PSR_ONEDNN_PLAIN && source->c < PLAIN_CHANNELS;
}

static bool too_low(const conv *self, const psr_onednn_tensor *source)
{
    return source->layout != PSR_ONEDNN_OTHER && source->h < self->kernel[0];
}

/* oneDNN's AVX2 kernel for this gradient wants at least as many rows of an image as of the window,
 * and of channels whole blocks or three; else oneDNN loops, a hundred times slower. Zeros add
 * nothing to the sum: rows of them lie below source and gradient (what the gradient's own rows read
 * of them was padding), channels behind source's own, whose gradient of the weights is left where
 * it is. */
static psr_err plan_larger(psr_onednn_exec *exec, conv *self, const psr_onednn_tensor *source,
                           const psr_onednn_tensor *gradient)
{
    const char *name = exec->net->nodes[self->node].name;
    uint32_t channels = source->c, source_height = source->h, gradient_height = gradient->h;
    conv window = *self; /* over the channels of zeros too */
    if (too_few(source)) {
        channels = PLAIN_CHANNELS;
        PSR_TRY(describe_any(exec, &window, channels));
    }
    if (too_low(self, source)) {
        source_height = (uint32_t)self->kernel[0];
        gradient_height =
            (uint32_t)((self->pad_begin[0] + self->pad_end[0]) / self->strides[0] + 1);
        PSR_TRY(larger_init(exec, gradient, gradient->c, gradient_height, name,
                            &self->larger_gradient));
        gradient = &self->larger_gradient.tensor;
    }
    PSR_TRY(larger_init(exec, source, channels, source_height, name, &self->larger_source));
    source = &self->larger_source.tensor;

    dnnl_primitive_desc_t forward, pd;
    dnnl_status_t status = create_forward(exec, &window, dnnl_convolution_direct, source->desc,
                                          gradient->desc, &forward);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "convolution", name);
    status = create_weights(exec, &window, dnnl_convolution_direct, source->desc, gradient->desc,
                            forward, &pd);
    dnnl_primitive_desc_destroy(forward);
    if (status != dnnl_success)
        return psr_onednn_fail(status, "convolution's backward weights", name);
    psr_err err = bind_weights(exec, self, pd, source, gradient);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err plan_weights(psr_onednn_exec *exec, const psr_onednn_step *step)
{
    conv *self = step->self;
    const psr_onednn_tensor *source = psr_onednn_use(exec, self->input);
    self->weight_by_winograd = is_own(exec, step, PSR_ONEDNN_BACKWARD_WEIGHTS);
    if (self->weight_by_winograd) {
        use_scratch(exec, psr_winograd_weights_scratch(&self->winograd));
        return PSR_OK;
    }
    psr_onednn_tensor gradient = exec->values[self->node];
    gradient.space = PSR_ONEDNN_WORKSPACE;
    gradient.buffer = self->diff_destination;
    dnnl_primitive_desc_t pd;
    PSR_TRY(create_chosen(exec, self, PSR_ONEDNN_BACKWARD_WEIGHTS, &pd));
    const bool too_small = too_few(source) || too_low(self, source);
    psr_err err = too_small && is_loops(pd) ? plan_larger(exec, self, source, &gradient)
                                            : bind_weights(exec, self, pd, source, &gradient);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err conv_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = step->self;
    uint32_t diff_destination[2];
    psr_onednn_gradient_take(exec, step, self->node, 1, diff_destination);
    self->diff_destination = diff_destination[0];
    if (psr_onednn_wants_gradient(exec, self->input))
        PSR_TRY(plan_data(exec, step));
    return plan_weights(exec, step);
}

static size_t weight_offset(const psr_onednn_exec *exec, const conv *self)
{
    return exec->net->params.tensors[exec->net->nodes[self->node].weight].offset;
}

static psr_err conv_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = step->self;
    if (self->forward_by_winograd) {
        psr_winograd_forward(&self->winograd, psr_onednn_data(exec, &exec->values[self->input]),
                             exec->state->weights + weight_offset(exec, self),
                             psr_onednn_data(exec, &exec->values[self->node]),
                             psr_onednn_at(exec, exec->scratch));
        return PSR_OK;
    }
    PSR_TRY(psr_onednn_weights_move(exec, &self->forward_weights));
    return psr_onednn_primitive_run(exec, &self->forward);
}

static psr_err conv_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    conv *self = step->self;
    const size_t offset = weight_offset(exec, self);
    const float *gradient = psr_onednn_at(exec, self->diff_destination);
    float *scratch = psr_onednn_at(exec, exec->scratch);
    if (self->data_by_winograd)
        psr_winograd_source_gradient(&self->winograd, gradient, exec->state->weights + offset,
                                     psr_onednn_at(exec, self->diff_source), scratch);
    if (self->weight_by_winograd)
        psr_winograd_weights_gradient(&self->winograd,
                                      psr_onednn_data(exec, &exec->values[self->input]), gradient,
                                      exec->state->gradients + offset, scratch);
    PSR_TRY(psr_onednn_weights_move(exec, &self->data_weights));
    PSR_TRY(psr_onednn_primitive_run(exec, &self->data));
    PSR_TRY(larger_fill(exec, &self->larger_source));
    PSR_TRY(larger_fill(exec, &self->larger_gradient));
    PSR_TRY(psr_onednn_primitive_run(exec, &self->weight));
    return psr_onednn_weights_move(exec, &self->gradient);
}

static void conv_done(psr_onednn_step *step)
{
    conv *self = step->self;
    psr_onednn_primitive *all[] = {&self->forward_weights.reorder,
                                   &self->forward,
                                   &self->data_weights.reorder,
                                   &self->data,
                                   &self->larger_source.copy,
                                   &self->larger_gradient.copy,
                                   &self->weight,
                                   &self->gradient.reorder};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        psr_onednn_primitive_done(all[i]);
    if (self->forward_pd != NULL)
        dnnl_primitive_desc_destroy(self->forward_pd);
}

const psr_onednn_step_class psr_onednn_conv = {
    conv_plan_forward, conv_plan_backward, conv_forward, conv_backward, conv_done,
};
