/* Structs that begin with their size: by it a program and a library of different versions
 * understand each other. */
#include "comm/psring/internal.h"

#include <string.h>

enum { BYTES_MAX = 64 << 10 }; /* a larger number is no size */

static psr_err check_size(const char *name, size_t size, size_t first_bytes)
{
    if (size >= first_bytes && size <= BYTES_MAX)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "%s: its size says %zu bytes, and it has %zu: set it to sizeof(%s)", name, size,
                    first_bytes, name);
}

psr_err psr_options_read(const char *name, const void *given, size_t first_bytes, void *ret_known,
                         size_t known_bytes)
{
    size_t size = 0;
    if (given == NULL) {
        memset(ret_known, 0, known_bytes);
        return PSR_OK;
    }
    memcpy(&size, given, sizeof size);
    PSR_TRY(check_size(name, size, first_bytes));
    const unsigned char *bytes = given;
    for (size_t i = known_bytes; i < size; i++)
        if (bytes[i] != 0)
            return psr_fail(
                PSR_ERR_USAGE,
                "%s: its size is %zu bytes, psring %s knows %zu, and byte %zu is not zero: it says "
                "something that this version does not know, or is not zeroed",
                name, size, PSR_VERSION, known_bytes, i);
    memset(ret_known, 0, known_bytes);
    memcpy(ret_known, given, size < known_bytes ? size : known_bytes);
    return PSR_OK;
}

psr_err psr_options_write(const char *name, const void *known, size_t known_bytes, void *ret,
                          size_t first_bytes)
{
    size_t size = 0;
    memcpy(&size, ret, sizeof size);
    PSR_TRY(check_size(name, size, first_bytes));
    unsigned char *to = ret;
    const unsigned char *from = known;
    size_t both = size < known_bytes ? size : known_bytes;
    memcpy(to + sizeof size, from + sizeof size, both - sizeof size);
    memset(to + both, 0, size - both);
    return PSR_OK;
}
