#include "data/images/exif.h"

#include <stdbool.h>
#include <string.h>

enum { ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

typedef struct tiff {
    const uint8_t *bytes;
    size_t size;
    bool big_endian;
} tiff;

static uint32_t u16_at(const tiff *t, size_t at)
{
    const uint8_t *b = t->bytes + at;
    return t->big_endian ? (uint32_t)b[0] << 8 | b[1] : (uint32_t)b[1] << 8 | b[0];
}

static uint32_t u32_at(const tiff *t, size_t at)
{
    return t->big_endian ? u16_at(t, at) << 16 | u16_at(t, at + 2)
                         : u16_at(t, at + 2) << 16 | u16_at(t, at);
}

uint32_t psr_exif_orientation(const uint8_t *bytes, size_t size)
{
    tiff t = {.bytes = bytes, .size = size};
    if (size < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
        return 1;
    t.big_endian = bytes[0] == 'M';
    size_t at = u32_at(&t, 4); /* of the first directory: u16 count, then its entries */
    if (at > size - 2)
        return 1;
    uint32_t count = u16_at(&t, at);
    at += 2;
    for (uint32_t i = 0; i < count && size - at >= ENTRY_BYTES; i++, at += ENTRY_BYTES) {
        if (u16_at(&t, at) != ORIENTATION)
            continue;
        uint32_t value = u16_at(&t, at + 8);
        bool known = u16_at(&t, at + 2) == TYPE_SHORT && value >= 1 && value <= 8;
        return known ? value : 1;
    }
    return 1;
}
