#include "model/cuda/program_build.h"

/* ---- gradients of values ---- */

static bool wanted(const psr_cuda_build *b, uint32_t node)
{
    return psr_network_wants_gradient(b->net, node);
}

static size_t gradient_bytes(const psr_cuda_build *b, uint32_t node)
{
    return psr_cuda_build_count(b, node) * psr_cuda_type_bytes(b->type);
}

/* Whether neither node nor one that is still to come has this place as its gradient, but for
 * one. */
static bool is_private(const psr_cuda_build *b, uint32_t place, uint32_t node, uint32_t but)
{
    for (uint32_t i = 0; i <= node; i++)
        if (i != but && b->gradients[i] == place)
            return false;
    return true;
}

/* A reader (node) gives the gradient of an input's value: the first one's is taken as it is, later
 * ones are added, in the place of one of the two that nobody else has. */
static void give(psr_cuda_build *b, uint32_t node, uint32_t input, uint32_t place)
{
    const uint32_t before = b->gradients[input];
    const psr_cuda_arguments arguments = {
        .add = {.type = b->type, .count = psr_cuda_build_count(b, input)}};
    b->gradients[input] = place;
    if (before == PSR_NONE || b->err != PSR_OK)
        return;
    uint32_t sum = before;
    if (!is_private(b, before, node, PSR_NONE))
        sum = is_private(b, place, node, input) ? place
                                                : psr_cuda_build_room(b, gradient_bytes(b, input));
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_add, &arguments);
    PSR_CUDA_READS(b, add, a, before);
    PSR_CUDA_READS(b, add, b, place);
    PSR_CUDA_WRITES(b, add, y, sum);
    b->gradients[input] = sum;
}

static void give_first(psr_cuda_build *b, uint32_t node, uint32_t place)
{
    give(b, node, b->net->nodes[node].input[0], place);
}

/* ---- gradients of weights ---- */

/* Where a parameter's gradient is written; if it is frozen, somewhere. */
static uint32_t place_of_gradient(psr_cuda_build *b, uint32_t tensor)
{
    return psr_cuda_build_trains(b, tensor)
               ? psr_cuda_build_weight_gradient(b, tensor)
               : psr_cuda_build_room(b, b->net->params.tensors[tensor].count * sizeof(float));
}

static void bias_gradient(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {
        .column_sums = {.rows = (uint64_t)b->batch * n->height * n->width,
                        .type = b->type,
                        .columns = n->channels}};
    if (!psr_cuda_build_trains(b, n->bias))
        return;
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_column_sums, &arguments);
    PSR_CUDA_READS(b, column_sums, x, b->gradients[node]);
    PSR_CUDA_WRITES(b, column_sums, y, psr_cuda_build_weight_gradient(b, n->bias));
}

/* ---- convolutions ---- */

/* A graph's dw into the arena, where its order is another. */
static void filter_gradient(psr_cuda_build *b, uint32_t node, uint32_t dw)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {
        .filter_gradient = {.out = n->channels,
                            .in = b->net->nodes[n->input[0]].channels / n->groups,
                            .in_wide = psr_cuda_build_channels(b, n->input[0]) / n->groups,
                            .height = n->kernel,
                            .width = n->kernel}};
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_filter_gradient, &arguments);
    PSR_CUDA_READS(b, filter_gradient, x, dw);
    PSR_CUDA_WRITES(b, filter_gradient, dw, psr_cuda_build_weight_gradient(b, n->weight));
}

/* A graph's dw in 16 bits, as float32 where its order is the arena's, or for filter_gradient. */
static uint32_t widen(psr_cuda_build *b, uint32_t node, uint32_t dw, bool plain)
{
    const psr_network_node *n = &b->net->nodes[node];
    const size_t count = b->net->params.tensors[n->weight].count;
    const uint32_t to = plain ? psr_cuda_build_weight_gradient(b, n->weight)
                              : psr_cuda_build_room(b, count * sizeof(float));
    psr_cuda_build_cast(b, node, true, dw, b->type, to, PSR_CUDA_FLOAT32, count);
    return to;
}

