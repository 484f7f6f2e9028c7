/* The newest lines of each rank in a metrics.jsonl that may still grow, and what they say of a rank
 * now. One thread. */
#ifndef PSR_DEPLOY_WATCH_RANK_LINES_H
#define PSR_DEPLOY_WATCH_RANK_LINES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define PSR_RANK_LINES_RANKS_MAX 1024

typedef struct psr_rank_lines psr_rank_lines;

/* Over a rank's newest lines, 20 at most. */
typedef struct psr_rank_now {
    uint64_t step;                     /* of the newest; 0: it has told none */
    double loss;                       /* of the newest; NaN: it had no sample */
    double images_per_s;               /* images over the time of their steps */
    double compute_s;                  /* per step, waits for the loader included */
    double wait_share;                 /* of the time of their steps, from 0 to 1 */
    double sent_per_s, received_per_s; /* bytes */
    double staleness;                  /* the most of them */
    double test_accuracy;              /* the newest that it has told; NaN: none */
} psr_rank_now;

/* The caller owns *ret_lines. NOMEM. */
PSR_MUST_CHECK psr_err psr_rank_lines_new(const char *run, psr_rank_lines **ret_lines);
void psr_rank_lines_free(psr_rank_lines *lines); /* NULL allowed */

/* Reads what has been added since the last call: whole lines, so that a torn one waits for its end.
 * A file that is not there yet is an empty one. IO. */
PSR_MUST_CHECK psr_err psr_rank_lines_read(psr_rank_lines *lines);

/* 1 + the largest rank; 0: there is no line. */
uint32_t psr_rank_lines_ranks(const psr_rank_lines *lines);
psr_rank_now psr_rank_lines_now(const psr_rank_lines *lines, uint32_t rank);
/* Lines that are no steps of a run, and were left out. */
uint64_t psr_rank_lines_strange(const psr_rank_lines *lines);

#endif
