#include "tests/unit/cluster/cluster_reference.h"

#include "ps/parts.h"
#include "worker/exchange/exchange_local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- a network: tensors of sizes that nothing divides ---- */

void reference_layout(psr_layout *layout)
{
    static const uint32_t shapes[][4] = {{5, 3, 3, 3},   {5, 1, 1, 1},  {7, 5, 1, 1},
                                         {1, 1, 1, 1},   {40, 7, 1, 1}, {17, 1, 1, 1},
                                         {23, 19, 1, 1}, {2, 2, 2, 2},  {33, 1, 1, 1}};
    static const uint32_t ranks[] = {4, 1, 2, 1, 2, 1, 2, 4, 1};
    *layout = (psr_layout){0};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        char name[] = {'t', (char)('0' + i), '\0'};
        assert_int_equal(psr_layout_add(layout, name, ranks[i], shapes[i]), PSR_OK);
    }
}

const reference_rule reference_rules[] = {
    {"sgd", PSR_OPTIMIZER_SGD, 0, false},       {"momentum", PSR_OPTIMIZER_SGD, 0.9, false},
    {"nesterov", PSR_OPTIMIZER_SGD, 0.9, true}, {"adam", PSR_OPTIMIZER_ADAM, 0, false},
    {"lars", PSR_OPTIMIZER_LARS, 0.9, false},
};
_Static_assert(sizeof reference_rules / sizeof reference_rules[0] == REFERENCE_RULES,
               "as many as there are");

psr_config reference_config(const reference_rule *r, uint32_t workers)
{
    psr_config config;
    psr_config_defaults(&config);
    config.workers = workers;
    config.optimizer = r->kind;
    config.momentum = r->momentum;
    config.nesterov = r->nesterov;
    config.lr = 0.05;
    config.weight_decay = 1e-3;
    config.schedule.kind = PSR_SCHEDULE_COSINE;
    config.slice_bytes = 256; /* smaller than most buckets, and no divisor of them */
    config.window = 3;
    return config;
}

/* ---- the reference ---- */

/* The worker whose gradient is the k-th to be added into chunk c: in the order c+1, .., n-1, 0, ..,
 * c. (Reversed: the same with workers that are counted from the last one. Another: c, c+1, .., as a
 * control.) */
static uint32_t reference_worker(reference_order which, uint32_t n, uint32_t c, uint32_t k)
{
    const uint32_t place = (c + k + (which != REFERENCE_ANOTHER)) % n;
    return which == REFERENCE_REVERSED ? n - 1 - place : place;
}

static void reference_sum(const psr_bucket *bucket, uint32_t n, uint64_t step,
                          reference_order which, float *sum)
{
    for (uint32_t c = 0; c < n; c++) {
        size_t begin = bucket->offset + bucket->length * c / n;
        size_t end = bucket->offset + bucket->length * (c + 1) / n;
        for (size_t i = begin; i < end; i++) {
            float total = cluster_gradient(reference_worker(which, n, c, 0), step, i);
            for (uint32_t k = 1; k < n; k++)
                total = total + cluster_gradient(reference_worker(which, n, c, k), step, i);
            sum[i] = total;
        }
    }
}

float *reference_run(const psr_config *config, const psr_layout *layout, const psr_buckets *buckets,
                     uint64_t first_step, uint64_t steps, reference_order which, float **slots)
{
    return reference_run_without(config, layout, buckets, first_step, steps, which, 0, slots);
}

/* Weights after each step: history[step][arena]. slots, when not NULL: the optimizer's at the
 * end. */
float *reference_run_without(const psr_config *config, const psr_layout *layout,
                             const psr_buckets *buckets, uint64_t first_step, uint64_t steps,
                             reference_order which, uint64_t left_out, float **slots)
{
    uint64_t updates = first_step;
    psr_optimizer *optimizer;
    assert_int_equal(psr_optimizer_new(config, layout, &optimizer), PSR_OK);
    float *weights = calloc(layout->length, sizeof *weights);
    float *sum = calloc(layout->length, sizeof *sum);
    float *history = calloc(layout->length * (steps + 1), sizeof *history);
    cluster_initial_weights(layout, weights);
    for (uint32_t i = 0; i < psr_optimizer_slot_count(optimizer) && first_step > 0; i++)
        cluster_initial_slot(layout, i, psr_optimizer_slot(optimizer, i));
    for (uint64_t step = first_step; step < first_step + steps; step++) {
        for (uint32_t b = 0; b < buckets->count; b++)
            reference_sum(&buckets->items[b], config->workers, step, which, sum);
        float lr = psr_schedule_lr(config, step, first_step + steps);
        const bool taken = (left_out >> step & 1) == 0;
        updates += taken;
        if (taken && psr_optimizer_whole_tensors(optimizer))
            for (size_t t = 0; t < layout->tensor_count; t++)
                psr_optimizer_update_tensor(optimizer, weights, sum, t, lr, updates);
        else if (taken)
            psr_optimizer_update(optimizer, weights, sum, 0, layout->length, lr, updates);
        memcpy(history + (step - first_step) * layout->length, weights,
               layout->length * sizeof *weights);
    }
    memcpy(history + steps * layout->length, weights, layout->length * sizeof *weights);
    for (uint32_t i = 0; slots && i < psr_optimizer_slot_count(optimizer); i++)
        memcpy(slots[i], psr_optimizer_slot(optimizer, i), layout->length * sizeof(float));
    free(weights);
    free(sum);
    psr_optimizer_free(optimizer);
    return history;
}

