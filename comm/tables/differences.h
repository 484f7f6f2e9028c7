/* Values that are pulled as what the workers lack of them: a shard's side of a table whose plan's
 * `pulled` has a residual.
 *
 * A shard has the values w, as float32, and knows those that all workers have, v: the same bits on
 * each of them, equal to w at first. When an update has changed a part, every worker is sent
 * C(w - v), encoded as one unit, and all add it, as the shard does:
 *
 *     e = w - v;   sent = decoded(encoded(e));   v = v + sent      each rounded once to float32
 *
 * What is not sent this time stays in w - v, so the next e has it: the error feedback needs no
 * residual of its own, and float32's rounding of v + sent is made good too. This is EF21-P
 * (Gruntkowska, Tyurin, Richtarik, "EF21-P and friends: improved theoretical communication
 * complexity for distributed optimization with bidirectional compression", ICML 2023, section 1:
 * w^{t+1} = w^t + C(x^{t+1} - w^t), where their x is our w and their w our v). With plain SGD at a
 * constant rate it sends, times the rate, what the server's pass of DoubleSqueeze sends (Tang et
 * al., "DoubleSqueeze: parallel stochastic gradient descent with double-pass error-compensated
 * compression", ICML 2019, algorithm 1); here any optimizer may have made w.
 *
 * The unit is a part, as for pushes, so bits depend neither on shards nor on slices. Bytes for L
 * values: those of the encoding (comm/wire/compression/compression.h). One thread. */
#ifndef PSR_COMM_DIFFERENCES_H
#define PSR_COMM_DIFFERENCES_H

#include "comm/view/plan.h"

typedef struct psr_differences psr_differences;

/* For the parts of a plan. blank: sets to 0 those of `differences`, of the values of span, that no
 * worker uses (padding between tensors): they would count in scales and means; NULL: all are used.
 * plan and context are borrowed for life. The caller owns *ret_differences. NOMEM. */
PSR_MUST_CHECK psr_err psr_differences_new(const psr_plan *plan, void *context,
                                           void (*blank)(void *context, psr_span span,
                                                         float *differences),
                                           psr_differences **ret_differences);
void psr_differences_free(psr_differences *differences); /* NULL allowed */

/* What all workers have, as long as the table: the caller sets it before the first part is
 * prepared. Borrowed for life. */
float *psr_differences_pulled(psr_differences *differences);

/* A part's values have changed: encodes what the workers lack of them. values: the table's,
 * borrowed for the call. NUMERIC: a value, or its difference, is not finite; the detail has step
 * and part. */
PSR_MUST_CHECK psr_err psr_differences_prepare(psr_differences *differences, uint32_t part,
                                               uint64_t step, const float *values);
/* The payload of a slice of that part, each once, in any order; the slice counts as sent from then
 * on. The payload is borrowed until the next call. */
psr_payload psr_differences_send(psr_differences *differences, psr_span slice, psr_head *head);

#endif
