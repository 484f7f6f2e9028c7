/* The figures of a run in Prometheus' text format 0.0.4, which is described at
 * https://prometheus.io/docs/instrumenting/exposition_formats/. Made from the lines of metrics of
 * all ranks: gauges have a rank's newest value, counters what its lines add up to since this
 * process began. A value that no line has yet is left out. Any thread: what takes a line waits only
 * while another thread copies the figures, never while it writes them as text. */
#ifndef PSR_PS_SCHEDULER_PROMETHEUS_EXPOSITION_H
#define PSR_PS_SCHEDULER_PROMETHEUS_EXPOSITION_H

#include "base/err.h"
#include "ps/scheduler/metrics/metrics_line.h"

#define PSR_EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef struct psr_exposition psr_exposition;

typedef struct psr_exposition_about {
    const char *run; /* its directory, the label `run` of every sample; any bytes; copied */
    const char *mode, *model; /* copied */
    uint32_t workers, shards;
    uint64_t planned_steps;
} psr_exposition_about;

/* Without a run yet. The caller owns *ret_exposition. NOMEM. */
PSR_MUST_CHECK psr_err psr_exposition_new(uint32_t ranks, psr_exposition **ret_exposition);
/* NULL allowed. */
void psr_exposition_free(psr_exposition *exposition);

/* All have joined. Called once. NOMEM. */
PSR_MUST_CHECK psr_err psr_exposition_begin(psr_exposition *exposition,
                                            const psr_exposition_about *about);
/* A line of a rank below ranks. */
void psr_exposition_take(psr_exposition *exposition, const psr_metrics_line *line);

/* All of it as text. The caller owns *ret_text: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_exposition_print(psr_exposition *exposition, char **ret_text,
                                            size_t *ret_size);

#endif
