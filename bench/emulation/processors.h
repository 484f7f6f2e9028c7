/* Processors that several processes share, as those of one machine on which many hosts are
 * emulated: as long as no more jobs run than there are processors, each has one to itself; more
 * share them equally (processor sharing, as a fair scheduler does with slices short beside a job).
 *
 * A job's progress is kept in shared time: the work that each running job has had done since the
 * beginning. So a job ends at a shared time that is known when it begins. Plain data; one
 * thread. */
#ifndef PSR_BENCH_PROCESSORS_H
#define PSR_BENCH_PROCESSORS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct psr_processor_job {
    double ends_at_ns; /* in shared time */
    uint64_t number;
    uint32_t threads; /* that it runs on */
    uint32_t process; /* whose it is, and */
    uint32_t kind;    /* what it is: the caller's */
} psr_processor_job;

typedef struct psr_processors {
    double count;
    double now_ns, shared_ns; /* the caller's time, and shared time then */
    double threads;           /* of all jobs */
    psr_processor_job *heap;  /* owned */
    size_t jobs, capacity;
    uint64_t numbers;
} psr_processors;

/* Nothing is allocated. psr_processors_done. */
void psr_processors_init(psr_processors *processors, uint32_t count);
void psr_processors_done(psr_processors *processors);

/* A job of work_ns begins: so long as it takes if its threads have a processor each. Times never go
 * back from call to call. NOMEM. */
PSR_MUST_CHECK psr_err psr_processors_begin(psr_processors *processors, double now_ns,
                                            double work_ns, const psr_processor_job *job);
/* When the first of the jobs ends if no other begins; INFINITY: there is none. */
double psr_processors_next_ns(const psr_processors *processors);
/* Takes that job, at that time; there is one. */
psr_processor_job psr_processors_end(psr_processors *processors);

#endif
