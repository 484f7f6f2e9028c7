/* Residual networks whose blocks begin with batch norm and ReLU: He, Zhang, Ren, Sun, "Identity
 * mappings in deep residual networks" (2016), figure 4 (e) and section 5, as the authors' code
 * (resnet-1k-layers) builds them for CIFAR: a 3x3 stem of 16 channels without batch norm, three
 * stages, and a last batch norm and ReLU before the mean.
 *     20, 32, 44, 56, 110    n = (depth - 2) / 6 blocks a stage: 3x3, 3x3 of 16, 32, 64 channels
 *     164                    n = (depth - 2) / 9 blocks a stage: 1x1, 3x3, 1x1, which widen by 4
 * A block whose shapes agree adds its input as it is. Where they do not, a 1x1 convolution without
 * batch norm reads the block's first ReLU, which the path shares; or, in the basic blocks with
 * --shortcut a (the default), option A subsamples the input, as the networks of 2015 do. Weights
 * start as those of the networks of 2015.
 *
 * Names are those of the usual PyTorch code (pytorch-classification): layer1.0.bn1, .conv1, ..,
 * .downsample.0, and bn before fc. */
#include "model/networks/squeeze.h"

#include <assert.h>

#define INIT PSR_INIT_KAIMING_NORMAL_FAN_IN

/* Batch norm, ReLU and a convolution without bias. part: "1" for bn1, relu1 and conv1. */
typedef struct layer_names {
    const char *norm, *relu, *conv;
} layer_names;
static const layer_names layers[] = {
    {"bn1", "relu1", "conv1"}, {"bn2", "relu2", "conv2"}, {"bn3", "relu3", "conv3"}};

static uint32_t activate(psr_network_builder *builder, uint32_t x, psr_block_place at,
                         const layer_names *names)
{
    x = psr_build_batchnorm(builder, x, psr_in_block(at, names->norm).text);
    return psr_build_relu(builder, x, psr_in_block(at, names->relu).text);
}

static uint32_t convolve(psr_network_builder *builder, uint32_t x, psr_block_place at,
                         const layer_names *names, uint32_t channels, uint32_t kernel,
                         uint32_t stride)
{
    return psr_build_conv(builder, x, psr_in_block(at, names->conv).text, channels, kernel, stride,
                          kernel / 2, INIT);
}

static uint32_t build_block(psr_network_builder *builder, uint32_t x, psr_block_place at,
                            bool bottleneck, uint32_t width, const psr_config *config)
{
    if (builder->err != PSR_OK)
        return x;
    const uint32_t stride = at.stage > 1 && at.block == 0 ? 2 : 1;
    const uint32_t channels = bottleneck ? 4 * width : width;
    const bool changes = stride != 1 || builder->net->nodes[x].channels != channels;
    const uint32_t first = activate(builder, x, at, &layers[0]);
    uint32_t y = first;
    if (bottleneck) {
        y = convolve(builder, y, at, &layers[0], width, 1, 1);
        y = activate(builder, y, at, &layers[1]);
        y = convolve(builder, y, at, &layers[1], width, 3, stride);
        y = activate(builder, y, at, &layers[2]);
        y = convolve(builder, y, at, &layers[2], channels, 1, 1);
    } else {
        y = convolve(builder, y, at, &layers[0], width, 3, stride);
        y = activate(builder, y, at, &layers[1]);
        y = convolve(builder, y, at, &layers[1], width, 3, 1);
    }
    y = psr_build_squeeze(builder, y, at, config->se_ratio);
    uint32_t identity = x;
    if (changes && !bottleneck && config->shortcut == PSR_SHORTCUT_A)
        identity =
            psr_build_shortcut_a(builder, x, psr_in_block(at, "shortcut").text, channels, stride);
    else if (changes)
        identity = psr_build_conv(builder, first, psr_in_block(at, "downsample.0").text, channels,
                                  1, stride, 0, INIT);
    return psr_build_add(builder, y, identity, psr_in_block(at, "add").text);
}

void psr_build_resnet_preactivated(psr_network_builder *builder, const psr_listed_network *network,
                                   const psr_config *config)
{
    const bool bottleneck = network->depth == 164;
    const uint32_t layers_a_block = bottleneck ? 3 : 2;
    const uint32_t blocks = (network->depth - 2) / (3 * layers_a_block);
    assert(blocks * 3 * layers_a_block + 2 == network->depth);

    uint32_t x = psr_build_conv(builder, 0, "conv1", 16, 3, 1, 1, INIT);
    for (uint32_t stage = 1; stage <= 3; stage++)
        for (uint32_t block = 0; block < blocks; block++)
            x = build_block(builder, x, (psr_block_place){stage, block}, bottleneck, 8u << stage,
                            config);
    x = psr_build_batchnorm(builder, x, "bn");
    x = psr_build_relu(builder, x, "relu");
    x = psr_build_avgpool(builder, x, "avgpool");
    psr_build_linear(builder, x, "fc", builder->net->classes, INIT, PSR_INIT_ZERO);
}
