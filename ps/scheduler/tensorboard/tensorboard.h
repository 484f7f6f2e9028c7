/* What TensorBoard shows of a run: an event file in RUN/tensorboard/, made from the lines of
 * metrics of all ranks. Of each step, when the lines of all ranks have come (or the run ends):
 *
 *   Train/Loss            mean over the samples of all ranks
 *   Train/Learning_rate   of the lowest rank that has told its line
 *   Test/Loss, Test/Accuracy   of a step with an evaluation; accuracy from 0 to 1
 *   Speed/Images_per_s    sum over ranks
 *   Speed/Exchange_s, Speed/Wait_s   mean over ranks
 *   Staleness             histogram over ranks: by how many updates their weights were behind
 *   Norm_of_weights/TENSOR, Norm_of_gradient/TENSOR   --tensorboard-norms: after the step; of all
 *                         workers' gradient, before it was clipped
 *
 * A resumed run's folder has the files of the earlier run too, and its own file opens with a START
 * at its first step: TensorBoard then leaves out what the earlier run did after that, and draws one
 * curve. One thread. */
#ifndef PSR_PS_SCHEDULER_TENSORBOARD_TENSORBOARD_H
#define PSR_PS_SCHEDULER_TENSORBOARD_TENSORBOARD_H

#include "base/err.h"
#include "ps/scheduler/metrics/metrics_line.h"

typedef struct psr_tensorboard psr_tensorboard;

typedef struct psr_tensorboard_options {
    const char *directory; /* of the run, which exists */
    const char *earlier;   /* directory of the run that is resumed; NULL: none */
    uint32_t ranks;
    uint64_t every;      /* --metrics-every */
    uint64_t first_step; /* completed when it begins */
} psr_tensorboard_options;

/* OK, or UNSUPPORTED: this program was built without protobuf-c. */
PSR_MUST_CHECK psr_err psr_tensorboard_check(void);

/* Makes the folder and the file. IO, NOMEM, UNSUPPORTED. The caller owns *ret_tensorboard. */
PSR_MUST_CHECK psr_err psr_tensorboard_new(const psr_tensorboard_options *options,
                                           psr_tensorboard **ret_tensorboard);
/* Closes; what is not flushed is lost. NULL allowed. */
void psr_tensorboard_free(psr_tensorboard *tensorboard);

/* A line of a rank below ranks. NOMEM. */
PSR_MUST_CHECK psr_err psr_tensorboard_take(psr_tensorboard *tensorboard,
                                            const psr_metrics_line *line);
/* A line with norms of tensors (worker/norm_lines.h), which are written at once. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_tensorboard_norms(psr_tensorboard *tensorboard,
                                             const psr_metrics_line *line);
/* IO. */
PSR_MUST_CHECK psr_err psr_tensorboard_flush(psr_tensorboard *tensorboard);
/* No line follows: steps that not all ranks have told are written too. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_tensorboard_end(psr_tensorboard *tensorboard);

#endif
