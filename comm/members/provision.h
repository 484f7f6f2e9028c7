/* What a process of a run is started with: who it is, where its scheduler is, and the keys. Any
 * thread. */
#ifndef PSR_COMM_PROVISION_H
#define PSR_COMM_PROVISION_H

#include "comm/members/join.h"
#include "net/trust/keys.h"
#include "net/address/socket_directory.h"
#include "net/transport.h"

/* One line of JSON on standard input (--provision -), or made from --scheduler, --key-file and
 * --rank. */
typedef struct psr_provision {
    psr_peer self;           /* role, and the rank wanted (PSR_RANK_ANY) */
    char host[PSR_HOST_MAX]; /* what this host is called in messages; "": its own name */
    /* endpoint of the scheduler; for the scheduler itself "", or the ipc socket that others know
     * before */
    char scheduler[PSR_ENDPOINT_MAX];
    char directory[PSR_SOCKET_DIRECTORY_BYTES]; /* to listen on an ipc socket there; "": TCP */
    char sharing[PSR_SOCKET_DIRECTORY_BYTES];   /* over TCP: to share memory in; "": nowhere */
    char interface[PSR_HOST_MAX];               /* to listen on; "": 127.0.0.1 */
    uint16_t port;                              /* to listen on; 0: the kernel gives one */
    uint32_t patience_ms;                       /* how long psr_member_joins_again
                                                   says so; 0: not at all */
    psr_keys keys;
} psr_provision;

/* ret owns: free(). */
PSR_MUST_CHECK psr_err psr_provision_to_json(const psr_provision *provision, char **ret_json);
/* Bytes may be hostile: FORMAT, naming the field. Without a rank it is the one whose key or token
 * this is, where keys are of one rank. ret owns: psr_provision_done. */
PSR_MUST_CHECK psr_err psr_provision_from_json(const char *json, size_t size,
                                               psr_provision *ret_provision);
/* A start by hand: scheduler as HOST:PORT, an endpoint or the path of its ipc socket, beside which
 * this process then listens too (NULL for the scheduler itself), keys as psr_keys_load finds them,
 * an interface or NULL. USAGE or what reading the keys gives. ret owns. */
PSR_MUST_CHECK psr_err psr_provision_by_hand(psr_peer self, const char *scheduler, const char *keys,
                                             const char *interface, psr_provision *ret_provision);
/* HOST:PORT, an endpoint or the path of an ipc socket: sets scheduler, and where it is a socket
 * directory. USAGE. */
PSR_MUST_CHECK psr_err psr_provision_set_scheduler(psr_provision *provision, const char *scheduler);
/* The first line of a stream, as psr_provision_from_json. Reads not one byte more than that
 * line. */
PSR_MUST_CHECK psr_err psr_provision_from_fd(int fd, psr_provision *ret_provision);
/* self's keys: from keys, as psr_keys_load finds them; with NULL, in a directory of sockets,
 * whoever can enter that may join: the kernel keeps other users out. USAGE: over TCP keys are
 * needed; or what psr_keys_load gives. */
PSR_MUST_CHECK psr_err psr_provision_load_keys(psr_provision *provision, const char *keys);
/* Logs a line where psr_provision_load_keys found a file that psring keygen wrote before
 * certificates. keys: what was given. For programs: a library does not log. psr_provision_by_hand
 * does so itself. */
void psr_provision_tell_old_keys(const psr_provision *provision, const char *keys);
void psr_provision_done(psr_provision *provision);

/* How a process with this provision listens; borrows from it. What hears of strangers is the
 * caller's to add. */
psr_zmq_options psr_provision_zmq(const psr_provision *provision);

#endif
