/* What the files of bad_member share. For those alone. */
#ifndef PSR_TESTS_BAD_MEMBER_H
#define PSR_TESTS_BAD_MEMBER_H

#include "comm/members/member.h"

typedef struct bad {
    psr_provision provision;
    const char *facts;
    psr_transport *transport;
    psr_member *member;
    void *ctx, *dealer; /* of those that speak ZeroMQ by themselves */
    uint64_t sequence;  /* of the dealer's next message */
} bad;

typedef struct behaviour {
    const char *name;
    psr_err (*play)(bad *b);
} behaviour;

/* Its transport, if it has none yet. */
PSR_MUST_CHECK psr_err bad_open(bad *b);
/* Joins, and is welcomed. */
PSR_MUST_CHECK psr_err bad_join(bad *b);
/* Joins, if it has not, says READY, and waits for START. */
PSR_MUST_CHECK psr_err bad_start(bad *b);
/* A dealer of its own to a member's endpoint, whose channel has that id. */
#define BAD_ID "bad member, bad"
PSR_MUST_CHECK psr_err bad_connect(bad *b, psr_peer peer, const char *endpoint);
/* Numbers the head; frame 2 is those bytes, whatever the head announces (none: NULL). */
PSR_MUST_CHECK psr_err bad_send(bad *b, psr_head head, size_t announced, const void *bytes,
                                size_t size);

/* bad_memory.c: what a member can do wrong that shares memory. */
extern const behaviour bad_memory_behaviours[];
extern const size_t bad_memory_behaviour_count;
/* bad_flood.c: what it can ask for and not read. */
extern const behaviour bad_flood_behaviours[];
extern const size_t bad_flood_behaviour_count;

#endif
