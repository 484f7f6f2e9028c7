#include "deploy/lab/keeper.h"

#include "base/system/file.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "deploy/lab/load.h"
#include "deploy/lab/loss.h"
#include "deploy/lab/namespaces.h"
#include "deploy/lab/network.h"
#include "deploy/lab/result.h"
#include "deploy/lab/steps.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES 8192 /* of a hostfile and the like: 64 hosts */

typedef struct keeper {
    const psr_lab_run *run;
    const psr_lab_words *words;
    const psr_lab_tools *tools;
    int lifeline, signals;
    pid_t holders[PSR_LAB_HOSTS_MAX];
    psr_lab_loss losses[PSR_LAB_HOSTS_MAX]; /* of hosts with a loss; they end with this process */
    pid_t command;                          /* 0: it has not begun, or it has ended */
    int status;                             /* its, from waitpid */
    bool told;                              /* to end */
    psr_lab_load load;
} keeper;

/* ---- tools ---- */

static psr_err find_tool(const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, size, "%s/%s", folders[i], name);
        if (access(path, X_OK) == 0)
            return PSR_OK;
    }
    return psr_fail(PSR_ERR_NOT_FOUND, "%s is not installed (package iproute2)", name);
}

psr_err psr_lab_tools_find(psr_lab_tools *ret_tools)
{
    PSR_TRY(find_tool("ip", ret_tools->ip, sizeof ret_tools->ip));
    return find_tool("tc", ret_tools->tc, sizeof ret_tools->tc);
}

typedef struct script {
    char *text;
    size_t size;
    FILE *to;
} script;

static psr_err begin_script(script *s)
{
    *s = (script){.text = NULL};
    s->to = open_memstream(&s->text, &s->size);
    return s->to != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a script");
}

/* Runs what was written, in the network of a host, or (0) of the keeper. */
static psr_err run_script(script *s, const char *tool, pid_t holder)
{
    char batch[] = "-batch", input[] = "-";
    char *argv[] = {(char *)(uintptr_t)tool, batch, input, NULL};
    psr_err err = fclose(s->to) == 0 ? psr_lab_tool(holder, argv, s->text, NULL)
                                     : psr_fail(PSR_ERR_NOMEM, "no memory for a script");
    free(s->text);
    return err;
}

/* ---- building ---- */

static psr_err write_files(const keeper *k)
{
    const psr_lab *lab = k->run->lab;
    char text[FILE_BYTES], address[PSR_LAB_ADDRESS_BYTES];
    PSR_TRY(psr_lab_hostfile(lab, false, text, sizeof text));
    PSR_TRY(psr_lab_write(PSR_LAB_HOSTS, text));
    PSR_TRY(psr_lab_hostfile(lab, true, text, sizeof text));
    PSR_TRY(psr_lab_write(PSR_LAB_PS_HOSTS, text));
    psr_text_end end = {text, sizeof text};
    psr_text_add(&end, "127.0.0.1 localhost\n::1 localhost\n");
    for (size_t i = 0; i < lab->host_count; i++) {
        psr_lab_address(i, address);
        psr_text_add(&end, "%s %s\n", address, lab->hosts[i].name);
    }
    PSR_TRY(psr_lab_replace("/etc/hosts", PSR_LAB_FOLDER "/etc-hosts", text));
    /* No resolver of this machine can be reached from a host, so none is asked. */
    return psr_lab_replace("/etc/nsswitch.conf", PSR_LAB_FOLDER "/nsswitch",
                           "passwd: files\ngroup: files\nshadow: files\nhosts: files\n");
}

static psr_err hold_hosts(keeper *k)
{
    const psr_lab *lab = k->run->lab;
    char text[FILE_BYTES] = "", address[PSR_LAB_ADDRESS_BYTES];
    psr_text_end end = {text, sizeof text};
    for (size_t i = 0; i < lab->host_count; i++) {
        PSR_TRY(psr_lab_hold(lab->hosts[i].name, &k->holders[i]));
        psr_lab_address(i, address);
        psr_text_add(&end, "%s %d %s\n", lab->hosts[i].name, (int)k->holders[i], address);
    }
    return psr_lab_write(PSR_LAB_PLACES, text);
}

