/* What the kernels are written in: the part of C that nvcc and the host's C compiler share, and the
 * few words of CUDA that they need, by macros. For nvcc these are CUDA's; for the host's compiler
 * they are functions of the emulation (tests/emulator/cuda/fibers.h), in which a kernel is a
 * function that is called for each thread.
 *
 *     PSR_KERNEL(add)                    the function; args is its struct
 *     {
 *         PSR_SHARED(float, sums, 256);  an array of the block's
 *         sums[PSR_THREAD] = ...;
 *         PSR_BARRIER();                 all threads of the block come here
 *
 * Included by *.cu alone. */
#ifndef PSR_MODEL_CUDA_DEVICE_H
#define PSR_MODEL_CUDA_DEVICE_H

#include "model/cuda/kernels/kernels.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* The most threads of a block: what shared arrays have room for. */
#define PSR_KERNEL_THREADS 256
/* So many blocks have room in one processor at once: a thread has up to 64 registers. */
#define PSR_KERNEL_BLOCKS 4

#ifdef __CUDACC__

#define PSR_KERNEL(name)                                                                           \
    extern "C" __global__ void __launch_bounds__(PSR_KERNEL_THREADS, PSR_KERNEL_BLOCKS)            \
        psr_kernel_##name(const __grid_constant__ psr_cuda_##name##_args args)
#define PSR_DEVICE static __device__ __forceinline__
#define PSR_SHARED(type, name, count) __shared__ type name[count]
#define PSR_BARRIER() __syncthreads()
#define PSR_THREAD (threadIdx.x)
#define PSR_THREADS (blockDim.x)
#define PSR_BLOCK (blockIdx.x)
#define PSR_BLOCKS (gridDim.x)
#define PSR_UNROLL _Pragma("unroll")
#define PSR_BITS(value) __float_as_uint(value)
#define PSR_FLOAT_OF(bits) __uint_as_float(bits)
/* a b + c, rounded once: for sums whose order is promised and whose bits are not. */
#define PSR_MULTIPLY_ADD(a, b, c) __fmaf_rn(a, b, c)
/* Any number of threads, of any block, write one value. */
#define PSR_WRITE_ALIKE(at, value) atomicExch(at, value)

#else

typedef struct psr_emulated_place {
    uint32_t thread, threads, block, blocks;
} psr_emulated_place;
extern _Thread_local psr_emulated_place psr_emulated_at;
void psr_emulated_barrier(const char *file, int line);
void *psr_emulated_shared(size_t bytes);

#define PSR_KERNEL(name) static void psr_kernel_##name(psr_cuda_##name##_args args)
#define PSR_DEVICE static inline
#define PSR_SHARED(type, name, count)                                                              \
    type *const name = (type *)psr_emulated_shared((count) * sizeof(type))
#define PSR_BARRIER() psr_emulated_barrier(__FILE__, __LINE__)
#define PSR_THREAD (psr_emulated_at.thread)
#define PSR_THREADS (psr_emulated_at.threads)
#define PSR_BLOCK (psr_emulated_at.block)
#define PSR_BLOCKS (psr_emulated_at.blocks)
#define PSR_UNROLL
static inline uint32_t psr_emulated_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } both = {.value = value};
    return both.bits;
}
static inline float psr_emulated_float(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } both = {.bits = bits};
    return both.value;
}
#define PSR_BITS(value) psr_emulated_bits(value)
#define PSR_FLOAT_OF(bits) psr_emulated_float(bits)
#define PSR_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define PSR_WRITE_ALIKE(at, value) __atomic_store_n(at, value, __ATOMIC_RELAXED)

#endif

/* for each i from 0 to count - 1, of which each thread of the grid takes every so-manieth. */
#define PSR_EACH(i, count)                                                                         \
    for (uint64_t i = (uint64_t)PSR_BLOCK * PSR_THREADS + PSR_THREAD; i < (count);                 \
         i += (uint64_t)PSR_BLOCKS * PSR_THREADS)

#endif
