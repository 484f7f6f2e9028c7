/* Weights w[O][I][K], K = kernel height * width, between the arena's layout and oneDNN's tiles of T
 * outputs by T inputs, T = 16 for AVX-512 and 8 for AVX2: x[O/T][I/T][K][T][T], or with O/T and I/T
 * exchanged, and either of the two innermost.
 *
 * Steps: each thread takes a run of tiles; a tile's T rows are read one after the other, and their
 * floats go to their places in the tile, which stays in the first-level cache (4 * T * T * K
 * bytes). Bytes: every float is read and written once, 8 * O * I * K in all; the tiles are small
 * enough to stay in the cache for the primitive that reads them. oneDNN 2.6.3's own reorder for
 * these layouts takes half as long again. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_TILES_H
#define PSR_MODEL_ONEDNN_KERNELS_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum psr_onednn_tile_order {
    PSR_ONEDNN_TILES_ABBA, /* [O/T][I/T][K][T inputs][T outputs]: ABcd16b16a, ABcd8b8a */
    PSR_ONEDNN_TILES_ABAB, /* [O/T][I/T][K][T outputs][T inputs]: ABcd16a16b, ABcd8a8b */
    PSR_ONEDNN_TILES_BAAB, /* [I/T][O/T][K][T outputs][T inputs]: BAcd16a16b */
    PSR_ONEDNN_TILE_ORDERS,
} psr_onednn_tile_order;

typedef struct psr_onednn_tiles {
    psr_onednn_tile_order order;
    size_t tile;            /* T: 8 or 16 */
    size_t outputs, inputs; /* whole tiles: multiples of T */
    size_t window;          /* K */
} psr_onednn_tiles;

/* The layouts of bf16 weights: tiles of 16 outputs by 16 inputs, of which two outputs, or two
 * inputs, lie side by side: x[O/16][I/16][K][8][16][2], or with O/16 and I/16 exchanged. */
typedef enum psr_onednn_pair_order {
    PSR_ONEDNN_PAIRS_AB_INPUTS,  /* [O/16][I/16][K][8 inputs][16 outputs][2 inputs]: ABcd8b16a2b */
    PSR_ONEDNN_PAIRS_AB_OUTPUTS, /* [O/16][I/16][K][8 outputs][16 inputs][2 outputs]: ABcd8a16b2a */
    PSR_ONEDNN_PAIRS_BA_OUTPUTS, /* [I/16][O/16][K][8 outputs][16 inputs][2 outputs]: BAcd8a16b2a */
    PSR_ONEDNN_PAIR_ORDERS,
} psr_onednn_pair_order;

typedef struct psr_onednn_pairs {
    psr_onednn_pair_order order;
    size_t outputs, inputs; /* multiples of 16 */
    size_t window;          /* K */
} psr_onednn_pairs;

/* Rounded to the nearest bf16, ties to even; the first of a pair is a word's lower half. */
void psr_onednn_tile_pairs(const psr_onednn_pairs *t, const float *plain, uint32_t *tiles,
                           uint32_t threads);

void psr_onednn_tile(const psr_onednn_tiles *t, const float *plain, float *tiles, uint32_t threads);
void psr_onednn_untile(const psr_onednn_tiles *t, const float *tiles, float *plain,
                       uint32_t threads);

/* Seconds that the three have taken on the calling thread since it began, for a profile. */
double psr_onednn_tiles_seconds(void);

#endif
