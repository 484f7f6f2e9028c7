/* How a run ends, and how members leave it one by one. */
#include "comm/members/coordinator_private.h"

#include <stdio.h>
#include <string.h>

/* A process that exits has told the coordinator why before. Its message and its agent's news come
 * by different ways, so this is how long to wait for the message. */
#define LAST_WORDS_MS 500

/* When a member or the launcher is lost, the others are asked what they are doing, and have this
 * long to answer. */
#define ANSWER_MS 150

/* ---- the end ---- */

static bool is_done(const psr_seat *seat)
{
    return seat->done;
}

void psr_coordinator_set_done(psr_coordinator *c, psr_peer peer)
{
    psr_seat *seat = psr_coordinator_find(c, peer);
    if (seat == NULL)
        return;
    seat->done = true;
    psr_liveness_done(c->liveness, peer);
}

bool psr_coordinator_is_done(const psr_coordinator *c, psr_peer peer)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    return seat != NULL && seat->done;
}

bool psr_coordinator_all_done(const psr_coordinator *c)
{
    return psr_coordinator_all(c, is_done);
}

void psr_coordinator_wind_up(psr_coordinator *c, psr_err status, const char *line)
{
    if (c->state == PSR_COORDINATOR_ENDED)
        return;
    c->state = PSR_COORDINATOR_ENDED;
    c->end_status = status;
    snprintf(c->end_line, sizeof c->end_line, "%s", line);
}

void psr_coordinator_end(psr_coordinator *c, psr_err status, const char *line)
{
    if (c->state == PSR_COORDINATOR_ENDED)
        return;
    char text[PSR_COORDINATOR_LINE_MAX]; /* a failure to send overwrites the detail */
    snprintf(text, sizeof text, "%s", line != NULL ? line : psr_err_detail());
    bool in_order =
        status == PSR_OK || (status == PSR_ERR_CANCELLED && psr_coordinator_all_done(c));
    psr_coordinator_wind_up(c, status, text);
    /* The run is over either way: a member that cannot be told is gone. */
    psr_err told =
        psr_coordinator_send_all(c, (psr_head){.type = in_order ? PSR_MSG_BYE : PSR_MSG_ABORT},
                                 (psr_bytes){text, strlen(text)});
    (void)told;
    for (uint32_t i = 0; i < c->seat_count; i++)
        /* its channel stays open for the last message to leave */
        if (c->seats[i].state == PSR_SEAT_HERE) {
            c->seats[i].state = PSR_SEAT_OUT;
            psr_liveness_gone(c->liveness, c->seats[i].entry.peer);
        }
    if (c->options.events.ended != NULL)
        c->options.events.ended(c->options.events.context, status, text);
}

/* ---- one by one ---- */

static void cut(psr_coordinator *c, psr_seat *seat)
{
    seat->cut_at_end = false;
    c->options.ways.cut(c->options.ways.context, seat->entry.peer);
}

static void release(psr_coordinator *c, psr_peer peer, psr_seat_state how)
{
    psr_seat *seat = psr_coordinator_find(c, peer);
    if (seat == NULL || seat->state != PSR_SEAT_HERE)
        return;
    seat->state = how;
    psr_liveness_gone(c->liveness, peer);
    if (c->state == PSR_COORDINATOR_ENDED) {
        cut(c, seat); /* after a failure nobody waits for BYE */
    } else if (how == PSR_SEAT_OUT) {
        seat->cut_at_end = true;
        c->options.ways.retire(c->options.ways.context, peer);
    }
    /* The channels to members that were given up stay open for the verdict, in case they live after
     * all. At the end nobody waits for that. */
    for (uint32_t i = 0; i < c->seat_count && psr_coordinator_over(c); i++)
        if (c->seats[i].cut_at_end)
            cut(c, &c->seats[i]);
}

void psr_coordinator_leave(psr_coordinator *c, psr_peer peer)
{
    release(c, peer, PSR_SEAT_LEFT);
}

void psr_coordinator_give_up(psr_coordinator *c, psr_peer peer)
{
    release(c, peer, PSR_SEAT_OUT);
}

