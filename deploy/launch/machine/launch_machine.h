/* The launcher's decisions: when the scheduler and the run's processes are started, who is missed,
 * what Ctrl-C and Ctrl-Z mean, what the person is told, and how the run ends. It does no I/O and
 * knows no clock, descriptor or process: what agents, scheduler and person do comes in, each with
 * the time; what is to be done goes out through a struct of actions. deploy/launch/launch_loop.c
 * drives it.
 *
 * States: agents are started, some at a time, until all have said hello -> the links between their
 * hosts are measured, if that is wanted -> the scheduler is started, and listens -> processes are
 * spawned -> the run -> ended, until all that it started have ended too. Times are those of
 * psr_clock_ms, which stands still while the run is stopped by Ctrl-Z. One thread. */
#ifndef PSR_DEPLOY_LAUNCH_MACHINE_LAUNCH_MACHINE_H
#define PSR_DEPLOY_LAUNCH_MACHINE_LAUNCH_MACHINE_H

#include "base/config/config.h"
#include "comm/launcher_line.h"
#include "deploy/launch/hosts/binding.h"
#include "deploy/launch/hosts/placement.h"

typedef struct psr_launch_machine psr_launch_machine;

typedef enum psr_launch_command {
    PSR_LAUNCH_ALIVE,
    PSR_LAUNCH_PAUSE,
    PSR_LAUNCH_GO_ON,
    PSR_LAUNCH_END, /* end all processes; by force after grace_ms */
} psr_launch_command;

/* The actions. Texts are borrowed for the call. */
typedef struct psr_launch_actions {
    void *context;
    /* Starts the agent of this host of the placement; *ret_here: it is on this machine, without
     * ssh. A failure ends the run. */
    psr_err (*start_agent)(void *context, size_t host, bool *ret_here);
    /* Ends it at once, because the host cannot be used. */
    void (*drop_agent)(void *context, size_t host);
    /* The links are to be measured: makes the agent of this host listen on that interface. */
    psr_err (*ask_to_listen)(void *context, size_t host, const char *interface);
    /* They listen: makes the agent of host send to the next one's, which listens there. */
    void (*measure_link)(void *context, size_t host, size_t next, const char *address,
                         uint16_t port);
    /* The slowest link is known: bits_per_s, host, to. */
    void (*take_links)(void *context, const psr_order *slowest);
    /* All agents have said hello: makes the run's keys, tells the person the configuration with
     * this number of threads for each worker, and starts the scheduler, which listens on that
     * interface. A failure ends the run. */
    psr_err (*start_scheduler)(void *context, uint32_t threads, const char *interface);
    /* The scheduler listens at endpoint: makes the agent of its host start this process of the
     * placement. cpus: the processors that it is bound to ("0-3,8"); NULL: none. A failure ends the
     * run. */
    psr_err (*spawn)(void *context, size_t item, const char *interface, const char *endpoint,
                     const char *cpus);
    void (*order)(void *context, const psr_order *order);
    /* host: in the placement. grace_ms: for END. */
    void (*command)(void *context, size_t host, psr_launch_command command, int64_t grace_ms);
    /* It has had its time to end. Called again as long as it is there. host: in the placement. */
    void (*kill_agent)(void *context, size_t host);
    void (*kill_scheduler)(void *context);
    /* Stops this process, as Ctrl-Z would; returns when it goes on. */
    void (*stop)(void *context);

    /* Lines for the person: on stdout; on stderr; on stderr, but may be left out while too much
     * waits. One line each. */
    void (*show_line)(void *context, const char *line);
    void (*show_error)(void *context, const char *line);
    void (*show_others_error)(void *context, const char *line);
    /* What a rank of a program printed. */
    void (*show_output)(void *context, uint32_t rank, bool to_stderr, const char *line);
    /* How many of all hosts have been reached, and how many cannot be used. */
    void (*show_connecting)(void *context, size_t there, size_t troubles, size_t hosts);
    /* The run directory exists. */
    void (*show_directory)(void *context, const psr_run_directory *directory);
    void (*show_progress)(void *context, const psr_run_progress *progress);
    void (*show_evaluating)(void *context, const psr_run_evaluating *evaluating);
    void (*show_evaluated)(void *context);
    void (*end_bar)(void *context);
    void (*draw_bar_again)(void *context); /* after others have used the terminal */
    /* At the end: that the run can continue from its checkpoint, and its result. */
    void (*show_resumable)(void *context);
    void (*show_outcome)(void *context, const cJSON *outcome);
} psr_launch_actions;

