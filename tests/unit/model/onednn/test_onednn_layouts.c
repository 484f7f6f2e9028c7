/* The oneDNN back end in layouts that oneDNN does not choose on this processor: channels last is
 * what it takes for bf16 where there is AMX. Executables are compiled directly, with the layout
 * given, and compared with one in the layout of oneDNN's choice, whose numbers test_onednn.c holds
 * to the reference. */
#include "base/arrays/arena.h"
#include "model/onednn/exec.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/model/onednn/avx512.h"
#include "tests/unit/expect.h"

enum { BATCH = 16, PIXELS = 3 * 48 * 48 };

static void context_init(psr_onednn_context *context, dnnl_data_type_t type,
                         psr_onednn_layout layout, uint32_t threads)
{
    *context = (psr_onednn_context){.type = type, .threads = threads, .layout = layout};
    omp_set_num_threads((int)threads);
    assert_int_equal(dnnl_engine_create(&context->engine, dnnl_cpu, 0), dnnl_success);
    assert_int_equal(
        dnnl_stream_create(&context->stream, context->engine, dnnl_stream_default_flags),
        dnnl_success);
    assert_int_equal(dnnl_primitive_attr_create(&context->attr), dnnl_success);
    assert_int_equal(
        dnnl_primitive_attr_set_scratchpad_mode(context->attr, dnnl_scratchpad_mode_user),
        dnnl_success);
}

static void context_done(psr_onednn_context *context)
{
    dnnl_primitive_attr_destroy(context->attr);
    dnnl_stream_destroy(context->stream);
    dnnl_engine_destroy(context->engine);
}

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, count * sizeof *x);
    return x;
}

typedef struct outcome {
    psr_pass_result result;
    float *gradients, *buffers;
} outcome;

static void outcome_done(outcome *o)
{
    free(o->gradients);
    free(o->buffers);
}

/* Every convolution's value must lie as told, or the test would compare a layout with itself. */
static void assert_laid_out(const psr_onednn_exec *exec, psr_onednn_layout layout)
{
    for (uint32_t i = 0; i < exec->net->node_count; i++)
        if (layout != PSR_ONEDNN_OTHER && exec->net->nodes[i].op == PSR_OP_CONV)
            assert_int_equal(exec->values[i].layout, layout);
}

static outcome train(const psr_network *net, dnnl_data_type_t type, psr_onednn_layout layout,
                     uint32_t threads)
{
    static const uint32_t labels[BATCH] = {1, 0, 7, 2, 9, 3, 3, 8, 4, 6, 5}, samples[BATCH];
    outcome o = {.gradients = floats(net->params.length), .buffers = floats(net->buffers.length)};
    float *weights = floats(net->params.length), *images = floats(BATCH * PIXELS), *workspace;
    psr_onednn_context context;
    psr_fusion_groups groups;
    psr_onednn_exec *exec;
    psr_buckets buckets;
    psr_readiness *readiness;
    context_init(&context, type, layout, threads);
    psr_network_init(net, 1, weights, o.buffers);
    for (size_t i = 0; i < BATCH * PIXELS; i++)
        images[i] = (float)((i * 7919) % 1009) / 504 - 1;
    expect_ok(psr_buckets_plan(&net->params, 1 << 20, &buckets));
    expect_ok(psr_readiness_new(net, &buckets, &readiness));
    expect_ok(psr_fusion_groups_init(net, &groups));
    expect_ok(psr_onednn_exec_new(&context, net, &groups, "", BATCH, true, &exec));
    assert_laid_out(exec, layout);
    expect_ok(psr_arena_new(exec->buffers.bytes / sizeof(float), &workspace));
    const psr_batch batch = {images, labels, samples, BATCH, .epoch = 0, .seed = 1};
    const psr_exec_state state = {weights, o.gradients, o.buffers};
    const psr_onednn_pass pass = {workspace, &batch, &state, readiness, 0};
    psr_readiness_begin(readiness, NULL);
    expect_ok(psr_onednn_exec_train(exec, &pass, 1.0f / BATCH, &o.result));
    psr_arena_free(workspace, exec->buffers.bytes / sizeof(float));
    psr_onednn_exec_free(exec);
    psr_fusion_groups_done(&groups);
    psr_readiness_free(readiness);
    psr_buckets_done(&buckets);
    context_done(&context);
    free(weights);
    free(images);
    return o;
}

