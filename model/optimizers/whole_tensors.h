/* Which tensors may be updated, and which parts of the arena are then new, for optimizers whose update needs
 * whole tensors (LARS) while gradients are summed by parts: a shard's slices, a ring's buckets.
 *
 * Parts are runs of the arena in ascending order; a tensor that one of them touches lies wholly within them.
 * In every step each part is summed once. A tensor is complete when its parts are; a part is new when its
 * tensors have been updated. One thread at a time. */
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

/* Everything is copied. ret owns. NOMEM; USAGE: a tensor lies only in part in these parts. */
PSR_MUST_CHECK psr_err psr_whole_tensors_new(const psr_layout *layout, const psr_span *parts, uint32_t count,
                                             const psr_whole_tensors_events *events,
                                             psr_whole_tensors **ret_tensors);
void psr_whole_tensors_free(psr_whole_tensors *tensors);

/* Part has been summed in this step: calls complete and updated for what that finishes. Fails as updated
 * does. */
PSR_MUST_CHECK psr_err psr_whole_tensors_summed(psr_whole_tensors *tensors, uint32_t part);

#endif
