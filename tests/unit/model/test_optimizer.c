#include "tests/unit/expect.h"

#include "base/rng.h"
#include "model/optimizers/optimizer.h"
#include "tests/golden/optimizers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The test's own configuration: only what an optimizer reads. */
static psr_config config_of(psr_optimizer_kind kind)
{
    return (psr_config){.optimizer = kind,
                        .adam_beta1 = 0.9,
                        .adam_beta2 = 0.999,
                        .adam_epsilon = 1e-8,
                        .lars_trust = 0.02,
                        .rmsprop_alpha = 0.99,
                        .rmsprop_epsilon = 1e-8};
}

static psr_optimizer *optimizer_of(const psr_config *config, const psr_layout *layout)
{
    psr_optimizer *optimizer = NULL;
    expect_ok(psr_optimizer_new(config, layout, &optimizer));
    return optimizer;
}

/* ---- PyTorch's numbers ---- */

/* Distance in units of the last place of the largest weight so far: what cancels later keeps its
 * error. */
static double ulps(float ours, float theirs, float largest)
{
    return fabs((double)ours - (double)theirs) / ldexp(1.0, ilogbf(largest) - 23);
}

/* Runs the golden updates and compares every weight after every update. */
static void compare(const psr_config *config, const float golden[GOLDEN_UPDATES][GOLDEN_COUNT],
                    double tolerance_ulps)
{
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 2, (uint32_t[]){1, GOLDEN_COUNT}));
    psr_optimizer *optimizer = optimizer_of(config, &layout);
    float weights[48] = {0}, gradients[48] = {0}, largest[GOLDEN_COUNT];
    memcpy(weights, golden_start[0], sizeof golden_start);
    for (int i = 0; i < GOLDEN_COUNT; i++)
        largest[i] = fabsf(weights[i]);
    for (uint64_t u = 0; u < GOLDEN_UPDATES; u++) {
        memcpy(gradients, golden_gradients[u], sizeof golden_gradients[u]);
        if (psr_optimizer_whole_tensors(optimizer))
            psr_optimizer_update_tensor(optimizer, weights, gradients, 0, (float)GOLDEN_LR, u + 1);
        else
            psr_optimizer_update(optimizer, weights, gradients, 0, layout.length, (float)GOLDEN_LR,
                                 u + 1);
        for (int i = 0; i < GOLDEN_COUNT; i++) {
            largest[i] = fmaxf(largest[i], fabsf(golden[u][i]));
            double distance = ulps(weights[i], golden[u][i], largest[i]);
            if (!(distance <= tolerance_ulps))
                fail_msg("update %d, weight %d: %a instead of %a, %.1f units of the last place",
                         (int)u + 1, i, (double)weights[i], (double)golden[u][i], distance);
        }
        for (int i = GOLDEN_COUNT; i < 48; i++)
            assert_true(weights[i] == 0); /* padding */
    }
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void sgd_is_pytorchs_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_SGD);
    compare(&config, golden_sgd, 4);
    config.weight_decay = 0.01;
    compare(&config, golden_sgd_decay, 4);
}

static void sgd_with_momentum_is_pytorchs_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_SGD);
    config.momentum = 0.9;
    config.weight_decay = 1e-4;
    compare(&config, golden_momentum, 4);
}

static void sgd_with_nesterov_momentum_is_pytorchs_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_SGD);
    config.momentum = 0.9;
    config.weight_decay = 1e-4;
    config.nesterov = true;
    compare(&config, golden_nesterov, 4);
}

static void adam_is_pytorchs_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_ADAM);
    compare(&config, golden_adam, 4);
    config.weight_decay = 0.01;
    config.adam_beta1 = 0.4; /* 1 - beta1 above one half: lerp's other end */
    config.adam_beta2 = 0.99;
    config.adam_epsilon = 1e-6;
    compare(&config, golden_adam_decay, 4);
}

static void lars_is_the_papers_formula_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_LARS);
    config.momentum = 0.9;
    config.weight_decay = 1e-3;
    compare(&config, golden_lars, 4);
}

