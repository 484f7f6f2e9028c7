/* Whether processes of this host live. The process that others join listens at a Unix socket beside
 * its endpoint. A member of this host connects there, says who it is, and keeps the connection.
 * When either process ends without a goodbye, the other one hears of it from the kernel, at once:
 * its pidfd becomes readable, or its socket is closed. So a process that is killed is missed
 * without a deadline; one that is stopped is not ended.
 *
 * A member is known by the routing id of its channel, as a process that lends memory is
 * (net/sharing/share_wire.h). It believes only a process that has recognized this id. Where no such
 * connection can be had, nothing is known, and silence alone tells. One thread. */
#ifndef PSR_NET_SHARING_LIVES_H
#define PSR_NET_SHARING_LIVES_H

#include "net/sharing/share_wire.h"

/* The most connections; and the most that have not said yet who they are. */
#define PSR_LIVES_MAX 4096
#define PSR_LIVES_UNKNOWN_MAX 64

typedef struct psr_lives psr_lives;

/* user: whose processes may be watched and may watch: this process's own. IO, NOMEM. The caller
 * owns *ret_lives. */
PSR_MUST_CHECK psr_err psr_lives_new(unsigned user, psr_lives **ret_lives);
/* Says goodbye to all. NULL allowed. */
void psr_lives_free(psr_lives *lives);

typedef struct psr_lives_listening {
    const char *endpoint; /* of this process; borrowed for the call */
    uint32_t host_rank;   /* of the member whose process this is too; PSR_RANK_ANY: none's */
    void *context;
    /* Finds the member whose channel has that routing id. false: no member has it. */
    bool (*known)(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer);
} psr_lives_listening;

/* Members may connect from now on. IO: nobody can listen there, or somebody else does. */
PSR_MUST_CHECK psr_err psr_lives_listen(psr_lives *lives, const psr_lives_listening *listening);
/* Whether a member has ended without a goodbye that psr_lives_ended has not returned yet. */
bool psr_lives_any_ended(const psr_lives *lives);
/* The next member that has ended without a goodbye. false: there is none. Each is returned once. */
bool psr_lives_ended(psr_lives *lives, psr_peer *ret_peer);

/* Connects to the scheduler at that endpoint; id is the routing id of the channel to it. Does
 * nothing if it cannot be reached in this way, because it is on another host for example. Never
 * waits. */
void psr_lives_greet(psr_lives *lives, const char *endpoint,
                     const uint8_t id[PSR_ROUTING_ID_BYTES]);
/* The opposite, with a goodbye. Does nothing if it is not connected. */
void psr_lives_part(psr_lives *lives);
/* Whether the scheduler has ended without a goodbye. */
bool psr_lives_scheduler_ended(const psr_lives *lives);
/* The host_rank that the scheduler has told (psr_lives_listening); PSR_RANK_ANY also: it has told
 * none. */
uint32_t psr_lives_scheduler_rank(const psr_lives *lives);

/* The descriptor to poll for input. When there is some, psr_lives_serve reads it without
 * waiting. */
int psr_lives_fd(const psr_lives *lives);
void psr_lives_serve(psr_lives *lives);

#endif
