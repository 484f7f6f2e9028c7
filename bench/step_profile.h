/* Measures where a step's time goes. Time per kind of node comes from the executable's progress
 * calls. They come before a node's forward and after its backward pass, in the network's order, so
 * the time between two calls belongs to one node; nodes that are computed together count as the
 * kind of the first one. Time for copies of weights, which is part of that, comes from our own
 * clock and from oneDNN's verbose output; for that stdout is redirected to a temporary file
 * meanwhile. */
#ifndef PSR_BENCH_STEP_PROFILE_H
#define PSR_BENCH_STEP_PROFILE_H

#include "model/networks/network.h"

#include <stdio.h>

enum { PROFILE_KINDS = PSR_OP_SCALE + 1 };

typedef struct profile {
    const psr_network *net;
    psr_op *kinds; /* of the calls of a forward pass; owned until profile_end */
    uint32_t calls;
    double began_s, last_s, whole_s;
    double forward_s[PROFILE_KINDS], backward_s[PROFILE_KINDS];
    double primitive_s[3]; /* reorders, convolutions, other primitives: oneDNN's account */
    double tiles_s;        /* our own moves of weights and their gradients */
    FILE *account;
    int stdout_copy;
} profile;

/* by_groups: the back end fuses, as oneDNN's does. */
void profile_begin(profile *p, const psr_network *net, bool by_groups);
void profile_progress(void *p);
void profile_end(profile *p);
/* Share of the step that only moves bytes: reorders, and the nodes that change shape or layout. */
double profile_copy_share(const profile *p);
void profile_print(const profile *p);

#endif
