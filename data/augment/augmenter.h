/* Turns the bytes of one sample into the floats that the network gets, in one pass:
 *   resize to size x size (only when the data set's sides differ), random crop, random flip,
 *   normalisation.
 *
 * A byte u of channel c becomes (u / 255 - mean[c]) / deviation[c], each operation rounded to
 * float, as torchvision's ToTensor and Normalize do it. Crop and flip are torchvision's
 * RandomCrop(size, padding) with padding = size / 8 zero pixels on each side (zero before
 * normalisation), and RandomHorizontalFlip(0.5). Resize is bilinear with half-pixel centres and no
 * antialias (PyTorch's interpolate with align_corners=false), on the normalised values. Where a
 * crop lies depends on (seed, epoch, sample) alone. Immutable after _new; any thread. */
#ifndef PSR_DATA_AUGMENT_H
#define PSR_DATA_AUGMENT_H

#include "data/dataset.h"

typedef struct psr_augmenter psr_augmenter;

/* Where the crop begins in the padded image, 0..2 * padding each, and whether it is mirrored. */
typedef struct psr_crop {
    uint32_t top, left;
    bool flip;
} psr_crop;

/* The crop of a sample: one block of PSR_RNG_AUGMENT; words 0 and 1 scaled to 0..2 * padding
 * (biased by less than (2 padding + 1) / 2^32), the top bit of word 2 flips. */
psr_crop psr_augment_crop(uint64_t seed, uint32_t epoch, uint32_t sample, uint32_t padding);

/* dataset is borrowed for the augmenter's life. size: the side of the result; 0: the data set's
 * own. The caller owns *ret_augmenter. USAGE: size 0 and images that are not square; UNSUPPORTED:
 * PSR_AUGMENT_IMAGENET; NOMEM. */
PSR_MUST_CHECK psr_err psr_augmenter_new(const psr_dataset *dataset, psr_augment augment,
                                         uint32_t size, uint64_t seed,
                                         psr_augmenter **ret_augmenter);
void psr_augmenter_free(psr_augmenter *augmenter);

/* The result's side S. */
uint32_t psr_augmenter_size(const psr_augmenter *augmenter);

/* picture: the sample's, of the data set's shape. image: [C, S, S], written whole. */
void psr_augmenter_image(const psr_augmenter *augmenter, uint32_t epoch, uint32_t sample,
                         const psr_picture *picture, float *image);

#endif
