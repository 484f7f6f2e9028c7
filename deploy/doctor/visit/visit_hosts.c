/* Reads the lines of agents and probes, and sends them questions. */
#include "deploy/doctor/visit/visit_private.h"

#include "base/clock.h"
#include "base/text/json_fields.h"
#include "base/text/printable.h"
#include "comm/view/view.h"
#include "deploy/agent/agent_event.h"
#include "deploy/agent/ssh_words.h"
#include "net/address/interface.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The largest figure that is accepted. */
#define FIGURE_MAX 999999999999999ull

typedef struct from_host {
    psr_visitor *visitor;
    size_t host;
} from_host;

static const char *const questions[] = {
    [PSR_ASKED_NOTHING] = "nothing",
    [PSR_ASKED_HELLO] = "its agent's hello",
    [PSR_ASKED_FACTS] = "what its probe found",
    [PSR_ASKED_DATA] = "what its data are",
    [PSR_ASKED_CLOCK] = "its clock",
    [PSR_ASKED_REACH] = "whom it reaches",
    [PSR_ASKED_MEET] = "a channel to another probe",
    [PSR_ASKED_MEASURE] = "a measurement",
    [PSR_ASKED_END] = "its agent's end",
};

bool psr_visit_answers(const psr_visitor *v, size_t host)
{
    return v->visited[host].spawned && v->checkup->hosts[host].failure[0] == '\0';
}

void psr_visit_give_up(psr_visitor *v, size_t host, const char *format, ...)
{
    psr_checkup_host *h = &v->checkup->hosts[host];
    va_list args;
    v->visited[host].asked = PSR_ASKED_NOTHING;
    if (h->failure[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(h->failure, sizeof h->failure, format, args);
    va_end(args);
    psr_printable_line(h->failure, strlen(h->failure));
}

void psr_visit_ask(psr_visitor *v, size_t host, psr_question question, cJSON *command)
{
    psr_visited *visited = &v->visited[host];
    char *text = command != NULL ? cJSON_PrintUnformatted(command) : NULL;
    cJSON_Delete(command);
    if (text == NULL) {
        psr_visit_give_up(v, host, "no memory for a question");
        return;
    }
    psr_json_put(&visited->link.agent.in, "op", "tell", "role", psr_role_name(PSR_ROLE_WORKER),
                 "#rank", (double)host, "text", text, NULL);
    cJSON_free(text);
    visited->asked = question;
}

/* ---- answers ---- */

static psr_err take_looked_up(psr_visitor *v, size_t host, const cJSON *addresses)
{
    const cJSON *item = addresses != NULL ? addresses->child : NULL;
    for (size_t to = 0; to < v->checkup->count; to++, item = item->next) {
        psr_checkup_pair *pair = psr_checkup_pair_of(v->checkup, host, to);
        if (!cJSON_IsString(item) || strlen(item->valuestring) >= sizeof pair->looked_up_as ||
            !psr_is_printable(item->valuestring, strlen(item->valuestring)))
            return psr_fail(PSR_ERR_PROTOCOL, "field \"looked_up\" is no list of addresses");
        pair->looked_up = true;
        strcpy(pair->looked_up_as, item->valuestring);
    }
    return PSR_OK;
}

/* All others connect to the probe's endpoint, so it must have the address by which the host was
 * reached, with a port. With --interface that address is not known. */
static psr_err check_endpoint(const psr_visitor *v, size_t host)
{
    const psr_checkup_host *h = &v->checkup->hosts[host];
    const psr_host_facts *f = &h->facts;
    char endpoint[PSR_ENDPOINT_MAX];
    if (f->endpoint[0] == '\0')
        return PSR_OK;
    const char *colon = strrchr(f->endpoint, ':');
    const unsigned long port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
    psr_endpoint_format(f->address, (unsigned)port, endpoint, sizeof endpoint);
    const bool is_told = v->checkup->interface == NULL && !h->reached.here;
    if (port == 0 || port > UINT16_MAX || strcmp(endpoint, f->endpoint) != 0 ||
        !psr_address_is_a_hosts(f->address) ||
        (is_told && strcmp(f->address, h->reached.address) != 0))
        return psr_fail(PSR_ERR_PROTOCOL,
                        "it says that it listens on %s, which is not where it was told to",
                        f->endpoint);
    return PSR_OK;
}

static psr_err take_facts(psr_visitor *v, size_t host, const cJSON *answer)
{
    psr_checkup_host *h = &v->checkup->hosts[host];
    PSR_TRY(
        psr_host_facts_from_object(cJSON_GetObjectItemCaseSensitive(answer, "facts"), &h->facts));
    PSR_TRY(check_endpoint(v, host));
    PSR_TRY(take_looked_up(v, host, cJSON_GetObjectItemCaseSensitive(answer, "looked_up")));
    h->stage = PSR_DOCTOR_PROBED;
    return PSR_OK;
}

static psr_err take_data(psr_visitor *v, size_t host, const cJSON *answer)
{
    psr_host_facts *facts = &v->checkup->hosts[host].facts;
    PSR_TRY(psr_fields_text(answer, "content", facts->data_content, sizeof facts->data_content));
    return psr_fields_text(answer, "failure", facts->data_failure, sizeof facts->data_failure);
}

/* Cristian's algorithm (Probabilistic clock synchronization, 1989). The host's clock was read
 * between question and answer. We assume the middle of that time, which is wrong by at most half of
 * it. Of several readings the one with the shortest time counts. */
static psr_err take_clock(psr_visitor *v, size_t host, const cJSON *answer)
{
    const psr_visited *visited = &v->visited[host];
    psr_checkup_host *h = &v->checkup->hosts[host];
    const double taken_s = (double)(psr_clock_ns() - visited->asked_ns) * 1e-9;
    const double time_s = psr_json_number(answer, "time_s", NAN);
    if (psr_json_number(answer, "number", -1) != visited->number || !isfinite(time_s) ||
        fabs(time_s) > (double)FIGURE_MAX)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "field \"time_s\" or \"number\" is not what was asked for");
    if (h->clock_known && taken_s / 2 >= h->clock_within_s)
        return PSR_OK;
    h->clock_known = true;
    h->clock_s = time_s - (visited->asked_s + taken_s / 2);
    h->clock_within_s = taken_s / 2;
    return PSR_OK;
}

static psr_err take_reached(psr_visitor *v, size_t host, const cJSON *answer)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(answer, "reached");
    const cJSON *item = list != NULL ? list->child : NULL;
    for (size_t to = 0; to < v->checkup->count; to++, item = item->next) {
        psr_checkup_pair *pair = psr_checkup_pair_of(v->checkup, host, to);
        if (item == NULL)
            return psr_fail(PSR_ERR_PROTOCOL, "field \"reached\" does not tell of all hosts");
        if (cJSON_IsNull(item))
            continue;
        PSR_TRY(psr_fields_text(item, "source", pair->source, sizeof pair->source));
        PSR_TRY(
            psr_fields_text(item, "failure", pair->connect_failure, sizeof pair->connect_failure));
        pair->tried = true;
        pair->connected = pair->connect_failure[0] == '\0';
    }
    return PSR_OK;
}

