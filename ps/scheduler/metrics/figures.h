/* Computes the figures of a run (base/figures.h has the definitions) from what every worker tells:
 * its lines of metrics, and at the end its DONE. The only place that does; free of I/O and of
 * clocks. One thread.
 *
 * Each worker has a training clock, train_s of its lines: it begins at START, which all are told at
 * once, and stands still during evaluations and checkpoints. Those begin when all workers have come
 * to them, so the clocks of all agree, and the latest of them is the run's. */
#ifndef PSR_PS_SCHEDULER_METRICS_FIGURES_H
#define PSR_PS_SCHEDULER_METRICS_FIGURES_H

#include "base/err.h"
#include "base/config/config.h"
#include "base/figures.h"
#include "comm/comm.h"
#include "ps/scheduler/metrics/metrics_line.h"
#include "ps/traffic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_figures psr_figures;

typedef struct psr_figures_options {
    uint32_t workers, shards;
    bool in_turn;        /* worker 0's process plays all ranks, one after the other (--mode
                            local), and is the one worker over which mean and range are taken */
    psr_mode mode;       /* of the first stretch */
    uint64_t first_step; /* completed before a resume */
    uint64_t total_steps;
} psr_figures_options;

/* ret owns. NOMEM. */
PSR_MUST_CHECK psr_err psr_figures_new(const psr_figures_options *options,
                                       psr_figures **ret_figures);
/* NULL allowed. */
void psr_figures_free(psr_figures *figures);

/* A line of metrics. What it lacks, and what is no plausible number, counts as nothing. */
void psr_figures_take_metrics(psr_figures *figures, const psr_metrics_line *line);
/* The view of a stretch is sent: from first_step (from 0) on the run is in this mode. What was told
 * of stretches from there on does not happen. Before any line of the stretch's steps. */
void psr_figures_stretch_decided(psr_figures *figures, psr_mode mode, uint64_t first_step);
/* The change to the stretch that begins there has happened; no worker took a step for pause_s. */
void psr_figures_stretch_begun(psr_figures *figures, uint64_t first_step, double pause_s);
/* The payload of worker `from`'s DONE. Worker 0's holds what all agree on: loss, evaluation,
 * hash. */
void psr_figures_take_done(psr_figures *figures, uint32_t from, const char *json, size_t size);
/* What a shard carried, as its DONE tells. */
void psr_figures_take_shard(psr_figures *figures, uint32_t shard, const psr_traffic *traffic);

/* Images per second as of now, for a person who watches: over the last five to ten seconds of
 * training time, or since START when that is less; otherwise as PSR_FIGURE_IMAGES_PER_S. NaN before
 * the first line. */
double psr_figures_recent_rate(const psr_figures *figures);

/* ret_values[PSR_FIGURE_COUNT]; NaN: there is none (yet). */
void psr_figures_values(const psr_figures *figures, double ret_values[static PSR_FIGURE_COUNT]);

/* run.json's outcome: every figure under its name (null: none); "hash" when there is one; and when
 * all shards are done "shards": [{"rank", "gradient_bytes", "weight_bytes"}, ..]; and of a run of
 * several stretches "stretches" (docs/figures.md). As text: ret owns, free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_figures_to_json(const psr_figures *figures, char **ret_json);

#endif
