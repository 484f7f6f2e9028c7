/* --rank, --world-size, --addr, --port and --dist-url, as PyTorch's example programs have them: a
 * process of a run is told on its command line what RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
 * say elsewhere. And the loop of its older examples, which gives each process LOCAL_RANK beside
 * options that are the same for all. */
#include "comm/start/ways/torch.h"
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASTER_PORT 29500 /* torchrun's default */

static psr_err set_address(psr_start_master *master, const char *address, size_t length)
{
    if (length == 0 || length >= sizeof master->address)
        return psr_fail(PSR_ERR_USAGE, "--addr and --dist-url: a host's name has 1 to %zu bytes",
                        sizeof master->address - 1);
    memcpy(master->address, address, length);
    master->address[length] = '\0';
    return PSR_OK;
}

/* "tcp://HOST:PORT" */
static psr_err read_url(const psr_start_options *o, psr_start_master *master)
{
    const char *host = strncmp(o->url, "tcp://", 6) == 0 ? o->url + 6 : NULL;
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    char *end = NULL;
    unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
    if (colon == NULL || end == colon + 1 || *end != '\0' || port == 0 || port > UINT16_MAX)
        return psr_fail(PSR_ERR_USAGE,
                        "--dist-url is \"%.80s\": it should be env:// or tcp://HOST:PORT", o->url);
    if (o->address != NULL || o->port != NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "--dist-url %.80s says host and port: leave --addr and --port out", o->url);
    master->port = (uint16_t)port;
    return set_address(master, host, (size_t)(colon - host));
}

psr_err psr_start_master_of(const psr_start_options *o, psr_start_master *ret_master)
{
    psr_start_master master = {.address = "127.0.0.1", .port = MASTER_PORT};
    int64_t port = master.port;
    if (o->url != NULL && strcmp(o->url, "env://") != 0) {
        PSR_TRY(read_url(o, &master));
    } else {
        PSR_TRY(psr_variable_copy("MASTER_ADDR", master.address, sizeof master.address));
        PSR_TRY(psr_variable_number("MASTER_PORT", 1, UINT16_MAX, &port));
        master.port =
            (uint16_t)(o->port != NULL ? strtoul(o->port, NULL, 10) : (unsigned long)port);
        if (o->address != NULL)
            PSR_TRY(set_address(&master, o->address, strlen(o->address)));
    }
    *ret_master = master;
    return PSR_OK;
}

/* ---- the rank ---- */

static psr_err disagree(const char *option, uint32_t given, const char *variable, uint32_t told)
{
    return psr_fail(PSR_ERR_USAGE, "%s is %u, and %s says %u: leave one of them out", option, given,
                    variable, told);
}

/* The value of the option or, if it is not given, of the variable; PSR_START_UNTOLD: of neither. If
 * both are given they must be the same. */
static psr_err read_either(const char *option, uint32_t given, const char *variable, uint32_t least,
                           uint32_t most, uint32_t *ret_number)
{
    uint32_t told = PSR_START_UNTOLD;
    PSR_TRY(psr_variable_u32(variable, least, most, &told));
    if (given != PSR_START_UNTOLD && told != PSR_START_UNTOLD && given != told)
        return disagree(option, given, variable, told);
    *ret_number = given != PSR_START_UNTOLD ? given : told;
    return PSR_OK;
}

static psr_err read_rank(const psr_start_options *o, psr_start *s)
{
    uint32_t ranks = PSR_START_UNTOLD;
    PSR_TRY(read_either("--world-size", o->ranks, "WORLD_SIZE", 1, PSR_START_RANKS_MAX, &ranks));
    if (o->rank != PSR_START_UNTOLD && o->rank >= ranks)
        return psr_fail(PSR_ERR_USAGE, "--rank: give a number from 0 to %u, as --world-size is %u",
                        ranks - 1, ranks);
    PSR_TRY(read_either("--rank", o->rank, "RANK", 0, ranks - 1, &s->rank));
    PSR_TRY(read_either("--local-rank", o->local_rank, "LOCAL_RANK", 0, PSR_START_RANKS_MAX,
                        &s->local_rank));
    s->ranks = ranks;
    s->rank_variable = o->rank != PSR_START_UNTOLD ? "--rank" : "RANK";
    if (s->rank != PSR_START_UNTOLD)
        return PSR_OK;
    if (s->local_rank == PSR_START_UNTOLD || s->local_rank >= ranks || !psr_start_is_on_one_host(s))
        return psr_fail(PSR_ERR_USAGE,
                        "--world-size is %u, and nothing says which of them this process is: give "
                        "--rank, or set RANK, or on one host LOCAL_RANK (0 to %u); under mpirun or "
                        "srun leave --world-size out",
                        ranks, ranks - 1);
    s->rank_variable = "LOCAL_RANK";
    s->rank = s->local_rank;
    return PSR_OK;
}

