/* The data set of a worker: read once on each host, by one of its processes, and mapped by the
 * others.
 *
 * Processes of a host that have a directory in common (the run's own,
 * net/address/socket_directory.h) take turns. The first one reads the files and unpacks them into
 * memory that nobody can write any more, itself included. It passes that memory to each process
 * that comes after it. When the reader dies meanwhile, the next process takes its turn. Processes
 * without such a directory, or where memory cannot be shared, read for themselves. A process that
 * reads other files than the first process, or files that have changed since, does not wait for
 * that turn.
 *
 * A separate thread does this. The thread that joins the run meanwhile reports that this process is
 * alive, how far the reading is, and for which process it waits. One thread calls these
 * functions. */
#ifndef PSR_WORKER_INPUT_HOST_DATA_H
#define PSR_WORKER_INPUT_HOST_DATA_H

#include "comm/wire/messages.h"
#include "data/opened.h"

typedef struct psr_host_data psr_host_data;

/* All copied, except the context. */
typedef struct psr_host_data_options {
    const char *data;      /* see psr_dataset_open_both */
    const char *name;      /* of the data set, for lines */
    const char *cache;     /* see psr_opened_init */
    const char *directory; /* "": the host's processes have no directory in common */
    uint32_t rank, ranks;  /* this process's, of the run */
    void *context;
    /* called on the separate thread at its end, and not after psr_host_data_free has begun */
    void (*ended)(void *context);
} psr_host_data_options;

/* The caller owns *ret_data. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_host_data_start(const psr_host_data_options *options,
                                           psr_host_data **ret_data);
/* The data set, once it is read; *ret_opened is NULL before. Its samples stay this object's memory;
 * its other fields may be changed. Errors: those of reading it. */
PSR_MUST_CHECK psr_err psr_host_data_take(psr_host_data *data, psr_opened **ret_opened);
/* Reports how far the reading is, and which process it waits for. */
void psr_host_data_report(const psr_host_data *data, psr_msg_progress *progress);
/* The sealed memory that has the samples, whichever process has read them; -1: none, the samples
 * are in this process's own memory. Borrowed. */
int psr_host_data_shared(const psr_host_data *data);
/* If the data set has not been read yet, call it only at the end of the process: the thread and its
 * memory are left behind. NULL allowed. */
void psr_host_data_free(psr_host_data *data);

#endif
