/* --sync-bn: the sums that make the batch norms of all workers one, as torch.nn.SyncBatchNorm does.
 *
 * A channel has m_r values x on worker r, and M = sum m_r on all workers. In the middle of a pass a
 * back end stops at each batch norm, gives its worker's sums, and goes on with those of all workers
 * (psr_backend_advance), which are added in the order of ranks:
 *   forward   m_r, sum x, sum x^2           mean = sum x / M, variance = sum x^2 / M - mean^2
 *   backward  sum g, sum g (x - mean)       dx = scale * (g - sum g / M - (x - mean) * slope),
 *                                           slope = sum g (x - mean) / M / (variance + epsilon)
 * with g the gradient of the normalised value. The gradients of weight and bias are each worker's
 * own sums: the exchange adds those. Running variances are unbiased: variance * M / (M - 1).
 *
 * All of it is in double, and each worker sums up around a value of its own before it gives sums
 * around zero. So the difference of two large numbers in the variance loses about 2^-52 * mean^2;
 * rounding x itself to float32 has changed the variance by up to 2^-46 * mean^2 / 12 already. That
 * is why one message is enough, and there is no second one for the variance around the mean.
 *
 * Batch norms that a back end computes as one make one stop. One whose statistics are held
 * (--freeze-bn) makes none, since it sums nothing; one that the backward pass does not reach, as
 * nothing before it is trained (--freeze), makes none there. */
#ifndef PSR_MODEL_NORM_SUMS_H
#define PSR_MODEL_NORM_SUMS_H

#include "model/networks/network.h"
#include "model/real.h"

/* One stop of the forward pass, and one or none of the backward pass: the batch norms that make it,
 * which have the same number of channels. */
typedef struct psr_norm_stop {
    uint32_t nodes[2]; /* the second may be PSR_NONE */
    bool backward;     /* the backward pass reaches them, and stops there too */
} psr_norm_stop;

/* What a worker gives at a stop: doubles.
 *   forward   [0] m_r; then for each batch norm sum x [C], sum x^2 [C]
 *   backward  sum g [C], which all its batch norms share; then for each sum g (x - mean) [C] */
size_t psr_norm_stop_count(const psr_network *net, const psr_norm_stop *stop, bool backward);
/* Where in the forward values those of batch norm number `which` of a stop begin, C channels. */
static inline size_t psr_norm_stop_at(uint32_t C, int which)
{
    return 1 + (size_t)which * 2 * C;
}

/* Of one channel, from the sums over all M values: M at least 1. */
void psr_norm_moments(double M, double sum, double squares, double *ret_mean, double *ret_variance);

/* Forward values of all workers go into the running statistics of the stop's batch norms. With
 * M = 1 the variance stays. buffers: net->buffers.length values. */
void psr_norm_stop_run(const psr_network *net, const psr_norm_stop *stop, const double *values,
                       psr_real *buffers);

#endif
