#include "ps/scheduler/memory_fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The workers of one host. */
typedef struct host_need {
    const char *name;
    uint32_t workers;
    uint64_t fixed_bytes, sample_bytes; /* of one worker: the largest */
    uint64_t free_bytes;                /* 0: not told */
} host_need;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static host_need need_of(const char *host, const psr_view *members, psr_facts_of_rank *facts_of,
                         const void *context)
{
    host_need need = {.name = host};
    for (uint32_t i = 0; i < members->member_count; i++) {
        const psr_view_member *member = &members->members[i];
        if (member->peer.role != PSR_ROLE_WORKER || strcmp(member->host, host) != 0)
            continue;
        const psr_facts *facts = facts_of(context, member->peer.rank);
        need.workers++;
        need.fixed_bytes = larger(need.fixed_bytes, facts->memory_fixed_bytes);
        need.sample_bytes = larger(need.sample_bytes, facts->memory_sample_bytes);
        need.free_bytes = larger(need.free_bytes, facts->memory_free_bytes);
    }
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
    const double all = worker * need->workers, has = (double)need->free_bytes;
    if (need->free_bytes == 0 || all <= has)
        return PSR_OK;
    const double left = has / need->workers - (double)need->fixed_bytes;
    const uint32_t fewer = (uint32_t)(has / worker),
                   batch = left > 0 ? (uint32_t)(left / (double)need->sample_bytes) : 0;
    char workers[48] = "", smaller[64] = "";
    if (fewer > 0)
        snprintf(workers, sizeof workers, "give it %" PRIu32 " worker%s, or ", fewer,
                 fewer == 1 ? "" : "s");
    if (batch > 0)
        snprintf(smaller, sizeof smaller, "--batch-size %" PRIu32 " or less, or ", batch);
    return psr_fail(PSR_ERR_USAGE,
                    "%s: %" PRIu32 " worker%s of %s with batches of %" PRIu32
                    " need%s about %.1f GiB of memory, and %.1f GiB are free; %s%s%s"
                    "--no-memory-check starts it all the same",
                    need->name, need->workers, need->workers == 1 ? "" : "s", config->model,
                    config->batch_size, need->workers == 1 ? "s" : "", gib(all), gib(has), workers,
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
        const host_need need = need_of(member->host, members, facts_of, context);
        PSR_TRY(judge(config, &need));
    }
    return PSR_OK;
}
