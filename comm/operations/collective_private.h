/* What the operations of a psr_collective share: its size and its way out, and how a buffer is cut. For collective.c,
 * fold_root.c and broadcast.c only. */
#ifndef PSR_COMM_COLLECTIVE_PRIVATE_H
#define PSR_COMM_COLLECTIVE_PRIVATE_H

#include "base/span.h"
#include "comm/operations/collective.h"

typedef struct psr_collective_env {
    uint32_t rank, ranks;
    size_t slice_bytes;
    psr_outbox outbox;
} psr_collective_env;

/* The buffer of a round, in bytes and in slices. */
typedef struct psr_sliced {
    uint8_t *bytes;
    size_t size;
    size_t slice;   /* bytes of a whole slice */
    size_t arrived; /* elsewhere than at worker 0: bytes received */
} psr_sliced;

psr_sliced psr_sliced_of(const psr_collective_env *env, const psr_buffer *buffer, psr_type type);
size_t psr_sliced_count(const psr_sliced *sliced);
psr_span psr_sliced_bytes(const psr_sliced *sliced, size_t k); /* of slice k */

/* Worker 0: sends slice k to all. lend: its bytes stand until everybody has answered. */
PSR_MUST_CHECK psr_err psr_sliced_spread(const psr_collective_env *env, const psr_sliced *sliced,
                                         uint64_t round, size_t k, bool lend);
/* The others: a SPREAD, which must be the next slice. Takes *message. *ret_whole: all has arrived. */
PSR_MUST_CHECK psr_err psr_sliced_land(psr_sliced *sliced, uint64_t round, psr_message **message,
                                       bool *ret_whole);

/* ret owns: its _free, to which NULL is allowed. env is borrowed for life. */
PSR_MUST_CHECK psr_err psr_fold_root_new(const psr_collective_env *env, psr_operation **ret_operation);
void psr_fold_root_free(psr_operation *operation);
PSR_MUST_CHECK psr_err psr_broadcast_new(const psr_collective_env *env, psr_operation **ret_operation);
void psr_broadcast_free(psr_operation *operation);

#endif
