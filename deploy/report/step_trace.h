/* One step of a run out of its trace.json (docs/seeing.md): the step in the middle of the traced
 * ones, with what lies around it of the steps before and after. The file may come from elsewhere:
 * print its texts through base/text/printable.h. Plain data. */
#ifndef PSR_DEPLOY_STEP_TRACE_H
#define PSR_DEPLOY_STEP_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_STEP_NAME_BYTES 64
#define PSR_STEP_NO_BUCKET UINT32_MAX

/* What a span is part of: the categories of trace.json that are drawn. */
typedef enum psr_step_part {
    PSR_STEP_WHOLE, /* from the step's beginning to the end of its backward pass */
    PSR_STEP_FORWARD,
    PSR_STEP_BACKWARD,
    PSR_STEP_WAIT,
    PSR_STEP_BUCKET, /* a bucket under way in a worker */
    PSR_STEP_SEND,
    PSR_STEP_RECEIVE,
    PSR_STEP_FOLD, /* with the update, if it has one */
    PSR_STEP_UPDATE,
    PSR_STEP_PARTS
} psr_step_part;

typedef struct psr_step_process {
    uint32_t pid; /* of the file */
    uint32_t rank;
    bool is_shard; /* otherwise a worker */
} psr_step_process;

typedef struct psr_step_span {
    uint32_t process; /* index of psr_step_trace.processes */
    psr_step_part part;
    uint32_t bucket; /* PSR_STEP_NO_BUCKET: of none */
    uint64_t step;
    double begin_us, end_us; /* since START; finite, begin <= end */
    char name[PSR_STEP_NAME_BYTES];
} psr_step_span;

typedef struct psr_step_trace {
    psr_step_process *processes; /* owned; workers first, by rank */
    size_t process_count;
    psr_step_span *spans; /* owned; by process, part, bucket, step and beginning */
    size_t span_count;
    uint64_t step; /* from 1 */
} psr_step_trace;

/* Reads DIRECTORY/trace.json. NOT_FOUND: the run has none. IO; FORMAT: it is no trace as psring
 * train writes it (the detail says where); NOMEM. The caller owns *ret_trace:
 * psr_step_trace_done. */
PSR_MUST_CHECK psr_err psr_step_trace_read(const char *directory, psr_step_trace *ret_trace);
/* The same of a file's content, which is borrowed for the call and ends with a zero byte behind
 * size. path: for errors. */
PSR_MUST_CHECK psr_err psr_step_trace_parse(const char *path, const char *text, size_t size,
                                            psr_step_trace *ret_trace);
void psr_step_trace_done(psr_step_trace *trace);

/* What a worker's exchange of the step took, in us. exposed: of it, what the compute thread waited
 * for weights. False: the worker has no bucket of the step. */
bool psr_step_trace_exchange(const psr_step_trace *trace, uint32_t process, double *ret_us,
                             double *ret_exposed_us);

#endif
