#include "comm/members/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process that exits has said why to the coordinator before; its words and its agent's come by different
 * ways. */
#define LAST_WORDS_MS 500

/* About messages of who has not joined: so many, and no more. */
#define UNHEARD_LINES 10

/* When a member or the launcher is lost the others are asked what they are doing, and have this long to answer. */
#define ANSWER_MS 150

/* ---- life ---- */

psr_err psr_coordinator_new(const psr_coordinator_options *options, int64_t now_ms,
                            psr_coordinator **ret_coordinator)
{
    psr_coordinator *c = calloc(1, sizeof *c);
    if (!c)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a coordinator");
    c->options = *options;
    snprintf(c->host, sizeof c->host, "%s", options->host);
    c->options.host = c->host;
    c->seat_count = options->shards + options->workers;
    c->come_up_by_ms =
        now_ms + (options->deadline_ms > PSR_COME_UP_MS ? options->deadline_ms : PSR_COME_UP_MS);
    c->slow_check_ms = now_ms + options->deadline_ms / 4;
    c->seats = calloc(c->seat_count, sizeof *c->seats);
    psr_err err = c->seats ? psr_liveness_new(options->deadline_ms, now_ms, &c->liveness)
                           : psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", c->seat_count);
    if (err != PSR_OK) {
        psr_coordinator_free(c);
        return err;
    }
    for (uint32_t i = 0; i < c->seat_count; i++)
        c->seats[i].entry.peer = i < options->shards ? (psr_peer){PSR_ROLE_SHARD, i}
                                                     : (psr_peer){PSR_ROLE_WORKER, i - options->shards};
    *ret_coordinator = c;
    return PSR_OK;
}

void psr_coordinator_free(psr_coordinator *c)
{
    if (!c)
        return;
    psr_liveness_free(c->liveness);
    free(c->seats);
    psr_view_done(&c->view);
    free(c);
}

/* ---- what it knows ---- */

psr_seat *psr_coordinator_find(const psr_coordinator *c, psr_peer peer)
{
    if (peer.role == PSR_ROLE_SHARD && peer.rank < c->options.shards)
        return &c->seats[peer.rank];
    if (peer.role == PSR_ROLE_WORKER && peer.rank < c->options.workers)
        return &c->seats[c->options.shards + peer.rank];
    return NULL;
}

bool psr_coordinator_has(const psr_coordinator *c, psr_peer peer)
{
    return psr_coordinator_find(c, peer) != NULL;
}

bool psr_coordinator_all(const psr_coordinator *c, bool (*is)(const psr_seat *))
{
    for (uint32_t i = 0; i < c->seat_count; i++)
        if (!is(&c->seats[i]))
            return false;
    return true;
}

void psr_seat_name(const psr_seat *seat, char name[static PSR_MEMBER_NAME_MAX])
{
    snprintf(name, PSR_MEMBER_NAME_MAX, "%s %" PRIu32 "%s%s", psr_role_name(seat->entry.peer.role),
             seat->entry.peer.rank, seat->entry.host[0] ? " on " : "", seat->entry.host);
}

void psr_coordinator_name(const psr_coordinator *c, psr_peer peer, char name[static PSR_MEMBER_NAME_MAX])
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    const psr_seat nobody = {.entry.peer = peer};
    psr_seat_name(seat ? seat : &nobody, name);
}

bool psr_coordinator_running(const psr_coordinator *c)
{
    return c->state == PSR_COORDINATOR_RUNNING;
}

bool psr_coordinator_ended(const psr_coordinator *c)
{
    return c->state == PSR_COORDINATOR_ENDED;
}

const psr_view *psr_coordinator_view(const psr_coordinator *c)
{
    return &c->view;
}

/* ---- what it says ---- */

