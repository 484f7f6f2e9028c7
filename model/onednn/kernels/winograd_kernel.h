/* Winograd's transformations and products (winograd.h) for one width of vector. Included once for
 * each, with
 *   INSTANCE    the table's declaration
 *   LANES       channels in a vector: 8 or 16
 *   TARGET      the instructions, as an attribute; may be empty
 *   FUSED       the sum c + a * b of a float a and vectors b and c, rounded once where the
 *               instructions have that
 *   KERNEL(x)   the name x of this instance
 *
 * Vectors are GNU C's. The inlined helpers take them by pointer: by value their calling convention
 * would depend on the caller's instruction set. */

#include "model/onednn/kernels/vector_kernel.h"

/* ---- one dimension; step: vectors from one element to the next ---- */

/* A polynomial at +-P and +-Q is its even part plus and minus its odd one. to: the element of
 * +P. */
INLINE void KERNEL(pairs)(VECTOR *to, size_t step, const VECTOR *even_p, const VECTOR *odd_p,
                          const VECTOR *even_q, const VECTOR *odd_q)
{
    to[0] = *even_p + *odd_p;
    to[step] = *even_p - *odd_p;
    to[2 * step] = *even_q + *odd_q;
    to[3 * step] = *even_q - *odd_q;
}

/* to[6] = B^T d: coefficients of the products of (x - a) over all points a but one. */
INLINE void KERNEL(bt)(VECTOR *to, const VECTOR *d, size_t step)
{
    VECTOR d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step],
           d5 = d[5 * step];
    VECTOR even_p = d4 - QQ * d2, odd_p = P * (d3 - QQ * d1);
    VECTOR even_q = d4 - PP * d2, odd_q = Q * (d3 - PP * d1);
    to[0] = PP * QQ * d0 - (PP + QQ) * d2 + d4;
    KERNEL(pairs)(to + step, step, &even_p, &odd_p, &even_q, &odd_q);
    to[5 * step] = PP * QQ * d1 - (PP + QQ) * d3 + d5;
}

/* to[6] = A d: the polynomial of four coefficients at the points. */
INLINE void KERNEL(a)(VECTOR *to, const VECTOR *d, size_t step)
{
    VECTOR d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    VECTOR even_p = d0 + PP * d2, odd_p = P * (d1 + PP * d3);
    VECTOR even_q = d0 + QQ * d2, odd_q = Q * (d1 + QQ * d3);
    to[0] = d0;
    KERNEL(pairs)(to + step, step, &even_p, &odd_p, &even_q, &odd_q);
    to[5 * step] = d3;
}

/* to[4] = A^T m. */
INLINE void KERNEL(at)(VECTOR *to, const VECTOR *m, size_t step)
{
    VECTOR even_p = m[step] + m[2 * step], odd_p = P * (m[step] - m[2 * step]);
    VECTOR even_q = m[3 * step] + m[4 * step], odd_q = Q * (m[3 * step] - m[4 * step]);
    to[0] = m[0] + even_p + even_q;
    to[step] = odd_p + odd_q;
    to[2 * step] = PP * even_p + QQ * even_q;
    to[3 * step] = PP * odd_p + QQ * odd_q + m[5 * step];
}

/* to[6] = G g: the window's polynomial of three coefficients at the points, over their scales. */
INLINE void KERNEL(g)(VECTOR *to, const VECTOR *g, size_t step)
{
    VECTOR g0 = g[0], g1 = g[step], g2 = g[2 * step];
    VECTOR even_p = SCALE_P * (g0 + PP * g2), odd_p = SCALE_P * P * g1;
    VECTOR even_q = SCALE_Q * (g0 + QQ * g2), odd_q = SCALE_Q * Q * g1;
    to[0] = SCALE_0 * g0;
    KERNEL(pairs)(to + step, step, &even_p, &odd_p, &even_q, &odd_q);
    to[5 * step] = g2;
}

