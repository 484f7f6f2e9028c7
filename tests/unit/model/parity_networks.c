#include "tests/unit/model/parity.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"

static psr_network *net_begin(psr_network_builder *builder, uint32_t channels, uint32_t height,
                              uint32_t width)
{
    psr_network *net = calloc(1, sizeof *net);
    assert_non_null(net);
    *builder =
        (psr_network_builder){.net = net, .node_capacity = 32, .epsilon = 1e-5, .momentum = 0.1};
    net->nodes = calloc(builder->node_capacity, sizeof *net->nodes);
    assert_non_null(net->nodes);
    strcpy(net->name, "test");
    net->classes = 7;
    net->channels = channels;
    net->height = height;
    net->width = width;
    net->nodes[net->node_count++] = (psr_network_node){.op = PSR_OP_INPUT,
                                                       .input = {PSR_NONE, PSR_NONE},
                                                       .channels = channels,
                                                       .height = height,
                                                       .width = width,
                                                       .weight = PSR_NONE,
                                                       .bias = PSR_NONE,
                                                       .mean = PSR_NONE,
                                                       .variance = PSR_NONE,
                                                       .name = "input"};
    return net;
}

static psr_network *net_end(psr_network_builder *builder, uint32_t x)
{
    x = psr_build_flatten(builder, x);
    psr_build_linear(builder, x, "fc", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN,
                     PSR_INIT_UNIFORM_FAN_IN);
    assert_int_equal(builder->err, PSR_OK);
    return builder->net;
}

static uint32_t conv_norm(psr_network_builder *b, uint32_t x, const char *conv, const char *norm,
                          uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    x = psr_build_conv(b, x, conv, channels, kernel, stride, pad, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    return psr_build_batchnorm(b, x, norm);
}

psr_network *convolutions(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    psr_network_builder b;
    net_begin(&b, in, 9, 11);
    uint32_t x =
        psr_build_conv(&b, 0, "first", out, kernel, stride, pad, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_conv_bias(&b, x, "second", out + 3, 2);
    return net_end(&b, psr_build_conv(&b, x, "third", 5, 1, 2, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN));
}

/* Images of fewer rows than the kernel, in whole blocks of channels. */
psr_network *low_images(uint32_t height, uint32_t width, uint32_t kernel, uint32_t stride)
{
    psr_network_builder b;
    net_begin(&b, 16, height, width);
    uint32_t x = psr_build_conv(&b, 0, "first", 32, 1, 1, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_conv(&b, x, "second", 16, kernel, stride, kernel / 2,
                       PSR_INIT_KAIMING_NORMAL_FAN_IN);
    return net_end(&b, psr_build_conv(&b, x, "third", 16, 1, 1, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN));
}

/* Images of fewer channels than three, read plain by a convolution whose value lies in blocks. */
psr_network *few_channels(uint32_t channels, uint32_t height, uint32_t kernel, uint32_t stride)
{
    psr_network_builder b;
    net_begin(&b, channels, height, 7);
    return net_end(&b, conv_norm(&b, 0, "conv", "bn", 16, kernel, stride, kernel / 2));
}

psr_network *norm_alone(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 7, 5);
    return net_end(&b, conv_norm(&b, 0, "conv", "bn", channels, 3, 1, 1));
}

psr_network *norm_relu(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 7, 5);
    return net_end(&b,
                   psr_build_relu(&b, conv_norm(&b, 0, "conv", "bn", channels, 3, 1, 1), "relu"));
}

/* A block with an identity shortcut: the gradient comes back on two ways. */
psr_network *norm_add(uint32_t channels, bool relu)
{
    psr_network_builder b;
    net_begin(&b, 3, 6, 6);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", channels, 3, 1, 1), "relu1");
    uint32_t y = conv_norm(&b, x, "conv2", "bn2", channels, 3, 1, 1);
    y = psr_build_add(&b, y, x, "add");
    return net_end(&b, relu ? psr_build_relu(&b, y, "relu2") : y);
}

/* A block with a projection: two batch norms under one ReLU; the shortcut comes first in the
 * addition. */
psr_network *two_norms(uint32_t channels, bool relu)
{
    psr_network_builder b;
    net_begin(&b, 3, 8, 8);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", 8, 3, 1, 1), "relu1");
    uint32_t y = conv_norm(&b, x, "conv2", "bn2", channels, 3, 2, 1);
    uint32_t r = conv_norm(&b, x, "down", "down_bn", channels, 1, 2, 0);
    y = psr_build_add(&b, r, y, "add");
    return net_end(&b, relu ? psr_build_relu(&b, y, "relu2") : y);
}

/* A grouped convolution between batch norms, as ResNeXts have it, of `each` channels a group. */
psr_network *grouped(uint32_t groups, uint32_t each, uint32_t size, uint32_t stride)
{
    psr_network_builder b;
    const uint32_t channels = groups * each;
    net_begin(&b, 3, size, size);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", channels, 1, 1, 0), "relu1");
    x = psr_build_conv_grouped(&b, x, "conv2", channels, 3, stride, 1, groups,
                               PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_relu(&b, psr_build_batchnorm(&b, x, "bn2"), "relu2");
    return net_end(&b, conv_norm(&b, x, "conv3", "bn3", 32, 1, 1, 0));
}

/* Squeeze and excitation at the end of a block, whose identity is projected or not. */
psr_network *squeezed(uint32_t channels, bool projects)
{
    psr_network_builder b;
    net_begin(&b, 3, 12, 9);
    uint32_t x = psr_build_relu(
        &b, conv_norm(&b, 0, "conv1", "bn1", projects ? 8 : channels, 3, 1, 1), "relu1");
    uint32_t y = conv_norm(&b, x, "conv2", "bn2", channels, 3, 1, 1);
    y = psr_build_squeeze(&b, y, (psr_block_place){1, 0}, 4);
    if (projects)
        x = conv_norm(&b, x, "down", "down_bn", channels, 1, 1, 0);
    return net_end(&b, psr_build_relu(&b, psr_build_add(&b, y, x, "add"), "relu2"));
}

/* The residual block of resnet9 behind a pool, and its scaled end. */
psr_network *added_behind_relu(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 16, 16);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", channels, 3, 1, 1), "relu1");
    x = psr_build_maxpool(&b, x, "pool1", 2, 2, 0);
    uint32_t y = psr_build_relu(&b, conv_norm(&b, x, "conv2", "bn2", channels, 3, 1, 1), "relu2");
    x = psr_build_avgpool(&b, psr_build_add(&b, y, x, "add"), "pool2");
    return net_end(&b, psr_build_scale(&b, psr_build_flatten(&b, x), "scale", 0.125));
}

/* The first layers of airbench94: GELU behind a convolution with bias and behind a batch norm, one
 * that a pool feeds. */
psr_network *gelus(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 16, 16);
    uint32_t x = psr_build_gelu(&b, psr_build_conv_whitening(&b, 0, "0", 2), "1");
    x = psr_build_conv(&b, x, "conv1", channels, 3, 1, 1, PSR_INIT_UNIFORM_DIRAC);
    x = psr_build_maxpool(&b, x, "pool1", 2, 2, 0);
    x = psr_build_gelu(&b, psr_build_batchnorm(&b, x, "norm1"), "activ1");
    return net_end(&b, psr_build_avgpool(&b, x, "pool2"));
}

