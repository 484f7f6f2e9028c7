/* The questions, in their order. */
#include "deploy/doctor/visit/visit_private.h"

#include "base/clock.h"
#include "base/text/secret.h"
#include "comm/members/provision.h"
#include "deploy/doctor/visit/rounds.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* added to the deadline, because ssh gives a connection up after 10 s and then says why
 * (deploy/agent/host.c) */
#define SSH_MS 2000
#define CONNECTING_MAX 32 /* so many ssh connect at the same time, as in a run */
#define CLOCK_ROUNDS 8
/* For all rounds together, approximately: each round's time is cut to fit. After a deadline no
 * further round begins. */
#define ROUNDS_MS 6000
#define READ_DEADLINES 10 /* a data set may be gigabytes */
#define BYTES_MS_MIN 10.0
#define BYTES_MS_MAX 200.0
#define END_MS 2000
#define DEADLINE_S 600 /* after so much silence an agent takes us for dead */

/* ---- agents ---- */

static psr_err start_agent(psr_visitor *v, size_t host)
{
    psr_visited *visited = &v->visited[host];
    psr_checkup_host *h = &v->checkup->hosts[host];
    psr_err err =
        psr_host_start(&visited->link, h->host.name, v->options->ssh, v->options->remote_program);
    h->reached.here = visited->link.local;
    if (err == PSR_ERR_USAGE || err == PSR_ERR_NOMEM)
        return err;
    if (err != PSR_OK) {
        psr_visit_give_up(v, host, "%s", psr_err_detail());
        return PSR_OK;
    }
    visited->started = true;
    visited->asked = PSR_ASKED_HELLO;
    psr_json_put(&visited->link.agent.in, "op", "begin", "#deadline_s", (double)DEADLINE_S, NULL);
    return psr_host_set_variables(&visited->link, v->options->variables);
}

static psr_err start_agents(psr_visitor *v)
{
    for (size_t i = 0; i < v->checkup->count; i++) {
        PSR_TRY(start_agent(v, i));
        if (i % CONNECTING_MAX == CONNECTING_MAX - 1 || i + 1 == v->checkup->count)
            PSR_TRY(psr_visit_await(v, "logins", v->options->deadline_ms + SSH_MS));
    }
    return PSR_OK;
}

/* ---- probes ---- */

