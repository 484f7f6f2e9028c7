/* What bench_exchange's workers give, and whether what they get is what it must be. */
#ifndef PSR_BENCH_EXCHANGE_CHECK_H
#define PSR_BENCH_EXCHANGE_CHECK_H

#include "bench/exchange/plan.h"

/* Of a worker. Ring mode sums in place, so gradients are made again before each round. */
void bench_fill_gradients(const bench_run *b, uint32_t rank, float *gradients);

/* After so many rounds: elements that are not what they must be. */
uint32_t bench_count_wrong(const bench_run *b, uint32_t rounds, const float *gradients,
                           const float *weights);

/* Elements whose bits differ. */
uint32_t bench_count_unlike(const bench_run *b, const float *one, const float *other);

#endif
