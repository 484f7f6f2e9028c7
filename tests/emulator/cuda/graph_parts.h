/* How the emulator computes a graph's operations: in float32 over whole tensors, channels fastest,
 * and every sum in one order. Tensors in 16 bits are widened before, and rounded when stored. */
#ifndef PSR_TESTS_EMULATOR_CUDA_GRAPH_PARTS_H
#define PSR_TESTS_EMULATOR_CUDA_GRAPH_PARTS_H

#include "model/cuda/graph.h"

/* ---- numbers ---- */

size_t psr_emulator_type_bytes(psr_cuda_type type);
/* Of 16 bits; count elements. */
void psr_emulator_widen(psr_cuda_type type, size_t count, const void *from, float *to);
/* To the nearest, ties to even; fp16 beyond its largest becomes infinite. */
void psr_emulator_narrow(psr_cuda_type type, size_t count, const float *from, void *to);
/* To 10 bits of fraction, ties away from zero. */
void psr_emulator_round_tf32(size_t count, float *values);

/* c[m,n] (+)= sum over k, in its order, of a[m,k] b[k,n]. b and c lie with n fastest, in rows of
 * b_row and c_row; a[m,k] lies at m * a_m + k * a_k. */
typedef struct psr_emulator_product {
    size_t m, k, n;
    const float *a, *b;
    float *c;
    size_t a_m, a_k, b_row, c_row;
    bool adds; /* to what c holds */
} psr_emulator_product;
void psr_emulator_multiply(const psr_emulator_product *product);

/* ---- operations ---- */

/* What an operation reads and writes: shape and float32 values; index: of pools, in 8 bits. */
typedef struct psr_emulator_value {
    const psr_cuda_tensor *tensor;
    float *at;
    signed char *index;
} psr_emulator_value;

size_t psr_emulator_count(const psr_cuda_tensor *tensor); /* elements */

/* v: in the order of psr_cuda_operation_kind. */
void psr_emulator_conv(const psr_cuda_window *window, const psr_emulator_value *v, bool tf32);
void psr_emulator_conv_data(const psr_cuda_window *window, const psr_emulator_value *v, bool tf32);
void psr_emulator_conv_weights(const psr_cuda_window *window, const psr_emulator_value *v,
                               bool tf32);
void psr_emulator_statistics(const psr_emulator_value *v);
void psr_emulator_norm(const psr_emulator_value *v);
void psr_emulator_norm_backward(const psr_emulator_value *v);
void psr_emulator_max_pool(const psr_cuda_window *window, const psr_emulator_value *v);
void psr_emulator_max_pool_backward(const psr_cuda_window *window, const psr_emulator_value *v);
void psr_emulator_mean_pool(const psr_cuda_window *window, const psr_emulator_value *v);
void psr_emulator_mean_pool_backward(const psr_cuda_window *window, const psr_emulator_value *v);
void psr_emulator_pointwise(psr_cuda_pointwise mode, const psr_emulator_value *v);
void psr_emulator_matmul(const psr_emulator_value *v, bool tf32);

#endif
