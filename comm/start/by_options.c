/* --rank, --world-size, --addr, --port and --dist-url, as PyTorch's example programs have them: a process of a run is told on its command line what
 * RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say elsewhere. */
#include "comm/start/torch.h"
#include "comm/start/variables.h"
#include "comm/start/ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASTER_PORT 29500 /* torchrun's */

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
        return psr_fail(PSR_ERR_USAGE, "--dist-url is \"%.80s\": it should be env:// or tcp://HOST:PORT",
                        o->url);
    if (o->address != NULL || o->port != NULL)
        return psr_fail(PSR_ERR_USAGE, "--dist-url %.80s says host and port: leave --addr and --port out",
                        o->url);
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
        master.port = (uint16_t)(o->port != NULL ? strtoul(o->port, NULL, 10) : (unsigned long)port);
        if (o->address != NULL)
            PSR_TRY(set_address(&master, o->address, strlen(o->address)));
    }
    *ret_master = master;
    return PSR_OK;
}

psr_err psr_start_from_options(const psr_start_options *o, psr_start *ret_start)
{
    psr_start s = psr_start_blank();
    psr_start_master master;
    PSR_TRY(psr_start_master_of(o, &master));
    if (o->rank >= o->ranks)
        return psr_fail(PSR_ERR_USAGE, "--rank: give a number from 0 to %u, as --world-size is %u",
                        o->ranks - 1, o->ranks);
    s.way = "its options";
    s.level = PSR_START_OWN;
    s.rank_variable = "--rank";
    s.ranks_variable = "--world-size";
    s.rank = o->rank;
    s.ranks = o->ranks;
    s.local_rank = o->local_rank;
    memcpy(s.address, master.address, sizeof s.address);
    s.address_variable = "--addr";
    PSR_TRY(psr_start_torch_meeting(&s, master.port, "options"));
    PSR_TRY(psr_start_complete(&s));
    *ret_start = s;
    return PSR_OK;
}
