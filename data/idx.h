/* IDX, the format of MNIST and its family: u32 magic (two zero bytes, 0x08 for unsigned bytes, the number of
 * dimensions), one u32 per dimension, all big-endian, then the bytes (Y. LeCun, "The MNIST database").
 * Images are x[N,H,W], labels y[N]. No state. Any thread. */
#ifndef PSR_DATA_IDX_H
#define PSR_DATA_IDX_H

#include "data/samples.h"
#include "data/source.h"

/* Labels of every set that comes under these file names (MNIST, Fashion-MNIST, KMNIST) are 0..9. */
#define PSR_IDX_CLASSES 10u

typedef struct psr_idx_shape {
    uint32_t count, height, width;
} psr_idx_shape;

/* The headers alone. FORMAT: wrong magic, truncated, no images, sides beyond PSR_SAMPLES_MAX_SIDE, more
 * than PSR_SAMPLES_MAX_BYTES, labels that are not as many as the images. */
PSR_MUST_CHECK psr_err psr_idx_read_shape(psr_source *images, psr_source *labels, psr_idx_shape *ret_shape);

/* Both files whole. FORMAT as above and: over-long, label out of range. ret owns: psr_samples_done. */
PSR_MUST_CHECK psr_err psr_idx_read(psr_source *images, psr_source *labels, psr_samples *ret_samples);

#endif
