/* Stores that bypass the caches. A normal store first reads the cache line that it writes; a
 * bypassing store of a whole line does not. For an array that no cache holds and that nobody reads
 * soon, this saves a third of the memory traffic of a copy, and a fourth of that of a sum of two
 * arrays. Any thread. */
#ifndef PSR_BASE_ARRAYS_STREAM_H
#define PSR_BASE_ARRAYS_STREAM_H

#include <stddef.h>

/* The size in bytes from which on this pays, where two cores write the array in turn. Caches keep a
 * part of a smaller array, and bypassing stores would evict it: copies of 16 MiB take half as long
 * again. */
#define PSR_STREAM_LEAST ((size_t)32 << 20)

/* out[i] = x[i]. The arrays must not overlap. It ends with a store fence: whatever this thread
 * publishes afterwards is seen after these stores. */
void psr_stream_copy(float *restrict out, const float *restrict x, size_t count);

/* The same for bytes, which may lie anywhere. */
void psr_stream_bytes(void *restrict out, const void *restrict from, size_t bytes);

#endif
