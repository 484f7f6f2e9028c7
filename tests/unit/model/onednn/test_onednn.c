/* The oneDNN back end against the reference loops: every operator in odd shapes, whole small
 * networks, float32 and bf16, and what only a compiled back end can get wrong: buffers that
 * overlap, a batch of another size, one thread more. The contract of the hooks is test_backend.c's.
 *
 * Meson runs it again with oneDNN held to AVX2, where float32 is blocked by 8 and bf16 is refused,
 * and to AVX and SSE4.1, where its backward convolutions are of plain values alone. */
#include "model/backend.h"
#include "model/networks/squeeze.h"
#include "model/onednn/kernels/winograd.h"
#include "model/onednn/kernels/winograd_bf16.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/model/onednn/algorithms.h"
#include "tests/unit/model/onednn/avx512.h"
#include "tests/unit/expect.h"

/* Relative errors in the Euclidean norm. float32: both sides round each product once, in another
 * order. bf16: values have 8 bits, and where a rounding turns a ReLU or a maximum over, a whole
 * element's gradient comes or goes, which in layers of a few hundred elements is percents of a
 * tensor; what is really wrong is off by about 1. */
typedef struct tolerance {
    double value, gradient;
} tolerance;
static const tolerance fp32 = {2e-4, 2e-4}, bf16 = {2e-2, 0.25}, none = {0, 0};

/* ---- networks ---- */

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

static psr_network *convolutions(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride,
                                 uint32_t pad)
{
    psr_network_builder b;
    net_begin(&b, in, 9, 11);
    uint32_t x =
        psr_build_conv(&b, 0, "first", out, kernel, stride, pad, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_conv_bias(&b, x, "second", out + 3, 2);
    return net_end(&b, psr_build_conv(&b, x, "third", 5, 1, 2, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN));
}

/* Images of fewer rows than the kernel, in whole blocks of channels. */
static psr_network *low_images(uint32_t height, uint32_t width, uint32_t kernel, uint32_t stride)
{
    psr_network_builder b;
    net_begin(&b, 16, height, width);
    uint32_t x = psr_build_conv(&b, 0, "first", 32, 1, 1, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_conv(&b, x, "second", 16, kernel, stride, kernel / 2,
                       PSR_INIT_KAIMING_NORMAL_FAN_IN);
    return net_end(&b, psr_build_conv(&b, x, "third", 16, 1, 1, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN));
}

/* Images of fewer channels than three, read plain by a convolution whose value lies in blocks. */
static psr_network *few_channels(uint32_t channels, uint32_t height, uint32_t kernel,
                                 uint32_t stride)
{
    psr_network_builder b;
    net_begin(&b, channels, height, 7);
    return net_end(&b, conv_norm(&b, 0, "conv", "bn", 16, kernel, stride, kernel / 2));
}

static psr_network *norm_alone(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 7, 5);
    return net_end(&b, conv_norm(&b, 0, "conv", "bn", channels, 3, 1, 1));
}

static psr_network *norm_relu(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 7, 5);
    return net_end(&b,
                   psr_build_relu(&b, conv_norm(&b, 0, "conv", "bn", channels, 3, 1, 1), "relu"));
}

/* A block with an identity shortcut: the gradient comes back on two ways. */
static psr_network *norm_add(uint32_t channels, bool relu)
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
static psr_network *two_norms(uint32_t channels, bool relu)
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
static psr_network *grouped(uint32_t groups, uint32_t each, uint32_t size, uint32_t stride)
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
static psr_network *squeezed(uint32_t channels, bool projects)
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
static psr_network *added_behind_relu(uint32_t channels)
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
static psr_network *gelus(uint32_t channels)
{
    psr_network_builder b;
    net_begin(&b, 3, 16, 16);
    uint32_t x = psr_build_gelu(&b, psr_build_conv_whitening(&b, 0, "0", 2), "1");
    x = psr_build_conv(&b, x, "conv1", channels, 3, 1, 1, PSR_INIT_UNIFORM_DIRAC);
    x = psr_build_maxpool(&b, x, "pool1", 2, 2, 0);
    x = psr_build_gelu(&b, psr_build_batchnorm(&b, x, "norm1"), "activ1");
    return net_end(&b, psr_build_avgpool(&b, x, "pool2"));
}

