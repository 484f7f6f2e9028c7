#include "ps/parts.h"

#include "comm/wire/compression/compression.h"
#include "ps/roster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMED_MAX 2 /* up to so many shards the message names each of them */

/* ---- the way of each bucket ---- */

/* A ring goes by HOST if workers share memory. */
static psr_route route_of(const psr_config *config, psr_mode mode, bool shared)
{
    if (mode == PSR_MODE_PS)
        return PSR_ROUTE_SHARD;
    if (mode != PSR_MODE_RING || !config->exchange)
        return PSR_ROUTE_NONE;
    return shared ? PSR_ROUTE_HOST : PSR_ROUTE_RING;
}

/* The route of a unit: buckets first .. first + count - 1, which descend in the arena. */
static psr_mode mode_of_unit(const psr_config *config, psr_mode mode, const psr_layout *layout,
                             const psr_part *parts, uint32_t count)
{
    const size_t begin = parts[count - 1].span.offset, end = psr_span_end(parts[0].span);
    size_t floats[2] = {0};
    psr_mode first = mode;
    bool any = false;
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        const size_t from = tensor->offset > begin ? tensor->offset : begin;
        const size_t to =
            tensor->offset + tensor->count < end ? tensor->offset + tensor->count : end;
        psr_mode its = mode;
        if (from >= to)
            continue;
        (void)psr_config_route_of(config, tensor->name, &its); /* otherwise the mode's */
        floats[its == PSR_MODE_PS] += to - from;
        first = any ? first : its;
        any = true;
    }
    if (floats[0] == floats[1])
        return first;
    return floats[1] > floats[0] ? PSR_MODE_PS : PSR_MODE_RING;
}

/* A part is of frozen tensors, or of trained ones (model/layout.h). */
static bool is_frozen(const psr_layout *layout, const psr_part *part)
{
    size_t t = layout->tensor_count;
    while (t > 0 && layout->tensors[t - 1].offset > part->span.offset)
        t--;
    return t > 0 && layout->tensors[t - 1].frozen;
}

/* ret_routes: [buckets->count]. */
static void find_routes(const psr_config *config, psr_mode mode, const psr_layout *layout,
                        const psr_part *parts, uint32_t count, bool shared, psr_route *ret_routes)
{
    const bool one_way = config->route[0] == '\0' || (mode != PSR_MODE_PS && mode != PSR_MODE_RING);
    for (uint32_t b = 0, next; b < count; b = next) {
        psr_mode its = mode;
        for (next = b + 1; next < count && parts[next].unit == parts[b].unit;)
            next++;
        if (!one_way)
            its = mode_of_unit(config, mode, layout, &parts[b], next - b);
        for (uint32_t i = b; i < next; i++)
            ret_routes[i] =
                is_frozen(layout, &parts[i]) ? PSR_ROUTE_FROZEN : route_of(config, its, shared);
    }
}

static psr_err plan_parts(const psr_config *config, psr_mode mode, const psr_layout *layout,
                          const psr_part *parts, uint32_t count, const psr_host_ranks *hosts,
                          psr_plan *ret_plan)
{
    const psr_roster roster = psr_roster_of(config);
    psr_compression compression, pulled;
    PSR_TRY(psr_compression_parse_option("compress", config->compress, &compression));
    PSR_TRY(psr_compression_parse_option("compress-weights", config->compress_weights, &pulled));
    const bool reversed = config->fold == PSR_FOLD_REVERSED;
    const bool shared = hosts != NULL && hosts->count < roster.ranks &&
                        psr_compression_is_none(compression) && (hosts->count == 1 || !reversed);
    psr_route *routes = calloc((size_t)count + 1, sizeof *routes);
    if (routes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the ways of %" PRIu32 " buckets", count);
    find_routes(config, mode, layout, parts, count, shared, routes);
    bool by_host = false;
    for (uint32_t b = 0; b < count; b++)
        by_host = by_host || routes[b] == PSR_ROUTE_HOST;
    const psr_plan_options options = {
        .routes = routes,
        .ranks = roster.ranks,
        .shards = roster.shards,
        .hosts = by_host ? hosts : NULL,
        .slice_floats = psr_plan_slice_floats(config->slice_bytes),
        .window = config->window,
        .compression = &compression,
        .pulled = &pulled,
        .reversed = reversed,
    };
    psr_err err = psr_plan_make(&options, parts, count, ret_plan);
    free(routes);
    return err;
}

psr_err psr_parts_plan(const psr_config *config, psr_mode mode, const psr_layout *layout,
                       const psr_buckets *buckets, const psr_host_ranks *hosts, psr_plan *ret_plan)
{
    psr_part *parts = NULL;
    PSR_TRY(psr_buckets_parts(buckets, psr_config_updates_whole_tensors(config), &parts));
    psr_err err = plan_parts(config, mode, layout, parts, buckets->count, hosts, ret_plan);
    free(parts);
    return err;
}

/* ---- what a run has ---- */

static psr_err add_loads(psr_parts *parts)
{
    if (parts->plan.shards == 0)
        return PSR_OK;
    parts->bytes = calloc(parts->plan.shards, sizeof *parts->bytes);
    if (!parts->bytes)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what %" PRIu32 " shards hold",
                        parts->plan.shards);
    psr_plan_loads(&parts->plan, PSR_ROUTE_SHARD, parts->bytes);
    return PSR_OK;
}

