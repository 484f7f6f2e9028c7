/* What a run directory says about its run, however it ended: run.json's configuration and outcome,
 * and if there is no outcome the steps in metrics.jsonl. The files may come from elsewhere: print
 * their content through base/text/printable.h. Plain data; one thread. */
#ifndef PSR_DEPLOY_RUN_RECORD_H
#define PSR_DEPLOY_RUN_RECORD_H

#include "base/err.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum psr_run_status {
    PSR_RUN_DONE,
    PSR_RUN_INTERRUPTED, /* Ctrl-C, with a checkpoint */
    PSR_RUN_FAILED,
    PSR_RUN_UNFINISHED, /* no outcome: it is running, or its scheduler was killed */
    PSR_RUN_UNREADABLE,
} psr_run_status;

typedef struct psr_run_record {
    const char *directory; /* borrowed */
    psr_run_status status;
    char why[1024];  /* in one line; "" for PSR_RUN_DONE */
    char made[1024]; /* how its numbers were made, if they are not those of real hosts that compute:
                        "played from FILE", "in the lab FILE, INVALID: .."; "" if they are */
    cJSON *json;     /* owned; NULL: unreadable */
    const cJSON *outcome; /* run.json's, or one with the steps only; NULL only if unreadable */
} psr_run_record;

/* Always fills in *ret_record; if the files cannot be read it is PSR_RUN_UNREADABLE and says why.
 * directory: borrowed for its life. */
void psr_run_record_read(const char *directory, psr_run_record *ret_record);
/* Fills in `made`, which is empty, from its configuration, and from what psring lab has left beside
 * its directory, or the file of psring bench train that has the run. */
void psr_run_record_tell_how_made(psr_run_record *record);
void psr_run_record_done(psr_run_record *record);

/* "done", "interrupted", "failed", "unfinished", "unreadable". */
const char *psr_run_status_name(psr_run_status status);

/* The value of an option, by its long name; NULL: there is none. Borrowed. */
const char *psr_run_record_option(const psr_run_record *record, const char *name);

/* Whether two readable records have the same value of an option, or neither has one. */
bool psr_run_records_agree(const psr_run_record *a, const psr_run_record *b, const char *name);

/* Whether its workers exchanged anything (--no-exchange: not). */
bool psr_run_record_exchanges(const psr_run_record *record);

/* The hash of its last weights; NULL: there is none. Borrowed. */
const char *psr_run_record_hash(const psr_run_record *record);

/* "beside" (its shards are on hosts that have workers), "dedicated", "mixed"; NULL: it has none, or
 * it is not known. Borrowed. */
const char *psr_run_record_placement(const psr_run_record *record);

/* The options, except --out, in which the readable ones of count records differ: an array of names,
 * in the order of the configuration. NOMEM. The caller owns *ret_names. */
PSR_MUST_CHECK psr_err psr_run_records_differ(const psr_run_record *records, size_t count,
                                              cJSON **ret_names);
/* Whether such an array has that name. */
bool psr_run_records_lists(const cJSON *names, const char *name);

#endif
