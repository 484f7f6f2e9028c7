#include "model/onednn/layers/norm.h"

#include <math.h>
#include <string.h>

norm_range psr_onednn_norm_share(size_t count, uint32_t threads, uint32_t thread)
{
    return (norm_range){psr_onednn_cut(count, threads, thread),
                        psr_onednn_cut(count, threads, thread + 1)};
}

/* The next slab of rows and columns; takes it off rows. */
static bool next_slab(const psr_onednn_norm_step *self, const psr_onednn_tensor *x,
                      norm_range *rows, norm_range columns, norm_slab *ret_slab)
{
    if (rows->begin == rows->end)
        return false;
    size_t lanes = self->kernels->lanes, size = (size_t)x->h * x->w,
           count = rows->end - rows->begin;
    count = count < self->slab_rows ? count : self->slab_rows;
    norm_slab slab = {.channel = columns.begin * lanes,
                      .columns = columns.end - columns.begin,
                      .row_stride = x->block};
    if (x->layout == PSR_ONEDNN_CHANNELS_LAST) {
        slab.offset = rows->begin * x->block + slab.channel;
        slab.column_stride = lanes;
    } else {
        size_t n = rows->begin / size, s = rows->begin % size;
        count = count < size - s ? count : size - s;
        slab.offset = ((n * x->blocks + columns.begin) * size + s) * x->block;
        slab.column_stride = size * x->block;
    }
    slab.rows = count;
    rows->begin += count;
    *ret_slab = slab;
    return true;
}

/* The rows that a thread sums up. */
norm_range psr_onednn_norm_rows_of(const psr_onednn_norm_step *self, uint32_t thread)
{
    return self->by_columns ? (norm_range){0, self->rows}
                            : psr_onednn_norm_share(self->rows, self->threads, thread);
}

float *psr_onednn_norm_table_row(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                 int which, int row)
{
    float *table = psr_onednn_at(exec, self->table);
    return table + (size_t)(which * NORM_CHANNEL_ROWS + row) * self->channels;
}

/* Sums live in the scratchpad: no primitive runs meanwhile. */
double *psr_onednn_norm_sum_row(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                uint32_t thread, int row)
{
    double *sums = psr_onednn_at(exec, exec->scratch);
    return sums + ((size_t)thread * NORM_SUM_ROWS + (size_t)row) * self->channels;
}

float *psr_onednn_norm_centre_row(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                  uint32_t thread, int which)
{
    return (float *)(void *)psr_onednn_norm_sum_row(exec, self, thread, NORM_CENTRES) +
           (size_t)which * self->channels;
}

static void clear_sums(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                       uint32_t thread, norm_range columns)
{
    size_t lanes = self->kernels->lanes, first = columns.begin * lanes,
           count = (columns.end - columns.begin) * lanes;
    for (int row = NORM_SUM; row < NORM_CENTRES; row++)
        memset(psr_onednn_norm_sum_row(exec, self, thread, row) + first, 0, count * sizeof(double));
}

void psr_onednn_norm_sum_up(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                            uint32_t thread, norm_range columns)
{
    clear_sums(exec, self, thread, columns);
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_onednn_tensor *tensor = &exec->values[which == 0 ? self->x : self->r];
        const void *x = psr_onednn_data(exec, tensor);
        float *centre = psr_onednn_norm_centre_row(exec, self, thread, which);
        norm_range left = psr_onednn_norm_rows_of(self, thread);
        norm_slab slab;
        for (bool first = true; next_slab(self, tensor, &left, columns, &slab); first = false) {
            if (first)
                self->kernels->centre(&slab, x, centre);
            self->kernels->statistics(
                &slab, x, centre,
                psr_onednn_norm_sum_row(exec, self, thread,
                                        which == 0 ? NORM_SUM : NORM_SECOND_SUM),
                psr_onednn_norm_sum_row(exec, self, thread,
                                        which == 0 ? NORM_SQUARE : NORM_SECOND_SQUARE));
        }
    }
}

/* A NaN without payload: rounding to bf16 by carry (norm_pairs.c) could carry one with a full
 * payload away. */
static float plain_nan(float value)
{
    return isnan(value) ? NAN : value;
}

void psr_onednn_norm_set_channel(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                 int which, size_t c, double mean, double variance)
{
    const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
    bool real = c < node->channels;
    const psr_tensor *params = exec->net->params.tensors;
    double inverse = 1.0 / sqrt(variance + node->epsilon);
    float weight = real ? exec->state->weights[params[node->weight].offset + c] : 0.0f;
    psr_onednn_norm_table_row(exec, self, which, NORM_MEAN)[c] = real ? (float)mean : 0.0f;
    psr_onednn_norm_table_row(exec, self, which, NORM_INVERSE_STD)[c] =
        real ? (float)inverse : 0.0f;
    psr_onednn_norm_table_row(exec, self, which, NORM_SCALE)[c] =
        plain_nan((float)((double)weight * inverse));
    psr_onednn_norm_table_row(exec, self, which, NORM_SHIFT)[c] =
        real ? plain_nan(exec->state->weights[params[node->bias].offset + c]) : 0.0f;
    psr_onednn_norm_table_row(exec, self, which, NORM_SLOPE)[c] = 0.0f;
}

void psr_onednn_norm_sweep(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                           const norm_pointers *p, norm_range rows, norm_range columns,
                           void (*kernel)(const norm_slab *slab, const norm_pointers *p))
{
    norm_slab slab;
    while (next_slab(self, &exec->values[self->x], &rows, columns, &slab))
        kernel(&slab, p);
}

norm_range psr_onednn_norm_channels_in(const psr_onednn_norm_step *self, norm_range columns)
{
    return (norm_range){columns.begin * self->kernels->lanes, columns.end * self->kernels->lanes};
}

static void sweep_by_rows(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                          const norm_pointers *p,
                          void (*kernel)(const norm_slab *slab, const norm_pointers *p))
{
    const norm_range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        psr_onednn_norm_sweep(exec, self, p,
                              psr_onednn_norm_share(self->rows, self->threads, thread), columns,
                              kernel);
}

void psr_onednn_norm_normalise_by_rows(const psr_onednn_exec *exec,
                                       const psr_onednn_norm_step *self, const norm_pointers *p)
{
    sweep_by_rows(exec, self, p, self->kernels->normalise);
}

void psr_onednn_norm_reduce(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                            const norm_pointers *p, uint32_t thread, norm_range columns)
{
    norm_slab slab;
    norm_range rows = psr_onednn_norm_rows_of(self, thread);
    clear_sums(exec, self, thread, columns);
    while (next_slab(self, &exec->values[self->x], &rows, columns, &slab))
        self->kernels->reduce(&slab, p, psr_onednn_norm_sum_row(exec, self, thread, NORM_SUM),
                              psr_onednn_norm_sum_row(exec, self, thread, NORM_SQUARE),
                              psr_onednn_norm_sum_row(exec, self, thread, NORM_SECOND_SQUARE));
}

double psr_onednn_norm_total(const psr_onednn_exec *exec, const psr_onednn_norm_step *self, int row,
                             norm_range threads, size_t c)
{
    double sum = 0;
    for (uint32_t thread = (uint32_t)threads.begin; thread < threads.end; thread++)
        sum += psr_onednn_norm_sum_row(exec, self, thread, row)[c];
    return sum;
}

void psr_onednn_norm_differentiate_by_rows(const psr_onednn_exec *exec,
                                           const psr_onednn_norm_step *self, const norm_pointers *p)
{
    sweep_by_rows(exec, self, p, self->kernels->differentiate);
}