/* cuDNN has no engine that writes float32 from 16 bits, but its identity does so within the graph;
 * with several groups nothing may follow within it, so that their gradients are rounded to 16
 * bits. Images are read by convolutions of one group. */
static void conv_weights(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_window window = psr_cuda_build_window(b, node);
    const bool plain = psr_cuda_build_filter_is_plain(b, node);
    const bool half = b->type != PSR_CUDA_FLOAT32, rounded = half && n->groups > 1;
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    const uint32_t x = psr_cuda_cut_value(b, &cut, n->input[0], b->values[n->input[0]]);
    const uint32_t dy = psr_cuda_cut_gradient(b, &cut, node, b->gradients[node]);
    const uint32_t dw = psr_cuda_cut_filter(
        b, &cut, node, rounded ? b->type : PSR_CUDA_FLOAT32,
        plain && !rounded ? psr_cuda_build_weight_gradient(b, n->weight) : PSR_NONE);
    const uint32_t sum = half && !rounded ? psr_cuda_inner(&cut.g, dw) : dw;
    psr_cuda_operate(&cut.g, PSR_CUDA_CONV_WEIGHTS, &window, (uint32_t[]){x, dy, sum}, 3);
    if (sum != dw)
        psr_cuda_point(&cut.g, PSR_CUDA_IDENTITY, sum, 0, dw);
    uint32_t place = cut.places[dw];
    psr_cuda_cut_end(b, &cut, node, true);
    if (rounded)
        place = widen(b, node, place, plain);
    if (!plain)
        filter_gradient(b, node, place);
}

static void conv_data(psr_cuda_build *b, uint32_t node)
{
    const psr_cuda_window window = psr_cuda_build_window(b, node);
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    const uint32_t dy = psr_cuda_cut_gradient(b, &cut, node, b->gradients[node]);
    const uint32_t w = psr_cuda_cut_filter(b, &cut, node, b->type, b->filters[node]);
    const uint32_t dx = psr_cuda_cut_gradient(b, &cut, b->net->nodes[node].input[0], PSR_NONE);
    psr_cuda_operate(&cut.g, PSR_CUDA_CONV_DATA, &window, (uint32_t[]){dy, w, dx}, 3);
    const uint32_t place = cut.places[dx];
    psr_cuda_cut_end(b, &cut, node, true);
    give_first(b, node, place);
}

static void conv(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    if (psr_cuda_build_trains(b, n->weight))
        conv_weights(b, node);
    bias_gradient(b, node);
    if (wanted(b, n->input[0]))
        conv_data(b, node);
}

/* ---- linear layers: dw[O,I] = dy[N,O]^T x[N,I], dx[N,I] = dy[N,O] w[O,I] ---- */

static void product(psr_cuda_build *b, uint32_t node, const psr_cuda_product_args *shape,
                    uint32_t a, uint32_t times, uint32_t c)
{
    const psr_cuda_arguments arguments = {.product = *shape};
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_product, &arguments);
    PSR_CUDA_READS(b, product, a, a);
    PSR_CUDA_READS(b, product, b, times);
    PSR_CUDA_WRITES(b, product, c, c);
}

static void linear_weights(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t N = b->batch, O = n->channels, I = b->net->nodes[n->input[0]].channels;
    const uint32_t x = b->values[n->input[0]], dy = b->gradients[node];
    const uint32_t dw = psr_cuda_build_weight_gradient(b, n->weight);
    psr_cuda_cut cut;
    if (b->type == PSR_CUDA_FLOAT32) {
        const psr_cuda_product_args shape = {.rows = O, .inner = N, .columns = I, .a_turned = 1};
        product(b, node, &shape, dy, x, dw);
        return;
    }
    psr_cuda_cut_begin(&cut);
    const uint32_t tensors[] = {psr_cuda_cut_matrix(b, &cut, b->type, O, N, true, dy),
                                psr_cuda_cut_matrix(b, &cut, b->type, N, I, false, x),
                                psr_cuda_cut_matrix(b, &cut, PSR_CUDA_FLOAT32, O, I, false, dw)};
    psr_cuda_operate(&cut.g, PSR_CUDA_MATMUL, NULL, tensors, 3);
    psr_cuda_cut_end(b, &cut, node, true);
}

