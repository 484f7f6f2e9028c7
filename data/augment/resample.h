/* Bilinear resizing of pictures of bytes, by integers, so that it is the same on every machine. */
#ifndef PSR_DATA_AUGMENT_RESAMPLE_H
#define PSR_DATA_AUGMENT_RESAMPLE_H

#include "base/err.h"
#include "data/augment/draws.h"

#include <stddef.h>

/* What is read: pixel (c, y, x) at pixels[c * plane + y * row + x * step], where rows and columns
 * may run backwards. */
typedef struct psr_pixels {
    const uint8_t *pixels;
    uint32_t channels, height, width;
    ptrdiff_t plane, row, step;
} psr_pixels;

/* Memory of one thread for resizing; it grows to the largest need. In place; all zero: empty. */
typedef struct psr_resampler {
    void *taps;
    size_t taps_size;
    int32_t *weights;
    size_t weights_size;
    uint8_t *rows;
    size_t rows_size;
} psr_resampler;

void psr_resampler_done(psr_resampler *resampler);

/* Resizes from to the shape `to` and writes the window of the result, [channels, window.height,
 * window.width], to out. Output i of a length m from n lies at the source's (i + 1/2) n/m - 1/2.
 * First across, then down, each rounded to a byte: with antialias the weights are the triangle of
 * half-width max(n/m, 1) around it, normalised (Pillow's Resample.c, bilinear); plain: of the two
 * neighbours, at the edges the edge alone (PyTorch's interpolate, align_corners=False). Weights are
 * rounded to 2^-22. NOMEM. */
PSR_MUST_CHECK psr_err psr_resample(psr_resampler *resampler, const psr_pixels *from,
                                    psr_picture_shape to, psr_box window, psr_resampling resampling,
                                    uint8_t *out);

#endif
