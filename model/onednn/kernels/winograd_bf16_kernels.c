#include "model/onednn/kernels/winograd_bf16_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum {
    WINDOW = WINOGRAD_BF16_WINDOW,
    OUT = WINOGRAD_BF16_OUT,
    IN = WINOGRAD_BF16_IN,
    PRODUCTS = WINOGRAD_BF16_PRODUCTS,
    LANES = PSR_BF16_LANES,
    PANEL = PSR_BF16_PANEL,
};

/* ---- one dimension; step: vectors from one element to the next ---- */

/* to[4] = B^T d. */
INLINE void bt(__m512 *to, const __m512 *d, size_t step)
{
    const __m512 d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    to[0] = d0 - d2;
    to[step] = d1 + d2;
    to[2 * step] = d2 - d1;
    to[3 * step] = d1 - d3;
}

/* to[4] = A d. */
INLINE void a(__m512 *to, const __m512 *d, size_t step)
{
    const __m512 d0 = d[0], d1 = d[step];
    to[0] = d0;
    to[step] = d0 + d1;
    to[2 * step] = d0 - d1;
    to[3 * step] = -d1;
}

/* to[2] = A^T m. */
INLINE void at(__m512 *to, const __m512 *m, size_t step)
{
    to[0] = m[0] + m[step] + m[2 * step];
    to[step] = m[step] - m[2 * step] - m[3 * step];
}

/* to[4] = G g. */
INLINE void g(__m512 *to, const __m512 *w, size_t step)
{
    const __m512 even = 0.5f * (w[0] + w[2 * step]), odd = 0.5f * w[step];
    to[0] = w[0];
    to[step] = even + odd;
    to[2 * step] = even - odd;
    to[3 * step] = w[2 * step];
}

/* to[3] = G^T s. */
INLINE void gt(__m512 *to, const __m512 *s, size_t step)
{
    const __m512 even = 0.5f * (s[step] + s[2 * step]), odd = 0.5f * (s[step] - s[2 * step]);
    to[0] = s[0] + even;
    to[step] = odd;
    to[2 * step] = even + s[3 * step];
}

/* ---- bf16 ---- */

INLINE __m512 load(const uint16_t *from)
{
    const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* To nearest, ties to even. */
INLINE void store(void *to, __m512 value)
{
    _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(value));
}

/* Words of a first and a second value. */
INLINE void store_words(uint32_t *to, __m512 first, __m512 second)
{
    const __m512i apart = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, apart));
}

/* ---- tiles ---- */

/* A tile of one block of channels: elements from x to its image, and its first pixel there. */
typedef struct tile_place {
    size_t image;
    ptrdiff_t y, x;
} tile_place;

static inline tile_place place_of(const winograd_bf16_tiles *tiles, size_t t, size_t block)
{
    const size_t across = (tiles->width + OUT - 1) / OUT, down = (tiles->height + OUT - 1) / OUT;
    const size_t image = (tiles->first + t) / (across * down),
                 place = (tiles->first + t) % (across * down);
    return (tile_place){
        .image = (image * (tiles->channels / LANES) + block) * tiles->height * tiles->width * LANES,
        .y = (ptrdiff_t)(place / across * OUT),
        .x = (ptrdiff_t)(place % across * OUT),
    };
}

/* size * size pixels from (y, x), which may lie before the image; zeros outside. */
INLINE void read_tile(__m512 *tile, const winograd_bf16_tiles *tiles, const uint16_t *image,
                      ptrdiff_t y, ptrdiff_t x, const ptrdiff_t size)
{
    const ptrdiff_t height = (ptrdiff_t)tiles->height, width = (ptrdiff_t)tiles->width;
    if (y >= 0 && x >= 0 && y + size <= height && x + size <= width) {
        const uint16_t *from = image + (y * width + x) * LANES;
        for (ptrdiff_t row = 0; row < size; row++, from += width * LANES)
            for (ptrdiff_t column = 0; column < size; column++)
                tile[row * size + column] = load(from + column * LANES);
        return;
    }
    for (ptrdiff_t row = y; row < y + size; row++)
        for (ptrdiff_t column = x; column < x + size; column++)
            *tile++ = row >= 0 && row < height && column >= 0 && column < width
                          ? load(image + (row * width + column) * LANES)
                          : _mm512_setzero_ps();
}

