/* Batch norm with the addition and the ReLU behind it, as kernels of our own.
 *
 * Two ways to share the work, both fixed by shapes and number of threads alone, so that the sums
 * have one order:
 *   by columns  a thread has whole channels: it sums them up, then passes over them a second time
 *               while they are still in its cache. For blocked layouts with enough columns.
 *   by rows     a thread has a share of the pixels of all channels; the sums meet between two
 *               parallel regions. For channels last, where a channel alone is a few bytes of every
 *               cache line, and for few columns. */
#include "model/onednn/layers/norm.h"

#include <math.h>
#include <stdlib.h>

/* ---- planning ---- */

static psr_err check_layout(const psr_onednn_exec *exec, const psr_onednn_norm_step *self)
{
    const psr_onednn_tensor *x = &exec->values[self->x];
    bool fits = x->layout == PSR_ONEDNN_BLOCKED_16 ||
                (x->layout == PSR_ONEDNN_BLOCKED_8 && x->type == dnnl_f32) ||
                (x->layout == PSR_ONEDNN_CHANNELS_LAST && x->c % 16 == 0);
    if (fits && self->has_r)
        fits = exec->values[self->r].layout == x->layout && exec->values[self->r].type == x->type;
    return fits ? PSR_OK
                : psr_fail(PSR_ERR_UNSUPPORTED, "onednn: %s cannot read the layout of its input",
                           exec->net->nodes[self->node].name);
}

static void plan_shares(const psr_onednn_exec *exec, psr_onednn_norm_step *self)
{
    const psr_onednn_tensor *x = &exec->values[self->x];
    bool last = x->layout == PSR_ONEDNN_CHANNELS_LAST;
    size_t row_bytes = (size_t)x->block * psr_onednn_type_bytes(x->type);
    self->threads = exec->context->threads;
    self->kernels = psr_onednn_norm_kernels(psr_onednn_type_bytes(x->type),
                                            x->layout == PSR_ONEDNN_BLOCKED_8 ? 8 : 16);
    self->channels = (size_t)x->blocks * x->block;
    self->columns = self->channels / self->kernels->lanes;
    self->rows = (size_t)x->n * x->h * x->w;
    /* A slab of every value stays in the first-level cache between columns. */
    self->slab_rows = last ? ((size_t)16 << 10) / row_bytes : NORM_SLAB_ROWS;
    if (self->slab_rows < 4)
        self->slab_rows = 4;
    if (self->slab_rows > NORM_SLAB_ROWS)
        self->slab_rows = NORM_SLAB_ROWS;
    self->by_columns =
        !last && (self->columns % self->threads == 0 || self->columns >= 4 * (size_t)self->threads);
}

static psr_err norm_plan_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    psr_onednn_norm_step *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    const psr_fusion_group *group = step->group;
    self->node = group->norm;
    self->second = group->second_norm;
    self->held = exec->net->nodes[self->node].held;
    self->relu = group->relu;
    self->y = group->output;
    self->x = exec->net->nodes[self->node].input[0];
    self->r = self->second != PSR_NONE ? exec->net->nodes[self->second].input[0] : group->residual;
    self->has_r = self->r != PSR_NONE;
    const psr_onednn_tensor *x = psr_onednn_use(exec, self->x);
    if (self->has_r)
        psr_onednn_use(exec, self->r);
    PSR_TRY(check_layout(exec, self));
    plan_shares(exec, self);
    size_t sum_bytes = self->threads * NORM_SUM_ROWS * self->channels * sizeof(double);
    psr_pass_buffer_grow(&exec->buffers, exec->scratch, sum_bytes);
    PSR_TRY(psr_pass_buffer_add(
        &exec->buffers, 2 * NORM_CHANNEL_ROWS * self->channels * sizeof(float), &self->table));
    psr_onednn_tensor y;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, x->layout, x->type, &y));
    /* In inference nobody needs x again. */
    if (exec->training || exec->groups->readers[self->x] > 1 || x->space != PSR_ONEDNN_WORKSPACE)
        return psr_onednn_give(exec, self->y, &y);
    y.buffer = x->buffer;
    exec->values[self->y] = y;
    return PSR_OK;
}