static psr_network *option_a(uint32_t in, uint32_t out)
{
    psr_network_builder b;
    net_begin(&b, 3, 9, 7);
    uint32_t x = psr_build_relu(&b, conv_norm(&b, 0, "conv1", "bn1", in, 3, 1, 1), "relu1");
    uint32_t y = conv_norm(&b, x, "conv2", "bn2", out, 3, 2, 1);
    y = psr_build_add(&b, y, psr_build_shortcut_a(&b, x, "shortcut", out, 2), "add");
    return net_end(&b, psr_build_relu(&b, y, "relu2"));
}

static psr_network *pools(uint32_t channels)
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
static psr_network *plain_pools(uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    psr_network_builder b;
    net_begin(&b, 1, 13, 10);
    uint32_t x = psr_build_conv_bias(&b, 0, "conv1", channels, 2);
    x = psr_build_maxpool(&b, x, "pool1", kernel, stride, pad);
    x = psr_build_conv_bias(&b, x, "conv2", channels + 1, 2);
    return net_end(&b, psr_build_maxpool(&b, x, "pool2", 2, 1, 1));
}

static psr_network *dropouts(void)
{
    psr_network_builder b;
    net_begin(&b, 2, 6, 5);
    uint32_t x = psr_build_conv_bias(&b, 0, "conv", 20, 2);
    x = psr_build_dropout(&b, x, "drop2d", PSR_OP_DROPOUT2D, 0.5);
    x = psr_build_dropout(&b, psr_build_relu(&b, x, "relu"), "drop", PSR_OP_DROPOUT, 0.3);
    return net_end(&b, x);
}

/* Every operator once, a value with three readers, and additions that no batch norm takes along. */
static psr_network *everything(void)
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

static psr_network *named(const char *model, uint32_t channels, uint32_t size,
                          psr_shortcut shortcut)
{
    psr_network *net = NULL;
    expect_ok(psr_network_new(model, 10, channels, size, size, shortcut, &net));
    return net;
}

/* ---- one network, two back ends ---- */

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, count * sizeof *x);
    return x;
}

static void fill(float *x, size_t count, uint32_t stream, float low, float high)
{
    const psr_rng_at at = {.seed = 11, .purpose = PSR_RNG_TEST, .layer = stream};
    for (size_t i = 0; i < count; i++)
        x[i] = low + (high - low) * psr_rng_unit(psr_rng_word(at, i));
}

/* What every back end is given, and what each has made of it. */
typedef struct setting {
    psr_network *net;
    psr_buckets buckets;
    uint32_t max_batch;
    float *images, *weights, *buffers;
    uint32_t *labels, *samples;
} setting;

typedef struct outcome {
    psr_backend *backend;
    psr_pass_result trained, inferred;
    float *gradients, *buffers, *logits;
} outcome;

static setting setting_of(psr_network *net, uint32_t max_batch)
{
    setting s = {.net = net, .max_batch = max_batch};
    const size_t pixels = (size_t)net->channels * net->height * net->width;
    expect_ok(psr_buckets_plan(&net->params, 1 << 14, &s.buckets));
    s.images = floats(max_batch * pixels);
    s.weights = floats(net->params.length);
    s.buffers = floats(net->buffers.length);
    s.labels = calloc(max_batch, sizeof *s.labels);
    s.samples = calloc(max_batch, sizeof *s.samples);
    assert_non_null(s.labels);
    assert_non_null(s.samples);
    fill(s.images, max_batch * pixels, 1, -1, 1);
    psr_network_init(net, 3, s.weights, s.buffers);
    /* Scales and shifts that are neither 1 nor 0. */
    for (size_t t = 0; t < net->params.tensor_count; t++) {
        const psr_tensor *tensor = &net->params.tensors[t];
        if (tensor->rank == 1)
            fill(s.weights + tensor->offset, tensor->count, 100 + (uint32_t)t, 0.3f, 0.9f);
    }
    for (size_t t = 0; t < net->buffers.tensor_count; t++)
        fill(s.buffers + net->buffers.tensors[t].offset, net->buffers.tensors[t].count, 9, 0.5f,
             1.5f);
    for (uint32_t n = 0; n < max_batch; n++) {
        s.labels[n] = (3 * n + 1) % net->classes;
        s.samples[n] = 1000 * n + 17;
    }
    return s;
}

