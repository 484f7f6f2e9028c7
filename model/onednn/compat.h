/* oneDNN 3's C API, supplied on version 2.
 *
 * The back end is written to version 3: opaque memory descriptors and one creation call per kind of
 * primitive. On version 2 (Debian 12 has 2.6.3) descriptors are plain structs and a primitive
 * descriptor is made in two calls; the functions below give those the names and signatures of
 * version 3. Only what the back end and its benchmark call is here. Include this instead of
 * dnnl.h. */
#ifndef PSR_MODEL_ONEDNN_COMPAT_H
#define PSR_MODEL_ONEDNN_COMPAT_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdbool.h>

#if DNNL_VERSION_MAJOR >= 3

#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 5
#define PSR_ONEDNN_DETERMINISTIC 1
#else
#define PSR_ONEDNN_DETERMINISTIC 0
#endif

#else

#include <stdlib.h>

#define PSR_ONEDNN_DETERMINISTIC 0

/* Version 2's struct under a name of its own, then version 3's names for pointers to it. */
typedef dnnl_memory_desc_t psr_dnnl2_desc;
#define dnnl_memory_desc_t psr_dnnl3_desc
#define const_dnnl_memory_desc_t psr_dnnl3_const_desc
typedef psr_dnnl2_desc *psr_dnnl3_desc;
typedef const psr_dnnl2_desc *psr_dnnl3_const_desc;

static inline dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *ret_desc,
                                                             int ndims, const dnnl_dims_t dims,
                                                             dnnl_data_type_t type,
                                                             dnnl_format_tag_t tag)
{
    psr_dnnl2_desc *desc = malloc(sizeof *desc);
    if (desc == NULL)
        return dnnl_out_of_memory;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(desc, ndims, dims, type, tag);
    if (status == dnnl_success)
        *ret_desc = desc;
    else
        free(desc);
    return status;
}

static inline dnnl_status_t dnnl_memory_desc_clone(dnnl_memory_desc_t *ret_desc,
                                                   const_dnnl_memory_desc_t from)
{
    psr_dnnl2_desc *desc = malloc(sizeof *desc);
    if (desc == NULL)
        return dnnl_out_of_memory;
    *desc = *from;
    *ret_desc = desc;
    return dnnl_success;
}

static inline dnnl_status_t dnnl_memory_desc_create_submemory(dnnl_memory_desc_t *ret_desc,
                                                              const_dnnl_memory_desc_t parent,
                                                              const dnnl_dims_t dims,
                                                              const dnnl_dims_t offsets)
{
    psr_dnnl2_desc *desc = malloc(sizeof *desc);
    if (desc == NULL)
        return dnnl_out_of_memory;
    dnnl_status_t status = dnnl_memory_desc_init_submemory(desc, parent, dims, offsets);
    if (status == dnnl_success)
        *ret_desc = desc;
    else
        free(desc);
    return status;
}

static inline dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t desc)
{
    free(desc);
    return dnnl_success;
}

static inline dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_prop_kind_t prop,
    dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t dst, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t pad_begin, const dnnl_dims_t pad_end,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &op, prop, algorithm, src, weights, bias, dst, strides, dilates, pad_begin, pad_end);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, NULL);
}

static inline dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_alg_kind_t algorithm,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t weights,
    const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t pad_begin, const dnnl_dims_t pad_end, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &op, algorithm, diff_src, weights, diff_dst, strides, dilates, pad_begin, pad_end);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, forward);
}

static inline dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_alg_kind_t algorithm,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t diff_weights,
    const_dnnl_memory_desc_t diff_bias, const_dnnl_memory_desc_t diff_dst,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t pad_begin,
    const dnnl_dims_t pad_end, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t op;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &op, algorithm, src, diff_weights, diff_bias, diff_dst, strides, dilates, pad_begin,
        pad_end);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, forward);
}

