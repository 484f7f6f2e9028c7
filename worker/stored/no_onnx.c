/* Of a build without protobuf-c. */
#include "worker/stored/onnx.h"

psr_err psr_onnx_make(const psr_onnx_options *options, void **ret_bytes, size_t *ret_size)
{
    (void)options, (void)ret_bytes, (void)ret_size;
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "--to onnx: this psring was built without protobuf-c; give --to safetensors");
}
