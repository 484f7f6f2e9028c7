/* model/networks/network_memory.h: counted by hand. What runs really take is in docs/doctor.md. */
#include "tests/unit/expect.h"

#include "model/networks/network_memory.h"

#define BASE_BYTES (40ull << 20)

static psr_network_memory memory_of(const char *model, uint32_t channels, uint32_t side,
                                    uint32_t states)
{
    psr_network *net = NULL;
    expect_ok(psr_network_new(model, 10, channels, side, side, PSR_SHORTCUT_A, &net));
    psr_network_memory memory = psr_network_memory_of(net, states);
    psr_network_free(net);
    return memory;
}

/* 784 - 512 - 512 - 10: its arena ends each tensor at a multiple of 16 floats. */
static void a_perceptron_takes_its_arrays_and_its_layers_outputs(void **state)
{
    (void)state;
    const uint64_t arena = 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 16;
    const uint64_t kept = 784 + 512 + 512 + 10, largest = 784;
    for (uint32_t states = 0; states <= 2; states++) {
        psr_network_memory memory = memory_of("mlp", 1, 28, states);
        assert_int_equal(memory.fixed_bytes, BASE_BYTES + (3 + states) * 4 * arena);
        assert_int_equal(memory.sample_bytes, 4 * (kept + 2 * largest));
    }
}

/* Convolutions, pools and linear layers keep what they make; activations, dropout and flattening
 * change it in place. */
static void what_is_made_in_place_is_not_counted(void **state)
{
    (void)state;
    psr_network_memory memory = memory_of("convnet", 1, 28, 1);
    const uint64_t kept = 28 * 28 + 10 * 24 * 24 + 10 * 12 * 12 + 20 * 8 * 8 + 20 * 4 * 4 + 50 + 10;
    assert_int_equal(memory.sample_bytes, 4 * (kept + 2 * 10 * 24 * 24));
}

/* Four times the pixels: four times the values, but for the head's few. */
static void a_sample_grows_with_its_pixels_and_the_rest_does_not(void **state)
{
    (void)state;
    const psr_network_memory small = memory_of("resnet50", 3, 64, 1),
                             large = memory_of("resnet50", 3, 128, 1);
    assert_int_equal(small.fixed_bytes, large.fixed_bytes);
    assert_in_range(large.sample_bytes, 4 * small.sample_bytes - (64 << 10),
                    4 * small.sample_bytes);
}

/* A convnet of one rank with sgd has one array; what options add is counted in arrays as long as
 * the arena, in batches that are loaded ahead, and in halves of values. */
static void options_add_the_arrays_that_they_need(void **state)
{
    (void)state;
    psr_network *net = NULL;
    psr_config config;
    expect_ok(psr_network_new("convnet", 10, 1, 28, 28, PSR_SHORTCUT_A, &net));
    psr_config_defaults(&config);
    const uint64_t array = 4 * (uint64_t)net->params.length, loaded = 5 * 4 * 28 * 28;
    const psr_network_memory plain = psr_network_memory_of(net, 0);
    config.momentum = 0;
    assert_int_equal(psr_network_memory_for(net, &config, false).fixed_bytes, plain.fixed_bytes);
    config.momentum = 0.9;
    psr_network_memory memory = psr_network_memory_for(net, &config, false);
    assert_int_equal(memory.fixed_bytes, plain.fixed_bytes + array);
    assert_int_equal(memory.sample_bytes, plain.sample_bytes + loaded);
    assert_int_equal(psr_network_memory_for(net, &config, true).fixed_bytes, plain.fixed_bytes);
    config.mode = PSR_MODE_RING; /* whose workers have it themselves */
    assert_int_equal(psr_network_memory_for(net, &config, true).fixed_bytes,
                     plain.fixed_bytes + array);
    config.mode = PSR_MODE_PS;
    expect_ok(psr_config_set(&config, "ema", "0.9"));
    assert_int_equal(psr_network_memory_for(net, &config, false).fixed_bytes,
                     plain.fixed_bytes + 2 * array);
    expect_ok(psr_config_set(&config, "ema", "none"));
    config.accumulate = 2;
    assert_int_equal(psr_network_memory_for(net, &config, false).fixed_bytes,
                     plain.fixed_bytes + 2 * array);
    config.accumulate = 5;
    config.optimizer = PSR_OPTIMIZER_ADAM;
    assert_int_equal(psr_network_memory_for(net, &config, false).fixed_bytes,
                     plain.fixed_bytes + 4 * array);
    config.mode = PSR_MODE_LOCAL;
    config.workers = 3;
    assert_int_equal(psr_network_memory_for(net, &config, false).fixed_bytes,
                     plain.fixed_bytes + 8 * array);
    config.precision = PSR_PRECISION_BF16;
    assert_int_equal(psr_network_memory_for(net, &config, false).sample_bytes,
                     plain.sample_bytes / 2 + loaded);
    psr_network_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_perceptron_takes_its_arrays_and_its_layers_outputs),
        cmocka_unit_test(what_is_made_in_place_is_not_counted),
        cmocka_unit_test(options_add_the_arrays_that_they_need),
        cmocka_unit_test(a_sample_grows_with_its_pixels_and_the_rest_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