static psr_err take_met(psr_visitor *v, size_t host, const cJSON *answer)
{
    psr_visited *visited = &v->visited[host];
    psr_checkup_pair *pair = psr_checkup_pair_of(v->checkup, host, visited->partner);
    PSR_TRY(
        psr_fields_text(answer, "failure", pair->measure_failure, sizeof pair->measure_failure));
    visited->met = pair->measure_failure[0] == '\0';
    return PSR_OK;
}

static psr_err take_measured(psr_visitor *v, size_t host, const cJSON *answer)
{
    psr_checkup_pair *pair = psr_checkup_pair_of(v->checkup, host, v->visited[host].partner);
    PSR_TRY(psr_fields_number(answer, "round_trip_ns", FIGURE_MAX, &pair->round_trip_ns));
    PSR_TRY(psr_fields_number(answer, "bytes_per_s", FIGURE_MAX, &pair->bytes_per_s));
    PSR_TRY(psr_fields_number(answer, "unsealed_ms", FIGURE_MAX, &pair->unsealed_ms));
    PSR_TRY(psr_fields_number(answer, "unsealed_port", UINT16_MAX, &pair->unsealed_port));
    PSR_TRY(
        psr_fields_text(answer, "failure", pair->measure_failure, sizeof pair->measure_failure));
    pair->measured = pair->measure_failure[0] == '\0';
    return PSR_OK;
}

