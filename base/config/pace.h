/* Durations, and where a run is in its data after each of its steps.
 *
 * A duration is given in steps (N) or in epochs (30e, 0.5e). An epoch has as many steps as workers
 * and batch size make of it, so durations in epochs count what a run has seen, whoever computes
 * it.
 *
 * Samples count, not steps. A run that goes on with another number of workers or another batch size
 * deals the rest of its epoch out anew, and its epochs have another number of steps from there on.
 * Two clocks go on from where they were:
 *     place   the epoch, and how many samples of the epoch's order have been used;
 *     clock   steps in the unit of the run that was begun first. One epoch is always unit_steps of
 *             them, so a schedule is at the same fraction of the run after the same samples.
 * In a run that was never dealt out anew the clock is the number of steps, exactly. Plain data;
 * pure functions; any thread. */
#ifndef PSR_BASE_CONFIG_PACE_H
#define PSR_BASE_CONFIG_PACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_duration {
    uint64_t steps;        /* if milli_epochs is 0; 0: none */
    uint64_t milli_epochs; /* thousandths of an epoch; 0: it is given in steps */
} psr_duration;

#define PSR_MILLI_EPOCHS_MOST UINT64_C(1000000000) /* a million epochs */
#define PSR_DURATION_STEPS_MOST (UINT64_C(1) << 40)

static inline bool psr_duration_is_none(psr_duration d)
{
    return d.steps == 0 && d.milli_epochs == 0;
}
/* "1000", "1e3" or, in epochs with at most three decimals, "30e" and "0.5e". false: it is neither,
 * or too long. */
bool psr_duration_read(const char *text, psr_duration *ret_duration);
/* As text that psr_duration_read reads back. */
void psr_duration_print(psr_duration d, char *text, size_t size);
/* In steps, of which an epoch has so many. What is no whole number of steps is rounded up: it is
 * over after the step in which it is reached. */
uint64_t psr_duration_steps(psr_duration d, uint64_t epoch_steps);

/* How an epoch is dealt out. */
typedef struct psr_deal {
    uint32_t count; /* samples of the data set */
    uint32_t workers, batch_size;
    uint32_t partition; /* psr_partition */
    bool drop_last;
} psr_deal;

/* Steps in which the samples of an epoch that follow the first `used` are dealt out: all workers
 * take all of them. */
uint64_t psr_deal_steps(const psr_deal *deal, uint32_t used);

typedef struct psr_pace {
    psr_deal deal;
    uint64_t epoch_steps; /* of a whole epoch; 0: nothing is known, and clocks are steps */
    bool
        by_steps; /* the run's end is given in steps, and so the schedule counts them as they are */
    uint64_t unit_steps; /* of a whole epoch of the run that was begun first */
    /* since when it has been dealt out like this: the steps done then, the epoch and its used
     * samples, the clock; zeros in a run that is begun */
    uint64_t first_step, first_epoch;
    uint32_t first_used;
    uint64_t rest_steps; /* from there to the end of that epoch */
    double first_clock;
} psr_pace;

/* Of a run that is begun. */
psr_pace psr_pace_of(const psr_deal *deal, bool by_steps);
/* From `step` on it is dealt out like that: before itself, if it was so already. */
psr_pace psr_pace_after(const psr_pace *before, const psr_deal *deal, uint64_t step);

/* After so many steps: the epoch (from 0) and the samples of its order that were used. At the end
 * of an epoch: the next one, and 0. */
void psr_pace_place(const psr_pace *pace, uint64_t steps, uint64_t *ret_epoch, uint32_t *ret_used);
double psr_pace_clock(const psr_pace *pace, uint64_t steps);
/* The steps after which that many epochs are over, at least the present one's first step. */
uint64_t psr_pace_total(const psr_pace *pace, uint64_t epochs);

/* Whether something that happens every `every` is due after so many steps: after the first step at
 * which a multiple of it has been done. Never if every is none. */
bool psr_pace_due(const psr_pace *pace, psr_duration every, uint64_t steps);
/* The first steps above these after which it is due; UINT64_MAX: never. */
uint64_t psr_pace_next_due(const psr_pace *pace, psr_duration every, uint64_t steps);

#define PSR_PACE_TEXT_MAX 320
/* One line, for messages and checkpoints: "count=49 workers=3 ..". */
void psr_pace_print(const psr_pace *pace, char text[static PSR_PACE_TEXT_MAX]);
/* Bytes may be hostile. FORMAT: what is wrong. */
PSR_MUST_CHECK psr_err psr_pace_read(const char *text, psr_pace *ret_pace);

#endif
