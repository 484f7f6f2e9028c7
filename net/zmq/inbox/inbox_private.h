/* What the files of the inbox share: inbox.c (beginning and end, taking), inbox_members.c (who
 * sends), inbox_messages.c (from frames to a message), inbox_sealed.c, inbox_pipes.c. For those
 * alone. */
#ifndef PSR_NET_ZMQ_INBOX_PRIVATE_H
#define PSR_NET_ZMQ_INBOX_PRIVATE_H

#include "net/transport_private.h"
#include "net/trust/bindings.h"
#include "net/trust/admission.h"
#include "net/address/interface.h"
#include "net/address/socket_directory.h"
#include "net/zmq/inbox/inbox.h"
#include "net/zmq/inbox/sealed_in.h"

#include <zmq.h>

/* A message of the ROUTER. */
typedef struct psr_frames {
    zmq_msg_t id, head, payload;
    unsigned count;
} psr_frames;

struct psr_inbox {
    psr_zmq_options options;
    void *router;
    psr_admission *admission;
    psr_bindings bindings;
    char endpoint[PSR_SOCKET_DIRECTORY_BYTES + PSR_ADDRESS_BYTES + 32];
    /* path of an ipc socket, which is removed at the end. "": none */
    char file[PSR_SOCKET_DIRECTORY_BYTES + PSR_ADMISSION_NAME_BYTES + 16];
    psr_borrower *borrower; /* NULL: no memory is shared */
    psr_pipes_in *pipes;    /* NULL: nobody writes pipes */
    /* A message of the socket for which others are read from a pipe first. */
    bool any_kept;
    psr_frames kept;
    size_t kept_after;       /* messages of the pipe that were read meanwhile */
    psr_sealed_in *sealed;   /* NULL: nothing comes sealed */
    psr_sealed_channel *due; /* what it holds, or its pipe, may have the next; NULL: none */
    bool sealed_first;       /* the two sockets take turns */
    uint64_t introductions;
    bool refused;               /* a process was refused, and its line may still be on its way */
    _Atomic uint64_t strangers; /* counts messages; admission counts connections */
    int64_t window_begin_ms;
    unsigned window_lines;
    uint64_t unlogged;
};

/* What a message of the socket becomes. */
typedef struct psr_inbox_received {
    psr_message base;
    zmq_msg_t frame;                  /* has the payload */
    uint8_t id[PSR_ROUTING_ID_BYTES]; /* that of the connection on which it came */
    void *aligned; /* a copy of the payload, if libzmq put it at an unaligned address */
} psr_inbox_received;

/* What stands behind a head. */
typedef struct psr_body {
    const void *bytes;
    size_t count;
    zmq_msg_t *frame; /* which it lies in */
    bool sealed;
} psr_body;

/* ---- inbox_members.c ---- */

void psr_inbox_say_stranger(psr_inbox *inbox, const char *line); /* rate-limited */
/* Counts and logs a message that is dropped: its connection passed admission, but it cannot be
 * attributed to a member. The caller drops the frames. Returns PSR_OK. */
psr_err psr_inbox_drop(psr_inbox *inbox, psr_peer claimed, const char *reason);
/* A member has broken the protocol; err is the codec's. */
psr_err psr_inbox_violation(psr_peer peer, psr_err err);
/* Back on a connection. The queue to it is short; what does not fit is dropped. */
void psr_inbox_send_back(psr_inbox *inbox, const void *id, size_t id_bytes, const psr_head *head,
                         const void *payload, size_t payload_bytes);
/* Tells a process of another protocol version why it is refused. Returns what it did. */
psr_err psr_inbox_refuse_bytes(psr_inbox *inbox, psr_frames *f, psr_peer peer, psr_err decoded);
/* The first message of a routing id. */
PSR_MUST_CHECK psr_err psr_inbox_introduce(psr_inbox *inbox, psr_frames *f, psr_err decoded,
                                           const psr_head *head);
/* Whether the connection that a message came on was let in under the name to which its routing id
 * is bound. */
bool psr_inbox_is_bound(psr_inbox *inbox, psr_binding *binding, psr_frames *f);
void psr_inbox_forget_sealed(psr_inbox *inbox, psr_binding *binding);
/* A later HELLO. */
PSR_MUST_CHECK psr_err psr_inbox_rename(psr_inbox *inbox, psr_binding *binding,
                                        const psr_head *head);

/* ---- inbox_messages.c ---- */

void psr_inbox_received_release(psr_message *message);
void psr_frames_close(psr_frames *f);
/* As a message, a payload that stays in its owner's memory. */
PSR_MUST_CHECK psr_err psr_inbox_deliver_reference(psr_inbox *inbox, const psr_binding *binding,
                                                   const psr_head *head, uint64_t payload_bytes,
                                                   const psr_reference *reference,
                                                   psr_message **ret_message);
psr_err psr_inbox_sent_twice(const psr_binding *binding, const psr_head *head);
/* A message of a member, whose head has been read, is the next one of its channel. *ret_message
 * stays NULL when it was not for the owner. extra: frames behind the payload's. */
PSR_MUST_CHECK psr_err psr_inbox_take_next(psr_inbox *inbox, psr_binding *binding,
                                           const psr_head *head, uint64_t payload_bytes,
                                           const psr_body *b, unsigned extra,
                                           psr_message **ret_message);
/* *ret_message stays NULL when the frames were not for the owner: HELLO, a stranger's. may_keep:
 * messages that are read from a pipe may come before; *ret_keep: they do, and the frames are to be
 * handled again after them. */
PSR_MUST_CHECK psr_err psr_inbox_handle(psr_inbox *inbox, psr_frames *f, bool may_keep,
                                        bool *ret_keep, psr_message **ret_message);

/* ---- inbox_sealed.c ---- */

/* The next of the second connections; *ret_there: there was one. */
PSR_MUST_CHECK psr_err psr_inbox_take_sealed(psr_inbox *inbox, bool *ret_there,
                                             psr_message **ret_message);
/* The next message of the channel that is due, if it is there. */
PSR_MUST_CHECK psr_err psr_inbox_take_due(psr_inbox *inbox, psr_message **ret_message);

/* ---- inbox_pipes.c ---- */

/* The next message of one sender's pipe, if it is the next of its channel. count: of those. */
PSR_MUST_CHECK psr_err psr_inbox_take_piped_of(psr_inbox *inbox, const void *id, size_t *count,
                                               psr_message **ret_message);
/* A message of the socket that is kept until those of its sender's pipe that come before it have
 * been read, or one of those. */
PSR_MUST_CHECK psr_err psr_inbox_take_kept(psr_inbox *inbox, psr_message **ret_message);

#endif
