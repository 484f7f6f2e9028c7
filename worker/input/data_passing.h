/* Passes a data set from the process that has read it to other processes of its user on this host.
 * The data set is moved into sealed memory, and its descriptor is passed over a Unix socket in a
 * directory of the run's own (net/sharing/share_wire.h). */
#ifndef PSR_WORKER_INPUT_DATA_PASSING_H
#define PSR_WORKER_INPUT_DATA_PASSING_H

#include "data/opened.h"
#include "net/sharing/share_wire.h"

#include <pthread.h>

typedef struct psr_sealed_data {
    int fd;           /* -1: none */
    const void *data; /* mapped to be read */
    size_t bytes;
} psr_sealed_data;

#define PSR_SEALED_DATA_NONE ((psr_sealed_data){.fd = -1})

/* Moves a data set into new memory, which is then sealed: no process can write it. opened can only
 * be freed then. reading: moves meanwhile. UNSUPPORTED, NOMEM, IO: opened is as it was. CANCELLED:
 * it can only be freed. The caller owns *ret_sealed. */
PSR_MUST_CHECK psr_err psr_sealed_data_make(psr_opened *opened, psr_reading *reading,
                                            psr_sealed_data *ret_sealed);
/* Receives a data set from the process that passes it at path. Waits as long as that process lives
 * and has not passed it yet. NOT_FOUND: no process passes anything there. DENIED: another user's
 * process does. FORMAT: the received descriptor is not of such memory. NOMEM. The caller owns
 * *ret_sealed. */
PSR_MUST_CHECK psr_err psr_sealed_data_receive(const char *path, psr_sealed_data *ret_sealed);
/* None: does nothing. */
void psr_sealed_data_done(psr_sealed_data *sealed);

/* Passes a data set to each process that connects to path, on a separate thread, until it is
 * stopped. May not be moved. */
typedef struct psr_data_passer {
    int listener; /* -1: none */
    const psr_sealed_data *sealed;
    pthread_t thread;
} psr_data_passer;

#define PSR_DATA_PASSER_NONE ((psr_data_passer){.listener = -1})

/* sealed is borrowed until the passer is stopped, path for the call. A socket that a dead process
 * left there is replaced. IO. */
PSR_MUST_CHECK psr_err psr_data_passer_start(const char *path, const psr_sealed_data *sealed,
                                             psr_data_passer *passer);
/* None: does nothing. */
void psr_data_passer_stop(psr_data_passer *passer);

#endif