static void setting_done(setting *s)
{
    psr_buckets_done(&s->buckets);
    psr_network_free(s->net);
    free(s->images);
    free(s->weights);
    free(s->buffers);
    free(s->labels);
    free(s->samples);
}

/* All direct unless a test says otherwise. */
static const char *algorithms = "direct";

static psr_backend *backend_of(const setting *s, psr_backend_kind kind, psr_precision precision,
                               uint32_t threads)
{
    const psr_backend_options options = {.kind = kind,
                                         .precision = precision,
                                         .max_batch = s->max_batch,
                                         .label_smoothing = 0.1,
                                         .threads = threads,
                                         .buckets = &s->buckets,
                                         .algorithms = algorithms};
    psr_backend *backend = NULL;
    expect_ok(psr_backend_new(s->net, &options, &backend));
    return backend;
}

/* One training pass and one inference of the first count samples. */
static void passes(const setting *s, outcome *o, uint32_t count)
{
    const psr_batch batch = {s->images, s->labels, s->samples, count, .epoch = 2, .seed = 5};
    memcpy(o->buffers, s->buffers, s->net->buffers.length * sizeof(float));
    const psr_exec_state state = {s->weights, o->gradients, o->buffers};
    expect_ok(
        psr_backend_train(o->backend, &batch, &state, 1.0f / (float)count, NULL, &o->trained));
    const psr_exec_state still = {s->weights, NULL, s->buffers};
    expect_ok(psr_backend_infer(o->backend, &batch, &still, NULL, o->logits, &o->inferred));
}

static outcome outcome_of(const setting *s, psr_backend_kind kind, psr_precision precision,
                          uint32_t threads, uint32_t count)
{
    outcome o = {.backend = backend_of(s, kind, precision, threads),
                 .gradients = floats(s->net->params.length),
                 .buffers = floats(s->net->buffers.length),
                 .logits = floats((size_t)s->max_batch * s->net->classes)};
    passes(s, &o, count);
    return o;
}

static void outcome_done(outcome *o)
{
    psr_backend_free(o->backend);
    free(o->gradients);
    free(o->buffers);
    free(o->logits);
}

static double distance(const float *a, const float *b, size_t count, double *ret_norm)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    *ret_norm = sqrt(norm);
    return sqrt(difference);
}

/* Relative to the tensor, but never to less than a hundredth of the whole gradient: a bias before a
 * batch norm has gradient 0, of which only rounding is left. */
static void assert_tensors_near(const psr_layout *layout, const float *found, const float *expected,
                                double relative)
{
    double whole;
    distance(expected, expected, layout->length, &whole);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        double norm,
            off = distance(found + tensor->offset, expected + tensor->offset, tensor->count, &norm);
        double unit = norm > 1e-2 * whole ? norm : 1e-2 * whole;
        if (!(off <= relative * unit))
            fail_msg("%s is off by %.3g of %.3g, more than %.3g of it", tensor->name, off, norm,
                     relative);
    }
}

