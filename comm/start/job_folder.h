/* The directory of sockets that a job's processes find by its name (comm/start/meeting.h), as one
 * process holds it: with a place in it that no other process of the job has. One thread. */
#ifndef PSR_COMM_JOB_FOLDER_H
#define PSR_COMM_JOB_FOLDER_H

#include "net/message.h"
#include "net/address/socket_directory.h"

typedef struct psr_job_folder {
    psr_socket_directory directory; /* none: the processes meet elsewhere */
    int place;                      /* descriptor of the claim; -1: none */
} psr_job_folder;

#define PSR_JOB_FOLDER_NONE ((psr_job_folder){.directory = PSR_SOCKET_DIRECTORY_NONE, .place = -1})

/* Enters the directory if it belongs to a job. Any other directory, or "", is the user's, and
 * nothing is done. Fails as psr_socket_directory_enter. The caller owns *ret_folder:
 * psr_job_folder_leave, after its last socket there is closed. */
PSR_MUST_CHECK psr_err psr_job_folder_enter(const char *directory, psr_job_folder *ret_folder);

/* Takes peer's place. With PSR_RANK_ANY it takes the lowest free one of `places` and sets *peer to
 * it. Outside of a job's folder *peer stays as it is. USAGE: another process of this job has the
 * place, or all are taken. */
PSR_MUST_CHECK psr_err psr_job_folder_take(psr_job_folder *folder, psr_peer *peer, uint32_t places);

/* Does nothing for PSR_JOB_FOLDER_NONE. */
void psr_job_folder_leave(psr_job_folder *folder);

#endif
