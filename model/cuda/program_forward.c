#include "model/cuda/program_build.h"

/* ---- the images ---- */

static uint32_t images(psr_cuda_build *b)
{
    const psr_network *net = b->net;
    const size_t pixels = (size_t)net->channels * net->height * net->width;
    return psr_cuda_build_place(b, PSR_CUDA_IMAGES, 0, b->batch * pixels * sizeof(float));
}

static void input(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {
        .image = {.type = b->type,
                  .samples = b->batch,
                  .channels = n->channels,
                  .channels_wide = psr_cuda_build_channels(b, node),
                  .height = n->height,
                  .width = n->width}};
    for (uint32_t i = 0; i < b->net->node_count; i++) {
        if (b->net->nodes[i].op != PSR_OP_CONV || b->net->nodes[i].input[0] != node)
            continue;
        b->values[node] =
            psr_cuda_build_room(b, psr_cuda_build_count(b, node) * psr_cuda_type_bytes(b->type));
        psr_cuda_build_kernel(b, node, false, PSR_CUDA_KERNEL_image, &arguments);
        PSR_CUDA_READS(b, image, x, images(b));
        PSR_CUDA_WRITES(b, image, y, b->values[node]);
        return;
    }
}

/* Plain images are the rows already. */
static void flatten_images(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const size_t count = (size_t)b->batch * n->channels;
    b->values[node] = images(b);
    if (b->type == PSR_CUDA_FLOAT32)
        return;
    const uint32_t rows = psr_cuda_build_room(b, count * psr_cuda_type_bytes(b->type));
    psr_cuda_build_cast(b, node, false, b->values[node], PSR_CUDA_FLOAT32, rows, b->type, count);
    b->values[node] = rows;
}

/* ---- convolutions and linear layers ---- */

/* The node's weights as a graph reads them. */
static void filter(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const bool linear = n->op == PSR_OP_LINEAR;
    const uint32_t groups = linear ? 1 : n->groups, kernel = linear ? 1 : n->kernel;
    const uint32_t in = b->net->nodes[n->input[0]].channels / groups;
    const uint32_t wide = psr_cuda_build_channels(b, n->input[0]) / groups;
    const uint32_t weight = psr_cuda_build_weight(b, n->weight);
    const psr_cuda_arguments arguments = {.filter = {.type = b->type,
                                                     .out = n->channels,
                                                     .in = in,
                                                     .in_wide = wide,
                                                     .height = kernel,
                                                     .width = kernel}};
    b->filters[node] = weight;
    if (b->type == PSR_CUDA_FLOAT32 && psr_cuda_build_filter_is_plain(b, node))
        return;
    b->filters[node] = psr_cuda_build_room(b, (size_t)n->channels * wide * kernel * kernel *
                                                  psr_cuda_type_bytes(b->type));
    psr_cuda_build_kernel(b, node, false, PSR_CUDA_KERNEL_filter, &arguments);
    PSR_CUDA_READS(b, filter, w, weight);
    PSR_CUDA_WRITES(b, filter, y, b->filters[node]);
}

/* The convolution alone: from its input to y, which may be an inner tensor. */
static void convolve(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, uint32_t x, uint32_t y)
{
    const psr_cuda_window window = psr_cuda_build_window(b, node);
    const uint32_t w = psr_cuda_cut_filter(b, cut, node, b->type, b->filters[node]);
    psr_cuda_operate(&cut->g, PSR_CUDA_CONV, &window, (uint32_t[]){x, w, y}, 3);
}

static uint32_t input_of(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node)
{
    const uint32_t from = b->net->nodes[node].input[0];
    return psr_cuda_cut_value(b, cut, from, b->values[from]);
}

/* The step's result, which becomes the node's value. */
static uint32_t result_of(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node)
{
    const uint32_t y = psr_cuda_cut_value(b, cut, node, PSR_NONE);
    b->values[node] = cut->places[y];
    return y;
}

