/* What the files of worker/process/ share; only they include it. Main thread, unless said
 * otherwise. */
#ifndef PSR_WORKER_PROCESS_PRIVATE_H
#define PSR_WORKER_PROCESS_PRIVATE_H

#include "base/facts.h"
#include "comm/members/join.h"
#include "comm/members/member.h"
#include "comm/members/memory/shared_memory.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/peers.h"
#include "worker/input/host_data.h"
#include "worker/process/process.h"
#include "worker/trainer.h"

struct psr_worker {
    psr_worker_options options;
    psr_transport *transport;
    psr_member *member;
    bool configured;         /* CONFIG has come */
    psr_config config;       /* the run's, from then on */
    psr_worker_start start;  /* set when all have agreed */
    uint32_t number_on_host; /* how many workers of this host have lower ranks; likewise */

    char data[PSR_PATH_MAX]; /* where config's data set is on this host */
    psr_facts facts;
    psr_host_data *host_data; /* it is being read, until all processes have agreed */
    psr_opened *opened;       /* host_data's result */
    bool is_first;            /* rank 0, which says what all find */
    psr_network *net;

    /* its arenas have the gradients, and the weights that others take from here */
    psr_shared_memory memory;
    psr_buckets buckets;
    psr_peers peers;
    psr_session *session;
    psr_tracer *tracer; /* --trace; NULL: without */
    psr_exchange *exchange;
    psr_engine_gpu gpu; /* --mode nccl */
    psr_trainer trainer;
};

/* join.c */
/* Until all have joined and agreed: the member has the view and what was agreed on. */
psr_err psr_worker_join(psr_worker *w);

/* facts.c */
/* CONFIG has come: finds what can be known before the data are read, and begins to read them. */
psr_err psr_worker_find_facts(psr_worker *w, const psr_place *place);
/* psr_member_options.facts: called until the data have been read. */
psr_err psr_worker_find_content(void *worker, bool *ret_known, void **ret_facts,
                                size_t *ret_facts_size);

/* open_exchange.c */
/* Chooses the engines by the view's plan, makes all that the exchange works with, and starts the
 * session's thread. */
psr_err psr_worker_open_exchange(psr_worker *w);

/* ready.c */
/* Makes the trainer, loads what the run starts from, and waits for START. */
psr_err psr_worker_get_ready(psr_worker *w);

#endif
