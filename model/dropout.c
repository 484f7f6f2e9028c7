#include "model/dropout.h"

#include "base/rng.h"

void psr_dropout_keep(const psr_batch *batch, uint32_t n, uint32_t node, double drop, uint8_t *keep,
                      size_t count)
{
    const psr_rng_at at = {
        .seed = batch->seed,
        .purpose = PSR_RNG_DROPOUT,
        .epoch = batch->epoch,
        .sample = batch->samples[n],
        .layer = node,
    };
    const float threshold = (float)drop;
    for (size_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        psr_rng_block(at, (uint32_t)(i / 4), words);
        for (size_t j = i; j < count && j < i + 4; j++)
            keep[j] = psr_rng_unit(words[j - i]) >= threshold;
    }
}

float psr_dropout_scale(double drop)
{
    return drop < 1 ? (float)(1 / (1 - drop)) : 0;
}
