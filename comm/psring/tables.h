/* Tables of libpsring: a parameter server. Programs include psring/psring.h, which includes this;
 * its rules hold for every call here.
 *
 * A table is an array of values in parts, which lie on the shards: a parameter server. The shards
 * are the last psring_options.shards ranks; the parts are spread over them so that their sizes
 * balance. The ranks of the group that opens a table are its workers. A push gives the part's
 * update values to work with. A pull gets the part's values.
 *   "bsp"    All workers push a part the same number of times. The n-th pushes of all workers are
 *            one update by their sum. The sum's order is fixed: the bits are the same with any
 *            number of shards and in every run. A pull waits for the update of this worker's last
 *            push; before any push it gets the initial values. The values come back with every
 *            push, so a pull costs no message. Push n + 1 of a part does not end before all workers
 *            have made push n.
 *   "ssp:K"  Each push is an update at once. A pull waits while any worker has pushed the part more
 *            than K times less often than this one. This holds for a worker that is done as well,
 *            so all workers push equally often, give or take K (0 to 999999999).
 *   "async"  The same, but a pull never waits.
 *
 * A pull always includes this worker's own pushes. In SSP and async, to see the pushes of all
 * workers: each worker pushes, pulls the parts that it pushed, calls psring_barrier, and pulls
 * again. Calls for one part take effect in their order, even if they were only started; calls for
 * different parts may overtake each other. In SSP and async a part above 256 KiB is updated in
 * pieces, and a pull may find some pieces newer than others.
 *
 * A table and the group that opened it fail together. Other groups go on, with their tables on the
 * same shards. If an update fails, its table fails with PEER. A shard counts as gone when it has
 * said nothing for three quarters of the deadline of the process that hosts the scheduler; under
 * psring run at once when its process ends.
 *
 * Shards are started in one of two ways. Ranks of the program that call psring_serve know the
 * updates "sum", "assign" and those that they define. `psring run -n N --shards S` starts shards
 * itself (PSRING_RANKS is N + S then); they know "sum", "assign" and three optimizers, with
 * torch.optim's formulas:
 *     "sgd lr=RATE [momentum=M] [nesterov] [weight-decay=W]"
 *     "adam lr=RATE [weight-decay=W] [adam-beta1=B] [adam-beta2=B] [adam-epsilon=E]"
 *     "adamw lr=RATE ..", with adam's arguments
 * psring_table_set gives an update other arguments later, a learning rate for example.
 *
 * The shards hold float32, whatever the table's type, and fold and update in float32. In a table of
 * float16 or bfloat16 what is pushed and pulled has 16 bits, in memory and on the way: a pushed
 * value is exact in float32, and a pulled one is rounded once, to the nearest, ties to the even
 * one. In BSP all pushes are one sum, folded in float32 without a rounding to 16 bits between. */
#ifndef PSRING_TABLES_H
#define PSRING_TABLES_H

#include "psring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run of values of one part, for an update to work on. All of it is borrowed for the call. */
typedef struct psring_update_run {
    size_t size;
    /* the text after the update's name in psring_table_options.update, or that of psring_table_set;
     * "" if none */
    const char *arguments;
    uint64_t number; /* number of this update of these values, from 1 */
    size_t part, offset, count;
    float *values; /* [count], from offset in the part; read and written */
    /* [count]; in BSP the sum, or by psring_table_options.fold the mean, of all workers' pushes, else
     * one worker's push */
    const float *pushed;
    float *const *states; /* psring_update.states arrays of [count]; read and written */
} psring_update_run;

typedef struct psring_update {
    size_t size;
    uint32_t states; /* number of arrays kept beside a table's values, zero at first; at most 8 */
    void *context;   /* passed to the functions; borrowed until comm is closed */
    /* Checks the arguments when a table is opened, and those of psring_table_set. USAGE or NOMEM refuses them (any other error
     * counts as USAGE), and psring_table_open fails with the text in ret_line. Runs on the thread
     * that is in psring_serve. NULL: the update takes no arguments. */
    psring_err (*check)(void *context, const char *arguments, char *ret_line, size_t line_bytes);
    /* Applies one update to a run. Each update covers every value once, in runs of any length.
     * Calls come one at a time, on the library's thread or the thread that is in psring_serve. It
     * must call no psring function. Meanwhile this shard answers nobody: up to 65536 values come at
     * once, and all runs of these together must take well under three quarters of the deadline of
     * the process that hosts the scheduler, or the shard is taken for dead; psring_report does not
     * help. May fail with NUMERIC, COMPUTE, USAGE, NOMEM or IO; any other error counts as
     * COMPUTE. */
    psring_err (*apply)(void *context, const psring_update_run *run);
} psring_update;

