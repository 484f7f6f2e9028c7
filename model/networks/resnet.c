/* Residual networks.
 *
 * ImageNet family: He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (2015),
 * table 1, as torchvision builds them: stem 7x7/2 and max pooling, four stages of 64, 128, 256, 512
 * channels, basic blocks (18, 34) or bottlenecks that widen by 4 (50, 101, 152) and stride in their
 * 3x3 convolution ("v1.5"), projection shortcuts where shapes change. Wide ones (Zagoruyko,
 * Komodakis 2016) and ResNeXts (Xie et al. 2017) are bottlenecks whose inner width is channels / 64
 * * group_width * groups, with the 3x3 convolution in groups. With --stem small the stem is one 3x3
 * convolution of stride 1 without pooling, for images of about 32 pixels.
 *
 * CIFAR family: the same paper, section 4.2: stem 3x3 of 16 channels, three stages of n basic
 * blocks of 16, 32, 64 channels, 6n+2 layers; where shapes change, option A (subsampling and zero
 * channels, no parameters) or B (projection). All its weights, fc's too, start as He et al.,
 * "Delving deep into rectifiers" (2015), eq. 10: normal of variance 2 / fan_in, biases zero.
 *
 * The nodes of a block follow one another as conv, batch norm, [shortcut], [add], ReLU, so that a
 * back end can fuse a run of them by looking at neighbours. Squeeze and excitation (--se) lies
 * between the last batch norm and the addition. */
#include "model/networks/squeeze.h"

#include <assert.h>

typedef struct block_style {
    bool bottleneck;
    psr_shortcut shortcut;
    uint32_t groups, group_width; /* of bottlenecks: see above */
    psr_init_kind init;
    psr_init_kind last_scale; /* of each block's last batch norm */
    uint32_t se_ratio;        /* 0: no squeeze and excitation */
} block_style;

/* The identity of a block whose output has `channels`; x itself where the shapes agree. */
static uint32_t build_identity(psr_network_builder *builder, uint32_t x, const block_style *style,
                               psr_block_place at, uint32_t channels, uint32_t stride)
{
    if (builder->err != PSR_OK || (stride == 1 && builder->net->nodes[x].channels == channels))
        return x;
    if (style->shortcut == PSR_SHORTCUT_A)
        return psr_build_shortcut_a(builder, x, psr_in_block(at, "shortcut").text, channels,
                                    stride);
    x = psr_build_conv(builder, x, psr_in_block(at, "downsample.0").text, channels, 1, stride, 0,
                       style->init);
    return psr_build_batchnorm(builder, x, psr_in_block(at, "downsample.1").text);
}

/* Three convolutions: 1x1, 3x3, 1x1 of four times the width. */
static uint32_t build_bottleneck(psr_network_builder *builder, uint32_t x, const block_style *style,
                                 psr_block_place at, uint32_t width, uint32_t stride)
{
    const uint32_t inner = width * style->group_width / 64 * style->groups;
    x = psr_build_conv(builder, x, psr_in_block(at, "conv1").text, inner, 1, 1, 0, style->init);
    x = psr_build_batchnorm(builder, x, psr_in_block(at, "bn1").text);
    x = psr_build_relu(builder, x, psr_in_block(at, "relu1").text);
    x = psr_build_conv_grouped(builder, x, psr_in_block(at, "conv2").text, inner, 3, stride, 1,
                               style->groups, style->init);
    x = psr_build_batchnorm(builder, x, psr_in_block(at, "bn2").text);
    x = psr_build_relu(builder, x, psr_in_block(at, "relu2").text);
    x = psr_build_conv(builder, x, psr_in_block(at, "conv3").text, 4 * width, 1, 1, 0, style->init);
    return psr_build_batchnorm_from(builder, x, psr_in_block(at, "bn3").text, style->last_scale);
}

/* Two 3x3 convolutions. */
static uint32_t build_basic(psr_network_builder *builder, uint32_t x, const block_style *style,
                            psr_block_place at, uint32_t width, uint32_t stride)
{
    x = psr_build_conv(builder, x, psr_in_block(at, "conv1").text, width, 3, stride, 1,
                       style->init);
    x = psr_build_batchnorm(builder, x, psr_in_block(at, "bn1").text);
    x = psr_build_relu(builder, x, psr_in_block(at, "relu1").text);
    x = psr_build_conv(builder, x, psr_in_block(at, "conv2").text, width, 3, 1, 1, style->init);
    return psr_build_batchnorm_from(builder, x, psr_in_block(at, "bn2").text, style->last_scale);
}

