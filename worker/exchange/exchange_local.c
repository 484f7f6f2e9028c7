/* The sum, spelled out. A bucket of L elements is cut into n chunks, chunk c from floor(cL/n) to
 * floor((c+1)L/n). Its elements are added in the order of ranks c+1, c+2, .., n-1, 0, .., c: where
 * a ring starts and how it goes on.
 * `--fold reversed`, the control, goes c, c-1, .., 0, n-1, .., c+1: other roundings, other bits. */
#include "worker/exchange/exchange_local.h"

#include "base/arrays/arena.h"
#include "base/arrays/finite.h"
#include "comm/wire/compression/compression.h"
#include "model/optimizers/square_sum.h"
#include "model/optimizers/tensor_runs.h"
#include "model/optimizers/updater.h"
#include "worker/exchange/local_rounding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct psr_local {
    psr_local_options options;
    uint32_t n;
    psr_local_rounding *rounding; /* NULL: nothing is compressed */
    float *kept; /* an arena: the weights that are updated; NULL: the options' weights are */
    float *sum;
    double norm;          /* of the last step's gradient: psr_local_norm */
    uint64_t skipped;     /* steps that were left out */
    psr_tensor_runs runs; /* --tensorboard-norms; otherwise zeros, and NULL */
    double *tensors;      /* [layout's tensors] sums of squares of the last gradient that was due */
    /* Where workers get differences from what they have, which is the options' weights: what
     * encodes a bucket, and arenas for what they lack and what is not sent of it. Otherwise NULL */
    psr_encoder *encoder;
    float *lacking, *left;
    float *gradients[]; /* n arenas */
};

/* Arenas as long as the layout, since a bucket may be. */
static psr_err open_differences(psr_local *local)
{
    const size_t length = local->options.layout->length;
    PSR_TRY(psr_arena_new(length, &local->lacking));
    PSR_TRY(psr_arena_new(length, &local->left));
    return psr_encoder_new(local->options.plan->pulled, length, &local->encoder);
}

