/* The variables that PyTorch's torch.distributed reads
 * (https://docs.pytorch.org/docs/stable/distributed.html, "Environment variable initialization";
 * https://docs.pytorch.org/docs/stable/elastic/run.html): RANK, WORLD_SIZE, LOCAL_RANK,
 * LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and, of torchrun,
 * TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT. torchrun and torch.distributed.launch set all
 * of them; a shell loop sets RANK or LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
 *
 * Who is at MASTER_PORT may be torchrun's own store: nothing of ours listens or connects there.
 * Over TCP the scheduler is at a port that follows from it. */
#include "comm/start/ways/torch.h"
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORTS_APART 1000

/* The scheduler's port follows MASTER_PORT, or precedes it if there is no following one. A run of
 * one rank needs no meeting. */
psr_err psr_start_torch_meeting(psr_start *s, uint16_t master_port, const char *run)
{
    int port = master_port + PORTS_APART <= UINT16_MAX ? master_port + PORTS_APART
                                                       : master_port - PORTS_APART;
    s->port = master_port > 0 ? (uint16_t)port : 0;
    s->starts_scheduler = s->rank == 0;
    int length = snprintf(s->job, sizeof s->job, "torch %s %u %s %ld", s->address,
                          (unsigned)master_port, run, s->ranks == 1 ? (long)getpid() : 0);
    return length < (int)sizeof s->job ? PSR_OK
                                       : psr_fail(PSR_ERR_USAGE, "TORCHELASTIC_RUN_ID is too long");
}

/* In a run on one host, a loop may give LOCAL_RANK alone. */
static psr_err read_rank(psr_start *s)
{
    if (s->local_ranks == PSR_START_UNTOLD && s->local_rank >= s->ranks &&
        s->local_rank != PSR_START_UNTOLD)
        return psr_fail(PSR_ERR_USAGE, "LOCAL_RANK is \"%s\": it should be a number from 0 to %u",
                        psr_variable("LOCAL_RANK"), s->ranks - 1);
    if (psr_variable("RANK") != NULL) {
        s->rank_variable = "RANK";
        PSR_TRY(psr_variable_u32("RANK", 0, s->ranks - 1, &s->rank));
    } else if (s->local_rank != PSR_START_UNTOLD && psr_start_is_on_one_host(s)) {
        s->rank_variable = "LOCAL_RANK";
        s->rank = s->local_rank;
    } else {
        return psr_variable_need("RANK",
                                 s->local_rank != PSR_START_UNTOLD
                                     ? "LOCAL_RANK says who this is on one host alone (WORLD_SIZE "
                                       "and LOCAL_WORLD_SIZE the same, or MASTER_ADDR 127.0.0.1)"
                                     : "WORLD_SIZE is: it says which of them this process is");
    }
    if (s->local_rank != PSR_START_UNTOLD && s->local_ranks == s->ranks && s->rank != s->local_rank)
        return psr_fail(PSR_ERR_USAGE,
                        "RANK is %u and LOCAL_RANK %u, and all %u ranks are local: they are one",
                        s->rank, s->local_rank, s->ranks);
    return PSR_OK;
}

static psr_err read_numbers(psr_start *s)
{
    PSR_TRY(psr_variable_need("WORLD_SIZE", "RANK or LOCAL_RANK is: it says of how many"));
    PSR_TRY(psr_variable_u32("WORLD_SIZE", 1, PSR_START_RANKS_MAX, &s->ranks));
    PSR_TRY(psr_variable_u32("LOCAL_WORLD_SIZE", 1, s->ranks, &s->local_ranks));
    PSR_TRY(psr_variable_u32("LOCAL_RANK", 0,
                             s->local_ranks != PSR_START_UNTOLD ? s->local_ranks - 1
                                                                : PSR_START_RANKS_MAX,
                             &s->local_rank));
    PSR_TRY(psr_variable_u32("GROUP_WORLD_SIZE", 1, s->ranks, &s->nodes));
    PSR_TRY(psr_variable_u32("GROUP_RANK", 0,
                             s->nodes != PSR_START_UNTOLD ? s->nodes - 1 : s->ranks - 1, &s->node));
    return read_rank(s);
}

static const char *or_nothing(const char *name)
{
    const char *value = psr_variable(name);
    return value != NULL ? value : "";
}

psr_err psr_start_by_torch(psr_start *s)
{
    int64_t port = 0;
    if (psr_variable("RANK") == NULL && psr_variable("LOCAL_RANK") == NULL &&
        psr_variable("WORLD_SIZE") == NULL)
        return PSR_ERR_NOT_FOUND;
    s->by_launcher = psr_variable("TORCHELASTIC_RUN_ID") != NULL;
    s->way = s->by_launcher ? "torchrun" : "torch.distributed's variables";
    s->level = PSR_START_RANKS;
    s->ranks_variable = "WORLD_SIZE";
    s->address_variable = "MASTER_ADDR";
    PSR_TRY(psr_variable_copy("MASTER_ADDR", s->address, sizeof s->address));
    PSR_TRY(psr_variable_number("MASTER_PORT", 1, UINT16_MAX, &port));
    PSR_TRY(read_numbers(s));
    if (s->ranks > 1) {
        PSR_TRY(psr_variable_need(
            "MASTER_ADDR", "WORLD_SIZE is more than 1: it says on which host the ranks meet"));
        PSR_TRY(psr_variable_need("MASTER_PORT",
                                  "WORLD_SIZE is more than 1: it tells this run from others"));
    }
    int64_t restarts = 0;
    PSR_TRY(psr_variable_number("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX, &restarts));
    s->attempt = (uint32_t)restarts;
    char run[160];
    snprintf(run, sizeof run, "%.120s %.20s", or_nothing("TORCHELASTIC_RUN_ID"),
             or_nothing("TORCHELASTIC_RESTART_COUNT"));
    return psr_start_torch_meeting(s, (uint16_t)port, run);
}
