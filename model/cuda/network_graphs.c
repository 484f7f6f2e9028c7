#include "model/cuda/network_graphs.h"

#include "model/onednn/graph.h"

typedef struct cutting {
    const psr_network *net;
    const psr_onednn_graph *groups;
    uint32_t batch;
    psr_cuda_type type;
    psr_cuda_take_graph take;
    void *context;
} cutting;

static psr_err hand_over(const cutting *c, uint32_t node, const psr_cuda_graph *graph)
{
    PSR_TRY(psr_cuda_graph_check(graph));
    return c->take(c->context, node, graph);
}

/* ---- tensors of nodes ---- */

/* cuDNN has no weight gradients for one or three channels, so the images, of which nobody wants a
 * gradient, come with channels of zeros behind their own, and so do the filters that read them. */
static uint32_t channels_of(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    return n->op == PSR_OP_INPUT ? (n->channels + 3) / 4 * 4 : n->channels;
}

static uint32_t value_of(const cutting *c, psr_cuda_graph *g, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    return psr_cuda_image(g, c->type, c->batch, channels_of(c, node), n->height, n->width);
}

static uint32_t input_of(const cutting *c, psr_cuda_graph *g, uint32_t node)
{
    return value_of(c, g, c->net->nodes[node].input[0]);
}

static uint32_t filter_of(const cutting *c, psr_cuda_graph *g, uint32_t node, psr_cuda_type type)
{
    const psr_network_node *n = &c->net->nodes[node];
    const uint32_t in = channels_of(c, n->input[0]);
    return psr_cuda_image(g, type, n->channels, in / n->groups, n->kernel, n->kernel);
}

static psr_cuda_window window_of(const psr_network_node *n)
{
    return (psr_cuda_window){n->kernel, n->kernel, n->stride, n->pad};
}

/* The global mean's window is the image. */
static psr_cuda_window whole_image(const cutting *c, const psr_network_node *n)
{
    const psr_network_node *input = &c->net->nodes[n->input[0]];
    return (psr_cuda_window){input->height, input->width, 1, 0};
}

static uint32_t rows_of(const cutting *c, psr_cuda_graph *g, uint32_t node, psr_cuda_type type)
{
    return psr_cuda_matrix(g, type, c->batch, c->net->nodes[node].channels, false);
}

/* The loss reads the logits, in float32. */
static psr_cuda_type type_of_rows(const cutting *c, uint32_t node)
{
    return node + 1 == c->net->node_count ? PSR_CUDA_FLOAT32 : c->type;
}

/* ---- convolutions ---- */

/* Whether a convolution gives the sums of its value too. In float32 cuDNN does that on tensor cores
 * alone. */
static bool gives_sums(const cutting *c, uint32_t node)
{
    uint32_t norms = 0;
    for (uint32_t i = node + 1; i < c->net->node_count; i++) {
        const psr_network_node *n = &c->net->nodes[i];
        norms += n->op == PSR_OP_BATCHNORM && !n->held && n->input[0] == node;
    }
    return c->type != PSR_CUDA_FLOAT32 && norms > 0 && norms == c->groups->readers[node];
}

static psr_err conv(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    const psr_cuda_window window = window_of(n);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), w = filter_of(c, &g, node, c->type);
    const uint32_t y = value_of(c, &g, node);
    const uint32_t product = n->bias != PSR_NONE ? psr_cuda_inner(&g, y) : y;
    psr_cuda_operate(&g, PSR_CUDA_CONV, &window, (uint32_t[]){x, w, product}, 3);
    if (n->bias != PSR_NONE)
        psr_cuda_point(&g, PSR_CUDA_ADD, product, psr_cuda_channels(&g, n->channels), y);
    if (n->bias == PSR_NONE && gives_sums(c, node)) {
        const uint32_t sum = psr_cuda_channels(&g, n->channels);
        const uint32_t squares = psr_cuda_channels(&g, n->channels);
        psr_cuda_operate(&g, PSR_CUDA_STATISTICS, NULL, (uint32_t[]){y, sum, squares}, 3);
    }
    return hand_over(c, node, &g);
}

