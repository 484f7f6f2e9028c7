/* The figures of an exchange, made of what its observer hears (comm/observer.h) and of nothing
 * else. The threads that the observer is called on write them, the compute thread takes them. */
#ifndef PSR_WORKER_EXCHANGE_FIGURES_H
#define PSR_WORKER_EXCHANGE_FIGURES_H

#include "comm/observer.h"

#include <stdatomic.h>

typedef struct psr_exchange_figures {
    double wait_s; /* seconds that the compute thread waited for weights, since the last call */
    /* seconds from the first gradient that was ready to the last weights that landed, in the last
     * completed step */
    double exchange_s;
    /* Seconds since the last call in which a bucket was between its gradient and its weights
     * (BEGIN and LANDED of the observer): those in which the compute thread did something else, and
     * those in which it waited for weights. Both 0 where one process plays all ranks. */
    double hidden_s, exposed_s;
    uint64_t bytes_sent, bytes_received; /* payloads of all kinds, since the last call */
    /* Of the bytes sent, the payloads of gradients (in a ring also of their sums), and their size
     * as float32. After a drain these are all of the steps until then. */
    uint64_t gradient_bytes, gradient_float32_bytes;
    uint64_t bytes_lent; /* the part of bytes_sent that went through shared memory */
    uint64_t staleness;  /* the largest since the last call (SSP, async) */
    double sums_wait_s;  /* of wait_s: for the sums of psr_exchange_sum */
    /* seconds that changes of the view took (psr_session_bound), since the last call */
    double pause_s;
} psr_exchange_figures;

/* Bytes since the beginning. */
typedef struct psr_exchange_bytes {
    uint64_t sent, received, gradient, gradient_float32;
} psr_exchange_bytes;

/* In place. */
typedef struct psr_exchange_tally {
    uint32_t buckets;
    _Atomic uint64_t sent, received, gradient, gradient_float32; /* bytes */
    _Atomic int64_t exchange_ns; /* of the last step whose buckets have all landed */
    /* The steps in exchange, of whom BEGIN and LANDED are told. At most two overlap, so the low bit
     * of the step tells them apart. */
    struct {
        uint64_t steps; /* 1 + the step; 0: none yet */
        int64_t begun_ns;
        uint32_t landed; /* buckets */
    } under_way[2];
    /* The time with a bucket under way, as one word that any thread can read whole: of t, it is
     * word / 2 if the word is even (none is under way), and t - word / 2 if it is odd. */
    _Atomic int64_t busy;
    uint32_t buckets_under_way;
    /* the compute thread's own: until the last call */
    psr_exchange_bytes taken;
    int64_t busy_taken_ns, exposed_ns;
} psr_exchange_tally;

/* All zero; buckets: how many there are. Before the loop runs. */
void psr_exchange_tally_init(psr_exchange_tally *tally, uint32_t buckets);

/* A psr_observer's see; tally is a psr_exchange_tally. */
void psr_exchange_tally_see(void *tally, const psr_observed *observed);

/* Nanoseconds until now_ns, by the observer's clock, in which a bucket was under way. Any
 * thread. */
int64_t psr_exchange_tally_busy_ns(const psr_exchange_tally *tally, int64_t now_ns);

/* The compute thread has waited for weights, and so many nanoseconds of that a bucket was under
 * way. The compute thread's. */
void psr_exchange_tally_exposed(psr_exchange_tally *tally, int64_t ns);

/* Sets exchange_s, hidden_s and exposed_s, which end at now_ns, and the bytes but for bytes_lent;
 * the other fields stay as they are. The compute thread's. */
void psr_exchange_tally_take(psr_exchange_tally *tally, int64_t now_ns,
                             psr_exchange_figures *figures);

#endif