static inline dnnl_status_t dnnl_pooling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_prop_kind_t prop,
    dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst,
    const dnnl_dims_t strides, const dnnl_dims_t kernel, const dnnl_dims_t dilates,
    const dnnl_dims_t pad_begin, const dnnl_dims_t pad_end, const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t op;
    dnnl_status_t status = dnnl_pooling_v2_forward_desc_init(
        &op, prop, algorithm, src, dst, strides, kernel, dilates, pad_begin, pad_end);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, NULL);
}

static inline dnnl_status_t dnnl_pooling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_alg_kind_t algorithm,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst, const dnnl_dims_t strides,
    const dnnl_dims_t kernel, const dnnl_dims_t dilates, const dnnl_dims_t pad_begin,
    const dnnl_dims_t pad_end, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_v2_desc_t op;
    dnnl_status_t status = dnnl_pooling_v2_backward_desc_init(
        &op, algorithm, diff_src, diff_dst, strides, kernel, dilates, pad_begin, pad_end);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, forward);
}

static inline dnnl_status_t dnnl_inner_product_forward_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_prop_kind_t prop,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t dst, const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    dnnl_status_t status = dnnl_inner_product_forward_desc_init(&op, prop, src, weights, bias, dst);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, NULL);
}

static inline dnnl_status_t dnnl_inner_product_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, const_dnnl_memory_desc_t diff_src,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    dnnl_status_t status =
        dnnl_inner_product_backward_data_desc_init(&op, diff_src, weights, diff_dst);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, forward);
}

static inline dnnl_status_t dnnl_inner_product_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, const_dnnl_memory_desc_t src,
    const_dnnl_memory_desc_t diff_weights, const_dnnl_memory_desc_t diff_bias,
    const_dnnl_memory_desc_t diff_dst, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t op;
    dnnl_status_t status =
        dnnl_inner_product_backward_weights_desc_init(&op, src, diff_weights, diff_bias, diff_dst);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, forward);
}

static inline dnnl_status_t dnnl_batch_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_prop_kind_t prop,
    const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst, float epsilon, unsigned flags,
    const_dnnl_primitive_attr_t attr)
{
    (void)dst; /* version 2 gives the destination the source's description */
    dnnl_batch_normalization_desc_t op;
    dnnl_status_t status =
        dnnl_batch_normalization_forward_desc_init(&op, prop, src, epsilon, flags);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, NULL);
}

static inline dnnl_status_t dnnl_batch_normalization_backward_primitive_desc_create(
    dnnl_primitive_desc_t *ret_pd, dnnl_engine_t engine, dnnl_prop_kind_t prop,
    const_dnnl_memory_desc_t diff_src, const_dnnl_memory_desc_t diff_dst,
    const_dnnl_memory_desc_t src, float epsilon, unsigned flags,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    (void)diff_src;
    dnnl_batch_normalization_desc_t op;
    dnnl_status_t status =
        dnnl_batch_normalization_backward_desc_init(&op, prop, diff_dst, src, epsilon, flags);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret_pd, &op, attr, engine, forward);
}

#endif

static inline bool psr_onednn_has_avx2(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2;
}

/* Whether kernels of our own may have AVX2 and what comes with it: where oneDNN may. So what it is
 * held to holds for them too, and joining compares what they depend on. Their own question whether
 * the processor has the instructions remains, and is the only one on others than x86-64. */
static inline bool psr_onednn_allows_avx2(void)
{
#ifdef __x86_64__
    return psr_onednn_has_avx2();
#else
    return true;
#endif
}

/* Whether oneDNN takes its kernels for AVX-512: bf16 then, and blocks of 16 channels in float32;
 * else of 8. */
static inline bool psr_onednn_has_avx512(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

/* Whether oneDNN sums bf16 by AVX-512's dot products: AMX, where it may use it, is much faster. */
static inline bool psr_onednn_has_bf16_dots(void)
{
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16 &&
           (isa & dnnl_cpu_isa_avx512_core_amx) != dnnl_cpu_isa_avx512_core_amx;
}

#endif
