/* The loops of model/onednn/kernels/winograd_bf16.h over a run of tiles or windows, with AVX-512's
 * conversions to bf16. A word (bf16_product.h) is two channels of one tile, or one channel of two
 * tiles. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_BF16_KERNELS_H
#define PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_BF16_KERNELS_H

#include "model/onednn/kernels/bf16_product.h"

enum {
    WINOGRAD_BF16_WINDOW = 3,
    WINOGRAD_BF16_OUT = 2,
    WINOGRAD_BF16_IN = 4,
    WINOGRAD_BF16_PRODUCTS = WINOGRAD_BF16_IN * WINOGRAD_BF16_IN,
};

/* bf16 values of images, x[N][C/16][H][W][16], and their tiles: the first of the run, and how
 * many. */
typedef struct winograd_bf16_tiles {
    size_t channels, height, width;
    size_t first, count;
} winograd_bf16_tiles;

/* Words [e][row][column]: steps from one e to the next, and from one row to the next. */
typedef struct winograd_bf16_matrices {
    uint32_t *at;
    size_t pitch, row;
} winograd_bf16_matrices;

/* V[e][t][i / 2], a word two channels. */
void psr_winograd_bf16_cut(const winograd_bf16_tiles *tiles, const uint16_t *x,
                           const winograd_bf16_matrices *v);
/* V[e][t / 2][i] and W[e][t / 2][o], a word two tiles; zero behind the last. */
void psr_winograd_bf16_cut_pairs(const winograd_bf16_tiles *tiles, const uint16_t *x,
                                 const winograd_bf16_matrices *v);
void psr_winograd_bf16_spread_pairs(const winograd_bf16_tiles *tiles, const uint16_t *dy,
                                    const winograd_bf16_matrices *w);
/* y of one panel of channels, from m[e][t][32], pitch floats from one e to the next. */
void psr_winograd_bf16_join(const winograd_bf16_tiles *tiles, size_t channel, const float *m,
                            size_t pitch, uint16_t *y);
/* U[e] of 16 windows of nine, step floats apart, and as many that lie `next` floats behind them: a
 * word two of these. Turned by half a circle or as they are. u[e] pitch words apart. */
void psr_winograd_bf16_fold(const float *windows, size_t step, size_t next, bool turned,
                            uint32_t *u, size_t pitch);
/* dw[o][i][9] of one o from s[e][o][i], pitch floats from one e to the next. */
void psr_winograd_bf16_unfold(const float *s, size_t pitch, size_t in, size_t o, float *dw);

#endif
