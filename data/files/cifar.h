/* The binary versions of CIFAR-10 and CIFAR-100 (A. Krizhevsky, "Learning multiple layers of
 * features from tiny images", 2009). No header; records of
 *   CIFAR-10:  1 label byte, then x[3,32,32];
 *   CIFAR-100: 1 byte of the coarse class (0..19), 1 label byte (the fine class), then x[3,32,32].
 * No state. Any thread. */
#ifndef PSR_DATA_CIFAR_H
#define PSR_DATA_CIFAR_H

#include "data/files/source.h"

enum { PSR_CIFAR_CHANNELS = 3, PSR_CIFAR_SIDE = 32, PSR_CIFAR_IMAGE_BYTES = 3 * 32 * 32 };

typedef struct psr_cifar_kind {
    uint32_t prefix_bytes; /* before the label */
    uint32_t prefix_classes;
    uint32_t classes;
} psr_cifar_kind;

extern const psr_cifar_kind psr_cifar_10;
extern const psr_cifar_kind psr_cifar_100;

/* Reads a whole file of count records into pixels[count, 3, 32, 32] and labels[count], which are
 * the caller's. FORMAT: truncated, over-long, label out of range. */
PSR_MUST_CHECK psr_err psr_cifar_read(psr_source *source, const psr_cifar_kind *kind,
                                      uint32_t count, uint8_t *pixels, uint32_t *labels);

#endif
