/* The operations of rand-augment and trivial-augment, and what these draw: torchvision's
 * RandAugment (Cubuk et al., "RandAugment: practical automated data augmentation with a reduced
 * search space", 2019) and TrivialAugmentWide (Mueller and Hutter, "TrivialAugment: tuning-free yet
 * state-of-the-art data augmentation", 2021, table 5), with 31 magnitudes, nearest neighbours and
 * zero bytes for what comes from outside. Pure functions; any thread. */
#ifndef PSR_DATA_AUGMENT_POLICY_H
#define PSR_DATA_AUGMENT_POLICY_H

#include "data/augment/colour.h"

/* In the order of torchvision's tables. */
typedef enum psr_operation_kind {
    PSR_OPERATION_IDENTITY,
    PSR_OPERATION_SHEAR_X,     /* by magnitude pixels a row */
    PSR_OPERATION_SHEAR_Y,     /* by magnitude pixels a column */
    PSR_OPERATION_TRANSLATE_X, /* whole pixels, the fraction dropped */
    PSR_OPERATION_TRANSLATE_Y,
    PSR_OPERATION_ROTATE, /* degrees, counter-clockwise, around the middle */
    PSR_OPERATION_BRIGHTNESS,
    PSR_OPERATION_COLOUR, /* saturation; these four by a factor of 1 + magnitude */
    PSR_OPERATION_CONTRAST,
    PSR_OPERATION_SHARPNESS,
    PSR_OPERATION_POSTERIZE, /* keeps magnitude bits of each byte */
    PSR_OPERATION_SOLARIZE,  /* inverts bytes from 255 * magnitude on */
    PSR_OPERATION_AUTO_CONTRAST,
    PSR_OPERATION_EQUALIZE,
    PSR_OPERATION_KINDS
} psr_operation_kind;

typedef struct psr_operation {
    psr_operation_kind kind;
    float magnitude; /* with its sign */
} psr_operation;

/* Operation number i of a step (0: trivial-augment has one) for a picture of that shape. */
psr_operation psr_draw_operation(const psr_augment_key *key, const psr_augment_step *step,
                                 uint32_t i, psr_picture_shape shape);

/* spare: as many bytes as the canvas; what it held is lost. */
void psr_operation_apply(psr_canvas canvas, const psr_operation *operation, uint8_t *spare);

#endif
