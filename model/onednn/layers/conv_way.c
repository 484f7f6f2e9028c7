#include "model/onednn/layers/conv_way.h"

#include <string.h>

/* What a primitive may be made between. */
typedef struct variant {
    bool free_source, free_destination; /* a layout of oneDNN's choice, by a copy */
    bool larger;                        /* among zeros: see enlarge */
    bool product;                       /* a matrix product: see is_product */
    bool float32;                       /* computed in float32, whatever the network's type */
} variant;

/* In the order of preference: what copies least first. */
static const variant variants[] = {
    {0}, /* as the values lie */
    {.larger = true},
    {.product = true, .free_source = true, .free_destination = true},
    {.free_source = true},
    {.free_destination = true},
    {.free_source = true, .free_destination = true},
    {.product = true, .free_source = true, .free_destination = true, .float32 = true},
    {.free_source = true, .free_destination = true, .float32 = true},
};

/* One direction by one variant, as far as it is described. */
typedef struct plan {
    const psr_conv *conv;
    psr_onednn_direction direction;
    const variant *variant;
    dnnl_data_type_t type;
    /* Shapes and layouts that the primitive is to have; larger than the values where it says so. */
    psr_onednn_tensor source, destination;
    dnnl_memory_desc_t weights, gradient; /* the gradient in float32 always */
} plan;

/* ---- what a variant needs ---- */

/* What oneDNN's AVX2 kernel for the weights' gradient wants of a source that does not lie in
 * blocks. */
enum { PLAIN_CHANNELS = 3 };

static bool too_few(const psr_onednn_tensor *source)
{
    return source->layout == PSR_ONEDNN_PLAIN && source->c < PLAIN_CHANNELS;
}

static bool too_low(const psr_conv *conv, const psr_onednn_tensor *source)
{
    return source->layout != PSR_ONEDNN_OTHER && source->h < conv->kernel[0];
}

/* Where the window covers the image there is one position, and the convolution is the product of
 * two matrices. */
static bool is_product(const psr_conv *conv, const psr_onednn_tensor *source,
                       const psr_onednn_tensor *destination)
{
    return destination->h * destination->w == 1 && conv->kernel[0] == source->h &&
           conv->kernel[1] == source->w && conv->pad_begin[0] == 0 && conv->pad_begin[1] == 0;
}

static bool applies(const psr_onednn_exec *exec, const plan *p)
{
    const variant *v = p->variant;
    if (v->larger)
        return p->direction == PSR_ONEDNN_BACKWARD_WEIGHTS &&
               (too_few(&p->source) || too_low(p->conv, &p->source));
    if (v->product && p->conv->groups > 1)
        return false;
    if (v->product && !is_product(p->conv, &p->source, &p->destination))
        return false;
    return !v->float32 || exec->context->type != dnnl_f32;
}

/* oneDNN's AVX2 kernel for the weights' gradient wants at least as many rows of an image as of the
 * window, and of channels whole blocks or three. Zeros add nothing to the sum: rows of them lie
 * below source and gradient (what the gradient's own rows read of them was padding), channels
 * behind source's own, whose gradient of the weights is left where it is. */
static psr_err enlarge(psr_onednn_exec *exec, plan *p)
{
    psr_onednn_tensor *x = &p->source, *y = &p->destination;
    if (too_low(p->conv, x)) {
        y->h = (uint32_t)((p->conv->pad_begin[0] + p->conv->pad_end[0]) / p->conv->strides[0] + 1);
        x->h = (uint32_t)p->conv->kernel[0];
    }
    if (too_few(x))
        x->c = PLAIN_CHANNELS;
    psr_onednn_tensor *both[] = {x, y};
    for (int i = 0; i < 2; i++) {
        const dnnl_dims_t dims = {both[i]->n, both[i]->c, both[i]->h, both[i]->w};
        PSR_TRY(psr_onednn_desc(exec, 4, dims, p->type, psr_onednn_tag(both[i]->layout),
                                &both[i]->desc));
    }
    return PSR_OK;
}

