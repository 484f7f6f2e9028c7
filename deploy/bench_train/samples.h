/* What repetitions of a measurement say, and whether two measurements differ. The rule
 * (docs/benchmarking.md): two configurations are called different only if both hold:
 *
 * 1. The exact rank-sum test (Wilcoxon 1945; Mann and Whitney 1947; two-sided, ties by mid-ranks)
 *    gives at most PSR_SAMPLES_P: if the two were the same thing, their repetitions would be
 *    ordered as clearly as they are at most so often. With six repetitions each that means: every
 *    repetition of one lies above every repetition of the other. With ten, one may lie anywhere.
 * 2. Their medians are further apart than the wider of their two spreads.
 *
 * The first alone would call equal configurations different once in 400 comparisons. Pure; any
 * thread. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_SAMPLES_H
#define PSR_DEPLOY_BENCH_TRAIN_SAMPLES_H

#include <stddef.h>

#define PSR_SAMPLES_MAX 64
#define PSR_SAMPLES_P 0.0025
/* Fewer on either side can never be called different. */
#define PSR_SAMPLES_LEAST 6

typedef enum psr_samples_verdict {
    PSR_SAMPLES_TOO_FEW,  /* nothing can be said */
    PSR_SAMPLES_TOGETHER, /* the difference lies inside the spread */
    PSR_SAMPLES_LOWER,    /* the first is lower */
    PSR_SAMPLES_HIGHER,
} psr_samples_verdict;

/* All of these: 0 <= count <= PSR_SAMPLES_MAX finite values in any order; NaN of none. */
double psr_samples_median(const double *values, size_t count);
/* From the first quartile to the third one, which are interpolated between neighbours. */
double psr_samples_spread(const double *values, size_t count);

/* The two-sided probability of the rank-sum test; 1 if either is empty. */
double psr_samples_p(const double *a, size_t a_count, const double *b, size_t b_count);

psr_samples_verdict psr_samples_compare(const double *a, size_t a_count, const double *b,
                                        size_t b_count);

#endif
