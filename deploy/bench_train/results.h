/* The file of a benchmark: one JSON object a line, the first one says what is measured, each other
 * one has a repetition. It is written as the benchmark goes on, so that a benchmark that was ended,
 * by whatever, goes on where it stopped. One thread. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_RESULTS_H
#define PSR_DEPLOY_BENCH_TRAIN_RESULTS_H

#include "base/err.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_results {
    const char *path; /* borrowed */
    int fd;
    cJSON *records; /* an array, owned */
} psr_results;

/* The name of a file that the person has not named: psring-runs/bench-20261120-174530.jsonl. */
void psr_results_name(char *path, size_t size);

/* Opens path, or makes it. header: what is measured; each of its members is compared with that of
 * the file, members of objects one by one. A torn last line, of which nothing is known, is cut off.
 * USAGE: another thing is measured there; names the first difference, and what would be right.
 * FORMAT: it is no such file. IO; NOMEM. psr_results_done. */
PSR_MUST_CHECK psr_err psr_results_open(const char *path, const cJSON *header,
                                        psr_results *ret_results);
void psr_results_done(psr_results *results);

/* Writes it, and waits until the disk has it. Consumes record, on failure too. IO; NOMEM. */
PSR_MUST_CHECK psr_err psr_results_add(psr_results *results, cJSON *record);

/* The newest of that repetition, from 1; NULL: there is none. Borrowed. */
const cJSON *psr_results_find(const psr_results *results, const char *group,
                              const char *configuration, uint32_t repetition);

/* Whether it is there and has "status" "done". */
bool psr_results_is_done(const cJSON *record);

#endif
