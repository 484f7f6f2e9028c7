/* Residual networks.
 *
 * ImageNet family: He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (2015),
 * table 1, as torchvision builds them: stem 7x7/2 and max pooling, four stages of 64, 128, 256, 512
 * channels, basic blocks (18, 34) or bottlenecks that widen by 4 (50, 101, 152) and stride in their
 * 3x3 convolution ("v1.5"), projection shortcuts where shapes change.
 *
 * CIFAR family: the same paper, section 4.2: stem 3x3 of 16 channels, three stages of n basic
 * blocks of 16, 32, 64 channels, 6n+2 layers; where shapes change, option A (subsampling and zero
 * channels, no parameters) or B (projection). All its weights, fc's too, start as He et al.,
 * "Delving deep into rectifiers" (2015), eq. 10: normal of variance 2 / fan_in, biases zero.
 *
 * The nodes of a block follow one another as conv, batch norm, [shortcut], [add], ReLU, so that a
 * back end can fuse a run of them by looking at neighbours. */
#include "model/networks/network_build.h"

#include <assert.h>
#include <stdio.h>

typedef struct block_style {
    bool bottleneck;
    psr_shortcut shortcut;
    psr_init_kind init;
} block_style;

/* "layer1.0" + ".conv2" */
typedef struct block_name {
    char text[PSR_TENSOR_NAME_MAX];
} block_name;

static block_name in_block(uint32_t stage, uint32_t block, const char *part)
{
    block_name name;
    snprintf(name.text, sizeof name.text, "layer%u.%u.%s", stage, block, part);
    return name;
}

/* The identity of a block whose output has `channels`; x itself where the shapes agree. */
static uint32_t build_identity(psr_network_builder *builder, uint32_t x, const block_style *style,
                               uint32_t stage, uint32_t block, uint32_t channels, uint32_t stride)
{
    if (builder->err != PSR_OK || (stride == 1 && builder->net->nodes[x].channels == channels))
        return x;
    if (style->shortcut == PSR_SHORTCUT_A)
        return psr_build_shortcut_a(builder, x, in_block(stage, block, "shortcut").text, channels,
                                    stride);
    x = psr_build_conv(builder, x, in_block(stage, block, "downsample.0").text, channels, 1, stride,
                       0, style->init);
    return psr_build_batchnorm(builder, x, in_block(stage, block, "downsample.1").text);
}

/* One block: 3x3, 3x3; or 1x1, 3x3, 1x1 of four times the width. */
static uint32_t build_block(psr_network_builder *builder, uint32_t x, const block_style *style,
                            uint32_t stage, uint32_t block, uint32_t width, uint32_t stride)
{
    uint32_t out = x;
    uint32_t channels = width;
    if (style->bottleneck) {
        channels = 4 * width;
        out = psr_build_conv(builder, out, in_block(stage, block, "conv1").text, width, 1, 1, 0,
                             style->init);
        out = psr_build_batchnorm(builder, out, in_block(stage, block, "bn1").text);
        out = psr_build_relu(builder, out, in_block(stage, block, "relu1").text);
        out = psr_build_conv(builder, out, in_block(stage, block, "conv2").text, width, 3, stride,
                             1, style->init);
        out = psr_build_batchnorm(builder, out, in_block(stage, block, "bn2").text);
        out = psr_build_relu(builder, out, in_block(stage, block, "relu2").text);
        out = psr_build_conv(builder, out, in_block(stage, block, "conv3").text, channels, 1, 1, 0,
                             style->init);
        out = psr_build_batchnorm(builder, out, in_block(stage, block, "bn3").text);
    } else {
        out = psr_build_conv(builder, out, in_block(stage, block, "conv1").text, width, 3, stride,
                             1, style->init);
        out = psr_build_batchnorm(builder, out, in_block(stage, block, "bn1").text);
        out = psr_build_relu(builder, out, in_block(stage, block, "relu1").text);
        out = psr_build_conv(builder, out, in_block(stage, block, "conv2").text, width, 3, 1, 1,
                             style->init);
        out = psr_build_batchnorm(builder, out, in_block(stage, block, "bn2").text);
    }
    uint32_t identity = build_identity(builder, x, style, stage, block, channels, stride);
    out = psr_build_add(builder, out, identity, in_block(stage, block, "add").text);
    return psr_build_relu(builder, out, in_block(stage, block, "relu").text);
}

/* Stage 1 keeps the size; every later one halves it in its first block and doubles the width. */
static uint32_t build_stage(psr_network_builder *builder, uint32_t x, const block_style *style,
                            uint32_t stage, uint32_t width, uint32_t blocks)
{
    for (uint32_t block = 0; block < blocks; block++)
        x = build_block(builder, x, style, stage, block, width, stage > 1 && block == 0 ? 2 : 1);
    return x;
}

void psr_build_resnet_imagenet(psr_network_builder *builder, uint32_t depth)
{
    static const struct {
        uint32_t depth, blocks[4];
        bool bottleneck;
    } table[] = {
        {18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
        {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
    };
    size_t row = 0;
    while (table[row].depth != depth) {
        row++;
        assert(row < sizeof table / sizeof table[0]);
    }
    block_style style = {table[row].bottleneck, PSR_SHORTCUT_B, PSR_INIT_KAIMING_NORMAL_FAN_OUT};

    uint32_t x = psr_build_conv(builder, 0, "conv1", 64, 7, 2, 3, style.init);
    x = psr_build_batchnorm(builder, x, "bn1");
    x = psr_build_relu(builder, x, "relu");
    x = psr_build_maxpool(builder, x, "maxpool", 3, 2, 1);
    for (uint32_t stage = 1; stage <= 4; stage++)
        x = build_stage(builder, x, &style, stage, 32u << stage, table[row].blocks[stage - 1]);
    x = psr_build_avgpool(builder, x, "avgpool");
    psr_build_linear(builder, x, "fc", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN,
                     PSR_INIT_UNIFORM_FAN_IN);
}

void psr_build_resnet_cifar(psr_network_builder *builder, uint32_t depth, psr_shortcut shortcut)
{
    assert((depth - 2) % 6 == 0);
    uint32_t blocks = (depth - 2) / 6;
    block_style style = {false, shortcut, PSR_INIT_KAIMING_NORMAL_FAN_IN};

    uint32_t x = psr_build_conv(builder, 0, "conv1", 16, 3, 1, 1, style.init);
    x = psr_build_batchnorm(builder, x, "bn1");
    x = psr_build_relu(builder, x, "relu");
    for (uint32_t stage = 1; stage <= 3; stage++)
        x = build_stage(builder, x, &style, stage, 8u << stage, blocks);
    x = psr_build_avgpool(builder, x, "avgpool");
    psr_build_linear(builder, x, "fc", builder->net->classes, style.init, PSR_INIT_ZERO);
}
