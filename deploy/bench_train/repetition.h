/* One repetition of a benchmark: a run of `psring train` (in mode mpi of mpirun), from its start to
 * its record. One thread. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_REPETITION_H
#define PSR_DEPLOY_BENCH_TRAIN_REPETITION_H

#include "deploy/bench_train/grid.h"
#include "deploy/bench_train/measure.h"

#include <stdbool.h>

typedef struct psr_repetition_options {
    const char *mpirun;        /* words separated by blanks; all here is borrowed */
    const char *const *places; /* words for psring train: where the processes go; ends with NULL */
    const char *ps_hostfile;   /* for dedicated shards; NULL: none */
    const char *directory;     /* run directories are made in it, and removed again */
    bool keep;                 /* they stay */
    psr_measure_targets targets;
    /* Called about four times a second while the run goes on. */
    void (*tick)(void *context);
    void *context;
} psr_repetition_options;

typedef enum psr_repetition_end {
    PSR_REPETITION_DONE,
    PSR_REPETITION_FAILED,  /* the record says why, in one line */
    PSR_REPETITION_REFUSED, /* bad input: likewise, and every repetition would end so */
    PSR_REPETITION_STOPPED, /* by a signal to this process; there is no record */
} psr_repetition_end;

/* Takes SIGINT and SIGTERM from now on: the run that is under way is stopped in order. */
void psr_repetition_watch_signals(void);

/* Runs it to its end. name: of its run directory. ret_record: what measure.h adds and "wall_s",
 * from its start to its end; the caller's: cJSON_Delete; NULL if it was stopped. Fails only if
 * nothing can be run or recorded: NOT_FOUND, IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_repetition_run(const psr_repetition_options *options,
                                          const psr_grid_cell *cell, const char *name,
                                          psr_repetition_end *ret_end, cJSON **ret_record);

#endif
