#include "comm/members/membership.h"

#include "base/clock.h"
#include "comm/members/liveness.h"
#include "comm/operations/early.h"
#include "net/violation.h"

#include <stdlib.h>
#include <string.h>

/* What the scheduler knows of a process that stops may be REPORT_EVERY_MS old. Its step and phase
 * are newer: the first CHANGE_BURST changes in a series are reported at once, then one every
 * CHANGE_EVERY_MS; in a large run all members together report one in a tenth of a millisecond. */
#define REPORT_EVERY_MS 100
#define CHANGE_EVERY_MS 10
#define CHANGE_BURST 50

/* Others may have had their WELCOME before. Then worker 0 may send all initial values of a table,
 * and no member sends more than that. */
#define EARLY_MAX 65536

#define NEVER INT64_MAX

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

struct psr_membership {
    psr_membership_options options;
    psr_message_type due; /* the scheduler's message that is due while joining; 0: joined */
    bool owes_facts;
    int64_t report_every_ms;
    int64_t next_report_ms; /* NEVER until CONFIG has come */
    /* the earliest time at which a change may be reported before next_report_ms */
    int64_t next_change_ms;
    int64_t change_every_ms;
    int64_t compared_ms;   /* when the place was last compared with the last report */
    psr_msg_progress told; /* the last report */
    psr_presence_clock presence;
    int64_t heard_ms;  /* when the scheduler was last heard, by that clock */
    int64_t silent_ms; /* for how long it was silent when it was given up; 0: it was not */
    psr_early *early;  /* messages of others that had their WELCOME before this member */
};

/* ---- life ---- */

static void set_deadline(psr_membership *m, int64_t deadline_ms, int64_t now_ms)
{
    m->options.deadline_ms = deadline_ms;
    m->report_every_ms = deadline_ms / 4 < REPORT_EVERY_MS ? deadline_ms / 4 : REPORT_EVERY_MS;
    if (m->report_every_ms < 1)
        m->report_every_ms = 1;
    m->presence = psr_presence_clock_for(now_ms, deadline_ms);
    m->heard_ms = psr_presence_clock_ms(&m->presence, now_ms);
}

psr_err psr_membership_new(const psr_membership_options *options, int64_t now_ms,
                           psr_membership **ret_membership)
{
    psr_early *early = NULL;
    PSR_TRY(psr_early_new(1, EARLY_MAX, &early));
    psr_membership *m = calloc(1, sizeof *m);
    if (m == NULL) {
        psr_early_free(early);
        return psr_fail(PSR_ERR_NOMEM, "no memory to join a run");
    }
    m->options = *options;
    m->due = PSR_MSG_CONFIG;
    m->next_report_ms = NEVER;
    m->change_every_ms = CHANGE_EVERY_MS;
    m->compared_ms = INT64_MIN;
    m->early = early;
    set_deadline(m, options->deadline_ms, now_ms);
    *ret_membership = m;
    return PSR_OK;
}

void psr_membership_free(psr_membership *membership)
{
    if (membership == NULL)
        return;
    psr_early_free(membership->early);
    free(membership);
}

bool psr_membership_joined(const psr_membership *membership)
{
    return membership->due == 0;
}

/* ---- reports ---- */

static psr_msg_progress place(const psr_membership *m)
{
    psr_msg_progress progress = {.phase = PSR_PHASE_START};
    if (m->options.report != NULL)
        m->options.report(m->options.context, &progress);
    /* A member that has sent its facts waits to be welcomed, whatever its user reports, and for
     * nothing else. */
    if (!psr_membership_joined(m) && !m->owes_facts) {
        progress.waits = true;
        progress.waits_for = scheduler;
    }
    return progress;
}

static bool has_changed(const psr_membership *m, const psr_msg_progress *now)
{
    return now->step != m->told.step || now->phase != m->told.phase ||
           now->evaluates != m->told.evaluates;
}

/* Delays the next report of a change: a leaky bucket, kept as a time. */
static void count_change(psr_membership *m, int64_t now_ms)
{
    int64_t earliest_ms = now_ms - CHANGE_BURST * m->change_every_ms;
    if (m->next_change_ms < earliest_ms)
        m->next_change_ms = earliest_ms;
    m->next_change_ms += m->change_every_ms;
}

psr_err psr_membership_report(psr_membership *membership, int64_t now_ms)
{
    psr_msg_progress progress = place(membership);
    if (has_changed(membership, &progress))
        count_change(membership, now_ms);
    membership->told = progress;
    membership->next_report_ms = now_ms + membership->report_every_ms;
    psr_head head = psr_msg_progress_head(&progress);
    return membership->options.send(membership->options.context, &head, NULL);
}

/* When to look again whether a report is due, or when it is due. NEVER: before CONFIG. To find the
 * place takes a walk over all slices, so it is done once in a millisecond. */
static int64_t report_due_ms(psr_membership *m, int64_t now_ms)
{
    if (m->next_report_ms <= m->next_change_ms || m->next_report_ms == NEVER)
        return m->next_report_ms;
    if (m->compared_ms == now_ms)
        return now_ms + 1;
    m->compared_ms = now_ms;
    psr_msg_progress progress = place(m);
    return has_changed(m, &progress) ? m->next_change_ms : m->next_report_ms;
}

/* ---- time ---- */

/* How long the scheduler may be silent. It may be long until it runs at all. */
static int64_t silence_ms(const psr_membership *m)
{
    return m->next_report_ms == NEVER ? m->options.deadline_ms
                                      : psr_liveness_silence_ms(m->options.deadline_ms);
}