static psr_err open_tensors(psr_local *local)
{
    const psr_local_options *o = &local->options;
    psr_span *spans;
    local->tensors = calloc(o->layout->tensor_count + 1, sizeof *local->tensors);
    if (local->tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norms of tensors");
    PSR_TRY(psr_plan_spans(o->plan, &spans));
    psr_err err = psr_tensor_runs_of(o->layout, spans, o->plan->bucket_count, &local->runs);
    free(spans);
    return err;
}

static psr_err open_parts(psr_local *local)
{
    if (local->options.config->tensorboard_norms > 0)
        PSR_TRY(open_tensors(local));
    PSR_TRY(psr_arena_new(local->options.layout->length, &local->sum));
    if (!psr_compression_is_none(local->options.plan->pulled))
        PSR_TRY(psr_arena_new(local->options.layout->length, &local->kept));
    if (psr_plan_pulls_differences(local->options.plan))
        PSR_TRY(open_differences(local));
    for (uint32_t rank = 0; rank < local->n; rank++)
        PSR_TRY(psr_arena_new(local->options.layout->length, &local->gradients[rank]));
    return psr_local_rounding_new(local->options.plan, &local->rounding);
}

psr_err psr_local_new(const psr_local_options *options, psr_local **ret_local)
{
    uint32_t n = options->plan->ranks;
    psr_local *local = calloc(1, sizeof *local + n * sizeof local->gradients[0]);
    if (local == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the gradients of %u ranks", n);
    local->options = *options;
    local->n = n;
    local->skipped = options->skipped_steps;
    psr_err err = open_parts(local);
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
        psr_arena_free(local->gradients[rank], local->options.layout->length);
    psr_local_rounding_free(local->rounding);
    psr_tensor_runs_done(&local->runs);
    free(local->tensors);
    psr_encoder_free(&local->encoder);
    psr_arena_free(local->lacking, local->options.layout->length);
    psr_arena_free(local->left, local->options.layout->length);
    psr_arena_free(local->kept, local->options.layout->length);
    psr_arena_free(local->sum, local->options.layout->length);
    free(local);
}

float *psr_local_gradients(psr_local *local, uint32_t rank)
{
    return local->gradients[rank];
}

/* ---- weights that come back rounded ---- */

const double *psr_local_tensor_squares(const psr_local *local)
{
    return local->tensors;
}

double psr_local_norm(const psr_local *local)
{
    return local->norm;
}

const float *psr_local_sums(const psr_local *local)
{
    return local->sum;
}

const float *psr_local_saved(const psr_local *local)
{
    return local->kept != NULL ? local->kept : local->options.weights;
}

/* What the workers lack of each bucket is rounded and added to what they have. */
static psr_err give_differences(psr_local *local, uint64_t step)
{
    const psr_local_options *o = &local->options;
    for (uint32_t b = 0; b < o->buckets->count; b++) {
        const psr_bucket *bucket = &o->buckets->items[b];
        if (bucket->frozen)
            continue;
        float *have = o->weights + bucket->offset;
        for (size_t i = 0; i < bucket->length; i++)
            local->lacking[i] = local->kept[bucket->offset + i] - have[i];
        psr_layout_clear_padding(o->layout, bucket->offset, bucket->length, local->lacking);
        memset(local->left, 0, bucket->length * sizeof *local->left);
        if (psr_encoder_round(local->encoder, local->lacking, local->left, bucket->length) !=
            PSR_OK)
            return psr_fail(PSR_ERR_NUMERIC, "step %llu: the weights of bucket %u are not finite",
                            (unsigned long long)step + 1, b); /* people count steps from 1 */
        for (size_t i = 0; i < bucket->length; i++)
            have[i] = have[i] + local->lacking[i];
        psr_layout_clear_padding(o->layout, bucket->offset, bucket->length, have);
    }
    return PSR_OK;
}

static psr_err give_back(psr_local *local)
{
    const psr_local_options *o = &local->options;
    for (uint32_t b = 0; b < o->buckets->count; b++) {
        const psr_bucket *bucket = &o->buckets->items[b];
        float *have = o->weights + bucket->offset;
        if (bucket->frozen)
            continue;
        memcpy(have, local->kept + bucket->offset, bucket->length * sizeof *have);
        PSR_TRY(psr_compression_round(o->plan->pulled, have, bucket->length));
    }
    return PSR_OK;
}

psr_err psr_local_installed(psr_local *local, bool goes_on)
{
    const psr_local_options *o = &local->options;
    if (local->kept == NULL)
        return PSR_OK;
    memcpy(local->kept, o->weights, o->layout->length * sizeof *local->kept);
    return goes_on && local->encoder == NULL ? give_back(local) : PSR_OK;
}

/* ---- a step ---- */

static float *residual_of(const psr_local *local, uint32_t rank)
{
    return local->options.residuals != NULL ? local->options.residuals[rank] : NULL;
}

/* For a chunk that is not empty. As in a ring, every rank on the way rounds what it sends on, and
 * the last one the sum that goes round. */
static psr_err add_chunk(psr_local *local, uint32_t b, uint32_t c, size_t begin, size_t end)
{
    uint32_t n = local->n;
    bool each_hop =
        local->rounding != NULL && local->options.config->compress_as == PSR_COMPRESS_AS_RING;
    bool reversed = local->options.config->fold == PSR_FOLD_REVERSED;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t place = (c + 1 + p) % n, rank = reversed ? n - 1 - place : place;
        const float *g = local->gradients[rank];
        for (size_t i = begin; i < end; i++)
            local->sum[i] = p == 0 ? g[i] : local->sum[i] + g[i];
        if (each_hop)
            PSR_TRY(psr_local_rounding_unit(local->rounding, b, (psr_span){begin, end - begin},
                                            local->sum, residual_of(local, rank)));
    }
    return PSR_OK;
}

static psr_err refuse_bucket(uint64_t step, uint32_t b)
{
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %llu: the gradient of bucket %u is not finite; a lower --lr may help",
                    (unsigned long long)step + 1, b); /* people count steps from 1 */
}

/* As parameter servers do: each rank's bucket becomes what a shard would decode. */
static psr_err round_once(psr_local *local, uint32_t b)
{
    for (uint32_t rank = 0; rank < local->n; rank++)
        PSR_TRY(psr_local_rounding_bucket(local->rounding, b, local->gradients[rank],
                                          residual_of(local, rank)));
    return PSR_OK;
}

