/* Rates of twenty equal runs, in images/s, in the order in which they were measured: three
 * configurations in alternating order by
 *     psring bench train --model resnet20 --data
 *       synthetic:count=2048,test=64,size=16,channels=3 --batch-size 8 --lr 0.01 --workers 2
 *       --mode ps,ring,none --steps 40 --repetitions 20 --threads 1
 * on two virtual cores with nothing else to do. */
#ifndef PSR_TESTS_UNIT_DEPLOY_BENCH_TRAIN_RECORDED_RATES_H
#define PSR_TESTS_UNIT_DEPLOY_BENCH_TRAIN_RECORDED_RATES_H

enum { RECORDED_SERIES = 3, RECORDED_RUNS = 20 };

static const double recorded[RECORDED_SERIES][RECORDED_RUNS] = {
    /* ps:1 */
    {2029.8, 2110.2, 1991.5, 1942.3, 2020.1, 2030.4, 2044.8, 2013.6, 1912.0, 1836.5,
     1995.4, 1985.2, 1969.7, 1934.6, 1889.8, 2096.0, 1969.4, 1971.4, 1946.1, 2042.8},
    /* ring */
    {2188.3, 2380.3, 2345.4, 1506.3, 2261.8, 2269.0, 2262.5, 2146.5, 2127.0, 2139.2,
     2127.9, 2134.0, 2174.1, 2195.0, 2222.1, 2244.3, 2132.7, 2072.7, 2100.1, 2142.6},
    /* no exchange */
    {2600.6, 2573.9, 2605.8, 1810.1, 2545.2, 2555.1, 2571.0, 2512.9, 2409.6, 2427.7,
     2496.7, 2525.6, 2481.9, 2505.6, 2525.6, 2617.6, 2498.9, 2444.3, 2500.8, 2435.5},
};

#endif
