#include "worker/start/gpu.h"

#include "base/log.h"
#include "base/text/json_fields.h"
#include "base/text/printable.h"
#include "model/cuda/linked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char psr_gpu_program[] = "psring-worker-cuda";

static psr_err describe(char **ret_json)
{
    psr_cuda_devices cuda;
    psr_fields_writer w = psr_fields_begin();
    psr_cuda_look(&cuda);
    psr_fields_put_text(&w, "version", PSR_VERSION);
    psr_fields_put_text(&w, "devices", cuda.devices);
    psr_fields_put_text(&w, "libraries", cuda.libraries);
    psr_fields_put_text(&w, "missing", cuda.missing);
    return psr_fields_finish(&w, ret_json);
}

bool psr_gpu_begin(int count, char **words, int *ret_status)
{
    char *json = NULL;
    psr_cuda_offer(psr_cuda_linked());
    if (count != 1 || strcmp(words[0], "devices") != 0)
        return false;
    const psr_err err = describe(&json);
    if (err == PSR_OK)
        psr_print(stdout, "%s\n", json);
    else
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    free(json);
    *ret_status = psr_err_exit_status(err);
    return true;
}

psr_err psr_gpu_enter(const char *device, char *const *words)
{
    (void)device;
    (void)words;
    return PSR_OK;
}
