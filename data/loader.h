/* The prefetching loader: threads of its own turn samples into normalised float batches ahead of
 * the training loop. What a batch holds is a function of (seed, epoch, rank, step) alone, whatever
 * the number of threads. One consumer thread; all functions are called by it. */
#ifndef PSR_DATA_LOADER_H
#define PSR_DATA_LOADER_H

#include "data/dataset.h"
#include "data/sampler.h"

typedef struct psr_loader psr_loader;

typedef struct psr_loader_options {
    psr_sampler sampler;
    uint32_t rank;
    psr_augment augment;              /* crop-flip: zero padding of image_size/8
                                         (4 at 32 px), random crop, random flip */
    uint32_t image_size;              /* resized (bilinear, no antialias) when
                                         the data set's differs; 0: its own */
    uint32_t threads;                 /* 1.. */
    uint32_t depth;                   /* batches ready ahead: 2.. */
    uint32_t first_epoch, first_step; /* where to begin (resume); first_step
                                         may be the epoch's number of steps */
    uint32_t last_epoch;              /* epochs to deliver, exclusive; UINT32_MAX: without end */
} psr_loader_options;

/* One batch, lent until psr_loader_return. */
typedef struct psr_loader_batch {
    const float *images;     /* [count, C, S, S], 64-byte aligned */
    const uint32_t *labels;  /* [count] */
    const uint32_t *samples; /* [count] */
    uint32_t count;          /* may be 0: this rank's share ran out */
    uint32_t epoch, step;    /* of the epoch */
} psr_loader_batch;

/* dataset is borrowed for the loader's life. All memory is taken and all threads are started here;
 * a steady step allocates nothing. The caller owns *ret_loader. USAGE: no sample for any step, a
 * first_step beyond the epoch, size 0 for images that are not square; UNSUPPORTED:
 * PSR_AUGMENT_IMAGENET; NOMEM; IO: a thread could not be started. */
PSR_MUST_CHECK psr_err psr_loader_new(const psr_dataset *dataset, const psr_loader_options *options,
                                      psr_loader **ret_loader);
/* Ends its threads, in the middle of a batch if need be. */
void psr_loader_free(psr_loader *loader);

/* The next batch in order; waits for it when it is not ready (counted). At most two batches may be
 * lent at a time. NOT_FOUND past last_epoch. */
PSR_MUST_CHECK psr_err psr_loader_next(psr_loader *loader, const psr_loader_batch **ret_batch);
void psr_loader_return(psr_loader *loader, const psr_loader_batch *batch);

/* Seconds that psr_loader_next has waited so far, and how many times. */
void psr_loader_waits(const psr_loader *loader, double *ret_seconds, uint64_t *ret_count);

#endif