/* to[3] = G^T s. */
INLINE void KERNEL(gt)(VECTOR *to, const VECTOR *s, size_t step)
{
    VECTOR even_p = SCALE_P * (s[step] + s[2 * step]),
           odd_p = SCALE_P * P * (s[step] - s[2 * step]);
    VECTOR even_q = SCALE_Q * (s[3 * step] + s[4 * step]),
           odd_q = SCALE_Q * Q * (s[3 * step] - s[4 * step]);
    to[0] = SCALE_0 * s[0] + even_p + even_q;
    to[step] = odd_p + odd_q;
    to[2 * step] = PP * even_p + QQ * even_q + s[5 * step];
}

/* ---- tiles ---- */

/* size * size pixels from (y, x), which may lie before the image; zeros outside. image:
 * [H][W][L]. */
INLINE void KERNEL(read_tile)(VECTOR *tile, const winograd_tiles *tiles, const float *image,
                              ptrdiff_t y, ptrdiff_t x, ptrdiff_t size)
{
    const ptrdiff_t height = (ptrdiff_t)tiles->height, width = (ptrdiff_t)tiles->width;
    const float *from = image + (y * width + x) * LANES;
    if (y >= 0 && x >= 0 && y + size <= height && x + size <= width) {
        for (ptrdiff_t row = 0; row < size; row++, from += width * LANES)
            for (ptrdiff_t column = 0; column < size; column++)
                KERNEL(load)(&tile[row * size + column], from + column * LANES);
        return;
    }
    for (ptrdiff_t row = 0; row < size; row++, from += width * LANES)
        for (ptrdiff_t column = 0; column < size; column++) {
            if (y + row >= 0 && y + row < height && x + column >= 0 && x + column < width)
                KERNEL(load)(&tile[row * size + column], from + column * LANES);
            else
                tile[row * size + column] = (VECTOR){0};
        }
}

INLINE void KERNEL(store_products)(const VECTOR *products, const winograd_matrices *to, size_t at)
{
    for (size_t e = 0; e < WINOGRAD_PRODUCTS; e++)
        KERNEL(store)(to->at + e * to->pitch + at, &products[e]);
}

/* V = B^T d B of one tile of one block of channels. */
INLINE void KERNEL(cut_tile)(const winograd_tiles *tiles, const float *image, ptrdiff_t y,
                             ptrdiff_t x, const winograd_matrices *v, size_t at)
{
    VECTOR d[WINOGRAD_PRODUCTS], products[WINOGRAD_PRODUCTS];
    KERNEL(read_tile)(d, tiles, image, y - 1, x - 1, WINOGRAD_IN);
    for (size_t column = 0; column < WINOGRAD_IN; column++)
        KERNEL(bt)(products + column, d + column, WINOGRAD_IN);
    for (size_t row = 0; row < WINOGRAD_IN; row++)
        KERNEL(bt)(d + row * WINOGRAD_IN, products + row * WINOGRAD_IN, 1);
    KERNEL(store_products)(d, v, at);
}

/* W = A d A^T. */
INLINE void KERNEL(spread_tile)(const winograd_tiles *tiles, const float *image, ptrdiff_t y,
                                ptrdiff_t x, const winograd_matrices *w, size_t at)
{
    VECTOR d[WINOGRAD_OUT * WINOGRAD_OUT], columns[WINOGRAD_IN * WINOGRAD_OUT],
        products[WINOGRAD_PRODUCTS];
    KERNEL(read_tile)(d, tiles, image, y, x, WINOGRAD_OUT);
    for (size_t column = 0; column < WINOGRAD_OUT; column++)
        KERNEL(a)(columns + column, d + column, WINOGRAD_OUT);
    for (size_t row = 0; row < WINOGRAD_IN; row++)
        KERNEL(a)(products + row * WINOGRAD_IN, columns + row * WINOGRAD_OUT, 1);
    KERNEL(store_products)(products, w, at);
}

