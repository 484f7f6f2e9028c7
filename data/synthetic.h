/* Generated data. They are as good as real data for timing. They can be learned, so a falling loss
 * means something.
 *
 * Each class c has a pattern P_c of 4x4 blocks per channel, drawn once; a pixel of a sample of
 * class c is
 *   x = (P_c + noise) / 2,  P_c and noise uniform in 0..255,
 * all from counter-based numbers (PSR_RNG_SYNTHETIC; seed 0, so that the data are the same in every
 * run and on every host; the epoch stands for the split). A picture is drawn whenever it is wanted,
 * so only labels lie in memory. Any thread. */
#ifndef PSR_DATA_SYNTHETIC_H
#define PSR_DATA_SYNTHETIC_H

#include "base/err.h"
#include "data/files/reading.h"
#include "data/source.h"

/* Mean and deviation are those of the first pictures, of so many bytes at most. To draw more would
 * take minutes. */
#define PSR_SYNTHETIC_CONSTANTS_BYTES ((uint64_t)16 << 30)

#define PSR_SYNTHETIC_MAX_CLASSES 65536u

typedef struct psr_synthetic {
    uint32_t train_count; /* count=, default 60000 */
    uint32_t test_count;  /* test=, default 10000 */
    uint32_t channels;    /* channels=, 1 or 3, default 3 */
    uint32_t size;        /* size=, pixels of a side, default 32 */
    uint32_t classes;     /* classes=, 2 to PSR_SYNTHETIC_MAX_CLASSES, default 10 */
} psr_synthetic;

/* spec: what follows "synthetic:", comma-separated key=value pairs; "" gives the defaults. USAGE:
 * unknown key, a value that is not a number or out of bounds. */
PSR_MUST_CHECK psr_err psr_synthetic_parse(const char *spec, psr_synthetic *ret_synthetic);

/* Draws the labels of a split: 0 train, 1 test. reading: NULL, or moves with every label. The
 * caller owns *ret_labels, [count]: free(). USAGE: more than memory has; NOMEM, CANCELLED. */
PSR_MUST_CHECK psr_err psr_synthetic_labels(const psr_synthetic *synthetic, uint32_t split,
                                            psr_reading *reading, uint32_t **ret_labels);

/* A source of a split's pictures. labels: those of psr_synthetic_labels, borrowed for its life. The
 * caller owns *ret_source. NOMEM. */
PSR_MUST_CHECK psr_err psr_synthetic_source_new(const psr_synthetic *synthetic, uint32_t split,
                                                const uint32_t *labels,
                                                psr_picture_source **ret_source);
/* What a source draws; NULL: it is of another kind. Borrowed. */
const psr_synthetic *psr_synthetic_of(const psr_picture_source *source);

#endif