/* cuDNN has no engine that writes float32 from bf16, but its identity does so within the graph. */
static psr_err conv_weights(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    const psr_cuda_window window = window_of(n);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), dy = value_of(c, &g, node);
    const uint32_t dw = filter_of(c, &g, node, PSR_CUDA_FLOAT32);
    const uint32_t sum = c->type != PSR_CUDA_FLOAT32 ? psr_cuda_inner(&g, dw) : dw;
    psr_cuda_operate(&g, PSR_CUDA_CONV_WEIGHTS, &window, (uint32_t[]){x, dy, sum}, 3);
    if (sum != dw)
        psr_cuda_point(&g, PSR_CUDA_IDENTITY, sum, 0, dw);
    return hand_over(c, node, &g);
}

static psr_err conv_data(const cutting *c, uint32_t node)
{
    const psr_cuda_window window = window_of(&c->net->nodes[node]);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t dy = value_of(c, &g, node), w = filter_of(c, &g, node, c->type);
    const uint32_t dx = input_of(c, &g, node);
    psr_cuda_operate(&g, PSR_CUDA_CONV_DATA, &window, (uint32_t[]){dy, w, dx}, 3);
    return hand_over(c, node, &g);
}

/* The sum of dy's rows is a product with a row of ones: cuDNN (9.19) plans no sum that has
 * to be deterministic. */
static psr_err bias_gradient(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    const int64_t rows = (int64_t)c->batch * n->height * n->width;
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t ones = psr_cuda_matrix(&g, c->type, 1, rows, false);
    const uint32_t dy = psr_cuda_matrix(&g, c->type, rows, n->channels, false);
    const uint32_t sum = psr_cuda_matrix(&g, PSR_CUDA_FLOAT32, 1, n->channels, false);
    psr_cuda_operate(&g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){ones, dy, sum}, 3);
    return hand_over(c, node, &g);
}

static psr_err conv_backward(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    PSR_TRY(conv_weights(c, node));
    if (n->bias != PSR_NONE)
        PSR_TRY(bias_gradient(c, node));
    return psr_network_wants_gradient(c->net, n->input[0]) ? conv_data(c, node) : PSR_OK;
}

/* ---- batch norm ---- */

/* The group's addition and ReLU, from the tensor that its norm gave to the group's value. */
static void finish_group(const cutting *c, psr_cuda_graph *g, uint32_t from, uint32_t residual,
                         bool relu, uint32_t y)
{
    if (residual != PSR_NONE) {
        const uint32_t sum = relu ? psr_cuda_inner(g, y) : y;
        psr_cuda_point(g, PSR_CUDA_ADD, from, value_of(c, g, residual), sum);
        from = sum;
    }
    if (relu)
        psr_cuda_point(g, PSR_CUDA_RELU, from, 0, y);
}

static psr_err norm_by_batch(const cutting *c, uint32_t node, uint32_t residual, bool relu)
{
    const uint32_t channels = c->net->nodes[node].channels;
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), y = value_of(c, &g, node);
    const uint32_t normed = residual != PSR_NONE || relu ? psr_cuda_inner(&g, y) : y;
    uint32_t tensors[PSR_CUDA_OPERATION_TENSORS];
    for (uint32_t i = 0; i < PSR_CUDA_OPERATION_TENSORS; i++) {
        if (i == 0 || i == 7) /* x, y */
            tensors[i] = i == 0 ? x : normed;
        else if (i == 3 || i == 6) /* epsilon, momentum */
            tensors[i] = psr_cuda_number(&g);
        else
            tensors[i] = psr_cuda_channels(&g, channels);
    }
    psr_cuda_operate(&g, PSR_CUDA_NORM, NULL, tensors, PSR_CUDA_OPERATION_TENSORS);
    finish_group(c, &g, normed, residual, relu, y);
    return hand_over(c, node, &g);
}