static psr_err norm_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    psr_onednn_norm_step *self = step->self;
    uint32_t dy[2];
    self->has_dy2 = psr_onednn_gradient_take(exec, step, self->y, 2, dy) == 2;
    self->dy = dy[0];
    self->dy2 = self->has_dy2 ? dy[1] : 0;
    psr_pass_buffer_use(&exec->buffers, self->table);
    psr_onednn_use(exec, self->x);
    if (self->has_r && self->relu)
        psr_onednn_use(exec, self->y);
    if (self->second != PSR_NONE)
        psr_onednn_use(exec, self->r);
    /* g takes dy's place. Where it is what r's maker gets, dx needs another: dy2's, if there is
     * one. */
    size_t bytes = exec->values[self->x].bytes;
    bool hands_g_on =
        self->has_r && self->second == PSR_NONE && psr_onednn_wants_gradient(exec, self->r);
    self->keeps_g = self->has_r || self->has_dy2;
    self->ends = !psr_onednn_wants_gradient(exec, self->x) &&
                 (self->second == PSR_NONE || !psr_onednn_wants_gradient(exec, self->r));
    self->g = self->dx = self->dr = self->dy;
    uint32_t other = self->dy2;
    if ((hands_g_on || self->second != PSR_NONE) && !self->has_dy2)
        PSR_TRY(psr_pass_buffer_add(&exec->buffers, bytes, &other));
    if (hands_g_on) {
        self->dx = other;
        PSR_TRY(psr_onednn_gradient_put(exec, self->r, self->g));
    } else if (self->second != PSR_NONE) {
        self->dr = other;
        if (psr_onednn_wants_gradient(exec, self->r))
            PSR_TRY(psr_onednn_gradient_put(exec, self->r, self->dr));
    }
    if (psr_onednn_wants_gradient(exec, self->x))
        return psr_onednn_gradient_put(exec, self->x, self->dx);
    return PSR_OK;
}

/* ---- forward ---- */

/* One channel's mean and biased variance from what some threads have summed up, each about its own
 * centre. */
static void merge(const psr_onednn_exec *exec, const psr_onednn_norm_step *self, int which,
                  norm_range threads, size_t c, double *ret_mean, double *ret_variance)
{
    double sum = 0, deviation = 0, count = (double)self->rows;
    int sum_of = which == 0 ? NORM_SUM : NORM_SECOND_SUM,
        square_of = which == 0 ? NORM_SQUARE : NORM_SECOND_SQUARE;
    for (uint32_t t = (uint32_t)threads.begin; t < threads.end; t++) {
        norm_range rows = psr_onednn_norm_rows_of(self, t);
        if (rows.begin < rows.end)
            sum += psr_onednn_norm_sum_row(exec, self, t, sum_of)[c] +
                   (double)(rows.end - rows.begin) *
                       (double)psr_onednn_norm_centre_row(exec, self, t, which)[c];
    }
    double mean = sum / count;
    for (uint32_t t = (uint32_t)threads.begin; t < threads.end; t++) {
        norm_range rows = psr_onednn_norm_rows_of(self, t);
        if (rows.begin == rows.end)
            continue;
        double off = (double)psr_onednn_norm_centre_row(exec, self, t, which)[c] - mean;
        deviation += psr_onednn_norm_sum_row(exec, self, t, square_of)[c] +
                     2 * off * psr_onednn_norm_sum_row(exec, self, t, sum_of)[c] +
                     (double)(rows.end - rows.begin) * off * off;
    }
    *ret_mean = mean;
    *ret_variance = deviation > 0 || deviation != deviation ? deviation / count : 0;
}