static void adamw_is_pytorchs_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_ADAMW);
    config.weight_decay = 0.01;
    compare(&config, golden_adamw, 4);
    config.weight_decay = 0.1;
    config.adam_beta1 = 0.4;
    config.adam_beta2 = 0.99;
    config.adam_epsilon = 1e-6;
    compare(&config, golden_adamw_betas, 4);
}

static void rmsprop_is_pytorchs_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_RMSPROP);
    config.weight_decay = 0.01;
    compare(&config, golden_rmsprop, 4);
    config.weight_decay = 1e-4;
    config.rmsprop_alpha = 0.9;
    config.rmsprop_epsilon = 0.03;
    config.momentum = 0.9;
    compare(&config, golden_rmsprop_momentum, 4);
}

static void centered_rmsprop_is_pytorchs(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_RMSPROP);
    config.rmsprop_alpha = 0.9;
    config.rmsprop_epsilon = 1e-3;
    config.rmsprop_centered = true;
    compare(&config, golden_rmsprop_centered, 4);
    config.momentum = 0.5;
    compare(&config, golden_rmsprop_both, 4);
}

static void lamb_is_the_papers_formula_within_4_ulp(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_OPTIMIZER_LAMB);
    config.adam_epsilon = 1e-6;
    config.weight_decay = 0.01;
    compare(&config, golden_lamb, 4);
}

/* ---- bits ---- */

enum { MANY = 10007 };

static void fill(float *values, size_t count, uint32_t stream)
{
    psr_rng_at at = {.seed = 9, .purpose = PSR_RNG_TEST, .layer = stream};
    for (size_t i = 0; i < count; i += 2) {
        double normal[2];
        psr_rng_normal_pair(at, (uint32_t)(i / 2), normal);
        values[i] = (float)normal[0];
        if (i + 1 < count)
            values[i + 1] = (float)normal[1];
    }
}

static void the_vector_versions_round_as_the_formula_written_out(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){MANY}));
    static float weights[MANY + 16], gradients[MANY + 16], w[MANY], v[MANY];
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        psr_config config = config_of(PSR_OPTIMIZER_SGD);
        config.momentum = 0.9;
        config.weight_decay = 1e-4;
        config.nesterov = nesterov;
        const float lr = 0.1f, decay = 1e-4f, momentum = 0.9f;
        psr_optimizer *optimizer = optimizer_of(&config, &layout);
        fill(weights, MANY, 1);
        memcpy(w, weights, sizeof w);
        memset(v, 0, sizeof v);
        for (uint32_t u = 0; u < 3; u++) {
            fill(gradients, MANY, 2 + u);
            psr_optimizer_update(optimizer, weights, gradients, 0, MANY, lr, u + 1);
            for (size_t i = 0; i < MANY; i++) {
                float decayed = decay * w[i];
                float d = gradients[i] + decayed;
                float kept = momentum * v[i];
                v[i] = kept + d;
                float ahead = momentum * v[i];
                float step = nesterov ? d + ahead : v[i];
                float moved = lr * step;
                w[i] = w[i] - moved;
            }
            assert_memory_equal(weights, w, sizeof w);
            assert_memory_equal(psr_optimizer_slot(optimizer, 0), v, sizeof v);
        }
        psr_optimizer_free(optimizer);
    }
    psr_layout_done(&layout);
}