static psr_err make_network(keeper *k)
{
    const psr_lab *lab = k->run->lab;
    script s;
    PSR_TRY(begin_script(&s));
    psr_lab_network_links(lab, k->holders, s.to);
    PSR_TRY(run_script(&s, k->tools->ip, 0));
    PSR_TRY(begin_script(&s));
    psr_lab_network_queues(lab, s.to);
    PSR_TRY(run_script(&s, k->tools->tc, 0));
    for (size_t i = 0; i < lab->host_count; i++) {
        PSR_TRY(begin_script(&s));
        psr_lab_network_host_links(lab, i, s.to);
        PSR_TRY(run_script(&s, k->tools->ip, k->holders[i]));
        PSR_TRY(begin_script(&s));
        psr_lab_network_host_queues(lab, i, s.to);
        PSR_TRY(run_script(&s, k->tools->tc, k->holders[i]));
        if (lab->hosts[i].loss > 0)
            PSR_TRY(psr_lab_loss_begin(k->holders[i], lab->hosts[i].loss, &k->losses[i]));
    }
    return PSR_OK;
}

static psr_err build(keeper *k)
{
    PSR_TRY(psr_lab_settle());
    PSR_TRY(write_files(k));
    PSR_TRY(hold_hosts(k));
    return make_network(k);
}

/* ---- the command ---- */

/* Signals are blocked until the exec. */
static _Noreturn void become_command(const keeper *k, pid_t holder, const char *folder)
{
    sigset_t none;
    sigemptyset(&none);
    if (psr_lab_enter(holder, true) == PSR_OK && chdir(folder) == 0 &&
        setenv("XDG_RUNTIME_DIR", PSR_LAB_OWN, 1) == 0) {
        sigprocmask(SIG_SETMASK, &none, NULL);
        execv(k->words->words[0], k->words->words);
    }
    psr_print(stderr, "psring lab: %s in %s: %s\n", k->words->words[0], folder, strerror(errno));
    _exit(2);
}

static psr_err start_command(keeper *k)
{
    char folder[PATH_MAX];
    size_t first = 0;
    while (k->run->lab->hosts[first].slots == 0)
        first++;
    if (getcwd(folder, sizeof folder) == NULL)
        return psr_fail(PSR_ERR_IO, "this directory: %s", strerror(errno));
    k->command = fork();
    if (k->command == 0)
        become_command(k, k->holders[first], folder);
    if (k->command < 0)
        return psr_fail(PSR_ERR_IO, "a process: %s", strerror(errno));
    return PSR_OK;
}

/* All orphans of the lab are the keeper's. */
static void reap(keeper *k)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != k->command)
            continue;
        k->command = 0;
        k->status = status;
    }
}

/* A terminal's SIGINT reaches the command too, once there is one. */
static void take_signals(keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        k->told = k->told || info.ssi_signo != SIGCHLD;
        if (info.ssi_signo == SIGTERM && k->command > 0)
            (void)kill(k->command, SIGTERM);
    }
    reap(k);
}

