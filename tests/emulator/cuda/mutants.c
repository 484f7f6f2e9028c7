#include "tests/emulator/cuda/mutants.h"

#include "model/cuda/kernels/device.h"

#define MUTANT(name)                                                                               \
    static void name##_of(psr_mutant_args args);                                                   \
    static void name(const void *arguments)                                                        \
    {                                                                                              \
        name##_of(*(const psr_mutant_args *)arguments);                                            \
    }                                                                                              \
    static void name##_of(psr_mutant_args args)

#define MY_X (args.x[PSR_BLOCK * PSR_THREADS + PSR_THREAD])

MUTANT(right)
{
    PSR_SHARED(float, sums, 64);
    sums[PSR_THREAD] = MY_X;
    PSR_BARRIER();
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2) {
        if (PSR_THREAD < half)
            sums[PSR_THREAD] += sums[PSR_THREAD + half];
        PSR_BARRIER();
    }
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = sums[0];
}

MUTANT(without_first_barrier)
{
    PSR_SHARED(float, sums, 64);
    sums[PSR_THREAD] = MY_X;
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2) {
        if (PSR_THREAD < half)
            sums[PSR_THREAD] += sums[PSR_THREAD + half];
        PSR_BARRIER();
    }
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = sums[0];
}

MUTANT(without_barriers_in_the_tree)
{
    PSR_SHARED(float, sums, 64);
    sums[PSR_THREAD] = MY_X;
    PSR_BARRIER();
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2)
        if (PSR_THREAD < half)
            sums[PSR_THREAD] += sums[PSR_THREAD + half];
    PSR_BARRIER();
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = sums[0];
}

MUTANT(with_a_sum_that_all_add_to)
{
    PSR_SHARED(float, sum, 1);
    if (PSR_THREAD == 0)
        *sum = 0;
    PSR_BARRIER();
    *sum += MY_X;
    PSR_BARRIER();
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = *sum;
}

MUTANT(with_a_barrier_for_some)
{
    PSR_SHARED(float, sums, 64);
    sums[PSR_THREAD] = MY_X;
    PSR_BARRIER();
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2)
        if (PSR_THREAD < half) {
            sums[PSR_THREAD] += sums[PSR_THREAD + half];
            PSR_BARRIER();
        }
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = sums[0];
}

MUTANT(with_two_barriers_for_one)
{
    PSR_SHARED(float, sums, 64);
    sums[PSR_THREAD] = MY_X;
    if (PSR_THREAD % 2 == 0)
        PSR_BARRIER();
    else
        PSR_BARRIER();
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = sums[0];
}

MUTANT(with_an_array_one_too_short)
{
    PSR_SHARED(float, sums, 63);
    sums[PSR_THREAD] = MY_X;
    PSR_BARRIER();
    if (PSR_THREAD == 0)
        args.y[PSR_BLOCK] = sums[0];
}

MUTANT(with_an_array_of_another_size)
{
    PSR_SHARED(float, sums, PSR_THREADS - PSR_THREAD);
    sums[0] = MY_X;
    PSR_BARRIER();
}

/* y[i] = x[i], a thread a value; but this one adds to its neighbour's. */
MUTANT(with_an_index_one_too_high)
{
    const uint32_t i = PSR_BLOCK * PSR_THREADS + PSR_THREAD;
    args.y[i] = MY_X;
    if (PSR_THREAD + 1 < PSR_THREADS)
        args.y[i + 1] += 1;
}

MUTANT(with_blocks_that_meet)
{
    if (PSR_THREAD == 0)
        args.y[0] = PSR_BLOCK == 0 ? 1 : args.y[0] + 1;
}

MUTANT(with_a_barrier_that_it_denies)
{
    args.y[PSR_BLOCK * PSR_THREADS + PSR_THREAD] = MY_X;
    PSR_BARRIER();
}

const psr_mutant psr_mutants[] = {
    {"right", right, true, NULL, false},
    {"without first barrier", without_first_barrier, true, "no barrier between", true},
    {"without barriers in the tree", without_barriers_in_the_tree, true, "no barrier between",
     true},
    {"with a sum that all add to", with_a_sum_that_all_add_to, true, "no barrier between", true},
    {"with a barrier for some", with_a_barrier_for_some, true, "never comes", false},
    {"with two barriers for one", with_two_barriers_for_one, true, "waits at", false},
    {"with an array one too short", with_an_array_one_too_short, true, "past the end", false},
    {"with an array of another size", with_an_array_of_another_size, true, "for another", false},
    {"with an index one too high", with_an_index_one_too_high, true, "no barrier between", true},
    {"with blocks that meet", with_blocks_that_meet, true, "no barrier between", true},
    {"with a barrier that it denies", with_a_barrier_that_it_denies, false, "said to have none",
     false},
};
const uint32_t psr_mutant_count = sizeof psr_mutants / sizeof *psr_mutants;