/* B^T d B of one tile of one block of channels. */
INLINE void cut_tile(__m512 *products, const winograd_bf16_tiles *tiles, const uint16_t *x,
                     size_t t, size_t block)
{
    const tile_place place = place_of(tiles, t, block);
    __m512 d[PRODUCTS], columns[PRODUCTS];
    read_tile(d, tiles, x + place.image, place.y - 1, place.x - 1, IN);
    for (size_t column = 0; column < IN; column++)
        bt(columns + column, d + column, IN);
    for (size_t row = 0; row < IN; row++)
        bt(products + row * IN, columns + row * IN, 1);
}

/* A d A^T. */
INLINE void spread_tile(__m512 *products, const winograd_bf16_tiles *tiles, const uint16_t *dy,
                        size_t t, size_t block)
{
    const tile_place place = place_of(tiles, t, block);
    __m512 d[OUT * OUT], columns[IN * OUT];
    read_tile(d, tiles, dy + place.image, place.y, place.x, OUT);
    for (size_t column = 0; column < OUT; column++)
        a(columns + column, d + column, OUT);
    for (size_t row = 0; row < IN; row++)
        a(products + row * IN, columns + row * OUT, 1);
}

/* Both blocks of a panel are done tile by tile, so that the lines of a row are written whole while
 * the images are still read from front to back. */
TARGET void psr_winograd_bf16_cut(const winograd_bf16_tiles *tiles, const uint16_t *x,
                                  const winograd_bf16_matrices *v)
{
    for (size_t from = 0; from < tiles->channels / LANES; from += 2)
        for (size_t t = 0; t < tiles->count; t++)
            for (size_t block = from; block < from + 2; block++) {
                __m512 products[PRODUCTS];
                cut_tile(products, tiles, x, t, block);
                for (size_t e = 0; e < PRODUCTS; e++)
                    store(v->at + e * v->pitch + t * v->row + block * LANES / 2, products[e]);
            }
}

INLINE void store_pair(const winograd_bf16_matrices *to, size_t t, size_t block,
                       const __m512 *first, const __m512 *second)
{
    uint32_t *at = to->at + t / 2 * to->row + block * LANES;
    for (size_t e = 0; e < PRODUCTS; e++)
        store_words(at + e * to->pitch, first[e], second[e]);
}

TARGET void psr_winograd_bf16_cut_pairs(const winograd_bf16_tiles *tiles, const uint16_t *x,
                                        const winograd_bf16_matrices *v)
{
    for (size_t block = 0; block < tiles->channels / LANES; block++)
        for (size_t t = 0; t < tiles->count; t += 2) {
            __m512 first[PRODUCTS], second[PRODUCTS] = {{0}};
            cut_tile(first, tiles, x, t, block);
            if (t + 1 < tiles->count)
                cut_tile(second, tiles, x, t + 1, block);
            store_pair(v, t, block, first, second);
        }
}

TARGET void psr_winograd_bf16_spread_pairs(const winograd_bf16_tiles *tiles, const uint16_t *dy,
                                           const winograd_bf16_matrices *w)
{
    for (size_t block = 0; block < tiles->channels / LANES; block++)
        for (size_t t = 0; t < tiles->count; t += 2) {
            __m512 first[PRODUCTS], second[PRODUCTS] = {{0}};
            spread_tile(first, tiles, dy, t, block);
            if (t + 1 < tiles->count)
                spread_tile(second, tiles, dy, t + 1, block);
            store_pair(w, t, block, first, second);
        }
}

/* A^T M A of one tile of one block of channels, as far as it lies in the image. */
INLINE void join_tile(const winograd_bf16_tiles *tiles, size_t t, size_t block, const float *m,
                      size_t pitch, uint16_t *y)
{
    const tile_place place = place_of(tiles, t, block);
    const ptrdiff_t height = (ptrdiff_t)tiles->height, width = (ptrdiff_t)tiles->width;
    __m512 products[PRODUCTS], rows[OUT * IN], d[OUT * OUT];
    for (size_t e = 0; e < PRODUCTS; e++)
        products[e] = _mm512_loadu_ps(m + e * pitch);
    for (size_t column = 0; column < IN; column++)
        at(rows + column, products + column, IN);
    for (size_t row = 0; row < OUT; row++)
        at(d + row * OUT, rows + row * IN, 1);
    uint16_t *to = y + place.image + (place.y * width + place.x) * LANES;
    for (ptrdiff_t row = 0; row < OUT && place.y + row < height; row++)
        for (ptrdiff_t column = 0; column < OUT && place.x + column < width; column++)
            store(to + (row * width + column) * LANES, d[row * OUT + column]);
}

