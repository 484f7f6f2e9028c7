/* What the files of an agent share: agent.c (its loop, its processes, their ends) and
 * agent_commands.c (what the launcher tells it). For those alone. */
#ifndef PSR_DEPLOY_AGENT_PRIVATE_H
#define PSR_DEPLOY_AGENT_PRIVATE_H

#include "base/clock.h"
#include "base/system/child.h"
#include "base/system/environment.h"
#include "base/text/json.h"
#include "deploy/agent/link_rate.h"
#include "deploy/agent/program.h"
#include "net/address/socket_directory.h"
#include "net/message.h"

#define PSR_AGENT_CHILDREN_MAX 2048

/* The state of a process with regard to Ctrl-Z. */
typedef enum psr_agent_stop {
    PSR_AGENT_STOP_NONE,
    PSR_AGENT_STOP_TOLD, /* it was told to stop */
    PSR_AGENT_STOP_ENDS, /* it must be continued as soon as it is stopped */
} psr_agent_stop;

typedef struct psr_agent_process {
    psr_peer peer;
    psr_child child;
    psr_agent_stop stop;
    bool told; /* its end has been reported */
    /* when something other than Ctrl-Z stopped it; 0: it is not stopped */
    int64_t stopped_ms;
    bool asked_to_end; /* it was sent SIGTERM */
    bool given_up;     /* it was stopped for longer than the deadline */
    uint64_t left_out; /* lines that the launcher did not take, and was not told of yet */
} psr_agent_process;

typedef struct psr_agent {
    psr_line_reader commands;
    psr_line_writer events;
    int signals;
    psr_agent_process *processes;
    size_t count;
    struct pollfd *fds; /* as poll has set them */
    size_t polled;      /* number of processes that are polled */
    bool look_at_all;   /* check all processes, whatever poll reported */
    psr_presence_clock clock;
    /* when the last line of the launcher came, by that clock; other times are of psr_clock_ms */
    int64_t heard_ms;
    int64_t deadline_ms;
    bool paused;        /* its processes were told to stop, and its clock stands still */
    bool answers_pause; /* PAUSE is answered when all of them are stopped */
    bool ending;
    int64_t term_at_ms, kill_at_ms;
    int64_t leave_at_ms; /* even if not everything was sent */
    uint64_t taken;      /* bytes of events that were taken when leaving was last put off */
    const char *because; /* why the agent ends, unless the launcher told it to end */
    /* removed at the end: the run's directory, which the launcher also removes if it can; over TCP
     * this agent's own */
    psr_socket_directory sockets;
    bool begun;
    bool shares;         /* sockets is also where its processes share memory */
    psr_program program; /* the program of `psring run`; without words: psring's own processes */
    cJSON *variables;    /* for these two, or NULL */
    psr_environment environment; /* of these: this agent's, with them; begun with the first */
    bool probes;                 /* its workers are `psring probe` */
    psr_link_listener listener;  /* from LISTEN to LINK */
} psr_agent;

static inline int64_t psr_agent_look(psr_agent *a)
{
    return psr_presence_clock_ms(&a->clock, psr_clock_ms());
}

static inline bool psr_agent_runs_program(const psr_agent *a)
{
    return a->program.words != NULL;
}

/* ---- agent.c ---- */

/* Answers `begin`: the launcher starts nothing more before. */
void psr_agent_say_hello(psr_agent *agent);
/* Ends all processes after that time. Stopped ones are continued, so that they can end in order. */
void psr_agent_end_all(psr_agent *agent, int64_t grace_ms);
void psr_agent_pause_all(psr_agent *agent);
void psr_agent_go_on(psr_agent *agent);
/* by_itself: it exited, and was not killed. */
void psr_agent_tell_exit(psr_agent *agent, psr_peer peer, bool ok, bool by_itself, const char *how);
/* From now on the launcher must give signs of life. */
void psr_agent_watch_launcher(psr_agent *agent, int64_t deadline_ms);

/* ---- agent_commands.c ---- */

/* Carries out a line of the launcher's. PROTOCOL: it is no command, or not due. */
psr_err psr_agent_command(void *agent, char *line);

#endif