static void conv(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    psr_cuda_cut cut;
    filter(b, node);
    psr_cuda_cut_begin(&cut);
    const uint32_t x = input_of(b, &cut, node), y = result_of(b, &cut, node);
    const uint32_t product = n->bias != PSR_NONE ? psr_cuda_inner(&cut.g, y) : y;
    convolve(b, &cut, node, x, product);
    if (n->bias != PSR_NONE) {
        const uint32_t bias =
            psr_cuda_cut_channels(b, &cut, n->channels, psr_cuda_build_weight(b, n->bias));
        psr_cuda_point(&cut.g, PSR_CUDA_ADD, product, bias, y);
    }
    psr_cuda_cut_end(b, &cut, node, false);
}

/* y[N,O] = x[N,I] w[O,I]^T + bias[O] */
static void linear_by_kernel(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {.product = {.rows = b->batch,
                                                      .inner = b->net->nodes[n->input[0]].channels,
                                                      .columns = n->channels,
                                                      .b_turned = 1}};
    const uint32_t y = psr_cuda_build_room(b, psr_cuda_build_count(b, node) * sizeof(float));
    psr_cuda_build_kernel(b, node, false, PSR_CUDA_KERNEL_product, &arguments);
    PSR_CUDA_READS(b, product, a, b->values[n->input[0]]);
    PSR_CUDA_READS(b, product, b, psr_cuda_build_weight(b, n->weight));
    PSR_CUDA_READS(b, product, bias,
                   n->bias != PSR_NONE ? psr_cuda_build_weight(b, n->bias) : PSR_NONE);
    PSR_CUDA_WRITES(b, product, c, y);
    b->values[node] = y;
}

static void linear(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t in = b->net->nodes[n->input[0]].channels;
    psr_cuda_cut cut;
    if (b->type == PSR_CUDA_FLOAT32) {
        linear_by_kernel(b, node);
        return;
    }
    filter(b, node);
    psr_cuda_cut_begin(&cut);
    const uint32_t x =
        psr_cuda_cut_matrix(b, &cut, b->type, b->batch, in, false, b->values[n->input[0]]);
    const uint32_t w =
        psr_cuda_cut_matrix(b, &cut, b->type, in, n->channels, true, b->filters[node]);
    const uint32_t y = psr_cuda_cut_matrix(b, &cut, psr_cuda_build_type(b, node), b->batch,
                                           n->channels, false, PSR_NONE);
    const uint32_t product = n->bias != PSR_NONE ? psr_cuda_inner(&cut.g, y) : y;
    psr_cuda_operate(&cut.g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){x, w, product}, 3);
    if (n->bias != PSR_NONE) {
        const uint32_t bias = psr_cuda_cut_matrix(b, &cut, PSR_CUDA_FLOAT32, 1, n->channels, false,
                                                  psr_cuda_build_weight(b, n->bias));
        psr_cuda_point(&cut.g, PSR_CUDA_ADD, product, bias, y);
    }
    b->values[node] = cut.places[y];
    psr_cuda_cut_end(b, &cut, node, false);
}

/* ---- batch norm ---- */

/* What a group's graph computes behind its norm. */
typedef struct finish {
    uint32_t residual; /* the value that is added; PSR_NONE */
    bool relu;
    uint32_t output; /* the node whose value it is */
} finish;

/* The addition and the ReLU, from the tensor that the norm gave to y. */
static void finish_group(psr_cuda_build *b, psr_cuda_cut *cut, const finish *f, uint32_t from,
                         uint32_t y)
{
    if (f->residual != PSR_NONE) {
        const uint32_t sum = f->relu ? psr_cuda_inner(&cut->g, y) : y;
        const uint32_t r = psr_cuda_cut_value(b, cut, f->residual, b->values[f->residual]);
        psr_cuda_point(&cut->g, PSR_CUDA_ADD, from, r, sum);
        from = sum;
    }
    if (f->relu)
        psr_cuda_point(&cut->g, PSR_CUDA_RELU, from, 0, y);
}

static bool ends_with_norm(const finish *f)
{
    return f->residual == PSR_NONE && !f->relu;
}

