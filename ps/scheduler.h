/* The scheduler: the process that all join. Gives ranks, hands out the roster, watches liveness, decides how a run ends,
 * and alone writes the run directory. Free of I/O: messages, ticks and orders of the launcher in; messages and run
 * events out. ps/rundir.h turns run events into files; ps/scheduler_main.c drives both.
 *
 * States: JOINING -> WELCOMED -> RUNNING -> (HOLDING ->) RUNNING -> FINISHING -> ENDED. */
#ifndef PSR_PS_SCHEDULER_H
#define PSR_PS_SCHEDULER_H

#include "base/config.h"
#include "net/liveness.h"
#include "net/ring.h"

typedef struct psr_scheduler psr_scheduler;

/* What the driver does for it. */
typedef struct psr_scheduler_events {
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* A process joined: open a channel to it. */
    psr_err (*connect)(void *context, psr_peer peer, const char *endpoint);
    /* All have joined: make the run directory. roster_json is for run.json. */
    psr_err (*begin)(void *context, const psr_config *config, const char *roster_json);
    psr_err (*metrics)(void *context, psr_peer from, const char *json, size_t size);
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data, size_t offset, size_t count);
    /* Something a person should see: joined, started, slow, strangers, stopping. */
    void (*say)(void *context, const char *line);
    /* The run is over; status is PSR_OK or why; line is for the person. outcome_json: figures of the workers' DONE. */
    void (*ended)(void *context, psr_err status, const char *line, const char *outcome_json);
} psr_scheduler_events;

PSR_MUST_CHECK psr_err psr_scheduler_new(const psr_config *config, const psr_scheduler_events *events, int64_t now_ms,
                                         psr_scheduler **ret_scheduler);
void psr_scheduler_free(psr_scheduler *scheduler);

/* Any message of a member. Borrows it. A breach of protocol ends the run (status PROTOCOL or VERSION). */
PSR_MUST_CHECK psr_err psr_scheduler_message(psr_scheduler *scheduler, const psr_message *message, int64_t now_ms);
/* Time passes: liveness, who never came up, who is slow. */
PSR_MUST_CHECK psr_err psr_scheduler_tick(psr_scheduler *scheduler, int64_t now_ms);
int64_t psr_scheduler_next_tick(const psr_scheduler *scheduler);
/* Ctrl-C at the launcher: stop in order, with a checkpoint. */
PSR_MUST_CHECK psr_err psr_scheduler_stop(psr_scheduler *scheduler, int64_t now_ms);
/* The launcher or an agent says that a member's process ended, how ("killed by signal 9", "exit status 1: ..."). */
PSR_MUST_CHECK psr_err psr_scheduler_lost(psr_scheduler *scheduler, psr_peer peer, const char *how, int64_t now_ms);
/* A checkpoint directory was renamed into place (the driver tells): the run may end when the last one is. */
PSR_MUST_CHECK psr_err psr_scheduler_checkpointed(psr_scheduler *scheduler, uint64_t step, int64_t now_ms);

#endif
