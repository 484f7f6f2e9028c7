#include "worker/exchange/engines/engine.h"

#if PSR_MPI
#include "comm/view/plan.h"
#include "worker/exchange/engines/mpi_sums.h"
#endif

#include <inttypes.h>
#include <string.h>

/* how its library's version text begins, and its name in psr_start.mpi */
#define OPEN_MPI "Open MPI"

/* The scheduler has made the plan of this configuration; but it comes from elsewhere. Buckets are
 * exchanged, or none is; frozen ones need no engine. */
static psr_err check_plan(const psr_config *config, const psr_plan *plan)
{
    const bool goes =
        config->exchange && (config->mode == PSR_MODE_PS || config->mode == PSR_MODE_RING);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (plan->buckets[b].route != PSR_ROUTE_FROZEN &&
            (plan->buckets[b].route != PSR_ROUTE_NONE) != goes)
            return psr_fail(PSR_ERR_FORMAT,
                            "the plan's bucket %" PRIu32 " goes by a way that --mode does not have",
                            b);
    return PSR_OK;
}

static psr_err choose_by_plan(const psr_config *config, const psr_plan *plan, psr_ways *ret_ways)
{
    static const psr_engine_ops *const engines[PSR_ROUTES] = {[PSR_ROUTE_NONE] = &psr_engine_none,
                                                              [PSR_ROUTE_RING] = &psr_engine_ring,
                                                              [PSR_ROUTE_SHARD] = &psr_engine_ps,
                                                              [PSR_ROUTE_HOST] =
                                                                  &psr_engine_direct};
    PSR_TRY(check_plan(config, plan));
    psr_ways ways = {.count = 0};
    for (int route = 0; route < PSR_ROUTES; route++)
        if (engines[route] != NULL && psr_plan_has_route(plan, (psr_route)route))
            ways.engines[ways.count++] = engines[route];
    if (ways.count == 0)
        return psr_fail(PSR_ERR_FORMAT, "the plan has no bucket that is trained");
    *ret_ways = ways;
    return PSR_OK;
}

psr_err psr_engine_choose(const psr_config *config, const psr_plan *plan, psr_ways *ret_ways)
{
    switch (config->mode) {
    case PSR_MODE_PS:
    case PSR_MODE_RING:
        return choose_by_plan(config, plan, ret_ways);
    case PSR_MODE_LOCAL: /* exchanges nothing by the plan */
        *ret_ways = (psr_ways){{&psr_engine_local}, 1};
        return PSR_OK;
    case PSR_MODE_MPI:
#if PSR_MPI
        *ret_ways = (psr_ways){{&psr_engine_mpi}, 1}; /* MPI chooses its own routes */
        return PSR_OK;
#else
        break;
#endif
    case PSR_MODE_NCCL:
        *ret_ways = (psr_ways){{&psr_engine_nccl}, 1}; /* and so does NCCL */
        return PSR_OK;
    }
    return psr_fail(PSR_ERR_UNSUPPORTED, "--mode: this build has no exchange of that kind");
}

uint32_t psr_engine_shards(const psr_config *config)
{
    return psr_config_shards(config);
}

/* MPICH's kin are started by its launcher, so all are of its kind that are not Open MPI. */
psr_err psr_engine_check_launcher(const psr_config *config, const char *mpi)
{
#if PSR_MPI
    char library[128];
    if (config->mode != PSR_MODE_MPI || mpi == NULL)
        return PSR_OK;
    psr_mpi_library(library, sizeof library);
    bool is_open_mpi = strncmp(library, OPEN_MPI, strlen(OPEN_MPI)) == 0;
    if (is_open_mpi != (strcmp(mpi, OPEN_MPI) == 0))
        return psr_fail(PSR_ERR_USAGE,
                        "--mode mpi: this psring-worker is built with %s, and started by %s's "
                        "mpirun: start it by the mpirun of %s (mpirun.%s on Debian)",
                        library, mpi, is_open_mpi ? OPEN_MPI : "MPICH",
                        is_open_mpi ? "openmpi" : "mpich");
#else
    (void)config; /* --mode mpi is refused anyway (psr_config_check) */
    (void)mpi;
#endif
    return PSR_OK;
}

bool psr_engine_is_alone(const psr_config *config)
{
    return config->mode == PSR_MODE_LOCAL;
}

bool psr_engine_sums_on_gpus(const psr_config *config)
{
    return config->mode == PSR_MODE_NCCL;
}

bool psr_engine_keeps_gradients(const psr_config *config)
{
    return psr_engine_sums_on_gpus(config) && psr_config_updates_on_device(config);
}
