/* The vectors that image_lanes_kernel.h and winograd_kernel.h compute with. Each of these includes
 * this file once for each width, with LANES, TARGET and KERNEL defined, and undefines VECTOR,
 * INLINE and LOOP at its end. Loads and stores may be unaligned. */

typedef float KERNEL(vector) __attribute__((vector_size(4 * LANES)));
#define VECTOR KERNEL(vector)
#define INLINE static inline __attribute__((always_inline))
#define LOOP TARGET static

INLINE void KERNEL(load)(VECTOR *ret, const float *from)
{
    memcpy(ret, from, sizeof *ret);
}

INLINE void KERNEL(store)(float *to, const VECTOR *value)
{
    memcpy(to, value, sizeof *value);
}
