#include "comm/members/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many lines tell of messages from processes that have not joined. */
#define UNHEARD_LINES 10
#define UNSEALED_LINES 8 /* where a firewall holds sealed messages up it does so for many pairs */

/* ---- life ---- */

static psr_err open_seats(psr_coordinator *c, int64_t now_ms)
{
    const psr_coordinator_options *o = &c->options;
    c->seat_count = o->shards + o->workers;
    c->seats = calloc(c->seat_count, sizeof *c->seats);
    if (c->seats == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", c->seat_count);
    for (uint32_t i = 0; i < c->seat_count; i++)
        c->seats[i].entry.peer = i < o->shards ? (psr_peer){PSR_ROLE_SHARD, i}
                                               : (psr_peer){PSR_ROLE_WORKER, i - o->shards};
    PSR_TRY(psr_liveness_new(o->deadline_ms, now_ms, &c->liveness));
    c->come_up_by_ms = psr_liveness_present_ms(c->liveness, now_ms) + o->join_deadline_ms;
    if (o->join_deadline_ms == 0)
        c->come_up_by_ms += o->deadline_ms > PSR_COME_UP_MS ? o->deadline_ms : PSR_COME_UP_MS;
    return PSR_OK;
}

psr_err psr_coordinator_new(const psr_coordinator_options *options, int64_t now_ms,
                            psr_coordinator **ret_coordinator)
{
    psr_coordinator *c = calloc(1, sizeof *c);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a coordinator");
    c->options = *options;
    snprintf(c->host, sizeof c->host, "%s", options->host);
    c->options.host = c->host;
    if (c->options.facts_max == 0)
        c->options.facts_max = PSR_MEMBER_TEXT_MAX;
    c->slow_check_ms = now_ms + options->deadline_ms / 4;
    c->user_present_ms = INT64_MAX;
    psr_err err = open_seats(c, now_ms);
    if (err != PSR_OK) {
        psr_coordinator_free(c);
        return err;
    }
    *ret_coordinator = c;
    return PSR_OK;
}

void psr_coordinator_free(psr_coordinator *c)
{
    if (c == NULL)
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

void psr_coordinator_seat_name(const psr_coordinator *c, const psr_seat *seat,
                               char name[static PSR_MEMBER_NAME_MAX])
{
    snprintf(name, PSR_MEMBER_NAME_MAX, "%s %" PRIu32 "%s%s",
             c->options.program ? "rank" : psr_role_name(seat->entry.peer.role),
             seat->entry.peer.rank, seat->entry.host[0] != '\0' ? " on " : "", seat->entry.host);
}

void psr_coordinator_name(const psr_coordinator *c, psr_peer peer,
                          char name[static PSR_MEMBER_NAME_MAX])
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    const psr_seat nobody = {.entry.peer = peer};
    psr_coordinator_seat_name(c, seat != NULL ? seat : &nobody, name);
}

bool psr_coordinator_running(const psr_coordinator *c)
{
    return c->state == PSR_COORDINATOR_RUNNING;
}

bool psr_coordinator_ended(const psr_coordinator *c)
{
    return c->state == PSR_COORDINATOR_ENDED;
}

bool psr_coordinator_is_here(const psr_coordinator *c, psr_peer peer)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    return seat != NULL && seat->state == PSR_SEAT_HERE;
}

bool psr_coordinator_has_joined(const psr_coordinator *c, psr_peer peer)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    return seat != NULL && seat->joined;
}

bool psr_coordinator_has_left(const psr_coordinator *c, psr_peer peer)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    return seat != NULL && seat->state == PSR_SEAT_LEFT;
}

bool psr_coordinator_misses(const psr_coordinator *c, psr_peer peer)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    bool others = false;
    for (uint32_t i = 0; i < c->seat_count; i++)
        others |= &c->seats[i] != seat && c->seats[i].state == PSR_SEAT_HERE;
    return c->state != PSR_COORDINATOR_ENDED && others && seat != NULL &&
           (seat->state == PSR_SEAT_HERE || seat->state == PSR_SEAT_EMPTY);
}

static bool is_gone(const psr_seat *seat)
{
    return seat->state == PSR_SEAT_LEFT || seat->state == PSR_SEAT_OUT;
}

bool psr_coordinator_over(const psr_coordinator *c)
{
    return psr_coordinator_all(c, is_gone);
}

const psr_view *psr_coordinator_view(const psr_coordinator *c)
{
    return &c->view;
}

