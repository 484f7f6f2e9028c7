/* --keep and --keep-best: which of a run's checkpoints stay. One thread.
 *
 * Only checkpoints that this run has written are removed. The best one is that of the highest test
 * accuracy, of equal ones the earliest; the link checkpoints/best names it. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_KEPT_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_KEPT_H

#include "base/config/config.h"

typedef struct psr_kept psr_kept;

/* directory: .../checkpoints; copied, as the two options are. The caller owns *ret_kept. NOMEM. */
PSR_MUST_CHECK psr_err psr_kept_new(const psr_config *config, const char *directory,
                                    psr_kept **ret_kept);
/* NULL allowed. */
void psr_kept_free(psr_kept *kept);

/* The weights after that many steps had this accuracy. Before their checkpoint is in place. */
void psr_kept_evaluated(psr_kept *kept, uint64_t step, double accuracy);
/* So had those of the checkpoint at path, which an earlier run has written and which stays: it may
 * be the best. IO: the link cannot be made. */
PSR_MUST_CHECK psr_err psr_kept_resumed(psr_kept *kept, const char *path, uint64_t step,
                                        double accuracy);
/* A checkpoint is in place: removes what need not stay. IO: the link cannot be made, or a
 * checkpoint not removed; NOMEM. */
PSR_MUST_CHECK psr_err psr_kept_put(psr_kept *kept, uint64_t step);

/* false: no checkpoint was evaluated, or --keep-best is off. */
bool psr_kept_best(const psr_kept *kept, uint64_t *ret_step, double *ret_accuracy);

#endif
