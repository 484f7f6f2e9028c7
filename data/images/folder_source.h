/* A source (data/source.h) over files that are decoded one by one: a split of a checked set. */
#ifndef PSR_DATA_IMAGES_FOLDER_SOURCE_H
#define PSR_DATA_IMAGES_FOLDER_SOURCE_H

#include "data/images/picture_set.h"
#include "data/source.h"

/* test: the test split. The source becomes a user of the set. Its pictures have three channels and
 * sides that vary; its constants are ImageNet's. The caller owns *ret_source. NOMEM. */
PSR_MUST_CHECK psr_err psr_folder_source_new(psr_picture_set *set, bool test,
                                             psr_picture_source **ret_source);
/* NULL: a source of another kind. Borrowed. */
const psr_picture_set *psr_folder_source_set(const psr_picture_source *source);

/* A psr_decode_function for JPEG and PNG: psr_image_decode with a decoder that the scratch holds.
 * UNSUPPORTED: channels other than 3. */
PSR_MUST_CHECK psr_err psr_decode_file(const uint8_t *bytes, size_t size, const char *name,
                                       uint32_t channels, const psr_picture_part *part,
                                       psr_picture_scratch *scratch, psr_picture *ret_picture);

#endif
