/* What the files of deploy/launch/machine/launch_machine.h share: launch_machine.c has states,
 * signals and time, launch_machine_hosts.c connects to the hosts, launch_machine_binding.c shares
 * out their cores, launch_machine_links.c has the links between them measured,
 * launch_machine_said.c takes what agents and the scheduler say. */
#ifndef PSR_DEPLOY_LAUNCH_MACHINE_LAUNCH_MACHINE_PRIVATE_H
#define PSR_DEPLOY_LAUNCH_MACHINE_LAUNCH_MACHINE_PRIVATE_H

#include "base/clock.h"
#include "comm/launcher_line.h"
#include "deploy/agent/agent_event.h"
#include "deploy/launch/hosts/reached.h"
#include "deploy/launch/machine/held_lines.h"
#include "deploy/launch/machine/launch_machine.h"

/* The life of an agent or the scheduler. */
typedef enum psr_life {
    PSR_LIFE_NOT_STARTED,
    PSR_LIFE_RUNNING,
    PSR_LIFE_ENDED,  /* its output may still come */
    PSR_LIFE_CLOSED, /* all its output has come */
} psr_life;

typedef struct psr_launch_host {
    const char *name; /* borrowed from the placement */
    psr_life agent;
    psr_reached reached;
    int64_t started_ms;
    bool greeted;     /* its agent said hello with our version */
    char *trouble;    /* owned: why the host cannot be used; NULL: no reason is known */
    bool paused;      /* its agent has answered to PAUSE */
    bool lost;        /* its agent ended or fell silent while the run went on; reported once */
    bool killed;      /* its agent, at the run's end */
    bool refused;     /* its agent broke the protocol: its lines are ignored */
    int64_t heard_ms; /* when its agent was last heard, by the presence clock; from its hello on */
    /* the last line of its agent (or ssh) before its hello or on standard error; or the line that
     * gave the reason */
    char last_words[512];
    bool same_machine;  /* as this process, also in another namespace */
    bool other_machine; /* neither is set: it is not known */
    uint32_t cores;
    bool asked_to_listen, asked_for_link; /* and has not answered */
    char link_address[64];                /* where its agent listens for the measurement */
    uint16_t link_port;
    uint64_t bits_per_s;   /* of the link to it, as measured */
    psr_topology topology; /* owned; empty: it was not sent, or no process is bound */
} psr_launch_host;

typedef enum psr_links_phase {
    PSR_LINKS_NOT_YET,
    PSR_LINKS_LISTENING, /* the agents open ports */
    PSR_LINKS_MEASURING,
    PSR_LINKS_DONE,
} psr_links_phase;

struct psr_launch_machine {
    psr_launch_machine_options options;
    psr_launch_actions act;
    psr_launch_host *hosts;
    size_t host_count;
    size_t started_count;  /* number of hosts whose agents were started: the first ones */
    size_t greeted_count;  /* number of hosts whose agents have said hello */
    size_t trouble_count;  /* number of hosts that cannot be used */
    size_t settled_before; /* the sum of these two when it was last shown */
    int trouble_status;    /* the exit status for these hosts */
    bool lists_troubles;   /* each of them has a line after the run's line */
    int64_t deadline_ms;
    psr_presence_clock clock;
    int64_t alive_ms; /* when the next sign of life is due */

    /* owned, for each item of the placement: the processors that it is bound to, owned; NULL:
     * none */
    char **cpus;

    psr_links_phase links;
    int64_t links_by_ms; /* when the run begins without an answer */
    psr_order slowest;   /* bits_per_s 0: not measured */

    psr_life scheduler;
    int64_t scheduler_heard_ms; /* by the presence clock, as for hosts */
    bool spawned;

    bool pausing, scheduler_paused;
    int64_t pause_by_ms;
    uint32_t interrupts;
    bool at_once; /* the last interrupt asked for an end at once */

    char last_known[256]; /* the last progress that the scheduler reported */
    /* Errors of processes, kept until it is known whether they say more than the run's line. */
    psr_held_lines held;