static void assert_alike(const setting *s, const outcome *found, const outcome *expected,
                         uint32_t count, tolerance limit)
{
    double norm,
        off = distance(found->logits, expected->logits, (size_t)count * s->net->classes, &norm);
    if (!(off <= limit.value * norm))
        fail_msg("the logits are off by %.3g of %.3g", off, norm);
    if (!(fabs(found->trained.loss_sum - expected->trained.loss_sum) <=
          limit.value * expected->trained.loss_sum))
        fail_msg("the loss is %.9g rather than %.9g", found->trained.loss_sum,
                 expected->trained.loss_sum);
    if (!(fabs(found->inferred.loss_sum - expected->inferred.loss_sum) <=
          limit.value * expected->inferred.loss_sum))
        fail_msg("the loss of inference is %.9g rather than %.9g", found->inferred.loss_sum,
                 expected->inferred.loss_sum);
    assert_tensors_near(&s->net->params, found->gradients, expected->gradients, limit.gradient);
    assert_tensors_near(&s->net->buffers, found->buffers, expected->buffers, limit.value);
}

static void assert_same_bits(const setting *s, const outcome *a, const outcome *b)
{
    assert_true(a->trained.loss_sum == b->trained.loss_sum);
    assert_memory_equal(a->gradients, b->gradients, s->net->params.length * sizeof(float));
    assert_memory_equal(a->buffers, b->buffers, s->net->buffers.length * sizeof(float));
    assert_memory_equal(a->logits, b->logits,
                        (size_t)s->max_batch * s->net->classes * sizeof(float));
}

/* The first count samples, float32 with one to three threads, and bf16 (none: left out). */
static void compare_batch(const setting *s, uint32_t count, tolerance rounded)
{
    outcome expected = outcome_of(s, PSR_BACKEND_REFERENCE, PSR_PRECISION_FP32, 1, count);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        outcome found = outcome_of(s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, threads, count);
        assert_alike(s, &found, &expected, count, fp32);
        outcome_done(&found);
    }
    if (psr_onednn_has_avx512() && rounded.value > 0) {
        outcome found = outcome_of(s, PSR_BACKEND_ONEDNN, PSR_PRECISION_BF16, 2, count);
        assert_alike(s, &found, &expected, count, rounded);
        outcome_done(&found);
    }
    outcome_done(&expected);
}

/* net is consumed. Batches of max_batch, of 1 and of one less. */
static void compare(psr_network *net, uint32_t max_batch, tolerance rounded)
{
    setting s = setting_of(net, max_batch);
    compare_batch(&s, max_batch, rounded);
    compare_batch(&s, max_batch - 1, rounded);
    compare_batch(&s, 1, rounded);
    setting_done(&s);
}

/* ---- operators ---- */

static void convolutions_of_odd_shapes_agree(void **state)
{
    (void)state;
    compare(convolutions(1, 5, 3, 1, 1), 3, bf16);
    compare(convolutions(3, 20, 5, 2, 2), 3, bf16);
    compare(convolutions(3, 16, 7, 2, 3), 2, bf16);
    compare(convolutions(17, 32, 1, 1, 0), 2, bf16);
    compare(convolutions(16, 33, 3, 2, 0), 2, bf16);
}

/* One row and two rows under windows of three and five, in whole and half steps. */
static void convolutions_of_low_images_agree(void **state)
{
    (void)state;
    for (uint32_t stride = 1; stride <= 2; stride++) {
        compare(low_images(1, 1, 3, stride), 3, bf16);
        compare(low_images(2, 2, 3, stride), 3, bf16);
        compare(low_images(2, 7, 3, stride), 3, bf16);
        compare(low_images(2, 5, 5, stride), 2, bf16);
        compare(low_images(4, 4, 5, stride), 2, bf16);
    }
}

/* Whole images, and such as are too low at once. */
static void convolutions_of_few_channels_agree(void **state)
{
    (void)state;
    for (uint32_t channels = 1; channels <= 2; channels++)
        for (uint32_t stride = 1; stride <= 2; stride++) {
            compare(few_channels(channels, 9, 3, stride), 3, bf16);
            compare(few_channels(channels, 2, 3, stride), 3, bf16);
            compare(few_channels(channels, 4, 5, stride), 3, bf16);
        }
}

