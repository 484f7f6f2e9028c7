/* Batch norm with the addition and the ReLU behind it, as kernels of our own.
 *
 * Two ways to share the work, both fixed by shapes and number of threads alone, so that the sums
 * have one order:
 *   by columns  a thread has whole channels: it sums them up, then passes over them a second time
 *               while they are still in its cache. For blocked layouts with enough columns.
 *   by rows     a thread has a share of the pixels of all channels; the sums meet between two
 *               parallel regions. For channels last, where a channel alone is a few bytes of every
 *               cache line, and for few columns. */
#include "model/onednn/kernels/norm_kernels.h"
#include "model/onednn/private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Per-channel results that the backward pass needs, one row of floats each. */
enum { MEAN, SCALE, SHIFT, SLOPE, INVERSE_STD, MEAN_G, CHANNEL_ROWS };
/* Per-thread sums, one row of doubles each. */
enum { SUM, SQUARE, SECOND_SUM, SECOND_SQUARE, CENTRES, SUM_ROWS };

typedef struct norm {
    uint32_t node, second; /* batch norms; second PSR_NONE when absent */
    uint32_t x, r, y;      /* values; r: what is added, or the second batch norm's input */
    bool relu, has_r;
    const norm_kernels *kernels;
    size_t channels; /* padded */
    size_t columns, rows, slab_rows;
    bool by_columns;
    uint32_t threads;
    uint32_t table;              /* buffer: float[2][CHANNEL_ROWS][channels] */
    uint32_t dy, dy2, g, dx, dr; /* buffers */
    bool has_dy2, keeps_g;
    double values; /* --sync-bn: of a channel, on all workers */
} norm;

/* ---- walking ---- */

typedef struct range {
    size_t begin, end;
} range;

static range share(size_t count, uint32_t threads, uint32_t thread)
{
    return (range){psr_onednn_cut(count, threads, thread),
                   psr_onednn_cut(count, threads, thread + 1)};
}

/* The next slab of rows and columns; takes it off rows. */
static bool next_slab(const norm *self, const psr_onednn_tensor *x, range *rows, range columns,
                      norm_slab *ret_slab)
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
static range rows_of(const norm *self, uint32_t thread)
{
    return self->by_columns ? (range){0, self->rows} : share(self->rows, self->threads, thread);
}

static float *table_row(const psr_onednn_exec *exec, const norm *self, int which, int row)
{
    float *table = psr_onednn_at(exec, self->table);
    return table + (size_t)(which * CHANNEL_ROWS + row) * self->channels;
}

/* Sums live in the scratchpad: no primitive runs meanwhile. */
static double *sum_row(const psr_onednn_exec *exec, const norm *self, uint32_t thread, int row)
{
    double *sums = psr_onednn_at(exec, exec->scratch);
    return sums + ((size_t)thread * SUM_ROWS + (size_t)row) * self->channels;
}

static float *centre_row(const psr_onednn_exec *exec, const norm *self, uint32_t thread, int which)
{
    return (float *)(void *)sum_row(exec, self, thread, CENTRES) + (size_t)which * self->channels;
}

static void clear_sums(const psr_onednn_exec *exec, const norm *self, uint32_t thread,
                       range columns)
{
    size_t lanes = self->kernels->lanes, first = columns.begin * lanes,
           count = (columns.end - columns.begin) * lanes;
    for (int row = SUM; row < CENTRES; row++)
        memset(sum_row(exec, self, thread, row) + first, 0, count * sizeof(double));
}

/* ---- planning ---- */

static psr_err check_layout(const psr_onednn_exec *exec, const norm *self)
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

static void plan_shares(const psr_onednn_exec *exec, norm *self)
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
    norm *self = calloc(1, sizeof *self);
    if (self == NULL)
        return psr_fail(PSR_ERR_NOMEM, "onednn: out of memory for a step");
    step->self = self;
    const psr_onednn_group *group = step->group;
    self->node = group->norm;
    self->second = group->second_norm;
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
    size_t sum_bytes = self->threads * SUM_ROWS * self->channels * sizeof(double);
    psr_onednn_buffer_grow(&exec->buffers, exec->scratch, sum_bytes);
    PSR_TRY(psr_onednn_buffer_add(&exec->buffers, 2 * CHANNEL_ROWS * self->channels * sizeof(float),
                                  &self->table));
    psr_onednn_tensor y;
    PSR_TRY(psr_onednn_tensor_in(exec, self->y, x->layout, x->type, &y));
    /* In inference nobody needs x again. */
    if (exec->training || exec->graph->readers[self->x] > 1 || x->space != PSR_ONEDNN_WORKSPACE)
        return psr_onednn_give(exec, self->y, &y);
    y.buffer = x->buffer;
    exec->values[self->y] = y;
    return PSR_OK;
}

