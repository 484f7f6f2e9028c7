/* A prediction by the machines themselves: a training run of a few steps, emulated
 * (bench/emulation/emulation.h) over links and with busy processes (bench/emulation/links.h). The
 * same scenario gives the same figures. One thread. */
#ifndef PSR_BENCH_EMULATE_H
#define PSR_BENCH_EMULATE_H

#include "bench/predict/scenario.h"

/* values_each: how many values one emulated value stands for; 0: as many as the sizes allow. NOMEM;
 * USAGE: the shards would hold nothing, or what the machines refuse. */
PSR_MUST_CHECK psr_err psr_emulate(const psr_scenario *scenario, const psr_choice *choice,
                                   uint32_t values_each, psr_prediction *ret_prediction);

#endif
