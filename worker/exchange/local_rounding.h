/* Makes, in one process and in place, the values that a receiver decodes of a compressed unit: mode
 * local rounds by it. It uses comm's codecs, and none of its operations. One thread. */
#ifndef PSR_WORKER_EXCHANGE_LOCAL_ROUNDING_H
#define PSR_WORKER_EXCHANGE_LOCAL_ROUNDING_H

#include "comm/view/plan.h"

typedef struct psr_local_rounding psr_local_rounding;

/* plan: borrowed for life. *ret_rounding: NULL if the plan compresses nothing; otherwise the caller
 * owns it. NOMEM. */
PSR_MUST_CHECK psr_err psr_local_rounding_new(const psr_plan *plan,
                                              psr_local_rounding **ret_rounding);
void psr_local_rounding_free(psr_local_rounding *rounding); /* NULL allowed */

/* A unit is a bucket, or a run of one. values become those that receivers get, residual becomes the
 * new residual (NULL: the compression has none). Both are arenas. A bucket that is not compressed
 * stays unchanged. NUMERIC: see psr_encoder_prepare. */
PSR_MUST_CHECK psr_err psr_local_rounding_unit(psr_local_rounding *rounding, uint32_t bucket,
                                               psr_span unit, float *values, float *residual);
/* The same for a whole bucket. */
PSR_MUST_CHECK psr_err psr_local_rounding_bucket(psr_local_rounding *rounding, uint32_t bucket,
                                                 float *values, float *residual);

#endif