psr_err psr_parts_init(const psr_config *config, const psr_layout *layout,
                       const psr_host_ranks *hosts, psr_parts *ret_parts)
{
    psr_parts parts = {0};
    PSR_TRY(psr_buckets_plan(layout, config->bucket_bytes, &parts.buckets));
    psr_err err = psr_parts_plan(config, config->mode, layout, &parts.buckets, hosts, &parts.plan);
    if (err == PSR_OK)
        err = add_loads(&parts);
    if (err != PSR_OK) {
        psr_parts_done(&parts);
        return err;
    }
    *ret_parts = parts;
    return PSR_OK;
}

void psr_parts_done(psr_parts *parts)
{
    psr_buckets_done(&parts->buckets);
    psr_plan_done(&parts->plan);
    free(parts->bytes);
    *parts = (psr_parts){0};
}

/* The number of shards that hold something. They are the shards of the lowest ranks, because the
 * largest part goes to the shard that holds least, and of equal shards to that of the lower
 * rank. */
static uint32_t count_holders(const psr_parts *parts)
{
    uint32_t holders = 0;
    while (holders < parts->plan.shards && parts->bytes[holders] > 0)
        holders++;
    return holders;
}

/* A bucket size with which every shard holds something: that of auto, or the largest smaller power
 * of two. 0: there is none. */
static uint64_t size_that_serves(const psr_config *config, const psr_layout *layout)
{
    psr_config smaller = *config;
    for (uint64_t bytes = psr_bucket_bytes(layout, 0); bytes >= 4096; bytes /= 2) {
        psr_parts parts;
        smaller.bucket_bytes = bytes;
        if (bytes >= config->bucket_bytes ||
            psr_parts_init(&smaller, layout, NULL, &parts) != PSR_OK)
            continue;
        bool serves = count_holders(&parts) == parts.plan.shards;
        psr_parts_done(&parts);
        if (serves)
            return bytes;
    }
    return 0;
}

static void print_size(uint64_t bytes, char text[static 32])
{
    psr_config config;
    psr_config_defaults(&config);
    config.bucket_bytes = bytes;
    if (psr_config_get(&config, "bucket-size", text, 32) != PSR_OK)
        snprintf(text, 32, "%" PRIu64, bytes);
}

static bool fits_any(const char *pattern, const psr_layout *layout)
{
    for (size_t t = 0; t < layout->tensor_count; t++)
        if (psr_config_route_fits(pattern, layout->tensors[t].name))
            return true;
    return false;
}

/* A pattern that matches no tensor is taken for a mistake. */
static psr_err no_tensor(const char *option, const char *pattern, const psr_config *config,
                         const psr_layout *layout)
{
    return psr_fail(PSR_ERR_USAGE,
                    "--%s: no tensor of %s is called '%.200s'; its first is %s, its last %s",
                    option, config->model, pattern, layout->tensors[0].name,
                    layout->tensors[layout->tensor_count - 1].name);
}

static psr_err check_route(const psr_config *config, const psr_layout *layout)
{
    char pattern[PSR_ROUTE_TEXT_MAX];
    for (uint32_t i = 0; psr_config_route_pattern(config, i, pattern); i++)
        if (!fits_any(pattern, layout))
            return no_tensor("route", pattern, config, layout);
    return PSR_OK;
}

static psr_err check_factors(const char *option, const char *factors, const psr_config *config,
                             const psr_layout *layout)
{
    char pattern[PSR_FACTORS_TEXT_MAX];
    for (uint32_t i = 0; psr_config_factor_pattern(factors, i, pattern); i++)
        if (!fits_any(pattern, layout))
            return no_tensor(option, pattern, config, layout);
    return PSR_OK;
}

