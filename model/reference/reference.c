#include "model/reference/reference.h"

#include "model/loss.h"
#include "model/reference/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One pass over the network. */
typedef struct pass {
    psr_reference *reference;
    const psr_network *net;
    const psr_batch *batch;
    psr_reference_state state;
    bool training, sync; /* sync: it stops at each batch norm (model/norm_sums.h) */
    psr_readiness *readiness;
    float loss_scale;
    psr_pass_result result;
    /* where it is */
    bool backward, stopped;
    uint32_t at; /* the node that comes next, or has stopped; backward: 1 + it */
} pass;

struct psr_reference {
    const psr_network *net;
    uint32_t max_batch;
    double label_smoothing;
    psr_real **values;    /* [node]: value of max_batch samples */
    psr_real **gradients; /* [node]: gradient of the loss by that value */
    /* [node]: batch norm's mean[C], then scale[C], then its number of values; NULL elsewhere */
    double **statistics;
    double *sums;  /* of a stop */
    pass pass;     /* the one under way */
    uint8_t *keep; /* dropout's mask of one sample of the largest value */
    size_t bytes;
};

static size_t sample_size(const psr_network_node *node)
{
    return (size_t)node->channels * node->height * node->width;
}

static void *allot(psr_reference *reference, size_t count, size_t size)
{
    reference->bytes += count * size;
    return calloc(count, size);
}

static psr_err allot_node(psr_reference *reference, uint32_t i)
{
    const psr_network_node *node = &reference->net->nodes[i];
    const size_t count = sample_size(node) * reference->max_batch;
    reference->values[i] = allot(reference, count, sizeof(psr_real));
    reference->gradients[i] = allot(reference, count, sizeof(psr_real));
    if (node->op == PSR_OP_BATCHNORM)
        reference->statistics[i] = allot(reference, 2 * (size_t)node->channels + 1, sizeof(double));
    if (reference->values[i] == NULL || reference->gradients[i] == NULL ||
        (node->op == PSR_OP_BATCHNORM && reference->statistics[i] == NULL))
        return psr_fail(PSR_ERR_NOMEM, "reference back end: no memory for %s with a batch of %u",
                        node->name, reference->max_batch);
    return PSR_OK;
}

psr_err psr_reference_new(const psr_network *net, uint32_t max_batch, double label_smoothing,
                          psr_reference **ret_reference)
{
    psr_err err = PSR_OK;
    psr_reference *reference = calloc(1, sizeof(*reference));
    if (reference == NULL)
        return psr_fail(PSR_ERR_NOMEM, "reference back end: out of memory");
    reference->net = net;
    reference->max_batch = max_batch;
    reference->label_smoothing = label_smoothing;
    reference->values = calloc(net->node_count, sizeof(*reference->values));
    reference->gradients = calloc(net->node_count, sizeof(*reference->gradients));
    reference->statistics = calloc(net->node_count, sizeof(*reference->statistics));
    size_t largest = 0, channels = 0;
    for (uint32_t i = 0; i < net->node_count; i++) {
        largest = sample_size(&net->nodes[i]) > largest ? sample_size(&net->nodes[i]) : largest;
        channels = net->nodes[i].channels > channels ? net->nodes[i].channels : channels;
    }
    reference->sums = allot(reference, 1 + 2 * channels, sizeof(double));
    reference->keep = allot(reference, largest, 1);
    if (reference->values == NULL || reference->gradients == NULL ||
        reference->statistics == NULL || reference->keep == NULL || reference->sums == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "reference back end: out of memory");
    for (uint32_t i = 0; i < net->node_count && err == PSR_OK; i++)
        err = allot_node(reference, i);
    if (err != PSR_OK) {
        psr_reference_free(reference);
        return err;
    }
    *ret_reference = reference;
    return PSR_OK;
}

void psr_reference_free(psr_reference *reference)
{
    if (reference == NULL)
        return;
    for (uint32_t i = 0; i < reference->net->node_count; i++) {
        if (reference->values != NULL)
            free(reference->values[i]);
        if (reference->gradients != NULL)
            free(reference->gradients[i]);
        if (reference->statistics != NULL)
            free(reference->statistics[i]);
    }
    free(reference->values);
    free(reference->gradients);
    free(reference->statistics);
    free(reference->keep);
    free(reference->sums);
    free(reference);
}

