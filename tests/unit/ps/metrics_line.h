/* A line of metrics out of its text, as the scheduler hands it on. Include after cmocka.h. */
#ifndef PSR_TESTS_METRICS_LINE_H
#define PSR_TESTS_METRICS_LINE_H

#include "ps/scheduler/metrics/metrics_line.h"

#include <string.h>

/* json is borrowed. ret owns: free_metrics_line. */
static psr_metrics_line read_metrics_line(uint32_t worker, const char *json)
{
    cJSON *fields = cJSON_Parse(json);
    assert_non_null(fields);
    return (psr_metrics_line){
        .worker = worker,
        .rank = (uint32_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(fields, "rank")),
        .step = (uint64_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(fields, "step")),
        .text = json,
        .size = strlen(json),
        .fields = fields,
    };
}

static void free_metrics_line(psr_metrics_line *line)
{
    cJSON_Delete((cJSON *)(uintptr_t)line->fields);
}

#endif