static psr_err norm_plan_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    norm *self = step->self;
    uint32_t dy[2];
    self->has_dy2 = psr_onednn_gradient_take(exec, step, self->y, 2, dy) == 2;
    self->dy = dy[0];
    self->dy2 = self->has_dy2 ? dy[1] : 0;
    psr_onednn_buffer_use(&exec->buffers, self->table);
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
    self->g = self->dx = self->dr = self->dy;
    uint32_t other = self->dy2;
    if ((hands_g_on || self->second != PSR_NONE) && !self->has_dy2)
        PSR_TRY(psr_onednn_buffer_add(&exec->buffers, bytes, &other));
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

static void sum_up(const psr_onednn_exec *exec, const norm *self, uint32_t thread, range columns)
{
    clear_sums(exec, self, thread, columns);
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_onednn_tensor *tensor = &exec->values[which == 0 ? self->x : self->r];
        const void *x = psr_onednn_data(exec, tensor);
        float *centre = centre_row(exec, self, thread, which);
        range left = rows_of(self, thread);
        norm_slab slab;
        for (bool first = true; next_slab(self, tensor, &left, columns, &slab); first = false) {
            if (first)
                self->kernels->centre(&slab, x, centre);
            self->kernels->statistics(
                &slab, x, centre, sum_row(exec, self, thread, which == 0 ? SUM : SECOND_SUM),
                sum_row(exec, self, thread, which == 0 ? SQUARE : SECOND_SQUARE));
        }
    }
}

/* One channel's mean and biased variance from what some threads have summed up, each about its own
 * centre. */
static void merge(const psr_onednn_exec *exec, const norm *self, int which, range threads, size_t c,
                  double *ret_mean, double *ret_variance)
{
    double sum = 0, deviation = 0, count = (double)self->rows;
    int sum_of = which == 0 ? SUM : SECOND_SUM, square_of = which == 0 ? SQUARE : SECOND_SQUARE;
    for (uint32_t t = (uint32_t)threads.begin; t < threads.end; t++) {
        range rows = rows_of(self, t);
        if (rows.begin < rows.end)
            sum += sum_row(exec, self, t, sum_of)[c] +
                   (double)(rows.end - rows.begin) * (double)centre_row(exec, self, t, which)[c];
    }
    double mean = sum / count;
    for (uint32_t t = (uint32_t)threads.begin; t < threads.end; t++) {
        range rows = rows_of(self, t);
        if (rows.begin == rows.end)
            continue;
        double off = (double)centre_row(exec, self, t, which)[c] - mean;
        deviation += sum_row(exec, self, t, square_of)[c] +
                     2 * off * sum_row(exec, self, t, sum_of)[c] +
                     (double)(rows.end - rows.begin) * off * off;
    }
    *ret_mean = mean;
    *ret_variance = deviation > 0 || deviation != deviation ? deviation / count : 0;
}

/* A NaN without payload: rounding to bf16 by carry (norm_pairs.c) could carry one with a full
 * payload away. */
static float plain_nan(float value)
{
    return isnan(value) ? NAN : value;
}

static void set_channel(const psr_onednn_exec *exec, const norm *self, int which, size_t c,
                        double mean, double variance)
{
    const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
    bool real = c < node->channels;
    const psr_tensor *params = exec->net->params.tensors;
    double inverse = 1.0 / sqrt(variance + node->epsilon);
    float weight = real ? exec->state->weights[params[node->weight].offset + c] : 0.0f;
    table_row(exec, self, which, MEAN)[c] = real ? (float)mean : 0.0f;
    table_row(exec, self, which, INVERSE_STD)[c] = real ? (float)inverse : 0.0f;
    table_row(exec, self, which, SCALE)[c] = plain_nan((float)((double)weight * inverse));
    table_row(exec, self, which, SHIFT)[c] =
        real ? plain_nan(exec->state->weights[params[node->bias].offset + c]) : 0.0f;
    table_row(exec, self, which, SLOPE)[c] = 0.0f;
}

