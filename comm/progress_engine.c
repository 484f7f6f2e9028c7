#include "comm/progress_engine.h"

#include "base/clock.h"
#include "base/system/thread.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MS_NS ((int64_t)1000000)
#define DAY_NS (86400000 * MS_NS)

/* An owner that calls again within this time receives its messages itself: the thread sleeps
 * meanwhile. The loop may notice the time by so much later than it asked for. */
#define AWAY_NS (10 * MS_NS)
/* The same while something is under way, for an owner that has lately come back at once, as one
 * does that starts a request and then waits for it. To wake the thread for each such request costs
 * ten times what a small message takes. */
#define AWAY_BRIEFLY_NS (MS_NS / 2)
#define AT_ONCE_NS (MS_NS / 10)
#define LATE_MOST 2 /* so many times in a row: it does not come back at once any more */

typedef struct goal {
    bool (*reached)(void *context);
    void *context;
    int64_t end_ns; /* INT64_MAX: none */
} goal;

typedef enum turn { NOBODYS, THREADS, OWNERS } turn;

typedef enum thread_state {
    AWAKE,
    POLLS,        /* in the transport, for messages, until until_ms */
    STANDS_ASIDE, /* until the owner gives the turn back */
    LOOKS_LATER,  /* to see whether the owner has come back, at look_ns */
} thread_state;

typedef enum owner_state {
    DOES_NOT_WAIT,
    WAITS_IN_CONDITION, /* in the condition for_owner */
    WAITS_IN_TRANSPORT,
    WAITS_STEP_BY_STEP, /* in the waiter */
} owner_state;

struct psr_progress_engine {
    psr_progress_engine_options options;
    pthread_t thread;
    bool thread_runs;
    _Atomic bool over;
    _Atomic int owner;   /* an owner_state */
    _Atomic bool wanted; /* the owner waits for the turn, which the thread or a submitter has */
    _Atomic bool quit;

    pthread_mutex_t mutex;
    pthread_cond_t for_owner, for_thread;
    /* Protected by mutex: */
    turn turn;
    thread_state state;
    int64_t until_ms, look_ns;
    /* When and how the owner last gave the turn back: */
    int64_t given_back_ns;
    bool busy;
    bool unattended;
    unsigned late; /* how many times in a row it has not come back at once; at most LATE_MOST */
    /* The owner waits in its condition for this and nothing else: a change that does not reach it
     * wakes nobody. NULL: any change may. */
    goal *goal;
};

/* ---- waiting ---- */

static void wait_in_condition(psr_progress_engine *e, pthread_cond_t *condition, int64_t left_ns)
{
    struct timespec until = psr_clock_after_ns(left_ns < DAY_NS ? left_ns : DAY_NS);
    pthread_cond_timedwait(condition, &e->mutex, &until);
}

