/* The membership machine: a process as its scheduler's member, from JOIN to the end of the run.
 * Free of I/O, of clocks and of what payloads say: messages and the time come in, messages to the
 * scheduler go out. comm/members/member.h drives it over a transport; the simulated cluster of the
 * tests drives it in virtual time.
 *
 *     JOIN    ->  what the owner says of itself
 *             <-  CONFIG   given to the owner, who finds its facts by it
 *     FACTS   ->  these
 *             <-  WELCOME  given to the owner: joined
 * From CONFIG on PROGRESS goes out: four times per deadline, at least ten times a second, and when
 * step or phase has changed (in a long row of changes, every ten milliseconds). What others say
 * before WELCOME is kept. A scheduler that has been silent for the deadline is an error; time in
 * which this process did not run is not silence (psr_presence_clock).
 *
 * now_ms is psr_clock_ms(), or a virtual time; it never goes back. One thread. */
#ifndef PSR_COMM_MEMBERSHIP_H
#define PSR_COMM_MEMBERSHIP_H

#include "base/bytes.h"
#include "comm/wire/messages.h"
#include "net/transport.h"

typedef struct psr_membership psr_membership;

typedef struct psr_membership_options {
    const char *scheduler; /* where it is, for lines; borrowed for life */
    int64_t deadline_ms;   /* until CONFIG gives the run's */
    void *context;
    /* A message to the scheduler. The payload is valid during the call. */
    psr_err (*send)(void *context, const psr_head *head, const psr_payload *payload);
    /* The owner's facts take a while to find: FACTS is said by psr_membership_facts. */
    bool facts_later;
    /* CONFIG came: gives the run's deadline, and what FACTS shall say (malloc'ed; left NULL:
     * nothing, or later). */
    psr_err (*configured)(void *context, psr_bytes payload, int64_t *ret_deadline_ms,
                          void **ret_facts, size_t *ret_facts_size);
    /* WELCOME came: gives the number of the run's members. */
    psr_err (*welcomed)(void *context, psr_bytes payload, size_t *ret_members);
    /* Fills a report, zero before: what this process does, and whom it waits for. NULL: phase
     * start. */
    void (*report)(void *context, psr_msg_progress *progress);
} psr_membership_options;

/* ret owns; the options are copied. */
PSR_MUST_CHECK psr_err psr_membership_new(const psr_membership_options *options, int64_t now_ms,
                                          psr_membership **ret_membership);
void psr_membership_free(psr_membership *membership);

/* Says JOIN, with that text: the first thing to be called, once. */
PSR_MUST_CHECK psr_err psr_membership_join(psr_membership *membership, const char *json);

/* With facts_later, after CONFIG, once: says FACTS. */
PSR_MUST_CHECK psr_err psr_membership_facts(psr_membership *membership, psr_bytes facts);
/* CONFIG has come, and FACTS is still to be said. */
bool psr_membership_owes_facts(const psr_membership *membership);

/* A message that came. What is the membership's own is taken (*message becomes NULL), and until
 * WELCOME everything is; what is left is the caller's. PROTOCOL: the scheduler says something else
 * than is due, or another says more than is kept before WELCOME. PEER: its ABORT, the line as
 * detail; with its REFUSED the status that it says. Otherwise what an event failed with. Takes the
 * message on failure too. */
PSR_MUST_CHECK psr_err psr_membership_message(psr_membership *membership, psr_message **message,
                                              int64_t now_ms);

/* WELCOME has come. */
bool psr_membership_joined(const psr_membership *membership);

/* What others said before WELCOME, in the order in which it came, one by one once there was
 * WELCOME: to be taken before any other message. NULL: nothing (more). The caller owns it. */
psr_message *psr_membership_early(psr_membership *membership);

/* Time passes: says PROGRESS when it is due. Call it by *ret_next_ms, after every message, and when
 * step or phase may have changed. PEER: the scheduler was silent for the deadline. */
PSR_MUST_CHECK psr_err psr_membership_tick(psr_membership *membership, int64_t now_ms,
                                           int64_t *ret_next_ms);

/* PROGRESS now, whether it is due or not. */
PSR_MUST_CHECK psr_err psr_membership_report(psr_membership *membership, int64_t now_ms);

#endif
