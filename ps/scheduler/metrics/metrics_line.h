/* A line of metrics as the scheduler passes it on. scheduler_run.c has checked it for all readers:
 * it is one printable JSON object, about a rank that the sender may report, and about that rank's
 * next step. Borrowed for the call. */
#ifndef PSR_PS_SCHEDULER_METRICS_METRICS_LINE_H
#define PSR_PS_SCHEDULER_METRICS_METRICS_LINE_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_metrics_line {
    uint32_t worker; /* the sender */
    uint32_t rank;   /* the rank that it is about: the sender, or in --mode local any rank */
    uint64_t step;
    const char *text; /* without a newline */
    size_t size;
    const cJSON *fields;
} psr_metrics_line;

#endif