/* The place by address and port. Fills in what is not known of the rank. */
static psr_err read_place(const psr_start_options *o, psr_start *s)
{
    psr_start_master master;
    PSR_TRY(psr_start_master_of(o, &master));
    s->way = "its options";
    s->level = PSR_START_OWN;
    s->ranks_variable = "--world-size";
    memcpy(s->address, master.address, sizeof s->address);
    s->address_variable = "--addr";
    if (s->rank == PSR_RANK_ANY)
        PSR_TRY(read_rank(o, s));
    PSR_TRY(psr_start_torch_meeting(s, master.port, "options"));
    return psr_start_complete(s);
}

psr_err psr_start_from_options(const psr_start_options *o, psr_start *ret_start)
{
    psr_start s = psr_start_blank();
    PSR_TRY(read_place(o, &s));
    *ret_start = s;
    return PSR_OK;
}

/* ---- one of a node's processes ---- */

/* How many ranks this node has, and all nodes together. */
static psr_err count_ranks(uint32_t nodes, uint32_t given, uint32_t local_rank, psr_start *s)
{
    uint32_t local = PSR_START_UNTOLD, all = PSR_START_UNTOLD;
    PSR_TRY(
        read_either("--nproc-per-node", given, "LOCAL_WORLD_SIZE", 1, PSR_START_RANKS_MAX, &local));
    PSR_TRY(psr_variable_u32("WORLD_SIZE", 1, PSR_START_RANKS_MAX, &all));
    if (local == PSR_START_UNTOLD && all == PSR_START_UNTOLD)
        return psr_fail(PSR_ERR_USAGE,
                        "LOCAL_RANK is %u, and nobody says of how many: let the loop that starts "
                        "each rank set WORLD_SIZE, or start psring-worker once on each node, "
                        "without LOCAL_RANK and with --nproc-per-node N",
                        local_rank);
    if (local == PSR_START_UNTOLD)
        local = all / nodes;
    if (all == PSR_START_UNTOLD)
        all = local * nodes;
    if (local == 0 || (uint64_t)local * nodes != all)
        return psr_fail(
            PSR_ERR_USAGE,
            "WORLD_SIZE is %u, which %u nodes (--world-size) of as many ranks each cannot be: with "
            "--multiprocessing-distributed --world-size counts nodes, and WORLD_SIZE ranks",
            all, nodes);
    if (local_rank >= local)
        return psr_fail(PSR_ERR_USAGE, "LOCAL_RANK is %u: it should be a number from 0 to %u",
                        local_rank, local - 1);
    s->local_ranks = local;
    s->ranks = all;
    return PSR_OK;
}

psr_err psr_start_of_node(const psr_start_options *o, uint32_t local_ranks, psr_start *ret_start)
{
    psr_start s = psr_start_blank();
    uint32_t alone = PSR_START_UNTOLD, rank = PSR_START_UNTOLD;
    const uint32_t nodes = o->ranks != PSR_START_UNTOLD ? o->ranks : 1;
    PSR_TRY(psr_variable_u32("LOCAL_WORLD_SIZE", 1, PSR_START_RANKS_MAX, &alone));
    PSR_TRY(read_either("--local-rank", o->local_rank, "LOCAL_RANK", 0, PSR_START_RANKS_MAX,
                        &s.local_rank));
    if (s.local_rank == PSR_START_UNTOLD || alone == 1)
        return PSR_ERR_NOT_FOUND;
    s.nodes = nodes;
    s.node = o->rank != PSR_START_UNTOLD ? o->rank : 0;
    if (s.node >= nodes)
        return psr_fail(PSR_ERR_USAGE,
                        "--rank: give a number from 0 to %u, as --world-size is %u nodes",
                        nodes - 1, nodes);
    PSR_TRY(count_ranks(nodes, local_ranks, s.local_rank, &s));
    s.rank = s.node * s.local_ranks + s.local_rank;
    s.rank_variable = "LOCAL_RANK";
    PSR_TRY(psr_variable_u32("RANK", 0, s.ranks - 1, &rank));
    if (rank != PSR_START_UNTOLD && rank != s.rank)
        return psr_fail(PSR_ERR_USAGE,
                        "RANK is %u, and LOCAL_RANK %u of node %u (--rank) is rank %u: unset RANK",
                        rank, s.local_rank, s.node, s.rank);
    PSR_TRY(read_place(o, &s));
    *ret_start = s;
    return PSR_OK;
}
