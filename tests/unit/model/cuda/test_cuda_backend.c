/* The back end cuda against the reference loops, on a GPU that this processor plays: every operator
 * in odd shapes and whole small networks, in float32, bf16 and fp16, batches of other sizes; and
 * that numbers do not depend on when streams come to their orders. The contract of the hooks is
 * test_backend.c's. */
#include "model/backend.h"
#include "model/cuda/api.h"
#include "model/reference/ops.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/cuda/emulator.h"
#include "tests/unit/expect.h"
#include "tests/unit/model/byte_batch.h"
#include "tests/unit/model/parity.h"

static const tolerance fp32 = {2e-4, 2e-4}, bf16 = {2e-2, 0.25}, none = {0, 0};
/* Values have three bits more than in bf16. */
static const tolerance fp16 = {4e-3, 0.12};

/* By what the loss is scaled, so that small gradients keep their bits. */
#define SCALE 4096

/* The first count samples in another precision. */
static void compare_rounded(const setting *s, uint32_t count, psr_precision precision,
                            const outcome *expected, tolerance limit)
{
    outcome found = outcome_of(s, PSR_BACKEND_CUDA, precision, 1, count);
    assert_alike(s, &found, expected, count, limit);
    outcome_done(&found);
}

/* The first count samples, in float32 and bf16 (none: left out), and all samples in fp16 too. */
static void compare_batch(const setting *s, uint32_t count, tolerance rounded)
{
    outcome expected = outcome_of(s, PSR_BACKEND_REFERENCE, PSR_PRECISION_FP32, 1, count);
    compare_rounded(s, count, PSR_PRECISION_FP32, &expected, fp32);
    if (rounded.value > 0)
        compare_rounded(s, count, PSR_PRECISION_BF16, &expected, rounded);
    setting scaled = *s;
    scaled.gradient_scale = SCALE;
    if (rounded.value > 0 && count == s->max_batch)
        compare_rounded(&scaled, count, PSR_PRECISION_FP16, &expected, fp16);
    outcome_done(&expected);
}

/* net is consumed. Batches of max_batch and of 1. */
static void compare(psr_network *net, uint32_t max_batch, tolerance rounded)
{
    setting s = setting_of(net, max_batch);
    compare_batch(&s, max_batch, rounded);
    compare_batch(&s, 1, rounded);
    setting_done(&s);
}

/* ---- operators ---- */

static void convolutions_of_odd_shapes_agree(void **state)
{
    (void)state;
    compare(convolutions(1, 5, 3, 1, 1), 3, bf16);
    compare(convolutions(3, 20, 5, 2, 2), 3, bf16);
    compare(convolutions(17, 32, 1, 1, 0), 2, bf16);
    compare(convolutions(16, 33, 3, 2, 0), 2, bf16);
    compare(low_images(2, 7, 3, 2), 3, bf16);
    compare(few_channels(2, 4, 5, 2), 3, bf16);
    compare(grouped(4, 4, 6, 1), 3, bf16);
    compare(grouped(3, 5, 3, 1), 2, bf16);
}

static void batch_norm_agrees_with_what_it_takes_along(void **state)
{
    (void)state;
    compare(norm_alone(5), 4, bf16);
    compare(norm_relu(20), 4, bf16);
    for (int relu = 0; relu < 2; relu++) {
        compare(norm_add(16, relu), 3, bf16);
        compare(two_norms(5, relu), 3, bf16);
    }
}

static void the_other_operators_agree(void **state)
{
    (void)state;
    compare(squeezed(16, false), 3, bf16);
    compare(squeezed(3, true), 3, bf16);
    compare(gelus(20), 3, bf16);
    compare(added_behind_relu(16), 3, bf16);
    compare(option_a(4, 8), 3, bf16);
    compare(pools(6), 3, bf16);
    compare(plain_pools(5, 3, 2, 1), 3, bf16);
    compare(dropouts(), 5, bf16);
    compare(everything(), 4, bf16);
}

/* ---- networks ---- */

static void the_small_networks_agree(void **state)
{
    (void)state;
    compare(named("mlp", 1, 28, PSR_SHORTCUT_A), 5, bf16);
    compare(named("convnet", 1, 28, PSR_SHORTCUT_A), 5, bf16);
}

/* As test_onednn.c has them: one batch each, and no bf16. */
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

/* ---- fp16 ---- */

/* A power of two is taken out of a float32 again without a rounding. */
static void a_scale_of_the_loss_changes_no_bit_of_float32(void **state)
{
    (void)state;
    setting s = setting_of(everything(), 4);
    outcome plain = outcome_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, 4);
    s.gradient_scale = SCALE;
    outcome scaled = outcome_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, 4);
    assert_same_bits(&s, &scaled, &plain);
    outcome_done(&plain);
    outcome_done(&scaled);
    setting_done(&s);
}

