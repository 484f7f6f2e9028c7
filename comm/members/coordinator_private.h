/* What the three files of the coordinator share; no other file includes it: coordinator.c (members,
 * messages, time), coordinator_join.c (until START) and coordinator_end.c (how a run ends). */
#ifndef PSR_COMM_COORDINATOR_PRIVATE_H
#define PSR_COMM_COORDINATOR_PRIVATE_H

#include "comm/members/coordinator.h"

typedef enum psr_coordinator_state {
    PSR_COORDINATOR_JOINING,  /* until all have joined and their facts agree */
    PSR_COORDINATOR_WELCOMED, /* members connect to each other and get ready */
    PSR_COORDINATOR_RUNNING,
    PSR_COORDINATOR_ENDED,
} psr_coordinator_state;

typedef enum psr_seat_state {
    PSR_SEAT_EMPTY,
    PSR_SEAT_HERE,
    PSR_SEAT_LEFT, /* in order */
    PSR_SEAT_OUT,  /* was given up, or was refused when it came */
} psr_seat_state;

typedef struct psr_seat {
    psr_view_member entry;
    psr_seat_state state;
    bool joined; /* stays true once it has joined */
    bool told_facts, ready, done;
    bool asked;        /* it was asked what it is doing, and has not answered */
    uint32_t unsealed; /* messages of that type */
    bool cut_at_end;   /* its channel is cut only when nobody is here any more */
} psr_seat;

struct psr_coordinator {
    psr_coordinator_options options;
    char host[PSR_HOST_MAX];
    psr_coordinator_state state;
    psr_seat *seats; /* shards, then workers */
    uint32_t seat_count, joined_count;
    psr_view view; /* its members are set from WELCOME on, its plan from `begin` on */
    psr_liveness *liveness;
    int64_t come_up_by_ms;   /* a present time */
    int64_t user_present_ms; /* when the user next has something to do, as its last tick said */
    int64_t slow_check_ms;
    int64_t now_ms;    /* of the last message */
    uint64_t unheard;  /* messages of processes that have not joined */
    uint64_t unsealed; /* UNSEALED messages */

    /* A member, the launcher or an agent is gone. Its own last words, and what the others are
     * doing, may still come. */
    bool losing, awaits_words;
    const psr_peer *lost; /* the member, in seats; NULL: the launcher or an agent */
    psr_err lost_status;
    char lost_line[PSR_HOST_MAX + 256];
    int64_t lose_at_ms;

    /* Once ended: for processes that join late. */
    psr_err end_status;
    char end_line[PSR_COORDINATOR_LINE_MAX];
};

/* ---- coordinator.c ---- */

/* NULL: peer cannot be a member. */
psr_seat *psr_coordinator_find(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_all(const psr_coordinator *coordinator, bool (*is)(const psr_seat *));
void psr_coordinator_seat_name(const psr_coordinator *coordinator, const psr_seat *seat,
                               char name[static PSR_MEMBER_NAME_MAX]);
void psr_coordinator_say(psr_coordinator *coordinator, const char *format, ...) PSR_PRINTF(2, 3);
/* true: members fail one by one, and the others go on. */
static inline bool psr_coordinator_goes_on(const psr_coordinator *coordinator)
{
    return coordinator->options.user.failed != NULL;
}

/* ---- coordinator_join.c ---- */

psr_err psr_coordinator_take_join(psr_coordinator *coordinator, const psr_message *message,
                                  int64_t now_ms);
psr_err psr_coordinator_take_facts(psr_coordinator *coordinator, psr_seat *seat,
                                   const psr_message *message);
psr_err psr_coordinator_take_ready(psr_coordinator *coordinator, psr_seat *seat,
                                   const psr_message *message);
/* Ends the run if members have not joined in time. */
void psr_coordinator_check_joining(psr_coordinator *coordinator, int64_t present_ms);

/* ---- coordinator_end.c ---- */

/* Ends the run if a process was lost and everybody has answered or had the time to. */
void psr_coordinator_check_losing(psr_coordinator *coordinator, int64_t now_ms);

#endif
