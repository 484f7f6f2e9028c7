/* What a process of a run is given when it is started: who it is, where its scheduler is, and its
 * keys. Any thread. */
#ifndef PSR_COMM_PROVISION_H
#define PSR_COMM_PROVISION_H

#include "comm/members/join.h"
#include "net/trust/keys/keys.h"
#include "net/address/socket_directory.h"
#include "net/transport.h"

/* It is one line of JSON on standard input (--provision -), or is made from --scheduler, --key-file
 * and --rank. */
typedef struct psr_provision {
    psr_peer self;           /* its role, and the rank that it wants (PSR_RANK_ANY: any) */
    char host[PSR_HOST_MAX]; /* the name of this host in messages; "": the host's own name */
    /* Endpoint of the scheduler. For the scheduler itself "", or the ipc socket that it must use
     * because others know its name already. */
    char scheduler[PSR_ENDPOINT_MAX];
    /* directory to listen in with an ipc socket; "": over TCP */
    char directory[PSR_SOCKET_DIRECTORY_BYTES];
    char sharing[PSR_SOCKET_DIRECTORY_BYTES]; /* over TCP: directory to share memory in; "": none */
    char interface[PSR_HOST_MAX];             /* interface to listen on; "": 127.0.0.1 */
    uint16_t port;                            /* port to listen on; 0: the kernel chooses one */
    uint32_t patience_ms; /* for how long psr_member_joins_again returns true; 0: never */
    psr_keys keys;
} psr_provision;

/* The caller owns *ret_json: free(). */
PSR_MUST_CHECK psr_err psr_provision_to_json(const psr_provision *provision, char **ret_json);
/* Reads a provision. If it has no rank, the rank is that of its key or token, where these belong to
 * one rank. The bytes may be hostile: FORMAT names the field. The caller owns *ret_provision:
 * psr_provision_done. */
PSR_MUST_CHECK psr_err psr_provision_from_json(const char *json, size_t size,
                                               psr_provision *ret_provision);
/* The provision of a process that is started by hand. scheduler: HOST:PORT, an endpoint, or the
 * path of its ipc socket, beside which this process then listens too; NULL for the scheduler
 * itself. keys: as for psr_keys_load. interface: may be NULL. USAGE, or what reading the keys
 * returns. The caller owns *ret_provision: psr_provision_done. */
PSR_MUST_CHECK psr_err psr_provision_by_hand(psr_peer self, const char *scheduler, const char *keys,
                                             const char *interface, psr_provision *ret_provision);
/* Sets the scheduler from HOST:PORT, an endpoint or the path of an ipc socket; with a socket it
 * sets the directory too. USAGE: it is none of these. */
PSR_MUST_CHECK psr_err psr_provision_set_scheduler(psr_provision *provision, const char *scheduler);
/* Reads the first line of a stream as psr_provision_from_json does, and not one byte beyond it. */
PSR_MUST_CHECK psr_err psr_provision_from_fd(int fd, psr_provision *ret_provision);
/* Loads self's keys from keys, as psr_keys_load does. keys NULL: in a directory of sockets whoever
 * can enter it may join, since the kernel keeps other users out; over TCP keys are required
 * (USAGE). Otherwise what psr_keys_load returns. */
PSR_MUST_CHECK psr_err psr_provision_load_keys(psr_provision *provision, const char *keys);
/* Logs a line if keys (as given to psr_provision_load_keys) is a file in the form that psring
 * keygen wrote before it wrote certificates. Only programs call it, since a library does not log.
 * psr_provision_by_hand calls it itself. */
void psr_provision_tell_old_keys(const psr_provision *provision, const char *keys);
void psr_provision_done(psr_provision *provision);

/* The options by which a process with this provision listens; they borrow from it. The caller adds
 * the callbacks that hear of strangers. */
psr_zmq_options psr_provision_zmq(const psr_provision *provision);

#endif
