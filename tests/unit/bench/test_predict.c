/* psring predict's two models against closed formulas (docs/algorithms.md), where they are exact:
 * without latency, without what messages and bytes cost a process, with nothing to compute. */
#include "bench/predict/answer.h"
#include "bench/predict/emulate.h"
#include "bench/predict/one_link.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BITS_PER_S 1e9
#define BYTES_PER_S (BITS_PER_S / 8)

static psr_scenario scenario_of(const char *model, uint32_t hosts, uint32_t workers_per_host)
{
    psr_scenario k = {
        .hosts = hosts, .workers_per_host = workers_per_host, .bits_per_s = BITS_PER_S};
    psr_config_defaults(&k.config);
    assert_int_equal(psr_config_set(&k.config, "model", model), PSR_OK);
    assert_int_equal(psr_config_set(&k.config, "batch-size", "32"), PSR_OK);
    assert_int_equal(psr_config_set(&k.config, "window", "64"), PSR_OK);
    assert_int_equal(psr_scenario_init(&k, 1000, 3, 224, 224, NULL), PSR_OK);
    return k;
}

static psr_prediction one_link(const psr_scenario *k, psr_choice choice)
{
    psr_prediction p;
    assert_int_equal(psr_one_link_predict(k, &choice, &p), PSR_OK);
    return p;
}

static psr_prediction machines(const psr_scenario *k, psr_choice choice)
{
    psr_prediction p;
    const psr_err err = psr_emulate(k, &choice, 0, &p);
    if (err != PSR_OK)
        fail_msg("%s", psr_err_detail());
    return p;
}

static void assert_within(double value, double from, double to)
{
    if (!(value >= from && value <= to))
        fail_msg("%g is not between %g and %g", value, from, to);
}

static const psr_choice ring = {.mode = PSR_MODE_RING};

static psr_choice ps(uint32_t shards, bool dedicated)
{
    return (psr_choice){PSR_MODE_PS, shards, dedicated};
}

/* ---- the one-link model ---- */

static void the_one_link_model_of_a_ring_is_its_formula(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 64; n *= 2) {
        psr_scenario k = scenario_of("resnet50", n, 1);
        const double T = 2.0 * (n - 1) / n * psr_scenario_bytes(&k) / BYTES_PER_S;
        assert_within(one_link(&k, ring).step_s, T * (1 - 1e-9), T * (1 + 1e-9));
        psr_scenario_done(&k);
    }
}

static void the_one_link_model_of_a_ring_over_hosts_is_its_formula(void **state)
{
    psr_scenario k = scenario_of("resnet50", 2, 4);
    const double T = (7.0 / 8 + 1.0 / 2) * psr_scenario_bytes(&k) / BYTES_PER_S;
    (void)state;
    assert_within(one_link(&k, ring).step_s, T * (1 - 1e-9), T * (1 + 1e-9));
    psr_scenario_done(&k);
}

/* One shard holds all. More hold unequal parts, of which the largest counts. */
static void the_one_link_model_of_shards_is_their_formula(void **state)
{
    psr_scenario k = scenario_of("resnet50", 4, 1);
    const double M = psr_scenario_bytes(&k) / BYTES_PER_S,
                 slice = (double)k.config.slice_bytes / BYTES_PER_S;
    (void)state;
    assert_within(one_link(&k, ps(1, true)).step_s, 4 * M, 4 * M + slice * 1.01);
    assert_within(one_link(&k, ps(1, false)).step_s, 3 * M, 3 * M + slice * 1.01);
    assert_within(one_link(&k, ps(4, true)).step_s, M, 1.1 * M);
    assert_within(one_link(&k, ps(4, false)).step_s, 1.5 * M, 1.65 * M);
    psr_scenario_done(&k);
}

static void what_can_be_hidden_is(void **state)
{
    psr_scenario k = scenario_of("resnet50", 4, 1);
    (void)state;
    const double exchange_s = one_link(&k, ring).step_s;
    k.compute_s = 100 * exchange_s;
    const psr_prediction hidden = one_link(&k, ring);
    assert_within(hidden.step_s, k.compute_s, k.compute_s * 1.01);
    assert_int_equal(hidden.limit, PSR_LIMIT_COMPUTE);
    k.compute_s = exchange_s;
    const psr_prediction half = one_link(&k, ring);
    assert_true(half.least_s <= half.step_s && half.step_s <= half.most_s);
    assert_within(half.most_s, 2 * exchange_s * 0.999, 2 * exchange_s * 1.001);
    psr_scenario_done(&k);
}

