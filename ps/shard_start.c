#include "ps/shard_start.h"

#include "base/config/pace_json.h"
#include "base/text/json_fields.h"
#include "model/layout_json.h"

psr_err psr_shard_start_to_json(const psr_shard_start *start, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "first_step", start->first_step);
    psr_fields_put_number(&w, "total_steps", start->total_steps);
    if (start->skipped_steps > 0)
        psr_fields_put_number(&w, "skipped_steps", start->skipped_steps);
    psr_pace_put(&w, &start->pace);
    psr_fields_put_item(&w, "layout", psr_layout_to_json_array(&start->layout));
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_start(const cJSON *object, psr_shard_start *start)
{
    PSR_TRY(psr_fields_number(object, "first_step", UINT64_MAX, &start->first_step));
    PSR_TRY(psr_fields_number(object, "total_steps", UINT64_MAX, &start->total_steps));
    if (cJSON_HasObjectItem(object, "skipped_steps"))
        PSR_TRY(
            psr_fields_number(object, "skipped_steps", start->first_step, &start->skipped_steps));
    PSR_TRY(psr_pace_take(object, &start->pace));
    return psr_layout_from_json_array(cJSON_GetObjectItemCaseSensitive(object, "layout"),
                                      &start->layout);
}

psr_err psr_shard_start_from_json(psr_bytes json, psr_shard_start *ret_start)
{
    cJSON *object = NULL;
    psr_shard_start start = {0};
    PSR_TRY(psr_fields_parse(json.data, json.size, &object));
    psr_err err = read_start(object, &start);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_start = start;
    return err;
}

void psr_shard_start_done(psr_shard_start *start)
{
    psr_layout_done(&start->layout);
}
