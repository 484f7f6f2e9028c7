#include "model/onednn/kernels/pointwise_bf16.h"

#include <assert.h>

/* A cache line behind every row of words: without it the rows of a sum, which are read one below
 * the other, would all begin in a few sets of the first-level cache. */
#define LINE ((size_t)16)

/* Words of X and D in a chunk, about a second-level cache; and pairs for which dw, read and written
 * once for each chunk, is worth it. */
#define CHUNK ((size_t)1 << 18)
#define LEAST_PAIRS ((size_t)256)

/* Pairs that are summed up in registers before their sum is added to that of those before. */
#define DEPTH ((size_t)128)

/* Pairs that a thread packs at a time, and rows of dw that it sums up. */
#define RUN ((size_t)16)
#define ROWS ((size_t)96)

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t pair_count(const psr_pointwise *p)
{
    return ((size_t)p->images * p->pixels + 1) / 2;
}

static size_t chunk_of(const psr_pointwise *p)
{
    const size_t most = CHUNK / ((size_t)p->in + p->out) / DEPTH * DEPTH;
    return smaller(pair_count(p), most < LEAST_PAIRS ? LEAST_PAIRS : most);
}

size_t psr_pointwise_scratch(const psr_pointwise *p)
{
    return chunk_of(p) * (p->in + p->out + 2 * LINE);
}

/* dw[o..o+ROWS][i..i+32] (+)= D^T X over the pairs of a chunk. */
static void sum_part(const psr_pointwise *p, const uint32_t *x, const uint32_t *dy, size_t pairs,
                     size_t o, size_t i, bool add, float *dw)
{
    for (size_t t = 0; t < pairs; t += DEPTH) {
        const psr_bf16_product product = {.a = dy + t * (p->out + LINE) + o,
                                          .b = x + t * (p->in + LINE) + i,
                                          .c = dw + o * p->in + i,
                                          .rows = smaller(ROWS, p->out - o),
                                          .length = smaller(DEPTH, pairs - t),
                                          .a_row = 1,
                                          .a_step = p->out + LINE,
                                          .b_step = p->in + LINE,
                                          .c_row = p->in,
                                          .add = add || t > 0};
        psr_bf16_multiply(&product);
    }
}

void psr_pointwise_weights_gradient(const psr_pointwise *p, const uint16_t *x, const uint16_t *dy,
                                    float *dw, float *scratch)
{
    const size_t pairs = pair_count(p), chunk = chunk_of(p);
    const size_t panels = p->in / PSR_BF16_PANEL, parts = (p->out + ROWS - 1) / ROWS;
    uint32_t *words_of_x = (uint32_t *)(void *)scratch;
    uint32_t *words_of_dy = words_of_x + chunk * (p->in + LINE);
    assert(p->in % PSR_BF16_PANEL == 0 && p->out % PSR_BF16_PANEL == 0);
#pragma omp parallel num_threads(p->threads)
    {
        for (size_t first = 0; first < pairs; first += chunk) {
            const size_t count = smaller(chunk, pairs - first);
#pragma omp for schedule(static)
            for (size_t at = 0; at < count; at += RUN) {
                const size_t run = smaller(RUN, count - at);
                psr_pointwise_pack(x, p->images, p->in / PSR_BF16_LANES, p->pixels,
                                   2 * (first + at), run, words_of_x + at * (p->in + LINE),
                                   p->in + LINE);
                psr_pointwise_pack(dy, p->images, p->out / PSR_BF16_LANES, p->pixels,
                                   2 * (first + at), run, words_of_dy + at * (p->out + LINE),
                                   p->out + LINE);
            }
#pragma omp for schedule(static)
            for (size_t part = 0; part < panels * parts; part++)
                sum_part(p, words_of_x, words_of_dy, count, part / panels * ROWS,
                         part % panels * PSR_BF16_PANEL, first > 0, dw);
        }
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw")))

TARGET void psr_pointwise_pack(const uint16_t *values, uint32_t images, uint32_t blocks,
                               uint32_t pixels, size_t first, size_t count, uint32_t *words,
                               size_t row)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const size_t image_size = (size_t)blocks * pixels * PSR_BF16_LANES;
    for (size_t block = 0; block < blocks; block++) {
        size_t n = first / pixels, s = first % pixels;
        for (size_t t = 0; t < count; t++) {
            const uint16_t *at = values + n * image_size + (block * pixels + s) * PSR_BF16_LANES;
            __m512i both;
            if (s + 1 < pixels) {
                both = _mm512_loadu_si512(at);
            } else { /* the second pixel is the next image's first, or there is none */
                both =
                    _mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)at));
                if (n + 1 < images)
                    both = _mm512_inserti64x4(
                        both,
                        _mm256_loadu_si256(
                            (const __m256i *)(const void *)(values + (n + 1) * image_size +
                                                            block * pixels * PSR_BF16_LANES)),
                        1);
            }
            _mm512_storeu_si512(words + t * row + block * PSR_BF16_LANES,
                                _mm512_permutexvar_epi16(order, both));
            for (s += 2; s >= pixels; s -= pixels) /* an image may be one pixel */
                n++;
        }
    }
}

#else

void psr_pointwise_pack(const uint16_t *values, uint32_t images, uint32_t blocks, uint32_t pixels,
                        size_t first, size_t count, uint32_t *words, size_t row)
{
    (void)values, (void)images, (void)blocks, (void)pixels;
    (void)first, (void)count, (void)words, (void)row;
}

#endif
