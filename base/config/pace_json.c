#include "base/config/pace_json.h"

void psr_pace_put(psr_fields_writer *w, const psr_pace *pace)
{
    char text[PSR_PACE_TEXT_MAX];
    if (pace->epoch_steps == 0)
        return;
    psr_pace_print(pace, text);
    psr_fields_put_text(w, "pace", text);
}

psr_err psr_pace_take(const cJSON *object, psr_pace *ret_pace)
{
    char text[PSR_PACE_TEXT_MAX];
    if (cJSON_GetObjectItemCaseSensitive(object, "pace") == NULL) {
        *ret_pace = (psr_pace){0};
        return PSR_OK;
    }
    PSR_TRY(psr_fields_text(object, "pace", text, sizeof text));
    return psr_pace_read(text, ret_pace);
}
