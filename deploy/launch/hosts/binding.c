#include "deploy/launch/hosts/binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t cores_of_node(const psr_topology *t, uint32_t node)
{
    uint32_t cores = 0;
    for (uint32_t i = 0; i < t->core_count; i++)
        cores += t->cores[i].node == node;
    return cores;
}

static void add_core(psr_cpus *cpus, const psr_topology *t, uint32_t core)
{
    for (uint32_t i = 0; i < t->cores[core].count; i++)
        psr_cpus_add(cpus, t->cpus[t->cores[core].first + i]);
}

/* ---- to nodes ---- */

/* Neighbouring ranks share a node. */
static uint32_t node_of(const psr_topology *t, uint32_t worker, uint32_t workers)
{
    return (uint32_t)((uint64_t)worker * t->node_count / workers);
}

static uint32_t workers_of_node(const psr_topology *t, uint32_t node, uint32_t workers)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < workers; i++)
        count += node_of(t, i, workers) == node;
    return count;
}

static void give_node(psr_cpus *cpus, const psr_topology *t, uint32_t node)
{
    for (uint32_t i = 0; i < t->core_count; i++)
        if (t->cores[i].node == node)
            add_core(cpus, t, i);
}

static psr_err check_nodes(const psr_binding_request *r, const psr_topology *t)
{
    for (uint32_t node = 0; node < t->node_count; node++) {
        uint32_t workers = workers_of_node(t, node, r->workers), cores = cores_of_node(t, node);
        if (workers * r->threads > cores)
            return psr_fail(PSR_ERR_USAGE,
                            "host %s: --bind-to numa needs %u cores in its NUMA node %u (workers: "
                            "%u, threads of each: %u), and that has %u; give --threads %u, fewer "
                            "workers there, or --bind-to none",
                            r->host, workers * r->threads, node, workers, r->threads, cores,
                            psr_binding_threads(r->to, t, r->workers));
    }
    return PSR_OK;
}

static psr_err plan_nodes(const psr_binding_request *r, const psr_topology *t, psr_cpus *ret_cpus)
{
    PSR_TRY(check_nodes(r, t));
    memset(ret_cpus, 0, (r->workers + r->shards) * sizeof *ret_cpus);
    for (uint32_t i = 0; i < r->workers; i++)
        give_node(&ret_cpus[i], t, node_of(t, i, r->workers));
    for (uint32_t i = 0; i < r->shards; i++)
        give_node(&ret_cpus[r->workers + i], t, i % t->node_count);
    return PSR_OK;
}

/* ---- to cores ---- */

/* Finds, from `from` on, the first of `share` neighbouring cores that are all in one node;
 * core_count: there are none. */
static uint32_t find_within_node(const psr_topology *t, uint32_t from, uint32_t share)
{
    for (uint32_t first = from; first + share <= t->core_count; first++)
        if (t->cores[first].node == t->cores[first + share - 1].node)
            return first;
    return t->core_count;
}

/* Finds where each worker's share begins, so that no share lies in two nodes. false: that is
 * impossible. */
static bool lay_within_nodes(const psr_topology *t, uint32_t workers, uint32_t share,
                             uint32_t *begins)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < workers; i++, at += share) {
        at = find_within_node(t, at, share);
        if (at == t->core_count)
            return false;
        begins[i] = at;
    }
    return true;
}

/* Returns the number of cores of each worker, at least `least`. */
static uint32_t lay(const psr_topology *t, uint32_t processes, uint32_t cores, uint32_t least,
                    uint32_t *begins)
{
    const uint32_t most = cores / processes;
    for (uint32_t share = most; share >= least; share--)
        if (lay_within_nodes(t, processes, share, begins))
            return share;
    for (uint32_t i = 0; i < processes; i++)
        begins[i] = i * most;
    return most;
}

static psr_err refuse_too_few_cores(const psr_binding_request *r, uint32_t cores)
{
    char instead[64] = "";
    uint32_t fit = r->workers > 0 ? cores / r->workers : 0;
    if (fit > 0)
        snprintf(instead, sizeof instead, "--threads %u, ", fit);
    return psr_fail(
        PSR_ERR_USAGE,
        "host %s: --bind-to core needs %u cores there (workers: %u, threads of each: %u, shards: "
        "%u), and it has %u; give %sfewer processes there, or --bind-to none",
        r->host, r->workers > 0 ? r->workers * r->threads : r->shards, r->workers, r->threads,
        r->shards, cores, instead);
}

static void give_all_cores(const psr_topology *t, uint32_t shards, psr_cpus *cpus)
{
    for (uint32_t i = 0; i < shards; i++)
        for (uint32_t core = 0; core < t->core_count; core++)
            add_core(&cpus[i], t, core);
}

/* One core for each shard, from the end. */
static void give_last_cores(const psr_topology *t, uint32_t shards, bool *taken, psr_cpus *cpus)
{
    for (uint32_t core = t->core_count, i = 0; core-- > 0 && i < shards;) {
        if (taken[core])
            continue;
        taken[core] = true;
        add_core(&cpus[i++], t, core);
    }
}

static psr_err plan_cores(const psr_binding_request *r, const psr_topology *t, psr_cpus *ret_cpus)
{
    const bool of_workers = r->workers > 0;
    const uint32_t sharing = of_workers ? r->workers : r->shards,
                   others = of_workers ? r->shards : 0;
    const uint32_t least = of_workers ? r->threads : 1;
    if ((uint64_t)sharing * least > t->core_count)
        return refuse_too_few_cores(r, t->core_count);
    /* Shards compute little. If they cannot have cores of their own, the kernel runs them between
     * the workers. */
    const uint32_t apart = (uint64_t)sharing * least + others <= t->core_count ? others : 0;
    uint32_t *begins = calloc(sharing, sizeof *begins);
    bool *taken = calloc(t->core_count, sizeof *taken);
    if (begins == NULL || taken == NULL) {
        free(begins);
        free(taken);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the cores of host %s", r->host);
    }
    memset(ret_cpus, 0, (r->workers + r->shards) * sizeof *ret_cpus);
    uint32_t share = lay(t, sharing, t->core_count - apart, least, begins);
    for (uint32_t i = 0; i < sharing; i++)
        for (uint32_t core = begins[i]; core < begins[i] + share; core++) {
            taken[core] = true;
            add_core(&ret_cpus[i], t, core);
        }
    if (apart > 0)
        give_last_cores(t, apart, taken, ret_cpus + sharing);
    else
        give_all_cores(t, others, ret_cpus + sharing);
    free(begins);
    free(taken);
    return PSR_OK;
}

/* ---- either ---- */

psr_err psr_binding_plan(const psr_binding_request *r, const psr_topology *t, psr_cpus *ret_cpus)
{
    if (r->workers + r->shards == 0)
        return PSR_OK;
    return r->to == PSR_BIND_TO_NUMA ? plan_nodes(r, t, ret_cpus) : plan_cores(r, t, ret_cpus);
}

uint32_t psr_binding_threads(psr_bind_to to, const psr_topology *t, uint32_t workers)
{
    uint32_t threads = t->core_count / (workers != 0 ? workers : 1);
    for (uint32_t node = 0; node < t->node_count && to == PSR_BIND_TO_NUMA; node++) {
        uint32_t here = workers_of_node(t, node, workers), cores = cores_of_node(t, node);
        if (here > 0 && cores / here < threads)
            threads = cores / here;
    }
    return threads != 0 ? threads : 1;
}
