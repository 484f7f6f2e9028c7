#include "ps/scheduler/trace/run_trace.h"

#include "comm/trace/tracer.h"

#include <inttypes.h>
#include <stdio.h>

void psr_run_trace_begin(psr_run_trace *trace, const psr_trace_file_options *options)
{
    *trace = (psr_run_trace){.options = *options, .on = options->steps.count > 0};
    if (trace->on)
        trace->machine = psr_trace_machine();
}

psr_head psr_run_trace_clock(const psr_run_trace *trace, const psr_msg_clock *asked)
{
    return psr_trace_answer_clock(asked, trace->machine);
}

static void give_up(psr_run_trace *trace, const char *why, char line[static PSR_RUN_TRACE_LINE_MAX])
{
    snprintf(line, PSR_RUN_TRACE_LINE_MAX, "no trace: %s", why);
    psr_trace_file_free(trace->file);
    trace->file = NULL;
    trace->over = true;
}

static void put_in_place(psr_run_trace *trace, bool well, char line[static PSR_RUN_TRACE_LINE_MAX])
{
    const psr_trace_figures f = psr_trace_file_figures(trace->file);
    const uint32_t missing = well ? 0 : psr_trace_file_missing(trace->file);
    if (psr_trace_file_end(trace->file, well) != PSR_OK) {
        give_up(trace, psr_err_detail(), line);
        return;
    }
    int used =
        snprintf(line, PSR_RUN_TRACE_LINE_MAX, "trace      %s/trace.json, %" PRIu64 " events",
                 trace->options.directory, f.events);
    if (f.error_ns > 0 && used > 0 && used < PSR_RUN_TRACE_LINE_MAX)
        used += snprintf(line + used, PSR_RUN_TRACE_LINE_MAX - (size_t)used,
                         "; clocks agree within %.1f us", (double)f.error_ns * 1e-3);
    if (f.dropped > 0 && used > 0 && used < PSR_RUN_TRACE_LINE_MAX)
        used += snprintf(line + used, PSR_RUN_TRACE_LINE_MAX - (size_t)used,
                         "; no room for %" PRIu64 " more: trace fewer steps", f.dropped);
    if (missing > 0 && used > 0 && used < PSR_RUN_TRACE_LINE_MAX)
        snprintf(line + used, PSR_RUN_TRACE_LINE_MAX - (size_t)used,
                 "; without %" PRIu32 " of %" PRIu32
                 " processes: the run ended before they had sent theirs",
                 missing, trace->options.view->member_count);
    psr_trace_file_free(trace->file);
    trace->file = NULL;
    trace->over = true;
}

psr_err psr_run_trace_take(psr_run_trace *trace, const psr_message *message,
                           const psr_msg_trace *says, bool first, const psr_msg_limits *limits,
                           char line[static PSR_RUN_TRACE_LINE_MAX])
{
    line[0] = '\0';
    if (trace->over)
        return PSR_OK;
    psr_err err = trace->file == NULL ? psr_trace_file_new(&trace->options, &trace->file) : PSR_OK;
    if (err == PSR_OK)
        err = psr_trace_file_take(trace->file, message, says, first, limits);
    if (err == PSR_ERR_PROTOCOL)
        return err;
    if (err != PSR_OK)
        give_up(trace, psr_err_detail(), line);
    else if (psr_trace_file_missing(trace->file) == 0)
        put_in_place(trace, true, line);
    return PSR_OK;
}

void psr_run_trace_end(psr_run_trace *trace, bool well, char line[static PSR_RUN_TRACE_LINE_MAX])
{
    line[0] = '\0';
    if (!trace->on || trace->over)
        return;
    const bool any = trace->file != NULL && psr_trace_file_figures(trace->file).events > 0;
    if (trace->file != NULL && (well || any))
        put_in_place(trace, well, line);
    else
        give_up(trace,
                well ? "the run ended before the steps of --trace"
                     : "the run ended before any process had sent its events",
                line);
}
