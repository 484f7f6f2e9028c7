/* PSRING_RANK and PSRING_RANKS, PSRING_LOCAL_RANK and PSRING_LOCAL_SIZE: set by psring run for each
 * rank of its program, or by whoever starts ranks by hand. */
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

#include <string.h>

psr_err psr_start_by_psring(psr_start *s)
{
    int64_t hosts = -1;
    if (psr_variable("PSRING_RANKS") == NULL)
        return PSR_ERR_NOT_FOUND;
    s->way = "psring";
    s->level = PSR_START_OWN;
    s->rank_variable = "PSRING_RANK";
    s->ranks_variable = "PSRING_RANKS";
    s->shards = 0;
    PSR_TRY(psr_variable_u32("PSRING_RANKS", 1, PSR_START_RANKS_MAX, &s->ranks));
    PSR_TRY(psr_variable_u32("PSRING_RANK", 0, s->ranks - 1, &s->rank));
    PSR_TRY(psr_variable_u32("PSRING_SHARDS", 0, s->ranks - 1, &s->shards));
    PSR_TRY(psr_variable_u32("PSRING_LOCAL_SIZE", 1, s->ranks, &s->local_ranks));
    PSR_TRY(psr_variable_u32("PSRING_LOCAL_RANK", 0,
                             s->local_ranks != PSR_START_UNTOLD ? s->local_ranks - 1 : s->ranks - 1,
                             &s->local_rank));
    PSR_TRY(psr_variable_number("PSRING_HOST_SCHEDULER", 0, 1, &hosts));
    s->starts_scheduler = hosts >= 0 ? hosts == 1 : s->rank == 0;
    s->by_launcher = hosts == 0; /* psring run is the scheduler itself */
    return PSR_OK;
}