static void how_ranges_are_cut_changes_no_bit(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){MANY}));
    static float whole[MANY + 16], pieces[MANY + 16], gradients[MANY + 16];
    static const psr_optimizer_kind kinds[] = {PSR_OPTIMIZER_SGD, PSR_OPTIMIZER_ADAM,
                                               PSR_OPTIMIZER_ADAMW, PSR_OPTIMIZER_RMSPROP};
    for (int k = 0; k < 4; k++) {
        psr_config config = config_of(kinds[k]);
        config.rmsprop_centered = true;
        config.momentum = 0.9;
        config.weight_decay = 1e-4;
        psr_optimizer *a = optimizer_of(&config, &layout), *b = optimizer_of(&config, &layout);
        fill(whole, MANY, 1);
        memcpy(pieces, whole, sizeof whole);
        psr_rng_at at = {.seed = 4, .purpose = PSR_RNG_TEST};
        uint64_t element = 0;
        for (uint32_t u = 0; u < 5; u++) {
            fill(gradients, MANY, 2 + u);
            psr_optimizer_update(a, whole, gradients, 0, layout.length, 0.01f, u + 1);
            for (size_t offset = 0; offset < layout.length;) {
                size_t length = 1 + psr_rng_below(at, &element, 700);
                length = length < layout.length - offset ? length : layout.length - offset;
                if (length % 2)
                    psr_optimizer_update(b, pieces, gradients, offset, length, 0.01f, u + 1);
                else
                    psr_optimizer_update_run(b, pieces, gradients + offset, offset, length, 0.01f,
                                             u + 1);
                offset += length;
            }
            assert_memory_equal(whole, pieces, layout.length * sizeof *whole);
        }
        psr_optimizer_free(a);
        psr_optimizer_free(b);
    }
    psr_layout_done(&layout);
}

static void an_update_touches_its_range_only(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){64}));
    psr_config config = config_of(PSR_OPTIMIZER_ADAM);
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    float weights[64], before[64], gradients[64];
    fill(weights, 64, 1);
    fill(gradients, 64, 2);
    memcpy(before, weights, sizeof weights);
    psr_optimizer_update(optimizer, weights, gradients, 16, 32, 0.01f, 1);
    for (size_t i = 0; i < 64; i++) {
        bool inside = i >= 16 && i < 48;
        assert_int_equal(weights[i] != before[i], inside);
        for (uint32_t slot = 0; slot < 2; slot++)
            assert_int_equal(psr_optimizer_slot(optimizer, slot)[i] != 0, inside);
    }
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void a_run_goes_on_from_its_slots_with_the_same_bits(void **state)
{
    (void)state;
    static const psr_optimizer_kind kinds[] = {PSR_OPTIMIZER_SGD,  PSR_OPTIMIZER_ADAM,
                                               PSR_OPTIMIZER_LARS, PSR_OPTIMIZER_ADAMW,
                                               PSR_OPTIMIZER_LAMB, PSR_OPTIMIZER_RMSPROP};
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 2, (uint32_t[]){10, 10}));
    for (int k = 0; k < 6; k++) {
        psr_config config = config_of(kinds[k]);
        config.momentum = 0.9;
        config.rmsprop_centered = true;
        psr_optimizer *first = optimizer_of(&config, &layout),
                      *second = optimizer_of(&config, &layout);
        float a[112] = {0}, b[112] = {0}, gradients[112] = {0};
        fill(a, 100, 1);
        fill(gradients, 100, 2);
        for (uint64_t u = 1; u <= 3; u++)
            psr_optimizer_update_tensor(first, a, gradients, 0, 0.01f, u);
        memcpy(b, a, sizeof a);
        assert_int_equal(psr_optimizer_slot_count(first), psr_optimizer_slot_count(second));
        for (uint32_t slot = 0; slot < psr_optimizer_slot_count(first); slot++)
            memcpy(psr_optimizer_slot(second, slot), psr_optimizer_slot(first, slot), sizeof a);
        for (uint64_t u = 4; u <= 6; u++) {
            psr_optimizer_update_tensor(first, a, gradients, 0, 0.01f, u);
            psr_optimizer_update_tensor(second, b, gradients, 0, 0.01f, u);
        }
        assert_memory_equal(a, b, sizeof a);
        psr_optimizer_free(first);
        psr_optimizer_free(second);
    }
    psr_layout_done(&layout);
}

/* ---- decay ---- */

