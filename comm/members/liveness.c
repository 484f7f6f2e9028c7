#include "comm/members/liveness.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY SIZE_MAX
#define FIRST_MS 5000
#define TELLING_MS 500 /* the most that is left for a verdict to be told */

typedef psr_watched watched;

/* All times are those of the presence clock: messages that came while the caller was stopped or
 * busy elsewhere have yet to be read. */
struct psr_liveness {
    int64_t deadline_ms;
    watched *members;
    size_t count, capacity;
    struct {
        size_t *at; /* [count]: 1 + the index of the member with this rank; 0: none */
        size_t count;
    } ranks[PSR_ROLE_WORKER + 1];
    psr_presence_clock clock;
    int64_t checked_ms;
    int64_t scheduler_ms; /* when the scheduler last worked; INT64_MIN: never */
    /* NULL: there is no such waiting */
    bool (*waits_also)(void *context, psr_peer peer, psr_peer *ret_peer);
    void *context;
};

/* ---- text: appended as far as there is room ---- */

typedef struct text {
    char *at;
    size_t size, used;
} text;

static text text_in(char *line, size_t size)
{
    if (size > 0)
        line[0] = '\0';
    return (text){line, size, 0};
}

static void put(text *t, const char *format, ...) PSR_PRINTF(2, 3);

static void put(text *t, const char *format, ...)
{
    if (t->used + 1 >= t->size)
        return;
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(t->at + t->used, t->size - t->used, format, args);
    va_end(args);
    if (bytes > 0)
        t->used += (size_t)bytes < t->size - t->used ? (size_t)bytes : t->size - t->used - 1;
}

static void put_peer(text *t, psr_peer peer)
{
    if (peer.role == PSR_ROLE_SCHEDULER)
        put(t, "the scheduler");
    else
        put(t, "%s %" PRIu32, psr_role_name(peer.role), peer.rank);
}

/* Steps are told to people from 1, as in the step line. */
static void put_place(text *t, const watched *m)
{
    if (!m->on) {
        put(t, "done");
        return;
    }
    if (!m->reported || m->says.phase == PSR_PHASE_START) {
        put(t, "start");
        return;
    }
    put(t, "step %" PRIu64 ", %s", m->says.step + 1,
        m->says.phase == PSR_PHASE_DEVICE ? "waiting for its own device"
                                          : psr_phase_name(m->says.phase));
    if (m->says.bucket != UINT32_MAX &&
        (m->says.phase == PSR_PHASE_FORWARD || m->says.phase == PSR_PHASE_BACKWARD ||
         m->says.phase == PSR_PHASE_PULL || m->says.phase == PSR_PHASE_PUSH ||
         m->says.phase == PSR_PHASE_RING || m->says.phase == PSR_PHASE_DEVICE))
        put(t, ", bucket %" PRIu32, m->says.bucket);
}

/* "worker 1", "workers 0, 2-4": the chosen members of one role, in the order of ranks. Returns how
 * many there are. */
static size_t put_ranks(text *t, const psr_liveness *l, psr_role role, const bool *chosen)
{
    size_t total = 0, said = 0;
    for (size_t i = 0; i < l->count; i++)
        total += chosen[i] && l->members[i].peer.role == role;
    if (total == 0)
        return 0;
    put(t, "%s%s", psr_role_name(role), total > 1 ? "s" : "");
    for (uint64_t next = 0; said < total;) {
        uint64_t low = UINT64_MAX, high;
        for (size_t i = 0; i < l->count; i++) { /* the lowest rank that has not been written yet */
            uint64_t rank = l->members[i].peer.rank;
            if (chosen[i] && l->members[i].peer.role == role && rank >= next && rank < low)
                low = rank;
        }
        high = low;
        for (bool grew = true; grew;) {
            grew = false;
            for (size_t i = 0; i < l->count; i++)
                if (chosen[i] && l->members[i].peer.role == role &&
                    l->members[i].peer.rank == high + 1) {
                    high++;
                    grew = true;
                }
        }
        put(t, "%s%" PRIu64, said ? ", " : " ", low);
        if (high > low)
            put(t, "%s%" PRIu64, high == low + 1 ? ", " : "-", high);
        said += high - low + 1;
        next = high + 1;
    }
    return total;
}