psr_err psr_parts_check(const psr_parts *parts, const psr_config *config, const psr_layout *layout)
{
    PSR_TRY(check_route(config, layout));
    PSR_TRY(check_factors("lr-factor", config->lr_factor, config, layout));
    PSR_TRY(check_factors("decay-factor", config->decay_factor, config, layout));
    uint32_t holders = count_holders(parts);
    if (holders == parts->plan.shards || !psr_plan_all_go(&parts->plan, PSR_ROUTE_SHARD))
        return PSR_OK;
    char idle[48], size[32], serving[32], or_size[64] = "", whole[64] = "", name[16] = "";
    if (holders + 1 == parts->plan.shards)
        snprintf(idle, sizeof idle, "shard %" PRIu32, holders);
    else
        snprintf(idle, sizeof idle, "shards %" PRIu32 "-%" PRIu32, holders, parts->plan.shards - 1);
    if (psr_config_updates_whole_tensors(config) &&
        psr_config_get(config, "optimizer", name, sizeof name) == PSR_OK)
        snprintf(whole, sizeof whole, " (%s keeps each tensor on one shard)", name);
    print_size(config->bucket_bytes, size);
    uint64_t bytes = size_that_serves(config, layout);
    if (bytes > 0) {
        print_size(bytes, serving);
        snprintf(or_size, sizeof or_size, ", or --bucket-size %s", serving);
    }
    return psr_fail(PSR_ERR_USAGE,
                    "--shards %" PRIu32
                    ": %s would hold nothing: with --bucket-size %s, %s has %" PRIu32
                    " part%s to give%s; give at most --shards %" PRIu32 "%s",
                    parts->plan.shards, idle, size, config->model, holders, holders == 1 ? "" : "s",
                    whole, holders, or_size);
}

/* The workers that hold a ring's buckets are described together, because the user did not choose
 * their number. */
static void describe_workers(const psr_plan *plan, char *line, size_t size)
{
    uint64_t *bytes = calloc((size_t)plan->homes + 1, sizeof *bytes), least = UINT64_MAX, most = 0;
    if (bytes == NULL)
        return; /* the line stays without it */
    psr_plan_loads(plan, PSR_ROUTE_HOST, bytes);
    for (uint32_t h = 0; h < plan->homes; h++) {
        least = bytes[h] < least ? bytes[h] : least;
        most = bytes[h] > most ? bytes[h] : most;
    }
    free(bytes);
    snprintf(line, size, "; each worker sums its part where the gradients lie, %.0f to %.0f KiB",
             (double)least / 1024, (double)most / 1024);
}

void psr_parts_describe(const psr_parts *parts, uint64_t bucket_bytes, char *line, size_t size)
{
    char text[32];
    print_size(bucket_bytes, text);
    size_t used =
        (size_t)snprintf(line, size, "%" PRIu32 " of at most %s", parts->buckets.count, text);
    uint64_t least = UINT64_MAX, most = 0;
    const bool by_host = psr_plan_has_route(&parts->plan, PSR_ROUTE_HOST);
    const bool by_shard = psr_plan_has_route(&parts->plan, PSR_ROUTE_SHARD);
    const bool one_by_one = parts->plan.shards <= NAMED_MAX;
    for (uint32_t s = 0; by_shard && s < parts->plan.shards; s++) {
        least = parts->bytes[s] < least ? parts->bytes[s] : least;
        most = parts->bytes[s] > most ? parts->bytes[s] : most;
        if (one_by_one && used < size)
            used += (size_t)snprintf(line + used, size - used, "%s %" PRIu32 " %s%.0f KiB",
                                     s == 0 ? "; shard" : ", shard", s, s == 0 ? "holds " : "",
                                     (double)parts->bytes[s] / 1024);
    }
    if (by_shard && !one_by_one && used < size)
        used += (size_t)snprintf(line + used, size - used,
                                 "; each of %" PRIu32 " shards holds %.0f to %.0f KiB",
                                 parts->plan.shards, (double)least / 1024, (double)most / 1024);
    if (used >= size || !by_host)
        return;
    if (parts->plan.hosts.count > 1)
        snprintf(line + used, size - used,
                 "; on each of %" PRIu32 " hosts the workers divide the sums among them, and the "
                 "partial sums go from host to host",
                 parts->plan.hosts.count);
    else
        describe_workers(&parts->plan, line + used, size - used);
}

bool psr_parts_describe_frozen(const psr_plan *plan, char *line, size_t size)
{
    size_t frozen = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        frozen += plan->buckets[b].route == PSR_ROUTE_FROZEN ? plan->buckets[b].span.count : 0;
    if (frozen == 0)
        return false;
    snprintf(line, size,
             "%.0f of %.0f KiB of parameters: they have no gradient, and no step sends them",
             (double)frozen * sizeof(float) / 1024,
             (double)psr_plan_length(plan) * sizeof(float) / 1024);
    return true;
}