/* What the exchange does before it takes a bucket: padding is no parameter, and nobody owes
 * anything of it. */
static void clear_padding(const psr_layout *layout, float *arena)
{
    for (size_t t = 0; t < layout->tensor_count; t++) {
        size_t end = t + 1 < layout->tensor_count ? layout->tensors[t + 1].offset : layout->length;
        for (size_t i = layout->tensors[t].offset + layout->tensors[t].count; i < end; i++)
            arena[i] = 0;
    }
}

float *reference_run_compressed(const psr_config *config, const psr_layout *layout,
                                const psr_buckets *buckets, uint64_t first_step, uint64_t steps,
                                float **residuals)
{
    psr_config alone = *config;
    alone.mode = PSR_MODE_LOCAL;
    alone.shards = 1;
    alone.compress_as = config->mode == PSR_MODE_RING ? PSR_COMPRESS_AS_RING : PSR_COMPRESS_AS_PS;
    psr_local_options options = {.config = &alone, .layout = layout, .buckets = buckets};
    psr_plan plan;
    psr_local *local;
    assert_int_equal(psr_parts_plan(&alone, alone.mode, layout, buckets, NULL, &plan), PSR_OK);
    assert_int_equal(psr_optimizer_new(&alone, layout, &options.optimizer), PSR_OK);
    options.plan = &plan;
    options.weights = calloc(layout->length, sizeof(float));
    options.residuals = psr_plan_has_residual(&plan) ? residuals : NULL;
    assert_int_equal(psr_local_new(&options, &local), PSR_OK);
    float *history = calloc(layout->length * (steps + 1), sizeof *history);
    cluster_initial_weights(layout, options.weights);
    assert_int_equal(psr_local_installed(local, first_step > 0), PSR_OK);
    if (first_step > 0 && psr_plan_pulls_differences(&plan))
        cluster_initial_pulled(layout, options.weights);
    for (uint32_t i = 0; i < psr_optimizer_slot_count(options.optimizer) && first_step > 0; i++)
        cluster_initial_slot(layout, i, psr_optimizer_slot(options.optimizer, i));
    for (uint64_t step = first_step; step < first_step + steps; step++) {
        for (uint32_t r = 0; r < alone.workers; r++) {
            float *gradient = psr_local_gradients(local, r);
            for (size_t i = 0; i < layout->length; i++)
                gradient[i] = cluster_gradient(r, step, i);
            clear_padding(layout, gradient);
            clear_padding(layout, residuals[r]);
        }
        assert_int_equal(psr_local_update(local, step, first_step + steps), PSR_OK);
        memcpy(history + (step - first_step) * layout->length, options.weights,
               layout->length * sizeof *history);
    }
    memcpy(history + steps * layout->length, psr_local_saved(local),
           layout->length * sizeof *history);
    free(options.weights);
    psr_local_free(local);
    psr_optimizer_free(options.optimizer);
    psr_plan_done(&plan);
    return history;
}

/* ---- comparing ---- */

/* Padding of tensors is no parameter: LARS leaves it alone, others update it. */
bool reference_same(const psr_layout *layout, const float *a, const float *b)
{
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        if (memcmp(a + tensor->offset, b + tensor->offset, tensor->count * sizeof *a) != 0)
            return false;
    }
    return true;
}

void reference_check(const cluster_options *options, const float *reference)
{
    cluster *c = cluster_run(options);
    for (uint64_t k = 0; k < options->steps; k++)
        for (uint32_t r = 0; r < options->config->workers; r++)
            if (!reference_same(options->layout, cluster_weights(c, r, options->first_step + k),
                                reference + k * options->layout->length))
                fail_msg("mode %s, shares %llx, %u workers, %u shards, optimizer %d: worker %u "
                         "differs after step %llu",
                         options->config->mode == PSR_MODE_PS ? "ps" : "ring",
                         (unsigned long long)options->shares, options->config->workers,
                         options->config->shards, (int)options->config->optimizer, r,
                         (unsigned long long)(options->first_step + k));
    const float *saved = cluster_checkpointed_weights(c, options->first_step + options->steps);
    assert_non_null(saved);
    assert_true(reference_same(options->layout, saved,
                               reference + options->steps * options->layout->length));
    cluster_free(c);
}