/* The place of the members that wait: their reports are newer than the last one of the member that
 * fell silent. */
static void put_waiters_place(text *t, const psr_liveness *l, const bool *chosen)
{
    const watched *behind = NULL;
    bool alike = true;
    for (size_t i = 0; i < l->count; i++) {
        const watched *m = &l->members[i];
        if (!chosen[i])
            continue;
        alike = alike && (behind == NULL || (m->says.step == behind->says.step &&
                                             m->says.phase == behind->says.phase &&
                                             m->says.bucket == behind->says.bucket));
        if (behind == NULL || m->says.step < behind->says.step)
            behind = m;
    }
    if (behind == NULL || behind->says.phase == PSR_PHASE_START)
        return;
    put(t, alike ? " in " : ", the one furthest behind in ");
    put_place(t, behind);
}

/* "; shard 0 waits for it in step 5, push, bucket 2", "; workers 0, 2 wait for it". false: no
 * member waits for it. */
static bool put_waiters(text *t, const psr_liveness *l, size_t on)
{
    bool *chosen = calloc(l->count, sizeof *chosen);
    if (chosen == NULL)
        return false;
    for (size_t i = 0; i < l->count; i++)
        chosen[i] = l->members[i].on && l->members[i].says.waits && l->members[i].waits_index == on;
    const char *between = "; ";
    size_t total = 0;
    for (psr_role role = PSR_ROLE_SHARD; role <= PSR_ROLE_WORKER; role++) {
        size_t before = t->used;
        put(t, "%s", between);
        size_t count = put_ranks(t, l, role, chosen);
        if (count == 0 && before < t->size)
            t->at[t->used = before] = '\0';
        else
            between = " and ";
        total += count;
    }
    if (total > 0) {
        put(t, " wait%s for it", total == 1 ? "s" : "");
        put_waiters_place(t, l, chosen);
    }
    free(chosen);
    return total > 0;
}

/* Whether one phrase may describe both. In a circle each waits for another, which need not be
 * said. */
static bool alike(const watched *a, const watched *b)
{
    if (a->peer.role != b->peer.role || a->on != b->on)
        return false;
    if (!a->on)
        return true;
    if (a->reported != b->reported || a->says.waits != b->says.waits)
        return false;
    if (!a->reported)
        return true;
    return a->says.phase == b->says.phase && a->says.step == b->says.step &&
           a->says.bucket == b->says.bucket &&
           (!a->says.waits || a->says.phase == PSR_PHASE_RING ||
            psr_peer_equal(a->says.waits_for, b->says.waits_for));
}

/* "shard 0: step 5, push, bucket 2, waiting for worker 1; workers 0, 2: done". except: an index, or
 * NOBODY. */
static void put_others(text *t, const psr_liveness *l, size_t except)
{
    bool *told = calloc(2 * l->count + 1, sizeof *told), *group = told + l->count;
    if (told == NULL)
        return;
    if (except != NOBODY)
        told[except] = true;
    const char *between = "";
    for (size_t i = 0; i < l->count; i++) {
        if (told[i])
            continue;
        const watched *m = &l->members[i];
        for (size_t k = 0; k < l->count; k++) {
            group[k] = !told[k] && alike(m, &l->members[k]);
            told[k] = told[k] || group[k];
        }
        put(t, "%s", between);
        between = "; ";
        size_t count = put_ranks(t, l, m->peer.role, group);
        put(t, ": ");
        put_place(t, m);
        if (m->on && m->says.waits && (count == 1 || m->says.phase != PSR_PHASE_RING)) {
            put(t, ", waiting for ");
            put_peer(t, m->says.waits_for);
        }
    }
    free(told);
}

static void put_name(text *t, const watched *m)
{
    put_peer(t, m->peer);
    if (m->host[0] != '\0')
        put(t, " on %s", m->host);
}

/* ---- the members that are watched ---- */

static size_t index_of_any(const psr_liveness *l, psr_peer peer)
{
    if (peer.role > PSR_ROLE_WORKER || peer.rank >= l->ranks[peer.role].count)
        return NOBODY;
    return l->ranks[peer.role].at[peer.rank] - 1; /* 0 - 1 is NOBODY */
}

