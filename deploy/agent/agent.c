#include "deploy/agent/agent.h"

#include "base/clock.h"
#include "base/system/child.h"
#include "base/system/environment.h"
#include "base/system/machine.h"
#include "base/system/signals.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/secret.h"
#include "comm/members/provision.h"
#include "comm/start/meeting.h"
#include "comm/view.h"
#include "deploy/agent/host.h"
#include "deploy/agent/program.h"
#include "deploy/agent/topology.h"
#include "net/address/socket_directory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 2048
#define EVENTS_WAITING_MAX (1u << 20)
/* The text of one event. A byte that is not text takes six in JSON, and a line has 1 MiB. */
#define TEXT_BYTES_MAX (64u << 10)
#define DEADLINE_S_MAX 1e6
#define GRACE_MS_MAX 1e6
#define TERM_BEFORE_KILL_MS 500
/* How long the launcher may take nothing of the last lines of processes that have ended. */
#define TELLING_MS 500
/* The time that the scheduler gets to notice too that the launcher is silent or gone, to ask all
 * processes what they are doing, and to end the run. That is better than a signal. */
#define NAMING_MS 1000

/* The state of a process with regard to Ctrl-Z. */
typedef enum stop_state {
    STOP_NONE,
    STOP_TOLD, /* it was told to stop */
    STOP_ENDS, /* it must be continued as soon as it is stopped */
} stop_state;

typedef struct process {
    psr_peer peer;
    psr_child child;
    stop_state stop;
    bool told; /* its end has been reported */
    /* when something other than Ctrl-Z stopped it; 0: it is not stopped */
    int64_t stopped_ms;
    bool asked_to_end; /* it was sent SIGTERM */
    bool given_up;     /* it was stopped for longer than the deadline */
    uint64_t left_out; /* lines that the launcher did not take, and was not told of yet */
} process;

typedef struct agent {
    psr_line_reader commands;
    psr_line_writer events;
    int signals;
    process *processes;
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
    bool shares;         /* sockets is also where its processes share memory */
    psr_program program; /* the program of `psring run`; without words: psring's own processes */
    cJSON *variables;    /* for these two, or NULL */
    psr_environment environment; /* this agent's environment with them; not begun: unchanged */
    bool probes;                 /* its workers are `psring probe` */
} agent;

typedef struct line_from {
    agent *agent;
    process *process;
    const char *stream;
} line_from;

static int64_t look(agent *a)
{
    return psr_presence_clock_ms(&a->clock, psr_clock_ms());
}

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

static void say_hello(agent *a)
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

static bool runs_program(const agent *a)
{
    return a->program.words != NULL;
}

/* The most that we hold for a launcher that does not keep up. Neither kind of process ever waits:
 * psring's own processes drop what their pipes do not take, and the output of programs is read and
 * dropped here. */
static bool may_read(const agent *a)
{
    return psr_line_writer_waiting(&a->events) < EVENTS_WAITING_MAX;
}

static void put_line(agent *a, const process *p, const char *stream, const char *text)
{
    psr_json_put(&a->events, "event", "line", "role", psr_role_name(p->peer.role), "#rank",
                 (double)p->peer.rank, "stream", stream, "text", text, NULL);
}

static void tell_left_out(agent *a, process *p)
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
static void see_stops(agent *a)
{
    bool all_stopped = true;
    for (size_t i = 0; i < a->count; i++) {
        process *p = &a->processes[i];
        if (p->stop == STOP_ENDS && p->child.stopped) {
            psr_child_signal(&p->child, SIGCONT);
            p->child.stopped = false;
            p->stop = STOP_NONE;
        }
        all_stopped &= p->stop != STOP_TOLD || p->child.stopped || p->child.ended;
    }
    if (!a->answers_pause || !all_stopped)
        return;
    psr_json_put(&a->events, "event", "paused", NULL);
    a->answers_pause = false;
}

