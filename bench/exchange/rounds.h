/* The rounds of an exchange: starts its processes, has them exchange, and says how long that
 * took. */
#ifndef PSR_BENCH_EXCHANGE_ROUNDS_H
#define PSR_BENCH_EXCHANGE_ROUNDS_H

#include "bench/exchange/plan.h"

/* What the rounds of an exchange came to; times in ms. */
typedef struct bench_rounds_figures {
    double least, median, most, size_bytes, factor; /* factor 0: none */
    double sent, received; /* bytes of a worker in an exchange: mean of workers and rounds */
    uint32_t wrong;        /* elements that are not what they must be */
} bench_rounds_figures;

/* Of a run that has a plan. In a launch all ranks call it alike, and get the same. A process that
 * fails says so, and ends this one. */
bench_rounds_figures bench_rounds_run(bench_run *b);

/* The median of values in ascending order. */
double bench_median(const double *values, uint32_t count);

#endif