    /* the scheduler was told that all output of the agents has come and that the run has ended */
    bool told_closed;
    bool ended; /* the scheduler said how the run ended, or we know it */
    int status;
    char line[1024];         /* why it ended */
    bool told_end;           /* the scheduler said so */
    int64_t end_by_ms;       /* when agents that still run are killed */
    int64_t scheduler_by_ms; /* the same of the scheduler; INT64_MAX: not as long as agents run */
    cJSON *outcome;
};

/* The present time, by the clock that leaves out the launcher's own absences. */
int64_t psr_launch_look(psr_launch_machine *m, int64_t now_ms);

/* Calls one of the actions that show a line. Without memory the line is lost. */
void psr_launch_show(psr_launch_machine *m, void (*action)(void *context, const char *line),
                     const char *format, ...) PSR_PRINTF(3, 4);
/* Sends the scheduler an order, if there is a scheduler. */
void psr_launch_order(psr_launch_machine *m, const psr_order *order);

/* The run has ended, with an exit status and the person's line: agents are told to end. Only the
 * first call counts. */
void psr_launch_end(psr_launch_machine *m, int status, const char *line, int64_t now_ms);

/* Starts the next agents, gives up those that do not answer, and goes on when all hosts are known
 * to be there or not. */
void psr_launch_connect(psr_launch_machine *m, int64_t now_ms);
/* When the time for an agent's hello is over. */
int64_t psr_launch_hello_due_ms(const psr_launch_machine *m);
/* The agent of h has said hello. */
PSR_MUST_CHECK psr_err psr_launch_greeted(psr_launch_machine *m, psr_launch_host *h,
                                          int64_t now_ms);
/* Before the run begins: h cannot be used, because of err with the detail of this thread. The other
 * hosts are still asked, so that all are reported at once. */
void psr_launch_give_up_host(psr_launch_machine *m, psr_launch_host *h, psr_err err,
                             int64_t now_ms);
/* Keeps a line of ssh, a login shell or an agent that is no event. */
void psr_launch_remember_words(psr_launch_host *h, const char *line);
/* Tells the person of the hosts that cannot be used. */
void psr_launch_show_troubles(psr_launch_machine *m);

/* The threads of each worker. */
uint32_t psr_launch_threads(const psr_launch_machine *m);
/* Gives each process its processors. USAGE: a host has too few. */
PSR_MUST_CHECK psr_err psr_launch_bind(psr_launch_machine *m, uint32_t threads);
void psr_launch_report_bindings(psr_launch_machine *m);

/* All agents have said hello. */
PSR_MUST_CHECK psr_err psr_launch_begin(psr_launch_machine *m, int64_t now_ms);
/* Then their links are measured, if that is wanted, and the scheduler is started. */
PSR_MUST_CHECK psr_err psr_launch_begin_links(psr_launch_machine *m, int64_t now_ms);
PSR_MUST_CHECK psr_err psr_launch_listens(psr_launch_machine *m, psr_launch_host *h,
                                          const psr_agent_event *event, int64_t now_ms);
PSR_MUST_CHECK psr_err psr_launch_link(psr_launch_machine *m, psr_launch_host *h,
                                       const psr_agent_event *event, int64_t now_ms);
/* The time for that may be over. */
PSR_MUST_CHECK psr_err psr_launch_check_links(psr_launch_machine *m, int64_t now_ms);
int64_t psr_launch_links_due_ms(const psr_launch_machine *m);
PSR_MUST_CHECK psr_err psr_launch_begin_run(psr_launch_machine *m, int64_t now_ms);
/* The address that a process on h listens on; NULL: the scheduler. */
const char *psr_launch_interface_for(const psr_launch_machine *m, const psr_launch_host *h);
/* The scheduler listens. */
PSR_MUST_CHECK psr_err psr_launch_spawn_all(psr_launch_machine *m, const char *endpoint);
/* A process of this host is lost: tells the scheduler. */
void psr_launch_lose_member(psr_launch_machine *m, const psr_launch_host *host, psr_peer peer,
                            bool by_itself, const char *how);

#endif
