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

/* Written anew, on one line: a library's text goes to no terminal as it is. */
static psr_err rewrite(const char *text, char **ret_json)
{
    cJSON *object = NULL;
    if (psr_fields_parse(text, strlen(text), &object) != PSR_OK)
        return psr_fail_context(PSR_ERR_FORMAT, "cuDNN's properties of the GPU");
    *ret_json = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    return *ret_json != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for JSON");
}

static psr_err tell_properties(const char *word, char **ret_json)
{
    char *end = NULL, *text = NULL;
    const unsigned long index = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end != '\0' || index > 9999)
        return psr_fail(PSR_ERR_USAGE, "properties: '%.40s' is no number of a GPU", word);
    PSR_TRY(psr_cuda_properties((uint32_t)index, &text));
    const psr_err err = rewrite(text, ret_json);
    free(text);
    return err;
}

bool psr_gpu_begin(int count, char **words, int *ret_status)
{
    char *json = NULL;
    psr_err err;
    psr_cuda_offer(psr_cuda_linked());
    if (count == 1 && strcmp(words[0], "devices") == 0)
        err = describe(&json);
    else if (count == 2 && strcmp(words[0], "properties") == 0)
        err = tell_properties(words[1], &json);
    else
        return false;
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
