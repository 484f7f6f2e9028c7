/* For optimizers whose update needs whole tensors (LARS), while gradients are summed by parts (a
 * shard's slices, a ring's buckets). It tells which tensors are complete, and which parts are
 * finished after tensors were updated.
 *
 * Parts are runs of the arena in ascending order. If a part holds a piece of a tensor, the parts
 * together hold all of it. In every step each part is summed once. A tensor is complete when all
 * its parts have been summed. A part is finished when all its tensors have been updated. One thread
 * at a time. */
#ifndef PSR_MODEL_WHOLE_TENSORS_H
#define PSR_MODEL_WHOLE_TENSORS_H

#include "base/span.h"
#include "model/layout.h"

typedef struct psr_whole_tensors psr_whole_tensors;

typedef struct psr_whole_tensors_events {
    void *context;
    void (*complete)(void *context, size_t tensor);   /* update it now */
    psr_err (*updated)(void *context, uint32_t part); /* all of its tensors have been updated */
} psr_whole_tensors_events;

/* All arguments are copied. The caller owns *ret_tensors. NOMEM; USAGE: a tensor lies only partly
 * within these parts. */
PSR_MUST_CHECK psr_err psr_whole_tensors_new(const psr_layout *layout, const psr_span *parts,
                                             uint32_t count, const psr_whole_tensors_events *events,
                                             psr_whole_tensors **ret_tensors);
void psr_whole_tensors_free(psr_whole_tensors *tensors);

/* Must be called when the part has been summed in this step. Calls `complete` and `updated` for the
 * tensors and parts that are ready now. Errors: those of `updated`. */
PSR_MUST_CHECK psr_err psr_whole_tensors_summed(psr_whole_tensors *tensors, uint32_t part);

#endif
