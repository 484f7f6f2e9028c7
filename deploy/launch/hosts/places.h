/* The options that say where a run's processes go and how their hosts are reached, for `psring
 * train` and `psring run`: a child parser for argp. Only for main: it prints and exits. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_PLACES_H
#define PSR_DEPLOY_LAUNCH_HOSTS_PLACES_H

#include "deploy/launch/hosts/binding.h"
#include "deploy/launch/hosts/placement.h"

#include <argp.h>

typedef struct psr_places {
    /* borrowed from argv; NULL: not given */
    const char *hostfile, *host_list, *interface, *ssh, *remote_program;
    psr_map_by map_by;
    psr_bind_to bind_to;
    bool report_bindings;
    const char **variables; /* owned, with their texts: "NAME=VALUE", NULL at the end; NULL: none */
    size_t variable_count, variable_bytes;
} psr_places;

/* At ARGP_KEY_INIT the program sets state->child_inputs[i] to a psr_places that is all zero. A
 * refused option ends the program. */
extern const struct argp psr_places_argp;

/* The hosts of --hostfile or -H; if neither is given, those of a Slurm job, which srun reaches
 * unless places has another way (places->ssh is set then); otherwise none. USAGE: both are given;
 * or as psr_hostfile_read and psr_allocation_read. The caller owns *ret_hosts. */
PSR_MUST_CHECK psr_err psr_places_read(psr_places *places, psr_hosts *ret_hosts);
void psr_places_done(psr_places *places);

/* The number of -n. argp passes mpirun's "-np 4" as -n with "p". Returns the number's text; refuses
 * if there is none. */
char *psr_places_count(struct argp_state *state, char *arg);

#endif
