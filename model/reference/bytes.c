#include "model/reference/ops.h"

#include <stdbool.h>
#include <stddef.h>

static bool has(const psr_byte_box *box, uint32_t y, uint32_t x)
{
    return y >= box->top && y < box->top + box->height && x >= box->left &&
           x < box->left + box->width;
}

/* The byte of pixel (y, x) of channel c. */
static uint8_t byte_of(const psr_byte_image *image, const uint8_t *bytes, uint32_t C, uint32_t c,
                       uint32_t y, uint32_t x)
{
    const psr_byte_box *place = &image->place;
    if (!has(place, y, x))
        return 0;
    const size_t row = y - place->top, from_left = x - place->left,
                 column = image->mirrored ? place->width - 1 - from_left : from_left;
    return image->by_pixels ? bytes[(row * place->width + column) * C + c]
                            : bytes[(c * place->height + row) * place->width + column];
}

void psr_ref_images_of_bytes(uint32_t N, uint32_t C, uint32_t H, uint32_t W,
                             const psr_byte_images *x, psr_real *y)
{
    const size_t size = (size_t)C * H * W;
    for (uint32_t n = 0; n < N; n++)
        for (uint32_t c = 0; c < C; c++)
            for (uint32_t h = 0; h < H; h++)
                for (uint32_t w = 0; w < W; w++) {
                    const psr_byte_image *image = &x->images[n];
                    const uint8_t byte = byte_of(image, x->bytes + n * size, C, c, h, w);
                    *y++ = has(&image->hole, h, w) ? 0 : x->values[c * PSR_BYTE_VALUES + byte];
                }
}
