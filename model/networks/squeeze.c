#include "model/networks/squeeze.h"

#include <stdio.h>

psr_block_name psr_in_block(psr_block_place at, const char *part)
{
    psr_block_name name;
    snprintf(name.text, sizeof name.text, "layer%u.%u.%s", at.stage, at.block, part);
    return name;
}

uint32_t psr_build_squeeze(psr_network_builder *builder, uint32_t x, psr_block_place at,
                           uint32_t ratio)
{
    if (builder->err != PSR_OK || ratio == 0)
        return x;
    const uint32_t channels = builder->net->nodes[x].channels;
    const uint32_t squeezed = channels / ratio > 0 ? channels / ratio : 1;
    uint32_t s = psr_build_avgpool(builder, x, psr_in_block(at, "se.avgpool").text);
    s = psr_build_linear_1x1(builder, s, psr_in_block(at, "se.fc1").text, squeezed);
    s = psr_build_relu(builder, s, psr_in_block(at, "se.activation").text);
    s = psr_build_linear_1x1(builder, s, psr_in_block(at, "se.fc2").text, channels);
    s = psr_build_sigmoid(builder, s, psr_in_block(at, "se.scale_activation").text);
    return psr_build_gate(builder, x, s, psr_in_block(at, "se.scale").text);
}
