/* A whole run in one process and in virtual time, from JOIN to BYE: the scheduler, shards and
 * workers as they are (ps/'s machines, comm's members and loops, worker/'s session and exchange) on
 * the in-process network of net/transport.h. Only what computes is played: each worker has a
 * compute thread, which is a function with a stack of its own that gives way whenever it waits or
 * computes. psr_emulation_options says what it does, and what the scheduler is told of.
 *
 * `psring predict` plays a training on it, over links (bench/emulation/links.h); the tests of
 * tests/unit/cluster/ check numbers and endings on it. Both see processes as they are here.
 *
 * Words: a process is the scheduler, a shard or a worker; a turn is what a process does when
 * something has come for it or its time has come; a moment is when something happens. One
 * thread. */
#ifndef PSR_BENCH_EMULATION_H
#define PSR_BENCH_EMULATION_H

#include "bench/emulation/moments.h"
#include "comm/loop.h"
#include "comm/observer.h"
#include "ps/parts.h"
#include "ps/scheduler/scheduler.h"
#include "ps/shard/shard_run.h"
#include "ps/shard_start.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/peers.h"

#include <ucontext.h>

#define PSR_EMULATION_NEVER INT64_MAX
#define PSR_EMULATION_LINE_MAX 1024

typedef struct psr_emulation psr_emulation;
typedef struct psr_emulated_worker psr_emulated_worker;

typedef enum psr_emulated_state {
    PSR_EMULATED_NOT_YET,
    PSR_EMULATED_RUNS,
    PSR_EMULATED_STOPPED, /* takes no turn; what comes waits for it */
    PSR_EMULATED_LEFT,    /* in order */
    PSR_EMULATED_FAILED,  /* by itself: status and line */
    PSR_EMULATED_KILLED,
} psr_emulated_state;

/* A process; the first field of worker and shard. The scheduler's has no member. */
typedef struct psr_emulated {
    psr_emulation *in;
    psr_peer self;
    psr_emulated_state state;
    psr_provision provision;
    psr_transport *transport;
    psr_member *member;
    int64_t starts_us;
    int64_t tick_us; /* when it wants to be told the time */
    psr_err status;
    char line[PSR_EMULATION_LINE_MAX];
} psr_emulated;

typedef struct psr_emulated_shard {
    psr_emulated process;
    psr_config config;     /* what it is told of the run's */
    psr_shard_start start; /* these, once it has joined */
    psr_loop *loop;
    psr_loop_waiter waiter; /* its clock */
    psr_shard_run *run;
} psr_emulated_shard;

struct psr_emulated_worker {
    psr_emulated process;
    void *played; /* the user's */
    psr_peers peers;
    psr_session *session; /* this and what follows, once it has joined */
    psr_exchange *exchange;
    uint64_t first_step;

    /* Its compute thread. */
    ucontext_t context;
    void *stack;
    psr_loop_waiter waiter;
    psr_observer observer;
    int64_t wakes_us; /* when it goes on; PSR_EMULATION_NEVER: it waits for a change */
    bool computes;    /* psr_emulated_compute */
    bool hung;        /* it goes on no more once it computes */
    bool ended;
    psr_err result; /* of its end */
};

/* What is played. Pointers may be NULL unless it is said. */
typedef struct psr_emulation_play {
    void *context;
    /* On a worker's compute thread, once it has joined: all until psr_session_done has returned.
     * Must be there. */
    psr_err (*train)(void *context, psr_emulated_worker *worker);
    /* A worker has been welcomed; its exchange is there. */
    psr_err (*welcomed)(void *context, psr_emulated_worker *worker);
    /* The scheduler's events (ps/scheduler/scheduler.h). */
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data,
                          size_t offset, size_t count);
    psr_err (*last_checkpoint)(void *context, uint64_t step);
    psr_err (*restore)(void *context);
    void (*started)(void *context);
    void (*change_happened)(void *context);
    void (*change_answered)(void *context);
    /* After each message that the scheduler has taken while it runs. */
    void (*scheduler_took)(void *context);
} psr_emulation_play;