/* ---- the machines ---- */

/* A slice is a quarter of a ring's chunk or less, and a few of them wait for one another. */
static void the_machines_take_as_long_in_a_ring_as_the_formula(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n *= 2) {
        psr_scenario k = scenario_of("resnet50", n, 1);
        const double T = 2.0 * (n - 1) / n * psr_scenario_bytes(&k) / BYTES_PER_S;
        assert_within(machines(&k, ring).step_s, 0.99 * T, 1.05 * T);
        psr_scenario_done(&k);
    }
}

/* Above the formula there are a few slices: at the beginning and at the end one direction is
 * idle, and where a shard's workers do not push the same slice at once it waits. */
static void the_machines_take_as_long_with_shards_as_the_formula(void **state)
{
    psr_scenario k = scenario_of("resnet50", 4, 1);
    const double M = psr_scenario_bytes(&k) / BYTES_PER_S,
                 slices = 16 * (double)k.config.slice_bytes / BYTES_PER_S;
    (void)state;
    assert_within(machines(&k, ps(1, true)).step_s, 0.99 * 4 * M, 4 * M + slices * 4);
    assert_within(machines(&k, ps(1, false)).step_s, 0.99 * 3 * M, 3 * M + slices * 3);
    assert_within(machines(&k, ps(4, true)).step_s, 0.99 * M, 1.1 * M + slices);
    assert_within(machines(&k, ps(4, false)).step_s, 0.99 * 1.5 * M, 1.65 * M + slices);
    psr_scenario_done(&k);
}

static void without_links_between_them_workers_wait_for_nothing(void **state)
{
    psr_scenario k = scenario_of("resnet18", 1, 4);
    (void)state;
    k.compute_s = 0.1;
    assert_within(machines(&k, ring).step_s, 0.1, 0.101);
    assert_within(machines(&k, ps(1, false)).step_s, 0.1, 0.101);
    psr_scenario_done(&k);
}

static void the_same_scenario_has_the_same_figures(void **state)
{
    psr_scenario k = scenario_of("resnet18", 3, 1);
    const psr_choice choices[] = {ring, ps(2, false), ps(3, true)};
    (void)state;
    k.compute_s = 0.3;
    k.latency_s = 40e-6;
    k.loss = 0.001;
    k.costs = (psr_link_costs){10e-6, 1e-10, 2e-10, 1e-10, 1e-10};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const psr_prediction a = machines(&k, choices[i]), b = machines(&k, choices[i]);
        assert_true(a.step_s == b.step_s && a.link_busy == b.link_busy &&
                    a.process_busy == b.process_busy);
    }
    psr_scenario_done(&k);
}

/* A busy process delays what it handles: no link is as slow as it. */
static void a_process_that_takes_long_for_a_byte_is_what_limits(void **state)
{
    psr_scenario k = scenario_of("resnet18", 3, 1);
    (void)state;
    k.costs.copy_s_per_byte = 1e-7;
    const psr_prediction p = machines(&k, ps(1, true));
    const double M = psr_scenario_bytes(&k);
    assert_int_equal(p.limit, PSR_LIMIT_SHARD);
    assert_within(p.step_s, 6 * M * 1e-7 * 0.99, 6 * M * 1e-7 * 1.1);
    psr_scenario_done(&k);
}

/* Four workers without a link between them: nothing else counts. */
static void hosts_that_share_a_processor_compute_in_turns(void **state)
{
    psr_scenario k = scenario_of("resnet18", 1, 4);
    (void)state;
    k.compute_s = 0.1;
    k.processors = 1;
    assert_within(machines(&k, ring).step_s, 0.4, 0.41);
    k.processors = 2;
    assert_within(machines(&k, ring).step_s, 0.2, 0.21);
    k.processors = 4;
    assert_within(machines(&k, ring).step_s, 0.1, 0.101);
    psr_scenario_done(&k);
}

/* They sleep: one processor is enough for all of them, and free for messages. */
static void hosts_that_share_a_processor_play_passes_at_once(void **state)
{
    psr_scenario k = scenario_of("resnet18", 1, 4);
    (void)state;
    k.compute_s = 0.1;
    k.processors = 1;
    assert_int_equal(psr_config_set(&k.config, "backend", "played:a.json"), PSR_OK);
    assert_within(machines(&k, ring).step_s, 0.1, 0.101);
    psr_scenario_done(&k);
}

