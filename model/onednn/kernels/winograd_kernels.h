/* The loops of model/onednn/kernels/winograd.h over a run of tiles or windows, for one width of
 * vector. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_KERNELS_H
#define PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WINOGRAD_WINDOW = 3,
    WINOGRAD_OUT = 4,
    WINOGRAD_IN = 6,
    WINOGRAD_PRODUCTS = WINOGRAD_IN * WINOGRAD_IN,
};

/* Values of images, x[N][C/L][H][W][L], and their tiles: the first of the run, and how many. */
typedef struct winograd_tiles {
    size_t channels, height, width;
    size_t first, count;
} winograd_tiles;

/* [e][row][column]: floats from one e to the next, and from one row to the next. */
typedef struct winograd_matrices {
    float *at;
    size_t pitch, row;
} winograd_matrices;

/* c[rows][columns] (+)= a[rows][length] b[length][columns], all of one e. Columns are one panel: at
 * most two vectors. Steps in floats. */
typedef struct winograd_product {
    const float *a, *b;
    float *c;
    size_t rows, columns, length;
    size_t a_row, a_step; /* from one row to the next, and along length */
    size_t b_step;
    size_t c_row;
    bool add;
} winograd_product;

typedef struct winograd_kernels {
    void (*cut)(const winograd_tiles *tiles, const float *x, const winograd_matrices *v);
    void (*spread)(const winograd_tiles *tiles, const float *dy, const winograd_matrices *w);
    void (*join)(const winograd_tiles *tiles, const winograd_matrices *m, float *y);
    /* Of L windows of nine, step floats apart, turned by half a circle or as they are. u[e] pitch
     * apart. */
    void (*fold)(const float *windows, size_t step, bool turned, float *u, size_t pitch);
    void (*unfold)(const winograd_matrices *s, size_t in, size_t o, float *dw);
    void (*multiply)(const winograd_product *product);
} winograd_kernels;

/* lanes 8 or 16. Static storage. */
const winograd_kernels *psr_winograd_kernels(uint32_t lanes);

#endif
