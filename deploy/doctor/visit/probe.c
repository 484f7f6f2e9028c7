#include "deploy/doctor/visit/probe.h"

#include "base/clock.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "comm/members/provision.h"
#include "comm/wire/messages.h"
#include "deploy/doctor/facts/find_facts.h"
#include "deploy/doctor/visit/measure.h"
#include "net/address/lookup.h"
#include "net/address/reach.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WITHIN_MS_MAX 600000
#define SEALING_NS 3000000000

typedef struct probe {
    psr_provision provision;
    psr_transport *transport; /* NULL: it cannot listen */
    char listen_failure[512];
    psr_line_reader commands;
    psr_line_writer answers;
    double clock_fault_s;
    bool met;
    psr_peer other; /* the probe that it measures with */
    bool measures;
    psr_measure measure;
    int64_t sealing_ns; /* until when it waits for its messages to go sealed; 0: it does not */
    uint8_t *payload;   /* PSR_PROBE_MESSAGE_BYTES of it, lent to the transport */
} probe;

/* A time from the launcher, limited to a sensible range. */
static double milliseconds(const cJSON *command, const char *name)
{
    double value = psr_json_number(command, name, 0);
    return value >= 1 ? value <= WITHIN_MS_MAX ? value : WITHIN_MS_MAX : 1; /* NaN: 1 */
}

/* ---- examine ---- */

static void describe_inbox(const probe *p, psr_host_facts *f)
{
    uint32_t mtu = 0;
    /* and why is listen_failure */
    if (psr_interface_address(p->provision.interface, f->address) != PSR_OK)
        snprintf(f->address, sizeof f->address, "%.63s", p->provision.interface);
    if (psr_interface_of(f->address, f->interface, sizeof f->interface, &mtu) == PSR_OK)
        f->mtu_bytes = mtu;
    snprintf(f->listen_failure, sizeof f->listen_failure, "%s", p->listen_failure);
    if (p->transport != NULL)
        snprintf(f->endpoint, sizeof f->endpoint, "%s", psr_transport_endpoint(p->transport));
}

/* The caller owns *ret_addresses: cJSON_Delete. */
static psr_err look_up(const cJSON *names, int within_ms, cJSON **ret_addresses)
{
    const size_t count = (size_t)cJSON_GetArraySize(names);
    psr_lookup *lookups = calloc(count + 1, sizeof *lookups);
    cJSON *addresses = cJSON_CreateArray();
    psr_err err = lookups != NULL && addresses != NULL
                      ? PSR_OK
                      : psr_fail(PSR_ERR_NOMEM, "no memory for names");
    const cJSON *name = names != NULL ? names->child : NULL;
    for (size_t i = 0; i < count && err == PSR_OK; i++, name = name->next)
        lookups[i].name = cJSON_IsString(name) ? name->valuestring : "";
    if (err == PSR_OK)
        err = psr_lookup_all(lookups, count, within_ms);
    for (size_t i = 0; i < count && err == PSR_OK; i++)
        if (!cJSON_AddItemToArray(addresses, cJSON_CreateString(lookups[i].address)))
            err = psr_fail(PSR_ERR_NOMEM, "no memory for names");
    free(lookups);
    if (err == PSR_OK)
        *ret_addresses = addresses;
    else
        cJSON_Delete(addresses);
    return err;
}

static psr_err examine(probe *p, const cJSON *command)
{
    psr_host_facts facts;
    cJSON *object = NULL, *addresses = NULL;
    const int within_ms = (int)milliseconds(command, "within_ms");
    p->clock_fault_s = psr_json_number(command, "clock_fault_s", 0);
    const psr_planned planned = {psr_json_text(command, "data"), psr_json_text(command, "options")};
    psr_find_host_facts(&planned, within_ms, &facts);
    describe_inbox(p, &facts);
    PSR_TRY(look_up(cJSON_GetObjectItemCaseSensitive(command, "names"), within_ms / 4, &addresses));
    psr_err err = psr_host_facts_to_object(&facts, &object);
    if (err != PSR_OK) {
        cJSON_Delete(addresses);
        return err;
    }
    psr_json_put(&p->answers, "answer", "examine", "!facts", object, "!looked_up", addresses, NULL);
    return PSR_OK;
}

static psr_err read_data(probe *p, const cJSON *command)
{
    char content[PSR_CONTENT_TEXT_BYTES], failure[512];
    const char *data = psr_json_text(command, "data");
    psr_find_data_content(data != NULL ? data : "", (int)milliseconds(command, "within_ms"),
                          content, failure);
    psr_json_put(&p->answers, "answer", "read", "content", content, "failure", failure, NULL);
    return PSR_OK;
}

/* ---- clock ---- */

static psr_err tell_clock(probe *p, const cJSON *command)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    psr_json_put(&p->answers, "answer", "clock", "#number", psr_json_number(command, "number", 0),
                 "#time_s", (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + p->clock_fault_s,
                 NULL);
    return PSR_OK;
}

