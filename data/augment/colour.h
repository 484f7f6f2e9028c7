/* Operations on the colours of a picture of bytes, each rounded as torchvision's functions of the
 * same names do on uint8 tensors (torchvision.transforms.v2.functional): products are cut to 0..255
 * and their fraction dropped. A picture of one channel has no saturation and no hue, and stays.
 * Pure functions; any thread. */
#ifndef PSR_DATA_AUGMENT_COLOUR_H
#define PSR_DATA_AUGMENT_COLOUR_H

#include "data/augment/draws.h"

/* [channels, height, width], 1 or 3 channels. Borrowed, and changed in place. */
typedef struct psr_canvas {
    uint8_t *pixels;
    uint32_t channels, height, width;
} psr_canvas;

/* x * factor. */
void psr_colour_brightness(psr_canvas canvas, float factor);
/* Between the mean of the picture's grey (factor 0) and the picture (1), and beyond. */
void psr_colour_contrast(psr_canvas canvas, float factor);
/* Between a pixel's grey, 0.2989 R + 0.587 G + 0.114 B rounded down, and the pixel. */
void psr_colour_saturation(psr_canvas canvas, float factor);
/* Turns hues by that part of the circle, -0.5..0.5, in HSV. */
void psr_colour_hue(psr_canvas canvas, float turn);

/* Adds an amount to each channel, on the scale of 0 to 1; the result is rounded to the nearest. */
void psr_colour_add(psr_canvas canvas, const double amount[static 3]);

/* colour-jitter: the four above by factors within the step's bounds, in a drawn order
 * (torchvision's ColorJitter). */
typedef struct psr_jitter {
    uint8_t order[4]; /* 0 brightness, 1 contrast, 2 saturation, 3 hue */
    float factors[4]; /* by the same numbers; hue: a turn */
} psr_jitter;
psr_jitter psr_draw_jitter(const psr_augment_key *key, const psr_augment_step *step);
void psr_colour_jitter(psr_canvas canvas, const psr_jitter *jitter);

/* lighting: the amounts by which the principal components of ImageNet's colours move each channel
 * (Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural
 * networks", 2012, section 4.1; eigenvalues and vectors as in fb.resnet.torch). */
void psr_draw_lighting(const psr_augment_key *key, const psr_augment_step *step,
                       double ret_amount[static 3]);

#endif
