#include "deploy/agent/agent_event.h"

#include "comm/view/view.h"
#include "net/address/interface.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CORES_MAX 65536
#define ADDRESS_BYTES 64

static const char *host_name(const psr_agent_context *by)
{
    return by->placement->hosts.items[by->host].name;
}

static psr_err violation(const psr_agent_context *by, const char *format, ...) PSR_PRINTF(2, 3);
static psr_err violation(const psr_agent_context *by, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return psr_fail(PSR_ERR_PROTOCOL, "host %s: its agent %s", host_name(by), what);
}

/* ---- hello ---- */

/* The address must be numeric, since processes listen there, and a name could be that of any
 * interface. */
static psr_err read_address(const psr_agent_context *by, const cJSON *json, const char *name,
                            const char **ret_address)
{
    const char *text = psr_json_text(json, name);
    if (text != NULL && text[0] && (strlen(text) >= ADDRESS_BYTES || !psr_address_is_a_hosts(text)))
        return violation(by, "says that \"%s\" is '%.64s', which is no address of one host", name,
                         text);
    *ret_address = text != NULL ? text : "";
    return PSR_OK;
}

/* If the agent's own address is a loopback address, it was reached over this machine's loopback, so
 * it runs on this machine. */
static psr_err read_addresses(const psr_agent_context *by, psr_agent_event *event)
{
    PSR_TRY(read_address(by, event->json, "address", &event->address));
    PSR_TRY(read_address(by, event->json, "launcher_address", &event->launcher_address));
    if (psr_address_is_loopback(event->address) != psr_address_is_loopback(event->launcher_address))
        return violation(by,
                         "says that it was reached at '%.64s' from '%.64s', and one of them is "
                         "this host's own alone",
                         event->address, event->launcher_address);
    return PSR_OK;
}

static psr_err read_hello(const psr_agent_context *by, psr_agent_event *event)
{
    const char *version = psr_json_text(event->json, "version");
    if (by->greeted)
        return violation(by, "said hello twice");
    if (version == NULL || strcmp(version, PSR_VERSION) != 0)
        return psr_fail(
            PSR_ERR_VERSION, "host %s has psring %s, this is %s; install the same version on both",
            host_name(by), version != NULL ? version : "of an unknown version", PSR_VERSION);
    PSR_TRY(read_addresses(by, event));
    const char *machine = psr_json_text(event->json, "machine");
    event->machine = machine != NULL ? machine : "";
    if (!psr_json_count(event->json, "cores", CORES_MAX, &event->cores) || event->cores == 0)
        return violation(by, "does not say how many cores it has");
    const cJSON *topology = cJSON_GetObjectItemCaseSensitive(event->json, "topology");
    psr_err err = topology != NULL ? psr_topology_from_json(topology, &event->topology) : PSR_OK;
    return err == PSR_ERR_FORMAT ? violation(by, "does not report the layout of its cores") : err;
}

/* ---- the link ---- */

static psr_err read_listens(const psr_agent_context *by, psr_agent_event *event)
{
    uint32_t port;
    if (!by->asked_to_listen)
        return violation(by, "listens, and nobody asked it to");
    PSR_TRY(read_address(by, event->json, "address", &event->address));
    if (!psr_json_count(event->json, "port", UINT16_MAX, &port) ||
        (port != 0 && event->address[0] == '\0'))
        return violation(by, "does not say where it listens");
    event->port = (uint16_t)port;
    return PSR_OK;
}

#define BITS_PER_S_MAX 1e15

static psr_err read_link(const psr_agent_context *by, psr_agent_event *event)
{
    const double rate = psr_json_number(event->json, "bits_per_s", -1);
    if (!by->asked_for_link)
        return violation(by, "says how fast its link is, and nobody asked");
    if (!(rate >= 0 && rate <= BITS_PER_S_MAX))
        return violation(by, "does not say how fast its link is");
    event->bits_per_s = (uint64_t)rate;
    return PSR_OK;
}

/* ---- processes ---- */