/* Batch statistics of channels [begin, end) into the table and, the variance unbiased, into the
 * running ones.
 */
static void set_statistics(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                           norm_range channels, norm_range threads)
{
    const psr_tensor *buffers = exec->net->buffers.tensors;
    double count = (double)self->rows, unbias = count / (count - 1);
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        float *running_mean = exec->state->buffers + buffers[node->mean].offset;
        float *running_variance = exec->state->buffers + buffers[node->variance].offset;
        for (size_t c = channels.begin; c < channels.end; c++) {
            double mean, variance, keep = 1 - node->momentum;
            merge(exec, self, which, threads, c, &mean, &variance);
            psr_onednn_norm_set_channel(exec, self, which, c, mean, variance);
            if (c >= node->channels)
                continue;
            running_mean[c] = (float)(keep * (double)running_mean[c] + node->momentum * mean);
            if (self->rows > 1)
                running_variance[c] = (float)(keep * (double)running_variance[c] +
                                              node->momentum * variance * unbias);
        }
    }
}

static norm_channels channels_of(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                 int which)
{
    return (norm_channels){psr_onednn_norm_table_row(exec, self, which, NORM_MEAN),
                           psr_onednn_norm_table_row(exec, self, which, NORM_SCALE),
                           psr_onednn_norm_table_row(exec, self, which, NORM_SHIFT),
                           psr_onednn_norm_table_row(exec, self, which, NORM_SLOPE)};
}

static norm_pointers pointers_of(const psr_onednn_exec *exec, const psr_onednn_norm_step *self)
{
    norm_pointers p = {.relu = self->relu, .x = psr_onednn_data(exec, &exec->values[self->x])};
    if (self->has_r)
        p.r = psr_onednn_data(exec, &exec->values[self->r]);
    p.norm = channels_of(exec, self, 0);
    if (self->second != PSR_NONE)
        p.second = channels_of(exec, self, 1);
    return p;
}

static void train_by_columns(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                             const norm_pointers *p)
{
    const norm_range rows = {0, self->rows};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        norm_range mine = psr_onednn_norm_share(self->columns, self->threads, thread);
        for (size_t column = mine.begin; column < mine.end; column++) {
            norm_range one = {column, column + 1};
            psr_onednn_norm_sum_up(exec, self, thread, one);
            set_statistics(exec, self, psr_onednn_norm_channels_in(self, one),
                           (norm_range){thread, thread + 1});
            psr_onednn_norm_sweep(exec, self, p, rows, one, self->kernels->normalise);
        }
    }
}

static void train_by_rows(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                          const norm_pointers *p)
{
    const norm_range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        psr_onednn_norm_sum_up(exec, self, thread, columns);
    set_statistics(exec, self, psr_onednn_norm_channels_in(self, columns),
                   (norm_range){0, self->threads});
    psr_onednn_norm_normalise_by_rows(exec, self, p);
}

static void set_running(const psr_onednn_exec *exec, const psr_onednn_norm_step *self)
{
    const psr_tensor *buffers = exec->net->buffers.tensors;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        const float *mean = exec->state->buffers + buffers[node->mean].offset;
        const float *variance = exec->state->buffers + buffers[node->variance].offset;
        for (size_t c = 0; c < self->channels; c++) {
            bool real = c < node->channels;
            psr_onednn_norm_set_channel(exec, self, which, c, real ? (double)mean[c] : 0,
                                        real ? (double)variance[c] : 0);
        }
    }
}

static void infer(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                  const norm_pointers *p)
{
    set_running(exec, self);
    psr_onednn_norm_normalise_by_rows(exec, self, p);
}

