/* How long OpenMP's threads spin while they wait for one another, before they sleep.
 *
 * By default GNU's runtime spins 300,000 times, which takes milliseconds. Beside another program
 * that is too long: a thread spins until its time slice ends, while the thread that it waits for
 * has no processor. PSR_OPENMP_SPINS take about as long as waking a thread. GNU's runtime uses the
 * same number when it has more threads than processors. Figures: docs/measurements.md.
 *
 * The runtime reads the number from the environment, before main. A user who has set GOMP_SPINCOUNT
 * or OMP_WAIT_POLICY there has chosen, and nothing is changed. */
#ifndef PSR_BASE_SYSTEM_OPENMP_H
#define PSR_BASE_SYSTEM_OPENMP_H

#include "base/system/environment.h"

#define PSR_OPENMP_SPINS 1000

/* The first call of main in a program that computes. If the user has not chosen, it executes the
 * program again with the number in its environment. Otherwise, or if that fails, it returns. words:
 * argv of main. */
void psr_openmp_begin(char *const *words);

/* Puts the number into the environment of a program that will be started, which then begins only
 * once. The environment has room for one more. false: the user has chosen, or it is there. */
bool psr_openmp_set(psr_environment *environment);

#endif