static psr_err find_item(const psr_agent_context *by, const cJSON *json, size_t *ret_item)
{
    const psr_placement *placement = by->placement;
    const char *role = psr_json_text(json, "role");
    psr_peer peer;
    if (role == NULL || !psr_role_parse(role, &peer.role) ||
        !psr_json_count(json, "rank", UINT32_MAX, &peer.rank))
        return violation(by, "speaks for a process without a role or rank");
    for (size_t i = 0; i < placement->count; i++)
        if (placement->items[i].host == by->host &&
            psr_peer_equal(placement->items[i].peer, peer)) {
            *ret_item = i;
            return PSR_OK;
        }
    return violation(by, "speaks for %s %" PRIu32 ", which is not placed there", role, peer.rank);
}

static psr_err read_line(const psr_agent_context *by, psr_agent_event *event)
{
    const char *stream = psr_json_text(event->json, "stream");
    event->text = psr_json_text(event->json, "text");
    if (event->text == NULL || stream == NULL ||
        (strcmp(stream, "out") != 0 && strcmp(stream, "err") != 0))
        return violation(by, "sent a process's line without a text or stream");
    event->to_stderr = strcmp(stream, "err") == 0;
    event->is_log = event->to_stderr && psr_log_line_read(event->text, &event->log);
    return PSR_OK;
}

static psr_err read_exited(psr_agent_event *event)
{
    const char *how = psr_json_text(event->json, "how");
    event->ok = psr_json_true(event->json, "ok");
    event->by_itself = psr_json_true(event->json, "by_itself");
    event->text = how != NULL ? how : "nobody knows how";
    return PSR_OK;
}

/* ---- any of them ---- */

static bool kind_of(const char *name, psr_agent_event_kind *ret_kind)
{
    static const struct {
        const char *name;
        psr_agent_event_kind kind;
    } kinds[] = {{"hello", PSR_AGENT_HELLO},   {"alive", PSR_AGENT_ALIVE},
                 {"paused", PSR_AGENT_PAUSED}, {"listens", PSR_AGENT_LISTENS},
                 {"link", PSR_AGENT_LINK},     {"line", PSR_AGENT_LINE},
                 {"exited", PSR_AGENT_EXITED}};
    for (size_t i = 0; name != NULL && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].name) == 0) {
            *ret_kind = kinds[i].kind;
            return true;
        }
    return false;
}

static psr_err read_event(const psr_agent_context *by, psr_agent_event *event)
{
    if (event->kind == PSR_AGENT_HELLO)
        return read_hello(by, event);
    if (event->kind == PSR_AGENT_ALIVE || event->kind == PSR_AGENT_PAUSED)
        return by->greeted ? PSR_OK : violation(by, "speaks before its hello");
    if (event->kind == PSR_AGENT_LISTENS || event->kind == PSR_AGENT_LINK) {
        const char *failure = psr_json_text(event->json, "failure");
        event->text = failure != NULL ? failure : "";
        return event->kind == PSR_AGENT_LISTENS ? read_listens(by, event) : read_link(by, event);
    }
    if (!by->all_started)
        return violation(by, "speaks for processes that nobody asked it to start");
    PSR_TRY(find_item(by, event->json, &event->item));
    return event->kind == PSR_AGENT_LINE ? read_line(by, event) : read_exited(event);
}

psr_err psr_agent_event_read(const psr_agent_context *by, const char *line,
                             psr_agent_event *ret_event)
{
    psr_agent_event event = {.json = cJSON_Parse(line), .text = line};
    psr_err err = PSR_OK;
    if (kind_of(psr_json_text(event.json, "event"), &event.kind))
        err = read_event(by, &event);
    else if (by->greeted)
        err = violation(by, "sent a line that is not an event: '%.100s'", line);
    else
        event.kind = PSR_AGENT_GREETING;
    if (err != PSR_OK)
        psr_agent_event_done(&event);
    else
        *ret_event = event;
    return err;
}

void psr_agent_event_done(psr_agent_event *event)
{
    cJSON_Delete(event->json);
    psr_topology_done(&event->topology);
    *event = (psr_agent_event){0};
}
