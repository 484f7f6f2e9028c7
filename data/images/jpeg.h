/* JPEG files through libjpeg-turbo. Internal to data/images/. Any thread. */
#ifndef PSR_DATA_IMAGES_JPEG_H
#define PSR_DATA_IMAGES_JPEG_H

#include "data/images/header.h"

/* The header. Errors as psr_image_measure's. */
PSR_MUST_CHECK psr_err psr_jpeg_measure(const char *name, const uint8_t *bytes, size_t size,
                                        psr_image_header *ret_header);

/* The picture at eighths/8 of its size (1..8) has ceil(side * eighths / 8) rows and columns; box is
 * in its pixels. ret_picture borrows from memory. */
PSR_MUST_CHECK psr_err psr_jpeg_decode(const char *name, const uint8_t *bytes, size_t size,
                                       uint32_t eighths, const psr_image_box *box,
                                       psr_pixel_memory *memory, psr_picture *ret_picture);

#endif
