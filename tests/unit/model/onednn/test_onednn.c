/* The oneDNN back end against the reference loops: every operator in odd shapes, whole small
 * networks, float32 and bf16, and what only a compiled back end can get wrong: buffers that
 * overlap, a batch of another size, one thread more. The contract of the hooks is test_backend.c's.
 *
 * Meson runs it again with oneDNN held to AVX2, where float32 is blocked by 8 and bf16 is refused,
 * and to AVX and SSE4.1, where its backward convolutions are of plain values alone. */
#include "model/backend.h"
#include "model/onednn/kernels/winograd.h"
#include "model/onednn/kernels/winograd_bf16.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/model/onednn/algorithms.h"
#include "tests/unit/model/onednn/avx512.h"
#include "tests/unit/expect.h"
#include "tests/unit/model/parity.h"

static const tolerance fp32 = {2e-4, 2e-4}, bf16 = {2e-2, 0.25}, none = {0, 0};

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
    s.algorithms = all_by(letter, net);
    outcome found = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 3);
    assert_string_equal(psr_backend_algorithms(found.backend), s.algorithms);
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
    s.algorithms = all_by('o', s.net);
    outcome found = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_BF16, 2, 3);
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
    s.algorithms = "timed";
    outcome first = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 32);
    s.algorithms = psr_backend_algorithms(first.backend);
    outcome second = outcome_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2, 32);
    assert_string_equal(psr_backend_algorithms(second.backend), s.algorithms);
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
    s.algorithms = NULL;
    psr_backend *first = backend_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2);
    s.algorithms = "auto";
    psr_backend *second = backend_of(&s, PSR_BACKEND_ONEDNN, PSR_PRECISION_FP32, 2);
    s.algorithms = "direct";
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
