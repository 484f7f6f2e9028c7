/* An update in a table of a shard (psring_update, "sum", "assign"): its arguments, which change
 * from an update's number on, its states, and the mean. The thread that is in psring_serve makes
 * and sets it; the node's thread applies it meanwhile. */
#ifndef PSR_COMM_PSRING_APPLIED_H
#define PSR_COMM_PSRING_APPLIED_H

#include "comm/node/node_table.h"
#include "comm/psring/internal.h"
#include "comm/psring/opening.h"

enum { PSR_UPDATE_STATES_MAX = 8 };

typedef struct psr_applied psr_applied;

/* Whether the communicator has an update of that name (length bytes) itself: "sum", "assign". */
bool psr_applied_is_own(const char *name, size_t length);
/* The update that the program defined by that name; NULL: there is none. */
psr_defined_update *psr_applied_defined(const psring_comm *comm, const char *name, size_t length);

/* Finds the update of a table and checks its arguments. USAGE: there is none, or it does not take
 * them. NOMEM. The caller owns *ret_applied: psr_applied_free. */
PSR_MUST_CHECK psr_err psr_applied_new(const psring_comm *comm, const psr_opening *opening,
                                       psr_applied **ret_applied);
void psr_applied_free(void *applied); /* a psr_applied; NULL allowed */
uint32_t psr_applied_states(const psr_applied *applied);
/* What a table is to register; it borrows applied. */
psr_table_update psr_applied_update(psr_applied *applied);
/* The table is made: allocates the states. Before its first push. NOMEM. */
PSR_MUST_CHECK psr_err psr_applied_begin(psr_applied *applied, psr_node_table *table);

/* New arguments for the updates from number `from` on; 0: for all that come, and none is under way.
 * No update with a number up to `done` will be made any more. arguments: at most
 * PSR_OPENING_UPDATE_BYTES with the end. USAGE: the update does not take them, or too many are set
 * ahead; nothing changes. NOMEM. */
PSR_MUST_CHECK psr_err psr_applied_set(psr_applied *applied, const char *arguments, uint64_t from,
                                       uint64_t done);

#endif
