#include "deploy/agent/agent.h"

#include "base/system/machine.h"
#include "base/system/signals.h"
#include "base/text/printable.h"
#include "comm/start/meeting.h"
#include "deploy/agent/agent_private.h"
#include "deploy/agent/topology.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS_WAITING_MAX (1u << 20)
/* The text of one event. A byte that is not text takes six in JSON, and a line has 1 MiB. */
#define TEXT_BYTES_MAX (64u << 10)
/* On a busy machine a process may get no turn for seconds. One that is stopped gets none at all,
 * and is not waited for. */
#define TERM_BEFORE_KILL_MS 5000
/* When all processes have ended and their last lines go to the launcher: it may take nothing for
 * TAKING_MS. What a process has left behind, and still has its output open, may write nothing for
 * WRITING_MS. */
#define TAKING_MS 5000
#define WRITING_MS 500
/* The time that the scheduler gets to notice too that the launcher is silent or gone, to ask all
 * processes what they are doing, and to end the run. That is better than a signal, because a
 * process reports a signal as a person's order. */
#define NAMING_MS 5000
#define NAMING_OF_PROGRAMS_MS 1000 /* of psring run, which may not know the scheduler */

typedef struct line_from {
    psr_agent *agent;
    psr_agent_process *process;
    const char *stream;
} line_from;

/* The address at which the launcher reached this host. ssh has it in SSH_CONNECTION ("client port
 * server port"). srun has its own address in SLURM_LAUNCH_NODE_IPADDR, and this host's address is
 * the one that it uses towards that. Empty if the agent was started directly. */
static void addresses(char *address, char *launcher, size_t size)
{
    const char *connection = getenv("SSH_CONNECTION"), *srun = getenv("SLURM_LAUNCH_NODE_IPADDR");
    char client[64], server[64], way[PSR_HOST_MAX], there[80];
    address[0] = launcher[0] = '\0';
    if (connection != NULL && sscanf(connection, "%63s %*s %63s %*s", client, server) == 2) {
        snprintf(launcher, size, "%s", client);
        snprintf(address, size, "%s", server);
        return;
    }
    bool ipv6 = srun != NULL && strchr(srun, ':') != NULL;
    if (srun != NULL &&
        snprintf(there, sizeof there, "%s%s%s:1", ipv6 ? "[" : "", srun, ipv6 ? "]" : "") <
            (int)sizeof there &&
        psr_start_interface(there, way) == PSR_OK && strlen(way) < size) {
        snprintf(launcher, size, "%s", srun);
        snprintf(address, size, "%s", way);
    }
}

