/* Rounds in which each pair of hosts meets once, and no host meets two others in one round: the
 * circle method of round-robin tournaments. Does no I/O; any thread. */
#ifndef PSR_DEPLOY_DOCTOR_VISIT_ROUNDS_H
#define PSR_DEPLOY_DOCTOR_VISIT_ROUNDS_H

#include <stddef.h>

/* The number of rounds: hosts - 1, and one more if the number of hosts is odd. */
size_t psr_rounds(size_t hosts);

/* The host that `host` meets in a round, from 0; SIZE_MAX: none. */
size_t psr_round_partner(size_t hosts, size_t round, size_t host);

#endif