static void batch_norm_and_biases_are_spared_however_ranges_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t rank, kinds; /* by which it is spared */
    } tensors[] = {{"conv1.weight", 4, 0},
                   {"bn1.weight", 1, PSR_SPARE_NORMS},
                   {"bn1.bias", 1, PSR_SPARE_NORMS | PSR_SPARE_BIASES},
                   {"fc.weight", 2, 0},
                   {"fc.bias", 1, PSR_SPARE_BIASES}};
    psr_layout layout = {0};
    for (size_t t = 0; t < 5; t++)
        expect_ok(psr_layout_add(&layout, tensors[t].name, tensors[t].rank,
                                 (uint32_t[]){20, tensors[t].rank > 1 ? 3 : 1, 1, 1}));
    float weights[512], gradients[512] = {0};
    for (uint32_t kinds = 0; kinds < 4; kinds++)
        for (size_t cut = 16; cut <= 512; cut *= 2) {
            psr_config config = config_of(PSR_OPTIMIZER_SGD);
            config.weight_decay = 0.5;
            config.no_decay = kinds;
            psr_optimizer *optimizer = optimizer_of(&config, &layout);
            for (size_t i = 0; i < 512; i++)
                weights[i] = 1;
            for (size_t at = 0; at < layout.length; at += cut)
                psr_optimizer_update(optimizer, weights, gradients, at,
                                     layout.length - at < cut ? layout.length - at : cut, 1, 1);
            for (size_t t = 0; t < 5; t++)
                for (size_t i = 0; i < layout.tensors[t].count; i++)
                    assert_true(weights[layout.tensors[t].offset + i] ==
                                ((tensors[t].kinds & kinds) != 0 ? 1.0f : 0.5f));
            psr_optimizer_free(optimizer);
        }
    psr_layout_done(&layout);
}

static void a_factor_multiplies_the_rate_of_its_tensors_wherever_updates_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float factor, decay;
    } tensors[] = {{"conv.weight", 1, 0.0625f},
                   {"bn.weight", 0, 0},
                   {"bn.bias", 8, 0.5f},
                   {"fc.bias", 0.25f, 0}};
    psr_layout layout = {0};
    for (size_t t = 0; t < 4; t++)
        expect_ok(psr_layout_add(&layout, tensors[t].name, 1, (uint32_t[]){20}));
    float weights[512], gradients[512];
    for (size_t i = 0; i < 512; i++)
        gradients[i] = 1;
    for (size_t cut = 16; cut <= 512; cut *= 2) {
        psr_config config = config_of(PSR_OPTIMIZER_SGD);
        config.momentum = 0;
        config.weight_decay = 0.0625;
        strcpy(config.lr_factor, "bn.weight=0,bn.*=8,*.bias=0.25");
        strcpy(config.decay_factor, "fc.*=0,bn.bias=8");
        psr_optimizer *optimizer = optimizer_of(&config, &layout);
        for (size_t i = 0; i < 512; i++)
            weights[i] = 16;
        for (size_t at = 0; at < layout.length; at += cut)
            psr_optimizer_update(optimizer, weights, gradients, at,
                                 layout.length - at < cut ? layout.length - at : cut, 0.5f, 1);
        for (size_t t = 0; t < 4; t++)
            for (size_t i = 0; i < layout.tensors[t].count; i++)
                assert_true(weights[layout.tensors[t].offset + i] ==
                            16 - 0.5f * tensors[t].factor * (1 + 16 * tensors[t].decay));
        psr_optimizer_free(optimizer);
    }
    psr_layout_done(&layout);
}

/* ---- LARS ---- */

/* Blocks of 4096, eight lanes in each: the header's definition, written out once more. */
static double norm_by_definition(const float *x, size_t count)
{
    double sum = 0;
    for (size_t block = 0; block < count; block += 4096) {
        double lane[8] = {0};
        for (size_t i = block; i < count && i < block + 4096; i++)
            lane[(i - block) % 8] += (double)x[i] * x[i];
        sum += ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
               ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    }
    return sqrt(sum);
}

