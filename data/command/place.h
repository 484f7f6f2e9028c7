/* The folder into which a data set comes as one: its files are gathered in a hidden folder beside,
 * which takes the final name when they are whole. Only one process at a time gathers there; of what
 * an earlier one left, the next keeps what it names and removes the rest. In place. One thread. */
#ifndef PSR_DATA_COMMAND_PLACE_H
#define PSR_DATA_COMMAND_PLACE_H

#include "base/config/config.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct psr_data_place {
    char parent[PSR_PATH_MAX], final[PSR_PATH_MAX], gathered[PSR_PATH_MAX];
    int lock; /* -1: none */
} psr_data_place;

/* parent is made if it is not there. kept: names of files that an earlier process may have left and
 * that stay, up to NULL. BUSY: another process gathers there. IO, USAGE (path). */
PSR_MUST_CHECK psr_err psr_data_place_begin(const char *parent, const char *name,
                                            const char *const *kept, psr_data_place *ret_place);
/* The path of a file in the hidden folder. USAGE: too long. */
PSR_MUST_CHECK psr_err psr_data_place_path(const psr_data_place *place, const char *name,
                                           char path[PSR_PATH_MAX]);
/* Copies a file into the hidden folder. IO, NOT_FOUND, CANCELLED. */
PSR_MUST_CHECK psr_err psr_data_place_copy(const psr_data_place *place, const char *from,
                                           const char *name, const atomic_bool *stop);
/* The hidden folder takes the final name. IO. */
PSR_MUST_CHECK psr_err psr_data_place_finish(psr_data_place *place);
/* Leaves what is gathered for the next process, and sets *ret_left: there is something. Safe after
 * _finish. */
void psr_data_place_leave(psr_data_place *place, bool *ret_left);
/* Removes what is not finished. Safe after _finish and _leave. */
void psr_data_place_done(psr_data_place *place);

#endif