void psr_coordinator_say(psr_coordinator *c, const char *format, ...)
{
    char line[PSR_COORDINATOR_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    c->options.driver.say(c->options.driver.context, line);
}

psr_err psr_coordinator_send(psr_coordinator *c, psr_peer to, psr_head head, psr_bytes payload)
{
    psr_payload bytes = {.data = payload.data, .bytes = payload.size};
    return c->options.driver.send(c->options.driver.context, to, &head, payload.size > 0 ? &bytes : NULL);
}

psr_err psr_coordinator_alive(psr_coordinator *c, psr_peer to)
{
    const psr_coordinator_driver *driver = &c->options.driver;
    if (driver->waiting != NULL && driver->waiting(driver->context, to) > 0)
        return PSR_OK;
    return psr_coordinator_send(c, to, psr_msg_alive_head(false), (psr_bytes){NULL, 0});
}

psr_err psr_coordinator_send_role(psr_coordinator *c, psr_role role, psr_head head, psr_bytes payload)
{
    for (uint32_t i = 0; i < c->seat_count; i++)
        if (c->seats[i].joined && c->seats[i].entry.peer.role == role)
            PSR_TRY(psr_coordinator_send(c, c->seats[i].entry.peer, head, payload));
    return PSR_OK;
}

psr_err psr_coordinator_send_all(psr_coordinator *c, psr_head head, psr_bytes payload)
{
    PSR_TRY(psr_coordinator_send_role(c, PSR_ROLE_SHARD, head, payload));
    return psr_coordinator_send_role(c, PSR_ROLE_WORKER, head, payload);
}

/* ---- the end ---- */

static bool is_done(const psr_seat *seat)
{
    return seat->done;
}

void psr_coordinator_set_done(psr_coordinator *c, psr_peer peer)
{
    psr_seat *seat = psr_coordinator_find(c, peer);
    if (!seat)
        return;
    seat->done = true;
    psr_liveness_done(c->liveness, peer);
}

bool psr_coordinator_is_done(const psr_coordinator *c, psr_peer peer)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    return seat && seat->done;
}

bool psr_coordinator_all_done(const psr_coordinator *c)
{
    return psr_coordinator_all(c, is_done);
}

void psr_coordinator_end(psr_coordinator *c, psr_err status, const char *line)
{
    if (c->state == PSR_COORDINATOR_ENDED)
        return;
    char text[PSR_COORDINATOR_LINE_MAX]; /* a failure to send overwrites the detail */
    size_t size = (size_t)snprintf(text, sizeof text, "%s", line ? line : psr_err_detail());
    bool in_order = status == PSR_OK || (status == PSR_ERR_CANCELLED && psr_coordinator_all_done(c));
    c->state = PSR_COORDINATOR_ENDED;
    c->end_status = status;
    memcpy(c->end_line, text, sizeof c->end_line);
    /* The run is over either way: a member that cannot be told is one that is gone. */
    psr_head last_word = {.type = in_order ? PSR_MSG_BYE : PSR_MSG_ABORT};
    for (uint32_t i = 0; i < c->seat_count; i++) {
        if (!c->seats[i].joined)
            continue;
        psr_err told = psr_coordinator_send(c, c->seats[i].entry.peer, last_word,
                                            (psr_bytes){text, size < sizeof text ? size : sizeof text - 1});
        (void)told;
    }
    c->options.driver.ended(c->options.driver.context, status, text);
}

/* ---- who is lost ---- */

/* Whether lost names this member; NULL: the launcher or an agent was lost. */
static bool is_lost(const psr_seat *seat, const psr_peer *lost)
{
    return lost && psr_peer_equal(seat->entry.peer, *lost);
}

/* ALIVE with a flag asks for PROGRESS at once: what a line says of the others should not be as old as their
 * last report. */
static void ask_others(psr_coordinator *c)
{
    for (uint32_t i = 0; i < c->seat_count; i++) {
        psr_seat *seat = &c->seats[i];
        bool can_answer = seat->joined && !seat->done && !is_lost(seat, c->lost);
        seat->asked = can_answer && psr_coordinator_send(c, seat->entry.peer, psr_msg_alive_head(true),
                                                         (psr_bytes){NULL, 0}) == PSR_OK;
    }
}

static bool has_answered(const psr_seat *seat)
{
    return !seat->asked;
}

/* Ends the run when somebody was lost and everybody has spoken or had the time to. */
static void check_losing(psr_coordinator *c, int64_t now_ms)
{
    if (!c->losing)
        return;
    if (now_ms < c->lose_at_ms && (c->awaits_words || !psr_coordinator_all(c, has_answered)))
        return;
    char others[512], line[PSR_COORDINATOR_LINE_MAX];
    psr_liveness_describe(c->liveness, c->lost, others, sizeof others);
    if (!others[0] && !c->lost)
        snprintf(others, sizeof others, "the run was at its start");
    snprintf(line, sizeof line, "%s%s%s", c->lost_line, others[0] ? "; " : "", others);
    psr_coordinator_end(c, c->lost_status, line);
}

/* The run ends with lost_line and what the others are doing, which they have wait_ms to say. */
static void begin_losing(psr_coordinator *c, psr_err status, int64_t now_ms, int64_t wait_ms)
{
    c->losing = true;
    c->lost_status = status;
    c->lose_at_ms = now_ms + wait_ms;
    ask_others(c);
    check_losing(c, now_ms);
}