static void norm_by_batch(psr_cuda_build *b, uint32_t node, const finish *f)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t C = n->channels;
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    const uint32_t x = input_of(b, &cut, node), y = result_of(b, &cut, f->output);
    const uint32_t normed = ends_with_norm(f) ? y : psr_cuda_inner(&cut.g, y);
    const uint32_t tensors[] = {
        x,
        psr_cuda_cut_channels(b, &cut, C, psr_cuda_build_weight(b, n->weight)),
        psr_cuda_cut_channels(b, &cut, C, psr_cuda_build_weight(b, n->bias)),
        psr_cuda_cut_number(&cut, n->epsilon),
        psr_cuda_cut_channels(b, &cut, C, psr_cuda_build_buffer(b, n->mean, PSR_CUDA_BUFFERS)),
        psr_cuda_cut_channels(b, &cut, C, psr_cuda_build_buffer(b, n->variance, PSR_CUDA_BUFFERS)),
        psr_cuda_cut_number(&cut, n->momentum),
        normed,
        psr_cuda_cut_channels(b, &cut, C, PSR_NONE),
        psr_cuda_cut_channels(b, &cut, C, PSR_NONE),
        psr_cuda_cut_channels(b, &cut, C,
                              psr_cuda_build_buffer(b, n->mean, PSR_CUDA_BUFFERS_AFTER)),
        psr_cuda_cut_channels(b, &cut, C,
                              psr_cuda_build_buffer(b, n->variance, PSR_CUDA_BUFFERS_AFTER))};
    b->first[node] = cut.places[tensors[8]];
    b->second[node] = cut.places[tensors[9]];
    psr_cuda_operate(&cut.g, PSR_CUDA_NORM, NULL, tensors, PSR_CUDA_OPERATION_TENSORS);
    finish_group(b, &cut, f, normed, y);
    psr_cuda_cut_end(b, &cut, f->output, false);
}

/* first and second: the scale and the shift that running statistics give. */
static void scale_of_norm(psr_cuda_build *b, uint32_t node, uint32_t at)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {
        .scale_of_norm = {.epsilon = (float)n->epsilon, .channels = n->channels}};
    b->first[node] = psr_cuda_build_room(b, n->channels * sizeof(float));
    b->second[node] = psr_cuda_build_room(b, n->channels * sizeof(float));
    psr_cuda_build_kernel(b, at, false, PSR_CUDA_KERNEL_scale_of_norm, &arguments);
    PSR_CUDA_READS(b, scale_of_norm, weight, psr_cuda_build_weight(b, n->weight));
    PSR_CUDA_READS(b, scale_of_norm, bias, psr_cuda_build_weight(b, n->bias));
    PSR_CUDA_READS(b, scale_of_norm, mean, psr_cuda_build_buffer(b, n->mean, PSR_CUDA_BUFFERS));
    PSR_CUDA_READS(b, scale_of_norm, variance,
                   psr_cuda_build_buffer(b, n->variance, PSR_CUDA_BUFFERS));
    PSR_CUDA_WRITES(b, scale_of_norm, scale, b->first[node]);
    PSR_CUDA_WRITES(b, scale_of_norm, shift, b->second[node]);
}

/* The convolution that a norm's graph computes with it in inference; PSR_NONE: there is none. */
static uint32_t conv_behind(const psr_cuda_build *b, uint32_t norm)
{
    const uint32_t from = b->net->nodes[norm].input[0];
    const psr_network_node *n = &b->net->nodes[from];
    const bool joined =
        !b->training && n->op == PSR_OP_CONV && n->bias == PSR_NONE && b->groups.readers[from] == 1;
    return joined ? from : PSR_NONE;
}

/* y = relu(scale x + shift + residual) */
static void norm_by_running(psr_cuda_build *b, uint32_t node, const finish *f)
{
    const uint32_t from = conv_behind(b, node), channels = b->net->nodes[node].channels;
    psr_cuda_cut cut;
    scale_of_norm(b, node, f->output);
    if (from != PSR_NONE)
        filter(b, from);
    psr_cuda_cut_begin(&cut);
    uint32_t x = input_of(b, &cut, from != PSR_NONE ? from : node);
    const uint32_t y = result_of(b, &cut, f->output);
    if (from != PSR_NONE) {
        const uint32_t product = psr_cuda_inner(&cut.g, y);
        convolve(b, &cut, from, x, product);
        x = product;
    }
    const uint32_t scaled = psr_cuda_inner(&cut.g, y);
    const uint32_t shifted = ends_with_norm(f) ? y : psr_cuda_inner(&cut.g, y);
    const uint32_t scale = psr_cuda_cut_channels(b, &cut, channels, b->first[node]);
    const uint32_t shift = psr_cuda_cut_channels(b, &cut, channels, b->second[node]);
    psr_cuda_point(&cut.g, PSR_CUDA_MULTIPLY, x, scale, scaled);
    psr_cuda_point(&cut.g, PSR_CUDA_ADD, scaled, shift, shifted);
    finish_group(b, &cut, f, shifted, y);
    psr_cuda_cut_end(b, &cut, f->output, false);
}