static void batch_norm_agrees_alone_and_with_relu(void **state)
{
    (void)state;
    static const uint32_t channels[] = {1, 5, 16, 20, 48, 64};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
        compare(norm_alone(channels[i]), 4, bf16);
        compare(norm_relu(channels[i]), 4, bf16);
    }
}

static void batch_norm_agrees_with_an_addition(void **state)
{
    (void)state;
    static const uint32_t channels[] = {5, 16, 32, 80};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        for (int relu = 0; relu < 2; relu++)
            compare(norm_add(channels[i], relu), 3, bf16);
}

static void two_batch_norms_agree_under_one_relu(void **state)
{
    (void)state;
    static const uint32_t channels[] = {5, 16, 32, 80};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        for (int relu = 0; relu < 2; relu++)
            compare(two_norms(channels[i], relu), 3, bf16);
}

static void grouped_convolutions_agree(void **state)
{
    (void)state;
    compare(grouped(4, 4, 6, 1), 3, bf16);
    compare(grouped(8, 4, 7, 2), 3, bf16);
    compare(grouped(4, 8, 6, 2), 2, bf16);
    compare(grouped(2, 16, 5, 1), 3, bf16);
    compare(grouped(3, 5, 3, 1), 2, bf16);
}

static void squeeze_and_excitation_agrees(void **state)
{
    (void)state;
    static const uint32_t channels[] = {3, 16, 20, 64};
    for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
        for (int projects = 0; projects < 2; projects++)
            compare(squeezed(channels[i], projects), 3, bf16);
}

static void additions_behind_a_relu_agree(void **state)
{
    (void)state;
    compare(gelus(16), 3, bf16);
    compare(gelus(20), 3, bf16);
    compare(added_behind_relu(16), 3, bf16);
    compare(added_behind_relu(20), 3, bf16);
}

static void option_a_shortcuts_agree(void **state)
{
    (void)state;
    compare(option_a(4, 8), 3, bf16);
    compare(option_a(16, 32), 3, bf16);
}

static void pooling_agrees(void **state)
{
    (void)state;
    compare(pools(6), 3, bf16);
    compare(pools(32), 3, bf16);
    compare(plain_pools(3, 2, 2, 0), 3, bf16);
    compare(plain_pools(5, 3, 2, 1), 3, bf16);
    compare(plain_pools(4, 3, 3, 1), 3, bf16);
}

static void dropout_agrees_to_the_mask(void **state)
{
    (void)state;
    compare(dropouts(), 5, bf16);
}

/* ---- networks ---- */

static void a_network_of_all_operators_agrees(void **state)
{
    (void)state;
    compare(everything(), 4, bf16);
}

static void the_small_networks_agree(void **state)
{
    (void)state;
    compare(named("mlp", 1, 28, PSR_SHORTCUT_A), 5, bf16);
    compare(named("convnet", 1, 28, PSR_SHORTCUT_A), 5, bf16);
    compare(named("convnet", 1, 28, PSR_SHORTCUT_A), 33, bf16); /* fills vectors with images */
}

/* Deep networks over batches of a few small images are badly conditioned: two values in a batch
 * norm's mean turn over on a rounding. So one batch each, of sizes at which float32 still says
 * something, and no bf16. */
static void the_residual_networks_agree(void **state)
{
    (void)state;
    psr_network *nets[] = {
        named("resnet20", 3, 16, PSR_SHORTCUT_A), named("preresnet20", 3, 16, PSR_SHORTCUT_A),
        named("preresnet20", 3, 16, PSR_SHORTCUT_B), named("resnet20", 3, 16, PSR_SHORTCUT_B),
        named("resnet18", 3, 48, PSR_SHORTCUT_B)};
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        setting s = setting_of(nets[i], 3);
        compare_batch(&s, 3, none);
        setting_done(&s);
    }
}

/* ---- algorithms ---- */