/* y = relu(scale from + shift + residual), where running statistics give scale and shift. */
static void scale_and_shift(const cutting *c, psr_cuda_graph *g, uint32_t node, uint32_t from,
                            uint32_t residual, bool relu, uint32_t y)
{
    const uint32_t channels = c->net->nodes[node].channels;
    const uint32_t scaled = psr_cuda_inner(g, y);
    const uint32_t shifted = residual != PSR_NONE || relu ? psr_cuda_inner(g, y) : y;
    psr_cuda_point(g, PSR_CUDA_MULTIPLY, from, psr_cuda_channels(g, channels), scaled);
    psr_cuda_point(g, PSR_CUDA_ADD, scaled, psr_cuda_channels(g, channels), shifted);
    finish_group(c, g, shifted, residual, relu, y);
}

static psr_err norm_by_running(const cutting *c, uint32_t node, uint32_t residual, bool relu)
{
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), y = value_of(c, &g, node);
    scale_and_shift(c, &g, node, x, residual, relu, y);
    return hand_over(c, node, &g);
}

/* A second norm, of a projection shortcut, is computed by itself and then added. */
static psr_err norm_group(const cutting *c, const psr_onednn_group *group,
                          psr_err (*norm)(const cutting *, uint32_t, uint32_t, bool))
{
    if (group->second_norm == PSR_NONE)
        return norm(c, group->norm, group->residual, group->relu);
    PSR_TRY(norm(c, group->second_norm, PSR_NONE, false));
    return norm(c, group->norm, group->second_norm, group->relu);
}

static psr_err norm_training(const cutting *c, const psr_onednn_group *group)
{
    const bool held = c->net->nodes[group->norm].held;
    return norm_group(c, group, held ? norm_by_running : norm_by_batch);
}

static psr_err norm_gradient(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    uint32_t tensors[8];
    for (uint32_t i = 0; i < 8; i++) /* x, dy and dx; values of channels */
        tensors[i] = i < 2 || i == 5 ? value_of(c, &g, node) : psr_cuda_channels(&g, n->channels);
    psr_cuda_operate(&g, PSR_CUDA_NORM_BACKWARD, NULL, tensors, 8);
    return hand_over(c, node, &g);
}

/* ---- operations on single values ---- */

static psr_err point_at(const cutting *c, uint32_t node, psr_cuda_pointwise mode)
{
    const psr_network_node *n = &c->net->nodes[node];
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = value_of(c, &g, n->input[0]);
    uint32_t b = 0;
    if (n->op == PSR_OP_SCALE)
        b = psr_cuda_number(&g);
    else if (psr_cuda_reads_two(mode))
        b = value_of(c, &g, n->input[1] != PSR_NONE ? n->input[1] : node);
    psr_cuda_point(&g, mode, x, b, value_of(c, &g, node));
    return hand_over(c, node, &g);
}

/* Sums of gradients, and masks: two values of the node's shape give a third. */
static psr_err combine(const cutting *c, uint32_t node, psr_cuda_pointwise mode)
{
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t a = value_of(c, &g, node), b = value_of(c, &g, node);
    psr_cuda_point(&g, mode, a, b, value_of(c, &g, node));
    return hand_over(c, node, &g);
}

/* ---- pools ---- */

static psr_err max_pool(const cutting *c, uint32_t node, bool backward)
{
    const psr_network_node *n = &c->net->nodes[node];
    const psr_cuda_window window = window_of(n);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), y = value_of(c, &g, node);
    const uint32_t index = psr_cuda_like(&g, y, PSR_CUDA_INT8);
    if (backward)
        psr_cuda_operate(&g, PSR_CUDA_MAX_POOL_BACKWARD, &window, (uint32_t[]){y, index, x}, 3);
    else
        psr_cuda_operate(&g, PSR_CUDA_MAX_POOL, &window, (uint32_t[]){x, y, index}, 3);
    return hand_over(c, node, &g);
}

/* The largest values alone: nobody asks where they were. */
static psr_err max_pool_inference(const cutting *c, uint32_t node)
{
    const psr_cuda_window window = window_of(&c->net->nodes[node]);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), y = value_of(c, &g, node);
    psr_cuda_operate(&g, PSR_CUDA_MAX_POOL, &window, (uint32_t[]){x, y}, 2);
    return hand_over(c, node, &g);
}

