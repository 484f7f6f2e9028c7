#include "deploy/bench_train/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Twice a rank is at most 4 PSR_SAMPLES_MAX, and PSR_SAMPLES_MAX of them are summed up. */
#define RANK_SUM_MAX ((size_t)4 * PSR_SAMPLES_MAX * PSR_SAMPLES_MAX)

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* at: from 0, the least, to 1, the most. */
static double quantile(const double *values, size_t count, double at)
{
    double sorted[PSR_SAMPLES_MAX];
    if (count == 0)
        return NAN;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    const double place = at * (double)(count - 1);
    const size_t below = (size_t)place;
    const size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

double psr_samples_median(const double *values, size_t count)
{
    return quantile(values, count, 0.5);
}

double psr_samples_spread(const double *values, size_t count)
{
    return quantile(values, count, 0.75) - quantile(values, count, 0.25);
}

/* Twice the mid-rank of a value among all: whole numbers, which can be counted exactly. */
static size_t twice_rank(double value, const double *all, size_t count)
{
    size_t below = 0, equal = 0;
    for (size_t i = 0; i < count; i++) {
        below += all[i] < value;
        equal += all[i] == value;
    }
    return 2 * below + equal + 1;
}

/* In how many ways `taken` of the ranks sum up to each sum: ways[taken][sum], one rank after the
 * other. As doubles, since there are many. */
static void count_ways(const size_t *ranks, size_t count, size_t taken, double *ways)
{
    ways[0] = 1;
    for (size_t r = 0; r < count; r++)
        for (size_t k = taken < r + 1 ? taken : r + 1; k > 0; k--)
            for (size_t sum = RANK_SUM_MAX; sum >= ranks[r]; sum--)
                ways[k * (RANK_SUM_MAX + 1) + sum] +=
                    ways[(k - 1) * (RANK_SUM_MAX + 1) + sum - ranks[r]];
}

double psr_samples_p(const double *a, size_t a_count, const double *b, size_t b_count)
{
    double all[2 * PSR_SAMPLES_MAX];
    size_t ranks[2 * PSR_SAMPLES_MAX];
    const size_t count = a_count + b_count;
    if (a_count == 0 || b_count == 0)
        return 1;
    double *ways = calloc((a_count + 1) * (RANK_SUM_MAX + 1), sizeof *ways);
    if (ways == NULL)
        return 1; /* nothing is called different */
    memcpy(all, a, a_count * sizeof *all);
    memcpy(all + a_count, b, b_count * sizeof *all);
    size_t sum_of_a = 0;
    for (size_t i = 0; i < count; i++) {
        ranks[i] = twice_rank(all[i], all, count);
        sum_of_a += i < a_count ? ranks[i] : 0;
    }
    count_ways(ranks, count, a_count, ways);
    /* The distribution is symmetric around this, twice the mean of a sum of ranks. */
    const double middle = (double)a_count * (double)(count + 1);
    const double distance = fabs((double)sum_of_a - middle);
    double as_far = 0, total = 0;
    for (size_t sum = 0; sum <= RANK_SUM_MAX; sum++) {
        const double here = ways[a_count * (RANK_SUM_MAX + 1) + sum];
        total += here;
        as_far += fabs((double)sum - middle) >= distance ? here : 0;
    }
    free(ways);
    return as_far / total;
}

psr_samples_verdict psr_samples_compare(const double *a, size_t a_count, const double *b,
                                        size_t b_count)
{
    if (a_count < PSR_SAMPLES_LEAST || b_count < PSR_SAMPLES_LEAST)
        return PSR_SAMPLES_TOO_FEW;
    const double apart = psr_samples_median(a, a_count) - psr_samples_median(b, b_count);
    const double spread = fmax(psr_samples_spread(a, a_count), psr_samples_spread(b, b_count));
    if (!(fabs(apart) > spread) || psr_samples_p(a, a_count, b, b_count) > PSR_SAMPLES_P)
        return PSR_SAMPLES_TOGETHER;
    return apart < 0 ? PSR_SAMPLES_LOWER : PSR_SAMPLES_HIGHER;
}
