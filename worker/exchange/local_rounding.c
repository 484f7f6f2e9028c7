#include "worker/exchange/local_rounding.h"

#include "comm/wire/compression/compression.h"

#include <stdlib.h>

struct psr_local_rounding {
    const psr_plan *plan;
    psr_encoder *encoders[]; /* [plan->bucket_count]; NULL: the bucket is not compressed */
};

psr_err psr_local_rounding_new(const psr_plan *plan, psr_local_rounding **ret_rounding)
{
    bool any = false;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        any = any || !psr_compression_is_none(plan->buckets[b].compression);
    if (!any)
        return PSR_OK;
    psr_local_rounding *rounding =
        calloc(1, sizeof *rounding + plan->bucket_count * sizeof rounding->encoders[0]);
    if (rounding == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to round %u buckets", plan->bucket_count);
    rounding->plan = plan;
    psr_err err = PSR_OK;
    for (uint32_t b = 0; b < plan->bucket_count && err == PSR_OK; b++)
        if (!psr_compression_is_none(plan->buckets[b].compression))
            err = psr_encoder_new(plan->buckets[b].compression, plan->buckets[b].span.count,
                                  &rounding->encoders[b]);
    if (err != PSR_OK) {
        psr_local_rounding_free(rounding);
        return err;
    }
    *ret_rounding = rounding;
    return PSR_OK;
}

void psr_local_rounding_free(psr_local_rounding *rounding)
{
    if (rounding == NULL)
        return;
    for (uint32_t b = 0; b < rounding->plan->bucket_count; b++)
        psr_encoder_free(&rounding->encoders[b]);
    free(rounding);
}

psr_err psr_local_rounding_unit(psr_local_rounding *rounding, uint32_t bucket, psr_span unit,
                                float *values, float *residual)
{
    const psr_compression compression = rounding->plan->buckets[bucket].compression;
    psr_encoder *encoder = rounding->encoders[bucket];
    if (encoder == NULL)
        return PSR_OK;
    float *owed = psr_compression_has_residual(compression) ? residual + unit.offset : NULL;
    return psr_encoder_round(encoder, values + unit.offset, owed, unit.count);
}

psr_err psr_local_rounding_bucket(psr_local_rounding *rounding, uint32_t bucket, float *values,
                                  float *residual)
{
    return psr_local_rounding_unit(rounding, bucket, rounding->plan->buckets[bucket].span, values,
                                   residual);
}
