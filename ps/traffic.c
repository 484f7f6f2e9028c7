#include "ps/traffic.h"

#include "base/text/json_fields.h"

psr_err psr_traffic_to_json(const psr_traffic *traffic, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "gradient_bytes", traffic->gradient_bytes);
    psr_fields_put_number(&w, "weight_bytes", traffic->weight_bytes);
    return psr_fields_finish(&w, ret_json);
}

psr_err psr_traffic_from_json(psr_bytes json, psr_traffic *ret_traffic)
{
    cJSON *object = NULL;
    psr_traffic traffic = {0};
    PSR_TRY(psr_fields_parse(json.data, json.size, &object));
    psr_err err = psr_fields_number(object, "gradient_bytes", UINT64_MAX, &traffic.gradient_bytes);
    if (err == PSR_OK)
        err = psr_fields_number(object, "weight_bytes", UINT64_MAX, &traffic.weight_bytes);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_traffic = traffic;
    return err;
}