static psr_err take_answer(psr_visitor *v, size_t host, const char *text)
{
    static const struct {
        const char *name;
        psr_question question;
        psr_err (*take)(psr_visitor *v, size_t host, const cJSON *answer);
    } answers[] = {
        {"examine", PSR_ASKED_FACTS, take_facts}, {"read", PSR_ASKED_DATA, take_data},
        {"clock", PSR_ASKED_CLOCK, take_clock},   {"reach", PSR_ASKED_REACH, take_reached},
        {"meet", PSR_ASKED_MEET, take_met},       {"measure", PSR_ASKED_MEASURE, take_measured}};
    psr_visited *visited = &v->visited[host];
    cJSON *answer = cJSON_Parse(text);
    const char *name = psr_json_text(answer, "answer");
    psr_err err = psr_fail(PSR_ERR_PROTOCOL, "it answers what it was not asked: '%.100s'", text);
    for (size_t i = 0; name != NULL && i < sizeof answers / sizeof *answers; i++)
        if (strcmp(name, answers[i].name) == 0 && visited->asked == answers[i].question)
            err = answers[i].take(v, host, answer);
    cJSON_Delete(answer);
    visited->asked = PSR_ASKED_NOTHING;
    return err;
}

/* ---- what an agent says ---- */

static void take_hello(psr_visitor *v, size_t host, const psr_agent_event *event)
{
    psr_checkup_host *h = &v->checkup->hosts[host];
    snprintf(h->reached.address, sizeof h->reached.address, "%s", event->address);
    snprintf(h->reached.launcher_address, sizeof h->reached.launcher_address, "%s",
             event->launcher_address);
    snprintf(h->machine, sizeof h->machine, "%s", event->machine);
    psr_printable_line(h->machine, strlen(h->machine));
    h->stage = PSR_DOCTOR_NO_PROBE;
    v->visited[host].greeted = true;
    v->visited[host].asked = PSR_ASKED_NOTHING;
}

/* Before the hello, those lines of ssh are kept that tell why it failed. */
static void take_words(psr_visited *visited, const char *text)
{
    if (!visited->greeted && psr_ssh_words_tell_why(visited->last_words))
        return;
    snprintf(visited->last_words, sizeof visited->last_words, "%s", text);
    psr_printable_line(visited->last_words, strlen(visited->last_words));
}

static psr_err take_event(psr_visitor *v, size_t host, const psr_agent_event *event)
{
    psr_visited *visited = &v->visited[host];
    switch (event->kind) {
    case PSR_AGENT_GREETING:
        take_words(visited, event->text);
        return PSR_OK;
    case PSR_AGENT_HELLO:
        take_hello(v, host, event);
        return PSR_OK;
    case PSR_AGENT_LINE:
        if (!event->to_stderr)
            return take_answer(v, host, event->text);
        take_words(visited, event->text);
        return PSR_OK;
    case PSR_AGENT_EXITED:
        if (visited->asked != PSR_ASKED_END)
            psr_visit_give_up(v, host, "its probe ended (%s)%s%s", event->text,
                              visited->last_words[0] ? ": " : "", visited->last_words);
        return PSR_OK;
    case PSR_AGENT_ALIVE:
    case PSR_AGENT_PAUSED:
    case PSR_AGENT_LISTENS:
    case PSR_AGENT_LINK:
        return PSR_OK;
    }
    return PSR_OK;
}

/* A host that breaks the protocol is ignored from then on. */
void psr_visit_take_line(psr_visitor *v, size_t host, const char *line)
{
    const psr_visited *visited = &v->visited[host];
    const psr_agent_context by = {.placement = &v->placement,
                                  .host = (uint32_t)host,
                                  .greeted = visited->greeted,
                                  .all_started = visited->spawned};
    psr_agent_event event = {0};
    if (v->checkup->hosts[host].failure[0] != '\0')
        return;
    psr_err err = psr_agent_event_read(&by, line, &event);
    if (err == PSR_OK)
        err = take_event(v, host, &event);
    psr_agent_event_done(&event);
    if (err != PSR_OK)
        psr_visit_give_up(v, host, "%s", psr_err_detail());
}

static psr_err on_agent_line(void *context, char *line)
{
    const from_host *from = context;
    psr_visit_take_line(from->visitor, from->host, line);
    return PSR_OK;
}

static psr_err on_agent_error_line(void *context, char *line)
{
    const from_host *from = context;
    take_words(&from->visitor->visited[from->host], line);
    return PSR_OK;
}

/* ---- waiting ---- */

