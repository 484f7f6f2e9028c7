/* When, in a step, a worker's buckets are needed and ready: the time of a step's forward and
 * backward pass, divided over a network's nodes as it was recorded, or by their work. A
 * convolution's or a matrix product's work is its multiplications and additions; any other node's
 * is that of moving its values, which processors do at about thirty of these for each value. A
 * backward pass works twice what a forward pass does; as much if a node's weights are frozen, and
 * nothing where it does not reach (--freeze). Plain data; one thread. */
#ifndef PSR_BENCH_COMPUTE_H
#define PSR_BENCH_COMPUTE_H

#include "model/networks/network.h"
#include "model/played/profile.h"

typedef struct psr_compute_profile {
    uint32_t buckets; /* as many as there are, less those that are frozen */
    /* of recorded times: the share that this network takes, with what is frozen. Otherwise 1 */
    double kept;
    /* [buckets], shares of compute_s: what is computed after a bucket's weights came and before
     * those of the next are needed (descending buckets); and before a bucket's gradient is ready,
     * after the one before it (ascending). Together they are 1. Owned */
    double *forward, *backward;
    double before; /* forward, before any weights are needed */
} psr_compute_profile;

/* recorded: of these parameters (psr_profile_fits), borrowed for the call; NULL: by the work.
 * NOMEM; FORMAT: all of its times are zero. The caller owns *ret_profile: psr_compute_profile_done.
 * */
PSR_MUST_CHECK psr_err psr_compute_profile_init(const psr_network *net, const psr_buckets *buckets,
                                                const psr_profile *recorded,
                                                psr_compute_profile *ret_profile);
void psr_compute_profile_done(psr_compute_profile *profile);

#endif
