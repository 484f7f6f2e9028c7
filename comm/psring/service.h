/* What a group's first rank and the shards say to one another beside a table's own messages: by
 * operations of a group of one worker and all shards, of which each worker has one. It is open as
 * long as the communicator, or until one of them fails: the shards serve the other workers then.
 * Within a call. */
#ifndef PSR_COMM_PSRING_SERVICE_H
#define PSR_COMM_PSRING_SERVICE_H

#include "comm/psring/internal.h"
#include "comm/node/node_table.h"
#include "comm/psring/opening.h"

/* A worker to each shard, in their order:
 *     NOTICE (what, words)       a shard waits for one of every worker
 *     OPENING (words)            when it is OPEN; and then
 *       <- REPLY                 it can hold the table, or why not
 *     GO (yes or no)             the table's group begins, with a barrier
 * CLOSE: all workers of the table have closed it. LEAVE: this worker opens none any more. */
typedef enum psr_notice { PSR_NOTICE_OPEN = 1, PSR_NOTICE_CLOSE, PSR_NOTICE_LEAVE } psr_notice;
enum {
    PSR_NOTICE_WHAT,
    PSR_NOTICE_NUMBER /* OPEN: words; CLOSE: the group's id */,
    PSR_NOTICE_WORDS
};
typedef enum psr_service_tag {
    PSR_SERVICE_NOTICE,
    PSR_SERVICE_OPENING,
    PSR_SERVICE_REPLY,
    PSR_SERVICE_GO
} psr_service_tag;

enum { PSR_REPLY_LINE_BYTES = 504 };
typedef struct psr_reply {
    int64_t err; /* psr_err */
    char line[PSR_REPLY_LINE_BYTES];
} psr_reply;
#define PSR_REPLY_WORDS (sizeof(psr_reply) / sizeof(int64_t))

/* The group of this worker and the shards; on a shard: of that rank, a worker, and the shards. */
psr_node_group *psr_service_group(const psring_comm *comm, uint32_t rank);
/* Sends, or receives, count words to or from a rank of all, and waits: a worker's is a shard. */
psr_err psr_service_send(psring_comm *comm, uint32_t rank, psr_service_tag tag, const void *words,
                         size_t count, const psring_call *call);
psr_err psr_service_receive(psring_comm *comm, uint32_t rank, psr_service_tag tag, void *ret_words,
                            size_t count, const psring_call *call);
/* A notice to all shards. */
psr_err psr_service_notify(psring_comm *comm, psr_notice what, int64_t number,
                           const psring_call *call);

/* The group of a table, with it: its workers, then all shards. of_shard: its update, and what goes
 * with that; NULL: of a worker. ret owns, until it is ordered to be opened. */
psr_err psr_service_make_group(psring_comm *comm, const psr_opening *opening,
                               const psr_node_table_options *of_shard, psr_node_group **ret_group);
/* Opens it. Takes group, on failure too. */
PSR_MUST_CHECK psr_err psr_service_open_group(psring_comm *comm, psr_node_group *group);
/* By all of it: returns when it has its first values: the first worker's when they are not zero. */
psr_err psr_service_begin_table(psring_comm *comm, psr_node_group *group, bool initial,
                                const psring_call *call);

#endif
