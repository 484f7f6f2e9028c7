#include "model/networks/network_build.h"

#include "base/rng.h"
#include "model/freeze.h"
#include "model/networks/network_list.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

/* Appends a node that reads `input`. It has the shape of input until the caller changes it. */
static psr_network_node node_from(const psr_network_builder *builder, psr_op op, uint32_t input,
                                  const char *name)
{
    psr_network_node node = {.op = op,
                             .input = {input, PSR_NONE},
                             .weight = PSR_NONE,
                             .bias = PSR_NONE,
                             .mean = PSR_NONE,
                             .variance = PSR_NONE};
    snprintf(node.name, sizeof node.name, "%s", name);
    if (builder->err == PSR_OK && input != PSR_NONE) {
        const psr_network_node *from = &builder->net->nodes[input];
        node.channels = from->channels;
        node.height = from->height;
        node.width = from->width;
    }
    return node;
}

static uint32_t append(psr_network_builder *builder, const psr_network_node *node)
{
    psr_network *net = builder->net;
    if (builder->err != PSR_OK)
        return 0;
    if (net->node_count == builder->node_capacity) {
        uint32_t capacity = builder->node_capacity ? 2 * builder->node_capacity : 64;
        psr_network_node *grown = realloc(net->nodes, capacity * sizeof *grown);
        if (grown == NULL) {
            builder->err = psr_fail(PSR_ERR_NOMEM, "no memory for a network of %u nodes", capacity);
            return 0;
        }
        net->nodes = grown;
        builder->node_capacity = capacity;
    }
    net->nodes[net->node_count] = *node;
    return net->node_count++;
}

typedef struct tensor_name {
    char text[2 * PSR_TENSOR_NAME_MAX];
} tensor_name;

static tensor_name name_of(const char *layer, const char *suffix)
{
    tensor_name name;
    snprintf(name.text, sizeof name.text, "%s.%s", layer, suffix);
    return name;
}

/* Adds a tensor and returns its index in layout. */
static uint32_t add_tensor(psr_network_builder *builder, psr_layout *layout, const char *name,
                           uint32_t rank, const uint32_t *shape)
{
    if (builder->err != PSR_OK)
        return PSR_NONE;
    builder->err = psr_layout_add(layout, name, rank, shape);
    return builder->err == PSR_OK ? (uint32_t)layout->tensor_count - 1 : PSR_NONE;
}

static uint32_t add_named(psr_network_builder *builder, const char *name, uint32_t rank,
                          const uint32_t *shape, psr_init init)
{
    psr_network *net = builder->net;
    uint32_t index = add_tensor(builder, &net->params, name, rank, shape);
    if (builder->err != PSR_OK)
        return PSR_NONE;
    if (index == builder->init_capacity) {
        uint32_t capacity = builder->init_capacity ? 2 * builder->init_capacity : 64;
        psr_init *grown = realloc(net->inits, capacity * sizeof *grown);
        if (grown == NULL) {
            builder->err =
                psr_fail(PSR_ERR_NOMEM, "no memory for a network of %u tensors", capacity);
            return PSR_NONE;
        }
        net->inits = grown;
        builder->init_capacity = capacity;
    }
    net->inits[index] = init;
    return index;
}

/* The tensor LAYER.SUFFIX. */
static uint32_t add_param(psr_network_builder *builder, const char *layer, const char *suffix,
                          uint32_t rank, const uint32_t *shape, psr_init init)
{
    return add_named(builder, name_of(layer, suffix).text, rank, shape, init);
}

static uint32_t add_buffer(psr_network_builder *builder, const char *layer, const char *suffix,
                           uint32_t channels)
{
    return add_tensor(builder, &builder->net->buffers, name_of(layer, suffix).text, 1, &channels);
}

/* Size after a window of `kernel` that moves by `stride` over `size` padded by `pad` on both
 * sides. */
static uint32_t window_out(uint32_t size, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    assert(size + 2 * pad >= kernel); /* psr_network_new refused smaller images */
    return (size + 2 * pad - kernel) / stride + 1;
}

static void slide_window(psr_network_node *node, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    node->height = window_out(node->height, kernel, stride, pad);
    node->width = window_out(node->width, kernel, stride, pad);
    node->kernel = kernel;
    node->stride = stride;
    node->pad = pad;
}