static void norm(psr_cuda_build *b, uint32_t node, const finish *f)
{
    if (b->training && !b->net->nodes[node].held)
        norm_by_batch(b, node, f);
    else
        norm_by_running(b, node, f);
}

/* A second norm, of a projection shortcut, is computed by itself and then added. */
static void norm_group(psr_cuda_build *b, const psr_fusion_group *group)
{
    const finish second = {PSR_NONE, false, group->second_norm};
    const bool two = group->second_norm != PSR_NONE;
    const finish f = {two ? group->second_norm : group->residual, group->relu, group->output};
    if (two)
        norm(b, group->second_norm, &second);
    norm(b, group->norm, &f);
}

static bool joins_a_norm(const psr_cuda_build *b, uint32_t conv_node)
{
    for (uint32_t i = conv_node + 1; i < b->net->node_count; i++)
        if (b->net->nodes[i].op == PSR_OP_BATCHNORM && conv_behind(b, i) == conv_node)
            return true;
    return false;
}

/* ---- the others ---- */

static void point(psr_cuda_build *b, uint32_t node, psr_cuda_pointwise mode)
{
    const psr_network_node *n = &b->net->nodes[node];
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    const uint32_t x = input_of(b, &cut, node);
    uint32_t other = 0;
    if (n->op == PSR_OP_SCALE)
        other = psr_cuda_cut_number(&cut, n->factor);
    else if (n->op == PSR_OP_ADD)
        other = psr_cuda_cut_value(b, &cut, n->input[1], b->values[n->input[1]]);
    psr_cuda_point(&cut.g, mode, x, other, result_of(b, &cut, node));
    psr_cuda_cut_end(b, &cut, node, false);
}

/* In inference the largest values alone: nobody asks where they were. */
static void pool(psr_cuda_build *b, uint32_t node)
{
    const bool largest = b->net->nodes[node].op == PSR_OP_MAXPOOL;
    const psr_cuda_window window = psr_cuda_build_window(b, node);
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    uint32_t tensors[3] = {input_of(b, &cut, node), result_of(b, &cut, node)}, count = 2;
    if (largest && b->training) {
        tensors[count++] = psr_cuda_like(&cut.g, tensors[1], PSR_CUDA_INT8);
        b->first[node] = psr_cuda_build_room(b, psr_cuda_build_count(b, node));
        cut.places[tensors[2]] = b->first[node];
    }
    psr_cuda_operate(&cut.g, largest ? PSR_CUDA_MAX_POOL : PSR_CUDA_MEAN_POOL, &window, tensors,
                     count);
    psr_cuda_cut_end(b, &cut, node, false);
}

/* A node that a kernel of our own computes, in a new room. */
static uint32_t room_of_value(psr_cuda_build *b, uint32_t node)
{
    b->values[node] =
        psr_cuda_build_room(b, psr_cuda_build_count(b, node) * psr_cuda_type_bytes(b->type));
    return b->values[node];
}

/* cuDNN has no engine for a graph of one number a sample. */
static void relu(psr_cuda_build *b, uint32_t node)
{
    if (!psr_cuda_build_is_number(b, node)) {
        point(b, node, PSR_CUDA_RELU);
        return;
    }
    const uint32_t x = b->values[b->net->nodes[node].input[0]];
    psr_cuda_build_relu(b, node, x, PSR_NONE, room_of_value(b, node));
}

static void shortcut(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node], *from = &b->net->nodes[n->input[0]];
    const psr_cuda_arguments arguments = {.shortcut = {.type = b->type,
                                                       .samples = b->batch,
                                                       .in = from->channels,
                                                       .out = n->channels,
                                                       .height = from->height,
                                                       .width = from->width,
                                                       .stride = n->stride}};
    const uint32_t y = room_of_value(b, node);
    psr_cuda_build_kernel(b, node, false, PSR_CUDA_KERNEL_shortcut, &arguments);
    PSR_CUDA_READS(b, shortcut, x, b->values[n->input[0]]);
    PSR_CUDA_WRITES(b, shortcut, y, y);
}