/* ---- reach ---- */

static cJSON *describe_reach(const psr_reach *r)
{
    cJSON *object = cJSON_CreateObject();
    if (cJSON_AddStringToObject(object, "source", r->source) == NULL ||
        cJSON_AddStringToObject(object, "failure", r->failure) == NULL) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

static psr_err put_reached(probe *p, const psr_reach *reaches, const bool *tried, size_t count)
{
    cJSON *list = cJSON_CreateArray();
    bool whole = list != NULL;
    for (size_t i = 0, k = 0; i < count && whole; i++) {
        cJSON *item = tried[i] ? describe_reach(&reaches[k++]) : cJSON_CreateNull();
        whole = cJSON_AddItemToArray(list, item);
    }
    if (!whole) {
        cJSON_Delete(list);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", count);
    }
    psr_json_put(&p->answers, "answer", "reach", "!reached", list, NULL);
    return PSR_OK;
}

static psr_err reach(probe *p, const cJSON *command)
{
    const cJSON *endpoints = cJSON_GetObjectItemCaseSensitive(command, "endpoints"), *item = NULL;
    const size_t count = (size_t)cJSON_GetArraySize(endpoints);
    psr_reach *reaches = calloc(count + 1, sizeof *reaches);
    bool *tried = calloc(count + 1, sizeof *tried);
    size_t i = 0, tries = 0;
    psr_err err =
        reaches != NULL && tried != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for hosts");
    for (item = endpoints != NULL ? endpoints->child : NULL; item != NULL && err == PSR_OK;
         item = item->next, i++) {
        tried[i] = cJSON_IsString(item) && item->valuestring[0] != '\0';
        if (tried[i])
            reaches[tries++].endpoint = item->valuestring;
    }
    if (err == PSR_OK)
        err = psr_reach_all(reaches, tries, (int)milliseconds(command, "within_ms"));
    if (err == PSR_OK)
        err = put_reached(p, reaches, tried, count);
    free(reaches);
    free(tried);
    return err;
}

/* ---- meet, measure ---- */

static psr_err meet(probe *p, const cJSON *command)
{
    const char *endpoint = psr_json_text(command, "endpoint");
    psr_peer other = {PSR_ROLE_WORKER, 0};
    if (endpoint == NULL || p->transport == NULL ||
        !psr_json_count(command, "rank", UINT32_MAX - 1, &other.rank))
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher told a probe to meet no other probe");
    if (p->met)
        psr_transport_disconnect(p->transport, p->other);
    psr_err err = psr_transport_connect(p->transport, other, endpoint, NULL);
    p->met = err == PSR_OK;
    p->other = other;
    psr_json_put(&p->answers, "answer", "meet", "failure", p->met ? "" : psr_err_detail(), NULL);
    return PSR_OK;
}

static psr_err begin_measuring(probe *p, const cJSON *command)
{
    if (!p->met || p->measures)
        return psr_fail(PSR_ERR_PROTOCOL, "the launcher wanted a measurement out of turn");
    p->measures = true;
    p->sealing_ns = 0;
    p->measure =
        psr_measure_begin(psr_clock_ns(), (int64_t)(milliseconds(command, "bytes_ms") * 1e6),
                          (int64_t)(milliseconds(command, "within_ms") * 1e6));
    return PSR_OK;
}

static void keep(void *context)
{
    (void)context; /* the payload is ours until the transport has ended */
}

/* What was measured is over, and the second connection may still come about: some seconds are
 * enough to say it again (net/zmq/transport_zmq_seal.c), and are within the measurement's time. */
static bool awaits_sealing(probe *p)
{
    const int64_t now_ns = psr_clock_ns();
    if (p->measure.phase != PSR_MEASURE_DONE ||
        !psr_transport_awaits_sealing(p->transport, p->other))
        return false;
    if (p->sealing_ns == 0)
        p->sealing_ns =
            now_ns + SEALING_NS < p->measure.end_ns ? now_ns + SEALING_NS : p->measure.end_ns;
    return now_ns < p->sealing_ns;
}

/* Sends what is due. Tells the launcher when all has been sent. */
static psr_err go_on_measuring(probe *p)
{
    uint64_t number = 0;
    size_t bytes = 0;
    if (!p->measures)
        return PSR_OK;
    while (psr_measure_next(&p->measure, psr_clock_ns(), &number, &bytes)) {
        const psr_head head = psr_msg_probe_head(number);
        const psr_payload payload = {p->payload, bytes, keep, NULL};
        PSR_TRY(psr_transport_send(p->transport, p->other, &head, bytes > 0 ? &payload : NULL));
    }
    psr_measure_tick(&p->measure, psr_clock_ns());
    if (p->measure.phase < PSR_MEASURE_DONE || awaits_sealing(p))
        return PSR_OK;
    psr_checkup_pair pair = {0};
    psr_unsealed unsealed = {.for_ms = 0};
    (void)psr_transport_unsealed(p->transport, 0, &unsealed);
    psr_measure_result(&p->measure, &pair);
    psr_json_put(&p->answers, "answer", "measure", "#round_trip_ns", (double)pair.round_trip_ns,
                 "#bytes_per_s", (double)pair.bytes_per_s, "#unsealed_ms", (double)unsealed.for_ms,
                 "#unsealed_port", (double)unsealed.port, "failure", pair.measure_failure, NULL);
    p->measures = false;
    return PSR_OK;
}

/* ---- messages of other probes ---- */

static psr_err on_message(probe *p, const psr_message *message)
{
    uint64_t number = psr_msg_probe_number(message);
    if (!p->met || !psr_peer_equal(message->from, p->other))
        return PSR_OK; /* the message belongs to a measurement that has ended */
    if (message->head.type == PSR_MSG_PROBE) {
        const psr_head head = psr_msg_probed_head(number);
        return psr_transport_send(p->transport, p->other, &head, NULL);
    }
    if (message->head.type == PSR_MSG_PROBED && p->measures)
        (void)psr_measure_answered(&p->measure, number, psr_clock_ns());
    return PSR_OK;
}

/* Takes messages until there are no more. Unknown messages of another probe are dropped; its
 * measurement then fails by its deadline. */
static psr_err take_messages(probe *p)
{
    for (;;) {
        psr_message *message = NULL;
        psr_err err = psr_transport_recv(p->transport, 0, &message);
        if (err == PSR_ERR_TIMEOUT)
            return PSR_OK;
        if (err == PSR_OK)
            err = on_message(p, message);
        psr_message_free(&message);
        if (err == PSR_OK)
            err = go_on_measuring(p);
        if (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_VERSION &&
            err != PSR_ERR_PEER)
            return err;
    }
}

/* ---- the loop ---- */

static psr_err on_command(void *context, char *line)
{
    static const struct {
        const char *op;
        psr_err (*obey)(probe *p, const cJSON *command);
    } commands[] = {{"examine", examine}, {"read", read_data}, {"clock", tell_clock},
                    {"reach", reach},     {"meet", meet},      {"measure", begin_measuring}};
    cJSON *command = cJSON_Parse(line);
    const char *op = psr_json_text(command, "op");
    psr_err err =
        psr_fail(PSR_ERR_PROTOCOL, "the launcher sent a line that is no command of a probe's");
    for (size_t i = 0; op != NULL && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(op, commands[i].op) == 0)
            err = commands[i].obey(context, command);
    cJSON_Delete(command);
    return err;
}

static int timeout_ms(const probe *p)
{
    if (!p->measures)
        return -1;
    const int64_t end_ns = p->sealing_ns != 0 ? p->sealing_ns : p->measure.end_ns;
    int64_t left_ms = (end_ns - psr_clock_ns()) / 1000000 + 1;
    return left_ms > 0 ? (int)left_ms : 0;
}

static psr_err probe_loop(probe *p)
{
    while (p->commands.fd >= 0) {
        if (p->transport != NULL)
            PSR_TRY(take_messages(p));
        PSR_TRY(psr_line_reader_visit(&p->commands, on_command, p));
        PSR_TRY(go_on_measuring(p));
        psr_line_writer_flush(&p->answers);
        struct pollfd commands = {.fd = p->commands.fd, .events = POLLIN};
        if (p->transport != NULL)
            psr_transport_wait_beside(p->transport, p->commands.fd, timeout_ms(p));
        else
            (void)poll(&commands, 1, -1);
    }
    return PSR_OK;
}

/* A host on which no process can listen still has facts to report. */
static void listen_as_worker(probe *p)
{
    psr_zmq_options options = psr_provision_zmq(&p->provision);
    if (psr_transport_zmq_new(&options, &p->transport) != PSR_OK)
        snprintf(p->listen_failure, sizeof p->listen_failure, "%s", psr_err_detail());
}

int psr_probe_main(void)
{
    probe p = {.commands.fd = -1, .answers.fd = -1};
    signal(SIGPIPE, SIG_IGN);
    psr_err err = psr_provision_from_fd(STDIN_FILENO, &p.provision);
    p.payload = calloc(1, PSR_PROBE_MESSAGE_BYTES);
    if (err == PSR_OK && p.payload == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a probe's messages");
    if (err == PSR_OK) {
        psr_line_reader_init(&p.commands, fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
        psr_line_writer_init(&p.answers, fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
        listen_as_worker(&p);
        err = probe_loop(&p);
    }
    if (err != PSR_OK)
        psr_print(stderr, "psring probe: %s\n", psr_err_detail());
    psr_line_writer_flush(&p.answers);
    psr_line_reader_done(&p.commands);
    psr_line_writer_done(&p.answers);
    psr_transport_free(&p.transport, 0);
    psr_provision_done(&p.provision);
    free(p.payload);
    return psr_err_exit_status(err);
}
