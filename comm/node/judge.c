#include "comm/node/judge_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8, SLICE_FLOATS = 64 << 10 };

/* ---- ranks that are here ---- */

bool psr_judge_is_here(const psr_judge *judge, uint32_t rank)
{
    return psr_coordinator_is_here(judge->coordinator, psr_judge_peer(rank));
}

void psr_judge_send(psr_judge *judge, uint32_t rank, psr_head head, const void *data, size_t bytes)
{
    psr_err told = psr_coordinator_send(judge->coordinator, psr_judge_peer(rank), head,
                                        (psr_bytes){data, bytes});
    (void)told;
}

/* ---- verdicts ---- */

/* The first failure is kept; later ones follow from it. */
static void keep_verdict(psr_judge *j, psr_err status, const char *line)
{
    if (j->verdict != PSR_OK)
        return;
    j->verdict = status;
    snprintf(j->line, sizeof j->line, "%s", line);
}

static void tell_all(psr_judge *j, psr_head head, const char *line)
{
    psr_err told = psr_coordinator_send_all(j->coordinator, head, (psr_bytes){line, strlen(line)});
    (void)told;
}

void psr_judge_tell(psr_judge *judge, const psr_msg_failure *verdict, const char *line)
{
    keep_verdict(judge, verdict->status, line);
    tell_all(judge, psr_msg_verdict_head(verdict), line);
    if (judge->options.judged != NULL)
        judge->options.judged(judge->options.context, verdict, line);
}

/* Everything has failed, and nobody can go on. Ranks without WELCOME are told ABORT only. */
static void fail_all(psr_judge *j, psr_err status, uint32_t rank, const char *line)
{
    if (psr_coordinator_ended(j->coordinator))
        return;
    psr_shrinking_free_all(j);
    if (!psr_coordinator_running(j->coordinator)) {
        psr_coordinator_end(j->coordinator, status, line);
        return;
    }
    psr_judge_tell(
        j,
        &(psr_msg_failure){
            .status = status, .scope = PSR_SCOPE_ALL, .rank = rank, .other = PSR_RANK_ANY},
        line);
    psr_coordinator_wind_up(j->coordinator, status, j->line);
}

void psr_judge_drop(psr_judge *judge, uint32_t rank, psr_err status, const char *line)
{
    if (!psr_coordinator_running(judge->coordinator)) {
        fail_all(judge, status, rank, line);
    } else if (psr_judge_is_here(judge, rank)) {
        if (status == PSR_ERR_PROTOCOL)
            /* the judge's own verdict on a lost rank replaces an earlier one that a rank found */
            judge->verdict = PSR_OK;
        psr_judge_tell(
            judge,
            &(psr_msg_failure){
                .status = status, .scope = PSR_SCOPE_LOST, .rank = rank, .other = PSR_RANK_ANY},
            line);
    }
    psr_coordinator_give_up(judge->coordinator, psr_judge_peer(rank));
    psr_shrinking_without(judge, rank);
}

/* A rank that broke the protocol is out. If the scheduler itself cannot go on, everything ends. */
static void on_failed(void *context, psr_peer rank, psr_err status, const char *line)
{
    if (status == PSR_ERR_NOMEM)
        fail_all(context, status, rank.rank, line);
    else
        psr_judge_drop(context, rank.rank, status, line);
}

void psr_judge_lost(psr_judge *judge, uint32_t rank, const char *how)
{
    char line[PSR_COORDINATOR_LINE_MAX], name[PSR_MEMBER_NAME_MAX];
    if (!psr_judge_is_here(judge, rank))
        return;
    psr_coordinator_name(judge->coordinator, psr_judge_peer(rank), name);
    snprintf(line, sizeof line, "%s was lost: %.200s", name, how);
    psr_judge_drop(judge, rank, PSR_ERR_PEER, line);
}

void psr_judge_fail(psr_judge *judge, psr_err err, uint32_t rank)
{
    char line[PSR_COORDINATOR_LINE_MAX];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    fail_all(judge, err, rank, line);
}

static void on_ended(void *context, psr_err status, const char *line)
{
    keep_verdict(context, status, line);
}

psr_err psr_judge_verdict(const psr_judge *judge, const char **ret_line)
{
    if (judge->verdict != PSR_OK)
        *ret_line = judge->line;
    return judge->verdict;
}

/* ---- joining ---- */

