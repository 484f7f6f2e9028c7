/* As fuzz_jpeg.c, with a PNG file; its checksums are made right, so that what they guard is
 * reached. */
#include "tests/fuzz/picture.h"

#include <stdlib.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* A chunk is u32 length, 4 bytes of type, the bytes, and the checksum of type and bytes. */
static void mend_checksums(uint8_t *bytes, size_t size)
{
    for (size_t at = FUZZ_PICTURE_HEAD + 8; at + 12 <= size;) {
        size_t length = big_endian(bytes + at);
        if (length > size - at - 12)
            return;
        uint32_t sum = (uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4);
        uint8_t *to = bytes + at + 8 + length;
        for (int i = 0; i < 4; i++)
            to[i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *mended = malloc(size + 1);
    if (mended == NULL)
        return 0;
    memcpy(mended, bytes, size);
    mend_checksums(mended, size);
    fuzz_picture(mended, size);
    free(mended);
    return 0;
}
