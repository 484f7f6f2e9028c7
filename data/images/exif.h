/* The orientation in a block of EXIF data (a TIFF file: CIPA DC-008-2012 "Exif 2.3", section 4.6.4
 * tag 0x0112). No state. Any thread. */
#ifndef PSR_DATA_IMAGES_EXIF_H
#define PSR_DATA_IMAGES_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* 1..8; 1 (upright) where the block has none or is broken: a picture with damaged EXIF data is
 * still a picture. bytes: from the TIFF header on ("II*\0" or "MM\0*"). */
uint32_t psr_exif_orientation(const uint8_t *bytes, size_t size);

#endif
