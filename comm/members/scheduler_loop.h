/* The loop of a process that others join: training's scheduler, psring run's, and one that a rank
 * hosts. It takes messages until there are none, then whatever else the process does between two
 * looks at them, and lets time pass when the inbox is empty, so that nobody is called silent whose
 * words lie there unread. What the three do differently are the functions that it calls. It also
 * reaches members over its transport for a coordinator. Plain data; one thread, but for
 * psr_scheduler_loop_wake. */
#ifndef PSR_COMM_SCHEDULER_LOOP_H
#define PSR_COMM_SCHEDULER_LOOP_H

#include "comm/members/coordinator.h"
#include "comm/members/provision.h"

/* Messages, and orders, between two looks at everything else. */
#define PSR_SCHEDULER_BURST 256
/* At the end: for BYE or a verdict to leave; and for ABORT, for one that is gone takes none, and
 * nobody should wait for that. */
#define PSR_SCHEDULER_LINGER_MS 2000
#define PSR_SCHEDULER_ABORT_LINGER_MS 300

typedef struct psr_scheduler_loop {
    psr_transport *transport; /* borrowed, as the next: whose keys members have */
    const psr_provision *provision;
    int64_t deadline_ms;
    void *context;
    /* Takes a message. */
    void (*take)(void *context, psr_message *message, int64_t now_ms);
    /* Nothing can be received any more, as the detail says. */
    void (*failed)(void *context, psr_err err);
    /* Each time round, behind the messages: orders, signs of life, files. true: there is more to do
     * at once. NULL: there is nothing. */
    bool (*between)(void *context, int64_t now_ms);
    /* Time passes, the inbox is empty or has not been for two deadlines. */
    void (*tick)(void *context, int64_t now_ms);
    /* When between or tick is to be called next, at the latest. */
    int64_t (*next_ms)(void *context);
    /* The loop ends. Asked behind each message, too. */
    bool (*over)(void *context);
    int64_t ticked_ms;
} psr_scheduler_loop;

/* Until over says so. */
void psr_scheduler_loop_run(psr_scheduler_loop *loop);
/* It waits no longer. [any thread] */
void psr_scheduler_loop_wake(void *loop);
/* For a coordinator that the loop lives as long as. */
psr_coordinator_ways psr_scheduler_loop_ways(psr_scheduler_loop *loop);

#endif
