/* A batch of images as bytes, with what is left to do until a network gets them: each picture is
 * put in its place, mirrored perhaps, its bytes become numbers, and a part is blanked. data
 * (data/augment/augmenter.h) draws at random and says for each image what came of it; a back end on
 * a device does it there (model/backend.h), so that a quarter of the bytes is copied to it.
 *
 * Pixel (y, x) of channel c of an image of [C, H, W] is
 *   0                    in the hole;
 *   values[c][byte]      in the place: the byte of row y - place.top and column x - place.left, or,
 *                        mirrored, of column place.width - 1 - (x - place.left);
 *   values[c][0]         everywhere else.
 *
 * Plain values, which GPUs read too. Any thread. */
#ifndef PSR_BASE_ARRAYS_BYTE_IMAGES_H
#define PSR_BASE_ARRAYS_BYTE_IMAGES_H

#include <stdint.h>

/* Pixels of the image, inside it. height 0: none. */
typedef struct psr_byte_box {
    uint32_t top, left, height, width;
} psr_byte_box;

typedef struct psr_byte_image {
    psr_byte_box place; /* where the bytes belong */
    psr_byte_box hole;
    uint32_t mirrored; /* 1: left to right */
    /* 1: the bytes lie [place.height, place.width, C], as pictures are decoded; 0: [C,
     * place.height, place.width] */
    uint32_t by_pixels;
} psr_byte_image;

#define PSR_BYTE_VALUES 256

/* All is borrowed from whoever gives it. */
typedef struct psr_byte_images {
    const uint8_t *bytes;         /* image n's begin at n C H W, of which its place may be less */
    const psr_byte_image *images; /* [N] */
    const float *values;          /* [C, PSR_BYTE_VALUES]: the number of a byte */
} psr_byte_images;

#endif
