#include "model/played/profile.h"

#include "base/system/file.h"
#include "base/text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROFILE_BYTES_MAX (16u << 20)
#define TENSORS_MAX 100000
#define TIME_MOST_S 3600

/* ---- reading ---- */

static bool take_text(const cJSON *object, const char *name, char *to, size_t size)
{
    const char *text = psr_json_text(object, name);
    if (text == NULL || strlen(text) >= size)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static bool take_time(const cJSON *object, const char *name, double *ret_s)
{
    const double value = psr_json_number(object, name, NAN);
    if (!(value >= 0 && value <= TIME_MOST_S))
        return false;
    *ret_s = value;
    return true;
}

static psr_err read_tensor(const cJSON *object, size_t index, psr_profile_tensor *to)
{
    const double bytes = psr_json_number(object, "bytes", NAN);
    if (!take_text(object, "name", to->name, sizeof to->name) || to->name[0] == '\0')
        return psr_fail(PSR_ERR_FORMAT, "tensor %zu has no name, or one of more than %d bytes",
                        index, PSR_TENSOR_NAME_MAX - 1);
    if (!(bytes >= 4 && bytes <= 0x1p50 && fmod(bytes, 4) == 0))
        return psr_fail(PSR_ERR_FORMAT, "tensor %s: bytes is not a multiple of 4 above 0",
                        to->name);
    to->bytes = (uint64_t)bytes;
    if (!take_time(object, "forward_s", &to->forward_s) ||
        !take_time(object, "backward_s", &to->backward_s))
        return psr_fail(PSR_ERR_FORMAT,
                        "tensor %s: forward_s and backward_s are seconds, from 0 to %d", to->name,
                        TIME_MOST_S);
    return PSR_OK;
}

static psr_err read_tensors(const cJSON *array, psr_profile *p)
{
    const int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;
    if (count == 0 || count > TENSORS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "tensors is not a list of 1 to %d", TENSORS_MAX);
    p->tensors = calloc((size_t)count, sizeof *p->tensors);
    if (p->tensors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %d tensors", count);
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        PSR_TRY(read_tensor(item, p->count, &p->tensors[p->count]));
        p->count++;
    }
    return PSR_OK;
}

static psr_err read_json(const cJSON *json, psr_profile *p)
{
    const char *format = psr_json_text(json, "format");
    if (format == NULL || strcmp(format, PSR_PROFILE_FORMAT) != 0)
        return psr_fail(PSR_ERR_FORMAT, "no JSON object with \"format\": \"%s\"",
                        PSR_PROFILE_FORMAT);
    if (!psr_json_is_printable(json))
        return psr_fail(PSR_ERR_FORMAT, "it holds control characters");
    if (!take_text(json, "network", p->network, sizeof p->network) ||
        !take_text(json, "machine", p->machine, sizeof p->machine))
        return psr_fail(PSR_ERR_FORMAT, "network or machine is missing, or too long");
    if (!psr_json_count(json, "batch", 1u << 20, &p->batch) || p->batch == 0 ||
        !psr_json_count(json, "threads", 1024, &p->threads))
        return psr_fail(PSR_ERR_FORMAT, "batch or threads is missing, or no such number");
    if (!take_time(json, "rest_s", &p->rest_s))
        return psr_fail(PSR_ERR_FORMAT, "rest_s is not seconds, from 0 to %d", TIME_MOST_S);
    return read_tensors(cJSON_GetObjectItemCaseSensitive(json, "tensors"), p);
}

psr_err psr_profile_read(const char *path, psr_profile *ret_profile)
{
    psr_profile p = {.count = 0};
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, PROFILE_BYTES_MAX, &text, &size));
    cJSON *json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    psr_err err = read_json(json, &p);
    cJSON_Delete(json);
    if (err != PSR_OK) {
        psr_profile_done(&p);
        return psr_fail_context(err, "%s", path);
    }
    *ret_profile = p;
    return PSR_OK;
}

void psr_profile_done(psr_profile *profile)
{
    free(profile->tensors);
    *profile = (psr_profile){0};
}

/* ---- writing ---- */

psr_err psr_profile_write(const char *path, const psr_profile *p)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "format", PSR_PROFILE_FORMAT);
    cJSON_AddStringToObject(json, "network", p->network);
    cJSON_AddStringToObject(json, "machine", p->machine);
    cJSON_AddNumberToObject(json, "batch", p->batch);
    cJSON_AddNumberToObject(json, "threads", p->threads);
    cJSON_AddNumberToObject(json, "rest_s", p->rest_s);
    cJSON *tensors = cJSON_AddArrayToObject(json, "tensors");
    for (size_t i = 0; i < p->count; i++) {
        cJSON *tensor = cJSON_CreateObject();
        cJSON_AddStringToObject(tensor, "name", p->tensors[i].name);
        cJSON_AddNumberToObject(tensor, "bytes", (double)p->tensors[i].bytes);
        cJSON_AddNumberToObject(tensor, "forward_s", p->tensors[i].forward_s);
        cJSON_AddNumberToObject(tensor, "backward_s", p->tensors[i].backward_s);
        if (!cJSON_AddItemToArray(tensors, tensor)) {
            cJSON_Delete(tensor);
            tensors = NULL;
            break;
        }
    }
    char *text = tensors != NULL ? cJSON_Print(json) : NULL;
    cJSON_Delete(json);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a profile");
    psr_err err = psr_file_write_atomic(path, text, strlen(text));
    free(text);
    return err;
}

/* ---- use ---- */

uint64_t psr_profile_tensor_bytes(const psr_tensor *tensor)
{
    return tensor->count * sizeof(float);
}

psr_err psr_profile_fits(const psr_profile *p, const char *path, const psr_layout *params)
{
    if (p->count != params->tensor_count)
        return psr_fail(PSR_ERR_MISMATCH,
                        "%s is of %s, with %zu tensors; the network has %zu: record one of this "
                        "--model",
                        path, p->network, p->count, params->tensor_count);
    for (size_t i = 0; i < p->count; i++) {
        const psr_tensor *t = &params->tensors[i];
        if (strcmp(p->tensors[i].name, t->name) == 0 &&
            p->tensors[i].bytes == psr_profile_tensor_bytes(t))
            continue;
        return psr_fail(PSR_ERR_MISMATCH,
                        "%s is of %s: its tensor %zu is %s of %" PRIu64
                        " bytes, the network's %s of %" PRIu64
                        "; --model, --classes and the images must "
                        "be those that were recorded",
                        path, p->network, i, p->tensors[i].name, p->tensors[i].bytes, t->name,
                        psr_profile_tensor_bytes(t));
    }
    return PSR_OK;
}

double psr_profile_step_s(const psr_profile *profile)
{
    double sum = profile->rest_s;
    for (size_t i = 0; i < profile->count; i++)
        sum += profile->tensors[i].forward_s + profile->tensors[i].backward_s;
    return sum;
}
