/* Batches of images as bytes for tests: places of all kinds, in both layouts. */
#ifndef PSR_TESTS_BYTE_BATCH_H
#define PSR_TESTS_BYTE_BATCH_H

#include "base/arrays/byte_images.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct byte_batch {
    psr_byte_images of;
    /* what it points to; owned */
    uint8_t *bytes;
    psr_byte_image *images;
    float *values;
    size_t size; /* of bytes */
} byte_batch;

/* Inside an image, with sides from 0 on. */
static inline psr_byte_box byte_box(uint32_t H, uint32_t W, const uint32_t words[4])
{
    psr_byte_box box = {.height = words[0] % (H + 1), .width = words[1] % (W + 1)};
    box.top = words[2] % (H - box.height + 1);
    box.left = words[3] % (W - box.width + 1);
    return box;
}

/* Every third image covers its place whole, and every second has a hole. */
static inline byte_batch byte_batch_new(uint32_t stream, uint32_t N, uint32_t C, uint32_t H,
                                        uint32_t W)
{
    const psr_rng_at at = {.seed = 41, .purpose = PSR_RNG_TEST, .layer = stream};
    byte_batch b = {.size = (size_t)N * C * H * W};
    b.bytes = malloc(b.size);
    b.images = calloc(N, sizeof *b.images);
    b.values = malloc(C * PSR_BYTE_VALUES * sizeof *b.values);
    assert_true(b.bytes != NULL && b.images != NULL && b.values != NULL);
    b.of = (psr_byte_images){b.bytes, b.images, b.values};
    for (size_t i = 0; i < b.size; i++)
        b.bytes[i] = (uint8_t)(psr_rng_word(at, i) >> 24);
    for (uint32_t i = 0; i < C * PSR_BYTE_VALUES; i++)
        b.values[i] = 2 * psr_rng_unit(psr_rng_word(at, b.size + i)) - 1;
    for (uint32_t n = 0; n < N; n++) {
        uint32_t words[4], more[4];
        psr_rng_block(at, b.size + 2 * n, words);
        psr_rng_block(at, b.size + 2 * n + 1, more);
        b.images[n].place = n % 3 == 0 ? (psr_byte_box){0, 0, H, W} : byte_box(H, W, words);
        b.images[n].hole = n % 2 == 0 ? (psr_byte_box){0} : byte_box(H, W, more);
        b.images[n].mirrored = words[0] >> 31;
        b.images[n].by_pixels = words[1] >> 31;
    }
    return b;
}

/* What it held is overwritten first. */
static inline void byte_batch_spoil(byte_batch *b, uint32_t N, uint32_t C)
{
    explicit_bzero(b->bytes, b->size);
    explicit_bzero(b->images, N * sizeof *b->images);
    explicit_bzero(b->values, C * PSR_BYTE_VALUES * sizeof *b->values);
    free(b->bytes);
    free(b->images);
    free(b->values);
}

#endif
