#include "ps/roster.h"

static psr_route route_of(const psr_config *config)
{
    if (config->mode == PSR_MODE_PS)
        return PSR_ROUTE_SHARD;
    return config->mode == PSR_MODE_RING && config->exchange ? PSR_ROUTE_RING : PSR_ROUTE_NONE;
}

psr_roster psr_roster_of(const psr_config *config)
{
    bool computes_all_ranks = config->mode == PSR_MODE_LOCAL;
    return (psr_roster){
        .ranks = config->workers,
        .worker_processes = computes_all_ranks ? 1 : config->workers,
        .shards = psr_config_shards(config),
        .computes_all_ranks = computes_all_ranks,
        .route = route_of(config),
    };
}