/* Makes an update known on this shard by name (letters, digits, '-' and '_'). Two exist already:
 * "sum" adds the pushed values in float32, so counts of 1 stop at 2^24; "assign" replaces the
 * values by the pushed ones, with several workers in BSP by their sum. *update is copied. USAGE:
 * the name is taken or empty, or this rank is no shard. */
PSRING_API PSRING_MUST_CHECK psring_err psring_update_define(psring_comm *comm, const char *name,
                                                             const psring_update *update);

/* Serves as a shard: holds the tables that other ranks open, until each of them has called
 * psring_close, which waits for that, or was lost. It does not fail when they do. It fails when
 * another shard fails or when everything is broken. It has no deadline of its own; only the
 * messages that it sends have one. Called again after that it returns OK at once. USAGE: this rank
 * is no shard. */
PSRING_API PSRING_MUST_CHECK psring_err psring_serve(psring_comm *comm);
/* The number of shards, and whether this rank is one. */
PSRING_API int psring_shards(const psring_comm *comm);
PSRING_API bool psring_is_shard(const psring_comm *comm);

typedef struct psring_table_options {
    size_t size;
    /* [part_count], at least 1: number of values of each part. A part is pushed and pulled as a
     * whole */
    const size_t *parts;
    size_t part_count;
    /* PSRING_FLOAT32, which 0 means too, PSRING_FLOAT16 or PSRING_BFLOAT16; others are UNSUPPORTED in
     * this version */
    psring_type type;
    /* The name of an update that the shards know; after a space its arguments: "sgd lr=0.1". At
     * most 511 bytes. NULL: "sum" */
    const char *update;
    const char *sync; /* "bsp", "ssp:K", "async". NULL: "bsp" */
    /* The initial values of all parts, one part after another, of the table's type. Rank 0 of the group gives them to
     * all; those of other ranks are ignored. NULL: zeros */
    const void *initial;
    /* How many updates of each part an earlier run has made. The numbers of updates continue from
     * there. "adam" uses them, "sgd" does not. It is the same on all ranks, and at most INT64_MAX.
     * In BSP the pushes of a part by one worker are counted, otherwise those of all workers */
    uint64_t updates;
    /* How the pushes of all workers become one. PSRING_SUM, which is 0; or PSRING_MEAN: their sum,
     * divided by the number of workers in float32, in BSP only (USAGE) */
    psring_op fold;
} psring_table_options;

/* Opens a table. All ranks of the group call it, in the order of the group's calls; it returns when
 * all shards have the initial values. name (at most 63 bytes) appears in error lines. Everything is
 * copied. call may have a deadline only. The caller owns *ret_table and calls psring_table_close
 * before the group is freed: without its group a table can be neither used nor closed in order.
 * Errors:
 * - MISMATCH: two ranks open different tables.
 * - USAGE: there are no shards, or this rank is one, or the shards do not know the update.
 * - NOMEM: the table has more values than fit into this machine's memory, or a shard's.
 * - PEER: a shard is gone; the line names it.
 *
 * If a shard refuses (USAGE, NOMEM) or is gone, all ranks get the same error and nothing is
 * broken. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_open(psring_group *group, const char *name,
                                                          const psring_table_options *options,
                                                          const psring_call *call,
                                                          psring_table **ret_table);
/* As `part`: all parts of the table. Their values are one part after another. */
#define PSRING_ALL SIZE_MAX
/* Push and pull one part, or all (PSRING_ALL); values and ret_values have as many values as that.
 * After a push has ended the caller may write values again. call may have a deadline and a name
 * only. USAGE: there is no such part. */
PSRING_API PSRING_MUST_CHECK psring_err psring_push(psring_table *table, size_t part,
                                                    const void *values, const psring_call *call,
                                                    psring_request **ret_request);
