#include "comm/node/coordinator.h"

#include "base/clock.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 1024,
    SAID_BYTES = 512,
    NAME_BYTES = PSR_HOST_MAX + 32,
    CIRCLE_MS = 250, /* for the others of a circle to say in which call they wait */
    SILENT_MS = 500, /* who is called silent has been so for that long at least */
    WINDOW = 8,
    SLICE_FLOATS = 64 << 10
};

typedef enum seat_state { EMPTY, JOINED, AGREES /* has told its facts */, LEFT, GIVEN_UP } seat_state;

/* All times are the presence clock's. */
typedef struct seat {
    seat_state state;
    psr_view_member entry;
    void *facts; /* owned */
    size_t facts_size;
    int64_t heard_ms;
    int64_t moved_ms; /* its counter, or whom it waits for, last changed */
    bool reported;
    psr_msg_progress progress;
    char said[SAID_BYTES]; /* when it asked whom it waits for in vain, and it waits for that rank still; "" */
    int64_t circle_ms;     /* when it was last told to wait on for what others of a circle say */
} seat;

typedef enum state {
    JOINING,
    RUNNING,
    FAILED /* all have the verdict: they leave, or fall silent */
} state;

struct psr_node_coordinator {
    psr_node_coordinator_options options;
    state state;
    seat *seats; /* [ranks] */
    uint32_t joined, agreeing;
    int64_t join_until_ms;
    psr_presence_clock presence;
    psr_msg_failure verdict; /* of FAILED */
    char line[LINE_BYTES];   /* its line */
};

/* ---- sending ---- */

/* Who cannot be told falls silent. */
static void send_to(psr_node_coordinator *c, uint32_t rank, psr_head head, const void *data, size_t bytes)
{
    const psr_payload payload = {.data = data, .bytes = bytes};
    psr_err err = c->options.send(c->options.context, (psr_peer){PSR_ROLE_WORKER, rank}, &head,
                                  bytes > 0 ? &payload : NULL);
    (void)err;
}

static bool is_here(const seat *s)
{
    return s->state == JOINED || s->state == AGREES;
}

static void send_to_all(psr_node_coordinator *c, psr_head head, const void *data, size_t bytes)
{
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (is_here(&c->seats[r]))
            send_to(c, r, head, data, bytes);
}

static void name(const psr_node_coordinator *c, uint32_t rank, char text[NAME_BYTES])
{
    snprintf(text, NAME_BYTES, "rank %" PRIu32 " on %s", rank, c->seats[rank].entry.host);
}

/* ---- how it ends ---- */

static void give_up(psr_node_coordinator *c, uint32_t rank)
{
    c->seats[rank].state = GIVEN_UP;
    c->options.cut(c->options.context, c->seats[rank].entry.peer);
}

static void judge(psr_node_coordinator *c, const psr_msg_failure *verdict, const char *line)
{
    if (c->state == FAILED)
        return;
    bool joining = c->state == JOINING;
    snprintf(c->line, sizeof c->line, "%s", line);
    c->state = FAILED;
    c->verdict = *verdict;
    c->verdict.within_ms = 0;
    /* Who has no WELCOME yet hears ABORT alone. */
    send_to_all(c, joining ? (psr_head){.type = PSR_MSG_ABORT} : psr_msg_verdict_head(&c->verdict), c->line,
                strlen(c->line));
    for (uint32_t r = 0; joining && r < c->options.ranks; r++)
        if (is_here(&c->seats[r]))
            c->seats[r].state = GIVEN_UP; /* its channel stays, for the ABORT to leave */
}

static void judge_detail(psr_node_coordinator *c, psr_err err, uint32_t rank)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    judge(c, &(psr_msg_failure){.status = err, .rank = rank, .other = PSR_RANK_ANY}, line);
}

void psr_node_coordinator_fail(psr_node_coordinator *coordinator, psr_err err, uint32_t rank)
{
    judge_detail(coordinator, err, rank);
}

bool psr_node_coordinator_over(const psr_node_coordinator *coordinator)
{
    for (uint32_t r = 0; r < coordinator->options.ranks; r++)
        if (is_here(&coordinator->seats[r]) || coordinator->seats[r].state == EMPTY)
            return false;
    return true;
}

