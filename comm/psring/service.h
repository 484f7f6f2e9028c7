/* What a group's first rank and the shards say to each other besides a table's own messages. They
 * use operations of a group of one worker and all shards; each worker has such a group. It stays
 * open as long as the communicator, or until one of its ranks fails; then the shards serve the
 * other workers. Called within a psring call. */
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
 *     SETTING (words)            when it is SET; and then
 *       <- REPLY                 it has the arguments, or why not
 * CLOSE: all workers of the table have closed it. LEAVE: this worker opens none any more. */
typedef enum psr_notice {
    PSR_NOTICE_OPEN = 1,
    PSR_NOTICE_CLOSE,
    PSR_NOTICE_LEAVE,
    PSR_NOTICE_SET
} psr_notice;
enum {
    PSR_NOTICE_WHAT,
    PSR_NOTICE_NUMBER /* OPEN: words; CLOSE, SET: the group's id */,
    PSR_NOTICE_WORDS
};
typedef enum psr_service_tag {
    PSR_SERVICE_NOTICE,
    PSR_SERVICE_OPENING,
    PSR_SERVICE_REPLY,
    PSR_SERVICE_GO,
    PSR_SERVICE_SETTING
} psr_service_tag;

/* New arguments of a table's update (psr_applied_set). */
typedef struct psr_setting {
    int64_t from, done;
    char arguments[PSR_OPENING_UPDATE_BYTES];
} psr_setting;
#define PSR_SETTING_WORDS (sizeof(psr_setting) / sizeof(int64_t))

enum { PSR_REPLY_LINE_BYTES = 496 };
typedef struct psr_reply {
    int64_t err;    /* psr_err */
    int64_t states; /* of the update */
    char line[PSR_REPLY_LINE_BYTES];
} psr_reply;
#define PSR_REPLY_WORDS (sizeof(psr_reply) / sizeof(int64_t))

/* The group of this worker and the shards; on a shard: the group of worker `rank` and the
 * shards. */
psr_node_group *psr_service_group(const psring_comm *comm, uint32_t rank);
/* Sends or receives count words to or from a rank, and waits. On a worker that rank is a shard.
 * rank is numbered among all ranks. */
psr_err psr_service_send(psring_comm *comm, uint32_t rank, psr_service_tag tag, const void *words,
                         size_t count, const psring_call *call);
psr_err psr_service_receive(psring_comm *comm, uint32_t rank, psr_service_tag tag, void *ret_words,
                            size_t count, const psring_call *call);
/* Sends a notice to all shards. */
psr_err psr_service_notify(psring_comm *comm, psr_notice what, int64_t number,
                           const psring_call *call);

/* Makes the group of a table, with the table: its workers, then all shards. of_shard: the update
 * and what belongs to it; NULL: on a worker. The caller owns *ret_group until it orders it to be
 * opened. */
psr_err psr_service_make_group(psring_comm *comm, const psr_opening *opening,
                               const psr_node_table_options *of_shard, psr_node_group **ret_group);
/* Opens the group. Takes group, on failure too. */
PSR_MUST_CHECK psr_err psr_service_open_group(psring_comm *comm, psr_node_group *group);
/* Called by all of its ranks; returns when the table has its initial values: those of the first
 * worker, or zeros. */
psr_err psr_service_begin_table(psring_comm *comm, psr_node_group *group, bool initial,
                                const psring_call *call);

#endif
