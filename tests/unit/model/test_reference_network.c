/* Whole small networks through the reference back end against central differences, in double as
 * test_reference.c: what joins the operators (sums over several readers, masks, order) is right
 * too. */
#include "model/networks/squeeze.h"
#include "model/reference/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/unit/model/differences.h"

static const uint32_t sample_ids[3] = {17, 4, 59999};

static psr_network *net_begin(psr_network_builder *builder, uint32_t classes, uint32_t channels,
                              uint32_t size)
{
    psr_network *net = calloc(1, sizeof(*net));
    assert_non_null(net);
    *builder =
        (psr_network_builder){.net = net, .node_capacity = 32, .epsilon = 1e-5, .momentum = 0.1};
    net->nodes = calloc(builder->node_capacity, sizeof(*net->nodes));
    assert_non_null(net->nodes);
    net->classes = classes;
    net->channels = channels;
    net->height = net->width = size;
    net->nodes[net->node_count++] = (psr_network_node){.op = PSR_OP_INPUT,
                                                       .input = {PSR_NONE, PSR_NONE},
                                                       .channels = channels,
                                                       .height = size,
                                                       .width = size,
                                                       .weight = PSR_NONE,
                                                       .bias = PSR_NONE,
                                                       .name = "input"};
    return net;
}

/* Every operator once, a value with three readers, and both ways past a residual block. */
static psr_network *net_of_everything(void)
{
    psr_network_builder b;
    psr_network *net = net_begin(&b, 4, 2, 9);
    const psr_init_kind init = PSR_INIT_UNIFORM_FAN_IN;
    uint32_t x = psr_build_conv_bias(&b, 0, "conv1", 4, 2);
    x = psr_build_batchnorm(&b, x, "bn1");
    x = psr_build_relu(&b, x, "relu1");
    x = psr_build_maxpool(&b, x, "pool", 3, 2, 1);
    uint32_t path = psr_build_conv(&b, x, "conv2", 6, 3, 2, 1, init);
    path = psr_build_batchnorm(&b, path, "bn2");
    uint32_t sum = psr_build_add(&b, path, psr_build_shortcut_a(&b, x, "shortcut", 6, 2), "add1");
    uint32_t projection = psr_build_conv(&b, x, "down", 6, 1, 2, 0, init);
    x = psr_build_relu(&b, psr_build_add(&b, sum, projection, "add2"), "relu2");
    x = psr_build_dropout(&b, x, "drop2d", PSR_OP_DROPOUT2D, 0.3);
    uint32_t wide = psr_build_flatten(&b, x);
    wide = psr_build_linear(&b, wide, "fc1", 6, init, init);
    uint32_t mean = psr_build_flatten(&b, psr_build_avgpool(&b, x, "avgpool"));
    x = psr_build_dropout(&b, psr_build_add(&b, wide, mean, "add3"), "drop", PSR_OP_DROPOUT, 0.2);
    psr_build_linear(&b, x, "fc2", 4, init, init);
    assert_int_equal(b.err, PSR_OK);
    return net;
}

/* Groups, squeeze and excitation, GELU, and a factor. */
static psr_network *net_of_gates(void)
{
    psr_network_builder b;
    psr_network *net = net_begin(&b, 4, 2, 5);
    uint32_t x = psr_build_conv_bias(&b, 0, "conv1", 6, 2);
    x = psr_build_relu(&b, psr_build_batchnorm(&b, x, "bn1"), "relu1");
    uint32_t y = psr_build_conv_grouped(&b, x, "conv2", 6, 3, 1, 1, 3, PSR_INIT_ZERO);
    y = psr_build_squeeze(&b, psr_build_batchnorm(&b, y, "bn2"), (psr_block_place){1, 0}, 2);
    x = psr_build_gelu(&b, psr_build_add(&b, y, x, "add"), "gelu");
    x = psr_build_scale(&b, x, "scale", 0.75);
    x = psr_build_flatten(&b, psr_build_avgpool(&b, x, "mean"));
    psr_build_linear_bare(&b, x, "fc", 4, PSR_INIT_ZERO);
    assert_int_equal(b.err, PSR_OK);
    return net;
}

typedef struct net_case {
    psr_network *net;
    psr_buckets buckets;
    psr_readiness *readiness;
    psr_reference *reference;
    psr_batch batch;
    double *weights, *gradients, *buffers;
} net_case;

enum { BATCH = 3 };
static const uint32_t labels[BATCH] = {0, 3, 1};

