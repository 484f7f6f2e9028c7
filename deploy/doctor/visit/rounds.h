/* Rounds in which each two of some hosts meet once, and no host meets two others at a time: the
 * circle method of round-robin tournaments. Pure; any thread. */
#ifndef PSR_DEPLOY_DOCTOR_VISIT_ROUNDS_H
#define PSR_DEPLOY_DOCTOR_VISIT_ROUNDS_H

#include <stddef.h>

/* How many: hosts - 1, one more where their number is odd. */
size_t psr_rounds(size_t hosts);

/* Whom host meets in a round, from 0; SIZE_MAX: nobody. */
size_t psr_round_partner(size_t hosts, size_t round, size_t host);

#endif
