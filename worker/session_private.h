/* What session.c, session_hold.c, session_checkpoint.c, exchange.c and exchange_thread.c share of a
 * session. For those files only. */
#ifndef PSR_WORKER_SESSION_PRIVATE_H
#define PSR_WORKER_SESSION_PRIVATE_H

#include "comm/command_queue.h"
#include "comm/loop.h"
#include "comm/operations/early.h"
#include "comm/view/view.h"
#include "comm/view/view_queue.h"
#include "worker/exchange/exchange.h"
#include "worker/session.h"

#include <pthread.h>
#include <stdatomic.h>

/* The commands of the exchange, which it carries out on the loop's thread. */
typedef enum psr_exchange_commands {
    PSR_COMMAND_READY = PSR_COMMAND_OWNER, /* the gradient of a bucket is in the arena */
    PSR_COMMAND_END,                       /* a step of a rank has ended */
    PSR_COMMAND_OPERATION,                 /* psr_exchange.called, an operation of all workers */
    /* array `rank` of the bucket's state to object; see fetch of psr_engine_ops */
    PSR_COMMAND_FETCH,
    PSR_COMMAND_BIND,        /* psr_exchange.next, the next view */
    PSR_COMMAND_TRACE_BEGIN, /* of the session's tracer, as the next one */
    PSR_COMMAND_TRACE_END,
} psr_exchange_commands;

/* What the compute thread waits for. */
typedef enum psr_wait {
    PSR_WAIT_NOTHING,
    PSR_WAIT_BUCKET,    /* wanted_bucket has landed wanted_steps times and is not lent */
    PSR_WAIT_ALL,       /* the same for all buckets */
    PSR_WAIT_NORM,      /* the norms of the gradient of wanted_steps' last one are known */
    PSR_WAIT_OPERATION, /* the last operation of all workers has ended, and nothing of it is lent */
    PSR_WAIT_FETCHED,   /* what was fetched of the optimizer's state is there */
    PSR_WAIT_FENCES,    /* the device has written all gradients that were reported */
    PSR_WAIT_BOUND,     /* the exchange has changed to its next view */
    PSR_WAIT_ROOM,      /* the command queue has room */
    PSR_WAIT_RESTORE,   /* a RESTORE message */
    PSR_WAIT_START,     /* START */
    PSR_WAIT_HOLD,      /* no hold is on, and the view of the step that was asked for is there */
    PSR_WAIT_SAVED,     /* the checkpoint of wanted_steps is in place */
    PSR_WAIT_TRACED,    /* the trace has been sent */
    PSR_WAIT_BYE,       /* BYE */
} psr_wait;

struct psr_session {
    psr_session_options options;
    psr_exchange *exchange; /* the exchange of this session: borrowed while it exists */
    psr_loop *loop;

    /* ---- used by the compute thread only ---- */
    uint64_t step;         /* the step begun last, or about to begin */
    double wait_s;         /* since the figures were last taken */
    double asked_s;        /* when psr_session_may_begin was called for that step */
    const psr_view *given; /* held: the last one that psr_session_view_at returned */
    bool traces;           /* the tracer records */
    bool traced;           /* its end was asked for */

    /* ---- written by the compute thread, read by the exchange thread ---- */
    _Atomic uint64_t counter; /* counts progress */
    _Atomic int phase;
    _Atomic uint64_t evaluating; /* 1 + samples counted; 0: no evaluation goes on */
    _Atomic int wait;            /* psr_wait */
    _Atomic uint32_t wanted_bucket;
    _Atomic uint64_t wanted_steps;

    /* ---- written by the exchange thread, read by the compute thread ---- */
    _Atomic bool started, bye, trace_sent;
    _Atomic uint64_t saved_steps; /* those of the last checkpoint in place */

    /* ---- under the mutex ---- */
    pthread_mutex_t mutex;
    bool held;
    bool held_for_change;
    bool ends_here;        /* no step is taken until the scheduler has stopped the run */
    psr_view_queue views;  /* views that wait for their first step */
    uint32_t newest_epoch; /* of all views that came */
    uint64_t planned_step; /* next_step of the newest view; 0: none is planned */
    uint64_t asked;        /* the step of the present psr_session_may_begin */
    bool any_begun;
    uint64_t begun;      /* the last step begun */
    uint64_t stop_at;    /* the last step to take */
    psr_early *restored; /* RESTORE messages that wait for the compute thread */
    psr_blocks *pieces;  /* of checkpoints; NULL: not opened yet. The compute thread's */
    bool said_done;
};

/* ---- called by the compute thread ---- */

/* The pool of checkpoints' pieces. */
psr_err psr_session_open_pieces(psr_session *session);

/* The status with which the session has failed, with its line as the detail. */
psr_err psr_session_failure(psr_session *session);
/* Waits, in the present phase. */
psr_err psr_session_wait_for(psr_session *session, psr_wait wait);
/* Waits; reports give that phase meanwhile. */
psr_err psr_session_wait(psr_session *session, psr_wait wait, psr_phase phase);
/* On the exchange thread: carries out a command of the tracer. */
psr_err psr_session_take_trace(psr_session *session, bool begins);
/* Hands a command to the thread; waits for room. A SEND command's object is consumed, on failure
 * too. */
psr_err psr_session_command(psr_session *session, const psr_command *command);
/* Copies bytes (0 allowed) into a message to a peer. */
psr_err psr_session_send(psr_session *session, psr_peer to, const psr_head *head, const void *data,
                         size_t bytes);

/* ---- session_hold.c ---- */

/* Whether the step that the compute thread asks for must wait for a decision. Any thread. */
bool psr_session_is_held_back(psr_session *session);
/* HOLD, STOP_AT and VIEW, on the loop's thread. */
psr_err psr_session_take_hold(void *session, psr_message **message);
psr_err psr_session_take_stop_at(void *session, psr_message **message);
psr_err psr_session_take_view(void *session, psr_message **message);

#endif