bool psr_node_coordinator_has_left(const psr_node_coordinator *coordinator, uint32_t rank)
{
    return coordinator->seats[rank].state == LEFT;
}

bool psr_node_coordinator_has_joined(const psr_node_coordinator *coordinator, uint32_t rank)
{
    return coordinator->seats[rank].state != EMPTY;
}

bool psr_node_coordinator_misses(const psr_node_coordinator *coordinator, uint32_t rank)
{
    const psr_node_coordinator *c = coordinator;
    bool may_come = is_here(&c->seats[rank]) || c->seats[rank].state == EMPTY, others = false;
    for (uint32_t r = 0; r < c->options.ranks; r++)
        others |= r != rank && is_here(&c->seats[r]);
    return c->state != FAILED && may_come && others;
}

psr_err psr_node_coordinator_verdict(const psr_node_coordinator *coordinator, const char **ret_line)
{
    if (coordinator->state != FAILED)
        return PSR_OK;
    *ret_line = coordinator->line;
    return coordinator->verdict.status;
}

/* ---- joining ---- */

static psr_err send_place(psr_node_coordinator *c, uint32_t rank)
{
    const psr_place place = {.rank = rank, .ranks = c->options.ranks, .deadline_ms = c->options.deadline_ms};
    void *payload = NULL;
    size_t size = 0;
    PSR_TRY(psr_place_write(&place, (psr_bytes){0}, &payload, &size));
    send_to(c, rank, (psr_head){.type = PSR_MSG_CONFIG}, payload, size);
    free(payload);
    return PSR_OK;
}

/* The one that is asked for, or the first that is free; ranks: none. */
static uint32_t seat_for(const psr_node_coordinator *c, const psr_message *message)
{
    uint32_t rank = message->from.rank;
    if (message->from.role != PSR_ROLE_WORKER)
        return c->options.ranks;
    if (rank != PSR_RANK_ANY)
        return rank < c->options.ranks && c->seats[rank].state == EMPTY ? rank : c->options.ranks;
    for (rank = 0; rank < c->options.ranks && c->seats[rank].state != EMPTY; rank++)
        ;
    return rank;
}

/* It comes to what has failed before: it hears why. */
static psr_err turn_away(psr_node_coordinator *c, uint32_t rank, const psr_join *join)
{
    c->seats[rank].state = GIVEN_UP;
    PSR_TRY(c->options.connect(c->options.context, (psr_peer){PSR_ROLE_WORKER, rank}, join->endpoint));
    send_to(c, rank, (psr_head){.type = PSR_MSG_ABORT}, c->line, strlen(c->line));
    return PSR_OK;
}

static psr_err take_join(psr_node_coordinator *c, const psr_message *message, int64_t present_ms)
{
    psr_join join;
    PSR_TRY(psr_join_from_json((psr_bytes){message->payload, message->payload_bytes}, &join));
    uint32_t rank = seat_for(c, message);
    if (rank >= c->options.ranks)
        return psr_fail(PSR_ERR_USAGE,
                        "a process on %s wants to join as rank %" PRId64
                        ", which there is not, or not twice: there are %" PRIu32 " ranks",
                        join.host, message->from.rank == PSR_RANK_ANY ? -1 : (int64_t)message->from.rank,
                        c->options.ranks);
    if (c->state == FAILED)
        return turn_away(c, rank, &join);
    if (strcmp(join.version, PSR_VERSION) != 0)
        return psr_fail(PSR_ERR_VERSION,
                        "rank %" PRIu32 " on %s is psring %s, the scheduler on %s is psring %s", rank,
                        join.host, join.version, c->options.host, PSR_VERSION);
    seat *s = &c->seats[rank];
    s->entry.peer = (psr_peer){PSR_ROLE_WORKER, rank};
    memcpy(s->entry.host, join.host, sizeof s->entry.host);
    memcpy(s->entry.endpoint, join.endpoint, sizeof s->entry.endpoint);
    PSR_TRY(c->options.connect(c->options.context, s->entry.peer, s->entry.endpoint));
    s->state = JOINED;
    s->heard_ms = s->moved_ms = present_ms;
    s->circle_ms = INT64_MIN / 2;
    c->joined++;
    return send_place(c, rank);
}