static void on_closed(psr_visitor *v, size_t host)
{
    psr_visited *visited = &v->visited[host];
    char how[128];
    psr_child_describe(visited->link.agent.status, how, sizeof how);
    visited->closed = true;
    if (visited->asked == PSR_ASKED_END)
        visited->asked = PSR_ASKED_NOTHING;
    else if (!visited->greeted) {
        (void)psr_host_no_agent(v->checkup->hosts[host].host.name, visited->link.local,
                                visited->link.agent.status, visited->last_words);
        psr_visit_give_up(v, host, "%s", psr_err_detail());
    } else
        psr_visit_give_up(v, host, "its %s ended (%s)%s%s",
                          visited->link.local ? "agent" : "ssh connection", how,
                          visited->last_words[0] ? ": " : "", visited->last_words);
}

static psr_err attend_host(psr_visitor *v, size_t host)
{
    psr_visited *visited = &v->visited[host];
    psr_child *agent = &visited->link.agent;
    from_host from = {v, host};
    if (!visited->started || visited->closed)
        return PSR_OK;
    (void)psr_child_reap(agent);
    PSR_TRY(psr_line_reader_visit(&agent->out, on_agent_line, &from));
    PSR_TRY(psr_line_reader_visit(&agent->err, on_agent_error_line, &from));
    psr_line_writer_flush(&agent->in);
    if (psr_child_said_all(agent))
        on_closed(v, host);
    return PSR_OK;
}

static nfds_t collect(psr_visitor *v)
{
    nfds_t n = 0;
    v->fds[n++] = (struct pollfd){.fd = v->signals, .events = POLLIN};
    for (size_t i = 0; i < v->checkup->count; i++) {
        const psr_child *agent = &v->visited[i].link.agent;
        if (!v->visited[i].started || v->visited[i].closed)
            continue;
        v->fds[n++] = (struct pollfd){.fd = agent->ended ? -1 : agent->pidfd, .events = POLLIN};
        v->fds[n++] = (struct pollfd){.fd = agent->out.fd, .events = POLLIN};
        v->fds[n++] = (struct pollfd){.fd = agent->err.fd, .events = POLLIN};
        v->fds[n++] = (struct pollfd){.fd = psr_line_writer_pending(&agent->in) ? agent->in.fd : -1,
                                      .events = POLLOUT};
    }
    return n;
}

static size_t count_unanswered(const psr_visitor *v)
{
    size_t owing = 0;
    for (size_t i = 0; i < v->checkup->count; i++)
        owing += v->visited[i].asked != PSR_ASKED_NOTHING;
    return owing;
}

static void give_up_silent(psr_visitor *v, int64_t within_ms)
{
    for (size_t i = 0; i < v->checkup->count; i++) {
        const psr_question asked = v->visited[i].asked;
        v->visited[i].asked = PSR_ASKED_NOTHING;
        /* an agent that owes no answer is ending, and is killed if it does not */
        if (asked == PSR_ASKED_NOTHING || asked == PSR_ASKED_END)
            continue;
        v->checkup->hosts[i].silent |= v->checkup->hosts[i].failure[0] == '\0';
        psr_visit_give_up(v, i, "it did not tell %s within %" PRId64 " s", questions[asked],
                          (within_ms + 999) / 1000);
    }
}

psr_err psr_visit_await(psr_visitor *v, const char *what, int64_t within_ms)
{
    const int64_t end_ms = psr_clock_ms() + within_ms;
    const size_t asked = count_unanswered(v);
    struct signalfd_siginfo info;
    size_t owing, told = SIZE_MAX;
    while ((owing = count_unanswered(v)) > 0) {
        int64_t left_ms = end_ms - psr_clock_ms();
        if (owing != told && v->options->progress != NULL)
            v->options->progress(v->options->progress_context, what, asked - owing, asked);
        told = owing;
        if (left_ms <= 0) {
            give_up_silent(v, within_ms);
            return PSR_OK;
        }
        (void)poll(v->fds, collect(v), (int)left_ms); /* EINTR: everything is looked at anyway */
        if (read(v->signals, &info, sizeof info) == (ssize_t)sizeof info)
            return psr_fail(PSR_ERR_CANCELLED, "interrupted");
        for (size_t i = 0; i < v->checkup->count; i++)
            PSR_TRY(attend_host(v, i));
    }
    return PSR_OK;
}
