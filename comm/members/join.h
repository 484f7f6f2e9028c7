/* What is said while a run comes together: one codec for both sides, the scheduler and its members.
 * CONFIG, FACTS and WELCOME also carry bytes of the users, which this codec does not read: what
 * they compute, and what they must agree on. The bytes may be hostile; every function that reads
 * returns FORMAT, which names the field. No state; any thread. */
#ifndef PSR_COMM_JOIN_H
#define PSR_COMM_JOIN_H

#include "base/bytes.h"
#include "comm/view/view.h"
#include "net/message.h"

#define PSR_VERSION_MAX 32

/* ---- JOIN ---- */

typedef struct psr_join {
    char version[PSR_VERSION_MAX];
    char host[PSR_HOST_MAX];
    char endpoint[PSR_ENDPOINT_MAX];
    psr_memory_place memory;
    int64_t pid;
} psr_join;

/* The caller owns *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_join_to_json(const psr_join *join, char **ret_json);
PSR_MUST_CHECK psr_err psr_join_from_json(psr_bytes json, psr_join *ret_join);
/* Reads the JOIN of a message. What cannot be read is a violation of the protocol by the sender
 * (PROTOCOL, which names it). */
PSR_MUST_CHECK psr_err psr_join_read(const psr_message *message, psr_join *ret_join);
/* Turns a failure that the text of a JOIN caused into the sender's violation: FORMAT and USAGE
 * become PROTOCOL. */
PSR_MUST_CHECK psr_err psr_join_blame(const psr_message *message, psr_err err);
/* VERSION: the joiner has another version than this process, the scheduler on scheduler_host. The
 * line names both versions, and the joiner by who: "worker 1". */
PSR_MUST_CHECK psr_err psr_join_check_version(const psr_join *join, const char *who,
                                              const char *scheduler_host);

/* ---- CONFIG: a JSON object, a zero byte, and the bytes of the scheduler's user ---- */

/* The place of a process in its run. */
typedef struct psr_place {
    uint32_t rank;  /* among the processes of its role */
    uint32_t ranks; /* the number of workers whose gradients a sum has, at least 1 */
    int64_t deadline_ms;
} psr_place;

/* The caller owns the payload of all functions here: free(). */
PSR_MUST_CHECK psr_err psr_place_write(const psr_place *place, psr_bytes given, void **ret_payload,
                                       size_t *ret_size);
/* *ret_given is borrowed from the payload, as *ret_agreed below. */
PSR_MUST_CHECK psr_err psr_place_read(psr_bytes payload, psr_place *ret_place,
                                      psr_bytes *ret_given);

/* ---- WELCOME: a JSON object, a zero byte, and what the facts of the users have agreed on ---- */

/* NOMEM. The caller owns *ret_payload: free(). */
PSR_MUST_CHECK psr_err psr_welcome_write(const psr_view *view, psr_bytes agreed, void **ret_payload,
                                         size_t *ret_size);
/* The caller owns *ret_view: psr_view_done. */
PSR_MUST_CHECK psr_err psr_welcome_read(psr_bytes payload, psr_view *ret_view,
                                        psr_bytes *ret_agreed);

#endif
