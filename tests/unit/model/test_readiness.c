/* When buckets are asked for and when their gradients may leave. */
#include "model/backend.h"
#include "model/readiness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Every call of a pass as one line of text: "want 2", "ready 0", "-" for progress. */
typedef struct record {
    char text[1024];
    psr_err refuse_wanted, refuse_ready;
} record;

PSR_PRINTF(2, 3) static void append(record *r, const char *format, ...)
{
    const size_t used = strlen(r->text);
    va_list args;
    va_start(args, format);
    vsnprintf(r->text + used, sizeof(r->text) - used, format, args);
    va_end(args);
}

static psr_err on_wanted(void *context, uint32_t bucket)
{
    append(context, "want %u ", bucket);
    return ((record *)context)->refuse_wanted;
}

static psr_err on_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    append(context, fence == NULL ? "ready %u " : "ready %u behind its fence ", bucket);
    return ((record *)context)->refuse_ready;
}

static void on_progress(void *context)
{
    append(context, "- ");
}

/* Nodes: input; a (weight 40 floats); b (weight 16, bias 16); relu; c (weight 16). Arena of 96
 * floats with a at 0 (48 with padding), b at 48 and 64, c at 80. */
static psr_tensor tensors[] = {
    {.name = "a.weight", .offset = 0, .count = 40},
    {.name = "b.weight", .offset = 48, .count = 16},
    {.name = "b.bias", .offset = 64, .count = 16},
    {.name = "c.weight", .offset = 80, .count = 16},
};
static psr_network_node nodes[] = {
    {.op = PSR_OP_INPUT, .weight = PSR_NONE, .bias = PSR_NONE},
    {.op = PSR_OP_LINEAR, .weight = 0, .bias = PSR_NONE},
    {.op = PSR_OP_LINEAR, .weight = 1, .bias = 2},
    {.op = PSR_OP_RELU, .weight = PSR_NONE, .bias = PSR_NONE},
    {.op = PSR_OP_LINEAR, .weight = 3, .bias = PSR_NONE},
};
static const psr_network net = {
    .nodes = nodes,
    .node_count = 5,
    .params = {.tensors = tensors, .tensor_count = 4, .length = 96, .count = 88}};

static void run(const psr_buckets *buckets, int passes, char *text, size_t size)
{
    record r = {.text = ""};
    const psr_exec_hooks hooks = {.context = &r,
                                  .weights_wanted = on_wanted,
                                  .gradient_ready = on_ready,
                                  .progress = on_progress};
    psr_readiness *readiness = NULL;
    assert_int_equal(psr_readiness_new(&net, buckets, &readiness), PSR_OK);
    for (int pass = 0; pass < passes; pass++) {
        r.text[0] = '\0';
        psr_readiness_begin(readiness, &hooks);
        assert_false(psr_readiness_complete(readiness, false));
        for (uint32_t i = 0; i < net.node_count; i++)
            assert_int_equal(psr_readiness_forward(readiness, i), PSR_OK);
        assert_true(psr_readiness_complete(readiness, false));
        assert_false(psr_readiness_complete(readiness, true));
        append(&r, "| ");
        for (uint32_t i = net.node_count; i-- > 0;)
            assert_int_equal(psr_readiness_backward(readiness, i, NULL), PSR_OK);
        assert_true(psr_readiness_complete(readiness, true));
    }
    psr_readiness_free(readiness);
    snprintf(text, size, "%s", r.text);
}

static void a_bucket_of_one_layer_is_ready_after_that_layer(void **state)
{
    (void)state;
    psr_bucket items[] = {
        {80, 16, 3, 1, false, false}, {48, 32, 1, 2, false, false}, {0, 48, 0, 1, false, false}};
    const psr_buckets buckets = {items, 3};
    char text[1024];
    run(&buckets, 2, text, sizeof(text));
    assert_string_equal(text,
                        "- want 2 - want 1 - - want 0 - | ready 0 - - ready 1 - ready 2 - - ");
}

static void a_fused_bucket_is_ready_after_its_last_reader(void **state)
{
    (void)state;
    psr_bucket items[] = {{48, 48, 1, 3, false, false}, {0, 48, 0, 1, false, false}};
    const psr_buckets buckets = {items, 2};
    char text[1024];
    run(&buckets, 2, text, sizeof(text));
    assert_string_equal(text, "- want 1 - want 0 - - - | - - ready 0 - ready 1 - - ");
}

