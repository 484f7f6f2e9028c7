/* What the files of the scheduler's driver share; only they include it. One thread, unless said
 * otherwise. */
#ifndef PSR_PS_SCHEDULER_DRIVER_PRIVATE_H
#define PSR_PS_SCHEDULER_DRIVER_PRIVATE_H

#include "comm/members/scheduler_loop.h"
#include "ps/scheduler/checkpoints/checkpoints.h"
#include "ps/scheduler/checkpoints/kept.h"
#include "ps/scheduler/checkpoints/resume.h"
#include "ps/scheduler/followers.h"
#include "ps/scheduler/launcher/orders.h"
#include "ps/scheduler/metrics/figures.h"
#include "ps/scheduler/metrics/links.h"
#include "ps/scheduler/metrics/progress.h"
#include "ps/scheduler/mode/mode_requests.h"
#include "ps/scheduler/rundir.h"
#include "ps/scheduler/scheduler.h"
#include "ps/scheduler/trace/run_trace.h"

#include <sys/types.h>

typedef struct psr_scheduler_driver {
    const psr_config *config;
    const char *series, *command; /* as psr_rundir_new */
    char **about;                 /* metadata of checkpoints; owned */
    const psr_provision *provision;
    bool by_hand;  /* nobody takes events */
    pid_t starter; /* which gives orders; 0: nobody does */
    char host[PSR_HOST_MAX];
    psr_scheduler_loop loop;
    psr_transport *transport; /* the loop's */
    psr_message *present;     /* the one that is being taken; NULL: a checkpoint has it */
    psr_launcher *launcher;
    psr_orders orders;
    psr_scheduler *scheduler;
    psr_coordinator *coordinator; /* the scheduler's */
    psr_rundir *rundir;
    psr_followers followers;
    psr_resume *resume;    /* NULL: from the start */
    psr_sections sections; /* once all have joined */
    psr_checkpoints *checkpoints;
    psr_kept *kept;          /* which of them stay */
    psr_progress *progress;  /* what the launcher's bar shows */
    psr_figures *figures;    /* the figures of the run; both from the beginning of the run */
    psr_links *links;        /* bytes between hosts; likewise */
    psr_mode_requests asked; /* psring mode */
    psr_run_trace trace;
    psr_traced_steps traced; /* --trace, resolved */

    int64_t deadline_ms, flush_ms;
    int64_t slow_said_ms; /* when it was last said that the disk is slow */
    uint32_t stops;       /* orders to stop */
    bool started;         /* all were ready */
    bool closed;          /* all output of the members has arrived */
    bool launcher_gone;
    psr_err status;
    char line[1024];
} psr_scheduler_driver;

/* driver.c */
/* Into the scheduler's log. */
void psr_scheduler_driver_log(const psr_scheduler_driver *d, const char *line);
/* The same, and to the person. driver: a psr_scheduler_driver. */
void psr_scheduler_driver_say(void *driver, const char *line);
/* A sign of life to the launcher; and files are flushed when it is time. */
void psr_scheduler_driver_keep_up(psr_scheduler_driver *d, int64_t now_ms);

/* driver_begin.c, driver_run.c, driver_end.c: each fills in its events. */
void psr_scheduler_driver_begin_events(psr_scheduler_events *events);
void psr_scheduler_driver_run_events(psr_scheduler_events *events);
void psr_scheduler_driver_end_events(psr_scheduler_events *events);

/* driver_run.c */
/* Takes the checkpoints that have been written since: the workers may send the next one. */
void psr_scheduler_driver_take_checkpoints(psr_scheduler_driver *d);

/* driver_watch.c */
/* What each of the launcher's orders means here. Borrows the driver and its launcher. */
psr_orders psr_scheduler_driver_orders(psr_scheduler_driver *d);
/* Whether launcher, disk and the ways to members keep the deadline. */
void psr_scheduler_driver_watch(psr_scheduler_driver *d, int64_t now_ms);
/* psr_scheduler_loop.ended */
void psr_scheduler_driver_lose_member(void *driver, psr_peer peer, int64_t now_ms);

/* driver_end.c */
/* Goes on with the loop until the launcher has sent all that the members print. */
void psr_scheduler_driver_take_last_lines(psr_scheduler_driver *d);
/* Answers processes that join after the end, in a run without psring's launcher. */
void psr_scheduler_driver_answer_late(psr_scheduler_driver *d);

#endif
