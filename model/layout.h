/* The layout of the parameter arena, and its buckets.
 *
 * Arena: all trainable parameters as one flat float32 array, plain OIHW tensors in torchvision's
 * order, each beginning at a 64-byte boundary (16 floats). The padding between them is zero and not
 * hashed. Buffers (batch-norm running statistics) have a layout of the same kind, in an array of
 * their own.
 *
 * Buckets fill from the end of the arena. Each holds whole tensors, or one piece of one tensor, and
 * either trained tensors or, of any size, all frozen ones that stand side by side (--freeze). They
 * depend on layout and bucket size alone. Bucket 0 is the arena's end, which the backward pass
 * finishes first; so forward order is descending bucket index. A bucket is the contiguous range
 * [offset, offset + length), padding included, so the buckets cover the arena exactly.
 *
 * Immutable after building; any thread. */
#ifndef PSR_MODEL_LAYOUT_H
#define PSR_MODEL_LAYOUT_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_TENSOR_NAME_MAX 64
#define PSR_TENSOR_ALIGN 16 /* floats */

typedef struct psr_tensor {
    char name[PSR_TENSOR_NAME_MAX]; /* torchvision's: "layer1.0.conv1.weight" */
    uint32_t rank;                  /* 1..4 */
    uint32_t shape[4];              /* OIHW, or [out, in], or [C]; unused 1 */
    size_t offset;                  /* floats from the arena's start,
                                       multiple of PSR_TENSOR_ALIGN */
    size_t count;                   /* elements */
    bool frozen;                    /* it is not trained (model/freeze.h) */
} psr_tensor;

typedef struct psr_layout {
    psr_tensor *tensors; /* in arena order */
    size_t tensor_count;
    size_t length; /* floats, padding included: multiple of PSR_TENSOR_ALIGN */
    size_t count;  /* elements, padding excluded: 25,557,032 for resnet50 */
} psr_layout;

typedef struct psr_bucket {
    size_t offset; /* floats */
    size_t length; /* floats, padding included */
    uint32_t first_tensor;
    uint32_t tensor_count; /* tensors in it; 1 if it holds a piece */
    bool piece;            /* holds one piece of a tensor that is split over several buckets */
    bool frozen;           /* holds tensors that are not trained: nobody exchanges it */
} psr_bucket;

typedef struct psr_buckets {
    psr_bucket *items;
    uint32_t count;
} psr_buckets;

/* Appends a tensor at the next aligned offset. */
PSR_MUST_CHECK psr_err psr_layout_add(psr_layout *layout, const char *name, uint32_t rank,
                                      const uint32_t *shape);
void psr_layout_done(psr_layout *layout);
/* NULL when there is none of that name. Borrowed from layout. */
const psr_tensor *psr_layout_find(const psr_layout *layout, const char *name);
/* How many of the count floats from offset on are elements of tensors, not padding. The range must
 * lie within the array. */
uint64_t psr_layout_elements_in(const psr_layout *layout, size_t offset, size_t count);

/* The floats of the tensors that are trained, padding included; and their elements. */
size_t psr_layout_trained_length(const psr_layout *layout);
size_t psr_layout_trained_count(const psr_layout *layout);

/* A layout of the tensors that are trained, at the places that they have in layout and with its
 * length: for arrays beside the weights that only these tensors have part of. NOMEM. The caller
 * owns *ret_trained: psr_layout_done. */
PSR_MUST_CHECK psr_err psr_layout_of_trained(const psr_layout *layout, psr_layout *ret_trained);

/* Sets the padding to 0 in values, the count floats from offset on of an array with this layout. */
void psr_layout_clear_padding(const psr_layout *layout, size_t offset, size_t count, float *values);

/* The size of buckets in bytes for --bucket-size asked_bytes, which is kept if it is not 0. For 0
 * (auto) the size is the largest power of two that fits 16 times into what is trained, at least 4
 * KiB and at most 4 MiB. It depends on the layout alone, because a bucket's bounds decide the order
 * in which its elements are summed. With sixteen or more buckets, none of up to 5 shards carries
 * more than 1.25 times the mean. */
uint64_t psr_bucket_bytes(const psr_layout *layout, uint64_t asked_bytes);

/* bucket_bytes >= 64. USAGE when not. The caller owns *ret_buckets: psr_buckets_done. */
PSR_MUST_CHECK psr_err psr_buckets_plan(const psr_layout *layout, uint64_t bucket_bytes,
                                        psr_buckets *ret_buckets);
/* Makes buckets from runs of the arena that another process planned. Runs begin at the arena's end,
 * and each holds whole tensors or a piece of one. FORMAT: these runs cannot be buckets of this
 * layout. The caller owns *ret_buckets: psr_buckets_done. */
PSR_MUST_CHECK psr_err psr_buckets_of(const psr_layout *layout, const psr_span *spans,
                                      uint32_t count, psr_buckets *ret_buckets);
void psr_buckets_done(psr_buckets *buckets);
/* How many of them are not frozen. */
uint32_t psr_buckets_trained(const psr_buckets *buckets);

/* The buckets as parts, for code that distributes them over shards or workers. With whole_tensors
 * (LARS) the pieces of one tensor are marked to stay together. The caller owns *ret_parts: free().
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_buckets_parts(const psr_buckets *buckets, bool whole_tensors,
                                         psr_part **ret_parts);

/* XXH3-64 over the tensors' bytes in order, padding left out: the weight hash. */
uint64_t psr_layout_hash(const psr_layout *layout, const float *arena);

#endif
