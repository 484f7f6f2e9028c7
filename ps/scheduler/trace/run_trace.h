/* What the scheduler does for --trace while a run goes on: answers members that ask for its clock,
 * and writes what they send to trace.json (ps/scheduler/trace/trace_file.h). A file that cannot be
 * written costs a line, not the run. In place; one thread. */
#ifndef PSR_PS_SCHEDULER_TRACE_RUN_TRACE_H
#define PSR_PS_SCHEDULER_TRACE_RUN_TRACE_H

#include "ps/scheduler/trace/trace_file.h"

#define PSR_RUN_TRACE_LINE_MAX (PSR_PATH_MAX + 256)

typedef struct psr_run_trace {
    psr_trace_file_options options;
    uint64_t machine;
    bool on;              /* --trace, and the run has started */
    bool over;            /* the file is in place, or given up */
    psr_trace_file *file; /* owned; NULL: nothing has come yet, or it is over */
} psr_run_trace;

/* Without --trace it does nothing, then and later. options: as psr_trace_file_new's, borrowed for
 * life. */
void psr_run_trace_begin(psr_run_trace *trace, const psr_trace_file_options *options);

psr_head psr_run_trace_clock(const psr_run_trace *trace, const psr_msg_clock *asked);

/* Writes a piece. line: what a person should hear of it; "": nothing. PROTOCOL: an event is
 * impossible. */
PSR_MUST_CHECK psr_err psr_run_trace_take(psr_run_trace *trace, const psr_message *message,
                                          const psr_msg_trace *says, bool first,
                                          const psr_msg_limits *limits,
                                          char line[static PSR_RUN_TRACE_LINE_MAX]);

/* The run has ended. well: all members are done, so nothing more can come, and what has come is all
 * that there is. Otherwise the file says whose events are not all there; without any event there is
 * no file. line: as above. */
void psr_run_trace_end(psr_run_trace *trace, bool well, char line[static PSR_RUN_TRACE_LINE_MAX]);

#endif
