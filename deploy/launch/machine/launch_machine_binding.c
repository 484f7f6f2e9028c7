#include "deploy/launch/machine/launch_machine_private.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- threads ---- */

static uint32_t threads_of_host(const psr_launch_machine *m, const psr_launch_host *h)
{
    uint32_t most = m->options.placement->workers_most;
    if (m->options.bind_to != PSR_BIND_TO_NONE && h->topology.core_count > 0)
        return psr_binding_threads(m->options.bind_to, &h->topology, most);
    return h->cores / (most != 0 ? most : 1);
}

/* The number of threads is the same for all workers and in every mode, so hosts that have only
 * shards do not count. */
uint32_t psr_launch_threads(const psr_launch_machine *m)
{
    uint32_t threads = UINT32_MAX;
    if (m->options.config->threads != 0)
        return m->options.config->threads;
    for (size_t i = 0; i < m->options.placement->worker_hosts; i++) {
        uint32_t here = threads_of_host(m, &m->hosts[i]);
        threads = here < threads ? here : threads;
    }
    return threads != 0 ? threads : 1;
}

/* ---- the plan ---- */

/* Lists a host's processes, workers first, as psr_binding_plan needs them. Returns the number of
 * workers. */
static uint32_t items_of_host(const psr_placement *placement, size_t host, psr_role role,
                              size_t *items)
{
    uint32_t count = 0;
    for (size_t i = 0; i < placement->count; i++)
        if (placement->items[i].host == host && placement->items[i].peer.role == role)
            items[count++] = i;
    return count;
}

static psr_err bind_host(psr_launch_machine *m, size_t host, uint32_t threads, size_t *items,
                         psr_cpus *cpus)
{
    const psr_placement *placement = m->options.placement;
    const psr_launch_host *h = &m->hosts[host];
    psr_binding_request r = {.to = m->options.bind_to, .host = h->name, .threads = threads};
    r.workers = items_of_host(placement, host, PSR_ROLE_WORKER, items);
    r.shards = items_of_host(placement, host, PSR_ROLE_SHARD, items + r.workers);
    if (h->topology.core_count == 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "host %s: --bind-to: its psring does not tell its cores, since it was built without "
            "hwloc; install one that was built with it, or give --bind-to none",
            h->name);
    PSR_TRY(psr_binding_plan(&r, &h->topology, cpus));
    for (uint32_t i = 0; i < r.workers + r.shards; i++)
        PSR_TRY(psr_cpus_print(&cpus[i], &m->cpus[items[i]]));
    return PSR_OK;
}

psr_err psr_launch_bind(psr_launch_machine *m, uint32_t threads)
{
    const psr_placement *placement = m->options.placement;
    if (m->options.bind_to == PSR_BIND_TO_NONE)
        return PSR_OK;
    size_t *items = calloc(placement->count, sizeof *items);
    psr_cpus *cpus = calloc(placement->count, sizeof *cpus);
    psr_err err =
        items != NULL && cpus != NULL
            ? PSR_OK
            : psr_fail(PSR_ERR_NOMEM, "no memory for where %zu processes run", placement->count);
    /* The number of threads of a program's ranks is not known. */
    for (size_t host = 0; host < m->host_count && err == PSR_OK; host++)
        err = bind_host(m, host, m->options.runs_program ? 1 : threads, items, cpus);
    free(items);
    free(cpus);
    return err;
}

/* ---- the report ---- */

/* stdout is a program's. */
void psr_launch_report_bindings(psr_launch_machine *m)
{
    const psr_placement *placement = m->options.placement;
    for (size_t i = 0; i < placement->count && m->options.report_bindings; i++) {
        const psr_placed *item = &placement->items[i];
        psr_launch_show(m, m->options.runs_program ? m->act.show_error : m->act.show_line,
                        m->cpus[i] != NULL ? "binding    %s %" PRIu32 " on %s: CPUs %s"
                                           : "binding    %s %" PRIu32 " on %s: none%s",
                        m->options.runs_program ? "rank" : psr_role_name(item->peer.role),
                        item->peer.rank, m->hosts[item->host].name,
                        m->cpus[i] != NULL ? m->cpus[i] : "");
    }
}
