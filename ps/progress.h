/* What a person sees of a run while it goes: the newest lines of metrics, over all ranks. One thread. */
#ifndef PSR_PS_PROGRESS_H
#define PSR_PS_PROGRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_progress psr_progress;

typedef struct psr_progress_now {
    uint64_t step, total; /* steps completed by all ranks */
    double loss;          /* mean of the ranks' newest; NaN when none had a sample */
    double images_per_s;  /* of all ranks together */
} psr_progress_now;

/* in_turn: one process does the ranks' shares one after the other, so that rates do not add up. ret owns. */
PSR_MUST_CHECK psr_err psr_progress_new(uint32_t ranks, bool in_turn, uint64_t total,
                                        psr_progress **ret_progress);
void psr_progress_free(psr_progress *progress);

/* A line of metrics (JSON object with step, rank, loss, images_per_s); what it lacks is not shown. Returns
 * its step. */
uint64_t psr_progress_take(psr_progress *progress, const char *json, size_t size);

/* True when there is something new to show, at most ten times a second, and always for the last step. */
bool psr_progress_look(psr_progress *progress, int64_t now_ms, psr_progress_now *ret_now);

typedef struct psr_progress_evaluation {
    uint64_t step;
    double accuracy, loss; /* on the test set */
} psr_progress_evaluation;

/* True once for each evaluation that the metrics told of. */
bool psr_progress_evaluated(psr_progress *progress, psr_progress_evaluation *ret_evaluation);

#endif