static void pause_all(agent *a)
{
    a->answers_pause = true;
    if (a->ending || a->paused)
        return;
    for (size_t i = 0; i < a->count; i++) {
        psr_child_signal(&a->processes[i].child, SIGTSTP);
        a->processes[i].stop = STOP_TOLD;
    }
    psr_clock_stop();
    a->paused = true;
}

static void go_on(agent *a)
{
    if (!a->paused)
        return;
    psr_clock_go_on();
    a->paused = a->answers_pause = false;
    for (size_t i = 0; i < a->count; i++)
        if (a->processes[i].stop == STOP_TOLD)
            a->processes[i].stop = STOP_ENDS;
}

/* ---- commands ---- */

/* Stopped processes are continued, so that they can end in order. */
static void end_all(agent *a, int64_t grace_ms)
{
    go_on(a);
    int64_t now = psr_clock_ms();
    if (a->ending && a->term_at_ms <= now + grace_ms)
        return;
    a->ending = true;
    a->term_at_ms = now + grace_ms;
    a->kill_at_ms = a->term_at_ms + TERM_BEFORE_KILL_MS;
}

/* The process of a spawn command, not yet started. */
static psr_err read_spawn(const agent *a, const cJSON *command, process *ret_process)
{
    const char *role = psr_json_text(command, "role");
    process p = {0};
    if (role == NULL || !psr_role_parse(role, &p.peer.role) || p.peer.role == PSR_ROLE_SCHEDULER ||
        ((runs_program(a) || a->probes) && p.peer.role != PSR_ROLE_WORKER) ||
        !psr_json_count(command, "rank", UINT32_MAX - 1, &p.peer.rank))
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher sent a spawn command for neither a worker nor a shard");
    for (size_t i = 0; i < a->count; i++)
        if (psr_peer_equal(a->processes[i].peer, p.peer))
            return psr_fail(PSR_ERR_PROTOCOL,
                            "the launcher sent a second spawn command for %s %" PRIu32, role,
                            p.peer.rank);
    if (a->count == CHILDREN_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent more than %d spawn commands",
                        CHILDREN_MAX);
    *ret_process = p;
    return PSR_OK;
}

/* This host decides where memory is shared, and not the launcher. false: no memory. */
static bool tell_sharing(const agent *a, cJSON *provision)
{
    cJSON_DeleteItemFromObjectCaseSensitive(provision, "sharing");
    return !a->shares || cJSON_AddStringToObject(provision, "sharing", a->sockets.path) != NULL;
}

/* The program of this run, which the launcher named on our standard input. */
static psr_err start_program(const agent *a, process *p, const psr_program_place *place,
                             cJSON *provision, const psr_cpus *cpus)
{
    psr_provision of_rank;
    char *text = tell_sharing(a, provision) ? psr_secret_print(provision) : NULL;
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    psr_err err = psr_provision_from_json(text, strlen(text), &of_rank);
    psr_secret_free(text);
    PSR_TRY(err);
    if (!psr_peer_equal(of_rank.self, p->peer))
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a provision for another process");
    else
        err = psr_program_start(&a->program, &of_rank, place, cpus, &p->child);
    psr_provision_done(&of_rank);
    return err;
}

/* One of psring's own programs, from this program's directory: the launcher does not decide which
 * program is run. */
static psr_err start_own(const agent *a, process *p, cJSON *provision, const psr_cpus *cpus)
{
    char path[4096], option[] = "--provision", from[] = "-", probe[] = "probe";
    const char *name = a->probes                        ? "psring"
                       : p->peer.role == PSR_ROLE_SHARD ? "psring-ps"
                                                        : "psring-worker";
    PSR_TRY(psr_program_path(name, path, sizeof path));
    char *argv[] = {path, a->probes ? probe : option, a->probes ? NULL : from, NULL};
    char *text = tell_sharing(a, provision) ? psr_secret_print(provision) : NULL;
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    const psr_child_setting setting = {.environment = a->environment.items, .cpus = cpus};
    psr_err err = psr_child_start_with(argv, PSR_CHILD_LOSSY_OUTPUT, &setting, &p->child);
    if (err == PSR_OK)
        psr_line_writer_put(&p->child.in, text);
    psr_secret_free(text);
    return err;
}