static psr_err norm_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    psr_onednn_norm_step *self = step->self;
    norm_pointers p = pointers_of(exec, self);
    p.y = psr_onednn_data(exec, &exec->values[self->y]);
    if (!exec->training || self->held)
        infer(exec, self, &p);
    else if (exec->sums != NULL)
        psr_onednn_norm_train_in_parts(exec, self, &p);
    else if (self->by_columns)
        train_by_columns(exec, self, &p);
    else
        train_by_rows(exec, self, &p);
    return PSR_OK;
}

/* ---- backward ---- */

/* The parameters' gradients, and what differentiate needs, from the sums: of held statistics, which
 * depend on no x, dx is scale * g. */
static void set_gradients(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                          norm_range channels, norm_range threads)
{
    const psr_tensor *params = exec->net->params.tensors;
    double count = (double)self->rows;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        float *d_weight = exec->state->gradients + params[node->weight].offset;
        float *d_bias = exec->state->gradients + params[node->bias].offset;
        const bool wanted =
            psr_onednn_wants_parameters(exec, which == 0 ? self->node : self->second);
        for (size_t c = channels.begin; c < channels.end; c++) {
            double sum = psr_onednn_norm_total(exec, self, NORM_SUM, threads, c);
            double product = psr_onednn_norm_total(
                exec, self, which == 0 ? NORM_SQUARE : NORM_SECOND_SQUARE, threads, c);
            double inverse =
                (double)psr_onednn_norm_table_row(exec, self, which, NORM_INVERSE_STD)[c];
            psr_onednn_norm_table_row(exec, self, which, NORM_SLOPE)[c] =
                self->held ? 0.0f : (float)(product * inverse * inverse / count);
            if (which == 0)
                psr_onednn_norm_table_row(exec, self, 0, NORM_MEAN_G)[c] =
                    self->held ? 0.0f : (float)(sum / count);
            if (c < node->channels && wanted) {
                d_weight[c] = (float)(product * inverse);
                d_bias[c] = (float)sum;
            }
        }
    }
}

static void backward_by_columns(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                const norm_pointers *p)
{
    const norm_range rows = {0, self->rows};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        norm_range mine = psr_onednn_norm_share(self->columns, self->threads, thread);
        for (size_t column = mine.begin; column < mine.end; column++) {
            norm_range one = {column, column + 1};
            psr_onednn_norm_reduce(exec, self, p, thread, one);
            set_gradients(exec, self, psr_onednn_norm_channels_in(self, one),
                          (norm_range){thread, thread + 1});
            if (!self->ends)
                psr_onednn_norm_sweep(exec, self, p, rows, one, self->kernels->differentiate);
        }
    }
}

static void backward_by_rows(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                             const norm_pointers *p)
{
    const norm_range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        psr_onednn_norm_reduce(exec, self, p, thread, columns);
    set_gradients(exec, self, psr_onednn_norm_channels_in(self, columns),
                  (norm_range){0, self->threads});
    if (!self->ends)
        psr_onednn_norm_differentiate_by_rows(exec, self, p);
}

static psr_err norm_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const psr_onednn_norm_step *self = step->self;
    norm_pointers p = pointers_of(exec, self);
    p.dy = psr_onednn_at(exec, self->dy);
    if (self->has_dy2)
        p.dy2 = psr_onednn_at(exec, self->dy2);
    if (self->relu && self->has_r)
        p.mask = psr_onednn_data(exec, &exec->values[self->y]);
    if (self->keeps_g)
        p.g = psr_onednn_at(exec, self->g);
    p.dx = psr_onednn_at(exec, self->dx);
    p.dr = psr_onednn_at(exec, self->dr);
    p.mean_g = psr_onednn_norm_table_row(exec, self, 0, NORM_MEAN_G);
    if (exec->sums != NULL && !self->held)
        psr_onednn_norm_backward_in_parts(exec, self, &p);
    else if (self->by_columns)
        backward_by_columns(exec, self, &p);
    else
        backward_by_rows(exec, self, &p);
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_norm = {norm_plan_forward, norm_plan_backward, norm_forward,
                                               norm_backward, NULL};
