/* The loops of image_lanes_kernels.h for one width of vector. Included once for each, with
 *   INSTANCE    the table's declaration
 *   LANES       images in a vector: 8 or 16
 *   TARGET      the instructions, as an attribute; may be empty
 *   FUSED       the sum c + a * b of vectors, rounded once
 *   SPREAD      a float in all lanes
 *   CHANNELS, COLUMNS   sums of so many channels and columns stay in registers
 *   TAPS        and of so many channels and taps: CHANNELS_OF_TAPS, TAPS
 *   KERNEL(x)   the name x of this instance
 *
 * Every lane is summed by itself and in the same order whatever the width, so bits do not depend on
 * it. Helpers are inlined with constant counts. */

#include "model/onednn/kernels/vector_kernel.h"

/* channels * columns sums in registers. */
TARGET INLINE void KERNEL(sum_tile)(const image_lanes_sum *s, size_t half, size_t o, size_t row,
                                    size_t column, const size_t channels, const size_t columns)
{
    VECTOR sums[CHANNELS][COLUMNS];
#pragma GCC unroll 8
    for (size_t b = 0; b < channels; b++)
#pragma GCC unroll 8
        for (size_t j = 0; j < columns; j++)
            sums[b][j] = SPREAD(s->bias != NULL ? s->bias[o + b] : 0.0f);
    const size_t first = s->turned && row >= s->from_rows ? row - s->from_rows + 1 : 0;
    const size_t end = s->turned && row + 1 < s->kernel ? row + 1 : s->kernel;
    for (size_t i = 0; i < s->in; i++)
        for (size_t r = first; r < end; r++) {
            const size_t from_row = s->turned ? row - r : row + r;
            const float *from =
                s->from + ((i * s->from_rows + from_row) * s->from_width + column) * IMAGE_LANES +
                half;
            const float *w = s->weights + (ptrdiff_t)o * s->w_out + (ptrdiff_t)i * s->w_in +
                             (ptrdiff_t)r * s->w_row;
            for (size_t c = 0; c < s->kernel; c++, from += IMAGE_LANES, w += s->w_column) {
                VECTOR values[COLUMNS];
#pragma GCC unroll 8
                for (size_t j = 0; j < columns; j++)
                    KERNEL(load)(&values[j], from + j * IMAGE_LANES);
#pragma GCC unroll 8
                for (size_t b = 0; b < channels; b++) {
                    const VECTOR weight = SPREAD(w[(ptrdiff_t)b * s->w_out]);
#pragma GCC unroll 8
                    for (size_t j = 0; j < columns; j++)
                        sums[b][j] = FUSED(weight, values[j], sums[b][j]);
                }
            }
        }
#pragma GCC unroll 8
    for (size_t b = 0; b < channels; b++)
#pragma GCC unroll 8
        for (size_t j = 0; j < columns; j++)
            KERNEL(store)
    (s->to + (((o + b) * s->rows + row) * s->width + column + j) * IMAGE_LANES + half, &sums[b][j]);
}

TARGET INLINE void KERNEL(sum_row)(const image_lanes_sum *s, size_t half, size_t o, size_t row,
                                   const size_t channels)
{
    size_t column = 0;
    for (; column + COLUMNS <= s->width; column += COLUMNS)
        KERNEL(sum_tile)(s, half, o, row, column, channels, COLUMNS);
    for (; column < s->width; column++)
        KERNEL(sum_tile)(s, half, o, row, column, channels, 1);
}

LOOP void KERNEL(sum)(const image_lanes_sum *s)
{
    for (size_t half = 0; half < IMAGE_LANES; half += LANES) {
        size_t o = 0;
        for (; o + CHANNELS <= s->out; o += CHANNELS)
            for (size_t row = 0; row < s->rows; row++)
                KERNEL(sum_row)(s, half, o, row, CHANNELS);
        for (; o < s->out; o++)
            for (size_t row = 0; row < s->rows; row++)
                KERNEL(sum_row)(s, half, o, row, 1);
    }
}

