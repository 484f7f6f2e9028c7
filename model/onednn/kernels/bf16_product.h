/* Products of matrices of bf16 by AVX-512's dot products, summed in float32.
 *
 * A word is two bf16 of a sum, one behind the other along what is summed over: two channels of a
 * pixel, or one channel of two pixels. An instruction multiplies 16 words by 16 others and adds
 * both products of each to a float32: twice the rate of float32. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_BF16_PRODUCT_H
#define PSR_MODEL_ONEDNN_KERNELS_BF16_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PSR_BF16_LANES = 16,
    PSR_BF16_PANEL = 2 * PSR_BF16_LANES, /* columns of a product */
};

/* c[rows][32] (+)= a[rows][length] b[length][32]; length in words, steps in words and floats. A sum
 * runs over length in order, whatever rows is. */
typedef struct psr_bf16_product {
    const uint32_t *a, *b;
    float *c;
    size_t rows, length;
    size_t a_row, a_step; /* from one row to the next, and along length */
    size_t b_step;
    size_t c_row;
    bool add;
} psr_bf16_product;

/* Whether this processor has the instructions. Without them psr_bf16_multiply, and what rests on
 * it, may not be called. */
bool psr_bf16_dots_supported(void);
void psr_bf16_multiply(const psr_bf16_product *product);

#endif
