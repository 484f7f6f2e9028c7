/* worker/pass_times.h */
#include "tests/unit/folder.h"

#include "model/played/profile.h"
#include "worker/pass_times.h"

#include <math.h>
#include <string.h>

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

/* input, linear, relu, linear: the second and the fourth have two tensors each */
static psr_network_node nodes[] = {
    {.op = PSR_OP_INPUT, .weight = PSR_NONE, .bias = PSR_NONE},
    {.op = PSR_OP_LINEAR, .weight = 0, .bias = 1},
    {.op = PSR_OP_RELU, .weight = PSR_NONE, .bias = PSR_NONE},
    {.op = PSR_OP_LINEAR, .weight = 2, .bias = 3},
};

/* Each report of the pass is so many times as long as of unit. */
static void play(psr_pass_times *times, double unit_s)
{
    psr_pass_times_begin(times);
    for (int report = 0; report < 8; report++)
        psr_pass_times_progress(times, unit_s * (1 << report));
    psr_pass_times_end(times, unit_s * 256);
}

static void times_are_medians_by_tensor(void **state)
{
    (void)state;
    psr_network net = {.name = "n", .nodes = nodes, .node_count = 4};
    psr_config config = {.batch_size = 8, .threads = 2};
    psr_pass_times *times = NULL;
    psr_profile p;
    const uint32_t shape[] = {2, 3};
    static const char *const names[] = {"a.weight", "a.bias", "b.weight", "b.bias"};
    for (size_t i = 0; i < 4; i++)
        expect_ok(psr_layout_add(&net.params, names[i], 2, shape));
    snprintf(config.record, sizeof config.record, "%s", in_folder("p.json"));
    expect_ok(psr_pass_times_new(&net, &times));
    assert_int_equal(psr_pass_times_write(times, &config, "m"), PSR_ERR_USAGE);
    assert_non_null(strstr(psr_err_detail(), "no step was recorded"));
    play(times, 1e-3);
    play(times, 5e-3);
    play(times, 1e-4); /* the median is the first */
    expect_ok(psr_pass_times_write(times, &config, "a machine"));
    expect_ok(psr_profile_read(config.record, &p));
    assert_string_equal(p.network, "n");
    assert_string_equal(p.machine, "a machine");
    assert_int_equal(p.batch, 8);
    assert_int_equal(p.threads, 2);
    assert_int_equal(p.count, 4);
    assert_int_equal(p.tensors[1].bytes, 24);
    /* forward: before each node what was computed since the last report: input 1+2, linear 4,
     * relu 8; the last linear's is with its backward pass, 16. Then relu 32, linear 64, input
     * 128, and 256 behind. */
    assert_true(near(p.tensors[0].forward_s, 0.001 * (1 + 2 + 4 + 8)));
    assert_true(near(p.tensors[2].forward_s, 0));
    assert_true(near(p.tensors[2].backward_s, 0.016));
    assert_true(near(p.tensors[0].backward_s, 0.001 * (32 + 64 + 128)));
    assert_true(p.tensors[1].forward_s == 0 && p.tensors[3].backward_s == 0);
    assert_true(near(p.rest_s, 0.256));
    assert_true(near(psr_profile_step_s(&p), 0.511));
    psr_profile_done(&p);
    psr_pass_times_free(times);
    psr_layout_done(&net.params);
}

static void the_sum_is_the_median_of_the_passes(void **state)
{
    (void)state;
    psr_network net = {.name = "n", .nodes = nodes + 1, .node_count = 1};
    psr_config config = {.batch_size = 8};
    psr_pass_times *times = NULL;
    psr_profile p;
    const uint32_t shape[] = {2, 3};
    expect_ok(psr_layout_add(&net.params, "w", 2, shape));
    expect_ok(psr_layout_add(&net.params, "b", 2, shape));
    snprintf(config.record, sizeof config.record, "%s", in_folder("p.json"));
    expect_ok(psr_pass_times_new(&net, &times));
    /* forward, backward, rest: medians 1, 1, 1, and passes of 3, 5 and 7 */
    static const double passes[3][3] = {{1, 1, 1}, {1, 3, 1}, {5, 1, 1}};
    for (int i = 0; i < 300; i++) { /* more than are kept */
        psr_pass_times_begin(times);
        psr_pass_times_progress(times, passes[i % 3][0]);
        psr_pass_times_progress(times, passes[i % 3][1]);
        psr_pass_times_end(times, passes[i % 3][2]);
    }
    expect_ok(psr_pass_times_write(times, &config, "m"));
    expect_ok(psr_profile_read(config.record, &p));
    assert_true(near(psr_profile_step_s(&p), 5));
    assert_true(near(p.rest_s, 5.0 / 3));
    psr_profile_done(&p);
    psr_pass_times_free(times);
    psr_layout_done(&net.params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(times_are_medians_by_tensor),
        IN_A_FOLDER(the_sum_is_the_median_of_the_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
