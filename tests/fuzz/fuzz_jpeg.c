/* Bytes 0-3: top, left, height and width of the part that is decoded, in 255ths of the picture;
 * byte 4: the side that is wanted, 0 for full size; then a JPEG file. Larger pictures than
 * 256 x 256 are not decoded, for time. */
#include "tests/fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    return fuzz_picture(bytes, size);
}