static void flatten(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node], *from = &b->net->nodes[n->input[0]];
    const uint32_t pixels = from->height * from->width;
    const psr_cuda_arguments arguments = {
        .flatten = {
            .type = b->type, .samples = b->batch, .channels = from->channels, .pixels = pixels}};
    if (n->input[0] == 0) {
        flatten_images(b, node);
        return;
    }
    b->values[node] = b->values[n->input[0]];
    if (pixels == 1)
        return;
    const uint32_t y = room_of_value(b, node);
    psr_cuda_build_kernel(b, node, false, PSR_CUDA_KERNEL_flatten, &arguments);
    PSR_CUDA_READS(b, flatten, x, b->values[n->input[0]]);
    PSR_CUDA_WRITES(b, flatten, y, y);
}

static void gate(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {.gate = {.type = b->type,
                                                   .samples = b->batch,
                                                   .channels = n->channels,
                                                   .pixels = n->height * n->width}};
    const uint32_t y = room_of_value(b, node);
    psr_cuda_build_kernel(b, node, false, PSR_CUDA_KERNEL_gate, &arguments);
    PSR_CUDA_READS(b, gate, x, b->values[n->input[0]]);
    PSR_CUDA_READS(b, gate, s, b->values[n->input[1]]);
    PSR_CUDA_WRITES(b, gate, y, y);
}

static void dropout(psr_cuda_build *b, uint32_t node)
{
    const uint32_t x = b->values[b->net->nodes[node].input[0]];
    b->values[node] = x;
    if (b->training)
        psr_cuda_build_dropout(b, node, false, x, room_of_value(b, node));
}

/* ---- the pass ---- */

static void build_group(psr_cuda_build *b, const psr_fusion_group *group)
{
    const uint32_t node = group->output;
    switch (group->op) {
    case PSR_OP_INPUT:
        input(b, node);
        break;
    case PSR_OP_CONV:
        if (!joins_a_norm(b, node))
            conv(b, node);
        break;
    case PSR_OP_BATCHNORM:
        norm_group(b, group);
        break;
    case PSR_OP_RELU:
        relu(b, node);
        break;
    case PSR_OP_ADD:
        point(b, node, PSR_CUDA_ADD);
        break;
    case PSR_OP_SIGMOID:
        point(b, node, PSR_CUDA_SIGMOID);
        break;
    case PSR_OP_GELU:
        point(b, node, PSR_CUDA_GELU);
        break;
    case PSR_OP_SCALE:
        point(b, node, PSR_CUDA_MULTIPLY);
        break;
    case PSR_OP_MAXPOOL:
    case PSR_OP_AVGPOOL:
        pool(b, node);
        break;
    case PSR_OP_SHORTCUT_A:
        shortcut(b, node);
        break;
    case PSR_OP_FLATTEN:
        flatten(b, node);
        break;
    case PSR_OP_LINEAR:
        linear(b, node);
        break;
    case PSR_OP_DROPOUT:
    case PSR_OP_DROPOUT2D:
        dropout(b, node);
        break;
    case PSR_OP_GATE:
        gate(b, node);
        break;
    }
}

/* A network that does not end in a linear layer has its last value in the activations' type. */
void psr_cuda_build_forward(psr_cuda_build *b)
{
    const uint32_t last = b->net->node_count - 1;
    for (uint32_t i = 0; i < b->groups.count && b->err == PSR_OK; i++) {
        b->group = &b->groups.items[i];
        build_group(b, b->group);
    }
    b->group = NULL;
    b->program->logits = b->values[last];
    if (psr_cuda_build_type(b, last) == PSR_CUDA_FLOAT32)
        return;
    const size_t count = psr_cuda_build_count(b, last);
    b->program->logits = psr_cuda_build_room(b, count * sizeof(float));
    psr_cuda_build_cast(b, last, false, b->values[last], b->type, b->program->logits,
                        PSR_CUDA_FLOAT32, count);
}
