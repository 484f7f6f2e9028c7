/* The figures of a run: names, units and definitions, in one place. run.json's outcome, `psring
 * report` and its --help, the summary of `psring train` and docs/figures.md use these names and no
 * others; ps/scheduler/metrics/figures.h computes the values. A name that metrics.jsonl has too
 * (worker/metrics.h) means the same there, for one rank and step. Any thread; no state. */
#ifndef PSR_BASE_FIGURES_H
#define PSR_BASE_FIGURES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum psr_figure {
    PSR_FIGURE_STEPS,
    PSR_FIGURE_OWN_STEPS,
    PSR_FIGURE_IMAGES,
    PSR_FIGURE_TRAIN_S,
    PSR_FIGURE_IMAGES_PER_S,
    PSR_FIGURE_WARMUP_STEPS,
    PSR_FIGURE_WARMUP_S,
    PSR_FIGURE_STEADY_IMAGES_PER_S,
    PSR_FIGURE_TOGETHER_S,
    PSR_FIGURE_TOGETHER_IMAGES_PER_S,
    /* Each of these has the mean, the least and the greatest value over workers, in this
     * order. */
    PSR_FIGURE_WAIT_S,
    PSR_FIGURE_WAIT_S_MIN,
    PSR_FIGURE_WAIT_S_MAX,
    PSR_FIGURE_COMPUTE_S,
    PSR_FIGURE_COMPUTE_S_MIN,
    PSR_FIGURE_COMPUTE_S_MAX,
    PSR_FIGURE_LOAD_WAIT_S,
    PSR_FIGURE_LOAD_WAIT_S_MIN,
    PSR_FIGURE_LOAD_WAIT_S_MAX,
    PSR_FIGURE_HIDDEN_S,
    PSR_FIGURE_HIDDEN_S_MIN,
    PSR_FIGURE_HIDDEN_S_MAX,
    PSR_FIGURE_EXPOSED_S,
    PSR_FIGURE_EXPOSED_S_MIN,
    PSR_FIGURE_EXPOSED_S_MAX,
    PSR_FIGURE_DRAIN_S,
    PSR_FIGURE_DRAIN_S_MIN,
    PSR_FIGURE_DRAIN_S_MAX,
    PSR_FIGURE_GRADIENT_BYTES,
    PSR_FIGURE_GRADIENT_FLOAT32_BYTES,
    PSR_FIGURE_BYTES_SENT,
    PSR_FIGURE_BYTES_LENT,
    PSR_FIGURE_STALENESS,
    PSR_FIGURE_STALENESS_MAX,
    PSR_FIGURE_LOSS,
    PSR_FIGURE_TEST_LOSS,
    PSR_FIGURE_TEST_ACCURACY,
    PSR_FIGURE_TEST_TOP5,
    PSR_FIGURE_EMA_LOSS,
    PSR_FIGURE_EMA_ACCURACY,
    PSR_FIGURE_EMA_TOP5,
    PSR_FIGURE_TRAIN_ACCURACY,
    PSR_FIGURE_TEST_COUNT,
    PSR_FIGURE_SKIPPED_STEPS,
    PSR_FIGURE_LOSS_SCALE,
    PSR_FIGURE_COUNT,
} psr_figure;

typedef struct psr_figure_definition {
    const char *name, *unit, *definition; /* static texts */
} psr_figure_definition;

/* Indexed by psr_figure. */
extern const psr_figure_definition psr_figure_definitions[PSR_FIGURE_COUNT];

/* The warm-up: how many first steps of own_steps steps belong to it. A tenth, rounded up, and 10 at
 * most. */
uint64_t psr_warmup_steps(uint64_t own_steps);

#endif
