/* What runs over the arena: the same bits as the CPU's. */
#include "base/arrays/finite.h"
#include "model/optimizers/adams.h"

#include "tests/unit/model/cuda/kernel_orders.h"

static const size_t counts[] = {1, 3, 8, 2077};
#define COUNTS (sizeof counts / sizeof *counts)

/* skip: how many floats an array begins behind a multiple of 16 bytes. */
static float *shifted(const float *x, size_t count, size_t skip)
{
    float *y = room((count + 4) * sizeof *y);
    y += (4 - (uintptr_t)y / sizeof *y % 4 + skip) % 4;
    return memcpy(y, x, count * sizeof *y);
}

static void play_sgd(size_t count, double momentum, bool nesterov, double decay, size_t skip)
{
    psr_config config = {.momentum = momentum, .nesterov = nesterov};
    const float *w = floats(count), *g = floats(count), *v = floats(count);
    const size_t bytes = count * sizeof *w;
    float *right_w = copy_of(w, bytes), *right_v = copy_of(v, bytes);
    const psr_update update = {.weights = right_w,
                               .gradients = g,
                               .slots = {right_v},
                               .count = count,
                               .lr = 0.1f,
                               .decay = decay,
                               .number = 3};
    psr_rule_sgd.apply(&config, &update);
    const psr_cuda_sgd_args args = {.w = shifted(w, count, 1),
                                    .g = shifted(g, count, skip),
                                    .momentum_buffer = momentum != 0 ? shifted(v, count, 1) : NULL,
                                    .lr = 0.1f,
                                    .momentum = (float)momentum,
                                    .decay = (float)decay,
                                    .nesterov = nesterov,
                                    .count = count};
    if (momentum != 0)
        PLAY(sgd, &args, OVER(args.w, right_w, bytes, w),
             OVER(args.momentum_buffer, right_v, bytes, v));
    else
        PLAY(sgd, &args, OVER(args.w, right_w, bytes, w));
}

static void an_update_of_sgd_has_the_cpus_bits(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t skip = 0; skip < 2; skip++) {
            play_sgd(counts[c], 0, false, 0, skip);
            play_sgd(counts[c], 0, false, 1e-3, skip);
            play_sgd(counts[c], 0.9, false, 1e-4, skip);
            play_sgd(counts[c], 0.9, true, 1e-4, skip);
        }
}

static void play_adam(size_t count, bool decoupled, double beta1, uint64_t number, size_t skip)
{
    const psr_config config = {.adam_beta1 = beta1, .adam_beta2 = 0.999, .adam_epsilon = 1e-8};
    const float *w = floats(count), *g = floats(count), *m = floats(count);
    float *v = floats(count);
    for (size_t i = 0; i < count; i++)
        v[i] = fabsf(v[i]);
    const size_t bytes = count * sizeof *w;
    float *right_w = copy_of(w, bytes), *right_m = copy_of(m, bytes), *right_v = copy_of(v, bytes);
    const double decay = 0.01;
    const psr_update update = {.weights = right_w,
                               .gradients = g,
                               .slots = {right_m, right_v},
                               .count = count,
                               .lr = 1e-3f,
                               .decay = decay,
                               .number = number};
    (decoupled ? psr_rule_adamw : psr_rule_adam).apply(&config, &update);
    const psr_adams_factors f = psr_adams_factors_of(&config, &update);
    const psr_cuda_adam_args args = {.w = shifted(w, count, 2),
                                     .m = shifted(m, count, 2),
                                     .v = shifted(v, count, skip),
                                     .g = shifted(g, count, 2),
                                     .mean_take = f.mean_take,
                                     .square_keep = f.square_keep,
                                     .square_take = f.square_take,
                                     .correction = f.correction,
                                     .step = f.step,
                                     .epsilon = f.epsilon,
                                     .decay = decoupled ? 0 : (float)decay,
                                     .keep =
                                         decoupled ? (float)(1.0 - (double)update.lr * decay) : 1,
                                     .count = count};
    PLAY(adam, &args, OVER(args.w, right_w, bytes, w), OVER(args.m, right_m, bytes, m),
         OVER(args.v, right_v, bytes, v));
}

static void an_update_of_adam_has_the_cpus_bits(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t skip = 2; skip < 4; skip++) {
            play_adam(counts[c], false, 0.9, 1, skip);
            play_adam(counts[c], true, 0.9, 7, skip);
            play_adam(counts[c], false, 0.3, 2, skip); /* the other end of the lerp */
        }
}

static void what_is_not_finite_is_found_wherever_it_is(void **state)
{
    (void)state;
    const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f};
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t i = 0; i < 16; i++) {
            const size_t count = counts[c], bytes = count * sizeof(float);
            const float factor = i % 3 == 0 ? 1 : i % 3 == 1 ? 0.0625f : 2;
            float *x = floats(count), *right = room(bytes);
            if (i % 4 != 0)
                x[i * 131 % count] = odd[i / 4];
            for (size_t k = 0; k < count; k++)
                right[k] = x[k] * factor;
            const uint32_t none = 0, found = !psr_finite(right, count);
            uint32_t not_finite;
            const psr_cuda_finite_args args = {shifted(x, count, i % 4), factor, &not_finite,
                                               count};
            PLAY(finite, &args, OVER(args.x, right, bytes, x),
                 OVER(&not_finite, &found, sizeof found, &none));
            const uint32_t known = 1; /* it stays, whatever comes later */
            PLAY(finite, &args, OVER(args.x, right, bytes, x),
                 OVER(&not_finite, &known, sizeof known, &known));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_TEST(an_update_of_sgd_has_the_cpus_bits),
        KERNEL_TEST(an_update_of_adam_has_the_cpus_bits),
        KERNEL_TEST(what_is_not_finite_is_found_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