void psr_coordinator_lost(psr_coordinator *c, psr_peer peer, const char *host, bool by_itself,
                          const char *how, int64_t now_ms)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    if (!seat || c->state == PSR_COORDINATOR_ENDED || c->losing)
        return;
    psr_seat named = *seat;
    if (!seat->joined && host)
        snprintf(named.entry.host, sizeof named.entry.host, "%s", host);
    char name[PSR_MEMBER_NAME_MAX];
    psr_seat_name(&named, name);
    snprintf(c->lost_line, sizeof c->lost_line, "%s was lost: %.200s", name, how);
    c->lost = &seat->entry.peer;
    /* Who exits by itself has told why, unless it could not join. */
    c->awaits_words = seat->joined && by_itself;
    begin_losing(c, PSR_ERR_PEER, now_ms, c->awaits_words ? LAST_WORDS_MS : ANSWER_MS);
}

/* Launcher or agent: no member, but the run is not to go on without. */
static void lose_outsider(psr_coordinator *c, const char *who, const char *host, psr_err status,
                          const char *how, int64_t now_ms)
{
    if (c->state == PSR_COORDINATOR_ENDED || c->losing)
        return;
    snprintf(c->lost_line, sizeof c->lost_line, "%s on %s: %.200s", who, host, how);
    c->lost = NULL;
    c->awaits_words = false;
    begin_losing(c, status, now_ms, ANSWER_MS);
}

void psr_coordinator_launcher_lost(psr_coordinator *c, psr_err status, const char *how, int64_t now_ms)
{
    lose_outsider(c, "launcher", c->host, status, how, now_ms);
}

void psr_coordinator_agent_lost(psr_coordinator *c, const char *host, const char *how, int64_t now_ms)
{
    lose_outsider(c, "agent", host, PSR_ERR_TIMEOUT, how, now_ms);
}

/* ---- messages ---- */

psr_err psr_coordinator_check_text(const psr_message *message)
{
    if (message->payload_bytes <= PSR_MEMBER_TEXT_MAX)
        return PSR_OK;
    return psr_violation(message, "its payload has %zu bytes, more than %u", message->payload_bytes,
                         PSR_MEMBER_TEXT_MAX);
}

psr_msg_limits psr_coordinator_limits(const psr_coordinator *c)
{
    psr_msg_limits limits = {
        .workers = c->options.workers, .shards = c->options.shards, .buckets = c->view.plan.bucket_count};
    c->options.user.limit(c->options.user.context, &limits);
    return limits;
}

static psr_err take_progress(psr_coordinator *c, psr_seat *seat, const psr_message *message, int64_t now_ms)
{
    psr_msg_progress says;
    const psr_msg_limits limits = psr_coordinator_limits(c);
    PSR_TRY(psr_msg_progress_read(message, &limits, &says));
    c->options.user.progress(c->options.user.context, message->from, &says);
    if (!seat->done)
        psr_liveness_progress(c->liveness, seat->entry.peer, &says, now_ms);
    seat->asked = false;
    check_losing(c, now_ms);
    return psr_coordinator_alive(c, seat->entry.peer);
}

/* Always fails: with what the member failed of. */
static psr_err take_failed(const psr_seat *seat, const psr_message *message)
{
    char name[PSR_MEMBER_NAME_MAX];
    psr_seat_name(seat, name);
    return psr_fail(psr_msg_failed_status(message), "%s: %.*s", name,
                    (int)(message->payload_bytes < 700 ? message->payload_bytes : 700),
                    message->payload_bytes ? (const char *)message->payload : "");
}

static psr_err take_of_member(psr_coordinator *c, psr_seat *seat, const psr_message *message, int64_t now_ms)
{
    psr_liveness_heard(c->liveness, seat->entry.peer, now_ms);
    if (message->head.type == PSR_MSG_PROGRESS)
        return take_progress(c, seat, message, now_ms);
    if (seat->done)
        return psr_violation(message, "it has said DONE before");
    if (message->head.type == PSR_MSG_FACTS)
        return psr_coordinator_take_facts(c, seat, message);
    if (message->head.type == PSR_MSG_READY)
        return psr_coordinator_take_ready(c, seat, message);
    if (!psr_coordinator_running(c))
        return psr_violation(message, "that is not due before START");
    return c->options.user.message(c->options.user.context, message);
}