static bool all_finite(const float *x, size_t count)
{
    size_t finite = 0;
    for (size_t i = 0; i < count; i++)
        finite += isfinite(x[i]) != 0;
    return finite == count;
}

/* Losses and statistics are those of the forward pass, which is not scaled. */
static void a_gradient_that_overflows_is_not_finite(void **state)
{
    (void)state;
    setting s = setting_of(named("convnet", 1, 28, PSR_SHORTCUT_A), 3);
    s.gradient_scale = SCALE;
    outcome found = outcome_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP16, 1, 3);
    const double loss = found.trained.loss_sum;
    assert_true(all_finite(found.gradients, s.net->params.length));
    s.gradient_scale = 1 << 24;
    passes(&s, &found, 3);
    assert_false(all_finite(found.gradients, s.net->params.length));
    assert_true(found.trained.loss_sum == loss);
    outcome_done(&found);
    setting_done(&s);
}

/* An infinite mean would stay in the running one for ever. */
static void activations_that_overflow_leave_statistics_as_they_were(void **state)
{
    (void)state;
    setting s = setting_of(norm_alone(5), 4);
    for (size_t i = 0; i < (size_t)4 * s.net->channels * s.net->height * s.net->width; i++)
        s.images[i] *= 1e6f;
    outcome found = outcome_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP16, 1, 4);
    assert_false(isfinite(found.trained.loss_sum));
    assert_memory_equal(found.buffers, s.buffers, s.net->buffers.length * sizeof(float));
    outcome_done(&found);
    setting_done(&s);
}

/* ---- orders ---- */

static void use_streams(psr_emulator_streams streams, uint64_t seed)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = streams;
    settings.seed = seed;
    psr_emulator_set(&settings);
}

/* A wait that is missing would let some order give other numbers. */
static void numbers_are_the_same_in_every_order_of_the_streams(void **state)
{
    (void)state;
    setting s = setting_of(everything(), 4);
    outcome expected = outcome_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, 4);
    for (uint64_t seed = 0; seed < 10; seed++) {
        use_streams(seed % 2 == 0 ? PSR_EMULATOR_LAZY : PSR_EMULATOR_THREADS, seed);
        outcome found = outcome_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, 4);
        passes(&s, &found, 4);
        assert_same_bits(&s, &found, &expected);
        outcome_done(&found);
    }
    use_streams(PSR_EMULATOR_THREADS, 0);
    outcome_done(&expected);
    setting_done(&s);
}

/* ---- images as bytes ---- */

/* A table that counts what is copied. */
static psr_cuda_api counting;
static size_t copied_bytes;

static psr_err copy(psr_cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    copied_bytes += bytes;
    return psr_emulator()->copy(stream, to, from, bytes);
}

static size_t copied_by(const setting *s, outcome *o)
{
    copied_bytes = 0;
    passes(s, o, s->max_batch);
    return copied_bytes;
}

/* net is consumed. In the second passes of a back end, which are recorded, too. */
static void compare_bytes(psr_network *net, psr_precision precision)
{
    enum { BATCH = 5 };
    setting s = setting_of(net, BATCH), given = s;
    const size_t size = (size_t)BATCH * net->channels * net->height * net->width;
    byte_batch b = byte_batch_new(3, BATCH, net->channels, net->height, net->width);
    psr_ref_images_of_bytes(BATCH, net->channels, net->height, net->width, &b.of, s.images);
    given.images = NULL;
    given.bytes = &b.of;
    for (uint64_t seed = 0; seed < 2; seed++) {
        use_streams(seed % 2 == 0 ? PSR_EMULATOR_LAZY : PSR_EMULATOR_THREADS, seed);
        outcome floats = outcome_of(&s, PSR_BACKEND_CUDA, precision, 1, BATCH);
        outcome bytes = outcome_of(&given, PSR_BACKEND_CUDA, precision, 1, BATCH);
        assert_same_bits(&s, &bytes, &floats);
        const size_t of_floats = copied_by(&s, &floats), of_bytes = copied_by(&given, &bytes);
        assert_same_bits(&s, &bytes, &floats);
        /* of two passes: a quarter, what is said of each image, and what bytes mean */
        assert_int_equal(of_floats - of_bytes,
                         2 * (3 * size - BATCH * sizeof(psr_byte_image) -
                              net->channels * PSR_BYTE_VALUES * sizeof(float)));
        outcome_done(&floats);
        outcome_done(&bytes);
    }
    use_streams(PSR_EMULATOR_THREADS, 0);
    byte_batch_spoil(&b, BATCH, net->channels);
    setting_done(&s);
}