/* Found by letter, expected from the reference, and whether the letter was ignored. */
static bool agrees_with_all_by(char letter, psr_network *net, tolerance limit)
{
    setting s = setting_of(net, 3);
    outcome expected = outcome_of(&s, PSR_BACKEND_REFERENCE, PSR_PRECISION_FP32, 1, 3);
    outcome direct = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 3);
    algorithms = all_by(letter, net);
    outcome found = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 3);
    assert_string_equal(psr_backend_algorithms(found.backend), algorithms);
    algorithms = "direct";
    assert_alike(&s, &found, &expected, 3, limit);
    bool other =
        memcmp(found.gradients, direct.gradients, s.net->params.length * sizeof(float)) != 0;
    outcome_done(&found);
    outcome_done(&direct);
    outcome_done(&expected);
    setting_done(&s);
    return other;
}

/* oneDNN's F(4x4, 3x3) loses about a digit. Version 2 has it on AVX-512, version 3 not at all. */
static void onednns_winograd_agrees_where_it_exists_and_falls_back_where_not(void **state)
{
    (void)state;
    const tolerance winograd = {1e-3, 5e-3};
    const bool exists = psr_onednn_has_avx512() && DNNL_VERSION_MAJOR < 3;
    assert_true(agrees_with_all_by('w', norm_add(32, true), winograd) || !exists);
    assert_true(agrees_with_all_by('w', named("resnet18", 3, 48, PSR_SHORTCUT_B), winograd) ||
                !exists);
}

/* Held to less than AVX2, oneDNN takes our own kernels along. */
static bool has_own_winograd(void)
{
    return psr_onednn_allows_avx2() && psr_winograd_supported();
}

/* In ResNet-20 channels become more and images smaller; ResNet-18 ends in images that are too small
 * for it. */
static void our_own_winograd_agrees(void **state)
{
    (void)state;
    const bool exists = has_own_winograd();
    assert_true(agrees_with_all_by('o', norm_add(32, true), fp32) == exists);
    assert_true(agrees_with_all_by('o', named("resnet20", 3, 32, PSR_SHORTCUT_A), fp32) == exists);
    assert_true(agrees_with_all_by('o', named("resnet18", 3, 48, PSR_SHORTCUT_B), fp32) == exists);
}

/* How far a's gradients are from b's, of b's norm. */
static double gradients_apart(const setting *s, const outcome *a, const outcome *b)
{
    double norm;
    const double off = distance(a->gradients, b->gradients, s->net->params.length, &norm);
    return off / norm;
}

/* The rule of choice/pick.c: gradients at most twice as far from exact ones as without it. */
static void our_own_winograd_in_bf16_rounds_at_most_twice_as_much(void **state)
{
    (void)state;
    if (!psr_onednn_has_avx512())
        return;
    const bool exists = psr_onednn_has_bf16_dots() && psr_bf16_dots_supported();
    setting s = setting_of(named("resnet18", 3, 48, PSR_SHORTCUT_B), 3);
    outcome exact = outcome_of(&s, PSR_BACKEND_REFERENCE, PSR_PRECISION_FP32, 1, 3);
    outcome direct = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_BF16, 2, 3);
    algorithms = all_by('o', s.net);
    outcome found = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_BF16, 2, 3);
    algorithms = "direct";
    const double of_direct = gradients_apart(&s, &direct, &exact),
                 of_found = gradients_apart(&s, &found, &exact);
    assert_true(of_found < 2 * of_direct);
    assert_true((of_found != of_direct) == exists);
    outcome_done(&found);
    outcome_done(&direct);
    outcome_done(&exact);
    setting_done(&s);
}

/* Whatever the clock says: what was picked is a text that another back end takes, and gives the
 * same bits with. */
static void what_was_picked_by_timing_can_be_handed_on(void **state)
{
    (void)state;
    setting s = setting_of(named("resnet18", 3, 32, PSR_SHORTCUT_B), 32);
    algorithms = "timed";
    outcome first = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 32);
    algorithms = psr_backend_algorithms(first.backend);
    outcome second = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 32);
    assert_string_equal(psr_backend_algorithms(second.backend), algorithms);
    algorithms = "direct";
    assert_same_bits(&s, &first, &second);
    outcome_done(&first);
    outcome_done(&second);
    setting_done(&s);
}

