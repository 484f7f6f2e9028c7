#include "ps/scheduler/launcher.h"

#include "base/clock.h"
#include "base/finite.h"
#include "base/log.h"
#include "ps/input_thread.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_BYTES_MUCH 65536 /* from here on what will be said again is left out */
#define LAST_WORDS_MS 1000

struct psr_launcher {
    bool by_hand;
    psr_input_thread *watch;
    char *waiting; /* bytes that the pipe did not take */
    size_t waiting_bytes, waiting_room;
};

/* ---- life ---- */

psr_err psr_launcher_new(bool by_hand, void (*wake)(void *), void *context, psr_launcher **ret_launcher)
{
    psr_launcher *launcher = calloc(1, sizeof *launcher);
    if (!launcher)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a launcher's pipes");
    launcher->by_hand = by_hand;
    psr_err err = psr_input_thread_new(by_hand ? -1 : STDIN_FILENO, wake, context, &launcher->watch);
    if (err != PSR_OK) {
        free(launcher);
        return err;
    }
    /* The pipe is the launcher's and ours alone. */
    if (!by_hand)
        fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    *ret_launcher = launcher;
    return PSR_OK;
}

void psr_launcher_free(psr_launcher *launcher)
{
    if (!launcher)
        return;
    int64_t end_ms = psr_clock_ms() + LAST_WORDS_MS;
    psr_launcher_flush(launcher);
    while (launcher->waiting_bytes > 0 && psr_clock_ms() < end_ms) {
        struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};
        if (poll(&out, 1, (int)(end_ms - psr_clock_ms())) <= 0 || (out.revents & POLLOUT) == 0)
            break;
        psr_launcher_flush(launcher);
    }
    psr_input_thread_free(launcher->watch);
    free(launcher->waiting);
    free(launcher);
}

/* ---- out ---- */

void psr_launcher_flush(psr_launcher *launcher)
{
    size_t gone = 0;
    while (gone < launcher->waiting_bytes) {
        ssize_t written = write(STDOUT_FILENO, launcher->waiting + gone, launcher->waiting_bytes - gone);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno != EAGAIN)
            gone = launcher->waiting_bytes; /* nobody reads any more: end of standard input will say so */
        if (written <= 0)
            break;
        gone += (size_t)written;
    }
    launcher->waiting_bytes -= gone;
    if (launcher->waiting_bytes > 0)
        memmove(launcher->waiting, launcher->waiting + gone, launcher->waiting_bytes);
}

/* Consumes object, which may be NULL: without memory an event is not told. */
static void put(psr_launcher *launcher, cJSON *object)
{
    char *text = object ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (!text)
        return;
    size_t size = strlen(text);
    size_t needed = launcher->waiting_bytes + size + 1;
    if (needed > launcher->waiting_room) {
        char *grown = realloc(launcher->waiting, 2 * needed);
        if (!grown) {
            free(text);
            return;
        }
        launcher->waiting = grown;
        launcher->waiting_room = 2 * needed;
    }
    memcpy(launcher->waiting + launcher->waiting_bytes, text, size);
    launcher->waiting[needed - 1] = '\n';
    launcher->waiting_bytes = needed;
    free(text);
    psr_launcher_flush(launcher);
}

static cJSON *event(const char *kind)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "event", kind);
    return object;
}

static bool much_waits(const psr_launcher *launcher)
{
    return launcher->waiting_bytes > WAITING_BYTES_MUCH;
}

void psr_launcher_listening(psr_launcher *launcher, const char *endpoint)
{
    if (launcher->by_hand) {
        psr_log(PSR_LOG_INFO, "listening endpoint=%s", endpoint);
        return;
    }
    cJSON *object = event("listening");
    cJSON_AddStringToObject(object, "endpoint", endpoint);
    put(launcher, object);
}

void psr_launcher_joined(psr_launcher *launcher, const psr_roster_entry *entry, uint32_t count,
                         uint32_t total)
{
    if (launcher->by_hand) {
        psr_log(PSR_LOG_INFO, "%s %" PRIu32 " on %s has joined: %" PRIu32 " of %" PRIu32,
                psr_role_name(entry->peer.role), entry->peer.rank, entry->host, count, total);
        return;
    }
    cJSON *object = event("joined");
    cJSON_AddStringToObject(object, "role", psr_role_name(entry->peer.role));
    cJSON_AddNumberToObject(object, "rank", entry->peer.rank);
    cJSON_AddStringToObject(object, "host", entry->host);
    cJSON_AddNumberToObject(object, "count", count);
    cJSON_AddNumberToObject(object, "total", total);
    put(launcher, object);
}

void psr_launcher_running(psr_launcher *launcher)
{
    if (launcher->by_hand)
        psr_log(PSR_LOG_INFO, "running");
    else
        put(launcher, event("running"));
}

void psr_launcher_progress(psr_launcher *launcher, uint64_t step, uint64_t total, double loss,
                           double images_per_s)
{
    if (launcher->by_hand) {
        psr_log(PSR_LOG_INFO, "step %" PRIu64 " of %" PRIu64 ": loss=%.4f images_per_s=%.1f", step, total,
                psr_shown(loss), images_per_s);
        return;
    }
    if (much_waits(launcher))
        return;
    cJSON *object = event("progress");
    cJSON_AddNumberToObject(object, "step", (double)step);
    cJSON_AddNumberToObject(object, "total", (double)total);
    if (isfinite(loss))
        cJSON_AddNumberToObject(object, "loss", loss);
    if (isfinite(images_per_s))
        cJSON_AddNumberToObject(object, "images_per_s", images_per_s);
    put(launcher, object);
}