typedef struct psr_launch_machine_options {
    const psr_placement *placement;
    const psr_config *config; /* threads may be 0: they are computed from the hosts' cores */
    bool runs_program;        /* each worker is a rank of `psring run`'s
                                 program; else this is training */
    psr_bind_to bind_to;
    bool report_bindings;       /* the person is told the processors of each process */
    bool measures_links;        /* between hosts, if there is more than one */
    const char *interface;      /* --interface, or NULL */
    bool interface_is_loopback; /* interface, if given, can be reached from this machine only */
    const char *host, *machine; /* this machine's name, and its psr_machine_id; "": not known */
} psr_launch_machine_options;

/* Borrows what options point to. NOMEM. The caller owns *ret_machine. */
PSR_MUST_CHECK psr_err psr_launch_machine_new(const psr_launch_machine_options *options,
                                              const psr_launch_actions *actions, int64_t now_ms,
                                              psr_launch_machine **ret_machine);
void psr_launch_machine_free(psr_launch_machine *machine); /* NULL allowed */

/* ---- what happens. These functions never fail: a failure ends the run ---- */

/* The agent of this host of the placement, which was started, printed a line on its standard output
 * (the bytes may be hostile: deploy/agent/agent_event.h) or its standard error. */
void psr_launch_machine_agent_said(psr_launch_machine *machine, size_t host, const char *line,
                                   int64_t now_ms);
void psr_launch_machine_agent_complained(psr_launch_machine *machine, size_t host,
                                         const char *line);
/* ended: its process has ended, and more of its output may come. The second function: all output
 * has come, and it ended so (wait_status: waitpid's). A repeated call changes nothing. */
void psr_launch_machine_agent_ended(psr_launch_machine *machine, size_t host);
void psr_launch_machine_agent_closed(psr_launch_machine *machine, size_t host, int wait_status,
                                     int64_t now_ms);
/* The same for the scheduler, whose lines are those of comm/launcher_line.h. */
void psr_launch_machine_scheduler_said(psr_launch_machine *machine, const char *line,
                                       int64_t now_ms);
void psr_launch_machine_scheduler_complained(psr_launch_machine *machine, const char *line);
void psr_launch_machine_scheduler_ended(psr_launch_machine *machine);
void psr_launch_machine_scheduler_closed(psr_launch_machine *machine, int wait_status,
                                         int64_t now_ms);
/* The driver has failed; this thread's detail says why. */
void psr_launch_machine_failed(psr_launch_machine *machine, psr_err err, int64_t now_ms);
/* Ctrl-C, or a signal that asks to end. The first time training stops in order, with a checkpoint,
 * and a program is told to end; the second time everything ends at once. */
void psr_launch_machine_interrupted(psr_launch_machine *machine, int64_t now_ms);
/* Ctrl-Z: scheduler and agents stop everything that works or counts time. When they have confirmed
 * that, or after a second, the action stop follows. */
void psr_launch_machine_suspended(psr_launch_machine *machine, int64_t now_ms);
/* SIGCONT; it may come before the stop. */
void psr_launch_machine_continued(psr_launch_machine *machine);
/* Time has passed. Called when all output has been taken. agents_are_heard: false while the agents'
 * output is left unread because the scheduler does not take it; that silence is not theirs. */
void psr_launch_machine_tick(psr_launch_machine *machine, bool agents_are_heard, int64_t now_ms);
/* In how many ms there must be a tick, at the latest. */
int64_t psr_launch_machine_wait_ms(psr_launch_machine *machine, int64_t now_ms);

/* ---- the end ---- */

/* The run has ended, and so have all processes that were started. */
bool psr_launch_machine_is_over(const psr_launch_machine *machine);
/* Tells the person how it ended. Call it once. */
void psr_launch_machine_conclude(psr_launch_machine *machine);
int psr_launch_machine_status(const psr_launch_machine *machine); /* this program's exit status */
/* The person has asked not to wait for anything. */
bool psr_launch_machine_ends_at_once(const psr_launch_machine *machine);

#endif
