#include "model/onednn/kernels/winograd.h"

#include "model/onednn/kernels/winograd_bf16.h"
#include "model/onednn/kernels/winograd_kernels.h"

#include <assert.h>
#include <omp.h>

/* A cache line of floats behind every matrix keeps the 36 that are written side by side out of each
 * other's way: without it they would all begin in the same set of the first-level cache. */
#define LINE ((size_t)16)

/* Floats of V in a chunk: with M or W as many again, about a second-level cache; but tiles enough
 * that U, which is read anew for each chunk, is worth the reading. */
#define CHUNK ((size_t)1 << 17)
#define LEAST_TILES ((size_t)48)

/* Terms of a product that are summed up before their sum is added to that of those before: so sums
 * of many round little more than sums of few, and what they read stays in the first-level cache. */
#define DEPTH ((size_t)32)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t tile_count(const psr_winograd *w)
{
    size_t down = (w->height + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    size_t across = (w->width + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    return w->images * down * across;
}

static size_t pitch_of(size_t rows, size_t columns)
{
    return rows * columns + LINE;
}

static size_t matrices_size(size_t rows, size_t columns)
{
    return WINOGRAD_PRODUCTS * pitch_of(rows, columns);
}

static winograd_matrices matrices_at(float *at, size_t rows, size_t columns)
{
    return (winograd_matrices){at, pitch_of(rows, columns), columns};
}

static size_t chunk_of(size_t channels)
{
    return larger(CHUNK / (WINOGRAD_PRODUCTS * channels), LEAST_TILES);
}

/* ---- forward and the source's gradient: every thread takes whole chunks ---- */

/* Which of the two: from and to, its channels; the steps from one to the next among the weights. */
typedef struct convolution {
    size_t from, to;
    size_t from_step, to_step;
    bool turned;
} convolution;

/* The same work for every thread, where there is enough. */
static size_t values_chunk(const psr_winograd *w)
{
    size_t tiles = tile_count(w), most = chunk_of(larger(w->in, w->out));
    size_t chunks = (tiles + most - 1) / most;
    chunks = (chunks + w->threads - 1) / w->threads * w->threads;
    return (tiles + chunks - 1) / chunks;
}

static size_t values_scratch_of_thread(const psr_winograd *w)
{
    size_t tiles = values_chunk(w);
    return matrices_size(tiles, w->out) + matrices_size(tiles, w->in);
}

size_t psr_winograd_values_scratch(const psr_winograd *w)
{
    if (w->bf16)
        return psr_winograd_bf16_values_scratch(w);
    return matrices_size(w->out, w->in) + w->threads * values_scratch_of_thread(w);
}

/* U's rows for one panel of columns, which lie together: [from][columns], columns = 2 * lanes but
 * perhaps at the end. Column `to` is a block's first. */
static void fold_block(const psr_winograd *w, const winograd_kernels *kernels, const convolution *c,
                       const float *weights, size_t to, float *u)
{
    const size_t panel = 2 * w->lanes, first = to / panel * panel,
                 columns = smaller(panel, c->to - first);
    for (size_t from = 0; from < c->from; from++)
        kernels->fold(weights + from * c->from_step + to * c->to_step, c->to_step, c->turned,
                      u + first * c->from + from * columns + to - first, pitch_of(c->from, c->to));
}

/* M[e] = V[e] U[e] for all e. */
static void multiply_chunk(const psr_winograd *w, const winograd_kernels *kernels,
                           const convolution *c, size_t tiles, const winograd_matrices *v,
                           const float *u, const winograd_matrices *m)
{
    const size_t panel = 2 * w->lanes, pitch = pitch_of(c->from, c->to);
    for (size_t e = 0; e < WINOGRAD_PRODUCTS; e++)
        for (size_t from = 0; from < c->from; from += DEPTH)
            for (size_t to = 0; to < c->to; to += panel) {
                const size_t columns = smaller(panel, c->to - to);
                const winograd_product product = {.a = v->at + e * v->pitch + from,
                                                  .b =
                                                      u + e * pitch + to * c->from + from * columns,
                                                  .c = m->at + e * m->pitch + to,
                                                  .rows = tiles,
                                                  .columns = columns,
                                                  .length = smaller(DEPTH, c->from - from),
                                                  .a_row = v->row,
                                                  .a_step = 1,
                                                  .b_step = columns,
                                                  .c_row = m->row,
                                                  .add = from > 0};
                kernels->multiply(&product);
            }
}

static void convolve(const psr_winograd *w, const convolution *c, const float *x,
                     const float *weights, float *y, float *scratch)
{
    const winograd_kernels *kernels = psr_winograd_kernels(w->lanes);
    const size_t tiles = tile_count(w), chunk = values_chunk(w),
                 chunks = (tiles + chunk - 1) / chunk;
    float *u = scratch, *of_threads = scratch + matrices_size(c->from, c->to);
    assert(c->from % w->lanes == 0 && c->to % w->lanes == 0);
#pragma omp parallel num_threads(w->threads)
    {
#pragma omp for schedule(static)
        for (size_t to = 0; to < c->to; to += w->lanes)
            fold_block(w, kernels, c, weights, to, u);
#pragma omp for schedule(static)
        for (size_t i = 0; i < chunks; i++) {
            const size_t first = i * chunk, count = smaller(chunk, tiles - first);
            float *own = of_threads + (size_t)omp_get_thread_num() * values_scratch_of_thread(w);
            const winograd_matrices v = matrices_at(own, chunk, c->from);
            const winograd_matrices m =
                matrices_at(own + matrices_size(chunk, c->from), chunk, c->to);
            const winograd_tiles given = {c->from, w->height, w->width, first, count};
            const winograd_tiles wanted = {c->to, w->height, w->width, first, count};
            kernels->cut(&given, x, &v);
            multiply_chunk(w, kernels, c, count, &v, u, &m);
            kernels->join(&wanted, &m, y);
        }
    }
}

void psr_winograd_forward(const psr_winograd *w, const void *x, const float *weights, void *y,
                          float *scratch)
{
    const convolution c = {w->in, w->out, 9, (size_t)w->in * 9, false};
    if (w->bf16)
        psr_winograd_bf16_forward(w, x, weights, y, scratch);
    else
        convolve(w, &c, x, weights, y, scratch);
}

void psr_winograd_source_gradient(const psr_winograd *w, const void *dy, const float *weights,
                                  void *dx, float *scratch)
{
    const convolution c = {w->out, w->in, (size_t)w->in * 9, 9, true};
    if (w->bf16)
        psr_winograd_bf16_source_gradient(w, dy, weights, dx, scratch);
    else
        convolve(w, &c, dy, weights, dx, scratch);
}

/* ---- the weights' gradient: all threads share a chunk ---- */

/* Tiles of a chunk: S is read and written once for each. */
static size_t weights_chunk(const psr_winograd *w)
{
    return smaller(tile_count(w), 4 * chunk_of(larger(w->in, w->out)));
}

size_t psr_winograd_weights_scratch(const psr_winograd *w)
{
    const size_t chunk = weights_chunk(w);
    if (w->bf16)
        return psr_winograd_bf16_weights_scratch(w);
    return matrices_size(chunk, w->in) + matrices_size(chunk, w->out) +
           matrices_size(w->out, w->in);
}

/* Tiles that a thread transforms at a time. */
#define RUN ((size_t)8)

/* V and W of tiles first..first+count of the images, at `at` of the chunk. */
static void transform_run(const psr_winograd *w, const winograd_kernels *kernels, size_t first,
                          size_t count, size_t at, const float *x, const winograd_matrices *v,
                          const float *dy, const winograd_matrices *spread)
{
    const winograd_tiles of_x = {w->in, w->height, w->width, first, count};
    const winograd_tiles of_y = {w->out, w->height, w->width, first, count};
    const winograd_matrices v_run = {v->at + at * v->row, v->pitch, v->row};
    const winograd_matrices spread_run = {spread->at + at * spread->row, spread->pitch,
                                          spread->row};
    kernels->cut(&of_x, x, &v_run);
    kernels->spread(&of_y, dy, &spread_run);
}

/* S[e] (+)= W[e]^T V[e] for a panel of columns, over the count tiles of a chunk. */
static void multiply_panel(const psr_winograd *w, const winograd_kernels *kernels, size_t e,
                           size_t i, size_t count, const winograd_matrices *spread,
                           const winograd_matrices *v, const winograd_matrices *s, bool add)
{
    for (size_t t = 0; t < count; t += DEPTH) {
        const winograd_product product = {.a = spread->at + e * spread->pitch + t * spread->row,
                                          .b = v->at + e * v->pitch + t * v->row + i,
                                          .c = s->at + e * s->pitch + i,
                                          .rows = w->out,
                                          .columns = smaller((size_t)2 * w->lanes, w->in - i),
                                          .length = smaller(DEPTH, count - t),
                                          .a_row = 1,
                                          .a_step = spread->row,
                                          .b_step = v->row,
                                          .c_row = s->row,
                                          .add = add || t > 0};
        kernels->multiply(&product);
    }
}

static void sum_weights(const psr_winograd *w, const float *x, const float *dy, float *dw,
                        float *scratch)
{
    const winograd_kernels *kernels = psr_winograd_kernels(w->lanes);
    const size_t tiles = tile_count(w), chunk = weights_chunk(w), panel = 2 * w->lanes;
    const size_t panels = (w->in + panel - 1) / panel;
    const winograd_matrices v = matrices_at(scratch, chunk, w->in);
    const winograd_matrices spread = matrices_at(v.at + matrices_size(chunk, w->in), chunk, w->out);
    const winograd_matrices s =
        matrices_at(spread.at + matrices_size(chunk, w->out), w->out, w->in);
    assert(w->in % w->lanes == 0 && w->out % w->lanes == 0);
#pragma omp parallel num_threads(w->threads)
    {
        for (size_t first = 0; first < tiles; first += chunk) {
            const size_t count = smaller(chunk, tiles - first);
#pragma omp for schedule(static)
            for (size_t at = 0; at < count; at += RUN)
                transform_run(w, kernels, first + at, smaller(RUN, count - at), at, x, &v, dy,
                              &spread);
#pragma omp for schedule(static)
            for (size_t part = 0; part < WINOGRAD_PRODUCTS * panels; part++)
                multiply_panel(w, kernels, part / panels, part % panels * panel, count, &spread, &v,
                               &s, first > 0);
        }
#pragma omp for schedule(static)
        for (size_t o = 0; o < w->out; o++)
            kernels->unfold(&s, w->in, o, dw);
    }
}

void psr_winograd_weights_gradient(const psr_winograd *w, const void *x, const void *dy, float *dw,
                                   float *scratch)
{
    if (w->bf16)
        psr_winograd_bf16_weights_gradient(w, x, dy, dw, scratch);
    else
        sum_weights(w, x, dy, dw, scratch);
}