static double unix_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static psr_err sample(keeper *k)
{
    psr_lab_ticks ticks;
    PSR_TRY(psr_lab_ticks_read(&ticks));
    return psr_lab_load_add(&k->load, &ticks, unix_clock_s());
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until the command has ended. CANCELLED: the parent is gone. */
static psr_err watch(keeper *k)
{
    struct pollfd fds[] = {{.fd = k->signals, .events = POLLIN}, {.fd = k->lifeline}};
    int64_t due_ms = now_ms();
    for (reap(k); k->command > 0; take_signals(k)) {
        if (fds[1].revents != 0)
            return psr_fail(PSR_ERR_CANCELLED, "its first process is gone");
        if (now_ms() >= due_ms) {
            PSR_TRY(sample(k));
            due_ms += PSR_LAB_SAMPLE_MS;
        }
        const int64_t left_ms = due_ms - now_ms();
        (void)poll(fds, 2, left_ms > 0 ? (int)left_ms : 0);
    }
    return PSR_OK;
}

/* ---- the result ---- */

static psr_err count_host(const keeper *k, size_t index, psr_lab_count *ret_count)
{
    char s[] = "-s", j[] = "-j", qdisc[] = "qdisc", show[] = "show", *text = NULL;
    char *argv[] = {(char *)(uintptr_t)k->tools->tc, s, j, qdisc, show, NULL};
    PSR_TRY(psr_lab_tool(k->holders[index], argv, "", &text));
    psr_err err = psr_lab_network_count(text, "eth0", ret_count);
    free(text);
    return err;
}

static psr_err count_switches(const keeper *k, const char *text, psr_lab_result *r)
{
    char device[32];
    for (size_t i = 0; i < r->lab->host_count; i++) {
        snprintf(device, sizeof device, "port%zu", i);
        PSR_TRY(psr_lab_network_count(text, device, &r->to_host[i]));
        PSR_TRY(count_host(k, i, &r->from_host[i]));
        if (r->lab->hosts[i].loss > 0)
            PSR_TRY(psr_lab_loss_count(&k->losses[i], &r->lost[i]));
    }
    for (size_t i = 1; i < r->lab->switch_count; i++) {
        snprintf(device, sizeof device, "down%zu", i);
        PSR_TRY(psr_lab_network_count(text, device, &r->to_switch[i]));
        snprintf(device, sizeof device, "up%zu", i);
        PSR_TRY(psr_lab_network_count(text, device, &r->from_switch[i]));
    }
    return PSR_OK;
}

static psr_err count(const keeper *k, psr_lab_result *r)
{
    char s[] = "-s", j[] = "-j", qdisc[] = "qdisc", show[] = "show", *text = NULL;
    char *argv[] = {(char *)(uintptr_t)k->tools->tc, s, j, qdisc, show, NULL};
    PSR_TRY(psr_lab_tool(0, argv, "", &text));
    psr_err err = count_switches(k, text, r);
    free(text);
    return err;
}

static psr_err write_result(const keeper *k, const psr_lab_result *r)
{
    char path[PSR_PATH_MAX + 16];
    cJSON *json = psr_lab_result_to_json(r);
    char *text = json != NULL ? cJSON_Print(json) : NULL;
    cJSON_Delete(json);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the result");
    psr_err err = PSR_OK;
    snprintf(path, sizeof path, "%s/lab.json", k->words->out);
    /* A run that was refused has no directory. */
    if (k->words->out[0] != '\0' && access(k->words->out, F_OK) == 0)
        err = psr_file_write_atomic(path, text, strlen(text));
    snprintf(path, sizeof path, "%s.lab.json", k->words->bench);
    if (err == PSR_OK && k->words->bench[0] != '\0' && access(k->words->bench, F_OK) == 0)
        err = psr_file_write_atomic(path, text, strlen(text));
    if (err == PSR_OK && k->run->result != NULL)
        err = psr_file_write_atomic(k->run->result, text, strlen(text));
    free(text);
    return err;
}

static psr_err conclude(keeper *k)
{
    const psr_lab_span always = {-INFINITY, INFINITY};
    psr_lab_span one, *spans = NULL;
    size_t spans_count = 0;
    if (k->words->bench[0] != '\0')
        PSR_TRY(psr_lab_steps_of_bench(k->words->bench, &spans, &spans_count));
    psr_lab_result *r = calloc(1, sizeof *r);
    if (r == NULL) {
        free(spans);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the result");
    }
    r->lab = k->run->lab;
    r->name = k->run->name;
    r->dilate = k->run->dilate;
    if (spans_count > 0)
        psr_lab_load_figures_of(&k->load, spans, spans_count, &r->load);
    else if (k->words->out[0] != '\0' && psr_lab_steps_of_run(k->words->out, &one))
        psr_lab_load_figures_of(&k->load, &one, 1, &r->load);
    else
        psr_lab_load_figures_of(&k->load, &always, 1, &r->load);
    free(spans);
    psr_err err = count(k, r);
    if (err == PSR_OK)
        err = write_result(k, r);
    if (err == PSR_OK)
        psr_lab_result_print(r);
    free(r);
    return err;
}

static psr_err run(keeper *k)
{
    PSR_TRY(build(k));
    PSR_TRY(sample(k));
    take_signals(k);
    if (k->told)
        return psr_fail(PSR_ERR_CANCELLED, "interrupted before it was built");
    PSR_TRY(start_command(k));
    PSR_TRY(watch(k));
    /* Bad input has said so itself, and has sent nothing. */
    return WIFEXITED(k->status) && WEXITSTATUS(k->status) == 2 ? PSR_OK : conclude(k);
}

static int open_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int psr_lab_keep(const psr_lab_run *lab_run, const psr_lab_words *words, const psr_lab_tools *tools,
                 int lifeline)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    keeper k = {.run = lab_run,
                .words = words,
                .tools = tools,
                .lifeline = lifeline,
                .signals = open_signals()};
    psr_err err = run(&k);
    psr_lab_load_done(&k.load);
    if (err != PSR_OK) {
        psr_print(stderr, "psring lab: %s: %s\n", lab_run->name, psr_err_detail());
        return psr_err_exit_status(err);
    }
    return WIFEXITED(k.status) ? WEXITSTATUS(k.status) : 1;
}