static void linear_data(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t N = b->batch, O = n->channels, I = b->net->nodes[n->input[0]].channels;
    const uint32_t dy = b->gradients[node];
    const uint32_t dx = psr_cuda_build_room(b, gradient_bytes(b, n->input[0]));
    psr_cuda_cut cut;
    if (b->type == PSR_CUDA_FLOAT32) {
        const psr_cuda_product_args shape = {.rows = N, .inner = O, .columns = I};
        product(b, node, &shape, dy, psr_cuda_build_weight(b, n->weight), dx);
    } else {
        psr_cuda_cut_begin(&cut);
        const uint32_t tensors[] = {
            psr_cuda_cut_matrix(b, &cut, b->type, N, O, false, dy),
            psr_cuda_cut_matrix(b, &cut, b->type, O, I, false, b->filters[node]),
            psr_cuda_cut_matrix(b, &cut, b->type, N, I, false, dx)};
        psr_cuda_operate(&cut.g, PSR_CUDA_MATMUL, NULL, tensors, 3);
        psr_cuda_cut_end(b, &cut, node, true);
    }
    give_first(b, node, dx);
}

static void linear(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    if (psr_cuda_build_trains(b, n->weight))
        linear_weights(b, node);
    bias_gradient(b, node);
    if (wanted(b, n->input[0]))
        linear_data(b, node);
}

/* ---- batch norm ---- */

/* dx is written whether or not somebody wants it. */
static void norm_by_batch(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const uint32_t C = n->channels;
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    const uint32_t tensors[] = {
        psr_cuda_cut_value(b, &cut, n->input[0], b->values[n->input[0]]),
        psr_cuda_cut_gradient(b, &cut, node, b->gradients[node]),
        psr_cuda_cut_channels(b, &cut, C, b->first[node]),
        psr_cuda_cut_channels(b, &cut, C, b->second[node]),
        psr_cuda_cut_channels(b, &cut, C, psr_cuda_build_weight(b, n->weight)),
        psr_cuda_cut_gradient(b, &cut, node, PSR_NONE),
        psr_cuda_cut_channels(b, &cut, C, place_of_gradient(b, n->weight)),
        psr_cuda_cut_channels(b, &cut, C, place_of_gradient(b, n->bias))};
    psr_cuda_operate(&cut.g, PSR_CUDA_NORM_BACKWARD, NULL, tensors, 8);
    const uint32_t dx = cut.places[tensors[5]];
    psr_cuda_cut_end(b, &cut, node, true);
    if (wanted(b, n->input[0]))
        give_first(b, node, dx);
}

static void norm_by_running(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {
        .norm_gradient = {.epsilon = (float)n->epsilon,
                          .type = b->type,
                          .channels = n->channels,
                          .rows = (uint64_t)b->batch * n->height * n->width}};
    const uint32_t dscale = place_of_gradient(b, n->weight), dbias = place_of_gradient(b, n->bias);
    const uint32_t dx =
        wanted(b, n->input[0]) ? psr_cuda_build_room(b, gradient_bytes(b, n->input[0])) : PSR_NONE;
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_norm_gradient, &arguments);
    PSR_CUDA_READS(b, norm_gradient, x, b->values[n->input[0]]);
    PSR_CUDA_READS(b, norm_gradient, dy, b->gradients[node]);
    PSR_CUDA_READS(b, norm_gradient, weight, psr_cuda_build_weight(b, n->weight));
    PSR_CUDA_READS(b, norm_gradient, mean, psr_cuda_build_buffer(b, n->mean, PSR_CUDA_BUFFERS));
    PSR_CUDA_READS(b, norm_gradient, variance,
                   psr_cuda_build_buffer(b, n->variance, PSR_CUDA_BUFFERS));
    PSR_CUDA_WRITES(b, norm_gradient, dx, dx);
    PSR_CUDA_WRITES(b, norm_gradient, dscale, dscale);
    PSR_CUDA_WRITES(b, norm_gradient, dbias, dbias);
    if (dx != PSR_NONE)
        give_first(b, node, dx);
}