/* It begins a step first, since its weights come first. If it were held back until the others had
 * pushed as much, its part of what they push first would come last (comm/tables/credits.h), and the
 * shard's link would carry nothing back until then. */
static void a_worker_beside_the_shard_does_not_delay_those_over_links(void **state)
{
    psr_scenario k = scenario_of("resnet20", 3, 1);
    const double M = psr_scenario_bytes(&k) / 12.5e6;
    (void)state;
    k.bits_per_s = 100e6;
    k.latency_s = 20e-6;
    k.compute_s = 0.026;
    k.config.slice_bytes = 8192;
    k.config.window = 4;
    assert_within(machines(&k, ps(1, false)).step_s, 2 * M, 1.1 * 2 * M);
    psr_scenario_done(&k);
}

/* Each frame has 66 bytes beyond 1448, and each second one is answered by one of 66. */
static void frames_and_acknowledgements_take_their_part_of_a_link(void **state)
{
    psr_scenario k = scenario_of("resnet50", 4, 1);
    (void)state;
    const double bare_s = machines(&k, ring).step_s;
    k.frame_bytes = 66;
    const double share = 1.5 * 66 / 1448;
    assert_within(machines(&k, ring).step_s, bare_s * (1 + 0.9 * share),
                  bare_s * (1 + 1.1 * share));
    psr_scenario_done(&k);
}

static void the_slowest_host_decides(void **state)
{
    psr_scenario k = scenario_of("resnet18", 4, 1);
    (void)state;
    const double alike_s = machines(&k, ring).step_s;
    k.different_hosts = 4;
    for (uint32_t h = 0; h < 4; h++) {
        k.link_of[h] = h == 2 ? 1 : 10;
        k.slow_of[h] = 1;
    }
    assert_within(machines(&k, ring).step_s, 0.9 * alike_s, alike_s * 1.01);
    k.bits_per_s = 1e12;
    k.compute_s = 0.1;
    k.slow_of[1] = 3;
    assert_within(machines(&k, ring).step_s, 0.3, 0.31);
    psr_scenario_done(&k);
}

/* Mathis et al.: 1448 bytes, 20 ms, a loss of 1%: sqrt(150) segments a round trip. */
static void a_loss_holds_a_connection_to_the_published_window(void **state)
{
    (void)state;
    assert_true(isinf(psr_link_window_of_loss(0, 0.02)));
    const double reno = 1448 * sqrt(1.5 / 0.01);
    assert_within(psr_link_window_of_loss(0.01, 1e-4), reno * 0.999, reno * 1.001);
    const double cubic = 1448 * 1.054 * pow(0.2 / 1e-4, 0.75);
    assert_within(psr_link_window_of_loss(1e-4, 0.2), cubic * 0.999, cubic * 1.001);
    psr_scenario k = scenario_of("resnet18", 2, 1);
    k.latency_s = 0.01;
    k.loss = 0.01;
    const double least = psr_scenario_bytes(&k) / (reno / 0.02);
    assert_within(machines(&k, ring).step_s, 0.9 * least, 1.3 * least);
    psr_scenario_done(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_link_model_of_a_ring_is_its_formula),
        cmocka_unit_test(the_one_link_model_of_a_ring_over_hosts_is_its_formula),
        cmocka_unit_test(the_one_link_model_of_shards_is_their_formula),
        cmocka_unit_test(what_can_be_hidden_is),
        cmocka_unit_test(the_machines_take_as_long_in_a_ring_as_the_formula),
        cmocka_unit_test(the_machines_take_as_long_with_shards_as_the_formula),
        cmocka_unit_test(without_links_between_them_workers_wait_for_nothing),
        cmocka_unit_test(the_same_scenario_has_the_same_figures),
        cmocka_unit_test(a_process_that_takes_long_for_a_byte_is_what_limits),
        cmocka_unit_test(hosts_that_share_a_processor_compute_in_turns),
        cmocka_unit_test(hosts_that_share_a_processor_play_passes_at_once),
        cmocka_unit_test(a_worker_beside_the_shard_does_not_delay_those_over_links),
        cmocka_unit_test(frames_and_acknowledgements_take_their_part_of_a_link),
        cmocka_unit_test(the_slowest_host_decides),
        cmocka_unit_test(a_loss_holds_a_connection_to_the_published_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