static psr_err welcome_all(psr_node_coordinator *c)
{
    const psr_plan_options limits = {
        .route = PSR_ROUTE_NONE, .ranks = c->options.ranks, .slice_floats = SLICE_FLOATS, .window = WINDOW};
    psr_view view = {.member_count = c->options.ranks};
    void *payload = NULL;
    size_t size = 0;
    view.members = calloc(c->options.ranks, sizeof *view.members);
    if (view.members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", c->options.ranks);
    for (uint32_t r = 0; r < c->options.ranks; r++)
        view.members[r] = c->seats[r].entry;
    psr_err err = psr_plan_of(&limits, NULL, 0, &view.plan);
    if (err == PSR_OK)
        err = psr_welcome_write(&view, (psr_bytes){0}, &payload, &size);
    if (err == PSR_OK)
        send_to_all(c, (psr_head){.type = PSR_MSG_WELCOME}, payload, size);
    free(payload);
    psr_view_done(&view);
    return err;
}

/* Whose facts differ from rank 0's; ranks: nobody's. */
static uint32_t who_differs(const psr_node_coordinator *c)
{
    const seat *first = &c->seats[0];
    for (uint32_t r = 1; r < c->options.ranks; r++)
        if (c->seats[r].facts_size != first->facts_size ||
            (first->facts_size > 0 && memcmp(c->seats[r].facts, first->facts, first->facts_size) != 0))
            return r;
    return c->options.ranks;
}

static psr_err begin(psr_node_coordinator *c)
{
    PSR_TRY(welcome_all(c));
    c->state = RUNNING;
    uint32_t other = who_differs(c);
    if (other == c->options.ranks) {
        send_to_all(c, psr_msg_verdict_head(&(psr_msg_failure){.rank = PSR_RANK_ANY, .other = PSR_RANK_ANY}),
                    NULL, 0);
        return PSR_OK;
    }
    char line[LINE_BYTES], a[NAME_BYTES], b[NAME_BYTES];
    name(c, 0, a);
    name(c, other, b);
    snprintf(line, sizeof line, "%s and %s do not agree: the bytes under \"agree\" differ", a, b);
    judge(c, &(psr_msg_failure){.status = PSR_ERR_USAGE, .rank = other, .other = 0}, line);
    return PSR_OK;
}

static psr_err take_facts(psr_node_coordinator *c, seat *s, const psr_message *message)
{
    if (s->state != JOINED)
        return psr_violation(message, "it has told its facts before");
    if (message->payload_bytes > PSR_NODE_FACTS_MAX)
        return psr_violation(message, "of facts %u bytes are the most", PSR_NODE_FACTS_MAX);
    s->facts = message->payload_bytes > 0 ? malloc(message->payload_bytes) : NULL;
    if (message->payload_bytes > 0 && s->facts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of facts", message->payload_bytes);
    if (s->facts != NULL)
        memcpy(s->facts, message->payload, message->payload_bytes);
    s->facts_size = message->payload_bytes;
    s->state = AGREES;
    return ++c->agreeing == c->options.ranks ? begin(c) : PSR_OK;
}

/* ---- findings ---- */

/* Where waiting for one another ends, from a rank on: at one that waits for nobody who is here. ranks: in a circle. */
static uint32_t end_of_waiting(const psr_node_coordinator *c, uint32_t rank)
{
    for (uint32_t hops = 0; hops <= c->options.ranks; hops++) {
        const seat *s = &c->seats[rank];
        psr_peer awaited = s->progress.waits_for;
        if (!is_here(s) || !s->progress.waits || awaited.role != PSR_ROLE_WORKER ||
            awaited.rank >= c->options.ranks)
            return rank;
        rank = s->progress.waits_for.rank;
    }
    return c->options.ranks;
}

static void answer_wait_on(psr_node_coordinator *c, uint32_t rank, int64_t for_ms)
{
    const psr_msg_failure none = {.rank = PSR_RANK_ANY, .other = PSR_RANK_ANY, .within_ms = (uint64_t)for_ms};
    send_to(c, rank, psr_msg_verdict_head(&none), NULL, 0);
}

/* Anybody's number: times are added to it. */
static int64_t within_ms_of(const psr_msg_failure *found)
{
    const int64_t most = INT64_MAX / 4;
    return found->within_ms < (uint64_t)most ? (int64_t)found->within_ms : most;
}

/* A shard has no call of its own that asks: what it waits for is a push. false: it is none. */
static bool lacks_push(const seat *s)
{
    return s->progress.phase == PSR_PHASE_PUSH;
}

/* Why this one waits, for a circle's line. "": it has not asked. */
static void say_why(const psr_node_coordinator *c, uint32_t rank, char said[SAID_BYTES])
{
    const seat *s = &c->seats[rank];
    char who[NAME_BYTES], other[NAME_BYTES];
    snprintf(said, SAID_BYTES, "%s", s->said);
    if (!lacks_push(s))
        return;
    name(c, rank, who);
    name(c, s->progress.waits_for.rank, other);
    snprintf(said, SAID_BYTES, "%s, a shard, waits for a push of %s", who, other);
}

/* What the asker says, and what the others say who wait for each other; those who have not asked soon after are left out. Whose push a
 * shard lacks is to blame: only that rank could have done otherwise. */
static void take_circle(psr_node_coordinator *c, uint32_t asker, const psr_msg_failure *found,
                        const char *said, int64_t present_ms)
{
    char line[LINE_BYTES], why[SAID_BYTES];
    psr_msg_failure verdict = *found;
    bool all_asked = true;
    /* Once in a wait, whatever it reports meanwhile: or who reports and asks would wait without end. */
    bool again = present_ms - c->seats[asker].circle_ms < within_ms_of(found) + 4 * CIRCLE_MS;
    size_t used = (size_t)snprintf(line, sizeof line, "%s", said);
    snprintf(c->seats[asker].said, sizeof c->seats[asker].said, "%s", said);
    uint32_t rank = found->rank;
    for (uint32_t hops = 0; hops < c->options.ranks && rank != asker; hops++) {
        const seat *s = &c->seats[rank];
        say_why(c, rank, why);
        bool has_asked = why[0] != '\0';
        if (has_asked && strstr(line, why) != NULL) /* a circle that the asker is not in, once round */
            break;
        all_asked = all_asked && has_asked;
        if (lacks_push(s))
            verdict.rank = s->progress.waits_for.rank;
        if (has_asked && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, "; %s", why);
        rank = s->progress.waits_for.rank;
    }
    if (!all_asked && !again) {
        c->seats[asker].circle_ms = present_ms;
        answer_wait_on(c, asker, CIRCLE_MS);
        return;
    }
    if (used < sizeof line)
        snprintf(line + used, sizeof line - used, ": ranks wait for each other in a circle");
    judge(c, &verdict, line);
}

/* A rank has waited in vain. */
static void take_timeout(psr_node_coordinator *c, uint32_t asker, const psr_msg_failure *found,
                         const char *said, int64_t present_ms)
{
    uint32_t end = end_of_waiting(c, found->rank);
    char line[LINE_BYTES], who[NAME_BYTES];
    psr_msg_failure verdict = *found;
    int64_t within_ms = within_ms_of(found);
    if (end >= c->options.ranks) {
        take_circle(c, asker, found, said, present_ms);
        return;
    }
    const seat *s = &c->seats[end];
    /* Reports come every tenth of a second, however short the call's deadline is. */
    int64_t silent_ms = within_ms / 2 > SILENT_MS ? within_ms / 2 : SILENT_MS;
    bool is_silent = present_ms - s->heard_ms >= silent_ms;
    if (end != asker && is_here(s) && present_ms - s->moved_ms < within_ms && !is_silent) {
        answer_wait_on(c, asker, s->moved_ms + within_ms - present_ms);
        return;
    }
    name(c, end, who);
    verdict.rank = end;
    if (!is_here(s)) {
        verdict.status = PSR_ERR_PEER;
        snprintf(line, sizeof line, "%s has left; %s", who, said);
    } else if (is_silent) {
        verdict.status = PSR_ERR_PEER;
        snprintf(line, sizeof line, "%s: no sign of life for %.1f s; %s", who,
                 (double)(present_ms - s->heard_ms) / 1000, said);
    } else {
        char step[48] = "";
        if (s->progress.step > 0)
            snprintf(step, sizeof step, " in step %" PRIu64, s->progress.step);
        snprintf(line, sizeof line, "%s: alive, but no progress for %.1f s%s; %s", who,
                 (double)(present_ms - s->moved_ms) / 1000, step, said);
    }
    judge(c, &verdict, line);
}

static void text_of(const psr_message *message, char line[SAID_BYTES])
{
    size_t bytes = message->payload_bytes < SAID_BYTES - 1 ? message->payload_bytes : SAID_BYTES - 1;
    if (bytes > 0)
        memcpy(line, message->payload, bytes);
    line[bytes] = '\0';
}

static psr_err take_finding(psr_node_coordinator *c, uint32_t rank, const psr_message *message,
                            int64_t present_ms)
{
    psr_msg_failure found;
    char said[SAID_BYTES];
    PSR_TRY(psr_msg_failure_read(message, &found));
    text_of(message, said);
    bool known = found.rank < c->options.ranks;
    if (c->state != RUNNING)
        return PSR_OK;
    if (found.status == PSR_ERR_TIMEOUT && known) {
        take_timeout(c, rank, &found, said, present_ms);
        return PSR_OK;
    }
    /* What failed at one rank is, for the others, that rank's going away. */
    if (found.status != PSR_ERR_MISMATCH && found.status != PSR_ERR_PROTOCOL)
        found.status = PSR_ERR_PEER;
    if (!known)
        found.rank = rank;
    judge(c, &found, said);
    return PSR_OK;
}

/* Its last words: its loop has ended. */
static void take_failed(psr_node_coordinator *c, uint32_t rank, const psr_message *message)
{
    char said[SAID_BYTES], line[LINE_BYTES], who[NAME_BYTES];
    text_of(message, said);
    name(c, rank, who);
    snprintf(line, sizeof line, "%s failed: %s", who, said);
    judge(c, &(psr_msg_failure){.status = PSR_ERR_PEER, .rank = rank, .other = PSR_RANK_ANY}, line);
}

/* ---- messages ---- */

static psr_err take_progress(psr_node_coordinator *c, uint32_t rank, const psr_message *message,
                             int64_t present_ms)
{
    seat *s = &c->seats[rank];
    psr_msg_progress says;
    PSR_TRY(psr_msg_progress_read(message, &says));
    if (!s->reported || says.counter != s->progress.counter || says.waits != s->progress.waits ||
        (says.waits && !psr_peer_equal(says.waits_for, s->progress.waits_for)))
        s->moved_ms = present_ms;
    if (!says.waits || !psr_peer_equal(says.waits_for, s->progress.waits_for))
        s->said[0] = '\0';
    s->reported = true;
    s->progress = says;
    send_to(c, rank, psr_msg_alive_head(false), NULL, 0);
    return PSR_OK;
}

/* Who has left needs nothing more: what others have not sent there yet would hold up their own leaving. */
static void say_bye(psr_node_coordinator *c, uint32_t rank)
{
    const size_t bytes = psr_msg_ranks_bytes(c->options.ranks);
    uint8_t *left = calloc(bytes, 1);
    for (uint32_t r = 0; left != NULL && r < c->options.ranks; r++)
        if (r != rank && !is_here(&c->seats[r]))
            psr_msg_ranks_add(left, r);
    send_to(c, rank, (psr_head){.type = PSR_MSG_BYE}, left, left != NULL ? bytes : 0);
    free(left);
}

/* After a failure nobody waits for BYE. */
static void take_done(psr_node_coordinator *c, uint32_t rank)
{
    c->seats[rank].state = LEFT;
    if (c->state == FAILED)
        c->options.cut(c->options.context, c->seats[rank].entry.peer);
    else
        say_bye(c, rank);
}

static psr_err take(psr_node_coordinator *c, const psr_message *message, int64_t present_ms)
{
    uint32_t rank = message->from.rank;
    if (message->head.type == PSR_MSG_JOIN)
        return take_join(c, message, present_ms);
    if (message->from.role != PSR_ROLE_WORKER || rank >= c->options.ranks || !is_here(&c->seats[rank]))
        return PSR_OK;
    c->seats[rank].heard_ms = present_ms;
    switch (message->head.type) {
    case PSR_MSG_FACTS:
        return c->state == JOINING ? take_facts(c, &c->seats[rank], message) : PSR_OK;
    case PSR_MSG_PROGRESS:
        return take_progress(c, rank, message, present_ms);
    case PSR_MSG_FINDING:
        return take_finding(c, rank, message, present_ms);
    case PSR_MSG_FAILED:
        take_failed(c, rank, message);
        give_up(c, rank);
        return PSR_OK;
    case PSR_MSG_DONE:
        take_done(c, rank);
        return PSR_OK;
    default:
        return psr_violation(message, "no rank says that to a coordinator");
    }
}

void psr_node_coordinator_message(psr_node_coordinator *coordinator, const psr_message *message,
                                  int64_t now_ms)
{
    psr_err err = take(coordinator, message, psr_presence_clock_ms(&coordinator->presence, now_ms));
    if (err != PSR_OK)
        judge_detail(coordinator, err, message->from.rank);
}

/* ---- time ---- */

static void list_missing(const psr_node_coordinator *c, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t r = 0; r < c->options.ranks && used < size; r++)
        if (c->seats[r].state == EMPTY)
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu32, used > 0 ? ", " : "", r);
}