/* The processors that this process may use: those that its cgroup, taskset and the like allow. */
static uint32_t allowed_cores(void)
{
    const psr_cpus allowed = psr_cpus_allowed();
    uint32_t count = psr_cpus_count(&allowed);
    return count != 0 ? count : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

/* NULL: it is not known. */
static cJSON *describe_topology(void)
{
    psr_topology topology;
    cJSON *json = NULL;
    if (psr_topology_read(&topology) != PSR_OK)
        return NULL;
    if (psr_topology_to_json(&topology, &json) != PSR_OK)
        json = NULL;
    psr_topology_done(&topology);
    return json;
}

void psr_agent_say_hello(psr_agent *a)
{
    char host[256] = "?", address[64], launcher[64], machine[PSR_MACHINE_BYTES];
    (void)gethostname(host, sizeof host - 1);
    addresses(address, launcher, sizeof address);
    cJSON *topology = describe_topology();
    psr_machine_id(machine);
    psr_json_put(&a->events, "event", "hello", "version", PSR_VERSION, "host", host, "address",
                 address, "launcher_address", launcher, "machine", machine, "#cores",
                 (double)allowed_cores(), topology != NULL ? "!topology" : NULL, topology, NULL);
}

/* The most that we hold for a launcher that does not keep up. Neither kind of process ever waits:
 * psring's own processes drop what their pipes do not take, and the output of programs is read and
 * dropped here. */
static bool may_read(const psr_agent *a)
{
    return psr_line_writer_waiting(&a->events) < EVENTS_WAITING_MAX;
}

static void put_line(psr_agent *a, const psr_agent_process *p, const char *stream, const char *text)
{
    psr_json_put(&a->events, "event", "line", "role", psr_role_name(p->peer.role), "#rank",
                 (double)p->peer.rank, "stream", stream, "text", text, NULL);
}

static void tell_left_out(psr_agent *a, psr_agent_process *p)
{
    char text[64];
    if (p->left_out == 0)
        return;
    snprintf(text, sizeof text, "(%" PRIu64 " lines are left out here)", p->left_out);
    put_line(a, p, "err", text);
    p->left_out = 0;
}

static psr_err on_line(void *context, char *line)
{
    line_from *from = context;
    /* the process might wait for room in its pipe, so its line is read and dropped */
    if (!may_read(from->agent)) {
        from->process->left_out++;
        return PSR_OK;
    }
    tell_left_out(from->agent, from->process);
    for (size_t left = strlen(line); left > TEXT_BYTES_MAX; left -= TEXT_BYTES_MAX) {
        char next = line[TEXT_BYTES_MAX];
        line[TEXT_BYTES_MAX] = '\0';
        put_line(from->agent, from->process, from->stream, line);
        line += TEXT_BYTES_MAX;
        *line = next;
    }
    put_line(from->agent, from->process, from->stream, line);
    return PSR_OK;
}

/* ---- Ctrl-Z ---- */

/* A process stops itself after it has stopped its clock (base/clock.h). A SIGCONT before that would
 * be lost, and the process would stop after it for good. So a process is continued only when its
 * stop has been seen. */
static void see_stops(psr_agent *a)
{
    bool all_stopped = true;
    for (size_t i = 0; i < a->count; i++) {
        psr_agent_process *p = &a->processes[i];
        if (p->stop == PSR_AGENT_STOP_ENDS && p->child.stopped) {
            psr_child_signal(&p->child, SIGCONT);
            p->child.stopped = false;
            p->stop = PSR_AGENT_STOP_NONE;
        }
        all_stopped &= p->stop != PSR_AGENT_STOP_TOLD || p->child.stopped || p->child.ended;
    }
    if (!a->answers_pause || !all_stopped)
        return;
    psr_json_put(&a->events, "event", "paused", NULL);
    a->answers_pause = false;
}

void psr_agent_pause_all(psr_agent *a)
{
    a->answers_pause = true;
    if (a->ending || a->paused)
        return;
    for (size_t i = 0; i < a->count; i++) {
        psr_child_signal(&a->processes[i].child, SIGTSTP);
        a->processes[i].stop = PSR_AGENT_STOP_TOLD;
    }
    psr_clock_stop();
    a->paused = true;
}

void psr_agent_go_on(psr_agent *a)
{
    if (!a->paused)
        return;
    psr_clock_go_on();
    a->paused = a->answers_pause = false;
    for (size_t i = 0; i < a->count; i++)
        if (a->processes[i].stop == PSR_AGENT_STOP_TOLD)
            a->processes[i].stop = PSR_AGENT_STOP_ENDS;
}

/* ---- the end ---- */

void psr_agent_end_all(psr_agent *a, int64_t grace_ms)
{
    psr_agent_go_on(a);
    int64_t now = psr_clock_ms();
    if (a->ending && a->term_at_ms <= now + grace_ms)
        return;
    a->ending = true;
    a->term_at_ms = now + grace_ms;
    a->kill_at_ms = a->term_at_ms + TERM_BEFORE_KILL_MS;
}

void psr_agent_tell_exit(psr_agent *a, psr_peer peer, bool ok, bool by_itself, const char *how)
{
    psr_json_put(&a->events, "event", "exited", "role", psr_role_name(peer.role), "#rank",
                 (double)peer.rank, "?ok", ok, "?by_itself", by_itself, "how", how, NULL);
}

void psr_agent_watch_launcher(psr_agent *a, int64_t deadline_ms)
{
    a->deadline_ms = deadline_ms;
    a->clock = psr_presence_clock_for(psr_clock_ms(), deadline_ms);
    a->heard_ms = psr_agent_look(a);
}

static bool may_read_commands(const psr_agent *a)
{
    return psr_agent_runs_program(a) || may_read(a);
}

static void tell_end(psr_agent *a, psr_agent_process *p)
{
    char how[128];
    tell_left_out(a, p);
    psr_child_describe(p->child.status, how, sizeof how);
    if (p->given_up)
        snprintf(how, sizeof how, "stopped by a signal for %.1f s", (double)a->deadline_ms / 1000);
    psr_agent_tell_exit(a, p->peer, p->child.status == 0, WIFEXITED(p->child.status), how);
    p->told = true;
}

/* Reaps processes that programs left behind and that have ended, since nothing else reaps them. If
 * one of our own processes has ended, the next round handles it. */
static void reap_strays(const psr_agent *a)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        for (size_t i = 0; i < a->count; i++)
            if (a->processes[i].child.pid == info.si_pid)
                return;
        (void)waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

#define FDS_BEFORE 3
#define FDS_OF_EACH 4

/* Whether poll reported something for that process, or it was not polled yet. Of thousands of
 * processes that is true for few. */
static bool has_event(const psr_agent *a, size_t index)
{
    const struct pollfd *fds = a->fds + FDS_BEFORE + FDS_OF_EACH * index;
    return a->look_at_all || index >= a->polled ||
           (fds[0].revents | fds[1].revents | fds[2].revents | fds[3].revents) != 0;
}

static psr_err attend_process(psr_agent *a, psr_agent_process *p)
{
    line_from out = {a, p, "out"}, err = {a, p, "err"};
    (void)psr_child_reap(&p->child);
    if (may_read_commands(a))
        PSR_TRY(psr_line_reader_visit(&p->child.out, on_line, &out));
    if (may_read_commands(a))
        PSR_TRY(psr_line_reader_visit(&p->child.err, on_line, &err));
    psr_line_writer_flush(&p->child.in);
    if (!p->told && psr_child_said_all(&p->child))
        tell_end(a, p);
    return PSR_OK;
}

/* Passes on what processes printed and how they ended: all their lines first. */
static psr_err attend_all(psr_agent *a, bool *ret_running, bool *ret_all_told)
{
    *ret_running = false;
    *ret_all_told = true;
    for (size_t i = 0; i < a->count; i++) {
        if (has_event(a, i))
            PSR_TRY(attend_process(a, &a->processes[i]));
        *ret_running |= !a->processes[i].child.ended;
        *ret_all_told &= a->processes[i].told;
    }
    if (psr_agent_runs_program(a))
        reap_strays(a);
    return PSR_OK;
}

/* ---- programs that are stopped ---- */

/* A program need not have joined the run, so no other process would notice that it is stopped. Time
 * in which Ctrl-Z stops it does not count. */
static void check_stopped(psr_agent *a, int64_t now)
{
    for (size_t i = 0; i < a->count && psr_agent_runs_program(a) && !a->paused; i++) {
        psr_agent_process *p = &a->processes[i];
        if (!p->child.stopped || p->child.ended || p->stop != PSR_AGENT_STOP_NONE)
            p->stopped_ms = 0;
        else if (p->stopped_ms == 0)
            p->stopped_ms = now;
        else if (now - p->stopped_ms >= a->deadline_ms && !p->given_up) {
            p->given_up = true;
            psr_child_signal(&p->child, SIGKILL);
        }
    }
}

/* Sends TERM once, and then KILL, when they are due; KILL at once to who is stopped. */
static void end_step(psr_agent *a, int64_t now)
{
    for (size_t i = 0; i < a->count && a->ending && now >= a->term_at_ms; i++) {
        psr_agent_process *p = &a->processes[i];
        if (now >= a->kill_at_ms || p->child.stopped)
            psr_child_signal(&p->child, SIGKILL);
        else if (!p->asked_to_end)
            psr_child_signal(&p->child, SIGTERM);
        p->asked_to_end = true;
    }
}

static int poll_timeout(const psr_agent *a, int64_t now)
{
    /* when the launcher may have been silent for too long */
    int64_t next = now + psr_presence_clock_every_ms(&a->clock);
    if (a->ending && now < a->term_at_ms && a->term_at_ms < next)
        next = a->term_at_ms;
    if (a->ending && now < a->kill_at_ms && a->kill_at_ms < next)
        next = a->kill_at_ms;
    if (a->ending && now < a->leave_at_ms && a->leave_at_ms < next)
        next = a->leave_at_ms;
    return next > now ? (int)(next - now) : 0;
}

/* Signals and commands come first, so that nothing that processes print can delay them. */
static psr_err wait_for_events(psr_agent *a)
{
    struct pollfd *fds = a->fds;
    nfds_t n = 0;
    bool all = may_read_commands(a);
    fds[n++] = (struct pollfd){.fd = a->signals, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = a->commands.fd, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&a->events) ? a->events.fd : -1,
                               .events = POLLOUT};
    for (size_t i = 0; i < a->count; i++) {
        const psr_child *child = &a->processes[i].child;
        fds[n++] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = all ? child->out.fd : -1, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = all ? child->err.fd : -1, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&child->in) ? child->in.fd : -1,
                                   .events = POLLOUT};
    }
    a->polled = a->count;
    a->look_at_all = poll(fds, n, poll_timeout(a, psr_clock_ms())) <= 0; /* <0: EINTR */
    psr_line_writer_flush(&a->events);
    struct signalfd_siginfo info;
    if ((fds[0].revents & POLLIN) && read(a->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        a->look_at_all = info.ssi_signo == SIGCHLD; /* one is stopped, goes on or has ended */
        if (!a->look_at_all) {
            a->because = "the agent was told to end";
            psr_agent_end_all(a, 0);
        }
    }
    return psr_line_reader_visit(&a->commands, psr_agent_command, a);
}

