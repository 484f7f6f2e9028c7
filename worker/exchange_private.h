/* What the two halves of an exchange share: exchange.c (the compute thread's calls) and exchange_thread.c.
 * For those two files only.
 *
 * Down (compute to exchange): the command queue, and a wake of the transport. Up: atomics that only the
 * exchange thread writes, and one mutex and condition for a compute thread that must wait. A writer of those
 * atomics calls psr_exchange_changed after it, which costs one load while nobody waits. */
#ifndef PSR_WORKER_EXCHANGE_PRIVATE_H
#define PSR_WORKER_EXCHANGE_PRIVATE_H

#include "comm/collective.h"
#include "worker/command_queue.h"
#include "worker/exchange.h"
#include "worker/exchange_local.h"

#include <pthread.h>
#include <stdatomic.h>

#define PSR_LINE_MAX 1024

/* What the compute thread waits for. */
typedef enum psr_wait {
    PSR_WAIT_NOTHING,
    PSR_WAIT_BUCKET,     /* wanted_bucket has landed wanted_steps times and is not lent */
    PSR_WAIT_ALL,        /* so have all buckets */
    PSR_WAIT_COLLECTIVE, /* operations_ended == operations_begun */
    PSR_WAIT_ROOM,       /* the command queue has room */
    PSR_WAIT_RESTORE,    /* a RESTORE message */
    PSR_WAIT_START,      /* START */
    PSR_WAIT_HOLD,       /* no hold is on */
    PSR_WAIT_SAVED,      /* the checkpoint of wanted_steps is in place */
    PSR_WAIT_BYE,        /* BYE */
} psr_wait;

/* A RESTORE message that waits for the compute thread. */
typedef struct psr_restored {
    psr_message *message;
    struct psr_restored *next;
} psr_restored;

struct psr_exchange {
    psr_exchange_options options;
    const psr_engine_ops *ops; /* NULL in local mode */
    psr_engine *engine;
    psr_local *local;           /* NULL in the other modes */
    psr_optimizer *optimizer;   /* ring and local; NULL in PS mode */
    psr_collective *collective; /* NULL when this process is the only worker */
    uint32_t *owner;            /* PS mode: shard of each bucket */
    float *weights, *gradients;
    psr_command_queue *queue;

    pthread_t thread;
    bool thread_runs;
    pthread_mutex_t mutex;
    pthread_cond_t condition;

    /* ---- the compute thread's own ---- */
    psr_step step;
    uint32_t reported; /* buckets of this step */
    uint64_t operations_begun;
    double wait_s;
    uint64_t bytes_sent_told, bytes_received_told;

    /* ---- written by the compute thread, read by the exchange thread ---- */
    _Atomic uint64_t counter; /* of progress */
    _Atomic int phase;
    _Atomic uint64_t evaluating; /* 1 + samples counted; 0: no evaluation goes on */
    _Atomic int wait;            /* psr_wait */
    _Atomic uint32_t wanted_bucket;
    _Atomic uint64_t wanted_steps;
    _Atomic bool quit;

    /* ---- written by the exchange thread, read by the compute thread ---- */
    _Atomic uint64_t *landed; /* [buckets]: steps whose weights the bucket has */
    _Atomic uint64_t operations_ended;
    _Atomic bool started, bye;
    _Atomic uint64_t saved_steps; /* of the last checkpoint in place */
    _Atomic int status;           /* psr_err: of the exchange, for good */
    _Atomic uint64_t bytes_sent, bytes_received, staleness;
    _Atomic int64_t exchange_ns;

    /* ---- under the mutex ---- */
    char failure[PSR_LINE_MAX]; /* status' line; written once, before status */
    bool held;
    bool any_begun;
    uint64_t begun;   /* the last step begun */
    uint64_t stop_at; /* the last step to take */
    psr_restored *restored, **restored_end;

    /* ---- the exchange thread's own ---- */
    bool told_done;
    uint64_t operations_taken;
    /* The steps now in exchange: when the first gradient was ready, and how many buckets have landed. At most
     * two of a bucket's steps overlap, so the low bit of the step tells them apart. */
    int64_t first_ready_ns[2];
    uint32_t landed_count[2];
};

/* Something that the compute thread may wait for has changed. Any thread. */
void psr_exchange_changed(psr_exchange *exchange);

/* The exchange has failed: keeps status and line (the first one stays) and lets the compute thread know. Any
 * thread. */
void psr_exchange_set_failed(psr_exchange *exchange, psr_err status, const char *line);

/* exchange_thread.c */
void *psr_exchange_thread(void *exchange);
psr_err psr_exchange_send(void *exchange, psr_peer to, const psr_head *head, const psr_payload *payload);
psr_err psr_exchange_landed(void *exchange, uint64_t step, uint32_t bucket);

#endif
