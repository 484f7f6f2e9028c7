/* Stores past the caches. A store first reads the line that it writes, unless all of the line goes to memory as it is: of an array that no cache
 * holds, and that nobody reads soon, a fourth of what a sum of two moves is saved so, and a third of what a copy does. Any thread. */
#ifndef PSR_BASE_STREAM_H
#define PSR_BASE_STREAM_H

#include <stddef.h>

/* Bytes of an array from which on that pays, where two cores write all of it in turn. Of smaller ones caches keep a part, which it throws out: copies
 * of 16 MiB take half as long again. */
#define PSR_STREAM_LEAST ((size_t)32 << 20)

/* out[i] = x[i]. Must not overlap. What is done after it, on any processor that hears of that, comes after all of its stores. */
void psr_stream_copy(float *restrict out, const float *restrict x, size_t count);

#endif
