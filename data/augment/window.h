/* Where the pixels of a cropped and mirrored picture come from. Crops and flips move no pixels;
 * they change this, and one pass at the end reads each pixel once. A plain value; any thread.
 *
 * Pixel (y, x) of the window is pixel (top + y, left + x) of the source, or with flip
 * (top + y, left + width - 1 - x), for y in [first_row, end_row) and x in [first_column,
 * end_column); all others are zero bytes. */
#ifndef PSR_DATA_AUGMENT_WINDOW_H
#define PSR_DATA_AUGMENT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_picture_window {
    uint32_t height, width;
    int32_t top, left;
    bool flip;
    uint32_t first_row, end_row, first_column, end_column;
} psr_picture_window;

/* The source itself. */
psr_picture_window psr_picture_window_of(uint32_t height, uint32_t width);

/* The part of the window of that height and width that begins at row top and column left of it;
 * these may lie outside: what comes from there is zero bytes. */
psr_picture_window psr_picture_window_cut(const psr_picture_window *window, int32_t top,
                                          int32_t left, uint32_t height, uint32_t width);
/* Mirrored left to right. */
psr_picture_window psr_picture_window_mirror(const psr_picture_window *window);

/* Whether every pixel comes from the source. */
bool psr_picture_window_is_full(const psr_picture_window *window);

/* The source's column of pixel x. */
int32_t psr_picture_window_column(const psr_picture_window *window, uint32_t x);

#endif