/* ---- after the end ---- */

bool psr_coordinator_awaits_late(const psr_coordinator *c)
{
    bool failed = c->state == PSR_COORDINATOR_ENDED && c->end_status != PSR_OK &&
                  c->end_status != PSR_ERR_CANCELLED; /* a cancelled run is told to all at once */
    for (uint32_t i = 0; failed && i < c->seat_count; i++)
        if (c->seats[i].state == PSR_SEAT_EMPTY)
            return true;
    return false;
}

/* ---- who is lost ---- */

/* Whether lost names this member. lost NULL: the launcher or an agent was lost. */
static bool is_lost(const psr_seat *seat, const psr_peer *lost)
{
    return lost != NULL && psr_peer_equal(seat->entry.peer, *lost);
}

/* ALIVE with a flag asks for PROGRESS at once, so that a line does not describe the others by an
 * old report. */
static void ask_others(psr_coordinator *c)
{
    for (uint32_t i = 0; i < c->seat_count; i++) {
        psr_seat *seat = &c->seats[i];
        bool can_answer = seat->state == PSR_SEAT_HERE && !seat->done && !is_lost(seat, c->lost);
        seat->asked =
            can_answer && psr_coordinator_send(c, seat->entry.peer, psr_msg_alive_head(true),
                                               (psr_bytes){NULL, 0}) == PSR_OK;
    }
}

static bool has_answered(const psr_seat *seat)
{
    return !seat->asked;
}

void psr_coordinator_check_losing(psr_coordinator *c, int64_t now_ms)
{
    if (!c->losing)
        return;
    if (now_ms < c->lose_at_ms && (c->awaits_words || !psr_coordinator_all(c, has_answered)))
        return;
    char others[512], line[PSR_COORDINATOR_LINE_MAX];
    psr_liveness_describe(c->liveness, c->lost, others, sizeof others);
    if (others[0] == '\0' && c->lost == NULL)
        snprintf(others, sizeof others, "the run was at its start");
    snprintf(line, sizeof line, "%s%s%s", c->lost_line, others[0] != '\0' ? "; " : "", others);
    psr_coordinator_end(c, c->lost_status, line);
}

/* The run will end with lost_line and with what the others are doing; they have wait_ms to say
 * it. */
static void begin_losing(psr_coordinator *c, psr_err status, int64_t now_ms, int64_t wait_ms)
{
    c->losing = true;
    c->lost_status = status;
    c->lose_at_ms = now_ms + wait_ms;
    ask_others(c);
    psr_coordinator_check_losing(c, now_ms);
}

void psr_coordinator_lost(psr_coordinator *c, psr_peer peer, const char *host, bool by_itself,
                          const char *how, int64_t now_ms)
{
    const psr_seat *seat = psr_coordinator_find(c, peer);
    if (seat == NULL || c->state == PSR_COORDINATOR_ENDED || c->losing)
        return;
    psr_seat named = *seat;
    if (!seat->joined && host != NULL)
        snprintf(named.entry.host, sizeof named.entry.host, "%s", host);
    char name[PSR_MEMBER_NAME_MAX];
    psr_coordinator_seat_name(c, &named, name);
    snprintf(c->lost_line, sizeof c->lost_line, "%s was lost: %.200s", name, how);
    c->lost = &seat->entry.peer;
    /* A process that exits by itself has sent the reason, unless it could not join. */
    c->awaits_words = seat->joined && by_itself;
    begin_losing(c, PSR_ERR_PEER, now_ms, c->awaits_words ? LAST_WORDS_MS : ANSWER_MS);
}

/* The launcher or an agent is lost. It is no member, but the run cannot go on without it. */
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

void psr_coordinator_launcher_lost(psr_coordinator *c, psr_err status, const char *how,
                                   int64_t now_ms)
{
    lose_outsider(c, "launcher", c->host, status, how, now_ms);
}

void psr_coordinator_agent_lost(psr_coordinator *c, const char *host, const char *how,
                                int64_t now_ms)
{
    lose_outsider(c, "agent", host, PSR_ERR_TIMEOUT, how, now_ms);
}
