#include "model/onednn_tiles.h"

#include "base/clock.h"

#define TILE ((size_t)16)
#define AHEAD_TILES 4 /* of a 1x1 window: a line of a row each */
#define INLINE static inline __attribute__((always_inline))

static _Thread_local double seconds;

/* One tile: 16 rows of the plain layout, TILE * window floats each, pitch floats apart. Processors do not
 * foresee such a pattern: what the next tiles take from a row is fetched with it. */
INLINE void move_tile(float *tile, float *plain, size_t pitch, size_t window, bool outputs_innermost,
                      bool to_tile)
{
    size_t output_stride = outputs_innermost ? 1 : TILE, input_stride = outputs_innermost ? TILE : 1;
    size_t ahead = window < AHEAD_TILES ? AHEAD_TILES * TILE : window * TILE;
    for (size_t output = 0; output < TILE; output++, plain += pitch) {
        for (size_t line = 0; line < window; line++)
            __builtin_prefetch(plain + ahead + line * TILE);
        for (size_t input = 0; input < TILE; input++)
            for (size_t k = 0; k < window; k++) {
                float *at = tile + k * TILE * TILE + output * output_stride + input * input_stride;
                if (to_tile)
                    *at = plain[input * window + k];
                else
                    plain[input * window + k] = *at;
            }
    }
}

/* With the usual windows known to the compiler. */
INLINE void move_tile_of(const psr_onednn_tiles *t, float *tile, float *plain, bool outputs_innermost,
                         bool to_tile)
{
    size_t pitch = t->inputs * t->window;
    if (t->window == 1)
        move_tile(tile, plain, pitch, 1, outputs_innermost, to_tile);
    else if (t->window == 9)
        move_tile(tile, plain, pitch, 9, outputs_innermost, to_tile);
    else
        move_tile(tile, plain, pitch, t->window, outputs_innermost, to_tile);
}

INLINE void move_all(const psr_onednn_tiles *t, float *tiles, float *plain, bool to_tile, uint32_t threads)
{
    double began_s = psr_clock_s();
    size_t rows = t->outputs / TILE, columns = t->inputs / TILE;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < rows * columns; i++) {
        size_t row = i / columns, column = i % columns;
        size_t place = t->order == PSR_ONEDNN_TILES_BAAB ? column * rows + row : i;
        float *tile = tiles + place * t->window * TILE * TILE;
        float *from = plain + (row * TILE * t->inputs + column * TILE) * t->window;
        if (t->order == PSR_ONEDNN_TILES_ABBA)
            move_tile_of(t, tile, from, true, to_tile);
        else
            move_tile_of(t, tile, from, false, to_tile);
    }
    seconds += psr_clock_s() - began_s;
}

void psr_onednn_tile(const psr_onednn_tiles *t, const float *plain, float *tiles, uint32_t threads)
{
    move_all(t, tiles, (float *)(uintptr_t)plain, true, threads); /* only read */
}

void psr_onednn_untile(const psr_onednn_tiles *t, const float *tiles, float *plain, uint32_t threads)
{
    move_all(t, (float *)(uintptr_t)tiles, plain, false, threads); /* only read */
}

double psr_onednn_tiles_seconds(void)
{
    return seconds;
}
