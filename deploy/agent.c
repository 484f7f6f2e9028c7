#include "deploy/agent.h"

#include "base/clock.h"
#include "deploy/child.h"
#include "deploy/json.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CHILDREN_MAX 2048
#define TERM_BEFORE_KILL_MS 500
#define NAMING_MS 1000 /* for the scheduler to notice too that the launcher is silent or gone, to ask what all are doing and to end the run: better than a signal */

typedef struct process {
    char role[16];
    uint32_t rank;
    psr_child child;
    bool told; /* its end has been reported */
} process;

typedef struct agent {
    psr_line_reader commands;
    psr_line_writer events;
    int signals;
    process *processes;
    size_t count;
    int64_t heard_ms, deadline_ms;
    bool ending;
    int64_t term_at_ms, kill_at_ms;
    const char *because; /* why it ends, when not by command */
} agent;

typedef struct line_from {
    agent *agent;
    process *process;
    const char *stream;
} line_from;

/* This host as the launcher reached it: ssh tells in SSH_CONNECTION ("client port server port"). Empty when started directly. */
static void addresses(char *address, char *launcher, size_t size)
{
    const char *connection = getenv("SSH_CONNECTION");
    char client[64], server[64];
    address[0] = launcher[0] = '\0';
    if (connection && sscanf(connection, "%63s %*s %63s %*s", client, server) == 2) {
        snprintf(launcher, size, "%s", client);
        snprintf(address, size, "%s", server);
    }
}

static void say_hello(agent *a)
{
    char host[256] = "?", address[64], launcher[64];
    (void)gethostname(host, sizeof host - 1);
    addresses(address, launcher, sizeof address);
    psr_json_put(&a->events, "event", "hello", "version", PSR_VERSION, "host", host, "address", address, "launcher_address",
                 launcher, "#cores", (double)sysconf(_SC_NPROCESSORS_ONLN), NULL);
}

static psr_err on_line(void *context, char *line)
{
    line_from *from = context;
    psr_json_put(&from->agent->events, "event", "line", "role", from->process->role, "#rank", (double)from->process->rank,
                 "stream", from->stream, "text", line, NULL);
    return PSR_OK;
}

static void end_all(agent *a, int64_t grace_ms)
{
    int64_t now = psr_clock_ms();
    if (a->ending && a->term_at_ms <= now + grace_ms)
        return;
    a->ending = true;
    a->term_at_ms = now + grace_ms;
    a->kill_at_ms = a->term_at_ms + TERM_BEFORE_KILL_MS;
}

static psr_err spawn(agent *a, const cJSON *command)
{
    const char *role = psr_json_text(command, "role"), *program = psr_json_text(command, "program");
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(command, "args");
    const cJSON *provision = cJSON_GetObjectItemCaseSensitive(command, "provision");
    if (!role || strlen(role) >= sizeof a->processes->role || !program || !provision || a->count >= CHILDREN_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "a spawn command without role, program or provision");
    process *p = &a->processes[a->count];
    *p = (process){.rank = (uint32_t)psr_json_number(command, "rank", 0)};
    snprintf(p->role, sizeof p->role, "%s", role);
    char path[4096];
    char *argv[64] = {path};
    size_t argc = 1;
    const cJSON *arg;
    cJSON_ArrayForEach(arg, args)
    {
        if (cJSON_IsString(arg) && argc + 1 < sizeof argv / sizeof *argv)
            argv[argc++] = arg->valuestring;
    }
    psr_err err = psr_program_path(program, path, sizeof path);
    if (!err)
        err = psr_child_start(argv, PSR_CHILD_LOSSY_OUTPUT, &p->child);
    if (err) {
        psr_json_put(&a->events, "event", "exited", "role", role, "#rank", (double)p->rank, "?ok", 0, "how", psr_err_detail(), NULL);
        return PSR_OK;
    }
    a->count++;
    char *text = cJSON_PrintUnformatted(provision);
    if (text) {
        psr_line_writer_put(&p->child.in, text);
        memset(text, 0, strlen(text)); /* it held a secret key */
        cJSON_free(text);
    }
    return text ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
}

static psr_err on_command(void *context, char *line)
{
    agent *a = context;
    a->heard_ms = psr_clock_ms();
    cJSON *command = cJSON_Parse(line);
    const char *op = psr_json_text(command, "op");
    psr_err err = PSR_OK;
    if (!op)
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a line that is not a command");
    else if (strcmp(op, "begin") == 0)
        a->deadline_ms = (int64_t)(psr_json_number(command, "deadline_s", 30) * 1000);
    else if (strcmp(op, "spawn") == 0)
        err = spawn(a, command);
    else if (strcmp(op, "end") == 0)
        end_all(a, (int64_t)psr_json_number(command, "grace_ms", 0));
    else if (strcmp(op, "alive") != 0)
        err = psr_fail(PSR_ERR_PROTOCOL, "the launcher sent the unknown command '%s'", op);
    cJSON_Delete(command);
    return err;
}

