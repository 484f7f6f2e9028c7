/* --tensorboard-norms: the lines in which worker 0 tells the scheduler each tensor's norms, ahead
 * of its line of metrics of the same step. Pure; any thread. */
#ifndef PSR_WORKER_NORM_LINES_H
#define PSR_WORKER_NORM_LINES_H

#include "model/layout.h"

#define PSR_NORM_LINE_MAX 4096

/* Tensors from *next on, as many as the line holds: {"step": 20, "rank": 0, "unix_s": .., "norms":
 * [["fc.weight", norm of the weights, norm of the gradient], ..]}; a frozen tensor has null for the
 * latter. weights: the arena. squares: [tensors] of the gradient. Moves *next behind them; false:
 * there was none left. */
bool psr_norm_line_next(const psr_layout *layout, uint64_t step, double unix_s,
                        const float *weights, const double *squares, size_t *next,
                        char line[static PSR_NORM_LINE_MAX]);

#endif