static net_case net_case_of(psr_network *net)
{
    const size_t pixel_count = (size_t)BATCH * net->channels * net->height * net->width;
    double *pixels = numbers(pixel_count);
    float *images = calloc(pixel_count, sizeof(*images));
    assert_non_null(images);
    for (size_t i = 0; i < pixel_count; i++)
        images[i] = (float)pixels[i];
    free(pixels);

    net_case c = {.net = net};
    c.batch = (psr_batch){.images = images,
                          .labels = labels,
                          .samples = sample_ids,
                          .count = BATCH,
                          .epoch = 1,
                          .seed = 3};
    c.weights = numbers(net->params.length);
    c.gradients = zeros(net->params.length);
    c.buffers = zeros(net->buffers.length);
    assert_int_equal(psr_buckets_plan(&net->params, 256, &c.buckets), PSR_OK);
    assert_int_equal(psr_readiness_new(net, &c.buckets, &c.readiness), PSR_OK);
    assert_int_equal(psr_reference_new(net, BATCH, 0.1, &c.reference), PSR_OK);
    return c;
}

static void net_case_done(net_case *c)
{
    free((void *)(uintptr_t)c->batch.images);
    free(c->weights);
    free(c->gradients);
    free(c->buffers);
    psr_reference_free(c->reference);
    psr_readiness_free(c->readiness);
    psr_buckets_done(&c->buckets);
    psr_network_free(c->net);
}

static double net_objective(net_case *c, float loss_scale)
{
    const psr_reference_state state = {c->weights, c->gradients, c->buffers};
    psr_pass_result result;
    psr_readiness_begin(c->readiness, NULL);
    assert_int_equal(
        psr_reference_train(c->reference, &c->batch, &state, loss_scale, c->readiness, &result),
        PSR_OK);
    return result.loss_sum * loss_scale;
}

/* gradients: those that the back end gave for the weights as they are. */
static void check_tensor(net_case *c, const psr_tensor *tensor, const double *gradients,
                         float loss_scale)
{
    double sum = 0;
    for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
        const double kept = c->weights[i];
        c->weights[i] = kept + STEP;
        const double above = net_objective(c, loss_scale);
        c->weights[i] = kept - STEP;
        const double below = net_objective(c, loss_scale);
        c->weights[i] = kept;
        const double expected = (above - below) / (2 * STEP);
        if (!(fabs(gradients[i] - expected) <= TOLERANCE * (1 + fabs(expected))))
            fail_msg("%s[%zu]: gradient %.12g, difference quotient %.12g", tensor->name,
                     i - tensor->offset, gradients[i], expected);
        sum += fabs(expected);
    }
    /* A gradient of zeros would prove nothing; conv1.bias has one, for the batch norm behind takes
     * it out again. */
    assert_true(sum > 1e-3 || strcmp(tensor->name, "conv1.bias") == 0);
}

/* net is consumed. */
static void check_network(psr_network *net)
{
    const float loss_scale = 0.5f;
    net_case c = net_case_of(net);
    const psr_layout *params = &c.net->params;
    double *gradients = zeros(params->length);
    net_objective(&c, 1); /* what an earlier pass left behind must not be in the sums */
    net_objective(&c, loss_scale);
    memcpy(gradients, c.gradients, params->length * sizeof(double));
    for (size_t t = 0; t < params->tensor_count; t++)
        check_tensor(&c, &params->tensors[t], gradients, loss_scale);
    free(gradients);
    net_case_done(&c);
}

static void a_network_of_all_operators_has_the_right_gradient(void **state)
{
    (void)state;
    check_network(net_of_everything());
}

static void groups_gates_and_factors_have_the_right_gradient(void **state)
{
    (void)state;
    check_network(net_of_gates());
}

static void two_dropouts_of_one_network_have_masks_of_their_own(void **state)
{
    (void)state;
    psr_network_builder b;
    psr_network *net = net_begin(&b, 4, 1, 8);
    uint32_t first = psr_build_dropout(&b, 0, "drop1", PSR_OP_DROPOUT, 0.5);
    uint32_t second = psr_build_dropout(&b, first, "drop2", PSR_OP_DROPOUT, 0.5);
    psr_build_linear(&b, psr_build_flatten(&b, second), "fc", 4, PSR_INIT_ZERO, PSR_INIT_ZERO);
    assert_int_equal(b.err, PSR_OK);

    net_case c = net_case_of(net);
    net_objective(&c, 1);
    const double *x = psr_reference_value(c.reference, first),
                 *y = psr_reference_value(c.reference, second);
    int kept_by_first = 0, kept_by_both = 0;
    for (int i = 0; i < BATCH * 64; i++) {
        kept_by_first += x[i] != 0;
        kept_by_both += y[i] != 0;
    }
    assert_in_range(kept_by_first, 72, 120);
    assert_in_range(kept_by_both, 24, 72);
    net_case_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_of_all_operators_has_the_right_gradient),
        cmocka_unit_test(groups_gates_and_factors_have_the_right_gradient),
        cmocka_unit_test(two_dropouts_of_one_network_have_masks_of_their_own),
    };
    return cmocka_run_group_tests_name("reference_net", tests, NULL, NULL);
}
