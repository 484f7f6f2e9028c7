/* --sync-bn: the sums of a stop, and what follows from those of all workers (model/norm_sums.h). */
#include "model/onednn/layers/norm.h"

/* ---- forward ---- */

/* What some threads have summed up of channels [begin, end), each about its own centre, about
 * zero. */
static void give_moments(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                         norm_range channels, norm_range threads)
{
    const uint32_t C = exec->net->nodes[self->node].channels;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        double *sums = exec->sums + psr_norm_stop_at(C, which), *squares = sums + C;
        int sum_of = which == 0 ? NORM_SUM : NORM_SECOND_SUM,
            square_of = which == 0 ? NORM_SQUARE : NORM_SECOND_SQUARE;
        for (size_t c = channels.begin; c < channels.end && c < C; c++) {
            double sum = 0, square = 0;
            for (uint32_t t = (uint32_t)threads.begin; t < threads.end; t++) {
                norm_range rows = psr_onednn_norm_rows_of(self, t);
                if (rows.begin == rows.end)
                    continue;
                double count = (double)(rows.end - rows.begin),
                       centre = (double)psr_onednn_norm_centre_row(exec, self, t, which)[c],
                       off = psr_onednn_norm_sum_row(exec, self, t, sum_of)[c];
                sum += off + count * centre;
                square += psr_onednn_norm_sum_row(exec, self, t, square_of)[c] + 2 * centre * off +
                          count * centre * centre;
            }
            sums[c] = sum;
            squares[c] = square;
        }
    }
}

static void sum_all(const psr_onednn_exec *exec, const psr_onednn_norm_step *self)
{
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        norm_range mine = self->by_columns
                              ? psr_onednn_norm_share(self->columns, self->threads, thread)
                              : (norm_range){0, self->columns};
        psr_onednn_norm_sum_up(exec, self, thread, mine);
        if (self->by_columns)
            give_moments(exec, self, psr_onednn_norm_channels_in(self, mine),
                         (norm_range){thread, thread + 1});
    }
    if (!self->by_columns)
        give_moments(exec, self, psr_onednn_norm_channels_in(self, (norm_range){0, self->columns}),
                     (norm_range){0, self->threads});
    exec->sums[0] = (double)self->rows;
}

static void take_moments(const psr_onednn_exec *exec, psr_onednn_norm_step *self)
{
    const psr_norm_stop stop = {.nodes = {self->node, self->second}};
    const uint32_t C = exec->net->nodes[self->node].channels;
    self->values = exec->sums[0];
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const double *sums = exec->sums + psr_norm_stop_at(C, which);
        for (size_t c = 0; c < self->channels; c++) {
            double mean = 0, variance = 0;
            if (c < C)
                psr_norm_moments(self->values, sums[c], sums[C + c], &mean, &variance);
            psr_onednn_norm_set_channel(exec, self, which, c, mean, variance);
        }
    }
    psr_norm_stop_run(exec->net, &stop, exec->sums, exec->state->buffers);
}

/* In two calls, between which the sums become those of all workers. */
void psr_onednn_norm_train_in_parts(psr_onednn_exec *exec, psr_onednn_norm_step *self,
                                    const norm_pointers *p)
{
    exec->stopped = !exec->stopped;
    if (exec->stopped) {
        sum_all(exec, self);
    } else {
        take_moments(exec, self);
        psr_onednn_norm_normalise_by_rows(exec, self, p);
    }
}

/* ---- backward ---- */

/* This worker's sums of channels [begin, end), and the gradients of its parameters. */
static void give_products(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                          norm_range channels, norm_range threads)
{
    const psr_tensor *params = exec->net->params.tensors;
    const uint32_t C = exec->net->nodes[self->node].channels;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        float *d_weight = exec->state->gradients + params[node->weight].offset;
        float *d_bias = exec->state->gradients + params[node->bias].offset;
        const bool wanted =
            psr_onednn_wants_parameters(exec, which == 0 ? self->node : self->second);
        double *sums = exec->sums, *products = sums + (size_t)(1 + which) * C;
        for (size_t c = channels.begin; c < channels.end && c < C; c++) {
            sums[c] = psr_onednn_norm_total(exec, self, NORM_SUM, threads, c);
            products[c] = psr_onednn_norm_total(
                exec, self, which == 0 ? NORM_SQUARE : NORM_SECOND_SQUARE, threads, c);
            if (!wanted)
                continue;
            d_weight[c] = (float)(products[c] * (double)psr_onednn_norm_table_row(
                                                    exec, self, which, NORM_INVERSE_STD)[c]);
            d_bias[c] = (float)sums[c];
        }
    }
}

static void reduce_all(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                       const norm_pointers *p)
{
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        norm_range mine = self->by_columns
                              ? psr_onednn_norm_share(self->columns, self->threads, thread)
                              : (norm_range){0, self->columns};
        psr_onednn_norm_reduce(exec, self, p, thread, mine);
        if (self->by_columns)
            give_products(exec, self, psr_onednn_norm_channels_in(self, mine),
                          (norm_range){thread, thread + 1});
    }
    if (!self->by_columns)
        give_products(exec, self, psr_onednn_norm_channels_in(self, (norm_range){0, self->columns}),
                      (norm_range){0, self->threads});
}

static void take_products(const psr_onednn_exec *exec, const psr_onednn_norm_step *self)
{
    const uint32_t C = exec->net->nodes[self->node].channels;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const double *sums = exec->sums, *products = sums + (size_t)(1 + which) * C;
        for (size_t c = 0; c < self->channels; c++) {
            double inverse =
                (double)psr_onednn_norm_table_row(exec, self, which, NORM_INVERSE_STD)[c];
            psr_onednn_norm_table_row(exec, self, which, NORM_SLOPE)[c] =
                c < C ? (float)(products[c] * inverse * inverse / self->values) : 0.0f;
            if (which == 0)
                psr_onednn_norm_table_row(exec, self, 0, NORM_MEAN_G)[c] =
                    c < C ? (float)(sums[c] / self->values) : 0;
        }
    }
}

void psr_onednn_norm_backward_in_parts(psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                       const norm_pointers *p)
{
    exec->stopped = !exec->stopped;
    if (exec->stopped) {
        reduce_all(exec, self, p);
    } else {
        take_products(exec, self);
        if (!self->ends)
            psr_onednn_norm_differentiate_by_rows(exec, self, p);
    }
}
