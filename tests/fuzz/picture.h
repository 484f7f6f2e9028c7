/* What fuzz_jpeg and fuzz_png do with a file: measure, decode a part, check. */
#ifndef PSR_TESTS_FUZZ_PICTURE_H
#define PSR_TESTS_FUZZ_PICTURE_H

#include "data/images/decode.h"

#include <assert.h>
#include <string.h>

enum { FUZZ_PICTURE_HEAD = 5, FUZZ_PICTURE_SIDE = 256 };

/* Of the part that a picture was asked for: every byte can be read. */
static inline void read_all(const psr_picture *p)
{
    uint64_t sum = 0;
    assert(p->channels == 3 && p->height > 0 && p->width > 0);
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++)
            for (uint32_t c = 0; c < 3; c++)
                sum += p->pixels[c * p->plane + y * p->row + x * p->step];
    assert(sum <= (uint64_t)255 * 3 * p->height * p->width);
}

static inline psr_picture_part part_of(const uint8_t *head, psr_image_size size)
{
    psr_picture_part part = {
        .top = head[0] * (size.height - 1) / 255,
        .left = head[1] * (size.width - 1) / 255,
        .to_height = head[4],
        .to_width = head[4],
    };
    part.height = 1 + head[2] * (size.height - part.top - 1) / 255;
    part.width = 1 + head[3] * (size.width - part.left - 1) / 255;
    return part;
}

static inline int fuzz_picture(const uint8_t *bytes, size_t size)
{
    psr_image_decoder *decoder = NULL;
    psr_image_size sides, checked;
    psr_picture picture;
    if (size < FUZZ_PICTURE_HEAD || psr_image_decoder_new(&decoder) != PSR_OK)
        return 0;
    const uint8_t *file = bytes + FUZZ_PICTURE_HEAD;
    size -= FUZZ_PICTURE_HEAD;
    psr_err err = psr_image_measure("file", file, size, &sides);
    if (err == PSR_OK && sides.height <= FUZZ_PICTURE_SIDE && sides.width <= FUZZ_PICTURE_SIDE) {
        psr_picture_part part = part_of(bytes, sides);
        psr_err whole = psr_image_check(decoder, "file", file, size, &checked);
        err = psr_image_decode(decoder, "file", file, size, &part, &picture);
        if (err == PSR_OK) {
            read_all(&picture);
            if (part.to_height == 0)
                assert(picture.height == part.height && picture.width == part.width);
        }
        /* What the check lets through can be decoded. */
        assert(whole != PSR_OK || err == PSR_OK);
    }
    assert(err == PSR_OK || strncmp(psr_err_detail(), "file: ", 6) == 0);
    psr_image_decoder_free(decoder);
    return 0;
}

#endif
