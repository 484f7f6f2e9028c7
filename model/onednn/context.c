#include "model/onednn/context.h"

#include <omp.h>

void psr_onednn_threads_set(const psr_onednn_context *context)
{
    omp_set_dynamic(0);
    omp_set_num_threads((int)context->threads);
}

static psr_err open_engine(psr_onednn_context *context)
{
    dnnl_status_t status = dnnl_engine_create(&context->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&context->stream, context->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&context->attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(context->attr, dnnl_scratchpad_mode_user);
#if PSR_ONEDNN_DETERMINISTIC
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_deterministic(context->attr, 1);
#endif
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "the engine", "the processor");
}

/* Whether this processor and library have training in the compute type: asked of a small
 * convolution, since oneDNN has no other way to tell. */
static psr_err check_type(const psr_onednn_context *context)
{
    const dnnl_dims_t x = {1, 16, 8, 8}, w = {16, 16, 3, 3}, stride = {1, 1}, dilation = {0, 0},
                      pad = {1, 1};
    dnnl_memory_desc_t value = NULL, weights = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status =
        dnnl_memory_desc_create_with_tag(&value, 4, x, context->type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status =
            dnnl_memory_desc_create_with_tag(&weights, 4, w, context->type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = dnnl_convolution_forward_primitive_desc_create(
            &pd, context->engine, dnnl_forward_training, dnnl_convolution_direct, value, weights,
            NULL, value, stride, dilation, pad, pad, context->attr);
    if (status == dnnl_success)
        dnnl_primitive_desc_destroy(pd);
    if (weights != NULL)
        dnnl_memory_desc_destroy(weights);
    if (value != NULL)
        dnnl_memory_desc_destroy(value);
    if (status == dnnl_unimplemented)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--precision bf16: this processor has none of the instructions that oneDNN "
                        "%d.%d needs for it; fp32 runs everywhere",
                        dnnl_version()->major, dnnl_version()->minor);
    return status == dnnl_success ? PSR_OK
                                  : psr_onednn_fail(status, "a first convolution", "the processor");
}

psr_err psr_onednn_context_open(psr_precision precision, uint32_t threads,
                                psr_onednn_context *ret_context)
{
    if (precision == PSR_PRECISION_FP16)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--precision fp16: the oneDNN back end has fp32 and bf16");
    psr_onednn_context context = {.type = precision == PSR_PRECISION_BF16 ? dnnl_bf16 : dnnl_f32,
                                  .threads = threads,
                                  .layout = PSR_ONEDNN_OTHER};
    psr_onednn_threads_set(&context);
    psr_err err = open_engine(&context);
    if (err == PSR_OK)
        err = check_type(&context);
    if (err != PSR_OK) {
        psr_onednn_context_close(&context);
        return err;
    }
    *ret_context = context;
    return PSR_OK;
}

void psr_onednn_context_close(psr_onednn_context *context)
{
    if (context->attr != NULL)
        dnnl_primitive_attr_destroy(context->attr);
    if (context->stream != NULL)
        dnnl_stream_destroy(context->stream);
    if (context->engine != NULL)
        dnnl_engine_destroy(context->engine);
    *context = (psr_onednn_context){0};
}