/* Batch statistics of channels [begin, end) into the table and, the variance unbiased, into the
 * running ones.
 */
static void set_statistics(const psr_onednn_exec *exec, const norm *self, range channels,
                           range threads)
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
            set_channel(exec, self, which, c, mean, variance);
            if (c >= node->channels)
                continue;
            running_mean[c] = (float)(keep * (double)running_mean[c] + node->momentum * mean);
            if (self->rows > 1)
                running_variance[c] = (float)(keep * (double)running_variance[c] +
                                              node->momentum * variance * unbias);
        }
    }
}

static norm_channels channels_of(const psr_onednn_exec *exec, const norm *self, int which)
{
    return (norm_channels){table_row(exec, self, which, MEAN), table_row(exec, self, which, SCALE),
                           table_row(exec, self, which, SHIFT),
                           table_row(exec, self, which, SLOPE)};
}

static norm_pointers pointers_of(const psr_onednn_exec *exec, const norm *self)
{
    norm_pointers p = {.relu = self->relu, .x = psr_onednn_data(exec, &exec->values[self->x])};
    if (self->has_r)
        p.r = psr_onednn_data(exec, &exec->values[self->r]);
    p.norm = channels_of(exec, self, 0);
    if (self->second != PSR_NONE)
        p.second = channels_of(exec, self, 1);
    return p;
}

static void sweep(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p, range rows,
                  range columns, void (*kernel)(const norm_slab *slab, const norm_pointers *p))
{
    norm_slab slab;
    while (next_slab(self, &exec->values[self->x], &rows, columns, &slab))
        kernel(&slab, p);
}

static range channels_in(const norm *self, range columns)
{
    return (range){columns.begin * self->kernels->lanes, columns.end * self->kernels->lanes};
}

static void train_by_columns(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
    const range rows = {0, self->rows};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        range mine = share(self->columns, self->threads, thread);
        for (size_t column = mine.begin; column < mine.end; column++) {
            range one = {column, column + 1};
            sum_up(exec, self, thread, one);
            set_statistics(exec, self, channels_in(self, one), (range){thread, thread + 1});
            sweep(exec, self, p, rows, one, self->kernels->normalise);
        }
    }
}

static void normalise_by_rows(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
    const range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        sweep(exec, self, p, share(self->rows, self->threads, thread), columns,
              self->kernels->normalise);
}

static void train_by_rows(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
    const range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        sum_up(exec, self, thread, columns);
    set_statistics(exec, self, channels_in(self, columns), (range){0, self->threads});
    normalise_by_rows(exec, self, p);
}

static void set_running(const psr_onednn_exec *exec, const norm *self)
{
    const psr_tensor *buffers = exec->net->buffers.tensors;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        const float *mean = exec->state->buffers + buffers[node->mean].offset;
        const float *variance = exec->state->buffers + buffers[node->variance].offset;
        for (size_t c = 0; c < self->channels; c++) {
            bool real = c < node->channels;
            set_channel(exec, self, which, c, real ? (double)mean[c] : 0,
                        real ? (double)variance[c] : 0);
        }
    }
}

static void infer(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
    set_running(exec, self);
    normalise_by_rows(exec, self, p);
}

/* ---- forward, with the statistics of all workers ---- */

/* What some threads have summed up of channels [begin, end), each about its own centre, about
 * zero. */
static void give_moments(const psr_onednn_exec *exec, const norm *self, range channels,
                         range threads)
{
    const uint32_t C = exec->net->nodes[self->node].channels;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        double *sums = exec->sums + psr_norm_stop_at(C, which), *squares = sums + C;
        int sum_of = which == 0 ? SUM : SECOND_SUM, square_of = which == 0 ? SQUARE : SECOND_SQUARE;
        for (size_t c = channels.begin; c < channels.end && c < C; c++) {
            double sum = 0, square = 0;
            for (uint32_t t = (uint32_t)threads.begin; t < threads.end; t++) {
                range rows = rows_of(self, t);
                if (rows.begin == rows.end)
                    continue;
                double count = (double)(rows.end - rows.begin),
                       centre = (double)centre_row(exec, self, t, which)[c],
                       off = sum_row(exec, self, t, sum_of)[c];
                sum += off + count * centre;
                square += sum_row(exec, self, t, square_of)[c] + 2 * centre * off +
                          count * centre * centre;
            }
            sums[c] = sum;
            squares[c] = square;
        }
    }
}

