/* The sum, spelled out. A bucket of L elements is cut into n chunks, chunk c from floor(cL/n) to
 * floor((c+1)L/n). Its elements are added in the order of ranks c+1, c+2, .., n-1, 0, .., c: where a ring
 * starts and how it goes on.
 * `--fold reversed`, the control, goes c, c-1, .., 0, n-1, .., c+1: other roundings, other bits. */
#include "worker/exchange_local.h"

#include "base/arena.h"
#include "base/finite.h"

#include <stdlib.h>

struct psr_local {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    float *weights;
    psr_optimizer *optimizer;
    uint32_t n;
    float *sum;
    float *gradients[]; /* n arenas */
};

psr_err psr_local_new(const psr_config *config, uint32_t ranks, const psr_layout *layout,
                      const psr_buckets *buckets, float *weights, psr_optimizer *optimizer,
                      psr_local **ret_local)
{
    uint32_t n = ranks;
    psr_local *local = calloc(1, sizeof *local + n * sizeof local->gradients[0]);
    if (local == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the gradients of %u ranks", n);
    *local = (psr_local){.config = config,
                         .layout = layout,
                         .buckets = buckets,
                         .weights = weights,
                         .optimizer = optimizer,
                         .n = n};
    psr_err err = psr_arena_new(layout->length, &local->sum);
    for (uint32_t rank = 0; rank < n && err == PSR_OK; rank++)
        err = psr_arena_new(layout->length, &local->gradients[rank]);
    if (err != PSR_OK) {
        psr_local_free(local);
        return err;
    }
    *ret_local = local;
    return PSR_OK;
}

void psr_local_free(psr_local *local)
{
    if (local == NULL)
        return;
    for (uint32_t rank = 0; rank < local->n; rank++)
        psr_arena_free(local->gradients[rank], local->layout->length);
    psr_arena_free(local->sum, local->layout->length);
    free(local);
}

float *psr_local_gradients(psr_local *local, uint32_t rank)
{
    return local->gradients[rank];
}

static void add_chunk(psr_local *local, uint32_t c, size_t begin, size_t end)
{
    uint32_t n = local->n;
    bool reversed = local->config->fold == PSR_FOLD_REVERSED;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t rank = reversed ? (c + n - p) % n : (c + 1 + p) % n;
        const float *g = local->gradients[rank];
        for (size_t i = begin; i < end; i++)
            local->sum[i] = p == 0 ? g[i] : local->sum[i] + g[i];
    }
}

psr_err psr_local_update(psr_local *local, uint64_t step, uint64_t total_steps)
{
    float lr = psr_schedule_lr(local->config, step, total_steps);
    uint64_t n = local->n;
    for (uint32_t b = 0; b < local->buckets->count; b++) {
        const psr_bucket *bucket = &local->buckets->items[b];
        uint64_t length = bucket->length;
        for (uint64_t c = 0; c < n; c++)
            add_chunk(local, (uint32_t)c, bucket->offset + c * length / n,
                      bucket->offset + (c + 1) * length / n);
        if (!psr_finite(local->sum + bucket->offset, bucket->length))
            return psr_fail(PSR_ERR_NUMERIC,
                            "step %llu: the gradient of bucket %u is not finite; a lower --lr may help",
                            (unsigned long long)step + 1, b); /* people count steps from 1 */
    }
    if (psr_optimizer_whole_tensors(local->optimizer)) {
        for (size_t tensor = 0; tensor < local->layout->tensor_count; tensor++)
            psr_optimizer_update_tensor(local->optimizer, local->weights, local->sum, tensor, lr, step + 1);
    } else {
        psr_optimizer_update(local->optimizer, local->weights, local->sum, 0, local->layout->length, lr,
                             step + 1);
    }
    return PSR_OK;
}
