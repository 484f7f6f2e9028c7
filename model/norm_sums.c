#include "model/norm_sums.h"

size_t psr_norm_stop_count(const psr_network *net, const psr_norm_stop *stop, bool backward)
{
    const size_t C = net->nodes[stop->nodes[0]].channels,
                 norms = stop->nodes[1] == PSR_NONE ? 1 : 2;
    return backward ? (1 + norms) * C : 1 + norms * 2 * C;
}

/* Below 0 it can be by rounding only; a NaN stays one. */
void psr_norm_moments(double M, double sum, double squares, double *ret_mean, double *ret_variance)
{
    const double mean = sum / M, variance = squares / M - mean * mean;
    *ret_mean = mean;
    *ret_variance = variance < 0 ? 0 : variance;
}

void psr_norm_stop_run(const psr_network *net, const psr_norm_stop *stop, const double *values,
                       psr_real *buffers)
{
    const double M = values[0];
    for (int which = 0; which < 2 && stop->nodes[which] != PSR_NONE; which++) {
        const psr_network_node *node = &net->nodes[stop->nodes[which]];
        psr_real *running_mean = buffers + net->buffers.tensors[node->mean].offset;
        psr_real *running_variance = buffers + net->buffers.tensors[node->variance].offset;
        const double *sums = values + psr_norm_stop_at(node->channels, which),
                     *squares = sums + node->channels, keep = 1 - node->momentum;
        for (uint32_t c = 0; c < node->channels; c++) {
            double mean, variance;
            psr_norm_moments(M, sums[c], squares[c], &mean, &variance);
            running_mean[c] = (psr_real)(keep * (double)running_mean[c] + node->momentum * mean);
            if (M > 1)
                running_variance[c] = (psr_real)(keep * (double)running_variance[c] +
                                                 node->momentum * variance * (M / (M - 1)));
        }
    }
}