static psr_err start_probe(psr_visitor *v, size_t host, const char *interface)
{
    psr_visited *visited = &v->visited[host];
    psr_provision provision = {.self = {PSR_ROLE_WORKER, (uint32_t)host}};
    char *text = NULL;
    provision.keys = v->keys[1 + host];
    snprintf(provision.interface, sizeof provision.interface, "%s", interface);
    psr_err err = psr_provision_to_json(&provision, &text);
    explicit_bzero(&provision.keys, sizeof provision.keys);
    PSR_TRY(err);
    cJSON *json = cJSON_Parse(text);
    psr_secret_free(text);
    if (json == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a provision");
    psr_line_writer *in = &visited->link.agent.in;
    psr_json_put(in, "op", "probe", NULL);
    psr_json_put(in, "op", "spawn", "role", psr_role_name(PSR_ROLE_WORKER), "#rank", (double)host,
                 "!provision", json, NULL);
    visited->spawned = true;
    return PSR_OK;
}

/* NULL: no memory, as everywhere in this file; psr_visit_ask reports it. */
static cJSON *names_of_all(const psr_checkup *c)
{
    cJSON *names = cJSON_CreateArray();
    for (size_t i = 0; i < c->count; i++) {
        const char *name = c->hosts[i].host.name, *at = strchr(name, '@');
        cJSON_AddItemToArray(names, cJSON_CreateString(at != NULL ? at + 1 : name));
    }
    return names;
}

static cJSON *command_of(const char *op)
{
    cJSON *command = cJSON_CreateObject();
    cJSON_AddStringToObject(command, "op", op);
    return command;
}

static cJSON *examine_command(const psr_visitor *v, size_t host)
{
    cJSON *command = command_of("examine");
    cJSON_AddNumberToObject(command, "within_ms", (double)v->options->deadline_ms);
    if (v->checkup->data != NULL)
        cJSON_AddStringToObject(command, "data", v->checkup->data);
    if (v->checkup->options != NULL)
        cJSON_AddStringToObject(command, "options", v->checkup->options);
    if (v->options->clock_fault_host == host)
        cJSON_AddNumberToObject(command, "clock_fault_s", v->options->clock_fault_s);
    cJSON_AddItemToObject(command, "names", names_of_all(v->checkup));
    return command;
}

/* The probe listens on the address that a run's processes would use. */
static psr_err start_probes(psr_visitor *v)
{
    psr_checkup *c = v->checkup;
    const psr_reached *elsewhere = NULL;
    for (size_t i = 0; i < c->count && elsewhere == NULL; i++)
        elsewhere =
            v->visited[i].greeted && !c->hosts[i].reached.here ? &c->hosts[i].reached : NULL;
    PSR_TRY(psr_keys_generate((uint32_t)c->count, 0, true, &v->keys, &v->key_count));
    for (size_t i = 0; i < c->count; i++) {
        if (!v->visited[i].greeted || c->hosts[i].failure[0] != '\0')
            continue;
        const char *interface =
            psr_reached_interface(c->interface, &c->hosts[i].reached, elsewhere);
        if (interface[0] == '\0') {
            psr_visit_give_up(v, i, "it does not tell the address that ssh reached it by");
            continue;
        }
        PSR_TRY(start_probe(v, i, interface));
        psr_visit_ask(v, i, PSR_ASKED_FACTS, examine_command(v, i));
    }
    return psr_visit_await(v, "hosts themselves", 2 * v->options->deadline_ms);
}

/* ---- data ---- */

/* Where the data were found, they are read to their end, which may take long. */
static psr_err read_data(psr_visitor *v)
{
    const int64_t within_ms = READ_DEADLINES * v->options->deadline_ms;
    for (size_t i = 0; i < v->checkup->count; i++) {
        if (!psr_visit_answers(v, i) || v->checkup->hosts[i].facts.data[0] == '\0')
            continue;
        cJSON *command = command_of("read");
        cJSON_AddNumberToObject(command, "within_ms", (double)within_ms);
        cJSON_AddStringToObject(command, "data", v->checkup->data);
        psr_visit_ask(v, i, PSR_ASKED_DATA, command);
    }
    return psr_visit_await(v, "data", within_ms + v->options->deadline_ms);
}

/* ---- clocks ---- */

static void ask_clock(psr_visitor *v, size_t host, double number)
{
    psr_visited *visited = &v->visited[host];
    struct timespec now;
    cJSON *command = command_of("clock");
    cJSON_AddNumberToObject(command, "number", number);
    visited->number = number;
    clock_gettime(CLOCK_REALTIME, &now);
    visited->asked_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    visited->asked_ns = psr_clock_ns();
    psr_visit_ask(v, host, PSR_ASKED_CLOCK, command);
}

static psr_err compare_clocks(psr_visitor *v)
{
    for (int round = 0; round < CLOCK_ROUNDS; round++) {
        for (size_t i = 0; i < v->checkup->count; i++)
            if (psr_visit_answers(v, i))
                ask_clock(v, i, round);
        PSR_TRY(psr_visit_await(v, "clocks", v->options->deadline_ms));
    }
    return PSR_OK;
}

/* ---- ways ---- */

static bool listens(const psr_visitor *v, size_t host)
{
    return psr_visit_answers(v, host) && v->checkup->hosts[host].facts.endpoint[0] != '\0';
}

/* Every host connects to every host, and to itself too, since processes of one host also connect to
 * each other. */
static psr_err try_ways(psr_visitor *v)
{
    for (size_t from = 0; from < v->checkup->count; from++) {
        if (!psr_visit_answers(v, from))
            continue;
        cJSON *command = command_of("reach");
        cJSON_AddNumberToObject(command, "within_ms", (double)v->options->deadline_ms / 3);
        cJSON *endpoints = cJSON_AddArrayToObject(command, "endpoints");
        for (size_t to = 0; to < v->checkup->count; to++) {
            const char *endpoint = listens(v, to) ? v->checkup->hosts[to].facts.endpoint : "";
            cJSON_AddItemToArray(endpoints, cJSON_CreateString(endpoint));
        }
        psr_visit_ask(v, from, PSR_ASKED_REACH, command);
    }
    return psr_visit_await(v, "connections", v->options->deadline_ms);
}

static bool can_meet(const psr_visitor *v, size_t a, size_t b)
{
    return listens(v, a) && listens(v, b) && psr_checkup_pair_of(v->checkup, a, b)->connected &&
           psr_checkup_pair_of(v->checkup, b, a)->connected;
}

static void ask_to_meet(psr_visitor *v, size_t host, size_t other)
{
    cJSON *command = command_of("meet");
    cJSON_AddNumberToObject(command, "rank", (double)other);
    cJSON_AddStringToObject(command, "endpoint", v->checkup->hosts[other].facts.endpoint);
    v->visited[host].partner = other;
    psr_visit_ask(v, host, PSR_ASKED_MEET, command);
}

static void ask_to_measure(psr_visitor *v, size_t host, double bytes_ms)
{
    cJSON *command = command_of("measure");
    cJSON_AddNumberToObject(command, "bytes_ms", bytes_ms);
    cJSON_AddNumberToObject(command, "within_ms", (double)v->options->deadline_ms / 2);
    psr_visit_ask(v, host, PSR_ASKED_MEASURE, command);
}

/* In each pair the host with the lower number measures first, and then the other one. */
static psr_err measure_round(psr_visitor *v, size_t round, double bytes_ms)
{
    const size_t count = v->checkup->count;
    char what[64];
    snprintf(what, sizeof what, "speeds, round %zu of %zu", round + 1, psr_rounds(count));
    for (size_t i = 0; i < count; i++) {
        size_t other = psr_round_partner(count, round, i);
        v->visited[i].met = false;
        if (other != SIZE_MAX && can_meet(v, i, other))
            ask_to_meet(v, i, other);
    }
    PSR_TRY(psr_visit_await(v, what, v->options->deadline_ms));
    for (int way = 0; way < 2; way++) {
        for (size_t i = 0; i < count; i++) {
            size_t other = psr_round_partner(count, round, i);
            if (v->visited[i].met && v->visited[other].met && psr_visit_answers(v, i) &&
                psr_visit_answers(v, other) && (i < other) == (way == 0))
                ask_to_measure(v, i, bytes_ms);
        }
        PSR_TRY(psr_visit_await(v, what, v->options->deadline_ms));
    }
    return PSR_OK;
}

static psr_err measure_ways(psr_visitor *v)
{
    const size_t rounds = psr_rounds(v->checkup->count);
    const int64_t end_ms = psr_clock_ms() + v->options->deadline_ms;
    double bytes_ms = rounds > 0 ? ROUNDS_MS / (2.0 * (double)rounds) : 0;
    bytes_ms = bytes_ms > BYTES_MS_MAX   ? BYTES_MS_MAX
               : bytes_ms < BYTES_MS_MIN ? BYTES_MS_MIN
                                         : bytes_ms;
    for (size_t round = 0; round < rounds && psr_clock_ms() < end_ms; round++)
        PSR_TRY(measure_round(v, round, bytes_ms));
    return PSR_OK;
}

/* ---- the whole ---- */

/* Called after success and failure: ends the agents, and with them the probes. */
static psr_err end_agents(psr_visitor *v)
{
    for (size_t i = 0; i < v->checkup->count; i++) {
        psr_visited *visited = &v->visited[i];
        visited->asked = visited->started && !visited->closed ? PSR_ASKED_END : PSR_ASKED_NOTHING;
        if (visited->asked == PSR_ASKED_END)
            psr_json_put(&visited->link.agent.in, "op", "end", "#grace_ms", 0.0, NULL);
    }
    /* An agent that has not ended by then is killed. */
    psr_err err = psr_visit_await(v, "ends", END_MS);
    for (size_t i = 0; i < v->checkup->count; i++)
        if (v->visited[i].started)
            psr_child_done(&v->visited[i].link.agent);
    return err;
}

static psr_err ask_all(psr_visitor *v)
{
    PSR_TRY(start_agents(v));
    PSR_TRY(start_probes(v));
    PSR_TRY(read_data(v));
    PSR_TRY(compare_clocks(v));
    PSR_TRY(try_ways(v));
    return measure_ways(v);
}

static int open_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static psr_err set_up(psr_visitor *v)
{
    const size_t count = v->checkup->count;
    v->signals = open_signals();
    v->visited = calloc(count, sizeof *v->visited);
    v->fds = calloc(1 + 4 * count, sizeof *v->fds);
    v->placement =
        (psr_placement){.hosts = {calloc(count, sizeof *v->placement.hosts.items), count},
                        .items = calloc(count, sizeof *v->placement.items),
                        .count = count};
    if (v->visited == NULL || v->fds == NULL || v->placement.hosts.items == NULL ||
        v->placement.items == NULL || v->signals < 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", count);
    for (size_t i = 0; i < count; i++) {
        v->placement.hosts.items[i] = v->checkup->hosts[i].host;
        v->placement.items[i] = (psr_placed){{PSR_ROLE_WORKER, (uint32_t)i}, (uint32_t)i};
    }
    return PSR_OK;
}

static void clean_up(psr_visitor *v)
{
    for (size_t i = 0; i < v->key_count; i++)
        psr_keys_done(&v->keys[i]); /* wipes */
    free(v->keys);
    psr_placement_done(&v->placement);
    free(v->visited);
    free(v->fds);
    if (v->signals >= 0)
        close(v->signals);
}

psr_err psr_visit(const psr_visit_options *options, psr_checkup *checkup)
{
    psr_visitor v = {.options = options, .checkup = checkup, .signals = -1};
    signal(SIGPIPE, SIG_IGN);
    psr_err err = set_up(&v);
    if (err == PSR_OK) {
        char detail[PSR_ERR_DETAIL_BYTES];
        err = ask_all(&v);
        psr_err_detail_keep(detail);
        psr_err ended = end_agents(&v);
        if (err == PSR_OK)
            err = ended;
        else
            psr_err_detail_restore(detail);
    }
    clean_up(&v);
    return err;
}
