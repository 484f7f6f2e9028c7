/* How long OpenMP's threads spin while they wait for one another, before they sleep.
 *
 * Left alone, GNU's runtime spins 300,000 times, some milliseconds: a thread then spins through its
 * whole turn where another program has the processor that it waits for, and a step takes as long as
 * turns do. With PSR_OPENMP_SPINS a spin takes about as long as waking a thread does. That many it
 * takes by itself where it has more threads than processors. What it changes: docs/measurements.md.
 *
 * The runtime reads it from the environment, before main. Who has set GOMP_SPINCOUNT or
 * OMP_WAIT_POLICY there has chosen. */
#ifndef PSR_BASE_SYSTEM_OPENMP_H
#define PSR_BASE_SYSTEM_OPENMP_H

#include "base/system/environment.h"

#define PSR_OPENMP_SPINS 1000

/* The first call of main in a program that computes, with main's words: begins the program once
 * more (exec), with that in its environment, where it is needed. Returns otherwise, and where it
 * cannot. */
void psr_openmp_begin(char *const *words);

/* For a program that is about to be started, which then need not begin twice. The environment has
 * room for one more. */
void psr_openmp_set(psr_environment *environment);

#endif