const psr_real *psr_reference_value(const psr_reference *reference, uint32_t node)
{
    return reference->values[node];
}

size_t psr_reference_bytes(const psr_reference *reference)
{
    return reference->bytes + sizeof(*reference) + 3 * reference->net->node_count * sizeof(void *);
}

/* ---- what the operators need to know of a node ---- */

static psr_window window_of(const pass *p, const psr_network_node *node)
{
    const psr_network_node *in = &p->net->nodes[node->input[0]];
    return (psr_window){.N = p->batch->count,
                        .C = in->channels,
                        .H = in->height,
                        .W = in->width,
                        .O = node->channels,
                        .OH = node->height,
                        .OW = node->width,
                        .K = node->kernel,
                        .stride = node->stride,
                        .pad = node->pad,
                        .groups = node->groups};
}

static psr_batchnorm norm_of(const pass *p, const psr_network_node *node)
{
    return (psr_batchnorm){.N = p->batch->count,
                           .C = node->channels,
                           .S = node->height * node->width,
                           .epsilon = node->epsilon,
                           .momentum = node->momentum};
}

static psr_dropout dropout_of(const psr_network_node *node, uint32_t index)
{
    return (psr_dropout){.C = node->channels,
                         .S = node->height * node->width,
                         .drop = node->drop,
                         .node = index,
                         .whole_channels = node->op == PSR_OP_DROPOUT2D};
}

static const psr_real *weights_of(const pass *p, uint32_t tensor)
{
    return tensor == PSR_NONE ? NULL : p->state.weights + p->net->params.tensors[tensor].offset;
}

/* NULL: there is no such tensor, or nobody wants its gradient. */
static psr_real *gradient_of(const pass *p, uint32_t tensor)
{
    return tensor == PSR_NONE || p->net->params.tensors[tensor].frozen
               ? NULL
               : p->state.gradients + p->net->params.tensors[tensor].offset;
}

/* Where the gradient of node's value is added up. NULL: nobody wants it. */
static psr_real *value_gradient(const pass *p, uint32_t node)
{
    return psr_network_wants_gradient(p->net, node) ? p->reference->gradients[node] : NULL;
}

static psr_real *buffer_of(const pass *p, uint32_t tensor)
{
    return p->state.buffers + p->net->buffers.tensors[tensor].offset;
}

/* ---- one node ---- */

static void forward_batchnorm(const pass *p, uint32_t i, const psr_real *x, psr_real *y)
{
    const psr_network_node *node = &p->net->nodes[i];
    const psr_batchnorm norm = norm_of(p, node);
    const psr_real *weight = weights_of(p, node->weight), *bias = weights_of(p, node->bias);
    psr_real *mean = buffer_of(p, node->mean), *variance = buffer_of(p, node->variance);
    double *statistics = p->reference->statistics[i];
    if (p->training && !node->held)
        psr_ref_batchnorm_forward(&norm, x, weight, bias, mean, variance, y, statistics,
                                  statistics + node->channels);
    else
        psr_ref_batchnorm_infer(&norm, x, weight, bias, mean, variance, y);
}

