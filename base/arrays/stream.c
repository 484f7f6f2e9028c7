#include "base/arrays/stream.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__

#include <emmintrin.h>

enum { LINE = 16 }; /* floats of a cache line */

/* Writes whole cache lines of out. x may be unaligned. */
static void stream_lines(float *restrict out, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i += 4)
        _mm_stream_ps(out + i, _mm_loadu_ps(x + i));
    _mm_sfence(); /* a mutex, for example, does not order these stores as it orders others */
}

void psr_stream_copy(float *restrict out, const float *restrict x, size_t count)
{
    size_t before = -((uintptr_t)out / sizeof *out) % LINE;
    if (before > count)
        before = count;
    size_t lines = (count - before) / LINE * LINE;
    memcpy(out, x, before * sizeof *out);
    stream_lines(out + before, x + before, lines);
    memcpy(out + before + lines, x + before + lines, (count - before - lines) * sizeof *out);
}

#else

void psr_stream_copy(float *restrict out, const float *restrict x, size_t count)
{
    memcpy(out, x, count * sizeof *out);
}

#endif
