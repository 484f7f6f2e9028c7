/* Numbers as the fixed parts of the wire have them: the most significant byte first. */
#ifndef PSR_NET_BIG_ENDIAN_H
#define PSR_NET_BIG_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

static inline void psr_put_be(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static inline uint64_t psr_get_be(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

#endif
