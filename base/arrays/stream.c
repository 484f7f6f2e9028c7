#include "base/arrays/stream.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__

#include <emmintrin.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* Writes whole cache lines of out. from may be unaligned. */
static void stream_lines(uint8_t *restrict out, const uint8_t *restrict from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(__m128i)) {
        const __m128i *at = (const __m128i *)(const void *)(from + i);
        _mm_stream_si128((__m128i *)(void *)(out + i), _mm_loadu_si128(at));
    }
    _mm_sfence(); /* a mutex, for example, does not order these stores as it orders others */
}

void psr_stream_bytes(void *restrict out, const void *restrict from, size_t bytes)
{
    uint8_t *to = out;
    const uint8_t *x = from;
    size_t before = -(uintptr_t)to % LINE;
    if (before > bytes)
        before = bytes;
    const size_t lines = (bytes - before) / LINE * LINE, rest = before + lines;
    memcpy(to, x, before);
    stream_lines(to + before, x + before, lines);
    memcpy(to + rest, x + rest, bytes - rest);
}

#else

void psr_stream_bytes(void *restrict out, const void *restrict from, size_t bytes)
{
    memcpy(out, from, bytes);
}

#endif

void psr_stream_copy(float *restrict out, const float *restrict x, size_t count)
{
    psr_stream_bytes(out, x, count * sizeof *out);
}