static void lars_scales_a_matrix_by_its_norms_and_a_vector_by_nothing(void **state)
{
    (void)state;
    enum { VECTOR = 40 };
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "matrix", 2, (uint32_t[]){MANY, 1}));
    expect_ok(psr_layout_add(&layout, "vector", 1, (uint32_t[]){VECTOR}));
    const size_t vector = layout.tensors[1].offset;
    static float weights[MANY + 128], gradients[MANY + 128], before[MANY + 128];
    fill(weights, layout.length, 1);
    fill(gradients, layout.length, 2);
    memcpy(before, weights, sizeof weights);
    psr_config config = config_of(PSR_OPTIMIZER_LARS);
    config.weight_decay = 5e-4;
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    psr_optimizer_update_tensor(optimizer, weights, gradients, 0, 0.1f, 1);
    psr_optimizer_update_tensor(optimizer, weights, gradients, 1, 0.1f, 1);

    double w_norm = norm_by_definition(before, MANY), g_norm = norm_by_definition(gradients, MANY);
    float rate = (float)((double)0.1f * (0.02 * w_norm / (g_norm + 5e-4 * w_norm)));
    for (size_t i = 0; i < MANY; i++) {
        float decayed = 5e-4f * before[i];
        float v = rate * (gradients[i] + decayed);
        assert_true(weights[i] == before[i] - v);
    }
    for (size_t i = vector; i < vector + VECTOR; i++) {
        float v = 0.1f * gradients[i];
        assert_true(weights[i] == before[i] - v);
    }
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void lars_takes_the_plain_rate_where_a_norm_is_zero(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 2, (uint32_t[]){4, 4}));
    psr_config config = config_of(PSR_OPTIMIZER_LARS);
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    float weights[16] = {0}, gradients[16];
    fill(gradients, 16, 1);
    psr_optimizer_update_tensor(optimizer, weights, gradients, 0, 0.5f, 1);
    for (int i = 0; i < 16; i++)
        assert_true(weights[i] == -(0.5f * gradients[i]));
    float kept[16];
    memcpy(kept, weights, sizeof kept);
    memset(gradients, 0, sizeof gradients); /* no gradient, no decay: 0 / 0
                                               were it not for the rule */
    psr_optimizer_update_tensor(optimizer, weights, gradients, 0, 0.5f, 2);
    assert_memory_equal(weights, kept, sizeof kept);
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

/* ---- LAMB ---- */

static void lamb_scales_a_matrix_by_its_norms_and_a_vector_by_nothing(void **state)
{
    (void)state;
    enum { VECTOR = 40 };
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "matrix", 2, (uint32_t[]){MANY, 1}));
    expect_ok(psr_layout_add(&layout, "vector", 1, (uint32_t[]){VECTOR}));
    const size_t vector = layout.tensors[1].offset;
    static float weights[MANY + 128], gradients[MANY + 128], before[MANY + 128], u[MANY + 128];
    fill(weights, layout.length, 1);
    fill(gradients, layout.length, 2);
    memcpy(before, weights, sizeof weights);
    psr_config config = config_of(PSR_OPTIMIZER_LAMB);
    config.adam_beta1 = config.adam_beta2 = 0; /* the moments are those of this gradient */
    config.weight_decay = 5e-4;
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    psr_optimizer_update_tensor(optimizer, weights, gradients, 0, 0.1f, 1);
    psr_optimizer_update_tensor(optimizer, weights, gradients, 1, 0.1f, 1);

    for (size_t i = 0; i < layout.length; i++) {
        float square = gradients[i] * gradients[i];
        float decayed = i < MANY ? 5e-4f * before[i] : 0;
        float ratio = gradients[i] / (sqrtf(square) + 1e-8f);
        u[i] = ratio + decayed;
    }
    float rate =
        (float)((double)0.1f * (norm_by_definition(before, MANY) / norm_by_definition(u, MANY)));
    for (size_t i = 0; i < MANY; i++)
        assert_true(weights[i] == before[i] - rate * u[i]);
    for (size_t i = vector; i < vector + VECTOR; i++)
        assert_true(weights[i] == before[i] - 0.1f * u[i]);
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void lamb_takes_the_plain_rate_where_a_norm_is_zero(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 2, (uint32_t[]){4, 4}));
    psr_config config = config_of(PSR_OPTIMIZER_LAMB);
    config.adam_beta1 = config.adam_beta2 = 0;
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    float weights[16] = {0}, gradients[16], kept[16];
    fill(gradients, 16, 1);
    psr_optimizer_update_tensor(optimizer, weights, gradients, 0, 0.5f, 1);
    for (int i = 0; i < 16; i++)
        assert_true(fabsf(weights[i]) > 0.49f && weights[i] * gradients[i] < 0);
    memcpy(kept, weights, sizeof kept);
    memset(gradients, 0, sizeof gradients); /* no direction: 0 / 0 were it not for the rule */
    psr_optimizer_update_tensor(optimizer, weights, gradients, 0, 0.5f, 2);
    assert_memory_equal(weights, kept, sizeof kept);
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void a_variance_that_rounding_made_negative_is_zero(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){64}));
    psr_config config = config_of(PSR_OPTIMIZER_RMSPROP);
    config.rmsprop_alpha = 0.5;
    config.rmsprop_centered = true;
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    float weights[64], gradients[64];
    fill(weights, 64, 1);
    fill(gradients, 64, 2);
    int negative = 0;
    for (uint32_t u = 0; u < 60; u++) /* a constant gradient: both means come near it */
        psr_optimizer_update(optimizer, weights, gradients, 0, 64, 0.01f, u + 1);
    for (size_t i = 0; i < 64; i++) {
        const float square = psr_optimizer_slot(optimizer, 0)[i];
        const float mean = psr_optimizer_slot(optimizer, 1)[i];
        negative += square - mean * mean < 0;
        assert_true(isfinite(weights[i]));
    }
    assert_true(negative > 0); /* otherwise the test shows nothing */
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void the_options_table_knows_which_updates_need_whole_tensors(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){4}));
    for (int kind = PSR_OPTIMIZER_SGD; kind <= PSR_OPTIMIZER_RMSPROP; kind++) {
        psr_config config = config_of((psr_optimizer_kind)kind);
        psr_optimizer *optimizer = optimizer_of(&config, &layout);
        assert_int_equal(psr_optimizer_whole_tensors(optimizer),
                         psr_config_updates_whole_tensors(&config));
        psr_optimizer_free(optimizer);
    }
    psr_layout_done(&layout);
}

