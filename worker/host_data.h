/* The data set of a worker: read once on each host, by one of its processes, and mapped by the others.
 *
 * Processes of a host that have a directory in common (the run's own, net/socket_directory.h) take turns in it. The
 * first reads the files, unpacks them into memory that is sealed against everybody, itself included, and passes
 * that to each that comes after it; of one that dies meanwhile the next takes the turn. Processes
 * without such a directory, and where memory cannot be shared, read for themselves. Who reads other files than the
 * first, or files that have changed since, has a turn of his own.
 *
 * A thread of its own does that: the thread that joins goes on to say that this process lives, how far the reading is,
 * and for whom it waits. One thread calls it. */
#ifndef PSR_WORKER_HOST_DATA_H
#define PSR_WORKER_HOST_DATA_H

#include "comm/comm.h"
#include "data/opened.h"

typedef struct psr_host_data psr_host_data;

/* All copied, but for the context. */
typedef struct psr_host_data_options {
    const char *data;      /* as psr_dataset_open_both's */
    const char *name;      /* of the data set, for lines */
    const char *cache;     /* as psr_opened_init's */
    const char *directory; /* "": there is none in common */
    uint32_t rank, ranks;  /* this process's, of the run */
    void *context;
    void (*ended)(void *context); /* on the thread, at its end; not after psr_host_data_free has begun */
} psr_host_data_options;

/* ret owns. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_host_data_start(const psr_host_data_options *options, psr_host_data **ret_data);
/* The data set, whose memory stays this object's; what is not its memory may be changed. *ret_opened is NULL: it is not read yet. Otherwise
 * what reading it came to. */
PSR_MUST_CHECK psr_err psr_host_data_take(psr_host_data *data, psr_opened **ret_opened);
/* How far it is, and whom it waits for. */
void psr_host_data_report(const psr_host_data *data, psr_msg_progress *progress);
/* The sealed memory in which the samples are, whoever has read them; -1: none, they are this process's alone. Borrowed. */
int psr_host_data_shared(const psr_host_data *data);
/* Before it has been read, only at the end of the process: the thread, and what it has, are left to that. NULL allowed. */
void psr_host_data_free(psr_host_data *data);

#endif