/* ---- the others ---- */

/* From dy and what the forward pass has left: a value of the shape of the node's. */
static void point(psr_cuda_build *b, uint32_t node, psr_cuda_pointwise mode)
{
    const psr_network_node *n = &b->net->nodes[node];
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    const bool scales = n->op == PSR_OP_SCALE;
    const uint32_t of = n->op == PSR_OP_RELU ? node : n->input[0]; /* y > 0 where x > 0 */
    const uint32_t dy = psr_cuda_cut_gradient(b, &cut, node, b->gradients[node]);
    const uint32_t other = scales ? psr_cuda_cut_number(&cut, n->factor)
                                  : psr_cuda_cut_value(b, &cut, of, b->values[of]);
    const uint32_t dx = psr_cuda_cut_gradient(b, &cut, node, PSR_NONE);
    psr_cuda_point(&cut.g, mode, scales ? dy : other, scales ? other : dy, dx);
    const uint32_t place = cut.places[dx];
    psr_cuda_cut_end(b, &cut, node, true);
    give_first(b, node, place);
}

static void relu(psr_cuda_build *b, uint32_t node)
{
    if (!psr_cuda_build_is_number(b, node)) {
        point(b, node, PSR_CUDA_RELU_BACKWARD);
        return;
    }
    const uint32_t dx = psr_cuda_build_room(b, gradient_bytes(b, node));
    psr_cuda_build_relu(b, node, b->values[node], b->gradients[node], dx);
    give_first(b, node, dx);
}

static void pool(psr_cuda_build *b, uint32_t node)
{
    const bool largest = b->net->nodes[node].op == PSR_OP_MAXPOOL;
    const psr_cuda_window window = psr_cuda_build_window(b, node);
    psr_cuda_cut cut;
    psr_cuda_cut_begin(&cut);
    uint32_t tensors[3] = {psr_cuda_cut_gradient(b, &cut, node, b->gradients[node])}, count = 1;
    if (largest) {
        tensors[count++] = psr_cuda_like(&cut.g, tensors[0], PSR_CUDA_INT8);
        cut.places[tensors[1]] = b->first[node];
    }
    const uint32_t dx = psr_cuda_cut_gradient(b, &cut, b->net->nodes[node].input[0], PSR_NONE);
    tensors[count++] = dx;
    psr_cuda_operate(&cut.g, largest ? PSR_CUDA_MAX_POOL_BACKWARD : PSR_CUDA_MEAN_POOL_BACKWARD,
                     &window, tensors, count);
    const uint32_t place = cut.places[dx];
    psr_cuda_cut_end(b, &cut, node, true);
    give_first(b, node, place);
}

static void add(psr_cuda_build *b, uint32_t node)
{
    for (int i = 0; i < 2; i++)
        if (wanted(b, b->net->nodes[node].input[i]))
            give(b, node, b->net->nodes[node].input[i], b->gradients[node]);
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
    const uint32_t dx = psr_cuda_build_room(b, gradient_bytes(b, n->input[0]));
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_shortcut_backward, &arguments);
    PSR_CUDA_READS(b, shortcut, x, b->gradients[node]);
    PSR_CUDA_WRITES(b, shortcut, y, dx);
    give_first(b, node, dx);
}

