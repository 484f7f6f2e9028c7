#include "model/onednn/kernels/tiles.h"

#include "base/arrays/multiversion.h"
#include "base/clock.h"
#include "model/onednn/kernels/bf16.h"

#include <assert.h>

#define LINE ((size_t)16)        /* floats of a cache line */
#define AHEAD ((size_t)4 * LINE) /* at least: rows of a 1x1 window's tiles are short */
#define INLINE static inline __attribute__((always_inline))

static _Thread_local double seconds;

/* One tile: `tile` rows of the plain layout, tile * window floats each, pitch floats apart.
 * Processors do not foresee such a pattern: what the next tiles take from a row is fetched with
 * it. */
INLINE void move_tile(float *tiles, float *plain, size_t tile, size_t pitch, size_t window,
                      bool outputs_innermost, bool to_tile)
{
    size_t output_stride = outputs_innermost ? 1 : tile,
           input_stride = outputs_innermost ? tile : 1;
    size_t row = tile * window, ahead = row < AHEAD ? AHEAD : row;
    for (size_t output = 0; output < tile; output++, plain += pitch) {
        for (size_t line = 0; line < row; line += LINE)
            __builtin_prefetch(plain + ahead + line);
        for (size_t input = 0; input < tile; input++)
            for (size_t k = 0; k < window; k++) {
                float *at = tiles + k * tile * tile + output * output_stride + input * input_stride;
                if (to_tile)
                    *at = plain[input * window + k];
                else
                    plain[input * window + k] = *at;
            }
    }
}

/* With the usual windows known to the compiler. */
INLINE void move_tile_of(const psr_onednn_tiles *t, float *tiles, float *plain, size_t tile,
                         bool outputs_innermost, bool to_tile)
{
    size_t pitch = t->inputs * t->window;
    if (t->window == 1)
        move_tile(tiles, plain, tile, pitch, 1, outputs_innermost, to_tile);
    else if (t->window == 9)
        move_tile(tiles, plain, tile, pitch, 9, outputs_innermost, to_tile);
    else
        move_tile(tiles, plain, tile, pitch, t->window, outputs_innermost, to_tile);
}

INLINE void move_tiles_of(const psr_onednn_tiles *t, float *tiles, float *plain, size_t tile,
                          bool to_tile, uint32_t threads)
{
    size_t rows = t->outputs / tile, columns = t->inputs / tile;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < rows * columns; i++) {
        size_t row = i / columns, column = i % columns;
        size_t place = t->order == PSR_ONEDNN_TILES_BAAB ? column * rows + row : i;
        float *to = tiles + place * t->window * tile * tile;
        float *from = plain + (row * tile * t->inputs + column * tile) * t->window;
        if (t->order == PSR_ONEDNN_TILES_ABBA)
            move_tile_of(t, to, from, tile, true, to_tile);
        else
            move_tile_of(t, to, from, tile, false, to_tile);
    }
}

INLINE void move_all(const psr_onednn_tiles *t, float *tiles, float *plain, bool to_tile,
                     uint32_t threads)
{
    double began_s = psr_clock_s();
    assert(t->tile == 8 || t->tile == 16);
    if (t->tile == 8)
        move_tiles_of(t, tiles, plain, 8, to_tile, threads);
    else
        move_tiles_of(t, tiles, plain, 16, to_tile, threads);
    seconds += psr_clock_s() - began_s;
}

void psr_onednn_tile(const psr_onednn_tiles *t, const float *plain, float *tiles, uint32_t threads)
{
    move_all(t, tiles, (float *)(uintptr_t)plain, true, threads); /* only read */
}

void psr_onednn_untile(const psr_onednn_tiles *t, const float *tiles, float *plain,
                       uint32_t threads)
{
    move_all(t, (float *)(uintptr_t)tiles, plain, false, threads); /* only read */
}

/* ---- bf16 ---- */

enum { SIDE = 16 };

/* One tile: 16 rows of the plain layout, as in move_tile. */
INLINE void pack_tile_of(uint32_t *to, const float *plain, size_t pitch, size_t window,
                         bool of_outputs)
{
    const size_t row = SIDE * window, ahead = row < AHEAD ? AHEAD : row;
    for (size_t output = 0; output < SIDE; output++)
        for (size_t line = 0; line < row; line += LINE)
            __builtin_prefetch(plain + output * pitch + ahead + line);
    for (size_t k = 0; k < window; k++, to += SIDE * SIDE / 2) {
        uint16_t halves[SIDE][SIDE]; /* [output][input] */
        for (size_t output = 0; output < SIDE; output++)
            for (size_t input = 0; input < SIDE; input++)
                halves[output][input] =
                    psr_bf16_from_float(plain[output * pitch + input * window + k]);
        for (size_t pair = 0; pair < SIDE / 2; pair++)
            for (size_t i = 0; i < SIDE; i++)
                to[pair * SIDE + i] =
                    of_outputs ? halves[2 * pair][i] | (uint32_t)halves[2 * pair + 1][i] << 16
                               : halves[i][2 * pair] | (uint32_t)halves[i][2 * pair + 1] << 16;
    }
}

/* With the usual windows known to the compiler. */
PSR_MULTIVERSION static void pack_tile(uint32_t *to, const float *plain, size_t pitch,
                                       size_t window, bool of_outputs)
{
    if (window == 1 && of_outputs)
        pack_tile_of(to, plain, pitch, 1, true);
    else if (window == 1)
        pack_tile_of(to, plain, pitch, 1, false);
    else if (window == 9 && of_outputs)
        pack_tile_of(to, plain, pitch, 9, true);
    else if (window == 9)
        pack_tile_of(to, plain, pitch, 9, false);
    else
        pack_tile_of(to, plain, pitch, window, of_outputs);
}

void psr_onednn_tile_pairs(const psr_onednn_pairs *t, const float *plain, uint32_t *tiles,
                           uint32_t threads)
{
    const double began_s = psr_clock_s();
    const size_t rows = t->outputs / SIDE, columns = t->inputs / SIDE;
    const size_t words = t->window * SIDE * SIDE / 2;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < rows * columns; i++) {
        const size_t row = i / columns, column = i % columns;
        const size_t place = t->order == PSR_ONEDNN_PAIRS_BA_OUTPUTS ? column * rows + row : i;
        pack_tile(tiles + place * words,
                  plain + (row * SIDE * t->inputs + column * SIDE) * t->window,
                  t->inputs * t->window, t->window, t->order != PSR_ONEDNN_PAIRS_AB_INPUTS);
    }
    seconds += psr_clock_s() - began_s;
}

double psr_onednn_tiles_seconds(void)
{
    return seconds;
}