static void forward_node(const pass *p, uint32_t i)
{
    const psr_network_node *node = &p->net->nodes[i];
    const uint32_t N = p->batch->count;
    const size_t count = sample_size(node) * N;
    psr_real *y = p->reference->values[i];
    if (node->op == PSR_OP_INPUT && p->batch->bytes != NULL) {
        psr_ref_images_of_bytes(N, node->channels, node->height, node->width, p->batch->bytes, y);
        return;
    }
    if (node->op == PSR_OP_INPUT) {
        for (size_t e = 0; e < count; e++)
            y[e] = p->batch->images[e];
        return;
    }
    const psr_network_node *in = &p->net->nodes[node->input[0]];
    const psr_real *x = p->reference->values[node->input[0]];
    const psr_real *w = weights_of(p, node->weight), *b = weights_of(p, node->bias);
    const psr_window window = window_of(p, node);
    const psr_dropout dropout = dropout_of(node, i);
    switch (node->op) {
    case PSR_OP_INPUT:
        break;
    case PSR_OP_CONV:
        psr_ref_conv_forward(&window, x, w, b, y);
        break;
    case PSR_OP_BATCHNORM:
        forward_batchnorm(p, i, x, y);
        break;
    case PSR_OP_RELU:
        psr_ref_relu_forward(count, x, y);
        break;
    case PSR_OP_MAXPOOL:
        psr_ref_maxpool_forward(&window, x, y);
        break;
    case PSR_OP_AVGPOOL:
        psr_ref_avgpool_forward(N, in->channels, in->height, in->width, x, y);
        break;
    case PSR_OP_ADD:
        psr_ref_add_forward(count, x, p->reference->values[node->input[1]], y);
        break;
    case PSR_OP_SHORTCUT_A:
        psr_ref_shortcut_forward(&window, x, y);
        break;
    case PSR_OP_FLATTEN: /* [N,C,H,W] in C order already is [N, C*H*W] */
        memcpy(y, x, count * sizeof(*y));
        break;
    case PSR_OP_LINEAR:
        psr_ref_linear_forward(N, in->channels, node->channels, x, w, b, y);
        break;
    case PSR_OP_DROPOUT:
    case PSR_OP_DROPOUT2D:
        if (p->training)
            psr_ref_dropout_forward(&dropout, p->batch, p->reference->keep, x, y);
        else
            memcpy(y, x, count * sizeof(*y));
        break;
    case PSR_OP_SIGMOID:
        psr_ref_sigmoid_forward(count, x, y);
        break;
    case PSR_OP_GATE:
        psr_ref_gate_forward((size_t)N * node->channels, (size_t)node->height * node->width, x,
                             p->reference->values[node->input[1]], y);
        break;
    case PSR_OP_SCALE:
        psr_ref_scale_forward(count, node->factor, x, y);
        break;
    case PSR_OP_GELU:
        psr_ref_gelu_forward(count, x, y);
        break;
    }
}

static void accumulate(const pass *p, size_t count, const psr_real *dy, uint32_t node)
{
    psr_real *dx = value_gradient(p, node);
    if (dx != NULL)
        psr_ref_accumulate(count, dy, dx);
}

static void backward_batchnorm(const pass *p, uint32_t i, const psr_real *dy, psr_real *dx)
{
    const psr_network_node *node = &p->net->nodes[i];
    const psr_batchnorm norm = norm_of(p, node);
    const psr_real *x = p->reference->values[node->input[0]], *weight = weights_of(p, node->weight);
    const double *statistics = p->reference->statistics[i];
    if (node->held)
        psr_ref_batchnorm_backward_held(&norm, weight, buffer_of(p, node->variance), dy, dx);
    else
        psr_ref_batchnorm_backward(&norm, x, weight, statistics, statistics + node->channels, dy,
                                   dx, gradient_of(p, node->weight), gradient_of(p, node->bias));
}

static void backward_node(const pass *p, uint32_t i)
{
    const psr_network_node *node = &p->net->nodes[i];
    if (!psr_network_wants_gradient(p->net, i))
        return;
    const bool has_one_input = node->weight == PSR_NONE && node->input[1] == PSR_NONE;
    if (has_one_input && !psr_network_wants_gradient(p->net, node->input[0]))
        return;
    const uint32_t N = p->batch->count;
    const size_t count = sample_size(node) * N;
    const uint32_t from = node->input[0];
    const psr_network_node *in = &p->net->nodes[from];
    const psr_real *x = p->reference->values[from], *y = p->reference->values[i];
    const psr_real *dy = p->reference->gradients[i];
    psr_real *dx = value_gradient(p, from);
    const psr_real *w = weights_of(p, node->weight);
    psr_real *dw = gradient_of(p, node->weight), *db = gradient_of(p, node->bias);
    const psr_window window = window_of(p, node);
    const psr_dropout dropout = dropout_of(node, i);
    switch (node->op) {
    case PSR_OP_INPUT:
        break;
    case PSR_OP_CONV:
        psr_ref_conv_backward(&window, x, w, dy, dx, dw, db);
        break;
    case PSR_OP_BATCHNORM:
        backward_batchnorm(p, i, dy, dx);
        break;
    case PSR_OP_RELU:
        psr_ref_relu_backward(count, y, dy, dx);
        break;
    case PSR_OP_MAXPOOL:
        psr_ref_maxpool_backward(&window, x, dy, dx);
        break;
    case PSR_OP_AVGPOOL:
        psr_ref_avgpool_backward(N, in->channels, in->height, in->width, dy, dx);
        break;
    case PSR_OP_ADD:
        accumulate(p, count, dy, from);
        accumulate(p, count, dy, node->input[1]);
        break;
    case PSR_OP_SHORTCUT_A:
        psr_ref_shortcut_backward(&window, dy, dx);
        break;
    case PSR_OP_FLATTEN:
        accumulate(p, count, dy, from);
        break;
    case PSR_OP_LINEAR:
        psr_ref_linear_backward(N, in->channels, node->channels, x, w, dy, dx, dw, db);
        break;
    case PSR_OP_DROPOUT:
    case PSR_OP_DROPOUT2D:
        psr_ref_dropout_backward(&dropout, p->batch, p->reference->keep, dy, dx);
        break;
    case PSR_OP_SIGMOID:
        psr_ref_sigmoid_backward(count, y, dy, dx);
        break;
    case PSR_OP_GATE:
        psr_ref_gate_backward((size_t)N * node->channels, (size_t)node->height * node->width, x,
                              p->reference->values[node->input[1]], dy, dx,
                              value_gradient(p, node->input[1]));
        break;
    case PSR_OP_SCALE:
        psr_ref_scale_backward(count, node->factor, dy, dx);
        break;
    case PSR_OP_GELU:
        psr_ref_gelu_backward(count, x, dy, dx);
        break;
    }
}

