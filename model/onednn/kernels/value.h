/* Element i of an array of float32 or bf16, whichever type says. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_VALUE_H
#define PSR_MODEL_ONEDNN_KERNELS_VALUE_H

#include "model/onednn/compat.h"
#include "model/onednn/kernels/bf16.h"

#include <stddef.h>

static inline float psr_value_load(dnnl_data_type_t type, const void *data, size_t i)
{
    return type == dnnl_bf16 ? psr_bf16_to_float(((const uint16_t *)data)[i])
                             : ((const float *)data)[i];
}

static inline void psr_value_store(dnnl_data_type_t type, void *data, size_t i, float value)
{
    if (type == dnnl_bf16)
        ((uint16_t *)data)[i] = psr_bf16_from_float(value);
    else
        ((float *)data)[i] = value;
}

#endif
