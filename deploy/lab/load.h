/* How busy this machine is while a lab runs, and whether the lab's result is the lab's or this
 * machine's.
 *
 * The processors that this process may use are looked at four times a second. A stretch in which
 * they were busy for more than 90% is one in which this machine was the limit: somebody may have
 * waited for a processor that the emulated hosts would have had. A result may be wrong by as much
 * as the share of such stretches, so it is invalid from 5% on. It is invalid too if a packet was
 * lost where the lab has no queue: at a host's own end of a link, or in the kernel's input queues.
 * And it is if it was too short to tell. Any thread. */
#ifndef PSR_DEPLOY_LAB_LOAD_H
#define PSR_DEPLOY_LAB_LOAD_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_LAB_SAMPLE_MS 250
#define PSR_LAB_SATURATED_BUSY 0.9
#define PSR_LAB_SATURATED_MOST 0.05
#define PSR_LAB_SAMPLES_LEAST 8 /* two seconds */

/* Of this machine since it was started. */
typedef struct psr_lab_ticks {
    uint64_t busy, all; /* of the processors, in the kernel's ticks; stolen time is busy */
    uint64_t input_drops;
} psr_lab_ticks;

/* From the texts of /proc/stat and /proc/net/softnet_stat. uses: whether this process may use the
 * processor of that number; NULL: it may use all. FORMAT. */
PSR_MUST_CHECK psr_err psr_lab_ticks_parse(const char *stat, const char *softnet,
                                           bool (*uses)(const void *context, unsigned processor),
                                           const void *context, psr_lab_ticks *ret_ticks);
/* Now, of the processors that this process may use. IO, FORMAT. */
PSR_MUST_CHECK psr_err psr_lab_ticks_read(psr_lab_ticks *ret_ticks);

typedef struct psr_lab_sample {
    double unix_s; /* when it ended */
    float busy;    /* share of the time since the one before */
} psr_lab_sample;

typedef struct psr_lab_load {
    psr_lab_sample *samples; /* owned */
    size_t count;
    psr_lab_ticks first, last;
} psr_lab_load;

/* Adds what has happened since the last call; the first call of all begins. NOMEM. */
PSR_MUST_CHECK psr_err psr_lab_load_add(psr_lab_load *load, const psr_lab_ticks *now,
                                        double unix_s);
void psr_lab_load_done(psr_lab_load *load);

typedef struct psr_lab_load_figures {
    double seconds;
    double busy_share, saturated_share; /* 0 to 1 */
    size_t samples;
    uint64_t input_drops; /* of the whole time */
} psr_lab_load_figures;

/* In seconds since 1970. */
typedef struct psr_lab_span {
    double from_s, to_s;
} psr_lab_span;

/* Of the samples that ended within any of the spans. */
void psr_lab_load_figures_of(const psr_lab_load *load, const psr_lab_span *spans, size_t count,
                             psr_lab_load_figures *ret_figures);

/* Whether the result is the lab's. why: what was wrong, in words for a person, "" if it is. */
#define PSR_LAB_WHY_BYTES 256
bool psr_lab_is_valid(const psr_lab_load_figures *figures, uint64_t host_drops,
                      char why[PSR_LAB_WHY_BYTES]);

#endif
