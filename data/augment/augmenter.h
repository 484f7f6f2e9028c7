/* Turns the bytes of one picture into the floats that the network gets, by a plan (plan.h):
 *   steps on bytes; rescaling and normalisation, HWC or CHW to CHW; erasing.
 * Mixing with another sample's picture (mix.h) is the caller's, who can get that picture.
 *
 * A byte u of channel c becomes (u / 255 - mean[c]) / deviation[c], each operation rounded to
 * float, as torchvision's ToTensor and Normalize do it. Zeros that a crop or a move brings in are
 * zero bytes, before normalisation; what is erased is 0 after it, the mean colour. An exact resize
 * interpolates the normalised values.
 *
 * What is drawn depends on the key alone. Immutable after _new; any thread, each with a scratch of
 * its own. */
#ifndef PSR_DATA_AUGMENT_AUGMENTER_H
#define PSR_DATA_AUGMENT_AUGMENTER_H

#include "base/arrays/byte_images.h"
#include "data/augment/draws.h"
#include "data/augment/resample.h"
#include "data/dataset.h"
#include "data/picture.h"

typedef struct psr_augmenter psr_augmenter;

/* Memory of one thread; it grows to the largest need and is used again. In place; all zero:
 * empty. */
typedef struct psr_augment_scratch {
    psr_resampler resampler;
    uint8_t *bytes[2];
    size_t sizes[2];
} psr_augment_scratch;
void psr_augment_scratch_done(psr_augment_scratch *scratch);

/* dataset: for the shape of its pictures and its constants; not kept. The caller owns
 * *ret_augmenter. USAGE, as psr_augment_plan_side; NOMEM. */
PSR_MUST_CHECK psr_err psr_augmenter_new(const psr_dataset *dataset, const psr_augment_plan *plan,
                                         psr_augmenter **ret_augmenter);
void psr_augmenter_free(psr_augmenter *augmenter);

/* The result's side S. */
uint32_t psr_augmenter_size(const psr_augmenter *augmenter);

/* The part of a sample's picture, whose full shape is given, that the first step reads: false: all
 * of it. So a decoder need not make the rest. */
bool psr_augmenter_part(const psr_augmenter *augmenter, const psr_augment_key *key,
                        psr_picture_shape shape, psr_box *ret_part);

/* The side to which that part is resized. */
uint32_t psr_augmenter_part_side(const psr_augmenter *augmenter);

/* picture: the sample's, with the data set's number of channels; or what psr_augmenter_part names
 * of it, then is_part says so. image: [C, S, S], written whole. NOMEM. */
PSR_MUST_CHECK psr_err psr_augmenter_image(const psr_augmenter *augmenter,
                                           const psr_augment_key *key, const psr_picture *picture,
                                           bool is_part, psr_augment_scratch *scratch,
                                           float *image);

/* Images as bytes: what is left of the list for somebody else to do is crops, flips, one erasing,
 * and the numbers of bytes. Of a crop the pixels that it leaves out are not given. Whether this
 * list can be given so: not with an exact resize, whose values are between those of bytes, nor with
 * two steps that erase. */
bool psr_augmenter_gives_bytes(const psr_augmenter *augmenter);

/* If so: bytes, [C, S, S] or less, and *ret_image, of which psr_byte_images' definition makes the
 * floats of psr_augmenter_image bit by bit. NOMEM. */
PSR_MUST_CHECK psr_err psr_augmenter_bytes(const psr_augmenter *augmenter,
                                           const psr_augment_key *key, const psr_picture *picture,
                                           bool is_part, psr_augment_scratch *scratch,
                                           uint8_t *bytes, psr_byte_image *ret_image);

/* [C, PSR_BYTE_VALUES], borrowed for the augmenter's life. */
const float *psr_augmenter_values(const psr_augmenter *augmenter);

#endif