/* A^T M A, as far as it lies in the image. */
INLINE void KERNEL(join_tile)(const winograd_tiles *tiles, const winograd_matrices *m, size_t at,
                              float *image, ptrdiff_t y, ptrdiff_t x)
{
    VECTOR products[WINOGRAD_PRODUCTS], rows[WINOGRAD_OUT * WINOGRAD_IN],
        d[WINOGRAD_OUT * WINOGRAD_OUT];
    for (size_t e = 0; e < WINOGRAD_PRODUCTS; e++)
        KERNEL(load)(&products[e], m->at + e * m->pitch + at);
    for (size_t column = 0; column < WINOGRAD_IN; column++)
        KERNEL(at)(rows + column, products + column, WINOGRAD_IN);
    for (size_t row = 0; row < WINOGRAD_OUT; row++)
        KERNEL(at)(d + row * WINOGRAD_OUT, rows + row * WINOGRAD_IN, 1);
    const ptrdiff_t height = (ptrdiff_t)tiles->height, width = (ptrdiff_t)tiles->width;
    for (ptrdiff_t row = 0; row < WINOGRAD_OUT && y + row < height; row++)
        for (ptrdiff_t column = 0; column < WINOGRAD_OUT && x + column < width; column++)
            KERNEL(store)
    (image + ((y + row) * width + x + column) * LANES, &d[row * WINOGRAD_OUT + column]);
}

/* Blocks of channels that fill a cache line of a matrix's row are done tile by tile, so that its
 * lines are written whole while the image is still read from front to back. */
#define TOGETHER ((size_t)(16 / LANES))

LOOP void KERNEL(cut)(const winograd_tiles *tiles, const float *x, const winograd_matrices *v)
{
    const size_t blocks = tiles->channels / LANES;
    for (size_t from = 0; from < blocks; from += TOGETHER)
        for (size_t t = 0; t < tiles->count; t++)
            for (size_t block = from; block < from + TOGETHER && block < blocks; block++) {
                const tile_place place = place_of(tiles, t, block, LANES);
                KERNEL(cut_tile)
                (tiles, x + place.image, place.y, place.x, v, t * v->row + block * LANES);
            }
}

LOOP void KERNEL(spread)(const winograd_tiles *tiles, const float *dy, const winograd_matrices *w)
{
    const size_t blocks = tiles->channels / LANES;
    for (size_t from = 0; from < blocks; from += TOGETHER)
        for (size_t t = 0; t < tiles->count; t++)
            for (size_t block = from; block < from + TOGETHER && block < blocks; block++) {
                const tile_place place = place_of(tiles, t, block, LANES);
                KERNEL(spread_tile)
                (tiles, dy + place.image, place.y, place.x, w, t * w->row + block * LANES);
            }
}

LOOP void KERNEL(join)(const winograd_tiles *tiles, const winograd_matrices *m, float *y)
{
    const size_t blocks = tiles->channels / LANES;
    for (size_t from = 0; from < blocks; from += TOGETHER)
        for (size_t t = 0; t < tiles->count; t++)
            for (size_t block = from; block < from + TOGETHER && block < blocks; block++) {
                const tile_place place = place_of(tiles, t, block, LANES);
                KERNEL(join_tile)
                (tiles, m, t * m->row + block * LANES, y + place.image, place.y, place.x);
            }
}

/* ---- windows ---- */

LOOP void KERNEL(fold)(const float *windows, size_t step, bool turned, float *u, size_t pitch)
{
    VECTOR g[WINOGRAD_WINDOW * WINOGRAD_WINDOW], columns[WINOGRAD_IN * WINOGRAD_WINDOW];
    VECTOR products[WINOGRAD_PRODUCTS];
    for (size_t lane = 0; lane < LANES; lane++)
        for (size_t k = 0; k < 9; k++)
            g[turned ? 8 - k : k][lane] = windows[lane * step + k];
    for (size_t column = 0; column < WINOGRAD_WINDOW; column++)
        KERNEL(g)(columns + column, g + column, WINOGRAD_WINDOW);
    for (size_t row = 0; row < WINOGRAD_IN; row++)
        KERNEL(g)(products + row * WINOGRAD_IN, columns + row * WINOGRAD_WINDOW, 1);
    for (size_t e = 0; e < WINOGRAD_PRODUCTS; e++)
        KERNEL(store)(u + e * pitch, &products[e]);
}

