/* The rule for a convolution's algorithm: a formula of what is known without a clock.
 *
 * For a 3x3 convolution of stride 1 and padding 1 of N images of H x W pixels from I to O channels,
 * with
 *     P = N H W                          pixels
 *     t                                  4; in bf16 2
 *     T = N ceil(H/t) ceil(W/t)          tiles of t x t that Winograd cuts them into
 *     C = sqrt(I O)                      channels
 *     n                                  threads
 * the time of a Winograd algorithm over that of the direct one is about
 *     a (1 + 20 / C) t t T / P  +  b C n / P  +  c (n - 1) / (P C C)
 * The first term is its products and its transformations, which take 20 / C of the products' time;
 * a tile at an image's edge costs as much as a whole one. The second is what it does once for all
 * pixels: the weights' transformation, (t+2)^2 numbers for 9, which each thread reads again. The
 * third is what several threads cost where there is nearly nothing to do. a and b depend on
 * direction, algorithm and type; the direct one's rate hardly depends on the shape, and so the same
 * constants hold with AVX2 and with AVX-512, for oneDNN 2 and 3. The least ratio is chosen, if it
 * is clearly below 1. What has no such algorithm (another window, oneDNN's Winograd in bf16, beyond
 * version 2 or without AVX-512, our own in bf16 without dot products or with AMX) is direct.
 *
 * docs/measurements.md has the times that the constants come from, and how far the rule is from the
 * fastest choice; bench/fit_algorithms makes them again. */
#ifndef PSR_MODEL_ONEDNN_CHOICE_RULE_H
#define PSR_MODEL_ONEDNN_CHOICE_RULE_H

#include "model/onednn/choice/choice.h"

typedef struct psr_conv_shape {
    uint32_t images, height, width; /* N, H, W */
    uint32_t in, out;               /* I, O */
    uint32_t threads;               /* n */
    bool bf16;
} psr_conv_shape;

/* The expected time of algorithm over that of DIRECT; 1 for DIRECT. */
double psr_onednn_rule_ratio(const psr_conv_shape *shape, psr_onednn_direction direction,
                             psr_onednn_algorithm algorithm);

/* The choice among those whose exists[algorithm] is true. */
psr_onednn_algorithm psr_onednn_rule(const psr_conv_shape *shape, psr_onednn_direction direction,
                                     const bool exists[PSR_ONEDNN_ALGORITHMS]);

#endif
