/* Updates: functions, known by name, by which a shard changes its part of a table when values are
 * pushed. The communicator has two: "sum" adds the pushed values, "assign" replaces the values by
 * them. Users register others, such as optimizers, when they open a table. */
#ifndef PSR_COMM_UPDATE_H
#define PSR_COMM_UPDATE_H

#include "base/err.h"
#include "base/span.h"

/* A run of values of one part. All borrowed for the call. */
typedef struct psr_table_run {
    uint32_t part;
    psr_span span; /* in the table, in floats */
    /* the table's step, from 0: how many pushes of each worker came before; for schedules */
    uint64_t step;
    /* the number of this update of these values, from 1: in BSP step + 1, otherwise that of the
     * push */
    uint64_t number;
    /* [span.count] in BSP the sum over all workers, otherwise one worker's push */
    const float *pushed;
    float *values; /* [span.count] read and written */
} psr_table_run;

typedef struct psr_table_update {
    const char *name;
    void *context; /* for the functions */
    /* at most 31: number of arrays kept beside the values, as long as the table */
    uint32_t state_count;
    /* the update's own array number `state`; NULL if it has none */
    float *(*state)(void *context, uint32_t state);

    /* Called once for every pushed value, in runs of any length, on the shard's thread. A failure
     * ends the table and is returned to its caller. */
    psr_err (*apply)(void *context, const psr_table_run *run);

    /* NULL: a slice is finished, and answered, when all of it has been applied. Otherwise it is
     * finished when the update calls psr_table_shard_updated, in this call or later. So an update
     * that needs more than one slice can collect what apply gets, and change the values when it has
     * all. BSP only. slice: its number on the shard. */
    psr_err (*applied)(void *context, uint32_t slice, uint64_t step);
} psr_table_update;

/* The update of that name, first among the registered ones, then the communicator's own; borrowed.
 * USAGE: there is none; the detail lists those that exist. */
PSR_MUST_CHECK psr_err psr_table_update_find(const char *name, const psr_table_update *registered,
                                             uint32_t count, const psr_table_update **ret_update);

#endif
