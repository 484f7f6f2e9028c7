/* A worker's part in one run. Its files are process.c (the parts in their order, and the end),
 * join.c (from the transport to what all have agreed on), facts.c (what this host finds by the
 * configuration), open_exchange.c (memory, session and exchange) and ready.c (the trainer, until
 * START). One thread: the main thread, which is the compute thread. */
#ifndef PSR_WORKER_PROCESS_PROCESS_H
#define PSR_WORKER_PROCESS_PROCESS_H

#include "comm/members/provision.h"
#include "worker/process/lost_process.h"
#include "worker/start/commands.h"
#include "worker/start/launched.h"

typedef struct psr_worker psr_worker;

/* All borrowed for life. */
typedef struct psr_worker_options {
    const psr_provision *provision; /* that of a worker */
    psr_launched *launched;         /* begun, or PSR_LAUNCHED_NONE */
    bool compares; /* launched has options of the run, which must equal those of CONFIG */
    psr_lost_process *lost;
    const psr_worker_folders *folders;
    const char *plan_directory; /* psr_trainer_options', as the next two */
    bool unrecorded;
    bool floats_as_input;
} psr_worker_options;

/* Nothing is opened yet. The caller owns *ret_worker: psr_worker_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_worker_new(const psr_worker_options *options, psr_worker **ret_worker);

/* Joins, trains, and tells the scheduler how it ended. Once. Errors: those of the run, whose line
 * is the detail. */
PSR_MUST_CHECK psr_err psr_worker_run(psr_worker *worker);

/* Gives the last messages time to leave. NULL allowed. */
void psr_worker_free(psr_worker *worker);

#endif