static void wait_in_transport(const psr_progress_engine *e, int64_t until_ms)
{
    int64_t now_ms = psr_clock_ms(), left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    psr_transport_wait(e->options.transport, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
}

static bool is_reached(void *context)
{
    goal *g = context;
    return g->reached(g->context);
}

/* The fence pairs with the one in psr_progress_engine_changed: either the waiter sees what was
 * written before that call, or that call sees that somebody waits. */
static void waits(psr_progress_engine *e, owner_state how)
{
    atomic_store_explicit(&e->owner, how, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

void psr_progress_engine_changed(psr_progress_engine *engine)
{
    atomic_thread_fence(memory_order_seq_cst);
    switch ((owner_state)atomic_load_explicit(&engine->owner, memory_order_relaxed)) {
    case DOES_NOT_WAIT:
        return;
    case WAITS_IN_CONDITION:
        pthread_mutex_lock(&engine->mutex);
        if (engine->goal == NULL || is_reached(engine->goal))
            pthread_cond_signal(&engine->for_owner);
        pthread_mutex_unlock(&engine->mutex);
        return;
    case WAITS_IN_TRANSPORT:
        psr_transport_wake(engine->options.transport);
        return;
    case WAITS_STEP_BY_STEP:
        engine->options.waiter->changed(engine->options.waiter->context);
        return;
    }
}

/* ---- a turn ---- */

/* Does all that there is to do, or stops earlier when enough returns true. *ret_more: it has
 * stopped earlier. */
static psr_err drive(psr_progress_engine *e, bool (*enough)(void *context), void *context,
                     int64_t *ret_next_ms, bool *ret_more)
{
    bool any = true;
    while (any && !enough(context)) {
        PSR_TRY(e->options.pass(e->options.context, psr_clock_ms(), ret_next_ms));
        PSR_TRY(e->options.take(e->options.context, psr_clock_ms(), &any));
    }
    *ret_more = any;
    return PSR_OK;
}

/* Whoever has the turn has failed, and gives it back for good. */
static void fail(psr_progress_engine *e, psr_err err)
{
    e->options.failed(e->options.context, err);
    pthread_mutex_lock(&e->mutex);
    atomic_store_explicit(&e->over, true, memory_order_release);
    e->turn = NOBODYS;
    pthread_cond_signal(&e->for_owner);
    pthread_cond_signal(&e->for_thread);
    pthread_mutex_unlock(&e->mutex);
    psr_transport_wake(e->options.transport);
}

/* ---- the thread ---- */

static bool is_wanted(const psr_progress_engine *e)
{
    return atomic_load_explicit(&e->wanted, memory_order_relaxed);
}

static bool is_interrupted(void *context)
{
    psr_progress_engine *e = context;
    return is_wanted(e) || atomic_load_explicit(&e->quit, memory_order_relaxed);
}

/* With mutex held. When the thread may take the turn if the owner does not come back before. */
static int64_t away_until_ns(const psr_progress_engine *e)
{
    if (!e->busy)
        return e->given_back_ns + AWAY_NS;
    return e->late < LATE_MOST && !e->unattended ? e->given_back_ns + AWAY_BRIEFLY_NS : INT64_MIN;
}

static void stand_aside(psr_progress_engine *e, int64_t now_ns)
{
    if (e->turn == OWNERS || is_wanted(e)) {
        e->state = STANDS_ASIDE;
        pthread_cond_wait(&e->for_thread, &e->mutex);
    } else {
        e->state = LOOKS_LATER;
        e->look_ns = away_until_ns(e);
        wait_in_condition(e, &e->for_thread, e->look_ns - now_ns);
    }
    e->state = AWAKE;
}

/* Takes the turn, works, gives it back, and sleeps. */
static void take_turn(psr_progress_engine *e)
{
    int64_t next_ms = INT64_MAX;
    bool more;
    e->turn = THREADS;
    pthread_mutex_unlock(&e->mutex);
    psr_err err = drive(e, is_interrupted, e, &next_ms, &more);
    if (err != PSR_OK) {
        fail(e, err);
        pthread_mutex_lock(&e->mutex);
        return;
    }
    pthread_mutex_lock(&e->mutex);
    e->turn = NOBODYS;
    if (is_interrupted(e)) {
        pthread_cond_signal(&e->for_owner);
        return;
    }
    e->state = POLLS;
    e->until_ms = next_ms;
    pthread_mutex_unlock(&e->mutex);
    wait_in_transport(e, next_ms);
    pthread_mutex_lock(&e->mutex);
    e->state = AWAKE;
}

static bool has_quit(void *context)
{
    return atomic_load_explicit(&((psr_progress_engine *)context)->quit, memory_order_relaxed);
}

psr_err psr_progress_engine_run(psr_progress_engine *engine)
{
    psr_err err = PSR_OK;
    int64_t next_ms = INT64_MAX;
    bool more;
    while (err == PSR_OK && !has_quit(engine)) {
        err = drive(engine, has_quit, engine, &next_ms, &more);
        if (err == PSR_OK && !has_quit(engine))
            wait_in_transport(engine, next_ms);
    }
    return err;
}

static void *run_always(void *context)
{
    psr_progress_engine *e = context;
    psr_err err = psr_progress_engine_run(e);
    if (err != PSR_OK)
        fail(e, err);
    return NULL;
}

static void *run_by_turns(void *context)
{
    psr_progress_engine *e = context;
    pthread_mutex_lock(&e->mutex);
    while (!atomic_load(&e->quit) && !atomic_load(&e->over)) {
        int64_t now_ns = psr_clock_ns();
        if (e->turn == OWNERS || is_wanted(e) || now_ns < away_until_ns(e))
            stand_aside(e, now_ns);
        else
            take_turn(e);
    }
    pthread_mutex_unlock(&e->mutex);
    return NULL;
}

/* ---- the owner ---- */

bool psr_progress_engine_over(const psr_progress_engine *engine)
{
    return atomic_load_explicit(&engine->over, memory_order_acquire);
}

/* Wakes the thread if it would not see in time, where it sleeps, what is left to do. more: there
 * may be messages: the transport may have told of them already, and tells of each only once. */
static void give_back(psr_progress_engine *e, int64_t next_ms, bool more)
{
    bool busy = e->options.busy(e->options.context);
    pthread_mutex_lock(&e->mutex);
    e->turn = NOBODYS;
    e->given_back_ns = psr_clock_ns();
    e->busy = busy;
    bool polls_too_long = e->state == POLLS && (more || next_ms < e->until_ms);
    if (is_wanted(e))
        pthread_cond_signal(&e->for_owner);
    if (e->state == STANDS_ASIDE || (e->state == LOOKS_LATER && away_until_ns(e) < e->look_ns))
        pthread_cond_signal(&e->for_thread);
    pthread_mutex_unlock(&e->mutex);
    if (polls_too_long)
        psr_transport_wake(e->options.transport);
}

static bool turn_is_free(const psr_progress_engine *e)
{
    return e->turn == NOBODYS && !atomic_load(&e->over);
}

/* With mutex held, when the turn is free. */
static void take_it(psr_progress_engine *e)
{
    e->turn = OWNERS;
    const bool at_once = psr_clock_ns() - e->given_back_ns < AT_ONCE_NS;
    e->late = at_once ? 0 : e->late + (e->late < LATE_MOST);
}

/* Takes the turn to submit something, if it is free. A thread of the owner that waits for it takes
 * what was submitted itself. */
static bool takes_turn(psr_progress_engine *e)
{
    if (e->options.busy == NULL)
        return false;
    pthread_mutex_lock(&e->mutex);
    bool mine = turn_is_free(e) && e->thread_runs && !is_wanted(e);
    if (mine)
        take_it(e);
    pthread_mutex_unlock(&e->mutex);
    return mine;
}

void psr_progress_engine_submit(psr_progress_engine *engine)
{
    psr_progress_engine *e = engine;
    if (!takes_turn(e)) {
        if (e->options.transport != NULL)
            psr_transport_wake(e->options.transport);
        return;
    }
    int64_t next_ms = INT64_MAX;
    psr_err err = e->options.pass(e->options.context, psr_clock_ms(), &next_ms);
    if (err == PSR_OK)
        give_back(e, next_ms, false);
    else
        fail(e, err);
}

static int64_t left_ns_of(const goal *g)
{
    return g->end_ns == INT64_MAX ? INT64_MAX : g->end_ns - psr_clock_ns();
}

static int64_t end_ms_of(const goal *g)
{
    return g->end_ns == INT64_MAX ? INT64_MAX : (g->end_ns + MS_NS - 1) / MS_NS;
}

/* false: the goal was reached, or the time or the loop ended, before the turn was free. */
static bool wait_for_turn(psr_progress_engine *e, goal *g)
{
    pthread_mutex_lock(&e->mutex);
    if (e->turn != NOBODYS) {
        atomic_store(&e->wanted, true);
        waits(e, WAITS_IN_CONDITION);
        for (int64_t left_ns = left_ns_of(g);
             e->turn != NOBODYS && !atomic_load(&e->over) && left_ns > 0 && !is_reached(g);
             left_ns = left_ns_of(g))
            wait_in_condition(e, &e->for_owner, left_ns);
        waits(e, DOES_NOT_WAIT);
        atomic_store(&e->wanted, false);
    }
    bool mine = turn_is_free(e) && !is_reached(g);
    if (mine)
        take_it(e);
    else if (e->state == STANDS_ASIDE) /* for this caller, which goes on without the turn */
        pthread_cond_signal(&e->for_thread);
    pthread_mutex_unlock(&e->mutex);
    return mine;
}

static void drive_until(psr_progress_engine *e, goal *g)
{
    int64_t next_ms = INT64_MAX;
    bool more = true;
    for (;;) {
        psr_err err = drive(e, is_reached, g, &next_ms, &more);
        if (err != PSR_OK) {
            fail(e, err);
            return;
        }
        if (is_reached(g) || left_ns_of(g) <= 0)
            break;
        waits(e, WAITS_IN_TRANSPORT);
        if (!is_reached(g) && !psr_transport_look(e->options.transport))
            wait_in_transport(e, next_ms < end_ms_of(g) ? next_ms : end_ms_of(g));
        waits(e, DOES_NOT_WAIT);
    }
    give_back(e, next_ms, more);
}

/* Waits for a change by somebody else, at most so long. */
static void wait_beside(psr_progress_engine *e, goal *g, int64_t most_ms)
{
    int64_t left_ns = left_ns_of(g), most_ns = most_ms < DAY_NS / MS_NS ? most_ms * MS_NS : DAY_NS;
    pthread_mutex_lock(&e->mutex);
    e->goal = g;
    waits(e, WAITS_IN_CONDITION);
    if (!is_reached(g) && left_ns > 0 && most_ns > 0)
        wait_in_condition(e, &e->for_owner, most_ns < left_ns ? most_ns : left_ns);
    waits(e, DOES_NOT_WAIT);
    e->goal = NULL;
    pthread_mutex_unlock(&e->mutex);
}

/* The owner does not come back before the goal is reached, so the thread need not wait for it. */
static void let_thread_begin(psr_progress_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    e->late = LATE_MOST;
    if (e->state == LOOKS_LATER && away_until_ns(e) < e->look_ns)
        pthread_cond_signal(&e->for_thread);
    pthread_mutex_unlock(&e->mutex);
}

/* A failure ends it too. */
static void leave_to_thread(psr_progress_engine *e, goal *g)
{
    let_thread_begin(e);
    while (!is_reached(g) && left_ns_of(g) > 0 && !psr_progress_engine_over(e))
        wait_beside(e, g, INT64_MAX);
}

/* A wait with a time is for the time only: there, time passes by other clocks than this process's
 * own. */
static bool wait_step_by_step(psr_progress_engine *e, goal *g, int64_t timeout_ns)
{
    const psr_loop_waiter *waiter = e->options.waiter;
    if (timeout_ns != INT64_MAX) {
        waiter->pass(waiter->context, (double)timeout_ns / 1e9);
        return is_reached(g);
    }
    waits(e, WAITS_STEP_BY_STEP);
    while (!is_reached(g))
        waiter->pause(waiter->context);
    waits(e, DOES_NOT_WAIT);
    return true;
}

static int64_t do_alone(psr_progress_engine *e)
{
    return e->options.alone != NULL ? e->options.alone(e->options.context) : INT64_MAX;
}

bool psr_progress_engine_wait(psr_progress_engine *engine, bool drives,
                              bool (*reached)(void *context), void *context, int64_t timeout_ns)
{
    const int64_t begin_ns = psr_clock_ns();
    goal g = {reached, context,
              timeout_ns > INT64_MAX - begin_ns ? INT64_MAX : begin_ns + timeout_ns};
    if (engine->options.waiter != NULL)
        return wait_step_by_step(engine, &g, timeout_ns);
    bool is = is_reached(&g);
    while (!is) {
        if (psr_progress_engine_over(engine))
            wait_beside(engine, &g, do_alone(engine));
        else if (!drives || engine->options.busy == NULL)
            leave_to_thread(engine, &g);
        else if (wait_for_turn(engine, &g))
            drive_until(engine, &g);
        is = is_reached(&g);
        if (left_ns_of(&g) <= 0)
            break;
    }
    return is;
}

void psr_progress_engine_unattended(psr_progress_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->unattended = true;
    if (engine->state == LOOKS_LATER)
        pthread_cond_signal(&engine->for_thread);
    pthread_mutex_unlock(&engine->mutex);
}

/* ---- life ---- */

psr_err psr_progress_engine_start(psr_progress_engine *engine)
{
    if (engine->options.transport == NULL)
        return PSR_OK;
    void *(*run)(void *context) = engine->options.busy != NULL ? run_by_turns : run_always;
    PSR_TRY(psr_thread_start("psr-progress", run, engine, &engine->thread));
    engine->thread_runs = true;
    return PSR_OK;
}

void psr_progress_engine_quit(psr_progress_engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    atomic_store(&engine->quit, true);
    pthread_cond_signal(&engine->for_thread);
    pthread_mutex_unlock(&engine->mutex);
    psr_transport_wake(engine->options.transport);
}

void psr_progress_engine_stop(psr_progress_engine *engine)
{
    if (engine->thread_runs) {
        psr_progress_engine_quit(engine);
        pthread_join(engine->thread, NULL);
        engine->thread_runs = false;
    }
    atomic_store(&engine->over, true);
}

psr_err psr_progress_engine_new(const psr_progress_engine_options *options,
                                psr_progress_engine **ret_engine)
{
    psr_progress_engine *e = calloc(1, sizeof *e);
    if (e == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a progress engine");
    e->options = *options;
    e->busy = true; /* the owner has not had a turn yet */
    e->late = LATE_MOST;
    atomic_store(&e->over, options->transport == NULL);
    pthread_mutex_init(&e->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&e->for_owner, &monotonic);
    pthread_cond_init(&e->for_thread, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *ret_engine = e;
    return PSR_OK;
}

void psr_progress_engine_free(psr_progress_engine *engine)
{
    if (engine == NULL)
        return;
    pthread_cond_destroy(&engine->for_owner);
    pthread_cond_destroy(&engine->for_thread);
    pthread_mutex_destroy(&engine->mutex);
    free(engine);
}
