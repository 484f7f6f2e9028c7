/* The prefetching loader: its threads get pictures from the data set's source and turn them into
 * normalised float batches, or batches of bytes for who makes the floats of them elsewhere, ahead
 * of the training loop. The content of a batch depends on (seed, epoch, rank, step) alone, and not
 * on the number of threads. One thread, the consumer, calls all functions.
 *
 * A picture that its source cannot give, because its file broke after the data set was opened, ends
 * the run with the file's name. It is not replaced: each rank would find it at another step, and
 * what --max-bad replaces was found before the first one (data/images/check.h). */
#ifndef PSR_DATA_LOADER_H
#define PSR_DATA_LOADER_H

#include "base/arrays/byte_images.h"
#include "data/augment/plan.h"
#include "data/dataset.h"
#include "data/sampler.h"

typedef struct psr_loader psr_loader;

typedef struct psr_loader_options {
    psr_sampler sampler; /* its `used` samples are those of the first epoch alone */
    uint32_t rank;
    const psr_augment_plan *plan;     /* copied; what pictures go through */
    bool wants_bytes;                 /* batches are given as bytes, if the plan allows that:
                                         psr_augmenter_gives_bytes, and nothing is mixed */
    uint32_t threads;                 /* 1.. */
    uint32_t depth;                   /* batches ready ahead: 2.. */
    uint32_t first_epoch, first_step; /* where to begin (resume); first_step
                                         may be the epoch's number of steps */
    uint32_t last_epoch;              /* epochs to deliver, exclusive; UINT32_MAX: without end */
} psr_loader_options;

/* One batch, lent until psr_loader_return. */
typedef struct psr_loader_batch {
    const float *images;          /* [count, C, S, S], 64-byte aligned; NULL: given as bytes */
    const psr_byte_images *bytes; /* of [count, C, S, S]; NULL: given as floats */
    const uint32_t *labels;       /* [count] */
    const uint32_t *samples;      /* [count] */
    /* A plan that mixes: [count] each, the partners' labels, and how much of a sample's target is
     * its own label, 0..1; the partner's has the rest. Else NULL. */
    const uint32_t *second_labels;
    const float *shares;
    uint32_t count;        /* may be 0: this rank's share ran out */
    uint32_t epoch, step;  /* of the epoch; in the first one counted after the used samples */
    uint32_t global_count; /* samples of all ranks in this step */
} psr_loader_batch;

/* dataset is borrowed for the loader's life. This takes all memory and starts all threads; later
 * steps allocate nothing, but what larger pictures than before take. The caller owns *ret_loader.
 * USAGE: no sample for any step, a first_step beyond the epoch, a plan that does not fit the
 * pictures (psr_augment_plan_side); NOMEM; IO: a thread could not be started. */
PSR_MUST_CHECK psr_err psr_loader_new(const psr_dataset *dataset, const psr_loader_options *options,
                                      psr_loader **ret_loader);
/* Ends its threads, if necessary in the middle of a batch. */
void psr_loader_free(psr_loader *loader);

/* Whether batches are given as bytes. */
bool psr_loader_gives_bytes(const psr_loader *loader);

/* The batch that psr_loader_next will give next, if it is ready; otherwise NULL, without waiting.
 * It does not change until it has been lent and returned. */
const psr_loader_batch *psr_loader_peek(psr_loader *loader);

/* Lends the next batch in order. Waits if it is not ready; this wait is counted. At most two
 * batches may be lent at a time. NOT_FOUND: last_epoch has been reached. Errors of the source: a
 * picture could not be given. */
PSR_MUST_CHECK psr_err psr_loader_next(psr_loader *loader, const psr_loader_batch **ret_batch);
void psr_loader_return(psr_loader *loader, const psr_loader_batch *batch);

/* Seconds that psr_loader_next has waited so far, and how many times. */
void psr_loader_waits(const psr_loader *loader, double *ret_seconds, uint64_t *ret_count);

#endif
