#include "bench/exchange/plan.h"

#include "ps/parts.h"

#include <stdlib.h>
#include <sys/mman.h>

psr_peer bench_member_peer(const bench_run *b, uint32_t index)
{
    uint32_t shards = b->members - b->config.workers;
    return index < shards ? (psr_peer){PSR_ROLE_SHARD, index}
                          : (psr_peer){PSR_ROLE_WORKER, index - shards};
}

uint32_t bench_host_of(const bench_run *b, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER ? peer.rank * b->hosts / b->config.workers : 0;
}

bool bench_shares_memory(const bench_run *b)
{
    return b->config.transport == PSR_TRANSPORT_SHM || b->hosts > 1;
}

bool bench_settles(const bench_run *b)
{
    return b->config.mode == PSR_MODE_PS && b->config.sync != PSR_SYNC_BSP;
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

psr_err bench_run_plan(bench_run *b)
{
    if (b->bytes) {
        uint32_t shape[] = {(uint32_t)(b->bytes / sizeof(float))};
        PSR_TRY(psr_layout_add(&b->layout, "tensor", 1, shape));
    } else {
        PSR_TRY(psr_network_new(b->config.model, 1000, 3, 224, 224, b->config.shortcut, &b->net));
        b->layout = b->net->params;
    }
    PSR_TRY(psr_buckets_plan(&b->layout, psr_bucket_bytes(&b->layout, b->config.bucket_bytes),
                             &b->buckets));
    uint32_t shards = psr_config_shards(&b->config);
    b->members = shards + b->config.workers;
    uint32_t first[BENCH_HOSTS_MAX + 1];
    for (uint32_t h = 0; h <= b->hosts; h++) /* the ranks of which host_of says h begin there */
        first[h] = (h * b->config.workers + b->hosts - 1) / b->hosts;
    const psr_host_ranks hosts = {b->hosts, first};
    PSR_TRY(psr_parts_plan(&b->config, b->config.mode, &b->layout, &b->buckets,
                           bench_shares_memory(b) ? &hosts : NULL, &b->plan));
    if (b->sum_shared && !psr_plan_has_route(&b->plan, PSR_ROUTE_HOST))
        return psr_fail(PSR_ERR_USAGE, "--sum-shared: one sum for all lies in shared memory; it "
                                       "needs --transport shm, two workers and --compress none");
    PSR_TRY(share_owed(b));
    bool encrypted = b->config.transport == PSR_TRANSPORT_TCP && b->config.bare == PSR_BARE_NOWHERE;
    PSR_TRY(psr_keys_generate(b->config.workers, shards, encrypted, &b->keys, &b->key_count));
    for (size_t i = 0; i < b->key_count; i++)
        b->keys[i].bare = !encrypted;
    return make_directories(b);
}

void bench_run_done(bench_run *b)
{
    for (size_t i = 0; i < b->key_count; i++)
        psr_keys_done(&b->keys[i]);
    free(b->keys);
    for (uint32_t h = 0; b->sockets != NULL && h < b->hosts; h++)
        psr_socket_directory_remove(&b->sockets[h]);
    free(b->sockets);
    if (b->owed != NULL)
        munmap(b->owed, owed_bytes(b));
    psr_plan_done(&b->plan);
    psr_buckets_done(&b->buckets);
    if (b->net == NULL)
        psr_layout_done(&b->layout);
    psr_network_free(b->net);
}