static uint32_t build_conv(psr_network_builder *builder, uint32_t input, const char *name,
                           uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad,
                           uint32_t groups, psr_init_kind init_kind, const psr_init_kind *bias_init)
{
    if (builder->err != PSR_OK)
        return 0;
    psr_network_node node = node_from(builder, PSR_OP_CONV, input, name);
    assert(node.channels % groups == 0 && channels % groups == 0);
    uint32_t shape[4] = {channels, node.channels / groups, kernel, kernel};
    /* Fans as PyTorch counts them: O of a grouped convolution is the whole of it. */
    psr_init init = {init_kind, shape[1] * kernel * kernel, channels * kernel * kernel};
    slide_window(&node, kernel, stride, pad);
    node.groups = groups;
    node.channels = channels;
    node.weight = add_param(builder, name, "weight", 4, shape, init);
    if (bias_init != NULL) {
        init.kind = *bias_init;
        node.bias = add_param(builder, name, "bias", 1, &channels, init);
    }
    return append(builder, &node);
}

uint32_t psr_build_conv(psr_network_builder *builder, uint32_t input, const char *name,
                        uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad,
                        psr_init_kind init)
{
    return build_conv(builder, input, name, channels, kernel, stride, pad, 1, init, NULL);
}

uint32_t psr_build_conv_grouped(psr_network_builder *builder, uint32_t input, const char *name,
                                uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad,
                                uint32_t groups, psr_init_kind init)
{
    return build_conv(builder, input, name, channels, kernel, stride, pad, groups, init, NULL);
}

uint32_t psr_build_conv_bias(psr_network_builder *builder, uint32_t input, const char *name,
                             uint32_t channels, uint32_t kernel)
{
    const psr_init_kind init = PSR_INIT_UNIFORM_FAN_IN;
    return build_conv(builder, input, name, channels, kernel, 1, 0, 1, init, &init);
}

uint32_t psr_build_conv_whitening(psr_network_builder *builder, uint32_t input, const char *name,
                                  uint32_t kernel)
{
    if (builder->err != PSR_OK)
        return 0;
    const psr_init_kind bias_init = PSR_INIT_ZERO;
    const uint32_t values = builder->net->nodes[input].channels * kernel * kernel;
    return build_conv(builder, input, name, 2 * values, kernel, 1, 0, 1, PSR_INIT_WHITENING,
                      &bias_init);
}

uint32_t psr_build_batchnorm(psr_network_builder *builder, uint32_t input, const char *name)
{
    return psr_build_batchnorm_from(builder, input, name, PSR_INIT_ONE);
}

uint32_t psr_build_batchnorm_from(psr_network_builder *builder, uint32_t input, const char *name,
                                  psr_init_kind scale)
{
    psr_network_node node = node_from(builder, PSR_OP_BATCHNORM, input, name);
    node.weight = add_param(builder, name, "weight", 1, &node.channels, (psr_init){.kind = scale});
    node.bias =
        add_param(builder, name, "bias", 1, &node.channels, (psr_init){.kind = PSR_INIT_ZERO});
    node.mean = add_buffer(builder, name, "running_mean", node.channels);
    node.variance = add_buffer(builder, name, "running_var", node.channels);
    node.epsilon = builder->epsilon;
    node.momentum = builder->momentum;
    return append(builder, &node);
}

uint32_t psr_build_relu(psr_network_builder *builder, uint32_t input, const char *name)
{
    psr_network_node node = node_from(builder, PSR_OP_RELU, input, name);
    return append(builder, &node);
}

uint32_t psr_build_gelu(psr_network_builder *builder, uint32_t input, const char *name)
{
    psr_network_node node = node_from(builder, PSR_OP_GELU, input, name);
    return append(builder, &node);
}

uint32_t psr_build_maxpool(psr_network_builder *builder, uint32_t input, const char *name,
                           uint32_t kernel, uint32_t stride, uint32_t pad)
{
    if (builder->err != PSR_OK)
        return 0;
    psr_network_node node = node_from(builder, PSR_OP_MAXPOOL, input, name);
    slide_window(&node, kernel, stride, pad);
    return append(builder, &node);
}

