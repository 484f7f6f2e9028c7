/* What the builders of residual networks share: names within a block, and squeeze and excitation.
 * Private to model/'s descriptions. */
#ifndef PSR_MODEL_NETWORKS_SQUEEZE_H
#define PSR_MODEL_NETWORKS_SQUEEZE_H

#include "model/networks/network_build.h"

/* A block of a network: stage from 1, block from 0. */
typedef struct psr_block_place {
    uint32_t stage, block;
} psr_block_place;

typedef struct psr_block_name {
    char text[PSR_TENSOR_NAME_MAX];
} psr_block_name;

/* "layer1.0.conv2" */
psr_block_name psr_in_block(psr_block_place at, const char *part);

/* Squeeze and excitation (Hu, Shen, Sun 2018, section 3) of x[N,C,H,W]:
 *     y = x * sigmoid(fc2(relu(fc1(mean over H and W of x)))),
 * fc1 and fc2 1x1 convolutions with biases, of max(1, floor(C / ratio)) and C channels. They are
 * called se.fc1 and se.fc2, as in timm and in torchvision.ops.SqueezeExcitation. ratio 0: x. */
uint32_t psr_build_squeeze(psr_network_builder *builder, uint32_t x, psr_block_place at,
                           uint32_t ratio);

#endif