static psr_err on_facts(void *context, const psr_message *message)
{
    psr_judge_rank *r = &((psr_judge *)context)->ranks[message->from.rank];
    r->facts = message->payload_bytes > 0 ? malloc(message->payload_bytes) : NULL;
    if (message->payload_bytes > 0 && r->facts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of facts", message->payload_bytes);
    if (r->facts != NULL)
        memcpy(r->facts, message->payload, message->payload_bytes);
    r->facts_size = message->payload_bytes;
    return PSR_OK;
}

/* Programs sum nothing by a plan; it has only the window and the slices of messages. */
static psr_err on_begin(void *context, psr_view *view)
{
    const psr_judge *j = context;
    const psr_plan_options limits = {.route = PSR_ROUTE_NONE,
                                     .ranks = j->options.ranks,
                                     .slice_floats = SLICE_FLOATS,
                                     .window = WINDOW};
    return psr_plan_of(&limits, NULL, 0, &view->plan);
}

/* The rank whose facts differ from rank 0's; the number of ranks: none. */
static uint32_t who_differs(const psr_judge *j)
{
    const psr_judge_rank *first = &j->ranks[0];
    for (uint32_t r = 1; r < j->options.ranks; r++)
        if (j->ranks[r].facts_size != first->facts_size ||
            (first->facts_size > 0 &&
             memcmp(j->ranks[r].facts, first->facts, first->facts_size) != 0))
            return r;
    return j->options.ranks;
}

/* All may begin, or they are told which rank has other facts. */
static psr_err on_welcomed(void *context)
{
    psr_judge *j = context;
    const uint32_t other = who_differs(j);
    if (other == j->options.ranks) {
        tell_all(
            j,
            psr_msg_verdict_head(&(psr_msg_failure){.rank = PSR_RANK_ANY, .other = PSR_RANK_ANY}),
            "");
        return PSR_OK;
    }
    char line[PSR_COORDINATOR_LINE_MAX], a[PSR_MEMBER_NAME_MAX], b[PSR_MEMBER_NAME_MAX];
    psr_coordinator_name(j->coordinator, psr_judge_peer(0), a);
    psr_coordinator_name(j->coordinator, psr_judge_peer(other), b);
    snprintf(line, sizeof line,
             "%s and %s do not agree: the bytes under \"agree\", or the numbers of shards, differ",
             a, b);
    fail_all(j, PSR_ERR_USAGE, other, line);
    return PSR_OK;
}

/* ---- messages ---- */

/* The steps that a program reports are its own. */
static void on_limit(void *context, psr_msg_limits *limits)
{
    limits->epoch = ((const psr_judge *)context)->epoch;
    limits->steps = UINT64_MAX;
}

/* The rank that it waits for may have left. It alone knows whether all messages of that rank are
 * there. */
static void tell_who_left(psr_judge *j, uint32_t rank, const psr_msg_progress *says)
{
    const uint32_t other = says->waits_for.rank;
    if (!says->waits || says->waits_for.role != PSR_ROLE_WORKER || !j->ranks[other].left ||
        j->ranks[rank].told_of == other || !psr_judge_is_here(j, rank))
        return;
    const psr_head head = psr_msg_left_head(&(psr_msg_left){
        other, psr_msg_sent_to(j->ranks[other].sent, j->ranks[other].sent_bytes, rank)});
    psr_judge_send(j, rank, head, NULL, 0);
    j->ranks[rank].told_of = other;
}

static void on_progress(void *context, psr_peer from, const psr_msg_progress *says)
{
    psr_judge *j = context;
    tell_who_left(j, from.rank, says);
    const psr_watched *rank = psr_liveness_of(j->liveness, from);
    if (!says->waits || !rank->reported || !psr_peer_equal(says->waits_for, rank->says.waits_for))
        j->ranks[from.rank].said[0] = '\0';
}

/* A finding may be told to others, and an answer goes to the rank itself. A rank that sends more
 * while somebody does not read is to blame; not the reader, which may be stopped: the deadline
 * finds that. */
static psr_err check_waiting(const psr_judge *j, const psr_message *message)
{
    for (uint32_t r = 0; r < j->options.ranks; r++)
        if (psr_judge_is_here(j, r) &&
            psr_coordinator_waiting(j->coordinator, psr_judge_peer(r)) >= PSR_JUDGE_WAITING_MAX)
            return psr_violation(message, "%d messages wait for rank %" PRIu32 " already",
                                 PSR_JUDGE_WAITING_MAX, r);
    return PSR_OK;
}

/* A rank that has left needs no more messages: those that others still have for it would delay
 * their own leaving. */
static void say_bye(psr_judge *j, uint32_t rank)
{
    const size_t bytes = psr_msg_ranks_bytes(j->options.ranks);
    uint8_t *left = calloc(bytes, 1);
    for (uint32_t r = 0; left != NULL && r < j->options.ranks; r++)
        if (r != rank && !psr_judge_is_here(j, r))
            psr_msg_ranks_add(left, r);
    psr_judge_send(j, rank, (psr_head){.type = PSR_MSG_BYE}, left, left != NULL ? bytes : 0);
    free(left);
}

static psr_err keep_sent(psr_judge_rank *r, const psr_message *message)
{
    if (message->payload_bytes > 0) {
        r->sent = malloc(message->payload_bytes);
        if (r->sent == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes", message->payload_bytes);
        memcpy(r->sent, message->payload, message->payload_bytes);
        r->sent_bytes = message->payload_bytes;
    }
    r->left = true;
    return PSR_OK;
}

/* After a failure nobody waits for BYE. */
static psr_err take_done(psr_judge *j, uint32_t rank, const psr_message *message)
{
    PSR_TRY(psr_msg_sent_check(message, j->options.ranks));
    PSR_TRY(keep_sent(&j->ranks[rank], message));
    if (!psr_coordinator_ended(j->coordinator))
        say_bye(j, rank);
    psr_coordinator_leave(j->coordinator, psr_judge_peer(rank));
    psr_shrinking_without(j, rank);
    return PSR_OK;
}

static psr_err on_message(void *context, const psr_message *message)
{
    psr_judge *j = context;
    const uint32_t rank = message->from.rank;
    const psr_watched *watched = psr_liveness_of(j->liveness, message->from);
    j->present_ms = watched->heard_ms; /* just now */
    switch (message->head.type) {
    case PSR_MSG_FINDING:
        PSR_TRY(check_waiting(j, message));
        return psr_judge_take_finding(j, rank, message);
    case PSR_MSG_SHRINK:
        PSR_TRY(check_waiting(j, message));
        return psr_coordinator_running(j->coordinator) ? psr_shrinking_take(j, rank, message)
                                                       : PSR_OK;
    case PSR_MSG_DONE:
        return take_done(j, rank, message);
    default:
        return psr_violation(message, "a rank does not send that to a coordinator");
    }
}

static int64_t on_tick(void *context, int64_t present_ms)
{
    psr_judge *j = context;
    j->present_ms = present_ms;
    return psr_shrinking_tick(j);
}

/* ---- life ---- */

static void on_say(void *context, const char *line)
{
    const psr_judge *j = context;
    if (j->options.say != NULL)
        j->options.say(j->options.context, line);
}

static psr_err open_coordinator(psr_judge *j, int64_t now_ms)
{
    const psr_coordinator_options options = {
        .ways = j->options.ways,
        .events = {.context = j, .say = on_say, .ended = on_ended},
        .user = {.context = j,
                 .facts = on_facts,
                 .begin = on_begin,
                 .welcomed = on_welcomed,
                 .limit = on_limit,
                 .progress = on_progress,
                 .message = on_message,
                 .failed = on_failed,
                 .tick = on_tick},
        .host = j->options.host,
        .workers = j->options.ranks,
        .program = true,
        .ranks = j->options.ranks,
        .deadline_ms = j->options.deadline_ms,
        .join_deadline_ms = j->options.join_deadline_ms,
        .facts_max = PSR_JUDGE_FACTS_MAX};
    PSR_TRY(psr_coordinator_new(&options, now_ms, &j->coordinator));
    j->liveness = psr_coordinator_liveness(j->coordinator);
    psr_liveness_waits_also(j->liveness, psr_shrinking_awaits, j);
    return PSR_OK;
}

psr_err psr_judge_new(const psr_judge_options *options, int64_t now_ms, psr_judge **ret_judge)
{
    psr_judge *j = calloc(1, sizeof *j);
    if (j != NULL)
        j->ranks = calloc(options->ranks, sizeof *j->ranks);
    if (j == NULL || j->ranks == NULL) {
        free(j);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", options->ranks);
    }
    j->options = *options;
    for (uint32_t r = 0; r < options->ranks; r++) {
        j->ranks[r].circle_ms = INT64_MIN / 2;
        j->ranks[r].told_of = PSR_RANK_ANY;
    }
    psr_err err = open_coordinator(j, now_ms);
    if (err != PSR_OK) {
        psr_judge_free(j);
        return err;
    }
    *ret_judge = j;
    return PSR_OK;
}

void psr_judge_free(psr_judge *judge)
{
    if (judge == NULL)
        return;
    for (uint32_t r = 0; r < judge->options.ranks; r++) {
        free(judge->ranks[r].facts);
        free(judge->ranks[r].sent);
    }
    psr_shrinking_free_all(judge);
    psr_coordinator_free(judge->coordinator);
    free(judge->ranks);
    free(judge);
}

psr_coordinator *psr_judge_coordinator(psr_judge *judge)
{
    return judge->coordinator;
}
