#include "data/augment/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_BITS = 22 };

/* An output's inputs on one axis: count of them from first, with weights from the array at
 * weights. */
typedef struct tap {
    uint32_t first, count;
    size_t weights;
} tap;

/* The outputs begin..begin+count-1 of an axis of to outputs from from inputs. */
typedef struct axis {
    uint32_t from, to, begin, count;
    bool antialias;
} axis;

static bool grow(void **memory, size_t *size, size_t wanted)
{
    if (*size >= wanted)
        return true;
    void *larger = realloc(*memory, wanted);
    if (larger == NULL)
        return false;
    *memory = larger;
    *size = wanted;
    return true;
}

void psr_resampler_done(psr_resampler *resampler)
{
    free(resampler->taps);
    free(resampler->weights);
    free(resampler->rows);
    *resampler = (psr_resampler){0};
}

/* Inputs that one output can have. */
static uint32_t most_inputs(const axis *a)
{
    double scale = (double)a->from / a->to;
    return a->antialias && scale > 1 ? (uint32_t)ceil(scale) * 2 + 1 : 3;
}

/* Input x counts 1 - |x + 1/2 - centre| / half, with centre and half in inputs; what is not
 * positive is left out. Output of the weights: their number. */
static void antialias_tap(const axis *a, uint32_t i, tap *ret_tap, int32_t *weights)
{
    const double scale = (double)a->from / a->to, half = scale > 1 ? scale : 1;
    const double centre = (a->begin + i + 0.5) * scale;
    double low = floor(centre - half + 0.5), high = floor(centre + half + 0.5), sum = 0;
    uint32_t first = low > 0 ? (uint32_t)low : 0;
    uint32_t last = high < a->from ? (uint32_t)high : a->from;
    for (uint32_t x = first; x < last; x++)
        sum += fmax(0, 1 - fabs(x + 0.5 - centre) / half);
    for (uint32_t x = first; x < last; x++) {
        double share = fmax(0, 1 - fabs(x + 0.5 - centre) / half) / sum;
        weights[x - first] = (int32_t)(share * (1 << WEIGHT_BITS) + 0.5);
    }
    ret_tap->first = first;
    ret_tap->count = last - first;
}

static void plain_tap(const axis *a, uint32_t i, tap *ret_tap, int32_t *weights)
{
    double at = fmax((a->begin + i + 0.5) * ((double)a->from / a->to) - 0.5, 0);
    uint32_t first = (uint32_t)at;
    if (first + 1 >= a->from) {
        *ret_tap = (tap){.first = a->from - 1, .count = 1};
        weights[0] = 1 << WEIGHT_BITS;
        return;
    }
    *ret_tap = (tap){.first = first, .count = 2};
    weights[1] = (int32_t)((at - first) * (1 << WEIGHT_BITS) + 0.5);
    weights[0] = (1 << WEIGHT_BITS) - weights[1];
}

/* weights[at..]: room for the axis. Returns where they end. */
static size_t make_taps(const axis *a, tap *taps, int32_t *weights, size_t at)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->antialias)
            antialias_tap(a, i, &taps[i], weights + at);
        else
            plain_tap(a, i, &taps[i], weights + at);
        taps[i].weights = at;
        at += taps[i].count;
    }
    return at;
}

static uint8_t rounded(int32_t sum)
{
    int32_t value = (sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* A row of one channel. */
static void across(const uint8_t *row, ptrdiff_t step, const tap *taps, uint32_t count,
                   const int32_t *weights, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *from = row + (ptrdiff_t)taps[i].first * step;
        const int32_t *weight = weights + taps[i].weights;
        int32_t sum = from[0] * weight[0];
        for (uint32_t k = 1; k < taps[i].count; k++)
            sum += from[(ptrdiff_t)k * step] * weight[k];
        out[i] = rounded(sum);
    }
}

/* A row of the result from rows of bytes below each other. */
static void down(const uint8_t *rows, uint32_t width, const int32_t *weight, uint32_t count,
                 uint8_t *restrict out)
{
    if (count == 2) {
        const uint8_t *restrict upper = rows, *restrict lower = rows + width;
        const int32_t first = weight[0], second = weight[1];
        for (uint32_t x = 0; x < width; x++)
            out[x] = rounded(upper[x] * first + lower[x] * second);
        return;
    }
    enum { RUN = 64 };
    for (uint32_t begin = 0; begin < width; begin += RUN) {
        const uint32_t run = width - begin < RUN ? width - begin : RUN;
        int32_t sums[RUN] = {0};
        for (uint32_t k = 0; k < count; k++) {
            const uint8_t *restrict row = rows + (size_t)k * width + begin;
            for (uint32_t x = 0; x < run; x++)
                sums[x] += row[x] * weight[k];
        }
        for (uint32_t x = 0; x < run; x++)
            out[begin + x] = rounded(sums[x]);
    }
}

psr_err psr_resample(psr_resampler *resampler, const psr_pixels *from, psr_picture_shape to,
                     psr_box window, psr_resampling resampling, uint8_t *out)
{
    const bool antialias = resampling == PSR_RESAMPLE_ANTIALIAS;
    const axis x = {from->width, to.width, window.left, window.width, antialias};
    const axis y = {from->height, to.height, window.top, window.height, antialias};
    const size_t tap_count = (size_t)x.count + y.count;
    const size_t weight_count =
        (size_t)x.count * most_inputs(&x) + (size_t)y.count * most_inputs(&y);
    if (!grow(&resampler->taps, &resampler->taps_size, tap_count * sizeof(tap)) ||
        !grow((void **)&resampler->weights, &resampler->weights_size,
              weight_count * sizeof *resampler->weights))
        return psr_fail(PSR_ERR_NOMEM, "no memory to resize pictures");
    tap *columns = resampler->taps, *rows = columns + x.count;
    int32_t *weights = resampler->weights;
    make_taps(&y, rows, weights, make_taps(&x, columns, weights, 0));

    /* the rows that some output needs */
    const uint32_t first = rows[0].first;
    const uint32_t last = rows[y.count - 1].first + rows[y.count - 1].count;
    if (!grow((void **)&resampler->rows, &resampler->rows_size,
              (size_t)(last - first) * window.width))
        return psr_fail(PSR_ERR_NOMEM, "no memory to resize pictures");
    for (uint32_t c = 0; c < from->channels; c++) {
        for (uint32_t r = first; r < last; r++)
            across(from->pixels + (ptrdiff_t)c * from->plane + (ptrdiff_t)r * from->row, from->step,
                   columns, x.count, weights, resampler->rows + (size_t)(r - first) * x.count);
        for (uint32_t r = 0; r < y.count; r++, out += window.width)
            down(resampler->rows + (size_t)(rows[r].first - first) * x.count, x.count,
                 weights + rows[r].weights, rows[r].count, out);
    }
    return PSR_OK;
}