static double relative(const float *found, const float *expected, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference +=
            ((double)found[i] - (double)expected[i]) * ((double)found[i] - (double)expected[i]);
        norm += (double)expected[i] * (double)expected[i];
    }
    return sqrt(difference / norm);
}

static void assert_near(const psr_network *net, const outcome *found, const outcome *expected,
                        double value, double gradient)
{
    double loss = fabs(found->result.loss_sum / expected->result.loss_sum - 1);
    double buffers = relative(found->buffers, expected->buffers, net->buffers.length);
    double gradients = relative(found->gradients, expected->gradients, net->params.length);
    if (!(loss <= value && buffers <= value && gradients <= gradient))
        fail_msg("%s: loss off by %.3g, running statistics by %.3g, gradient by %.3g", net->name,
                 loss, buffers, gradients);
}

/* net is consumed. float32 in a layout against float32 in oneDNN's choice. Where a ReLU turns over
 * on a rounding, a gradient comes or goes: forward values are held tighter. */
static void compare_fp32(psr_network *net, psr_onednn_layout layout)
{
    outcome expected = train(net, dnnl_f32, PSR_ONEDNN_OTHER, 2);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        outcome found = train(net, dnnl_f32, layout, threads);
        assert_near(net, &found, &expected, 1e-5, 5e-2);
        outcome_done(&found);
    }
    outcome_done(&expected);
    psr_network_free(net);
}

/* net is consumed. bf16 in a layout may be as far from float32 as bf16 in oneDNN's choice is, and
 * half as far again: how far that is depends on how the network is conditioned. */
static void compare_bf16(psr_network *net, psr_onednn_layout layout)
{
    outcome truth = train(net, dnnl_f32, PSR_ONEDNN_OTHER, 2),
            chosen = train(net, dnnl_bf16, PSR_ONEDNN_OTHER, 2);
    double limit = 1.5 * relative(chosen.gradients, truth.gradients, net->params.length);
    assert_true(limit < 0.6); /* a wrong gradient is off by about 1.4 */
    for (uint32_t threads = 1; threads <= 3; threads++) {
        outcome found = train(net, dnnl_bf16, layout, threads);
        assert_near(net, &found, &truth, 2e-2, limit);
        outcome_done(&found);
    }
    outcome_done(&truth);
    outcome_done(&chosen);
    psr_network_free(net);
}

static psr_network *named(const char *model, uint32_t size, psr_shortcut shortcut)
{
    psr_network *net = NULL;
    expect_ok(psr_network_new(model, 10, 3, size, size, shortcut, &net));
    return net;
}

static void channels_last_agrees_in_float32(void **state)
{
    (void)state;
    compare_fp32(named("resnet20", 32, PSR_SHORTCUT_A), PSR_ONEDNN_CHANNELS_LAST);
    compare_fp32(named("resnet20", 32, PSR_SHORTCUT_B), PSR_ONEDNN_CHANNELS_LAST);
    compare_fp32(named("resnet18", 48, PSR_SHORTCUT_B), PSR_ONEDNN_CHANNELS_LAST);
}

static void blocks_of_16_agree_in_float32(void **state)
{
    (void)state;
    compare_fp32(named("resnet20", 32, PSR_SHORTCUT_B), PSR_ONEDNN_BLOCKED_16);
}

/* 16, 32 and 64 channels: rows of one vector, of one pair and of two. */
static void channels_last_and_blocks_agree_in_bf16(void **state)
{
    (void)state;
    static const psr_onednn_layout layouts[] = {PSR_ONEDNN_CHANNELS_LAST, PSR_ONEDNN_BLOCKED_16};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        compare_bf16(named("resnet20", 32, PSR_SHORTCUT_A), layouts[i]);
        compare_bf16(named("resnet20", 32, PSR_SHORTCUT_B), layouts[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_last_agrees_in_float32),
    };
    const struct CMUnitTest avx512[] = {
        cmocka_unit_test(blocks_of_16_agree_in_float32),
        cmocka_unit_test(channels_last_and_blocks_agree_in_bf16),
    };
    if (argc == 1)
        return cmocka_run_group_tests_name("onednn_layouts", tests, NULL, NULL);
    int status = status_before_avx512_tests(
        argc, argv, "oneDNN refuses bf16 and has but loops for blocks of 16");
    if (status != 0)
        return status;
    return cmocka_run_group_tests_name("onednn_layouts_avx512", avx512, NULL, NULL);
}