/* ---- descriptions ---- */

static psr_err free_layout(psr_onednn_exec *exec, const plan *p, psr_onednn_tensor *value)
{
    const dnnl_dims_t dims = {value->n, value->c, value->h, value->w};
    return psr_onednn_desc(exec, 4, dims, p->type, dnnl_format_tag_any, &value->desc);
}

psr_err psr_conv_weights_desc(psr_onednn_exec *exec, const psr_conv *conv, uint32_t out,
                              uint32_t in, const dnnl_dim_t kernel[2], dnnl_data_type_t type,
                              dnnl_format_tag_t tag, dnnl_memory_desc_t *ret_desc)
{
    const dnnl_dim_t groups = conv->groups;
    const dnnl_dims_t whole = {out, in, kernel[0], kernel[1]};
    const dnnl_dims_t parts = {groups, out / groups, in / groups, kernel[0], kernel[1]};
    if (groups == 1)
        return psr_onednn_desc(exec, 4, whole, type, tag, ret_desc);
    return psr_onednn_desc(exec, 5, parts, type, tag == dnnl_oihw ? dnnl_goihw : tag, ret_desc);
}

/* Of the window and of source's channels, in a layout of oneDNN's choice. */
static psr_err any_weights(psr_onednn_exec *exec, const plan *p, dnnl_data_type_t type,
                           dnnl_memory_desc_t *ret_desc)
{
    return psr_conv_weights_desc(exec, p->conv, p->destination.c, p->source.c, p->conv->kernel,
                                 type, dnnl_format_tag_any, ret_desc);
}

static psr_err prepare(psr_onednn_exec *exec, plan *p)
{
    p->type = p->variant->float32 ? dnnl_f32 : exec->context->type;
    p->weights = p->conv->any_weights;
    p->gradient = p->conv->any_gradient;
    if (p->variant->larger)
        PSR_TRY(enlarge(exec, p));
    if (p->variant->free_source)
        PSR_TRY(free_layout(exec, p, &p->source));
    if (p->variant->product) {
        const dnnl_dims_t dims = {p->destination.n, p->destination.c};
        PSR_TRY(psr_onednn_desc(exec, 2, dims, p->type, dnnl_ab, &p->destination.desc));
    } else if (p->variant->free_destination) {
        PSR_TRY(free_layout(exec, p, &p->destination));
    }
    if (p->source.c != exec->values[p->conv->input].c)
        PSR_TRY(any_weights(exec, p, dnnl_f32, &p->gradient));
    if (p->source.c != exec->values[p->conv->input].c || p->type != exec->context->type)
        PSR_TRY(any_weights(exec, p, p->type, &p->weights));
    return PSR_OK;
}

static dnnl_prop_kind_t forward_kind(const psr_onednn_exec *exec)
{
    return exec->training ? dnnl_forward_training : dnnl_forward_inference;
}