/* ---- whole passes ---- */

/* Of a batch norm, before its stop and behind it. */

static void sum_forward(const pass *p, uint32_t i)
{
    const psr_network_node *node = &p->net->nodes[i];
    const psr_batchnorm norm = norm_of(p, node);
    double *sums = p->reference->sums;
    sums[0] = (double)norm.N * norm.S;
    psr_ref_batchnorm_sums(&norm, p->reference->values[node->input[0]], sums + 1,
                           sums + 1 + norm.C);
}

static void go_on_forward(const pass *p, uint32_t i)
{
    const psr_network_node *node = &p->net->nodes[i];
    const psr_batchnorm norm = norm_of(p, node);
    const psr_norm_stop stop = {.nodes = {i, PSR_NONE}};
    const double *sums = p->reference->sums;
    double *mean = p->reference->statistics[i], *scale = mean + norm.C, *M = scale + norm.C;
    *M = sums[0];
    for (uint32_t c = 0; c < norm.C; c++) {
        psr_norm_moments(*M, sums[1 + c], sums[1 + norm.C + c], &mean[c], &scale[c]);
        scale[c] = 1 / sqrt(scale[c] + norm.epsilon);
    }
    psr_ref_batchnorm_normalise(&norm, p->reference->values[node->input[0]],
                                weights_of(p, node->weight), weights_of(p, node->bias), mean, scale,
                                p->reference->values[i]);
    psr_norm_stop_run(p->net, &stop, sums, p->state.buffers);
}

static void sum_backward(const pass *p, uint32_t i)
{
    const psr_network_node *node = &p->net->nodes[i];
    const psr_batchnorm norm = norm_of(p, node);
    const double *mean = p->reference->statistics[i], *scale = mean + norm.C;
    double *sums = p->reference->sums;
    psr_real *dw = gradient_of(p, node->weight), *db = gradient_of(p, node->bias);
    psr_ref_batchnorm_products(&norm, p->reference->values[node->input[0]], mean,
                               p->reference->gradients[i], sums, sums + norm.C);
    for (uint32_t c = 0; c < norm.C; c++) {
        if (dw != NULL)
            dw[c] = (psr_real)(sums[norm.C + c] * scale[c]);
        if (db != NULL)
            db[c] = (psr_real)sums[c];
    }
}

static void go_on_backward(const pass *p, uint32_t i)
{
    const psr_network_node *node = &p->net->nodes[i];
    const psr_batchnorm norm = norm_of(p, node);
    const double *mean = p->reference->statistics[i], *scale = mean + norm.C,
                 *sums = p->reference->sums;
    psr_ref_batchnorm_differentiate(&norm, scale[norm.C], p->reference->values[node->input[0]],
                                    weights_of(p, node->weight), mean, scale, sums, sums + norm.C,
                                    p->reference->gradients[i], value_gradient(p, node->input[0]));
}