static void flatten(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node], *from = &b->net->nodes[n->input[0]];
    const psr_cuda_arguments arguments = {.flatten = {.back = 1,
                                                      .type = b->type,
                                                      .samples = b->batch,
                                                      .channels = from->channels,
                                                      .pixels = from->height * from->width}};
    if (arguments.flatten.pixels == 1) {
        give_first(b, node, b->gradients[node]);
        return;
    }
    const uint32_t dx = psr_cuda_build_room(b, gradient_bytes(b, n->input[0]));
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_flatten, &arguments);
    PSR_CUDA_READS(b, flatten, x, b->gradients[node]);
    PSR_CUDA_WRITES(b, flatten, y, dx);
    give_first(b, node, dx);
}

static void dropout(psr_cuda_build *b, uint32_t node)
{
    const uint32_t dx = psr_cuda_build_room(b, gradient_bytes(b, node));
    psr_cuda_build_dropout(b, node, true, b->gradients[node], dx);
    give_first(b, node, dx);
}

static void gate(psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const psr_cuda_arguments arguments = {.gate_backward = {.type = b->type,
                                                            .samples = b->batch,
                                                            .channels = n->channels,
                                                            .pixels = n->height * n->width}};
    uint32_t given[2] = {PSR_NONE, PSR_NONE};
    for (int i = 0; i < 2; i++)
        if (wanted(b, n->input[i]))
            given[i] = psr_cuda_build_room(b, gradient_bytes(b, n->input[i]));
    psr_cuda_build_kernel(b, node, true, PSR_CUDA_KERNEL_gate_backward, &arguments);
    PSR_CUDA_READS(b, gate_backward, x, b->values[n->input[0]]);
    PSR_CUDA_READS(b, gate_backward, s, b->values[n->input[1]]);
    PSR_CUDA_READS(b, gate_backward, dy, b->gradients[node]);
    PSR_CUDA_WRITES(b, gate_backward, dx, given[0]);
    PSR_CUDA_WRITES(b, gate_backward, ds, given[1]);
    for (int i = 0; i < 2; i++)
        if (given[i] != PSR_NONE)
            give(b, node, n->input[i], given[i]);
}

/* ---- the pass ---- */

/* Nodes with weights, and those with two inputs, see for themselves what is wanted. */
static bool has_nothing_to_do(const psr_cuda_build *b, uint32_t node)
{
    const psr_network_node *n = &b->net->nodes[node];
    const bool has_one_input = n->weight == PSR_NONE && n->input[1] == PSR_NONE;
    return !wanted(b, node) || (has_one_input && !wanted(b, n->input[0]));
}

static void build_node(psr_cuda_build *b, uint32_t node)
{
    switch (b->net->nodes[node].op) {
    case PSR_OP_INPUT:
        break;
    case PSR_OP_CONV:
        conv(b, node);
        break;
    case PSR_OP_BATCHNORM:
        if (b->net->nodes[node].held)
            norm_by_running(b, node);
        else
            norm_by_batch(b, node);
        break;
    case PSR_OP_RELU:
        relu(b, node);
        break;
    case PSR_OP_SIGMOID:
        point(b, node, PSR_CUDA_SIGMOID_BACKWARD);
        break;
    case PSR_OP_GELU:
        point(b, node, PSR_CUDA_GELU_BACKWARD);
        break;
    case PSR_OP_SCALE:
        point(b, node, PSR_CUDA_MULTIPLY);
        break;
    case PSR_OP_MAXPOOL:
    case PSR_OP_AVGPOOL:
        pool(b, node);
        break;
    case PSR_OP_ADD:
        add(b, node);
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

void psr_cuda_build_backward(psr_cuda_build *b)
{
    for (uint32_t node = b->net->node_count; node-- > 0 && b->err == PSR_OK;)
        if (!has_nothing_to_do(b, node))
            build_node(b, node);
}