psr_liveness *psr_coordinator_liveness(psr_coordinator *c)
{
    return c->liveness;
}

/* ---- what it says ---- */

void psr_coordinator_say(psr_coordinator *c, const char *format, ...)
{
    char line[PSR_COORDINATOR_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (c->options.events.say != NULL)
        c->options.events.say(c->options.events.context, line);
}

psr_err psr_coordinator_send(psr_coordinator *c, psr_peer to, psr_head head, psr_bytes payload)
{
    psr_payload bytes = {.data = payload.data, .bytes = payload.size};
    psr_err err =
        c->options.ways.send(c->options.ways.context, to, &head, payload.size > 0 ? &bytes : NULL);
    return psr_coordinator_goes_on(c) ? PSR_OK : err;
}

size_t psr_coordinator_waiting(const psr_coordinator *c, psr_peer to)
{
    const psr_coordinator_ways *ways = &c->options.ways;
    return ways->waiting != NULL ? ways->waiting(ways->context, to) : 0;
}

psr_err psr_coordinator_alive(psr_coordinator *c, psr_peer to)
{
    if (psr_coordinator_waiting(c, to) > 0)
        return PSR_OK;
    return psr_coordinator_send(c, to, psr_msg_alive_head(false), (psr_bytes){NULL, 0});
}

/* To the seats from first to end. The detail is that of the first failure. */
static psr_err send_each(psr_coordinator *c, uint32_t first, uint32_t end, psr_head head,
                         psr_bytes payload)
{
    psr_err first_err = PSR_OK;
    char detail[PSR_COORDINATOR_LINE_MAX] = "";
    for (uint32_t i = first; i < end; i++) {
        if (c->seats[i].state != PSR_SEAT_HERE)
            continue;
        psr_err err = psr_coordinator_send(c, c->seats[i].entry.peer, head, payload);
        if (err == PSR_OK || first_err != PSR_OK)
            continue;
        first_err = err;
        snprintf(detail, sizeof detail, "%s", psr_err_detail());
    }
    return first_err == PSR_OK ? PSR_OK : psr_fail(first_err, "%s", detail);
}

psr_err psr_coordinator_send_role(psr_coordinator *c, psr_role role, psr_head head,
                                  psr_bytes payload)
{
    return role == PSR_ROLE_SHARD ? send_each(c, 0, c->options.shards, head, payload)
                                  : send_each(c, c->options.shards, c->seat_count, head, payload);
}

psr_err psr_coordinator_send_all(psr_coordinator *c, psr_head head, psr_bytes payload)
{
    return send_each(c, 0, c->seat_count, head, payload);
}

/* ---- messages ---- */

psr_err psr_coordinator_check_text(const psr_coordinator *c, const psr_message *message)
{
    const size_t most =
        message->head.type == PSR_MSG_FACTS ? c->options.facts_max : (size_t)PSR_MEMBER_TEXT_MAX;
    if (message->payload_bytes <= most)
        return PSR_OK;
    return psr_violation(message, "its payload has %zu bytes, more than %zu",
                         message->payload_bytes, most);
}

psr_msg_limits psr_coordinator_limits(const psr_coordinator *c)
{
    psr_msg_limits limits = {.workers = c->options.workers,
                             .shards = c->options.shards,
                             .buckets = c->view.plan.bucket_count};
    c->options.user.limit(c->options.user.context, &limits);
    return limits;
}

static psr_err take_progress(psr_coordinator *c, psr_seat *seat, const psr_message *message,
                             int64_t now_ms)
{
    psr_msg_progress says;
    const psr_msg_limits limits = psr_coordinator_limits(c);
    PSR_TRY(psr_msg_progress_read(message, &limits, &says));
    if (c->options.user.progress != NULL)
        c->options.user.progress(c->options.user.context, message->from, &says);
    if (!seat->done)
        psr_liveness_progress(c->liveness, seat->entry.peer, &says, now_ms);
    seat->asked = false;
    psr_coordinator_check_losing(c, now_ms);
    return psr_coordinator_alive(c, seat->entry.peer);
}

/* A member says what it can know: that its own messages to another one go by CURVE. */
static psr_err take_unsealed(psr_coordinator *c, psr_seat *seat, const psr_message *message)
{
    psr_msg_unsealed says;
    char name[PSR_MEMBER_NAME_MAX], other[PSR_MEMBER_NAME_MAX], port[32];
    const psr_msg_limits limits = psr_coordinator_limits(c);
    PSR_TRY(psr_msg_unsealed_read(message, &limits, &says));
    if (seat->unsealed++ == c->seat_count)
        return psr_violation(message, "it has said so of every member before");
    if (c->unsealed++ >= UNSEALED_LINES)
        return PSR_OK;
    psr_coordinator_seat_name(c, seat, name);
    psr_coordinator_name(c, says.peer, other);
    if (says.port == 0)
        snprintf(port, sizeof port, "a second port");
    else
        snprintf(port, sizeof port, "port %u", says.port);
    psr_coordinator_say(c,
                        "%s has had no answer at %s of %s for %.0f s: values to it go by CURVE, at "
                        "a third of the speed or less; let TCP to all ports through between these "
                        "hosts%s",
                        name, port, other, (double)says.waited_ms / 1000,
                        c->unsealed == UNSEALED_LINES ? " (further pairs are not named)" : "");
    return PSR_OK;
}

/* Always fails: with the status that the member reports, or with PEER for a rank of a program. */
static psr_err take_failed(const psr_coordinator *c, const psr_seat *seat,
                           const psr_message *message)
{
    char name[PSR_MEMBER_NAME_MAX];
    psr_coordinator_seat_name(c, seat, name);
    return psr_fail(c->options.program ? PSR_ERR_PEER : psr_msg_failed_status(message),
                    "%s%s: %.*s", name, c->options.program ? " failed" : "",
                    (int)(message->payload_bytes < 700 ? message->payload_bytes : 700),
                    message->payload_bytes > 0 ? (const char *)message->payload : "");
}

static psr_err take_of_member(psr_coordinator *c, psr_seat *seat, const psr_message *message,
                              int64_t now_ms)
{
    psr_liveness_heard(c->liveness, seat->entry.peer, now_ms);
    if (message->head.type == PSR_MSG_PROGRESS)
        return take_progress(c, seat, message, now_ms);
    if (message->head.type == PSR_MSG_UNSEALED)
        return take_unsealed(c, seat, message);
    if (seat->done)
        return psr_violation(message, "it has said DONE before");
    if (message->head.type == PSR_MSG_FACTS)
        return psr_coordinator_take_facts(c, seat, message);
    if (message->head.type == PSR_MSG_READY && c->options.user.ready != NULL)
        return psr_coordinator_take_ready(c, seat, message);
    if (!psr_coordinator_running(c) && !psr_coordinator_goes_on(c))
        return psr_violation(message, "that is not due before START");
    return c->options.user.message(c->options.user.context, message);
}

/* These are texts due before START or at any time. The user says how long any other payload may
 * be. */
static bool is_text(psr_message_type type)
{
    return type == PSR_MSG_JOIN || type == PSR_MSG_FACTS || type == PSR_MSG_READY ||
           type == PSR_MSG_PROGRESS || type == PSR_MSG_FAILED || type == PSR_MSG_UNSEALED;
}

static psr_err take(psr_coordinator *c, psr_seat *seat, const psr_message *message, int64_t now_ms)
{
    psr_message_type type = message->head.type;
    psr_err err = is_text(type) ? psr_coordinator_check_text(c, message) : PSR_OK;
    if (err == PSR_OK && type == PSR_MSG_FAILED)
        return take_failed(c, seat, message);
    if (err == PSR_OK)
        err = take_of_member(c, seat, message, now_ms);
    if (err == PSR_ERR_PROTOCOL && seat->entry.host[0] != '\0' && !c->options.program)
        return psr_fail_context(err, "on %s", seat->entry.host);
    return err;
}

/* A member that has begun with the others is given up alone, if the others go on. The detail is the
 * failure of its message, or its silence. */
static void blame(psr_coordinator *c, psr_peer peer, psr_err err)
{
    char line[PSR_COORDINATOR_LINE_MAX];
    const bool begun = c->state == PSR_COORDINATOR_RUNNING || c->state == PSR_COORDINATOR_ENDED;
    snprintf(line, sizeof line, "%s", psr_err_detail());
    if (psr_coordinator_goes_on(c) && begun && psr_coordinator_has(c, peer))
        c->options.user.failed(c->options.user.context, peer, err, line);
    else
        psr_coordinator_end(c, err, line);
}

void psr_coordinator_message(psr_coordinator *c, const psr_message *message, int64_t now_ms)
{
    psr_seat *seat = psr_coordinator_find(c, message->from);
    psr_err err = PSR_OK;
    c->now_ms = now_ms;
    if (message->head.type == PSR_MSG_JOIN)
        err = psr_coordinator_take_join(c, message, now_ms);
    else if (seat != NULL && seat->state == PSR_SEAT_HERE)
        err = take(c, seat, message, now_ms);
    else if (c->state != PSR_COORDINATOR_ENDED && c->unheard++ < UNHEARD_LINES)
        psr_coordinator_say(c, "%s %" PRIu32 " sent %s and has not joined: dropped",
                            psr_role_name(message->from.role), message->from.rank,
                            psr_message_name(message->head.type));
    if (err != PSR_OK)
        blame(c, message->from, err);
}

int64_t psr_coordinator_now_ms(const psr_coordinator *c)
{
    return c->now_ms;
}

/* ---- time ---- */

static int64_t silence_ms(const psr_coordinator *c)
{
    return psr_liveness_silence_ms(c->options.deadline_ms);
}

/* Blames each member that is silent. */
static void check_silent(psr_coordinator *c, int64_t present_ms)
{
    char name[PSR_MEMBER_NAME_MAX];
    const psr_watched *silent;
    while ((silent = psr_liveness_silent(c->liveness, present_ms, silence_ms(c))) != NULL) {
        psr_coordinator_name(c, silent->peer, name);
        blame(c, silent->peer,
              psr_fail(PSR_ERR_PEER, "%s: no sign of life for %.1f s", name,
                       (double)(present_ms - silent->heard_ms) / 1000));
    }
}

static void check_liveness(psr_coordinator *c, int64_t now_ms)
{
    psr_peer peer;
    char line[PSR_COORDINATOR_LINE_MAX];
    if (!psr_liveness_check(c->liveness, now_ms, &peer, line, sizeof line))
        return;
    const size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, " (--deadline %g)",
             (double)c->options.deadline_ms / 1000);
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
    psr_coordinator_say(c, "%s is slow: others have waited %.1f s for it", name,
                        (double)waited_ms / 1000);
    c->slow_check_ms = now_ms + deadline_ms; /* one line in a while */
}

