#include "model/onednn/kernels/winograd_bf16.h"

#include "model/onednn/kernels/winograd_bf16_kernels.h"

#include <assert.h>
#include <omp.h>

enum { PANEL = PSR_BF16_PANEL, PRODUCTS = WINOGRAD_BF16_PRODUCTS };

/* A cache line behind every matrix: see winograd.c. */
#define LINE ((size_t)16)

/* Words of V in a thread's chunk, about half a second-level cache; but tiles enough that U, which
 * is read anew for each chunk, is worth the reading. */
#define CHUNK ((size_t)1 << 17)
#define LEAST_TILES ((size_t)64)

/* Words of V in a chunk that the threads share, and the tiles for which S, read and written once
 * for each chunk, is worth it. */
#define SHARED_CHUNK ((size_t)1 << 18)
#define LEAST_SHARED_TILES ((size_t)256)

/* Words of a weight's sum in registers, before they are added to those before: what is read for
 * them stays in the first-level cache. */
#define DEPTH ((size_t)128)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

bool psr_winograd_bf16_fits(const psr_winograd *w)
{
    return w->lanes == PSR_BF16_LANES && w->in % PANEL == 0 && w->out % PANEL == 0;
}

static size_t tile_count(const psr_winograd *w)
{
    size_t down = (w->height + WINOGRAD_BF16_OUT - 1) / WINOGRAD_BF16_OUT;
    size_t across = (w->width + WINOGRAD_BF16_OUT - 1) / WINOGRAD_BF16_OUT;
    return w->images * down * across;
}

/* Words or floats from one e to the next. */
static size_t pitch_of(size_t rows, size_t columns)
{
    return rows * columns + LINE;
}

/* ---- forward and the source's gradient ---- */

/* Which of the two: from and to, its channels; the steps from one to the next among the weights. */
typedef struct convolution {
    size_t from, to;
    size_t from_step, to_step;
    bool turned;
} convolution;

/* The same work for every thread, where there is enough. */
static size_t values_chunk(const psr_winograd *w)
{
    const size_t tiles = tile_count(w), words = PRODUCTS * larger(w->in, w->out) / 2;
    const size_t most = larger(CHUNK / words, LEAST_TILES);
    size_t chunks = (tiles + most - 1) / most;
    chunks = (chunks + w->threads - 1) / w->threads * w->threads;
    return (tiles + chunks - 1) / chunks;
}

/* V, then a panel of M. */
static size_t v_size(const psr_winograd *w)
{
    return PRODUCTS * pitch_of(values_chunk(w), larger(w->in, w->out) / 2);
}

static size_t values_scratch_of_thread(const psr_winograd *w)
{
    return v_size(w) + PRODUCTS * pitch_of(values_chunk(w), PANEL);
}

static size_t u_size(const psr_winograd *w)
{
    return PRODUCTS * (size_t)w->in * w->out / 2;
}

size_t psr_winograd_bf16_values_scratch(const psr_winograd *w)
{
    return u_size(w) + w->threads * values_scratch_of_thread(w);
}

/* U of one panel of outputs: [e][from / 2][32]. */
static void fold_panel(const convolution *c, const float *weights, size_t to, uint32_t *u)
{
    const size_t pitch = c->from / 2 * PANEL;
    uint32_t *panel = u + to / PANEL * PRODUCTS * pitch;
    for (size_t block = 0; block < PANEL; block += PSR_BF16_LANES)
        for (size_t from = 0; from < c->from; from += 2)
            psr_winograd_bf16_fold(weights + from * c->from_step + (to + block) * c->to_step,
                                   c->to_step, c->from_step, c->turned,
                                   panel + from / 2 * PANEL + block, pitch);
}

static void convolve_chunk(const psr_winograd *w, const convolution *c, size_t first, size_t count,
                           const uint16_t *x, const uint32_t *u, uint16_t *y, float *own)
{
    const size_t length = c->from / 2, m_pitch = pitch_of(values_chunk(w), PANEL);
    const winograd_bf16_tiles given = {c->from, w->height, w->width, first, count};
    const winograd_bf16_tiles wanted = {c->to, w->height, w->width, first, count};
    const winograd_bf16_matrices v = {(uint32_t *)(void *)own, pitch_of(values_chunk(w), length),
                                      length};
    float *m = own + v_size(w);
    psr_winograd_bf16_cut(&given, x, &v);
    for (size_t to = 0; to < c->to; to += PANEL) {
        for (size_t e = 0; e < PRODUCTS; e++) {
            const psr_bf16_product product = {.a = v.at + e * v.pitch,
                                              .b = u + (to / PANEL * PRODUCTS + e) * length * PANEL,
                                              .c = m + e * m_pitch,
                                              .rows = count,
                                              .length = length,
                                              .a_row = v.row,
                                              .a_step = 1,
                                              .b_step = PANEL,
                                              .c_row = PANEL};
            psr_bf16_multiply(&product);
        }
        psr_winograd_bf16_join(&wanted, to, m, m_pitch, y);
    }
}

static void convolve(const psr_winograd *w, const convolution *c, const uint16_t *x,
                     const float *weights, uint16_t *y, float *scratch)
{
    const size_t tiles = tile_count(w), chunk = values_chunk(w);
    uint32_t *u = (uint32_t *)(void *)scratch;
    assert(psr_winograd_bf16_fits(w));
#pragma omp parallel num_threads(w->threads)
    {
        float *own =
            scratch + u_size(w) + (size_t)omp_get_thread_num() * values_scratch_of_thread(w);
#pragma omp for schedule(static)
        for (size_t to = 0; to < c->to; to += PANEL)
            fold_panel(c, weights, to, u);
#pragma omp for schedule(static)
        for (size_t first = 0; first < tiles; first += chunk)
            convolve_chunk(w, c, first, smaller(chunk, tiles - first), x, u, y, own);
    }
}