/* By rule: no clock, so any two back ends choose alike; in full, all direct included. */
static void by_default_the_choice_is_a_rule(void **state)
{
    (void)state;
    setting s = setting_of(named("resnet18", 3, 32, PSR_SHORTCUT_B), 32);
    algorithms = NULL;
    psr_backend *first = backend_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2);
    algorithms = "auto";
    psr_backend *second = backend_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2);
    algorithms = "direct";
    psr_backend *direct = backend_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2);
    assert_string_equal(psr_backend_algorithms(first), psr_backend_algorithms(second));
    assert_int_equal(strchr(psr_backend_algorithms(first), 'o') != NULL, has_own_winograd());
    assert_string_equal(psr_backend_algorithms(direct), all_by('d', s.net));
    psr_backend_free(first);
    psr_backend_free(second);
    psr_backend_free(direct);
    setting_done(&s);
}

/* ---- the same bits ---- */

static void the_same_pass_gives_the_same_bits_whatever_ran_before(void **state)
{
    (void)state;
    setting s = setting_of(named("resnet20", 3, 32, PSR_SHORTCUT_B), 8);
    for (int half = 0; half < (psr_onednn_has_avx512() ? 2 : 1); half++) {
        const psr_precision precision = half ? PSR_PRECISION_BF16 : PSR_PRECISION_FP32;
        outcome a = outcome_of(&s, PSR_BACKEND_ONEDNN, precision, 2, 8);
        outcome b = outcome_of(&s, PSR_BACKEND_ONEDNN, precision, 2, 3);
        passes(&s, &b, 8);
        assert_same_bits(&s, &a, &b);
        passes(&s, &b, 1);
        passes(&s, &b, 8);
        assert_same_bits(&s, &a, &b);
        outcome_done(&a);
        outcome_done(&b);
    }
    setting_done(&s);
}

/* Weights that change right after gradient_ready, as an exchange changes them. */
typedef struct overwriting {
    const setting *s;
    float *weights;
} overwriting;

static psr_err overwrite(void *context, uint32_t bucket, psr_fence *fence)
{
    (void)fence;
    const overwriting *o = context;
    const psr_bucket *b = &o->s->buckets.items[bucket];
    for (size_t i = b->offset; i < b->offset + b->length; i++)
        o->weights[i] = NAN;
    return PSR_OK;
}

static void weights_may_be_overwritten_as_soon_as_their_gradient_is_ready(void **state)
{
    (void)state;
    setting s = setting_of(everything(), 4);
    const psr_batch batch = {s.images, s.labels, s.samples, 4, .epoch = 2, .seed = 5};
    for (int half = 0; half < (psr_onednn_has_avx512() ? 2 : 1); half++) {
        outcome a = outcome_of(&s, PSR_BACKEND_ONEDNN,
                               half ? PSR_PRECISION_BF16 : PSR_PRECISION_FP32, 2, 4);
        overwriting o = {&s, floats(s.net->params.length)};
        memcpy(o.weights, s.weights, s.net->params.length * sizeof(float));
        const psr_exec_hooks hooks = {.context = &o, .gradient_ready = overwrite};
        float *gradients = floats(s.net->params.length);
        memcpy(a.buffers, s.buffers, s.net->buffers.length * sizeof(float));
        const psr_exec_state lent = {o.weights, gradients, a.buffers};
        expect_ok(psr_backend_train(a.backend, &batch, &lent, 0.25f, &hooks, &a.trained));
        assert_memory_equal(gradients, a.gradients, s.net->params.length * sizeof(float));
        free(gradients);
        free(o.weights);
        outcome_done(&a);
    }
    setting_done(&s);
}

/* ---- what is refused ---- */

