/* A table of a group of a node (comm/tables/table.h, table_shard.h): the first ranks of the group
 * push and pull, the others, its shards, hold the values. Its messages are PUSH, PULL, WEIGHTS and
 * ACK with the group's number in their tags, between a worker and a shard; a group with a table has
 * all other operations too; it begins with a broadcast and a barrier, and uses others to end.
 *
 * Push, pull, or both of a part are requests (comm/node/node.h): started, ended, with a deadline
 * and a failure as any. Those of one part are taken one after another, those of different parts
 * side by side. A push is done when all of it has been sent, a pull when the values are in its
 * memory. In BSP values come with every push, so a pull waits for them and sends nothing.
 *
 * Both threads: [owner] is said there; all else is the node's. */
#ifndef PSR_COMM_NODE_TABLE_H
#define PSR_COMM_NODE_TABLE_H

#include "comm/node/node.h"
#include "comm/tables/consistency.h"
#include "comm/tables/update.h"

typedef struct psr_node_table psr_node_table;

#define PSR_NODE_TABLE_SPAN_ALIGN 16 /* floats: parts begin at cache lines */

typedef struct psr_node_table_options {
    const char *name;    /* in lines of errors; copied */
    const size_t *parts; /* floats of each, > 0; borrowed for the call */
    uint32_t part_count; /* > 0 */
    uint32_t workers;    /* of the group's ranks the first; at least one is left */
    psr_consistency consistency;
    const char *update;                 /* a shard's: by name, as the list of those
                                           registered. Borrowed for the call */
    const psr_table_update *registered; /* copied; their contexts are borrowed for life */
    uint32_t registered_count;
    void *owned;                  /* whoever owns the table's owns it: released after it */
    void (*release)(void *owned); /* NULL: nothing is */
} psr_node_table_options;

typedef enum psr_node_table_verb {
    PSR_NODE_PUSH,
    PSR_NODE_PULL,
    PSR_NODE_PUSH_PULL
} psr_node_table_verb;

/* [owner] Gives the group a table, before it is ordered to be opened. All values are zero: before
 * the first push whoever makes it sets them (psr_node_table_values) alike on all ranks. USAGE: no
 * such update. UNSUPPORTED: too large. NOMEM. The group owns it, and `owned` when it did not fail.
 * An update hears of the parts as the plan numbers them: the last part is 0. */
PSR_MUST_CHECK psr_err psr_node_table_new(psr_node_group *group,
                                          const psr_node_table_options *options);
/* [owner] The group's; NULL: it has none. Borrowed from group. */
psr_node_table *psr_node_group_table(const psr_node_group *group);
/* [owner] This rank's copy of all values (a shard: of its parts they count), parts in ascending
 * order, each at psr_node_table_part. Borrowed for life; not to be touched once anything is
 * pushed. */
float *psr_node_table_values(psr_node_table *table);
const char *psr_node_table_name(const psr_node_table *table); /* [owner] borrowed for its life */
/* [owner] floats of them, with what lies between parts */
size_t psr_node_table_length(const psr_node_table *table);
/* [owner] of the values */
psr_span psr_node_table_part(const psr_node_table *table, uint32_t part);
/* [owner] The staleness of pulled values in steps, beyond that of a synchronous run: the largest
 * since the last call. */
uint64_t psr_node_table_take_staleness(psr_node_table *table);

/* [owner] A request on a worker; as psr_node_request_new. values: what is pushed; ret_values: what
 * is pulled; both lent until it has ended. NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_node_table_request_new(psr_node_group *group, psr_node_table_verb verb,
                                                  uint32_t part, const float *values,
                                                  float *ret_values, int64_t deadline_ms,
                                                  const char *name, psr_node_request **ret_request);

#endif