/* A violation's line names the host of who has joined. */
static psr_err on_its_host(const psr_seat *seat, psr_err err)
{
    if (err == PSR_ERR_PROTOCOL && seat && seat->entry.host[0])
        return psr_fail_context(err, "on %s", seat->entry.host);
    return err;
}

/* What is due before START or at any time; of the rest the user says how long it may be. */
static bool is_text(psr_message_type type)
{
    return type == PSR_MSG_JOIN || type == PSR_MSG_FACTS || type == PSR_MSG_READY ||
           type == PSR_MSG_PROGRESS || type == PSR_MSG_FAILED;
}

static psr_err take(psr_coordinator *c, psr_seat *seat, const psr_message *message, int64_t now_ms)
{
    psr_message_type type = message->head.type;
    psr_err err = is_text(type) ? psr_coordinator_check_text(message) : PSR_OK;
    if (err != PSR_OK)
        return on_its_host(seat, err);
    if (type == PSR_MSG_JOIN)
        return psr_coordinator_take_join(c, message, now_ms);
    if (!seat || !seat->joined) {
        if (c->unheard++ < UNHEARD_LINES)
            psr_coordinator_say(c, "%s %" PRIu32 " sent %s and has not joined: dropped",
                                psr_role_name(message->from.role), message->from.rank,
                                psr_message_name(type));
        return PSR_OK;
    }
    if (type == PSR_MSG_FAILED)
        return take_failed(seat, message);
    return on_its_host(seat, take_of_member(c, seat, message, now_ms));
}

void psr_coordinator_message(psr_coordinator *c, const psr_message *message, int64_t now_ms)
{
    if (c->state == PSR_COORDINATOR_ENDED) {
        if (message->head.type == PSR_MSG_JOIN)
            psr_coordinator_refuse_late(c, message);
        return;
    }
    psr_err err = take(c, psr_coordinator_find(c, message->from), message, now_ms);
    if (err != PSR_OK)
        psr_coordinator_end(c, err, NULL);
}

/* ---- time ---- */

static void check_liveness(psr_coordinator *c, int64_t now_ms)
{
    psr_peer peer;
    char line[PSR_COORDINATOR_LINE_MAX];
    if (!psr_liveness_check(c->liveness, now_ms, &peer, line, sizeof line))
        return;
    const size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, " (--deadline %g)", (double)c->options.deadline_ms / 1000);
    psr_coordinator_end(c, PSR_ERR_TIMEOUT, line);
}

static void check_slow(psr_coordinator *c, int64_t now_ms)
{
    if (now_ms < c->slow_check_ms)
        return;
    psr_peer peer;
    int64_t waited_ms, deadline_ms = c->options.deadline_ms;
    c->slow_check_ms = now_ms + deadline_ms / 4;
    if (!psr_liveness_slowest(c->liveness, now_ms, deadline_ms / 4, &peer, &waited_ms) ||
        !psr_coordinator_has(c, peer))
        return;
    char name[PSR_MEMBER_NAME_MAX];
    psr_coordinator_name(c, peer, name);
    psr_coordinator_say(c, "%s is slow: others have waited %.1f s for it", name, (double)waited_ms / 1000);
    c->slow_check_ms = now_ms + deadline_ms; /* say so once a while */
}

void psr_coordinator_works(psr_coordinator *c, int64_t now_ms)
{
    psr_liveness_scheduler_works(c->liveness, now_ms);
}

void psr_coordinator_tick(psr_coordinator *c, int64_t now_ms)
{
    if (c->state == PSR_COORDINATOR_JOINING || c->state == PSR_COORDINATOR_WELCOMED)
        psr_liveness_scheduler_works(c->liveness, now_ms);
    if (c->state != PSR_COORDINATOR_ENDED)
        check_losing(c, now_ms);
    if (c->state == PSR_COORDINATOR_JOINING)
        psr_coordinator_check_joining(c, now_ms);
    if (c->state != PSR_COORDINATOR_ENDED)
        check_liveness(c, now_ms);
    if (c->state != PSR_COORDINATOR_ENDED)
        check_slow(c, now_ms);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t psr_coordinator_next_tick(const psr_coordinator *c)
{
    if (c->state == PSR_COORDINATOR_ENDED)
        return INT64_MAX;
    int64_t next = earlier(psr_liveness_next(c->liveness), c->slow_check_ms);
    if (c->losing)
        next = earlier(next, c->lose_at_ms);
    if (c->state == PSR_COORDINATOR_JOINING)
        next = earlier(next, c->come_up_by_ms);
    return next;
}
