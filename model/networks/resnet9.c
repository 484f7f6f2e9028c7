/* The network of Page, "How to train your ResNet" (2018), with which CIFAR-10 was trained to 94% in
 * the DAWNBench runs: nine layers with weights,
 *     prep    conv 3x3 of 64, batch norm, ReLU
 *     layer1  conv 3x3 of 128, batch norm, ReLU, max pool 2; then x + f(x)
 *     layer2  conv 3x3 of 256, batch norm, ReLU, max pool 2
 *     layer3  conv 3x3 of 512, batch norm, ReLU, max pool 2; then x + f(x)
 *     max pool 4, a linear layer without bias, and the logits times 0.125,
 * f: twice conv 3x3, batch norm, ReLU. Parameters have the names of the authors' code
 * (cifar10-fast) and, as there, PyTorch's initial values. The factor is a power of two and there is
 * no bias, so that it is the same, to the bit, before the linear layer; it stands there, because a
 * network ends in its linear layer. */
#include "model/networks/network_build.h"

#include <stdio.h>

typedef struct layer_name {
    char text[PSR_TENSOR_NAME_MAX];
} layer_name;

static layer_name in_layer(const char *layer, const char *part)
{
    layer_name name;
    snprintf(name.text, sizeof name.text, "%s_%s", layer, part);
    return name;
}

static uint32_t build_layer(psr_network_builder *builder, uint32_t x, const char *layer,
                            uint32_t channels)
{
    x = psr_build_conv(builder, x, in_layer(layer, "conv").text, channels, 3, 1, 1,
                       PSR_INIT_UNIFORM_FAN_IN);
    x = psr_build_batchnorm(builder, x, in_layer(layer, "bn").text);
    return psr_build_relu(builder, x, in_layer(layer, "relu").text);
}

static uint32_t build_residual(psr_network_builder *builder, uint32_t x, const char *layer,
                               uint32_t channels)
{
    uint32_t y = build_layer(builder, x, in_layer(layer, "residual_res1").text, channels);
    y = build_layer(builder, y, in_layer(layer, "residual_res2").text, channels);
    return psr_build_add(builder, y, x, in_layer(layer, "residual_add").text);
}

void psr_build_resnet9(psr_network_builder *builder)
{
    uint32_t x = build_layer(builder, 0, "prep", 64);
    x = build_layer(builder, x, "layer1", 128);
    x = psr_build_maxpool(builder, x, "layer1_pool", 2, 2, 0);
    x = build_residual(builder, x, "layer1", 128);
    x = build_layer(builder, x, "layer2", 256);
    x = psr_build_maxpool(builder, x, "layer2_pool", 2, 2, 0);
    x = build_layer(builder, x, "layer3", 512);
    x = psr_build_maxpool(builder, x, "layer3_pool", 2, 2, 0);
    x = build_residual(builder, x, "layer3", 512);
    x = psr_build_maxpool(builder, x, "pool", 4, 4, 0);
    x = psr_build_flatten(builder, x);
    x = psr_build_scale(builder, x, "classifier", 0.125);
    psr_build_linear_bare(builder, x, "linear", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN);
}
