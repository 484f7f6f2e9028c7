/* What a receiver decodes of a compressed unit, made in place in one process: what mode local
 * rounds by. comm's codecs, and nothing of its operations. One thread. */
#ifndef PSR_WORKER_EXCHANGE_LOCAL_ROUNDING_H
#define PSR_WORKER_EXCHANGE_LOCAL_ROUNDING_H

#include "comm/comm.h"

typedef struct psr_local_rounding psr_local_rounding;

/* plan: borrowed for life. ret: NULL when it compresses nothing; else owns. NOMEM. */
PSR_MUST_CHECK psr_err psr_local_rounding_new(const psr_plan *plan,
                                              psr_local_rounding **ret_rounding);
void psr_local_rounding_free(psr_local_rounding *rounding); /* NULL allowed */

/* A unit is a bucket, or a run of one: values become what is sent of them, the residual what is
 * owed then (NULL: the compression has none). Both are arenas. A bucket that is not compressed
 * stays as it is. NUMERIC: psr_encoder_prepare's. */
PSR_MUST_CHECK psr_err psr_local_rounding_unit(psr_local_rounding *rounding, uint32_t bucket,
                                               psr_span unit, float *values, float *residual);
/* The same of the whole bucket. */
PSR_MUST_CHECK psr_err psr_local_rounding_bucket(psr_local_rounding *rounding, uint32_t bucket,
                                                 float *values, float *residual);

#endif
