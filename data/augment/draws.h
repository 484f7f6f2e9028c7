/* What the random steps of a plan draw for one sample: numbers of PSR_RNG_AUGMENT that are a
 * function of (seed, epoch, sample, copy), of the kind of step and of how many of its kind stand
 * before it. Pure functions; any thread. */
#ifndef PSR_DATA_AUGMENT_DRAWS_H
#define PSR_DATA_AUGMENT_DRAWS_H

#include "base/rng.h"
#include "data/augment/plan.h"

/* One use of a sample in one epoch. copy: which one of the epoch, with the step repeat; else 0. */
typedef struct psr_augment_key {
    uint64_t seed;
    uint32_t epoch, sample, copy;
} psr_augment_key;

/* A stream of numbers; each is taken once. */
typedef struct psr_draws {
    psr_rng_at at;
    uint64_t element;
} psr_draws;

/* The first numbers of a step. crop takes elements 0 and 1 and flip element 2 of one stream: what
 * --augment crop-flip has always drawn. */
psr_draws psr_draws_of(const psr_augment_key *key, const psr_augment_step *step);

uint32_t psr_draw_word(psr_draws *draws);
/* Uniform in [0, 1), by 32 bits. */
double psr_draw_unit(psr_draws *draws);
/* Uniform between both ends. */
double psr_draw_in(psr_draws *draws, psr_bounds span);
/* Uniform in 0..bound-1 (biased by less than bound / 2^32). bound > 0. */
uint32_t psr_draw_below(psr_draws *draws, uint32_t bound);
/* Standard normal (Box and Muller, by two units). */
double psr_draw_normal(psr_draws *draws);
/* Beta(alpha, alpha): X / (X + Y) of two gamma numbers, by Marsaglia and Tsang, "A simple method
 * for generating gamma variables", ACM TOMS 26(3), 2000, and their section 6 for alpha below 1. */
double psr_draw_beta(psr_draws *draws, double alpha);

/* Where a crop begins in the padded picture, 0..height + 2 padding - side and likewise across. The
 * side may be 0 of no step here: it has been resolved. */
typedef struct psr_crop {
    uint32_t top, left;
} psr_crop;
psr_crop psr_draw_crop(const psr_augment_key *key, const psr_augment_step *step,
                       psr_picture_shape shape, uint32_t side, uint32_t padding);
bool psr_draw_flip(const psr_augment_key *key, const psr_augment_step *step);

/* A rectangle of a picture, inside it. */
typedef struct psr_box {
    uint32_t top, left, height, width;
} psr_box;

/* The part of a picture that a random-resized-crop takes: of ten drawn shapes the first that fits,
 * by area and by the logarithm of its width over height; else the largest in the middle with a
 * ratio within bounds (torchvision's RandomResizedCrop.get_params). */
psr_box psr_draw_resized_crop(const psr_augment_key *key, const psr_augment_step *step,
                              psr_picture_shape shape);

/* The rectangle that random-erasing or cutout blanks. false: none. Random erasing tries ten shapes
 * (Zhong et al., "Random Erasing Data Augmentation", 2017, algorithm 1; torchvision's
 * RandomErasing.get_params); cutout's square has its middle anywhere and is cut at the edges
 * (DeVries and Taylor, "Improved Regularization of CNNs with Cutout", 2017). */
bool psr_draw_hole(const psr_augment_key *key, const psr_augment_step *step,
                   psr_picture_shape shape, psr_box *ret_box);

#endif
