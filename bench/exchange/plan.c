#include "bench/exchange/plan.h"

#include "bench/exchange/launched.h"
#include "ps/parts.h"

#include <stdlib.h>
#include <sys/mman.h>

psr_peer bench_member_peer(const bench_run *b, uint32_t index)
{
    uint32_t shards = b->members - b->config.workers;
    return index < shards ? (psr_peer){PSR_ROLE_SHARD, index}
                          : (psr_peer){PSR_ROLE_WORKER, index - shards};
}

uint32_t bench_member_of_rank(const bench_run *b, uint32_t rank)
{
    const uint32_t workers = b->config.workers;
    return rank < workers ? b->members - workers + rank : rank - workers;
}

uint32_t bench_host_of(const bench_run *b, psr_peer peer)
{
    if (b->host_of != NULL)
        return b->host_of[peer.role == PSR_ROLE_SHARD ? peer.rank
                                                      : b->members - b->config.workers + peer.rank];
    return peer.role == PSR_ROLE_WORKER ? peer.rank * b->hosts / b->config.workers : 0;
}

bool bench_shares_memory(const bench_run *b)
{
    return b->meeting != NULL ? psr_config_shares_memory(&b->config)
                              : b->config.transport == PSR_TRANSPORT_SHM || b->hosts > 1;
}

bool bench_settles(const bench_run *b)
{
    return b->config.mode == PSR_MODE_PS && b->config.sync != PSR_SYNC_BSP;
}

/* The share of the buckets' bytes that shards on that host hold. */
static double held_on(const bench_run *b, uint32_t host)
{
    double held = 0, all = 0;
    for (uint32_t k = 0; k < b->plan.bucket_count; k++) {
        const psr_plan_bucket *bucket = &b->plan.buckets[k];
        const double count = (double)bucket->span.count;
        all += count;
        held += bench_host_of(b, (psr_peer){PSR_ROLE_SHARD, bucket->home}) == host ? count : 0;
    }
    return held / all;
}

/* Of a host's link: what its workers push away, and what its shards answer to other hosts. */
static double shards_factor(const bench_run *b)
{
    double most = 0;
    for (uint32_t host = 0; host < b->hosts; host++) {
        double here = 0;
        for (uint32_t r = 0; r < b->config.workers; r++)
            here += bench_host_of(b, (psr_peer){PSR_ROLE_WORKER, r}) == host;
        const double held = held_on(b, host),
                     carried = here * (1 - held) + held * (b->config.workers - here);
        most = carried > most ? carried : most;
    }
    return most;
}

/* Of a ring: how often it leaves the host that it leaves most often. */
static double ways_out(const bench_run *b)
{
    uint32_t most = 0;
    for (uint32_t host = 0; host < b->hosts; host++) {
        uint32_t out = 0;
        for (uint32_t r = 0; r < b->config.workers; r++) {
            const uint32_t next = (r + 1) % b->config.workers;
            out += bench_host_of(b, (psr_peer){PSR_ROLE_WORKER, r}) == host &&
                   bench_host_of(b, (psr_peer){PSR_ROLE_WORKER, next}) != host;
        }
        most = out > most ? out : most;
    }
    return most;
}

double bench_bus_factor(const bench_run *b)
{
    const double n = b->config.workers, s = psr_config_shards(&b->config);
    if (b->config.mode == PSR_MODE_PS && b->meeting != NULL && b->hosts > 1)
        return shards_factor(b);
    if (b->config.mode == PSR_MODE_PS)
        return n > s ? n / s : 1;
    if (b->plan.hosts.count > 1) /* each host with a link of its own */
        return (n - 1) / n + (double)(b->plan.hosts.count - 1) / b->plan.hosts.count;
    return 2 * (n - 1) / n * (b->meeting != NULL && b->hosts > 1 ? ways_out(b) : 1);
}

static size_t owed_bytes(const bench_run *b)
{
    return (size_t)b->config.workers * b->layout.length * sizeof(float);
}