/* channels * taps sums in registers: of taps c.. of row r of the windows of source channel i. */
TARGET INLINE void KERNEL(multiply_tile)(const image_lanes_product *p, size_t half, size_t o,
                                         size_t i, size_t r, size_t c, const size_t channels,
                                         const size_t taps)
{
    VECTOR sums[CHANNELS_OF_TAPS][TAPS];
    float *to = p->sums + (((o * p->in + i) * p->kernel + r) * p->kernel + c) * IMAGE_LANES + half;
    const size_t to_next = p->in * p->kernel * p->kernel * IMAGE_LANES;
    const size_t plane = p->rows * p->width * IMAGE_LANES;
#pragma GCC unroll 8
    for (size_t b = 0; b < channels; b++)
#pragma GCC unroll 8
        for (size_t t = 0; t < taps; t++)
            KERNEL(load)(&sums[b][t], to + b * to_next + t * IMAGE_LANES);
    const float *dy = p->dy + o * plane + half;
    for (size_t row = 0; row < p->rows; row++) {
        const float *x = p->x + ((i * p->x_rows + row + r) * p->x_width + c) * IMAGE_LANES + half;
        for (size_t column = 0; column < p->width; column++, x += IMAGE_LANES, dy += IMAGE_LANES) {
            VECTOR values[TAPS];
#pragma GCC unroll 8
            for (size_t t = 0; t < taps; t++)
                KERNEL(load)(&values[t], x + t * IMAGE_LANES);
#pragma GCC unroll 8
            for (size_t b = 0; b < channels; b++) {
                VECTOR gradient;
                KERNEL(load)(&gradient, dy + b * plane);
#pragma GCC unroll 8
                for (size_t t = 0; t < taps; t++)
                    sums[b][t] = FUSED(gradient, values[t], sums[b][t]);
            }
        }
    }
#pragma GCC unroll 8
    for (size_t b = 0; b < channels; b++)
#pragma GCC unroll 8
        for (size_t t = 0; t < taps; t++)
            KERNEL(store)(to + b * to_next + t * IMAGE_LANES, &sums[b][t]);
}

TARGET INLINE void KERNEL(multiply_windows)(const image_lanes_product *p, size_t half, size_t o,
                                            const size_t channels)
{
    for (size_t i = 0; i < p->in; i++)
        for (size_t r = 0; r < p->kernel; r++) {
            size_t c = 0;
            for (; c + TAPS <= p->kernel; c += TAPS)
                KERNEL(multiply_tile)(p, half, o, i, r, c, channels, TAPS);
            for (; c < p->kernel; c++)
                KERNEL(multiply_tile)(p, half, o, i, r, c, channels, 1);
        }
}

LOOP void KERNEL(multiply)(const image_lanes_product *p)
{
    const size_t pixels = p->rows * p->width;
    for (size_t half = 0; half < IMAGE_LANES; half += LANES) {
        size_t o = 0;
        for (; o + CHANNELS_OF_TAPS <= p->out; o += CHANNELS_OF_TAPS)
            KERNEL(multiply_windows)(p, half, o, CHANNELS_OF_TAPS);
        for (; o < p->out; o++)
            KERNEL(multiply_windows)(p, half, o, 1);
        for (o = 0; o < p->out; o++) {
            VECTOR sum, value;
            KERNEL(load)(&sum, p->bias_sums + o * IMAGE_LANES + half);
            for (size_t pixel = 0; pixel < pixels; pixel++) {
                KERNEL(load)(&value, p->dy + (o * pixels + pixel) * IMAGE_LANES + half);
                sum += value;
            }
            KERNEL(store)(p->bias_sums + o * IMAGE_LANES + half, &sum);
        }
    }
}

INSTANCE = {KERNEL(sum), KERNEL(multiply)};

#undef INSTANCE
#undef LANES
#undef TARGET
#undef FUSED
#undef SPREAD
#undef CHANNELS
#undef COLUMNS
#undef CHANNELS_OF_TAPS
#undef TAPS
#undef KERNEL
#undef VECTOR
#undef INLINE
#undef LOOP