/* by_itself: it exited, and was not killed. */
static void tell_exit(agent *a, psr_peer peer, bool ok, bool by_itself, const char *how)
{
    psr_json_put(&a->events, "event", "exited", "role", psr_role_name(peer.role), "#rank",
                 (double)peer.rank, "?ok", ok, "?by_itself", by_itself, "how", how, NULL);
}

static psr_err spawn(agent *a, const cJSON *command)
{
    cJSON *provision = cJSON_GetObjectItemCaseSensitive(command, "provision");
    process *p = &a->processes[a->count];
    if (!cJSON_IsObject(provision))
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a spawn command without a provision");
    PSR_TRY(read_spawn(a, command, p));
    if (a->ending)
        return PSR_OK; /* the run is ending, so that process is not started */
    const char *list = psr_json_text(command, "cpus");
    psr_cpus bound, *cpus = list != NULL ? &bound : NULL;
    if (list != NULL && psr_cpus_parse(list, &bound) != PSR_OK)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher sent a list of processors that cannot be read");
    psr_program_place place = {0}; /* not given to a shard */
    (void)psr_json_count(command, "local_rank", UINT32_MAX, &place.local_rank);
    (void)psr_json_count(command, "local_ranks", UINT32_MAX, &place.local_ranks);
    if ((runs_program(a) ? start_program(a, p, &place, provision, cpus)
                         : start_own(a, p, provision, cpus)) != PSR_OK)
        tell_exit(a, p->peer, false, false, psr_err_detail());
    else
        a->count++;
    return PSR_OK;
}

/* A number from the launcher, limited to a sensible range. */
static double between(double least, double value, double most)
{
    return value >= least ? value <= most ? value : most : least; /* NaN: least */
}

static void watch_launcher(agent *a, int64_t deadline_ms)
{
    a->deadline_ms = deadline_ms;
    a->clock = psr_presence_clock_for(psr_clock_ms(), deadline_ms);
    a->heard_ms = look(a);
}

/* Without such a directory nothing is shared on this host, and values go as messages. */
static void share(agent *a)
{
    a->shares = psr_socket_directory_make(getenv("XDG_RUNTIME_DIR"), &a->sockets) == PSR_OK;
    if (!a->shares)
        psr_print(stderr, "no memory is shared on this host: %s\n", psr_err_detail());
}

static psr_err begin(agent *a, const cJSON *command)
{
    const char *sockets = psr_json_text(command, "sockets");
    watch_launcher(
        a, (int64_t)(between(0.001, psr_json_number(command, "deadline_s", 30), DEADLINE_S_MAX) *
                     1000));
    if (a->sockets.hold < 0 && sockets == NULL && psr_json_true(command, "share"))
        share(a);
    return sockets != NULL && a->sockets.hold < 0 ? psr_socket_directory_enter(sockets, &a->sockets)
                                                  : PSR_OK;
}

/* Before the first spawn, once. */
static psr_err take_program(agent *a, cJSON *command)
{
    cJSON *object = cJSON_DetachItemFromObjectCaseSensitive(command, "program");
    if (runs_program(a) || a->probes || a->count > 0) {
        cJSON_Delete(object);
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher named a program after processes were started");
    }
    PSR_TRY(psr_program_from_object(object, &a->program));
    psr_program_adopt_strays();
    return PSR_OK;
}

