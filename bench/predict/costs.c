#include "bench/predict/costs.h"

#include "base/system/file.h"
#include "base/text/json_fields.h"

#include <math.h>
#include <stdlib.h>

#define FILE_BYTES_MAX ((size_t)1 << 16)

psr_err psr_costs_read(const char *path, psr_link_costs *ret_costs)
{
    psr_link_costs costs = {.message_s = 0};
    const struct {
        const char *name;
        double scale;
        double *into;
    } fields[] = {{"message_us", 1e-6, &costs.message_s},
                  {"copy_ns", 1e-9, &costs.copy_s_per_byte},
                  {"seal_ns", 1e-9, &costs.seal_s_per_byte},
                  {"fold_ns", 1e-9, &costs.fold_s_per_byte},
                  {"update_ns", 1e-9, &costs.update_s_per_byte}};
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, FILE_BYTES_MAX, &text, &size));
    cJSON *json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    psr_err err = PSR_OK;
    for (size_t i = 0; i < sizeof fields / sizeof *fields && err == PSR_OK; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, fields[i].name);
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > 1e6)
            err = psr_fail(PSR_ERR_FORMAT,
                           "%s: it has no %s from 0 to 1000000: make it with psring predict "
                           "--calibrate",
                           path, fields[i].name);
        else
            *fields[i].into = item->valuedouble * fields[i].scale;
    }
    cJSON_Delete(json);
    if (err == PSR_OK)
        *ret_costs = costs;
    return err;
}