static psr_err check_scheduler(psr_membership *m, int64_t present_ms)
{
    int64_t silent_ms = present_ms - m->heard_ms;
    if (silent_ms <= silence_ms(m))
        return PSR_OK;
    m->silent_ms = silent_ms;
    if (m->next_report_ms == NEVER)
        return psr_fail(PSR_ERR_PEER, "the scheduler at %s did not answer for %.1f s",
                        m->options.scheduler, (double)silent_ms / 1000);
    return psr_fail(PSR_ERR_PEER, "the scheduler at %s: no sign of life for %.1f s",
                    m->options.scheduler, (double)silent_ms / 1000);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

psr_err psr_membership_tick(psr_membership *membership, int64_t now_ms, int64_t *ret_next_ms)
{
    int64_t present_ms = psr_presence_clock_ms(&membership->presence, now_ms);
    PSR_TRY(check_scheduler(membership, present_ms));
    int64_t due_ms = report_due_ms(membership, now_ms);
    if (now_ms >= due_ms) {
        PSR_TRY(psr_membership_report(membership, now_ms));
        due_ms = membership->next_report_ms;
    }
    int64_t silent_ms = now_ms + membership->heard_ms + silence_ms(membership) + 1 - present_ms;
    int64_t look_ms = now_ms + psr_presence_clock_every_ms(&membership->presence);
    *ret_next_ms = earlier(due_ms, earlier(silent_ms, look_ms));
    return PSR_OK;
}

int64_t psr_membership_silent_ms(const psr_membership *membership)
{
    return membership->silent_ms;
}

/* ---- messages ---- */

static psr_err say(psr_membership *m, psr_message_type type, psr_bytes bytes)
{
    psr_head head = {.type = type};
    psr_payload payload = {.data = bytes.data, .bytes = bytes.size};
    return m->options.send(m->options.context, &head, payload.bytes ? &payload : NULL);
}

psr_err psr_membership_join(psr_membership *membership, const char *json)
{
    return say(membership, PSR_MSG_JOIN, (psr_bytes){json, strlen(json)});
}

static psr_bytes payload_of(const psr_message *message)
{
    return (psr_bytes){message->payload, message->payload_bytes};
}

static psr_err take_config(psr_membership *m, const psr_message *message, int64_t now_ms)
{
    int64_t deadline_ms = 0;
    void *facts = NULL;
    size_t size = 0;
    PSR_TRY(m->options.configured(m->options.context, payload_of(message), &deadline_ms, &facts,
                                  &size));
    set_deadline(m, deadline_ms, now_ms);
    m->next_report_ms = now_ms;
    m->due = PSR_MSG_WELCOME;
    m->owes_facts = true;
    psr_err err =
        m->options.facts_later ? PSR_OK : psr_membership_facts(m, (psr_bytes){facts, size});
    free(facts);
    return err;
}

psr_err psr_membership_facts(psr_membership *membership, psr_bytes facts)
{
    membership->owes_facts = false;
    return say(membership, PSR_MSG_FACTS, facts);
}

bool psr_membership_owes_facts(const psr_membership *membership)
{
    return membership->owes_facts;
}

static psr_err take_welcome(psr_membership *m, const psr_message *message)
{
    size_t members = 0;
    PSR_TRY(m->options.welcomed(m->options.context, payload_of(message), &members));
    if ((int64_t)members / 10 > CHANGE_EVERY_MS)
        m->change_every_ms = (int64_t)members / 10;
    m->due = 0;
    return PSR_OK;
}

/* While joining. */
static psr_err take_due(psr_membership *m, const psr_message *message, int64_t now_ms)
{
    if (message->head.type != m->due)
        return psr_violation(message, "%s is due", psr_message_name(m->due));
    return m->due == PSR_MSG_CONFIG ? take_config(m, message, now_ms) : take_welcome(m, message);
}

static psr_err take_alive(psr_membership *m, const psr_message *message, int64_t now_ms)
{
    bool report_wanted;
    PSR_TRY(psr_msg_alive_read(message, &report_wanted));
    return report_wanted ? psr_membership_report(m, now_ms) : PSR_OK;
}

static psr_err take_scheduler_message(psr_membership *m, psr_message **message, int64_t now_ms)
{
    psr_err err = PSR_OK;
    m->heard_ms = psr_presence_clock_ms(&m->presence, now_ms);
    if ((*message)->head.type == PSR_MSG_ALIVE)
        err = take_alive(m, *message, now_ms);
    else if ((*message)->head.type == PSR_MSG_ABORT)
        err = psr_fail(PSR_ERR_PEER, "the run ends: %.*s", (int)(*message)->payload_bytes,
                       (const char *)(*message)->payload);
    else if ((*message)->head.type == PSR_MSG_REFUSED)
        err = psr_fail(psr_msg_refused_status(&(*message)->head),
                       "the scheduler at %s turns this process away: %.*s", m->options.scheduler,
                       (int)(*message)->payload_bytes, (const char *)(*message)->payload);
    else if (psr_membership_joined(m))
        return PSR_OK;
    else
        err = take_due(m, *message, now_ms);
    psr_message_free(message);
    return err;
}

psr_err psr_membership_message(psr_membership *membership, psr_message **message, int64_t now_ms)
{
    if (psr_peer_equal((*message)->from, scheduler))
        return take_scheduler_message(membership, message, now_ms);
    if (psr_membership_joined(membership))
        return PSR_OK;
    if (psr_early_full(membership->early)) {
        psr_err err =
            psr_violation(*message, "%d messages are kept already from before WELCOME", EARLY_MAX);
        psr_message_free(message);
        return err;
    }
    psr_early_put(membership->early, 0, message);
    return PSR_OK;
}

psr_message *psr_membership_early(psr_membership *membership)
{
    return psr_membership_joined(membership) ? psr_early_take(membership->early, 0) : NULL;
}
