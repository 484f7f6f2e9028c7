/* IDX, the format of MNIST and its family: u32 magic (two zero bytes, 0x08 for unsigned bytes, the
 * number of dimensions), one u32 per dimension, all big-endian, then the bytes (Y. LeCun, "The
 * MNIST database"). Images are x[N,H,W], labels y[N]. No state. Any thread. */
#ifndef PSR_DATA_IDX_H
#define PSR_DATA_IDX_H

#include "data/samples.h"
#include "data/files/source.h"

#include <stdbool.h>

typedef struct psr_idx_shape {
    uint32_t count, height, width;
} psr_idx_shape;

/* Reads the headers only. FORMAT: wrong magic, truncated, no images, sides beyond
 * PSR_SAMPLES_MAX_SIDE, or not as many labels as images. */
PSR_MUST_CHECK psr_err psr_idx_read_shape(psr_source *images, psr_source *labels,
                                          psr_idx_shape *ret_shape);

uint64_t psr_idx_bytes(const psr_idx_shape *shape); /* of all pixels */
/* Whether psr_idx_read maps them where they lie. */
bool psr_idx_is_mapped(const psr_source *images, const psr_idx_shape *shape);

/* Counts the classes, which the format does not give: the largest label plus one. labels:
 * positioned behind its header, as psr_idx_read_shape leaves it; it is read to its end. FORMAT:
 * truncated, over-long. */
PSR_MUST_CHECK psr_err psr_idx_count_classes(psr_source *labels, uint32_t count,
                                             uint32_t *ret_classes);

/* Reads both files, and counts the classes in this split's labels. FORMAT as above, and over-long;
 * USAGE: more than memory has, in a packed file (a large plain file is mapped).
 * The caller owns *ret_samples: psr_samples_done. */
PSR_MUST_CHECK psr_err psr_idx_read(psr_source *images, psr_source *labels,
                                    psr_samples *ret_samples);

#endif