void psr_coordinator_works(psr_coordinator *c, int64_t now_ms)
{
    psr_liveness_scheduler_works(c->liveness, now_ms);
}

static void tick_of_run(psr_coordinator *c, int64_t now_ms)
{
    if (c->state == PSR_COORDINATOR_JOINING || c->state == PSR_COORDINATOR_WELCOMED)
        psr_liveness_scheduler_works(c->liveness, now_ms);
    if (c->state != PSR_COORDINATOR_ENDED)
        psr_coordinator_check_losing(c, now_ms);
    if (c->state == PSR_COORDINATOR_JOINING)
        psr_coordinator_check_joining(c, psr_liveness_present_ms(c->liveness, now_ms));
    if (c->state != PSR_COORDINATOR_ENDED)
        check_liveness(c, now_ms);
    if (c->state != PSR_COORDINATOR_ENDED)
        check_slow(c, now_ms);
}

void psr_coordinator_tick(psr_coordinator *c, int64_t now_ms)
{
    if (!psr_coordinator_goes_on(c)) {
        tick_of_run(c, now_ms);
        return;
    }
    const int64_t present_ms = psr_liveness_present_ms(c->liveness, now_ms);
    psr_coordinator_check_joining(c, present_ms);
    check_silent(c, present_ms);
    c->user_present_ms = c->options.user.tick(c->options.user.context, present_ms);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t psr_coordinator_next_tick(const psr_coordinator *c)
{
    const psr_liveness *l = c->liveness;
    if (c->state == PSR_COORDINATOR_ENDED && !psr_coordinator_goes_on(c))
        return INT64_MAX;
    int64_t next = psr_liveness_look_ms(l);
    if (psr_coordinator_goes_on(c))
        next =
            earlier(next, psr_liveness_when_ms(l, earlier(psr_liveness_silent_at(l, silence_ms(c)),
                                                          c->user_present_ms)));
    else
        next = earlier(next, earlier(psr_liveness_next(l), c->slow_check_ms));
    if (c->losing)
        next = earlier(next, c->lose_at_ms);
    if (c->joined_count < c->seat_count && !psr_coordinator_over(c))
        next = earlier(next, psr_liveness_when_ms(l, c->come_up_by_ms));
    return next;
}