static void the_pieces_of_one_tensor_leave_together_in_ascending_order(void **state)
{
    (void)state;
    psr_bucket items[] = {{80, 16, 3, 1, false, false},
                          {48, 32, 1, 2, false, false},
                          {32, 16, 0, 1, true, false},
                          {16, 16, 0, 1, true, false},
                          {0, 16, 0, 1, true, false}};
    const psr_buckets buckets = {items, 5};
    char text[1024];
    run(&buckets, 1, text, sizeof(text));
    assert_string_equal(text, "- want 4 want 3 want 2 - want 1 - - want 0 - "
                              "| ready 0 - - ready 1 - ready 2 ready 3 ready 4 - - ");
}

static void a_hook_that_fails_ends_the_pass_with_its_status(void **state)
{
    (void)state;
    psr_bucket items[] = {{0, 96, 0, 4, false, false}};
    const psr_buckets buckets = {items, 1};
    record r = {.refuse_wanted = PSR_ERR_TIMEOUT, .refuse_ready = PSR_ERR_PEER};
    const psr_exec_hooks hooks = {
        .context = &r, .weights_wanted = on_wanted, .gradient_ready = on_ready};
    psr_readiness *readiness = NULL;
    assert_int_equal(psr_readiness_new(&net, &buckets, &readiness), PSR_OK);
    psr_readiness_begin(readiness, &hooks);
    assert_int_equal(psr_readiness_forward(readiness, 0), PSR_OK);
    assert_int_equal(psr_readiness_forward(readiness, 1), PSR_ERR_TIMEOUT);
    for (uint32_t i = 4; i > 1; i--)
        assert_int_equal(psr_readiness_backward(readiness, i, NULL), PSR_OK);
    assert_int_equal(psr_readiness_backward(readiness, 1, NULL), PSR_ERR_PEER);
    psr_readiness_free(readiness);
}

/* Of the node that made the buckets ready, whichever they are. */
static void a_bucket_is_reported_with_the_fence_of_its_last_reader(void **state)
{
    (void)state;
    psr_bucket items[] = {{48, 48, 1, 3, false, false}, {0, 48, 0, 1, false, false}};
    const psr_buckets buckets = {items, 2};
    record r = {.text = ""};
    const psr_exec_hooks hooks = {.context = &r, .gradient_ready = on_ready};
    psr_fence fence = {0};
    psr_readiness *readiness = NULL;
    assert_int_equal(psr_readiness_new(&net, &buckets, &readiness), PSR_OK);
    psr_readiness_begin(readiness, &hooks);
    for (uint32_t i = net.node_count; i-- > 0;)
        assert_int_equal(psr_readiness_backward(readiness, i, i == 2 ? &fence : NULL), PSR_OK);
    assert_string_equal(r.text, "ready 0 behind its fence ready 1 ");
    psr_readiness_free(readiness);
}

static void a_pass_without_hooks_is_still_counted(void **state)
{
    (void)state;
    psr_bucket items[] = {{0, 96, 0, 4, false, false}};
    const psr_buckets buckets = {items, 1};
    psr_readiness *readiness = NULL;
    assert_int_equal(psr_readiness_new(&net, &buckets, &readiness), PSR_OK);
    psr_readiness_begin(readiness, NULL);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(psr_readiness_forward(readiness, i), PSR_OK);
    for (uint32_t i = 5; i-- > 1;)
        assert_int_equal(psr_readiness_backward(readiness, i, NULL), PSR_OK);
    assert_true(psr_readiness_complete(readiness, true));
    psr_readiness_free(readiness);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_of_one_layer_is_ready_after_that_layer),
        cmocka_unit_test(a_fused_bucket_is_ready_after_its_last_reader),
        cmocka_unit_test(the_pieces_of_one_tensor_leave_together_in_ascending_order),
        cmocka_unit_test(a_hook_that_fails_ends_the_pass_with_its_status),
        cmocka_unit_test(a_bucket_is_reported_with_the_fence_of_its_last_reader),
        cmocka_unit_test(a_pass_without_hooks_is_still_counted),
    };
    return cmocka_run_group_tests_name("readiness", tests, NULL, NULL);
}
