/* airbench94, the network of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU" (2024):
 * eight layers with weights, no residual connection,
 *     0        whitening conv 2x2 of 24, GELU
 *     2, 3, 4  groups of 64, 256 and 256 channels: conv 3x3, max pool 2, batch norm, GELU,
 *              conv 3x3, batch norm, GELU
 *     max pool 3, a linear layer without bias, and the logits divided by 9.
 * Parameters have the names of the authors' code (cifar10-airbench: a torch.nn.Sequential, hence
 * the numbers) and its initial values: convolutions of 3x3 begin with the identity. The division
 * stands before the linear layer, which is the same but for rounding, because a network ends in its
 * linear layer. The authors hold the scales of the batch norms at 1, which is an option:
 * --lr-factor '*.norm?.weight=0'. */
#include "model/networks/network_build.h"

#include <stdio.h>

typedef struct part_name {
    char text[PSR_TENSOR_NAME_MAX];
} part_name;

static part_name in_group(uint32_t group, const char *part, uint32_t number)
{
    part_name name;
    snprintf(name.text, sizeof name.text, "%u.%s%u", group, part, number);
    return name;
}

static uint32_t build_half(psr_network_builder *builder, uint32_t x, uint32_t group,
                           uint32_t number, uint32_t channels)
{
    x = psr_build_conv(builder, x, in_group(group, "conv", number).text, channels, 3, 1, 1,
                       PSR_INIT_UNIFORM_DIRAC);
    if (number == 1)
        x = psr_build_maxpool(builder, x, in_group(group, "pool", number).text, 2, 2, 0);
    x = psr_build_batchnorm(builder, x, in_group(group, "norm", number).text);
    return psr_build_gelu(builder, x, in_group(group, "activ", number).text);
}

void psr_build_airbench94(psr_network_builder *builder)
{
    static const uint32_t channels[] = {64, 256, 256};
    uint32_t x = psr_build_conv_whitening(builder, 0, "0", 2);
    x = psr_build_gelu(builder, x, "1");
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t number = 1; number <= 2; number++)
            x = build_half(builder, x, 2 + i, number, channels[i]);
    x = psr_build_maxpool(builder, x, "5", 3, 3, 0);
    x = psr_build_flatten(builder, x);
    x = psr_build_scale(builder, x, "8", 1.0 / 9);
    psr_build_linear_bare(builder, x, "7", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN);
}
