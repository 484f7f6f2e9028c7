/* Masks that depend on the sample and nothing else of the batch. */
#include "model/dropout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define COUNT 1003 /* not a multiple of the four numbers of a block */

static const psr_batch three = {
    .samples = (const uint32_t[]){7, 8, 9}, .count = 3, .epoch = 2, .seed = 1};

static void mask(psr_batch batch, uint32_t n, uint32_t node, double drop, uint8_t keep[COUNT])
{
    memset(keep, 0xee, COUNT);
    psr_dropout_keep(&batch, n, node, drop, keep, COUNT);
}

static void a_sample_has_the_same_mask_wherever_it_stands_in_a_batch(void **state)
{
    (void)state;
    const psr_batch one = {.samples = (const uint32_t[]){9}, .count = 1, .epoch = 2, .seed = 1};
    uint8_t a[COUNT], b[COUNT];
    mask(three, 2, 4, 0.5, a);
    mask(one, 0, 4, 0.5, b);
    assert_memory_equal(a, b, COUNT);
}

static void another_sample_node_epoch_or_seed_has_another_mask(void **state)
{
    (void)state;
    psr_batch epoch = three, seed = three;
    epoch.epoch = 3;
    seed.seed = 2;
    uint8_t a[COUNT], b[COUNT];
    mask(three, 0, 4, 0.5, a);
    mask(three, 1, 4, 0.5, b);
    assert_memory_not_equal(a, b, COUNT);
    mask(three, 0, 5, 0.5, b);
    assert_memory_not_equal(a, b, COUNT);
    mask(epoch, 0, 4, 0.5, b);
    assert_memory_not_equal(a, b, COUNT);
    mask(seed, 0, 4, 0.5, b);
    assert_memory_not_equal(a, b, COUNT);
}

static uint32_t kept(double drop)
{
    uint8_t keep[COUNT];
    uint32_t sum = 0;
    mask(three, 0, 4, drop, keep);
    for (int i = 0; i < COUNT; i++) {
        assert_in_range(keep[i], 0, 1);
        sum += keep[i];
    }
    return sum;
}

static void the_share_that_is_kept_is_one_minus_drop(void **state)
{
    (void)state;
    /* Five standard deviations: sqrt(1003 * 0.25 * 0.75) = 13.7. */
    assert_in_range(kept(0.25), 752 - 69, 752 + 69);
    assert_in_range(kept(0.75), 251 - 69, 251 + 69);
    assert_int_equal(kept(0), COUNT);
    assert_int_equal(kept(1), 0);
}

static void the_scale_keeps_the_expectation(void **state)
{
    (void)state;
    assert_true(psr_dropout_scale(0) == 1);
    assert_true(psr_dropout_scale(0.5) == 2);
    assert_true(psr_dropout_scale(1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_has_the_same_mask_wherever_it_stands_in_a_batch),
        cmocka_unit_test(another_sample_node_epoch_or_seed_has_another_mask),
        cmocka_unit_test(the_share_that_is_kept_is_one_minus_drop),
        cmocka_unit_test(the_scale_keeps_the_expectation),
    };
    return cmocka_run_group_tests_name("dropout", tests, NULL, NULL);
}
