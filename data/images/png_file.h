/* PNG files through libpng. Internal to data/images/. Any thread. */
#ifndef PSR_DATA_IMAGES_PNG_FILE_H
#define PSR_DATA_IMAGES_PNG_FILE_H

#include "data/images/header.h"

/* The header, as far as the first pixel. Errors as psr_image_measure's. */
PSR_MUST_CHECK psr_err psr_png_measure(const char *name, const uint8_t *bytes, size_t size,
                                       psr_image_header *ret_header);

/* box: rows below its bottom are not decoded unless the file is interlaced. whole: reads on to the
 * file's end, for a check. ret_picture borrows from memory. */
PSR_MUST_CHECK psr_err psr_png_decode(const char *name, const uint8_t *bytes, size_t size,
                                      const psr_image_box *box, bool whole,
                                      psr_pixel_memory *memory, psr_picture *ret_picture);

#endif
