/* A table of a node's group (comm/tables/table.h, table_shard.h). The first ranks of the group are
 * workers, which push and pull; the others are its shards, which hold the values. Workers and
 * shards exchange PUSH, PULL, WEIGHTS and ACK with the group's number in their tags. A group with a
 * table has all other operations too: it begins with a broadcast and a barrier, and needs others to
 * end.
 *
 * A push, a pull or both of one part, or of all parts, are a request (comm/node/node.h): started
 * and ended like any, with a deadline and a failure. Requests for one part are taken one after
 * another, those for different parts side by side. A push is done when all of it has been sent, a
 * pull when the values are in its memory. In BSP the values come with every push, so a pull waits
 * for them and sends nothing. A worker can also read what the shards hold, and the first worker can
 * write it.
 *
 * Functions marked [owner] are called by the owner's thread, all others by the node's. */
#ifndef PSR_COMM_NODE_TABLE_H
#define PSR_COMM_NODE_TABLE_H

#include "comm/node/node.h"
#include "comm/tables/consistency.h"
#include "comm/tables/update.h"
#include "comm/wire/compression/compression.h"

typedef struct psr_node_table psr_node_table;

#define PSR_NODE_TABLE_SPAN_ALIGN 16 /* floats: parts begin at cache lines */

typedef struct psr_node_table_options {
    const char *name;    /* its name in lines of errors; copied */
    const size_t *parts; /* values of each part, > 0; borrowed for the call */
    uint32_t part_count; /* > 0 */
    uint32_t workers;    /* the first ranks of the group; at least one rank is left as a shard */
    psr_consistency consistency;
    /* of pushed and pulled values in a worker's memory: FLOAT32; or FLOAT16 or BFLOAT16, which are
     * sent so too; everything else is FLOAT32 then. FLOAT64: everywhere, as the bits of two floats
     * each, so spans and lengths here are in floats all the same */
    psr_type type;
    /* how pushes are sent; NULL: as they are, or as the type says, and so with other types than
     * FLOAT32. Copied. The worker keeps the residual */
    const psr_compression *compression;
    /* only for a shard: the name of a registered update, and its arguments. Borrowed for the
     * call */
    const char *update;
    const psr_table_update *registered; /* copied; their contexts are borrowed for life */
    uint32_t registered_count;
    void *owned; /* owned by the owner of the table's group, and released after the table */
    void (*release)(void *owned); /* NULL: nothing is released */
} psr_node_table_options;

typedef enum psr_node_table_verb {
    PSR_NODE_PUSH,
    PSR_NODE_PULL,
    PSR_NODE_PUSH_PULL,
    /* Done when the shard has taken everything that this worker has pushed of the part, and in BSP
     * this worker has the values after that. Uses no memory of the caller */
    PSR_NODE_SETTLE,
    /* Read or write what the shard holds after this worker's pushes: the values, or an update's
     * state. Only the first worker may PUT, and while it does nobody pushes the part. PUT does not
     * change this rank's own copy of the values */
    PSR_NODE_GET,
    PSR_NODE_PUT
} psr_node_table_verb;

#define PSR_NODE_ALL_PARTS UINT32_MAX /* one part after another in memory */

/* What a request does. Its memory is lent until the request has ended. */
typedef struct psr_node_table_task {
    psr_node_table_verb verb;
    uint32_t part;    /* or PSR_NODE_ALL_PARTS */
    uint32_t section; /* of GET and PUT: 0 the values, 1 + i array i of the update's state */
    /* PUSH, PUSH_PULL and PUT: what is sent; PULL, PUSH_PULL and GET: where the values go. Of the
     * table's type; PUT and GET of 16-bit values: of FLOAT32 */
    const void *values;
    void *ret_values;
} psr_node_table_task;

/* [owner] Gives the group a table, before the group is ordered to be opened. All values are zero;
 * initial values are set before the first push, alike on all ranks (psr_node_table_values). USAGE:
 * there is no such update. UNSUPPORTED: the table is too large. NOMEM. The group owns the table,
 * and `owned` as well if this succeeds. An update gets the parts as the plan numbers them: the last
 * part is 0. */
PSR_MUST_CHECK psr_err psr_node_table_new(psr_node_group *group,
                                          const psr_node_table_options *options);
/* [owner] The group's table; NULL: it has none. Borrowed from group. */
psr_node_table *psr_node_group_table(const psr_node_group *group);
/* [owner] This rank's copy of all values; on a shard, those of its parts are the table's. Parts are
 * in ascending order, each at psr_node_table_part. Borrowed for life; may not be touched once
 * anything is pushed. */
float *psr_node_table_values(psr_node_table *table);
/* [owner] A worker's residual of its pushes, laid out as its values. Belongs to the node while a
 * push is under way, and else to the owner, who may change it. Borrowed for life. NULL: their
 * encoding has none. */
float *psr_node_table_residual(psr_node_table *table);
const char *psr_node_table_name(const psr_node_table *table); /* [owner] borrowed for its life */
/* [owner] floats in all, with the gaps between parts */
size_t psr_node_table_length(const psr_node_table *table);
/* [owner] where the part lies in the values */
psr_span psr_node_table_part(const psr_node_table *table, uint32_t part);
/* [owner] The largest staleness of pulled values since the last call, in steps, beyond that of a
 * synchronous run. */
uint64_t psr_node_table_take_staleness(psr_node_table *table);

/* [owner] The number of pushes of the part that this worker has begun; of all parts the sum. The
 * node's thread changes it: call this when no push is under way. */
uint64_t psr_node_table_rounds(const psr_node_table *table, uint32_t part);

/* The floats of one value: 2 for FLOAT64, else 1. Any thread. */
uint32_t psr_node_table_width(psr_type type);
/* Conversions between the table's type and FLOAT32, of count floats; FLOAT64 is copied; of_floats
 * rounds to the nearest, ties to the even one. Any thread. */
void psr_node_table_to_floats(psr_type type, float *out, const void *in, size_t count);
void psr_node_table_of_floats(psr_type type, void *out, const float *in, size_t count);

/* [owner] Makes a request on a worker; see psr_node_request_new. NOMEM. The caller owns
 * *ret_request. */
PSR_MUST_CHECK psr_err psr_node_table_request_new(psr_node_group *group,
                                                  const psr_node_table_task *task,
                                                  int64_t deadline_ms, const char *name,
                                                  psr_node_request **ret_request);

#endif