static dnnl_status_t create_product(const psr_onednn_exec *exec, const plan *p,
                                    psr_onednn_direction direction,
                                    const_dnnl_primitive_desc_t forward,
                                    dnnl_primitive_desc_t *ret_pd)
{
    const_dnnl_memory_desc_t x = p->source.desc, y = p->destination.desc, b = p->conv->bias;
    dnnl_engine_t engine = exec->context->engine;
    const_dnnl_primitive_attr_t attr = exec->context->attr;
    switch (direction) {
    case PSR_ONEDNN_FORWARD:
        return dnnl_inner_product_forward_primitive_desc_create(ret_pd, engine, forward_kind(exec),
                                                                x, p->weights, b, y, attr);
    case PSR_ONEDNN_BACKWARD_DATA:
        return dnnl_inner_product_backward_data_primitive_desc_create(ret_pd, engine, x, p->weights,
                                                                      y, forward, attr);
    case PSR_ONEDNN_BACKWARD_WEIGHTS:
        return dnnl_inner_product_backward_weights_primitive_desc_create(
            ret_pd, engine, x, p->gradient, b, y, forward, attr);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t create_convolution(const psr_onednn_exec *exec, const plan *p,
                                        psr_onednn_direction direction,
                                        psr_onednn_algorithm algorithm,
                                        const_dnnl_primitive_desc_t forward,
                                        dnnl_primitive_desc_t *ret_pd)
{
    const psr_conv *c = p->conv;
    const dnnl_alg_kind_t kind =
        algorithm == PSR_ONEDNN_WINOGRAD ? dnnl_convolution_winograd : dnnl_convolution_direct;
    const_dnnl_memory_desc_t x = p->source.desc, y = p->destination.desc;
    dnnl_engine_t engine = exec->context->engine;
    const_dnnl_primitive_attr_t attr = exec->context->attr;
    switch (direction) {
    case PSR_ONEDNN_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(
            ret_pd, engine, forward_kind(exec), kind, x, p->weights, c->bias, y, c->strides,
            c->dilates, c->pad_begin, c->pad_end, attr);
    case PSR_ONEDNN_BACKWARD_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(
            ret_pd, engine, kind, x, p->weights, y, c->strides, c->dilates, c->pad_begin,
            c->pad_end, forward, attr);
    case PSR_ONEDNN_BACKWARD_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            ret_pd, engine, kind, x, p->gradient, c->bias, y, c->strides, c->dilates, c->pad_begin,
            c->pad_end, forward, attr);
    }
    return dnnl_invalid_arguments;
}

static dnnl_status_t create_one(const psr_onednn_exec *exec, const plan *p,
                                psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                                const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *ret_pd)
{
    return p->variant->product ? create_product(exec, p, direction, forward, ret_pd)
                               : create_convolution(exec, p, direction, algorithm, forward, ret_pd);
}

/* The primitive of a prepared plan. A backward one has a forward one as its hint. */
static dnnl_status_t create(const psr_onednn_exec *exec, const plan *p,
                            psr_onednn_algorithm algorithm, dnnl_primitive_desc_t *ret_pd)
{
    if (p->direction == PSR_ONEDNN_FORWARD)
        return create_one(exec, p, p->direction, algorithm, NULL, ret_pd);
    if (p->variant == &variants[0])
        return create_one(exec, p, p->direction, algorithm, p->conv->forward_pd, ret_pd);
    dnnl_primitive_desc_t forward;
    dnnl_status_t status =
        create_one(exec, p, PSR_ONEDNN_FORWARD, PSR_ONEDNN_DIRECT, NULL, &forward);
    if (status != dnnl_success)
        return status;
    status = create_one(exec, p, p->direction, algorithm, forward, ret_pd);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

dnnl_status_t psr_conv_describe(const psr_onednn_exec *exec, const psr_conv *conv,
                                psr_onednn_direction direction, psr_onednn_algorithm algorithm,
                                const_dnnl_memory_desc_t source,
                                const_dnnl_memory_desc_t destination, dnnl_primitive_desc_t *ret_pd)
{
    const plan p = {
        .conv = conv,
        .direction = direction,
        .variant = &variants[0],
        .source.desc = (dnnl_memory_desc_t)(uintptr_t)source,
        .destination.desc = (dnnl_memory_desc_t)(uintptr_t)destination,
        .weights = conv->any_weights,
        .gradient = conv->any_gradient,
    };
    return create(exec, &p, algorithm, ret_pd);
}

/* ---- the choice ---- */

/* As the values lie: with the algorithm that was chosen, or direct where oneDNN has no such one for
 * this batch. */
static dnnl_status_t create_as_chosen(const psr_onednn_exec *exec, const plan *p,
                                      dnnl_primitive_desc_t *ret_pd)
{
    const psr_onednn_algorithm algorithm =
        psr_onednn_choice(exec->choices, p->conv->index, p->direction);
    dnnl_status_t status = create(exec, p, algorithm, ret_pd);
    return status == dnnl_unimplemented && algorithm != PSR_ONEDNN_DIRECT
               ? create(exec, p, PSR_ONEDNN_DIRECT, ret_pd)
               : status;
}

/* The first variant behind the values as they lie that is no loop. *ret_pd is NULL if there is
 * none. */
static psr_err choose_other(psr_onednn_exec *exec, const plan *as_they_lie, plan *ret_plan,
                            dnnl_primitive_desc_t *ret_pd)
{
    *ret_pd = NULL;
    for (size_t i = 1; i < sizeof variants / sizeof variants[0]; i++) {
        plan p = *as_they_lie;
        dnnl_primitive_desc_t pd = NULL;
        p.variant = &variants[i];
        if (!applies(exec, &p))
            continue;
        PSR_TRY(prepare(exec, &p));
        if (create(exec, &p, PSR_ONEDNN_DIRECT, &pd) != dnnl_success)
            continue;
        if (!psr_onednn_is_loops(pd)) {
            *ret_plan = p;
            *ret_pd = pd;
            return PSR_OK;
        }
        dnnl_primitive_desc_destroy(pd);
    }
    return PSR_OK;
}

/* The caller owns *ret_pd. */
static psr_err choose(psr_onednn_exec *exec, const plan *as_they_lie, plan *ret_plan,
                      dnnl_primitive_desc_t *ret_pd)
{
    static const char *const what[] = {"convolution", "convolution's backward data",
                                       "convolution's backward weights"};
    dnnl_primitive_desc_t first = NULL, other = NULL;
    *ret_plan = *as_they_lie;
    dnnl_status_t status = create_as_chosen(exec, as_they_lie, &first);
    if (status == dnnl_success && !psr_onednn_is_loops(first)) {
        *ret_pd = first;
        return PSR_OK;
    }
    psr_err err = choose_other(exec, as_they_lie, ret_plan, &other);
    if (err == PSR_OK && other == NULL && status != dnnl_success)
        err = psr_onednn_fail(status, what[as_they_lie->direction],
                              exec->net->nodes[as_they_lie->conv->node].name);
    if (first != NULL && (err != PSR_OK || other != NULL))
        dnnl_primitive_desc_destroy(first);
    PSR_TRY(err);
    *ret_pd = other != NULL ? other : first;
    return PSR_OK;
}

/* ---- the primitive's arguments ---- */

/* Which of a primitive's memories are the two values, and which the weights. */
static const struct {
    dnnl_query_t source, destination, weights;
    int source_arg, destination_arg, weights_arg, bias_arg;
} arguments[] = {
    [PSR_ONEDNN_FORWARD] = {dnnl_query_src_md, dnnl_query_dst_md, dnnl_query_weights_md,
                            DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS},
    [PSR_ONEDNN_BACKWARD_DATA] = {dnnl_query_diff_src_md, dnnl_query_diff_dst_md,
                                  dnnl_query_weights_md, DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST,
                                  DNNL_ARG_WEIGHTS, 0},
    [PSR_ONEDNN_BACKWARD_WEIGHTS] = {dnnl_query_src_md, dnnl_query_diff_dst_md,
                                     dnnl_query_diff_weights_md, DNNL_ARG_SRC, DNNL_ARG_DIFF_DST,
                                     DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS},
};

/* Sets ret_copy to what the primitive takes: value itself, or a tensor of `shape` described by
 * wanted, with a copy from value, or to it if it is written. outer: wanted, or where the primitive
 * sees a matrix the same bytes as images. */
static psr_err copy_init(psr_onednn_exec *exec, const psr_onednn_tensor *value,
                         const psr_onednn_tensor *shape, const_dnnl_memory_desc_t outer,
                         bool written, const char *name, psr_conv_copy *ret_copy)
{
    ret_copy->tensor = *value;
    if (dnnl_memory_desc_equal(value->desc, outer))
        return PSR_OK;
    psr_onednn_tensor *copy = &ret_copy->tensor;
    copy->c = shape->c;
    copy->h = shape->h;
    copy->space = PSR_ONEDNN_WORKSPACE;
    copy->bytes = dnnl_memory_desc_get_size(outer);
    PSR_TRY(psr_pass_buffer_add(&exec->buffers, copy->bytes, &copy->buffer));
    const_dnnl_memory_desc_t part = outer;
    ret_copy->larger = shape->c != value->c || shape->h != value->h;
    if (ret_copy->larger) {
        const dnnl_dims_t origin = {0}, dims = {value->n, value->c, value->h, value->w};
        dnnl_memory_desc_t within;
        PSR_TRY(psr_onednn_desc_within(exec, outer, dims, origin, &within));
        part = within;
    }
    if (written)
        return psr_onednn_copy_init(exec, part, copy->space, copy->buffer, value->desc,
                                    value->space, psr_onednn_place(value), name, &ret_copy->copy);
    return psr_onednn_copy_init(exec, value->desc, value->space, psr_onednn_place(value), part,
                                copy->space, copy->buffer, name, &ret_copy->copy);
}

static psr_err bind_values(psr_onednn_exec *exec, const plan *p, const_dnnl_primitive_desc_t pd,
                           const psr_onednn_tensor *source, const psr_onednn_tensor *destination,
                           psr_conv_way *way)
{
    const char *name = exec->net->nodes[p->conv->node].name;
    const_dnnl_memory_desc_t x =
        dnnl_primitive_desc_query_md(pd, arguments[p->direction].source, 0);
    const_dnnl_memory_desc_t y =
        dnnl_primitive_desc_query_md(pd, arguments[p->direction].destination, 0);
    const_dnnl_memory_desc_t images = y;
    if (p->variant->product) { /* [N,C] is [N,C,1,1] */
        const dnnl_dims_t dims = {destination->n, destination->c, 1, 1};
        dnnl_memory_desc_t plain;
        PSR_TRY(psr_onednn_desc(exec, 4, dims, p->type, dnnl_nchw, &plain));
        images = plain;
    }
    PSR_TRY(copy_init(exec, source, &p->source, x, p->direction == PSR_ONEDNN_BACKWARD_DATA, name,
                      &way->source));
    PSR_TRY(copy_init(exec, destination, &p->destination, images,
                      p->direction == PSR_ONEDNN_FORWARD, name, &way->destination));
    PSR_TRY(psr_onednn_primitive_arg(exec, &way->primitive, arguments[p->direction].source_arg, x,
                                     way->source.tensor.space,
                                     psr_onednn_place(&way->source.tensor)));
    return psr_onednn_primitive_arg(exec, &way->primitive, arguments[p->direction].destination_arg,
                                    y, way->destination.tensor.space,
                                    psr_onednn_place(&way->destination.tensor));
}

/* Packed before the primitive, or their gradient brought back after it. */
static psr_err bind_weights(psr_onednn_exec *exec, const plan *p, const_dnnl_primitive_desc_t pd,
                            psr_conv_way *way)
{
    const psr_conv *conv = p->conv;
    const psr_network_node *node = &exec->net->nodes[conv->node];
    const bool forward = p->direction == PSR_ONEDNN_FORWARD,
               gradient = p->direction == PSR_ONEDNN_BACKWARD_WEIGHTS;
    const psr_onednn_space side = gradient ? PSR_ONEDNN_GRADIENTS : PSR_ONEDNN_WEIGHTS;
    const_dnnl_memory_desc_t packed =
        dnnl_primitive_desc_query_md(pd, arguments[p->direction].weights, 0);
    const_dnnl_memory_desc_t wanted = packed;
    const uint32_t channels = exec->values[conv->input].c;
    if (channels < p->source.c) { /* channels of zeros, which have no weights in the arena */
        const dnnl_dims_t origin = {0};
        const dnnl_dims_t dims = {node->channels, channels, conv->kernel[0], conv->kernel[1]};
        dnnl_memory_desc_t part;
        PSR_TRY(psr_onednn_desc_within(exec, packed, dims, origin, &part));
        psr_pass_buffer_grow(&exec->buffers, exec->diff_weights, dnnl_memory_desc_get_size(packed));
        wanted = part;
    }
    PSR_TRY(
        psr_onednn_weights_init(exec, node->weight, conv->weights, wanted, side, &way->weights));
    if (gradient && conv->kernel[0] * conv->kernel[1] < (dnnl_dim_t)node->kernel * node->kernel)
        way->weights.zeros = exec->net->params.tensors[node->weight].count; /* of cropped taps */
    PSR_TRY(psr_onednn_primitive_arg(exec, &way->primitive, arguments[p->direction].weights_arg,
                                     packed, way->weights.space, way->weights.at));
    if (conv->bias == NULL || !(forward || gradient))
        return PSR_OK;
    return psr_onednn_primitive_arg(exec, &way->primitive, arguments[p->direction].bias_arg,
                                    conv->bias, side, exec->net->params.tensors[node->bias].offset);
}

psr_err psr_conv_way_init(psr_onednn_exec *exec, const psr_conv *conv,
                          psr_onednn_direction direction, const psr_onednn_tensor *source,
                          const psr_onednn_tensor *destination, psr_conv_way *ret_way)
{
    const plan as_they_lie = {.conv = conv,
                              .direction = direction,
                              .variant = &variants[0],
                              .type = exec->context->type,
                              .source = *source,
                              .destination = *destination,
                              .weights = conv->any_weights,
                              .gradient = conv->any_gradient};
    plan p;
    dnnl_primitive_desc_t pd;
    *ret_way = (psr_conv_way){.direction = direction};
    PSR_TRY(choose(exec, &as_they_lie, &p, &pd));
    psr_err err = psr_onednn_primitive_init(exec, pd, exec->net->nodes[conv->node].name,
                                            psr_onednn_flop(exec, conv->node), &ret_way->primitive);
    if (err == PSR_OK)
        err = bind_weights(exec, &p, pd, ret_way);
    if (err == PSR_OK)
        err = bind_values(exec, &p, pd, source, destination, ret_way);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

/* ---- a pass ---- */

static psr_err copy_in(const psr_onednn_exec *exec, const psr_conv_copy *copy)
{
    if (copy->larger)
        memset(psr_onednn_data(exec, &copy->tensor), 0, copy->tensor.bytes);
    return psr_onednn_primitive_run(exec, &copy->copy);
}

psr_err psr_conv_way_run(const psr_onednn_exec *exec, const psr_conv_way *way)
{
    if (way->primitive.primitive == NULL)
        return PSR_OK;
    const bool gradient = way->direction == PSR_ONEDNN_BACKWARD_WEIGHTS;
    if (!gradient)
        PSR_TRY(psr_onednn_weights_move(exec, &way->weights));
    if (way->direction != PSR_ONEDNN_BACKWARD_DATA)
        PSR_TRY(copy_in(exec, &way->source));
    if (way->direction != PSR_ONEDNN_FORWARD)
        PSR_TRY(copy_in(exec, &way->destination));
    PSR_TRY(psr_onednn_primitive_run(exec, &way->primitive));
    if (way->direction == PSR_ONEDNN_FORWARD)
        PSR_TRY(psr_onednn_primitive_run(exec, &way->destination.copy));
    if (way->direction == PSR_ONEDNN_BACKWARD_DATA)
        PSR_TRY(psr_onednn_primitive_run(exec, &way->source.copy));
    return gradient ? psr_onednn_weights_move(exec, &way->weights) : PSR_OK;
}

void psr_conv_way_done(psr_conv_way *way)
{
    psr_onednn_primitive_done(&way->weights.reorder);
    psr_onednn_primitive_done(&way->primitive);
    psr_onednn_primitive_done(&way->source.copy);
    psr_onednn_primitive_done(&way->destination.copy);
}