static psr_err mean_pool(const cutting *c, uint32_t node, bool backward)
{
    const psr_cuda_window window = whole_image(c, &c->net->nodes[node]);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), y = value_of(c, &g, node);
    if (backward)
        psr_cuda_operate(&g, PSR_CUDA_MEAN_POOL_BACKWARD, &window, (uint32_t[]){y, x}, 2);
    else
        psr_cuda_operate(&g, PSR_CUDA_MEAN_POOL, &window, (uint32_t[]){x, y}, 2);
    return hand_over(c, node, &g);
}

/* ---- linear ---- */

/* y[N,O] = x[N,I] w[O,I]^T + bias[O] */
static psr_err linear(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    const uint32_t in = c->net->nodes[n->input[0]].channels;
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = rows_of(c, &g, n->input[0], c->type);
    const uint32_t w = psr_cuda_matrix(&g, c->type, in, n->channels, true);
    const uint32_t y = rows_of(c, &g, node, type_of_rows(c, node));
    const uint32_t product = n->bias != PSR_NONE ? psr_cuda_inner(&g, y) : y;
    psr_cuda_operate(&g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){x, w, product}, 3);
    if (n->bias != PSR_NONE) {
        const uint32_t bias = psr_cuda_matrix(&g, PSR_CUDA_FLOAT32, 1, n->channels, false);
        psr_cuda_point(&g, PSR_CUDA_ADD, product, bias, y);
    }
    return hand_over(c, node, &g);
}

/* dw[O,I] = dy[N,O]^T x[N,I], db[O] = sum of dy's rows, dx[N,I] = dy[N,O] w[O,I] */
static psr_err linear_backward(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    const uint32_t in = c->net->nodes[n->input[0]].channels;
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t turned = psr_cuda_matrix(&g, c->type, n->channels, c->batch, true);
    const uint32_t x = rows_of(c, &g, n->input[0], c->type);
    const uint32_t dw = psr_cuda_matrix(&g, PSR_CUDA_FLOAT32, n->channels, in, false);
    psr_cuda_operate(&g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){turned, x, dw}, 3);
    PSR_TRY(hand_over(c, node, &g));
    if (n->bias != PSR_NONE)
        PSR_TRY(bias_gradient(c, node));
    if (!psr_network_wants_gradient(c->net, n->input[0]))
        return PSR_OK;
    psr_cuda_graph_begin(&g);
    const uint32_t dy = rows_of(c, &g, node, c->type);
    const uint32_t w = psr_cuda_matrix(&g, c->type, n->channels, in, false);
    const uint32_t dx = rows_of(c, &g, n->input[0], c->type);
    psr_cuda_operate(&g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){dy, w, dx}, 3);
    return hand_over(c, node, &g);
}

/* ---- passes ---- */

/* What training and inference compute alike. */
static psr_err forward(const cutting *c, uint32_t node)
{
    switch (c->net->nodes[node].op) {
    case PSR_OP_RELU:
        return point_at(c, node, PSR_CUDA_RELU);
    case PSR_OP_ADD:
        return point_at(c, node, PSR_CUDA_ADD);
    case PSR_OP_SIGMOID:
        return point_at(c, node, PSR_CUDA_SIGMOID);
    case PSR_OP_GELU:
        return point_at(c, node, PSR_CUDA_GELU);
    case PSR_OP_SCALE:
        return point_at(c, node, PSR_CUDA_MULTIPLY);
    case PSR_OP_AVGPOOL:
        return mean_pool(c, node, false);
    case PSR_OP_LINEAR:
        return linear(c, node);
    default: /* no graph, or one that differs */
        return PSR_OK;
    }
}

static psr_err training(const cutting *c, const psr_onednn_group *group)
{
    switch (group->op) {
    case PSR_OP_CONV:
        return conv(c, group->output);
    case PSR_OP_BATCHNORM:
        return norm_training(c, group);
    case PSR_OP_MAXPOOL:
        return max_pool(c, group->output, false);
    default:
        return forward(c, group->output);
    }
}

