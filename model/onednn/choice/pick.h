/* Chooses each convolution's algorithms: by a rule or by timing.
 *
 * By rule (rule.h) the choice is a function of instruction set, oneDNN's version, threads, shapes
 * and batch: two runs of one command line on one kind of machine compute the same bits. Timing
 * takes what is fastest at that moment, and another moment may choose otherwise. */
#ifndef PSR_MODEL_ONEDNN_CHOICE_PICK_H
#define PSR_MODEL_ONEDNN_CHOICE_PICK_H

#include "model/onednn/private.h"

/* How one direction of a step's convolution is decided; exec was compiled with all direct.
 * *ret_algorithm is one that psr_onednn_may_take allows. NOMEM, COMPUTE. */
typedef psr_err psr_onednn_decide(const psr_onednn_exec *exec, const psr_onednn_step *step,
                                  psr_onednn_direction direction,
                                  psr_onednn_algorithm *ret_algorithm);

psr_onednn_decide psr_onednn_decide_by_rule;
psr_onednn_decide psr_onednn_decide_by_time;

/* All choices for exec, a training executable that was compiled with all direct, as text
 * (choice.h). Each shape is decided once, however many layers have it. The caller owns
 * *ret_choices: free(). NOMEM, COMPUTE. */
PSR_MUST_CHECK psr_err psr_onednn_pick(const psr_onednn_exec *exec, psr_onednn_decide *decide,
                                       char **ret_choices);

/* Whether algorithm rounds little enough for this direction of a convolution. */
bool psr_onednn_may_take(const psr_onednn_exec *exec, const psr_onednn_step *step,
                         psr_onednn_direction direction, psr_onednn_algorithm algorithm);

#endif