LOOP void KERNEL(unfold)(const winograd_matrices *s, size_t in, size_t o, float *dw)
{
    for (size_t i = 0; i < in; i += LANES) {
        VECTOR products[WINOGRAD_PRODUCTS], rows[WINOGRAD_WINDOW * WINOGRAD_IN];
        VECTOR g[WINOGRAD_WINDOW * WINOGRAD_WINDOW];
        for (size_t e = 0; e < WINOGRAD_PRODUCTS; e++)
            KERNEL(load)(&products[e], s->at + e * s->pitch + o * s->row + i);
        for (size_t column = 0; column < WINOGRAD_IN; column++)
            KERNEL(gt)(rows + column, products + column, WINOGRAD_IN);
        for (size_t row = 0; row < WINOGRAD_WINDOW; row++)
            KERNEL(gt)(g + row * WINOGRAD_WINDOW, rows + row * WINOGRAD_IN, 1);
        for (size_t k = 0; k < 9; k++)
            for (size_t lane = 0; lane < LANES; lane++)
                dw[(o * in + i + lane) * 9 + k] = g[k][lane];
    }
}

/* ---- products ---- */

/* rows * vectors sums in registers: six times two leave AVX2's sixteen room for two of b and one of
 * a. */
TARGET INLINE void KERNEL(multiply_rows)(const winograd_product *p, size_t first, const size_t rows,
                                         const size_t vectors)
{
    VECTOR sums[6][2];
    const float *a = p->a + first * p->a_row, *b = p->b;
#pragma GCC unroll 6
    for (size_t row = 0; row < rows; row++)
#pragma GCC unroll 2
        for (size_t i = 0; i < vectors; i++)
            sums[row][i] = (VECTOR){0};
    for (size_t k = 0; k < p->length; k++, a += p->a_step, b += p->b_step) {
        VECTOR values[2];
#pragma GCC unroll 2
        for (size_t i = 0; i < vectors; i++)
            KERNEL(load)(&values[i], b + i * LANES);
#pragma GCC unroll 6
        for (size_t row = 0; row < rows; row++)
#pragma GCC unroll 2
            for (size_t i = 0; i < vectors; i++)
                sums[row][i] = FUSED(a[row * p->a_row], values[i], sums[row][i]);
    }
#pragma GCC unroll 6
    for (size_t row = 0; row < rows; row++)
#pragma GCC unroll 2
        for (size_t i = 0; i < vectors; i++) {
            float *c = p->c + (first + row) * p->c_row + i * LANES;
            VECTOR before;
            if (p->add) {
                KERNEL(load)(&before, c);
                sums[row][i] += before;
            }
            KERNEL(store)(c, &sums[row][i]);
        }
}

TARGET INLINE void KERNEL(multiply_panel)(const winograd_product *p, const size_t vectors)
{
    size_t row = 0;
    for (; row + 6 <= p->rows; row += 6)
        KERNEL(multiply_rows)(p, row, 6, vectors);
    for (; row + 2 <= p->rows; row += 2)
        KERNEL(multiply_rows)(p, row, 2, vectors);
    for (; row < p->rows; row++)
        KERNEL(multiply_rows)(p, row, 1, vectors);
}

LOOP void KERNEL(multiply)(const winograd_product *p)
{
    if (p->columns == 2 * LANES)
        KERNEL(multiply_panel)(p, 2);
    else
        KERNEL(multiply_panel)(p, 1);
}

INSTANCE = {KERNEL(cut),  KERNEL(spread), KERNEL(join),
            KERNEL(fold), KERNEL(unfold), KERNEL(multiply)};

#undef INSTANCE
#undef LANES
#undef TARGET
#undef FUSED
#undef KERNEL
#undef VECTOR
#undef INLINE
#undef LOOP
#undef TOGETHER
