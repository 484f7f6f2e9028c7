/* A golden file (make_golden.py says what is in it), and the batch and signs that psring and
 * PyTorch share.
 */
#ifndef PSR_TESTS_GOLDEN_H
#define PSR_TESTS_GOLDEN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GOLDEN_STEPS = 10, GOLDEN_PROJECTIONS = 16, GOLDEN_RUNS_MAX = 16 };

typedef struct golden_tensor {
    char name[64];
    bool settled;                           /* no ReLU between it and the loss
                                               lies within a rounding of zero */
    double norm;                            /* of PyTorch's float64 gradient */
    double error;                           /* norm of PyTorch's float32 gradient's error */
    double projections[GOLDEN_PROJECTIONS]; /* of PyTorch's float64 gradient */
} golden_tensor;

/* One seed: weights, batch, and what PyTorch made of them. */
typedef struct golden_run {
    uint32_t seed;
    char weights_hash[17], images_crc32[9];
    double losses64[GOLDEN_STEPS], losses32[GOLDEN_STEPS];
    golden_tensor *tensors; /* as many as the network has */
    size_t tensor_count;
} golden_run;

typedef struct golden {
    char model[32];
    uint32_t classes, channels, size, batch;
    double lr, momentum, weight_decay;
    uint32_t settled_steps; /* so many first steps of every run are settled */
    golden_run *runs;
    size_t run_count;
} golden;

/* FORMAT with the line's number; NOT_FOUND. ret owns: golden_done. */
PSR_MUST_CHECK psr_err golden_read(const char *path, golden *ret_golden);
void golden_done(golden *golden);

/* images[batch, channels, size, size], labels[batch] of one seed. */
void golden_batch(const golden *golden, uint32_t seed, float *images, uint32_t *labels);

/* Scalar products of values[count] with the signs of the index-th tensor, as make_golden.py's. */
void golden_project(uint32_t seed, uint32_t index, const float *values, size_t count,
                    double ret_projections[GOLDEN_PROJECTIONS]);

#endif
