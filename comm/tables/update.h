/* Updates: what a shard makes of its part of a table when values are pushed to it, by name. Two come with the communicator,
 * "sum" (values grow by what is pushed) and "assign" (they become it); others, such as optimizers, are their users' and are
 * registered where a table is opened. Nothing here knows a list of them. */
#ifndef PSR_COMM_UPDATE_H
#define PSR_COMM_UPDATE_H

#include "base/err.h"
#include "base/span.h"

/* A run of one part. All borrowed for the call. */
typedef struct psr_table_run {
    uint32_t part;
    psr_span span;       /* of the table, in floats */
    uint64_t step;       /* of the table, from 0: pushes of each worker that came before; for schedules */
    uint64_t number;     /* of the update of these values, from 1: in BSP step + 1, else that of the push */
    const float *pushed; /* [span.count] in BSP the sum over all workers, else one worker's */
    float *values;       /* [span.count] in and out */
} psr_table_run;

typedef struct psr_table_update {
    const char *name;
    void *context;        /* the functions' */
    uint32_t state_count; /* at most 31: arrays beside the values, as long as the table */
    float *(*state)(void *context, uint32_t state); /* the update's own; NULL when there are none */

    /* Of every pushed value once, in runs of any cut, on the shard's thread. A failure ends the table and is its caller's. */
    psr_err (*apply)(void *context, const psr_table_run *run);

    /* NULL: a slice is new when all of it has been applied. Otherwise it is new, and answered, when the update says so
     * (psr_table_shard_updated), in this call or in a later one: an update that needs more than one slice gathers what apply
     * is given, and leaves the values until all that it needs is there. BSP alone. slice: the shard's number of it. */
    psr_err (*applied)(void *context, uint32_t slice, uint64_t step);
} psr_table_update;

/* Of those registered, then of the communicator's own, the first with that name, borrowed. USAGE: there is none (the detail
 * lists those that there are). */
PSR_MUST_CHECK psr_err psr_table_update_find(const char *name, const psr_table_update *registered,
                                             uint32_t count, const psr_table_update **ret_update);

#endif
