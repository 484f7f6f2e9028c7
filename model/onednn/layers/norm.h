/* What the files of batch norm's step share. norm.c plans it and computes it with a worker's own
 * statistics; norm_sync.c with those of all workers; norm_walk.c has the walks over the values.
 * Rows are pixels, columns vectors of channels (model/onednn/kernels/norm_kernels.h). */
#ifndef PSR_MODEL_ONEDNN_LAYERS_NORM_H
#define PSR_MODEL_ONEDNN_LAYERS_NORM_H

#include "model/onednn/kernels/norm_kernels.h"
#include "model/onednn/private.h"

/* Per-channel results that the backward pass needs, one row of floats each. */
enum {
    NORM_MEAN,
    NORM_SCALE,
    NORM_SHIFT,
    NORM_SLOPE,
    NORM_INVERSE_STD,
    NORM_MEAN_G,
    NORM_CHANNEL_ROWS
};
/* Per-thread sums, one row of doubles each. */
enum { NORM_SUM, NORM_SQUARE, NORM_SECOND_SUM, NORM_SECOND_SQUARE, NORM_CENTRES, NORM_SUM_ROWS };

typedef struct psr_onednn_norm_step {
    uint32_t node, second; /* batch norms; second PSR_NONE when absent */
    uint32_t x, r, y;      /* values; r: what is added, or the second batch norm's input */
    bool relu, has_r;
    const norm_kernels *kernels;
    size_t channels; /* padded */
    size_t columns, rows, slab_rows;
    bool by_columns;
    uint32_t threads;
    uint32_t table;              /* buffer: float[2][NORM_CHANNEL_ROWS][channels] */
    uint32_t dy, dy2, g, dx, dr; /* buffers */
    bool has_dy2, keeps_g;
    bool held;     /* by the running statistics, which stay; of a second batch norm too */
    bool ends;     /* nobody wants a gradient of what it normalises */
    double values; /* --sync-bn: of a channel, on all workers */
} psr_onednn_norm_step;

typedef struct norm_range {
    size_t begin, end;
} norm_range;

/* ---- norm_walk.c ---- */

/* A thread's share of `count` rows or columns, and the rows that a thread sums up. */
norm_range psr_onednn_norm_share(size_t count, uint32_t threads, uint32_t thread);
norm_range psr_onednn_norm_rows_of(const psr_onednn_norm_step *self, uint32_t thread);
norm_range psr_onednn_norm_channels_in(const psr_onednn_norm_step *self, norm_range columns);

/* A row of the table (NORM_MEAN to NORM_MEAN_G) of the first batch norm or the second one, and of a
 * thread's sums; and the values about which a thread has summed up, one a channel. */
float *psr_onednn_norm_table_row(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                 int which, int row);
double *psr_onednn_norm_sum_row(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                uint32_t thread, int row);
float *psr_onednn_norm_centre_row(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                  uint32_t thread, int which);

/* Forward: a thread sums up its rows of some columns, x and x^2 about its centres. */
void psr_onednn_norm_sum_up(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                            uint32_t thread, norm_range columns);
/* A channel's statistics go into the table. */
void psr_onednn_norm_set_channel(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                 int which, size_t c, double mean, double variance);
/* Backward: a thread sums up g and g (x - mean). */
void psr_onednn_norm_reduce(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                            const norm_pointers *p, uint32_t thread, norm_range columns);
/* One channel's sum over some threads. */
double psr_onednn_norm_total(const psr_onednn_exec *exec, const psr_onednn_norm_step *self, int row,
                             norm_range threads, size_t c);

/* A kernel over rows and columns; and by all threads, each with a share of the rows. */
void psr_onednn_norm_sweep(const psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                           const norm_pointers *p, norm_range rows, norm_range columns,
                           void (*kernel)(const norm_slab *slab, const norm_pointers *p));
void psr_onednn_norm_normalise_by_rows(const psr_onednn_exec *exec,
                                       const psr_onednn_norm_step *self, const norm_pointers *p);
void psr_onednn_norm_differentiate_by_rows(const psr_onednn_exec *exec,
                                           const psr_onednn_norm_step *self,
                                           const norm_pointers *p);

/* ---- norm_sync.c ---- */

/* Each in two calls: the first one stops the pass, the second one has the sums of all workers. */
void psr_onednn_norm_train_in_parts(psr_onednn_exec *exec, psr_onednn_norm_step *self,
                                    const norm_pointers *p);
void psr_onednn_norm_backward_in_parts(psr_onednn_exec *exec, const psr_onednn_norm_step *self,
                                       const norm_pointers *p);

#endif
