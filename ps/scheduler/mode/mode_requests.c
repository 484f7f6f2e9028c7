#include "ps/scheduler/mode/mode_requests.h"

#include "comm/members/coordinator.h"
#include "ps/scheduler/mode/mode_socket.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

psr_err psr_mode_requests_begin(psr_mode_requests *r, psr_scheduler *scheduler,
                                const char *directory, void (*wake)(void *context), void *context)
{
    r->scheduler = scheduler;
    return psr_mode_socket_new(directory, wake, context, &r->socket);
}

void psr_mode_requests_done(psr_mode_requests *r)
{
    psr_mode_socket_free(r->socket);
}

static void answer(psr_mode_requests *r, uint64_t id, bool ok, const char *text)
{
    if (r->socket != NULL && id != 0)
        psr_mode_socket_answer(r->socket, id, ok, text);
}

/* The same as tell_mode, as JSON. changed: also how long the last change took. */
static void tell_json(psr_mode_requests *r, uint64_t id, bool changed)
{
    const psr_mode_state now = psr_scheduler_mode(r->scheduler);
    char text[384], next[96] = "null, \"next_step\": null", pause[48] = "";
    if (now.next_step > 0)
        snprintf(next, sizeof next, "\"%s\", \"next_step\": %" PRIu64, psr_mode_name(now.next_mode),
                 now.next_step + 1);
    if (changed)
        snprintf(pause, sizeof pause, ", \"pause_s\": %.6f", r->pause_s);
    snprintf(text, sizeof text,
             "{\"mode\": \"%s\", \"first_step\": %" PRIu64 ", \"steps\": %" PRIu64
             ", \"total\": %" PRIu64 ", \"next_mode\": %s, \"changing\": %s%s}",
             psr_mode_name(now.mode), now.first_step + 1, now.steps, now.total, next,
             now.changing ? "true" : "false", pause);
    answer(r, id, true, text);
}

static void tell_mode(psr_mode_requests *r, uint64_t id)
{
    const psr_mode_state now = psr_scheduler_mode(r->scheduler);
    char text[256], planned[96] = "";
    if (now.next_step > 0)
        snprintf(planned, sizeof planned, "; %s is planned from step %" PRIu64 " on",
                 psr_mode_name(now.next_mode), now.next_step + 1);
    snprintf(text, sizeof text,
             "%s from step %" PRIu64 " on; %" PRIu64 " of %" PRIu64 " steps done%s%s",
             psr_mode_name(now.mode), now.first_step + 1, now.steps, now.total, planned,
             now.changing ? "; a change is under way" : "");
    answer(r, id, true, text);
}

static void take_request(psr_mode_requests *r, const psr_mode_request *request)
{
    static const char json[] = "json ";
    const bool wants_json = strncmp(request->word, json, strlen(json)) == 0;
    const char *word = request->word + (wants_json ? strlen(json) : 0);
    psr_config asked;
    psr_config_defaults(&asked);
    if (strcmp(word, "tell") == 0 && wants_json) {
        tell_json(r, request->id, false);
        return;
    }
    if (strcmp(word, "tell") == 0) {
        tell_mode(r, request->id);
        return;
    }
    psr_err err = psr_config_set(&asked, "mode", word);
    if (err == PSR_OK && psr_config_next_stretch(&asked, 0) != 0)
        err = psr_fail(PSR_ERR_USAGE, "'%s' is more than one mode; give ps or ring", word);
    if (err == PSR_OK)
        err = psr_scheduler_change(r->scheduler, psr_config_mode_at(&asked, 0));
    r->asker_wants_json = err == PSR_OK ? wants_json : r->asker_wants_json;
    if (err == PSR_OK)
        r->asker = request->id;
    else
        answer(r, request->id, false, psr_err_detail());
}

void psr_mode_requests_take(psr_mode_requests *r)
{
    psr_mode_request request;
    while (r->socket != NULL && !psr_coordinator_ended(psr_scheduler_coordinator(r->scheduler)) &&
           psr_mode_socket_next(r->socket, &request))
        take_request(r, &request);
}

void psr_mode_requests_changed(psr_mode_requests *r, bool ok, const char *line)
{
    if (ok && r->asker_wants_json)
        tell_json(r, r->asker, true);
    else
        answer(r, r->asker, ok, line);
    r->asker = 0;
}