/* Before the first spawn, once. */
static psr_err take_variables(agent *a, cJSON *command)
{
    const cJSON *item;
    if (a->variables != NULL || a->count > 0)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher sent variables after processes were started");
    a->variables = cJSON_DetachItemFromObjectCaseSensitive(command, "variables");
    PSR_TRY(psr_environment_begin((size_t)cJSON_GetArraySize(a->variables), &a->environment));
    cJSON_ArrayForEach(item, a->variables)
    {
        if (!cJSON_IsString(item))
            return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a variable that is no text");
        psr_environment_set(&a->environment, item->valuestring);
    }
    return PSR_OK;
}

/* Likewise. */
static psr_err take_probe(agent *a)
{
    if (runs_program(a) || a->count > 0)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the launcher wanted a probe after processes were started");
    a->probes = true;
    return PSR_OK;
}

/* A process that has ended gets nothing. */
static psr_err tell(agent *a, const cJSON *command)
{
    const char *role = psr_json_text(command, "role"), *text = psr_json_text(command, "text");
    psr_peer peer;
    if (!a->probes || role == NULL || text == NULL || !psr_role_parse(role, &peer.role) ||
        !psr_json_count(command, "rank", UINT32_MAX - 1, &peer.rank))
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a line that is for no probe");
    for (size_t i = 0; i < a->count; i++)
        if (psr_peer_equal(a->processes[i].peer, peer))
            psr_line_writer_put(&a->processes[i].child.in, text);
    return PSR_OK;
}

static psr_err on_command(void *context, char *line)
{
    agent *a = context;
    a->heard_ms = look(a);
    cJSON *command = cJSON_Parse(line);
    const char *op = psr_json_text(command, "op");
    psr_err err = PSR_OK;
    if (op == NULL)
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a line that is not a command");
    else if (strcmp(op, "begin") == 0)
        err = begin(a, command);
    else if (strcmp(op, "program") == 0)
        err = take_program(a, command);
    else if (strcmp(op, "variables") == 0)
        err = take_variables(a, command);
    else if (strcmp(op, "probe") == 0)
        err = take_probe(a);
    else if (strcmp(op, "tell") == 0)
        err = tell(a, command);
    else if (strcmp(op, "spawn") == 0)
        err = spawn(a, command);
    else if (strcmp(op, "end") == 0)
        end_all(a, (int64_t)between(0, psr_json_number(command, "grace_ms", 0), GRACE_MS_MAX));
    else if (strcmp(op, "pause") == 0)
        pause_all(a);
    else if (strcmp(op, "go_on") == 0)
        go_on(a);
    else if (strcmp(op, "alive") == 0)
        psr_json_put(&a->events, "event", "alive", NULL); /* and so does this agent */
    else
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent the unknown command '%.64s'", op);
    psr_secret_delete(command);
    return err;
}

static bool may_read_commands(const agent *a)
{
    return runs_program(a) || may_read(a);
}

static void tell_end(agent *a, process *p)
{
    char how[128];
    tell_left_out(a, p);
    psr_child_describe(p->child.status, how, sizeof how);
    if (p->given_up)
        snprintf(how, sizeof how, "stopped by a signal for %.1f s", (double)a->deadline_ms / 1000);
    tell_exit(a, p->peer, p->child.status == 0, WIFEXITED(p->child.status), how);
    p->told = true;
}

/* Reaps processes that programs left behind and that have ended, since nothing else reaps them. If
 * one of our own processes has ended, the next round handles it. */
static void reap_strays(const agent *a)
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
static bool has_event(const agent *a, size_t index)
{
    const struct pollfd *fds = a->fds + FDS_BEFORE + FDS_OF_EACH * index;
    return a->look_at_all || index >= a->polled ||
           (fds[0].revents | fds[1].revents | fds[2].revents | fds[3].revents) != 0;
}

