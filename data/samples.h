/* The samples that the reader of a file format returns to dataset.c, which makes a psr_dataset of
 * them. */
#ifndef PSR_DATA_SAMPLES_H
#define PSR_DATA_SAMPLES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The largest data set in memory, since every worker holds it. */
#define PSR_SAMPLES_MAX_BYTES ((uint64_t)8 << 30)
/* These formats are not used for larger pictures. */
#define PSR_SAMPLES_MAX_SIDE 1024u

typedef struct psr_samples {
    uint8_t *pixels;  /* [count, channels, height, width], owned */
    uint32_t *labels; /* [count], below classes, owned */
    uint32_t count, channels, height, width, classes;
} psr_samples;

static inline size_t psr_samples_image_bytes(const psr_samples *samples)
{
    return (size_t)samples->channels * samples->height * samples->width;
}

static inline void psr_samples_done(psr_samples *samples)
{
    free(samples->pixels);
    free(samples->labels);
    *samples = (psr_samples){0};
}

#endif
