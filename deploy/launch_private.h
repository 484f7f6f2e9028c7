/* What the files of the launcher share: launch.c starts everything and shows how it ended, launch_said.c takes what agents and the
 * scheduler say, launch_loop.c waits, watches, and takes what the person at the terminal says. One thread. */
#ifndef PSR_DEPLOY_LAUNCH_PRIVATE_H
#define PSR_DEPLOY_LAUNCH_PRIVATE_H

#include "base/clock.h"
#include "deploy/host.h"
#include "deploy/json.h"
#include "deploy/launch.h"
#include "deploy/show.h"
#include "net/keys.h"
#include "comm/member.h"
#include "net/socket_directory.h"

#include <poll.h>

#define HELD_LINES_MAX 64

typedef struct psr_held_line {
    char *line; /* owned: as it would be shown */
    char *what; /* owned: the message in it */
} psr_held_line;

typedef struct psr_launch_state {
    const psr_launch_options *options;
    psr_config config; /* threads and out resolved */
    psr_host_link *hosts;
    size_t host_count;
    psr_socket_directory sockets; /* of a run on ipc; none: TCP */
    psr_keys *keys;               /* scheduler, shards, workers */
    size_t key_count;
    uint32_t shards; /* processes of that role: 0 but in mode ps */
    psr_child scheduler;
    char endpoint[PSR_ENDPOINT_MAX]; /* of the scheduler; "" until it listens */
    bool spawned;
    int signals;
    uint32_t interrupts;
    bool at_once; /* what the last of them asked for */
    psr_screen *screen;
    psr_show show;
    int64_t deadline_ms, alive_ms;
    psr_presence_clock clock;
    int64_t scheduler_heard_ms; /* by that clock, as the hosts' */
    bool pausing, scheduler_paused;
    int64_t pause_by_ms;
    bool ended; /* the scheduler said how the run ended, or we know */
    int status;
    int64_t end_by_ms; /* when agents that still run are killed */
    char line[1024];   /* why it ended */
    psr_held_line
        held[HELD_LINES_MAX]; /* errors of processes, until it is known whether they tell more than that */
    size_t held_count;
    char last_known[256]; /* what the scheduler told last of the run's progress */
    cJSON *outcome;
} psr_launch_state;

/* Now, by the clock that leaves out the launcher's own absences. */
int64_t psr_launch_look(psr_launch_state *l);

/* The run is over, with an exit status and the person's line (NULL: none): agents are told to end. The first call counts. */
void psr_launch_end(psr_launch_state *l, int status, const char *line);
/* The same, of a failure on this thread. */
void psr_launch_end_err(psr_launch_state *l, psr_err err);

/* All agents have said hello: shares out threads, makes keys, starts the scheduler. */
PSR_MUST_CHECK psr_err psr_launch_begin(psr_launch_state *l);
/* The scheduler listens: has the agents start the run's processes. */
PSR_MUST_CHECK psr_err psr_launch_spawn_all(psr_launch_state *l);

/* Takes what agents and the scheduler have said, within a budget for each, and sends what waits for them. */
PSR_MUST_CHECK psr_err psr_launch_attend_hosts(psr_launch_state *l);
PSR_MUST_CHECK psr_err psr_launch_attend_scheduler(psr_launch_state *l);
/* Whether the scheduler takes what agents say. */
bool psr_launch_may_read_agents(const psr_launch_state *l);
/* Sends it to the scheduler. Without memory, or when nobody reads, it is not told. */
void psr_launch_order(psr_launch_state *l, const psr_order *order);
void psr_held_line_done(psr_held_line *held);
/* Processes' errors that say something else than the run's line. */
void psr_launch_show_held(psr_launch_state *l);

/* Until the run is over and all have ended. fds: room for 1 + 4 * (hosts + 1). */
void psr_launch_loop(psr_launch_state *l, struct pollfd *fds);

#endif