/* Passes on what processes printed and how they ended: all their lines first. */
static psr_err attend(agent *a, bool *ret_running)
{
    *ret_running = false;
    for (size_t i = 0; i < a->count; i++) {
        process *p = &a->processes[i];
        bool ended = psr_child_reap(&p->child);
        line_from out = {a, p, "out"}, err = {a, p, "err"};
        PSR_TRY(psr_line_reader_drain(&p->child.out, on_line, &out));
        PSR_TRY(psr_line_reader_drain(&p->child.err, on_line, &err));
        psr_line_writer_flush(&p->child.in);
        if (ended && !p->told) {
            char how[128];
            psr_child_describe(&p->child, how, sizeof how);
            psr_json_put(&a->events, "event", "exited", "role", p->role, "#rank", (double)p->rank, "?ok", p->child.status == 0, "how",
                         how, NULL);
            p->told = true;
        }
        *ret_running |= !ended;
    }
    return PSR_OK;
}

/* TERM, then KILL, when their times have come. */
static void end_step(agent *a, int64_t now)
{
    for (size_t i = 0; i < a->count && a->ending && now >= a->term_at_ms; i++)
        psr_child_signal(&a->processes[i].child, now >= a->kill_at_ms ? SIGKILL : SIGTERM);
}

static int poll_timeout(const agent *a, int64_t now)
{
    int64_t next = a->heard_ms + a->deadline_ms;
    if (a->ending && now < a->kill_at_ms)
        next = now < a->term_at_ms ? a->term_at_ms : a->kill_at_ms;
    return next > now ? (int)(next - now) : 0;
}

static psr_err wait_for_events(agent *a, struct pollfd *fds)
{
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = a->signals, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = a->commands.fd, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&a->events) ? a->events.fd : -1, .events = POLLOUT};
    for (size_t i = 0; i < a->count; i++) {
        const psr_child *child = &a->processes[i].child;
        fds[n++] = (struct pollfd){.fd = child->pidfd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = child->out.fd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = child->err.fd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&child->in) ? child->in.fd : -1, .events = POLLOUT};
    }
    (void)poll(fds, n, poll_timeout(a, psr_clock_ms())); /* EINTR: everything is looked at anyway */
    psr_line_writer_flush(&a->events);
    struct signalfd_siginfo info;
    if ((fds[0].revents & POLLIN) && read(a->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        a->because = "the agent was told to end";
        end_all(a, 0);
    }
    return psr_line_reader_drain(&a->commands, on_command, a);
}

static psr_err agent_loop(agent *a, struct pollfd *fds)
{
    bool running = false;
    for (;;) {
        PSR_TRY(wait_for_events(a, fds));
        int64_t now = psr_clock_ms();
        if (a->commands.fd < 0 && !a->because) {
            a->because = "the launcher has gone";
            end_all(a, NAMING_MS);
        }
        if (now - a->heard_ms >= a->deadline_ms && !a->because) {
            a->because = "the launcher gave no sign of life for longer than the deadline";
            end_all(a, NAMING_MS);
        }
        PSR_TRY(attend(a, &running));
        if (a->ending && !running)
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
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    agent a = {.heard_ms = psr_clock_ms(), .deadline_ms = 30000};
    a.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    a.processes = calloc(CHILDREN_MAX, sizeof *a.processes);
    struct pollfd *fds = calloc(3 + 4 * (size_t)CHILDREN_MAX, sizeof *fds);
    psr_line_reader_init(&a.commands, dup(STDIN_FILENO));
    psr_line_writer_init(&a.events, dup(STDOUT_FILENO));
    psr_err err = PSR_OK;
    if (!a.processes || !fds || a.signals < 0)
        err = psr_fail(PSR_ERR_NOMEM, "the agent could not start");
    if (!err) {
        say_hello(&a);
        err = agent_loop(&a, fds);
    }
    if (err)
        fprintf(stderr, "psring agent: %s\n", psr_err_detail());
    else if (a.because)
        fprintf(stderr, "psring agent: %s; its %zu processes have been ended\n", a.because, a.count);
    for (size_t i = 0; i < a.count; i++)
        psr_child_done(&a.processes[i].child);
    psr_line_writer_flush(&a.events);
    psr_line_reader_done(&a.commands);
    psr_line_writer_done(&a.events);
    close(a.signals);
    free(a.processes);
    free(fds);
    return psr_err_exit_status(err ? err : a.because ? PSR_ERR_PEER : PSR_OK);
}
