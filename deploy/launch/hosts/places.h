/* The options that say where a run's processes go and how their hosts are reached, which `psring
 * train` and `psring run` share: a child parser for argp. For a program's front door alone: it
 * prints and exits. */
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
    const char **variables; /* owned, their texts too: "NAME=VALUE", NULL at the end; NULL: none */
    size_t variable_count, variable_bytes;
} psr_places;

/* At ARGP_KEY_INIT the program sets state->child_inputs[i] to a psr_places that is all zero. A
 * refused option ends the program. */
extern const struct argp psr_places_argp;

/* The hosts of --hostfile or -H; where neither is given those of a Slurm job, which srun reaches
 * unless places has another way (places->ssh is set then); else none. USAGE: both;
 * psr_hostfile_read's and psr_allocation_read's. ret owns. */
PSR_MUST_CHECK psr_err psr_places_read(psr_places *places, psr_hosts *ret_hosts);
void psr_places_done(psr_places *places);

/* What argp hands over for -n: "-np 4", as mpirun is given it, comes as -n with "p". Returns the
 * number's text; refuses without one. */
char *psr_places_count(struct argp_state *state, char *arg);

#endif
