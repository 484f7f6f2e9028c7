/* A picture of any size, from a file, as a trained network gets it: what the run's evaluation does
 * with a picture of its data set. Where all pictures of the data had one shape, the picture is
 * brought to that first: resized with antialiasing until its shorter side fits, then cut from the
 * middle, which leaves a picture of that shape as it is. For a network of one channel it becomes
 * grey (ITU-R 601, as Pillow's convert("L")). One thread. */
#ifndef PSR_WORKER_STORED_STORED_PICTURE_H
#define PSR_WORKER_STORED_STORED_PICTURE_H

#include "model/checkpoint/stored.h"

typedef struct psr_stored_pictures psr_stored_pictures;

/* FORMAT: the model's metadata have no mean and std, or no shape; and psr_augmenter_new's errors.
 * The caller owns *ret_pictures. */
PSR_MUST_CHECK psr_err psr_stored_pictures_new(const psr_stored_model *model,
                                               psr_stored_pictures **ret_pictures);
void psr_stored_pictures_free(psr_stored_pictures *pictures); /* NULL allowed */

/* image: [C, S, S] of the network's input, written whole. FORMAT, NOT_FOUND, IO: the file cannot be
 * read, or is no JPEG or PNG; the message begins with its name. */
PSR_MUST_CHECK psr_err psr_stored_picture_read(psr_stored_pictures *pictures, const char *file,
                                               float *image);

#endif
