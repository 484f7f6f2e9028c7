/* The membership machine: a process as a member of its scheduler, from JOIN to the end of the run.
 * It does no I/O, reads no clock and does not look into payloads: messages and the time come in,
 * messages to the scheduler go out. comm/members/member.h drives it over a transport; the simulated
 * cluster of the tests drives it in virtual time.
 *
 *     JOIN    ->  the text that the owner gives
 *             <-  CONFIG   given to the owner, who finds its facts by it
 *     FACTS   ->  these facts
 *             <-  WELCOME  given to the owner: joined
 * From CONFIG on it sends PROGRESS: four times per deadline, at least ten times a second, and when
 * step or phase has changed (in a long series of changes every ten milliseconds). Messages of
 * others that come before WELCOME are kept. If the scheduler is silent for psr_liveness_silence_ms,
 * or before CONFIG for the deadline, that is an error; time in which this process did not run does
 * not count as silence (psr_presence_clock).
 *
 * now_ms is psr_clock_ms(), or a virtual time; it never goes back. One thread. */
#ifndef PSR_COMM_MEMBERSHIP_H
#define PSR_COMM_MEMBERSHIP_H

#include "base/bytes.h"
#include "comm/wire/messages.h"
#include "net/transport.h"

typedef struct psr_membership psr_membership;

typedef struct psr_membership_options {
    const char *scheduler; /* the scheduler's address, for lines; borrowed for life */
    int64_t deadline_ms;   /* until CONFIG gives the run's deadline */
    void *context;
    /* Sends a message to the scheduler. The payload is valid during the call. */
    psr_err (*send)(void *context, const psr_head *head, const psr_payload *payload);
    /* The owner's facts take a while to find, and psr_membership_facts sends FACTS later. */
    bool facts_later;
    /* CONFIG came. Gives the run's deadline and the bytes of FACTS (malloc'ed; NULL: none, or they
     * come later). */
    psr_err (*configured)(void *context, psr_bytes payload, int64_t *ret_deadline_ms,
                          void **ret_facts, size_t *ret_facts_size);
    /* WELCOME came. Gives the number of the run's members. */
    psr_err (*welcomed)(void *context, psr_bytes payload, size_t *ret_members);
    /* Fills in a report that is zero before: what this process does, and whom it waits for. NULL:
     * the phase is "start". */
    void (*report)(void *context, psr_msg_progress *progress);
} psr_membership_options;

/* The caller owns *ret_membership. The options are copied. */
PSR_MUST_CHECK psr_err psr_membership_new(const psr_membership_options *options, int64_t now_ms,
                                          psr_membership **ret_membership);
void psr_membership_free(psr_membership *membership);

/* Sends JOIN with this text. Must be the first call, and is made once. */
PSR_MUST_CHECK psr_err psr_membership_join(psr_membership *membership, const char *json);

/* With facts_later: sends FACTS. Called once, after CONFIG. */
PSR_MUST_CHECK psr_err psr_membership_facts(psr_membership *membership, psr_bytes facts);
/* CONFIG has come, and FACTS has not been sent yet. */
bool psr_membership_owes_facts(const psr_membership *membership);

/* Takes a message that came. Until WELCOME, all messages are the membership's; after it only its
 * own. One that it keeps sets *message to NULL; any other is left to the caller. On failure the
 * message is taken too. PROTOCOL: the scheduler sent another message than the one that is due, or a
 * process sent more than is kept before WELCOME. PEER: the scheduler's ABORT; its line is the
 * detail. The status that REFUSED gives. Otherwise the failure of a callback. */
PSR_MUST_CHECK psr_err psr_membership_message(psr_membership *membership, psr_message **message,
                                              int64_t now_ms);

/* WELCOME has come. */
bool psr_membership_joined(const psr_membership *membership);

/* After WELCOME: returns the messages that others sent before it, in the order in which they came,
 * one in each call. They must be handled before any other message. NULL: there are no more. The
 * caller owns the message. */
psr_message *psr_membership_early(psr_membership *membership);

/* Time has passed: sends PROGRESS when it is due. Call it at *ret_next_ms, after every message, and
 * when step or phase may have changed. PEER: the scheduler was silent. */
PSR_MUST_CHECK psr_err psr_membership_tick(psr_membership *membership, int64_t now_ms,
                                           int64_t *ret_next_ms);

/* For how long the scheduler was silent, if psr_membership_tick has failed because of that; 0: it
 * has not. */
int64_t psr_membership_silent_ms(const psr_membership *membership);

/* Sends PROGRESS now, due or not. */
PSR_MUST_CHECK psr_err psr_membership_report(psr_membership *membership, int64_t now_ms);

#endif
