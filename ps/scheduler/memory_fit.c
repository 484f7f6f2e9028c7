#include "ps/scheduler/memory_fit.h"

#include "model/optimizers/optimizer.h"
#include "model/optimizers/updater.h"
#include "ps/roster.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A shard's program, libraries and threads. */
#define SHARD_BASE_BYTES ((uint64_t)16 << 20)

/* The workers and shards of one host. */
typedef struct host_need {
    const char *name;
    uint32_t workers, shards;
    uint64_t shard_bytes;               /* of one */
    uint64_t fixed_bytes, sample_bytes; /* of one worker: the largest */
    uint64_t host_bytes;                /* of all workers together */
    uint64_t free_bytes;                /* 0: not told */
} host_need;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t psr_memory_of_shard(const psr_config *config, uint64_t parameters)
{
    const psr_roster roster = psr_roster_of(config);
    const double arrays = 1 + psr_optimizer_slots_of(config) + psr_updater_waits(config),
                 part = (double)parameters * sizeof(float) / fmax(1, roster.shards);
    const double queues =
        roster.ranks * fmin(part, (double)config->window * (double)config->slice_bytes);
    return SHARD_BASE_BYTES + (uint64_t)(arrays * part + queues);
}

static host_need need_of(const psr_config *config, const char *host, const psr_view *members,
                         psr_facts_of_rank *facts_of, const void *context)
{
    host_need need = {.name = host};
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < members->member_count; i++) {
        const psr_view_member *member = &members->members[i];
        if (strcmp(member->host, host) != 0)
            continue;
        need.shards += member->peer.role == PSR_ROLE_SHARD;
        if (member->peer.role != PSR_ROLE_WORKER)
            continue;
        const psr_facts *facts = facts_of(context, member->peer.rank);
        need.workers++;
        need.fixed_bytes = larger(need.fixed_bytes, facts->memory_fixed_bytes);
        need.sample_bytes = larger(need.sample_bytes, facts->memory_sample_bytes);
        need.host_bytes = larger(need.host_bytes, facts->memory_host_bytes);
        need.free_bytes = larger(need.free_bytes, facts->memory_free_bytes);
        parameters = facts->parameter_count; /* the same at all workers */
    }
    need.shard_bytes = psr_memory_of_shard(config, parameters);
    return need;
}

static double gib(double bytes)
{
    return bytes / (1 << 30);
}

/* In double, since the numbers are a worker's own and may be any. */
static psr_err judge(const psr_config *config, const host_need *need)
{
    const double worker =
        (double)need->fixed_bytes + (double)config->batch_size * (double)need->sample_bytes;
    const double apart = (double)need->shard_bytes * need->shards + (double)need->host_bytes,
                 all = worker * need->workers + apart, told = (double)need->free_bytes,
                 has = fmax(0, told - apart);
    if (need->free_bytes == 0 || all <= told)
        return PSR_OK;
    const double left = has / need->workers - (double)need->fixed_bytes;
    const uint32_t fewer = (uint32_t)(has / worker),
                   batch = left > 0 ? (uint32_t)(left / (double)need->sample_bytes) : 0;
    char workers[48] = "", smaller[64] = "", shards[48] = "", data[48] = "";
    const bool one = need->workers + need->shards == 1;
    if (need->shards > 0)
        snprintf(shards, sizeof shards, " and %" PRIu32 " shard%s", need->shards,
                 need->shards == 1 ? "" : "s");
    if (gib((double)need->host_bytes) >= 0.05)
        snprintf(data, sizeof data, " %.1f GiB of it for data,", gib((double)need->host_bytes));
    if (fewer > 0)
        snprintf(workers, sizeof workers, "give it %" PRIu32 " worker%s, or ", fewer,
                 fewer == 1 ? "" : "s");
    if (batch > 0)
        snprintf(smaller, sizeof smaller, "--batch-size %" PRIu32 " or less, or ", batch);
    return psr_fail(PSR_ERR_USAGE,
                    "%s: %" PRIu32 " worker%s of %s with batches of %" PRIu32
                    "%s need%s about %.1f GiB of memory,%s and %.1f GiB are free; %s%s%s"
                    "--no-memory-check starts it all the same",
                    need->name, need->workers, need->workers == 1 ? "" : "s", config->model,
                    config->batch_size, shards, one ? "s" : "", gib(all), data, gib(told), workers,
                    smaller,
                    fewer == 0 && batch == 0 ? "give a smaller --model or image, or " : "");
}

static bool is_first_of_its_host(const psr_view *members, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (members->members[i].peer.role == PSR_ROLE_WORKER &&
            strcmp(members->members[i].host, members->members[at].host) == 0)
            return false;
    return true;
}

psr_err psr_memory_fit(const psr_config *config, const psr_view *members,
                       psr_facts_of_rank *facts_of, const void *context)
{
    if (!config->memory_check)
        return PSR_OK;
    for (uint32_t i = 0; i < members->member_count; i++) {
        const psr_view_member *member = &members->members[i];
        if (member->peer.role != PSR_ROLE_WORKER || !is_first_of_its_host(members, i))
            continue;
        const host_need need = need_of(config, member->host, members, facts_of, context);
        PSR_TRY(judge(config, &need));
    }
    return PSR_OK;
}
