/* Picks the convolutions' algorithms by timing them once, on this machine, with this number of threads. */
#ifndef PSR_MODEL_ONEDNN_PICK_H
#define PSR_MODEL_ONEDNN_PICK_H

#include "model/onednn_private.h"

/* exec: a training executable that was compiled with "", all direct. What was picked, as text
 * (onednn_choice.h): "" where a step is too short for timing to pay, and where direct is everywhere best. ret
 * owns: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_onednn_pick(psr_onednn_exec *exec, char **ret_choices);

#endif