static psr_err try_new(const setting *s, psr_precision precision, const char *text)
{
    const psr_backend_options options = {.kind = PSR_BACKEND_ONEDNN,
                                         .precision = precision,
                                         .max_batch = 2,
                                         .threads = 1,
                                         .buckets = &s->buckets,
                                         .algorithms = text};
    psr_backend *backend = NULL;
    psr_err err = psr_backend_new(s->net, &options, &backend);
    if (err != PSR_OK)
        assert_null(backend);
    psr_backend_free(backend);
    return err;
}

static void precisions_that_cannot_be_had_are_refused_by_name(void **state)
{
    (void)state;
    setting s = setting_of(named("convnet", 1, 28, PSR_SHORTCUT_A), 2);
    expect_failure(try_new(&s, PSR_PRECISION_FP16, NULL), PSR_ERR_UNSUPPORTED,
                   "--precision fp16: the oneDNN back end has fp32 and bf16");
    if (psr_onednn_has_avx512()) {
        expect_ok(try_new(&s, PSR_PRECISION_BF16, NULL));
    } else {
        assert_int_equal(try_new(&s, PSR_PRECISION_BF16, NULL), PSR_ERR_UNSUPPORTED);
        assert_non_null(strstr(psr_err_detail(), "--precision bf16: this processor"));
    }
    setting_done(&s);
}

static void algorithms_that_do_not_fit_the_network_are_refused(void **state)
{
    (void)state;
    setting s = setting_of(named("convnet", 1, 28, PSR_SHORTCUT_A), 2);
    expect_ok(try_new(&s, PSR_PRECISION_FP32, "ddd,ddd"));
    expect_failure(try_new(&s, PSR_PRECISION_FP32, "ddd"), PSR_ERR_FORMAT,
                   "algorithms: 3 characters do not fit the 2 convolutions of convnet");
    expect_failure(try_new(&s, PSR_PRECISION_FP32, "ddd,dxd"), PSR_ERR_FORMAT,
                   "algorithms: character 6 is 'x', expected d, w or o");
    expect_failure(try_new(&s, PSR_PRECISION_FP32, "ddd;ddd"), PSR_ERR_FORMAT,
                   "algorithms: character 4 is ';', expected a comma");
    setting_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_odd_shapes_agree),
        cmocka_unit_test(convolutions_of_low_images_agree),
        cmocka_unit_test(convolutions_of_few_channels_agree),
        cmocka_unit_test(batch_norm_agrees_alone_and_with_relu),
        cmocka_unit_test(batch_norm_agrees_with_an_addition),
        cmocka_unit_test(two_batch_norms_agree_under_one_relu),
        cmocka_unit_test(grouped_convolutions_agree),
        cmocka_unit_test(squeeze_and_excitation_agrees),
        cmocka_unit_test(additions_behind_a_relu_agree),
        cmocka_unit_test(option_a_shortcuts_agree),
        cmocka_unit_test(pooling_agrees),
        cmocka_unit_test(dropout_agrees_to_the_mask),
        cmocka_unit_test(a_network_of_all_operators_agrees),
        cmocka_unit_test(the_small_networks_agree),
        cmocka_unit_test(the_residual_networks_agree),
        cmocka_unit_test(onednns_winograd_agrees_where_it_exists_and_falls_back_where_not),
        cmocka_unit_test(our_own_winograd_agrees),
        cmocka_unit_test(our_own_winograd_in_bf16_rounds_at_most_twice_as_much),
        cmocka_unit_test(what_was_picked_by_timing_can_be_handed_on),
        cmocka_unit_test(by_default_the_choice_is_a_rule),
        cmocka_unit_test(the_same_pass_gives_the_same_bits_whatever_ran_before),
        cmocka_unit_test(weights_may_be_overwritten_as_soon_as_their_gradient_is_ready),
        cmocka_unit_test(precisions_that_cannot_be_had_are_refused_by_name),
        cmocka_unit_test(algorithms_that_do_not_fit_the_network_are_refused),
    };
    return cmocka_run_group_tests_name("onednn", tests, NULL, NULL);
}