static uint32_t build_block(psr_network_builder *builder, uint32_t x, const block_style *style,
                            psr_block_place at, uint32_t width, uint32_t stride)
{
    const uint32_t channels = style->bottleneck ? 4 * width : width;
    uint32_t out = style->bottleneck ? build_bottleneck(builder, x, style, at, width, stride)
                                     : build_basic(builder, x, style, at, width, stride);
    out = psr_build_squeeze(builder, out, at, style->se_ratio);
    uint32_t identity = build_identity(builder, x, style, at, channels, stride);
    out = psr_build_add(builder, out, identity, psr_in_block(at, "add").text);
    return psr_build_relu(builder, out, psr_in_block(at, "relu").text);
}

/* Stage 1 keeps the size; every later one halves it in its first block and doubles the width. */
static uint32_t build_stage(psr_network_builder *builder, uint32_t x, const block_style *style,
                            uint32_t stage, uint32_t width, uint32_t blocks)
{
    for (uint32_t block = 0; block < blocks; block++)
        x = build_block(builder, x, style, (psr_block_place){stage, block}, width,
                        stage > 1 && block == 0 ? 2 : 1);
    return x;
}

void psr_build_resnet_imagenet(psr_network_builder *builder, const psr_listed_network *network,
                               const psr_config *config)
{
    static const struct {
        uint32_t depth, blocks[4];
        bool bottleneck;
    } table[] = {
        {18, {2, 2, 2, 2}, false},  {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
        {101, {3, 4, 23, 3}, true}, {152, {3, 8, 36, 3}, true},
    };
    size_t row = 0;
    while (table[row].depth != network->depth) {
        row++;
        assert(row < sizeof table / sizeof table[0]);
    }
    block_style style = {.bottleneck = table[row].bottleneck,
                         .shortcut = PSR_SHORTCUT_B,
                         .groups = network->groups,
                         .group_width = network->group_width,
                         .init = PSR_INIT_KAIMING_NORMAL_FAN_OUT,
                         .last_scale = config->zero_gamma ? PSR_INIT_ZERO : PSR_INIT_ONE,
                         .se_ratio = config->se_ratio};

    const bool small = config->stem == PSR_STEM_SMALL;
    uint32_t x = psr_build_conv(builder, 0, "conv1", 64, small ? 3 : 7, small ? 1 : 2,
                                small ? 1 : 3, style.init);
    x = psr_build_batchnorm(builder, x, "bn1");
    x = psr_build_relu(builder, x, "relu");
    if (!small)
        x = psr_build_maxpool(builder, x, "maxpool", 3, 2, 1);
    for (uint32_t stage = 1; stage <= 4; stage++)
        x = build_stage(builder, x, &style, stage, 32u << stage, table[row].blocks[stage - 1]);
    x = psr_build_avgpool(builder, x, "avgpool");
    psr_build_linear(builder, x, "fc", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN,
                     PSR_INIT_UNIFORM_FAN_IN);
}

void psr_build_resnet_cifar(psr_network_builder *builder, const psr_listed_network *network,
                            const psr_config *config)
{
    assert((network->depth - 2) % 6 == 0);
    uint32_t blocks = (network->depth - 2) / 6;
    block_style style = {.shortcut = config->shortcut,
                         .init = PSR_INIT_KAIMING_NORMAL_FAN_IN,
                         .last_scale = config->zero_gamma ? PSR_INIT_ZERO : PSR_INIT_ONE,
                         .se_ratio = config->se_ratio};

    uint32_t x = psr_build_conv(builder, 0, "conv1", 16, 3, 1, 1, style.init);
    x = psr_build_batchnorm(builder, x, "bn1");
    x = psr_build_relu(builder, x, "relu");
    for (uint32_t stage = 1; stage <= 3; stage++)
        x = build_stage(builder, x, &style, stage, 8u << stage, blocks);
    x = psr_build_avgpool(builder, x, "avgpool");
    psr_build_linear(builder, x, "fc", builder->net->classes, style.init, PSR_INIT_ZERO);
}