static void check_joining(psr_node_coordinator *c, int64_t present_ms)
{
    char missing[256], line[LINE_BYTES];
    if (present_ms < c->join_until_ms || c->joined == c->options.ranks)
        return;
    list_missing(c, missing, sizeof missing);
    snprintf(line, sizeof line, "of %" PRIu32 " ranks these did not join within %.1f s: %s", c->options.ranks,
             (double)c->options.join_deadline_ms / 1000, missing);
    judge(c, &(psr_msg_failure){.status = PSR_ERR_TIMEOUT, .rank = PSR_RANK_ANY, .other = PSR_RANK_ANY},
          line);
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (c->seats[r].state == EMPTY)
            c->seats[r].state = GIVEN_UP;
}

static void check_silent(psr_node_coordinator *c, uint32_t rank, int64_t present_ms)
{
    seat *s = &c->seats[rank];
    int64_t silent_ms = present_ms - s->heard_ms;
    char line[LINE_BYTES], who[NAME_BYTES];
    name(c, rank, who);
    snprintf(line, sizeof line, "%s: no sign of life for %.1f s", who, (double)silent_ms / 1000);
    judge(c, &(psr_msg_failure){.status = PSR_ERR_PEER, .rank = rank, .other = PSR_RANK_ANY}, line);
    give_up(c, rank);
}

