/* What decode.c and the readers of the two formats tell each other. Internal to data/images/. */
#ifndef PSR_DATA_IMAGES_HEADER_H
#define PSR_DATA_IMAGES_HEADER_H

#include "data/images/decode.h"

/* What a file's header says. */
typedef struct psr_image_header {
    uint32_t height, width; /* as stored, before the orientation is applied */
    uint32_t orientation;   /* EXIF's, 1..8 */
} psr_image_header;

/* Rows [top, bottom) and columns [left, right). */
typedef struct psr_image_box {
    uint32_t top, bottom, left, right;
} psr_image_box;

/* Memory that grows. Owned by the decoder. */
typedef struct psr_pixel_memory {
    uint8_t *bytes;
    size_t size;
} psr_pixel_memory;

/* Makes room for size bytes; what was there is lost. NOMEM. */
PSR_MUST_CHECK psr_err psr_pixel_memory_reserve(psr_pixel_memory *memory, const char *name,
                                                size_t size);

/* FORMAT when a side or the number of pixels is out of bounds. */
PSR_MUST_CHECK psr_err psr_image_header_check(const psr_image_header *header, const char *name);

#endif
