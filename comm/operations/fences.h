/* Starts of operations that wait for the fence of their buffer (base/arrays/fence.h). This is the
 * one place where a fence is waited for: an operation is started when its buffer may be read, and
 * knows of no fence.
 *
 * A slot (a bucket) has at most one start that waits. Nobody polls: a fence that passes calls wake,
 * on any thread, and the owner's thread then calls psr_fences_look. Without a fence a start costs
 * one comparison. One thread, but for wake. */
#ifndef PSR_COMM_FENCES_H
#define PSR_COMM_FENCES_H

#include "base/arrays/fence.h"

#include <stdint.h>

typedef struct psr_fences psr_fences;

typedef struct psr_fences_options {
    uint32_t slots;
    void *context;
    /* The buffer of the slot may be read: starts its operation. */
    psr_err (*start)(void *context, uint32_t slot, uint64_t round);
    /* psr_fences_look has something to do. Any thread, until psr_fences_stop. */
    void (*wake)(void *context);
} psr_fences_options;

/* NOMEM. The caller owns *ret_fences. */
PSR_MUST_CHECK psr_err psr_fences_new(const psr_fences_options *options, psr_fences **ret_fences);
/* wake is not called any more. Any thread; after it only psr_fences_free may be called. NULL
 * allowed. */
void psr_fences_stop(psr_fences *fences);
/* Stops it too. Fences that have not passed may pass later, without effect. NULL allowed. */
void psr_fences_free(psr_fences *fences);

/* Starts the slot's operation now or, if the fence has not passed, later in psr_fences_look. fence
 * is borrowed until then. NULL: now. Fails as start does. COMPUTE: the device has failed. */
PSR_MUST_CHECK psr_err psr_fences_start(psr_fences *fences, uint32_t slot, uint64_t round,
                                        psr_fence *fence);
/* Starts what may be started now. Fails as psr_fences_start does. */
PSR_MUST_CHECK psr_err psr_fences_look(psr_fences *fences);

/* The oldest start that waits: of the lowest round, the lowest slot. false: none waits. */
bool psr_fences_waits(const psr_fences *fences, uint64_t *ret_round, uint32_t *ret_slot);

#endif