/* The same, among members that are not done. */
static size_t index_of(const psr_liveness *l, psr_peer peer)
{
    size_t i = index_of_any(l, peer);
    return i != NOBODY && (l->members[i].on || l->members[i].gone) ? i : NOBODY;
}

int64_t psr_liveness_silence_ms(int64_t deadline_ms)
{
    const int64_t telling_ms = deadline_ms / 8 < TELLING_MS ? deadline_ms / 8 : TELLING_MS;
    return deadline_ms * 3 / 4 - telling_ms;
}

psr_err psr_liveness_new(int64_t deadline_ms, int64_t now_ms, psr_liveness **ret_liveness)
{
    psr_liveness *l = calloc(1, sizeof *l);
    if (l == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to watch the members");
    l->deadline_ms = deadline_ms;
    l->clock = psr_presence_clock_for(now_ms, deadline_ms);
    l->checked_ms = psr_presence_clock_ms(&l->clock, now_ms);
    l->scheduler_ms = INT64_MIN;
    *ret_liveness = l;
    return PSR_OK;
}

void psr_liveness_free(psr_liveness *liveness)
{
    if (liveness == NULL)
        return;
    for (size_t role = 0; role <= PSR_ROLE_WORKER; role++)
        free(liveness->ranks[role].at);
    free(liveness->members);
    free(liveness);
}

/* Makes room for a member with this name. */
static psr_err make_room(psr_liveness *l, psr_peer peer)
{
    const size_t count = (size_t)peer.rank + 1, had = l->ranks[peer.role].count;
    if (count <= had)
        return PSR_OK;
    size_t *grown = realloc(l->ranks[peer.role].at, count * sizeof *grown);
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to watch %zu members", count);
    memset(grown + had, 0, (count - had) * sizeof *grown);
    l->ranks[peer.role].at = grown;
    l->ranks[peer.role].count = count;
    return PSR_OK;
}

psr_err psr_liveness_add(psr_liveness *liveness, psr_peer peer, const char *host, int64_t now_ms)
{
    if (liveness->count == liveness->capacity) {
        size_t larger = liveness->capacity ? 2 * liveness->capacity : 16;
        watched *grown = realloc(liveness->members, larger * sizeof *grown);
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory to watch %zu members", larger);
        liveness->members = grown;
        liveness->capacity = larger;
    }
    PSR_TRY(make_room(liveness, peer));
    int64_t present_ms = psr_presence_clock_ms(&liveness->clock, now_ms);
    watched *m = &liveness->members[liveness->count++];
    liveness->ranks[peer.role].at[peer.rank] = liveness->count;
    *m = (watched){.peer = peer,
                   .on = true,
                   .heard_ms = present_ms,
                   .moved_ms = present_ms,
                   .waits_index = NOBODY};
    snprintf(m->host, sizeof m->host, "%s", host);
    return PSR_OK;
}

void psr_liveness_done(psr_liveness *liveness, psr_peer peer)
{
    size_t gone = index_of(liveness, peer);
    if (gone == NOBODY)
        return;
    liveness->members[gone].on = false;
    for (size_t i = 0; i < liveness->count; i++) {
        watched *m = &liveness->members[i];
        if (m->waits_index != gone)
            continue;
        m->waits_index = NOBODY;
        /* what it waited for has come, and it has not reported that yet */
        m->moved_ms = m->heard_ms;
    }
}

void psr_liveness_gone(psr_liveness *liveness, psr_peer peer)
{
    size_t i = index_of_any(liveness, peer);
    if (i == NOBODY)
        return;
    liveness->members[i].on = false;
    liveness->members[i].gone = true;
}

void psr_liveness_heard(psr_liveness *liveness, psr_peer peer, int64_t now_ms)
{
    int64_t present_ms = psr_presence_clock_ms(&liveness->clock, now_ms);
    size_t i = index_of_any(liveness, peer);
    if (i != NOBODY)
        liveness->members[i].heard_ms = present_ms;
}

void psr_liveness_scheduler_works(psr_liveness *liveness, int64_t now_ms)
{
    liveness->scheduler_ms = psr_presence_clock_ms(&liveness->clock, now_ms);
}

void psr_liveness_progress(psr_liveness *liveness, psr_peer peer, const psr_msg_progress *report,
                           int64_t now_ms)
{
    int64_t present_ms = psr_presence_clock_ms(&liveness->clock, now_ms);
    size_t i = index_of(liveness, peer);
    if (i == NOBODY || !liveness->members[i].on)
        return;
    watched *m = &liveness->members[i];
    /* What a member waits for, with step and bucket, is part of its progress: a chain of short
     * waits is not one long wait. */
    if (!m->reported || report->counter != m->says.counter || report->waits != m->says.waits ||
        (report->waits && (!psr_peer_equal(report->waits_for, m->says.waits_for) ||
                           report->step != m->says.step || report->bucket != m->says.bucket)))
        m->moved_ms = present_ms;
    m->heard_ms = present_ms;
    m->reported = true;
    m->says = *report;
    m->waits_index = report->waits ? index_of(liveness, report->waits_for) : NOBODY;
    if (m->waits_index == i) /* a member that says it waits for itself must not make a circle */
        m->waits_index = NOBODY;
}

/* ---- who is to blame ---- */

/* The member that it waits for, or NOBODY. */
static size_t awaited(const psr_liveness *l, size_t i)
{
    const watched *m = &l->members[i];
    psr_peer peer;
    if (!m->gone && l->waits_also != NULL && l->waits_also(l->context, m->peer, &peer))
        return index_of(l, peer);
    return !m->gone && m->says.waits ? m->waits_index : NOBODY;
}

/* The end of the chain of waiting from i on: a member that waits for nobody who is watched. In a
 * circle: one member of it. */
static size_t follow(const psr_liveness *l, size_t i, bool *ret_circle)
{
    *ret_circle = false;
    for (size_t hops = 0; hops <= l->count; hops++) {
        const size_t next = awaited(l, i);
        if (next == NOBODY)
            return i;
        i = next;
    }
    *ret_circle = true;
    return i;
}

/* The same, but in a circle it is the member that is furthest behind. */
static size_t end_of_waiting(const psr_liveness *l, size_t i)
{
    bool circle;
    i = follow(l, i, &circle);
    if (!circle)
        return i;
    size_t behind = i;
    for (size_t at = awaited(l, i); at != i; at = awaited(l, at))
        if (l->members[at].says.step < l->members[behind].says.step ||
            (l->members[at].says.step == l->members[behind].says.step && at < behind))
            behind = at;
    return behind;
}

const psr_watched *psr_liveness_silent(const psr_liveness *liveness, int64_t present_ms,
                                       int64_t for_ms)
{
    const watched *worst = NULL;
    for (size_t i = 0; i < liveness->count; i++) {
        const watched *m = &liveness->members[i];
        if (!m->gone && present_ms - m->heard_ms >= for_ms &&
            (worst == NULL || m->heard_ms < worst->heard_ms))
            worst = m;
    }
    return worst;
}

int64_t psr_liveness_silent_at(const psr_liveness *liveness, int64_t for_ms)
{
    int64_t at_ms = INT64_MAX;
    for (size_t i = 0; i < liveness->count; i++)
        if (!liveness->members[i].gone && liveness->members[i].heard_ms + for_ms < at_ms)
            at_ms = liveness->members[i].heard_ms + for_ms;
    return at_ms;
}

static bool blame_silent(const psr_liveness *l, int64_t present_ms, size_t *ret_index)
{
    const watched *worst =
        psr_liveness_silent(l, present_ms, psr_liveness_silence_ms(l->deadline_ms));
    if (worst != NULL)
        *ret_index = (size_t)(worst - l->members);
    return worst != NULL;
}

/* How long a member's counter may stand still. In its start and first step a member compiles, and
 * libraries do work that they do once: a shorter limit would blame members that are not hung. */
static int64_t patience_ms(const psr_liveness *l, const watched *m)
{
    bool first = !m->reported || m->says.phase == PSR_PHASE_START || m->says.step == 0;
    return first && l->deadline_ms < FIRST_MS ? FIRST_MS : l->deadline_ms;
}

/* Reports come several times in a deadline. A member that was silent for half of it may be dead,
 * and will soon be blamed for its silence instead. */
static bool is_hung(const psr_liveness *l, const watched *m, int64_t present_ms)
{
    return m->on && !m->says.waits && present_ms - m->moved_ms >= patience_ms(l, m) &&
           present_ms - m->heard_ms < l->deadline_ms / 2;
}

static bool blame_hung(const psr_liveness *l, int64_t present_ms, size_t *ret_index)
{
    size_t worst = NOBODY;
    for (size_t i = 0; i < l->count; i++)
        if (is_hung(l, &l->members[i], present_ms) &&
            (worst == NOBODY || l->members[i].moved_ms < l->members[worst].moved_ms))
            worst = i;
    *ret_index = worst;
    return worst != NOBODY;
}

/* When all members wait: since when the last of them waits, or the scheduler last worked.
 * INT64_MAX: not all wait. */
static int64_t all_wait_since(const psr_liveness *l)
{
    int64_t since_ms = INT64_MIN;
    for (size_t i = 0; i < l->count; i++) {
        const watched *m = &l->members[i];
        if (m->on && !m->says.waits)
            return INT64_MAX;
        if (m->on && m->moved_ms > since_ms)
            since_ms = m->moved_ms;
    }
    if (since_ms == INT64_MIN)
        return INT64_MAX;
    return since_ms > l->scheduler_ms ? since_ms : l->scheduler_ms;
}

/* The member at which most chains of waiting end. */
static bool blame_stuck(const psr_liveness *l, int64_t present_ms, size_t *ret_index)
{
    int64_t since_ms = all_wait_since(l);
    if (since_ms == INT64_MAX || present_ms - since_ms < l->deadline_ms)
        return false;
    for (size_t i = 0; i < l->count; i++) /* see is_hung */
        if (l->members[i].on && present_ms - l->members[i].heard_ms >= l->deadline_ms / 2)
            return false;
    size_t *ends = calloc(l->count, sizeof *ends), most = 0;
    if (ends == NULL)
        return false;
    for (size_t i = 0; i < l->count; i++)
        if (l->members[i].on && ++ends[end_of_waiting(l, i)] > most)
            most = ends[end_of_waiting(l, i)];
    size_t i = 0;
    while (ends[i] < most)
        i++;
    free(ends);
    *ret_index = i;
    return true;
}

int64_t psr_liveness_present_ms(psr_liveness *liveness, int64_t now_ms)
{
    return psr_presence_clock_ms(&liveness->clock, now_ms);
}

int64_t psr_liveness_look_ms(const psr_liveness *liveness)
{
    return liveness->clock.seen_ms + psr_presence_clock_every_ms(&liveness->clock);
}

int64_t psr_liveness_when_ms(const psr_liveness *liveness, int64_t present_ms)
{
    return present_ms < INT64_MAX - liveness->clock.absent_ms
               ? present_ms + liveness->clock.absent_ms
               : INT64_MAX;
}

int64_t psr_liveness_next(const psr_liveness *liveness)
{
    int64_t next_ms = liveness->checked_ms + psr_presence_clock_every_ms(&liveness->clock);
    const int64_t silent_ms =
        psr_liveness_silent_at(liveness, psr_liveness_silence_ms(liveness->deadline_ms));
    next_ms = silent_ms < next_ms ? silent_ms : next_ms;
    for (size_t i = 0; i < liveness->count; i++) {
        const watched *m = &liveness->members[i];
        const int64_t hung_ms = m->moved_ms + liveness->deadline_ms;
        if (m->on && !m->says.waits && hung_ms < next_ms &&
            hung_ms > liveness->checked_ms) /* else it may be hung or silent: not known yet */
            next_ms = hung_ms;
    }
    int64_t stuck_ms = all_wait_since(liveness);
    if (stuck_ms != INT64_MAX && stuck_ms + liveness->deadline_ms < next_ms &&
        stuck_ms + liveness->deadline_ms > liveness->checked_ms)
        next_ms = stuck_ms + liveness->deadline_ms;
    return next_ms + liveness->clock.absent_ms;
}

bool psr_liveness_check(psr_liveness *liveness, int64_t now_ms, psr_peer *ret_peer, char *line,
                        size_t line_size)
{
    int64_t present_ms = psr_presence_clock_ms(&liveness->clock, now_ms);
    liveness->checked_ms = present_ms;
    size_t i;
    text t = text_in(line, line_size);
    if (blame_silent(liveness, present_ms, &i)) {
        const watched *m = &liveness->members[i];
        put_name(&t, m);
        put(&t, ": no sign of life for %.1f s; %s", (double)(present_ms - m->heard_ms) / 1000,
            m->on ? "last in " : "it was ");
        put_place(&t, m);
        if (m->on && m->says.waits) {
            put(&t, ", waiting for ");
            put_peer(&t, m->says.waits_for);
        }
    } else if (blame_hung(liveness, present_ms, &i)) {
        const watched *m = &liveness->members[i];
        put_name(&t, m);
        put(&t, ": alive, but no progress for %.1f s in ",
            (double)(present_ms - m->moved_ms) / 1000);
        put_place(&t, m);
    } else if (blame_stuck(liveness, present_ms, &i)) {
        const watched *m = &liveness->members[i];
        put_name(&t, m);
        put(&t, ": everybody has waited for %.1f s, it for ",
            (double)(present_ms - all_wait_since(liveness)) / 1000);
        put_peer(&t, m->says.waits_for);
        put(&t, " in ");
        put_place(&t, m);
    } else {
        return false;
    }
    if (!put_waiters(&t, liveness, i) && liveness->count > 1) {
        put(&t, "; ");
        put_others(&t, liveness, i);
    }
    *ret_peer = liveness->members[i].peer;
    return true;
}

void psr_liveness_describe(const psr_liveness *liveness, const psr_peer *except, char *line,
                           size_t line_size)
{
    text t = text_in(line, line_size);
    size_t hidden = NOBODY;
    for (size_t i = 0; i < liveness->count && except != NULL; i++)
        if (psr_peer_equal(liveness->members[i].peer, *except))
            hidden = i;
    put_others(&t, liveness, hidden);
}

const psr_watched *psr_liveness_of(const psr_liveness *liveness, psr_peer peer)
{
    size_t i = index_of_any(liveness, peer);
    return i != NOBODY ? &liveness->members[i] : NULL;
}

const psr_watched *psr_liveness_awaited(const psr_liveness *liveness, const psr_watched *member)
{
    size_t i = awaited(liveness, (size_t)(member - liveness->members));
    return i != NOBODY ? &liveness->members[i] : NULL;
}

const psr_watched *psr_liveness_end_of_waiting(const psr_liveness *liveness,
                                               const psr_watched *member)
{
    bool circle;
    size_t i = follow(liveness, (size_t)(member - liveness->members), &circle);
    return circle ? NULL : &liveness->members[i];
}

void psr_liveness_waits_also(psr_liveness *liveness,
                             bool (*waits)(void *context, psr_peer peer, psr_peer *ret_peer),
                             void *context)
{
    liveness->waits_also = waits;
    liveness->context = context;
}

bool psr_liveness_slowest(psr_liveness *liveness, int64_t now_ms, int64_t since_ms,
                          psr_peer *ret_peer, int64_t *ret_waited_ms)
{
    int64_t present_ms = psr_presence_clock_ms(&liveness->clock, now_ms);
    size_t slowest = NOBODY;
    int64_t longest_ms = since_ms;
    for (size_t i = 0; i < liveness->count; i++) {
        const watched *m = &liveness->members[i];
        if (!m->on || !m->says.waits || present_ms - m->moved_ms <= longest_ms)
            continue;
        size_t end = end_of_waiting(liveness, i);
        psr_phase phase = liveness->members[end].says.phase;
        bool pauses = phase == PSR_PHASE_EVALUATION || phase == PSR_PHASE_CHECKPOINT;
        if (end == i || liveness->members[end].says.waits ||
            (pauses && m->peer.role == PSR_ROLE_SHARD))
            continue;
        longest_ms = present_ms - m->moved_ms;
        slowest = end;
    }
    if (slowest == NOBODY)
        return false;
    *ret_peer = liveness->members[slowest].peer;
    *ret_waited_ms = longest_ms;
    return true;
}