static void end_without_launcher(psr_agent *a, const char *because)
{
    a->because = because;
    psr_agent_end_all(a, psr_agent_runs_program(a) ? NAMING_OF_PROGRAMS_MS : NAMING_MS);
}

static psr_err agent_loop(psr_agent *a)
{
    bool running = false, all_told = true;
    int64_t taken_ms = 0;
    for (;;) {
        PSR_TRY(wait_for_events(a));
        int64_t now = psr_clock_ms();
        if (a->commands.fd < 0 && a->because == NULL)
            end_without_launcher(a, "the launcher has gone");
        if (psr_agent_look(a) - a->heard_ms >= a->deadline_ms && a->because == NULL)
            end_without_launcher(a,
                                 "the launcher gave no sign of life for longer than the deadline");
        PSR_TRY(attend_all(a, &running, &all_told));
        see_stops(a);
        check_stopped(a, now);
        const bool pending = psr_line_writer_pending(&a->events);
        if (running || a->events.taken > a->taken)
            taken_ms = now;
        a->taken = a->events.taken;
        a->leave_at_ms = taken_ms + (pending ? TAKING_MS : WRITING_MS);
        if (a->ending && !running && ((all_told && !pending) || now >= a->leave_at_ms))
            return PSR_OK;
        end_step(a, now);
        if (a->ending && now >= a->kill_at_ms)
            a->kill_at_ms = now + 100; /* again, until all have been reaped */
    }
}