PSRING_API PSRING_MUST_CHECK psring_err psring_pull(psring_table *table, size_t part,
                                                    void *ret_values, const psring_call *call,
                                                    psring_request **ret_request);
/* A push and a pull in one, as fast as a push. ret_values may equal values; otherwise they may not
 * overlap (USAGE). */
PSRING_API PSRING_MUST_CHECK psring_err psring_push_pull(psring_table *table, size_t part,
                                                         const void *values, void *ret_values,
                                                         const psring_call *call,
                                                         psring_request **ret_request);
/* psring_table_read and psring_table_write transfer the values of a table, or what its update keeps
 * beside them (momentum, for example). With them a program saves a table and goes on with it after
 * a restart, with the same bits. All ranks of the group call them, in the order of the group's
 * calls, with the same state and part. state is 0 for the values, or 1 to psring_table_states for
 * an array of the update, in the order of psring_update_run.states. part may be PSRING_ALL. count
 * is the number of values of the part, or of all parts; another number is refused. What is
 * transferred is float32, as the shards hold it, whatever the table's type.
 *
 * What is read contains every push that any rank of the group made before the call, and no later
 * one. So calls without a push between them read the same table. In BSP these are the values and
 * states after as many updates of a part as each rank has pushed it; if all parts were pushed
 * equally often, they are all after the same update. In SSP and async these are the values and
 * states after all pushes so far, in the order in which the shards took them.
 *
 * call may have a deadline and a name only. USAGE: the count is wrong; there is no such part or
 * state; this rank has a push or pull of the table under way, or has not been told that it ended
 * (psring_wait, psring_test, psring_request_free). MISMATCH: two ranks differ in call, state or
 * part, or, in BSP, in the number of pushes. */

/* ret_values NULL: this rank wants no values, but takes part in the call. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_read(psring_table *table, uint32_t state,
                                                          size_t part, void *ret_values,
                                                          size_t count, const psring_call *call);
/* values are those of rank 0 of the group; those of other ranks are ignored. All later updates and
 * pulls use them. The numbers of updates do not change. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_write(psring_table *table, uint32_t state,
                                                           size_t part, const void *values,
                                                           size_t count, const psring_call *call);
/* Gives the table's update new arguments: the text after its name in psring_table_options.update,
 * with all that it needs, such as "lr=0.05 momentum=0.9". All ranks of the group call it, in the
 * order of the group's calls, with the same arguments (at most 511 bytes) and from. Updates use them
 * alike on all shards, so the bits are those of any number of shards:
 * - from 0: all updates by pushes that come after this call, and none by a push before it. It waits
 *   until the shards have taken those pushes. USAGE: this rank has a push or pull of the table under
 *   way, as with psring_table_read.
 * - from N, in BSP: update N (psring_update_run.number) and those after it. Pushes may be under way,
 *   and a whole schedule may be set ahead; for one update the last call counts that reaches it.
 *   USAGE: this rank has begun update N of a part already.
 *
 * It returns when the shards have the arguments. call may have a deadline and a name only. USAGE:
 * the update does not take them, and the line says why; that is so on all ranks, and nothing has
 * changed. MISMATCH: two ranks differ in arguments or from. If a shard takes what another one
 * refuses, because the program defines different updates there, the table fails. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_set(psring_table *table, const char *arguments,
                                                         uint64_t from, const psring_call *call);
/* The number of arrays that the table's update keeps. 0: "sum" and "assign". */
PSRING_API uint32_t psring_table_states(const psring_table *table);
/* The largest staleness of this worker's pulls since the last call of this function: how many
 * pushes of the part the slowest worker was behind. 0 in BSP. */
PSRING_API uint64_t psring_table_staleness(psring_table *table);
/* Closes a table. All ranks of the group call it, in the order of the group's calls. Waits until
 * this rank's requests have ended and all others have called it. The values are lost. Requests
 * remain and can be queried and freed. Consumes *table and sets it to NULL, on failure too. table
 * may be NULL or point to NULL. MISMATCH: two ranks close different tables. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_close(psring_table **table,
                                                           const psring_call *call);

#ifdef __cplusplus
}
#endif

#endif
