/* The run directory: run.json (whole configuration, versions, hosts, outcome), metrics.jsonl (one
 * object per step and rank), log/ (what each process printed), checkpoints/
 * (ps/scheduler/checkpoints/checkpoints.h). Made when all have joined; what is logged before waits
 * in memory. The scheduler alone writes it. One thread. */
#ifndef PSR_PS_RUNDIR_H
#define PSR_PS_RUNDIR_H

#include "base/config/config.h"
#include "base/facts.h"
#include "comm/comm.h"
#include "ps/scheduler/metrics/metrics_line.h"

typedef struct psr_rundir psr_rundir;

/* Nothing is written yet. Checks that the directory can be made: USAGE when it is there already, IO
 * when it may not be made. series: where --out was not told but chosen here, what it is the next
 * of, so that another run that is first at its name costs this one no more than that: "" of
 * psr_config_name_out, or the --out of --resume auto (base/attempts.h); NULL: it was told. Borrowed
 * for the directory's life. ret owns. */
PSR_MUST_CHECK psr_err psr_rundir_new(const psr_config *config, const char *series,
                                      psr_rundir **ret_rundir);
/* Flushes and closes. NULL allowed. */
void psr_rundir_free(psr_rundir *rundir);

/* Makes the directory, under the name that is this run's from then on (mkdir is the claim),
 * run.json, log/ and checkpoints/. bucket_bytes: --bucket-size, resolved, so that --config repeats
 * it. roster_json: an array. resumed_from: a path or NULL. */
PSR_MUST_CHECK psr_err psr_rundir_begin(psr_rundir *rundir, uint64_t bucket_bytes,
                                        const psr_facts *facts, const char *roster_json,
                                        const char *resumed_from);
/* Its name, which can be another once it is there. Borrowed. */
const char *psr_rundir_path(const psr_rundir *rundir);
/* True from then on. */
bool psr_rundir_is_there(const psr_rundir *rundir);

/* The stretches of config into the configuration of run.json, so that --config repeats the run as
 * it was. Nothing where they are there. IO. */
PSR_MUST_CHECK psr_err psr_rundir_mode(psr_rundir *rundir, const psr_config *config);

/* What worker 0's back end chose, in full, into run.json; of a choice by timing into its
 * configuration too, so that --config repeats it. */
PSR_MUST_CHECK psr_err psr_rundir_algorithms(psr_rundir *rundir, const char *algorithms);

/* One line of metrics.jsonl. IO. */
PSR_MUST_CHECK psr_err psr_rundir_metrics(psr_rundir *rundir, const psr_metrics_line *line);

/* One line of what a process printed. What cannot be written is counted and told at the end: a log
 * is not worth a run. */
void psr_rundir_log(psr_rundir *rundir, psr_peer peer, const char *line);

/* Puts what is buffered where others can read it. IO. */
PSR_MUST_CHECK psr_err psr_rundir_flush(psr_rundir *rundir);

/* run.json's outcome: status ("ok", "cancelled", ...), exit status, line, and the run's figures
 * (JSON object or NULL). Does nothing when the directory was never made. */
PSR_MUST_CHECK psr_err psr_rundir_end(psr_rundir *rundir, psr_err status, const char *line,
                                      const char *outcome_json);

/* The run ends before its first step because what it was given is bad: removes what was made.
 * Nothing when the directory was never made. */
void psr_rundir_discard(psr_rundir *rundir);

#endif