uint32_t psr_build_avgpool(psr_network_builder *builder, uint32_t input, const char *name)
{
    psr_network_node node = node_from(builder, PSR_OP_AVGPOOL, input, name);
    node.height = node.width = 1;
    return append(builder, &node);
}

uint32_t psr_build_add(psr_network_builder *builder, uint32_t path, uint32_t identity,
                       const char *name)
{
    psr_network_node node = node_from(builder, PSR_OP_ADD, path, name);
    node.input[1] = identity;
    return append(builder, &node);
}

uint32_t psr_build_shortcut_a(psr_network_builder *builder, uint32_t input, const char *name,
                              uint32_t channels, uint32_t stride)
{
    if (builder->err != PSR_OK)
        return 0;
    psr_network_node node = node_from(builder, PSR_OP_SHORTCUT_A, input, name);
    slide_window(&node, 1, stride, 0);
    node.channels = channels;
    return append(builder, &node);
}

uint32_t psr_build_flatten(psr_network_builder *builder, uint32_t input)
{
    psr_network_node node = node_from(builder, PSR_OP_FLATTEN, input, "flatten");
    node.channels *= node.height * node.width;
    node.height = node.width = 1;
    return append(builder, &node);
}

/* rank: of the weights, 2 or 4. bias_init: NULL when there is none. */
static uint32_t build_linear(psr_network_builder *builder, uint32_t input, const char *name,
                             uint32_t features, uint32_t rank, psr_init_kind weight_init,
                             const psr_init_kind *bias_init)
{
    psr_network_node node = node_from(builder, PSR_OP_LINEAR, input, name);
    uint32_t shape[4] = {features, node.channels, 1, 1};
    node.weight = add_param(builder, name, "weight", rank, shape,
                            (psr_init){weight_init, node.channels, features});
    if (bias_init != NULL)
        node.bias = add_param(builder, name, "bias", 1, &features,
                              (psr_init){*bias_init, node.channels, features});
    node.channels = features;
    return append(builder, &node);
}

uint32_t psr_build_linear(psr_network_builder *builder, uint32_t input, const char *name,
                          uint32_t features, psr_init_kind weight_init, psr_init_kind bias_init)
{
    return build_linear(builder, input, name, features, 2, weight_init, &bias_init);
}

uint32_t psr_build_linear_bare(psr_network_builder *builder, uint32_t input, const char *name,
                               uint32_t features, psr_init_kind weight_init)
{
    return build_linear(builder, input, name, features, 2, weight_init, NULL);
}

uint32_t psr_build_linear_1x1(psr_network_builder *builder, uint32_t input, const char *name,
                              uint32_t channels)
{
    const psr_init_kind init = PSR_INIT_UNIFORM_FAN_IN;
    return build_linear(builder, input, name, channels, 4, init, &init);
}

uint32_t psr_build_sigmoid(psr_network_builder *builder, uint32_t input, const char *name)
{
    psr_network_node node = node_from(builder, PSR_OP_SIGMOID, input, name);
    return append(builder, &node);
}

uint32_t psr_build_gate(psr_network_builder *builder, uint32_t input, uint32_t gate,
                        const char *name)
{
    psr_network_node node = node_from(builder, PSR_OP_GATE, input, name);
    node.input[1] = gate;
    return append(builder, &node);
}

uint32_t psr_build_scale(psr_network_builder *builder, uint32_t input, const char *name,
                         double factor)
{
    psr_network_node node = node_from(builder, PSR_OP_SCALE, input, name);
    node.factor = factor;
    return append(builder, &node);
}

uint32_t psr_build_dropout(psr_network_builder *builder, uint32_t input, const char *name,
                           psr_op op, double drop)
{
    psr_network_node node = node_from(builder, op, input, name);
    node.drop = drop;
    return append(builder, &node);
}

