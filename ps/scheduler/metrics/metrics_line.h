/* A line of metrics as the scheduler hands it on. scheduler_run.c has checked it, once for all who
 * read it: one printable JSON object, of a rank that the sender may speak for, and of that rank's
 * next step. Borrowed for the call. */
#ifndef PSR_PS_SCHEDULER_METRICS_METRICS_LINE_H
#define PSR_PS_SCHEDULER_METRICS_METRICS_LINE_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_metrics_line {
    uint32_t worker; /* who sent it */
    uint32_t rank;   /* of whom it tells: the same, or in --mode local any */
    uint64_t step;
    const char *text; /* without end */
    size_t size;
    const cJSON *fields;
} psr_metrics_line;

#endif