psr_network *option_a(uint32_t in, uint32_t out)
{
    psr_network_builder b;
    net_begin(&b, 3, 9, 7);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", in, 3, 1, 1), "relu1");
    uint32_t y = conv_norm(&b, x, "conv2", "bn2", out, 3, 2, 1);
    y = psr_build_add(&b, y, psr_build_shortcut_a(&b, x, "shortcut", out, 2), "add");
    return net_end(&b, psr_build_relu(&b, y, "relu2"));
}

psr_network *pools(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 1, 13, 10);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", channels, 3, 1, 1), "relu1");
    x = psr_build_maxpool(&b, x, "pool1", 3, 2, 1);
    x = psr_build_relu(&b, psr_build_conv_bias(&b, x, "conv2", channels, 2), "relu2");
    x = psr_build_maxpool(&b, x, "pool2", 2, 2, 0);
    return net_end(&b, psr_build_avgpool(&b, x, "mean"));
}

/* Of values that lie plain: few channels, and no batch norm, which wants blocks. */
psr_network *plain_pools(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    psr_network_builder b;
    net_begin(&b, 1, 13, 10);
    uint32_t x = psr_build_conv_bias(&b, 0, "conv1", channels, 2);
    x = psr_build_maxpool(&b, x, "pool1", kernel, stride, pad);
    x = psr_build_conv_bias(&b, x, "conv2", channels + 1, 2);
    return net_end(&b, psr_build_maxpool(&b, x, "pool2", 2, 1, 1));
}

psr_network *dropouts(void)
{
    psr_network_builder b;
    net_begin(&b, 2, 6, 5);
    uint32_t x = psr_build_conv_bias(&b, 0, "conv", 20, 2);
    x = psr_build_dropout(&b, x, "drop2d", PSR_OP_DROPOUT2D, 0.5);
    x = psr_build_dropout(&b, psr_build_relu(&b, x, "relu"), "drop", PSR_OP_DROPOUT, 0.3);
    return net_end(&b, x);
}

/* Every operator once, a value with three readers, and additions that no batch norm takes along. */
psr_network *everything(void)
{
    const psr_init_kind init = PSR_INIT_UNIFORM_FAN_IN;
    psr_network_builder b;
    net_begin(&b, 2, 9, 9);
    uint32_t x = psr_build_relu(
        &b, psr_build_batchnorm(&b, psr_build_conv_bias(&b, 0, "conv1", 4, 2), "bn1"), "relu1");
    x = psr_build_maxpool(&b, x, "pool", 3, 2, 1);
    uint32_t path = conv_norm(&b, x, "conv2", "bn2", 6, 3, 2, 1);
    uint32_t sum = psr_build_add(&b, path, psr_build_shortcut_a(&b, x, "shortcut", 6, 2), "add1");
    uint32_t projection = psr_build_conv(&b, x, "down", 6, 1, 2, 0, init);
    x = psr_build_relu(&b, psr_build_add(&b, sum, projection, "add2"), "relu2");
    x = psr_build_dropout(&b, x, "drop2d", PSR_OP_DROPOUT2D, 0.3);
    uint32_t wide = psr_build_linear(&b, psr_build_flatten(&b, x), "fc1", 6, init, init);
    uint32_t mean = psr_build_flatten(&b, psr_build_avgpool(&b, x, "avgpool"));
    x = psr_build_dropout(&b, psr_build_add(&b, wide, mean, "add3"), "drop", PSR_OP_DROPOUT, 0.2);
    return net_end(&b, x);
}

psr_network *named(const char *model, uint32_t channels, uint32_t size, psr_shortcut shortcut)
{
    psr_network *net = NULL;
    expect_ok(psr_network_new(model, 10, channels, size, size, shortcut, &net));
    return net;
}
