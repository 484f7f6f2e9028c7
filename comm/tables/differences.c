#include "comm/tables/differences.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct psr_differences {
    const psr_plan *plan;
    void *context;
    void (*blank)(void *context, psr_span span, float *differences);
    float *pulled; /* v, as long as the table */
    psr_encoder *encoder;
    psr_span part;         /* that is prepared */
    float *lacking, *left; /* e of that part, and what is not sent of it */
    float *sent;           /* of a slice */
    void *payload;         /* of a slice */
};

static psr_err make_arrays(psr_differences *d)
{
    size_t longest = 1;
    for (uint32_t b = 0; b < d->plan->bucket_count; b++)
        longest =
            d->plan->buckets[b].span.count > longest ? d->plan->buckets[b].span.count : longest;
    PSR_TRY(psr_arena_new(psr_plan_length(d->plan), &d->pulled));
    PSR_TRY(psr_encoder_new(d->plan->pulled, longest, &d->encoder));
    d->lacking = malloc(longest * sizeof(float));
    d->left = malloc(longest * sizeof(float));
    d->sent = malloc(d->plan->slice_floats * sizeof(float));
    d->payload = malloc(psr_compression_bytes_max(d->plan->pulled, d->plan->slice_floats));
    if (d->lacking == NULL || d->left == NULL || d->sent == NULL || d->payload == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what workers lack of %zu values", longest);
    return PSR_OK;
}

psr_err psr_differences_new(const psr_plan *plan, void *context,
                            void (*blank)(void *, psr_span, float *),
                            psr_differences **ret_differences)
{
    psr_differences *d = calloc(1, sizeof *d);
    if (d == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what workers lack of a table");
    d->plan = plan;
    d->context = context;
    d->blank = blank;
    psr_err err = make_arrays(d);
    if (err != PSR_OK) {
        psr_differences_free(d);
        return err;
    }
    *ret_differences = d;
    return PSR_OK;
}

void psr_differences_free(psr_differences *d)
{
    if (d == NULL)
        return;
    psr_arena_free(d->pulled, psr_plan_length(d->plan));
    psr_encoder_free(&d->encoder);
    free(d->lacking);
    free(d->left);
    free(d->sent);
    free(d->payload);
    free(d);
}

float *psr_differences_pulled(psr_differences *d)
{
    return d->pulled;
}

psr_err psr_differences_prepare(psr_differences *d, uint32_t part, uint64_t step,
                                const float *values)
{
    const psr_span span = d->plan->buckets[part].span;
    const float *w = values + span.offset, *v = d->pulled + span.offset;
    for (size_t i = 0; i < span.count; i++)
        d->lacking[i] = w[i] - v[i];
    if (d->blank != NULL)
        d->blank(d->context, span, d->lacking);
    d->part = span;
    memset(d->left, 0, span.count * sizeof *d->left);
    if (psr_encoder_prepare(d->encoder, d->lacking, d->left, span.count) == PSR_OK)
        return PSR_OK;
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the weights of bucket %" PRIu32 " are not finite", step + 1,
                    part); /* people count steps from 1 */
}

psr_payload psr_differences_send(psr_differences *d, psr_span slice, psr_head *head)
{
    const psr_span within = {slice.offset - d->part.offset, slice.count};
    const psr_payload payload = psr_encode_slice(d->encoder, head, within, d->payload);
    psr_decode_own(d->plan->pulled, &payload, slice.count, d->sent);
    psr_fold_add(d->pulled + slice.offset, d->sent, slice.count);
    return payload;
}
