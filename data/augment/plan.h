/* The plan behind --augment: the steps by which a sample's picture becomes what the network gets,
 * in the user's order. The text is read once; what comes of it is an array that nothing changes.
 *
 * A list is steps joined by commas, a step its name and its values joined by colons:
 *   crop:32:4,flip,resize:224
 * docs/augmentation.md has every step with its definition and source. Four kinds of steps follow
 * each other in a list:
 *   bytes     work on the picture's bytes, as torchvision's transforms do on uint8 tensors;
 *   erasing   work on the normalised picture (random-erasing, cutout);
 *   mixing    mix the picture with another one and give the sample a second label (mixup, cutmix);
 *   sampling  change which samples an epoch has (repeat).
 * Rescaling by 1/255, normalisation and the order CHW follow the bytes' steps and are no steps.
 *
 * What a step draws depends on (seed, epoch, sample, copy), the kind of step and how many of its
 * kind stand before it: so another step in the list changes nothing of what this one draws.
 *
 * Pure functions on text and numbers; any thread. */
#ifndef PSR_DATA_AUGMENT_PLAN_H
#define PSR_DATA_AUGMENT_PLAN_H

#include "base/config/config.h"

#include <stdbool.h>
#include <stdint.h>

#define PSR_AUGMENT_STEPS_MAX 16

typedef enum psr_step_kind {
    PSR_STEP_CROP,
    PSR_STEP_FLIP,
    PSR_STEP_RESIZE,
    PSR_STEP_RESIZE_SHORT,
    PSR_STEP_CENTRE_CROP,
    PSR_STEP_RANDOM_RESIZED_CROP,
    PSR_STEP_COLOUR_JITTER,
    PSR_STEP_LIGHTING,
    PSR_STEP_RAND_AUGMENT,
    PSR_STEP_TRIVIAL_AUGMENT,
    PSR_STEP_RANDOM_ERASING,
    PSR_STEP_CUTOUT,
    PSR_STEP_MIXUP,
    PSR_STEP_CUTMIX,
    PSR_STEP_REPEAT,
    PSR_STEP_KINDS
} psr_step_kind;

/* How a resize goes between pixels; all are bilinear with half-pixel centres.
 *   antialias: PIL's filter, whose triangle grows with the reduction (the default);
 *   plain:     two neighbours on each axis, as torchvision's tensors with antialias=False;
 *   exact:     as plain, on the normalised values, not rounded to bytes: what --image-size is for
 *              the lists none and crop-flip. Only crops and flips may follow it. */
typedef enum psr_resampling {
    PSR_RESAMPLE_ANTIALIAS,
    PSR_RESAMPLE_PLAIN,
    PSR_RESAMPLE_EXACT
} psr_resampling;

/* Both ends are possible. */
typedef struct psr_bounds {
    double least, most;
} psr_bounds;

typedef struct psr_augment_step {
    psr_step_kind kind;
    uint32_t occurrence; /* how many steps of this kind stand before it */
    union {
        /* side 0: the picture's own, with a padding of an eighth of it. Without padding a side
         * must not be larger than the picture. reflect: the padding is the picture mirrored at its
         * edge, which is not doubled (torchvision's padding_mode); else zero. */
        struct {
            uint32_t side, padding;
            bool reflect;
        } crop;
        /* alternate: it is drawn for the first epoch alone, and turns with each epoch (Jordan, "94%
         * on CIFAR-10 in 3.29 seconds on a single GPU", 2024, section 3.6) */
        struct {
            double probability;
            bool alternate;
        } flip;
        struct {
            uint32_t side;
            psr_resampling resampling;
        } resize; /* and of resize-short, centre-crop (side alone) */
        struct {
            uint32_t side;
            psr_resampling resampling;
            psr_bounds scale, ratio; /* of the area; width over height */
        } resized_crop;
        struct {
            psr_bounds brightness, contrast, saturation; /* factors */
            double hue;                                  /* at most, to both sides; of the circle */
        } jitter;
        double deviation; /* of lighting */
        struct {
            uint32_t operations, magnitude; /* magnitude: of PSR_AUGMENT_MAGNITUDES */
        } policy;
        struct {
            double probability;
            psr_bounds scale, ratio; /* of the area; height over width */
        } erasing;
        uint32_t hole; /* side, of cutout */
        double alpha;  /* of mixup and cutmix */
        uint32_t copies;
    } as;
} psr_augment_step;

#define PSR_AUGMENT_MAGNITUDES 31 /* 0..30, as torchvision's num_magnitude_bins */

typedef struct psr_augment_plan {
    psr_augment_step steps[PSR_AUGMENT_STEPS_MAX];
    uint32_t count;
    uint32_t bytes, erasing, mixing; /* how many of each; they stand in this order */
    uint32_t copies;                 /* of each sample in an epoch; 1: no repeat */
} psr_augment_plan;

/* Height and width of a picture; 0: they differ from sample to sample. */
typedef struct psr_picture_shape {
    uint32_t height, width;
} psr_picture_shape;

/* text: a list, or none, crop-flip or imagenet, which are names of lists. image_size: --image-size;
 * 0: none is given. USAGE, beginning with "--augment STEP: " or "--image-size": an unknown step,
 * a value that is missing, too much or out of bounds, an order that cannot be, --image-size beside
 * a list that says a size. */
PSR_MUST_CHECK psr_err psr_augment_plan_parse(const char *text, uint32_t image_size,
                                              psr_augment_plan *ret_plan);

/* The same for the options of a configuration. */
PSR_MUST_CHECK psr_err psr_augment_plan_of(const psr_config *config, psr_augment_plan *ret_plan);
/* Checks the options of a configuration that concern augmentation. */
PSR_MUST_CHECK psr_err psr_augment_check(const psr_config *config);

/* What a picture goes through that is evaluated: sizes stay and randomness goes. resize,
 * resize-short and centre-crop stay; crop becomes a centre crop of its side; random-resized-crop
 * becomes resize-short of 8/7 of its side (256 for 224) and a centre crop; the rest is dropped. */
psr_augment_plan psr_augment_plan_evaluation(const psr_augment_plan *plan);

/* The side of what the network gets, which is square, from pictures of that shape. USAGE, naming
 * the step: a crop that is larger than what it crops; a result that is not square, or differs from
 * sample to sample; colour that pictures of one channel have not. */
PSR_MUST_CHECK psr_err psr_augment_plan_side(const psr_augment_plan *plan, uint32_t channels,
                                             psr_picture_shape shape, uint32_t *ret_side);

/* The side of the network's input for a configuration's options and pictures of that shape. */
PSR_MUST_CHECK psr_err psr_augment_side_of(const psr_config *config, uint32_t channels,
                                           psr_picture_shape shape, uint32_t *ret_side);

/* The shape after a resize whose shorter side becomes side: the longer one is in proportion,
 * rounded down (torchvision's Resize of one number). */
psr_picture_shape psr_resized_short(psr_picture_shape shape, uint32_t side);

/* Whether the plan gives a sample a second label. */
bool psr_augment_plan_mixes(const psr_augment_plan *plan);

/* "resize" and so on. */
const char *psr_step_name(psr_step_kind kind);

/* The side of the picture from which a random-resized-crop of that side is cropped for an
 * evaluation, on its short side: side * 8 / 7, rounded. */
uint32_t psr_augment_evaluation_short(uint32_t side);

#endif