static void images_of_bytes_are_those_of_floats_and_a_quarter_is_copied(void **state)
{
    (void)state;
    counting = *psr_emulator();
    counting.copy = copy;
    psr_cuda_offer(&counting);
    compare_bytes(named("mlp", 1, 8, PSR_SHORTCUT_A), PSR_PRECISION_FP32);
    compare_bytes(convolutions(3, 20, 5, 2, 2), PSR_PRECISION_BF16);
    compare_bytes(convolutions(3, 20, 5, 2, 2), PSR_PRECISION_FP16);
    psr_cuda_offer(psr_emulator());
}

/* One training pass on bytes, told of what comes next. */
static void train_bytes(const setting *s, outcome *o, const byte_batch *given,
                        const byte_batch *next)
{
    const psr_batch after = {.bytes = next != NULL ? &next->of : NULL, .count = s->max_batch};
    const psr_batch batch = {NULL,       s->labels, s->samples,          s->max_batch,
                             .epoch = 2, .seed = 5, .bytes = &given->of, .next = &after};
    const psr_exec_state state = {s->weights, o->gradients, o->buffers};
    memcpy(o->buffers, s->buffers, s->net->buffers.length * sizeof(float));
    expect_ok(psr_backend_train(o->backend, &batch, &state, 1.0f / (float)s->max_batch, NULL,
                                &o->trained));
}

/* Images that were announced come, or others do, or other passes are between. */
static void bytes_that_come_ahead_are_those_of_the_next_pass(void **state)
{
    (void)state;
    enum { BATCH = 3 };
    setting s = setting_of(convolutions(3, 20, 5, 2, 2), BATCH);
    const uint32_t C = s.net->channels, H = s.net->height, W = s.net->width;
    byte_batch a = byte_batch_new(5, BATCH, C, H, W), b = byte_batch_new(6, BATCH, C, H, W);
    const byte_batch *const orders[][2] = {{&a, &b}, {&b, &b}, {&b, &a}, {&b, NULL}, {&a, NULL}};
    setting of_a = s, of_b = s;
    of_a.bytes = &a.of;
    of_b.bytes = &b.of;
    outcome is_a = outcome_of(&of_a, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, BATCH);
    outcome is_b = outcome_of(&of_b, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, BATCH);
    for (uint64_t seed = 0; seed < 6; seed++) {
        use_streams(seed % 2 == 0 ? PSR_EMULATOR_LAZY : PSR_EMULATOR_THREADS, seed);
        outcome found = outcome_of(&of_a, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1, BATCH);
        for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
            train_bytes(&s, &found, orders[i][0], orders[i][1]);
            const outcome *right = orders[i][0] == &a ? &is_a : &is_b;
            assert_true(found.trained.loss_sum == right->trained.loss_sum);
            assert_memory_equal(found.gradients, right->gradients,
                                s.net->params.length * sizeof(float));
            if (i == 0) { /* nothing of it disturbs what has been announced */
                const psr_batch floats = {s.images, s.labels, s.samples, BATCH, .epoch = 2};
                const psr_exec_state still = {s.weights, NULL, s.buffers};
                psr_pass_result result;
                expect_ok(psr_backend_infer(found.backend, &floats, &still, NULL, NULL, &result));
            }
        }
        outcome_done(&found);
    }
    use_streams(PSR_EMULATOR_THREADS, 0);
    outcome_done(&is_a);
    outcome_done(&is_b);
    byte_batch_spoil(&a, BATCH, C);
    byte_batch_spoil(&b, BATCH, C);
    setting_done(&s);
}

static void the_reference_takes_bytes_too(void **state)
{
    (void)state;
    setting s = setting_of(norm_alone(3), 4), given = s;
    byte_batch b = byte_batch_new(4, 4, s.net->channels, s.net->height, s.net->width);
    psr_ref_images_of_bytes(4, s.net->channels, s.net->height, s.net->width, &b.of, s.images);
    given.images = NULL;
    given.bytes = &b.of;
    outcome floats = outcome_of(&s, PSR_BACKEND_REFERENCE, PSR_PRECISION_FP32, 1, 4);
    outcome bytes = outcome_of(&given, PSR_BACKEND_REFERENCE, PSR_PRECISION_FP32, 1, 4);
    assert_same_bits(&s, &bytes, &floats);
    outcome_done(&floats);
    outcome_done(&bytes);
    byte_batch_spoil(&b, 4, s.net->channels);
    setting_done(&s);
}

/* ---- memory and devices ---- */

static psr_err try_new(const setting *s, uint32_t device, psr_precision precision)
{
    const psr_backend_options options = {.kind = PSR_BACKEND_CUDA,
                                         .precision = precision,
                                         .max_batch = s->max_batch,
                                         .buckets = &s->buckets,
                                         .device = device};
    psr_backend *backend = NULL;
    const psr_err err = psr_backend_new(s->net, &options, &backend);
    if (err == PSR_OK)
        psr_backend_free(backend);
    return err;
}

