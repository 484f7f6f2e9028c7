/* Fault points (--fault-point ROLE:RANK:PHASE:STEP, hidden): how fault tests find a phase without
 * guessing times.
 *
 * The process that the text names, once it reaches the phase in that step, prints one line on
 * stderr,
 *     fault-point PHASE:STEP reached
 * (STEP from 0, as on the wire; of phases after a step, such as `checkpoint`, the number of steps
 * completed) and stops itself with SIGSTOP. The test then kills it or lets it go on. It stops once
 * only. */
#ifndef PSR_BASE_FAULT_H
#define PSR_BASE_FAULT_H

#include "base/err.h"

#include <stdint.h>

/* Called once by main, before there are threads that pass points. text: the option's; "" is none.
 * role and rank: this process's. A text for another process is checked and forgotten. USAGE: not of
 * that form. */
PSR_MUST_CHECK psr_err psr_fault_point_set(const char *text, const char *role, uint32_t rank);

/* This process is in phase of step. Any thread; a comparison of one byte where no point is set. */
void psr_fault_point(const char *phase, uint64_t step);

#endif
