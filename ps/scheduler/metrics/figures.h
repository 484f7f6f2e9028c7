/* Computes the figures of a run (base/figures.h has the definitions) from what every worker tells:
 * its lines of metrics, and at the end its DONE. The only place that does; free of I/O and of
 * clocks. One thread.
 *
 * Each worker has a training clock, train_s of its lines: it begins at START, which all are told at
 * once, and stands still during evaluations and checkpoints. Those begin when all workers have come
 * to them, so the clocks of all agree, and the latest of them is the run's. */
#ifndef PSR_PS_SCHEDULER_METRICS_FIGURES_H
#define PSR_PS_SCHEDULER_METRICS_FIGURES_H

#include "base/config/config.h"
#include "base/err.h"
#include "base/figures.h"
#include "ps/scheduler/metrics/metrics_line.h"
#include "ps/traffic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_figures psr_figures;

typedef struct psr_figures_options {
    uint32_t workers, shards;
    /* worker 0's process computes all ranks in turn (--mode local), and mean and range are taken
     * over this one worker */
    bool in_turn;
    psr_mode mode;       /* of the first stretch */
    uint64_t first_step; /* steps completed before a resume */
    uint64_t total_steps;
} psr_figures_options;

/* The caller owns *ret_figures. NOMEM. */
PSR_MUST_CHECK psr_err psr_figures_new(const psr_figures_options *options,
                                       psr_figures **ret_figures);
/* NULL allowed. */
void psr_figures_free(psr_figures *figures);

/* Takes a line of metrics. Missing values and implausible numbers are left out. */
void psr_figures_take_metrics(psr_figures *figures, const psr_metrics_line *line);
/* The view of a stretch was sent: from first_step (from 0) on the run is in this mode. Stretches
 * that were announced from there on do not happen. Called before any line of the stretch's
 * steps. */
void psr_figures_stretch_decided(psr_figures *figures, psr_mode mode, uint64_t first_step);
/* The change to the stretch that begins at first_step has happened; no worker took a step for
 * pause_s seconds. */
void psr_figures_stretch_begun(psr_figures *figures, uint64_t first_step, double pause_s);
/* Takes the payload of worker `from`'s DONE. Worker 0's has the figures that are the same for all:
 * loss, evaluation, hash. */
void psr_figures_take_done(psr_figures *figures, uint32_t from, const char *json, size_t size);
/* Takes the traffic that a shard reports with DONE. */
void psr_figures_take_shard(psr_figures *figures, uint32_t shard, const psr_traffic *traffic);

/* Images per second at present, for a person who watches: over the last five to ten seconds of
 * training time, or since START if that is less. Otherwise as PSR_FIGURE_IMAGES_PER_S. NaN before
 * the first line. */
double psr_figures_recent_rate(const psr_figures *figures);

/* ret_values[PSR_FIGURE_COUNT]; NaN: not known (yet). */
void psr_figures_values(const psr_figures *figures, double ret_values[static PSR_FIGURE_COUNT]);

/* The outcome in run.json, as text: every figure under its name (null: not known); "hash" if there
 * is one; when all shards are done "shards": [{"rank", "gradient_bytes", "weight_bytes"}, ..]; with
 * several stretches "stretches" (docs/figures.md). The caller owns *ret_json: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_figures_to_json(const psr_figures *figures, char **ret_json);

#endif