/* What it says fits does fit, and one more does not. */
static void the_batch_that_would_fit_is_named(void **state)
{
    (void)state;
    psr_emulator_settings settings = psr_emulator_default();
    setting s = setting_of(named("resnet20", 3, 32, PSR_SHORTCUT_A), 100);
    unsigned fits = 0;
    settings.bytes = (size_t)64 << 20;
    psr_emulator_set(&settings);
    assert_int_equal(try_new(&s, 0, PSR_PRECISION_FP32), PSR_ERR_NOMEM);
    const char *text = strstr(psr_err_detail(), "a batch of 100 takes ");
    assert_non_null(text);
    text = strstr(text + 1, "a batch of ");
    assert_non_null(text);
    fits = (unsigned)strtoul(text + strlen("a batch of "), NULL, 10);
    assert_in_range(fits, 1, 99);
    s.max_batch = fits;
    expect_ok(try_new(&s, 0, PSR_PRECISION_FP32));
    s.max_batch = 100;
    use_streams(PSR_EMULATOR_THREADS, 0);
    setting_done(&s);
}

static void what_it_cannot_do_is_refused(void **state)
{
    (void)state;
    setting s = setting_of(norm_alone(5), 3);
    expect_failure(try_new(&s, 1, PSR_PRECISION_FP32), PSR_ERR_UNSUPPORTED,
                   "--device cuda:1: this host has 1 GPU, numbered from 0");
    setting_done(&s);
}

/* ---- failures ---- */

typedef struct fences {
    uint32_t asked;
    atomic_uint told;
} fences;

static void hear(void *context)
{
    atomic_fetch_add(&((fences *)context)->told, 1);
}

static psr_err ask_fence(void *context, uint32_t bucket, psr_fence *fence)
{
    fences *f = context;
    (void)bucket;
    if (fence == NULL)
        return PSR_OK;
    f->asked++;
    psr_fence_tell(fence, hear, f);
    return PSR_OK;
}

/* Whenever it fails, what was going to happen is told, and nothing waits for ever. */
static void a_device_that_fails_ends_the_pass_and_its_fences(void **state)
{
    (void)state;
    setting s = setting_of(named("resnet20", 3, 16, PSR_SHORTCUT_A), 3);
    float *gradients = floats(s.net->params.length);
    const psr_batch batch = {s.images, s.labels, s.samples, 3, .epoch = 1, .seed = 5};
    const psr_exec_state work = {s.weights, gradients, s.buffers};
    uint32_t asked = 0;
    for (uint64_t after = 1; after < 1000; after += 111) {
        psr_emulator_settings settings = psr_emulator_default();
        settings.fail_after = after;
        psr_emulator_set(&settings);
        fences f = {0};
        const psr_exec_hooks hooks = {.context = &f, .gradient_ready = ask_fence};
        psr_backend *backend = backend_of(&s, PSR_BACKEND_CUDA, PSR_PRECISION_FP32, 1);
        psr_pass_result result;
        psr_err err = PSR_OK;
        for (int pass = 0; pass < 4 && err == PSR_OK; pass++)
            err = psr_backend_train(backend, &batch, &work, 1, &hooks, &result);
        assert_int_equal(err, PSR_ERR_COMPUTE);
        psr_backend_free(backend);
        assert_int_equal(atomic_load(&f.told), f.asked);
        asked += f.asked;
    }
    assert_true(asked > 0);
    use_streams(PSR_EMULATOR_THREADS, 0);
    free(gradients);
    setting_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_odd_shapes_agree),
        cmocka_unit_test(batch_norm_agrees_with_what_it_takes_along),
        cmocka_unit_test(the_other_operators_agree),
        cmocka_unit_test(the_small_networks_agree),
        cmocka_unit_test(the_residual_networks_agree),
        cmocka_unit_test(a_scale_of_the_loss_changes_no_bit_of_float32),
        cmocka_unit_test(a_gradient_that_overflows_is_not_finite),
        cmocka_unit_test(activations_that_overflow_leave_statistics_as_they_were),
        cmocka_unit_test(numbers_are_the_same_in_every_order_of_the_streams),
        cmocka_unit_test(images_of_bytes_are_those_of_floats_and_a_quarter_is_copied),
        cmocka_unit_test(bytes_that_come_ahead_are_those_of_the_next_pass),
        cmocka_unit_test(the_reference_takes_bytes_too),
        cmocka_unit_test(the_batch_that_would_fit_is_named),
        cmocka_unit_test(what_it_cannot_do_is_refused),
        cmocka_unit_test(a_device_that_fails_ends_the_pass_and_its_fences),
    };
    psr_cuda_offer(psr_emulator());
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