/* ---- slots and refusals ---- */

static void slots_have_the_names_that_checkpoints_use(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "w", 1, (uint32_t[]){4}));
    psr_config config = config_of(PSR_OPTIMIZER_SGD);
    psr_optimizer *optimizer = optimizer_of(&config, &layout);
    /* without momentum there is no state */
    assert_int_equal(psr_optimizer_slot_count(optimizer), 0);
    assert_false(psr_optimizer_whole_tensors(optimizer));
    psr_optimizer_free(optimizer);

    config.momentum = 0.9;
    optimizer = optimizer_of(&config, &layout);
    assert_int_equal(psr_optimizer_slot_count(optimizer), 1);
    assert_string_equal(psr_optimizer_slot_name(optimizer, 0), "momentum");
    psr_optimizer_free(optimizer);

    config.optimizer = PSR_OPTIMIZER_ADAM;
    optimizer = optimizer_of(&config, &layout);
    assert_int_equal(psr_optimizer_slot_count(optimizer), 2);
    assert_string_equal(psr_optimizer_slot_name(optimizer, 0), "exp_avg");
    assert_string_equal(psr_optimizer_slot_name(optimizer, 1), "exp_avg_sq");
    psr_optimizer_free(optimizer);

    config.optimizer = PSR_OPTIMIZER_LARS;
    optimizer = optimizer_of(&config, &layout);
    assert_int_equal(psr_optimizer_slot_count(optimizer), 1);
    assert_string_equal(psr_optimizer_slot_name(optimizer, 0), "momentum");
    assert_true(psr_optimizer_whole_tensors(optimizer));
    psr_optimizer_free(optimizer);

    config.optimizer = PSR_OPTIMIZER_RMSPROP;
    config.rmsprop_centered = true;
    optimizer = optimizer_of(&config, &layout);
    assert_int_equal(psr_optimizer_slot_count(optimizer), 3);
    assert_string_equal(psr_optimizer_slot_name(optimizer, 0), "square_avg");
    assert_string_equal(psr_optimizer_slot_name(optimizer, 1), "momentum");
    assert_string_equal(psr_optimizer_slot_name(optimizer, 2), "grad_avg");
    psr_optimizer_free(optimizer);
    config.momentum = 0;
    optimizer = optimizer_of(&config, &layout);
    assert_int_equal(psr_optimizer_slot_count(optimizer), 2);
    assert_string_equal(psr_optimizer_slot_name(optimizer, 1), "grad_avg");
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
}