static psr_err attend_process(agent *a, process *p)
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
static psr_err attend_all(agent *a, bool *ret_running, bool *ret_all_told)
{
    *ret_running = false;
    *ret_all_told = true;
    for (size_t i = 0; i < a->count; i++) {
        if (has_event(a, i))
            PSR_TRY(attend_process(a, &a->processes[i]));
        *ret_running |= !a->processes[i].child.ended;
        *ret_all_told &= a->processes[i].told;
    }
    if (runs_program(a))
        reap_strays(a);
    return PSR_OK;
}

/* ---- programs that are stopped ---- */

/* A program need not have joined the run, so no other process would notice that it is stopped. Time
 * in which Ctrl-Z stops it does not count. */
static void check_stopped(agent *a, int64_t now)
{
    for (size_t i = 0; i < a->count && runs_program(a) && !a->paused; i++) {
        process *p = &a->processes[i];
        if (!p->child.stopped || p->child.ended || p->stop != STOP_NONE)
            p->stopped_ms = 0;
        else if (p->stopped_ms == 0)
            p->stopped_ms = now;
        else if (now - p->stopped_ms >= a->deadline_ms && !p->given_up) {
            p->given_up = true;
            psr_child_signal(&p->child, SIGKILL);
        }
    }
}

/* Sends TERM once, and then KILL, when they are due. */
static void end_step(agent *a, int64_t now)
{
    for (size_t i = 0; i < a->count && a->ending && now >= a->term_at_ms; i++) {
        process *p = &a->processes[i];
        if (now >= a->kill_at_ms)
            psr_child_signal(&p->child, SIGKILL);
        else if (!p->asked_to_end)
            psr_child_signal(&p->child, SIGTERM);
        p->asked_to_end = true;
    }
}

static int poll_timeout(const agent *a, int64_t now)
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
static psr_err wait_for_events(agent *a)
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
            end_all(a, 0);
        }
    }
    return psr_line_reader_visit(&a->commands, on_command, a);
}

static psr_err agent_loop(agent *a)
{
    bool running = false, all_told = true;
    for (;;) {
        PSR_TRY(wait_for_events(a));
        int64_t now = psr_clock_ms();
        if (a->commands.fd < 0 && a->because == NULL) {
            a->because = "the launcher has gone";
            end_all(a, NAMING_MS);
        }
        if (look(a) - a->heard_ms >= a->deadline_ms && a->because == NULL) {
            a->because = "the launcher gave no sign of life for longer than the deadline";
            end_all(a, NAMING_MS);
        }
        PSR_TRY(attend_all(a, &running, &all_told));
        see_stops(a);
        check_stopped(a, now);
        if (running || a->events.taken > a->taken)
            a->leave_at_ms = now + TELLING_MS;
        a->taken = a->events.taken;
        if (a->ending && !running &&
            ((all_told && !psr_line_writer_pending(&a->events)) || now >= a->leave_at_ms))
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
    agent a = {.sockets = PSR_SOCKET_DIRECTORY_NONE};
    watch_launcher(&a, 30000);
    a.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    a.processes = calloc(CHILDREN_MAX, sizeof *a.processes);
    a.fds = calloc(FDS_BEFORE + FDS_OF_EACH * (size_t)CHILDREN_MAX, sizeof *a.fds);
    psr_line_reader_init(&a.commands, fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    psr_line_writer_init(&a.events, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    psr_err err = PSR_OK;
    if (a.processes == NULL || a.fds == NULL || a.signals < 0)
        err = psr_fail(PSR_ERR_NOMEM, "the agent could not start");
    if (!err) {
        say_hello(&a);
        err = agent_loop(&a);
    }
    if (err)
        psr_print(stderr, "psring agent: %s\n", psr_err_detail());
    else if (a.because != NULL)
        psr_print(stderr, "psring agent: %s; its %zu processes have been ended\n", a.because,
                  a.count);
    for (size_t i = 0; i < a.count; i++)
        psr_child_done(&a.processes[i].child);
    if (runs_program(&a))
        psr_program_end_strays();
    psr_socket_directory_remove(&a.sockets);
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
