/* The meeting of a job's processes on several hosts, where a launcher (mpirun, srun) starts
 * identical commands and says nowhere where the first of them is and what they have in common that
 * nobody else has: a file in a folder that all hosts see.
 *
 *     FOLDER/.psring-meeting-H      mode 0600; H: a hash of psr_start.job
 *
 * Rank 0 writes it: where its scheduler will listen, and keys that it has just made, one pair for
 * each process (net/trust/keys/keys.h, "one shared file for all"). The others wait until it is
 * there, it is this user's alone, it is of this job, and somebody listens where it says. A file
 * that an earlier start of the same name has left is replaced as one by rank 0's; meanwhile nobody
 * answers where that one says, so nobody takes it for the run's. (If another program should listen
 * there: it has not the keys, joining fails at its deadline, and no byte is said to it that it
 * could read.) Rank 0 removes the file when all have joined, and when it ends before that.
 *
 * What is read is looked at again and again, with growing pauses: of a file that another host
 * writes no kernel tells. One thread. */
#ifndef PSR_COMM_MEETING_FILE_H
#define PSR_COMM_MEETING_FILE_H

#include "comm/start/start.h"

typedef struct psr_meeting_file {
    /* of the process that wrote it; "": none, or the file is another process's */
    char path[PSR_START_LINE_MAX];
    int port; /* descriptor that keeps the scheduler's port for it; -1: none */
} psr_meeting_file;

#define PSR_MEETING_FILE_NONE ((psr_meeting_file){.port = -1})

/* Fills in start->scheduler and start->key_file: rank 0 writes the file start->meeting, the others
 * wait for it for deadline_ms. workers, shards: the numbers of processes that need keys. Does
 * nothing if start->meeting is "". USAGE: the folder or the file is not as it should be. TIMEOUT:
 * the file has not come, or nobody was reached where it says. IO. The caller owns *ret_file:
 * psr_meeting_file_remove. */
PSR_MUST_CHECK psr_err psr_meeting_file_meet(psr_start *start, uint32_t workers, uint32_t shards,
                                             int64_t deadline_ms, psr_meeting_file *ret_file);

/* Call it when all have joined, or when this process ends before that. Does nothing for
 * PSR_MEETING_FILE_NONE. */
void psr_meeting_file_remove(psr_meeting_file *file);

#endif