TARGET void psr_winograd_bf16_join(const winograd_bf16_tiles *tiles, size_t channel, const float *m,
                                   size_t pitch, uint16_t *y)
{
    for (size_t t = 0; t < tiles->count; t++)
        for (size_t block = 0; block < PANEL / LANES; block++)
            join_tile(tiles, t, channel / LANES + block, m + t * PANEL + block * LANES, pitch, y);
}

/* ---- windows ---- */

INLINE void fold_windows(__m512 *products, const float *windows, size_t step, bool turned)
{
    float lanes[WINDOW * WINDOW][LANES];
    __m512 w[WINDOW * WINDOW], columns[IN * WINDOW];
    for (size_t lane = 0; lane < LANES; lane++)
        for (size_t k = 0; k < WINDOW * WINDOW; k++)
            lanes[k][lane] = windows[lane * step + k];
    for (size_t k = 0; k < WINDOW * WINDOW; k++)
        w[turned ? WINDOW * WINDOW - 1 - k : k] = _mm512_loadu_ps(lanes[k]);
    for (size_t column = 0; column < WINDOW; column++)
        g(columns + column, w + column, WINDOW);
    for (size_t row = 0; row < IN; row++)
        g(products + row * IN, columns + row * WINDOW, 1);
}

TARGET void psr_winograd_bf16_fold(const float *windows, size_t step, size_t next, bool turned,
                                   uint32_t *u, size_t pitch)
{
    __m512 first[PRODUCTS], second[PRODUCTS];
    fold_windows(first, windows, step, turned);
    fold_windows(second, windows + next, step, turned);
    for (size_t e = 0; e < PRODUCTS; e++)
        store_words(u + e * pitch, first[e], second[e]);
}

TARGET void psr_winograd_bf16_unfold(const float *s, size_t pitch, size_t in, size_t o, float *dw)
{
    for (size_t i = 0; i < in; i += LANES) {
        float lanes[WINDOW * WINDOW][LANES];
        __m512 products[PRODUCTS], rows[WINDOW * IN], w[WINDOW * WINDOW];
        for (size_t e = 0; e < PRODUCTS; e++)
            products[e] = _mm512_loadu_ps(s + e * pitch + o * in + i);
        for (size_t column = 0; column < IN; column++)
            gt(rows + column, products + column, IN);
        for (size_t row = 0; row < WINDOW; row++)
            gt(w + row * WINDOW, rows + row * IN, 1);
        for (size_t k = 0; k < WINDOW * WINDOW; k++)
            _mm512_storeu_ps(lanes[k], w[k]);
        float *to = dw + (o * in + i) * WINDOW * WINDOW;
        for (size_t lane = 0; lane < LANES; lane++)
            for (size_t k = 0; k < WINDOW * WINDOW; k++)
                *to++ = lanes[k][lane];
    }
}

#else

/* Nobody calls these: see psr_bf16_dots_supported. */
void psr_winograd_bf16_cut(const winograd_bf16_tiles *tiles, const uint16_t *x,
                           const winograd_bf16_matrices *v)
{
    (void)tiles, (void)x, (void)v;
}

void psr_winograd_bf16_cut_pairs(const winograd_bf16_tiles *tiles, const uint16_t *x,
                                 const winograd_bf16_matrices *v)
{
    (void)tiles, (void)x, (void)v;
}

void psr_winograd_bf16_spread_pairs(const winograd_bf16_tiles *tiles, const uint16_t *dy,
                                    const winograd_bf16_matrices *w)
{
    (void)tiles, (void)dy, (void)w;
}

void psr_winograd_bf16_join(const winograd_bf16_tiles *tiles, size_t channel, const float *m,
                            size_t pitch, uint16_t *y)
{
    (void)tiles, (void)channel, (void)m, (void)pitch, (void)y;
}

void psr_winograd_bf16_fold(const float *windows, size_t step, size_t next, bool turned,
                            uint32_t *u, size_t pitch)
{
    (void)windows, (void)step, (void)next, (void)turned, (void)u, (void)pitch;
}

void psr_winograd_bf16_unfold(const float *s, size_t pitch, size_t in, size_t o, float *dw)
{
    (void)s, (void)pitch, (void)in, (void)o, (void)dw;
}

#endif
