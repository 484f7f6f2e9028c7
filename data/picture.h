/* A picture in memory, as sources give it and augmentation takes it. A plain value. Any thread. */
#ifndef PSR_DATA_PICTURE_H
#define PSR_DATA_PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* A picture of bytes, in any order of its dimensions: pixel (c, y, x) is at
 * pixels[c * plane + y * row + x * step]. Borrowed or owned as the function that gives it says. */
typedef struct psr_picture {
    const uint8_t *pixels;
    uint32_t channels, height, width;
    size_t plane, row, step; /* bytes: CHW: h*w, w, 1; HWC: 1, w*c, c */
} psr_picture;

#endif
