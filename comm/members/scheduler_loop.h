/* The loop of a process that others join: training's scheduler, psring run's, and one that a rank
 * hosts. It takes messages until there are none, does the process's other work between bursts of
 * them, and lets time pass when the inbox is empty, so that no member is called silent while its
 * messages lie there unread. The functions that it calls are what the three processes do
 * differently. It also connects a coordinator to its members over the loop's transport. Plain data;
 * one thread, except psr_scheduler_loop_wake. */
#ifndef PSR_COMM_SCHEDULER_LOOP_H
#define PSR_COMM_SCHEDULER_LOOP_H

#include "comm/members/coordinator.h"
#include "comm/members/provision.h"

/* Most messages, and orders, that are taken before everything else gets its turn. */
#define PSR_SCHEDULER_BURST 256
/* How long to wait at the end, in milliseconds: for BYE or a verdict to leave; and for ABORT, which
 * is shorter because a process that is gone takes no message. */
#define PSR_SCHEDULER_LINGER_MS 2000
#define PSR_SCHEDULER_ABORT_LINGER_MS 300

typedef struct psr_scheduler_loop {
    psr_transport *transport; /* borrowed, as provision: whose keys the members have */
    const psr_provision *provision;
    int64_t deadline_ms;
    void *context;
    /* Takes a message, and owns it. */
    void (*take)(void *context, psr_message *message, int64_t now_ms);
    /* Nothing can be received any more; the detail says why. */
    void (*failed)(void *context, psr_err err);
    /* Called in each round after the messages, for orders, signs of life and files. true: there is
     * more to do at once. NULL: no such work. */
    bool (*between)(void *context, int64_t now_ms);
    /* The process of a member of this host has ended without having left the transport in order;
     * the inbox is empty. NULL: members are not watched. */
    void (*ended)(void *context, psr_peer peer, int64_t now_ms);
    uint32_t host_rank; /* see psr_transport_watch_members; for `ended` */
    /* Time has passed: the inbox is empty, or has not been empty for two deadlines. */
    void (*tick)(void *context, int64_t now_ms);
    /* When between or tick must be called next, in ms of psr_clock_ms. */
    int64_t (*next_ms)(void *context);
    /* true: the loop ends. Asked after each message too. */
    bool (*over)(void *context);
    int64_t ticked_ms;
} psr_scheduler_loop;

/* Runs until over returns true. */
void psr_scheduler_loop_run(psr_scheduler_loop *loop);
/* Ends the present wait. [any thread] */
void psr_scheduler_loop_wake(void *loop);
/* The ways of a coordinator that does not outlive the loop. */
psr_coordinator_ways psr_scheduler_loop_ways(psr_scheduler_loop *loop);

#endif