/* NUMERIC, whose words are refuse_bucket's: a gradient or the sum is not finite. */
static psr_err add_bucket(psr_local *local, uint32_t b)
{
    const psr_bucket *bucket = &local->options.buckets->items[b];
    uint64_t length = bucket->length, n = local->n;
    if (local->rounding != NULL && local->options.config->compress_as == PSR_COMPRESS_AS_PS)
        PSR_TRY(round_once(local, b));
    for (uint64_t c = 0; c < n; c++)
        if (c * length / n < (c + 1) * length / n)
            PSR_TRY(add_chunk(local, b, (uint32_t)c, bucket->offset + c * length / n,
                              bucket->offset + (c + 1) * length / n));
    return psr_finite(local->sum + bucket->offset, bucket->length) ? PSR_OK : PSR_ERR_NUMERIC;
}

/* The norm of the sum over all buckets, in the order of buckets, and the sum scaled down to
 * --clip-norm. */
static double clip(psr_local *local)
{
    const psr_local_options *o = &local->options;
    double squares = 0;
    for (uint32_t b = 0; b < o->buckets->count; b++) {
        const psr_bucket *bucket = &o->buckets->items[b];
        if (bucket->frozen)
            continue;
        psr_layout_clear_padding(o->layout, bucket->offset, bucket->length,
                                 local->sum + bucket->offset);
        squares += psr_square_sum(local->sum + bucket->offset, bucket->length);
    }
    const double norm = sqrt(squares);
    const float factor = psr_clip_factor(o->config, norm);
    for (size_t i = 0; i < o->layout->length && factor < 1; i++)
        local->sum[i] *= factor;
    return norm;
}

/* All buckets. *ret_finite: fp16: whether all sums are finite; otherwise NUMERIC says that one is
 * not. */
static psr_err add_buckets(psr_local *local, uint64_t step, bool *ret_finite)
{
    *ret_finite = true;
    for (uint32_t b = 0; b < local->options.buckets->count; b++) {
        if (local->options.buckets->items[b].frozen)
            continue;
        psr_err err = add_bucket(local, b);
        if (err == PSR_ERR_NUMERIC && !psr_config_scales_loss(local->options.config))
            return refuse_bucket(step, b);
        if (err != PSR_OK && err != PSR_ERR_NUMERIC)
            return err;
        *ret_finite = *ret_finite && err == PSR_OK;
    }
    return PSR_OK;
}

/* The sums of squares of each tensor, over its runs in the order of buckets. */
static psr_err find_tensors(psr_local *local)
{
    double *squares = calloc((size_t)local->runs.count + 1, sizeof *squares);
    if (squares == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norms of tensors");
    for (uint32_t r = 0; r < local->runs.count; r++)
        squares[r] = psr_tensor_run_squares(&local->runs.items[r], local->sum);
    psr_tensor_runs_add(&local->runs, squares, local->options.layout->tensor_count, local->tensors);
    free(squares);
    return PSR_OK;
}

/* With the sums: each trained tensor by itself if the optimizer needs it whole, otherwise each
 * trained bucket. */
static void update_all(psr_local *local, float lr, uint64_t number)
{
    const psr_local_options *o = &local->options;
    float *weights = local->kept != NULL ? local->kept : o->weights;
    const bool whole = psr_optimizer_whole_tensors(o->optimizer);
    for (size_t t = 0; whole && t < o->layout->tensor_count; t++)
        if (!o->layout->tensors[t].frozen)
            psr_optimizer_update_tensor(o->optimizer, weights, local->sum, t, lr, number);
    for (uint32_t b = 0; !whole && b < o->buckets->count; b++)
        if (!o->buckets->items[b].frozen)
            psr_optimizer_update(o->optimizer, weights, local->sum, o->buckets->items[b].offset,
                                 o->buckets->items[b].length, lr, number);
}

/* The sums of a step, which are finite. */
static psr_err take_step(psr_local *local, uint64_t step, uint64_t total_steps)
{
    const psr_config *config = local->options.config;
    if (psr_config_norms_due(config, step + 1))
        PSR_TRY(find_tensors(local));
    local->norm = config->clip_norm > 0 ? clip(local) : 0;
    if (local->options.optimizer != NULL)
        update_all(local, psr_schedule_lr(config, step, total_steps), step + 1 - local->skipped);
    return PSR_OK;
}

psr_err psr_local_update(psr_local *local, uint64_t step, uint64_t total_steps)
{
    bool finite;
    PSR_TRY(add_buckets(local, step, &finite));
    if (finite) {
        PSR_TRY(take_step(local, step, total_steps));
    } else {
        local->skipped++;
        local->norm = INFINITY;
    }
    if (local->encoder != NULL)
        return give_differences(local, step);
    return local->kept != NULL ? give_back(local) : PSR_OK;
}