void psr_launcher_evaluating(psr_launcher *launcher, uint64_t step, uint64_t total, uint64_t counted,
                             uint64_t samples)
{
    if (launcher->by_hand || much_waits(launcher)) /* workers say it in their logs */
        return;
    cJSON *object = event("evaluating");
    cJSON_AddNumberToObject(object, "step", (double)step);
    cJSON_AddNumberToObject(object, "total", (double)total);
    cJSON_AddNumberToObject(object, "counted", (double)counted);
    cJSON_AddNumberToObject(object, "samples", (double)samples);
    put(launcher, object);
}

static void put_line(psr_launcher *launcher, const char *kind, const char *line)
{
    if (launcher->by_hand) {
        psr_log(PSR_LOG_INFO, "%s", line);
        return;
    }
    cJSON *object = event(kind);
    cJSON_AddStringToObject(object, "line", line);
    put(launcher, object);
}

void psr_launcher_evaluated(psr_launcher *launcher, const char *line)
{
    put_line(launcher, "evaluated", line);
}

void psr_launcher_say(psr_launcher *launcher, const char *line)
{
    put_line(launcher, "say", line);
}

void psr_launcher_alive(psr_launcher *launcher)
{
    if (!launcher->by_hand && !much_waits(launcher))
        put(launcher, event("alive"));
}

void psr_launcher_paused(psr_launcher *launcher)
{
    if (!launcher->by_hand)
        put(launcher, event("paused"));
}

void psr_launcher_ended(psr_launcher *launcher, psr_err status, const char *line, const char *outcome_json)
{
    if (launcher->by_hand) {
        psr_log(status == PSR_OK ? PSR_LOG_INFO : PSR_LOG_ERROR, "%s", line);
        return;
    }
    cJSON *object = event("ended");
    cJSON_AddNumberToObject(object, "status", psr_err_exit_status(status));
    cJSON_AddStringToObject(object, "line", line);
    cJSON *outcome = outcome_json ? cJSON_Parse(outcome_json) : NULL;
    if (outcome)
        cJSON_AddItemToObject(object, "outcome", outcome);
    put(launcher, object);
}

/* ---- in ---- */

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool read_peer(const cJSON *object, psr_peer *ret_peer)
{
    const char *role = text_of(object, "role");
    const cJSON *rank = cJSON_GetObjectItemCaseSensitive(object, "rank");
    if (!role || !psr_role_parse(role, &ret_peer->role) || !cJSON_IsNumber(rank) ||
        !(rank->valuedouble >= 0 && rank->valuedouble < UINT32_MAX))
        return false;
    ret_peer->rank = (uint32_t)rank->valuedouble;
    return true;
}

static psr_order_kind read_order(const cJSON *object, psr_order *order)
{
    const cJSON *lost = cJSON_GetObjectItemCaseSensitive(object, "lost");
    const cJSON *log = cJSON_GetObjectItemCaseSensitive(object, "log");
    const cJSON *agent = cJSON_GetObjectItemCaseSensitive(object, "agent");
    const char *host = text_of(lost ? lost : agent, "host"), *how = text_of(lost ? lost : agent, "how");
    const char *line = text_of(log, "line");
    if (lost && how && read_peer(lost, &order->peer)) {
        snprintf(order->text, sizeof order->text, "%s", how);
        snprintf(order->host, sizeof order->host, "%s", host ? host : "");
        return PSR_ORDER_LOST;
    }
    if (agent && host && how) {
        snprintf(order->text, sizeof order->text, "%s", how);
        snprintf(order->host, sizeof order->host, "%s", host);
        return PSR_ORDER_AGENT;
    }
    if (log && line && read_peer(log, &order->peer)) {
        snprintf(order->text, sizeof order->text, "%s", line);
        return PSR_ORDER_LOG;
    }
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "stop")))
        return PSR_ORDER_STOP;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "alive")))
        return PSR_ORDER_ALIVE;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "pause")))
        return PSR_ORDER_PAUSE;
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "go_on")))
        return PSR_ORDER_GO_ON;
    return PSR_ORDER_BAD;
}

void psr_launcher_take(psr_launcher *launcher, psr_order *order)
{
    char *line = NULL;
    order->kind = PSR_ORDER_NOTHING;
    order->host[0] = order->text[0] = '\0';
    switch (psr_input_thread_next(launcher->watch, &line)) {
    case PSR_INPUT_NOTHING:
        return;
    case PSR_INPUT_END:
        order->kind = PSR_ORDER_GONE;
        return;
    case PSR_INPUT_INTERRUPT:
        order->kind = PSR_ORDER_STOP;
        return;
    case PSR_INPUT_LINE:
        break;
    }
    cJSON *object = cJSON_Parse(line);
    order->kind = read_order(object, order);
    if (order->kind == PSR_ORDER_BAD)
        snprintf(order->text, sizeof order->text, "%.200s", line);
    cJSON_Delete(object);
    free(line);
}