static void sum_all(const psr_onednn_exec *exec, const norm *self)
{
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        range mine = self->by_columns ? share(self->columns, self->threads, thread)
                                      : (range){0, self->columns};
        sum_up(exec, self, thread, mine);
        if (self->by_columns)
            give_moments(exec, self, channels_in(self, mine), (range){thread, thread + 1});
    }
    if (!self->by_columns)
        give_moments(exec, self, channels_in(self, (range){0, self->columns}),
                     (range){0, self->threads});
    exec->sums[0] = (double)self->rows;
}

static void take_moments(const psr_onednn_exec *exec, norm *self)
{
    const psr_norm_stop stop = {{self->node, self->second}};
    const uint32_t C = exec->net->nodes[self->node].channels;
    self->values = exec->sums[0];
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const double *sums = exec->sums + psr_norm_stop_at(C, which);
        for (size_t c = 0; c < self->channels; c++) {
            double mean = 0, variance = 0;
            if (c < C)
                psr_norm_moments(self->values, sums[c], sums[C + c], &mean, &variance);
            set_channel(exec, self, which, c, mean, variance);
        }
    }
    psr_norm_stop_run(exec->net, &stop, exec->sums, exec->state->buffers);
}

/* In two calls, between which the sums become those of all workers. */
static void train_in_parts(psr_onednn_exec *exec, norm *self, const norm_pointers *p)
{
    exec->stopped = !exec->stopped;
    if (exec->stopped) {
        sum_all(exec, self);
    } else {
        take_moments(exec, self);
        normalise_by_rows(exec, self, p);
    }
}

static psr_err norm_forward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    norm *self = step->self;
    norm_pointers p = pointers_of(exec, self);
    p.y = psr_onednn_data(exec, &exec->values[self->y]);
    if (exec->sums != NULL)
        train_in_parts(exec, self, &p);
    else if (!exec->training)
        infer(exec, self, &p);
    else if (self->by_columns)
        train_by_columns(exec, self, &p);
    else
        train_by_rows(exec, self, &p);
    return PSR_OK;
}

/* ---- backward ---- */

static void reduce(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p,
                   uint32_t thread, range columns)
{
    norm_slab slab;
    range rows = rows_of(self, thread);
    clear_sums(exec, self, thread, columns);
    while (next_slab(self, &exec->values[self->x], &rows, columns, &slab))
        self->kernels->reduce(&slab, p, sum_row(exec, self, thread, SUM),
                              sum_row(exec, self, thread, SQUARE),
                              sum_row(exec, self, thread, SECOND_SQUARE));
}

static double total(const psr_onednn_exec *exec, const norm *self, int row, range threads, size_t c)
{
    double sum = 0;
    for (uint32_t thread = (uint32_t)threads.begin; thread < threads.end; thread++)
        sum += sum_row(exec, self, thread, row)[c];
    return sum;
}

/* The parameters' gradients, and what differentiate needs, from the sums. */
static void set_gradients(const psr_onednn_exec *exec, const norm *self, range channels,
                          range threads)
{
    const psr_tensor *params = exec->net->params.tensors;
    double count = (double)self->rows;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        float *d_weight = exec->state->gradients + params[node->weight].offset;
        float *d_bias = exec->state->gradients + params[node->bias].offset;
        for (size_t c = channels.begin; c < channels.end; c++) {
            double sum = total(exec, self, SUM, threads, c);
            double product = total(exec, self, which == 0 ? SQUARE : SECOND_SQUARE, threads, c);
            double inverse = (double)table_row(exec, self, which, INVERSE_STD)[c];
            table_row(exec, self, which, SLOPE)[c] = (float)(product * inverse * inverse / count);
            if (which == 0)
                table_row(exec, self, 0, MEAN_G)[c] = (float)(sum / count);
            if (c < node->channels) {
                d_weight[c] = (float)(product * inverse);
                d_bias[c] = (float)sum;
            }
        }
    }
}