/* True: the pass stops at node i, whose sums are ready. Otherwise the node is done. */
static bool take_node(pass *p, uint32_t i)
{
    const psr_exec_layer layer = {i, 1, p->backward};
    const bool stops =
        p->sync && !p->stopped && p->net->nodes[i].op == PSR_OP_BATCHNORM && !p->net->nodes[i].held;
    psr_readiness_layer_begins(p->readiness);
    if (stops)
        (p->backward ? sum_backward : sum_forward)(p, i);
    else if (p->stopped)
        (p->backward ? go_on_backward : go_on_forward)(p, i);
    else
        (p->backward ? backward_node : forward_node)(p, i);
    psr_readiness_layer_ends(p->readiness, &layer);
    p->stopped = stops;
    return stops;
}

/* Both return early where the pass stops. */
static psr_err forward(pass *p)
{
    for (; p->at < p->net->node_count; p->at++) {
        if (!p->stopped)
            PSR_TRY(psr_readiness_forward(p->readiness, p->at));
        if (take_node(p, p->at))
            return PSR_OK;
    }
    return PSR_OK;
}

static psr_err backward(pass *p)
{
    for (; p->at > 0; p->at--) {
        const uint32_t node = p->at - 1;
        if (!p->net->nodes[node].fixed && take_node(p, node))
            return PSR_OK;
        PSR_TRY(psr_readiness_backward(p->readiness, node, NULL));
    }
    return PSR_OK;
}

static void judge(pass *p, psr_real *gradient)
{
    const psr_reference *reference = p->reference;
    psr_loss_cross_entropy(reference->values[p->net->node_count - 1], p->batch->labels,
                           p->batch->second, p->batch->count, p->net->classes,
                           reference->label_smoothing, p->loss_scale, gradient, &p->result);
}

/* The last value's gradient is already there; every other one is a sum over its readers that begins
 * at zero. */
static void turn_back(pass *p)
{
    psr_reference *reference = p->reference;
    const uint32_t last = p->net->node_count - 1;
    judge(p, reference->gradients[last]);
    for (uint32_t i = 0; i < last; i++)
        memset(reference->gradients[i], 0,
               sample_size(&p->net->nodes[i]) * p->batch->count * sizeof(psr_real));
    p->backward = true;
    p->at = p->net->node_count;
}

static psr_err advance(pass *p)
{
    if (!p->backward) {
        PSR_TRY(forward(p));
        if (p->stopped)
            return PSR_OK;
        turn_back(p);
    }
    return backward(p);
}

psr_err psr_reference_begin(psr_reference *reference, const psr_batch *batch,
                            const psr_reference_state *state, float loss_scale,
                            psr_readiness *readiness)
{
    reference->pass = (pass){.reference = reference,
                             .net = reference->net,
                             .batch = batch,
                             .state = *state,
                             .training = true,
                             .sync = true,
                             .readiness = readiness,
                             .loss_scale = loss_scale};
    return PSR_OK;
}

psr_err psr_reference_advance(psr_reference *reference, psr_norm_sums *ret_sums,
                              psr_pass_result *ret_result)
{
    pass *p = &reference->pass;
    PSR_TRY(advance(p));
    *ret_sums = (psr_norm_sums){0};
    if (!p->stopped) {
        *ret_result = p->result;
        return PSR_OK;
    }
    const psr_norm_stop stop = {.nodes = {p->backward ? p->at - 1 : p->at, PSR_NONE}};
    *ret_sums = (psr_norm_sums){reference->sums, psr_norm_stop_count(p->net, &stop, p->backward)};
    return PSR_OK;
}

psr_err psr_reference_train(psr_reference *reference, const psr_batch *batch,
                            const psr_reference_state *state, float loss_scale,
                            psr_readiness *readiness, psr_pass_result *ret_result)
{
    psr_norm_sums sums;
    PSR_TRY(psr_reference_begin(reference, batch, state, loss_scale, readiness));
    reference->pass.sync = false;
    return psr_reference_advance(reference, &sums, ret_result);
}

psr_err psr_reference_infer(psr_reference *reference, const psr_batch *batch,
                            const psr_reference_state *state, psr_readiness *readiness,
                            psr_pass_result *ret_result)
{
    pass p = {.reference = reference,
              .net = reference->net,
              .batch = batch,
              .state = *state,
              .readiness = readiness};
    PSR_TRY(forward(&p));
    judge(&p, NULL);
    *ret_result = p.result;
    return PSR_OK;
}
