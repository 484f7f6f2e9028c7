/* The directory of sockets that a job's processes find by its name alone (comm/start/meeting.h), as
 * one of them has it: held, and with a place in it that no other process of the job has. One
 * thread. */
#ifndef PSR_COMM_JOB_FOLDER_H
#define PSR_COMM_JOB_FOLDER_H

#include "net/message.h"
#include "net/address/socket_directory.h"

typedef struct psr_job_folder {
    psr_socket_directory directory; /* none: the processes meet elsewhere */
    int place;                      /* descriptor of the claim; -1: none */
} psr_job_folder;

#define PSR_JOB_FOLDER_NONE ((psr_job_folder){.directory = PSR_SOCKET_DIRECTORY_NONE, .place = -1})

/* Enters directory, where that is a job's; any other one, or "", is its user's, and nothing is
 * done. As psr_socket_directory_enter. ret owns: psr_job_folder_leave, after the last socket in
 * it. */
PSR_MUST_CHECK psr_err psr_job_folder_enter(const char *directory, psr_job_folder *ret_folder);

/* Takes peer's place. With PSR_RANK_ANY the lowest of `places` that is free, which *peer is then;
 * in no folder it stays as it is. USAGE: another process of this job has it, or all are taken. */
PSR_MUST_CHECK psr_err psr_job_folder_take(psr_job_folder *folder, psr_peer *peer, uint32_t places);

/* The process that has peer's place in the job's directory of that path: a pidfd. NOT_FOUND: it is
 * no job's, or nobody has the place. ret owns: close(). */
PSR_MUST_CHECK psr_err psr_job_folder_holder(const char *directory, psr_peer peer, int *ret_pidfd);

/* None: does nothing. */
void psr_job_folder_leave(psr_job_folder *folder);

#endif
