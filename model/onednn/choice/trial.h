/* Times one convolution of an executable by each algorithm that can compute it: for the choice by
 * timing (pick.h) and for the measurements behind the choice by rule (rule.h;
 * bench/bench_algorithms.c). */
#ifndef PSR_MODEL_ONEDNN_CHOICE_TRIAL_H
#define PSR_MODEL_ONEDNN_CHOICE_TRIAL_H

#include "model/onednn/private.h"

/* ret_s[a]: seconds of algorithm a, the least of `rounds` runs after one that does not count; the
 * algorithms take turns, so that a neighbour on the machine, who can only make things slower, has
 * to hit one of them every time to mislead. 0: it is no candidate (psr_onednn_may_take; oneDNN has
 * none, or but loops). exec: for training. NOMEM, COMPUTE. */
PSR_MUST_CHECK psr_err psr_onednn_trial(const psr_onednn_exec *exec, const psr_onednn_step *step,
                                        psr_onednn_direction direction, unsigned rounds,
                                        double ret_s[PSR_ONEDNN_ALGORITHMS]);

#endif
