/* The steps of a run, as metrics.jsonl tells them: one line for each step and rank
 * (docs/figures.md). The file may come from elsewhere. Plain data. */
#ifndef PSR_DEPLOY_RUN_STEPS_H
#define PSR_DEPLOY_RUN_STEPS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_RUN_HASH_BYTES 17

typedef struct psr_run_step {
    uint64_t step; /* from 1 */
    uint32_t rank;
    double loss;                       /* NaN: it had no sample, or was not finite */
    double train_s, images, staleness; /* NaN: not told; so the next four */
    double images_per_s, test_loss;
    double bytes_sent, bytes_received;
    char hash[PSR_RUN_HASH_BYTES]; /* "": without --hash */
} psr_run_step;

typedef struct psr_run_steps {
    psr_run_step *items; /* owned; by rank, then by step */
    size_t count;
    uint32_t ranks; /* 1 + the largest rank */
    bool torn;      /* the file does not end in a whole line: its last piece is left out */
} psr_run_steps;

/* Reads DIRECTORY/metrics.jsonl. A last line without its end is left out: the run is on, or was
 * killed. NOT_FOUND, IO; FORMAT: a line is no step of a run (the detail says which), or the file
 * has none; NOMEM. The caller owns *ret_steps: psr_run_steps_done. */
PSR_MUST_CHECK psr_err psr_run_steps_read(const char *directory, psr_run_steps *ret_steps);
/* Says on stderr that the last line was torn, for the command of that name. */
void psr_run_steps_tell_torn(const psr_run_steps *steps, const char *command,
                             const char *directory);
void psr_run_steps_done(psr_run_steps *steps);

/* The line of a step of a rank; NULL: there is none. */
const psr_run_step *psr_run_steps_find(const psr_run_steps *steps, uint32_t rank, uint64_t step);

#endif