static void values_that_cannot_work_are_refused(void **state)
{
    (void)state;
    psr_layout layout = {0};
    psr_optimizer *made = NULL;
    psr_config config = config_of(PSR_OPTIMIZER_SGD);
    config.nesterov = true;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--nesterov needs a --momentum above 0");
    config.momentum = -0.5;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--momentum: -0.5 is below 0");
    config.weight_decay = -1;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--weight-decay: -1 is below 0");

    config = config_of(PSR_OPTIMIZER_ADAM);
    config.nesterov = true;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--nesterov belongs to --optimizer sgd, not to adam");
    config.nesterov = false;
    config.adam_beta1 = 1;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--adam-beta1: 1 is not in [0, 1)");
    config.adam_beta1 = 0.9;
    config.adam_beta2 = NAN;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--adam-beta2: nan is not in [0, 1)");
    config.adam_beta2 = 0.9;
    config.adam_epsilon = 1e-60;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--adam-epsilon: 1e-60 is not above 0 as a float");

    config = config_of(PSR_OPTIMIZER_LARS);
    config.nesterov = true;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--nesterov belongs to --optimizer sgd, not to lars");
    config.nesterov = false;
    config.lars_trust = 0;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--lars-trust: 0 is not above 0");
    config.lars_trust = 1;
    config.momentum = -1;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--momentum: -1 is below 0");

    config = config_of(PSR_OPTIMIZER_RMSPROP);
    config.rmsprop_alpha = 1;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--rmsprop-alpha: 1 is not in [0, 1)");
    config.rmsprop_alpha = 0.5;
    config.rmsprop_epsilon = 0;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--rmsprop-epsilon: 0 is not above 0 as a float");
    config = config_of(PSR_OPTIMIZER_LAMB);
    config.nesterov = true;
    expect_failure(psr_optimizer_new(&config, &layout, &made), PSR_ERR_USAGE,
                   "--nesterov belongs to --optimizer sgd, not to lamb");
    assert_null(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_pytorchs_within_4_ulp),
        cmocka_unit_test(sgd_with_momentum_is_pytorchs_within_4_ulp),
        cmocka_unit_test(sgd_with_nesterov_momentum_is_pytorchs_within_4_ulp),
        cmocka_unit_test(adam_is_pytorchs_within_4_ulp),
        cmocka_unit_test(adamw_is_pytorchs_within_4_ulp),
        cmocka_unit_test(rmsprop_is_pytorchs_within_4_ulp),
        cmocka_unit_test(centered_rmsprop_is_pytorchs),
        cmocka_unit_test(lars_is_the_papers_formula_within_4_ulp),
        cmocka_unit_test(lamb_is_the_papers_formula_within_4_ulp),
        cmocka_unit_test(the_vector_versions_round_as_the_formula_written_out),
        cmocka_unit_test(how_ranges_are_cut_changes_no_bit),
        cmocka_unit_test(batch_norm_and_biases_are_spared_however_ranges_are_cut),
        cmocka_unit_test(an_update_touches_its_range_only),
        cmocka_unit_test(a_run_goes_on_from_its_slots_with_the_same_bits),
        cmocka_unit_test(a_factor_multiplies_the_rate_of_its_tensors_wherever_updates_are_cut),
        cmocka_unit_test(lars_scales_a_matrix_by_its_norms_and_a_vector_by_nothing),
        cmocka_unit_test(lars_takes_the_plain_rate_where_a_norm_is_zero),
        cmocka_unit_test(lamb_scales_a_matrix_by_its_norms_and_a_vector_by_nothing),
        cmocka_unit_test(lamb_takes_the_plain_rate_where_a_norm_is_zero),
        cmocka_unit_test(a_variance_that_rounding_made_negative_is_zero),
        cmocka_unit_test(the_options_table_knows_which_updates_need_whole_tensors),
        cmocka_unit_test(slots_have_the_names_that_checkpoints_use),
        cmocka_unit_test(values_that_cannot_work_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
