#include "tests/unit/expect.h"

#include "model/optimizers/ema.h"
#include "model/optimizers/optimizer.h"
#include "tests/golden/ema.h"
#include "tests/golden/optimizers.h"

#include <math.h>
#include <string.h>

static psr_config config_of(uint32_t every, uint64_t warmup)
{
    return (psr_config){
        .optimizer = PSR_OPTIMIZER_SGD, .ema = {GOLDEN_DECAY, every}, .warmup = {.steps = warmup}};
}

/* ---- PyTorch's numbers ---- */

/* first: the update from which the average is torch's; before it torch's has not begun. */
static void compare(const psr_config *config, const float golden[GOLDEN_UPDATES][GOLDEN_COUNT],
                    uint64_t first)
{
    psr_layout layout = {0};
    uint32_t slot;
    psr_optimizer *optimizer = NULL;
    float weights[48] = {0}, gradients[48] = {0};
    expect_ok(psr_layout_add(&layout, "w", 2, (uint32_t[]){1, GOLDEN_COUNT}));
    expect_ok(psr_optimizer_new(config, &layout, &optimizer));
    assert_true(psr_optimizer_ema_slot(config, &slot));
    assert_string_equal(psr_optimizer_slot_name(optimizer, slot), PSR_EMA_SLOT);
    const float *average = psr_optimizer_slot(optimizer, slot);
    memcpy(weights, golden_start[0], sizeof golden_start);
    for (uint64_t u = 1; u <= GOLDEN_UPDATES; u++) {
        memcpy(gradients, golden_gradients[u - 1], sizeof golden_gradients[0]);
        psr_optimizer_update(optimizer, weights, gradients, 0, layout.length, (float)GOLDEN_LR, u);
        if (u < first)
            assert_memory_equal(average, weights, sizeof golden_start);
        for (int i = 0; i < GOLDEN_COUNT && u >= first; i++) {
            const double distance = fabs((double)average[i] - (double)golden[u - 1][i]);
            /* PyTorch may fuse a multiplication and an addition */
            if (!(distance <= ldexp(fabs((double)golden[u - 1][i]) + 1, -22)))
                fail_msg("update %d, weight %d: %a, torch has %a", (int)u, i, (double)average[i],
                         (double)golden[u - 1][i]);
        }
    }
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void the_average_is_that_of_averaged_model(void **state)
{
    (void)state;
    const psr_config each = config_of(1, 0), second = config_of(2, 0);
    compare(&each, golden_ema, 1);
    compare(&second, golden_ema_second, 2);
}

static void while_the_rate_warms_up_it_is_the_weights_as_in_torchvision(void **state)
{
    (void)state;
    const psr_config config = config_of(1, 3);
    compare(&config, golden_ema_warmup, 1);
}

/* ---- what an update does to it ---- */

static void it_moves_with_every_nth_update_and_with_no_other(void **state)
{
    (void)state;
    const psr_config config = config_of(3, 0);
    for (uint64_t number = 1; number <= 12; number++) {
        float value = 1, average = 0;
        psr_ema_follow(&config, number, &value, &average, 1);
        if (number <= 3)
            assert_true(average == 1);
        else if (number % 3 == 0)
            assert_true(fabsf(average - 0.1f) < 1e-7f);
        else
            assert_true(average == 0);
    }
}

static void the_first_averaging_after_the_warm_up_is_a_copy(void **state)
{
    (void)state;
    const psr_config config = config_of(4, 6); /* steps 1 to 6: averagings 4 and, after it, 8 */
    for (uint64_t number = 1; number <= 12; number++) {
        float value = 1, average = 0;
        psr_ema_follow(&config, number, &value, &average, 1);
        assert_true(number <= 8 ? average == 1 : number == 12 ? average < 1 : average == 0);
    }
}

/* How ranges are cut changes no bit. */
static void pieces_give_the_same_bits(void **state)
{
    (void)state;
    const psr_config config = config_of(1, 0);
    float values[GOLDEN_COUNT], whole[GOLDEN_COUNT], cut[GOLDEN_COUNT];
    memcpy(values, golden_start[0], sizeof values);
    memcpy(whole, golden_gradients[0], sizeof whole);
    memcpy(cut, whole, sizeof cut);
    psr_ema_follow(&config, 2, values, whole, GOLDEN_COUNT);
    for (size_t at = 0, count; at < GOLDEN_COUNT; at += count) {
        count = at + 5 <= GOLDEN_COUNT ? 5 : GOLDEN_COUNT - at;
        psr_ema_follow(&config, 2, values + at, cut + at, count);
    }
    assert_memory_equal(whole, cut, sizeof whole);
    assert_true(memcmp(whole, golden_gradients[0], sizeof whole) != 0);
}

static void without_it_there_is_no_slot_and_with_it_one_after_the_rules_own(void **state)
{
    (void)state;
    uint32_t slot = 77;
    psr_config config = config_of(1, 0);
    config.momentum = 0.9;
    assert_true(psr_optimizer_ema_slot(&config, &slot));
    assert_int_equal(slot, 1);
    config.ema.decay = 0;
    assert_false(psr_optimizer_ema_slot(&config, &slot));
    psr_layout layout = {0};
    psr_optimizer *optimizer = NULL;
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){4}));
    expect_ok(psr_optimizer_new(&config, &layout, &optimizer));
    assert_int_equal(psr_optimizer_slot_count(optimizer), 1);
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_average_is_that_of_averaged_model),
        cmocka_unit_test(while_the_rate_warms_up_it_is_the_weights_as_in_torchvision),
        cmocka_unit_test(it_moves_with_every_nth_update_and_with_no_other),
        cmocka_unit_test(the_first_averaging_after_the_warm_up_is_a_copy),
        cmocka_unit_test(pieces_give_the_same_bits),
        cmocka_unit_test(without_it_there_is_no_slot_and_with_it_one_after_the_rules_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
