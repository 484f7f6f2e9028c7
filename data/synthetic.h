/* Generated data. They are as good as real data for timing. They can be learned, so a falling loss
 * means something.
 *
 * Each class c has a pattern P_c of 4x4 blocks per channel, drawn once; a pixel of a sample of
 * class c is
 *   x = (P_c + noise) / 2,  P_c and noise uniform in 0..255,
 * all from counter-based numbers (PSR_RNG_SYNTHETIC; seed 0, so that the data are the same in every
 * run and on every host; the epoch stands for the split). No state. Any thread. */
#ifndef PSR_DATA_SYNTHETIC_H
#define PSR_DATA_SYNTHETIC_H

#include "base/err.h"
#include "data/files/reading.h"
#include "data/samples.h"

typedef struct psr_synthetic {
    uint32_t train_count; /* count=, default 60000 */
    uint32_t test_count;  /* test=, default 10000 */
    uint32_t channels;    /* channels=, 1 or 3, default 3 */
    uint32_t size;        /* size=, pixels of a side, default 32 */
    uint32_t classes;     /* classes=, default 10 */
} psr_synthetic;

/* spec: what follows "synthetic:", comma-separated key=value pairs; "" gives the defaults. USAGE:
 * unknown key, a value that is not a number or out of bounds. */
PSR_MUST_CHECK psr_err psr_synthetic_parse(const char *spec, psr_synthetic *ret_synthetic);

/* split: 0 train, 1 test. reading: NULL, or moves with every sample. The caller owns *ret_samples:
 * psr_samples_done. USAGE: more than memory has; NOMEM, CANCELLED. */
PSR_MUST_CHECK psr_err psr_synthetic_generate(const psr_synthetic *synthetic, uint32_t split,
                                              psr_reading *reading, psr_samples *ret_samples);

#endif
