#include "bench/predict/scenario.h"

#include "comm/wire/compression/compression.h"

#include <stdio.h>

const char *psr_limit_name(psr_limit limit)
{
    static const char *const names[PSR_LIMITS] = {[PSR_LIMIT_COMPUTE] = "compute",
                                                  [PSR_LIMIT_WORKER_LINK] = "workers' links",
                                                  [PSR_LIMIT_SHARD_LINK] = "shards' links",
                                                  [PSR_LIMIT_WORKER] = "workers",
                                                  [PSR_LIMIT_SHARD] = "shards",
                                                  [PSR_LIMIT_LATENCY] = "latency"};
    return names[limit];
}

void psr_choice_describe(const psr_choice *choice, char *text, size_t size)
{
    if (choice->mode == PSR_MODE_RING)
        snprintf(text, size, "ring");
    else
        snprintf(text, size, "ps, %u shard%s %s", choice->shards, choice->shards == 1 ? "" : "s",
                 choice->dedicated ? "on hosts of their own" : "beside the workers");
}

static psr_err make_profile(psr_scenario *s, const char *recorded)
{
    psr_profile profile;
    if (recorded == NULL)
        return psr_compute_profile_init(s->net, &s->buckets, NULL, &s->profile);
    PSR_TRY(psr_profile_read(recorded, &profile));
    psr_err err = psr_profile_fits(&profile, recorded, &s->net->params);
    if (err == PSR_OK)
        err = psr_compute_profile_init(s->net, &s->buckets, &profile, &s->profile);
    if (err == PSR_OK && s->compute_s < 0)
        s->compute_s = s->profile.kept * psr_profile_step_s(&profile) *
                       psr_config_step_samples(&s->config) / profile.batch;
    psr_profile_done(&profile);
    return err;
}

/* What is frozen is not exchanged: the buckets are those that are. */
static void leave_frozen_out(psr_buckets *buckets)
{
    uint32_t kept = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        if (!buckets->items[b].frozen)
            buckets->items[kept++] = buckets->items[b];
    buckets->count = kept;
}

psr_err psr_scenario_init(psr_scenario *s, uint32_t classes, uint32_t channels, uint32_t height,
                          uint32_t width, const char *recorded)
{
    PSR_TRY(psr_network_of(&s->config, classes, channels, height, width, &s->net));
    s->config.bucket_bytes = psr_bucket_bytes(&s->net->params, s->config.bucket_bytes);
    psr_err err = psr_buckets_plan(&s->net->params, s->config.bucket_bytes, &s->buckets);
    if (err == PSR_OK)
        err = make_profile(s, recorded);
    if (err != PSR_OK)
        psr_scenario_done(s);
    else
        leave_frozen_out(&s->buckets);
    return err;
}

void psr_scenario_done(psr_scenario *s)
{
    psr_compute_profile_done(&s->profile);
    psr_buckets_done(&s->buckets);
    psr_network_free(s->net);
    s->net = NULL;
}

double psr_scenario_bytes(const psr_scenario *s)
{
    return (double)psr_layout_trained_length(&s->net->params) * sizeof(float);
}

/* text: a compression. */
static double compressed_bytes(const psr_scenario *s, const char *text, double bytes)
{
    psr_compression compression;
    const size_t floats = s->config.slice_bytes / sizeof(float);
    if (psr_compression_parse(text, &compression) != PSR_OK)
        return bytes;
    if (compression.encoding == PSR_ENCODING_TOPK) /* 8 bytes for each that is sent, not 4 */
        return 2 * bytes * compression.ratio / PSR_COMPRESSION_RATIO_ONE;
    return bytes * (double)psr_compression_bytes_max(compression, floats) /
           (double)s->config.slice_bytes;
}

double psr_scenario_gradient_bytes(const psr_scenario *s, double bytes)
{
    return compressed_bytes(s, s->config.compress, bytes);
}

double psr_scenario_weight_bytes(const psr_scenario *s, double bytes)
{
    return compressed_bytes(s, s->config.compress_weights, bytes);
}
