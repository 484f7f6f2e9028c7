/* What a library's sums (mpi_sums.h, gpu_sums.h) hand over between two threads: the owner starts
 * sums and takes those that have ended; the sums' own thread makes the library's calls. Plain data
 * under one mutex; each function says whose it is. */
#ifndef PSR_WORKER_EXCHANGE_SUM_QUEUE_H
#define PSR_WORKER_EXCHANGE_SUM_QUEUE_H

#include "base/err.h"
#include "base/span.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PSR_SUM_FAILURE_MAX 1024

/* A sum that was started. What is summed is at values, or at span in an arena that both ends know;
 * borrowed until the sum has ended. */
typedef struct psr_started_sum {
    uint32_t number; /* the owner's name for it */
    float *values;
    psr_span span;
} psr_started_sum;

typedef struct psr_sum_queue {
    pthread_mutex_t mutex;
    /* a sum was started, or the thread shall end; the sums may signal other things by it too */
    pthread_cond_t condition;
    uint32_t most;            /* most sums that may be under way at a time */
    psr_started_sum *started; /* [most], in order: those that the thread has not taken */
    uint32_t started_count;
    uint32_t *ended; /* [most] numbers, in order: those that the owner has not taken */
    uint32_t ended_count;
    uint32_t under_way; /* sums that were started and that the owner has not taken back */
    bool quit;          /* the owner has let go, and hears no more */
    psr_err status;     /* for good */
    char failure[PSR_SUM_FAILURE_MAX];
    void *context;
    void (*changed)(void *context); /* a sum has ended, or all have failed; on the sums' thread */
} psr_sum_queue;

/* NOMEM; then psr_sum_queue_done follows too. The queue must not move. */
PSR_MUST_CHECK psr_err psr_sum_queue_init(psr_sum_queue *queue, uint32_t most,
                                          void (*changed)(void *context), void *context);
/* When the sums' thread has ended. */
void psr_sum_queue_done(psr_sum_queue *queue);

/* ---- the owner's ---- */

/* USAGE: `most` are under way. */
PSR_MUST_CHECK psr_err psr_sum_queue_start(psr_sum_queue *queue, psr_started_sum sum);
/* The next sum that has ended; *ret_any false: none. What the thread has failed with, once all that
 * had ended before are taken. */
PSR_MUST_CHECK psr_err psr_sum_queue_take(psr_sum_queue *queue, bool *ret_any,
                                          uint32_t *ret_number);
/* Tells the thread to end. */
void psr_sum_queue_quit(psr_sum_queue *queue);

/* ---- the sums' thread's ---- */

/* Under the mutex: moves what was started to sums [most], and returns how many. */
uint32_t psr_sum_queue_take_started(psr_sum_queue *queue, psr_started_sum *sums);
/* These have ended, in this order. */
void psr_sum_queue_end(psr_sum_queue *queue, const uint32_t *numbers, uint32_t count);
/* Nothing is summed any more; line says why. */
void psr_sum_queue_fail(psr_sum_queue *queue, psr_err status, const char *line);

#endif