/* All borrowed for life. */
typedef struct psr_emulation_options {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    uint64_t steps, first_step;
    const psr_host_ranks *hosts; /* whose workers share memory; NULL: none do */
    psr_sim *sim;
    /* Arenas that all workers have in common, since nobody looks at the numbers; NULL: each has its
     * own. As long as the layout. */
    float *weights, *gradients;
    bool weights_in_place;
    uint32_t stack_bytes; /* of a compute thread */
    psr_emulation_play play;
    /* Decides how long a computation takes that needs so many seconds with a processor to itself:
     * it calls psr_emulated_wake when that is over. NULL: it takes these seconds. */
    void *computing;
    void (*compute)(void *computing, psr_emulated_worker *worker, double seconds);
    /* Hears what workers and shards observe (comm/observer.h), in virtual time; NULL: nobody. */
    void *observing;
    void (*see)(void *observing, psr_peer who, const psr_observed *observed);
} psr_emulation_options;

struct psr_emulation {
    psr_emulation_options options;
    psr_config config; /* the scheduler's */
    uint32_t n, s;     /* workers, shards */
    psr_sim *sim;
    psr_emulated scheduler_process;
    psr_scheduler *scheduler;
    psr_coordinator *coordinator; /* the scheduler's */
    psr_emulated_worker *workers;
    psr_emulated_shard *shards;
    psr_err status; /* how the run ended, as the scheduler says, with its line */
    char line[PSR_EMULATION_LINE_MAX];
    int64_t joined_us, decided_us; /* PSR_EMULATION_NEVER: not yet */
    /* What psr_emulation_next_us has found; who NULL: a delivery. */
    const psr_emulated *failed; /* the first that has by itself; NULL: none has */
    psr_moments moments;
    bool began;
    int64_t next_us;
    psr_emulated *next_who;
    bool next_computes;
    ucontext_t events; /* what resumes the compute threads */
};

/* Makes the processes; each starts at 0, unless its starts_us is set to another time before the
 * first psr_emulation_step. NOMEM, and what a scheduler refuses. Takes the sim in any case, also if
 * it fails. The caller owns *ret_emulation: psr_emulation_free. */
PSR_MUST_CHECK psr_err psr_emulation_new(const psr_emulation_options *options,
                                         psr_emulation **ret_emulation);
/* Frees the sim too. NULL allowed. freed: called for each worker when its transport is gone; NULL:
 * nobody. */
void psr_emulation_free(psr_emulation *emulation,
                        void (*freed)(void *context, psr_emulated_worker *worker));

/* The earliest moment of what happens by itself; PSR_EMULATION_NEVER: nothing. */
int64_t psr_emulation_next_us(psr_emulation *emulation);
/* Lets the moment happen that psr_emulation_next_us has just told of; there is one. Of several at
 * one time deliveries come first, so that nobody is called silent whose words are there. */
void psr_emulation_step(psr_emulation *emulation);
/* All processes have ended, except those that hang. */
bool psr_emulation_over(const psr_emulation *emulation);
uint32_t psr_emulation_count(const psr_emulation *emulation); /* workers and shards */
psr_emulated *psr_emulation_at(const psr_emulation *emulation, uint32_t i);
psr_emulated *psr_emulation_of(psr_emulation *emulation, psr_peer peer);
bool psr_emulated_is_over(const psr_emulated *process);
/* A worker that hangs. */
bool psr_emulated_hangs(const psr_emulated *process);
int64_t psr_emulation_now_us(const psr_emulation *emulation);
int64_t psr_emulation_now_ms(const psr_emulation *emulation);

/* A process takes a turn. */
void psr_emulated_turn(psr_emulated *process);
/* To be called once a process's state, its starts_us or a worker's `hung` were changed from
 * outside, if that was after the first psr_emulation_next_us. */
void psr_emulated_changed(psr_emulated *process);
/* A worker's computation is over now: see psr_emulation_options.compute. */
void psr_emulated_wake(psr_emulated_worker *worker);

/* For a worker's compute thread: computes for that long. Fails when the session has failed. */
PSR_MUST_CHECK psr_err psr_emulated_compute(psr_emulated_worker *worker, psr_phase phase,
                                            int64_t for_us);

#endif