void psr_winograd_bf16_forward(const psr_winograd *w, const uint16_t *x, const float *weights,
                               uint16_t *y, float *scratch)
{
    const convolution c = {w->in, w->out, 9, (size_t)w->in * 9, false};
    convolve(w, &c, x, weights, y, scratch);
}

void psr_winograd_bf16_source_gradient(const psr_winograd *w, const uint16_t *dy,
                                       const float *weights, uint16_t *dx, float *scratch)
{
    const convolution c = {w->out, w->in, (size_t)w->in * 9, 9, true};
    convolve(w, &c, dy, weights, dx, scratch);
}

/* ---- the weights' gradient ---- */

/* Tiles of a chunk, an even number. */
static size_t weights_chunk(const psr_winograd *w)
{
    const size_t words = PRODUCTS * (size_t)larger(w->in, w->out) / 2;
    const size_t most = larger(SHARED_CHUNK / words, LEAST_SHARED_TILES);
    return smaller(tile_count(w) + tile_count(w) % 2, most / 2 * 2);
}

/* A line behind every row too: the rows of a sum are read one below the other. */
static winograd_bf16_matrices pairs_at(float *at, size_t chunk, size_t channels)
{
    return (winograd_bf16_matrices){(uint32_t *)(void *)at, pitch_of(chunk / 2, channels + LINE),
                                    channels + LINE};
}

static size_t pairs_size(size_t chunk, size_t channels)
{
    return PRODUCTS * pitch_of(chunk / 2, channels + LINE);
}

size_t psr_winograd_bf16_weights_scratch(const psr_winograd *w)
{
    const size_t chunk = weights_chunk(w);
    return pairs_size(chunk, w->in) + pairs_size(chunk, w->out) +
           PRODUCTS * pitch_of(w->out, w->in);
}

/* Tiles that a thread transforms at a time. */
#define RUN ((size_t)8)

/* V and W of tiles first..first+count of the images, at `at` of the chunk. */
static void transform_run(const psr_winograd *w, size_t first, size_t count, size_t at,
                          const uint16_t *x, const winograd_bf16_matrices *v, const uint16_t *dy,
                          const winograd_bf16_matrices *spread)
{
    const winograd_bf16_tiles of_x = {w->in, w->height, w->width, first, count};
    const winograd_bf16_tiles of_y = {w->out, w->height, w->width, first, count};
    const winograd_bf16_matrices v_run = {v->at + at / 2 * v->row, v->pitch, v->row};
    const winograd_bf16_matrices spread_run = {spread->at + at / 2 * spread->row, spread->pitch,
                                               spread->row};
    psr_winograd_bf16_cut_pairs(&of_x, x, &v_run);
    psr_winograd_bf16_spread_pairs(&of_y, dy, &spread_run);
}

/* S[e] (+)= W[e]^T V[e] for a panel of columns, over the pairs of a chunk. */
static void multiply_panel(const psr_winograd *w, size_t e, size_t i, size_t pairs,
                           const winograd_bf16_matrices *spread, const winograd_bf16_matrices *v,
                           float *s, bool add)
{
    for (size_t t = 0; t < pairs; t += DEPTH) {
        const psr_bf16_product product = {.a = spread->at + e * spread->pitch + t * spread->row,
                                          .b = v->at + e * v->pitch + t * v->row + i,
                                          .c = s + e * pitch_of(w->out, w->in) + i,
                                          .rows = w->out,
                                          .length = smaller(DEPTH, pairs - t),
                                          .a_row = 1,
                                          .a_step = spread->row,
                                          .b_step = v->row,
                                          .c_row = w->in,
                                          .add = add || t > 0};
        psr_bf16_multiply(&product);
    }
}

void psr_winograd_bf16_weights_gradient(const psr_winograd *w, const uint16_t *x,
                                        const uint16_t *dy, float *dw, float *scratch)
{
    const size_t tiles = tile_count(w), chunk = weights_chunk(w), panels = w->in / PANEL;
    const winograd_bf16_matrices v = pairs_at(scratch, chunk, w->in);
    const winograd_bf16_matrices spread =
        pairs_at(scratch + pairs_size(chunk, w->in), chunk, w->out);
    float *s = scratch + pairs_size(chunk, w->in) + pairs_size(chunk, w->out);
    assert(psr_winograd_bf16_fits(w));
#pragma omp parallel num_threads(w->threads)
    {
        for (size_t first = 0; first < tiles; first += chunk) {
            const size_t count = smaller(chunk, tiles - first);
#pragma omp for schedule(static)
            for (size_t at = 0; at < count; at += RUN)
                transform_run(w, first + at, smaller(RUN, count - at), at, x, &v, dy, &spread);
#pragma omp for schedule(static)
            for (size_t part = 0; part < PRODUCTS * panels; part++)
                multiply_panel(w, part / panels, part % panels * PANEL, (count + 1) / 2, &spread,
                               &v, s, first > 0);
        }
#pragma omp for schedule(static)
        for (size_t o = 0; o < w->out; o++)
            psr_winograd_bf16_unfold(s, pitch_of(w->out, w->in), w->in, o, dw);
    }
}