static psr_err backward(const cutting *c, uint32_t node)
{
    const psr_network_node *n = &c->net->nodes[node];
    if (c->groups->readers[node] > 1)
        PSR_TRY(combine(c, node, PSR_CUDA_ADD));
    switch (n->op) {
    case PSR_OP_CONV:
        return conv_backward(c, node);
    case PSR_OP_BATCHNORM:
        return norm_gradient(c, node);
    case PSR_OP_RELU:
        return combine(c, node, PSR_CUDA_RELU_BACKWARD);
    case PSR_OP_SIGMOID:
        return combine(c, node, PSR_CUDA_SIGMOID_BACKWARD);
    case PSR_OP_GELU:
        return combine(c, node, PSR_CUDA_GELU_BACKWARD);
    case PSR_OP_SCALE:
        return point_at(c, node, PSR_CUDA_MULTIPLY);
    case PSR_OP_MAXPOOL:
        return max_pool(c, node, true);
    case PSR_OP_AVGPOOL:
        return mean_pool(c, node, true);
    case PSR_OP_LINEAR:
        return linear_backward(c, node);
    default:
        return PSR_OK;
    }
}

/* The convolution that a norm's graph computes with it in inference; PSR_NONE: there is none. */
static uint32_t conv_behind(const cutting *c, uint32_t norm)
{
    const uint32_t from = c->net->nodes[norm].input[0];
    const psr_network_node *n = &c->net->nodes[from];
    const bool joined =
        n->op == PSR_OP_CONV && n->bias == PSR_NONE && c->groups->readers[from] == 1;
    return joined ? from : PSR_NONE;
}

static psr_err conv_and_norm(const cutting *c, uint32_t norm, uint32_t residual, bool relu)
{
    const uint32_t node = conv_behind(c, norm);
    if (node == PSR_NONE)
        return norm_by_running(c, norm, residual, relu);
    const psr_cuda_window window = window_of(&c->net->nodes[node]);
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = input_of(c, &g, node), w = filter_of(c, &g, node, c->type);
    const uint32_t y = value_of(c, &g, norm), product = psr_cuda_inner(&g, y);
    psr_cuda_operate(&g, PSR_CUDA_CONV, &window, (uint32_t[]){x, w, product}, 3);
    scale_and_shift(c, &g, norm, product, residual, relu, y);
    return hand_over(c, node, &g);
}

static bool joins_a_norm(const cutting *c, uint32_t conv_node)
{
    for (uint32_t i = conv_node + 1; i < c->net->node_count; i++)
        if (c->net->nodes[i].op == PSR_OP_BATCHNORM && conv_behind(c, i) == conv_node)
            return true;
    return false;
}

/* A convolution without norm has no sums to give: its graph is training's. */
static psr_err inference(const cutting *c, const psr_onednn_group *group)
{
    switch (group->op) {
    case PSR_OP_CONV:
        return joins_a_norm(c, group->output) ? PSR_OK : conv(c, group->output);
    case PSR_OP_BATCHNORM:
        return norm_group(c, group, conv_and_norm);
    case PSR_OP_MAXPOOL:
        return max_pool_inference(c, group->output);
    default:
        return forward(c, group->output);
    }
}

static psr_err cut(const cutting *c)
{
    const psr_onednn_graph *groups = c->groups;
    for (uint32_t i = 0; i < groups->count; i++)
        PSR_TRY(training(c, &groups->groups[i]));
    for (uint32_t i = c->net->node_count; i-- > 0;)
        if (psr_network_wants_gradient(c->net, i))
            PSR_TRY(backward(c, i));
    for (uint32_t i = 0; i < groups->count; i++)
        PSR_TRY(inference(c, &groups->groups[i]));
    return PSR_OK;
}

psr_err psr_cuda_network_graphs(const psr_network *net, uint32_t batch, psr_cuda_type type,
                                psr_cuda_take_graph take, void *context)
{
    psr_onednn_graph groups;
    PSR_TRY(psr_onednn_graph_init(net, &groups));
    const cutting c = {net, &groups, batch, type, take, context};
    const psr_err err = cut(&c);
    psr_onednn_graph_done(&groups);
    return err;
}
