/* The samples that the reader of a file format returns to dataset.c, which makes a psr_dataset of
 * them. */
#ifndef PSR_DATA_SAMPLES_H
#define PSR_DATA_SAMPLES_H

#include "data/files/mapped.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Pixels of a plain file that are more than this are mapped where they lie. Fewer are copied into
 * memory: nobody can change them there while a run uses them. */
#define PSR_SAMPLES_MAPPED_BYTES ((uint64_t)1 << 30)
/* These formats are not used for larger pictures. */
#define PSR_SAMPLES_MAX_SIDE 1024u

typedef struct psr_samples {
    uint8_t *pixels;    /* [count, channels, height, width], owned, or mapped's */
    uint32_t *labels;   /* [count], below classes, owned */
    psr_mapped *mapped; /* owned; has the pixels, which must not be written; NULL: not mapped */
    uint32_t count, channels, height, width, classes;
} psr_samples;

static inline size_t psr_samples_image_bytes(const psr_samples *samples)
{
    return (size_t)samples->channels * samples->height * samples->width;
}

/* Whether so many bytes fit into this host's memory, where what is unpacked may take half as much
 * again while it grows. what: "pixels". USAGE, which opens with the name, says what is free, and
 * ends in what would be right. */
PSR_MUST_CHECK psr_err psr_samples_fit(const char *name, const char *what, uint64_t bytes,
                                       const char *right);

static inline void psr_samples_done(psr_samples *samples)
{
    if (samples->mapped == NULL)
        free(samples->pixels);
    psr_mapped_free(samples->mapped);
    free(samples->labels);
    *samples = (psr_samples){0};
}

#endif
