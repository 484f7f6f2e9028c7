/* The run directory: run.json (whole configuration, versions, hosts, outcome), metrics.jsonl (one
 * object per step and rank), log/ (what each process printed), checkpoints/
 * (ps/scheduler/checkpoints/checkpoints.h). Made when all have joined; what is logged before waits
 * in memory. The scheduler alone writes it. One thread. */
#ifndef PSR_PS_RUNDIR_H
#define PSR_PS_RUNDIR_H

#include "base/config/config.h"
#include "base/facts.h"
#include "net/message.h"
#include "ps/scheduler/metrics/metrics_line.h"
#include "ps/scheduler/scheduler.h"

typedef struct psr_rundir psr_rundir;

/* Writes nothing yet. Checks that the directory can be made: USAGE: it exists already; IO: it may
 * not be made. series: if --out was not given but chosen, what the name is the next of, so that the
 * next name is taken when another run is faster: "" from psr_config_name_out, or the --out of
 * --resume auto (base/attempts.h). NULL: --out was given. Borrowed for the directory's life, as
 * is command: the command line that the person typed, or "". The caller owns *ret_rundir. */
PSR_MUST_CHECK psr_err psr_rundir_new(const psr_config *config, const char *series,
                                      const char *command, psr_rundir **ret_rundir);
/* Flushes and closes. NULL allowed. */
void psr_rundir_free(psr_rundir *rundir);

/* Makes the directory, under the name that belongs to this run from then on (mkdir is the claim),
 * run.json, log/ and checkpoints/. bucket_bytes: --bucket-size, resolved, so that --config repeats
 * it. roster_json: an array. resumed_from: a path or NULL. */
PSR_MUST_CHECK psr_err psr_rundir_begin(psr_rundir *rundir, uint64_t bucket_bytes,
                                        const psr_facts *facts, const char *roster_json,
                                        const char *resumed_from);
/* What the launcher measured of the links between the hosts, for run.json. Before
 * psr_rundir_begin. from, to: copied. */
void psr_rundir_links(psr_rundir *rundir, uint64_t bits_per_s, const char *from, const char *to);
/* Where the figures of the run are served, for run.json. Before psr_rundir_begin. Copied. */
void psr_rundir_metrics_url(psr_rundir *rundir, const char *url);
/* Its name, which may have changed when it is made. Borrowed. */
const char *psr_rundir_path(const psr_rundir *rundir);

/* Writes the stretches of config into the configuration in run.json, so that --config repeats the
 * run. Does nothing if they are there already. IO. */
PSR_MUST_CHECK psr_err psr_rundir_mode(psr_rundir *rundir, const psr_config *config);

/* Writes what worker 0 says of its back end into run.json; a choice by timing also into its
 * configuration, so that --config repeats it. */
PSR_MUST_CHECK psr_err psr_rundir_computing(psr_rundir *rundir, const psr_computing *computing);

/* One line of metrics.jsonl (ps/scheduler/metrics/metrics_file.h). IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_rundir_metrics(psr_rundir *rundir, const psr_metrics_line *line);

/* Adds one line that a process printed to its log. Lines that cannot be written are counted, and
 * reported at the end; they do not end the run. */
void psr_rundir_log(psr_rundir *rundir, psr_peer peer, const char *line);

/* Writes out what is buffered. IO. */
PSR_MUST_CHECK psr_err psr_rundir_flush(psr_rundir *rundir);

/* The best checkpoint of --keep-best so far, which the outcome will name. */
void psr_rundir_best(psr_rundir *rundir, uint64_t step, double accuracy);

/* Writes the outcome into run.json: status ("ok", "cancelled", ...), exit status, line, and the
 * run's figures (a JSON object or NULL). Does nothing if the directory was never made. */
PSR_MUST_CHECK psr_err psr_rundir_end(psr_rundir *rundir, psr_err status, const char *line,
                                      const char *outcome_json);

/* The run ends before its first step because of bad input: removes what was made. Does nothing if
 * the directory was never made. */
void psr_rundir_discard(psr_rundir *rundir);

#endif
