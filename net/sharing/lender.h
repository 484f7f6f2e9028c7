/* The lending end of shared memory towards one peer, beside the channel to it. It passes this
 * process's arenas to the peer. Once the peer says that it has mapped an arena, a payload that lies
 * there is not sent: a reference is, and the loan ends when the peer returns it. When the peer is
 * gone, all its loans end. What the peer says is checked: it can return only what it has, and only
 * once.
 *
 * It also writes a pipe to the peer (net/sharing/pipe.h), once the peer has shown its board. One
 * thread. */
#ifndef PSR_NET_SHARING_LENDER_H
#define PSR_NET_SHARING_LENDER_H

#include "net/sharing/share_wire.h"
#include "net/sharing/shared_arena.h"
#include "net/transport.h"

typedef struct psr_lender psr_lender;

/* Connects to the peer that listens at path, a process of `user`, and names itself by the routing
 * id of its channel to the peer. Never waits. DENIED: another user listens there. IO: nobody
 * listens, or the kernel refuses. The caller owns *ret_lender. */
PSR_MUST_CHECK psr_err psr_lender_new(psr_peer peer, const char *path, unsigned user,
                                      const uint8_t id[PSR_ROUTING_ID_BYTES],
                                      psr_lender **ret_lender);
/* Ends all loans. NULL allowed. */
void psr_lender_free(psr_lender *lender);

/* Passes an arena, which is borrowed until it is withdrawn or the lender ends. An arena that was
 * passed already is not passed again. While PSR_SHARED_ARENAS_MAX arenas are the peer's, those that
 * it has not yet heard are withdrawn included, the arena is not passed: call this again after
 * psr_lender_serve. IO: the peer does not take it in time. */
PSR_MUST_CHECK psr_err psr_lender_offer(psr_lender *lender, const psr_shared_arena *arena);

/* Passes a pipe, to be called once. Where this system has no memory for it, there is none. */
void psr_lender_pass_pipe(psr_lender *lender);
/* Writes both frames of a message into the pipe, and wakes the peer if it sleeps. second_bytes: 0:
 * there is one frame. *ret_put: false: there is no pipe, or no room: the message must be sent.
 * PROTOCOL: the peer says that it has read what was not written. */
PSR_MUST_CHECK psr_err psr_lender_put(psr_lender *lender, const void *first, size_t first_bytes,
                                      const void *second, size_t second_bytes, bool *ret_put);
/* Whether the peer has shown its board, and has not hung up. */
bool psr_lender_has_pipe(const psr_lender *lender);

/* Stops lending from an arena and tells the peer to unmap it. The caller knows that nothing of it
 * is lent now. Does nothing if the arena was not passed. */
void psr_lender_withdraw(psr_lender *lender, const psr_shared_arena *arena);

/* Reads what the peer has said, without waiting, and calls the releases of the loans that ended.
 * PROTOCOL: the peer returned what it does not have, or sent an unknown record. IO: it refused an
 * arena; the detail says why. A peer that has hung up is no error: its loans end, and payloads are
 * sent as messages from then on. */
PSR_MUST_CHECK psr_err psr_lender_serve(psr_lender *lender);
/* Whether the peer has mapped an arena, and has not hung up. */
bool psr_lender_has_taker(const psr_lender *lender);
/* Whether it has mapped that one. */
bool psr_lender_has_taken(const psr_lender *lender, const psr_shared_arena *arena);
/* The descriptor to watch for input; -1: the peer has hung up. */
int psr_lender_fd(const psr_lender *lender);

/* Makes a reference to a lent payload and takes its loan over. false: the payload must be sent,
 * because its message (head) may not refer, it lies in no arena that the peer has mapped, or it is
 * too short. */
bool psr_lender_refer(psr_lender *lender, const psr_head *head, const psr_payload *payload,
                      psr_reference *ret_reference);
/* Ends the loan of a reference that was not sent. */
void psr_lender_recall(psr_lender *lender, const psr_reference *reference);

#endif