psr_err psr_build_begin(psr_network_builder *builder, const char *name, uint32_t classes,
                        uint32_t channels, uint32_t height, uint32_t width)
{
    psr_network *net = calloc(1, sizeof *net);
    if (net == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a network");
    snprintf(net->name, sizeof net->name, "%s", name);
    net->classes = classes;
    net->channels = channels;
    net->height = height;
    net->width = width;
    *builder = (psr_network_builder){.net = net, .epsilon = 1e-5, .momentum = 0.1};
    psr_network_node input = node_from(builder, PSR_OP_INPUT, PSR_NONE, "input");
    input.channels = channels;
    input.height = height;
    input.width = width;
    append(builder, &input);
    return PSR_OK;
}

/* ---- networks by name ---- */

/* Bounds within which every product of the descriptions fits 32 bits. */
#define CLASSES_MAX 1000000
#define CHANNELS_MAX 1024
uint32_t psr_build_tensor(psr_network_builder *builder, uint32_t input, const char *name,
                          uint32_t count)
{
    psr_network_node node = node_from(builder, PSR_OP_LINEAR, input, name);
    node.weight = add_named(builder, name, 1, &count, (psr_init){PSR_INIT_ZERO, count, count});
    node.channels = builder->net->classes;
    node.height = node.width = 1;
    return append(builder, &node);
}

#define SIZE_MAX_PX 8192
#define INPUT_MAX (1u << 28) /* channels * height * width */

static psr_err check_input(const char *model, uint32_t least_size, uint32_t classes,
                           uint32_t channels, uint32_t height, uint32_t width)
{
    if (classes < 1 || classes > CLASSES_MAX)
        return psr_fail(PSR_ERR_USAGE, "model %s: %u classes: from 1 to %d are possible", model,
                        classes, CLASSES_MAX);
    if (channels < 1 || channels > CHANNELS_MAX)
        return psr_fail(PSR_ERR_USAGE, "model %s: images of %u channels: from 1 to %d are possible",
                        model, channels, CHANNELS_MAX);
    if (height < least_size || width < least_size)
        return psr_fail(
            PSR_ERR_USAGE,
            "model %s: images of %u x %u pixels are too small: at least %u x %u are needed", model,
            height, width, least_size, least_size);
    if (height > SIZE_MAX_PX || width > SIZE_MAX_PX ||
        (uint64_t)channels * height * width > INPUT_MAX)
        return psr_fail(PSR_ERR_USAGE,
                        "model %s: images of %u x %u x %u are too large: at most %d pixels a side "
                        "and %u values",
                        model, channels, height, width, SIZE_MAX_PX, INPUT_MAX);
    return PSR_OK;
}

psr_err psr_network_new(const char *model, uint32_t classes, uint32_t channels, uint32_t height,
                        uint32_t width, psr_shortcut shortcut, psr_network **ret_net)
{
    psr_config config;
    psr_config_defaults(&config);
    snprintf(config.model, sizeof config.model, "%s", model);
    config.shortcut = shortcut;
    return psr_network_of(&config, classes, channels, height, width, ret_net);
}

psr_err psr_network_of(const psr_config *config, uint32_t classes, uint32_t channels,
                       uint32_t height, uint32_t width, psr_network **ret_net)
{
    const char *model = config->model;
    const psr_listed_network *listed = psr_network_find(model);
    if (listed == NULL) {
        char names[PSR_NETWORK_TEXT_MAX];
        psr_network_names(names, sizeof names);
        return psr_fail(PSR_ERR_USAGE, "model \"%.64s\" is unknown: one of %s", model, names);
    }
    PSR_TRY(check_input(model, listed->least_size, classes, channels, height, width));

    psr_network_builder builder;
    PSR_TRY(psr_build_begin(&builder, model, classes, channels, height, width));
    builder.epsilon = config->bn_epsilon;
    builder.momentum = config->bn_momentum;
    switch (listed->family) {
    case PSR_FAMILY_MLP:
        psr_build_mlp(&builder);
        break;
    case PSR_FAMILY_CONVNET:
        psr_build_convnet(&builder);
        break;
    case PSR_FAMILY_CIFAR:
        psr_build_resnet_cifar(&builder, listed, config);
        break;
    case PSR_FAMILY_PREACTIVATED:
        psr_build_resnet_preactivated(&builder, listed, config);
        break;
    case PSR_FAMILY_RESNET9:
        psr_build_resnet9(&builder);
        break;
    case PSR_FAMILY_AIRBENCH:
        psr_build_airbench94(&builder);
        break;
    case PSR_FAMILY_IMAGENET:
        psr_build_resnet_imagenet(&builder, listed, config);
        break;
    case PSR_FAMILY_PROFILE:
        psr_build_profile(&builder, config->profile);
        break;
    }
    psr_err err = builder.err != PSR_OK ? builder.err : psr_freeze(config, builder.net);
    if (err != PSR_OK) {
        psr_network_free(builder.net);
        return err;
    }
    *ret_net = builder.net;
    return PSR_OK;
}

void psr_network_free(psr_network *net)
{
    if (net == NULL)
        return;
    psr_layout_done(&net->params);
    psr_layout_done(&net->buffers);
    free(net->inits);
    free(net->nodes);
    free(net);
}

/* ---- initial values ---- */

static void fill_normal(psr_rng_at at, double std, float *values, size_t count)
{
    for (size_t i = 0; i < count; i += 2) {
        double normal[2];
        psr_rng_normal_pair(at, (uint32_t)(i / 2), normal);
        values[i] = (float)(std * normal[0]);
        if (i + 1 < count)
            values[i + 1] = (float)(std * normal[1]);
    }
}

static void fill_uniform(psr_rng_at at, double bound, float *values, size_t count)
{
    for (size_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        psr_rng_block(at, (uint32_t)(i / 4), words);
        for (size_t j = 0; j < 4 && i + j < count; j++)
            values[i + j] = (float)(bound * (2.0 * (double)psr_rng_unit(words[j]) - 1.0));
    }
}

static void fill_constant(float value, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = value;
}

/* The first I channels of w[O,I,K,K]. */
static void fill_dirac(const psr_tensor *tensor, float *values)
{
    const uint32_t inputs = tensor->shape[1], kernel = tensor->shape[2];
    const size_t plane = (size_t)kernel * kernel;
    for (uint32_t o = 0; o < inputs && o < tensor->shape[0]; o++) {
        float *channel = values + o * inputs * plane;
        memset(channel, 0, inputs * plane * sizeof *channel);
        channel[o * plane + (size_t)(kernel / 2) * kernel + kernel / 2] = 1.0f;
    }
}

void psr_network_init(const psr_network *net, uint64_t seed, float *arena, float *buffers)
{
    memset(arena, 0, net->params.length * sizeof *arena);
    for (size_t t = 0; t < net->params.tensor_count; t++) {
        const psr_tensor *tensor = &net->params.tensors[t];
        psr_init init = net->inits[t];
        psr_rng_at at = {.seed = seed, .purpose = PSR_RNG_INIT, .layer = (uint32_t)t};
        float *values = arena + tensor->offset;
        switch (init.kind) {
        case PSR_INIT_ZERO:
            break;
        case PSR_INIT_ONE:
            fill_constant(1.0f, values, tensor->count);
            break;
        case PSR_INIT_KAIMING_NORMAL_FAN_OUT:
            fill_normal(at, sqrt(2.0 / init.fan_out), values, tensor->count);
            break;
        case PSR_INIT_KAIMING_NORMAL_FAN_IN:
            fill_normal(at, sqrt(2.0 / init.fan_in), values, tensor->count);
            break;
        case PSR_INIT_UNIFORM_FAN_IN:
        case PSR_INIT_WHITENING:
            fill_uniform(at, 1.0 / sqrt(init.fan_in), values, tensor->count);
            break;
        case PSR_INIT_UNIFORM_DIRAC:
            fill_uniform(at, 1.0 / sqrt(init.fan_in), values, tensor->count);
            fill_dirac(tensor, values);
            break;
        }
    }
    memset(buffers, 0, net->buffers.length * sizeof *buffers);
    for (uint32_t i = 0; i < net->node_count; i++) {
        if (net->nodes[i].variance == PSR_NONE)
            continue;
        const psr_tensor *variance = &net->buffers.tensors[net->nodes[i].variance];
        fill_constant(1.0f, buffers + variance->offset, variance->count);
    }
}

uint64_t psr_network_norm_values(const psr_network *net, const char **ret_name)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < net->node_count; i++) {
        const psr_network_node *node = &net->nodes[i];
        const uint64_t values = (uint64_t)node->height * node->width;
        if (node->op != PSR_OP_BATCHNORM || values >= least)
            continue;
        least = values;
        *ret_name = node->name;
    }
    return least;
}
