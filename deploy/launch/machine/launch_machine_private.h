/* What the files of deploy/launch/machine/launch_machine.h share: launch_machine.c has states,
 * signals and time, launch_machine_hosts.c connects to the hosts, launch_machine_binding.c shares
 * out their cores, launch_machine_said.c takes what agents and the scheduler say. */
#ifndef PSR_DEPLOY_LAUNCH_MACHINE_LAUNCH_MACHINE_PRIVATE_H
#define PSR_DEPLOY_LAUNCH_MACHINE_LAUNCH_MACHINE_PRIVATE_H

#include "base/clock.h"
#include "deploy/launch/machine/held_lines.h"
#include "deploy/launch/machine/launch_machine.h"
#include "deploy/launch/hosts/reached.h"

/* Of an agent or the scheduler. */
typedef enum psr_life {
    PSR_LIFE_NOT_STARTED,
    PSR_LIFE_RUNNING,
    PSR_LIFE_ENDED,  /* what it printed may still come */
    PSR_LIFE_CLOSED, /* it has come */
} psr_life;

typedef struct psr_launch_host {
    const char *name; /* borrowed: the placement's */
    psr_life agent;
    psr_reached reached;
    int64_t started_ms;
    bool greeted;         /* its agent said hello with our version */
    char *trouble;        /* owned: why the host cannot be used;
                             NULL: nothing is known against it */
    bool paused;          /* its agent has answered to PAUSE */
    bool lost;            /* its agent ended or fell silent while the run went on: told once */
    bool refused;         /* its agent broke the protocol: nothing more that it says is heard */
    int64_t heard_ms;     /* when its agent last said something, by
                             the presence clock; from its hello on */
    char last_words[512]; /* the last line of its agent (or ssh), before its hello
                             or on standard error; or that which told why */
    bool same_machine;    /* as this process, be it in other namespaces */
    bool other_machine;   /* neither: it is not known */
    uint32_t cores;
    psr_topology topology; /* owned; empty: it was not told, or nobody is bound */
} psr_launch_host;

struct psr_launch_machine {
    psr_launch_machine_options options;
    psr_launch_actions act;
    psr_launch_host *hosts;
    size_t host_count;
    size_t started_count;  /* of hosts: whose agents were started, the first ones */
    size_t greeted_count;  /* of hosts: whose agents have said hello */
    size_t trouble_count;  /* of hosts: that cannot be used */
    size_t settled_before; /* of either, when that was shown last */
    int trouble_status;    /* the exit status that they lead to */
    bool lists_troubles;   /* each has a line behind the run's line */
    int64_t deadline_ms;
    psr_presence_clock clock;
    int64_t alive_ms; /* when the next sign of life is due */

    char **cpus; /* owned, of each item of the placement: what
                    it is bound to, owned; NULL: nothing */

    psr_life scheduler;
    int64_t scheduler_heard_ms; /* by the presence clock, as the hosts' */
    bool spawned;

    bool pausing, scheduler_paused;
    int64_t pause_by_ms;
    uint32_t interrupts;
    bool at_once; /* what the last of them asked for */

    char last_known[256]; /* what the scheduler told last of the run's progress */
    /* Errors of processes, until it is known whether they tell more than the run's line. */
    psr_held_lines held;

    bool told_closed; /* the scheduler, that all agents have said all, and the run has ended */
    bool ended;       /* the scheduler said how the run ended, or we know */
    int status;
    char line[1024];   /* why it ended */
    int64_t end_by_ms; /* when agents that still run are killed */
    cJSON *outcome;
};

/* Now, by the clock that leaves out the launcher's own absences. */
int64_t psr_launch_look(psr_launch_machine *m, int64_t now_ms);

/* One of the actions that show a line. Without memory it is left out. */
void psr_launch_show(psr_launch_machine *m, void (*action)(void *context, const char *line),
                     const char *format, ...) PSR_PRINTF(3, 4);
/* To the scheduler, where one is there. */
void psr_launch_order(psr_launch_machine *m, const psr_order *order);

/* The run is over, with an exit status and the person's line: agents are told to end. The first
 * call counts. */
void psr_launch_end(psr_launch_machine *m, int status, const char *line, int64_t now_ms);

/* Starts the agents whose turn it is, gives up those that do not answer, and goes on when all hosts
 * are known to be there or not. */
void psr_launch_connect(psr_launch_machine *m, int64_t now_ms);
/* When an agent will have had its time for a hello. */
int64_t psr_launch_hello_due_ms(const psr_launch_machine *m);
/* The agent of h has said hello. */
PSR_MUST_CHECK psr_err psr_launch_greeted(psr_launch_machine *m, psr_launch_host *h,
                                          int64_t now_ms);
/* Before the run begins: h cannot be used, for err with the detail of this thread. The others are
 * asked all the same, so that all are told at once. */
void psr_launch_give_up_host(psr_launch_machine *m, psr_launch_host *h, psr_err err,
                             int64_t now_ms);
/* What ssh, a login shell or an agent said that is not an event. */
void psr_launch_remember_words(psr_launch_host *h, const char *line);
/* Tells the person of the hosts that cannot be used. */
void psr_launch_show_troubles(psr_launch_machine *m);

/* Threads of each worker. */
uint32_t psr_launch_threads(const psr_launch_machine *m);
/* Gives each process its processors. USAGE: there are too few somewhere. */
PSR_MUST_CHECK psr_err psr_launch_bind(psr_launch_machine *m, uint32_t threads);
void psr_launch_report_bindings(psr_launch_machine *m);

/* All agents have said hello. */
PSR_MUST_CHECK psr_err psr_launch_begin(psr_launch_machine *m, int64_t now_ms);
/* The scheduler listens. */
PSR_MUST_CHECK psr_err psr_launch_spawn_all(psr_launch_machine *m, const char *endpoint);
/* A process of this host is lost: the scheduler is told. */
void psr_launch_lose_member(psr_launch_machine *m, const psr_launch_host *host, psr_peer peer,
                            bool by_itself, const char *how);

#endif
