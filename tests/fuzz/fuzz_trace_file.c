/* A trace.json from elsewhere, as psring report reads it. What it takes has finite times that do
 * not end before they begin, processes that exist, and steps around the one in the middle. */
#include "deploy/report/step_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const psr_step_trace *trace)
{
    double exchange_us, exposed_us;
    for (size_t i = 0; i < trace->span_count; i++) {
        const psr_step_span *span = &trace->spans[i];
        if (span->process >= trace->process_count || span->part >= PSR_STEP_PARTS ||
            span->step + 1 < trace->step || span->step > trace->step + 1 ||
            !isfinite(span->begin_us) || !isfinite(span->end_us) ||
            !(span->begin_us <= span->end_us) ||
            memchr(span->name, '\0', sizeof span->name) == NULL)
            abort();
    }
    for (uint32_t p = 0; p < trace->process_count; p++)
        if (psr_step_trace_exchange(trace, p, &exchange_us, &exposed_us) &&
            !(exchange_us >= 0 && exposed_us >= 0))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_step_trace trace;
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (psr_step_trace_parse("fuzz", text, size, &trace) == PSR_OK) {
        check(&trace);
        psr_step_trace_done(&trace);
    } else if (psr_err_detail()[0] == '\0') {
        abort();
    }
    free(text);
    return 0;
}