static void backward_by_columns(const psr_onednn_exec *exec, const norm *self,
                                const norm_pointers *p)
{
    const range rows = {0, self->rows};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        range mine = share(self->columns, self->threads, thread);
        for (size_t column = mine.begin; column < mine.end; column++) {
            range one = {column, column + 1};
            reduce(exec, self, p, thread, one);
            set_gradients(exec, self, channels_in(self, one), (range){thread, thread + 1});
            sweep(exec, self, p, rows, one, self->kernels->differentiate);
        }
    }
}

static void differentiate_by_rows(const psr_onednn_exec *exec, const norm *self,
                                  const norm_pointers *p)
{
    const range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        sweep(exec, self, p, share(self->rows, self->threads, thread), columns,
              self->kernels->differentiate);
}

static void backward_by_rows(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
    const range columns = {0, self->columns};
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++)
        reduce(exec, self, p, thread, columns);
    set_gradients(exec, self, channels_in(self, columns), (range){0, self->threads});
    differentiate_by_rows(exec, self, p);
}

/* ---- backward, with the sums of all workers ---- */

/* This worker's sums of channels [begin, end), and the gradients of its parameters. */
static void give_products(const psr_onednn_exec *exec, const norm *self, range channels,
                          range threads)
{
    const psr_tensor *params = exec->net->params.tensors;
    const uint32_t C = exec->net->nodes[self->node].channels;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const psr_network_node *node = &exec->net->nodes[which == 0 ? self->node : self->second];
        float *d_weight = exec->state->gradients + params[node->weight].offset;
        float *d_bias = exec->state->gradients + params[node->bias].offset;
        double *sums = exec->sums, *products = sums + (size_t)(1 + which) * C;
        for (size_t c = channels.begin; c < channels.end && c < C; c++) {
            sums[c] = total(exec, self, SUM, threads, c);
            products[c] = total(exec, self, which == 0 ? SQUARE : SECOND_SQUARE, threads, c);
            d_weight[c] =
                (float)(products[c] * (double)table_row(exec, self, which, INVERSE_STD)[c]);
            d_bias[c] = (float)sums[c];
        }
    }
}

static void reduce_all(const psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
#pragma omp parallel for num_threads(self->threads) schedule(static)
    for (uint32_t thread = 0; thread < self->threads; thread++) {
        range mine = self->by_columns ? share(self->columns, self->threads, thread)
                                      : (range){0, self->columns};
        reduce(exec, self, p, thread, mine);
        if (self->by_columns)
            give_products(exec, self, channels_in(self, mine), (range){thread, thread + 1});
    }
    if (!self->by_columns)
        give_products(exec, self, channels_in(self, (range){0, self->columns}),
                      (range){0, self->threads});
}

static void take_products(const psr_onednn_exec *exec, const norm *self)
{
    const uint32_t C = exec->net->nodes[self->node].channels;
    for (int which = 0; which < (self->second != PSR_NONE ? 2 : 1); which++) {
        const double *sums = exec->sums, *products = sums + (size_t)(1 + which) * C;
        for (size_t c = 0; c < self->channels; c++) {
            double inverse = (double)table_row(exec, self, which, INVERSE_STD)[c];
            table_row(exec, self, which, SLOPE)[c] =
                c < C ? (float)(products[c] * inverse * inverse / self->values) : 0.0f;
            if (which == 0)
                table_row(exec, self, 0, MEAN_G)[c] = c < C ? (float)(sums[c] / self->values) : 0;
        }
    }
}

static void backward_in_parts(psr_onednn_exec *exec, const norm *self, const norm_pointers *p)
{
    exec->stopped = !exec->stopped;
    if (exec->stopped) {
        reduce_all(exec, self, p);
    } else {
        take_products(exec, self);
        differentiate_by_rows(exec, self, p);
    }
}

static psr_err norm_backward(psr_onednn_exec *exec, psr_onednn_step *step)
{
    const norm *self = step->self;
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
    p.mean_g = table_row(exec, self, 0, MEAN_G);
    if (exec->sums != NULL)
        backward_in_parts(exec, self, &p);
    else if (self->by_columns)
        backward_by_columns(exec, self, &p);
    else
        backward_by_rows(exec, self, &p);
    return PSR_OK;
}

const psr_onednn_step_class psr_onednn_norm = {norm_plan_forward, norm_plan_backward, norm_forward,
                                               norm_backward, NULL};
