/* --trace: which steps of a run are traced. */
#include "base/config/config_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What --trace alone means: so many steps, after so many first ones in which caches and connections
 * are cold. */
enum { AUTO_STEPS = 3, AUTO_SKIPS = 10 };

psr_err psr_config_read_trace(psr_config *config, const char *text)
{
    psr_trace_range range = {.on = text[0] != '\0'};
    char first[24] = "";
    const char *hyphen = strchr(text, '-');
    const size_t length = hyphen != NULL ? (size_t)(hyphen - text) : strlen(text);
    if (range.on && strcmp(text, "auto") != 0) {
        if (length >= sizeof first)
            goto refuse;
        memcpy(first, text, length);
        if (!psr_parse_u64(first, &range.first) ||
            !psr_parse_u64(hyphen != NULL ? hyphen + 1 : first, &range.last) || range.first == 0 ||
            range.last < range.first || range.last > PSR_TRACE_STEP_MAX)
            goto refuse;
        range.chosen = true;
    }
    config->trace = range;
    return PSR_OK;

refuse:
    return psr_fail(PSR_ERR_USAGE,
                    "'%.64s' is no range of steps; give FIRST-LAST, from step 1 on (11-13), or "
                    "leave it out for three steps",
                    text);
}

void psr_config_print_trace(const psr_config *config, char *text, size_t size)
{
    const psr_trace_range *range = &config->trace;
    if (!range->on || !range->chosen)
        snprintf(text, size, "%s", range->on ? "auto" : "");
    else
        snprintf(text, size, "%" PRIu64 "-%" PRIu64, range->first, range->last);
}

psr_err psr_config_traced_steps(const psr_config *config, uint64_t first_step, uint64_t total_steps,
                                psr_traced_steps *ret_steps)
{
    const psr_trace_range *range = &config->trace;
    const uint64_t own = total_steps > first_step ? total_steps - first_step : 0;
    psr_traced_steps steps = {0};
    if (range->chosen) {
        if (range->first <= first_step || range->last > total_steps)
            return psr_fail(PSR_ERR_USAGE,
                            "--trace %" PRIu64 "-%" PRIu64 ": this run takes steps %" PRIu64
                            " to %" PRIu64 "; give some of these",
                            range->first, range->last, first_step + 1, total_steps);
        steps = (psr_traced_steps){range->first - 1, range->last - range->first + 1};
    } else if (range->on) {
        const uint64_t count = own < AUTO_STEPS ? own : AUTO_STEPS;
        const uint64_t skips = own - count < AUTO_SKIPS ? own - count : AUTO_SKIPS;
        steps = (psr_traced_steps){first_step + skips, count};
    }
    *ret_steps = steps;
    return PSR_OK;
}
