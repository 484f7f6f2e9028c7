/* Threads of a program in a communicator: how calls exclude each other, and how waits end. */
#include "comm/psring/internal.h"

#include <errno.h>
#include <string.h>

/* ---- calls ---- */

/* The last failure of this thread when it entered; it is in one call at a time. */
static _Thread_local char kept_detail[PSR_ERR_DETAIL_BYTES];

static psr_err enter(psring_comm *comm, bool last)
{
    pthread_mutex_lock(&comm->calls);
    const bool may = !comm->closing && (!last || comm->inside == 0);
    if (may) {
        comm->closing = last;
        comm->inside++;
    }
    if (!may) {
        const bool closing = comm->closing;
        pthread_mutex_unlock(&comm->calls);
        return psr_fail(PSR_ERR_USAGE, closing
                                           ? "another thread closes this communicator"
                                           : "another thread is in a call on this communicator");
    }
    psr_err_detail_keep(kept_detail);
    return PSR_OK;
}

psr_err psr_comm_enter(psring_comm *comm)
{
    return enter(comm, false);
}

psr_err psr_comm_enter_last(psring_comm *comm)
{
    return enter(comm, true);
}

psring_err psr_comm_leave(psring_comm *comm, psr_err err)
{
    if (err == PSR_OK)
        psr_err_detail_restore(kept_detail);
    comm->inside--;
    pthread_mutex_unlock(&comm->calls);
    return (psring_err)err;
}

void psr_comm_entered_with(char ret_detail[PSR_ERR_DETAIL_BYTES])
{
    memcpy(ret_detail, kept_detail, sizeof kept_detail);
}

/* ---- waits ---- */

psring_err psring_event_fd(psring_comm *comm, int *ret_fd)
{
    psr_err err = psr_comm_need(comm, "psring_event_fd: comm");
    if (err == PSR_OK)
        err = psr_comm_need(ret_fd, "psring_event_fd: ret_fd");
    if (err == PSR_OK)
        err = psr_comm_enter(comm);
    return err == PSR_OK ? psr_comm_leave(comm, psr_driver_event_fd(comm->driver, ret_fd))
                         : (psring_err)err;
}

void psring_event_take(psring_comm *comm)
{
    if (comm != NULL)
        psr_driver_take_event(comm->driver);
}

void psring_wake(psring_comm *comm)
{
    const int error = errno; /* of what a signal has interrupted */
    if (comm != NULL)
        psr_driver_wake(comm->driver);
    errno = error;
}