int psr_agent_main(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    if (!psr_signal_is_ignored(SIGTERM)) /* under srun the launcher acts on it */
        sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    if (!psr_signal_is_ignored(SIGHUP)) /* nohup */
        sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    psr_agent a = {.sockets = PSR_SOCKET_DIRECTORY_NONE, .listener = {.fd = -1}};
    psr_agent_watch_launcher(&a, 30000);
    a.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    a.processes = calloc(PSR_AGENT_CHILDREN_MAX, sizeof *a.processes);
    a.fds = calloc(FDS_BEFORE + FDS_OF_EACH * (size_t)PSR_AGENT_CHILDREN_MAX, sizeof *a.fds);
    psr_line_reader_init(&a.commands, fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    psr_line_writer_init(&a.events, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    psr_err err = PSR_OK;
    if (a.processes == NULL || a.fds == NULL || a.signals < 0)
        err = psr_fail(PSR_ERR_NOMEM, "the agent could not start");
    if (!err)
        err = agent_loop(&a);
    if (err)
        psr_print(stderr, "psring agent: %s\n", psr_err_detail());
    else if (a.because != NULL)
        psr_print(stderr, "psring agent: %s; its %zu processes have been ended\n", a.because,
                  a.count);
    for (size_t i = 0; i < a.count; i++)
        psr_child_done(&a.processes[i].child);
    if (psr_agent_runs_program(&a))
        psr_program_end_strays();
    psr_socket_directory_remove(&a.sockets);
    psr_link_listener_done(&a.listener);
    psr_program_done(&a.program);
    psr_environment_done(&a.environment);
    cJSON_Delete(a.variables);
    psr_line_writer_flush(&a.events);
    psr_line_reader_done(&a.commands);
    psr_line_writer_done(&a.events);
    close(a.signals);
    free(a.processes);
    free(a.fds);
    return psr_err_exit_status(err ? err : a.because != NULL ? PSR_ERR_PEER : PSR_OK);
}
