/* trace.json of a run directory: what all processes recorded in some steps (comm/trace/tracer.h),
 * as Chrome's trace format (an object with traceEvents), which Perfetto and chrome://tracing show.
 * It has a row for each thread of each process, and one for each worker's GPU in a run on GPUs.
 * Times are microseconds since START by the scheduler's clock; "otherData" says of each process how
 * far its clock was off and how sure that is. docs/seeing.md describes it.
 *
 * It is written beside its place as pieces come, and renamed when all are there, or no more can
 * come. So it is always whole JSON, or absent. One thread. */
#ifndef PSR_PS_SCHEDULER_TRACE_TRACE_FILE_H
#define PSR_PS_SCHEDULER_TRACE_TRACE_FILE_H

#include "base/config/config.h"
#include "comm/trace/trace_event.h"
#include "comm/view/view.h"
#include "model/networks/network.h"

typedef struct psr_trace_file psr_trace_file;

/* All borrowed for life. */
typedef struct psr_trace_file_options {
    const char *directory;    /* the run's */
    const psr_config *config; /* for what is said of the run */
    const psr_network *net;   /* whose layers are named */
    const psr_view *view;     /* its members have a row each */
    psr_traced_steps steps;   /* resolved */
    int64_t start_ns;         /* START, by the scheduler's clock */
    bool one_thread;          /* workers compute and exchange on one thread (--mode local) */
} psr_trace_file_options;

/* Makes the file beside its place. IO, NOMEM. The caller owns *ret_file: psr_trace_file_free. */
PSR_MUST_CHECK psr_err psr_trace_file_new(const psr_trace_file_options *options,
                                          psr_trace_file **ret_file);
/* Removes what is not in place. NULL allowed. */
void psr_trace_file_free(psr_trace_file *file);

/* Writes the events of one TRACE of a member. first: it is its first one. PROTOCOL: an event names
 * what the run does not have; nothing of the message is written then. IO. */
PSR_MUST_CHECK psr_err psr_trace_file_take(psr_trace_file *file, const psr_message *message,
                                           const psr_msg_trace *says, bool first,
                                           const psr_msg_limits *limits);
/* Of how many members the last piece has not come. */
uint32_t psr_trace_file_missing(const psr_trace_file *file);

/* Ends the file, flushes it to the disk and puts it in place. well: what has not come does not
 * exist; otherwise the file says under "missing" whose events are not all there. IO. */
PSR_MUST_CHECK psr_err psr_trace_file_end(psr_trace_file *file, bool well);

typedef struct psr_trace_figures {
    uint64_t events, dropped;
    uint64_t error_ns; /* of the clock that is least sure */
} psr_trace_figures;
psr_trace_figures psr_trace_file_figures(const psr_trace_file *file);

#endif