static psr_err share_owed(bench_run *b)
{
    if (!psr_plan_has_residual(&b->plan))
        return PSR_OK;
    if (b->sum_only)
        return psr_fail(
            PSR_ERR_USAGE,
            "--sum-only: what --compress %s owes is checked by the weights; leave one out",
            b->config.compress);
    if (bench_settles(b))
        return psr_fail(PSR_ERR_USAGE,
                        "--compress %s: what is owed is checked with --sync bsp alone",
                        b->config.compress);
    void *memory =
        mmap(NULL, owed_bytes(b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what %u workers owe", b->config.workers);
    b->owed = memory;
    return PSR_OK;
}

/* Where the processes of each host meet. */
static psr_err make_directories(bench_run *b)
{
    b->sockets = calloc(b->hosts, sizeof *b->sockets);
    if (b->sockets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u hosts", b->hosts);
    for (uint32_t h = 0; h < b->hosts; h++)
        b->sockets[h] = PSR_SOCKET_DIRECTORY_NONE;
    if (b->config.transport != PSR_TRANSPORT_IPC && !bench_shares_memory(b))
        return PSR_OK;
    for (uint32_t h = 0; h < b->hosts; h++)
        PSR_TRY(psr_socket_directory_make(NULL, &b->sockets[h]));
    return PSR_OK;
}

/* The ranks whose hosts are the same, one behind the other. */
static psr_err plan_parts(bench_run *b)
{
    uint32_t *first = calloc((size_t)b->config.workers + 1, sizeof *first);
    if (first == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the hosts of %u workers", b->config.workers);
    psr_host_ranks hosts = {0, first};
    for (uint32_t r = 0, before = 0; r < b->config.workers; r++) {
        const uint32_t host = bench_host_of(b, (psr_peer){PSR_ROLE_WORKER, r});
        if (r == 0 || host != before)
            first[hosts.count++] = r;
        before = host;
    }
    first[hosts.count] = b->config.workers;
    psr_err err = psr_parts_plan(&b->config, b->config.mode, &b->layout, &b->buckets,
                                 bench_shares_memory(b) ? &hosts : NULL, &b->plan);
    free(first);
    return err;
}

static psr_err plan_buckets(bench_run *b)
{
    if (b->bytes) {
        uint32_t shape[] = {(uint32_t)(b->bytes / sizeof(float))};
        PSR_TRY(psr_layout_add(&b->layout, "tensor", 1, shape));
    } else {
        PSR_TRY(psr_network_of(&b->config, 1000, 3, 224, 224, &b->net));
        b->layout = b->net->params;
    }
    return psr_buckets_plan(&b->layout, psr_bucket_bytes(&b->layout, b->config.bucket_bytes),
                            &b->buckets);
}

static psr_err make_keys(bench_run *b)
{
    /* Over loopback auto is in the clear, as the peers that are measured beside it. */
    const bool encrypted =
        b->config.bare == PSR_BARE_NOWHERE &&
        (b->config.transport == PSR_TRANSPORT_TCP || (b->hosts > 1 && b->meeting != NULL));
    PSR_TRY(psr_keys_generate(b->config.workers, psr_config_shards(&b->config), encrypted, &b->keys,
                              &b->key_count));
    for (size_t i = 0; i < b->key_count; i++)
        b->keys[i].bare = !encrypted;
    return PSR_OK;
}

psr_err bench_run_plan(bench_run *b)
{
    b->members = psr_config_shards(&b->config) + b->config.workers;
    if (b->meeting != NULL)
        PSR_TRY(bench_launch_find_hosts(b));
    PSR_TRY(plan_buckets(b));
    PSR_TRY(plan_parts(b));
    if (b->sum_shared && !psr_plan_has_route(&b->plan, PSR_ROUTE_HOST))
        return psr_fail(PSR_ERR_USAGE, "--sum-shared: one sum for all lies in shared memory; it "
                                       "needs --transport shm, two workers and --compress none");
    PSR_TRY(share_owed(b));
    PSR_TRY(make_keys(b));
    return b->meeting != NULL ? bench_launch_meet(b) : make_directories(b);
}

void bench_run_done(bench_run *b)
{
    for (size_t i = 0; i < b->key_count; i++)
        psr_keys_done(&b->keys[i]);
    free(b->keys);
    for (uint32_t h = 0; b->sockets != NULL && h < (b->meeting != NULL ? 1 : b->hosts); h++)
        psr_socket_directory_remove(&b->sockets[h]);
    free(b->sockets);
    free(b->host_of);
    if (b->owed != NULL)
        munmap(b->owed, owed_bytes(b));
    psr_plan_done(&b->plan);
    psr_buckets_done(&b->buckets);
    if (b->net == NULL)
        psr_layout_done(&b->layout);
    psr_network_free(b->net);
}
