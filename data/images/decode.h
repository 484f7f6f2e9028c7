/* Turns the bytes of a JPEG or PNG file into a picture of three channels (red, green, blue),
 * upright as its EXIF orientation says (PIL's ImageOps.exif_transpose; torchvision's ImageFolder
 * leaves pictures as they are stored).
 *
 * The pixels are those of Pillow's Image.open(..).convert("RGB"), so torchvision's:
 *   JPEG: libjpeg's slow integer DCT and its smooth ("fancy") upsampling of colour; CMYK and YCCK,
 *     with the values inverted as Adobe stores them, by r = k - (255 - c) k / 255;
 *   PNG: grey and palettes become RGB; of 16 bits the upper 8 count; alpha is left out, not
 *     blended.
 *
 * A caller may say which part of the picture it needs and at what size. The pixels of that part are
 * those of the whole picture at full size. If a size is said too (--decode scaled), a JPEG is made
 * at the smallest of 1/8, 1/4, 1/2 and all of its size that still covers it, by libjpeg's reduced
 * DCT: less work, and slightly other pixels (docs/image-folders.md has how different).
 *
 * The bytes may be hostile. Sides and pixels are bounded before memory is taken for them, and
 * memory, by the format's worst case, stays below 10 bytes a pixel. A decoder holds the memory of
 * its largest picture; one thread at a time uses it. Only this folder calls libjpeg and libpng. */
#ifndef PSR_DATA_IMAGES_DECODE_H
#define PSR_DATA_IMAGES_DECODE_H

#include "base/err.h"
#include "data/source.h"

#include <stdbool.h>

#define PSR_IMAGE_MAX_SIDE 16384u
#define PSR_IMAGE_MAX_PIXELS (64u << 20)
#define PSR_IMAGE_MAX_FILE_BYTES ((size_t)256 << 20)

typedef struct psr_image_size {
    uint32_t height, width; /* of the upright picture */
} psr_image_size;

typedef struct psr_image_decoder psr_image_decoder;

/* The caller owns *ret_decoder. NOMEM. */
PSR_MUST_CHECK psr_err psr_image_decoder_new(psr_image_decoder **ret_decoder);
/* NULL allowed. */
void psr_image_decoder_free(psr_image_decoder *decoder);

/* Reads the header alone. name is what errors call the file. FORMAT: neither JPEG nor PNG, broken,
 * a side above PSR_IMAGE_MAX_SIDE or more than PSR_IMAGE_MAX_PIXELS; UNSUPPORTED: a kind of JPEG
 * that libjpeg does not decode (12 bits, lossless, two channels); NOMEM. */
PSR_MUST_CHECK psr_err psr_image_measure(const char *name, const uint8_t *bytes, size_t size,
                                         psr_image_size *ret_size);

/* Decodes a part; NULL: the whole picture at full size. ret_picture's pixels are
 * borrowed from the decoder until its next call; its height and width are those of the part, or of
 * the part at the smaller scale, its edges rounded to the nearest pixel. Errors as above; FORMAT
 * too for a file that ends before the needed pixels do; USAGE: a part outside the picture. */
PSR_MUST_CHECK psr_err psr_image_decode(psr_image_decoder *decoder, const char *name,
                                        const uint8_t *bytes, size_t size,
                                        const psr_picture_part *part, psr_picture *ret_picture);

/* Whether the whole file can be decoded, by the cheapest way that finds every error that
 * psr_image_decode may find: of a JPEG all coefficients are read, and an eighth of them used. */
PSR_MUST_CHECK psr_err psr_image_check(psr_image_decoder *decoder, const char *name,
                                       const uint8_t *bytes, size_t size, psr_image_size *ret_size);

#endif