void psr_node_coordinator_tick(psr_node_coordinator *coordinator, int64_t now_ms, int64_t *ret_next_ms)
{
    psr_node_coordinator *c = coordinator;
    int64_t present_ms = psr_presence_clock_ms(&c->presence, now_ms),
            patience_ms = c->options.deadline_ms * 3 / 4;
    int64_t left_ms = psr_presence_clock_every_ms(&c->presence);
    check_joining(c, present_ms);
    for (uint32_t r = 0; r < c->options.ranks; r++) {
        seat *s = &c->seats[r];
        int64_t quiet_ms = present_ms - s->heard_ms;
        if (is_here(s) && quiet_ms >= patience_ms)
            check_silent(c, r, present_ms);
        else if (is_here(s) && patience_ms - quiet_ms < left_ms)
            left_ms = patience_ms - quiet_ms;
    }
    if (c->joined < c->options.ranks && c->join_until_ms > present_ms &&
        c->join_until_ms - present_ms < left_ms)
        left_ms = c->join_until_ms - present_ms;
    *ret_next_ms = now_ms + left_ms;
}

/* ---- life ---- */

psr_err psr_node_coordinator_new(const psr_node_coordinator_options *options, int64_t now_ms,
                                 psr_node_coordinator **ret_coordinator)
{
    psr_node_coordinator *c = calloc(1, sizeof *c);
    if (c != NULL)
        c->seats = calloc(options->ranks, sizeof *c->seats);
    if (c == NULL || c->seats == NULL) {
        free(c);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", options->ranks);
    }
    c->options = *options;
    c->presence = psr_presence_clock_for(now_ms, options->deadline_ms);
    c->join_until_ms = psr_presence_clock_ms(&c->presence, now_ms) + options->join_deadline_ms;
    *ret_coordinator = c;
    return PSR_OK;
}

void psr_node_coordinator_free(psr_node_coordinator *coordinator)
{
    if (coordinator == NULL)
        return;
    for (uint32_t r = 0; r < coordinator->options.ranks; r++)
        free(coordinator->seats[r].facts);
    free(coordinator->seats);
    free(coordinator);
}
